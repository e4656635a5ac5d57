"""A Dataset into a group: new variables, rows behind those that are there, or cells within a region of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array
from hyperslab.bridges.xarray.dtypes import hyperslab_dtype
from hyperslab.bridges.xarray.encoding import CF, Encoding, encoded, plain_attrs
from hyperslab.bridges.xarray.fitting import check_dims, check_meaning, same_kind
from hyperslab.bridges.xarray.reading import indexed, open_group, stored_attrs
from hyperslab.bridges.xarray.replacing import replacing
from hyperslab.errors import Invalid
from hyperslab.formats.fill_values import same_fill
from hyperslab.group import Group
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import GroupSpec

Region = Mapping[str, slice]
_BLOCK = 64 << 20  # bytes of a lazy variable that are in memory at a time
_APPENDING = (1 << 62) - 1  # the lock range of a group into which rows are put, apart from those of chunks and keys


@dataclass(frozen=True, kw_only=True)
class Storing:
    """How new arrays are stored: for all (``chunks`` by dimension, ``codec``) and by variable (``encoding``);
    ``compute=False`` leaves dask arrays to be written later.
    """

    chunks: Any = None
    codec: Any = None
    encoding: Encoding | None = None
    compute: bool = True


@dataclass(frozen=True)
class Later:
    """A dask array that is still to be written: into the array at ``path`` of the dataset, or a region of it."""

    path: str
    variable: xr.Variable
    where: Any


def write_new(group: Group, dataset: xr.Dataset, how: Storing) -> list[Later]:
    """Every variable as a new array of a new or empty group; gives what is left to compute."""
    variables, attrs = encoded(dataset, how.encoding)
    unlimited = dataset.encoding.get("unlimited_dims") or ()
    dims = tuple(
        Dimension(str(name), size, name in unlimited) for name, size in dataset.sizes.items() if name in unlimited
    )
    writer = group._session.writer()
    with group.batch():
        writer.put(group.path, GroupSpec(attrs=plain_attrs(attrs), dims=dims))
        arrays = {name: _create(group, name, variable, how) for name, variable in variables.items()}
    return _write_all(((arrays[name], variable, ...) for name, variable in variables.items()), how.compute)


def write_over(group: Group, dataset: xr.Dataset, how: Storing) -> list[Later]:
    """Variables added to a group; those of the same name must have its shape and get the new cells and attributes, and
    are made anew where their dtype or encoding is to be another. Attributes are added to the group's.
    """
    variables, attrs = encoded(detached(dataset, group.url), how.encoding)
    _check_sizes(group, dataset)
    for name in variables:
        if name in group:
            check_dims(name, variables[name], group[name])
    made = [name for name in variables if name in (how.encoding or {}) or not _holds(group, name, variables[name])]
    _refuse_later(group, variables, made, how)
    with replacing(group, made) as places:
        with group.batch():
            for name in made:
                _create(group, name, variables[name], how, places[name])
        later = _write_all(((group[places.get(name, name)], variables[name], ...) for name in variables), how.compute)
    with group.batch():
        group.attrs.update(plain_attrs(attrs))
        for name in variables.keys() - places.keys():
            group[name].attrs.update(plain_attrs(variables[name].attrs))
    return later


def _refuse_later(group: Group, variables: Mapping[str, xr.Variable], made: Iterable[str], how: Storing) -> None:
    """What takes the place of another array is complete before."""
    late = [name for name in made if name in group and is_chunked_array(variables[name]._data)]
    if late and not how.compute:
        raise Invalid(f"{late[0]!r} exists and is to be made anew later", remedy="leave compute=False out")


def _holds(group: Group, name: str, variable: xr.Variable) -> bool:
    """Whether there is an array that can take the variable's cells as it is."""
    array = group.get(name)
    if not isinstance(array, Array):
        return False
    fills = stored_attrs(array).get("_FillValue"), variable.attrs.get("_FillValue")
    return same_kind(variable, array) and same_fill(*(None if fill is None else np.asarray(fill)[()] for fill in fills))


def _check_sizes(group: Group, dataset: xr.Dataset) -> None:
    """Dimensions of the lengths that they have in the group already."""
    for dim, size in dataset.sizes.items():
        known = group.dims.get(str(dim))
        if known is not None and known.size != size:
            remedy = "append_dim= adds rows, region= changes some, mode='w' replaces all"
            raise Invalid(f"{dim!r} has {size} cells, in the dataset it has {known.size}", url=group.url, remedy=remedy)


