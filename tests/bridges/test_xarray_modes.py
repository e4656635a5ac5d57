"""Rows, regions and modes of ``save`` in a folder, a zip file and in memory, for groups and trees."""

from __future__ import annotations

import itertools
import warnings
import weakref
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from xarray.testing import assert_identical

import hyperslab as hs
from hyperslab.errors import Invalid
from old_peers import needs

_NUMBERS = itertools.count()


@pytest.fixture(params=["folder", "zip", "memory"])
def url(request: Any, tmp_path: Any) -> str:
    """Where nothing is yet."""
    names = {"folder": f"{tmp_path}/a.zarr", "zip": f"{tmp_path}/a.zarr.zip"}
    return names.get(request.param, f"memory://modes-{next(_NUMBERS)}.zarr")


def opened(url: str, group: str = "") -> xr.Dataset:
    return xr.open_dataset(url, engine="hyperslab", group=group).load()


def weather(first: str = "2000-01-01") -> xr.Dataset:
    """Four days at three points; time is encoded as xarray chooses."""
    days = np.datetime64(first, "ns") + np.arange(4) * np.timedelta64(1, "D")
    cells = np.arange(12.0).reshape(4, 3)
    return xr.Dataset({"t": (("time", "x"), cells)}, {"time": days, "x": [10.0, 20.0, 30.0]})


TREE = {"/": xr.Dataset({"u": ("x", [1, 2, 3])}), "/a": weather(), "/a/b": weather().isel(x=0, drop=True)}


@pytest.mark.covering
@pytest.mark.parametrize("group", ["", "g/h"])
@pytest.mark.parametrize("chunks", [None, {"time": 3}])
def test_times_are_appended_as_xarray_encodes_them(url: str, group: str, chunks: dict | None) -> None:
    """The units that xarray chose the first time it spells otherwise the next time."""
    weather().hyperslab.save(url, group=group)
    more = weather("2000-01-05") if chunks is None else weather("2000-01-05").chunk(chunks)
    more.hyperslab.save(url, group=group, append_dim="time")
    assert_identical(opened(url, group), xr.concat([weather(), more], "time").compute())


@pytest.mark.covering
@pytest.mark.parametrize(
    ("stored", "given", "same"),
    [
        ("days since 2000-01-01 00:00:00", "days since 2000-1-1", True),
        ("hours since 2000-01-01T06:00", "hour since 2000-01-01 06:00:00 UTC", True),
        ("days since 2000-01-01", "days since 2000-01-02", False),
        ("days since 2000-01-01", "hours since 2000-01-01", False),
        ("K", "kelvin", False),
    ],
)
def test_units_that_mean_the_same(url: str, stored: str, given: str, same: bool) -> None:
    dataset = xr.Dataset({"a": ("x", np.arange(3), {"units": stored, "calendar": "standard"})})
    dataset.hyperslab.save(url)
    dataset["a"].attrs |= {"units": given, "calendar": "gregorian"}
    with hs.open(url, "r+") as root:
        root["a"].attrs["units"] = stored
    with xr.set_options(keep_attrs=True):
        change = xr.Dataset({"a": dataset["a"] + 1})
    if not same:
        with pytest.raises(Invalid, match="would be stored with units"):
            change.hyperslab.save(url, mode="r+")
        return
    change.hyperslab.save(url, mode="r+")
    assert hs.open(url)["a"][...].tolist() == [1, 2, 3]
    assert hs.open(url)["a"].attrs["units"] == stored


def test_what_is_encoded_already_is_not_encoded_again(url: str) -> None:
    """A dataset that was opened without decoding, into a region of one like it."""
    packed = weather()
    packed["t"].encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": np.int16(-9)}
    packed.hyperslab.save(url)
    stored = xr.open_dataset(url, engine="hyperslab", decode_cf=False).load()
    stored.isel(time=slice(1, 3)).drop_vars("x").hyperslab.save(url, region={"time": slice(0, 2)})
    assert_identical(
        xr.open_dataset(url, engine="hyperslab", decode_cf=False)["t"][:2].load().drop_vars("time"),
        stored["t"][1:3].drop_vars("time"),
    )
    stored["t"].attrs["scale_factor"] = 0.25
    with pytest.raises(Invalid, match="scale_factor"):
        stored.hyperslab.save(url, mode="r+")


def test_cells_of_what_is_there_change_whole(url: str) -> None:
    """``r+`` without a region: scalars too, in every group of a tree; nothing new, nothing of another size."""
    tree = xr.DataTree.from_dict({**TREE, "/": TREE["/"].assign(h=1.5)})
    tree.hyperslab.save(url)
    changed = tree.map_over_datasets(lambda node: node + 1)
    changed.hyperslab.save(url, mode="r+")
    assert_identical(xr.open_datatree(url, engine="hyperslab").load(), changed)
    with pytest.raises(Invalid, match="not there"):
        weather().assign(new=1).hyperslab.save(url, mode="r+", group="a")
    with pytest.raises(Invalid, match="shape"):
        weather().isel(time=slice(2)).hyperslab.save(url, mode="r+", group="a")
    for other, remedy in (
        (weather().rename_dims(x="y"), "rename its dimensions"),
        (weather().transpose(), "transpose it"),
    ):
        with pytest.raises(Invalid, match=remedy):
            other.hyperslab.save(url, mode="r+", group="a")
    assert_identical(xr.open_datatree(url, engine="hyperslab").load(), changed)


