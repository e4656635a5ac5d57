"""Data frames as tables: ``Group.read_table`` of what ``hs.write_frame`` stored, against pandas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError

FRAME = pd.DataFrame(
    {
        "whole": pd.array([1, None, 3], "Int64"),
        "flag": pd.array([True, None, False], "boolean"),
        "real": [0.5, np.nan, 1.5],
        "text": np.array(["a", None, "ü, b"], object),
        "kind": pd.Categorical(["x", None, "y"], ordered=True),
        "when": pd.to_datetime(["2020-01-01 12:00", None, "2020-07-01 00:00"]),
        "zoned": pd.to_datetime(["2020-01-01 12:00:00.25", None, "2020-07-01 00:00:00.00"]).tz_localize("Europe/Paris"),
        "fixed": pd.to_datetime(["2020-01-01T12:00-03:30"] * 3),
        "took": pd.to_timedelta(["1s", None, "1min"]),
        "month": pd.PeriodIndex(["2020-01", None, "2021-12"], freq="M"),
        "quarter": pd.PeriodIndex(["2020Q1", "2020Q4", "1969Q3"], freq="Q-DEC"),
        "range": pd.IntervalIndex.from_tuples([(0, 1), None, (1, 2)], closed="left"),
        "mixed": pd.array([1, None, ("a", 2)], object),
        "raw": np.array([b"a", b"", None], object),
        "sparse": pd.arrays.SparseArray([0, 0, 7]),
    },
    index=pd.Index(["r0", "r1", "r2"], name="label"),
)
CELLS = {
    "label": ["r0", "r1", "r2"],
    "whole": [1, None, 3],
    "flag": [True, None, False],
    "text": ["a", None, "ü, b"],
    "kind": ["x", None, "y"],
    "zoned": ["2020-01-01T12:00:00.25+01:00", None, "2020-07-01T00:00:00+02:00"],
    "fixed": ["2020-01-01T12:00:00-03:30"] * 3,
    "month": ["2020-01", None, "2021-12"],
    "quarter": ["2020Q1", "2020Q4", "1969Q3"],
    "range": ["[0.0, 1.0)", None, "[1.0, 2.0)"],
    "mixed": [1, None, ["a", 2]],
    "raw": [b"a", b"", None],
    "sparse": [0, 0, 7],
}


@pytest.mark.parametrize("format", ["zarr3", "netcdf"])
def test_cells_are_as_they_were(tmp_path: Path, format: str) -> None:
    frame = FRAME if format == "zarr3" else FRAME.drop(columns="raw")
    hs.write_frame(tmp_path / "frame", frame, format)
    with hs.open_group(tmp_path / "frame") as root:
        found = root.read_table()
        assert list(found) == ["label", *frame.columns]
        assert {name: list(found[name]) for name in CELLS if name in found} == {
            name: cells for name, cells in CELLS.items() if name in found
        }
        assert np.array_equal(found["real"], FRAME["real"], equal_nan=True)
        for name in ("when", "took"):
            assert found[name].dtype == FRAME[name].dtype
            assert np.array_equal(found[name][[0, 2]], FRAME[name].to_numpy()[[0, 2]]) and np.isnat(found[name][1])
        some = root.read_table(-2, -1)
        assert (list(some["label"]), list(some["kind"])) == (["r1"], [None])


def test_indexes_and_names(tmp_path: Path) -> None:
    """The numbers of the rows are no column; other indexes are, each level; columns of one name are told apart."""
    hs.write_frame(tmp_path / "plain.zarr", pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["k", None])
    columns = pd.MultiIndex.from_tuples([("t", 1), ("t", 2)])
    hs.write_frame(tmp_path / "levels.zarr", pd.DataFrame([[1, 2], [3, 4]], index=index, columns=columns))
    hs.write_frame(tmp_path / "range.zarr", pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(10, 6, -2)))
    found = {
        name: {key: list(cells) for key, cells in hs.open_group(tmp_path / f"{name}.zarr").read_table().items()}
        for name in ("plain", "levels", "range")
    }
    assert found == {
        "plain": {"a": [1, 3], "a (2)": [2, 4]},
        "levels": {"k": ["x", "y"], "index": [1, 2], "t, 1": [1, 3], "t, 2": [2, 4]},
        "range": {"index": [10, 8], "a": [1, 2]},
    }


@pytest.mark.parametrize(
    "change", [{"rows": "many"}, {"cells": [{}]}, {"version": 9}, {"columns": {}}, {"index": []}, {"cells": 5}]
)
def test_a_damaged_description_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    hs.write_frame(tmp_path / "frame.zarr", pd.DataFrame({"a": [1, 2]}))
    with hs.open_group(tmp_path / "frame.zarr", mode="r+") as root:
        root.attrs["pandas_frame"] = json.dumps({**json.loads(str(root.attrs["pandas_frame"])), **change})
    with pytest.raises(FormatError, match="data frame") as caught:
        hs.open_group(tmp_path / "frame.zarr").read_table()
    assert caught.value.remedy


def test_a_column_without_its_variable_is_told(tmp_path: Path) -> None:
    hs.write_frame(tmp_path / "frame.zarr", pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    with hs.open_group(tmp_path / "frame.zarr", mode="r+") as root:
        del root["b"]
        with pytest.raises(FormatError, match="'b'"):
            root.read_table()
