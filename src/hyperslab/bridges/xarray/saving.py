"""An xarray object as a dataset, with the meaning of xarray's ``to_zarr``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab import api
from hyperslab.bridges.overlaps import is_made_of
from hyperslab.bridges.xarray.cells import Later, write_chunked
from hyperslab.bridges.xarray.replacing import replacing
from hyperslab.bridges.xarray.storable import check_chunks, check_storable
from hyperslab.bridges.xarray.wrapped import measured
from hyperslab.bridges.xarray.writing import Storing, append, detached, write_new, write_over, write_region
from hyperslab.chunks.progress import Report, storing
from hyperslab.errors import AlreadyExists, Invalid, NotFound
from hyperslab.formats import format_for_new
from hyperslab.group import Group
from hyperslab.model.paths import normalize
from hyperslab.stores.location import Location

Mode = Literal["x", "w", "a", "r+"]


def save_xarray(
    url: api.Target,
    obj: xr.Dataset | xr.DataArray | xr.DataTree,
    *,
    format: str | None = None,
    chunks: Any = None,
    codec: Any = None,
    mode: Mode | None = None,
    group: str = "",
    encoding: Mapping[Any, Any] | None = None,
    append_dim: str | None = None,
    region: Mapping[str, Any] | Literal["auto"] | None = None,
    compute: bool = True,
    densify: bool = False,
    progress: bool | Report | None = None,
    **options: Any,
) -> Any:
    """:func:`hyperslab.save` of an xarray object."""
    how = Storing(chunks=chunks, codec=codec, encoding=encoding, compute=compute, densify=densify)
    mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "x")
    _check(obj, mode, append_dim, region)
    path = normalize(group)
    datasets = _datasets(obj)
    check_storable(datasets.values())
    check_chunks(datasets.values(), chunks)
    with storing(progress if compute else None, obj):
        if mode in ("x", "w") and not path:
            later = _save_new(url, datasets, format, mode == "w", how, options)
        elif append_dim is not None or region is not None:
            with api.open_group(url, "r+", format=format, path=path, **options) as root:
                later = _save_part(root, datasets[""], append_dim, region, how)
        else:
            made = mode != "r+" and not Location.of(url, options.get("storage_options")).exists()
            how_opened = _consolidated(url, format, options) if made else options
            with api.open_group(url, "r+" if mode == "r+" else "a", format=format, **how_opened) as root:
                later = _save_into(root, path, datasets, mode, how)
    return None if compute else _delayed(url, later, {"format": format, **options})


def _save_part(root: Group, dataset: xr.Dataset, append_dim: str | None, region: Any, how: Storing) -> list[Later]:
    """Rows behind, or cells within, what is there."""
    _check_later(root, how)
    if append_dim is not None:
        return append(root, dataset, append_dim, how)
    return write_region(root, dataset, region, how)


def _check(obj: Any, mode: str, append_dim: Any, region: Any) -> None:
    if mode not in ("x", "w", "a", "r+"):
        raise Invalid(f"mode {mode!r}", remedy="a mode is one of x, w, a, r+")
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


def _check_later(root: Group, how: Storing, url: api.Target | None = None) -> None:
    """What is written whole when it is closed cannot be written later."""
    if not how.compute and root._session.is_written_whole:
        place = root.url if url is None else Location.of(url).url
        remedy = "leave compute=False out, or write a .zarr folder"
        raise Invalid("what is one file is complete when save returns", url=place, remedy=remedy)


def _save_new(
    url: api.Target, datasets: Mapping[str, xr.Dataset], format: str | None, overwrite: bool, how: Storing, options: Any
) -> list[Later]:
    """A new dataset, whole when it stands at its place, but for what is to be computed later."""
    place = Location.of(url).url
    if overwrite:
        _check_sources(datasets, place)
        datasets = {path: detached(dataset, place) for path, dataset in datasets.items()}
    with api.created(url, format, overwrite=overwrite, **_consolidated(url, format, options)) as root:
        _check_later(root, how, url)
        return _write_tree(root, datasets, how)


def _consolidated(url: api.Target, format: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a new dataset: xarray's own engine warns of a Zarr without consolidated metadata."""
    name = format or format_for_new(Location.of(url).url)
    return {"consolidated": True, **options} if name in ("zarr2", "zarr3") else options


