"""Rules about the arrays of a group: the sizes that they give to one dimension, and what its coordinates look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from hyperslab.array.growth import grow
from hyperslab.errors import HyperslabError
from hyperslab.formats.rules import Finding, Place, Plan, Rule, Stage, found
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.integrity.cells import read_box
from hyperslab.integrity.views import GroupView, Member, RepairState
from hyperslab.model.dims import Coordinate
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec

# Longer coordinates are not looked at: a check reads no more than 8 MiB for a note.
_MOST_LABELS = 1 << 20
_Sizes = dict[str, dict[int, list[Member]]]

# -- how they are found -----------------------------------------------------------------------------------------------


def find_dimension_sizes(group: GroupView) -> Iterator[Finding]:
    """Yield dimensions whose arrays disagree about their size, unless the format itself tells of them."""
    if group.dataset is not None and (group.dataset.explained or group.dataset.traits.repeats_dimensions):
        return
    sizes, reach = _sizes(group.members)
    for dim, by_size in sizes.items():
        if len(by_size) > 1:
            said = "; ".join(
                f"{size} in {', '.join(dict.fromkeys(member.name for member in some))}"
                for size, some in sorted(by_size.items())
            )
            wanted = min(size for size in by_size if size >= reach[dim])
            message = f"the dimension {dim!r} has several sizes: {said}"
            yield found(group.path, "dimension-sizes", message, key=group.path, detail=(dim, wanted))
    yield from _find_other_lengths(group.members, sizes)


def _sizes(members: Sequence[Member]) -> tuple[_Sizes, dict[str, int]]:
    """Return the arrays by dimension and size, and how far the chunks along each dimension reach."""
    sizes: _Sizes = {}
    reach: dict[str, int] = {}
    for member in members:
        for axis, (dim, size) in enumerate(zip(member.spec.dims, member.spec.shape, strict=True)):
            if dim is not None and member.spec.dims.count(dim) == 1:
                sizes.setdefault(dim, {}).setdefault(size, []).append(member)
                reach[dim] = max(reach.get(dim, 0), member.reach(axis))
    return sizes, reach


def _find_other_lengths(members: Sequence[Member], sizes: _Sizes) -> Iterator[Finding]:
    for member in members:
        spec = member.spec
        if len(spec.shape) == 1 and member.name in sizes and member.name not in spec.dims:
            wanted = sorted(sizes[member.name])
            if spec.shape[0] not in wanted:
                message = f"{spec.shape[0]} labels for the dimension {member.name!r} of {wanted[0]}"
                yield found(member.path, "coordinate-length", message, sound=True)


def find_unordered_coordinates(group: GroupView) -> Iterator[Finding]:
    """Yield coordinates of numbers or times that neither rise nor fall: looked at when they are not huge."""
    dataset = group.dataset
    if dataset is None:
        return
    for member in group.members:
        spec = member.spec
        if spec.dims != (member.name,) or spec.numpy_dtype.kind not in "iufM" or spec.shape[0] > _MOST_LABELS:
            continue
        try:
            key_of = dataset.dialect.key_of(spec)
            source = open_chunks(dataset.store, member.path, key_of, spec, dataset.settings)
            labels = read_box(source, spec, (slice(0, spec.shape[0]),), dataset.settings)
        except HyperslabError:
            continue  # said of its chunks
        if not Coordinate(labels).trend:
            yield found(member.path, "coordinate-order", "the labels neither rise nor fall throughout", sound=True)


# -- how they are mended ----------------------------------------------------------------------------------------------


def resize_arrays(state: RepairState, finding: Finding) -> Plan:
    """Make the arrays of a group as long as the stored chunks ask for."""
    dim, size = finding.detail
    changes = list(_resized(state, finding.problem.node, dim, size))
    said = ", ".join(f"/{path} from {old.shape} to {new.shape}" for path, old, new in changes)
    if not said:
        return None
    state.resized |= {path: new for path, _, new in changes}
    action = f"make {said}; new cells read as what is stored there, else the fill value"
    return action, partial(_resize, state, [(path, old) for path, old, _ in changes], dim, size)


def _resized(state: RepairState, group: str, dim: str, size: int) -> Iterator[tuple[str, ArraySpec, ArraySpec]]:
    for name in state.store.list_dir(group)[1]:
        path = child(group, name)
        try:
            spec = state.spec_now(path)
        except HyperslabError:
            continue
        new = None if spec is None else _with_size(spec, dim, size)
        if spec is not None and new is not None:
            yield path, spec, new


def _resize(state: RepairState, changes: list[tuple[str, ArraySpec]], dim: str, size: int) -> None:
    """Under the lock of each array, unless it was given another size meanwhile."""
    for path, old in changes:
        with state.writer.lock_node(path):
            now = state.spec_now(path)
            new = None if now is None else _with_size(now, dim, size)
            axis = old.dims.index(dim)
            if now is not None and new is not None and now.shape[axis] == old.shape[axis]:
                state.writer.put(path, new)


def _with_size(spec: ArraySpec, dim: str, size: int) -> ArraySpec | None:
    """Return the array with another size of a dimension; None when it has that size, or not this dimension once."""
    if spec.dims.count(dim) != 1:
        return None
    axis = spec.dims.index(dim)
    shape = (*spec.shape[:axis], size, *spec.shape[axis + 1 :])
    return None if shape == spec.shape else grow(spec, shape)


# -- the table --------------------------------------------------------------------------------------------------------

DIMENSION_RULES = (
    Rule(
        ("dimension-sizes",),
        "arrays of a group that disagree about a dimension",
        "made as long as the stored chunks ask for; in formats of one array, append to the shorter one",
        Place.GROUP,
        find_dimension_sizes,
        resize_arrays,
        Stage.DIMENSIONS,
    ),
    Rule(
        ("coordinate-length",),
        "a note: another number of labels than the dimension has",
        "not mended",
        Place.GROUP,
        find_dimension_sizes,
        stage=Stage.DOCUMENTS,
    ),
    Rule(
        ("coordinate-order",),
        "a note: labels that neither rise nor fall",
        "not mended",
        Place.GROUP,
        find_unordered_coordinates,
        stage=Stage.DOCUMENTS,
        deep=True,
    ),
)
