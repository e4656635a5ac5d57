"""A group as an xarray Dataset: variables over lazy cells, attributes and encoding; decoding is xarray's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import AbstractDataStore, BackendArray, StoreBackendEntrypoint
from xarray.core import indexing
from xarray.namedarray.parallelcompat import list_chunkmanagers

from hyperslab.array import Array
from hyperslab.array.missing import with_missing
from hyperslab.array.references import REFERENCES, as_cells
from hyperslab.bridges.extras import library
from hyperslab.bridges.xarray.coordinates import computed_coordinates
from hyperslab.bridges.xarray.dtypes import as_xarray, xarray_dtype
from hyperslab.bridges.xarray.storable import check_chunks
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.base import PROVENANCE, Format
from hyperslab.group import Group
from hyperslab.model.dtypes import Char
from hyperslab.model.paths import split

# -- ------------------------------------------------------------------------------------------------------------------
# Cells of an array that xarray reads when it needs them.


class LazyCells(BackendArray):
    """An ``Array`` behind xarray's explicit indexers; it pickles as the array does, and threads may share it."""

    __slots__ = ("_source", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._source = array
        self.shape = array.shape
        self.dtype = xarray_dtype(array.data_type)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kind = indexing.IndexingSupport.VECTORIZED
        return indexing.explicit_indexing_adapter(key, self.shape, kind, self._reader(key))

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in a thread, for ``Dataset.load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _reader(self, key: indexing.ExplicitIndexer) -> Any:
        # Not ``array[key]``, which goes on with what takes its place: the other variables are of the old one.
        array = self._source
        taken: Any = array.vindex if isinstance(key, indexing.VectorizedIndexer) else array.oindex
        return lambda raw: as_xarray(_as_array(taken[raw], array.dtype), self.dtype)


def _as_array(cells: Any, dtype: np.dtype) -> np.ndarray:
    """Return the cells; a single reference to a region is not read, and a single cell of any length is one object."""
    if isinstance(cells, REFERENCES):
        return as_cells(cells)
    if dtype.kind == "O" and isinstance(cells, np.ndarray) and cells.dtype != object:
        alone = np.empty((), object)
        alone[()] = cells
        return alone
    return np.asarray(cells, dtype)


_log = logging.getLogger("hyperslab")


class GroupStore(AbstractDataStore):
    """What xarray loads a dataset from: one group, or one array that is a dataset of its own."""

    def __init__(self, node: Group | Array, drop: Iterable[str] = ()) -> None:
        self._node = node
        self._drop = frozenset(drop)
        self._found: dict[str, Array] | None = None

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays by name; one whose document is damaged is left out with a warning in the log."""
        if self._found is None:
            self._found = {name: array for name, array in self._look() if name not in self._drop}
        return self._found

    def _look(self) -> Iterator[tuple[str, Array]]:
        if isinstance(self._node, Array):
            yield self._node.name or "data", self._node
            return
        for name in self._node:
            try:
                node = self._node[name]
            except HyperslabError as error:
                _log.warning("%s is left out: %s", name, error)
                continue
            if isinstance(node, Array):
                yield name, node

    def get_variables(self) -> Mapping[str, xr.Variable]:
        """Every array as a variable of stored (encoded) values."""
        names = _Anonymous(self.arrays)
        return {name: _variable(array, names.of(array)) for name, array in self.arrays.items()}

    def get_attrs(self) -> Mapping[str, Any]:
        """The group's attributes."""
        return _plain(self._node.attrs, self._node._session.format) if isinstance(self._node, Group) else {}

    def get_dimensions(self) -> Mapping[str, int]:
        """Sizes by name."""
        names = _Anonymous(self.arrays)
        return {
            dim: size for array in self.arrays.values() for dim, size in zip(names.of(array), array.shape, strict=True)
        }

    def get_encoding(self) -> Mapping[str, Any]:
        """Where it comes from, and which dimensions are unlimited."""
        dims = self._node.dims if isinstance(self._node, Group) else {}
        return {
            "source": self._node.url,
            "unlimited_dims": {name for name, dim in dims.items() if dim.unlimited},
        }

    def close(self) -> None:
        """Let go of the dataset."""
        if isinstance(self._node, Group):
            self._node.close()


class _Anonymous:
    """Names for dimensions that have none: ``phony_dim_0`` and so on, one for each length, as h5netcdf gives them.

    In HDMF a name says what kind of axis this is, and axes of several lengths share it: one length keeps it.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._names: dict[tuple[int, int], str] = {}
        self._kept: dict[str, int] = {}
        for _, array in sorted(arrays.items(), key=lambda pair: pair[1].dims != (pair[0],)):
            for dim, size in zip(array.dims, array.shape, strict=True):
                if dim is not None and array._session.format.traits.repeats_dimensions:
                    self._kept.setdefault(dim, size)

    def of(self, array: Array) -> tuple[str, ...]:
        seen: dict[int, int] = {}
        names = []
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim is not None and self._kept.get(dim, size) == size:
                names.append(dim)
                continue
            seen[size] = seen.get(size, 0) + 1
            names.append(self._names.setdefault((size, seen[size]), f"phony_dim_{len(self._names)}"))
        return tuple(names)


def _variable(array: Array, dims: tuple[str, ...]) -> xr.Variable:
    cells = indexing.LazilyIndexedArray(LazyCells(array))
    return xr.Variable(dims, cells, stored_attrs(array), _encoding(array, dims))


def _plain(attrs: Mapping[str, Any], format: Format) -> dict[str, Any]:
    """Return the attributes, references as the paths that they lead to; texts of netCDF without the NULs that programs
    in C end them with, as xarray's own engine gives them."""
    plain = {
        name: str(value) if isinstance(value, REFERENCES) else value
        for name, value in attrs.items()
        if name != PROVENANCE  # no engine of xarray gives it
    }
    if not format.traits.netcdf_attributes:
        return plain
    ended = {name: value.rstrip("\0") for name, value in plain.items() if isinstance(value, str) and value[-1:] == "\0"}
    return plain | ended


def stored_attrs(array: Array) -> dict[str, Any]:
    """Return the attributes with what means missing."""
    return _plain(with_missing(array._session, array.spec), array._session.format)


def _encoding(array: Array, dims: tuple[str, ...]) -> dict[str, Any]:
    """How the cells are stored, for whoever writes them again; ``preferred_chunks`` are what ``chunks={}`` means."""
    stored = array.shards or array.chunks
    encoding: dict[str, Any] = {
        "chunks": array.chunks,
        "shards": array.shards,
        "codec": array.codec,
        "dtype": xarray_dtype(array.data_type),
        "source": array.url,
        "original_shape": array.shape,
    }
    if array.spec.fill_value is not None and array._session.format.traits.fill_value == "apart":
        encoding["fill_value"] = array.spec.fill_value
    if array.ndim and 0 not in array.shape:
        encoding["preferred_chunks"] = dict(zip(dims, stored, strict=True))
    return encoding


def open_group(
    node: Group | Array, *, drop_variables: str | Iterable[str] | None = None, **decoders: Any
) -> xr.Dataset:
    """Return the group as a Dataset, decoded as ``decoders`` (those of ``xarray.open_dataset``) say; nothing is read.

    Unless ``concat_characters`` says otherwise, chars are joined to texts, and bytes of length 1 (Zarr) are not.
    """
    drop = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
    store = GroupStore(node, drop)
    chars = {name: isinstance(array.data_type, Char) for name, array in store.arrays.items()}
    dataset = StoreBackendEntrypoint().open_dataset(store, **{"concat_characters": chars, **decoders})
    computed = computed_coordinates(store.arrays.values(), dataset)
    return dataset if computed is None else dataset.assign_coords(computed)


def indexed(dataset: xr.Dataset) -> xr.Dataset:
    """With an index for every dimension coordinate, as ``xarray.open_dataset`` adds them to what an engine gives."""
    wanted = {
        name: coordinate.variable
        for name, coordinate in dataset.coords.items()
        if coordinate.dims == (name,) and name not in dataset.xindexes
    }
    return dataset.assign_coords(xr.Coordinates(wanted))


def open_groups(root: Group, **decoders: Any) -> dict[str, xr.Dataset]:
    """The group and all groups below it, by path as ``DataTree.from_dict`` takes them."""
    found = {}
    waiting = [("/", root)]
    while waiting:
        path, group = waiting.pop()
        found[path] = open_group(group, **decoders)
        below = [(f"{path.rstrip('/')}/{name}", inner) for name, inner in group.groups()]
        waiting += reversed(below)
    return found


def open_array(array: Array, **decoders: Any) -> xr.DataArray:
    """One array with the coordinates that stand in its group; those of a collection have their own."""
    above, name = split(array.path)
    alone = not array.path or array._session.format.traits.has_collections
    return open_lazy(array if alone else Group(array._session, above), **decoders)[name or "data"]


def open_lazy(node: Group | Array, chunks: Any = None, **options: Any) -> xr.Dataset:
    """What is open already by ``xarray.open_dataset``; Invalid for chunks that make no sense."""
    known: Any = node  # our engine takes it
    _check_options(xr.open_dataset, options)
    _need_manager(chunks)
    with named_chunks(chunks):
        dataset = xr.open_dataset(known, engine="hyperslab", chunks=chunks, **options)
    check_chunks([dataset], chunks)
    return dataset


def open_lazy_tree(group: Group, chunks: Any = None, **options: Any) -> xr.DataTree:
    """The same by ``xarray.open_datatree``."""
    known: Any = group
    _check_options(xr.open_datatree, options)
    _need_manager(chunks)
    with named_chunks(chunks):
        tree = xr.open_datatree(known, engine="hyperslab", chunks=chunks, **options)
    check_chunks([node.dataset for node in tree.subtree], chunks)
    return tree


def _check_options(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """TypeError for an option that neither xarray's function has nor our engine, of what is open already."""
    known = {*signature(function).parameters, "group"}
    unknown = [name for name, value in options.items() if name not in known and value is not None]
    if unknown:
        raise TypeError(f"unexpected option {unknown[0]!r} for what is open already")


def _need_manager(chunks: Any) -> None:
    """MissingLibrary, of dask, where chunks are asked for and xarray knows nothing that has them."""
    if chunks is not None and not list_chunkmanagers():
        library("dask.array")


@contextmanager
def named_chunks(chunks: Any) -> Iterator[None]:
    """What dask says of chunks as an error of ours."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError) as error:
        if chunks is None or isinstance(error, HyperslabError):
            raise
        remedy = "give lengths by dimension, 'auto', {} for the stored ones, or a size such as '64 MiB'"
        raise Invalid(f"chunks={chunks!r}: {error}", remedy=remedy) from error
