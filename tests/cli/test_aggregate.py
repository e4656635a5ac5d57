"""``hyperslab aggregate``: numbers as NumPy's, weights, calendars, and attributes and bounds as CF has them."""

import json
import tracemalloc

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import CliRunner
from forked import cluster
from hyperslab.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["-q", "aggregate", *map(str, arguments)])


def aggregated(tmp_path, *arguments, name="out.nc"):
    """Return the aggregated dataset, open."""
    result = run(tmp_path / "field.nc", tmp_path / name, *arguments)
    assert result.exit_code == 0, result.output
    return hs.open(tmp_path / name)


@pytest.fixture
def cells(tmp_path):
    """Write a field of three years of days without leap days, of which some cells are missing; return it."""
    cells = np.random.default_rng(3).normal(280, 10, (3 * 365, 3, 4)).astype("f4")
    cells[5:9, 1] = np.nan
    cells[:, 2, 3] = np.nan
    with hs.create(tmp_path / "field.nc") as root:
        attrs = {"units": "days since 2000-01-01 12:00", "calendar": "noleap", "bounds": "time_bnds"}
        days = np.arange(len(cells))
        root.create_array("time", data=days, dims=("time",), attrs=attrs)
        root.create_array("time_bnds", data=days[:, None] + [-0.5, 0.5], dims=("time", "nv"))
        root.create_array("lat", data=np.array([-60.0, 0.0, 60.0]), dims=("lat",), attrs={"units": "degrees_north"})
        root.create_array("lon", data=np.arange(4) * 90.0, dims=("lon",), attrs={"units": "degrees_east"})
        attrs = {"units": "K", "cell_methods": "time: mean", "actual_range": np.array([0.0, 1.0])}
        root.create_array("t", data=cells, dims=("time", "lat", "lon"), chunks=(100, 2, 4), attrs=attrs)
        root.create_array("height", data=np.ones((3, 4)), dims=("lat", "lon"))
        root.create_array("name", data=np.array(["a", "b", "c"], np.dtypes.StringDType()), dims=("lat",))
    return cells


