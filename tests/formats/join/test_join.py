"""Several datasets as one: equal to what NumPy, or xarray, puts together, by every way that leads to cells."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.conversion.append import append_dataset
from hyperslab.errors import Invalid, NotFound, ReadOnly, Unsupported
from hyperslab.formats.codec_kinds import COMPRESSORS, inner_codecs

RNG = np.random.default_rng(0)


def year(place: Path, number: int, *, days: int = 60, **changes: Any) -> xr.Dataset:
    """Write the first days of a year, counted from its first one."""
    time = np.arange(days)
    units = {"units": f"days since {number}-01-01", "calendar": "standard", "bounds": "time_bnds"}
    made = xr.Dataset(
        {
            "air": (("time", "lat", "lon"), RNG.normal(size=(days, 4, 6)).astype("f4"), {"units": "K"}),
            "height": (("lat", "lon"), np.ones((4, 6))),
            "time_bnds": (("time", "nv"), np.stack([time, time + 1], 1)),
        },
        coords={"time": ("time", time, units), "lat": np.arange(4.0), "lon": np.arange(6.0)},
        attrs={"history": f"made for {number}"},
    )
    made = made.assign(**changes) if changes else made
    encoding = {} if "air" in changes else {"air": {"chunksizes": (25, 4, 6), "zlib": True}}
    made.to_netcdf(place / f"{number}.nc", unlimited_dims="time", encoding=encoding)
    return made


@pytest.fixture
def years(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Four years, and the cells of all of them."""
    made = [year(tmp_path, number) for number in range(1990, 1994)]
    return tmp_path, np.concatenate([each["air"].values for each in made])


def test_years_are_one_dataset(years: tuple[Path, np.ndarray]) -> None:
    folder, cells = years
    names = [folder / f"{number}.nc" for number in (1992, 1990, 1993, 1991)]
    for root in (hs.open(names), hs.open(f"{folder}/199?.nc"), hs.join(names, "time"), hs.join(f"{folder}/*.nc")):
        assert (root["air"].shape, root["height"].shape, root["time"].shape) == ((240, 4, 6), (4, 6), (240,))
        np.testing.assert_array_equal(root["air"][:], cells)
        np.testing.assert_array_equal(root["air"][55:65, 1], cells[55:65, 1])
        assert root["time"].attrs["units"] == "days since 1990-01-01"
        assert root["time"][[0, 60, 120, 180]].tolist() == [0, 365, 730, 1096]
        assert root["time_bnds"][60].tolist() == [365, 366]
        assert root["air"].sel(time="1991-01-02", lat=2.0, lon=3.0) == cells[61, 2, 3]
        assert root["air"].attrs["units"] == "K"
        root.close()


def test_xarray_dask_and_pickles_see_the_same(years: tuple[Path, np.ndarray]) -> None:
    folder, cells = years
    names = sorted(folder.glob("*.nc"))
    lazy = xr.open_dataset(names, engine="hyperslab", chunks={})  # type: ignore[arg-type]
    oracle = xr.open_mfdataset(
        names, data_vars="minimal", coords="minimal", compat="override", combine_attrs="override"
    )
    xr.testing.assert_equal(lazy[["air", "height"]].load(), oracle[["air", "height"]].load())
    np.testing.assert_array_equal(lazy.time_bnds.values, oracle.time_bnds.values)
    array = hs.open(names)["air"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[50:70], cells[50:70])
    assert float(array.to_dask().sum().compute()) == pytest.approx(float(cells.sum(dtype="f8")), rel=1e-5)


def test_one_dataset_is_made_of_all(years: tuple[Path, np.ndarray]) -> None:
    folder, cells = years
    target = folder / "all.zarr"
    result = CliRunner().invoke(main, ["convert", f"{folder}/*.nc", str(target), "--along", "time", "--verify"])
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(hs.open(target)["air"][:], cells)
    assert not hs.diff(sorted(folder.glob("*.nc")), target)
    assert "240" in CliRunner().invoke(main, ["info", f"{folder}/*.nc"]).output
    got = CliRunner().invoke(
        main, ["get", f"{folder}/*.nc", "air", "-s", "time=1992-01-01", "-s", "lat=0", "-s", "lon=0"]
    )
    assert float(np.float32(got.stdout.split()[-1])) == pytest.approx(float(cells[120, 0, 0]))
    year(folder, 1994)
    appended = CliRunner().invoke(main, ["append", str(target), f"{folder}/1994.nc"])
    assert appended.exit_code == 0, appended.output
    assert hs.open(target)["air"].shape == (300, 4, 6)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", ["zarr3", "zarr2", "sharded", "netcdf"])
