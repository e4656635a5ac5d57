"""What saving refuses, before anything is written: each by an error of ours that says what would work."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid, NotFound

LEVELS = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=("letter", "number"))
ZONED = pd.date_range("2013-01-01", periods=2, tz="Europe/Paris")


def along_x(*cells: object, **options: object) -> xr.Dataset:
    return xr.Dataset({"a": ("x", *cells)}, **options)


def objects(*cells: object) -> np.ndarray:
    made = np.empty(len(cells), object)
    made[:] = cells
    return made


@pytest.mark.covering
@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (along_x(pd.Categorical(["u", "v", "u"])), "'a'.*category.*astype"),
        (along_x(pd.array([1, None, 3], dtype="Int64")), "'a'.*Int64.*astype"),
        (along_x(pd.interval_range(0, 3)), "'a'.*interval.*left and right"),
        (along_x(pd.period_range("2013-01", periods=3, freq="M")), "'a'.*(period.*to_timestamp|Period.*NumPy's times)"),
        (along_x(ZONED), "'a'.*Europe/Paris.*tz_convert"),
        (along_x([1, 2], coords={"x": ZONED}), "'x'.*Europe/Paris.*tz_convert"),
        (
            along_x(range(4), coords=xr.Coordinates.from_pandas_multiindex(LEVELS, "x")),
            "'x' is a MultiIndex.*reset_ind",
        ),
        (along_x(objects("a", 1, 2.5)), "several types: float, int, str"),
        (along_x(objects(b"a", "b")), "several types: bytes, str"),
        (along_x(objects([1], [1, 2])), "objects of type list"),
        (along_x(objects({"k": 1}, None)), "objects of type dict"),
        (along_x(objects(2**80)), "objects of type int"),
        (along_x(objects(*ZONED)), "objects of type Timestamp"),
        (along_x([1], coords={"b/c": ("x", [1])}), "named 'b/c'.*slash"),
        (xr.Dataset({"a": ((1,), [1])}), "dimension named 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("mode", ["x", "a", "w"])
def test_what_no_format_holds(tmp_path: object, dataset: xr.Dataset, words: str, mode: str) -> None:
    url = f"{tmp_path}/a.zarr"
    if mode != "x":
        hs.save(url, xr.Dataset({"old": ("y", [1])}))
    with pytest.raises(Invalid, match=words) as caught:
        dataset.hyperslab.save(url, mode=mode)
    assert caught.value.remedy
    assert mode == "x" or list(hs.open(url)) == ["old"]


def test_the_remedies_work(tmp_path: object) -> None:
    tall = along_x(range(4), coords=xr.Coordinates.from_pandas_multiindex(LEVELS, "x")).reset_index("x")
    tall.hyperslab.save(f"{tmp_path}/a.zarr")
    back = xr.open_dataset(f"{tmp_path}/a.zarr", engine="hyperslab").load()
    xr.testing.assert_equal(back.set_index(x=["letter", "number"]), tall.set_index(x=["letter", "number"]))
    utc = along_x([1, 2], coords={"x": ZONED.tz_convert("UTC").tz_localize(None)})
    utc.hyperslab.save(f"{tmp_path}/b.zarr")
    xr.testing.assert_equal(xr.open_dataset(f"{tmp_path}/b.zarr", engine="hyperslab"), utc)


@pytest.mark.parametrize(
    ("cells", "stored"),
    [
        (objects(1, 2), np.array([1, 2])),
        (objects(1, None), np.array([1, np.nan])),
        (objects(True, False), np.array([True, False])),
        (objects(1.5, np.nan), np.array([1.5, np.nan])),
        (objects(b"\xff", None, b"a"), objects(b"\xff", b"", b"a")),
        (objects("é", None), objects("é", "")),
    ],
    ids=str,
)
def test_objects_are_stored_as_what_they_are(tmp_path: object, cells: np.ndarray, stored: np.ndarray) -> None:
    """As xarray's own engines do."""
    for name in ("a.zarr", "ours.nc"):
        along_x(cells).hyperslab.save(f"{tmp_path}/{name}")
        got = xr.open_dataset(f"{tmp_path}/{name}", engine="hyperslab")["a"].values
        assert got.dtype.kind == stored.dtype.kind
        np.testing.assert_array_equal(got, stored)
    if got.dtype.kind != "b" and stored[0] != b"\xff":  # which those of netCDF refuse
        along_x(cells).to_netcdf(f"{tmp_path}/a.nc", engine="netcdf4")
        np.testing.assert_array_equal(xr.open_dataset(f"{tmp_path}/a.nc")["a"].values, got)