def detached(dataset: xr.Dataset, url: str) -> xr.Dataset:
    """The dataset with what is read from ``url`` in memory, since it may be gone or changed before it is asked for.

    Invalid where that would be dask arrays, which are large.
    """
    result = dataset.copy()
    for name, variable in result.variables.items():
        if variable._in_memory or variable.encoding.get("source") != url:
            continue
        if is_chunked_array(variable._data):
            remedy = "load() it first, or save it elsewhere"
            raise Invalid(f"{name!r} is read from the dataset that is to be changed", url=url, remedy=remedy)
        result[name].load()
    return result


def append(group: Group, dataset: xr.Dataset, dim: str, how: Storing) -> list[Later]:
    """Rows behind the last of ``dim`` in every variable that has it, at once; the new shapes are published together.

    New variables without ``dim`` are made; those that exist stay as they are.
    """
    with _appending(group):
        existing = _existing(group)
        rest = [name for name in dataset.variables if dim not in dataset[name].dims]
        rows = dataset.drop_vars(rest)
        if dim not in rows.dims:
            raise Invalid(f"nothing to append along {dim!r}", remedy=f"there are {tuple(dataset.dims)}")
        _check_lengths(group, existing, rows, dim)
        _check_labels(existing, dataset, dim)
        variables, _ = encoded(_as_stored(detached(rows, group.url), existing, how))
        arrays: dict[str, Any] = {name: group[name] for name in variables}
        for name, array in arrays.items():
            check_dims(name, variables[name], array, dim)
            check_meaning(name, rows.variables[name], variables[name], array)
        with group.batch():
            for name, array in arrays.items():
                array.append(_cells(variables[name]), dim)
        fresh = [name for name in rest if name not in existing.variables]
        return write_over(group, dataset[fresh], how) if fresh else []


def write_region(
    group: Group, dataset: xr.Dataset, region: Mapping[str, Any] | Literal["auto"], how: Storing
) -> list[Later]:
    """Cells within ``region`` of what is there; ``auto``: where the coordinates are the same."""
    existing = _existing(group)
    dims = _region_dims(region, dataset)
    outside = [name for name in dataset.variables if not set(dataset[name].dims) & dims]
    if outside:
        raise Invalid(
            f"variables without any dimension of the region: {outside}", remedy="drop_vars() them before writing"
        )
    missing = [name for name in dataset.variables if name not in existing.variables]
    if missing:
        raise Invalid(f"variables that are not there: {missing}", remedy="write them with mode='a' first")
    key = _resolve(region, dataset, existing)
    variables, _ = encoded(_as_stored(detached(dataset, group.url), existing, how))
    writes = []
    for name, variable in variables.items():
        array: Any = group[name]
        writes.append((array, variable, _where(name, variable, array, key)))
        check_meaning(name, dataset.variables[name], variable, array)
    return _write_all(writes, how.compute)


def _where(name: str, variable: xr.Variable, array: Any, key: Region) -> tuple[slice, ...]:
    """The region of one array; Invalid when the variable is of another shape."""
    if variable.dims != array.dims:
        raise Invalid(f"{name!r} has dimensions {variable.dims}, stored are {array.dims}", remedy="transpose it")
    where = tuple(key.get(str(dim), slice(None)) for dim in variable.dims)
    sizes = tuple(len(range(*part.indices(length))) for part, length in zip(where, array.shape, strict=True))
    if sizes != variable.shape:
        raise Invalid(f"{name!r} is of shape {variable.shape}, the region of shape {sizes}")
    return where


# -- new arrays ---------------------------------------------------------------------------------------------------


def _create(group: Group, name: str, variable: xr.Variable, how: Storing, place: str | None = None) -> Array:
    """A new array for the variable, called ``place`` (its own name) for now."""
    layout = variable.encoding
    dtype = hyperslab_dtype(variable.dtype)
    fill = layout.get("fill_value", variable.attrs.get("_FillValue"))
    return group.create_array(
        place or name,
        shape=variable.shape,
        dtype=dtype,
        dims=variable.dims,
        chunks=_chunks(variable, how.chunks, (how.encoding or {}).get(name)),
        shards=layout.get("shards"),
        codec=layout.get("codec", "default") if how.codec is None else how.codec,
        checksum=layout.get("checksum"),
        fill_value=None if isinstance(fill, str | bytes) else fill,
        attrs=plain_attrs(variable.attrs),
    )


