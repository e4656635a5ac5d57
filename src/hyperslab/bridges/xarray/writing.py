"""Write a Dataset into a group: new variables, rows behind those that are there, or cells within a region of them."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from numbers import Integral
from operator import mod
from typing import Any, Literal

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array
from hyperslab.array.lazy_cells import is_any_sparse
from hyperslab.array.narrowing import require_fit
from hyperslab.bridges.sparse import fill_of
from hyperslab.bridges.xarray.cells import DelayedWrite, with_length, write_now
from hyperslab.bridges.xarray.encoding import CF, DECODED, Encoding, encoded, plain_attrs
from hyperslab.bridges.xarray.fitting import (
    check_calendars,
    check_dims,
    check_meaning,
    check_names,
    fits_text,
    same_kind,
)
from hyperslab.bridges.xarray.reading import indexed, open_group, stored_attrs
from hyperslab.chunks.auto import MANY
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import PROVENANCE, Feature
from hyperslab.formats.metadata_json.cells import fill_values_equal
from hyperslab.group import Group
from hyperslab.group.creation import room_for_text
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import as_data_type
from hyperslab.model.guessing import meant
from hyperslab.model.spec import GroupSpec

# -- where the cells of a Dataset belong in what is there: slices by dimension, chosen or found by labels --------------


def resolve_region(
    region: Mapping[str, Any] | Literal["auto"], dataset: xr.Dataset, existing: xr.Dataset
) -> dict[str, slice]:
    """Return slices by dimension; ``auto`` finds where the coordinates of ``dataset`` stand in what is there.

    Invalid where a variable has none of the dimensions: it would be written again with each region.
    """
    if region == "auto":
        region = {str(dim): "auto" for dim in dataset.dims}
    elif not isinstance(region, Mapping) or not region:
        raise Invalid(f"region {region!r}", remedy="slices by dimension, or 'auto'")
    unknown = [str(dim) for dim in region if dim not in dataset.dims]
    if unknown:
        remedy = meant(unknown[0], dataset.dims)
        raise Invalid(f"no dimension {unknown[0]!r} in what is to be written", remedy=remedy)
    outside = [name for name in dataset.variables if region.keys().isdisjoint(dataset[name].dims)]
    if outside:
        message = f"variables without any dimension of the region: {outside}"
        raise Invalid(message, remedy="drop_vars() them before writing")
    key = {}
    for dim, part in region.items():
        if dim not in existing.dims:
            raise Invalid(f"no dimension {dim!r} in both", remedy=f"there are {tuple(existing.dims)}")
        if part == "auto":
            key[dim] = _place_along(dim, dataset, existing)
            continue
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise Invalid(f"the region of {dim!r} is {part!r}", remedy="a slice without step, or 'auto'")
        if not all(end is None or isinstance(end, Integral) for end in (part.start, part.stop)):
            remedy = "a slice of positions, or 'auto' to go by labels"
            raise Invalid(f"the region of {dim!r} is {part!r}", remedy=remedy)
        key[dim] = part
    return key


def _place_along(dim: str, dataset: xr.Dataset, existing: xr.Dataset) -> slice:
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


# -- new variables -----------------------------------------------------------------------------------------------------

_OF_CELLS = ("units", FILL_VALUE, *DECODED)
"""Attributes that tell what the stored cells mean."""


@dataclass(frozen=True, kw_only=True)
class NewArrayOptions:
    """Options of new arrays: for all (``chunks``, ``shards`` by dimension, ``codec``) and by variable (``encoding``),
    which ``by_node`` has for each node of a tree; ``unlimited`` are the dimensions that grow, None for those of the
    dataset. ``compute=False`` leaves dask arrays to be written later, ``densify`` stores all cells of sparse ones.
    """

    chunks: Any = None
    shards: Any = None
    codec: Any = None
    encoding: Encoding | None = None
    by_node: Mapping[str, Encoding] | None = None
    unlimited: Container[str] | None = None
    compute: bool = True
    densify: bool = False

    def at(self, node: str) -> NewArrayOptions:
        """Return the same for one node of a tree."""
        return self if self.by_node is None else replace(self, encoding=self.by_node.get(node), by_node=None)


def write_new(group: Group, dataset: xr.Dataset, how: NewArrayOptions) -> list[DelayedWrite]:
    """Make every variable a new array of a new or empty group; return the dask arrays that are left."""
    variables, attrs = encode_for(group, dataset, how.encoding)
    _check_sparse(group, variables, densify=how.densify)
    unlimited = _unlimited(dataset) if how.unlimited is None else how.unlimited
    dims = tuple(
        Dimension(str(name), size, name in unlimited) for name, size in dataset.sizes.items() if name in unlimited
    )
    writer = group._session.writer()
    with group.batch():
        with group._session.add_place_to_errors(group.path):
            writer.put(group.path, GroupSpec(attrs=_attrs_of(group, attrs), dims=dims))
        arrays = {name: _create(group, name, variable, how) for name, variable in variables.items()}
    return write_now((arrays[name], variable, ...) for name, variable in variables.items())


def encode_for(
    group: Group, dataset: xr.Dataset, encoding: Encoding | None = None, *, rounds: bool = True
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Return variables and attributes of the group as its format stores them.

    Kinds of cells that are stored as such where CF would make numbers of them: times and truths in MongoDB, whose other
    readers know no conventions, truths in Zarr, as xarray's own writer stores them. In netCDF bytes of one length are
    arrays of chars. ``rounds``: as of ``encoded``.
    """
    target = group._session.format
    has_chars = Feature.CHAR in target.features and Feature.FIXED_BYTES not in target.features
    traits = target.traits
    return encoded(
        dataset,
        encoding,
        native=traits.native_kinds,
        datetimes=Feature.DATETIME in target.features,
        chars=has_chars,
        marks_nan=traits.marks_nan,
        rounds=rounds,
    )


