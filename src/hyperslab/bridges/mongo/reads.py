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
from hyperslab.formats.mongo.chunk_documents import AssembledChunk, ChunkIndex
from hyperslab.formats.mongo.chunk_writes import UndoView, undo_entries
from hyperslab.formats.mongo.document import ARRAY, Meta
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
)
from hyperslab.model.coo import Coo

# -- objects ----------------------------------------------------------------------------------------------------------


Load = bool | Collection[str] | None


def eager_names(meta: Meta, load: Load) -> list[str]:
    """Return the variables that are read at once. WrongType for what ``load`` cannot be."""
    if not isinstance(load, bool | np.bool_ | None) and (
        isinstance(load, str | bytes) or not isinstance(load, Collection)
    ):
        raise WrongType(f"load={load!r}", remedy="give None, True, False, or a list of names")
    return [name for name in meta.variables if _is_eager(meta, name, load)]


def _is_eager(meta: Meta, name: str, load: Load) -> bool:
    variable = meta.variables[name]
    if variable.embedded is not None or variable.dims == (name,):
        return True
    if pandas_description(meta, name):  # dask has none of pandas' types
        return True
    if load is None:
        return variable.chunks is None
    return bool(load) if isinstance(load, bool | np.bool_) else name in load


# -- xarray objects ---------------------------------------------------------------------------------------------------


def build_object(meta: Meta, loaded: Mapping[str, LoadedVariable], ureg: object) -> xr.Dataset | xr.DataArray:
    """Return the object; units become Quantities of the registry ``ureg``."""
    variables = {
        name: xr.Variable(
            variable.dims,
            as_pandas(_data(loaded[name], ureg), pandas_description(meta, name)),
            _attrs(variable.attrs, variable_extension(meta, name)),
        )
        for name, variable in meta.variables.items()
    }
    coords = {name: variables[name] for name in meta.coords}
    attrs = _attrs(meta.attrs, meta.extension)
    if not meta.is_array:
        return _dataset({name: variables[name] for name in meta.data_vars}, coords, attrs)
    data = variables[ARRAY]
    array = xr.DataArray(data.data, coords, data.dims, attrs=attrs)
    array.name = meta.name  # else one without a name has that of its dask array
    return array


def _dataset(data: dict[str, xr.Variable], coords: dict[str, xr.Variable], attrs: MutableDocument) -> xr.Dataset:
    """xarray takes data with the name of a dimension for a coordinate, unless it is told otherwise afterwards."""
    dims = {dim for variable in (*data.values(), *coords.values()) for dim in variable.dims}
    odd = [name for name in data if name in dims]
    if not odd:
        return xr.Dataset(data, coords, attrs)
    plain = {name: variable for name, variable in data.items() if name not in odd}
    bare = xr.Coordinates({name: data[name] for name in odd}, indexes={})
    return xr.Dataset(plain, bare, attrs).reset_coords(odd).assign_coords(coords)


def _attrs(raw: Document, extension: Document) -> MutableDocument:
    """As BSON has them, but for those whose type we have said besides."""
    codes = attr_codes(extension)
    return {name: decode_attr(value, codes[name]) if name in codes else value for name, value in raw.items()}


def _data(loaded: LoadedVariable, ureg: object) -> Any:
    cells = sparse.from_coo(loaded.cells) if isinstance(loaded.cells, Coo) else loaded.cells
    return cells if loaded.units is None else pint.join(cells, loaded.units, ureg)


# -- dask arrays ------------------------------------------------------------------------------------------------------


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
