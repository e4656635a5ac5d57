"""The formats that hyperslab speaks: one folder and one line here each. Others: entry points ``hyperslab.formats``.

What they share: ``base`` (what a format is), ``opening`` (modes and options), ``format_errors``, ``signatures`` (of
files that are no dataset), ``documents`` and ``metadata_json`` (metadata as JSON), ``codec_kinds``, ``bounded_memo``,
``dimension_suffix``, ``frame_description`` (of data frames). Who writes a format of their own imports ``authoring``.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from hyperslab.errors import Unsupported
from hyperslab.formats.base import Format
from hyperslab.model.guessing import meant
from hyperslab.stores.location import REMOTE, REPOSITORIES, Probe

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# in the order of detection
FORMATS = {
    "hdmf": "hyperslab.formats.hdmf",
    "collections": "hyperslab.formats.collections",
    "deker": "hyperslab.formats.collections.deker",
    "zarr3": "hyperslab.formats.zarr3",
    "nczarr": "hyperslab.formats.nczarr",
    "zarr2": "hyperslab.formats.zarr2",
    "netcdf": "hyperslab.formats.netcdf",
    "blaze": "hyperslab.formats.blaze",
    "bloscpack": "hyperslab.formats.bloscpack",
    "b2nd": "hyperslab.formats.b2nd",
    "mongo": "hyperslab.formats.mongo",
    "join": "hyperslab.formats.join",
}

# formats whose datasets look like one of another format, which is tried first
WITHIN = {"zarr3": ("hdmf", "collections", "deker", "zarr3")}

# where the scheme of the URL decides, and no bytes are looked at
SCHEMES = {"mongodb": "mongo", "mongodb+srv": "mongo"}

# what a new dataset becomes, by the end of its name; the longest match counts
SUFFIXES = {
    ".zarr": "zarr3",
    ".nwb.zarr": "hdmf",
    ".hdmf.zarr": "hdmf",
    ".nczarr": "nczarr",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".cdf": "netcdf",
    ".blaze": "blaze",
    ".blp": "bloscpack",
    ".b2nd": "b2nd",
}


@cache
def _foreign() -> dict[str, EntryPoint]:
    """Return the formats of third parties; looked up once, for it reads every installed package's metadata."""
    from importlib.metadata import entry_points  # on use: with it come email, sockets and archives

    return {entry.name: entry for entry in entry_points(group="hyperslab.formats") if entry.name not in FORMATS}


_HDF5_ENDINGS = frozenset({"h5", "hdf5", "h5ad"})
_ENDING = re.compile(r"[^/]\.([a-z]\w*)$")
"""The end of a file's name that tells what it is: no number (``v1.2``), no name that is hidden (``.cache``)."""


def get_format(name: str) -> Format:
    """Return the format of this name, ours or a third party's; Unsupported when there is none."""
    if name in FORMATS:
        return _import_format(FORMATS[name])
    if name in _foreign():
        entry = _foreign()[name]
        try:
            foreign: Format = entry.load()
        except Exception as error:  # another's code, which may fail in any way
            message = f"format {entry.name} of another package ({entry.value}) cannot be loaded: {error!r}"
            raise Unsupported(message, remedy="mend, update or uninstall that package") from error
        return foreign
    if str(name).lower() in ("hdf5", "h5"):
        raise Unsupported(f"no format {name!r}", remedy="netcdf writes HDF5 files, and reads all of them")
    raise Unsupported(f"no format {name!r}", remedy=meant(str(name).lower(), names()))


@cache  # importlib makes six calls of a module that is there, and each detection looks at eight
def _import_format(module: str) -> Format:
    result: Format = import_module(module).FORMAT
    return result


def names() -> list[str]:
    """Return the names of all formats, in the order of detection."""
    return [*FORMATS, *_foreign()]


def detect(probe: Probe) -> Format | None:
    """Return the first format that recognises the place; third parties' are tried only when none of ours does.

    The one that the name promises is tried first: on a server each try is a request.
    """
    if probe.where.scheme in SCHEMES:
        return get_format(SCHEMES[probe.where.scheme])
    promised = SUFFIXES.get(probe.where.suffix)
    first = WITHIN.get(promised, (promised,)) if promised else ()
    for candidates in (dict.fromkeys((*first, *FORMATS)), _foreign):
        for name in candidates() if callable(candidates) else candidates:
            # get_format, without its call: each dataset that is opened is looked at by several
            candidate = _import_format(FORMATS[name]) if name in FORMATS else get_format(name)
            if candidate.sniff(probe):
                return candidate
    return None


def format_for_new(url: str) -> str:
    """Return the format that a new dataset at ``url`` gets by its scheme or the end of its name, else zarr3.

    Unsupported where it has one that promises something else.
    """
    scheme, _, rest = url.rpartition("://")
    if scheme.lower() in SCHEMES:
        return SCHEMES[scheme.lower()]
    if scheme.lower() in REPOSITORIES:  # which hold no other
        return "zarr3"
    path = rest.partition("?")[0].rstrip("/").lower().removesuffix(".zip")
    for end in sorted(SUFFIXES, key=len, reverse=True):
        if path.endswith(end):
            return SUFFIXES[end]
    for name in _foreign():
        if path.endswith(_suffixes(name)):
            return name
    ending = _ENDING.search(path)
    if ending is None or (scheme.lower() in REMOTE and "/" not in path):
        return "zarr3"
    known = [*SUFFIXES, *(end for name in _foreign() for end in _suffixes(name))]
    remedy = f"end it with one of {', '.join(known)}, or give format= (--format); collections: format='collections'"
    if ending[1] == "nwb":
        remedy = (
            "pynwb writes NWB into HDF5: NWBHDF5IO.export of a hyperslab.hdmf.HyperslabIO; or end it with .nwb.zarr"
        )
    if ending[1] in _HDF5_ENDINGS:
        remedy = (
            "format='netcdf' and model='HDF5' (--format netcdf --option model=HDF5) make plain HDF5; or end it with .nc"
        )
    raise Unsupported(
        f"no new dataset is made under a name that ends in .{ending[1]}",
        url=url,
        remedy=remedy,
    )


def _suffixes(name: str) -> tuple[str, ...]:
    """Return the ends of the names of a third party's datasets."""
    try:
        found = get_format(name)
    except Unsupported:  # it cannot be imported: get_format says so to whoever names it
        return ()
    return found.traits.suffixes
