"""``hyperslab plot``: the cells, places and words of pictures, files that are whole or absent, and what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import ml_dtypes
import numpy as np
import pytest
from click.testing import Result
from matplotlib.collections import QuadMesh

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.cli.arguments import find_array, find_cells, parse_selections
from hyperslab.cli.commands import plot
from hyperslab.cli.tour.runner import sample
from hyperslab.stores import MemoryStore

pytestmark = pytest.mark.sampled(2)

PAYLOADS = ["$\\frac{$", "<script>alert(1)</script>", "\x00\x1b[31m\u202e", "\\input{/etc/passwd}", "漢字 🦉", "%s{}"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["plot", *map(str, arguments)])


def picture(root: Any, path: str, *selections: str, decoded: bool | None = None) -> plot.Picture:
    """What the command would draw."""
    array = find_array(root, path)
    key, _ = plot.thin_key(array, find_cells([array], parse_selections(selections)).key(array))
    return plot.compose(root, array, key, decoded=decoded)


def america() -> Any:
    return hs.open(sample("A1B_north_america.nc"))


@pytest.fixture
def root() -> Any:
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_array("lat", data=np.array([60.0, 50.0, 30.0]), dims=("lat",), units="degrees_north")
    root.create_array("lon", data=np.array([350.0, 355.0, 0.0, 5.0]), dims=("lon",), units="degrees_east")
    cells = np.arange(12, dtype="i2").reshape(3, 4)
    attrs = {"_FillValue": np.int16(5), "missing_value": np.int16(7), "scale_factor": 0.5, "long_name": "a_b"}
    root.create_array("t", data=cells, dims=("lat", "lon"), units="K", attrs=attrs)
    root.create_array("b", data=cells > 3, dims=("lat", "lon"))
    root.create_array("name", data=np.array(["a", "b", "c"], np.dtypes.StringDType()), dims=("lat",))
    root.create_array("when", data=np.arange(3), dims=("lat",), attrs={"units": "days since 2000-01-01"})
    return root


def test_the_factor_of_the_ticks_stands_beside_the_subtitle(root: Any) -> None:
    root.create_array("v", data=np.arange(12.0).reshape(3, 4) * 1e-6, dims=("lat", "lon"))
    figure = plot.draw(picture(root, "v", "lat=60.0"), "viridis")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    factor, subtitle = axes.yaxis.get_offset_text(), axes.texts[0]
    assert (factor.get_text(), subtitle.get_text()) == ("1e\N{MINUS SIGN}6", "lat = 60.0 degrees_north")
    assert not factor.get_window_extent().overlaps(subtitle.get_window_extent())


def test_a_range_ends_colours_and_axes(tmp_path: Path, root: Any) -> None:
    image, line = (replace(picture(root, "t", *chosen), span=(-2.0, 9.0)) for chosen in ((), ("lat=60.0",)))
    assert plot.draw(image, "viridis").axes[0].collections[0].get_clim() == (-2.0, 9.0)
    assert plot.draw(line, "viridis").axes[0].get_ylim() == (-2.0, 9.0)
    profile = replace(line, axes=(replace(line.axes[0], vertical=True),))
    assert plot.draw(profile, "viridis").axes[0].get_xlim() == (-2.0, 9.0)
    hs.convert(root, tmp_path / "a.zarr")
    files = []
    for ends in ("-2..9", "-2..99"):
        files.append(tmp_path / f"{ends}.png")
        assert run(tmp_path / "a.zarr", "t", "-o", files[-1], "--range", ends).exit_code == 0
    assert files[0].read_bytes() != files[1].read_bytes()
    assert "--range 250..320" in run(tmp_path / "a.zarr", "t", "-o", tmp_path / "b.png", "--range", "9..-2").stderr


def test_an_image_of_real_data() -> None:
    root = america()
    figure = plot.draw(picture(root, "air_temperature", "time=2050-06-01"), "magma")
    axes, bar = figure.axes
    mesh = next(child for child in axes.get_children() if isinstance(child, QuadMesh))
    assert np.array_equal(mesh.get_array(), root["air_temperature"].sel(time="2050-06-01"))
    assert mesh.cmap.name == "magma"
    corners = mesh.get_coordinates()
    assert corners.shape == (38, 50, 2)
    middles = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    assert np.allclose(middles[0, :, 0], root["longitude"][:])
    assert np.allclose(middles[:, 0, 1], root["latitude"][:])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("longitude (degrees_east)", "latitude (degrees_north)")
    assert bar.get_ylabel() == "air temperature (K)"
    assert axes.get_title(loc="left") == "air temperature"
    assert [text.get_text() for text in axes.texts] == ["time = 2050-06-01"]
    assert axes.get_aspect() == 1.0


def test_a_line_over_dates_of_360_days() -> None:
    root = america()
    drawn = picture(root, "air_temperature", "latitude=50.0", "longitude=260.625")
    axes = plot.draw(drawn, "viridis").axes[0]
    values = axes.lines[0].get_ydata()
    assert np.array_equal(values, root["air_temperature"].sel(latitude=50.0, longitude=260.625))
    assert axes.get_xlabel() == "time (360_day calendar)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1900", "1950", "2000", "2050"]
    year = 360 * 86400
    assert axes.get_xticks().tolist() == [(text - 1970) * year for text in (1900, 1950, 2000, 2050)]
    assert axes.lines[0].get_xdata().tolist() == (root["time"][:] * 3600).tolist()


def test_years_that_the_dataset_bounds_are_drawn_between_their_bounds() -> None:
    root = america()
    time = picture(root, "air_temperature", "latitude=50.0").axes[0]
    bounds = root["time_bnds"][:] * 3600
    assert time.edges().tolist() == [*bounds[:, 0], bounds[-1, 1]]


def test_depths_go_down_and_profiles_stand_upright() -> None:
    root = hs.open(sample("atlantic_profiles.nc"))
    profile = plot.draw(picture(root, "theta", "lat=2", "lon=3"), "viridis").axes[0]
    assert profile.get_ylabel() == "depth (m)" and profile.yaxis_inverted()
    assert profile.get_xlabel() == "sea water potential temperature (K)"
    section = plot.draw(picture(root, "theta", "lat=2"), "viridis").axes[0]
    assert section.yaxis_inverted() and section.get_xlabel() == "longitude (degrees)"
    assert section.get_aspect() == "auto"


def test_rows_without_labels_begin_at_the_top() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    cells = np.arange(12.0).reshape(3, 4)
    root.create_array("lat", data=np.array([30.0, 50.0, 60.0]), dims=("lat",), units="degrees_north")
    for name, dims in (
        ("image", ("y", "x")),
        ("plain", (None, None)),
        ("rows", ("y", "lat")),
        ("columns", ("lat", "x")),
    ):
        data = cells if "lat" not in dims[1:] else cells.T[:3, :3]
        root.create_array(name, data=data, dims=dims)
    found = {name: plot.draw(picture(root, name), "viridis").axes[0] for name in ("image", "plain", "rows", "columns")}
    assert {name: axes.yaxis_inverted() for name, axes in found.items()} == {
        "image": True,
        "plain": True,
        "rows": True,
        "columns": False,  # latitudes stand upright
    }
    assert [found[name].get_aspect() for name in ("image", "plain", "columns")] == [1.0, 1.0, "auto"]
    assert (found["image"].get_xlabel(), found["image"].get_ylabel()) == ("x (position)", "y (position)")
    assert not plot.draw(picture(root, "image", "x=1"), "viridis").axes[0].yaxis_inverted()


def test_an_image_with_the_depth_last_is_turned() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_array("z", data=np.array([0.0, 10.0, 100.0]), dims=("z",), units="m", attrs={"positive": "down"})
    root.create_array("a", data=np.arange(6).reshape(2, 3), dims=("x", "z"))
    axes = plot.draw(picture(root, "a"), "viridis").axes[0]
    mesh = next(child for child in axes.get_children() if isinstance(child, QuadMesh))
    assert mesh.get_array().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert axes.get_ylabel() == "z (m)" and axes.yaxis_inverted()


def test_missing_cells_are_masked_and_longitudes_go_one_way(root: Any) -> None:
    drawn = picture(root, "t", decoded=False)
    assert drawn.axes[1].at.tolist() == [-10.0, -5.0, 0.0, 5.0]
    assert np.ma.getmaskarray(drawn.cells).tolist() == (np.isin(np.arange(12).reshape(3, 4), (5, 7))).tolist()
    decoded = picture(root, "t", decoded=True)
    assert np.array_equal(np.ma.getmaskarray(decoded.cells), np.ma.getmaskarray(drawn.cells))
    assert decoded.cells.sum() == drawn.cells.sum() / 2
    assert (drawn.title, drawn.label) == ("a b", "a b (as stored)")
    assert (decoded.title, decoded.label) == ("a b", "a b (K)")


def test_physical_values_are_drawn_under_physical_units(root: Any) -> None:
    assert picture(root, "t").cells.sum() == picture(root, "t", decoded=True).cells.sum()
    assert picture(root, "t").label == "a b (K)"
    days = picture(root, "when")
    assert days.cells.tolist() == [0, 1, 2] and days.label == "when (days since 2000-01-01)"


def test_infinities_small_floats_and_truths_are_drawn(root: Any) -> None:
    assert picture(root, "b").cells.sum() == 8
    for dtype in (np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)):
        root.create_array(dtype.name, data=np.array([1.0, np.inf, np.nan, 4.0], dtype), dims=["x"])
        assert picture(root, dtype.name).cells.tolist() == [1.0, None, None, 4.0]
        plot.draw(picture(root, dtype.name), "viridis")


def test_positions_stand_where_no_coordinate_does() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    array = root.create_array("a", data=np.arange(600).reshape(20, 30), dims=("y", None))
    drawn = picture(root, "a", "y=5..15..2")
    assert drawn.axes[0].at.tolist() == [5, 7, 9, 11, 13] and drawn.axes[0].label == "y (position)"
    assert picture(root, "a", "y=-1").subtitle == "y = 19"
    assert picture(root, "a", "y=12..8..-1").cells[:, 0].tolist() == array[12:8:-1, 0].tolist()


def test_words_stand_below_dots(tmp_path: Path) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    names = np.array([f"station {number}" for number in range(40)], np.dtypes.StringDType())
    root.create_array("station", data=names, dims=("station",))
    root.create_array("a", data=np.arange(40), dims=("station",))
    axes = plot.draw(picture(root, "a"), "viridis").axes[0]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == list(names[::3]) and axes.get_xticks().tolist() == list(range(0, 40, 3))
    assert axes.lines[0].get_linestyle() == "None"


def test_the_chosen_labels_are_told() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    names = np.array(["Wick T", "Oban 2"], np.dtypes.StringDType())
    root.create_array("site", data=names, dims=("site",))
    root.create_array("t", data=np.arange(3) * 11, dims=("t",), units="hours since 2013-01-01 01:00")
    root.create_array("day", data=np.array(["2013-01-01", "2013-01-02"], "M8[s]"), dims=("day",))
    root.create_array("z", data=np.array([850.0, 50.0]), dims=("z",), units="hPa")
    root.create_array("a", data=np.ones((2, 3, 2, 2, 4)), dims=("site", "t", "day", "z", "x"))
    told = picture(root, "a", "site='Wick T'", "t=1", "day=1", "z=850.0").subtitle
    assert told == "site = Wick T, t = 2013-01-01 12:00, day = 2013-01-02, z = 850.0 hPa"


def test_cells_between_missing_ones_are_seen() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    cells = np.full(500, np.nan)
    root.create_array("a", data=cells, dims=("x",))[250] = 1.0
    assert plot.draw(picture(root, "a"), "viridis").axes[0].lines[0].get_marker() == "."


@pytest.mark.parametrize("shape", [(10**12,), (10**7, 10**7)])
def test_huge_selections_are_thinned(shape: tuple[int, ...]) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    array = root.create_array("a", shape=shape, dtype="u1", dims=["y", "x"][-len(shape) :], chunks=(4096,) * len(shape))
    array[(slice(None, 1000),) * len(shape)] = np.uint8(1)
    key, steps = plot.thin_key(array, (slice(None),) * len(shape))
    most = plot.MOST[len(shape)]
    counts = [len(range(*item.indices(size))) for item, size in zip(key, shape, strict=True)]
    assert all(most * 0.99 < count <= most for count in counts)
    assert all(step == item.step for step, item in zip(steps.values(), key, strict=True))
    assert "every " in plot.thinning_note(steps)


def test_dimensions_of_one_name_are_thinned_each_for_itself() -> None:
    array = hs.create(MemoryStore(), "zarr3").create_array("c", shape=(4000, 30), dtype="f4", dims=("x", "x"))
    key, steps = plot.thin_key(array, (slice(None), slice(None)))
    assert steps == {"dim_0": 3}
    assert key == (slice(0, 4000, 3), slice(0, 30, 1))


def test_thinned_cells_are_every_nth(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(45_001), dims=("x",))
    drawn = picture(hs.open(path), "a", "x=::-1")
    assert drawn.cells.tolist() == list(range(45_000, -1, -3)) and drawn.axes[0].at[1] == 44_997
    result = run(path, "a", "-o", tmp_path / "a.png")
    assert "every 3rd of x" in result.stderr


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89")]
)
def test_the_suffix_says_what_is_written_and_the_same_is_written_again(
    tmp_path: Path, suffix: str, start: bytes
) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    arguments = (sample("rotated_pole.nc"), "air_pressure_at_sea_level", "--json", "-o")
    result = run(*arguments, first)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["schema"], document["dims"]) == ("hyperslab.plot/1", {"grid_latitude": 22, "grid_longitude": 36})
    assert run(*arguments, second).exit_code == 0
    assert first.read_bytes() == second.read_bytes() and first.read_bytes().startswith(start)


def test_a_picture_is_complete_or_what_was_there_before(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"mine")
    arguments = (sample("rotated_pole.nc"), "air_pressure_at_sea_level", "-o", target)
    refused = run(*arguments)
    assert refused.exit_code == 4 and "--overwrite" in refused.stderr
    assert target.read_bytes() == b"mine"
    assert run(*arguments, "--overwrite").exit_code == 0
    assert matplotlib.image.imread(target).shape[2] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("suffix", [".svg", ".png"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_words_of_files_stay_words(tmp_path: Path, payload: str, suffix: str) -> None:
    path, target = tmp_path / "a.zarr", tmp_path / f"a{suffix}"
    attrs = {"units": payload, "long_name": payload}
    with hs.create(path) as root:
        root.create_array("x", data=np.array([payload, "b"], np.dtypes.StringDType()), dims=("x",), attrs=attrs)
        root.create_array("y", data=np.array([1.0, 2.0]), dims=("y",), attrs=attrs)
        root.create_array("a", data=np.ones((2, 2)), dims=("y", "x"), attrs=attrs)
    result = run(path, "a", "-o", target)
    assert result.exit_code == 0, result.stderr
    if suffix == ".svg":
        kinds = {element.tag.rpartition("}")[2] for element in ElementTree.parse(target).iter()}
        assert kinds.isdisjoint({"script", "foreignObject", "a"})


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["t", "-o", "a.gif"], 2, ".png, .svg, .pdf"),
        (["t", "-o", "a.png", "--cmap", "viridi"], 2, "did you mean viridis"),
        (["t", "-s", "lat=0", "-s", "lon=0", "-o", "a.png"], 2, "one cell"),
        (["t", "-s", "lat=2..1", "-o", "a.png"], 2, "no cell"),
        (["name", "-o", "a.png"], 2, "no numbers"),
        (["when", "--decoded", "-o", "a.png"], 2, "without --decoded"),
        (["t", "-s", "lat=60.0", "-s", "lon=5..6", "-o", "a.png"], 2, ""),
        (["nothing", "-o", "a.png"], 3, "there are"),
        (["cube", "-o", "a.png"], 2, "choose one of z=…, y=…, x=… with -s"),
        (["void", "-o", "a.png"], 2, "missing"),
        (["t"], 2, "--output"),
    ],
)
def test_what_is_refused(root: Any, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    root.create_array("cube", shape=(2, 3, 4), dtype="f4", dims=["z", "y", "x"])
    root.create_array("void", data=np.full((3, 4), np.nan), dims=("lat", "lon"))
    path = tmp_path / "a.zarr"
    hs.convert(root.store, path)
    result = run(path, *(str(tmp_path / word) if word.startswith("a.") else word for word in arguments))
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert [found.name for found in tmp_path.iterdir()] == ["a.zarr"]


def test_equal_labels_are_drawn_by_position(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with hs.create(path) as root:
        root.create_array("x", data=np.array([1.0, 1.0, 2.0]), dims=("x",))
        root.create_array("a", data=np.arange(6).reshape(2, 3), dims=("y", "x"))
        root.create_array("b", data=np.arange(3), dims=("x",))
    result = run(path, "a", "-o", tmp_path / "a.png")
    assert result.exit_code == 0 and "drawn by position" in result.stderr
    assert picture(hs.open(path), "b").axes[0].at.tolist() == [1.0, 1.0, 2.0]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(sample("rotated_pole.nc"), "-o", tmp_path / "a.png")
    assert result.exit_code == 8 and "pip install 'hyperslab[plot]'" in result.stderr


def test_an_array_over_one_dimension_twice_is_an_image() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_array("x", data=np.array([1.0, 2.0, 4.0]), dims=("x",))
    root.create_array("covariance", data=np.arange(9).reshape(3, 3), dims=("x", "x"))
    drawn = picture(root, "covariance")
    assert [axis.at.tolist() for axis in drawn.axes] == [[1, 2, 4], [1, 2, 4]]
    plot.draw(drawn, "viridis")


def test_attributes_that_make_no_sense_do_not_keep_stored_values_from_being_drawn() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    attrs = {"_FillValue": "none", "scale_factor": "big", "units": 5, "long_name": 7}
    root.create_array("x", data=np.array([1.0, 2.0, 4.0]), dims=("x",), attrs=attrs)
    root.create_array("a", data=np.arange(3), dims=("x",), attrs=attrs)
    drawn = picture(root, "a")
    assert drawn.cells.tolist() == [0, 1, 2] and drawn.axes[0].label == "x (position)"
    plot.draw(drawn, "viridis")


def test_long_names_stay_inside_the_picture(tmp_path: Path) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    attrs = {
        "long_name": "rain that is expected to fall on the land and on the sea within the next six hours",
        "units": "mm",
    }
    for name in "xy":
        root.create_array(name, data=np.array([1.0, 2.0]), dims=(name,), attrs=attrs)
    root.create_array("a", data=np.ones((2, 2)), dims=("y", "x"), attrs=attrs)
    figure = plot.draw(picture(root, "a"), "viridis")
    figure.savefig(tmp_path / "a.png")
    box = figure.get_tightbbox()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.get_figwidth() and box.y1 <= figure.get_figheight()


def curved(root: Any, *, turned: bool = False, hole: bool = False) -> tuple[Any, Any]:
    """Latitudes and longitudes of a turned grid over the date line, and an array on it; gives both as they are."""
    y, x = np.mgrid[-4.0:4.0, -6.0:6.0]
    lat, lon = 50 + 0.8 * y - 0.5 * x, (178 + 0.8 * x + 0.5 * y + 180) % 360 - 180
    if hole:
        lat[0, 0] = np.nan
    dims = ("x", "y") if turned else ("y", "x")
    root.create_array("lat", data=lat.T if turned else lat, dims=dims, units="degrees_north")
    root.create_array("lon", data=lon.T if turned else lon, dims=dims, units="degrees_east")
    root.create_array("t", data=np.arange(96.0).reshape(1, 8, 12), dims=("time", "y", "x"))
    return lat, lon


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("part", [(), ("y=::2", "x=8..2..-1")])
def test_a_curved_grid_is_drawn_where_its_cells_are(turned: bool, part: tuple[str, ...]) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    lat, lon = curved(root, turned=turned)
    cut = (slice(None, None, 2), slice(8, 2, -1)) if part else ...
    axes = plot.draw(picture(root, "t", *part), "viridis").axes[0]
    mesh = next(child for child in axes.get_children() if isinstance(child, QuadMesh))
    assert np.array_equal(mesh.get_array(), root["t"][0][cut])
    corners = mesh.get_coordinates()
    middles = (corners[:-1, :-1] + corners[1:, 1:] + corners[1:, :-1] + corners[:-1, 1:]) / 4
    assert np.allclose(middles[..., 1], lat[cut])
    assert np.allclose((middles[..., 0] - lon[cut] + 180) % 360, 180)
    assert np.ptp(corners[..., 0]) < 20
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lon (degrees_east)", "lat (degrees_north)")


def test_a_curved_grid_around_the_globe() -> None:
    """That of an ocean model with two poles in the north: no cell is drawn across the picture."""
    root = hs.open(sample("orca2_votemper.nc"))
    drawn = picture(root, "votemper")
    axes = plot.draw(drawn, "viridis").axes[0]
    assert axes.get_xlim() == (-180, 180) and axes.get_ylabel() == "Latitude (degrees)"
    meshes = [child for child in axes.get_children() if isinstance(child, QuadMesh)]
    places = np.concatenate([mesh.get_coordinates()[40, :, 0] for mesh in meshes])
    assert np.diff(np.sort(places[np.abs(places) <= 182])).max() <= 2.01
    corners = meshes[0].get_coordinates()[..., 0]
    there = ~np.ma.getmaskarray(drawn.cells)
    assert np.abs(np.diff(corners, axis=1))[:-1][there].max() <= 180


def test_a_curved_grid_without_all_its_places_is_drawn_by_position() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    curved(root, hole=True)
    assert [axis.label for axis in picture(root, "t").axes] == ["y (position)", "x (position)"]


def test_coordinates_of_the_dimensions_come_first(tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.zarr")
    curved(root)
    root.create_array("x", data=np.arange(12.0), dims=("x",), units="m")
    assert [axis.label for axis in picture(root, "t").axes] == ["y (position)", "x (m)"]
    del root["x"]
    result = run(tmp_path / "a.zarr", "t", "-o", tmp_path / "a.png", "--json")
    assert json.loads(result.stdout)["dims"] == {"y": 8, "x": 12}


@pytest.mark.filterwarnings("error")
def test_missing_cells_far_beyond_the_colours(tmp_path: Path) -> None:
    cells = np.linspace(-3, 3, 200, dtype="f4").reshape(20, 10)
    cells[3:5] = 9.96921e36
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("v", data=cells, dims=("y", "x"), attrs={"_FillValue": np.float32(9.96921e36)})
    result = CliRunner().invoke(main, ["plot", str(tmp_path / "a.nc"), "v", "-o", str(tmp_path / "a.png")])
    assert result.exit_code == 0, result.stderr
