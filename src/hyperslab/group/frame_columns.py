"""Data frames that :func:`.write_frame` stored, as columns of a table, without pandas: their description is that of
``conversion.frames``.

Cells are as a reader of a table takes them: None where one is missing, categories as what they mean, intervals as
text, times of a zone as text with their offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import FormatError, HyperslabError, Invalid
from hyperslab.formats.frame_description import ATTRIBUTE, UNREADABLE, Part, damaged_description, variables_of
from hyperslab.group.table_columns import Cells, TableColumn
from hyperslab.model.cells import Values

FindArray = Callable[[str], Array | None]
# Periods whose numbers NumPy's times count alike, by their units there; quarters are three months.
_PERIODS = {
    "Y-DEC": "Y",
    "A-DEC": "Y",
    "M": "M",
    "D": "D",
    "h": "h",
    "H": "h",
    "min": "m",
    "T": "m",
    "s": "s",
    "S": "s",
}
_EDGES = {"both": "[]", "left": "[)", "right": "(]", "neither": "()"}


def refuse_frame(attrs: Mapping[str, Any], url: str) -> None:
    """Raise Invalid where a group with these attributes is a data frame: it would not know of rows that came
    otherwise."""
    if ATTRIBUTE in attrs:
        raise Invalid("rows behind a stored data frame", url=url, remedy="append_frame() of a data frame adds them")


class FrameTable:
    """The columns of a frame: the levels of its index, where that is more than the numbers of the rows, then its own.
    ``width``: how many they are. FormatError for a damaged description."""

    def __init__(self, description: Part, find_array: FindArray) -> None:
        self._find = find_array
        try:
            self._index: Part = description["index"]
            self._columns: Part = description["columns"]
            self._parts: list[Part] = list(description["cells"])
            self._rows = int(description["rows"])
            self._levels = list(self._index.get("levels", ()))
            is_counted = not self._levels and [self._index.get(key) for key in ("start", "step")] == [0, 1]
            names = self._index["names"]
            self._has_range = not self._levels and not (is_counted and names == [None])
        except UNREADABLE as error:
            raise damaged_description(error) from error
        self.width = len(self._parts) + len(self._levels) + self._has_range

    def columns(self) -> Iterator[tuple[str, TableColumn | HyperslabError]]:
        """Yield the name of each column, which others may have too, with the column or the error of opening it."""
        try:
            names = self._index["names"]
            if self._has_range:
                start, step = int(self._index["start"]), int(self._index["step"])
                yield _text_of(names[0]) or "index", RangeColumn(_text_of(names[0]) or "index", start, step, self._rows)
            levels = [(_text_of(name) or "index", part) for name, part in zip(names, self._levels, strict=False)]
            heads = self._column_names()
            yield from ((name, self._open(name, part)) for name, part in levels)
            yield from ((name, self._open(name, part)) for name, part in zip(heads, self._parts, strict=True))
        except UNREADABLE as error:
            raise damaged_description(error) from error

    def _column_names(self) -> list[str]:
        """Return the names of the frame's own columns as text; those of several levels with commas between."""
        if "words" in self._columns:
            return [str(word) for word in self._columns["words"]]
        if "start" in self._columns:
            return [str(number) for number in range(*(self._columns[key] for key in ("start", "stop", "step")))]
        levels = [
            FrameColumn("", part, self._arrays_of(part), len(self._parts)).read(0, len(self._parts))
            for part in self._columns["levels"]
        ]
        return [", ".join(_text_of(name) or "" for name in names) for names in zip(*levels, strict=True)]

    def _open(self, name: str, part: Part) -> TableColumn | HyperslabError:
        try:
            return FrameColumn(name, part, self._arrays_of(part), self._rows)
        except HyperslabError as error:
            return error

    def _arrays_of(self, part: Part) -> dict[str, Array]:
        """Return the arrays that a part needs by their names."""
        found: dict[str, Array] = {}
        for name in variables_of(part):
            array = self._find(name)
            if array is None or array.ndim != 1:
                remedy = "read its other columns, or write the frame anew"
                raise FormatError(f"the data frame has no variable {name!r} along its rows", remedy=remedy)
            found[name] = array
        return found


@dataclass(frozen=True, eq=False)
class RangeColumn(TableColumn):
    """An index that is counted: nothing of it is stored."""

    name: str
    start: int
    step: int
    rows: int

    @property
    def arrays(self) -> tuple[Array, ...]:
        """None are read."""
        return ()

    @property
    def length(self) -> int:
        return self.rows

    @property
    def type_name(self) -> str:
        """The type of pandas."""
        return "int64"

    def read(self, start: int, stop: int, most: int | None = None, shape: tuple[int, ...] | None = None) -> Cells:
        return self.start + self.step * np.arange(start, max(min(stop, self.rows), start))


