"""The same labelled objects in every process, and what there is to say of one: needs xarray, dask and pint alone."""

from __future__ import annotations

import datetime
import math
from typing import Any

import dask.array as da
import numpy as np
import pint
import xarray as xr

Object = xr.Dataset | xr.DataArray

DTYPES = {
    "|b1": [True, False, True],
    "|i1": [-128, 0, 127],
    "<i2": [-300, 0, 300],
    "<u8": [0, 1, 2**64 - 1],
    "<f2": [0.5, math.inf, math.nan],
    "<f4": [1.5, -0.0, math.nan],
    "<f8": [1e300, -math.inf, math.nan],
    "<f16": [0.1, 0.2, 0.3],
    "<c8": [1 + 2j, 0, -1j],
    "<c16": [complex(math.nan, 1), 0, 2],
    "<M8[ns]": ["2020-02-29T12:00:00.123456789", "NaT", "1970-01-01"],
    "<M8[us]": ["2020-02-29T12:00:00.123456", "NaT", "0001-01-01"],
    "<M8[s]": ["2020-02-29T12:00:00", "NaT", "1066-10-14"],
    "<m8[ns]": [1, -1, 10**12],
    "<U3": ["a", "é✓", ""],
    "|S3": [b"a", b"", b"\xff\x00\xff"],
    "|V3": [b"abc", b"\x00\x00\x00", b"\xff\x00\x01"],
    ">f8": [1.0, 2.0, math.nan],
    ">U2": ["ab", "", "é"],
}
"""Every dtype that the format stores, with cells of it."""


def objects() -> dict[str, Object]:
    """By name; each has a name or attributes of its own."""
    return _of_every_dtype() | _chunked() | _described()


def _of_every_dtype() -> dict[str, Object]:
    found: dict[str, Object] = {}
    for dtype, cells in DTYPES.items():
        values = np.array(cells, dtype)
        found[f"numpy {dtype}"] = xr.DataArray(values, dims="x")
        found[f"dask {dtype}"] = xr.DataArray(da.from_array(values, chunks=2), dims="x", name=dtype)
    return found


def _lazy(data: da.Array, *dims: str) -> xr.DataArray:
    """Without the name that xarray takes from dask."""
    return xr.DataArray(data, dims=dims).rename(None)


def _chunked() -> dict[str, Object]:
    grid = np.arange(4 * 6 * 5, dtype="<i4").reshape(4, 6, 5)
    cells = da.from_array(np.arange(6), chunks=3)
    long = np.random.default_rng(5).normal(size=(300, 400))
    return {
        "uneven": _lazy(da.from_array(grid, chunks=((1, 3), (4, 2), (2, 2, 1))), "z", "y", "x"),
        "one chunk": _lazy(da.from_array(grid, chunks=-1), "z", "y", "x"),
        "transposed": _lazy(da.from_array(grid, chunks=2).T, "x", "y", "z"),
        "fortran": xr.DataArray(np.asfortranarray(grid), dims=("z", "y", "x")),
        "strided": xr.DataArray(grid[::-2, :, 1::2], dims=("z", "y", "x")),
        "scalar": xr.DataArray(np.float64(2.5)),
        "dask scalar": xr.DataArray(da.from_array(np.float32(2.5), chunks=()), name="s"),
        "no cells": xr.DataArray(np.zeros((0, 3)), dims=("y", "x")),
        "dask of no cells": _lazy(da.zeros((0, 3), chunks=(1, 3)), "y", "x"),
        "unknown sizes": xr.DataArray(cells[cells > 1], dims="x", name="unknown"),
        "several documents": xr.DataArray(long, dims=("y", "x")),
        "several documents each": _lazy(da.from_array(long, chunks=(150, 400)), "y", "x"),
        "index in documents": xr.Dataset(coords={"x": np.arange(50_000)}),
    }


