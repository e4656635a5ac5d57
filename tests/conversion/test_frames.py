"""Data frames of pandas in every format, as they were: pandas' own test data, missing cells, parts, damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandas._testing as tm
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import pandas as pdst
from pandas.conftest import indices_dict

import hyperslab as hs
from hyperslab.errors import AlreadyExists, FormatError, Invalid, WrongType
from hyperslab.stores import MemoryStore
from servers.mongo import Mongo
from servers.s3 import S3

NUMPY = [each for each in tm.ALL_NUMPY_DTYPES if not str(each).startswith(("datetime", "timedelta", "M8", "m8"))]
NULLABLE = [*tm.ALL_INT_EA_DTYPES, *tm.FLOAT_EA_DTYPES, "boolean", "string", "category", "str"]

NOT_STORED = {"nczarr": ["raw"], "mongo": ["raw"]}
"""Columns of bytes of any length, for which a format has no cells."""


def round_trip(frame: pd.DataFrame, **parts: Any) -> pd.DataFrame:
    """The frame after it was stored in memory."""
    store = MemoryStore()
    hs.write_frame(store, frame)
    return hs.read_frame(store, **parts)


def assert_same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Equal to the last type of an index."""
    tm.assert_frame_equal(found, wanted, check_index_type="exact", check_column_type="exact", check_freq=True)
    assert found.attrs == wanted.attrs


@pytest.mark.parametrize("name", indices_dict)
def test_indexes_of_the_test_data_of_pandas(name: str) -> None:
    index = indices_dict[name]
    frames = [pd.DataFrame({"a": np.arange(len(index))}, index=index)]
    frames.append(pd.DataFrame(np.arange(len(index))[None, :], columns=index))
    if index.nlevels == 1:
        frames.append(pd.DataFrame({"a": index}))
    for frame in frames:
        assert_same(round_trip(frame), frame)


@pytest.mark.parametrize("dtype", [*NUMPY, *NULLABLE], ids=str)
def test_dtypes_of_the_test_data_of_pandas(dtype: Any) -> None:
    frame = pd.DataFrame({"a": pd.Series([1, 0, 1]).astype(dtype)})
    assert_same(round_trip(frame), frame)
    if dtype in NULLABLE and dtype != "category":
        with_missing = pd.DataFrame({"a": pd.Series([1, None, 1], dtype="Int8").astype(dtype)})
        assert_same(round_trip(with_missing), with_missing)


def every_kind(without: Collection[str] = ()) -> pd.DataFrame:
    """A frame with a column of every kind, cells of which are missing. pandas 2 drops none where bytes are swapped."""
    columns = {
        "whole": pd.array([1, None, 3], dtype="Int8"),
        "truth": pd.array([True, None, False], dtype="boolean"),
        "number": pd.arrays.FloatingArray(np.array([1.5, np.nan, 2], "f4"), np.array([False, False, True])),
        "words": np.array(["a", None, "nan"], object),
        "mixed": np.array(["1", 1, 1.5], object),
        "raw": np.array([b"\x00\xff", None, b""], object),
        "text": pd.array(["NA", pd.NA, ""], dtype="string"),
        "kind": pd.Categorical(["dry", None, "wet"], categories=["wet", "dry", "none"], ordered=True),
        "zoned": pd.DatetimeIndex(["2024-03-31T01:30", None, "1900-01-01"], dtype="M8[ns]").tz_localize("Europe/Paris"),
        "fixed": pd.to_datetime(["2024-01-01T00:00+05:30", None, "2024-01-02T00:00+05:30"]),
        "seconds": np.array(["2024-01-01", "NaT", "1600-01-01"], "M8[s]"),
        "span": pd.to_timedelta([1, None, 3], unit="s"),
        "month": pd.PeriodIndex(["2024-01", None, "2024-03"], freq="M"),
        "range": pd.arrays.IntervalArray.from_tuples([(0.0, 1.0), np.nan, (1.0, 2.5)], closed="left"),
        "thin": pd.arrays.SparseArray([0.0, 0.0, 1.5], fill_value=0.0),
        ("a", 1): np.array([1, 2, 3]),
        None: np.array([4, 5, 6], "u2"),
        "with space": np.array([7, 8, 9], ">i4"),
    }
    columns = {name: cells for name, cells in columns.items() if name not in without}
    index = pd.date_range("2024-01-01", periods=3, name="time")
    frame = pd.concat([pd.Series(cells, index=index, dtype=cells.dtype) for cells in columns.values()], axis=1)
    frame.columns = pd.Index(list(columns), tupleize_cols=False)
    frame.attrs = {"source": "a test", "numbers": [1, 2]}
    return frame


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "nczarr", "hdmf", "netcdf"])
def test_every_kind_of_column_in_every_format(tmp_path: Path, format: str) -> None:
    frame = every_kind(NOT_STORED.get(format, []))
    hs.write_frame(tmp_path / "frame", frame, format)
    assert_same(hs.read_frame(tmp_path / "frame"), frame)


