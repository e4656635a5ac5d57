"""xarray's engine ``hyperslab``: ``xr.open_dataset(url, engine="hyperslab")`` and ``xr.open_datatree``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import wraps
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint, NetCDF4BackendEntrypoint

from hyperslab import api
from hyperslab.array import Array
from hyperslab.bridges.xarray import accessors
from hyperslab.bridges.xarray.reading import open_group, open_groups, open_labelled, refuse_unaligned
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats import SCHEMES, detect
from hyperslab.group import Group
from hyperslab.model.paths import child
from hyperslab.stores.location import Location, Probe
from hyperslab.stores.moments import split_moment

# -- URLs of databases -------------------------------------------------------------------------------------------------

# xarray asks its netCDF engine before any other, and that one claims every URL, though no library of netCDF opens a
# database. The engines of xarray have an order and no way to change it: so the netCDF engine is not asked about URLs of
# databases any more, from when xarray looks for engines, which loads this module.
_netcdf_can_open = NetCDF4BackendEntrypoint.guess_can_open


def is_database(target: Any) -> bool:
    """Return True if it is the URL of a database."""
    return isinstance(target, str) and target.partition("://")[0].lower() in SCHEMES and "://" in target


@wraps(_netcdf_can_open)
def _guess_can_open(self: Any, filename_or_obj: Any) -> Any:
    return not is_database(filename_or_obj) and _netcdf_can_open(self, filename_or_obj)


_netcdf_engine: Any = NetCDF4BackendEntrypoint
_netcdf_engine.guess_can_open = _guess_can_open


# -- the engine --------------------------------------------------------------------------------------------------------

assert accessors  # imported for its registration: who uses the engine may write `ds.hyperslab`
_OURS = (".nczarr", ".blp", ".blaze", ".b2nd")
# Names of datasets that an error lists.
_SHOWN = 10
_STACK = "Client(PLACE).get_collection(NAME).to_xarray(stack=ATTRIBUTE)"
_DECODERS = (
    "mask_and_scale",
    "decode_times",
    "concat_characters",
    "decode_coords",
    "use_cftime",
    "decode_timedelta",
)


class HyperslabBackendEntrypoint(BackendEntrypoint):
    """Opens every dataset that hyperslab knows, lazily. ``group``: the path of a group; ``format``, ``workers``,
    ``cache_bytes``, ``memory_limit``, ``storage_options`` and ``at`` as in ``hyperslab.open``.
    """

    description = "Open datasets of every format that hyperslab speaks (Zarr, netCDF, …)"
    url = "https://pypi.org/project/hyperslab/"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj",
        *_DECODERS,
        "drop_variables",
        "group",
        "format",
        "storage_options",
        "at",
        "workers",
        "cache_bytes",
        "memory_limit",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for what no other engine opens; ``.zarr`` and ``.nc`` need ``engine="hyperslab"``."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        try:
            name = split_moment(os.fspath(filename_or_obj))[0].rstrip("/")
        except Invalid:  # which opening it tells
            return False
        if name.lower().endswith(_OURS) or is_database(name):
            return True
        folder = os.path.expanduser(name)
        if not os.path.isdir(folder):
            return False
        try:
            found = detect(Probe(Location.of(folder)))
        except HyperslabError:
            return False
        return found is not None and found.traits.has_collections  # a root of collections, or the folder of one

    def open_dataset(self, filename_or_obj: Any, *, group: str | None = None, **options: Any) -> xr.Dataset:
        """Open one group as a Dataset; an array with the coordinates beside it."""
        decoders, rest = _split(options)
        node = _dataset(_node(filename_or_obj, group, rest))
        if isinstance(node, Array) and node is not filename_or_obj:
            return open_labelled(node, **decoders)
        return open_group(node, **decoders)

    def open_datatree(self, filename_or_obj: Any, *, group: str | None = None, **options: Any) -> xr.DataTree:
        """Open a group and all groups below it as a DataTree."""
        decoders, rest = _split(options)
        root = _group(filename_or_obj, group, rest)
        datasets = open_groups(root, **decoders)
        refuse_unaligned(datasets, root)
        tree = xr.DataTree.from_dict(datasets)
        tree.set_close(root.close)
        return tree

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, group: str | None = None, **options: Any
    ) -> dict[str, xr.Dataset]:
        """Open a group and all groups below it as Datasets by path."""
        decoders, rest = _split(options)
        return open_groups(_group(filename_or_obj, group, rest), **decoders)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of decoding and those of opening."""
    names = (*_DECODERS, "drop_variables")
    decoders = {name: options[name] for name in names if options.get(name) is not None}
    return decoders, {name: value for name, value in options.items() if name not in names}


def _group(target: Any, group: str | None, options: Mapping[str, Any]) -> Group:
    node = _node(target, group, options)
    if isinstance(node, Array):
        raise Invalid("this is an array, not a tree of groups", url=node.url, remedy="use open_dataset")
    return node


def _dataset(node: Group | Array) -> Group | Array:
    """Return the node. Invalid for a place of many datasets, of which it names the first, and for collections, of which
    it names an array."""
    reader = node._session.reader
    if isinstance(node, Group) and (members := reader.members(node.path)):
        paths = [child(node.path, name) for name in members]
        one = next((child(path, ids[0]) for path in paths if (ids := reader.members(path))), paths[0])
        remedy = f"open one array by its id (group={one!r}), or stack them by hyperslab.database: {_STACK}"
        raise Invalid("these are collections, or arrays of one, and no dataset", url=node.url, remedy=remedy)
    if not node.path and (found := reader.some_names(_SHOWN + 1)) is not None:
        names = ", ".join(map(repr, found[:_SHOWN])) + (" and more" if len(found) > _SHOWN else "")
        remedy = f"name one of them behind #: {names}" if found else "there is none in it yet"
        raise Invalid("this is a collection of datasets, not one of them", url=node.url, remedy=remedy)
    return node


def _node(target: Any, group: str | None, options: Mapping[str, Any]) -> Group | Array:
    options = {name: value for name, value in options.items() if value is not None}
    match target:
        case Group() | Array() if options:
            raise TypeError(f"unexpected option {next(iter(options))!r} for what is open already")
        case Group():
            return target[group] if group else target
        case Array():
            return target
        case str():
            target = os.path.expanduser(target)
    if group is not None and not isinstance(group, str):
        raise Invalid(f"group {group!r} is no path", remedy="give text, such as 'forecast/surface'")
    path = (group or "").strip("/")
    opened = api.open(target, path=path, **options)
    is_single = not path and isinstance(opened, Array) and opened._session.reader.is_single_array
    return Group(opened._session, "") if is_single else opened
