"""An xarray object as a dataset, with the meaning of xarray's ``to_zarr``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal

import xarray as xr

from hyperslab import api
from hyperslab.bridges.xarray.writing import Storing, append, detached, write_new, write_over, write_region
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
    **options: Any,
) -> Any:
    """:func:`hyperslab.save` of an xarray object."""
    how = Storing(chunks=chunks, codec=codec, encoding=encoding, compute=compute)
    mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "x")
    _check(mode, append_dim, region)
    path = normalize(group)
    if append_dim is not None or region is not None:
        with api.open_group(url, "r+", format=format, path=path, **options) as root:
            dataset = _as_dataset(obj)
            if append_dim is not None:
                return _delayed(append(root, dataset, append_dim, how), compute)
            return _delayed(write_region(root, dataset, region or {}, how), compute)
    datasets = _datasets(obj)
    if mode in ("x", "w") and not path:
        return _save_new(url, datasets, format, mode == "w", how, options)
    with api.open_group(url, "r+" if mode == "r+" else "a", format=format, **options) as root:
        return _save_into(root, path, datasets, mode, how)


def _check(mode: str, append_dim: str | None, region: Any) -> None:
    if mode not in ("x", "w", "a", "r+"):
        raise Invalid(f"mode {mode!r}", remedy="a mode is one of x, w, a, r+")
    if append_dim and region:
        raise Invalid("append_dim and region exclude each other", remedy="append first, or write into a region")
    if append_dim is not None and not isinstance(append_dim, str):
        raise Invalid(f"append_dim {append_dim!r}", remedy="the name of one dimension")
    if (append_dim or region) and mode not in ("a", "r+"):
        raise Invalid(f"mode {mode!r} replaces what append_dim and region are for", remedy="leave mode out")


def _save_new(
    url: api.Target, datasets: Mapping[str, xr.Dataset], format: str | None, overwrite: bool, how: Storing, options: Any
) -> Any:
    """A new dataset, whole when it stands at its place; one that is to be computed later stands there at once."""
    if not how.compute and (format or format_for_new(Location.of(url).url)) == "netcdf":
        raise Invalid("a netCDF file is complete when save returns", url=str(url), remedy="leave compute=False out")
    for dataset in datasets.values():
        _check_asked(dataset, how)
    make = api.created if how.compute else api.create
    if overwrite:
        place = Location.of(url).url
        datasets = {name: detached(dataset, place) for name, dataset in datasets.items()}
    if _is_zarr(url, format):
        options = {"consolidated": True} | options
    with make(url, format, overwrite=overwrite, **options) as root:
        pending = _write_tree(root, datasets, how)
    return _delayed(pending, how.compute)


def _check_asked(dataset: xr.Dataset, how: Storing) -> None:
    """Chunks of dimensions, and names of variables, that there are."""
    slashed = [name for name in dataset.variables if "/" in str(name)]
    if slashed:
        raise Invalid(f"a variable named {slashed[0]!r}", remedy="a slash makes groups: rename it, or use a DataTree")
    unknown = [dim for dim in how.chunks if dim not in dataset.dims] if isinstance(how.chunks, Mapping) else []
    if unknown and dataset.variables:
        near = get_close_matches(str(unknown[0]), map(str, dataset.dims), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {tuple(dataset.dims)}"
        raise Invalid(f"chunks for a dimension {unknown[0]!r}", remedy=hint)


def _is_zarr(url: api.Target, format: str | None) -> bool:
    """Whether consolidated metadata can be written, which xarray's own engine warns without."""
    name = format or format_for_new(Location.of(url).url)
    return name in ("zarr2", "zarr3")


def _save_into(root: Group, path: str, datasets: Mapping[str, xr.Dataset], mode: str, how: Storing) -> Any:
    """Into a group of a dataset that may hold others."""
    if path and path in root:
        if mode == "x":
            remedy = "mode='w' replaces it, 'a' adds to it"
            raise AlreadyExists(f"/{path} exists", url=root.url, node=path, remedy=remedy)
        if mode == "w":
            datasets = {name: detached(dataset, root.url) for name, dataset in datasets.items()}
            del root[path]
    elif path and mode == "r+":
        raise NotFound("there is no such group", url=root.url, node=path, remedy="make it with mode='a'")
    fresh = path not in root if path else False
    group = root if not path else root.create_group(path) if fresh else root[path]
    if not isinstance(group, Group):
        raise Invalid("this is an array", url=root.url, node=path)
    if fresh:
        return _delayed(_write_tree(group, datasets, how), how.compute)
    if mode == "r+":
        pending = [each for name, dataset in datasets.items() for each in _change(group, name, dataset, how)]
    else:
        pending = [each for name, dataset in datasets.items() for each in _add(group, name, dataset, how)]
    return _delayed(pending, how.compute)


def _change(group: Group, name: str, dataset: xr.Dataset, how: Storing) -> list[Any]:
    region = {str(dim): slice(0, size) for dim, size in dataset.sizes.items()}
    return write_region(_below(group, name), dataset, region, how)


def _add(group: Group, name: str, dataset: xr.Dataset, how: Storing) -> list[Any]:
    return write_over(_below(group, name), dataset, how)


def _below(group: Group, name: str) -> Group:
    path = name.strip("/")
    node = group if not path else group[path] if path in group else group.create_group(path)
    if not isinstance(node, Group):
        raise Invalid("this is an array", url=group.url, node=path)
    return node


def _write_tree(root: Group, datasets: Mapping[str, xr.Dataset], how: Storing) -> list[Any]:
    pending = []
    for name, dataset in datasets.items():
        path = name.strip("/")
        pending += write_new(root.create_group(path) if path else root, dataset, how)
    return pending


def _datasets(obj: Any) -> dict[str, xr.Dataset]:
    """By path: one for each node of a tree, with the coordinates that it inherits left to its parents."""
    if isinstance(obj, xr.DataTree):
        return {path if path != "." else "": node.to_dataset(inherit=False) for path, node in obj.subtree_with_keys}
    return {"": _as_dataset(obj)}


def _as_dataset(obj: xr.Dataset | xr.DataArray | xr.DataTree) -> xr.Dataset:
    if isinstance(obj, xr.DataArray):
        return obj.to_dataset(name=obj.name if obj.name is not None else "data")
    return obj.to_dataset() if isinstance(obj, xr.DataTree) else obj


def _delayed(pending: list[Any], compute: bool) -> Any:
    if compute:
        return None
    from dask.delayed import delayed

    return delayed(_nothing)(*pending)


def _nothing(*done: Any) -> None:
    """What is left when everything was written."""


__all__ = ["save_xarray"]