def test_frames_in_mongodb(mongo: Mongo) -> None:
    url = f"{mongo.url}/{mongo.database()}#frame"
    frame = every_kind(NOT_STORED["mongo"])
    hs.write_frame(url, frame)
    assert_same(hs.read_frame(url), frame)


def test_frames_in_s3(s3: S3) -> None:
    bucket = s3.bucket()
    hs.write_frame(f"s3://{bucket}/frame.zarr", every_kind(), storage_options=s3.options)
    assert_same(hs.read_frame(f"s3://{bucket}/frame.zarr", storage_options=s3.options), every_kind())


@given(
    pdst.data_frames(
        [
            pdst.column("a", dtype="f8"),
            pdst.column(
                "b", elements=st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8")), dtype=object
            ),
            pdst.column(
                "c", elements=st.none() | st.floats() | st.booleans() | st.text("ab") | st.integers(), dtype=object
            ),
        ]
    )
)
def test_any_cells(frame: pd.DataFrame) -> None:
    assert_same(round_trip(frame), frame)


@pytest.mark.parametrize("dtype", ["Int8", "UInt8"])
def test_a_type_whose_every_number_is_there(dtype: str) -> None:
    info = np.iinfo(dtype.lower())
    frame = pd.DataFrame({"a": pd.array([*range(info.min, info.max + 1), None], dtype=dtype)})
    assert_same(round_trip(frame), frame)


def test_others_read_missing_cells_as_missing(tmp_path: Path) -> None:
    frame = every_kind(["seconds"])  # by default xarray has no years before 1677
    hs.write_frame(tmp_path / "frame.zarr", frame)
    with xr.open_dataset(tmp_path / "frame.zarr", engine="hyperslab") as found:
        assert found["whole"].isnull().values.tolist() == [False, True, False]
        assert found["time"].to_index().equals(frame.index)
        utc = frame["zoned"].dt.tz_convert("UTC").dt.tz_localize(None)
        np.testing.assert_array_equal(found["zoned"].values, utc.values)
        assert found["words"].values.tolist() == ["a", "", "nan"]
        assert found["words_missing"].values.tolist() == [0, 1, 0]


def test_parts_of_a_frame() -> None:
    index = pd.date_range("2024-01-01", periods=100, freq="h", name="time")
    frame = pd.DataFrame({"a": np.arange(100), "b": np.arange(100) / 3, "c": ["x", "y"] * 50}, index=index)
    store = MemoryStore()
    hs.write_frame(store, frame)
    wanted = frame.loc["2024-01-02":"2024-01-03 05:00", ["c", "a"]]  # type: ignore[misc]
    found = hs.read_frame(store, ["c", "a"], loc=slice("2024-01-02", "2024-01-03 05:00"))
    assert_same(found, wanted)
    assert_same(hs.read_frame(store, iloc=slice(-5, None)), frame.iloc[-5:])
    assert_same(hs.read_frame(store, [], iloc=slice(90, 10)), frame.iloc[90:10][[]])


def test_parts_leave_other_chunks_unread(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: np.random.default_rng(0).random(100_000) for name in "abcd"})
    hs.write_frame(tmp_path / "a.zarr", frame, chunks={"row": 10_000})
    with hs.trace() as read:
        found = hs.read_frame(tmp_path / "a.zarr", ["b"], iloc=slice(5_000, 15_000))
    assert_same(found, frame[["b"]].iloc[5_000:15_000])
    assert read.chunks == 2
    frame.index = pd.date_range("2024-01-01", periods=100_000, freq="s", name="row")
    hs.write_frame(tmp_path / "b.zarr", frame, chunks={"row": 10_000})
    with hs.trace() as read:
        found = hs.read_frame(tmp_path / "b.zarr", ["b"], iloc=slice(5_000, 15_000))
    assert_same(found, frame[["b"]].iloc[5_000:15_000])
    assert read.chunks == 4