def test_pieces_of_any_cut_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, kind: str, data: Any) -> None:
    """Cut anyhow, with chunks that were never written, in any order."""
    folder = tmp_path_factory.mktemp("pieces")
    rows = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4), label="rows")
    columns = data.draw(st.integers(1, 7), label="columns")
    whole = np.zeros((sum(rows), columns), "i4")
    places = []
    wide = data.draw(st.integers(1, 4), label="chunks along x")
    for number, row in enumerate(rows):
        top = sum(rows[:number])
        cut = data.draw(st.integers(1, 4), label="chunks along y"), wide
        if kind == "netcdf":
            cut = min(cut[0], row), min(cut[1], columns)
        inner = {"shards": (2 * cut[0], 2 * cut[1])} if kind == "sharded" else {}
        place = folder / f"{number}{'.nc' if kind == 'netcdf' else '.zarr'}"
        with hs.create(place, "zarr3" if kind == "sharded" else kind) as root:
            dims = ("y", "x")
            array = root.create_array(
                "t", shape=(row, columns), dtype="i4", chunks=cut, dims=dims, fill_value=0, **inner
            )
            root.create_array("y", data=np.arange(top, top + row), dims=("y",))
            cells = RNG.integers(1, 99, (row, columns), "i4")
            part = data.draw(st.integers(0, row), label="written")
            array[:part] = cells[:part]
            whole[top : top + part] = cells[:part]
        places.append(place)
    order = data.draw(st.permutations(places), label="order")
    joined = hs.join(order, along="y")["t"]
    np.testing.assert_array_equal(joined[:], whole)
    start = data.draw(st.integers(0, whole.shape[0] - 1))
    stop = data.draw(st.integers(start + 1, whole.shape[0]))
    step = data.draw(st.integers(1, 3))
    np.testing.assert_array_equal(joined[start:stop:step, ::2], whole[start:stop:step, ::2])
    np.testing.assert_array_equal(joined.oindex[[stop - 1, start]], whole[[stop - 1, start]])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_grid_of_pieces(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("grid")
    rows = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3), label="rows")
    columns = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=3), label="columns")
    whole = RNG.normal(size=(sum(rows), sum(columns)))
    falls = data.draw(st.booleans(), label="falls")
    latitudes = np.arange(whole.shape[0], dtype="f8")[:: -1 if falls else 1]
    cut = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)), label="chunks")
    places = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            top, left = sum(rows[:i]), sum(columns[:j])
            place = folder / f"{i}{j}.zarr"
            with hs.create(place) as root:
                cells = whole[top : top + row, left : left + column]
                root.create_array("t", data=cells, chunks=cut, dims=("lat", "lon"))
                root.create_array("lat", data=latitudes[top : top + row], dims=("lat",))
                root.create_array("lon", data=np.arange(left, left + column), dims=("lon",))
            places.append(place)
    single = len(rows) == 1 or all(length == 1 for length in rows)
    if falls and single:
        return  # labels of one cell tell no direction
    root = hs.join(data.draw(st.permutations(places)), along=("lat", "lon"))
    if not falls or any(length > 1 for length in rows):
        np.testing.assert_array_equal(root["t"][:], whole)
        np.testing.assert_array_equal(root["lat"][:], latitudes)
    np.testing.assert_array_equal(root["lon"][:], np.arange(whole.shape[1]))
    if len(places) > 2 and len(rows) > 1:
        with pytest.raises(Invalid, match="no piece"):
            hs.join(places[1:], along=("lat", "lon"))


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "values", "dtype", "expected"),
    [
        ("days since 2000-01-01", "days since 2001-01-01", [0, 1], "i4", [366, 367]),
        ("hours since 2000-01-01", "days since 2000-01-03", [0, 1], "i8", [48, 72]),
        ("days since 2000-01-01", "hours since 2000-01-03", [0.0, 6.0], "f8", [2.0, 2.25]),
        ("days since 2000-01-01", "days since 2001-01-01", [0.25, 0.1], "f8", [366.25, 366.1]),
    ],
)
def test_times_are_counted_from_one_epoch(
    tmp_path: Path, first: str, second: str, values: list[float], dtype: str, expected: list[float]
) -> None:
    for name, units, labels in (("a.zarr", first, [-2, -1]), ("b.zarr", second, sorted(values))):
        with hs.create(tmp_path / name) as root:
            root.create_array("time", data=np.array(labels, dtype), dims=("time",), attrs={"units": units})
            root.create_array("x", data=np.array(labels, "f8"), dims=("time",))
    root = hs.join([tmp_path / "a.zarr", tmp_path / "b.zarr"])
    np.testing.assert_allclose(root["time"][2:], sorted(expected), rtol=1e-15)
    assert root["time"].dtype == np.dtype(dtype)
    assert root["x"][:].tolist() == [-2, -1, *sorted(values)]


