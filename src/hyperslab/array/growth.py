"""Growing and shrinking, in an order that a crash or a reader beside it never sees wrong cells (trust P12).

Grow: chunks, then shape. Shrink: shape, then chunks. All under the node's lock, so that appends queue up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.array.cells import open_cells
from hyperslab.array.given import as_given
from hyperslab.array.scattering import is_sparse
from hyperslab.array.session import Session
from hyperslab.chunks import execute, swapping
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.grouping import grouped
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource, ErasesMany, Lists, Swaps
from hyperslab.errors import Invalid
from hyperslab.formats.base import RemembersRows, WritesAhead
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import select


def append(session: Session, path: str, data: Any, axis: int) -> None:
    """Write ``data`` behind the last cell of ``axis`` that the array was given, then publish the new shape."""
    writer = session.writer()
    with session.locked(path):
        session.refresh(path)
        spec = session.array(path)
        values = _settled(data, spec)
        shape = spec.shape
        if not -len(shape) <= axis < len(shape):
            remedy = f"an axis is from {-len(shape)} to {len(shape) - 1}" if shape else "a scalar does not grow"
            raise Invalid(f"no axis {axis} in {len(shape)} dimensions", node=path, remedy=remedy)
        axis %= len(shape)
        if values.ndim != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(values.shape, shape, strict=False)) if i != axis
        ):
            raise Invalid(
                f"data of shape {values.shape} does not fit behind {shape} along axis {axis}",
                node=path,
                remedy="every other dimension must have the array's length",
            )
        if isinstance(values, np.ndarray):
            _require_held(values, spec, path)
        reader = session.reader
        start = reader.written_length(path, axis) if isinstance(reader, RemembersRows) else shape[axis]
        stop = start + values.shape[axis]
        grown = grow(spec, (*shape[:axis], max(stop, shape[axis]), *shape[axis + 1 :]))
        source = _future_chunks(session, path, grown)
        cells = open_cells(session, path, grown, source)
        for part, block in _slabs(values):
            if block is not values:
                _require_held(block, spec, path)
            place = (*part[:axis], slice(part[axis].start + start, part[axis].stop + start), *part[axis + 1 :])
            cells.write(select(place, grown.shape), block)
        writer.put(path, grown)
        if isinstance(reader, RemembersRows):
            reader.appended(path, axis, stop)


def _settled(data: Any, spec: ArraySpec) -> Any:
    """The data as an array, dense; a dask array stays one, of known shape."""
    if not hasattr(data, "__dask_graph__"):
        return as_given(data.todense() if is_sparse(data) else data, spec.dtype)
    from hyperslab.bridges.dask import is_dask_array, known

    return known(data) if is_dask_array(data) else np.asarray(data)


def _slabs(values: Any) -> Iterator[tuple[tuple[slice, ...], Block]]:
    """Where cells go, and the cells: all at once, of a dask array one row of its blocks after the other."""
    if isinstance(values, np.ndarray):
        yield tuple(slice(0, length) for length in values.shape), values
        return
    from hyperslab.bridges.dask import slabs

    yield from slabs(values)


def _require_held(values: Block, spec: ArraySpec, path: str) -> None:
    """Invalid for whole numbers, truth values, text and times that the cells would hold otherwise, and for complex
    numbers where they are real. Floats are rounded."""
    dtype = spec.dtype
    if not isinstance(dtype, np.dtype) or np.can_cast(values.dtype, dtype, "safe"):
        return
    source, target = values.dtype.kind, dtype.kind
    remedy = "cast the data first, if that is meant"
    if source == "c" and target in "biuf":
        raise Invalid(f"cells of {dtype} hold no complex numbers", node=path, remedy=remedy)
    if target in "fc" or not any(source in kinds and target in kinds for kinds in ("biuf", "SUT", "M", "m")):
        return
    try:
        with np.errstate(invalid="ignore"):
            cells = values.astype(dtype)
    except ValueError as error:
        raise Invalid(f"data do not fit cells of {dtype}: {error}", node=path, remedy=remedy) from error
    lost = cells != values if target in "biu" else cells.astype(values.dtype) != values
    if target in "mM":
        lost &= ~np.isnat(values)
    if lost.any():
        raise Invalid(f"cells of {dtype} cannot hold {values[lost].flat[0]}", node=path, remedy=remedy)


def resize(session: Session, path: str, shape: tuple[int, ...]) -> None:
    """Publish another shape; what falls outside is erased, or set to the fill value in chunks on the edge."""
    writer = session.writer()
    with session.locked(path):
        session.refresh(path)
        spec = session.array(path)
        if len(shape) != len(spec.shape) or any(length < 0 for length in shape):
            remedy = f"give {len(spec.shape)} lengths, none below 0"
            raise Invalid(f"{spec.shape} cannot become {shape}", node=path, remedy=remedy)
        kept = tuple(map(min, shape, spec.shape))
        if kept != spec.shape:
            writer.put(path, spec.evolve(shape=kept))
        if shape != spec.shape:
            _blank_outside(session, path, spec.evolve(shape=kept), _changed(shape, spec.shape))
        if shape != kept:
            writer.put(path, grow(spec, shape))


def shrink(session: Session, path: str, spec: ArraySpec, shape: tuple[int, ...]) -> None:
    """Publish a smaller shape, by a holder of the node's lock."""
    kept = spec.evolve(shape=shape)
    session.writer().put(path, kept)
    _blank_outside(session, path, kept, _changed(shape, spec.shape))


