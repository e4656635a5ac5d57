"""A group as an xarray Dataset: variables over lazy cells, attributes and encoding; decoding is xarray's own."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray import indexes
from xarray.backends import AbstractDataStore, BackendArray, StoreBackendEntrypoint
from xarray.core import indexing
from xarray.namedarray.parallelcompat import list_chunkmanagers

from hyperslab.array import Array
from hyperslab.array.attributes import with_missing
from hyperslab.array.indexes import find_series_index
from hyperslab.array.references import REFERENCES, as_cells
from hyperslab.array.series import SECONDS
from hyperslab.bridges.extras import library
from hyperslab.bridges.xarray.scales import RegularIndex, coordinates_with
from hyperslab.bridges.xarray.storable import as_xarray, check_chunks, xarray_dtype
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import PROVENANCE, Format
from hyperslab.formats.codec_kinds import inner_codecs
from hyperslab.group import Group
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dims import Index, Labels, ScaleIndex, TimeScale, show_sizes, sizes_by_dimension
from hyperslab.model.dtypes import Char
from hyperslab.model.paths import join, split

# A regular scale of so many labels is listed: each takes 1 us. xarray aligns and reindexes listed labels alone.
_MOST_LISTED = 1 << 16

# -- cells of an array that xarray reads when it needs them ------------------------------------------------------------


class LazyCells(BackendArray):
    """An ``Array`` behind xarray's explicit indexers; it pickles as the array does, and threads may share it."""

    __slots__ = ("_source", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._source = array
        self.shape = array.shape
        self.dtype = xarray_dtype(array.data_type)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kind = indexing.IndexingSupport.VECTORIZED
        # Not ``array[key]``, which goes on with what takes its place: the other variables are of the old one.
        array = self._source
        view: Any = array.vindex if isinstance(key, indexing.VectorizedIndexer) else array.oindex

        def read(raw: Any) -> np.ndarray:
            return as_xarray(_as_array(view[raw], array.dtype), self.dtype)

        return indexing.explicit_indexing_adapter(key, self.shape, kind, read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """Read the cells in a thread, for ``Dataset.load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)


def _as_array(cells: Any, dtype: np.dtype) -> np.ndarray:
    """Return the cells; a single reference to a region is not read, and a single cell of any length is one object."""
    if isinstance(cells, REFERENCES):
        return as_cells(cells)
    if dtype.kind == "O" and isinstance(cells, np.ndarray) and cells.dtype != object:
        single = np.empty((), object)
        single[()] = cells
        return single
    return np.asarray(cells, dtype)


# -- a group as a store of variables -----------------------------------------------------------------------------------

_log = logging.getLogger("hyperslab")


PhonyNames = dict[tuple[int, int], str]
"""The names that nameless dimensions have by their size and number, in one group or in all groups of a tree."""


class GroupStore(AbstractDataStore):
    """A store that xarray loads a dataset from: one group, or one array that is a dataset of its own."""

    def __init__(self, node: Group | Array, drop: Iterable[str] = (), phony_names: PhonyNames | None = None) -> None:
        self._node = node
        self._group = node if isinstance(node, Group) else None
        self._drop = frozenset(drop)
        self._phony_names: PhonyNames = {} if phony_names is None else phony_names

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """Return the arrays by name; one whose document is damaged is left out with a warning in the log."""
        if self._group is None:
            found = {self._node.name or "data": self._node}
        else:
            found = {}
            for name in self._group:
                if name in self._drop:
                    continue
                try:
                    found[name] = self._group[name]
                except HyperslabError as error:
                    _log.warning("%s is left out: %s", name, error)
        return {name: node for name, node in found.items() if isinstance(node, Array) and name not in self._drop}

    def get_variables(self) -> Mapping[str, xr.Variable]:
        """Return every array as a variable of stored (encoded) values."""
        names = _DimensionNames(self.arrays, self._phony_names)
        variables = {}
        for name, array in self.arrays.items():
            dims = names.of(array)
            cells = indexing.LazilyIndexedArray(LazyCells(array))
            variables[name] = xr.Variable(dims, cells, stored_attrs(array), _encoding(array, dims))
        return variables

    def get_attrs(self) -> Mapping[str, Any]:
        """Return the group's attributes."""
        return {} if self._group is None else _plain(self._group.attrs, self._group._session.format)

    def get_dimensions(self) -> Mapping[str, int]:
        """Return the sizes of dimensions by name."""
        names = _DimensionNames(self.arrays, self._phony_names)
        return {
            dim: size for array in self.arrays.values() for dim, size in zip(names.of(array), array.shape, strict=True)
        }

    def get_encoding(self) -> Mapping[str, Any]:
        """Return where the dataset comes from, and which dimensions are unlimited."""
        dims = {} if self._group is None else self._group.dims
        return {
            "source": self._node.url,
            "unlimited_dims": {name for name, dim in dims.items() if dim.unlimited},
        }

    def close(self) -> None:
        """Close the dataset."""
        if self._group is not None:
            self._group.close()


class _DimensionNames:
    """Names for dimensions that have none: ``phony_dim_0`` and so on, one for each length, as h5netcdf gives them.

    In HDMF a name says what kind of axis this is, and axes of several lengths share it: one length keeps it.
    """

    def __init__(self, arrays: Mapping[str, Array], phony_names: PhonyNames) -> None:
        self._phony_names = phony_names
        self._length_by_name: dict[str, int] = {}
        for _, array in sorted(arrays.items(), key=lambda pair: pair[1].dims != (pair[0],)):
            for dim, size in zip(array.dims, array.shape, strict=True):
                if dim is not None and array._session.format.traits.repeats_dimensions:
                    self._length_by_name.setdefault(dim, size)

    def of(self, array: Array) -> tuple[str, ...]:
        """Return the names of an array's dimensions; of several nameless ones of a length each has its own."""
        count: Counter[int] = Counter()
        names = []
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim is not None and self._length_by_name.get(dim, size) == size:
                names.append(dim)
                continue
            count[size] += 1
            names.append(self._phony_names.setdefault((size, count[size]), f"phony_dim_{len(self._phony_names)}"))
        return tuple(names)


def _plain(attrs: Mapping[str, Any], format: Format) -> dict[str, Any]:
    """Return the attributes, references as the paths that they lead to; texts of netCDF as xarray's own engine gives
    them: without the NULs that programs in C end them with, several as a list, an array of one as the text."""
    plain = {
        name: str(value) if isinstance(value, REFERENCES) else value
        for name, value in attrs.items()
        if name != PROVENANCE  # no engine of xarray gives it
    }
    if not format.traits.netcdf_attributes:
        return plain
    ended = {name: value.rstrip("\0") for name, value in plain.items() if isinstance(value, str) and value[-1:] == "\0"}
    arrays = {name: value for name, value in plain.items() if isinstance(value, np.ndarray)}
    texts = {name: value.tolist() for name, value in arrays.items() if value.dtype.kind == "T" and value.ndim == 1}
    return plain | ended | {name: value[0] if len(value) == 1 else value for name, value in texts.items()}


def stored_attrs(array: Array) -> dict[str, Any]:
    """Return the attributes with what means missing."""
    attrs = _plain(with_missing(array._session, array.spec), array._session.format)
    fill = attrs.get(FILL_VALUE)
    return attrs | {FILL_VALUE: fill[()]} if isinstance(fill, np.ndarray) and not fill.ndim else attrs


def _encoding(array: Array, dims: tuple[str, ...]) -> dict[str, Any]:
    """Return how the cells are stored, for whoever writes them again; ``preferred_chunks``: those of ``chunks={}``."""
    stored = array.shards or array.chunks
    encoding: dict[str, Any] = {
        "chunks": array.chunks,
        "shards": array.shards,
        "codec": tuple(inner_codecs(array.codec)) if array.shards else array.codec,
        "dtype": xarray_dtype(array.data_type),
        "source": array.url,
        "original_shape": array.shape,
    }
    if array.spec.fill_value is not None and array._session.format.traits.fill_value == "apart":
        encoding["fill_value"] = array.spec.fill_value
    if array.ndim and 0 not in array.shape:
        encoding["preferred_chunks"] = dict(zip(dims, stored, strict=True))
    return encoding


# -- labels that a format keeps with its arrays, and no coordinate array holds -----------------------------------------


def computed_coordinates(arrays: Iterable[Array], dataset: xr.Dataset) -> xr.Coordinates | None:
    """Return the indexed coordinates of labels that are in no array; None where there are none.

    Arrays that call the positions of one dimension differently leave it without labels.
    """
    shared: dict[str, Index | None] = {}
    for array in arrays:
        for dim in array.dims:
            if dim is not None:
                index = array.spec.indexes.get(dim)
                shared[dim] = index if shared.get(dim, index) == index else None
    found: xr.Coordinates | None = None
    for dim, index in shared.items():
        if index is not None and dim not in dataset.variables:
            coordinates = coordinates_of(dim, index)
            found = coordinates if found is None else found.assign(coordinates)
    return found


def seconds_of_samples(arrays: Mapping[str, Array], dataset: xr.Dataset) -> xr.Coordinates | None:
    """Return the seconds of a series of NWB as the indexed coordinate ``time`` of its samples; None of others, and of
    one whose timestamps cannot be read, with a warning in the log."""
    array = arrays.get("data")
    if array is None or SECONDS in dataset.variables or not dataset.variables["data"].dims:
        return None
    try:
        index = find_series_index(array._session, array.path, array.spec)
    except HyperslabError as error:
        _log.warning("%s has no seconds: %s", array.path, error)
        return None
    return None if index is None else coordinates_of(str(dataset.variables["data"].dims[0]), index, SECONDS)


def coordinates_of(dim: str, index: Index, name: str | None = None) -> xr.Coordinates:
    """Return the labels of one dimension as coordinates, and their index; ``name``: of the coordinate, where that is
    not the dimension's. Seconds of samples, and many labels of another scale, are computed where they are read."""
    name = dim if name is None else name
    match index:
        case ScaleIndex(rate=rate, size=size) if rate is not None or size > _MOST_LISTED:
            return coordinates_with(RegularIndex(index, dim, name), name)
        case ScaleIndex(size=size):
            values = index.labels(range(size))
        case TimeScale(start=first, step=pace, size=size):
            values = first + np.arange(size) * pace
        case Labels(names=names):
            values = np.array(names, dtype=object)
        case _:
            values = np.asarray(index.values)
    if name == dim:
        return xr.Coordinates({dim: (dim, values)})
    return coordinates_with(indexes.PandasIndex(pd.Index(values, name=name), dim), name)


# -- datasets ----------------------------------------------------------------------------------------------------------


def open_group(
    node: Group | Array,
    *,
    drop_variables: str | Iterable[str] | None = None,
    phony_names: PhonyNames | None = None,
    **decoders: Any,
) -> xr.Dataset:
    """Return the group as a Dataset, decoded as ``decoders`` (those of ``xarray.open_dataset``) say; nothing is read.
    Unsupported where its arrays have several sizes of one dimension. ``phony_names``: those of other groups of a tree.

    Unless ``concat_characters`` says otherwise, chars are joined to texts, and bytes of length 1 (Zarr) are not.
    """
    drop = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
    store = GroupStore(node, drop, phony_names)
    remedy = "open one of the arrays alone (group='PATH', or Array.to_xarray), or leave others out by drop_variables"
    refuse_several_sizes(store.arrays, node.url, node.path, remedy)
    chars = {name: isinstance(array.data_type, Char) for name, array in store.arrays.items()}
    dataset = StoreBackendEntrypoint().open_dataset(store, **{"concat_characters": chars, **decoders})
    for computed in (computed_coordinates(store.arrays.values(), dataset), seconds_of_samples(store.arrays, dataset)):
        dataset = dataset if computed is None else dataset.assign_coords(computed)
    return dataset


def refuse_several_sizes(arrays: Mapping[str, Array], url: str, node: str, remedy: str) -> None:
    """Raise Unsupported where arrays, such as the levels of an image pyramid, have several sizes of one dimension, of
    which a Dataset has one."""
    for dim, by_size in _sizes_of(arrays).items():
        if len(by_size) > 1:
            message = f"a Dataset has one size of each dimension, and {dim!r} has several: {show_sizes(by_size)}"
            raise Unsupported(message, url=url, node=node, remedy=remedy)


def _sizes_of(arrays: Mapping[str, Array]) -> dict[str, dict[int, list[str]]]:
    """Return the arrays by dimension and its size, but for those whose dimensions get other names in a Dataset."""
    kept = ((name, each) for name, each in arrays.items() if not each._session.format.traits.repeats_dimensions)
    return sizes_by_dimension((name, each.dims, each.shape) for name, each in kept)


def _names_of_other_sizes(array: Array, arrays: Mapping[str, Array]) -> set[str]:
    """Return the names of arrays whose dimensions have other sizes than those of ``array``, or than one another: no
    Dataset has them beside it."""
    own = dict(zip(array.dims, array.shape, strict=True))
    return {
        name
        for dim, by_size in _sizes_of(arrays).items()
        for size, names in by_size.items()
        for name in names
        if (own[dim] != size if dim in own else len(by_size) > 1)
    }


def _has_other_labels(beside: Array, array: Array) -> bool:
    """Return True if an array has labels of its own along a dimension of ``array`` that are not those of ``array``, as
    the times of another run in a collection that is read as Zarr."""
    own = array.spec.indexes
    return any(beside.spec.indexes.get(dim, own[dim]) != own[dim] for dim in own if dim in beside.dims)


def indexed(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with an index for every dimension coordinate, as ``xarray.open_dataset`` adds
    them to what an engine gives."""
    wanted = {
        name: coordinate.variable
        for name, coordinate in dataset.coords.items()
        if coordinate.dims == (name,) and name not in dataset.xindexes
    }
    return dataset.assign_coords(xr.Coordinates(wanted))


def open_groups(root: Group, **decoders: Any) -> dict[str, xr.Dataset]:
    """Return the group and all groups below it, by path as ``DataTree.from_dict`` takes them."""
    found = {}
    phony_names: PhonyNames = {}  # a tree has one size of a dimension in a group and those below
    waiting = [("/", root)]
    while waiting:
        path, group = waiting.pop()
        found[path] = open_group(group, phony_names=phony_names, **decoders)
        below = [(f"{path.rstrip('/')}/{name}", inner) for name, inner in group.groups()]
        waiting += reversed(below)
    return found


def refuse_unaligned(datasets: Mapping[str, xr.Dataset], root: Group) -> None:
    """Raise Unsupported where a group has another size of a dimension than one around it, which no DataTree has.
    ``datasets``: by path, each behind those around it."""
    sizes: dict[str, dict[str, tuple[int, str]]] = {}  # of a group and those around it, and where each is from
    for path, dataset in datasets.items():
        around = {} if path == "/" else sizes[path.rpartition("/")[0] or "/"]
        for dim, size in dataset.sizes.items():
            known, where = around.get(str(dim), (size, path))
            if known != size:
                message = "a DataTree has one size of a dimension in a group and those below"
                message += f", and {dim!r} has {known} in {where} and {size} in {path}"
                remedy = "open the groups one by one (xr.open_groups, or open_dataset with group='PATH')"
                raise Unsupported(message, url=root.url, node=join(root.path, path.strip("/")), remedy=remedy)
        sizes[path] = {str(dim): (size, path) for dim, size in dataset.sizes.items()} | around


def open_array(array: Array, **decoders: Any) -> xr.DataArray:
    """Return one array with the coordinates that stand in its group; those of a collection have their own."""
    name = split(array.path)[1]
    if not array.path or array._session.format.traits.has_collections:
        return open_lazy(array, **decoders)[name or "data"]
    group, _, dropped = _drop_unfitting(array, decoders.pop("drop_variables", None))
    return open_lazy(group, drop_variables=dropped, **decoders)[name]


def open_labelled(array: Array, drop_variables: str | Iterable[str] | None = None, **decoders: Any) -> xr.Dataset:
    """Open one array with the coordinates that stand in its group, and without the other arrays."""
    name = split(array.path)[1]
    chosen = [drop_variables] if isinstance(drop_variables, str) else [*(drop_variables or ())]
    if not array.path or array._session.format.traits.has_collections or name in chosen:
        return open_group(array, drop_variables=chosen, **decoders)
    group, arrays, dropped = _drop_unfitting(array, chosen)
    # what has other dimensions is no coordinate of it, and need not fit to it
    dropped += [each for each, beside in arrays.items() if not {*beside.dims} <= {*array.dims}]
    dataset = open_group(group, drop_variables=dropped, **decoders)
    if name in dataset.coords:
        return open_group(array, drop_variables=chosen, **decoders)
    labelled = dataset[[name]]
    labelled.set_close(array.close)
    return labelled


def _drop_unfitting(array: Array, drop: str | Iterable[str] | None) -> tuple[Group, Mapping[str, Array], list[str]]:
    """Return the group of an array, its arrays, and the names of what no Dataset has beside the array: those to
    ``drop``, arrays of other sizes or with other labels of their own, and damaged ones, which are told of once."""
    above, name = split(array.path)
    group = Group(array._session, above)
    dropped = {drop} if isinstance(drop, str) else {*(drop or ())}
    arrays = GroupStore(group, dropped).arrays
    dropped |= {each for each in group if each not in arrays} | _names_of_other_sizes(array, arrays)
    dropped |= {each for each, beside in arrays.items() if _has_other_labels(beside, array)}
    return group, arrays, sorted(dropped - {name})


def open_lazy(node: Group | Array, chunks: Any = None, **options: Any) -> xr.Dataset:
    """Open what is open already by ``xarray.open_dataset``; Invalid for chunks that make no sense."""
    known: Any = node  # our engine takes it
    _check_options(xr.open_dataset, options)
    _need_manager(chunks)
    with named_chunks(chunks):
        dataset = xr.open_dataset(known, engine="hyperslab", chunks=chunks, **options)
    check_chunks([dataset], chunks)
    return dataset


def open_lazy_tree(group: Group, chunks: Any = None, **options: Any) -> xr.DataTree:
    """Open a group that is open already by ``xarray.open_datatree``; Invalid for chunks that make no sense."""
    known: Any = group
    _check_options(xr.open_datatree, options)
    _need_manager(chunks)
    with named_chunks(chunks):
        tree = xr.open_datatree(known, engine="hyperslab", chunks=chunks, **options)
    check_chunks([node.dataset for node in tree.subtree], chunks)
    return tree


def _check_options(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError for an option that neither xarray's function has nor our engine, of what is open already."""
    known = {*signature(function).parameters, "group"}
    unknown = [name for name, value in options.items() if name not in known and value is not None]
    if unknown:
        raise TypeError(f"unexpected option {unknown[0]!r} for what is open already")


def _need_manager(chunks: Any) -> None:
    """Raise MissingLibrary, of dask, where chunks are wanted and xarray has no library for them."""
    if chunks is not None and not list_chunkmanagers():
        library("dask.array")


@contextmanager
def named_chunks(chunks: Any) -> Iterator[None]:
    """Raise Invalid for what dask says of chunks."""
    try:
        yield
    except HyperslabError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        if chunks is None:
            raise
        remedy = "give lengths by dimension, 'auto', {} for the stored ones, or a size such as '64 MiB'"
        raise Invalid(f"chunks={chunks!r}: {error}", remedy=remedy) from error