def _check_sources(datasets: Mapping[str, xr.Dataset], place: str) -> None:
    """No dask array is made of what will be gone when it is computed."""
    for dataset in datasets.values():
        for name, variable in dataset.variables.items():
            if is_chunked_array(variable._data) and is_made_of(variable.data, place):
                remedy = "load() it first, or save it elsewhere"
                raise Invalid(f"{name!r} is read from the dataset that is to be changed", url=place, remedy=remedy)


def _save_into(root: Group, path: str, datasets: Mapping[str, xr.Dataset], mode: str, how: Storing) -> list[Later]:
    """Into a group of a dataset that may hold others."""
    _check_later(root, how)
    there = not path or path in root
    if there and path and mode == "x":
        remedy = "mode='w' replaces it, 'a' adds to it"
        raise AlreadyExists(f"/{path} exists", url=root.url, node=path, remedy=remedy)
    if not there and mode == "r+":
        raise NotFound("there is no such group", url=root.url, node=path, remedy="make it with mode='a'")
    if not there or mode == "w":
        return _save_group(root, path, datasets, how)
    group = _below(root, path)
    put = _change if mode == "r+" else _add
    return [each for name, dataset in datasets.items() for each in put(group, name, dataset, how)]


def _save_group(root: Group, path: str, datasets: Mapping[str, xr.Dataset], how: Storing) -> list[Later]:
    """A new group; one that is there is replaced once the new one is complete."""
    if path in root and not how.compute:
        raise Invalid(f"/{path} exists and is to be made anew later", remedy="leave compute=False out, or delete it")
    datasets = {name: detached(dataset, root.url) for name, dataset in datasets.items()} if path in root else datasets
    with replacing(root, [path]) as places:
        return _write_tree(root.create_group(places[path]), datasets, how)


def _change(group: Group, name: str, dataset: xr.Dataset, how: Storing) -> list[Later]:
    return write_region(_below(group, name), dataset, None, how)


def _add(group: Group, name: str, dataset: xr.Dataset, how: Storing) -> list[Later]:
    return write_over(_below(group, name), dataset, how)


def _below(group: Group, name: str) -> Group:
    path = name.strip("/")
    node = group if not path else group[path] if path in group else group.create_group(path)
    if not isinstance(node, Group):
        raise Invalid("this is an array", url=group.url, node=path, remedy="mode='w' makes a group in its place")
    return node


def _write_tree(root: Group, datasets: Mapping[str, xr.Dataset], how: Storing) -> list[Later]:
    pending = []
    for name, dataset in datasets.items():
        path = name.strip("/")
        pending += write_new(root.create_group(path) if path else root, dataset, how)
    return pending


def _datasets(obj: Any) -> dict[str, xr.Dataset]:
    """By path: one for each node of a tree, with the coordinates that it inherits left to its parents; units of
    Quantities are attributes."""
    if isinstance(obj, xr.DataTree):
        nodes = {path if path != "." else "": node.to_dataset(inherit=False) for path, node in obj.subtree_with_keys}
        return {path: measured(node) for path, node in nodes.items()}
    if isinstance(obj, xr.DataArray):
        obj = obj.to_dataset(name=obj.name if obj.name is not None else "data")
    return {"": measured(obj)}


def _delayed(url: api.Target, later: list[Later], options: Mapping[str, Any]) -> Any:
    """What writes the dask arrays that are left, when it is computed."""
    from dask.delayed import delayed

    with api.open_group(url, "r+", **options) as root:
        arrays: Any = root
        writes = [write_chunked(arrays[each.path], each.variable, each.where, compute=False) for each in later]
    return delayed(_nothing)(*writes)


def _nothing(*done: Any) -> None:
    """What is left when everything was written."""


__all__ = ["save_xarray"]
