"""xarray over hyperslab: the engine, ``save``, the accessors; xarray's own comparison is the oracle."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import pytest
import xarray as xr
import xarray.testing.strategies as xrst
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xarray.testing import assert_identical

import hyperslab as hs
from hyperslab.bridges.xarray import indexed, open_group
from hyperslab.errors import AlreadyExists, Invalid, NotFound, Unsupported
from hyperslab.stores import MemoryStore
from old_peers import needs, reads_zarr
from programs import side_by_side

pytestmark = pytest.mark.sampled(2)

FILES = sorted(Path(iris_sample_data.path).rglob("*.nc"))
DECODING = {"decoded": {}, "stored": {"decode_cf": False}}


@pytest.fixture
def weather() -> xr.Dataset:
    """Temperatures of 6 days at 4 x 5 points, packed, with a gap; names and a mask beside them."""
    rng = np.random.default_rng(3)
    cells = rng.normal(280, 5, (6, 4, 5)).round(1)
    cells[2, 1] = np.nan
    dataset = xr.Dataset(
        {
            "t": (("time", "y", "x"), cells, {"units": "K", "levels": np.array([1.0, 2.0], "f4")}),
            "place": (("y",), np.array(["Ulm", "Ås", "", "Brno"], dtype=object)),
            "sea": (("y", "x"), rng.random((4, 5)) > 0.5),
            "height": ((), 2.0),
        },
        coords={
            "time": np.arange("2013-01-01", "2013-01-07", dtype="datetime64[D]").astype("datetime64[ns]"),
            "y": [50.0, 47.5, 45.0, 42.5],
            "x": np.arange(5, dtype="f4"),
            "area": (("y", "x"), np.ones((4, 5))),
        },
        attrs={"title": "weather", "year": np.int16(2013)},
    )
    dataset["t"].encoding = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 280.0, "_FillValue": np.int16(-999)}
    dataset["time"].encoding = {"units": "hours since 2013-01-01", "calendar": "proleptic_gregorian", "dtype": "i4"}
    return dataset


def opened(url: object, **options: object) -> xr.Dataset:
    return xr.open_dataset(str(url), engine="hyperslab", **options)


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("decoding", DECODING)
@pytest.mark.parametrize(("name", "format"), [("a.zarr", None), ("b.zip", "zarr3"), ("c.zarr", "zarr2")])
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_real_files_are_identical_through_every_place(
    tmp_path: Path, file: Path, name: str, format: str | None, decoding: str
) -> None:
    options = DECODING[decoding]
    with xr.open_dataset(file, **options) as source:
        assert_identical(opened(file, **options), source)
        source.hyperslab.save(tmp_path / name, format=format)
        if options:  # what marks missing numbers is seen: of numbers without a mark it is NaN, as xarray writes it
            for variable in source.variables.values():
                if variable.dtype.kind == "f":
                    variable.attrs.setdefault("_FillValue", variable.dtype.type(np.nan))
        assert_identical(opened(tmp_path / name, **options), source)
        assert_identical(opened(tmp_path / name, chunks={}, **options).compute(scheduler="threads"), source)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_encoding_is_kept(tmp_path: Path, weather: xr.Dataset, name: str) -> None:
    weather.hyperslab.save(tmp_path / name, chunks={"time": 2})
    stored = hs.open(tmp_path / name)
    assert stored["t"].dtype == np.int16
    assert stored["t"].chunks[0] == 2
    assert stored["time"].attrs["units"] == "hours since 2013-01-01"
    got = opened(tmp_path / name)
    assert_identical(got, weather)
    assert got["t"].encoding["preferred_chunks"]["time"] == 2
    assert got.attrs["year"].dtype == np.int16
    again = tmp_path / f"again-{name}"
    got.hyperslab.save(again)
    assert hs.open(again)["t"].chunks == stored["t"].chunks
    assert_identical(opened(again), weather)


def test_other_engines_read_it(tmp_path: Path, weather: xr.Dataset) -> None:
    """Engine ``zarr`` stays the one for ``.zarr``, and warns of nothing."""
    weather.hyperslab.save(tmp_path / "a.zarr", format="zarr2")
    seen = xr.open_dataset(tmp_path / "a.zarr")
    assert seen.encoding["source"]
    xr.testing.assert_equal(seen, weather)
    assert xr.backends.plugins.guess_engine(str(tmp_path / "a.zarr")) == "zarr"
    weather.hyperslab.save(tmp_path / "a.nc")
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "a.nc", engine="netcdf4"), weather)


@reads_zarr
def test_what_engine_zarr_wrote(tmp_path: Path, weather: xr.Dataset) -> None:
    """Both engines see the same: in Zarr v2 the fill value is what means missing."""
    for zarr_format in (2, 3):
        url = tmp_path / f"{zarr_format}.zarr"
        weather.to_zarr(url, zarr_format=zarr_format, consolidated=zarr_format == 2)
        theirs = xr.open_dataset(url, engine="zarr", consolidated=zarr_format == 2)
        assert_identical(opened(url), theirs)
        assert np.isnan(opened(url)["t"][2, 1]).all()


@needs("xarray", (2025, 8), "loads nothing asynchronously")
def test_asynchronous(tmp_path: Path, weather: xr.Dataset) -> None:
    weather.hyperslab.save(tmp_path / "a.zarr")
    assert_identical(asyncio.run(opened(tmp_path / "a.zarr")[["t"]].load_async()), weather[["t"]])


def test_lazy_and_pickled(tmp_path: Path, weather: xr.Dataset) -> None:
    weather.hyperslab.save(tmp_path / "a.zarr")
    lazy = opened(tmp_path / "a.zarr")
    assert not lazy["t"].variable._in_memory
    assert_identical(pickle.loads(pickle.dumps(lazy)).load(), weather)
    assert_identical(
        lazy.isel(time=[4, 1], x=slice(None, None, -2)), weather.isel(time=[4, 1], x=slice(None, None, -2))
    )
    points = {"y": xr.DataArray([0, 3, 3], dims="p"), "x": xr.DataArray([4, 0, 0], dims="p")}
    assert_identical(opened(tmp_path / "a.zarr").isel(points), weather.isel(points))
    assert_identical(opened(tmp_path / "a.zarr", drop_variables=["place", "sea"]), weather.drop_vars(["place", "sea"]))
    assert_identical(hs.open(tmp_path / "a.zarr").to_xarray(), weather)
    assert_identical(hs.open(tmp_path / "a.zarr")["t"].to_xarray(), weather["t"])
    chunked = hs.open(tmp_path / "a.zarr").to_xarray(chunks={})
    assert chunked["t"].chunks is not None
    assert_identical(chunked.compute(), weather)
    with pytest.raises(TypeError, match="chnks"):
        hs.open(tmp_path / "a.zarr").to_xarray(chnks={})


def test_trees(tmp_path: Path, weather: xr.Dataset) -> None:
    tree = xr.DataTree.from_dict({"/": weather, "/model/low": weather.isel(time=0, drop=True), "/model": xr.Dataset()})
    tree.hyperslab.save(tmp_path / "a.zarr")
    assert_identical(xr.open_datatree(tmp_path / "a.zarr", engine="hyperslab"), tree)
    assert_identical(hs.open(tmp_path / "a.zarr").to_datatree(), tree)
    assert_identical(opened(tmp_path / "a.zarr", group="model/low"), tree["model/low"].to_dataset(inherit=False))
    groups = xr.open_groups(tmp_path / "a.zarr", engine="hyperslab")
    assert set(groups) == {"/", "/model", "/model/low"}


def test_modes(tmp_path: Path, weather: xr.Dataset) -> None:
    url = tmp_path / "a.zarr"
    weather.hyperslab.save(url)
    with pytest.raises(AlreadyExists):
        weather.hyperslab.save(url)
    weather[["t"]].hyperslab.save(url, mode="w")
    assert_identical(opened(url), weather[["t"]])
    weather[["sea"]].hyperslab.save(url, mode="a")
    assert set(opened(url).data_vars) == {"t", "sea"}
    weather["t"].hyperslab.save(url, group="more/deep")
    assert_identical(opened(url, group="more/deep")["t"], weather["t"])
    with pytest.raises(AlreadyExists):
        weather.hyperslab.save(url, group="more/deep")
    weather[["place"]].hyperslab.save(url, group="more/deep", mode="w")
    assert set(opened(url, group="more/deep").data_vars) == {"place"}
    (weather[["sea"]] | True).hyperslab.save(url, mode="r+")
    assert bool(opened(url)["sea"].all())
    with pytest.raises(NotFound):
        weather.hyperslab.save(url, group="nowhere", mode="r+")


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_append(tmp_path: Path, weather: xr.Dataset, name: str) -> None:
    url = tmp_path / name
    first, second = weather.isel(time=slice(0, 4)), weather.isel(time=slice(4, None))
    first.encoding["unlimited_dims"] = {"time"}
    first.hyperslab.save(url, chunks={"time": 3})
    second["time"].encoding = {"units": "days since 1900-01-01"}  # what is stored counts
    second.hyperslab.save(url, append_dim="time")
    assert_identical(opened(url), weather)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ds: ds.assign(t=ds["t"].astype("f4").drop_encoding()), None),
        (lambda ds: ds.transpose("x", "y", "time"), r"dimensions.*transpose it"),
        (lambda ds: ds.isel(x=slice(0, 3)), "labels of 'x'"),
        (lambda ds: ds.drop_vars("t"), "not appended to"),
        (lambda ds: ds.assign(new=ds["t"] * 2), "not there"),
        (lambda ds: ds.assign(t=ds["t"].astype(str)), "stored is int16|subtract"),
        (lambda ds: ds.isel(x=slice(None, None, -1)), "labels of 'x'"),
        (lambda ds: ds.isel(time=slice(None, None, -1)), "sorted"),
        (lambda ds: ds.assign_coords(time=np.arange(6.0)), "sorted"),
        (lambda ds: ds.assign_coords(time=ds["time"] - np.timedelta64(1, "D")), r"'time' has the label .* already\W"),
        (lambda ds: ds.assign_coords(time=ds["time"] - np.timedelta64(3, "D")), "already, and 2 more"),
        (lambda ds: ds.assign_coords(time=ds["time"] - np.timedelta64(60, "D")), "sorted"),
    ],
)
def test_what_does_not_fit_is_not_appended(tmp_path: Path, weather: xr.Dataset, change: object, words: str) -> None:
    url = tmp_path / "a.zarr"
    weather.hyperslab.save(url)
    more = change(weather.assign_coords(time=weather["time"] + np.timedelta64(6, "D")))
    if words is None:  # floats are packed as what is there
        more.hyperslab.save(url, append_dim="time")
        assert opened(url).sizes["time"] == 12
        return
    with pytest.raises(Invalid, match=words):
        more.hyperslab.save(url, append_dim="time")
    assert_identical(opened(url), weather)


def test_times_rise_from_a_single_one(tmp_path: Path, weather: xr.Dataset) -> None:
    url = tmp_path / "a.zarr"
    weather.isel(time=[2]).hyperslab.save(url)
    with pytest.raises(Invalid, match="'time' would no longer be sorted: 2013-01-01 behind 2013-01-03"):
        weather.isel(time=[0]).hyperslab.save(url, append_dim="time")
    weather.isel(time=[3]).hyperslab.save(url, append_dim="time")
    weather.isel(time=[0]).hyperslab.save(url, append_dim="time", repeated="allow")
    assert_identical(opened(url), weather.isel(time=[2, 3, 0]))


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_whose_labels_are_there(tmp_path: Path, weather: xr.Dataset, lazy: bool) -> None:
    url = tmp_path / "a.zarr"
    weather.isel(time=slice(0, 4)).hyperslab.save(url, chunks={"time": 3})
    more = weather.isel(time=[5, 2, 3, 4]).sortby("time").copy(deep=True)
    more["t"] += 1
    with pytest.raises(Invalid, match="already, and 1 more of the 4"):
        more.hyperslab.save(url, append_dim="time")
    with pytest.raises(Invalid, match="without append_dim"):
        more.hyperslab.save(url, mode="a", repeated="overwrite")
    (more.chunk({"time": 1}) if lazy else more).hyperslab.save(url, append_dim="time", repeated="overwrite")
    expected = weather.copy(deep=True)
    expected["t"][2:] += 1
    assert_identical(opened(url), expected)
    more.isel(time=slice(1, 2)).hyperslab.save(url, append_dim="time", repeated="overwrite")
    assert_identical(opened(url), expected)
    more.hyperslab.save(url, append_dim="time", repeated="allow")
    assert opened(url).sizes["time"] == 10
    with pytest.raises(Invalid, match="compute=False"):
        more.isel(time=[0]).hyperslab.save(url, append_dim="time", repeated="overwrite", compute=False)


def test_regions(tmp_path: Path, weather: xr.Dataset) -> None:
    url = tmp_path / "a.zarr"
    weather.hyperslab.save(url, chunks={"time": 4, "x": 3})
    part = (weather[["t"]] + 1).isel(time=slice(1, 5), x=slice(2, 4)).drop_vars(["y", "area"])
    part.hyperslab.save(url, region="auto")
    expected = weather.copy(deep=True)
    expected["t"][1:5, :, 2:4] += 1
    xr.testing.assert_allclose(opened(url)["t"], expected["t"])
    bare = part.drop_vars(["time", "x"]) * 0 + 270
    bare.hyperslab.save(url, region={"time": slice(1, 5), "x": slice(2, 4)})
    assert (opened(url)["t"][1:5, :, 2:4].isnull() | (opened(url)["t"][1:5, :, 2:4] == 270)).all()
    with pytest.raises(Invalid, match="not there"):
        part.assign_coords(x=part["x"] + 100).hyperslab.save(url, region="auto")
    with pytest.raises(Invalid, match="shape"):
        bare.hyperslab.save(url, region={"time": slice(4, 8), "x": slice(2, 4)})
    with pytest.raises(Invalid, match="dimension of the region"):
        weather[["t", "height"]].hyperslab.save(url, region={"time": slice(0, 6)})


WRITER = """
import sys
import numpy as np, xarray as xr
import hyperslab as hs
url, number = sys.argv[1], int(sys.argv[2])
for start in range(number, 40, 4):
    part = xr.Dataset({"a": (("x",), np.full(5, start + 1.0))})
    part.hyperslab.save(url, region={"x": slice(start * 5, start * 5 + 5)})