def _check_sparse(group: Group, variables: Mapping[str, xr.Variable], *, densify: bool) -> None:
    """Raise Unsupported, before anything is written, where variables are sparse and the format has no such arrays."""
    session = group._session
    if densify or Feature.SPARSE in session.format.features:
        return
    sparse = [name for name, variable in variables.items() if is_any_sparse(variable._data)]
    if sparse:
        names = ", ".join(map(repr, sparse))
        message = f"format {session.format.name} has no {Feature.SPARSE.value}: {names}"
        raise Unsupported(message, url=session.url, remedy="densify=True stores all their cells")


def _attrs_of(group: Group, attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what a group is to get; a warning tells of what the netCDF library writes of its own file."""
    plain = plain_attrs(attrs)
    if group._session.format.traits.netcdf_attributes and PROVENANCE in plain:
        del plain[PROVENANCE]
        message = f"the attribute {PROVENANCE} is left out: it says who wrote another file"
        warnings.warn(message, UserWarning, stacklevel=2)
    return plain


def _unlimited(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the dimensions that grow, by the dataset's own encoding; a warning names those that it does not have."""
    names = names_of(dataset.encoding.get("unlimited_dims"))
    gone = sorted(set(names) - {str(dim) for dim in dataset.dims})
    if gone:
        message = f"unlimited dimensions that the dataset does not have: {', '.join(gone)} (encoding unlimited_dims)"
        warnings.warn(message, UserWarning, stacklevel=2)
    return names


def names_of(dims: str | Iterable[Hashable] | None) -> tuple[str, ...]:
    """Return the names of dimensions; a text is the name of one."""
    match dims:
        case None:
            return ()
        case str():
            return (dims,)
        case Iterable():
            return tuple(map(str, dims))
    raise Invalid(f"unlimited_dims={dims!r}", remedy="give the name of a dimension, or a list of names")


@contextmanager
def replacing(group: Group, names: Iterable[str]) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """Yield, by name, where to make each node: there where the name is free, else beside the old one, whose place it
    takes when the block ends; and a list, to which the block adds each place where it has made one. When it fails the
    old ones stand and nothing of the new ones is left.
    """
    # A random name, which no other writer that replaces the same node takes.
    places = {name: f"{name}-{secrets.token_hex(4)}" if name in group else name for name in names}
    made: list[str] = []
    try:
        yield places, made
    except BaseException:
        for place in made:
            with suppress(HyperslabError):
                del group[place]
        raise
    with group.batch():
        for name, place in places.items():
            if place != name:
                del group[name]
                group.move(place, name)


@contextmanager
def write_over(group: Group, dataset: xr.Dataset, how: NewArrayOptions) -> Iterator[list[DelayedWrite]]:
    """Add variables to a group; those of the same name must have its shape and get the new cells and attributes, and
    are made anew where their dtype or encoding is to be another. Attributes are added to the group's.

    Yields the dask arrays that are left; what is made anew takes its place when the block ends.
    """
    variables, attrs = encode_for(group, detached(dataset, group.url), how.encoding)
    for dim, size in dataset.sizes.items():
        known = group.dims.get(str(dim))
        if known is not None and known.size != size:
            remedy = "append_dim= adds rows, region= changes some, mode='w' replaces all"
            raise Invalid(f"{dim!r} has {size} cells, in the dataset it has {known.size}", url=group.url, remedy=remedy)
    for name in variables:
        if name in group:
            check_dims(name, variables[name], group[name])
    made = [name for name in variables if name in (how.encoding or {}) or not _holds(group, name, variables[name])]
    # What takes the place of another array is complete before.
    late = [name for name in made if name in group and is_chunked_array(variables[name]._data)]
    if late and not how.compute:
        raise Invalid(f"{late[0]!r} exists and is to be made anew later", remedy="leave compute=False out")
    _check_sparse(group, {name: variables[name] for name in made}, densify=how.densify)
    with replacing(group, made) as (places, done):
        with group.batch():
            for name in made:
                _create(group, name, variables[name], how, places[name])
                done.append(places[name])
        arrays: Any = group
        yield write_now((arrays[places.get(name, name)], variables[name], ...) for name in variables)
    with group.batch():
        group.attrs.update(_attrs_of(group, attrs))
        for name in variables.keys() - places.keys():
            attrs = plain_attrs(variables[name].attrs)
            # The mark is the one that is there, which netCDF does not let change.
            group[name].attrs.update({key: value for key, value in attrs.items() if key != FILL_VALUE})


def _holds(group: Group, name: str, variable: xr.Variable) -> bool:
    """Return True if there is an array that can take the variable's cells as it is."""
    array = group.get(name)
    if not isinstance(array, Array):
        return False
    if any(word in array.attrs and word not in variable.attrs for word in DECODED):
        return False
    fills = stored_attrs(array).get(FILL_VALUE), variable.attrs.get(FILL_VALUE)
    if not same_kind(variable, array) or not fits_text(variable, array.dtype, lazily=False):
        return False
    # Without a mark NaN is missing, too: what was stored so takes the same cells.
    marks = (None if fill is None or _is_nan(fill) else np.asarray(fill)[()] for fill in fills)
    return fill_values_equal(*marks)


def _is_nan(fill: Any) -> bool:
    """Return True for a fill value that is the float NaN."""
    return isinstance(fill, float | np.floating) and bool(np.isnan(fill))


def detached(dataset: xr.Dataset, url: str) -> xr.Dataset:
    """Return the dataset with what is read from ``url`` in memory: it may be gone or changed when it is needed.

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


def write_region(
    group: Group, dataset: xr.Dataset, region: Mapping[str, Any] | Literal["auto"] | None, how: NewArrayOptions
) -> list[DelayedWrite]:
    """Write cells within ``region`` of what is there; ``auto``: where the coordinates are the same; None: all cells."""
    existing = read_existing(group)
    missing = [name for name in dataset.variables if name not in existing.variables]
    if missing:
        raise Invalid(f"variables that are not there: {missing}", remedy="write them with mode='a' first")
    check_calendars(dataset, group)
    key = {} if region is None else resolve_region(region, dataset, existing)
    variables, _ = encode_for(group, as_stored(group, detached(dataset, group.url), existing, how), rounds=False)
    writes = []
    for name, variable in variables.items():
        array: Any = group[name]
        check_names(name, variable, array)
        where = tuple(key.get(str(dim), slice(None)) for dim in variable.dims)
        sizes = tuple(len(range(*part.indices(length))) for part, length in zip(where, array.shape, strict=True))
        if sizes != variable.shape:
            remedy = "slice what is to be written, or name the region that it is for"
            raise Invalid(f"{name!r} is of shape {variable.shape}, the region of shape {sizes}", remedy=remedy)
        check_meaning(name, dataset.variables[name], variable, array)
        writes.append((array, variable, where))
    return write_now(writes)


# -- new arrays ---------------------------------------------------------------------------------------------------


def _create(group: Group, name: str, variable: xr.Variable, how: NewArrayOptions, place: str | None = None) -> Array:
    """Make a new array for the variable, called ``place`` (its own name) for now."""
    layout = variable.encoding
    dtype = with_length(variable, group._session.format.features)
    fill = _fill(group, name, variable, how)
    sparse = is_any_sparse(variable._data) and not how.densify
    if sparse and "fill_value" not in layout:
        fill = fill_of(variable._data)[()]
    chunks = _chunks(variable, how.chunks, (how.encoding or {}).get(name, {}))
    attrs = plain_attrs(variable.attrs)
    if group._session.format.traits.fill_value == "missing" and _is_nan(fill) and _is_nan(attrs.get(FILL_VALUE)):
        del attrs[FILL_VALUE]  # the fill value says it, as in what xarray writes
    return group.create_array(
        place or name,
        shape=variable.shape,
        dtype=dtype,
        dims=variable.dims,
        chunks=chunks,
        shards=_shards(group, name, variable, how, chunks),
        codec=layout.get("codec", "default") if how.codec is None else how.codec,
        checksum=layout.get("checksum"),
        fill_value=None if isinstance(fill, str | bytes) else fill,
        attrs=room_for_text(group._session, as_data_type(dtype), variable._data) | attrs,
        sparse=sparse,
    )


def _fill(group: Group, name: str, variable: xr.Variable, how: NewArrayOptions) -> Any:
    """Return the value of cells that nobody writes: the one that is wanted, else the one that the variable had where it
    was read, if it still fits and the format tells it from what marks missing cells, else that mark."""
    wanted = (how.encoding or {}).get(name, {})
    own = variable.encoding.get("fill_value")
    if "fill_value" in wanted:
        return own
    mark = variable.attrs.get(FILL_VALUE)
    is_apart = group._session.format.traits.fill_value == "apart"
    if own is None or FILL_VALUE in wanted or not is_apart or variable.dtype.kind == "O":
        return mark
    try:
        require_fit(np.asarray(own), variable.dtype)
    except Invalid:
        return mark
    return own


def _shards(group: Group, name: str, variable: xr.Variable, how: NewArrayOptions, chunks: Any) -> Any:
    """Return the shards wanted for the variable, None for none as in xarray's engine zarr; else for all; else as it was
    read, where the format has such and they hold whole ``chunks``; else where there are many chunks, but not where
    cells come later: others may write them, a region at a time."""
    own, format = variable.encoding.get("shards"), group._session.format
    if "shards" in (how.encoding or {}).get(name, {}):
        return False if own is None else own
    if isinstance(how.shards, Mapping):  # as of a conversion, meant for cells: coordinates along a dimension stay whole
        chosen = {} if name in variable.dims else {dim: how.shards[dim] for dim in variable.dims if dim in how.shards}
        return chosen or None
    if how.shards is not None:
        return how.shards
    if own is not None and format.traits.has_collections:
        return own  # tiles, which are no shards to choose, are shown as such
    # A part of what was read has fewer dimensions, or is saved in other chunks. Shards and chunks of one encoding that
    # contradict each other are the caller's: create_array says so.
    fits = isinstance(own, str)
    if isinstance(own, tuple) and isinstance(chunks, tuple) and len(own) == len(chunks):
        fits = chunks == _encoded_chunks(variable) or not any(map(mod, own, chunks))
    if fits and Feature.SHARDS in format.features:
        return own
    return MANY if how.compute and format.traits.shards_many else None


def _chunks(variable: xr.Variable, wanted: Any, how_encoded: Mapping[str, Any]) -> Any:
    """Return the chunks wanted for the dimension or the variable, else as it was stored, else the dask chunks if they
    are regular."""
    if wanted is not None and not isinstance(wanted, Mapping):
        return wanted
    chosen = {dim: wanted[dim] for dim in variable.dims if dim in wanted} if wanted is not None else {}
    match own := _own_chunks(variable, how_encoded):
        case Mapping():
            return {**own, **chosen}
        case None | str():
            return chosen or own or "auto"
        case _:
            return tuple(chosen.get(dim, cut) for dim, cut in zip(variable.dims, own, strict=True))


def _encoded_chunks(variable: xr.Variable) -> Any:
    """Return the chunks in a variable's own encoding, by the word of Zarr or that of netCDF; None where it has none."""
    return next((own for word in ("chunks", "chunksizes") if (own := variable.encoding.get(word)) is not None), None)


def _own_chunks(variable: xr.Variable, how_encoded: Mapping[str, Any]) -> Any:
    """Return the lengths of a variable's chunks, or text, or a mapping by dimension, as they were chosen; None where
    nobody chose any.

    Invalid where ``how_encoded`` has them, and they are not one for each dimension.
    """
    own = _encoded_chunks(variable)
    if own is None and variable.chunks:
        is_regular = all(len(set(cuts[:-1])) <= 1 and cuts[-1] <= cuts[0] for cuts in variable.chunks)
        return tuple(max(cuts[0], 1) for cuts in variable.chunks) if is_regular else None
    match own:
        case None | str() | Mapping():
            return own
        case Iterable():
            lengths = tuple(own)
        case _:
            lengths = (own,) * variable.ndim
    if len(lengths) == variable.ndim:
        return lengths or None
    if how_encoded.keys() & {"chunks", "chunksizes"}:
        raise Invalid(f"chunks {own!r} for {variable.ndim} dimensions", remedy="one length for each")
    return None


# -- what is there ------------------------------------------------------------------------------------------------


def read_existing(group: Group) -> xr.Dataset:
    """Return the Dataset that is stored, as it is now: others may have changed it since the group was opened."""
    group._session.refresh(group.path)
    for _, array in group.arrays():
        array.refresh()
    return indexed(open_group(group))


def as_stored(group: Group, dataset: xr.Dataset, existing: xr.Dataset, how: NewArrayOptions) -> xr.Dataset:
    """Return the dataset with the encoding of what is there, which the new cells must share (units, scale, dtype)."""
    if how.encoding:
        taken = [name for name in how.encoding if name in existing.variables]
        if taken:
            raise Invalid(f"variable {taken[0]!r} exists, so its encoding cannot be chosen", remedy="leave it out")
    result = dataset.copy()
    for name in result.variables:
        if name in existing.variables:
            known, attrs = existing.variables[name].encoding, result[name].attrs
            encoding = {key: known[key] for key in known if key in CF and key not in attrs}
            array: Any = group[str(name)]
            if existing.variables[name].dtype == result[name].dtype == bool and array.dtype != bool:
                encoding["dtype"] = array.dtype  # truths as CF makes numbers of them
            if result[name].dtype == object and array.dtype.kind in "UT":
                encoding["dtype"] = str  # also where all of it is missing
            result[name].encoding = encoding
            kept = {
                *existing.variables[name].attrs,
                *_OF_CELLS,
            }  # what is encoded already says how, and is not once more
            result[name].attrs = {key: value for key, value in attrs.items() if key in kept}
            if "char_dim_name" in known:
                encoding = result[name].encoding
                result[name] = _as_wide(result[name], existing.variables[name].dtype)
                result[name].encoding = encoding
    return result


def _as_wide(cells: xr.DataArray, stored: np.dtype) -> xr.DataArray:
    """Return text or bytes as bytes of the stored length, where they are not longer."""
    if cells.dtype.kind in "UT":
        cells = cells.copy(data=np.strings.encode(np.asarray(cells.values, "U"), "utf-8"))
    is_shorter = cells.dtype.kind == "S" and cells.dtype.itemsize < stored.itemsize
    return cells.astype(stored) if is_shorter else cells