def _described() -> dict[str, Object]:
    attrs: dict[str, Any] = {"title": "hello", "n": 1, "big": 2**40, "f": 1.5, "yes": True, "none": None, "é ✓": "ü"}
    attrs |= {"list": [1, "a", None, [2.5]], "nested": {"a": {"b": 1}}, "bytes": b"\x00\xff"}
    attrs |= {"date": datetime.datetime(2020, 1, 1), "a.b": 1, "$c": 2}
    temperature = da.from_array(np.arange(35, dtype="<f4").reshape(5, 7), chunks=(2, 3))
    times = np.array(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04", "2020-01-05"], "<M8[ns]")
    coords = {"x": ("x", np.arange(7), {"units": "m"}), "y": times, "aux": (("y", "x"), np.ones((5, 7)))}
    coords |= {"far": ("x", da.arange(7, chunks=4)), "scalar": 3}
    units = pint.get_application_registry()
    force = units.Quantity(np.arange(3.0), "kg * m / s ** 2")
    warm = units.Quantity(da.arange(4, chunks=2), "degC")
    return {
        "dataset": xr.Dataset(
            {"t": (("y", "x"), temperature, {"long_name": "temp"}), "m": ("y", np.arange(5, dtype="<i2"))},
            coords,
            attrs,
        ),
        "empty": xr.Dataset(),
        "attributes alone": xr.Dataset(attrs={"a": 1}),
        "odd names": xr.Dataset({name: ("x", [1, 2]) for name in ("a.b", "$c", "", "é ✓", "__DataArray__")}),
        "named": xr.DataArray([1, 2], dims="x", name="foo", attrs={"k": "v"}),
        "named as its coordinate": xr.DataArray([1, 2], {"x": [1, 2]}, "x", "x"),
        "force": xr.DataArray(force, dims="x", attrs={"units": "another thing"}),
        "temperature": xr.DataArray(warm, dims="x", name="p"),
        "no dimension": xr.DataArray(units.Quantity(np.arange(3.0), "dimensionless"), dims="x"),
        "units in a dataset": xr.Dataset({"a": ("x", warm), "b": ("y", force), "c": ("y", np.arange(3))}),
    }


def describe(found: Object) -> dict[str, Any]:
    """All but the cells, as JSON can say it: an unknown size is null, an attribute is its ``repr``."""
    dataset = found if isinstance(found, xr.Dataset) else found.to_dataset(name="__DataArray__")
    kind, name = ("Dataset", None) if found is dataset else ("DataArray", found.name)
    variables = {str(key): _describe(variable) for key, variable in dataset.variables.items()}
    attrs = {str(key): repr(value) for key, value in found.attrs.items()}
    coords = [str(key) for key in dataset.coords]
    return {"kind": kind, "name": name, "attrs": attrs, "coords": coords, "variables": variables}


def _describe(variable: xr.Variable) -> dict[str, Any]:
    data = variable.data
    units = str(data.units) if hasattr(data, "units") else None
    blocks = None if variable.chunks is None else [[_size(size) for size in axis] for axis in variable.chunks]
    return {
        "dims": list(variable.dims),
        "dtype": variable.dtype.str,
        "shape": [_size(size) for size in variable.shape],
        "chunks": blocks,
        "units": units,
        "attrs": {str(key): repr(value) for key, value in variable.attrs.items()},
    }


def _size(size: float) -> int | None:
    return None if math.isnan(size) else int(size)


def cells(found: Object) -> dict[str, np.ndarray[Any, Any]]:
    """The cells of every variable, without their units."""
    dataset = found if isinstance(found, xr.Dataset) else found.to_dataset(name="__DataArray__")
    return {str(name): _cells(variable) for name, variable in dataset.variables.items()}


def _cells(variable: xr.Variable) -> np.ndarray[Any, Any]:
    data = variable.data
    data = getattr(data, "magnitude", data)
    return np.asarray(data.compute() if hasattr(data, "compute") else data)
