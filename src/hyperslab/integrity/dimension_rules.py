"""Rules about the arrays of a group: the sizes that they give to one dimension, and what its coordinates look like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hyperslab.array.growth import grow
from hyperslab.errors import HyperslabError
from hyperslab.formats.rules import Finding, Plan, Rule, Stage, Subject, found
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.integrity.cells import read_box
from hyperslab.integrity.views import GroupView, RepairState
from hyperslab.model.dims import Coordinate
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec

# Longer coordinates are not looked at: a check reads no more than 8 MiB for a note.
_MOST_LABELS = 1 << 20

# -- how they are found -----------------------------------------------------------------------------------------------


def find_dimension_sizes(group: GroupView) -> Iterator[Finding]:
    """Yield dimensions whose arrays disagree about their size, unless the format itself tells of them."""
    if group.dataset is not None and (group.dataset.format_warns or group.dataset.traits.repeats_dimensions):
        return
    names: dict[str, dict[int, list[str]]] = {}  # of the arrays, by dimension and size
    reach: dict[str, int] = {}  # of the chunks along each dimension
    for member in group.members:
        for axis, (dim, size) in enumerate(zip(member.spec.dims, member.spec.shape, strict=True)):
            if dim is not None and member.spec.dims.count(dim) == 1:
                names.setdefault(dim, {}).setdefault(size, []).append(member.name)
                reach[dim] = max(reach.get(dim, 0), member.reach(axis))
    for dim, by_size in names.items():
        if len(by_size) > 1:
            sizes = (f"{size} in {', '.join(dict.fromkeys(some))}" for size, some in sorted(by_size.items()))
            wanted = min(size for size in by_size if size >= reach[dim])
            message = f"the dimension {dim!r} has several sizes: {'; '.join(sizes)}"
            yield found(group.path, "dimension-sizes", message, key=group.path, detail=(dim, wanted))
    for member in group.members:
        spec = member.spec
        if len(spec.shape) == 1 and member.name in names and member.name not in spec.dims:
            lengths = sorted(names[member.name])
            if spec.shape[0] not in lengths:
                message = f"{spec.shape[0]} labels for the dimension {member.name!r} of {lengths[0]}"
                yield found(member.path, "coordinate-length", message, is_note=True)


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
            keys = ChunkKeys(dataset.store, member.path, dataset.dialect.key_of(spec), dataset.settings)
            source = open_chunks(keys, spec)
            labels = read_box(source, spec, (slice(0, spec.shape[0]),), dataset.settings)
        except HyperslabError:
            continue  # said of its chunks
        if not Coordinate(labels).trend:
            yield found(member.path, "coordinate-order", "the labels neither rise nor fall throughout", is_note=True)


# -- how they are mended ----------------------------------------------------------------------------------------------


def resize_arrays(state: RepairState, finding: Finding) -> Plan:
    """Make the arrays of a group as long as the stored chunks ask for."""
    dim, size = finding.detail
    group, texts, old_lengths = finding.problem.node, [], {}
    for name in state.store.list_dir(group)[1]:
        path, old = child(group, name), None
        with suppress(HyperslabError):
            old = state.spec_now(path)
        new = None if old is None else _with_size(old, dim, size)
        if old is not None and new is not None:
            texts.append(f"/{path} from {old.shape} to {new.shape}")
            old_lengths[path] = old.shape[old.dims.index(dim)]
            state.resized[path] = new
    if not texts:
        return None

    def resize() -> None:
        for path, length in old_lengths.items():
            with state.writer.lock_node(path):
                now = state.spec_now(path)
                new = None if now is None else _with_size(now, dim, size)
                # not where it was given another length meanwhile
                if now is not None and new is not None and now.shape[now.dims.index(dim)] == length:
                    state.writer.put(path, new)

    return f"make {', '.join(texts)}; new cells read as what is stored there, else the fill value", resize


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
        "arrays of a group that disagree about the length of a dimension",
        "extended to the length of the stored chunks; in single-array formats, append to the shorter one",
        Subject.GROUP,
        find_dimension_sizes,
        resize_arrays,
        Stage.DOCUMENTS_RIGHT,
    ),
    Rule(
        ("coordinate-length",),
        "a note: the number of labels differs from the length of the dimension",
        "not repaired",
        Subject.GROUP,
        find_dimension_sizes,
    ),
    Rule(
        ("coordinate-order",),
        "a note: labels that are not monotonic",
        "not repaired",
        Subject.GROUP,
        find_unordered_coordinates,
        deep=True,
    ),
)
