"""The rules of slicing as a table: an expression, what deker makes of it, and what hyperslab does where it differs.

On an array of six hours, eight steps of a scale, four labels and ten plain cells, whose cells count from 0. What is
expected is the key with which NumPy has the same of its cells, or an error's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np

SHAPE = (6, 8, 4, 10)
VGRID = (3, 2, 2, 5)
CELLS = np.arange(6 * 8 * 4 * 10).reshape(SHAPE)
START = datetime(2023, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ERROR = "IndexError"
ALL = np.s_[:]


def hour(number: float) -> datetime:
    """A time of the first axis."""
    return START + number * HOUR


@dataclass(frozen=True)
class Row:
    """What an expression gives; ``ours`` alone is named where both agree; ``varray`` where their VArray differs."""

    expression: str
    ours: Any
    theirs: Any = None
    varray: Any = None

    @property
    def key(self) -> Any:
        """The expression as a value."""
        return eval(f"np.s_[{self.expression}]", {"np": np, "hour": hour, **_WORDS})

    def theirs_of(self, flavour: str) -> Any:
        """What deker gives in an Array or a VArray."""
        own = self.varray if flavour == "varray" else None
        return next(each for each in (own, self.theirs, self.ours) if each is not None)


_WORDS = {"date": date, "datetime": datetime, "timedelta": timedelta, "timezone": timezone, "HOUR": HOUR}
KEPT = (
    Row("()", ALL),
    Row("...", ALL),
    Row(":", ALL),
    Row("2", np.s_[2]),
    Row("-1", np.s_[-1]),
    Row("-6", np.s_[0]),
    Row(":, 3", np.s_[:, 3]),
    Row(":, :, 2", np.s_[:, :, 2]),
    Row("1, 2, 3, 4", np.s_[1, 2, 3, 4]),
    Row("-1, -2, -3, -4", np.s_[-1, -2, -3, -4]),
    Row("True", ERROR),
    Row("None", ERROR),
    Row("[0, 1]", ERROR),
    Row("0, 0, 0, 0, 0", ERROR),
    Row(":, :, :, :, :", ERROR),
    Row("..., ...", ERROR),
    Row("hour(3)", np.s_[3]),
    Row("'2023-01-01T03:00:00'", np.s_[3]),
    Row("'2023-01-01T03:00:00+00:00'", np.s_[3]),
    Row("'2023-01-01T03:00:00Z'", np.s_[3]),
    Row("'2023-01-01T05:00:00+02:00'", np.s_[3]),
    Row("'2023-01-01 03:00:00'", np.s_[3]),
    Row("'2023-01-01'", np.s_[0]),
    Row("datetime(2023, 1, 1, 3)", np.s_[3]),
    Row("datetime(2023, 1, 1, 8, tzinfo=timezone(5 * HOUR))", np.s_[3]),
    Row("1672542000.0", np.s_[3]),
    Row("1672542000", ERROR, ERROR, "fill"),
    Row("np.float64(1672542000.0)", np.s_[3]),
    Row("hour(0.5)", ERROR),
    Row("hour(-1)", ERROR),
    Row("hour(7)", ERROR),
    Row("'noon'", ERROR),
    Row("''", ERROR),
    Row(":, 89.5", np.s_[:, 2]),
    Row(":, np.float64(89.5)", np.s_[:, 2]),
    Row(":, 90.0", np.s_[:, 0]),
    Row(":, 88.25", np.s_[:, 7]),
    Row(":, 88.0", ERROR),
    Row(":, 90.25", ERROR),
    Row(":, 89.6", ERROR),
    Row(":, float('nan')", ERROR),
    Row(":, float('inf')", ERROR),
    Row(":, 'a'", ERROR),
    Row(":, :, 'c'", np.s_[:, :, 2]),
    Row(":, :, 'e'", ERROR),
    Row(":, :, 1.0", ERROR),
    Row(":, :, :, 1.0", ERROR),
    Row(":, :, :, 'a'", ERROR),
    Row("1:3", np.s_[1:3]),
    Row("1:", np.s_[1:]),
    Row(":2", np.s_[:2]),
    Row("-3:-1", np.s_[-3:-1]),
    Row("1:3:1", np.s_[1:3]),
    Row("1:3:None", np.s_[1:3]),
    Row("hour(1):hour(3)", np.s_[1:3]),
    Row("hour(1):hour(3):HOUR", np.s_[1:3]),
    Row("hour(1):", np.s_[1:]),
    Row(":hour(2)", np.s_[:2]),
    Row("hour(1):hour(6)", np.s_[1:]),
    Row("'2023-01-01T01:00:00':'2023-01-01T03:00:00'", np.s_[1:3]),
    Row("hour(1).timestamp():hour(3).timestamp()", np.s_[1:3]),
    Row("hour(1):hour(7)", ERROR),
    Row("hour(-1):hour(3)", ERROR),
    Row(":, 89.75:89.0", np.s_[:, 1:4]),
    Row(":, 89.0:", np.s_[:, 4:]),
    Row(":, :89.5", np.s_[:, :2]),
    Row(":, 89.75:89.1", ERROR),
    Row(":, 90.5:89.0", ERROR),
    Row(":, 89.0:87.0", ERROR),
    Row(":, :, 'b':'d'", np.s_[:, :, 1:3]),
    Row(":, :, 'b':", np.s_[:, :, 1:]),
    Row(":, :, :'c'", np.s_[:, :, :2]),
    Row(":, :, 'b':'e'", ERROR),
    Row("1:hour(3)", ERROR),
    Row("hour(1):3", ERROR),
    Row(":, 1:89.0", ERROR),
    Row(":, :, 1:'c'", ERROR),
    Row("hour(2), 89.5:88.5, 'a':'c', -1", np.s_[2, 2:6, 0:2, -1]),
    Row("1:3, 2, 'b', 3:5", np.s_[1:3, 2, 1, 3:5]),
    Row("1, ...", np.s_[1]),
)
"""Rows marked K."""
CORRECTED = (
    Row("np.int64(2)", np.s_[2], ERROR),
    Row("np.uint8(2)", np.s_[2], ERROR),
    Row(":, np.float32(89.5)", np.s_[:, 2], ERROR),
    Row("np.datetime64('2023-01-01T03')", np.s_[3], ERROR),
    Row("date(2023, 1, 1)", np.s_[0], ERROR),
    Row("6", ERROR, ERROR, "fill"),
    Row("-7", ERROR, ERROR, "fill"),
    Row("..., 0", np.s_[..., 0], np.s_[:, 0]),
    Row("0, ..., 1", np.s_[0, ..., 1], np.s_[0, :, 1]),
    Row("0, 1, 2, 3, ...", np.s_[0, 1, 2, 3], ERROR),
    Row("'2023-01-01T00:00:00.001'", ERROR, np.s_[0]),
    Row("hour(3) + timedelta(milliseconds=2)", ERROR, np.s_[3]),
    Row("hour(6)", ERROR, ERROR, "fill"),
    Row(":, 89.50000001", np.s_[:, 2], ERROR),
    Row(":, 89.0:88.0", np.s_[:, 4:8], ERROR),
    Row("0:100", ALL, ALL, "fill"),
    Row("2:2", np.s_[2:2], ERROR),
    Row("3:1", np.s_[3:1], ERROR),
    Row("hour(3):hour(1)", np.s_[3:1], ERROR),
    Row(":, 88.5:89.5", np.s_[:, 6:2], ERROR),
    Row(":, :, 'c':'a'", np.s_[:, :, 2:0], ERROR),
    Row("hour(1):'2023-01-01T03:00:00'", np.s_[1:3], ERROR),
    Row("hour(1).timestamp():hour(3)", np.s_[1:3], ERROR),
    Row("::2", np.s_[::2], ERROR),
    Row("::-1", np.s_[::-1], ERROR),
    Row("hour(0)::2 * HOUR", np.s_[::2], ERROR),
    Row(":, ::-0.5", np.s_[:, ::2], ERROR),
    Row("::0", "ValueError", ERROR),
)
"""Rows marked C."""
BOUNDS = {
    "hour(2), 89.5:88.5, 'a':'c', -1": (2, slice(2, 6), slice(0, 2), -1),
    "1:3": (slice(1, 3),),
    "hour(1):": (slice(1, 6),),
    "2": (2,),
}
