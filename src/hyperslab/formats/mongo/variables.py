"""Whole variables: their cells read, put together of all their documents, and changed in place.

The second face (:mod:`hyperslab.bridges.mongo`) makes xarray's objects of what is read here; the first face reads by
chunk (:mod:`~hyperslab.formats.mongo.chunk_source`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from bson import ObjectId

from hyperslab.errors import MissingChunks
from hyperslab.formats.mongo import chunk_queries
from hyperslab.formats.mongo.bson_values import Collections, DocumentCollection, Sizes
from hyperslab.formats.mongo.chunk_documents import (
    AssembledChunk,
    CellSpan,
    ChunkIndex,
    IdScheme,
    Key,
    Segment,
    assemble_chunk,
    bytes_view,
    format_key,
    make_documents,
    parse_segment,
)
from hyperslab.formats.mongo.chunk_writes import ChunkSwap, ChunkUndo, UndoView, swap_chunks, undo_entries
from hyperslab.formats.mongo.completeness import missing_chunks
from hyperslab.formats.mongo.document import Meta, Variable, embed_cells, load_meta, object_exists, raise_problems
from hyperslab.formats.mongo.errors import CorruptDocument, DocumentNotFoundError
from hyperslab.formats.mongo.to_spec import fill_value_of, known_sizes, padding_fill, unstored_fill, variable_extension
from hyperslab.model.coo import Coo, Numbers

# -- cells of a place -------------------------------------------------------------------------------------------------


Slices = tuple[slice, ...]


def chunk_slices(chunks: tuple[Sizes, ...], chunk: tuple[int, ...]) -> Slices:
    """Return the cells of a chunk whose sizes, and those of the chunks before it, are known."""
    return _slices_of_chunk([list(accumulate(known_sizes(sizes), initial=0)) for sizes in chunks], chunk)


def concatenate_cells(axis: int, one: Any, other: Any) -> Any:
    """Return cells and behind them others, both dense or both sparse with the same fill value."""
    if not isinstance(one, Coo):
        return np.concatenate([one, other], axis)
    moved = np.zeros((len(one.shape), 1), np.intp)
    moved[axis] = one.shape[axis]
    shape = (*one.shape[:axis], one.shape[axis] + other.shape[axis], *one.shape[axis + 1 :])
    coords = np.concatenate([one.coords, other.coords + moved], axis=1)
    return Coo(shape, coords, np.concatenate([one.data, other.data]), one.fill)


# -- arrays put together while their documents come in ----------------------------------------------------------------
# Each document is copied to its place, and none is kept beside the array. What is not as the object says (other types
# or lengths, doubles, gaps) is left to ``assemble_variable``, which weighs all documents of a variable.


@dataclass(slots=True)
class _PartialChunk:
    """A chunk of which documents are still to come: its cells where they belong, or beside where they lie apart."""

    target: Numbers
    block: Numbers
    left: int
    seen: set[int] = field(default_factory=set)


class StreamedArray:
    """A dense variable of known sizes, in documents of ``size`` bytes; ``cells`` are all there when ``is_whole``."""

    def __init__(self, variable: Variable, size: int) -> None:
        declared = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
        self._ends = [list(accumulate((size or 0 for size in sizes), initial=0)) for sizes in declared]
        self._dtype = variable.dtype
        self._size = size
        self._count = prod(map(len, declared)) if variable.chunks is not None else 1
        self._has = variable.has
        self._done: set[ChunkIndex] = set()
        self._begun: dict[ChunkIndex, _PartialChunk] = {}
        self._scratch: list[Numbers] = []
        self._is_odd = False
        self.units: str | None = None

    @cached_property
    def cells(self) -> Numbers:
        """The array, of which there is nothing before its first document comes."""
        return np.empty(tuple(end[-1] for end in self._ends), self._dtype)

    @classmethod
    def suits(cls, variable: Variable) -> bool:
        """Return True if nothing is known against it."""
        return (
            variable.has_known_sizes
            and not variable.sparse
            and variable.embedded is None
            and variable.dtype.itemsize > 0
        )

    @property
    def is_whole(self) -> bool:
        """Return True if every document came once, and was as it was expected."""
        return not self._is_odd and len(self._done) == self._count

    def take(self, segment: Segment) -> None:
        """Put the cells of one more document in their place."""
        if self._is_odd:
            return
        try:
            self._is_odd = not self._fits(segment)
        except (MemoryError, ValueError):  # no such array can be
            self._is_odd = True

    def _fits(self, segment: Segment) -> bool:
        """Copy the bytes of a document to their place. Return False where they are not as the object says."""
        chunk, start, length = segment.key[1], segment.n * self._size, len(segment.data)
        if chunk in self._done or not self._has(chunk) or segment.sparse or segment.dtype != self._dtype:
            return False
        begun = self._begun.get(chunk) or self._begin(chunk)
        end = start + length
        is_cut_so = length == self._size or end == begun.target.nbytes
        if segment.shape != begun.target.shape or not is_cut_so or end > begun.target.nbytes or segment.n in begun.seen:
            return False
        bytes_view(begun.block)[start:end] = np.frombuffer(segment.data, np.uint8)
        begun.seen.add(segment.n)
        begun.left -= length
        self.units = self.units or segment.units
        if not begun.left:
            if begun.block is not begun.target:
                begun.target[...] = begun.block
                self._scratch = [begun.block]
            del self._begun[chunk]
            self._done.add(chunk)
        return True

    def _begin(self, chunk: ChunkIndex) -> _PartialChunk:
        place: Any = (*_slices_of_chunk(self._ends, chunk), ...)
        target = block = self.cells[place]
        if not target.flags.c_contiguous:
            # Memory that was used before costs less than fresh one.
            is_reused = self._scratch and self._scratch[-1].shape == target.shape
            block = self._scratch.pop() if is_reused else np.empty(target.shape, target.dtype)
        self._begun[chunk] = begun = _PartialChunk(target, block, target.nbytes)
        return begun


# -- arrays put together of all their documents -----------------------------------------------------------------------


Shape = tuple[int, ...]


def assemble_variable(
    name: str,
    variable: Variable,
    chunks: Mapping[ChunkIndex, AssembledChunk],
    background: object = None,
    padding: object = None,
) -> Numbers | Coo:
    """Return all cells, in memory of their own. CorruptDocument.

    Every chunk of the variable is there, but for those that read as ``background``. With a ``padding`` chunks may be of
    another length than the object says, as while it grows: they are cut, or filled up with it.

    What the chunks say of dtype, type and shape counts: sparse where all of them are and mean the
    same by a cell that is not listed, else dense; of a dtype that holds all of them.
    """
    cuts = _chunk_lengths(name, variable, chunks, lenient=padding is not None)
    shape = tuple(map(sum, cuts))
    ends = [list(accumulate(sizes, initial=0)) for sizes in cuts]
    places = {chunk: _slices_of_chunk(ends, chunk) for chunk in chunks}
    dtypes = {chunk.dtype for chunk in chunks.values()} or {variable.dtype}
    try:
        dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)
    except TypeError:
        found = ", ".join(sorted(map(str, dtypes)))
        raise CorruptDocument(f"no dtype holds all chunks of {name!r}", expected=variable.dtype, found=found) from None
    rest: Any = background if padding is None else padding
    if _same_sparse(chunks, rest):
        return _concatenate_coo(shape, [(places[index], chunk) for index, chunk in chunks.items()])
    if not chunks and variable.sparse:
        return Coo.of_dense(np.full(shape, background, dtype), background)
    cells: Numbers = np.empty(shape, dtype)
    if rest is not None:
        cells[...] = rest
    for index, chunk in chunks.items():
        where: Any = (*places[index], ...)
        chunk.read_common(cells[where])
    return cells


def _same_sparse(chunks: Mapping[ChunkIndex, AssembledChunk], background: Any) -> bool:
    """Return True if all chunks are sparse, of one dtype, and every cell that none of them lists is the same."""
    kinds = {(chunk.sparse, chunk.dtype, chunk.first.fill) for chunk in chunks.values()}
    if len(kinds) != 1:
        return False
    sparse, _, fill = kinds.pop()
    return sparse and (background is None or fill == background.tobytes())


def _chunk_lengths(
    name: str, variable: Variable, chunks: Mapping[ChunkIndex, AssembledChunk], *, lenient: bool
) -> tuple[Shape, ...]:
    """Return the lengths of the chunks along each axis: as the object says, else as chunks are; all that share an index
    agree, unless what the object says counts (``lenient``)."""
    declared = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
    cuts: list[list[int | None]] = [list(sizes) for sizes in declared]
    for index, chunk in chunks.items():
        expected: object = len(cuts)
        fits = len(chunk.shape) == expected
        for sizes, place, size in zip(cuts, index or (0,) * len(cuts), chunk.shape, strict=False) if fits else ():
            sizes[place] = size if sizes[place] is None else sizes[place]
            if sizes[place] != size and not lenient:
                expected, fits = sizes[place], False
                break
        if not fits:
            key = format_key((name, index))
            raise CorruptDocument("a chunk of another shape", expected=expected, found=chunk.shape, key=key)
    return tuple(tuple(size or 0 for size in sizes) for sizes in cuts)


def _slices_of_chunk(ends: list[list[int]], chunk: ChunkIndex) -> tuple[slice, ...]:
    indices = (0,) * len(ends) if chunk is None else chunk
    return tuple(slice(end[index], end[index + 1]) for end, index in zip(ends, indices, strict=True))


def _concatenate_coo(shape: Shape, chunks: Sequence[tuple[Slices, AssembledChunk]]) -> Coo:
    """Return sparse chunks as one, each at its place, as far as its cells lie within it."""
    coords, data = [], []
    for place, chunk in chunks:
        part, size = chunk.coo(), tuple(cut.stop - cut.start for cut in place)
        part = part if part.shape == size else chunk.coo_of_shape(size, part.fill)
        coords.append(part.coords + np.array([cut.start for cut in place], np.intp)[:, None])
        data.append(part.data)
    return Coo(shape, np.concatenate(coords, axis=1), np.concatenate(data), part.fill).canonical()


# -- reading ----------------------------------------------------------------------------------------------------------


class LoadedVariable(NamedTuple):
    """The cells of a variable and their units; of what is read later, dask arrays of the second face."""

    cells: Any
    units: str | None


def load_object(here: Collections, meta_id: ObjectId) -> Meta:
    """Return the object of an id. DocumentNotFoundError; what its document says of a variable that makes no sense."""
    return raise_problems(load_meta(here.meta, meta_id))


def read_variables(here: Collections, meta: Meta, names: Sequence[str]) -> dict[str, LoadedVariable]:
    """Return the cells of these variables. DocumentNotFoundError, CorruptDocument."""
    if not names:
        return {}
    filled = {
        name: StreamedArray(meta.variables[name], meta.chunk_size)
        for name in names
        if StreamedArray.suits(meta.variables[name]) and unstored_fill(meta, name) is None
    }
    found = _fetch_variables(here, meta, names, filled)
    loaded = {}
    for name in names:
        own = filled.pop(name, None)
        if own is None:
            loaded[name] = _assemble(meta, name, found.pop(name, {}))
        elif own.is_whole:
            loaded[name] = LoadedVariable(own.cells, meta.variables[name].units or own.units)
        else:
            # The cells that came first go before the variable is fetched again, else both would be in memory.
            del own
            loaded[name] = _assemble(meta, name, _fetch_variables(here, meta, [name], {}).get(name, {}))
    if any(unstored_fill(meta, name) is not None for name in names):
        raise_if_gone(here, meta.id)
    return loaded


def raise_if_gone(here: Collections, meta_id: ObjectId) -> None:
    """Raise DocumentNotFoundError where the object is gone: chunks that are not there are no fill values then."""
    if not object_exists(here.meta, meta_id):
        raise DocumentNotFoundError(meta_id)


def _assemble(meta: Meta, name: str, segments: Mapping[Key, list[Segment]]) -> LoadedVariable:
    """Return a variable made of all its documents. DocumentNotFoundError, CorruptDocument."""
    variable, background = meta.variables[name], unstored_fill(meta, name)
    if variable.embedded is not None:
        chunks: dict[ChunkIndex, AssembledChunk] = {None: variable.embedded}
    else:
        wanted = [chunk for chunk in variable.keys if background is None or (name, chunk) in segments]
        keys = {chunk: (name, chunk) for chunk in wanted}
        chunks = {chunk: assemble_or_raise(meta.id, key, segments.get(key, [])) for chunk, key in keys.items()}
    units = variable.units or next((each.first.units for each in chunks.values()), None)
    return LoadedVariable(assemble_variable(name, variable, chunks, background, padding_fill(meta, name)), units)


def _fetch_variables(
    here: Collections, meta: Meta, names: Sequence[str], filled: Mapping[str, StreamedArray]
) -> dict[str, dict[Key, list[Segment]]]:
    """Return the chunk documents of all these variables, but for those that are ``filled`` as they arrive.

    Those of chunks that there are not are passed over.
    """
    found: dict[str, dict[Key, list[Segment]]] = {}
    embedded = {name for name in names if meta.variables[name].embedded is not None}
    is_changed = bool(meta.extension)
    # Chunks that somebody changes, as they were; those whose change is done by now as they are.
    old: dict[Key, list[Segment]] = {}
    entries = undo_entries(meta.extension)
    view = UndoView(here.meta, meta.id, entries)
    for name, chunk in (key for key in entries if key[0] in names and view.holds(key)):
        old[name, chunk] = view.fetch(here.chunks, name, [chunk]).get(chunk, [])
    queries = ({"meta_id": meta.id, "name": condition} for condition in chunk_queries.conditions(names))
    segments = (parse_segment(document) for query in queries for document in here.chunks.find(query))
    for segment in (one for one in segments if one.key not in old):
        name = segment.key[0]
        if name in filled:
            filled[name].take(segment)
        elif name not in embedded:
            found.setdefault(name, {}).setdefault(segment.key, []).append(segment)
        elif segment.key[1] is None or not (is_changed := is_changed or bool(load_meta(here.meta, meta.id).extension)):
            # Else it is of a change of ours that cuts it into chunks, and is not made yet, or that began since.
            message = "a variable that stands in the document of its object has chunks too"
            raise CorruptDocument(message, expected=0, found=len(segment.data), key=name)
    for key, former in old.items():
        if key[0] in filled:
            for segment in former:
                filled[key[0]].take(segment)
        elif former:
            found.setdefault(key[0], {})[key] = former
    return found


def assemble_or_raise(meta_id: ObjectId, key: Key, segments: Sequence[Segment]) -> AssembledChunk:
    """Return one chunk. DocumentNotFoundError where documents of it are missing, CorruptDocument."""
    try:
        return assemble_chunk(key, segments)
    except MissingChunks:
        raise chunk_not_found(meta_id, key) from None


def chunk_not_found(meta_id: ObjectId, key: Key) -> DocumentNotFoundError:
    """Return the error of a chunk that is not there, or not all of it."""
    return DocumentNotFoundError({"meta_id": meta_id, "name": key[0], "chunk": key[1]})


def raise_if_incomplete(meta: Meta, chunks: DocumentCollection) -> None:
    """Raise DocumentNotFoundError with the first chunk that is not there, or not all of it; no cells are moved."""
    for key in missing_chunks(meta, chunks, 1):
        raise chunk_not_found(meta.id, key)


def read_cells(here: Collections, meta: Meta, name: str) -> Numbers | Coo:
    """Return all cells of one variable."""
    cells: Numbers | Coo = read_variables(here, meta, [name])[name].cells
    return cells


# -- parts of chunks --------------------------------------------------------------------------------------------------
# Of a chunk of many documents only those are fetched that hold the cells, and the first, which says what the chunk is.


def read_span(
    chunks: DocumentCollection,
    meta_id: ObjectId,
    key: Key,
    shape: tuple[int, ...],
    dtype: np.dtype,
    size: int,
    within: Any,
) -> Numbers | None:
    """Return the cells ``within`` a dense chunk of this shape, whose documents hold ``size`` bytes each if nothing else
    is found; None where all of the chunk is to be read, for that or because what is found is no part of such a chunk.
    """
    span = CellSpan.worth_reading(shape, within, dtype, size)
    if span is None:
        return None
    name, chunk = key
    sizes: dict[ChunkIndex, int] = {}
    segments = chunk_queries.fetch_spans(chunks, meta_id, name, {chunk: span}, sizes, size)
    cells = span.take(segments[chunk], sizes[chunk]) if chunk in sizes else None
    return None if cells is None else cells.copy()


def read_pieces(chunks: DocumentCollection, meta: Meta, names: Sequence[str]) -> dict[str, AssembledChunk]:
    """Return arrays that are stored in one piece; those that were never written are the fill value."""
    stored: dict[str, list[Segment]] = {name: [] for name in names}
    for condition in chunk_queries.conditions(names):
        for doc in chunks.find({"meta_id": meta.id, "name": condition, **chunk_queries.STORED_WHOLE}):
            segment = parse_segment(doc)
            stored[segment.key[0]].append(segment)
    pieces: dict[str, AssembledChunk] = {}
    for name, segments in stored.items():
        variable = meta.variables[name]
        shape = known_sizes(variable.shape)
        chunk = assemble_chunk((name, None), segments) if segments else None
        if chunk is None or chunk.shape != shape:
            block = np.full(shape, fill_value_of(variable_extension(meta, name), variable), variable.dtype)
            if chunk is not None:  # it has grown since, or shrunk
                chunk.read_common(block)
            chunk = embed_cells(name, Coo.of_dense(block, sparse_fill(variable)) if variable.sparse else block)
        pieces[name] = chunk
    return pieces


# -- changing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegionUpdate:
    """New cells of one variable: where they go, and ``read``, which gives those of a part of the place, dense."""

    name: str
    variable: Variable
    place: Slices
    read: Callable[[Slices], Numbers]

    def put_into(self, block: Numbers, target: Slices, source: Slices) -> Numbers:
        """Return the block with the new cells of ``source`` in it."""
        where: Any = (*target, ...)
        block[where] = self.read(source)
        return block

    def as_stored(self, block: Numbers, old: AssembledChunk | None) -> Numbers | Coo:
        """Return the cells as those before them are stored, or as the variable says."""
        if old is None:
            return Coo.of_dense(block, sparse_fill(self.variable)) if self.variable.sparse else block
        return block if old.first.fill is None else Coo.of_dense(block, np.frombuffer(old.first.fill, old.dtype)[0])


def sparse_fill(variable: Variable) -> Numbers:
    """Return the cell that a sparse variable does not list."""
    fill: Numbers = np.frombuffer(variable.fill or bytes(variable.dtype.itemsize), variable.dtype)[0]
    return fill


def update_embedded(update: RegionUpdate) -> Variable:
    """Return a variable that stands in the document of its object with the new cells in it."""
    old = update.variable.embedded
    assert old is not None
    cells = update.put_into(old.block(), update.place, tuple(slice(None) for _ in update.place))
    return replace(update.variable, embedded=embed_cells(update.name, update.as_stored(cells, old)))


def update_chunks(here: Collections, meta: Meta, ids: IdScheme, update: RegionUpdate, undo: ChunkUndo) -> None:
    """Put new cells into the chunks of a variable, one after the other. DocumentNotFoundError, Conflict."""
    touched = list(_touched_chunks(update))
    undo.wait_until_free(key for key, _, _, _ in touched)
    for key, shape, target, source in touched:
        name, chunk = key
        segments = chunk_queries.fetch_segments(here.chunks, meta.id, name, [chunk]).get(chunk, [])
        # A chunk that was never stored may read as the fill value.
        is_background = not segments and unstored_fill(meta, name) is not None
        old = None if is_background else assemble_or_raise(meta.id, key, segments)
        padding = padding_fill(meta, name)
        if old is not None and (old.shape == shape or padding is None):
            block = old.block()
        else:  # its documents may be those of a shorter or longer chunk
            block = np.full(shape, padding, update.variable.dtype if old is None else old.dtype)
            if old is not None:
                old.read_common(block)
        cells = update.as_stored(update.put_into(block, target, source), old)
        docs = list(make_documents(ids, meta.id, key, cells, meta.chunk_size))
        swap_chunks(here.chunks, meta.id, [ChunkSwap(key, docs, segments)], undo.url, undo)


def _touched_chunks(update: RegionUpdate) -> Iterator[tuple[Key, Shape, Slices, Slices]]:
    """Yield each chunk that the region touches: its shape, which of its cells, and which of the new ones."""
    stored = update.variable.chunks
    axes: list[list[tuple[int, int, slice, slice]]] = []
    for sizes, want in zip(stored or tuple((n,) for n in update.variable.shape), update.place, strict=True):
        axes.append([])
        start = 0
        for index, size in enumerate(known_sizes(sizes)):
            first, last = max(start, want.start), min(start + size, want.stop)
            if first < last:
                target, source = slice(first - start, last - start), slice(first - want.start, last - want.start)
                axes[-1].append((index, size, target, source))
            start += size
    for parts in product(*axes):
        chunk = None if stored is None else tuple(part[0] for part in parts)
        shape = tuple(part[1] for part in parts)
        yield (update.name, chunk), shape, tuple(part[2] for part in parts), tuple(part[3] for part in parts)
