"""What a user may wish of an array in the current dialect of NCZarr: types that netCDF has, text of a known width."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.codec_kinds import with_serial
from hyperslab.formats.nczarr.cells import text_length, with_text
from hyperslab.formats.nczarr.context import Context
from hyperslab.formats.nczarr.typed import MAXIMUM_TEXT, NUMBERS
from hyperslab.model.dtypes import Char, Compound, DataType, Enum, Opaque, VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

MAXIMUM, DEFAULT_MAXIMUM = "_nczarr_maxstrlen", "_nczarr_default_maxstrlen"


def cell_type(dtype: DataType) -> DataType:
    """The type as netCDF has it: single bytes are chars; Unsupported where it has none without user types."""
    match dtype:
        case Char() | VlenString():
            return dtype
        case np.dtype() if dtype == np.dtype("S1"):
            return Char()
        case np.dtype() if dtype.newbyteorder("=").str[1:] in NUMBERS and dtype.names is None:
            return dtype
        case Enum() | Opaque() | Compound() | np.dtype(kind="V"):
            remedy = "dialect='draft' has user types"
        case np.dtype(kind="S" | "U"):
            remedy = "give dtype=str, and the attribute _nczarr_maxstrlen where text is longer than 128 bytes"
        case _:
            remedy = "convert the cells first, or use format zarr2"
    message = f"format nczarr (dialect current) has no cells of type {describe(dtype)}"
    raise Unsupported(message, remedy=remedy)


def with_steps(spec: ArraySpec, asked: Any, context: Context) -> ArraySpec:
    """The array with a whole chain of codecs; ``asked``: the width of text that the wish names, if any."""
    # netcdf-c takes cells in Fortran's order for those in C's, shuffles text by another size than Zarr's readers,
    # and opens no dataset with a scalar under Blosc
    dropped = {"transpose", "vlen-utf8"}
    dropped |= {"shuffle"} if isinstance(spec.dtype, VlenString) else set()
    dropped |= set() if spec.shape else {"blosc"}
    codecs = [codec for codec in spec.codecs if codec.name not in dropped]
    whole = spec.evolve(codecs=with_serial(codecs, Codec("bytes")))
    if not isinstance(spec.dtype, VlenString):
        return whole
    return with_text(whole, text_width(spec, asked, context), truncate=context.options.truncate)


def text_width(spec: ArraySpec, asked: Any, context: Context) -> int:
    """The bytes of a cell of text: as asked for, as its codec says, else what the dataset has for all (R36)."""
    return _width(asked) or text_length(spec) or _default(context) or MAXIMUM_TEXT


def _width(asked: Any) -> int | None:
    if asked is None:
        return None
    given = np.asarray(asked)
    if given.size != 1 or given.dtype.kind not in "iu" or not 0 < int(given.reshape(())) < 2**28:
        raise Invalid(f"{MAXIMUM}={asked!r}", remedy="a whole number of bytes")
    return int(given.reshape(()))


def _default(context: Context) -> int | None:
    """The width that the root gives all its strings."""
    root = context.group("")
    value, _ = ({} if root is None else root.layout.get("hidden", {})).get(DEFAULT_MAXIMUM, (None, None))
    return value if type(value) is int and 0 < value < 2**28 else None