def test_text_of_dask_is_seen_to_block_by_block(tmp_path: object) -> None:
    lazy = along_x(da.from_array(objects("a", None, "c"), chunks=2))
    lazy.hyperslab.save(f"{tmp_path}/a.zarr")
    assert hs.open(f"{tmp_path}/a.zarr")["a"][...].tolist() == ["a", "", "c"]
    with pytest.raises(Invalid, match="type int among text"):
        along_x(da.from_array(objects("a", 1), chunks=1)).hyperslab.save(f"{tmp_path}/b.zarr")


@pytest.mark.parametrize("options", [{}, {"mode": "a"}, {"group": "g"}, {"append_dim": "time"}, {"region": "auto"}])
def test_chunks_of_no_dimension(tmp_path: object, options: dict) -> None:
    dataset = xr.Dataset({"a": (("time", "x"), np.zeros((2, 3)))})
    url = f"{tmp_path}/a.zarr"
    if options:
        dataset.hyperslab.save(url)
    with pytest.raises(Invalid, match="did you mean 'time'"):
        dataset.hyperslab.save(url, chunks={"tyme": 2}, **options)


@pytest.mark.parametrize(
    ("chunks", "words"),
    [({"tyme": 2}, "did you mean 'time'"), ({"time": "x"}, "'x' as a byte unit"), ({"time": (1, 2)}, "do not add up")],
)
def test_chunks_to_be_read_by(tmp_path: object, chunks: dict, words: str) -> None:
    """xarray passes over a dimension that is not there."""
    dataset = xr.Dataset({"a": (("time", "x"), np.zeros((4, 6)))})
    dataset.hyperslab.save(f"{tmp_path}/a.zarr", chunks={"time": 1})
    root = hs.open(f"{tmp_path}/a.zarr")
    for opening in (root.to_xarray, root.to_datatree, root["a"].to_xarray, root["a"].to_dask):
        with pytest.raises(Invalid, match=words):
            opening(chunks=chunks)
    assert root.to_datatree(chunks={"time": 2})["a"].chunks == root["a"].to_xarray(chunks={"time": 2, "x": 6}).chunks


@pytest.mark.parametrize("cut", ["x", 2.5, (1, 1.5)])
def test_chunks_that_are_no_lengths(tmp_path: object, cut: object) -> None:
    with pytest.raises(Invalid, match="whole numbers"):
        along_x([1, 2]).hyperslab.save(f"{tmp_path}/a.zarr", chunks={"x": cut})


def test_chunks_of_a_tree_are_for_those_that_have_the_dimension(tmp_path: object) -> None:
    tree = xr.DataTree.from_dict({"/": along_x([1, 2]), "/b": xr.Dataset({"t": ("time", np.arange(6))})})
    tree.hyperslab.save(f"{tmp_path}/a.zarr", chunks={"time": 2})
    assert hs.open(f"{tmp_path}/a.zarr")["b/t"].chunks == (2,)
    with pytest.raises(Invalid, match="did you mean 'time'"):
        tree.hyperslab.save(f"{tmp_path}/b.zarr", chunks={"tyme": 2})


@pytest.mark.parametrize("options", [{"append_dim": "x"}, {"region": "auto"}])
def test_rows_and_regions_are_of_one_group(tmp_path: object, options: dict) -> None:
    """Of a tree only the root would be written."""
    tree = xr.DataTree.from_dict({"/": along_x([1, 2]), "/b": along_x([3, 4])})
    tree.hyperslab.save(f"{tmp_path}/a.zarr")
    with pytest.raises(Invalid, match="one group"):
        tree.hyperslab.save(f"{tmp_path}/a.zarr", **options)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr.zip"])
@pytest.mark.parametrize("options", [{}, {"group": "g"}, {"mode": "a"}, {"region": {"x": slice(0, 2)}}])
def test_what_is_written_whole_is_not_written_later(tmp_path: object, name: str, options: dict) -> None:
    url, dataset = f"{tmp_path}/{name}", along_x(np.array([1, 2]))
    if options:
        dataset.hyperslab.save(url)
    with pytest.raises(Invalid, match="complete when save returns"):
        (dataset * 2).chunk({"x": 1}).hyperslab.save(url, compute=False, **options)
    if options:
        assert hs.open(url)["a"][...].tolist() == [1, 2]


