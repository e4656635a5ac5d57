"""Open a tree of 300 arrays and look at all of them: shape, dtype, dimension names, every attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import zarr

import hyperslab as hs
from benchmarks.harness import Contender, Row, Target

TITLE = "A tree of 300 arrays"
_GROUPS, _ARRAYS = 15, 20
_BOUND = (
    "about 30 us an array, of them 13 for checking its document, and as much for the attributes that are looked at."
)
Seen = dict[str, tuple[tuple[int, ...], str, tuple[str, ...], dict[str, Any]]]
_HIDDEN = ("_ARRAY_DIMENSIONS", "_NCZARR_ATTR", "_nczarr_attr", "_NCZARR_ARRAY", "_nczarr_array")


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Consolidated or not: Zarr as zarr-python writes it, NCZarr as netCDF4 writes it."""
    for consolidated in (True, False):
        places = {name: folder / f"{name}-{consolidated}" for name in ("zarr2", "nczarr")}
        _write_zarr(places["zarr2"], consolidated)
        _write_nczarr(places["nczarr"], consolidated)
        contenders = [
            Contender("hyperslab", _ours(places["zarr2"])),
            Contender("zarr-python", _zarr(places["zarr2"], consolidated)),
            Contender("netCDF4", _netcdf(places["nczarr"], consolidated)),
        ]
        targets = [Target("zarr-python", 5.0, _BOUND)]
        targets += [Target("netCDF4", 1 / 0.6, _BOUND)] if consolidated else []
        kind = "consolidated" if consolidated else "not consolidated"
        yield Row(f"open and look at everything, {kind}", contenders, _check, targets)


def _arrays() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for group in range(_GROUPS):
        for array in range(_ARRAYS):
            yield (
                f"g{group}",
                f"v{array}",
                {"units": "K", "long_name": f"variable {array} of {group}", "valid_min": 1.5},
            )


def _check(_: str, seen: Seen) -> bool:
    expected = {f"{group}/{name}": ((8, 9), "float32", ("y", "x"), attrs) for group, name, attrs in _arrays()}
    return seen == expected


def _write_zarr(path: Path, consolidated: bool) -> None:
    root = zarr.create_group(path, zarr_format=2)
    for group, name, attrs in _arrays():
        parent = root.require_group(group)
        array = parent.create_array(name, shape=(8, 9), chunks=(8, 9), dtype="f4")
        array.attrs.update({"_ARRAY_DIMENSIONS": ["y", "x"], **attrs})
    if consolidated:
        zarr.consolidate_metadata(path, zarr_format=2)


def _nczarr_url(path: Path, consolidated: bool) -> str:
    return f"file://{path}#mode=nczarr,file{',consolidated' if consolidated else ''}"


def _write_nczarr(path: Path, consolidated: bool) -> None:
    with netCDF4.Dataset(_nczarr_url(path, consolidated), "w") as root:
        root.createDimension("y", 8)
        root.createDimension("x", 9)
        for group, name, attrs in _arrays():
            parent = root.groups.get(group) or root.createGroup(group)
            parent.createVariable(name, "f4", ("y", "x"), fill_value=False).setncatts(attrs)


def _ours(path: Path) -> Callable[[], Seen]:
    def look() -> Seen:
        root: Any = hs.open(path)
        return {
            f"{group_name}/{name}": (array.shape, str(array.dtype), array.dims, dict(array.attrs))
            for group_name, group in root.groups()
            for name, array in group.arrays()
        }

    return look


def _zarr(path: Path, consolidated: bool) -> Callable[[], Seen]:
    def look() -> Seen:
        root = zarr.open_group(path, mode="r", zarr_format=2, use_consolidated=consolidated)
        seen = {}
        for name, array in root.members(max_depth=None):
            if isinstance(array, zarr.Array):
                attrs = dict(array.attrs)
                seen[name] = (array.shape, str(array.dtype), tuple(attrs.pop("_ARRAY_DIMENSIONS")), attrs)
        return seen

    return look


def _netcdf(path: Path, consolidated: bool) -> Callable[[], Seen]:
    def look() -> Seen:
        with netCDF4.Dataset(_nczarr_url(path, consolidated)) as root:
            return {
                f"{group_name}/{name}": (array.shape, str(array.dtype), array.dimensions, _plain(array))
                for group_name, group in root.groups.items()
                for name, array in group.variables.items()
            }

    return look


def _plain(array: Any) -> dict[str, Any]:
    attrs = {name: array.getncattr(name) for name in array.ncattrs() if name not in _HIDDEN}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in attrs.items()}