def _changed(shape: tuple[int, ...], before: tuple[int, ...]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(shape, before, strict=True)) if a != b]


def grow(spec: ArraySpec, shape: tuple[int, ...]) -> ArraySpec:
    """The spec with another shape; varying chunk sizes get one more chunk where they no longer reach."""
    chunks = tuple(
        (*cut, length - sum(cut)) if isinstance(cut, tuple) and sum(cut) < length else cut
        for cut, length in zip(spec.chunks, shape, strict=True)
    )
    return spec.evolve(shape=shape, chunks=chunks)


def _future_chunks(session: Session, path: str, spec: ArraySpec) -> ChunkSource:
    """The chunks as they will be under ``spec``; a format that cannot write ahead of its documents gets those first."""
    if isinstance(session.reader, WritesAhead):
        return session.reader.chunks_as(path, spec)
    session.writer().put(path, spec)
    return session.reader.chunks(path)


def _blank_outside(session: Session, path: str, spec: ArraySpec, axes: list[int]) -> None:
    """Make the cells outside ``spec.shape`` along ``axes`` read as the fill value, should the array grow again."""
    source = _future_chunks(session, path, spec)
    if not isinstance(source, Lists):
        return
    grid = source.grid
    for batch in grouped(source.stored(), grid):
        beyond = [coords for coords in batch if any(coords[i] >= grid.axes[i].count for i in axes)]
        inside = [coords for coords in batch if all(coords[i] < grid.axes[i].count for i in axes)]
        edges = [coords for coords in inside if any(_crosses(grid, coords, i) for i in axes)]
        if beyond or edges:
            with execute.locked(source, [*beyond, *edges], session.settings):
                _erase(source, beyond)
                _blank_edges(source, edges, spec, axes, session.settings)


def _crosses(grid: Grid, coords: Coords, axis: int) -> bool:
    cut = grid.axes[axis]
    return cut.start(coords[axis]) + cut.size_of(coords[axis]) > cut.length


def _erase(source: ChunkSource, beyond: list[Coords]) -> None:
    if isinstance(source, ErasesMany) and beyond:
        source.erase_many(beyond)
        return
    for coords in beyond:
        source.erase(coords)


def _blank_edges(
    source: ChunkSource, edges: list[Coords], spec: ArraySpec, axes: list[int], settings: Settings
) -> None:
    if isinstance(source, Swaps):
        for together in [edges] if edges and source.grid.outer is not None else [[coords] for coords in edges]:
            swapping.change_chunks(
                source, together, lambda at, block: _blanked(block, at, source.grid, spec, axes), settings
            )
        return
    blocks = ((coords, source.read(coords)) for coords in edges)
    pairs = [
        (coords, _blanked(block, coords, source.grid, spec, axes)) for coords, block in blocks if block is not None
    ]
    execute.store(source, pairs, settings)


def _blanked(block: Block, coords: Coords, grid: Grid, spec: ArraySpec, axes: list[int]) -> Block:
    """The chunk with the fill value in its cells beyond the edge."""
    if not block.flags.writeable:
        block = block.copy()
    for axis in axes:
        cut = grid.axes[axis]
        outside = [slice(None)] * block.ndim
        outside[axis] = slice(cut.length - cut.start(coords[axis]), None)
        block[tuple(outside)] = spec.fill_cell()
    return block
