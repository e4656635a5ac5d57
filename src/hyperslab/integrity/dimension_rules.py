"""Rules about the arrays of a group: the sizes that they give to one dimension, and what its coordinates look like."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.array.growth import grow
from hyperslab.chunks.grid import Grid
from hyperslab.errors import HyperslabError
from hyperslab.formats.rules import Finding, Plan, Rule, Stage, Subject, found
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.integrity.cells import read_box
from hyperslab.integrity.views import GroupView, RepairState
from hyperslab.model.dims import Coordinate
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec

# Longer coordinates are not looked at: a check reads no more than 8 MiB for a note.
_MOST_LABELS = 1 << 20

# -- how they are found -----------------------------------------------------------------------------------------------


def find_dimension_sizes(group: GroupView) -> Iterator[Finding]:
    """Yield dimensions whose arrays disagree about their size, unless the format itself tells of them."""
    if group.dataset is not None and (group.dataset.format_warns or group.dataset.traits.repeats_dimensions):
        return
    names: dict[str, dict[int, list[str]]] = {}  # of the arrays, by dimension and size
    for member in group.members:
        for dim, size in zip(member.spec.dims, member.spec.shape, strict=True):
            if dim is not None and member.spec.dims.count(dim) == 1:
                names.setdefault(dim, {}).setdefault(size, []).append(member.name)
    for dim, by_size in names.items():
        if len(by_size) > 1:
            sizes = (f"{size} in {', '.join(some)}" for size, some in sorted(by_size.items()))
            message = f"the dimension {dim!r} has several sizes: {'; '.join(sizes)}"
            cut_short = _find_cut_short(group, dim)
            if cut_short:
                message += f"; chunks are stored behind the end of {', '.join(split(path)[1] for path in cut_short)}"
            # The levels of an image pyramid have the same names and different sizes: nothing is wrong in plain Zarr.
            is_note = group.dataset is not None and not cut_short and dim not in group.unlimited
            detail = (dim, cut_short)
            yield found(group.path, "dimension-sizes", message, key=group.path, detail=detail, is_note=is_note)
    for member in group.members:
        spec = member.spec
        if len(spec.shape) == 1 and member.name in names and member.name not in spec.dims:
            lengths = sorted(names[member.name])
            if spec.shape[0] not in lengths:
                message = f"{spec.shape[0]} labels for the dimension {member.name!r} of {lengths[0]}"
                yield found(member.path, "coordinate-length", message, is_note=True)


def _find_cut_short(group: GroupView, dim: str) -> dict[str, int]:
    """Return the size of the dimension that arrays had before they were cut short, by path: of those that have stored
    chunks behind their end, the size of all other arrays, where these agree and it holds the chunks."""
    axes = {each: each.spec.dims.index(dim) for each in group.members if each.spec.dims.count(dim) == 1}
    behind = {}  # the last chunk of each array that has some behind its end
    for each, axis in axes.items():
        if each.last and each.last[axis] >= _count_chunks(each.spec, dim, each.spec.shape[axis]):
            behind[each] = each.last[axis]
    others = {each.spec.shape[axis] for each, axis in axes.items() if each not in behind}
    if len(others) != 1:  # the levels of a pyramid: no size is known to be meant
        return {}
    (size,) = others
    return {
        each.path: size
        for each, last in behind.items()
        if each.spec.shape[axes[each]] < size and last < _count_chunks(each.spec, dim, size)
    }


def _count_chunks(spec: ArraySpec, dim: str, size: int) -> int:
    """Return the number of chunks along a dimension that has this size."""
    resized = _with_size(spec, dim, size) or spec
    return Grid.of(resized.shape, resized.chunks).axes[spec.dims.index(dim)].count


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
    """Make arrays of which chunks are stored behind their end as long again as these ask for."""
    dim, sizes = finding.detail
    texts, old_lengths = [], {}
    for path, size in sizes.items():
        old = state.resized.get(path) or state.spec_now(path)
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
                new = None if now is None else _with_size(now, dim, sizes[path])
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
        "arrays of a group that disagree about the length of a dimension; in plain Zarr a note (the levels of an image "
        "pyramid disagree rightly), unless chunks are stored behind the end of the shorter one",
        "an array is extended over chunks that are stored behind its end; otherwise not repaired",
        Subject.GROUP,
        find_dimension_sizes,
        resize_arrays,
        Stage.DOCUMENTS_RIGHT,
        otherwise="append to the shorter arrays, or resize those that are wrong",
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