"""


def test_unaligned_regions_by_four_processes_lose_nothing(tmp_path: Path) -> None:
    url = tmp_path / "a.zarr"
    xr.Dataset({"a": (("x",), np.zeros(200))}).hyperslab.save(url, chunks={"x": 12})
    with side_by_side(WRITER, *((url, number) for number in range(4))) as running:
        assert [process.communicate() for process in running] == [("", "")] * 4
    np.testing.assert_array_equal(opened(url)["a"], np.repeat(np.arange(1.0, 41.0), 5))


APPENDER = """
import sys
import numpy as np, xarray as xr
import hyperslab as hs
url, number = sys.argv[1], int(sys.argv[2])
for turn in range(5):
    rows = np.full(3, number * 10.0 + turn)
    xr.Dataset({"a": (("x",), rows), "b": (("x",), -rows)}).hyperslab.save(url, append_dim="x", lock_timeout=60)
"""


def test_two_appenders_take_turns(tmp_path: Path) -> None:
    url = tmp_path / "a.zarr"
    empty = np.zeros(0)
    xr.Dataset({"a": (("x",), empty), "b": (("x",), empty)}).hyperslab.save(url, chunks={"x": 4})
    with side_by_side(APPENDER, (url, 1), (url, 2)) as running:
        assert [process.communicate() for process in running] == [("", "")] * 2
    got = opened(url).load()
    np.testing.assert_array_equal(got["a"], -got["b"])
    assert got.sizes["x"] == 30
    assert sorted(got["a"].values[::3].tolist()) == [10, 11, 12, 13, 14, 20, 21, 22, 23, 24]


@pytest.mark.sampled(0)
def test_the_accessor_leaves_the_import_of_xarray_as_it_is() -> None:
    code = "import hyperslab.xarray, xarray; print(xarray.Dataset().hyperslab.save, xarray.__spec__.loader)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "SourceFileLoader" in done.stdout
    light = "import sys, hyperslab; assert 'xarray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", light], check=False).returncode == 0


def test_the_engine_is_registered() -> None:
    engine = xr.backends.list_engines()["hyperslab"]
    assert engine.guess_can_open("x.blaze")
    assert engine.guess_can_open("mongodb://host/db")
    assert not engine.guess_can_open("x.zarr")
    assert not engine.guess_can_open("x.nc")


def test_times_keep_their_meaning(tmp_path: Path, weather: xr.Dataset) -> None:
    """What the stored units cannot count is refused, not stored as something else."""
    url = tmp_path / "a.zarr"
    days = weather[["t"]]
    days["time"].encoding = {"units": "days since 2013-01-01", "dtype": "i4"}
    days.hyperslab.save(url)
    hours = days.assign_coords(time=weather["time"].values[-1] + np.arange(1, 7) * np.timedelta64(1, "h"))
    with pytest.warns(UserWarning, match="Serializing"), pytest.raises(Invalid, match="units"):
        hours.hyperslab.save(url, append_dim="time")
    assert_identical(opened(url), days)


@pytest.mark.parametrize(
    ("dataset", "options", "words"),
    [
        (xr.Dataset({"a/b": ("x", [1])}), {}, "slash"),
        (xr.Dataset({"a": ("x", [1])}), {"chunks": {"y": 1}}, "chunks for a dimension 'y'"),
        (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"chunks": (1, 2)}}}, "for 1 dimensions"),
        (xr.Dataset({"a": ("x", [70000])}), {"append_dim": "x"}, "int16"),
        (xr.Dataset({"a": ("x", [1])}), {"append_dim": 0}, "append_dim"),
        (xr.Dataset({"a": ("x", [1])}), {"region": {"y": slice(0, 1)}}, "no dimension 'y'"),
        (xr.Dataset({"a": ("x", [1])}), {"region": {}}, "region"),
        (xr.Dataset({"a": ("x", np.array([1], "i2"), {"units": "m"})}), {"append_dim": "x"}, "units"),
        (xr.Dataset({"b": ("x", np.arange(7))}), {"mode": "a"}, "7 cells"),
    ],
)
def test_what_is_not_meant_is_refused(tmp_path: Path, dataset: xr.Dataset, options: dict, words: str) -> None:
    url = tmp_path / "a.zarr"
    there = xr.Dataset({"a": ("x", np.array([1, 2], "i2"), {"units": "km"})})
    if {"append_dim", "region", "mode"} & set(options):
        there.hyperslab.save(url)
    with pytest.raises(Invalid, match=words):
        dataset.hyperslab.save(url, **options)
    if url.exists():
        assert_identical(opened(url), there)


def test_missing_text_is_empty(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", np.array(["b", None, np.nan], object))}).hyperslab.save(tmp_path / "a.zarr")
    assert opened(tmp_path / "a.zarr")["a"].values.tolist() == ["b", "", ""]


def test_plain_arrays(tmp_path: Path) -> None:
    cells = np.arange(12).reshape(3, 4)
    hs.save(tmp_path / "a.zarr", cells, chunks=(2, 2))
    assert hs.open(tmp_path / "a.zarr")["data"].chunks == (2, 2)
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["data"], cells)
    with pytest.raises(AlreadyExists):
        hs.save(tmp_path / "a.zarr", cells)
    hs.save(tmp_path / "a.zarr", cells + 1, mode="w")
    assert hs.open(tmp_path / "a.zarr")["data"][0, 0] == 1
    with pytest.raises(Invalid, match="dict"):
        hs.save(tmp_path / "b.zarr", {})
    assert not os.path.lexists(tmp_path / "b.zarr")


def test_a_failed_save_leaves_nothing(tmp_path: Path, weather: xr.Dataset) -> None:

    weather.hyperslab.save(tmp_path / "a.zarr")
    with pytest.raises(Invalid, match="means nothing"):
        weather.hyperslab.save(tmp_path / "a.zarr", mode="w", encoding={"t": {"compresion": 1}})
    assert_identical(opened(tmp_path / "a.zarr"), weather)
    with pytest.raises(Invalid, match="no variable"):
        weather.hyperslab.save(tmp_path / "b.zarr", encoding={"T": {}})
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@st.composite
def datasets(draw: st.DrawFn) -> xr.Dataset:
    """A few variables of any dtype that xarray's strategies give, over shared dimensions."""
    sizes = draw(xrst.dimension_sizes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    variables = draw(
        st.dictionaries(
            st.text("abcdeä_", min_size=1, max_size=5).filter(lambda name: name not in sizes),
            xrst.variables(dims=st.just(sizes), attrs=xrst.simple_attrs),
            min_size=1,
            max_size=3,
        )
    )
    for variable in variables.values():
        variable.attrs.pop("dtype", None)  # which means something to xarray when it decodes
    return xr.Dataset({name: variable.drop_encoding() for name, variable in variables.items()})


@settings(max_examples=min(settings.default.max_examples, 60), suppress_health_check=[HealthCheck.too_slow])
@given(datasets(), st.sampled_from(["zarr2", "zarr3"]))
def test_any_dataset_comes_back(dataset: xr.Dataset, name: str) -> None:
    store = MemoryStore()
    hs.save(store, dataset, format=name)
    back = indexed(open_group(hs.open(store)))
    xr.testing.assert_identical(back, dataset)
    for variable in dataset.variables:
        if dataset[variable].dtype.kind != "U":
            assert back[variable].dtype == dataset[variable].dtype


@pytest.mark.parametrize("change", ["mode a", "turned", "group w", "mode w", "region"])
def test_a_dataset_may_be_saved_over_itself(tmp_path: Path, weather: xr.Dataset, change: str) -> None:
    """What is still to be read from the place is read before anything there changes."""
    url = tmp_path / "a.zarr"
    group = "g" if change == "group w" else ""
    weather.hyperslab.save(url, chunks={"time": 2}, group=group, mode="a" if group else "x")
    lazy = opened(url, group=group)
    if change == "mode a":
        cut = lazy.isel(time=slice(1, 4))
        with pytest.raises(Invalid, match="'time' has 3 cells"):
            cut.hyperslab.save(url, mode="a")
        lazy.hyperslab.save(url, mode="a", encoding={"t": {"dtype": "f4"}})
        xr.testing.assert_allclose(opened(url), weather)
    elif change == "turned":
        lazy[["sea"]].isel(x=slice(None, None, -1)).hyperslab.save(url, mode="a")
        np.testing.assert_array_equal(opened(url)["sea"], weather["sea"][:, ::-1])
    elif change == "region":
        turned = lazy[["t"]].isel(time=slice(None, None, -1)).drop_vars(["time", "x", "y", "area"])
        turned.hyperslab.save(url, region={"time": slice(0, 6)})
        np.testing.assert_array_equal(opened(url)["t"], weather["t"][::-1])
    else:
        lazy.isel(time=0).hyperslab.save(url, mode="w", group=group)
        assert_identical(opened(url, group=group), weather.isel(time=0))


def test_dask_arrays_of_the_place_itself_are_refused(tmp_path: Path, weather: xr.Dataset) -> None:
    weather.hyperslab.save(tmp_path / "a.zarr")
    with pytest.raises(Invalid, match="is to be changed"):
        opened(tmp_path / "a.zarr", chunks={}).isel(time=slice(0, 2)).hyperslab.save(tmp_path / "a.zarr", mode="w")
    assert_identical(opened(tmp_path / "a.zarr"), weather)


@pytest.mark.parametrize(
    ("there", "options"),
    [
        ("", {"mode": "a", "encoding": {"t": {"chunks": (1, 2)}}}),
        ("", {"mode": "a", "encoding": {"t": {"codec": "nope"}}}),
        ("", {"mode": "w", "codec": "nope"}),
        ("", {"mode": "w", "codec": "nope", "compute": False}),
        ("g", {"mode": "w", "codec": "nope"}),
        ("g/h", {"mode": "w", "encoding": {"t": {"shards": 7, "chunks": 2}}}),
    ],
)
def test_a_failed_replacement_leaves_the_old(tmp_path: Path, weather: xr.Dataset, there: str, options: dict) -> None:
    """And nothing of the new beside it."""
    url = tmp_path / "a.zarr"
    weather.hyperslab.save(url, group=there, mode="a" if there else "x")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(Invalid):
        (weather * 2).hyperslab.save(url, group=there, **options)
    assert_identical(opened(url, group=there), weather)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_what_takes_a_place_is_complete_before(tmp_path: Path, weather: xr.Dataset) -> None:
    weather.hyperslab.save(tmp_path / "a.zarr", group="g", mode="a")
    lazy = (weather[["t"]] * 2).chunk({"time": 2})
    with pytest.raises(Invalid, match="later"):
        lazy.hyperslab.save(tmp_path / "a.zarr", group="g", mode="w", compute=False)
    with pytest.raises(Invalid, match="later"):
        lazy.hyperslab.save(tmp_path / "a.zarr", group="g", mode="a", compute=False, encoding={"t": {"dtype": "f4"}})
    assert_identical(opened(tmp_path / "a.zarr", group="g"), weather)
    later = lazy.hyperslab.save(tmp_path / "a.zarr", mode="w", compute=False)
    assert opened(tmp_path / "a.zarr").sizes == lazy.sizes
    later.compute(scheduler="threads")
    xr.testing.assert_allclose(opened(tmp_path / "a.zarr"), lazy)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("options", "shards"),
    [
        ({}, (45, 45)),
        ({"unlimited_dims": "y"}, (1, 45)),
        ({"shards": False}, None),
        ({"encoding": {"t": {"shards": False}}}, None),
        ({"encoding": {"t": {"shards": None}}}, None),  # as xarray's engine zarr has it
        ({"encoding": {"t": {"shards": None}}, "shards": "auto"}, None),
        ({"shards": "none"}, None),
        ({"shards": "auto"}, (45, 45)),
        ({"encoding": {"t": {"shards": (17, 17)}}}, (17, 17)),
        ({"compute": False}, None),  # others may write the cells, a region at a time
    ],
)
def test_many_small_chunks_are_put_into_shards(
    tmp_path: Path, options: dict[str, object], shards: tuple[int, int] | None
) -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.arange(45.0 * 45).reshape(45, 45))})
    lazy = (dataset.chunk({"y": 1, "x": 1}), dataset.chunk({"y": 5}))
    # Cells in memory take a third of the time; lazy ones show what is said of shards where that matters.
    for cells in lazy if "compute" in options else (dataset,) if options else (dataset, *lazy):
        url = tmp_path / f"{len(cells.chunks)}{cells['t'].chunks and len(cells['t'].chunks[0])}.zarr"
        delayed = hs.save(url, cells, chunks={"y": 1, "x": 1}, **options)
        if delayed is not None:
            delayed.compute()
        assert hs.open(url)["t"].shards == shards
        assert_identical(opened(url).load(), dataset)


