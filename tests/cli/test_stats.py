"""``hyperslab stats``: a table for people and JSON for machines, of every format, by level and by month."""

import json
import shutil

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from forked import cluster
from hyperslab.cli import main
from hyperslab.cli.tour.runner import sample


def run(*arguments):
    return CliRunner().invoke(main, ["stats", *map(str, arguments)])


def rows(*arguments):
    """Return the rows of the first array."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["arrays"][0]["rows"]


@pytest.fixture
def levels(tmp_path):
    with hs.create(tmp_path / "levels.nc") as root:
        attrs = {"units": "days since 2000-01-15", "calendar": "noleap"}
        root.create_array("time", data=np.arange(0, 730, 30.4), dims=("time",), attrs=attrs)
        root.create_array("level", data=np.array([1000.0, 500.0]), dims=("level",))
        cells = np.arange(50, dtype="f4").reshape(25, 2)
        cells[3, 1] = np.nan
        root.create_array("t", data=cells, dims=("time", "level"), chunks=(4, 1), attrs={"units": "K"})
        root.create_array("name", data=np.array(["a", "b"], np.dtypes.StringDType()), dims=("level",))
    return tmp_path / "levels.nc", cells


def test_what_is_left_out_for_one_reason_is_one_remark(tmp_path):
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("n", data=np.arange(3))
        for name in "abcde":
            root.create_array(name, data=np.array(["a"], np.dtypes.StringDType()))
        root.create_array("z", data=np.array([1j]))
    remarks = run(tmp_path / "a.zarr").stderr.splitlines()
    assert remarks == ["/a, /b, /c and 2 more are left out: text", "/z is left out: complex numbers"]


def test_the_table_stands_in_columns(levels):
    place, cells = levels
    result = run(place)
    assert result.exit_code == 0
    assert "/name is left out: text" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["array", "cells", "missing", "min", "mean", "max", "std", "units"]
    line = next(line for line in lines if line.startswith("/t ")).split()
    assert line == ["/t", "50", "1", "0", f"{np.nanmean(cells):.7g}", "49", f"{np.nanstd(cells, dtype='f8'):.7g}", "K"]
    assert "2000-01-15 00:00:00" in next(line for line in lines if line.startswith("/time"))


@pytest.mark.parametrize("name", ["levels.zarr", "levels.b2nd"])
def test_other_formats_give_the_same(levels, tmp_path, name):
    place, _ = levels
    hs.convert(place, tmp_path / name, path="t", allow_loss=True)
    path = [] if name.endswith(".b2nd") else ["t"]
    assert rows(tmp_path / name, *path) == rows(place, "t")


def test_an_empty_range_is_told(levels):
    place, _ = levels
    result = run(place, "-s", "level=500.0..1000.0")
    assert result.exit_code == 0
    assert result.stderr.count("level=500.0..1000.0 is an empty range: level descends from 1000.0 to 500.0") == 1


def test_each_level_has_a_row(levels):
    place, cells = levels
    found = rows(place, "t", "--per", "level")
    assert [row["level"] for row in found] == [1000.0, 500.0]
    assert [row["missing"] for row in found] == [0, 1]
    np.testing.assert_allclose([row["mean"] for row in found], np.nanmean(cells, 0))


def test_months_of_a_calendar_without_leap_days(levels):
    place, cells = levels
    found = rows(place, "t", "--by", "month")
    assert [row["month"] for row in found] == [f"{month:02d}" for month in range(1, 13)]
    assert sum(row["cells"] for row in found) == cells.size
    every = rows(place, "t", "--every", "year")
    assert [row["year"] for row in every] == ["2000", "2001", "2002"]


def test_a_part_is_chosen(levels):
    place, cells = levels
    found = rows(place, "t", "-s", "level=500.0", "-s", "time=0..5")
    assert found[0]["cells"] == 5
    assert found[0]["mean"] == pytest.approx(float(np.nanmean(cells[:5, 1])))


def test_words_of_cf_choose_a_part_and_rows(levels):
    place, cells = levels
    (row,) = rows(place, "t", "-s", "T=2")
    assert row["cells"] == 2
    assert row["max"] == cells[2].max()
    assert len(rows(place, "t", "--per", "T")) == 25
    assert "no dimension 'X'" in run(place, "t", "-s", "X=2").stderr


def test_a_histogram_has_bars(levels):
    place, _ = levels
    result = run(place, "t", "--histogram", "5", "--range", "0..40")
    assert result.exit_code == 0
    assert "########" in result.stdout
    assert "9 cells lie outside" in result.stdout
    found = rows(place, "t", "--histogram", "5")
    assert sum(found[0]["histogram"]) == 49


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--per", "levle"], "level"),
        (["--per", "level", "--by", "month"], "exclude each other"),
        (["level", "--every", "month"], "no dimension with times"),
        (["--range", "0..1"], "--histogram"),
        (["--histogram", "3", "--range", "4..1"], "250..320"),
    ],
)
def test_what_makes_no_sense_is_refused(levels, options, words):
    result = run(levels[0], *options)
    assert result.exit_code == 2
    assert words in result.stderr


def test_real_data(tmp_path):
    shutil.copy(sample("A1B_north_america.nc"), tmp_path / "america.nc")
    with hs.open(tmp_path / "america.nc") as root:
        cells = root["air_temperature"][...].astype("f8")
    found = rows(tmp_path / "america.nc", "air_temperature")[0]
    assert found["mean"] == pytest.approx(cells.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(cells.std(), rel=1e-9)


def test_a_range_across_the_seam_has_continuous_rows(tmp_path):
    with hs.create(tmp_path / "globe.zarr") as root:
        for name, labels, units in (("lat", [-45.0, 45.0], "north"), ("lon", [0.0, 90.0, 180.0, 270.0], "east")):
            root.create_array(name, data=np.array(labels), dims=(name,), attrs={"units": f"degrees_{units}"})
        root.create_array("t", data=np.arange(8.0).reshape(2, 4), dims=("lat", "lon"))
    found = rows(tmp_path / "globe.zarr", "t", "--per", "lon", "-s", "lon=-90.0..90.0")
    assert [(row["lon"], row["mean"]) for row in found] == [(-90.0, 5.0), (0.0, 2.0), (90.0, 3.0)]
    (row,) = rows(tmp_path / "globe.zarr", "t", "--bbox=-100,0,10,90")
    assert (row["cells"], row["min"], row["max"]) == (2, 4.0, 7.0)
    near = ["t", "-s", "lon=355.0", "--tolerance"]
    assert rows(tmp_path / "globe.zarr", *near, "6")[0]["max"] == 4.0
    assert run(tmp_path / "globe.zarr", *near, "3").exit_code != 0


def test_a_cluster_reads(levels):
    place, cells = levels
    with cluster() as client:
        (row,) = rows(place, "t", "--scheduler", client.scheduler.address)
    assert (row["missing"], row["max"]) == (1, 49.0)
    assert row["mean"] == pytest.approx(float(np.nanmean(cells)))


def test_stations_have_rows_of_their_names(tmp_path):
    with hs.create(tmp_path / "stations.nc") as root:
        names = np.array([list("Oslo"), list("Bern")], "S1")
        root.create_array("station_name", data=names, dims=("station", "letters"), attrs={"cf_role": "timeseries_id"})
        root.create_array("lat", data=np.array([59.9, 46.9]), dims=("station",), attrs={"units": "degrees_north"})
        attrs = {"coordinates": "lat station_name"}
        root.create_array("t", data=np.arange(6.0).reshape(2, 3), dims=("station", "time"), attrs=attrs)
    place = tmp_path / "stations.nc"
    assert [(row["station_name"], row["mean"]) for row in rows(place, "t", "--per", "station_name")] == [
        ("Oslo", 1.0),
        ("Bern", 4.0),
    ]
    assert [row["lat"] for row in rows(place, "t", "--per", "lat", "-s", "station=1")] == [46.9]


def test_flags_have_no_mean(tmp_path):
    with hs.create(tmp_path / "a.zarr") as root:
        attrs = {"flag_values": np.array([0, 3], "i1"), "flag_meanings": "good bad"}
        root.create_array("quality", data=np.array([[0, 3], [3, 3]], "i1"), dims=("t", "x"), attrs=attrs)
    result = CliRunner().invoke(main, ["stats", str(tmp_path / "a.zarr"), "--per", "t", "--histogram", "4", "--json"])
    (found,) = json.loads(result.stdout)["arrays"]
    rows = [{name: row[name] for name in ("min", "mean", "max", "std", "histogram")} for row in found["rows"]]
    assert rows == [
        {"min": 0, "mean": None, "max": 3, "std": None, "histogram": [1, 0, 0, 1]},
        {"min": 3, "mean": None, "max": 3, "std": None, "histogram": [0, 0, 0, 2]},
    ]
