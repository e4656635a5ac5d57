"""Save an xarray object as a dataset, with the meaning of xarray's ``to_zarr``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab import api
from hyperslab.array.row_labels import Repeated
from hyperslab.bridges.overlaps import is_made_of
from hyperslab.bridges.pint import is_quantity, split
from hyperslab.bridges.xarray.append import append
from hyperslab.bridges.xarray.cells import DelayedWrite, write_delayed
from hyperslab.bridges.xarray.encoding import Encoding
from hyperslab.bridges.xarray.storable import check_chunks, check_storable
from hyperslab.bridges.xarray.writing import (
    NewArrayOptions,
    detached,
    names_of,
    replacing,
    write_new,
    write_over,
    write_region,
)
from hyperslab.chunks.auto import parse_shards
from hyperslab.chunks.progress import ProgressCallback, storing
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, NotFound
from hyperslab.group import Group
from hyperslab.model.guessing import meant
from hyperslab.model.paths import normalize
from hyperslab.stores.location import Location

Mode = Literal["x", "w", "w-", "a", "r+"]
"""As in ``to_zarr``, where ``w-`` is what is ``x`` here."""


def save_xarray(
    url: api.Target,
    obj: xr.Dataset | xr.DataArray | xr.DataTree,
    *,
    format: str | None = None,
    zarr_format: Literal[2, 3] | None = None,
    chunks: Any = None,
    shards: Any = None,
    codec: Any = None,
    mode: Mode | None = None,
    group: str | None = None,
    encoding: Mapping[Any, Any] | None = None,
    append_dim: str | None = None,
    repeated: Repeated = "error",
    region: Mapping[str, Any] | Literal["auto"] | None = None,
    unlimited_dims: str | Iterable[Hashable] | None = None,
    compute: bool = True,
    densify: bool = False,
    progress: bool | ProgressCallback | None = None,
    **options: Any,
) -> Any:
    """Save an xarray object, as :func:`hyperslab.save` does."""
    format = _format_name(format, zarr_format)
    mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "x")
    mode = "x" if mode == "w-" else mode
    _check_arguments(obj, mode, append_dim, region, group, encoding, repeated)
    path = normalize(group or "")
    datasets = _datasets(obj)
    check_storable(datasets.values())
    check_chunks(datasets.values(), chunks)
    check_chunks(datasets.values(), shards, "shards")
    is_tree = isinstance(obj, xr.DataTree)
    how = NewArrayOptions(
        chunks=chunks,
        shards=parse_shards(shards, lengths="by dimension"),
        codec=codec,
        encoding=None if is_tree else encoding,
        by_node=_by_node(encoding or {}, datasets) if is_tree else None,
        unlimited=_unlimited(unlimited_dims, datasets.values()),
        compute=compute,
        densify=densify,
    )
    with storing(progress if compute else None, obj), as_one_commit(url, mode, append_dim, options) as url:
        if mode in ("x", "w") and not path:
            delayed = _save_new(url, datasets, format, mode == "w", how, options)
        elif append_dim is not None or region is not None:
            with _open_to_change(url, format, path, options) as root:
                delayed = _save_part(root, datasets[""], append_dim, region, how, repeated)
        else:
            made = mode != "r+" and not Location.of(url, options.get("storage_options")).exists()
            how_opened = api.add_consolidated(Location.of(url), format, options) if made else options
            with api.open_group(url, "r+" if mode == "r+" else "a", format=format, **how_opened) as root:
                delayed = _save_into(root, path, datasets, mode, how)
    if compute:
        return None
    from hyperslab.bridges import dask

    with api.open_group(url, "r+", format=format, **options) as root:
        arrays: Any = root
        return dask.delay_writes([replace(each, array=arrays[each.array.path]).arguments for each in delayed])


def _open_to_change(url: api.Target, format: str | None, path: str, options: Mapping[str, Any]) -> Group:
    """Open the group whose cells change or grow; NotFound says that ``mode`` does not make it."""
    try:
        return api.open_group(url, "r+", format=format, path=path, **options)
    except NotFound as error:
        error.remedy = "check the spelling, or make it first: save without append_dim and region"
        raise


@contextmanager
def as_one_commit(
    url: api.Target, mode: Mode, append_dim: str | None, options: Mapping[str, Any]
) -> Iterator[api.Target]:
    """Yield what to save at: of a repository a place whose changes become one commit, else the target itself. Errors of
    the block tell the place."""
    where = Location.of(url, options.get("storage_options"))
    try:
        if not where.keeps_versions:
            yield url
            return
        message = "save" if append_dim is None else f"append along {append_dim}"
        with api.one_commit(where, message, create=mode != "r+" and append_dim is None) as place:
            target: Any = place
            yield target
    except HyperslabError as error:
        raise error.locate(url=where.url) from error.__cause__


def _format_name(format: str | None, zarr_format: Any) -> str | None:
    """Return the name of the format that either argument gives; Invalid where they contradict each other."""
    if zarr_format is None:
        return format
    if format not in (None, f"zarr{zarr_format}"):
        raise Invalid(f"zarr_format={zarr_format!r} and format={format!r}", remedy="leave one of them out")
    return f"zarr{zarr_format}"


def _by_node(encoding: Mapping[Any, Any], datasets: Iterable[str]) -> dict[str, Encoding]:
    """Return the encodings of a tree by the paths of its nodes; Invalid for others."""
    found = {str(path).strip("/"): each for path, each in encoding.items()}
    unknown = [path for path in found if path not in datasets]
    if unknown:
        message = f"encoding for {unknown[0]!r}, which is no node of the tree"
        raise Invalid(message, remedy=f"give {{path: {{variable: ...}}}}; {meant(unknown[0], datasets)}")
    return found


def _unlimited(dims: str | Iterable[Hashable] | None, datasets: Iterable[xr.Dataset]) -> tuple[str, ...] | None:
    """Return the names of the dimensions that are to grow, None for those of the datasets; Invalid for unknown ones."""
    if dims is None:
        return None
    known = {str(dim) for dataset in datasets for dim in dataset.dims}
    names = names_of(dims)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(f"no dimension {unknown[0]!r} to be unlimited", remedy=meant(unknown[0], known))
    return names


def _save_part(
    root: Group, dataset: xr.Dataset, append_dim: str | None, region: Any, how: NewArrayOptions, repeated: Repeated
) -> list[DelayedWrite]:
    """Write rows behind, or cells within, what is there."""
    _check_delay(root, how)
    if append_dim is not None:
        return append(root, dataset, append_dim, how, repeated)
    return _compute(write_region(root, dataset, region, how), how)


def _compute(delayed: list[DelayedWrite], how: NewArrayOptions) -> list[DelayedWrite]:
    """Write dask arrays that are not for later, all at once; return what is left of them."""
    if not how.compute:
        return delayed
    write_delayed(delayed)
    return []


def _check_arguments(
    obj: Any, mode: str, append_dim: Any, region: Any, group: Any, encoding: Any, repeated: Repeated
) -> None:
    if mode not in ("x", "w", "a", "r+"):
        raise Invalid(f"mode {mode!r}", remedy="a mode is one of x, w, a, r+")
    if group is not None and not isinstance(group, str):
        raise Invalid(f"group={group!r}", remedy="give the path of a group, such as 'a/b'")
    if encoding is not None and not isinstance(encoding, Mapping):
        remedy = "give a mapping, such as {'air': {'dtype': 'i2', 'scale_factor': 0.1}}"
        raise Invalid(f"encoding={encoding!r}", remedy=remedy)
    if append_dim is None and repeated != "error":
        raise Invalid(f"repeated={repeated!r} without append_dim", remedy="it is about rows that are appended")
    if append_dim is None and region is None:
        return
    if append_dim is not None and region is not None:
        raise Invalid("append_dim and region exclude each other", remedy="append first, or write into a region")
    if append_dim is not None and not isinstance(append_dim, str):
        raise Invalid(f"append_dim {append_dim!r}", remedy="the name of one dimension")
    if mode not in ("a", "r+"):
        raise Invalid(f"mode {mode!r} replaces what append_dim and region are for", remedy="leave mode out")
    if isinstance(obj, xr.DataTree):
        raise Invalid("append_dim and region are for one group", remedy="save the Dataset of each node by group=")


def _check_delay(root: Group, how: NewArrayOptions, url: api.Target | None = None) -> None:
    """Raise Invalid for a delayed write into what is written whole when it is closed."""
    if not how.compute and root._session.is_written_whole:
        place = root.url if url is None else Location.of(url).url
        remedy = "leave compute=False out, or write a .zarr folder"
        raise Invalid("what is one file is complete when save returns", url=place, remedy=remedy)


def _save_new(
    url: api.Target,
    datasets: Mapping[str, xr.Dataset],
    format: str | None,
    overwrite: bool,
    how: NewArrayOptions,
    options: Any,
) -> list[DelayedWrite]:
    """Make a new dataset, whole when it stands at its place, but for what is to be computed later."""
    place = Location.of(url).url
    if overwrite:
        for dataset in datasets.values():
            for name, variable in dataset.variables.items():
                # Of a dask array no cells are left when it is computed.
                if is_chunked_array(variable._data) and is_made_of(variable.data, place):
                    remedy = "load() it first, or save it elsewhere"
                    raise Invalid(f"{name!r} is read from the dataset that is to be changed", url=place, remedy=remedy)
        datasets = {path: detached(dataset, place) for path, dataset in datasets.items()}
    with api.build_dataset(url, format, overwrite=overwrite, **options) as root:
        _check_delay(root, how, url)
        return _compute(_write_tree(root, datasets, how), how)


def _save_into(
    root: Group, path: str, datasets: Mapping[str, xr.Dataset], mode: str, how: NewArrayOptions
) -> list[DelayedWrite]:
    """Write into a group of a dataset that may hold others."""
    _check_delay(root, how)
    exists = not path or path in root
    if exists and path and mode == "x":
        remedy = "mode='w' replaces it, 'a' adds to it"
        raise AlreadyExists(f"/{path} exists", url=root.url, node=path, remedy=remedy)
    if not exists and mode == "r+":
        raise NotFound("there is no such group", url=root.url, node=path, remedy="make it with mode='a'")
    if not exists or mode == "w":
        if path in root and not how.compute:
            remedy = "leave compute=False out, or delete it"
            raise Invalid(f"/{path} exists and is to be made anew later", remedy=remedy)
        if path in root:
            datasets = {name: detached(dataset, root.url) for name, dataset in datasets.items()}
        with replacing(root, [path]) as (places, made):  # a group that is there, once the new one is complete
            group = root.create_group(places[path])
            made.append(places[path])
            return _write_tree(group, datasets, how)
    group = _below(root, path)
    if mode == "r+":
        nodes = [write_region(_below(group, name), dataset, None, how.at(name)) for name, dataset in datasets.items()]
        return _compute(list(chain.from_iterable(nodes)), how)
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(write_over(_below(group, name), dataset, how.at(name)))
            for name, dataset in datasets.items()
        ]
        return _compute(list(chain.from_iterable(nodes)), how)


def _below(group: Group, name: str) -> Group:
    path = name.strip("/")
    node = group if not path else group[path] if path in group else group.create_group(path)
    if not isinstance(node, Group):
        raise Invalid("this is an array", url=group.url, node=path, remedy="mode='w' makes a group in its place")
    return node


def _write_tree(root: Group, datasets: Mapping[str, xr.Dataset], how: NewArrayOptions) -> list[DelayedWrite]:
    pending = []
    for name, dataset in datasets.items():
        path = name.strip("/")
        pending += write_new(root.create_group(path) if path else root, dataset, how.at(name))
    return pending


def _datasets(obj: Any) -> dict[str, xr.Dataset]:
    """Return a Dataset for each node of a tree, by path, with the coordinates that it inherits left to its parents in
    the tree; units of Quantities are attributes."""
    match obj:
        case xr.DataTree():
            nodes = {path: node.to_dataset(inherit=node is obj) for path, node in obj.subtree_with_keys}
            return {"" if path == "." else path: _with_units(node) for path, node in nodes.items()}
        case xr.DataArray():
            return {"": _with_units(_dataset_of(obj))}
    return {"": _with_units(obj)}


def _dataset_of(array: xr.DataArray) -> xr.Dataset:
    """Return the array with its coordinates; a coordinate itself is one of those. Invalid where its name is
    another's."""
    name = "data" if array.name is None else array.name
    known = array.coords.get(name)
    if known is not None and known.variable.identical(array.variable):
        return array.coords.to_dataset()
    if name in array.coords or (name in array.dims and array.dims != (name,)):
        kind = "coordinates" if name in array.coords else "dimensions"
        raise Invalid(f"the array is called {name!r}, as one of its {kind} is", remedy="rename() it")
    return array.to_dataset(name=name)


def _with_units(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with the units of its Quantities as attributes; Invalid where a variable says others."""
    plain: dict[Hashable, xr.Variable] = {}
    for name, variable in dataset.variables.items():
        if not is_quantity(variable._data):
            continue
        cells, units = split(variable._data)
        attribute = variable.attrs.get("units", units)
        if attribute != units:
            message = f"{name!r} is a Quantity of {units!r} with an attribute units {attribute!r}"
            raise Invalid(message, remedy="delete the attribute, or convert the Quantity to those units")
        plain[name] = xr.Variable(variable.dims, cells, {**variable.attrs, "units": units}, variable.encoding)
    if not plain:
        return dataset
    coords = {name: variable for name, variable in plain.items() if name in dataset.coords}
    data = {name: variable for name, variable in plain.items() if name not in coords}
    return dataset.assign_coords(coords).assign(data)
