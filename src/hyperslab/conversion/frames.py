"""Data frames of pandas, column by column as arrays of any format, and back as they were.

Each column is a variable along the rows, its cells as other readers take them: whole numbers and truth values with a
``_FillValue`` that is none of theirs, times as numbers of their unit since 1970 (UTC where they have a zone),
categories as codes beside a variable of what they mean, text as text. What NumPy cannot say (pandas' own types, names
that are no text, the index) stands in the attribute ``pandas_frame`` of the dataset, as JSON::

    {"version": 1, "rows": int, "index": index, "columns": index, "cells": [part, ...], "attrs": {...}}
    and, while rows are appended, "append": {"made": [name of a new variable, ...]}
    index = {"names": [name, ...], and "levels": [part, ...] or "start", "stop", "step" or "words", "dtype"}
    part = {"variable": str, "dtype": str, ...}

A missing cell of text is no word: what kind of missing it is stands in a variable beside it, ``*_missing``. Cells
behind ``rows`` are those of an append that died, and no part of the frame.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.api import open_group
from hyperslab.array import Array
from hyperslab.bridges.extras import library
from hyperslab.conversion.labelled_part import TIME_UNITS
from hyperslab.conversion.memory_objects import Mode, save
from hyperslab.errors import FormatError, HyperslabError, Invalid, WrongType
from hyperslab.formats.frame_description import ATTRIBUTE, UNREADABLE, VERSION, Part, read_description
from hyperslab.stores.location import Location

if TYPE_CHECKING:
    import pandas as pd

    from hyperslab.group import Group

_ROWS = "row"
# The kinds of missing objects, by their codes in a variable ``*_missing``: 0 is none.
_NONE, _NAN, _NA, _NAT = 1, 2, 3, 4


def write_frame(url: Any, frame: pd.DataFrame, format: str | None = None, *, mode: Mode = "x", **options: Any) -> None:
    """Store a data frame as a dataset, its columns as variables; :func:`read_frame` gives it back as it was.

    ``mode``: ``x`` refuses an existing target, ``w`` replaces it once the new one is complete. ``options``: those of
    :func:`.save`. Invalid names the column that cannot be stored, before anything is written.
    """
    pandas = library("pandas")
    if mode not in ("x", "w") or options.keys() & {"append_dim", "region"}:
        remedy = "append_frame() adds rows; to change some, read_frame() it, and write it with mode='w'"
        raise Invalid("a stored frame is written whole, by mode='x' or 'w'", remedy=remedy)
    require_frame(pandas, frame)
    save(url, FrameEncoder(pandas).dataset_of(frame), format=format, mode=mode, **options)


def read_frame(
    url: Any,
    columns: Sequence[Hashable] | None = None,
    *,
    loc: slice | None = None,
    iloc: slice | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Return a data frame that :func:`write_frame` stored.

    ``columns``: names of those to read, in this order; all by default. ``loc``: a slice of labels of a sorted index,
    both ends included, as ``frame.loc[...]``, for which the whole index is read; ``iloc``: a slice of positions. Cells
    of other rows and columns are not read. ``options``: those of :func:`.open`. Invalid for what is no stored frame,
    and for columns that are not in it.
    """
    pandas = library("pandas")
    with open_group(url, **options) as root:
        return FrameDecoder(pandas, root).frame(columns, loc, iloc)


def require_frame(pandas: Any, frame: object) -> None:
    """Raise WrongType for what is no data frame."""
    if not isinstance(frame, pandas.DataFrame):
        remedy = "to_frame() makes one of a Series" if isinstance(frame, pandas.Series) else "give a pandas DataFrame"
        raise WrongType(f"a {type(frame).__name__} is no data frame", remedy=remedy)


# -- frames to datasets ------------------------------------------------------------------------------------------------


