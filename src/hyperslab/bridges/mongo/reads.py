"""Stored variables as objects of xarray: read at once, or as dask arrays with one query for each that is computed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, product
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr

from hyperslab.bridges import pint, sparse
from hyperslab.bridges.extras import library
from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.put_plan import as_pandas, pandas_description
from hyperslab.errors import Unsupported, WrongType
from hyperslab.formats.mongo.bson_values import Collections, Document, MutableDocument, decode_attr
from hyperslab.formats.mongo.chunk_documents import AssembledChunk, ChunkIndex, Key, count_documents
from hyperslab.formats.mongo.chunk_writes import UndoView, undo_entries
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable
from hyperslab.formats.mongo.to_spec import (
    DeclaredVariable,
    attr_codes,
    padding_fill,
    read_declarations,
    unstored_fill,
    variable_extension,
)
from hyperslab.formats.mongo.variables import (
    LoadedVariable,
    assemble_or_raise,
    assemble_variable,
    raise_if_gone,
    read_span,
    sparse_fill,
)
from hyperslab.model.coo import Coo, Numbers

# -- objects ----------------------------------------------------------------------------------------------------------


Load = bool | Collection[str] | None


def eager_names(meta: Meta, load: Load) -> list[str]:
    """Return the variables that are read at once. WrongType for what ``load`` cannot be."""
    if not isinstance(load, bool | np.bool_ | None) and (
        isinstance(load, str | bytes) or not isinstance(load, Collection)
    ):
        raise WrongType(f"load={load!r}", remedy="give None, True, False, or a list of names")

    def is_eager(name: str, variable: Variable) -> bool:
        if variable.embedded is not None or variable.dims == (name,):
            return True
        if pandas_description(meta, name):  # dask has none of pandas' types
            return True
        if load is None:
            return variable.chunks is None
        return name in load if isinstance(load, Collection) else bool(load)

    return [name for name, variable in meta.variables.items() if is_eager(name, variable)]


# -- xarray objects ---------------------------------------------------------------------------------------------------


def build_object(meta: Meta, loaded: Mapping[str, LoadedVariable], ureg: object) -> xr.Dataset | xr.DataArray:
    """Return the object; units become Quantities of the registry ``ureg``."""
    variables: dict[str, xr.Variable] = {}
    for name, variable in meta.variables.items():
        cells, units = loaded[name]
        cells = sparse.from_coo(cells) if isinstance(cells, Coo) else cells
        cells = cells if units is None else pint.join(cells, units, ureg)
        attrs = _decode_attrs(variable.attrs, variable_extension(meta, name))
        variables[name] = xr.Variable(variable.dims, as_pandas(cells, pandas_description(meta, name)), attrs)
    coords = {name: variables[name] for name in meta.coords}
    attrs = _decode_attrs(meta.attrs, meta.extension)
    if not meta.is_array:
        return _make_dataset({name: variables[name] for name in meta.data_vars}, coords, attrs)
    data = variables[ARRAY]
    array = xr.DataArray(data.data, coords, data.dims, attrs=attrs)
    array.name = meta.name  # else one without a name has that of its dask array
    return array


def _make_dataset(data: dict[str, xr.Variable], coords: dict[str, xr.Variable], attrs: MutableDocument) -> xr.Dataset:
    # xarray takes data with the name of a dimension for a coordinate, unless that is corrected afterwards.
    dims = {dim for variable in (*data.values(), *coords.values()) for dim in variable.dims}
    odd = [name for name in data if name in dims]
    if not odd:
        return xr.Dataset(data, coords, attrs)
    plain = {name: variable for name, variable in data.items() if name not in odd}
    bare = xr.Coordinates({name: data[name] for name in odd}, indexes={})
    return xr.Dataset(plain, bare, attrs).reset_coords(odd).assign_coords(coords)


def _decode_attrs(raw: Document, extension: Document) -> MutableDocument:
    """Return attributes as BSON has them, but for those whose types stand in the field ``hyperslab``."""
    codes = attr_codes(extension)
    return {name: decode_attr(value, codes[name]) if name in codes else value for name, value in raw.items()}


# -- dask arrays ------------------------------------------------------------------------------------------------------


def lazy_variables(
    origin: ObjectOrigin, here: Collections, meta: Meta, names: Sequence[str]
) -> dict[str, LoadedVariable]:
    """Return these variables as dask arrays."""
    if not names:
        return {}
    origin.check_travel()
    known = read_declarations(here, meta, names)
    sources = {name: LazyVariable(origin, meta, name, known[name]) for name in names}
    return {name: LoadedVariable(_to_dask(source), source.variable.units) for name, source in sources.items()}


def _to_dask(source: LazyVariable) -> Any:
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
    """The array that dask slices: a variable whose chunks are read when it is indexed."""

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
        return sparse.meta(self.ndim, self.dtype, sparse_fill(self.variable))

    def __getitem__(self, key: object) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        spans = [_selected_range(part, size) for part, size in zip(parts, self.shape, strict=True)]
        if any(start == stop for start, stop in spans):
            return self._of_kind(np.broadcast_to(np.zeros((), self.dtype), self.shape)[parts].copy())
        ends = [list(accumulate(sizes, initial=0)) for sizes in self.chunks]
        first = [bisect_right(end, start) - 1 for end, (start, _) in zip(ends, spans, strict=True)]
        last = [bisect_right(end, stop - 1) - 1 for end, (_, stop) in zip(ends, spans, strict=True)]
        starts = [end[one] for end, one in zip(ends, first, strict=True)]
        moved = tuple(map(_shift, parts, starts, self.shape))
        if first == last:
            shape = tuple(end[one + 1] - end[one] for end, one in zip(ends, first, strict=True))
            part = self._part(moved, (self.name, None if self.whole else tuple(first)), shape)
            if part is not None:
                return part
        block = self.block(list(product(*(range(one, two + 1) for one, two in zip(first, last, strict=True)))))
        return block[moved] if moved else block

    def _part(self, parts: tuple[Any, ...], key: Key, shape: tuple[int, ...]) -> Any:
        """Return some cells of one chunk, None where the whole chunk is to be read for them."""
        if self.variable.sparse or key in self.changing:
            return None
        within = [slice(part, part + 1, 1) if isinstance(part, int) else part for part in parts]
        if not all(isinstance(part, slice) and (part.step or 1) > 0 for part in within):
            return None
        found = read_span(self.origin.open().chunks, self.meta_id, key, shape, self.dtype, self.chunk_size, within)
        picked = tuple(0 if isinstance(part, int) else slice(None) for part in parts)
        return None if found is None else found[picked]

    def block(self, chunks: list[tuple[int, ...]]) -> Any:
        """Return neighbours, from the first to the last chunk, as one block. DocumentNotFoundError, CorruptDocument."""
        keys: list[ChunkIndex] = [None] if self.whole else list(chunks)
        here = self.origin.open()
        view = UndoView(here.meta, self.meta_id, self.changing)
        counts = {}
        if self.derived and not self.variable.sparse:
            shapes = [[sizes[i] for sizes, i in zip(self.chunks, at, strict=True)] for at in chunks]
            counts = {
                key: count_documents(shape, self.dtype, self.chunk_size)
                for key, shape in zip(keys, shapes, strict=True)
            }
        found = view.fetch(here.chunks, self.name, keys, derived=self.derived, counts=counts)
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
        """Return cells as dask expects them: sparse, or dense."""
        if self.variable.sparse:
            return sparse.from_coo(cells if isinstance(cells, Coo) else Coo.of_dense(cells, sparse_fill(self.variable)))
        return cells.dense() if isinstance(cells, Coo) else cells

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Stored {self.name!r} of {self.meta_id} {self.shape} {self.dtype}>"


def _selected_range(part: object, size: int) -> tuple[int, int]:
    """Return the first position that is selected, and the one behind the last."""
    if isinstance(part, slice):
        wanted = range(*part.indices(size))
        return (min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1) if wanted else (0, 0)
    places = _positions(part, size)
    return (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)


def _shift(part: object, start: int, size: int) -> Any:
    """Return the selection counted from ``start``."""
    if isinstance(part, slice):
        wanted = range(*part.indices(size))
        stop = wanted.stop - start
        return slice(wanted.start - start, None if stop < 0 else stop, wanted.step)
    places = _positions(part, size) - start
    return int(places) if places.ndim == 0 else places


def _positions(part: object, size: int) -> Numbers:
    """Return the selected positions, counted from 0, of indices or a mask."""
    places = np.asarray(part)
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    return np.where(places < 0, places + size, places)
