"""The formats that hyperslab speaks: one folder and one line here each. Others: entry points ``hyperslab.formats``."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from hyperslab.errors import Unsupported
from hyperslab.formats.base import Format, NamesDatasets
from hyperslab.model.guessing import meant
from hyperslab.stores.location import Probe
from hyperslab.stores.schemes import REMOTE

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
}

# formats whose datasets look like one of another format that is asked first
WITHIN = {"zarr3": ("hdmf", "collections", "deker", "zarr3")}

# where the scheme of the URL says it all, and nobody else is asked
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
    """The formats of third parties; looked up once, for it reads every installed package's metadata."""
    return {entry.name: entry for entry in entry_points(group="hyperslab.formats") if entry.name not in FORMATS}


_ENDING = re.compile(r"[^/]\.([a-z]\w*)$")
"""How the name of a file tells what it is: no number, no name that is hidden."""


def get_format(name: str) -> Format:
    """The format of this name, ours or a third party's; Unsupported when there is none."""
    if name in FORMATS:
        found: Format = import_module(FORMATS[name]).FORMAT
        return found
    if name in _foreign():
        return _loaded(_foreign()[name])
    raise Unsupported(f"no format {name!r}", remedy=meant(str(name).lower(), names()))


def _loaded(entry: EntryPoint) -> Format:
    """What a third party registered; Unsupported when it cannot be imported."""
    try:
        foreign: Format = entry.load()
    except Exception as error:  # another's code, which may fail in any way
        message = f"format {entry.name} of another package ({entry.value}) cannot be loaded: {error!r}"
        raise Unsupported(message, remedy="mend, update or uninstall that package") from error
    return foreign


def names() -> list[str]:
    """The names of all formats, in the order of detection."""
    return [*FORMATS, *_foreign()]


def detect(probe: Probe) -> Format | None:
    """The first format that recognises the place; third parties are asked only when none of ours does.

    The one that the name promises is asked first: on a server each question is a request.
    """
    if probe.where.scheme in SCHEMES:
        return get_format(SCHEMES[probe.where.scheme])
    promised = SUFFIXES.get(probe.where.suffix)
    for known in (WITHIN.get(promised, (promised,)) if promised else (), FORMATS, _foreign):
        for name in known() if callable(known) else known:
            candidate = get_format(name)
            if candidate.sniff(probe):
                return candidate
    return None


def format_for_new(url: str) -> str:
    """The format that a new dataset at ``url`` gets by its scheme or the end of its name; zarr3 where it has none.

    Unsupported where it has one that promises something else.
    """
    scheme, _, rest = url.rpartition("://")
    if scheme.lower() in SCHEMES:
        return SCHEMES[scheme.lower()]
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
    raise Unsupported(
        f"no new dataset is made under a name that ends in .{ending[1]}",
        url=url,
        remedy=f"end it with one of {', '.join(known)}, or give format= (--format)",
    )


def _suffixes(name: str) -> tuple[str, ...]:
    """How the names of a third party's datasets end."""
    try:
        found = get_format(name)
    except Unsupported:  # it cannot be imported: told where it is asked for
        return ()
    return found.suffixes if isinstance(found, NamesDatasets) else ()