def test_the_remedy_for_objects_works() -> None:
    """Each is what the message says, on the column that was refused."""
    day, zones = date(2024, 1, 1), [pd.Timestamp(0, tz="UTC"), pd.Timestamp(0, tz="Europe/Paris")]
    cases: list[tuple[list[Any], str, Callable[[Any], Any]]] = [
        ([day, None], "pandas.to_datetime()", pd.to_datetime),
        (zones, "pandas.to_datetime(..., utc=True)", lambda column: pd.to_datetime(column, utc=True)),
        ([Decimal("1.5"), None], "astype('float64')", lambda column: column.astype("float64")),
        ([Decimal("1.5"), None], "astype(str)", lambda column: column.astype(str)),
        ([np.float64(1), np.int64(2)], "astype('float64')", lambda column: column.astype("float64")),
        ([time(12), None], "astype(str)", lambda column: column.astype(str)),
        ([[1, 2], {"a": 1}], "astype(str)", lambda column: column.astype(str)),
    ]
    for cells, remedy, mend in cases:
        frame = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
        with pytest.raises(Invalid, match="'a' holds objects of the types") as caught:
            round_trip(frame)
        assert remedy in str(caught.value)
        mended = frame.assign(a=mend(frame["a"]))
        assert_same(round_trip(mended), mended)


def test_a_zone_without_a_name() -> None:
    times = pd.date_range("2024-01-01", periods=2, tz="dateutil/Europe/Paris")
    with pytest.raises(Invalid, match=r"time zone without a name.*tz_convert\(\)"):
        round_trip(pd.DataFrame({"a": times}))
    mended = pd.DataFrame({"a": times.tz_convert("Europe/Paris")})
    assert_same(round_trip(mended), mended)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame({"a": [object()]}), "the column 'a' holds objects of the types object"),
        (pd.DataFrame({"a": [pd.Timestamp(0).date()]}), "the column 'a' holds objects of the types date"),
        (pd.DataFrame({"a": ["x\0y"]}), "the column 'a' holds text with NUL"),
        (pd.DataFrame({"a": [1]}, index=[object()]), "the index holds objects of the types object"),
    ],
)
def test_what_cannot_be_stored_is_told_before(tmp_path: Path, frame: pd.DataFrame, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        hs.write_frame(tmp_path / "a.zarr", frame)
    assert not (tmp_path / "a.zarr").exists()


def test_arguments_that_mean_nothing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [3, 1, 2]}, index=[3, 1, 2])
    place = tmp_path / "a.zarr"
    hs.write_frame(place, frame)
    with pytest.raises(AlreadyExists):
        hs.write_frame(place, frame)
    hs.write_frame(place, frame * 2, mode="w")
    assert_same(hs.read_frame(place), frame * 2)
    with pytest.raises(WrongType, match="to_frame"):
        hs.write_frame(tmp_path / "b.zarr", frame["a"])  # type: ignore[arg-type]
    for wrong in ({"columns": ["b"]}, {"columns": "a"}, {"loc": slice(1, 2)}, {"iloc": 3}, {"iloc": slice(0, 9, 2)}):
        with pytest.raises(Invalid):
            hs.read_frame(place, **wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="iloc"):
        hs.read_frame(place, loc=slice(1, 2), iloc=slice(1, 2))


@pytest.mark.parametrize(
    "told",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 2}',
        '{"version": 1, "rows": -1, "index": {}, "columns": []}',
        "9" * 99,
    ],
)
def test_damaged_descriptions(tmp_path: Path, told: str) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=np.arange(3))
        root.attrs["pandas_frame"] = told
    with pytest.raises(FormatError):
        hs.read_frame(tmp_path / "a.zarr")


