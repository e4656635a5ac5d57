"""What netcdf-c wrote otherwise than it meant, put right while reading: fill values (rule 3.10), byte order (3.11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.metadata_json.cells import as_fill
from hyperslab.formats.nczarr.context import Context
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.model.dtypes import Char, DataType, VlenString
from hyperslab.model.spec import ArraySpec, Codec

FILL = "_FillValue"
SIX_DIGITS, FILL_DOUBLE = 9.96921e36, 9.969209968386869e36
_ALL_SWAPPED = re.compile(r"4\.9\.[012]\b.*")
_SWAPPED_IN_DEVELOPMENT = re.compile(r"4\.9\.3-dev.*")


def fill_code(dtype: DataType) -> str | None:
    """The type code of ``_FillValue``, which is of the type of the cells; None where it says nothing."""
    match dtype:
        case Char():
            return ">S1"
        case VlenString():
            return "string"
        case np.dtype(kind="i" | "u" | "f"):
            return dtype.newbyteorder("<").str
        case _:
            return None


def mended_fill(
    spec: ArraySpec, attrs: Mapping[str, Any], doc: Mapping[str, Any], context: Context, problems: Problems
) -> Any:
    """The fill value that its writer meant."""
    said, attribute = doc.get("fill_value"), attrs.get(FILL)
    if said == SIX_DIGITS and spec.dtype in (np.dtype("<f8"), np.dtype(">f8")) and "netcdf" in context.provenance:
        problems.warn("fill_value", f"fill_value {said} has 6 digits; {FILL_DOUBLE}, netCDF's fill value, is meant")
        return np.float64(FILL_DOUBLE)
    if isinstance(spec.dtype, VlenString):  # null is empty to netcdf-c, whatever the attribute says
        is_literal = isinstance(said, str) and isinstance(attribute, str) and said == attribute
        return said if is_literal else spec.fill_value
    if said is not None or attribute is None:
        return spec.fill_value
    try:
        fill = as_fill(attribute, spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        problems.warn("fill_value", f"{FILL} {brief(attribute)} is no cell: {error}")
        return spec.fill_value
    problems.warn("fill_value", f"fill_value is null; {FILL} {brief(attribute)} is meant")
    return fill


def mend_byte_order(spec: ArraySpec, context: Context, problems: Problems) -> ArraySpec:
    """The array with cells of a big-endian dtype read in the order that they were written in."""
    if not isinstance(spec.dtype, np.dtype) or not spec.dtype.str.startswith(">"):
        return spec
    asked = context.options.byteorder
    if asked == "stored" or (asked == "auto" and not _writes_swapped(context)):
        return spec
    if asked == "auto":
        writer = f"netcdf-c {context.provenance['netcdf']}"
        message = (
            f"{writer} wrote cells of {spec.dtype.str} in little-endian order; byteorder='stored' reads them as is"
        )
        problems.warn("byte-order", message)
    little = Codec("bytes", {"endian": "little"})
    return spec.evolve(codecs=tuple(little if codec.name == "bytes" else codec for codec in spec.codecs))


def _writes_swapped(context: Context) -> bool:
    """Return whether a version of netcdf-c wrote this dataset that stores big-endian cells in little-endian order."""
    version = context.provenance.get("netcdf", "")
    if context.generation is Generation.V2B and _SWAPPED_IN_DEVELOPMENT.fullmatch(version):
        return True
    return context.generation in (Generation.V2A, Generation.V2B) and bool(_ALL_SWAPPED.fullmatch(version))
