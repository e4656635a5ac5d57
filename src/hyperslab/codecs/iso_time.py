"""``iso_time``: datetime64 as text of ISO 8601, timedelta64 as its durations; how netCDF sees times of plain Zarr."""

from __future__ import annotations

import re

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.dtypes import VlenString

_DATES, _CLOCK = frozenset("YMWD"), frozenset("hms")
_DIGITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
_ENDING_ZEROS = re.compile(r"\.?0+$")


class IsoTime:
    """Text cells over stored ones of ``dtype``; NaT is the empty text. Only reads."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("iso_time", config, "dtype")
        if not isinstance(cells.dtype, VlenString):
            raise unfit("iso_time", "text", cells.dtype)
        dtype = read.dtype("iso_time", config, "dtype")
        if dtype.kind not in "mM":
            raise Invalid(f"codec 'iso_time': dtype={dtype.str!r}", remedy="a dtype of times, such as '<M8[s]'")
        self._cells = ChunkLayout(dtype, cells.shape)

    @property
    def cells(self) -> ChunkLayout:
        """Times as they are stored."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """Not offered."""
        raise Unsupported("writing times as text over cells of times", remedy="open with native=True to write them")

    def decode(self, array: Values) -> Values:
        """The text of each cell."""
        return iso_texts(array)


def iso_texts(times: Values) -> Values:
    """The times as text: ``2020-01-31T12:00:00``, ``-P5D``, ``PT0.25S``; of a type without a unit the bare number."""
    unit, count = np.datetime_data(times.dtype)
    native = times.astype(times.dtype.newbyteorder("="))  # datetime_as_string misreads others
    numbers = native.view(np.int64).reshape(-1).tolist()
    missing = np.isnat(native).reshape(-1)
    if unit == "generic":
        texts = [str(number) for number in numbers]
    elif times.dtype.kind == "M":
        texts = np.datetime_as_string(native).reshape(-1).tolist()
    else:
        texts = [_duration(number * count, unit) for number in numbers]
    texts = ["" if lost else text for text, lost in zip(texts, missing.tolist(), strict=True)]
    return np.array(texts, np.dtypes.StringDType()).reshape(times.shape)


def _duration(number: int, unit: str) -> str:
    sign, amount = "-" if number < 0 else "", abs(number)
    if unit in _DATES:
        return f"{sign}P{amount}{unit}"
    if unit in _CLOCK:
        return f"{sign}PT{amount}{unit.upper()}"
    digits = _DIGITS[unit]
    whole, part = divmod(amount, 10**digits)
    return f"{sign}PT{_ENDING_ZEROS.sub('', f'{whole}.{part:0{digits}d}')}S"