@pytest.mark.parametrize("lazy", [False, True])
def test_shards_by_dimension(tmp_path: Path, lazy: bool) -> None:
    """As chunks are: for the cells of each variable that has the dimension; an encoding of its own comes first."""
    cells = (("time", "x"), np.arange(60.0).reshape(20, 3))
    dataset = xr.Dataset(
        {"t": cells, "own": cells, "still": ("x", np.arange(3))},
        coords={"time": np.arange(20), "label": ("time", [2] * 20)},
    )
    saved = dataset.chunk({"time": 4}) if lazy else dataset
    encoding = {"own": {"chunks": (5, 3), "shards": (10, 3)}}
    hs.save(tmp_path / "a.zarr", saved, chunks={"time": 2}, shards={"time": 8}, encoding=encoding)
    root = hs.open(tmp_path / "a.zarr")
    assert {name: array.shards for name, array in root.arrays()} == {
        "t": (8, 3), "own": (10, 3), "still": None, "time": None, "label": (8,)
    }  # fmt: skip
    assert root["t"].chunks == (2, 3)
    assert_identical(opened(tmp_path / "a.zarr").load(), dataset)


def test_shards_that_mean_nothing() -> None:
    dataset = xr.Dataset({"t": ("x", np.arange(3))})
    for wrong in ((3,), True, "foo", {"x": 0}):
        with pytest.raises(Invalid, match=r"^shards=.*; give False or 'none', 'auto', 'many' .* lengths by dimension"):
            hs.save(MemoryStore(), dataset, shards=wrong)
    with pytest.raises(Invalid, match=r"^shards for a dimension 'y'"):
        hs.save(MemoryStore(), dataset, shards={"y": 3})
    with pytest.raises(hs.errors.Unsupported, match="shards"):
        hs.save(MemoryStore(), dataset, format="zarr2", chunks={"x": 1}, shards={"x": 3})
    for wrong in (True, "foo", 0):
        with pytest.raises(Invalid, match=r"encoding of 't': shards=.*; give False or 'none', .* lengths: one"):
            hs.save(MemoryStore(), dataset, encoding={"t": {"shards": wrong}})


