"""Labels of what is appended to an object, or put into a region of it: those that are stored, or an error as of
``save``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from pymongo.database import Database

import hyperslab as hs
from hyperslab.conversion.append import append_dataset
from hyperslab.errors import Invalid
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

TIMES = pd.date_range("2026-01-01", periods=4, unit="us")
DAYS = xr.Dataset(
    {"price": (("time", "sym"), np.arange(8.0).reshape(4, 2))}, {"time": TIMES, "sym": ["A", "B"], "run": 7}
)
FIRST, NEXT = DAYS.isel(time=slice(0, 2)), DAYS.isel(time=slice(2, 4))
GRID = xr.Dataset(
    {"t": (("time", "y", "x"), np.zeros((1, 2, 2)))},
    {"time": [1], "lon": (("y", "x"), [[0.0, 1], [0, 1]]), "site": ("y", ["a", "b"])},
)

OTHERS: dict[str, tuple[xr.Dataset, xr.Dataset]] = {
    "another order": (FIRST, NEXT.isel(sym=[1, 0])),
    "other names": (FIRST, NEXT.assign_coords(sym=["C", "D"])),
    "names in dask arrays": (FIRST, NEXT.assign_coords(sym=["C", "D"]).chunk()),
    "another scalar": (FIRST, NEXT.assign_coords(run=8)),
    "earlier times": (FIRST, FIRST.assign_coords(time=pd.date_range("2025-01-01", periods=2, unit="us"))),
    "times that are there": (FIRST, FIRST),
    "times in disorder": (FIRST, NEXT.isel(time=[1, 0])),
    "another curved grid": (GRID, GRID.assign_coords(time=[2], lon=GRID.lon + 1)),
    "other sites": (GRID, GRID.assign_coords(time=[2], site=("y", ["b", "a"]))),
}


@pytest.mark.parametrize("case", OTHERS)
def test_rows_of_other_labels_are_refused_as_by_save(xdb: XarrayMongoDB, case: str, tmp_path: Path) -> None:
    stored, rows = OTHERS[case]
    xdb.put(stored, name="o")
    hs.save(tmp_path / "o.zarr", stored)
    with pytest.raises(Invalid) as wanted:
        hs.save(tmp_path / "o.zarr", rows, append_dim="time")
    with pytest.raises(Invalid) as caught:
        xdb.append("o", rows, "time")
    assert caught.value.message == wanted.value.message
    assert caught.value.url and caught.value.remedy
    if "is there" not in case and "already" not in caught.value.message:
        assert caught.value.remedy == wanted.value.remedy
    xr.testing.assert_identical(xdb.get("o", load=True), stored)


def test_rows_are_put_behind_where_that_is_allowed(xdb: XarrayMongoDB) -> None:
    early = FIRST.assign_coords(time=pd.date_range("2025-01-01", periods=2, unit="us"))
    xdb.put(FIRST, name="o")
    xdb.append("o", early, "time", repeated="allow")
    xr.testing.assert_identical(xdb.get("o", load=True), xr.concat([FIRST, early], "time"))
    with pytest.raises(Invalid, match="the labels of 'sym' are not those that are stored"):
        xdb.append("o", NEXT.isel(sym=[1, 0]), "time", repeated="allow")


@pytest.mark.parametrize("threshold", [0, 1 << 18])
def test_what_has_no_labels_or_the_stored_ones_is_appended(xdb: XarrayMongoDB, threshold: int) -> None:
    xdb.embed_threshold_bytes = threshold
    xdb.put(FIRST, name="o")
    xdb.append("o", NEXT.drop_vars(["sym", "run"]), "time")
    xr.testing.assert_identical(xdb.get("o", load=True), DAYS)
    xdb.put(GRID, name="g")
    narrow = GRID.assign_coords(time=[2], lon=GRID.lon.astype("f4")).transpose("time", "y", "x")
    xdb.append("g", narrow, "time")
    xdb.append("g", GRID.assign_coords(time=[3], lon=GRID.lon.T), "time")
    assert xdb.get("g").sizes["time"] == 3


def test_new_names_come_in_any_order(xdb: XarrayMongoDB, tmp_path: Path) -> None:
    stored, column = FIRST.isel(sym=[1]), FIRST.isel(sym=[0])
    xdb.put(stored, name="o")
    xdb.append("o", column, "sym")
    xr.testing.assert_identical(xdb.get("o", load=True), xr.concat([stored, column], "sym"))
    hs.save(tmp_path / "o.zarr", stored)
    hs.save(tmp_path / "o.zarr", column, append_dim="sym")
    with hs.open_group(tmp_path / "o.zarr") as root:
        assert root["sym"][:].tolist() == ["B", "A"]


def test_labels_alone_are_read(xdb: XarrayMongoDB) -> None:
    xdb.embed_threshold_bytes = 0
    key, cells = xdb.put(FIRST.chunk(), name="o")
    cells.compute()
    assert xdb.chunks.delete_many({"meta_id": key, "name": "price"}).deleted_count
    with pytest.raises(Invalid, match="'sym'"):
        xdb.append("o", NEXT.isel(sym=[1, 0]), "time")
    xdb.append("o", NEXT, "time")


@pytest.mark.parametrize(
    ("stored", "cells", "remedy"),
    [
        (["A", "B"], ["A longer name"], "of <U13"),
        (np.array(["A", "BCD"]), np.array(["CD"], "<U9"), "astype('<U3') it"),
        (np.array([1], "u4"), np.array([-1]), "of <i8"),
        (np.array([1], "u4"), np.array([2]), "astype('<u4') it"),
        (np.array([1]), np.array([0.5]), "of <f8"),
        (np.array([1], "f4"), np.array([0.1]), "astype('<f4') it, which rounds it"),
        (np.array([1]), np.array(["a"]), "another name"),
    ],
)
def test_the_remedy_for_another_type_keeps_the_values(xdb: XarrayMongoDB, stored: Any, cells: Any, remedy: str) -> None:
    xdb.put(xr.Dataset({"v": ("x", stored)}), name="o")
    with pytest.raises(Invalid, match="'v' is of dtype") as caught:
        xdb.append("o", xr.Dataset({"v": ("x", cells)}), "x")
    assert remedy in str(caught.value)
    assert ("astype" in remedy) == ("astype" in str(caught.value))


REGION = {"time": slice(0, 1), "sym": slice(0, 2)}


@pytest.mark.parametrize("threshold", [0, 1 << 18])
@pytest.mark.parametrize("region", [REGION, {"time": slice(0, 1)}])
def test_cells_of_other_labels_are_not_put_into_a_region(xdb: XarrayMongoDB, threshold: int, region: Any) -> None:
    xdb.embed_threshold_bytes = threshold
    xdb.put(DAYS, name="o")
    cells = (DAYS * 10).isel(time=[0])
    for other in (cells.isel(sym=[1, 0]), cells.assign_coords(time=TIMES[1:2]), cells.assign_coords(sym=["A", "C"])):
        with pytest.raises(Invalid, match=r"the labels of '(sym|time)' are not those that are stored") as caught:
            xdb.update("o", other.drop_vars("run"), region)
        assert "drop_vars(" in str(caught.value) or "::-1" in str(caught.value)
        xr.testing.assert_identical(xdb.get("o", load=True), DAYS)
    xdb.update("o", cells, region)
    wanted = DAYS.copy(deep=True)
    wanted["price"][:1] *= 10
    xr.testing.assert_identical(xdb.get("o", load=True), wanted)
    xdb.update("o", cells.isel(sym=[1, 0]).drop_vars("sym"), region)
    wanted["price"][:1] = [[10, 0]]
    xr.testing.assert_identical(xdb.get("o", load=True), wanted)


def test_labels_without_cells_are_changed(xdb: XarrayMongoDB) -> None:
    xdb.put(DAYS, name="o")
    xdb.update("o", xr.Dataset(coords={"sym": ["C"]}), {"sym": slice(1, 2)})
    xr.testing.assert_identical(xdb.get("o", load=True), DAYS.assign_coords(sym=["A", "C"]))


def test_times_that_are_counted_go_behind_those_of_an_object(
    database: Database[Any], mongo: Mongo, tmp_path: Path
) -> None:
    XarrayMongoDB(database).put(FIRST, name="o")
    url, units = f"{mongo.url}/{database.name}#o", {"units": "hours since 2026-01-01", "dtype": "i4"}
    hs.save(tmp_path / "n.nc", NEXT, encoding={"time": units})
    append_dataset(url, tmp_path / "n.nc", dim="time")
    xr.testing.assert_equal(XarrayMongoDB(database).get("o", load=True), DAYS)
    hs.save(tmp_path / "first.nc", FIRST, encoding={"time": units}, unlimited_dims="time")
    append_dataset(tmp_path / "first.nc", url, dim="time", repeated="overwrite")
    with hs.open_group(tmp_path / "first.nc") as root:
        assert root["time"][:].tolist() == [0, 24, 48, 72]


def test_coordinates_of_other_dimensions_are_refused(xdb: XarrayMongoDB) -> None:
    grid = xr.Dataset(
        {"v": (("t", "y", "x"), np.zeros((1, 2, 3)))},
        {"t": [0], "lat": (("y", "x"), np.arange(6.0).reshape(2, 3))},
    )
    xdb.put(grid, name="g")
    rows = grid.assign_coords(t=[1]).drop_vars("lat").assign_coords(lat=("y", [0.0, 1.0]))
    with pytest.raises(Invalid, match="'lat' has dimensions"):
        xdb.append("g", rows, "t")
