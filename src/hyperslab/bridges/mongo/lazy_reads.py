"""Stored variables as dask arrays: one chunk for each that is stored, and one query for each that is computed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, product
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from bson import ObjectId

from hyperslab.bridges import sparse
from hyperslab.bridges.extras import library
from hyperslab.bridges.mongo.eager_reads import (
    LoadedVariable,
    assemble_or_raise,
    assemble_variable,
    raise_if_gone,
)
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument, dtype_from_text
from hyperslab.formats.mongo.chunk_documents import (
    SPARSE,
    AssembledChunk,
    CellSpan,
    ChunkIndex,
    DerivedIds,
    Key,
    Segment,
    parse_key,
    parse_segment,
)
from hyperslab.formats.mongo.chunk_queries import segment_query
from hyperslab.formats.mongo.chunk_writes import UndoView, undo_entries
from hyperslab.formats.mongo.document import Meta, Variable
from hyperslab.formats.mongo.to_spec import padding_fill, unstored_fill
from hyperslab.model.coo import Coo, Numbers

# -- parts of chunks --------------------------------------------------------------------------------------------------
# Of a chunk of many documents only those are fetched that hold the cells, and the first, which says what the chunk is.


def read_span(
    chunks: DocumentCollection,
    meta_id: ObjectId,
    key: Key,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    size: int,
    within: Any,
) -> Numbers | None:
    """Return the cells ``within`` a dense chunk of this shape, whose documents hold ``size`` bytes each if nothing else
    is found; None where all of the chunk is to be read, for that or because what is found is no part of such a chunk.
    """
    if not size or not shape or not all(shape):
        return None
    span = CellSpan.of(shape, within, dtype.itemsize)
    if span.total <= size or not span.is_small:
        return None
    found = _fetch_numbered(chunks, meta_id, key, {0, *span.numbers(size)})
    first = found.get(0) if found else None
    if found is None or first is None or first.sparse or (first.dtype, first.shape) != (dtype, shape) or not first.data:
        return None
    if missing := set(span.numbers(len(first.data))) - found.keys():
        found |= _fetch_numbered(chunks, meta_id, key, missing) or {}
    cells = span.take({n: segment.data for n, segment in found.items()}, len(first.data), dtype)
    return None if cells is None else cells.copy()


def _fetch_numbered(
    chunks: DocumentCollection, meta_id: ObjectId, key: Key, numbers: Iterable[int]
) -> dict[int, Segment] | None:
    """Return documents by their n; None where one is there twice."""
    found: dict[int, Segment] = {}
    for document in chunks.find(segment_query(meta_id, key[0], {key[1]: numbers})):
        segment = parse_segment(document)
        if segment.n in found:
            return None
        found[segment.n] = segment
    return found


# -- dask arrays ------------------------------------------------------------------------------------------------------


_HEAD = dict.fromkeys(("name", "chunk", "n", "dtype", "type", "fill_value", "units"), 1)
# One $unionWith for each variable: an aggregation has at most 1000 stages (manual of MongoDB).
_MAX_PIPELINES = 100


class DeclaredVariable(NamedTuple):
    """What a dask array says before it is computed, from one of its chunks where there is one (R25)."""

    variable: Variable
    derived: bool = False


def read_declarations(here: Collections, meta: Meta, names: Sequence[str]) -> dict[str, DeclaredVariable]:
    """Return the declarations of these variables, by one query for :data:`_MAX_PIPELINES` of them."""
    known = {name: DeclaredVariable(meta.variables[name]) for name in names}
    for start in range(0, len(names), _MAX_PIPELINES):
        parts: list[list[MutableDocument]] = [
            [{"$match": {"meta_id": meta.id, "name": {"$eq": name}}}, {"$limit": 1}, {"$project": _HEAD}]
            for name in names[start : start + _MAX_PIPELINES]
        ]
        others: list[MutableDocument] = [
            {"$unionWith": {"coll": here.chunks.name, "pipeline": part}} for part in parts[1:]
        ]
        for document in here.chunks.aggregate([*parts[0], *others]):
            known[document["name"]] = _declaration_in(meta.id, known[document["name"]].variable, document)
    return known


def _declaration_in(meta_id: ObjectId, variable: Variable, document: Document) -> DeclaredVariable:
    """Return what a document declares of its variable; one that makes no sense is passed over here, and an error when
    the chunk is read.
    """
    try:
        name, chunk = parse_key(document)
        dtype = dtype_from_text(document.get("dtype"), name)
    except HyperslabError:
        return DeclaredVariable(variable)
    fill = document.get("fill_value")
    is_sparse = document.get("type") == SPARSE and isinstance(fill, bytes) and len(fill) == dtype.itemsize
    declared = replace(
        variable,
        dtype=dtype,
        sparse=is_sparse,
        fill=fill if is_sparse else None,
        units=variable.units or document.get("units"),
    )
    return DeclaredVariable(declared, DerivedIds(meta_id)(name, chunk, document.get("n", 0)) == document["_id"])


def lazy_variables(
    origin: ObjectOrigin, here: Collections, meta: Meta, names: Sequence[str]
) -> dict[str, LoadedVariable]:
    """These variables as dask arrays."""
    if not names:
        return {}
    origin.check_travel()
    known = read_declarations(here, meta, names)
    return {
        name: LoadedVariable(_array(LazyVariable(origin, meta, name, known[name])), known[name].variable.units)
        for name in names
    }


def _array(source: LazyVariable) -> Any:
    da: Any = library("dask.array")
    token = f"mongo-get-{uuid4().hex}"
    planning = library("dask").config.get("array.query-planning", False)
    # map_blocks makes arrays of unknown or empty chunks, which from_array does not; with query planning dask has none.
    if source.variable.has_known_sizes and (planning or not any(0 in sizes for sizes in source.chunks)):
        return da.from_array(source, chunks=source.chunks, name=token, asarray=False, meta=source.meta)
    if planning:
        remedy = "turn array.query-planning off, or load the variable (load=)"
        raise Unsupported(f"dask knows no unknown sizes, which {source.name!r} has", remedy=remedy)
    chunks = tuple(tuple(float("nan") if size is None else size for size in sizes) for sizes in source.chunks)
    return da.map_blocks(read_block, source=source, chunks=chunks, dtype=source.dtype, meta=source.meta, name=token)


def read_block(source: Any = None, block_id: tuple[int, ...] = ()) -> Any:
    """Return one chunk, of whatever size it is."""
    return source.block([tuple(map(int, block_id))])


class LazyVariable:
    """What dask slices: a variable whose chunks are read when it is indexed."""

    def __init__(self, origin: ObjectOrigin, meta: Meta, name: str, declared: DeclaredVariable) -> None:
        self.origin = origin
        self.meta_id = meta.id
        self.chunk_size = meta.chunk_size
        self.background = unstored_fill(meta, name)
        self.padding = padding_fill(meta, name)
        self.name = name
        self.changing = {key: entry for key, entry in undo_entries(meta.extension).items() if key[0] == name}
        self.variable = declared.variable
        self.derived = declared.derived
        self.whole = declared.variable.chunks is None
        self.chunks: Any = declared.variable.chunks or tuple((size,) for size in declared.variable.shape)
        self.shape: Any = declared.variable.shape
        self.ndim = len(self.shape)
        self.dtype = declared.variable.dtype

    @property
    def meta(self) -> Any:
        """An empty array of the kind that blocks are."""
        if not self.variable.sparse:
            return np.empty((0,) * self.ndim, self.dtype)
        return sparse.meta(self.ndim, self.dtype, np.frombuffer(self.variable.fill or b"", self.dtype)[0])

    def __getitem__(self, key: object) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        spans = [_selected_range(part, size) for part, size in zip(parts, self.shape, strict=True)]
        if any(start == stop for start, stop in spans):
            return self._nothing(parts)
        ends = [list(accumulate(sizes, initial=0)) for sizes in self.chunks]
        first = [bisect_right(end, start) - 1 for end, (start, _) in zip(ends, spans, strict=True)]
        last = [bisect_right(end, stop - 1) - 1 for end, (_, stop) in zip(ends, spans, strict=True)]
        if first == last and (few := self._few(parts, ends, first)) is not None:
            return few
        block = self.block(list(product(*(range(one, two + 1) for one, two in zip(first, last, strict=True)))))
        moved = [
            _shift(part, end[one], size) for part, end, one, size in zip(parts, ends, first, self.shape, strict=True)
        ]
        return block[tuple(moved)] if moved else block

    def _few(self, parts: tuple[Any, ...], ends: list[list[int]], chunk: list[int]) -> Any:
        """Return some cells of one chunk, None where the whole chunk is to be read for them."""
        if self.variable.sparse or any(isinstance(part, slice) and (part.step or 1) < 1 for part in parts):
            return None
        if not all(isinstance(part, slice | int | np.integer) for part in parts):
            return None
        moved = [
            _shift(part, end[one], size) for part, end, one, size in zip(parts, ends, chunk, self.shape, strict=True)
        ]
        shape = tuple(end[one + 1] - end[one] for end, one in zip(ends, chunk, strict=True))
        within = [slice(part, part + 1, 1) if isinstance(part, int) else part for part in moved]
        key = (self.name, None if self.whole else tuple(chunk))
        if key in self.changing:
            return None
        found = read_span(self.origin.open().chunks, self.meta_id, key, shape, self.dtype, self.chunk_size, within)
        picked = tuple(0 if isinstance(part, int) else slice(None) for part in moved)
        return None if found is None else found[picked]

    def _nothing(self, parts: tuple[Any, ...]) -> Any:
        """Return an empty selection, of the kind that blocks are."""
        return self._of_kind(np.broadcast_to(np.zeros((), self.dtype), self.shape)[parts].copy())

    def block(self, chunks: list[tuple[int, ...]]) -> Any:
        """Neighbouring chunks as one block, from the first to the last. DocumentNotFoundError, CorruptDocument."""
        keys: list[ChunkIndex] = [None] if self.whole else list(chunks)
        here = self.origin.open()
        view = UndoView(here.meta, self.meta_id, self.changing)
        found = view.fetch_all(here.chunks, self.name, keys, derived=self.derived)
        if self.background is not None and len(found) < len(keys):
            raise_if_gone(here, self.meta_id)
        parts: dict[ChunkIndex, AssembledChunk] = {}
        for at, key in zip(chunks, keys, strict=True):
            place = tuple(index - first for index, first in zip(at, chunks[0], strict=True))
            if found.get(key) or self.background is None:
                parts[place] = assemble_or_raise(self.meta_id, (self.name, key), found.get(key, []))
        cuts: Any = tuple(
            sizes[one : two + 1] for sizes, one, two in zip(self.chunks, chunks[0], chunks[-1], strict=True)
        )
        shape = tuple(None if None in sizes else sum(sizes) for sizes in cuts)
        variable = replace(self.variable, chunks=cuts, shape=shape)
        return self._of_kind(assemble_variable(self.name, variable, parts, self.background, self.padding))

    def _of_kind(self, cells: Any) -> Any:
        """As dask was told: sparse, or dense."""
        if self.variable.sparse:
            fill = np.frombuffer(self.variable.fill or b"", self.dtype)[0]
            return sparse.from_coo(cells if isinstance(cells, Coo) else Coo.of_dense(cells, fill))
        return cells.dense() if isinstance(cells, Coo) else cells

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Stored {self.name!r} of {self.meta_id} {self.shape} {self.dtype}>"


def _selected_range(part: object, size: int) -> tuple[int, int]:
    """Return the first position that is selected, and the one behind the last."""
    if isinstance(part, slice):
        wanted: Any = range(*part.indices(size))
        return (min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1) if wanted else (0, 0)
    places = np.asarray(part)
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    places = np.where(places < 0, places + size, places)
    return (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)


def _shift(part: object, start: int, size: int) -> Any:
    """Return the selection counted from ``start``."""
    if isinstance(part, slice):
        wanted = range(*part.indices(size))
        stop = wanted.stop - start
        return slice(wanted.start - start, None if stop < 0 else stop, wanted.step)
    places = np.asarray(part)
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    places = np.where(places < 0, places + size, places) - start
    return int(places) if places.ndim == 0 else places