@pytest.mark.parametrize("name", ["a.zarr", "a.nc", "zarr2", "nczarr", "hdmf"])
def test_shards_that_a_dataset_was_read_with(tmp_path: Path, name: str) -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.arange(64.0).reshape(8, 8))})
    hs.save(tmp_path / "source.zarr", dataset, encoding={"t": {"chunks": (2, 2), "shards": (4, 4)}})
    read = opened(tmp_path / "source.zarr")
    # of the chunks: with the codec of shards they were put into shards within shards
    assert [codec.name for codec in read["t"].encoding["codec"]] == ["bytes", "blosc", "crc32c"]
    format = None if "." in name else name
    hs.save(tmp_path / name, read, format=format)
    array = hs.open(tmp_path / name)["t"]
    assert (array.chunks, array.shards) == ((2, 2), (4, 4) if name == "a.zarr" else None)
    assert_identical(opened(tmp_path / name).load(), dataset)
    hs.save(tmp_path / "plain.zarr", read, shards=False)
    assert hs.open(tmp_path / "plain.zarr")["t"].shards is None
    # where they no longer fit, they are left
    hs.save(tmp_path / "row.zarr", read.isel(y=0))
    hs.save(tmp_path / "cut.zarr", read, chunks={"y": 3})
    hs.save(tmp_path / "auto.zarr", read, chunks="auto")
    assert [hs.open(tmp_path / f"{each}.zarr")["t"].shards for each in ("row", "cut", "auto")] == [None] * 3
    hs.save(tmp_path / "smaller.zarr", read, chunks={"y": 1})
    assert hs.open(tmp_path / "smaller.zarr")["t"].shards == (4, 4)
    # unless the variable's own encoding contradicts itself
    for word in ("chunks", "chunksizes"):  # Zarr's word, and netCDF's
        read["t"].encoding.pop("chunks")
        read["t"].encoding[word] = (3, 3)
        with pytest.raises(Invalid, match="multiple"):
            hs.save(tmp_path / f"{word}.zarr", read)
    if name != "a.zarr":
        with pytest.raises(Unsupported, match="no shards"):
            hs.save(tmp_path / f"b{name}", dataset, format=format, encoding={"t": {"shards": (4, 4)}})
        with pytest.raises(Unsupported, match="no shards"):
            hs.save(tmp_path / f"b{name}", dataset, format=format, shards="auto")


def test_a_lazy_variable_writes_no_shard_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.bridges.xarray.cells._BLOCK", 1 << 12)
    cells = np.arange(64.0 * 64).reshape(64, 64)
    hs.save(tmp_path / "source.zarr", xr.Dataset({"t": (("y", "x"), cells)}), chunks={"y": 8, "x": 8})
    store = KeysWritten()
    hs.save(store, opened(tmp_path / "source.zarr"), encoding={"t": {"chunks": (4, 4), "shards": (16, 16)}})
    assert sorted(key for key in store.written if "t/c/" in key) == [f"t/c/{y}/{x}" for y in range(4) for x in range(4)]
    assert np.array_equal(hs.open(store)["t"][...], cells)


class KeysWritten(MemoryStore):
    """A store that lists the keys that are written, as often as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def put_many(self, pairs: Iterable[tuple[str, Any]], *, durable: bool = False) -> None:
        """Store all."""
        pairs = list(pairs)
        self.written += [key for key, _ in pairs]
        super().put_many(pairs, durable=durable)