@dataclass(frozen=True, eq=False)
class FrameColumn(TableColumn):
    """A column of a frame by its ``part`` of the description, with the arrays of that by name. ``rows``: those of the
    frame; what is behind them an append that died has left."""

    name: str
    part: Part
    variables: Mapping[str, Array]
    rows: int

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The cells, then what they mean and which are missing."""
        return tuple(self.variables.values())

    @property
    def length(self) -> int:
        return min(self.rows, self.arrays[0].shape[0])

    @property
    def type_name(self) -> str:
        """The type that pandas had."""
        return str(self.part["dtype"])

    def read(self, start: int, stop: int, most: int | None = None, shape: tuple[int, ...] | None = None) -> Cells:
        """Return the cells of some rows, as the module says."""
        try:
            return self._cells(self.part, slice(start, max(start, min(stop, self.length))))
        except HyperslabError:
            raise
        except (*UNREADABLE, OverflowError) as error:
            raise damaged_description(error) from error

    def _cells(self, part: Part, rows: slice) -> Values:
        if "ends" in part:
            ends = (self._cells(end, rows) for end in part["ends"])
            edges = _EDGES[part["closed"]]
            return _objects([_interval(low, high, edges) for low, high in zip(*ends, strict=True)])
        array = self.variables[part["variable"]]
        stored = np.asarray(array[rows])
        if "categories" in part:
            words = self._cells(part["categories"], slice(None))
            return _objects([words[code] if code >= 0 else None for code in stored])
        missing = np.zeros(stored.shape, bool)
        fill = array.attrs.get("_FillValue")
        if "missing" in part:
            missing = np.asarray(self.variables[part["missing"]][rows]) != 0
        elif fill is not None and stored.dtype.kind in "iub":
            missing = stored == fill
        return _as_they_were(part, stored, missing)


def _as_they_were(part: Part, stored: Values, missing: Values) -> Values:
    """Return the cells of a variable in the type that its part tells, None where one is missing."""
    kind = str(part.get("dense", part["dtype"]) if part["dtype"] == "Sparse" else part["dtype"])
    if "objects" in part:
        cells = stored.astype(object)
        if part["objects"] == "json":
            cells = _objects([_of_json(json.loads(cell)) if cell else None for cell in cells])
    elif kind.startswith("period["):
        return _periods(stored, kind[7:-1], missing)
    elif kind.startswith("datetime64[") and "," in kind:
        unit, _, zone = kind[11:-1].partition(",")
        known = _zone(zone.strip())
        times = stored.view(f"M8[{unit}]")
        return _objects(
            [None if is_gone else _zoned(time, known) for time, is_gone in zip(times, missing, strict=True)]
        )
    elif kind.startswith(("datetime64[", "timedelta64[")):
        return stored.view(kind)
    else:
        cells = stored.astype(bool) if kind == "boolean" else stored
    if missing.any():
        cells = cells.astype(object)
        cells[missing] = None
    return cells


def _periods(stored: Values, frequency: str, missing: Values) -> Values:
    """Return periods as text where NumPy's times count alike, else their numbers."""
    if frequency.startswith("Q-DEC"):
        texts = [f"{1970 + int(number) // 4}Q{int(number) % 4 + 1}" for number in stored]
    elif frequency in _PERIODS:
        texts = [str(time) for time in stored.view(f"M8[{_PERIODS[frequency]}]")]
    else:
        texts = stored.tolist()
    return _objects([None if is_gone else text for text, is_gone in zip(texts, missing, strict=True)])


def _zone(name: str) -> tzinfo:
    """Return a time zone; UTC where this machine does not know it."""
    if name.startswith(("UTC+", "UTC-")):
        hours, _, minutes = name[4:].partition(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if name[3] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        return UTC


def _zoned(time: np.datetime64, zone: tzinfo) -> str:
    """Return a time of UTC as text of its zone, with all its digits and the offset."""
    seconds = time.astype("M8[s]")
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(seconds.astype("i8")))
    text = moment.astimezone(zone).isoformat()
    digits = str(time).partition(".")[2].rstrip("0")
    return f"{text[:19]}.{digits}{text[19:]}" if digits else text


def _interval(low: object, high: object, edges: str) -> str | None:
    """Return an interval as text; None for a missing one."""
    is_missing = low is None or bool(low != low)
    return None if is_missing else f"{edges[0]}{low}, {high}{edges[1]}"


def _text_of(name: Any) -> str | None:
    """Return a label of a frame as text, from JSON or as it was read; None for none."""
    if isinstance(name, list | tuple):
        return ", ".join(_text_of(each) or "" for each in name)
    value = _of_json(name)
    return None if value is None else str(value)


def _of_json(name: Any) -> Any:
    """Return a label of a frame from its JSON."""
    if not isinstance(name, dict):
        return name
    if "na" in name:
        return None
    return float(name["float"]) if "float" in name else np.datetime64(name["time"])


def _objects(cells: list[Any]) -> Values:
    found = np.empty(len(cells), object)
    found[:] = cells
    return found