@pytest.mark.parametrize("place", ["memory://replaced.zarr", "{}/a.zarr"])
def test_what_is_made_of_what_it_replaces(tmp_path: object, place: str) -> None:
    """The cells would be read when they are gone."""
    url = place.format(tmp_path)
    along_x(np.array([1, 2])).hyperslab.save(url, mode="w" if "memory" in url else "x")
    made = xr.open_dataset(url, engine="hyperslab", chunks={}) * 2
    with pytest.raises(Invalid, match="'a' is read from"):
        made.hyperslab.save(url, mode="w")
    made.load().hyperslab.save(url, mode="w")
    assert hs.open(url)["a"][...].tolist() == [2, 4]


@pytest.mark.parametrize(("name", "words"), [("zlib", "say codec="), ("chunk", "known are .*chunks, codec")])
def test_encodings_that_mean_nothing(tmp_path: object, name: str, words: str) -> None:
    with pytest.raises(Invalid, match=f"'{name}' means nothing here.*; {words}"):
        along_x([1.0]).hyperslab.save(f"{tmp_path}/a.nc", encoding={"a": {name: 4}})


@pytest.mark.covering
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"append_dim": "x"}, "has the label 1 already"),
        ({"append_dim": "z"}, "nothing to append along 'z'"),
        ({"region": {"z": slice(0, 1)}}, "no dimension 'z'"),
        ({"region": {"x": slice(7, 8)}}, "the region of shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_tells_the_dataset(tmp_path: object, change: dict, words: str) -> None:
    url = f"{tmp_path}/a.zarr"
    dataset = along_x([1, 2], coords={"x": [1, 2]})
    hs.save(url, dataset)
    with pytest.raises(Invalid, match=words) as caught:
        hs.save(url, dataset, **change)
    assert (caught.value.url, bool(caught.value.remedy)) == (url, True)


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1]}), pd.Series([1])])
def test_a_frame_of_pandas_is_no_array(tmp_path: object, frame: object) -> None:
    with pytest.raises(Invalid, match=r"of pandas is no array.*write_frame"):
        hs.save(f"{tmp_path}/a.zarr", frame)


def test_a_place_that_comes_second(tmp_path: object) -> None:
    with pytest.raises(Invalid, match=r"str cannot be saved.*save\(url, obj\)"):
        hs.save(along_x([1]), f"{tmp_path}/a.zarr")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [None, "a"])
def test_rows_for_a_dataset_that_nobody_made(tmp_path: object, mode: str | None) -> None:
    with pytest.raises(NotFound) as caught:
        hs.save(f"{tmp_path}/a.zarr", along_x([1]), append_dim="x", mode=mode)
    assert caught.value.remedy.endswith("make it first: save without append_dim and region")


@pytest.mark.filterwarnings("ignore:saving variable a with floating point data as an integer dtype")
@pytest.mark.parametrize("suffix", ["zarr", "nc"])
@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("options", [{"append_dim": "x"}, {"region": "auto"}])
def test_fractions_do_not_become_whole_numbers(tmp_path: object, suffix: str, lazily: bool, options: dict) -> None:
    url = f"{tmp_path}/a.{suffix}"
    stored = along_x(np.arange(3), coords={"x": [0, 1, 2]})
    hs.save(url, stored, unlimited_dims=["x"])
    labels = [3, 4, 5] if "append_dim" in options else [0, 1, 2]
    other = along_x([1.0, 2.5, 3.0], coords={"x": labels})
    with pytest.raises(Invalid, match=r"'a' holds 2\.5, which cells of int64 cannot"):
        hs.save(url, other.chunk() if lazily else other, **options)
    with hs.open(url) as root:
        assert root["a"][...].tolist() == [0, 1, 2]
    hs.save(url, other.round(), **options)
    with hs.open(url) as root:
        assert root["a"][-3:].tolist() == [1, 2, 3]


def along_time(calendar: str, start: str, count: int) -> xr.Dataset:
    """Cells along times of a calendar, as objects of cftime."""
    times = xr.date_range(start, periods=count, calendar=calendar, use_cftime=True)
    return xr.Dataset({"a": ("time", np.arange(float(count)))}, {"time": times})