@pytest.mark.parametrize(
    ("units", "calendar", "dtype"),
    [
        ("hours since 2000-01-01T00:30", "standard", "i4"),  # no whole days
        ("days since 2001-01-01", "noleap", "i4"),
        ("kelvin", "standard", "i4"),
        ("days since 9999-01-01", "standard", "i2"),
    ],
)
def test_times_that_cannot_be_counted_so_are_refused(tmp_path: Path, units: str, calendar: str, dtype: str) -> None:
    for name, word, kind in (("a.zarr", "days since 2000-01-01", "standard"), ("b.zarr", units, calendar)):
        with hs.create(tmp_path / name) as root:
            attrs = {"units": word, "calendar": kind}
            root.create_array("time", data=np.array([5, 6], dtype), dims=("time",), attrs=attrs)
    with pytest.raises(Invalid) as caught:
        hs.join([tmp_path / "a.zarr", tmp_path / "b.zarr"], "time")
    assert "b.zarr" in str(caught.value) and "time" in str(caught.value)


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_packing_that_differs_is_refused_or_decoded(tmp_path: Path) -> None:
    wanted = []
    for number, (scale, offset, missing) in enumerate([(0.5, 10.0, -1), (0.25, 0.0, -9), (0.5, 10.0, -1)]):
        with hs.create(tmp_path / f"{number}.zarr") as root:
            cells = RNG.integers(0, 90, (3, 4), "i2")
            cells[0, 0] = missing
            attrs = {"scale_factor": scale, "add_offset": offset, "_FillValue": np.int16(missing)}
            root.create_array("t", data=cells, dims=("time", "x"), attrs=attrs)
            root.create_array("time", data=np.arange(3) + 3 * number, dims=("time",))
            wanted.append(np.where(cells == missing, np.nan, cells * scale + offset))
    pieces = [tmp_path / f"{number}.zarr" for number in range(3)]
    with pytest.raises(Invalid, match="packing='decoded'") as caught:
        hs.join(pieces, "time")
    assert "1.zarr" in str(caught.value)
    joined = hs.join(pieces, "time", packing="decoded")["t"]
    np.testing.assert_array_equal(joined[:], np.concatenate(wanted))
    np.testing.assert_array_equal(joined[2:7, 1], np.concatenate(wanted)[2:7, 1])
    assert "scale_factor" not in joined.attrs and joined.dtype == np.dtype("f8")
    with pytest.raises(Invalid, match="decoded"):
        hs.join(pieces, "time", packing="other")