def _chunks(variable: xr.Variable, asked: Any, how_encoded: Mapping[str, Any] | None = None) -> Any:
    """As asked for the dimension or the variable, else as it was stored, else the dask chunks if they are regular."""
    own = variable.encoding.get("chunks") or variable.encoding.get("chunksizes")
    if own is None and variable.chunks and all(_is_regular(cuts) for cuts in variable.chunks):
        own = tuple(max(cuts[0], 1) for cuts in variable.chunks)
    if own is not None and not isinstance(own, int) and len(own) != variable.ndim:
        if "chunks" in (how_encoded or {}):
            raise Invalid(f"chunks {own!r} for {variable.ndim} dimensions", remedy="one length for each")
        own = None
    if isinstance(asked, Mapping):
        stored = (own,) * variable.ndim if isinstance(own, int) else own
        given = {dim: asked[dim] for dim in variable.dims if dim in asked}
        if stored is None:
            return given or "auto"
        return tuple(given.get(dim, cut) for dim, cut in zip(variable.dims, stored, strict=True))
    if asked is not None:
        return asked
    return "auto" if own is None else own


def _is_regular(cuts: tuple[int, ...]) -> bool:
    return len(set(cuts[:-1])) <= 1 and cuts[-1] <= cuts[0]


# -- cells --------------------------------------------------------------------------------------------------------


def _write_all(writes: Iterable[tuple[Any, xr.Variable, Any]], compute: bool) -> list[Later]:
    """Arrays, variables and the regions that they are for; gives the dask arrays that are left for later."""
    later = []
    for array, variable, where in writes:
        if not is_chunked_array(variable._data):
            _write_plain(array, variable, where)
        elif compute:
            write_chunked(array, variable, where)
        else:
            later.append(Later(array.path, variable, where))
    return later


def write_chunked(array: Array, variable: xr.Variable, where: Any, *, compute: bool = True) -> Any:
    """A dask array by blocks; with ``compute=False`` the Delayed that does it."""
    from hyperslab.bridges import dask

    return dask.write(array, variable.data, region=None if where is ... else where, compute=compute)


