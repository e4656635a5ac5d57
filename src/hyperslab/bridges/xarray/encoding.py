"""A Dataset as encoded variables (CF, by xarray's own rules), and what is said of how each is to be stored."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions

from hyperslab.bridges.xarray.storable import typed
from hyperslab.errors import Invalid

CF = frozenset(
    {
        "dtype",
        "units",
        "calendar",
        "scale_factor",
        "add_offset",
        "_FillValue",
        "missing_value",
        "_Unsigned",
        "coordinates",
        "grid_mapping",
        "char_dim_name",
    }
)
"""What xarray's encoders take."""
DECODED = ("scale_factor", "add_offset", "missing_value", "_Unsigned", "calendar", "dtype")
"""Attributes by which stored numbers are read as others; they go when cells come that were encoded without them."""
STORED = frozenset({"chunks", "shards", "codec", "checksum", "fill_value"})
"""What ``create_array`` takes."""
_COMPRESSION = (
    "zlib",
    "complevel",
    "compression",
    "compression_opts",
    "compressor",
    "compressors",
    "filters",
    "shuffle",
)
"""How the engines of xarray call what ``codec`` says."""

Encoding = Mapping[Hashable, Mapping[str, Any]]


def encoded(
    dataset: xr.Dataset, encoding: Encoding | None = None, *, native: bool = False
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Variables as they are to be stored, and the attributes of the group. ``encoding`` overrides each variable's own.
    ``native``: times and truths of which no encoding is told stay what they are.

    Invalid for names in ``encoding`` that mean nothing.
    """
    given = _checked(dataset, encoding or {})
    dataset = dataset.copy()
    for name, wanted in given.items():
        dataset[name].encoding = {**_without(dataset[name].encoding, wanted), **wanted}
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    return {str(name): _encode(str(name), variable, native) for name, variable in variables.items()}, dict(attrs)


def _checked(dataset: xr.Dataset, encoding: Encoding) -> Encoding:
    for name, wanted in encoding.items():
        if name not in dataset.variables:
            raise Invalid(f"encoding for {name!r}, which is no variable", remedy=f"there are {list(dataset.variables)}")
        unknown = sorted(set(wanted) - CF - STORED)
        if unknown:
            remedy = f"known are {', '.join(sorted(CF | STORED))}"
            if unknown[0] in _COMPRESSION:
                remedy = "say codec='shuffle+zlib:4' or codec='blosc:zstd:5', for instance"
            raise Invalid(f"encoding of {name!r}: {unknown[0]!r} means nothing here", remedy=remedy)
    return encoding


def _without(old: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A variable's own encoding without what would contradict the wanted one."""
    stale = {"preferred_chunks", "shards", "chunksizes"} if "chunks" in wanted else set()
    return {name: value for name, value in old.items() if name not in stale}


def _encode(name: str, variable: xr.Variable, native: bool) -> xr.Variable:
    layout = {key: variable.encoding[key] for key in (*STORED, "chunksizes") if key in variable.encoding}
    plain = variable.copy(deep=False)
    plain.encoding = {key: value for key, value in variable.encoding.items() if key in CF}
    kind = np.dtype(plain.encoding.get("dtype", variable.dtype)).kind
    if native and variable.dtype.kind in "mMb" and kind == variable.dtype.kind and "units" not in plain.encoding:
        plain.encoding = layout
        return plain
    if kind == "f":
        plain.encoding.setdefault("_FillValue", None)  # NaN needs none; xarray would add one that nobody asked for
    try:
        done = typed(name, conventions.encode_cf_variable(plain, name=name))
        if done.dtype.kind == "b":  # objects that are truths: xarray's coder saw objects
            done = conventions.encode_cf_variable(done, name=name)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, Invalid):
            raise
        remedy = f"its encoding is {plain.encoding or 'empty'}: change that, or the cells by astype()"
        raise Invalid(f"{name!r} cannot be encoded: {error}", remedy=remedy) from error
    done.encoding = layout
    return done


def plain_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as hyperslab takes them: names are text, booleans are numbers as in netCDF."""
    return {str(name): _plain(value) for name, value in attrs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.tolist()
    return np.int8(value) if isinstance(value, np.bool_) else value