_MONTHS = np.repeat(np.arange(12), [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_NUMPY = {"mean": np.nanmean, "min": np.nanmin, "max": np.nanmax, "std": np.nanstd}


@pytest.mark.parametrize("how", _NUMPY)
@pytest.mark.filterwarnings("ignore:.*(empty slice|All-NaN|Degrees of freedom).*")
def test_numbers_over_time(cells, tmp_path, how):
    found = aggregated(tmp_path, "--how", how, "--over", "time")
    assert found["t"].dtype == np.dtype("f4")
    np.testing.assert_allclose(found["t"][...], _NUMPY[how](cells.astype("f8"), 0), rtol=1e-6)
    assert found["height"].shape == (3, 4)
    assert "actual_range" not in found["t"].attrs


def test_sums_and_counts_know_missing_cells(cells, tmp_path):
    sums = aggregated(tmp_path, "--how", "sum", "--over", "time")["t"][...]
    assert np.isnan(sums[2, 3])
    np.testing.assert_allclose(sums[0], cells[:, 0].sum(0, dtype="f8"), rtol=1e-6)
    counts = aggregated(tmp_path, "--how", "count", "--over", "time", name="count.nc")["t"]
    assert counts[...].tolist() == [[1095] * 4, [1091] * 4, [1095] * 3 + [0]]
    assert counts.attrs["units"] == "1"


@pytest.mark.filterwarnings("ignore:.*empty slice.*")
def test_each_month_has_its_bounds(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "mean", "--every", "month")
    months = np.concatenate([year * 12 + _MONTHS for year in range(3)])
    expected = [np.nanmean(cells[months == month].astype("f8"), 0) for month in range(36)]
    np.testing.assert_allclose(found["t"][...], expected, rtol=1e-6)
    assert found["t"].attrs["cell_methods"] == "time: mean time: mean"
    bounds = found["time_bnds"].decoded()[...]
    assert [str(each) for each in bounds[1]] == ["2000-02-01 00:00:00", "2000-03-01 00:00:00"]
    assert str(found["time"].decoded()[1]) == "2000-02-15 00:00:00"
    assert found["time"].attrs["calendar"] == "noleap"
    assert "height" in found


def limits(tmp_path, times, *options, calendar="noleap"):
    """Return the bounds of periods of samples at these times, which have none, as text."""
    with hs.create(tmp_path / "field.nc", overwrite=True) as root:
        attrs = {"units": "hours since 2000-01-01", "calendar": calendar}
        root.create_array("time", data=np.asarray(times, "f8"), dims=("time",), attrs=attrs)
        root.create_array("t", data=np.arange(len(times), dtype="f8"), dims=("time",))
    found = aggregated(tmp_path, "--how", "mean", "--overwrite", *options)
    attrs = found["time"].attrs
    cells = found[attrs.get("bounds", attrs.get("climatology"))].decoded()[...]
    return [[str(each).replace("T", " ")[:16] for each in pair] for pair in cells]


@pytest.mark.parametrize("calendar", ["noleap", "standard"])
@pytest.mark.parametrize("hour", [0, 12])
def test_periods_without_bounds_have_the_limits_of_the_calendar(tmp_path, hour, calendar):
    days = 24 * np.arange(365.0) + hour
    found = limits(tmp_path, days, "--every", "month", calendar=calendar)
    assert found[0] == ["2000-01-01 00:00", "2000-02-01 00:00"]
    assert [pair[0] for pair in found[1:]] == [pair[1] for pair in found[:-1]]
    found = limits(tmp_path, days, "--every", "season", calendar=calendar)
    assert found[1:3] == [["2000-03-01 00:00", "2000-06-01 00:00"], ["2000-06-01 00:00", "2000-09-01 00:00"]]
    assert limits(tmp_path, days[:2], "--every", "day", calendar=calendar)[1] == [
        "2000-01-02 00:00",
        "2000-01-03 00:00",
    ]
    found = limits(tmp_path, 24 * np.arange(2 * 365.0) + hour, "--by", "month", calendar=calendar)
    assert found[1] == ["2000-02-01 00:00", "2001-03-01 00:00"]


def test_months_of_one_sample_have_their_limits(tmp_path):
    found = limits(tmp_path, 24 * np.array([15.0, 45, 74, 105]), "--every", "month")
    assert found[1:3] == [["2000-02-01 00:00", "2000-03-01 00:00"], ["2000-03-01 00:00", "2000-04-01 00:00"]]


def test_what_a_record_covers_in_part_ends_with_it(tmp_path):
    found = limits(tmp_path, 24 * np.arange(3.0, 40) + 12, "--every", "month")
    assert found == [["2000-01-04 12:00", "2000-02-01 00:00"], ["2000-02-01 00:00", "2000-02-09 12:00"]]
    found = limits(tmp_path, 24 * np.arange(1.0, 59), "--every", "month")  # of 1 January no sample at midnight
    assert found == [["2000-01-02 00:00", "2000-02-01 00:00"], ["2000-02-01 00:00", "2000-03-01 00:00"]]
    # samples that are farther apart than days are long
    found = limits(tmp_path, 24 * np.array([15.0, 45, 74]), "--every", "day")
    assert found[0] == ["2000-01-16 00:00", "2000-01-16 00:00"]
    assert limits(tmp_path, [12.0], "--every", "month") == [["2000-01-01 12:00", "2000-01-01 12:00"]]


@pytest.mark.filterwarnings("ignore:.*empty slice.*")
def test_a_climatology_says_so(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "max", "--by", "month")
    months = np.tile(_MONTHS, 3)
    np.testing.assert_array_equal(found["t"][:, 0], [cells[months == month, 0].max(0) for month in range(12)])
    assert found["t"].attrs["cell_methods"] == "time: mean within years time: maximum over years"
    name = found["time"].attrs["climatology"]
    assert "bounds" not in found["time"].attrs
    bounds = found[name].decoded()[...]
    assert [str(each) for each in bounds[0]] == ["2000-01-01 00:00:00", "2002-02-01 00:00:00"]
    assert str(found["time"].decoded()[0]) == "2000-01-16 12:00:00"


def weighted(cells):
    """Return the mean of each field, by the cosine of latitudes."""
    weights = np.broadcast_to(np.cos(np.radians([-60.0, 0.0, 60.0]))[:, None], cells.shape[1:])
    known = ~np.isnan(cells)
    return np.where(known, cells, 0).astype("f8") * weights, known * weights


def test_cells_weigh_by_their_area(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "mean", "--over", "lat,lon", "--weighted")
    sums, weights = weighted(cells)
    np.testing.assert_allclose(found["t"][...], sums.sum((1, 2)) / weights.sum((1, 2)), rtol=1e-6)
    assert found["t"].attrs["cell_methods"] == "time: mean area: mean"


def test_weighted_months_are_of_all_cells_together(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "mean", "--over", "lat,lon", "--every", "month", "--weighted")
    sums, weights = weighted(cells)
    first = sums[:31].sum() / weights[:31].sum()
    assert found["t"].dims == ("time",)
    assert found["t"][0] == pytest.approx(first, rel=1e-6)
    assert found["t"].attrs["cell_methods"] == "time: mean time: area: mean"


@pytest.mark.parametrize(
    ("options", "methods"),
    [
        (["--every", "month", "--over", "lat,lon"], "time: latitude: longitude: standard_deviation"),
        (["--over", "lat,lon"], "latitude: longitude: standard_deviation"),
        (
            ["--by", "month", "--over", "lat"],
            "time: mean within years time: latitude: standard_deviation over years",
        ),
    ],
)
def test_one_method_has_the_names_of_all_dimensions(cells, tmp_path, options, methods):
    found = aggregated(tmp_path, "--how", "std", *options)["t"]
    before = "" if "--by" in options else "time: mean "
    assert found.attrs["cell_methods"] == before + methods
    if "--every" in options:
        assert found[0] == pytest.approx(np.nanstd(cells[:31].astype("f8")), rel=1e-6)


@pytest.mark.parametrize("dim", ["lat", "lon"])
def test_a_weighted_mean_along_one_dimension_says_so(cells, tmp_path, dim):
    found = aggregated(tmp_path, "--how", "mean", "--over", dim, "--weighted")
    word = {"lat": "latitude", "lon": "longitude"}[dim]
    assert found["t"].attrs["cell_methods"] == f"time: mean {word}: mean (area-weighted)"
    found = aggregated(tmp_path, "--how", "mean", "--over", dim, "--weighted", "--by", "month", name="months.nc")
    expected = f"time: mean within years time: {word}: mean over years (area-weighted)"
    assert found["t"].attrs["cell_methods"] == expected


def curved(tmp_path, *, area):
    with hs.create(tmp_path / "field.nc") as root:
        attrs = {"coordinates": "lat lon", **({"cell_measures": "area: areacella"} if area else {})}
        root.create_array("t", data=np.array([[1.0, 2.0], [3.0, np.nan]]), dims=("y", "x"), attrs=attrs)
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
            root.create_array(name, data=np.zeros((2, 2)), dims=("y", "x"), attrs={"units": units})
        if area:
            root.create_array("areacella", data=np.array([[1.0, 1.0], [2.0, 9.0]]), dims=("y", "x"))


def test_curved_grids_weigh_by_cell_measures(tmp_path):
    curved(tmp_path, area=True)
    found = aggregated(tmp_path, "--how", "mean", "--over", "y,x", "--weighted")
    assert found["t"][()] == pytest.approx(9 / 4)
    assert "cell_measures" not in found["t"].attrs
    assert found["t"].attrs["cell_methods"] == "area: mean"
    found = aggregated(tmp_path, "--how", "mean", "--over", "y", "--weighted", name="rows.nc")
    assert found["t"].attrs["cell_methods"] == "y: mean (area-weighted)"


def test_names_of_variables_in_other_files_stay(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        terms = {"standard_name": "ocean_s_coordinate_g2", "formula_terms": "s: s C: Cs eta: zeta depth: h depth_c: hc"}
        root.create_array("s", data=np.array([-0.5, 0.0]), dims=("s",), attrs=terms)
        for name in ("Cs", "h", "hc"):
            root.create_array(name, data=np.zeros(2), dims=("s",))
        words = {"ancillary_variables": "flag elsewhere", "cell_measures": "area: areacello"}
        root.create_array("t", data=np.ones((3, 2)), dims=("n", "s"), attrs=words)
        root.create_array("flag", data=np.ones(3), dims=("n",))
    found = aggregated(tmp_path, "--how", "mean", "--over", "n", "-v", "t,s")
    assert found["s"].attrs["formula_terms"] == terms["formula_terms"]
    assert found["t"].attrs["cell_measures"] == "area: areacello"
    assert found["t"].attrs["ancillary_variables"].split() == [*(["flag"] if "flag" in found else []), "elsewhere"]


def test_curved_grids_without_areas_are_refused(tmp_path):
    curved(tmp_path, area=False)
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", "--how", "mean", "--over", "y,x", "--weighted")
    assert result.exit_code == 2
    assert "cell_measures" in result.stderr
    assert not (tmp_path / "out.nc").exists()


@pytest.mark.parametrize(("fill", "stays"), [(1e20, True), (-999.0, False)])
def test_missing_cells_keep_a_mark(tmp_path, fill, stays):
    with hs.create(tmp_path / "field.nc") as root:
        attrs = {"_FillValue": np.float32(fill), "missing_value": np.float32(fill)}
        root.create_array("t", data=np.array([[1, fill], [3, fill]], "f4"), dims=("time", "x"), attrs=attrs)
    found = aggregated(tmp_path, "--how", "mean", "--over", "time")["t"]
    mark = np.float32(fill if stays else np.nan)
    np.testing.assert_array_equal(found[...], [2, mark])
    np.testing.assert_array_equal(found.attrs["_FillValue"], mark)


def test_packed_cells_are_decoded(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-9)}
        root.create_array("t", data=np.array([[2, 4], [-9, 8]], "i2"), dims=("y", "x"), attrs=attrs)
    found = aggregated(tmp_path, "--how", "mean", "--over", "y")["t"]
    np.testing.assert_allclose(found[...], [11.0, 13.0])
    assert "scale_factor" not in found.attrs
    assert np.isnan(found.attrs["_FillValue"])  # which cdo wants, to count no missing cell


@pytest.mark.parametrize("name", ["out.zarr", "out.nczarr"])
def test_other_formats(cells, tmp_path, name):
    found = aggregated(tmp_path, "--how", "mean", "--every", "year", "-v", "t", name=name)
    assert found["t"].shape == (3, 3, 4)
    assert "height" not in found


def test_a_part_is_chosen(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "max", "--over", "time", "-s", "time=0..4", "-s", "lat=-60.0..0.0")
    np.testing.assert_array_equal(found["t"][...], cells[:4, :2].max(0))


def test_a_dry_run_writes_nothing(cells, tmp_path):
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", "--how", "mean", "--every", "month", "--dry-run", "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    array = next(each for each in facts["arrays"] if each["path"] == "t")
    assert array["dims"] == {"time": 36, "lat": 3, "lon": 4}
    assert not (tmp_path / "out.nc").exists()


def test_what_is_there_is_replaced_when_wanted(cells, tmp_path):
    aggregated(tmp_path, "--how", "mean", "--over", "time")
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", "--how", "min", "--over", "time")
    assert result.exit_code == 4
    found = aggregated(tmp_path, "--how", "min", "--over", "time", "--overwrite")
    np.testing.assert_array_equal(found["t"][:2], np.nanmin(cells[:, :2], 0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--how", "mean"], "--over"),
        (["--how", "mean", "--over", "lta"], "lat"),
        (["--how", "max", "--over", "lat,lon", "--weighted"], "weights mean nothing"),
        (["--how", "mean", "--over", "time", "--weighted"], "latitude"),
        (["--how", "mean", "--by", "month", "--every", "month"], "give one of the two"),
    ],
)
def test_what_makes_no_sense_is_refused(cells, tmp_path, options, words):
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", *options)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("how", ["mean", "sum", "min", "count"])
@pytest.mark.parametrize("over", [["--over", "time"], ["--every", "month"], ["--by", "month"]])
def test_a_range_without_cells_is_refused(cells, tmp_path, how, over):
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", "--how", how, *over, "-s", "time=2010-01..2011-01")
    assert result.exit_code == 2
    assert "no cell of time is chosen" in result.output


def test_times_that_no_calendar_has_are_named(cells, tmp_path):
    with hs.open(tmp_path / "field.nc", "r+") as root:
        attrs = {"units": "days since 2000-01-01"}
        root.create_array("issued", data=np.array([1e300, 0.0, 0.0]), dims=("lat",), attrs=attrs)
    result = run(tmp_path / "field.nc", tmp_path / "out.nc", "--how", "mean", "--over", "lat")
    assert result.exit_code == 8
    assert "node=/issued" in result.output and "-x issued" in result.output
    assert "t" in aggregated(tmp_path, "--how", "mean", "--over", "lat", "-x", "issued")
    assert "t" in aggregated(tmp_path, "--how", "mean", "--over", "lat", "-v", "t", name="other.nc")


def test_words_of_cf_mean_dimensions(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "mean", "--over", "T,longitude", "-s", "Y=0.0..60.0", "-s", "X=-90.0..0.0")
    expected = np.nanmean(cells[:, 1:][:, :, [3, 0]].astype("f8"), axis=(0, 2))
    np.testing.assert_allclose(found["t"][...], expected, rtol=1e-6)
    assert found["t"].dims == ("lat",)
    result = run(tmp_path / "field.nc", tmp_path / "other.nc", "--how", "mean", "--over", "Z")
    assert "no dimension 'Z'" in result.output
    assert "no dimension 'Z'" in run(tmp_path / "field.nc", tmp_path / "o.nc", "--how", "max", "-s", "Z=0").output


def test_a_dimension_of_which_one_position_is_chosen_is_named(cells, tmp_path):
    result = run(tmp_path / "field.nc", tmp_path / "o.nc", "--how", "mean", "--over", "lat,lon", "-s", "lon=-90.0")
    assert result.exit_code == 2
    assert "one position of lon is chosen" in result.output


@pytest.mark.filterwarnings("ignore:.*empty slice.*")
def test_a_box_goes_across_the_seam(cells, tmp_path):
    found = aggregated(tmp_path, "--how", "mean", "--over", "time", "--bbox=-100,-10,10,70")
    np.testing.assert_allclose(found["t"][...], np.nanmean(cells[:, 1:][:, :, [3, 0]].astype("f8"), 0), rtol=1e-6)
    assert found["lon"][...].tolist() == [-90.0, 0.0]
    assert found["lat"][...].tolist() == [0.0, 60.0]


def test_a_neighbour_is_none_farther_than_the_tolerance(cells, tmp_path):
    chosen = ["--how", "max", "--over", "time", "-s", "lon=355.0", "-s", "lat=1.0", "--tolerance"]
    found = aggregated(tmp_path, *chosen, "6")
    assert found["t"][()] == cells[:, 1, 0][~np.isnan(cells[:, 1, 0])].max()
    assert run(tmp_path / "field.nc", tmp_path / "o.nc", *chosen, "3").exit_code != 0


def test_a_cluster_computes(cells, tmp_path):
    with cluster() as client:
        found = aggregated(tmp_path, "--how", "max", "--every", "year", "--scheduler", client.scheduler.address)
    known = np.where(np.isnan(cells), -np.inf, cells).reshape(3, 365, 3, 4).max(1)
    np.testing.assert_array_equal(np.nan_to_num(found["t"][...], nan=-np.inf), known)


def test_weighted_sums_of_all_missing_are_missing(cells, tmp_path):
    with hs.open(tmp_path / "field.nc", mode="r+") as root:
        root["t"][7] = np.nan
    cells[7] = np.nan
    found = aggregated(tmp_path, "--how", "sum", "--over", "lat,lon", "--weighted")["t"][...]
    expected = weighted(cells)[0].sum((1, 2))
    assert np.isnan(found[7])
    np.testing.assert_allclose(np.delete(found, 7), np.delete(expected, 7), rtol=1e-6)


def test_positions_along_a_dimension_without_a_name(tmp_path):
    with hs.create(tmp_path / "field.zarr") as root:
        root.create_array("raw", data=np.arange(60.0).reshape(20, 3))
    places = (tmp_path / "field.zarr", tmp_path / "out.zarr")
    result = run(*places, "--how", "mean", "--over", "dim_1", "-s", "dim_0=4..6")
    assert result.exit_code == 0, result.output
    with hs.open(tmp_path / "out.zarr") as root:
        assert root["raw"][...].tolist() == [13.0, 16.0]


def test_two_dimensions_of_one_name_go_by_their_place(tmp_path):
    with hs.create(tmp_path / "field.zarr") as root:
        root.create_array("covariance", data=np.arange(9.0).reshape(3, 3), dims=("x", "x"))
        root.create_array("c", data=np.arange(3.0), dims=("x",))
    result = run(tmp_path / "field.zarr", tmp_path / "out.zarr", "--how", "mean", "--over", "x,dim_0")
    assert (result.exit_code, result.stderr) == (0, "")
    with hs.open(tmp_path / "out.zarr") as root:
        assert (root["covariance"][...].tolist(), root["c"][...]) == ([3.0, 4.0, 5.0], 1.0)


def test_dimensions_without_a_name_go_by_their_place(tmp_path):
    """Each array by its own place, whatever the lengths, and a word that is none of them is told all."""
    cells, square = np.arange(24.0).reshape(2, 3, 4), np.arange(9.0).reshape(3, 3)
    with hs.create(tmp_path / "field.zarr") as root:
        root.create_array("a", data=cells)
        root.create_array("b", data=square)
        root.create_array("c", data=square, dims=("x", None))
        root.create_array("x", data=np.arange(3.0), dims=("x",))
    places = (tmp_path / "field.zarr", tmp_path / "out.zarr", "--overwrite", "--how", "mean", "--over")
    for words, axes in (
        ("dim_0", (0, 0, ())),
        ("dim_1", (1, 1, 1)),
        ("dim_0,dim_1", ((0, 1), (0, 1), 1)),
        ("x", ((), (), 0)),
    ):
        result = run(*places, words)
        assert result.exit_code == 0, result.output
        with hs.open(tmp_path / "out.zarr") as root:
            for name, whole, axis in zip("abc", (cells, square, square), axes, strict=True):
                np.testing.assert_array_equal(root[name][...], whole.mean(axis=axis) if axis != () else whole)
    result = run(*places, "dim_1", "-s", "dim_0=1..")
    assert result.exit_code == 0, result.output
    with hs.open(tmp_path / "out.zarr") as root:
        np.testing.assert_array_equal(root["a"][...], cells[1:].mean(axis=1))
        np.testing.assert_array_equal(root["b"][...], square[1:].mean(axis=1))
    result = run(*places, "height")
    assert result.exit_code == 2
    for name in ("dim_0", "dim_1", "dim_2", "x"):
        assert name in result.stderr


@pytest.mark.parametrize("options", [("--how", "std", "--over", "time"), ("--how", "mean", "--every", "month")])
def test_memory_is_bounded(tmp_path, options):
    """Stored chunks of 2.3 MiB are cut into blocks for a thread's part of 16 MiB; all cells take 45.6 MiB."""
    about = {"units": "days since 2000-01-01", "calendar": "noleap"}
    with hs.create(tmp_path / "field.zarr") as root:
        root.create_array("time", data=np.arange(1460), dims=("time",), attrs=about)
        field = root.create_array(
            "t", shape=(1460, 64, 128), dtype="f4", dims=("time", "lat", "lon"), chunks=(73, 64, 128)
        )
        for first in range(0, 1460, 73):
            field[first : first + 73] = np.arange(73 * 64 * 128).reshape(73, 64, 128) % 97 + first
    places = (tmp_path / "field.zarr", tmp_path / "out.zarr", *options)
    assert run(*places, "--dry-run").exit_code == 0  # which imports all that it takes
    tracemalloc.start()
    try:
        result = run(*places, "--memory", "16MiB")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.exit_code == 0 and not result.output, result.output
    assert peak < 24 << 20


@pytest.mark.parametrize(("codec", "compressed"), [("none", False), ("gzip:1", True)])
def test_the_result_is_compressed_where_the_source_is(tmp_path, codec, compressed):
    with hs.create(tmp_path / "field.nc") as root:
        root.create_array("t", data=np.zeros((4, 6), "f4"), dims=("time", "x"), chunks=(2, 3), codec=codec)
    found = aggregated(tmp_path, "--how", "mean", "--over", "time")
    assert bool(found["t"].codec) is compressed
    assert run(tmp_path / "field.nc", tmp_path / "out.zarr", "--how", "mean", "--over", "time").exit_code == 0
    assert hs.open(tmp_path / "out.zarr")["t"].codec, "another format compresses as it does by default"


@pytest.mark.parametrize("period", ["month", "season"])
@pytest.mark.parametrize("how", ["mean", "sum", "min", "max", "count"])
def test_periods_that_come_back_each_year_are_those_of_xarray(tmp_path, how, period):
    random = np.random.default_rng(5)
    values = random.normal(280, 9, (3 * 365, 2, 3))
    values[random.random(values.shape) < 0.1] = np.nan
    times = np.arange(3 * 365)
    values[times % 365 < 31, 0, 0] = np.nan  # a cell without any January
    with hs.create(tmp_path / "field.nc") as root:
        about = {"units": "days since 2001-01-01", "calendar": "noleap", "standard_name": "time"}
        root.create_array("time", data=times, dims=("time",), attrs=about)
        root.create_array("t", data=values, dims=("time", "y", "x"), chunks=(50, 2, 3))
    found = aggregated(tmp_path, "--how", how, "--over", "time", "--by", period)["t"][...]
    with xr.open_dataset(tmp_path / "field.nc", decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as dataset:
        groups = dataset["t"].groupby(f"time.{period}")
        options = {"min_count": 1} if how == "sum" else {}
        expected = getattr(groups, how)("time", **options)
        if period == "season":  # which xarray sorts by name
            expected = expected.sel(season=["DJF", "MAM", "JJA", "SON"])
    np.testing.assert_allclose(found, expected.values, rtol=1e-12)


def test_a_variable_names_its_own_coordinates_alone(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        root.create_array("time", data=np.arange(4.0), dims=("time",), attrs={"units": "days since 2000-01-01"})
        root.create_array("lat", data=np.arange(3.0), dims=("lat",), attrs={"units": "degrees_north"})
        root.create_array("lev", data=np.arange(2.0), dims=("lev",), attrs={"units": "hPa"})
        root.create_array("height", data=np.float64(2), attrs={"units": "m"})
        root.create_array("tas", data=np.ones((4, 3)), dims=("time", "lat"), attrs={"coordinates": "height"})
        root.create_array("ta", data=np.ones((4, 2, 3)), dims=("time", "lev", "lat"))
        root.create_array("weight", data=np.ones(2), dims=("lev",))

    def named(root):
        return {name: array.attrs.get("coordinates", "") for name, array in root.arrays()}

    means = named(aggregated(tmp_path, "--how", "mean", "--over", "time"))
    assert {name: text for name, text in means.items() if text} == {"tas": "height time", "ta": "time"}
    rows = named(aggregated(tmp_path, "--how", "mean", "--over", "time", "-s", "lev=@1", name="rows.nc"))
    assert {name: text for name, text in rows.items() if text} == {
        "tas": "height time",
        "ta": "lev time",
        "weight": "lev",
    }
    days = aggregated(tmp_path, "--how", "max", "--every", "day", "-v", "tas", name="days.nc")
    assert set(days) == {"time", "time_bnds", "lat", "height", "tas"}
    assert days["tas"].attrs["coordinates"] == "height"


def test_a_group_has_the_coordinates_of_those_around_it(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        root.attrs["Conventions"] = "CF-1.8"
        root.create_array("lat", data=[-60.0, 0, 60], dims=("lat",), attrs={"units": "degrees_north"})
        root.create_array("lon", data=np.arange(4) * 90.0, dims=("lon",), attrs={"units": "degrees_east"})
        inner = root.create_group("model")
        inner.create_array("t", data=np.arange(12.0).reshape(3, 4), dims=("lat", "lon"))
    of_model = ("--how", "mean", "--path", "model")
    mean = aggregated(tmp_path, *of_model, "--over", "lat,lon", "--weighted")
    assert mean["t"][()] == pytest.approx((1.5 * 0.5 + 5.5 + 9.5 * 0.5) / 2)
    part = aggregated(tmp_path, *of_model, "--over", "lat", "-s", "lon=-90.0..0.0", name="part.nc")
    assert part["lon"][...].tolist() == [-90, 0] and part.attrs["Conventions"] == "CF-1.8"
    result = run(tmp_path / "field.nc", tmp_path / "none.nc", "--how", "mean", "--over", "lat", "-v", "t")
    assert result.exit_code == 2 and "--path model" in result.output, result.output


def test_months_of_360_days_become_days(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        attrs = {"units": "months since 2000-01-01", "calendar": "360_day"}
        root.create_array("time", data=np.arange(4.0), dims=("time",), attrs=attrs)
        root.create_array("t", data=np.arange(8.0).reshape(4, 2), dims=("time", "x"))
    found = aggregated(tmp_path, "--how", "mean", "--over", "x")
    assert found["time"][...].tolist() == [0, 30, 60, 90] and found["time"].units.startswith("days since")
    assert found["t"][...].tolist() == [0.5, 2.5, 4.5, 6.5]


def test_what_is_left_of_samples_names_no_stations(tmp_path):
    with hs.create(tmp_path / "field.nc") as root:
        root.attrs["featureType"] = "timeSeries"
        root.create_array("lat", data=[1.0, 2.0], dims=("station",), attrs={"units": "degrees_north"})
        root.create_array("rows", data=[2, 1], dims=("station",), attrs={"sample_dimension": "obs"})
        root.create_array("t", data=[1.0, 2.0, 6.0], dims=("obs",), attrs={"coordinates": "lat"})
    found = aggregated(tmp_path, "--how", "mean", "--over", "obs")
    assert found["t"][()] == 3.0 and "coordinates" not in found["t"].attrs


@pytest.fixture
def flags(tmp_path):
    """Write a field with flags that are one of several, and with such of which several hold."""
    words = {"flag_meanings": "good bad worst", "_FillValue": np.int8(-1)}
    with hs.create(tmp_path / "field.nc") as root:
        root.create_array("t", data=np.arange(6.0).reshape(3, 2), dims=("time", "x"))
        values = {"flag_values": np.array([0, 3, 4], "i1"), **words}
        root.create_array("quality", data=np.array([[0, 4], [3, 4], [0, -1]], "i1"), dims=("time", "x"), attrs=values)
        masks = {"flag_masks": np.array([1, 2, 4], "i1"), **words}
        root.create_array("bits", data=np.array([[1, 2], [4, 4], [7, 0]], "i1"), dims=("time", "x"), attrs=masks)
        root.create_array("kind", data=np.array([0, 3], "i1"), dims=("x",), attrs=values)


@pytest.mark.parametrize("how", ["mean", "sum", "std"])
def test_flags_have_no_mean(flags, tmp_path, how):
    result = CliRunner().invoke(
        main, ["aggregate", *map(str, (tmp_path / "field.nc", tmp_path / "out.nc")), "--how", how, "--over", "time"]
    )
    assert result.exit_code == 0, result.output
    assert f"/quality is left out: it has no {how}: its cells are flags; take --how min, max or count" in result.stderr
    assert f"/bits is left out: it has no {how}" in result.stderr
    found = hs.open(tmp_path / "out.nc")
    assert sorted(found) == ["kind", "t"]
    assert found["kind"][...].tolist() == [0, 3]
    alone = run(tmp_path / "field.nc", tmp_path / "flags.nc", "--how", how, "--over", "time", "-v", "quality")
    assert alone.exit_code != 0
    assert f"/quality has no {how}: its cells are flags; take --how min" in alone.output
    assert not (tmp_path / "flags.nc").exists()


def test_texts_have_no_mean(tmp_path):
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.arange(6.0).reshape(3, 2), dims=("time", "x"))
        root.create_array("name", data=np.array(["a", "b", "c"], "T"), dims=("time",))
    alone = run(tmp_path / "a.nc", tmp_path / "out.nc", "--how", "mean", "--over", "time", "-v", "name")
    assert alone.exit_code != 0
    assert "/name has no mean: its cells are no numbers" in alone.output
    assert not (tmp_path / "out.nc").exists()
    assert run(tmp_path / "a.nc", tmp_path / "out.nc", "--how", "mean", "--over", "time").exit_code == 0
    assert sorted(hs.open(tmp_path / "out.nc")) == ["t"]


def test_flags_have_extremes_and_a_count(flags, tmp_path):
    found = aggregated(tmp_path, "--how", "max", "--over", "time")
    assert found["quality"][...].tolist() == [3, 4]
    assert found["quality"].attrs["flag_meanings"] == "good bad worst"
    assert "bits" not in found
    found = aggregated(tmp_path, "--how", "count", "--over", "time", name="count.nc")
    assert found["quality"][...].tolist() == [3, 2]
    assert found["bits"][...].tolist() == [3, 3]
    assert not {"flag_values", "flag_masks", "flag_meanings"} & {*found["quality"].attrs, *found["bits"].attrs}