def _write_plain(array: Array, variable: xr.Variable, where: Any) -> None:
    """In one piece what is in memory, else by rows of chunks."""
    if variable._in_memory or not variable.ndim or variable.nbytes <= _BLOCK:
        array[where] = _cells(variable)
        return
    key = (slice(None),) * variable.ndim if where is ... else where
    first = key[0].indices(array.shape[0])[0]
    cut = array.grid.axes[0]
    row = max(variable.nbytes // max(variable.shape[0], 1), 1)
    step = max(cut.size_of(0), _BLOCK // row // cut.size_of(0) * cut.size_of(0))
    for start in range(0, variable.shape[0], step):
        stop = min(start + step, variable.shape[0])
        array[(slice(first + start, first + stop), *key[1:])] = _cells(variable[start:stop])


def _cells(variable: xr.Variable) -> np.ndarray[Any, Any]:
    cells = np.asarray(variable.values)
    if cells.dtype.kind == "O" and hyperslab_dtype(variable.dtype) is str:
        return np.where(variable.isnull().values, "", cells)  # what xarray's own writers make of missing text
    return cells


# -- what is there ------------------------------------------------------------------------------------------------


def _existing(group: Group) -> xr.Dataset:
    group._session.refresh(group.path)
    for _, array in group.arrays():
        array.refresh()
    return indexed(open_group(group))


def _as_stored(dataset: xr.Dataset, existing: xr.Dataset, how: Storing) -> xr.Dataset:
    """The dataset with the encoding of what is there, which the new cells must share (units, scale, dtype)."""
    if how.encoding:
        taken = [name for name in how.encoding if name in existing.variables]
        if taken:
            raise Invalid(f"variable {taken[0]!r} exists, so its encoding cannot be chosen", remedy="leave it out")
    result = dataset.copy()
    for name in result.variables:
        if name in existing.variables:
            known = existing.variables[name].encoding
            result[name].encoding = {key: known[key] for key in known if key in CF}
            stored = existing.variables[name].attrs
            result[name].attrs = {key: value for key, value in result[name].attrs.items() if key in stored}
    return result


def _check_lengths(group: Group, existing: xr.Dataset, rows: xr.Dataset, dim: str) -> None:
    """Every variable along ``dim`` is appended to, and all are of one length before."""
    missing = [name for name in rows.variables if name not in existing.variables]
    if missing:
        raise Invalid(f"variables that are not there: {missing}", remedy="write them with mode='a' first")
    left = [name for name in existing.variables if dim in existing[name].dims and name not in rows.variables]
    if left:
        raise Invalid(f"variables with {dim!r} that are not appended to: {left}", remedy="append to all of them")
    lengths = {str(name): existing[name].sizes[dim] for name in rows.variables}
    if len(set(lengths.values())) != 1:
        raise Invalid(f"the arrays have different lengths along {dim!r}: {lengths}", url=group.url)


def _check_labels(existing: xr.Dataset, dataset: xr.Dataset, dim: str) -> None:
    """Rows stand where their labels say: other dimensions have the stored ones, and ``dim`` goes on in order."""
    for name, index in dataset.indexes.items():
        if name == dim or name not in existing.indexes:
            continue
        if not index.equals(existing.indexes[name]):
            remedy = "select or reindex what is to be appended, so that the labels are the stored ones"
            raise Invalid(f"the labels of {name!r} are not those that are stored", remedy=remedy)
    if dim not in dataset.indexes or dim not in existing.indexes or len(existing.indexes[dim]) < 2:
        return
    stored = existing.indexes[dim]
    after = stored[-1:].append(dataset.indexes[dim])
    for direction in ("is_monotonic_increasing", "is_monotonic_decreasing"):
        if getattr(stored, direction) and not getattr(after, direction):
            remedy = "sort the rows, write those that exist by region='auto', or use Array.append if this is meant"
            raise Invalid(f"{dim!r} would no longer be sorted: {after[1]} behind {after[0]}", remedy=remedy)


def _region_dims(region: Any, dataset: xr.Dataset) -> set[str]:
    """The dimensions that a region names; Invalid for those that there are not."""
    if region == "auto":
        return {str(dim) for dim in dataset.dims}
    if not isinstance(region, Mapping) or not region:
        raise Invalid(f"region {region!r}", remedy="slices by dimension, or 'auto'")
    unknown = [str(dim) for dim in region if dim not in dataset.dims]
    if unknown:
        near = get_close_matches(unknown[0], map(str, dataset.dims), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {tuple(dataset.dims)}"
        raise Invalid(f"no dimension {unknown[0]!r} in what is to be written", remedy=hint)
    return {str(dim) for dim in region}


def _resolve(
    region: Mapping[str, Any] | Literal["auto"], dataset: xr.Dataset, existing: xr.Dataset
) -> dict[str, slice]:
    """Slices by dimension; ``auto`` finds where the coordinates of ``dataset`` stand in what is there."""
    wanted: Mapping[str, Any] = {str(dim): "auto" for dim in dataset.dims} if region == "auto" else region
    found = {}
    for dim, part in wanted.items():
        if dim not in dataset.dims or dim not in existing.dims:
            raise Invalid(f"no dimension {dim!r} in both", remedy=f"there are {tuple(existing.dims)}")
        found[dim] = _place(dim, dataset, existing) if part == "auto" else _checked_slice(dim, part)
    return found


def _checked_slice(dim: str, part: Any) -> slice:
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise Invalid(f"the region of {dim!r} is {part!r}", remedy="a slice without step, or 'auto'")
    return part


def _place(dim: str, dataset: xr.Dataset, existing: xr.Dataset) -> slice:
    if dim not in dataset.indexes and dataset.sizes[dim] == existing.sizes[dim]:
        return slice(0, existing.sizes[dim])
    if dim not in dataset.indexes or dim not in existing.indexes:
        raise Invalid(f"{dim!r} has no coordinate to find the region by", remedy="name the region by slices")
    if not existing.indexes[dim].is_unique:
        raise Invalid(f"labels of {dim!r} occur twice", remedy="name the region by slices")
    places = existing.indexes[dim].get_indexer(dataset.indexes[dim])
    if (places < 0).any():
        raise Invalid(f"some labels of {dim!r} are not there", remedy="append them first")
    if (np.diff(places) != 1).any():
        raise Invalid(f"the labels of {dim!r} do not stand side by side", remedy="sort them as they are stored")
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


def _appending(group: Group) -> AbstractContextManager[None]:
    """Hold the group against other appenders, where its store can."""
    store, timeout = group.store, group._session.settings.lock_timeout
    if hasattr(store, "lock_chunks"):
        held: AbstractContextManager[None] = store.lock_chunks(group.path, [_APPENDING], timeout)
        return held
    if hasattr(store, "lock_node"):  # a bucket: a lease of its own, since the group's is taken to publish the shapes
        leased: AbstractContextManager[None] = store.lock_node(f"{group.path}/.append".lstrip("/"), timeout)
        return leased
    return nullcontext()
