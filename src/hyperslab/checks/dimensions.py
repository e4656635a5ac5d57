"""The sizes that the arrays of a group give to one dimension, and what its coordinates look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hyperslab.checks.findings import Finding, found
from hyperslab.checks.reading import read_box
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.model.dims import Coordinate
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store

_MOST_LABELS = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """An array of a group. ``last``: the largest coordinates of its stored objects in ``grid``, -1 where none is."""

    path: str
    spec: ArraySpec
    grid: Grid | None = None
    last: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.path.rpartition("/")[2]

    def reach(self, axis: int) -> int:
        """How far along an axis its stored objects reach, cut at its shape; all of it where that is not known."""
        size = self.spec.shape[axis]
        if self.grid is None:
            return size
        last = self.last[axis]
        cut = self.grid.axes[axis]
        return 0 if last < 0 else min(size, cut.start(last) + cut.size_of(last))


def examine_dimensions(group: str, members: Sequence[Member]) -> Iterator[Finding]:
    """Dimensions whose arrays disagree about their size."""
    sizes: dict[str, dict[int, list[Member]]] = {}
    reach: dict[str, int] = {}
    for member in members:
        for axis, (dim, size) in enumerate(zip(member.spec.dims, member.spec.shape, strict=True)):
            if dim is not None and member.spec.dims.count(dim) == 1:
                sizes.setdefault(dim, {}).setdefault(size, []).append(member)
                reach[dim] = max(reach.get(dim, 0), member.reach(axis))
    for dim, by_size in sizes.items():
        if len(by_size) > 1:
            said = "; ".join(
                f"{size} in {', '.join(dict.fromkeys(member.name for member in some))}"
                for size, some in sorted(by_size.items())
            )
            wanted = min(size for size in by_size if size >= reach[dim])
            message = f"the dimension {dim!r} has several sizes: {said}"
            yield found(group, "dimension-sizes", message, key=group, means=(dim, wanted))
    yield from _coordinates(members, sizes)


def _coordinates(members: Sequence[Member], sizes: dict[str, dict[int, list[Member]]]) -> Iterator[Finding]:
    for member in members:
        spec = member.spec
        if len(spec.shape) == 1 and member.name in sizes and member.name not in spec.dims:
            wanted = sorted(sizes[member.name])
            if spec.shape[0] not in wanted:
                message = f"{spec.shape[0]} labels for the dimension {member.name!r} of {wanted[0]}"
                yield found(member.path, "coordinate-length", message, sound=True)


def examine_coordinates(
    store: Store, dialect: MetadataDialect, members: Sequence[Member], settings: Settings
) -> Iterator[Finding]:
    """Coordinates of numbers or times that neither rise nor fall: looked at when they are not huge."""
    for member in members:
        spec = member.spec
        if spec.dims != (member.name,) or spec.numpy_dtype.kind not in "iufM" or spec.shape[0] > _MOST_LABELS:
            continue
        try:
            source = open_chunks(store, member.path, dialect.key_of(spec), spec, settings)
            labels = read_box(source, spec, (slice(0, spec.shape[0]),), settings)
        except HyperslabError:
            continue  # said of its chunks
        if not Coordinate(labels).trend:
            yield found(member.path, "coordinate-order", "the labels neither rise nor fall throughout", sound=True)