class FrameEncoder:
    """One frame on its way into a dataset: ``variables`` by name, filled by :meth:`encode`."""

    def __init__(self, pandas: Any) -> None:
        self._pandas = pandas
        self._variables: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, Any]]] = {}
        self._taken: set[str] = set()

    def dataset_of(self, frame: pd.DataFrame) -> Any:
        """Return the frame as a Dataset of xarray."""
        rows = str(frame.index.name) if frame.index.nlevels == 1 and _is_variable_name(frame.index.name) else _ROWS
        self._taken = {rows, *(name for name in frame.columns if _is_variable_name(name))}
        description: Part = {"version": VERSION, "rows": len(frame), "attrs": _attrs_to_json(frame.attrs)}
        # A variable of the name of its dimension is what readers of labels look for.
        description["index"] = self.encode_index(frame.index, rows, "index")
        coords = set(self._variables)
        description["columns"] = self.encode_index(frame.columns, self._free("column"), "columns")
        description["cells"] = [
            self.encode(frame.iloc[:, place], self._variable_of(name, place), rows, f"the column {name!r}")
            for place, name in enumerate(frame.columns)
        ]
        dataset = library("xarray").Dataset(
            {name: each for name, each in self._variables.items() if name not in coords},
            {name: self._variables[name] for name in coords},
            {ATTRIBUTE: json.dumps(description)},
        )
        if rows in dataset.dims:
            dataset.encoding["unlimited_dims"] = {rows}  # append_frame() adds to them
        return dataset

    def encode_index(self, index: pd.Index, dim: str, what: str) -> Part:
        """Return the description of an index, its variables added where words alone do not tell it. Invalid."""
        pandas = self._pandas
        description: Part = {"names": [name_to_json(name, what) for name in index.names]}
        if isinstance(index, pandas.RangeIndex):
            return description | {"start": index.start, "stop": index.stop, "step": index.step}
        is_text = index.dtype == object or isinstance(index.dtype, pandas.StringDtype)
        if what == "columns" and is_text and index.nlevels == 1 and all(type(name) is str for name in index):
            return description | {"words": list(index), "dtype": self._text_type(index.dtype)}
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        names = [dim] if len(levels) == 1 else [self._free(f"{dim}_level_{level}") for level in range(len(levels))]
        description["levels"] = [
            self.encode(level, name, dim, f"the {what}") for level, name in zip(levels, names, strict=True)
        ]
        if index.nlevels == 1 and index.dtype.kind in "mM" and index.freq is not None:
            description["freq"] = index.freq.freqstr
        return description

    def _variable_of(self, name: Hashable, place: int) -> str:
        """Return the variable of a column: of its own name where that can be one and is the first of that name."""
        if _is_variable_name(name) and name not in self._variables:
            return str(name)
        return self._free(f"column_{place}")

    def _text_type(self, dtype: Any) -> Part:
        """Return the dtype of words: objects, or one of pandas' types of text."""
        if not isinstance(dtype, self._pandas.StringDtype):
            return {}
        return {"storage": dtype.storage, "na": "nan" if dtype.na_value is not self._pandas.NA else "NA"}

    def _free(self, wanted: str) -> str:
        """Return a name that no variable has yet, and take it."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def encode(self, cells: pd.Series | pd.Index, variable: str, dim: str, what: str) -> Part:
        """Add the variables of a column, or of a level of the index; return its part of the description. Invalid."""
        pandas, dtype = self._pandas, cells.dtype
        part: Part = {"variable": variable, "dtype": str(dtype)}
        match dtype:
            case pandas.CategoricalDtype():
                return self._encode_categories(cells, part, dim, what)
            case pandas.IntervalDtype():
                return self._encode_intervals(cells, part, dim, what)
            case pandas.SparseDtype():
                dense = pandas.Series(np.asarray(cells))
                inner = self.encode(dense, variable, dim, what)
                fill = name_to_json(_plain(dtype.fill_value), what)
                return inner | {"dtype": "Sparse", "dense": inner["dtype"], "subtype": str(dtype.subtype), "fill": fill}
            case pandas.PeriodDtype():
                return part | self._add_integers(variable, dim, np.asarray(cells.array.asi8), {})
            case pandas.DatetimeTZDtype():
                if not _has_named_zone(dtype):
                    remedy = "tz_convert() it to a zone of zoneinfo, such as 'Europe/Paris'"
                    raise Invalid(f"{what} has a time zone without a name, {dtype.tz!r}", remedy=remedy)
                times = np.asarray(cells.array.asi8)
                attrs = _time_attrs(dtype.unit) | {"time_zone": str(dtype.tz)}
                return part | self._add_integers(variable, dim, times, attrs)
            case pandas.StringDtype():
                return (
                    part
                    | self._text_type(dtype)
                    | self._add_text(variable, dim, np.asarray(cells.array, dtype=object), what)
                )
            case np.dtype():
                return part | self._encode_plain(np.asarray(cells.array), variable, dim, what)
        if hasattr(dtype, "numpy_dtype") and isinstance(dtype.numpy_dtype, np.dtype) and dtype.kind in "biuf":
            return part | self._encode_masked(cells, dtype.numpy_dtype, variable, dim, what)
        remedy = "astype() it to a dtype of NumPy: times to 'datetime64[us]', decimals to 'float64'; or to text, 'str'"
        raise Invalid(f"{what} is of the pandas dtype {dtype}", remedy=remedy)

    def _encode_plain(self, cells: np.ndarray, variable: str, dim: str, what: str) -> Part:
        match cells.dtype.kind:
            case "M":
                unit = np.datetime_data(cells.dtype)[0]
                return self._add_integers(variable, dim, cells.view("i8"), _time_attrs(unit))
            case "m":
                unit = np.datetime_data(cells.dtype)[0]
                return self._add_integers(variable, dim, cells.view("i8"), {"units": TIME_UNITS[unit]})
            case "b" | "i" | "u" | "f" | "c":
                return self._add(variable, dim, cells.astype(cells.dtype.newbyteorder("="), copy=False), {})
            case "O":
                return self._encode_objects(cells, variable, dim, what)
        raise Invalid(f"{what} is of dtype {cells.dtype}", remedy="astype() it to numbers, times or text")

    def _encode_masked(self, cells: Any, dtype: np.dtype, variable: str, dim: str, what: str) -> Part:
        """Encode numbers and truth values some of which are missing."""
        missing = np.asarray(cells.isna())
        values = np.asarray(cells.array.to_numpy(dtype=dtype, na_value=dtype.type(0)))
        if dtype.kind == "f":
            is_number = np.where(missing, np.nan, values)
            return self._add(variable, dim, is_number.astype(dtype), {}) | self._add_missing(
                variable, dim, missing * _NA
            )
        if dtype.kind == "b":
            stored = np.where(missing, np.uint8(255), values.astype("u1"))
            return self._add(variable, dim, stored, {"_FillValue": np.uint8(255)})
        return self._add_integers(variable, dim, values, {}, missing)

    def _encode_objects(self, cells: np.ndarray, variable: str, dim: str, what: str) -> Part:
        kinds = {type(cell) for cell in cells if _kind_of_missing(cell, self._pandas) == 0}
        if kinds <= {str}:
            return self._add_text(variable, dim, cells, what)
        if kinds <= {bytes}:
            missing = self._missing_in(cells)
            plain = np.array([b"" if code else cell for cell, code in zip(cells, missing, strict=True)], dtype=object)
            found = np.empty(len(cells), np.dtype("O", metadata={"element_type": bytes}))
            found[:] = plain
            return (
                self._add(variable, dim, found, {}) | {"objects": "bytes"} | self._add_missing(variable, dim, missing)
            )
        if kinds <= {bool, int, float, str, tuple}:
            missing = self._missing_in(cells)
            texts = [
                "" if code else json.dumps(name_to_json(cell, what)) for cell, code in zip(cells, missing, strict=True)
            ]
            return self._add_words(variable, dim, texts, missing, what) | {"objects": "json"}
        words = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise Invalid(f"{what} holds objects of the types {words}", remedy=_remedy_for_objects(kinds))

    def _encode_categories(self, cells: Any, part: Part, dim: str, what: str) -> Part:
        categorical = cells.array
        variable, categories = part["variable"], categorical.categories
        known = self._free(f"{variable}_categories")
        inner = self.encode(categories, known, self._free(f"{variable}_category"), f"the categories of {what}")
        codes = np.asarray(categorical.codes)
        attrs = {"_FillValue": codes.dtype.type(-1), "categories": known}
        added = self._add(variable, dim, codes, attrs)
        return part | added | {"ordered": bool(categorical.ordered), "categories": inner}

    def _encode_intervals(self, cells: Any, part: Part, dim: str, what: str) -> Part:
        variable, intervals = part["variable"], cells.array
        ends = [
            self.encode(end, self._free(f"{variable}_{side}"), dim, what)
            for side, end in (("left", intervals.left), ("right", intervals.right))
        ]
        return part | {"closed": intervals.closed, "ends": ends}

    def _add(self, variable: str, dim: str, cells: np.ndarray, attrs: Mapping[str, Any]) -> Part:
        self._variables[variable] = ((dim,), cells, dict(attrs))
        return {}

    def _add_integers(
        self,
        variable: str,
        dim: str,
        values: np.ndarray,
        attrs: Mapping[str, Any],
        missing: np.ndarray | None = None,
    ) -> Part:
        """Add whole numbers. What is missing (by default what NumPy's times call so) is a number that no other is,
        where need be of a wider type."""
        if missing is None:
            fill = np.int64(np.iinfo("i8").min)
            if not (values == fill).any():
                return self._add(variable, dim, values, attrs)
            return self._add(variable, dim, values, {**attrs, "_FillValue": fill})
        if not missing.any():
            return self._add(variable, dim, values, attrs)
        free = free_number(values[~missing])
        stored = np.where(missing, free, values.astype(free.dtype))
        return self._add(variable, dim, stored, {**attrs, "_FillValue": free})

    def _add_text(self, variable: str, dim: str, cells: np.ndarray, what: str) -> Part:
        missing = self._missing_in(cells)
        return self._add_words(variable, dim, cells, missing, what) | {"objects": "text"}

    def _add_words(
        self, variable: str, dim: str, cells: Sequence[Any] | np.ndarray, missing: np.ndarray, what: str
    ) -> Part:
        words = np.empty(len(cells), np.dtype("O", metadata={"element_type": str}))
        words[:] = ["" if code else cell for cell, code in zip(cells, missing, strict=True)]
        if any("\0" in word for word in words):
            raise Invalid(f"{what} holds text with NUL, which not every format keeps", remedy="encode() it")
        return self._add(variable, dim, words, {}) | self._add_missing(variable, dim, missing)

    def _missing_in(self, cells: np.ndarray) -> np.ndarray:
        return np.array([_kind_of_missing(cell, self._pandas) for cell in cells], "u1")

    def _add_missing(self, variable: str, dim: str, missing: np.ndarray) -> Part:
        if not missing.any():
            return {}
        name = self._free(f"{variable}_missing")
        kinds = {"flag_values": np.arange(5, dtype="u1"), "flag_meanings": "there none nan na nat"}
        self._add(name, dim, missing.astype("u1"), kinds)
        return {"missing": name}


def _has_named_zone(dtype: Any) -> bool:
    """Return True if the name of a zone is enough to find it again."""
    try:
        return bool(type(dtype).construct_from_string(str(dtype)) == dtype)
    except TypeError:  # a zone of dateutil
        return False


def _remedy_for_objects(kinds: set[type]) -> str:
    """Return what makes cells that can be stored of objects of these types."""
    if kinds <= {date}:
        return "pandas.to_datetime() makes times of dates"
    if all(issubclass(kind, date) for kind in kinds):
        return "pandas.to_datetime(..., utc=True) makes times of one zone"
    if all(issubclass(kind, Number) for kind in kinds):
        return "astype('float64') makes floats of numbers, astype(str) keeps all digits as text"
    return "astype(str) makes text of it"


def _time_attrs(unit: str) -> dict[str, Any]:
    return {"units": f"{TIME_UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}


def free_number(values: np.ndarray) -> np.integer[Any]:
    """Return a whole number that none of the values is: of their type where one is left, else of a wider one."""
    info = np.iinfo(values.dtype)
    for end in (info.min, info.max) if info.min < 0 else (info.max, info.min):
        if not (values == end).any():
            return _number(values.dtype, end)
    known = np.unique(values)
    gaps = np.flatnonzero(np.diff(known) != 1)
    if len(gaps):
        return _number(values.dtype, int(known[gaps[0]]) + 1)
    wider = np.dtype(f"{values.dtype.kind}{values.dtype.itemsize * 2}")  # of 8 bytes nobody has all numbers
    return _number(wider, np.iinfo(wider).max)


def _number(dtype: np.dtype, value: int) -> np.integer[Any]:
    number: np.integer[Any] = dtype.type(value)
    return number


def _kind_of_missing(cell: object, pandas: Any) -> int:
    """Return how an object is missing; 0 for one that is there."""
    if cell is None:
        return _NONE
    if cell is pandas.NA:
        return _NA
    if cell is pandas.NaT:
        return _NAT
    return _NAN if isinstance(cell, float) and cell != cell else 0


def _is_variable_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def name_to_json(name: object, what: str) -> object:
    """Return a label as JSON: tuples as lists, times, NaN and NA under a key of their own. Invalid."""
    name = _plain(name)
    match name:
        case None | bool() | int() | str():
            return name
        case tuple():
            return [name_to_json(each, what) for each in name]
        case float():
            return name if np.isfinite(name) else {"float": repr(name)}
    pandas = library("pandas")
    if name is pandas.NA:
        return {"na": True}
    if isinstance(name, pandas.Timestamp) and name.tz is None:
        return {"time": name.isoformat(), "unit": name.unit}
    raise Invalid(f"{name!r} among {what}", remedy="take text, numbers, times, and tuples of them")


def _name_of_json(name: Any) -> Any:
    """Return the label that :func:`name_to_json` took."""
    if isinstance(name, list):
        return tuple(map(_name_of_json, name))
    if not isinstance(name, dict):
        return name
    pandas = library("pandas")
    if "na" in name:
        return pandas.NA
    return float(name["float"]) if "float" in name else pandas.Timestamp(name["time"]).as_unit(name["unit"])


def _attrs_to_json(attrs: Mapping[Hashable, Any]) -> Mapping[Hashable, Any]:
    try:
        if json.loads(json.dumps(attrs, allow_nan=False)) == attrs:
            return attrs
    except (TypeError, ValueError):
        pass
    raise Invalid("attrs of the frame that are no JSON", remedy="frame.attrs.clear(), or keep text, numbers and lists")


# -- datasets to frames ------------------------------------------------------------------------------------------------


class FrameDecoder:
    """A stored frame on its way back. FormatError where what is stored is none."""

    def __init__(self, pandas: Any, root: Group) -> None:
        self._pandas = pandas
        self._root = root
        where = Location.of(root.url).url
        try:
            description = read_description(root.attrs)
        except FormatError as error:
            error.url = where
            raise
        if description is None:
            remedy = (
                "write_frame() stores one; a table of NWB is read by Group.read_table(), "
                "and of other datasets to_xarray().to_dataframe() makes one"
            )
            raise Invalid("this is no stored data frame", url=where, remedy=remedy)
        self.description: Part = description

    def frame(self, columns: Sequence[Hashable] | None, loc: slice | None, iloc: slice | None) -> pd.DataFrame:
        """Return the frame, or these rows and columns of it."""
        pandas, description = self._pandas, self.description
        try:
            names = self.decode_index(description["columns"])
            places = self._choose(names, columns)
            index, rows = self._choose_rows(loc, iloc)
            cells = {at: self._column(description["cells"][place], rows) for at, place in enumerate(places)}
            found = pandas.DataFrame(cells, index=range(len(index)), columns=range(len(places)), copy=False)
            found.index, found.columns = index, names if columns is None else names.take(places)
            found.attrs.update(description["attrs"])
        except HyperslabError:
            raise
        except UNREADABLE as error:
            raise FormatError(f"the description of the data frame is damaged: {error!r}", url=self._root.url) from error
        return found

    def index(self) -> pd.Index:
        """Return the whole index."""
        return self.decode_index(self.description["index"], slice(0, self.description["rows"]))

    def _choose(self, names: pd.Index, columns: Sequence[Hashable] | None) -> list[int]:
        """Return the places of these columns. Invalid."""
        if columns is None:
            return list(range(len(names)))
        if isinstance(columns, str):
            raise Invalid(f"columns={columns!r}", remedy="give a list of names")
        unknown = [name for name in columns if name not in names]
        if unknown:
            shown = ", ".join(map(repr, list(names)[:20]))
            raise Invalid(f"there is no column {unknown[0]!r}", url=self._root.url, remedy=f"there are {shown}")
        everything = np.arange(len(names))
        return [int(place) for name in columns for place in np.atleast_1d(everything[names.get_loc(name)])]

    def decode_index(self, description: Part, rows: slice = slice(None)) -> pd.Index:
        """Return an index, or these rows of it."""
        pandas, names = self._pandas, [_name_of_json(name) for name in description["names"]]
        if "start" in description:
            whole = pandas.RangeIndex(description["start"], description["stop"], description["step"], name=names[0])
            return whole[rows]
        if "words" in description:
            cells = np.empty(len(description["words"]), object)
            cells[:] = description["words"]
            return pandas.Index(cells, dtype=self._text_dtype(description["dtype"]), name=names[0])
        levels = [self._level(part, rows) for part in description["levels"]]
        if len(levels) > 1:
            return pandas.MultiIndex.from_arrays(levels, names=names)
        index = levels[0].rename(names[0])
        if description.get("freq") is not None:
            index.freq = description["freq"]
        return index

    def _text_dtype(self, description: Part) -> Any:
        """Return the dtype that :meth:`FrameEncoder._text_type` describes."""
        if "storage" not in description:
            return np.dtype(object)
        return self._pandas.StringDtype(
            description["storage"], na_value=np.nan if description["na"] == "nan" else self._pandas.NA
        )

    def _choose_rows(self, loc: slice | None, iloc: slice | None) -> tuple[pd.Index, slice]:
        """Return the index of the wanted rows, and their positions. Invalid."""
        if loc is not None and iloc is not None:
            raise Invalid("loc and iloc at once", remedy="give one of them")
        for name, part in (("loc", loc), ("iloc", iloc)):
            if part is not None and (not isinstance(part, slice) or part.step not in (None, 1)):
                raise Invalid(f"{name}={part!r}", remedy="give a slice without a step")
        description = self.description["index"]
        if loc is None:
            start, stop, _ = (slice(None) if iloc is None else iloc).indices(self.description["rows"])
            rows = slice(start, max(start, stop))
            return self.decode_index(description, rows), rows
        index = self.index()
        if not index.is_monotonic_increasing:
            raise Invalid("loc of an index that is not sorted", remedy="give positions: iloc=slice(...)")
        try:
            start, stop, _ = index.slice_indexer(loc.start, loc.stop).indices(len(index))
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(f"{loc} is no range of this index: {error}", remedy="give labels of its type") from error
        rows = slice(start, max(start, stop))
        return index[rows], rows

    def _level(self, part: Part, rows: slice = slice(None)) -> pd.Index:
        """Return the values of a level of an index, or these rows of it, or of categories."""
        cells = self._column(part, rows)
        dtype = None if isinstance(cells, np.ndarray) and cells.dtype.kind != "O" else cells.dtype
        return self._pandas.Index(cells, dtype=dtype, tupleize_cols=False)

    def _column(self, part: Part, rows: slice) -> Any:
        """Return the cells of a column as an array of pandas, or of NumPy."""
        pandas, kind = self._pandas, str(part["dtype"])
        if "categories" in part:
            dtype = pandas.CategoricalDtype(self._level(part["categories"]), part["ordered"])
            return pandas.Categorical.from_codes(self._cells(part["variable"], rows), dtype=dtype)
        if "ends" in part:
            left, right = (self._column(end, rows) for end in part["ends"])
            return pandas.arrays.IntervalArray.from_arrays(left, right, closed=part["closed"])
        if kind == "Sparse":
            dense = self._column({**part, "dtype": part["dense"]}, rows)
            return pandas.arrays.SparseArray(
                dense, dtype=pandas.SparseDtype(part["subtype"], _name_of_json(part["fill"]))
            )
        if "objects" in part:
            return self._objects(part, rows)
        values = self._cells(part["variable"], rows)
        if kind.startswith("period["):
            return pandas.arrays.PeriodArray(values, dtype=pandas.PeriodDtype(kind[7:-1]))
        if kind.startswith("datetime64[") and "," in kind:
            dtype = pandas.DatetimeTZDtype.construct_from_string(kind)
            return pandas.array(
                pandas.DatetimeIndex(values.view(f"M8[{dtype.unit}]")).tz_localize("UTC").tz_convert(dtype.tz)
            )
        if kind.startswith(("datetime64[", "timedelta64[")):
            return values.view(kind)
        return values if kind == str(values.dtype) else self._masked(part, kind, values, rows)

    def _masked(self, part: Part, kind: str, values: np.ndarray, rows: slice) -> Any:
        """Return numbers or truth values of a type other than the stored one: as a rule a nullable type of pandas."""
        arrays, dtype = self._pandas.arrays, self._pandas.api.types.pandas_dtype(kind)
        if isinstance(dtype, np.dtype):
            return values.astype(dtype)  # in the order of bytes that it had
        fill = None if dtype.kind == "f" else self._array(part["variable"]).attrs.get("_FillValue")
        if "missing" in part:
            missing = self._cells(part["missing"], rows) != 0
        else:
            missing = np.zeros(values.shape, bool) if fill is None else values == fill
        plain = np.where(missing, values.dtype.type(0), values).astype(dtype.numpy_dtype)
        of_kind = {"b": arrays.BooleanArray, "f": arrays.FloatingArray}.get(dtype.kind, arrays.IntegerArray)
        return of_kind(plain, missing)

    def _objects(self, part: Part, rows: slice) -> Any:
        pandas = self._pandas
        cells = self._cells(part["variable"], rows).astype(object)
        if part["objects"] == "json":
            cells[:] = [_name_of_json(json.loads(cell)) if cell else None for cell in cells]
        if "missing" in part:
            kinds = self._cells(part["missing"], rows)
            for code, value in ((_NONE, None), (_NAN, np.nan), (_NA, pandas.NA), (_NAT, pandas.NaT)):
                cells[kinds == code] = value
        dtype = self._text_dtype(part)
        return pandas.array(cells, dtype=dtype) if "storage" in part else pandas.Series(cells, dtype=dtype, copy=False)

    def _cells(self, variable: str, rows: slice) -> np.ndarray:
        """Return cells of a variable as they are stored."""
        return np.asarray(self._array(variable)[rows])

    def _array(self, variable: str) -> Array:
        found = self._root[variable]
        if not isinstance(found, Array):
            raise FormatError("a group in place of a variable of the data frame", url=self._root.url, node=variable)
        return found