def test_pieces_of_other_shape_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each error names the file, the array and what to do."""
    year(tmp_path, 1990)
    year(tmp_path, 1991)
    good = [tmp_path / "1990.nc", tmp_path / "1991.nc"]

    def refused(kind: type[Exception], *words: str, along: Any = None, **changes: Any) -> None:
        year(tmp_path, 1992, **changes)
        with pytest.raises(kind) as caught:
            hs.join([*good, tmp_path / "1992.nc"], along)
        assert all(word in str(caught.value) for word in ("1992.nc", *words)), str(caught.value)

    refused(Invalid, "more", more=("time", np.zeros(60)))
    refused(Invalid, "air", "type", air=(("time", "lat", "lon"), np.full((60, 4, 6), "x", object)))
    refused(Invalid, "air", "dimensions", air=(("time", "lon", "lat"), np.zeros((60, 6, 4), "f4")))
    refused(Invalid, "lat", along="time", lat=("lat", np.arange(4.0) + 1))
    year(tmp_path, 1992)
    with pytest.raises(Invalid, match=r"overlap|same labels"):
        hs.join([*good, tmp_path / "1992.nc", good[0]])
    with pytest.raises(Invalid, match="no array has the dimension"):
        hs.join(good, along="depth")
    for number in (1, 2):
        scalars = {"time": ((), number, {"units": "days since 2000-01-01"})}
        xr.Dataset({"air": ("lat", np.zeros(4))}, scalars).to_netcdf(tmp_path / f"scalar{number}.nc")
    with pytest.raises(Invalid, match=r"'time' is one value in each piece.*expand_dims"):
        hs.join([tmp_path / "scalar1.nc", tmp_path / "scalar2.nc"], along="time")
    with pytest.raises(NotFound) as missing:
        hs.join([*good, tmp_path / "missing.nc"])
    assert missing.value.url == str(tmp_path / "missing.nc")
    with pytest.raises(NotFound, match="pattern"):
        hs.open(f"{tmp_path}/none*.nc")
    for mode in ("r+", "w", "a"):
        with pytest.raises((Unsupported, ReadOnly)):
            hs.open(good, mode)  # type: ignore[arg-type]
    (tmp_path / "torn.nc").write_bytes((tmp_path / "1992.nc").read_bytes()[:3000])
    with pytest.raises(hs.HyperslabError, match=r"torn\.nc"):
        hs.join([*good, tmp_path / "torn.nc"])
    with caplog.at_level(logging.WARNING, "hyperslab"):
        hs.join([good[0], tmp_path / "1992.nc"])
    assert "missing" in caplog.text and "1992.nc" in caplog.text
    root = hs.join(good)
    for change in (lambda: root["air"].write(0), lambda: root.create_group("g")):
        with pytest.raises((ReadOnly, AttributeError)):
            change()


def test_labels_that_overlap_are_refused(tmp_path: Path) -> None:
    for name, start in (("a.zarr", 0), ("b.zarr", 4)):
        with hs.create(tmp_path / name) as root:
            root.create_array("t", data=np.arange(6.0), dims=("x",))
            root.create_array("x", data=np.arange(start, start + 6), dims=("x",))
    with pytest.raises(Invalid, match="overlap") as caught:
        hs.join([tmp_path / "a.zarr", tmp_path / "b.zarr"])
    assert "a.zarr" in str(caught.value) and "b.zarr" in str(caught.value)


def test_times_that_overlap_or_are_missing_are_told_as_dates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, units in (("a", "2000-01-01"), ("b", "2000-01-03T12:00"), ("c", "2000-02-01")):
        labels = {"time": ("time", np.arange(5.0), {"units": f"days since {units}", "calendar": "noleap"})}
        xr.Dataset({"x": ("time", np.arange(5.0))}, labels).to_netcdf(tmp_path / f"{name}.nc")
    with pytest.raises(Invalid, match=r"goes to 2000-01-05, that of .* begins at 2000-01-03T12:00:00: they overlap"):
        hs.join([tmp_path / "a.nc", tmp_path / "b.nc"], along="time")
    with caplog.at_level("WARNING", "hyperslab.join"):
        hs.join([tmp_path / "a.nc", tmp_path / "c.nc"], along="time")
    assert "2000-01-05 to 2000-02-01" in caplog.text
    (tmp_path / "b.nc").unlink()
    labels = {"time": ("time", np.arange(5.0), {"units": "days since 2001-01-01", "calendar": "noleap"})}
    xr.Dataset({"x": ("time", np.arange(5.0))}, labels).to_netcdf(tmp_path / "d.nc")
    caplog.clear()
    with caplog.at_level("WARNING", "hyperslab.join"):
        hs.join([tmp_path / f"{name}.nc" for name in "acd"], along="time")
    (record,) = caplog.records  # one line for all of them
    assert record.getMessage().endswith("2000-01-05 to 2000-02-01, and in 1 other place")


def test_pieces_without_labels_keep_their_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        with hs.create(tmp_path / f"{name}.zarr") as root:
            root.create_array("t", data=np.full(3, ord(name)), dims=("row",))
    places = [tmp_path / f"{name}.zarr" for name in "bac"]
    assert hs.join(places, along="row")["t"][::3].tolist() == [ord(name) for name in "bac"]
    with pytest.raises(Invalid, match="along"):
        hs.join(places)


def test_many_pieces_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.formats.join.reader._MOST_OPEN", 3)
    cells = RNG.normal(size=(40, 5))
    for number in range(20):
        piece = xr.Dataset(
            {"t": (("time", "x"), cells[2 * number : 2 * number + 2])}, {"time": [2 * number, 2 * number + 1]}
        )
        piece.to_netcdf(tmp_path / f"{number:02}.nc")
    root = hs.open(f"{tmp_path}/*.nc")
    for _ in range(2):
        np.testing.assert_array_equal(root["t"][:], cells)
    np.testing.assert_array_equal(root["t"][::-1, 2], cells[::-1, 2])
    root.close()


def piece(
    place: Path, start: int, cells: np.ndarray, *, time: dict[str, Any] | None = None, fill: Any = None, **attrs: Any
) -> Path:
    """Make a piece of three moments, of which the last one is never written."""
    with hs.create(place) as root:
        array = root.create_array(
            "t", shape=(3,), dtype=cells.dtype, chunks=(1,), dims=("time",), fill_value=fill, attrs=attrs
        )
        array[:2] = cells[:2]
        root.create_array("time", data=np.arange(start, start + 3), dims=("time",), attrs=time or {})
    return place


NUMBERS = ["i2", "u4", "i4", "i8", "f4", "f8", ">f4"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("second", NUMBERS)
@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("falls", [False, True])
def test_numbers_of_several_types_get_that_of_numpy(
    tmp_path: Path, first: str, second: str, falls: bool, later: bool
) -> None:
    """In whichever order the files are named, and whether labels rise or fall."""
    whole, cells = np.arange(6)[:: -1 if falls else 1], [1, 2, 0]
    for name, dtype, labels in [("a", first, whole[:3]), ("b", second, whole[3:])]:
        with hs.create(tmp_path / f"{name}.zarr") as root:
            root.create_array(
                "time", data=labels.astype(dtype), dims=("time",), attrs={"units": "days since 2000-01-01"}
            )
            array = root.create_array(
                "t", (3,), dtype, dims=("time",), chunks=(1,), attrs={"limit": np.dtype(dtype).type(3)}
            )
            array[:2] = cells[:2]
    names = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    joined = hs.join(names[::-1] if later else names)
    expected = np.result_type(np.dtype(first), np.dtype(second)).newbyteorder("=")
    for name, values in (("time", whole), ("t", cells * 2)):
        assert joined[name].dtype == expected
        found = joined[name][...]
        assert found.dtype == expected
        assert found.tolist() == list(values)
    assert joined["t"][3:5].tolist() == [1, 2]
    assert joined["t"].attrs["limit"].dtype == expected
    assert str(joined["time"].decoded()[0])[:10] == f"2000-01-0{whole[0] + 1}"
    hs.convert(names, tmp_path / "all.zarr")
    assert hs.open(tmp_path / "all.zarr")["t"].dtype == expected
    assert not hs.diff(names, tmp_path / "all.zarr")


def test_numbers_that_the_common_type_would_round_are_refused(tmp_path: Path) -> None:
    large = np.array([5, 2**53 + 1, 0])
    files = [piece(tmp_path / "a.zarr", 0, large), piece(tmp_path / "b.zarr", 3, np.array([5.5, 6, 0]))]
    joined = hs.join(files)
    assert joined["t"][[0, 3]].tolist() == [5, 5.5]
    with pytest.raises(Invalid, match=r"int64 in some pieces, .* float64 would round.*convert the pieces to one type"):
        joined["t"][...]
    for name, labels in (("c", large[:2]), ("d", large[:2] + 2.0**60)):
        with hs.create(tmp_path / f"{name}.zarr") as root:
            root.create_array("x", data=labels, dims=("x",))
    with pytest.raises(Invalid, match=r"would round.*c\.zarr node=/x"):
        hs.join([tmp_path / "c.zarr", tmp_path / "d.zarr"])


def test_unsigned_numbers_of_several_types_are_refused(tmp_path: Path) -> None:
    """The byte -56 is 200, and as a number of two bytes it would be 65480."""
    first = piece(tmp_path / "a.zarr", 0, np.array([-56, 1, 0], "i1"), _Unsigned="true")
    second = piece(tmp_path / "b.zarr", 3, np.array([3, 4, 0], "i2"), _Unsigned="true")
    with pytest.raises(Invalid, match="type int16, and int8 in the first piece"):
        hs.join([first, second])
    same = piece(tmp_path / "c.zarr", 3, np.array([3, 4, 0], "i1"), _Unsigned="true")
    assert hs.join([first, same])["t"].decoded()[...].tolist() == [200, 1, 0, 3, 4, 0]


def test_times_of_other_types_and_epochs(tmp_path: Path) -> None:
    """Whole days among fractions of hours, with their bounds."""
    with hs.create(tmp_path / "a.zarr") as root:
        attrs = {"units": "hours since 2000-01-01", "bounds": "time_bnds"}
        root.create_array("time", data=np.array([12.5, 36.5]), dims=("time",), attrs=attrs)
        root.create_array("time_bnds", data=np.array([[0.0, 24], [24, 48]]), dims=("time", "nv"))
    with hs.create(tmp_path / "b.zarr") as root:
        attrs = {"units": "days since 2000-01-02", "bounds": "time_bnds"}
        root.create_array("time", data=np.array([1, 2], "i4"), dims=("time",), attrs=attrs)
        root.create_array("time_bnds", data=np.array([[1, 2], [2, 3]], "i4"), dims=("time", "nv"))
    names = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    assert hs.join(names)["time"][...].tolist() == [12.5, 36.5, 48, 72]
    assert hs.join(names)["time_bnds"][...].tolist() == [[0, 24], [24, 48], [48, 72], [72, 96]]
    assert hs.join(names[::-1])["time"][...].tolist() == [12.5, 36.5, 48, 72]


def test_unwritten_cells_read_as_in_their_piece(tmp_path: Path) -> None:
    cells = np.array([5, 6, 0], "i2")
    one = piece(tmp_path / "a.zarr", 0, cells, fill=0)
    other = piece(tmp_path / "b.zarr", 3, cells, fill=7)
    with pytest.raises(Invalid, match="fill value is 7"):
        hs.join([one, other])
    assert hs.join([one, other], packing="decoded")["t"][:].tolist() == [5, 6, 0, 5, 6, 7]


def test_units_that_differ_are_refused_beside_packing(tmp_path: Path) -> None:
    cells = np.array([5, 6, 0], "i2")
    one = piece(tmp_path / "a.zarr", 0, cells, fill=0, units="K")
    other = piece(tmp_path / "b.zarr", 3, cells, fill=0, units="degC", scale_factor=0.5)
    for packing in ("same", "decoded"):
        with pytest.raises(Invalid, match="units are 'degC'"):
            hs.join([one, other], packing=packing)


def test_labels_that_are_packed_otherwise_are_refused(tmp_path: Path) -> None:
    cells = np.array([5, 6, 0], "i2")
    one = piece(tmp_path / "a.zarr", 0, cells, fill=0)
    other = piece(tmp_path / "b.zarr", 3, cells, time={"scale_factor": 2.0}, fill=0)
    for packing in ("same", "decoded"):
        with pytest.raises(Invalid, match="scale_factor of labels"):
            hs.join([one, other], packing=packing)


def test_times_that_are_missing_stay_so(tmp_path: Path) -> None:
    """Of a variable that holds times, which begin anew in each piece."""
    pieces = []
    for number, start in enumerate(("2000-01-01", "2000-01-11")):
        place = tmp_path / f"{number}.zarr"
        with hs.create(place) as root:
            attrs = {"units": f"days since {start}", "_FillValue": np.int32(-9)}
            root.create_array("made", data=np.array([1, -9, 2], "i4"), dims=("time",), attrs=attrs)
            root.create_array("time", data=np.arange(3) + 3 * number, dims=("time",))
        pieces.append(place)
    assert hs.join(pieces)["made"][:].tolist() == [1, -9, 2, 11, -9, 12]
    target = tmp_path / "all.zarr"
    hs.convert([pieces[0]], target, along="time")
    append_dataset(target, pieces[1])
    assert hs.open(target)["made"][:].tolist() == [1, -9, 2, 11, -9, 12]


def test_unsigned_labels_that_fall_are_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, first in enumerate((29, 19, 9)):
        labels = {"x": np.arange(first, first - 10, -1).astype("u2")}
        hs.save(tmp_path / f"{number}.zarr", xr.Dataset({"a": ("x", np.arange(10))}, labels))
    places = [tmp_path / f"{number}.zarr" for number in range(3)]
    assert hs.join(places, along="x")["x"][...].tolist() == list(range(29, -1, -1))
    assert "missing" not in caplog.text
    with_gap = hs.join([places[0], places[2]], along="x")
    assert with_gap["x"].shape == (20,) and "missing" in caplog.text


@pytest.mark.parametrize(
    ("codecs", "target", "expected"),
    [
        (("none", "none"), "all.nc", []),
        (("none", "none"), "all.zarr", ["blosc"]),  # of another format
        (("zlib:3", "zlib:3"), "all.nc", ["zlib"]),
        (("none", "zlib:3"), "all.nc", ["zlib"]),  # it would be larger than its pieces otherwise
    ],
)
def test_pieces_that_are_not_compressed_are_none_together(
    tmp_path: Path, codecs: tuple[str, str], target: str, expected: list[str]
) -> None:
    for number, codec in enumerate(codecs):
        with hs.create(tmp_path / f"piece_{number}.nc") as root:
            root.create_array("time", data=np.arange(8.0) + 8 * number, dims=["time"], codec=codec)
            root.create_array("t", data=np.ones((8, 5), "f4"), dims=["time", "x"], chunks=(3, 5), codec=codec)
    hs.convert(f"{tmp_path}/piece_*.nc", tmp_path / target, along="time")
    with hs.open_group(tmp_path / target) as root:
        np.testing.assert_array_equal(root["t"][:], np.ones((16, 5), "f4"))
        assert [[step.name for step in root[name].codec if step.name in COMPRESSORS] for name in ("t", "time")] == [
            expected,
            expected,
        ]


def test_pieces_in_shards_keep_their_codec(tmp_path: Path) -> None:
    for number in range(2):
        with hs.create(tmp_path / f"piece_{number}.zarr") as root:
            root.create_array("time", data=np.arange(8.0) + 8 * number, dims=["time"])
            cells = np.arange(40, dtype="f4").reshape(8, 5)
            root.create_array("t", data=cells, dims=["time", "x"], chunks=(2, 5), shards=(8, 5), codec="gzip:7")
    hs.convert(f"{tmp_path}/piece_*.zarr", tmp_path / "all.zarr", along="time")
    with hs.open_group(tmp_path / "all.zarr") as root:
        assert [step.config["level"] for step in inner_codecs(root["t"].codec) if step.name == "gzip"] == [7]


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_one_piece_needs_no_dimension(tmp_path: Path, name: str) -> None:
    """A pattern may match a single file, whose dimensions are all of a fixed length."""
    made = xr.Dataset({"air": (("time", "x"), np.ones((3, 2))), "height": ((), 2.0)}, {"time": [1.0, 2.0, 3.0]})
    hs.save(tmp_path / name, made)
    for place in ([tmp_path / name], str(tmp_path / "a.*")):
        with xr.open_dataset(place, engine="hyperslab") as found:
            xr.testing.assert_identical(found.load(), made)
    hs.save(tmp_path / "all.nc", made.assign_coords(time=[-3.0, -2.0, -1.0]), unlimited_dims=["time"])
    assert append_dataset(tmp_path / "all.nc", [tmp_path / name]).rows == 3
