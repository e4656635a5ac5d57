"""The chunks of a variable as one array. Pure: nothing is asked of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hyperslab.formats.mongo.document import Variable
from hyperslab.formats.mongo.faults import CorruptDocument
from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.segments import AssembledChunk, show
from hyperslab.formats.mongo.sparse_chunk import listed
from hyperslab.model.coo import Coo, Numbers

Whole = tuple[int, ...]


def assembled(
    name: str, variable: Variable, chunks: Mapping[Chunk, AssembledChunk], background: Any = None, padding: Any = None
) -> Numbers | Coo:
    """All cells, in memory of their own. CorruptDocument.

    Every chunk of the variable is there, but for those that read as ``background``. With a ``padding`` chunks may be of
    another length than the object says, as while it grows: they are cut, or filled up with it.

    What the chunks say of dtype, type and shape counts (R25, R31 to R34): sparse where all of them are and mean the
    same by a cell that is not listed, else dense; of a dtype that holds all of them.
    """
    cuts = _cuts(name, variable, chunks, lenient=padding is not None)
    shape = tuple(map(sum, cuts))
    ends = [list(accumulate(sizes, initial=0)) for sizes in cuts]
    places = {chunk: _place(ends, chunk) for chunk in chunks}
    dtype = _common_dtype(name, variable, chunks)
    if _same_sparse(chunks, background if padding is None else padding):
        return _together(shape, [(places[chunk], _list(joined, places[chunk])) for chunk, joined in chunks.items()])
    if not chunks and variable.sparse:
        return Coo.of_dense(np.full(shape, background, dtype), background)
    cells: Numbers = np.empty(shape, dtype)
    if padding is not None or background is not None:
        cells[...] = background if padding is None else padding
    for chunk, joined in chunks.items():
        where: Any = (*places[chunk], ...)
        joined.read_common(cells[where])
    return cells


def _list(joined: AssembledChunk, place: tuple[slice, ...]) -> Coo:
    """The cells of a sparse chunk that lie within its place."""
    cells = joined.coo()
    shape = tuple(cut.stop - cut.start for cut in place)
    return cells if cells.shape == shape else listed(joined, shape, cells.fill)


def _same_sparse(chunks: Mapping[Chunk, AssembledChunk], background: Any) -> bool:
    """Return whether all chunks are sparse, of one dtype, and every cell that none of them lists is the same."""
    kinds = {(joined.sparse, joined.dtype, joined.first.fill) for joined in chunks.values()}
    if len(kinds) != 1:
        return False
    sparse, _, fill = kinds.pop()
    return sparse and (background is None or fill == background.tobytes())


def _common_dtype(name: str, variable: Variable, chunks: Mapping[Chunk, AssembledChunk]) -> np.dtype[Any]:
    dtypes = {joined.dtype for joined in chunks.values()} or {variable.dtype}
    if len(dtypes) == 1:
        return dtypes.pop()
    try:
        return np.result_type(*dtypes)
    except TypeError:
        found = ", ".join(sorted(map(str, dtypes)))
        raise CorruptDocument(f"no dtype holds all chunks of {name!r}", expected=variable.dtype, found=found) from None


def _cuts(name: str, variable: Variable, chunks: Mapping[Chunk, AssembledChunk], *, lenient: bool) -> tuple[Whole, ...]:
    """Lengths of the chunks along each axis: as the object says, else as chunks are; all that share an index agree,
    unless what the object says counts (``lenient``)."""
    said = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
    cuts: list[list[int | None]] = [list(sizes) for sizes in said]
    for chunk, joined in chunks.items():
        if len(joined.shape) != len(cuts):
            raise _differs(name, chunk, len(cuts), joined.shape)
        for axis, size in enumerate(joined.shape):
            index = chunk[axis] if chunk is not None else 0
            if cuts[axis][index] is None:
                cuts[axis][index] = size
            elif cuts[axis][index] != size and not lenient:
                raise _differs(name, chunk, cuts[axis][index], joined.shape)
    return tuple(tuple(size or 0 for size in sizes) for sizes in cuts)


def _differs(name: str, chunk: Chunk, expected: Any, shape: Whole) -> CorruptDocument:
    return CorruptDocument("a chunk of another shape", expected=expected, found=shape, key=show((name, chunk)))


def _place(ends: list[list[int]], chunk: Chunk) -> tuple[slice, ...]:
    indices = (0,) * len(ends) if chunk is None else chunk
    return tuple(slice(end[index], end[index + 1]) for end, index in zip(ends, indices, strict=True))


def _together(shape: Whole, parts: Sequence[tuple[tuple[slice, ...], Coo]]) -> Coo:
    """Sparse chunks as one."""
    coords = [part.coords + np.array([cut.start for cut in place], np.intp)[:, None] for place, part in parts]
    data = [part.data for _, part in parts]
    return Coo(shape, np.concatenate(coords, axis=1), np.concatenate(data), parts[0][1].fill).canonical()
