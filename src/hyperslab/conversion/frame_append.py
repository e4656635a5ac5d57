"""Rows of a data frame of pandas behind those of a stored one: all columns get theirs, or none.

The description of a stored frame says how many rows it has, and what its arrays have behind them is no row. So an
append says in the description that it is at work, writes cells behind the last row, and then the new description. The
rows of one that dies before are not there; the next append takes away what it has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperslab.api import open_group
from hyperslab.array import Array
from hyperslab.array.narrowing import require_fit
from hyperslab.array.row_labels import check_order, find_repeated, show_label
from hyperslab.bridges.extras import library
from hyperslab.conversion.frames import FrameDecoder, FrameEncoder, free_number, name_to_json, require_frame
from hyperslab.errors import HyperslabError, Invalid, NotFound, Unsupported
from hyperslab.formats.frame_description import ATTRIBUTE, Part, row_parts
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.cells import Values

if TYPE_CHECKING:
    import pandas as pd

    from hyperslab.group import Group

_AT_WORK = "append"


def append_frame(
    url: Any, frame: pd.DataFrame, *, repeated: Literal["error", "allow"] = "error", **options: Any
) -> None:
    """Put the rows of a data frame behind those of one that :func:`write_frame` stored: all of them, or none.

    The columns are those of the stored frame, in any order. Cells of another dtype become the stored one where each
    keeps its value; categories are those that are stored. An index that only counts rows goes on counting. Rows whose
    labels are there are an error, as are rows that repeat a label among themselves (unless stored ones do), and such
    that are no longer sorted as the stored ones, unless ``repeated`` is ``"allow"``. Appenders take turns.
    ``options``: those of :func:`.open`. Invalid, before anything is written, names the column that does not fit;
    NotFound where nothing is stored, Unsupported in databases.
    """
    pandas = library("pandas")
    library("xarray")
    from hyperslab.bridges.xarray.append import lock_appends
    from hyperslab.bridges.xarray.saving import as_one_commit

    require_frame(pandas, frame)
    with as_one_commit(url, "a", "the rows", options) as place:
        try:
            root = open_group(place, "r+", **options)
        except NotFound as error:
            error.remedy = "check the spelling, or make it first by write_frame()"
            raise
        with root:
            if root._session.format.traits.in_database:
                remedy = "read_frame() it, add the rows, and write it with mode='w'"
                raise Unsupported("rows of data frames are not appended in databases", url=root.url, remedy=remedy)
            with root._session.add_place_to_errors(root.path), lock_appends(root):
                root._session.refresh(root.path)
                _Appender(pandas, root).append(frame, repeated)


class _Appender:
    """A stored frame that gets rows: ``rows`` of each variable, and the description that they make. For a holder of the
    lock of appends."""

    def __init__(self, pandas: Any, root: Group) -> None:
        self._pandas = pandas
        self._root = root
        self._stored = FrameDecoder(pandas, root)
        self._description = self._stored.description
        self._count = int(self._description["rows"])
        self._rows: dict[str, Any] = {}
        self._made: dict[str, tuple[Array, Values]] = {}
        self._marks: dict[str, np.generic] = {}

    def append(self, frame: pd.DataFrame, repeated: Literal["error", "allow"]) -> None:
        """Add the rows of a frame. Invalid."""
        self._remove_remains()
        new = self._fit(frame, repeated)
        if not len(new):
            return
        before = str(self._root.attrs[ATTRIBUTE])
        dataset = FrameEncoder(self._pandas).dataset_of(new)
        parts = json.loads(dataset.attrs[ATTRIBUTE])
        for known, part in zip(row_parts(self._description), row_parts(parts), strict=True):
            self._match_column(known, part, dataset)
        self._describe_index(new.index)
        self._description["rows"] = self._count + len(new)
        self._write(before)

    # -- what is stored ----------------------------------------------------------------------------------------------

    def _arrays(self) -> Iterator[Array]:
        """Yield the arrays along the rows."""
        for part in row_parts(self._description):
            for name in (part["variable"], part.get("missing")):
                if name is not None:
                    array = self._array(name)
                    array.refresh()
                    yield array

    def _array(self, name: str) -> Array:
        found = self._root[name]
        assert isinstance(found, Array)  # the frame that is stored was read
        return found

    def _remove_remains(self) -> None:
        """Take away what an append that died has left. Invalid for rows that came otherwise: nobody knows whose they
        are."""
        remains = self._description.pop(_AT_WORK, None)
        for name in remains["made"] if remains is not None else ():
            if name in self._root:
                del self._root[name]
        for array in self._arrays():
            if array.shape[0] == self._count:
                continue
            if remains is None or array.shape[0] < self._count:
                message = f"{array.shape[0]} cells in a column of a data frame of {self._count} rows"
                remedy = "read_frame() what it has, and write it with mode='w'"
                raise Invalid(message, node=array.path, remedy=remedy)
            array.resize((self._count,))

    # -- rows as the stored frame would have them --------------------------------------------------------------------

    def _fit(self, frame: pd.DataFrame, repeated: Literal["error", "allow"]) -> pd.DataFrame:
        """Return the rows with the columns, dtypes and kind of index of the stored frame. Invalid."""
        pandas = self._pandas
        empty = self._stored.frame(None, None, slice(0, 0))
        frame = frame.iloc[:, self._places_of(empty.columns, frame.columns)]
        cells = {
            place: self._cast(frame.iloc[:, place], dtype, f"the column {name!r}")
            for place, (name, dtype) in enumerate(zip(empty.columns, empty.dtypes, strict=True))
        }
        found = pandas.DataFrame(cells, index=range(len(frame)), columns=range(len(cells)), copy=False)
        found.index, found.columns = self._fit_index(frame.index, empty.index, repeated), empty.columns
        return found

    def _places_of(self, stored: pd.Index, columns: pd.Index) -> Any:
        """Return where the stored columns are among those of the rows. Invalid unless they are the same."""
        if columns.equals(stored):
            return slice(None)
        missing = [name for name in stored if name not in columns]
        unknown = [name for name in columns if name not in stored]
        if missing or unknown or not columns.is_unique or not stored.is_unique:
            message = f"the column {missing[0]!r} is missing" if missing else "the columns have names that come twice"
            if unknown and not missing:
                message = f"there is no column {unknown[0]!r} in the stored frame"
            remedy = f"rename or reindex them: stored are {', '.join(map(repr, list(stored)[:20]))}"
            raise Invalid(message, remedy=remedy)
        return columns.get_indexer(stored)

    def _cast(self, cells: pd.Series | pd.Index, dtype: Any, what: str) -> pd.Series:
        """Return cells as such of the stored dtype, where each keeps its value. Invalid."""
        pandas, own = self._pandas, cells.dtype
        plain = pandas.Series(cells.array, dtype=own, copy=False)  # without its dtype text among objects becomes str
        if isinstance(dtype, pandas.CategoricalDtype) and isinstance(own, pandas.CategoricalDtype):
            return pandas.Series(self._cast_categories(cells, dtype, what))
        if own == dtype:
            return plain
        is_text = [each == np.dtype(object) or isinstance(each, pandas.StringDtype) for each in (own, dtype)]
        if all(is_text) and (dtype == np.dtype(object) or all(isinstance(cell, str) for cell in plain[plain.notna()])):
            return plain.astype(dtype)  # pandas itself makes text of objects, and objects of missing text
        is_sparse = isinstance(own, pandas.SparseDtype) or isinstance(dtype, pandas.SparseDtype)
        zones = [each.tz if isinstance(each, pandas.DatetimeTZDtype) else None for each in (own, dtype)]
        if not is_sparse and zones[0] == zones[1] and any({own.kind, dtype.kind} <= set(kinds) for kinds in _ALIKE):
            with suppress(TypeError, ValueError, OverflowError):
                cast = plain.astype(dtype)
                if _are_kept(plain, cast):
                    return cast
        raise Invalid(f"{what} is of dtype {own}, stored is {dtype}", remedy=self._find_remedy(cells, dtype))

    def _find_remedy(self, cells: pd.Series | pd.Index, dtype: Any) -> str:
        """Return what makes cells of the stored dtype of these, as far as pandas can."""
        pandas, own = self._pandas, cells.dtype
        if isinstance(dtype, pandas.CategoricalDtype):
            return self._category_remedy(cells)
        zones = [each.tz if isinstance(each, pandas.DatetimeTZDtype) else None for each in (own, dtype)]
        if own.kind == dtype.kind == "M" and zones[0] != zones[1]:
            change = "tz_localize" if None in zones else "tz_convert"
            zone = None if zones[1] is None else str(zones[1])
            if isinstance(cells, pandas.Index):
                return f"{change}({zone!r}) the frame, by level= where the index has several levels"
            return f".dt.{change}({zone!r}) it"
        anew = "write the frame anew with a dtype for both, mode='w'"
        try:
            plain = pandas.Series(cells.array, dtype=own, copy=False)
            cast = plain.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return f"fillna() its missing cells, or {anew}" if cells.isna().any() else anew
        if {own.kind, dtype.kind} <= set("biuf") and not _are_kept(plain, cast):
            return anew
        return f"astype({str(dtype)!r}) it, if that is meant"

    def _category_remedy(self, cells: pd.Series | pd.Index) -> str:
        """Return what makes cells of the stored categories."""
        is_index = isinstance(cells, self._pandas.Index)
        place = f".index.get_level_values({cells.name!r})" if is_index else f"[{cells.name!r}]"
        dtype = f"read_frame(url, iloc=slice(0)){place}.dtype"
        return f"astype({dtype}), where other categories become missing, or write the whole frame anew with mode='w'"

    def _cast_categories(self, column: pd.Series | pd.Index, dtype: Any, what: str) -> Any:
        """Return categorical cells with the stored categories. Invalid for others, and for another order."""
        cells: Any = column.array
        used = cells.remove_unused_categories().categories
        unknown = [name for name in used if name not in dtype.categories]
        is_ordered = bool(dtype.ordered)
        if (
            unknown
            or bool(cells.ordered) != is_ordered
            or (is_ordered and not cells.categories.equals(dtype.categories))
        ):
            message = f"{what} has categories of another order than the stored ones"
            if unknown:
                message = f"{what} has the category {unknown[0]!r}, which the stored one has not"
            raise Invalid(message, remedy=self._category_remedy(column))
        return cells.set_categories(dtype.categories, ordered=is_ordered)

    def _fit_index(self, index: pd.Index, empty: pd.Index, repeated: Literal["error", "allow"]) -> pd.Index:
        """Return the labels of the rows as such of the stored index. Invalid for others, for labels that are there, and
        for such that would not be sorted any more."""
        pandas, described = self._pandas, self._description["index"]
        if "start" in described:
            start, step = described["start"] + self._count * described["step"], described["step"]
            following = pandas.RangeIndex(start, start + step * len(index), step, name=empty.name)
            is_counted = index.equals(following) or index.equals(pandas.RangeIndex(len(index)))
            if len(index) and not is_counted:
                message = f"the stored rows are counted, and the next is {start}, but the index begins with {index[0]}"
                raise Invalid(
                    message, remedy="reset_index(drop=True) counts on; to store it as a column: reset_index()"
                )
            return following
        if list(index.names) != list(empty.names):
            message = f"the index is called {list(index.names)}, in the stored frame {list(empty.names)}"
            raise Invalid(message, remedy="rename_axis() it, or set_index() the column with the labels")
        levels = [
            self._cast(index.get_level_values(level), empty.get_level_values(level).dtype, "the index")
            for level in range(index.nlevels)
        ]
        if len(levels) > 1:
            labels = pandas.MultiIndex.from_arrays(levels, names=empty.names)
        else:
            # the values alone: those of a range would be counted
            labels = pandas.Index(levels[0], dtype=levels[0].dtype, name=empty.name, tupleize_cols=False)
        self._check_labels(labels, repeated)
        return labels

    def _check_labels(self, labels: pd.Index, repeated: Literal["error", "allow"]) -> None:
        """Raise Invalid for labels that are there, and for such that would not be sorted any more."""
        stored, name = self._stored.index(), ", ".join("index" if each is None else str(each) for each in labels.names)
        find_repeated(
            name,
            self._values(stored),
            self._values(labels),
            repeated,
            self._label_speller(labels),
            choices=("error", "allow"),
            others="say repeated='allow', which keeps both",
        )
        if repeated == "error":
            if isinstance(labels.dtype, self._pandas.CategoricalDtype):
                # names in an order of their own
                codes = [np.asarray(index.codes, object) for index in (stored, labels)]
                check_order(name, *codes, are_times=False, show=lambda code: str(labels.categories[code]))
            else:
                are_times, show = labels.dtype.kind == "M", self._label_speller(labels)
                check_order(name, self._values(stored), self._values(labels), are_times=are_times, show=show)

    def _label_speller(self, labels: pd.Index) -> Callable[[object], str]:
        """Return what spells a label that :meth:`_values` made: times of a zone in that zone, with its name."""
        if not isinstance(labels.dtype, self._pandas.DatetimeTZDtype):
            return show_label
        zone, times = labels.tz, self._pandas.Timestamp

        def spell(label: object) -> str:
            local = times(label, tz="UTC").tz_convert(zone).tz_localize(None)
            return f"{show_label(local.to_datetime64())} {zone}"

        return spell

    def _values(self, labels: pd.Index) -> Values:
        """Return labels as an array of NumPy; times of a zone as those of UTC."""
        is_zoned = isinstance(labels.dtype, self._pandas.DatetimeTZDtype)
        return np.asarray(labels.tz_convert("UTC").tz_localize(None) if is_zoned else labels)

    def _describe_index(self, labels: pd.Index) -> None:
        """Change the description of the index as these labels behind the stored ones do: its end, and its steps."""
        pandas, described = self._pandas, self._description["index"]
        if "start" in described:
            described["stop"] = described["start"] + (self._count + len(labels)) * described["step"]
        freq = described.pop("freq", None)
        if freq is None:
            return
        last = self._stored.index()[-1:]
        steps = pandas.date_range if labels.dtype.kind == "M" else pandas.timedelta_range
        first = last[0] if len(last) else labels[0]
        seam = last.append(labels)
        if seam.equals(steps(first, periods=len(seam), freq=freq).astype(seam.dtype)):
            described["freq"] = freq

    # -- cells of the rows as the stored variables have them ---------------------------------------------------------

    def _match_column(self, known: Part, part: Part, dataset: Any) -> None:
        """Note the cells of a column for the variables of the stored one. Invalid."""
        name, cells = known["variable"], dataset[part["variable"]].variable
        array = self._array(name)
        missing = np.zeros(cells.size, "u1") if "missing" not in part else dataset[part["missing"]].values
        if known.get("objects") != part.get("objects"):
            cells = self._cast_objects(known, part, cells, missing)
        if cells.dtype.kind in "iu":
            cells = cells.copy(data=self._mark_missing(name, array, cells.values, cells.attrs.get(FILL_VALUE)))
        self._rows[name] = cells
        if "missing" in known:
            self._rows[known["missing"]] = cells.copy(data=missing)
        elif missing.any():
            known["missing"] = self._find_free_name(f"{name}_missing")
            self._made[known["missing"]] = array, missing

    def _cast_objects(self, known: Part, part: Part, cells: Any, missing: Values) -> Any:
        """Return objects as the stored ones are: text among others is JSON, and where all are missing they are of any
        type. Invalid."""
        wanted, own = known.get("objects"), part.get("objects")
        if own == "text" and wanted == "json":
            words: list[str] | list[bytes] = [
                "" if code else json.dumps(name_to_json(cell, known["variable"]))
                for cell, code in zip(cells.values, missing, strict=True)
            ]
        elif own == "text" and wanted == "bytes" and missing.all():
            words = [b""] * cells.size
        else:
            message = f"the column in {known['variable']!r} holds objects of another type than the stored ones: {own}"
            raise Invalid(message, remedy=f"astype() them; stored are such of {wanted}")
        found = np.empty(cells.size, np.dtype("O", metadata={"element_type": bytes if wanted == "bytes" else str}))
        found[:] = words
        return cells.copy(data=found)

    def _mark_missing(self, name: str, array: Array, cells: Values, own: np.generic | None) -> Values:
        """Return whole numbers with the missing ones as the number that marks them in the variable; one that has no
        mark yet gets one that no cell is. Invalid where there is none."""
        mark: Any = array.attrs.get(FILL_VALUE)
        there = np.ones(cells.shape, bool) if own is None else cells != own
        if mark is None and own is not None:
            is_time = own.dtype == np.int64 and own == np.iinfo("i8").min
            mark = own if is_time else free_number(np.concatenate([array[...], cells[there].astype(array.dtype)]))
            self._marks[name] = mark
        if mark is not None and (mark.dtype != array.dtype or (cells[there] == mark).any()):
            message = f"no number is left that marks missing cells among those of {name!r}"
            raise Invalid(message, remedy="read_frame() it, add the rows, and write it with mode='w'")
        require_fit(cells[there], array.dtype, array.path)
        return cells if mark is None else np.where(there, cells, mark).astype(array.dtype)

    def _find_free_name(self, wanted: str) -> str:
        """Return a name that no node has."""
        name, number = wanted, 1
        while name in self._root or name in self._made:
            number += 1
            name = f"{wanted}_{number}"
        return name

    # -- write -------------------------------------------------------------------------------------------------------

    def _write(self, before: str) -> None:
        """Write cells, then the new description; put the old one back where that fails."""
        from hyperslab.bridges.xarray.append import append_all

        root = self._root
        root.attrs[ATTRIBUTE] = json.dumps({**json.loads(before), _AT_WORK: {"made": list(self._made)}})
        try:
            for name, mark in self._marks.items():
                self._array(name).attrs[FILL_VALUE] = mark
            for name, (beside, codes) in self._made.items():
                self._make_missing(name, beside)
                self._rows[name] = library("xarray").Variable(beside.dims, codes)
            pairs = [(self._array(name), cells) for name, cells in self._rows.items()]
            if pairs:
                append_all(root, pairs, str(pairs[0][0].dims[0]))
        except BaseException:
            for name in self._made:
                with suppress(HyperslabError):
                    del root[name]
            root.attrs[ATTRIBUTE] = before
            raise
        root.attrs[ATTRIBUTE] = json.dumps(self._description)

    def _make_missing(self, name: str, beside: Array) -> None:
        """Make the variable that says which cells of the one ``beside`` it are missing: so far none."""
        kinds = {"flag_values": np.arange(5, dtype="u1"), "flag_meanings": "there none nan na nat"}
        cells = np.zeros(beside.shape, "u1")
        self._root.create_array(name, data=cells, dims=beside.dims, chunks=beside.chunks, shards=False, attrs=kinds)


def _are_kept(plain: Any, cast: Any) -> bool:
    """Return True if cells come back from the dtype that they were cast to."""
    # a number below 0 comes back from a type without a sign
    unsigned = [cells for cells, other in ((plain, cast), (cast, plain)) if other.dtype.kind == "u"]
    return bool(cast.astype(plain.dtype).equals(plain)) and not any((cells < 0).any() for cells in unsigned)


# Kinds of dtypes whose cells are compared with what they become: numbers, times and timedeltas.
_ALIKE = ("iuf", "M", "m")
