"""The formats that hyperslab speaks: one folder and one line here each. Others: entry points ``hyperslab.formats``."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from hyperslab.errors import Unsupported
from hyperslab.formats.base import Format

# in the order of detection
FORMATS = {
    "zarr3": "hyperslab.formats.zarr3",
    "zarr2": "hyperslab.formats.zarr2",
    "netcdf": "hyperslab.formats.netcdf",
}

# what a new dataset becomes, by the end of its name; the longest match counts
SUFFIXES = {".zarr": "zarr3", ".nc": "netcdf", ".nc4": "netcdf", ".cdf": "netcdf"}


def get_format(name: str) -> Format:
    """The format of this name, ours or a third party's; Unsupported when there is none."""
    if name in FORMATS:
        found: Format = import_module(FORMATS[name]).FORMAT
        return found
    for entry in entry_points(group="hyperslab.formats", name=name):
        foreign: Format = entry.load()
        return foreign
    raise Unsupported(f"no format {name!r}", remedy=f"there are {', '.join(names())}")


def names() -> list[str]:
    """The names of all formats, in the order of detection."""
    foreign = [entry.name for entry in entry_points(group="hyperslab.formats") if entry.name not in FORMATS]
    return [*FORMATS, *foreign]


def format_for_new(url: str) -> str:
    """The format that a new dataset at ``url`` gets by its name; zarr3 when the name says nothing."""
    path = url.partition("?")[0].rstrip("/").removesuffix(".zip")
    return next((SUFFIXES[end] for end in sorted(SUFFIXES, key=len, reverse=True) if path.endswith(end)), "zarr3")