@pytest.mark.filterwarnings("ignore:Allowing arbitrary scalar fill_value:FutureWarning")  # pandas 2
def test_damaged_parts(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    hs.write_frame(place, every_kind())
    with hs.open(place) as root:
        told = json.loads(str(root.attrs["pandas_frame"]))
    parts = [
        [*told["cells"][:place], {**part, key: wrong}]
        for place, part in enumerate(told["cells"])
        for key in part
        for wrong in (None, [], 7, "x")
    ]
    for cells in parts:
        with hs.open(place, "r+") as root:
            root.attrs["pandas_frame"] = json.dumps({**told, "cells": cells + told["cells"][len(cells) :]})
        try:
            hs.read_frame(place)
        except hs.HyperslabError:
            continue


@pytest.mark.parametrize("rows", [slice(1, 4), slice(0, 5, 2), slice(None, None, -1), slice(2, 2)], ids=str)
@pytest.mark.parametrize("index", ["days", "counted", "counted by threes"])
def test_rows_that_convert_chooses(tmp_path: Path, index: str, rows: slice) -> None:
    frame = pd.DataFrame({"a": np.arange(5.0), "kind": pd.Categorical([*"xyxyx"])})
    if index == "days":
        frame.index = pd.date_range("2024-01-01", periods=5, name="row")
    elif index == "counted by threes":
        frame.index = pd.RangeIndex(7, 22, 3)
    hs.write_frame(tmp_path / "a.zarr", frame)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.nc", select={"row": rows}, verify=True)
    found, wanted = hs.read_frame(tmp_path / "b.nc"), frame.iloc[rows]
    tm.assert_frame_equal(found, wanted, check_index_type="exact", check_freq=False)
    if (rows.start, rows.stop) == (1, 4):
        assert_same(found, wanted)
        hs.append_frame(tmp_path / "b.nc", frame[4:])
        assert_same(hs.read_frame(tmp_path / "b.nc"), frame[1:])


def test_rows_that_are_no_range_have_labels_or_are_no_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(5.0)})
    hs.write_frame(tmp_path / "a.zarr", frame)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", select={"row": [0, 3, 1]})
    assert hs.open(tmp_path / "b.zarr")["a"][:].tolist() == [0, 3, 1]
    with pytest.raises(Invalid, match="no stored data frame"):
        hs.read_frame(tmp_path / "b.zarr")
    labelled = frame.set_axis([*"abcde"])
    hs.write_frame(tmp_path / "c.zarr", labelled)
    hs.convert(tmp_path / "c.zarr", tmp_path / "d.zarr", select={"row": [0, 3, 1]})
    assert_same(hs.read_frame(tmp_path / "d.zarr"), labelled.iloc[[0, 3, 1]])


def test_what_is_no_frame(tmp_path: Path) -> None:
    hs.save(tmp_path / "a.zarr", xr.Dataset({"a": ("x", [1, 2])}))
    with pytest.raises(Invalid, match=r"no stored data frame .*Group\.read_table\(\)"):
        hs.read_frame(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("chosen", "columns"),
    [
        ({"variables": ["a"]}, ["a"]),
        ({"exclude": ["a"]}, ["c", "k"]),
        ({"variables": ["c", "k"]}, ["c", "k"]),  # with the marks of missing text, and the categories
        ({"variables": ["k"], "select": {"time": slice(1, 3)}}, ["k"]),
    ],
)
def test_columns_that_convert_chooses_are_a_frame(tmp_path: Path, chosen: dict[str, Any], columns: list[str]) -> None:
    index = pd.date_range("2024-01-01", periods=4, freq="h", name="time")
    frame = pd.DataFrame({"a": range(4), "c": ["x", None, "y", "z"], "k": pd.Categorical([*"uvuv"])}, index=index)
    hs.write_frame(tmp_path / "all.zarr", frame)
    hs.convert(tmp_path / "all.zarr", tmp_path / "some.zarr", verify=True, **chosen)
    rows = chosen.get("select", {}).get("time", slice(None))
    pd.testing.assert_frame_equal(hs.read_frame(tmp_path / "some.zarr"), frame[columns].iloc[rows])


def test_a_frame_without_its_index_is_a_dataset(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(4)}, index=pd.Index([*"wxyz"], name="letter"))
    hs.write_frame(tmp_path / "all.zarr", frame)
    hs.convert(tmp_path / "all.zarr", tmp_path / "some.zarr", exclude=["letter"])
    with hs.open(tmp_path / "some.zarr") as root:
        assert list(root) == ["a"] and "pandas_frame" not in root.attrs
