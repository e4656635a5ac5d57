"""What comes from pandas is put as it is: text of any length, times with a zone, categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from pymongo.database import Database

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.mongo import XarrayMongoDB
from old_peers import needs

if TYPE_CHECKING:
    from servers.mongo import Mongo


def times(start: str, zone: str | None, periods: int = 3) -> xr.Dataset:
    index = pd.date_range(start, periods=periods, tz=zone)
    return xr.Dataset({"t": ("time", np.arange(float(periods)))}, {"time": index})


def words(*cells: str, ordered: bool = False) -> xr.Dataset:
    categories = [*dict.fromkeys(cells), "z"]
    return xr.Dataset({"c": ("x", pd.Categorical(cells, categories=categories, ordered=ordered))})


@needs("xarray", (2025, 4), "makes objects of times with a zone")
@pytest.mark.covering
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("threshold", [0, 1 << 18])
@pytest.mark.parametrize("load", [None, True, False])
def test_types_come_back(database: Database[Any], layout: Any, threshold: int, load: Any) -> None:
    xdb = XarrayMongoDB(database, layout=layout, embed_threshold_bytes=threshold)
    for ds in (
        times("2020-03-28", "Europe/Berlin"),
        times("2020-03-28", "UTC+01:00"),
        xr.Dataset({"w": ("x", pd.date_range("2020-03-28", periods=3, tz="UTC"))}),
        words("a", "bcd", "a"),
        words("b", "a", ordered=True),
        xr.Dataset({"n": ("x", pd.Categorical([3, 1, 3]))}),
        xr.Dataset(coords={"c": pd.CategoricalIndex(["a", "b"])}),
    ):
        found = xdb.get(xdb.put(ds)[0], load=load).compute()
        xr.testing.assert_identical(found, ds)
        assert [each.dtype for each in found.variables.values()] == [each.dtype for each in ds.variables.values()]


def test_a_frame_is_put(database: Database[Any]) -> None:
    index = pd.Index(["k1", "key2"], name="key")
    frame = pd.DataFrame({"name": ["a", "bcd"], "n": [1, 2], "c": pd.Categorical(["u", "v"])}, index)
    xdb = XarrayMongoDB(database)
    found = xdb.get(xdb.put(frame.to_xarray())[0])
    assert (found["name"].dtype, found["key"].dtype) == (np.dtype("<U3"), np.dtype("<U4"))
    assert found["c"].dtype == frame["c"].dtype
    assert found.to_dataframe().to_dict() == frame.to_dict()


@needs("xarray", (2025, 4), "makes objects of times with a zone")
def test_others_read_plain_cells(mongo: Mongo, database: Database[Any]) -> None:
    """Times of UTC, and text; what is made longer by them keeps its type."""
    xdb = XarrayMongoDB(database, embed_threshold_bytes=0)
    url = f"{mongo.url}/{database.name}"
    xdb.put(times("2020-03-28", "Europe/Berlin"), name="times")
    xdb.put(words("a", "bcd"), name="words")
    assert hs.open_group(f"{url}#times")["time"][0] == np.datetime64("2020-03-27T23:00")
    with hs.open_group(f"{url}#words", "r+") as root:
        assert root["c"][:].tolist() == ["a", "bcd"]
        root["c"].append(np.array(["new"]))
    found = xdb.get("words")["c"]
    assert list(found.values) == ["a", "bcd", "new"]
    assert list(found.dtype.categories) == ["a", "bcd", "z", "new"]


@needs("xarray", (2025, 4), "makes objects of times with a zone")
def test_times_with_a_zone_are_joined_by_such_alone(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database)
    xdb.put(times("2020-03-28", "Europe/Berlin"), name="o")
    with pytest.raises(Invalid, match="no time zone"):
        xdb.append("o", times("2020-03-31", None), "time")
    xdb.append("o", times("2020-03-31", "Asia/Tokyo", 1), "time")
    found = xdb.get("o")["time"].to_index()
    assert str(found.tz) == "Europe/Berlin"
    assert found[-1] == pd.Timestamp("2020-03-31", tz="Asia/Tokyo")