@pytest.mark.covering
@pytest.mark.parametrize("mode", ["x", "a", "w"])
def test_trees(url: str, mode: str) -> None:
    tree = xr.DataTree.from_dict(TREE)
    xr.Dataset({"other": 1}).hyperslab.save(url)
    tree.hyperslab.save(url, mode=mode, group="deep/er")
    assert_identical(xr.open_datatree(url, engine="hyperslab", group="deep/er").load(), tree)
    tree.hyperslab.save(url, mode="w", group="deep")
    assert_identical(xr.open_datatree(url, engine="hyperslab", group="deep").load(), tree)
    assert sorted(hs.open(url)) == ["deep", "other"]


@pytest.mark.parametrize("url", ["folder", "memory"], indirect=True)
def test_later(url: str) -> None:
    """A new dataset, a group, a region: prepared now, written by the Delayed."""
    lazy = weather().chunk({"time": 3})
    for options in ({}, {"group": "g"}, {"mode": "a", "group": "h"}):
        task = lazy.hyperslab.save(url, compute=False, **options)
        group = options.get("group", "")
        assert opened(url, group)["t"].isnull().all()
        task.compute(scheduler="threads")
        assert_identical(opened(url, group), weather())
    part = (lazy[["t"]] + 1).isel(time=slice(1, 3)).drop_vars(["time", "x"])
    task = part.hyperslab.save(url, region={"time": slice(1, 3)}, compute=False)
    assert_identical(opened(url), weather())
    task.compute(scheduler="threads")
    np.testing.assert_array_equal(opened(url)["t"][1:3], weather()["t"][1:3] + 1)


def test_appending_holds_few_blocks(url: str) -> None:
    """Of 64 blocks of a dask array, under one thread, never more than a few are there at once; encodings apply."""
    alive, most = set(), []

    def make(block: np.ndarray) -> np.ndarray:
        made = np.full(block.shape, 281.5)
        alive.add(id(made))
        weakref.finalize(made, alive.discard, id(made))
        most.append(len(alive))
        return made

    first = xr.Dataset({"t": (("time", "x"), np.full((1, 100), 280.0))})
    first["t"].encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 280.0, "_FillValue": -999}
    first.hyperslab.save(url, chunks={"time": 4})
    rows = da.zeros((64, 100), chunks=(1, 100)).map_blocks(make, dtype="f8", meta=np.zeros((0, 0)))
    with dask.config.set(scheduler="sync"):
        xr.Dataset({"t": (("time", "x"), rows)}).hyperslab.save(url, append_dim="time")
    assert len(most) == 64
    assert max(most) <= 4
    assert hs.open(url)["t"].dtype == np.int16
    assert opened(url)["t"].sizes["time"] == 65
    assert (opened(url)["t"][1:] == 281.5).all()


def test_rows_that_fail_half_way_are_in_no_array(url: str) -> None:
    """And the next rows go on where all arrays end."""

    def fail(block: np.ndarray) -> np.ndarray:
        raise RuntimeError("no such block")

    two = xr.Dataset({"a": ("x", np.zeros(4)), "b": ("x", np.zeros(4))})
    two.hyperslab.save(url)
    bad = (two + 1).assign(b=("x", da.ones(4, chunks=2).map_blocks(fail, dtype=float, meta=np.zeros(0))))
    with pytest.raises(RuntimeError, match="no such block"):
        bad.hyperslab.save(url, append_dim="x")
    assert_identical(opened(url), two)
    (two + 2).hyperslab.save(url, append_dim="x")
    assert_identical(opened(url), xr.concat([two, two + 2], "x"))


def test_packed_numbers_make_way_for_plain_ones(url: str) -> None:
    """Cells of the same dtype, but not scaled any more: the attributes that scaled them go."""
    packed = xr.Dataset({"t": ("x", np.array([1.0, 2.0]))})
    packed["t"].encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -9}
    packed.hyperslab.save(url)
    plain = xr.Dataset({"t": ("x", np.array([10, 20], "i2"), {"_FillValue": np.int16(-9)})})
    plain.hyperslab.save(url, mode="a")
    assert opened(url)["t"].values.tolist() == [10, 20]


@needs("xarray", (2025, 3), "warns of every group without a consolidated document")
@pytest.mark.parametrize("options", [{}, {"mode": "a"}, {"group": "g"}, {"mode": "a", "group": "g"}])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_the_other_engine_does_not_warn_of_a_new_dataset(tmp_path: Any, options: dict, format: str) -> None:
    url = f"{tmp_path}/a.zarr"
    weather().hyperslab.save(url, format=format, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = xr.open_dataset(url, engine="zarr", group=options.get("group"))
    assert seen.identical(weather())