@pytest.mark.parametrize("options", [{"append_dim": "time"}, {"append_dim": "time", "repeated": "allow"}, "region"])
@pytest.mark.parametrize(
    ("stored", "new"),
    [("noleap", "360_day"), ("360_day", "standard"), ("julian", "standard"), ("noleap", "datetime64")],
)
def test_times_of_another_calendar(tmp_path: object, stored: str, new: str, options: dict | str) -> None:
    """The same date would be another moment, or none."""
    url = f"{tmp_path}/a.zarr"
    along_time(stored, "2001-01-01", 9).hyperslab.save(url, unlimited_dims=["time"])
    rows = along_time("standard" if new == "datetime64" else new, "2001-01-04", 2)
    if new == "datetime64":
        rows = rows.assign_coords(time=np.array(["2001-01-04", "2001-01-05"], "M8[ns]"))
    calendar = "proleptic_gregorian" if new == "datetime64" else new
    with pytest.raises(Invalid, match=f"calendar {calendar}, stored are those of {stored}.*convert_calendar"):
        rows.hyperslab.save(url, **({"region": "auto"} if isinstance(options, str) else options))
    with hs.open(url) as root:
        assert root["a"].shape == (9,)


@pytest.mark.parametrize(("stored", "new"), [("standard", "proleptic_gregorian"), ("proleptic_gregorian", "standard")])
@pytest.mark.parametrize("year", [1900, 2500])
@pytest.mark.filterwarnings("ignore:Unable to decode time axis into full numpy.datetime64")  # of xarray: they are far
def test_calendars_of_the_same_dates(tmp_path: object, stored: str, new: str, year: int) -> None:
    """Also objects of cftime behind dates that are read as datetime64, and datetime64 behind objects of cftime."""
    url = f"{tmp_path}/a.zarr"
    along_time(stored, f"{year}-01-01", 2).hyperslab.save(url, unlimited_dims=["time"])
    along_time(new, f"{year}-01-03", 2).hyperslab.save(url, append_dim="time")
    days = np.array([f"{year}-01-05", f"{year}-01-06"], "M8[s]")
    along_time(new, f"{year}-01-03", 2).assign_coords(time=days).hyperslab.save(url, append_dim="time")
    with pytest.raises(Invalid, match="already"):
        along_time(new, f"{year}-01-03", 2).hyperslab.save(url, append_dim="time")
    with xr.open_dataset(url, engine="hyperslab", decode_times=xr.coders.CFDatetimeCoder(time_unit="s")) as found:
        assert found["time"].values.tolist() == [np.datetime64(f"{year}-01-0{day}", "s") for day in range(1, 7)]


@pytest.mark.filterwarnings("ignore:Unable to decode time axis into full numpy.datetime64")  # of xarray: they are far
def test_calendars_differ_before_the_reform(tmp_path: object) -> None:
    url = f"{tmp_path}/a.zarr"
    along_time("standard", "1500-01-01", 2).hyperslab.save(url, unlimited_dims=["time"])
    with pytest.raises(Invalid, match="calendar proleptic_gregorian, stored are those of standard"):
        along_time("proleptic_gregorian", "1500-01-03", 2).hyperslab.save(url, append_dim="time")


def test_times_that_are_all_missing_have_no_calendar_to_differ(tmp_path: object) -> None:
    url = f"{tmp_path}/a.zarr"
    along_time("standard", "2001-01-01", 2).hyperslab.save(url, unlimited_dims=["time"])
    rows = xr.Dataset({"a": ("time", [1.0])}, {"time": np.array(["NaT"], "M8[ns]")})
    with pytest.raises(Invalid, match="sorted"):
        rows.hyperslab.save(url, append_dim="time")


@pytest.mark.parametrize("calendar", ["360_day", "all_leap"])
def test_objects_of_another_calendar_behind_datetime64(tmp_path: object, calendar: str) -> None:
    with hs.create(f"{tmp_path}/a.zarr", "zarr2") as root:
        times = np.array(["2001-01-01", "2001-01-02"], "M8[s]")
        root.create_array("time", data=times, dims=("time",))
        root.create_array("a", data=np.zeros(2), dims=("time",))
    with pytest.raises(Invalid, match=f"calendar {calendar}, stored are those of proleptic_gregorian"):
        along_time(calendar, "2001-02-28", 3).hyperslab.save(f"{tmp_path}/a.zarr", append_dim="time")
