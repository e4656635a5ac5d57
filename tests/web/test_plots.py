"""Plots of the explorer in Chromium: drawn pixels, values under the pointer, sliders, zoom and files against NumPy."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest
from chromium import (
    MARKS,
    NEEDS_MATPLOTLIB,
    box_of,
    colors_of,
    counted_views,
    drawn_cells,
    is_wrong,
    pixels_of,
    place_of,
    point,
    read_png,
    running_browser,
    told,
)

import hyperslab as hs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [*MARKS, NEEDS_MATPLOTLIB]
RANDOM = np.random.default_rng(3)
LAT, LON = np.linspace(-85, 85, 18), np.arange(0, 360, 10.0)
T2M = (280 + 30 * np.cos(np.radians(LAT))[:, None] + RANDOM.normal(0, 5, (4, 18, 36))).astype("f4")
T2M[1, 3:6, 4:9] = np.nan
OTHER = T2M + RANDOM.normal(0, 1, T2M.shape).astype("f4")
KINDS = RANDOM.choice(np.array([0, 1, 5], "i1"), (18, 36))
WAVES = np.arange(30).reshape(5, 6) * (1 - 2j) + 3
BIG = np.add.outer(np.arange(2000.0), np.arange(3000.0) * 2).astype("f4")
DAMAGED = np.arange(1200.0).reshape(30, 40)
SECTION = np.arange(30.0).reshape(6, 5)
DEPTH = np.array([0.0, 10, 20, 50, 100, 200, 400])
PROFILE = np.array([18.0, 17, np.nan, 11, 8, 6, 5])
POWERS = np.append(10.0 ** np.linspace(-3, 4, 22), [0, -5]).reshape(3, 8)
LINE = np.sin(np.arange(100_000) / 3000).astype("f4")
LINE[40_000] = 9
SPIKES = RANDOM.normal(0, 1, (20_000, 6)).astype("f4")
SPIKES[:, :2] = 0
SPIKES[7000, 2] = 60
SLOW = np.cumsum(RANDOM.normal(0, 3, (3000, 8)), axis=0).astype("f4")


def make_data(folder: Path) -> None:
    """Datasets to be plotted."""
    with hs.create(folder / "maps.zarr") as root:
        days = {"units": "days since 2000-02-28", "attrs": {"calendar": "360_day"}}
        root.create_array("time", data=np.arange(4.0), dims=("time",), **days)
        root.create_array("lat", data=LAT, dims=("lat",), units="degrees_north")
        root.create_array("lon", data=LON, dims=("lon",), units="degrees_east")
        root.create_array("t2m", data=T2M, dims=("time", "lat", "lon"), chunks=(1, 18, 36), units="K")
        root.create_array("other", data=OTHER, dims=("time", "lat", "lon"), chunks=(1, 18, 36), units="K")
        root.create_array("levels", data=np.arange(5), dims=("levels",), units="m", attrs={"positive": "down"})
        root.create_array("deep", data=np.arange(30.0).reshape(5, 6), dims=("levels", "cell"))
        root.create_array("section", data=SECTION, dims=("cell", "levels"))
        root.create_array("depth", data=DEPTH, dims=("depth",), units="m", attrs={"positive": "down"})
        root.create_array("profile", data=PROFILE, dims=("depth",), units="degC")
        root.create_array("sounding", data=PROFILE[:5], dims=("plev",), units="K")
        root.create_array("plev", data=DEPTH[4::-1] + 1, dims=("plev",), units="hPa")
        y, x = np.meshgrid(np.linspace(40, 60, 12), np.linspace(-15, 20, 16), indexing="ij")
        root.create_array("nav_lat", data=y + x / 10, dims=("y", "x"), units="degrees_north")
        root.create_array("nav_lon", data=x - y / 10, dims=("y", "x"), units="degrees_east")
        root.create_array(
            "curved", data=np.arange(192.0).reshape(12, 16), dims=("y", "x"), attrs={"coordinates": "nav_lat nav_lon"}
        )
        root.create_array("clat", data=np.linspace(-60, 60, 40), dims=("place",), units="degrees_north")
        root.create_array("clon", data=np.linspace(-170, 170, 40), dims=("place",), units="degrees_east")
        root.create_array("points", data=np.arange(40.0), dims=("place",), attrs={"coordinates": "clat clon"})
        flags = {"flag_values": np.array([0, 1, 5], "i1"), "flag_meanings": "open_sea land sea_ice"}
        root.create_array("kinds", data=KINDS, dims=("lat", "lon"), attrs=flags)
        root.create_array("rgb", data=np.zeros((20, 30, 3), "u1"), dims=("row", "column", "band"))
        root.create_array("waves", data=WAVES, dims=("row", "column"), units="V")
    with hs.create(folder / "big.zarr", durable=False) as root:
        root.create_array("plane", data=BIG, dims=("row", "column"), chunks=(200, 300))
        root.create_array("line", data=LINE, chunks=(10_000,))
        root.create_array("powers", data=POWERS, dims=("row", "column"))
    with hs.create(folder / "damaged.zarr") as root:
        root.create_array("x", data=DAMAGED, chunks=(10, 20), dims=("row", "column"), codec="zlib", checksum=None)
    (folder / "damaged.zarr" / "x" / "c" / "1" / "1").write_bytes(b"damaged!")
    with hs.create(folder / "huge.zarr") as root:
        huge = root.create_array("cells", shape=(100_000, 100_000), dtype="f4", chunks=(1000, 1000), fill_value=7)
        huge[50_000:50_010, 50_000:50_010] = 3
    with hs.create(folder / "strange.zarr") as root:
        root.create_array("lat", data=np.linspace(-80, 80, 5), dims=("lat",), units="degrees_north")
        root.create_array("lon", data=np.arange(600) * 170.0, dims=("lon",), attrs={"standard_name": "longitude"})
        root.create_array("tiny", data=np.arange(1, 31).reshape(5, 6) * 1e-47, dims=("row", "column"))
        root.create_array("slow", data=SLOW, dims=("sample", "channel"))
        root.create_array("far", data=np.arange(3000.0).reshape(5, 600), dims=("lat", "lon"))
    with hs.create(folder / "lab.nwb.zarr", "hdmf") as root:
        series = root.create_group("acquisition/probe", {"neurodata_type": "ElectricalSeries", "namespace": "core"})
        series.create_array("data", data=SPIKES, chunks=(2000, 6))
        series.create_array("starting_time", data=np.float64(2.5), attrs={"rate": 1000.0, "unit": "seconds"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plots") / "data"
    made.mkdir()
    make_data(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with hs.serve(folder, token="") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made = context.new_page()
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    made.goto(f"{server.address}/")
    yield made
    context.close()
    assert wrong == []


def show(page: Page, server: Any, dataset: str, node: str, view: dict[str, Any] | None = None) -> None:
    """Go to an array, and wait for its plot."""
    told = f"&view={quote(json.dumps(view))}" if view else ""
    page.goto("about:blank")
    page.goto(f"{server.address}/#/data/{dataset}?node={node}{told}")
    wait(page)


def wait(page: Page, state: str = "done") -> None:
    page.wait_for_selector(f'[data-testid="plot"][data-state="{state}"]')


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true; as a function, for the page forbids to make code of texts."""
    page.wait_for_function(f"() => {expression}")


# -- images and maps --------------------------------------------------------------------------------------------------


def test_pixels_are_the_colours_of_the_cells(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}, "coast": False})
    drawn = drawn_cells(page, np.arange(36) + 0.5, np.arange(18) + 0.5)
    assert np.abs(drawn - colors_of(T2M[2])).max() <= 2
    box = box_of(page)
    assert box["y"] == [18, 0]  # latitudes rise upwards
    assert page.get_by_test_id("reduction").inner_text() == "every cell"
    show(
        page, server, "maps.zarr", "/t2m", {"at": {"time": 1}, "coast": False, "colors": "magma", "limits": [270, 300]}
    )
    drawn = drawn_cells(page, np.arange(36) + 0.5, np.arange(18) + 0.5)
    there = ~np.isnan(T2M[1])
    wanted = colors_of(np.nan_to_num(T2M[1]), "magma", (270, 300))
    assert np.abs(drawn - wanted)[there].max() <= 2
    grey = drawn[~there]
    assert (np.ptp(grey, axis=-1) < 20).all()  # no colour of the map
    show(page, server, "maps.zarr", "/deep")
    assert box_of(page)["y"] == [0, 5]  # depths go down
    show(page, server, "maps.zarr", "/section")  # though they are the last dimension
    assert box_of(page)["y"] == [0, 5]
    drawn = drawn_cells(page, np.arange(6) + 0.5, np.arange(5) + 0.5)
    assert np.abs(drawn - colors_of(SECTION.T)).max() <= 2


def test_large_images_are_means(page: Page, server: Any) -> None:
    show(page, server, "big.zarr", "/plane")
    text = page.get_by_test_id("reduction").inner_text()
    rows, columns = map(int, re.fullmatch(r"mean of (\d+) x (\d+) cells", text).groups())  # type: ignore[union-attr]
    assert rows > 1 and columns > 1
    part = BIG[: 2000 // rows * rows, : 3000 // columns * columns].astype("f8")
    wanted = part.reshape(2000 // rows, rows, 3000 // columns, columns).mean(axis=(1, 3))
    at = np.arange(5, wanted.shape[1] - 5, 40), np.arange(5, wanted.shape[0] - 5, 30)
    drawn = drawn_cells(page, (at[0] + 0.5) * columns, (at[1] + 0.5) * rows)
    limits = (float(wanted.min()), float(np.arange(2000).max() + 2 * np.arange(3000).max()))
    assert np.abs(drawn - colors_of(wanted[np.ix_(at[1], at[0])], limits=limits)).max() <= 6


def test_colours_by_logarithms_and_maps_turned_around(page: Page, server: Any) -> None:
    """What is not above 0 has no colour; the legend has powers of ten."""
    cells = POWERS
    show(page, server, "big.zarr", "/powers", {"colors": "magma_r"})
    at = np.arange(8) + 0.5, np.arange(3) + 0.5
    assert np.abs(drawn_cells(page, *at) - colors_of(cells, "magma_r")).max() <= 2
    page.get_by_test_id("plot-log").check()
    wait(page)
    drawn, is_above = drawn_cells(page, *at), cells > 0
    wanted = colors_of(np.log(np.where(is_above, cells, 1e-3)), "magma_r", (np.log(1e-3), np.log(1e4)))
    assert np.abs(drawn - wanted)[is_above].max() <= 2
    assert (np.ptp(drawn[~is_above], axis=-1) < 20).all()
    until(page, "location.hash.includes('log')")
    boxes = [page.get_by_test_id(f"plot-{end}").input_value() for end in ("lowest", "highest")]
    assert boxes == ["0.001", "10000"]
    with page.expect_download() as download:
        page.get_by_test_id("download-svg").click()
    texts = re.findall(r">([^<>]+)</text>", download.value.path().read_text())
    assert {"0.01", "1", "100"} <= set(texts)
    page.get_by_test_id("plot-kind").select_option("line")
    wait(page)
    assert not page.get_by_test_id("plot-log").is_visible()


def test_the_table_shows_what_the_plot_does(page: Page, server: Any) -> None:
    """The slice of the sliders, along the dimensions of the plot; it follows both."""

    def rows() -> list[list[str]]:
        return page.locator("#table tbody tr").evaluate_all(
            "all => all.map(row => [...row.cells].map(each => each.textContent))"
        )

    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}})
    page.locator("#show-rows").click()
    until(page, "document.querySelectorAll('#table tbody tr').length === 18")
    np.testing.assert_allclose(np.array(rows(), "f4"), np.column_stack([LAT, T2M[2]]), rtol=1e-5)
    heads = page.locator("#table thead th").evaluate_all("all => all.map(each => each.firstChild.textContent)")
    assert heads == ["lat ↓ lon →", *(str(int(lon)) for lon in LON)]
    assert page.get_by_test_id("row-range").inner_text() == "rows 0 to 17 of 18, time 2"
    page.get_by_test_id("plot-x").select_option("lat")
    until(page, "document.querySelectorAll('#table tbody tr').length === 36")
    np.testing.assert_allclose(np.array(rows(), "f4")[:, 1:], T2M[2].T, rtol=1e-5)
    page.reload()
    wait(page)
    until(page, "document.querySelectorAll('#table tbody tr').length === 36")


def test_coastlines_are_drawn_where_they_are(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"limits": [-1000, 2000]})  # all of nearly one colour
    page.wait_for_timeout(300)
    with_coast, box = pixels_of(page), box_of(page)
    show(page, server, "maps.zarr", "/t2m", {"limits": [-1000, 2000], "coast": False})
    changed = np.abs(with_coast - pixels_of(page)).max(axis=-1) > 60

    def is_near(lon: float, lat: float) -> bool:
        x, y = place_of(box, lon / 10 + 0.5, (lat + 85) / 10 + 0.5)
        return bool(changed[int(y) - 5 : int(y) + 6, int(x) - 5 : int(x) + 6].any())

    assert is_near(360 - 17.5, 14.7)  # Cape Verde, Africa's westernmost point
    assert is_near(18.5, -34.3)  # Cape of Good Hope
    assert is_near(360 - 70, -53)  # Tierra del Fuego
    assert not is_near(20, 0) and not is_near(360 - 140, 20)  # Congo, and the middle of the Pacific


def test_longitudes_of_a_stranger_draw_no_coast(page: Page, server: Any) -> None:
    show(page, server, "strange.zarr", "/far")  # hundreds of times around the earth
    drawn = drawn_cells(page, np.arange(5, 600, 20) + 0.5, np.arange(5) + 0.5)
    assert np.abs(drawn - colors_of(np.arange(3000.0).reshape(5, 600))[:, 5::20]).max() <= 2


def test_numbers_beyond_32_bits_are_drawn(page: Page, server: Any) -> None:
    show(page, server, "strange.zarr", "/tiny", {"kind": "image"})
    drawn = drawn_cells(page, np.arange(6) + 0.5, np.arange(5) + 0.5)
    assert np.abs(drawn - colors_of(np.arange(30.0).reshape(5, 6))).max() <= 2
    show(page, server, "strange.zarr", "/tiny", {"kind": "line", "x": "column", "at": {"row": 1}})
    assert box_of(page)["y"] == pytest.approx([12.3e-47, 6.7e-47], rel=1e-3)


def test_a_plot_has_the_colours_of_the_page(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    light = pixels_of(page)
    page.get_by_test_id("theme").click()
    dark = pixels_of(page)
    cells, (x, y) = colors_of(T2M[0]), place_of(box_of(page), 7.5, 4.5)
    assert np.abs(dark[int(y), int(x)] - cells[4, 7]).max() <= 2
    assert (np.abs(dark - light).max(axis=-1) > 60).any()  # axes and their words
    page.get_by_test_id("theme").click()
    np.testing.assert_array_equal(pixels_of(page), light)


def test_curved_grids_lie_where_their_coordinates_say(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/curved", {"coast": False})
    y, x = np.meshgrid(np.linspace(40, 60, 12), np.linspace(-15, 20, 16), indexing="ij")
    cells = np.arange(192.0).reshape(12, 16)
    box, pixels = box_of(page), pixels_of(page)
    for row, column in [(0, 0), (5, 7), (11, 15), (3, 12)]:
        lon, lat = x[row, column] - y[row, column] / 10, y[row, column] + x[row, column] / 10
        left, top = place_of(box, lon, lat)
        wanted = colors_of(cells)[row, column]
        assert np.abs(pixels[int(top), int(left)] - wanted).max() <= 2, (row, column)
        page.get_by_test_id("pane-0").hover(position={"x": float(left), "y": float(top)})
        value, labels = told(page, f"{row},{column}")
        assert (value, labels.split(" · ")[2].rpartition(" ")[0]) == (str(16 * row + column), f"nav_lat {lat:.7g}")


def test_zoom_of_a_map_fetches_its_part(page: Page, server: Any) -> None:
    page.set_viewport_size({"width": 2560, "height": 1440})
    with counted_views(page) as views:
        show(page, server, "maps.zarr", "/curved", {"coast": False, "extent": [-15, 45, -8, 50]})
    whole, *parts = views
    assert "positions" in whole and "x_range" not in whole
    assert len(parts) == 2 and parts[0]["x_range"] == parts[1]["x_range"]
    first, last = map(int, parts[0]["x_range"][0].split(":"))
    assert first > 0 and last < 16
    y, x = np.meshgrid(np.linspace(40, 60, 12), np.linspace(-15, 20, 16), indexing="ij")
    left, top = place_of(box_of(page), (x - y / 10)[4, 3], (y + x / 10)[4, 3])
    page.get_by_test_id("pane-0").hover(position={"x": float(left), "y": float(top)})
    assert told(page, "4,3")[0] == str(4 * 16 + 3)
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    rows, columns = (slice(*map(int, parts[0][f"{axis}_range"][0].split(":"))) for axis in "yx")
    np.testing.assert_array_equal(names["cells"], np.arange(192.0).reshape(12, 16)[rows, columns])


def test_flags_are_told_by_their_words(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/kinds", {"coast": False})
    row, column = np.argwhere(KINDS == 5)[0]
    point(page, column + 0.5, row + 0.5)
    assert told(page, f"{row},{column}")[0] == "sea_ice (5)"
    with page.expect_download() as waiting:
        page.get_by_test_id("download-svg").click()
    drawn = Path(waiting.value.path()).read_text()
    for word in ("open sea", "land", "sea ice"):
        assert f">{word}</text>" in drawn
    fill = colors_of(np.array([[0.0, 1, 5]]))[0]
    for red, green, blue in fill:
        assert f'fill="rgb({red} {green} {blue})"' in drawn
    at = np.arange(36) + 0.5, np.arange(18) + 0.5
    assert np.abs(drawn_cells(page, *at) - colors_of(KINDS.astype("f8"), limits=(0, 5))).max() <= 2


def test_cells_of_no_grid_are_points(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/points", {"coast": False})
    box, pixels = box_of(page), pixels_of(page)
    lat, lon = np.linspace(-60, 60, 40), np.linspace(-170, 170, 40)
    for cell in (0, 12, 39):
        left, top = place_of(box, lon[cell], lat[cell])
        assert np.abs(pixels[int(top), int(left)] - colors_of(np.arange(40.0))[cell]).max() <= 2
        page.get_by_test_id("pane-0").hover(position={"x": float(left), "y": float(top)})
        assert told(page, str(cell))[0] == str(cell)


# -- pointer, sliders, zoom -------------------------------------------------------------------------------------------


def test_the_value_under_the_pointer_is_the_cell(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 3}})
    point(page, 7.5, 4.5)
    value, labels = told(page, "3,4,7")
    assert value.endswith(" K") and float(value[:-2]) == pytest.approx(float(T2M[3, 4, 7]), rel=1e-6)
    assert labels == "time 2000-03-01 · lat -45 degrees_north · lon 70 degrees_east"
    page.get_by_test_id("pane-0").press("ArrowUp")
    assert told(page, "3,5,7")[1].startswith("time 2000-03-01 · lat -35")
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 1}})
    point(page, 6.5, 4.5)
    assert told(page, "1,4,6")[0] == "missing"
    show(page, server, "big.zarr", "/plane")
    point(page, 2000.5, 700.5)
    value, _ = told(page, "700,2000")
    assert float(value) == BIG[700, 2000]
    assert "mean of" in page.get_by_test_id("readout-shown").inner_text()


def test_the_value_of_a_cell_is_that_of_the_picture(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 3}})
    point(page, 7.5, 4.5)
    told(page, "3,4,7")
    page.mouse.move(0, 0)
    page.get_by_test_id("slider-time").press("ArrowLeft")
    value, labels = told(page, "2,4,7")
    assert float(value[:-2]) == pytest.approx(float(T2M[2, 4, 7]), rel=1e-6) and labels.startswith("time 2000-02-30")
    page.get_by_test_id("plot-kind").select_option("line")
    until(page, "document.querySelector('[data-testid=readout]').dataset.index === undefined")
    assert page.get_by_test_id("readout-value").inner_text() == ""


def test_a_slider_moves_and_plays(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    slider = page.get_by_test_id("slider-time")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    wait(page)
    until(page, "document.querySelector('.plot-slider-label').textContent === '2000-02-30'")
    until(page, "decodeURIComponent(location.hash).includes('\"time\":2')")
    wanted = colors_of(T2M[2])
    until(page, "document.querySelector('[data-testid=plot]').dataset.state === 'done'")
    assert np.abs(drawn_cells(page, np.arange(36) + 0.5, np.arange(18) + 0.5) - wanted).max() <= 2
    page.locator(".plot-slider .plot-number").fill("1")
    page.locator(".plot-slider .plot-number").press("Enter")
    until(page, "document.querySelector('.plot-slider-label').textContent === '2000-02-29'")
    seen = set()
    page.get_by_test_id("play-time").click()
    for _ in range(60):
        seen.add(page.locator(".plot-slider-label").inner_text())
        if len(seen) == 4:
            break
        page.wait_for_timeout(60)
    page.get_by_test_id("play-time").click()
    assert seen == {"2000-02-28", "2000-02-29", "2000-02-30", "2000-03-01"}
    wait(page)


def test_what_plays_keeps_its_scale(page: Page, server: Any) -> None:
    """The limits are those of all frames that were played, until others are asked for."""

    def limits() -> list[float]:
        return [float(page.get_by_test_id(f"plot-{end}").input_value()) for end in ("lowest", "highest")]

    def is_near(*ends: float) -> bool:
        return bool(np.allclose(limits(), ends, rtol=1e-5))

    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    assert is_near(T2M[0].min(), T2M[0].max()) and page.get_by_test_id("plot-played").inner_text() == ""
    page.get_by_test_id("play-time").click()
    until(page, "document.querySelector('[data-testid=plot-played]').textContent === 'of 4 frames'")
    page.get_by_test_id("play-time").click()
    wait(page)
    ends = float(np.nanmin(T2M)), float(np.nanmax(T2M))
    assert is_near(*ends)
    page.locator(".plot-slider .plot-number").fill("2")
    page.locator(".plot-slider .plot-number").press("Enter")
    until(page, "document.querySelector('.plot-slider-label').textContent === '2000-02-30'")
    wait(page)
    drawn = drawn_cells(page, np.arange(36) + 0.5, np.arange(18) + 0.5)
    assert is_near(*ends) and np.abs(drawn - colors_of(T2M[2], limits=ends)).max() <= 2
    page.get_by_test_id("plot-auto").click()
    assert is_near(T2M[2].min(), T2M[2].max()) and page.get_by_test_id("plot-played").inner_text() == ""
    show(page, server, "maps.zarr", "/t2m", {"kind": "line", "x": "lon", "at": {"lat": 3}})
    page.get_by_test_id("play-time").click()
    until(page, "document.querySelector('[data-testid=plot-played]').textContent === 'of 4 frames'")
    page.get_by_test_id("play-time").click()
    wait(page)
    assert is_near(np.nanmin(T2M[:, 3]), np.nanmax(T2M[:, 3]))


def test_a_picture_with_colours_is_shown_band_by_band(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/rgb")
    assert (page.get_by_test_id("plot-x").input_value(), page.get_by_test_id("plot-y").input_value()) == (
        "column",
        "row",
    )
    assert page.get_by_test_id("slider-band").count() == 1


def test_an_address_holds_the_scale_of_what_was_played(page: Page, server: Any) -> None:
    ends = float(np.nanmin(T2M)), float(np.nanmax(T2M))
    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    page.get_by_test_id("play-time").click()
    until(page, "document.querySelector('[data-testid=plot-played]').textContent === 'of 4 frames'")
    page.get_by_test_id("play-time").click()
    wait(page)
    page.wait_for_timeout(400)  # an address is written so often and no more
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    wait(page)
    found = [float(page.get_by_test_id(f"plot-{end}").input_value()) for end in ("lowest", "highest")]
    assert np.allclose(found, ends, rtol=1e-5)


def test_a_line_goes_through_the_cell_that_was_clicked_at(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}, "coast": False})
    left, top = place_of(box_of(page), 7.5, 4.5)
    page.get_by_test_id("pane-0").click(position={"x": float(left), "y": float(top)})
    page.get_by_test_id("plot-kind").select_option("line")
    wait(page)
    until(page, "decodeURIComponent(location.hash).includes('\"lon\":7')")
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    np.testing.assert_array_equal(names["cells"], T2M[:, 4, 7])


def test_where_no_cell_lies_none_is_told(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/curved", {"coast": False})
    point(page, 0, 50)
    page.wait_for_selector('[data-testid="readout"][data-index]')
    box = box_of(page)
    page.get_by_test_id("pane-0").hover(position={"x": box["left"] + 4.0, "y": box["top"] + 4.0})
    page.wait_for_selector('[data-testid="readout"]:not([data-index])')
    assert page.get_by_test_id("readout-value").inner_text() == ""


def test_complex_numbers_are_drawn_part_by_part(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/waves")
    at = np.arange(6) + 0.5, np.arange(5) + 0.5
    assert np.abs(drawn_cells(page, *at) - colors_of(np.abs(WAVES))).max() <= 2
    point(page, 2.5, 1.5)
    value, _ = told(page, "1,2")
    assert (
        value == f"{WAVES[1, 2].real:.0f} \N{MINUS SIGN} {-WAVES[1, 2].imag:.0f}i V, magnitude {abs(WAVES[1, 2]):.9g}"
    )
    for part, wanted in (("real", WAVES.real), ("phase", np.angle(WAVES)), ("magnitude", np.abs(WAVES))):
        page.get_by_test_id("plot-part").select_option(part)
        until(page, f"location.hash.includes('{part}') || '{part}' === 'magnitude'")
        wait(page)
        assert np.abs(drawn_cells(page, *at) - colors_of(wanted)).max() <= 2
        names: dict[str, Any] = {}
        exec(page.get_by_test_id("python").inner_text(), names)
        np.testing.assert_array_equal(names["cells"], wanted)
        with page.expect_download() as waiting:
            page.get_by_test_id("download-svg").click()
        words = {"real": "real part (V)", "phase": "phase (radians)", "magnitude": "magnitude (V)"}[part]
        assert f">{words}</text>" in Path(waiting.value.path()).read_text()
    show(page, server, "maps.zarr", "/t2m")
    assert not page.get_by_test_id("plot-part").is_visible()


def test_zoom_fetches_what_is_seen(page: Page, server: Any) -> None:
    show(page, server, "big.zarr", "/plane")
    with counted_views(page) as views:
        point(page, 1500, 1000)
        for _ in range(8):
            page.mouse.wheel(0, -100)
        page.wait_for_timeout(200)
        wait(page)
    assert 1 <= len(views) <= 2  # not one for each turn of the wheel
    (first, last), (top, bottom) = (
        [int(end) for end in views[-1][axis][0].split(":")] for axis in ("x_range", "y_range")
    )
    assert 0 < first < 1500 < last < 3000 and 0 < top < 1000 < bottom < 2000
    assert (last - first, bottom - top) == pytest.approx((3000 / 1.3**8, 2000 / 1.3**8), abs=3)
    assert page.get_by_test_id("reduction").inner_text() == "every cell"
    columns, rows = np.arange(first + 5, last - 5, 37), np.arange(top + 5, bottom - 5, 31)
    limits = (float(BIG[top:bottom, first:last].min()), float(BIG[top:bottom, first:last].max()))
    drawn = drawn_cells(page, columns + 0.5, rows + 0.5)
    assert np.abs(drawn - colors_of(BIG[np.ix_(rows, columns)], limits=limits)).max() <= 3
    state = page.evaluate("decodeURIComponent(location.hash)")
    assert f'"x_range":[{first},{last}]' in state
    box = box_of(page)
    with counted_views(page) as views:
        x, y = box["left"] + 300, box["top"] + 200
        element = page.get_by_test_id("pane-0").bounding_box()
        assert element
        page.mouse.move(element["x"] + x, element["y"] + y)
        page.mouse.down()
        page.mouse.move(element["x"] + x - 150, element["y"] + y, steps=5)
        page.mouse.up()
        page.wait_for_timeout(200)
        wait(page)
    assert len(views) == 1
    moved = [int(end) for end in views[0]["x_range"][0].split(":")]
    assert moved[0] - first == pytest.approx(150 / box["width"] * (last - first), abs=2)
    page.get_by_test_id("pane-0").press("0")
    page.wait_for_timeout(200)
    wait(page)
    assert box_of(page)["x"] == [0, 3000]


def test_an_address_shows_the_same(page: Page, server: Any) -> None:
    view = {"x": "time", "y": "lat", "at": {"lon": 5}, "colors": "cividis", "limits": [250, 320], "kind": "image"}
    show(page, server, "maps.zarr", "/t2m", view)
    before = pixels_of(page)
    address = page.url
    with counted_views(page) as views:
        page.goto("about:blank")
        page.goto(address)
        wait(page)
    assert len(views) == 1 and views[0]["at"] == ["lon:5"]
    np.testing.assert_array_equal(pixels_of(page), before)
    drawn = drawn_cells(page, np.arange(4) + 0.5, np.arange(18) + 0.5)
    there = ~np.isnan(T2M[:, :, 5].T)
    wanted = colors_of(np.nan_to_num(T2M[:, :, 5].T), "cividis", (250, 320))
    assert np.abs(drawn - wanted)[there].max() <= 2


def test_a_new_view_gives_up_the_old_one(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    late: list[Any] = []
    page.route("**/api/view/**", lambda route: late.append(route) if not late else route.continue_())
    with page.expect_event("requestfailed") as failed:
        page.get_by_test_id("slider-time").press("ArrowRight")
        page.wait_for_timeout(150)
        assert len(late) == 1 and page.get_by_test_id("plot").get_attribute("data-state") == "loading"
        page.get_by_test_id("slider-time").press("ArrowRight")
    assert failed.value.url == late[0].request.url and "time%3A1" in failed.value.url
    wait(page)
    wanted = colors_of(T2M[2])
    assert np.abs(drawn_cells(page, np.arange(36) + 0.5, np.arange(18) + 0.5) - wanted).max() <= 2


# -- lines, traces, histograms ----------------------------------------------------------------------------------------


def test_lines_show_the_least_and_the_greatest(page: Page, server: Any) -> None:
    show(page, server, "big.zarr", "/line")
    assert re.fullmatch(r"minimum, mean and maximum of \d+ cells", page.get_by_test_id("reduction").inner_text())
    box = box_of(page)
    assert box["y"][0] > 9  # one cell of 100,000 is seen
    pixels = read_png(io.BytesIO(page.get_by_test_id("pane-0").screenshot()))
    left, top = place_of(box, 40_000, 7.3)  # between lines of the grid
    ground, spike = pixels[int(top), int(left) - 30], pixels[int(top), int(left) - 3 : int(left) + 4]
    assert (ground - spike).max() > 90  # one of 42 is a line of the grid
    point(page, 25_000.5, 0)
    until(page, "Math.abs(document.querySelector('[data-testid=readout]').dataset.index - 25000) < 300")
    index = int(page.get_by_test_id("readout").get_attribute("data-index") or 0)
    assert float(told(page, str(index))[0]) == pytest.approx(float(LINE[index]), rel=1e-6)


def test_lines_by_keys(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"kind": "line", "x": "lat", "at": {"lon": 3}})
    pane = page.get_by_test_id("pane-0")
    assert "left and right" in (pane.get_attribute("aria-label") or "")
    pane.press("ArrowRight")
    assert told(page, "0,9,3")[1].endswith("lon 30 degrees_east")
    pane.press("ArrowRight")
    assert told(page, "0,10,3")[1].startswith("time 2000-02-28 · lat 15")
    pane.press("ArrowLeft")
    told(page, "0,9,3")
    with counted_views(page) as views:
        pane.press("+")
        page.wait_for_timeout(200)
        wait(page)
        pane.press("Shift+ArrowRight")
        page.wait_for_timeout(200)
        wait(page)
        pane.press("0")
        page.wait_for_timeout(200)
        wait(page)
    (first, last), (moved, end) = ([int(each) for each in view["x_range"][0].split(":")] for view in views[:2])
    assert 0 < first < 9 < last < 18 and moved > first and end > last and "x_range" not in views[2]


def test_profiles_stand_upright(page: Page, server: Any) -> None:
    """Depths and pressures go down, however they are stored; a cell stands where its depth says."""
    show(page, server, "maps.zarr", "/profile")
    box, pixels = box_of(page), pixels_of(page).astype(int)
    low, high = box["x"]
    assert box["y"] == [0, 7] and low < 5 < 18 < high

    def top(depth: float) -> float:
        return box["top"] + (depth + 5) / 505 * box["height"]  # half a step before the first and behind the last one

    def left(value: float) -> float:
        return box["left"] + (value - low) / (high - low) * box["width"]

    background = pixels[int(top(450)), int(left(17))]
    for depth, value in ((75, 9.5), (150, 7), (300, 5.5)):  # half way along straight lines
        near = pixels[int(top(depth)) - 2 : int(top(depth)) + 3, int(left(value)) - 2 : int(left(value)) + 3]
        assert np.abs(near - background).max() > 60, depth
    page.get_by_test_id("pane-0").hover(position={"x": left(8), "y": top(100)})
    assert told(page, "4") == ("8 degC", "depth 100 m")
    page.get_by_test_id("pane-0").press("ArrowDown")
    assert told(page, "5") == ("6 degC", "depth 200 m")
    page.get_by_test_id("pane-0").press("ArrowUp")
    page.get_by_test_id("pane-0").press("ArrowUp")
    assert told(page, "3") == ("11 degC", "depth 50 m")
    with counted_views(page) as views:
        for _ in range(4):
            page.get_by_test_id("pane-0").press("+")
        page.wait_for_timeout(300)
        wait(page)
    assert views[-1]["x_range"] == ["2:5"] and box_of(page)["y"][0] >= 2
    until(page, "location.hash.includes('x_range')")
    with page.expect_download() as download:
        page.get_by_test_id("download-svg").click()
    texts = re.findall(r">([^<>]+)</text>", download.value.path().read_text())
    assert {"depth (m)", "profile (degC)", "50"} <= set(texts)
    show(page, server, "maps.zarr", "/sounding")
    assert box_of(page)["y"] == [5, 0]  # the last one is the least pressure
    show(page, server, "maps.zarr", "/section", {"kind": "line", "x": "levels", "at": {"cell": 2}})
    assert box_of(page)["y"] == [0, 5]
    page.get_by_test_id("plot-x").select_option("cell")
    wait(page)
    until(page, "document.querySelector('.uplot') !== null")


def test_a_line_over_time_is_zoomed(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"kind": "line", "x": "lon", "at": {"lat": 3}})
    box = box_of(page)
    assert box["x"] == pytest.approx([-5, 355])
    with counted_views(page) as views:
        element = page.get_by_test_id("pane-0").bounding_box()
        assert element
        start, stop = (place_of(box, lon, box["y"][0])[0] for lon in (95, 205))
        page.mouse.move(element["x"] + start, element["y"] + 100)
        page.mouse.down()
        page.mouse.move(element["x"] + stop, element["y"] + 100, steps=5)
        page.mouse.up()
        page.wait_for_timeout(200)
        wait(page)
    assert views[-1]["x_range"] in (["10:21"], ["10:20"], ["9:21"]) and views[-1]["at"] == ["time:0", "lat:3"]


def test_traces_keep_spikes(page: Page, server: Any) -> None:
    show(page, server, "lab.nwb.zarr", "/acquisition/probe/data")
    box, pixels = box_of(page), pixels_of(page)
    assert page.get_by_test_id("reduction").inner_text().startswith("minimum, mean and maximum of 1 x")
    assert box["x"] == [0, 20_000]
    left, _ = place_of(box, 7000.5, 0)
    top = int(place_of(box, 0, 0.3)[1])
    ground = np.median(pixels[top], axis=0)
    differs = np.abs(pixels[top, int(box["left"]) + 3 : int(box["left"] + box["width"]) - 3] - ground).max(axis=-1) > 40
    assert 0 < differs.sum() < 8 and abs(int(np.flatnonzero(differs)[0]) + box["left"] + 3 - left) < 4
    point(page, 7000.5, 2.5)
    until(page, "document.querySelector('[data-testid=readout]').dataset.index?.endsWith(',2')")
    assert "dim_0 9.5" in page.get_by_test_id("readout-labels").inner_text()


def test_traces_end_before_the_edge(page: Page, server: Any) -> None:
    """The first and the last channel have room for what goes further than half way to the next one."""
    views: list[tuple[str, str, dict[str, Any]]] = [
        ("lab.nwb.zarr", "/acquisition/probe/data", {}),  # one spike is ten times as high as the noise
        ("strange.zarr", "/slow", {"kind": "traces", "x": "sample", "y": "channel"}),
        ("strange.zarr", "/slow", {"kind": "traces", "x": "sample", "y": "channel", "y_range": [2, 5]}),
    ]
    for dataset, node, view in views:
        show(page, server, dataset, node, view)
        box, pixels = box_of(page), pixels_of(page)
        first, last = view.get("y_range", [0, {"/slow": 8}.get(node, 6)])
        assert first - (last - first) / 4 <= box["y"][0] <= first and last <= box["y"][1] <= last + (last - first) / 4
        top, left, width, height = (round(box[name]) for name in ("top", "left", "width", "height"))
        for row in (top + 1, top + height - 2):  # within the frame
            inside = pixels[row, left + 2 : left + width - 2]
            assert np.ptp(inside, axis=0).max() < 10, (node, view)  # the ground alone
    point(page, 1000.5, box["y"][1] - 0.05)  # below the last channel its cells are told
    until(page, "document.querySelector('[data-testid=readout]').dataset.index?.endsWith(',4')")


def test_a_histogram_counts_the_cells(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"kind": "histogram", "bins": 16, "at": {"time": 2}})
    counts, edges = np.histogram(T2M[2], 16)
    box, pixels = box_of(page), pixels_of(page)
    assert box["x"] == pytest.approx([edges[0], edges[-1]])
    for bin_ in (3, 8, 12):
        left, top = place_of(box, (edges[bin_] + edges[bin_ + 1]) / 2, counts[bin_])
        bar, above = pixels[int(top) + 3, int(left)], pixels[int(top) - 3, int(left)]
        assert np.abs(bar - above).max() > 40
        page.get_by_test_id("pane-0").hover(position={"x": float(left), "y": float(top)})
        assert page.get_by_test_id("readout-value").inner_text() == f"{counts[bin_]} cells"


# -- two arrays, damage, size, files ----------------------------------------------------------------------------------


def test_two_arrays_and_their_difference(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}, "coast": False})
    page.get_by_test_id("plot-pane").focus()
    until(page, "document.querySelector('[data-testid=plot-pane]').options.length > 1")
    page.get_by_test_id("plot-pane").select_option("/other")
    page.get_by_test_id("pane-2").wait_for()
    wait(page)
    columns, rows = np.arange(36) + 0.5, np.arange(18) + 0.5
    limits = (float(min(T2M[2].min(), OTHER[2].min())), float(max(T2M[2].max(), OTHER[2].max())))
    assert np.abs(drawn_cells(page, columns, rows, 0) - colors_of(T2M[2], limits=limits)).max() <= 2
    assert np.abs(drawn_cells(page, columns, rows, 1) - colors_of(OTHER[2], limits=limits)).max() <= 2
    difference = T2M[2].astype("f8") - OTHER[2]
    drawn = drawn_cells(page, columns, rows, 2)
    redness = drawn[..., 0] - drawn[..., 2]  # above zero red, below blue
    strong = np.abs(difference) > 0.3 * np.abs(difference).max()
    assert ((redness > 0) == (difference > 0))[strong].all()
    point(page, 7.5, 4.5, 1)
    value, _ = told(page, "2,4,7")
    assert float(value[:-2]) == pytest.approx(float(OTHER[2, 4, 7]), rel=1e-6)
    shown = page.get_by_test_id("readout-shown").inner_text()
    assert float(re.search(r"difference (\S+)", shown)[1]) == pytest.approx(difference[4, 7], rel=1e-3)  # type: ignore[index]
    page.get_by_test_id("slider-time").press("ArrowRight")
    page.wait_for_timeout(100)
    wait(page)
    limits = (float(min(T2M[3].min(), OTHER[3].min())), float(max(T2M[3].max(), OTHER[3].max())))
    assert np.abs(drawn_cells(page, columns, rows, 1) - colors_of(OTHER[3], limits=limits)).max() <= 2


def test_code_reads_the_cells_that_are_shown(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"kind": "traces", "x": "time", "y": "lon", "at": {"lat": 2}})
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    np.testing.assert_array_equal(names["cells"], T2M[:, 2, :32])
    pane = {"node": "/other", "operation": "difference"}
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}, "pane": pane})
    exec(page.get_by_test_id("python").inner_text(), names)
    np.testing.assert_array_equal(names["difference"], T2M[2] - OTHER[2])
    first, second = page.get_by_test_id("command").inner_text().splitlines()
    assert second == first.replace(" t2m ", " other ") != first
    assert page.get_by_test_id("download-note").inner_text().startswith("18 x 36 cells of /t2m, not of the difference")


def test_limits_that_are_none_are_marked(page: Page, server: Any) -> None:
    show(page, server, "maps.zarr", "/t2m", {"coast": False})
    lowest = page.get_by_test_id("plot-lowest")
    lowest.fill("1000")
    lowest.press("Enter")
    assert lowest.get_attribute("aria-invalid") == "true"
    lowest.fill("250")
    lowest.press("Enter")
    assert lowest.get_attribute("aria-invalid") == "false"


@pytest.mark.parametrize("width", [360, 1280])
def test_limits_with_exponents_have_room(page: Page, server: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    texts = {
        (-1.23456e-05, 2.34567e-107): ["-1.23456e-5", "2.34567e-107"],
        (-9.87654e-107, 98765.4): ["-9.87654e-107", "98765.4"],
    }
    for limits, wanted in texts.items():
        show(page, server, "maps.zarr", "/waves", {"limits": limits})
        boxes = [page.get_by_test_id(f"plot-{name}") for name in ("lowest", "highest")]
        assert [box.input_value() for box in boxes] == wanted
        assert all(box.evaluate("box => box.scrollWidth <= box.clientWidth") for box in boxes)
        auto = page.get_by_test_id("plot-auto").bounding_box()
        assert auto is not None and auto["x"] + auto["width"] <= width


def test_a_damaged_chunk_is_a_gap(page: Page, server: Any) -> None:
    show(page, server, "damaged.zarr", "/x")
    text = page.get_by_test_id("gaps").inner_text()
    assert text.startswith("Not read: column 20 to 39, row 10 to 19. CorruptChunk: ")
    drawn = drawn_cells(page, np.arange(40) + 0.5, np.arange(30) + 0.5)
    there = np.ones((30, 40), bool)
    there[10:20, 20:] = False
    wanted = colors_of(DAMAGED)
    assert np.abs(drawn - wanted)[there].max() <= 2
    point(page, 30.5, 12.5)
    assert told(page, "12,30")[0].startswith("CorruptChunk: ")
    point(page, 5.5, 12.5)
    assert told(page, "12,5")[0] == str(int(DAMAGED[12, 5]))


def test_ten_to_the_ten_cells(page: Page, server: Any) -> None:
    with counted_views(page) as views:
        show(page, server, "huge.zarr", "/cells")
    coarse, fine = views
    assert coarse["quick"] == ["1"] and int(coarse["width"][0]) <= int(fine["width"][0]) // 8 + 1
    text = page.get_by_test_id("reduction").inner_text()
    assert text.startswith("mean of") and "every" not in text  # chunks that were never written cost nothing
    point(page, 50_005.5, 50_005.5)
    until(page, "document.querySelector('[data-testid=readout]').dataset.index?.startsWith('5')")
    with counted_views(page) as views:
        show(page, server, "huge.zarr", "/cells", {"x": "dim_1", "y": "dim_0", "x_range": [49_990, 50_020]})
        show(page, server, "huge.zarr", "/cells", {"x_range": [49_990, 50_020], "y_range": [49_990, 50_020]})
    assert views[-1]["x_range"] == ["49990:50020"]
    wanted = np.full((30, 30), 7.0)
    wanted[10:20, 10:20] = 3
    drawn = drawn_cells(page, np.arange(49_990, 50_020) + 0.5, np.arange(49_990, 50_020) + 0.5)
    assert np.abs(drawn - colors_of(wanted)).max() <= 2


@pytest.mark.parametrize(
    ("width", "height", "columns"), [(400, 860, 1), (1280, 800, 2), (2560, 1440, 2), (2560, 900, 3)]
)
def test_panes_have_as_many_columns_as_there_is_room(
    page: Page, server: Any, width: int, height: int, columns: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    show(page, server, "maps.zarr", "/t2m", {"pane": {"node": "/other", "operation": "difference"}})
    boxes = [page.get_by_test_id(f"pane-{number}").bounding_box() for number in range(3)]
    assert len({box["x"] for box in boxes if box}) == columns
    last, controls = boxes[-1], page.locator(".plot-controls").bounding_box()
    assert last and controls
    assert (controls["y"] > last["y"]) == (width == 400)
    assert width == 400 or last["y"] + last["height"] <= height


def test_files_of_what_is_shown(page: Page, server: Any, tmp_path: Path) -> None:
    show(page, server, "maps.zarr", "/t2m", {"at": {"time": 2}, "coast": False})
    with page.expect_download() as found:
        page.get_by_test_id("download-png").click()
    assert found.value.suggested_filename == "t2m.png"
    found.value.save_as(tmp_path / "t2m.png")
    picture = read_png(tmp_path / "t2m.png")
    box = box_of(page)
    x, y = place_of(box, 9.5, 3.5)
    assert np.abs(picture[int(2 * (y + 26)), int(2 * x)] - colors_of(T2M[2])[3, 9]).max() <= 2
    with page.expect_download() as found:
        page.get_by_test_id("download-svg").click()
    found.value.save_as(tmp_path / "t2m.svg")
    text = (tmp_path / "t2m.svg").read_text()
    assert "<image" in text and "data:image/png" in text and "every cell" in text and ">30<" in text
    show(page, server, "big.zarr", "/line")
    with page.expect_download() as found:
        page.get_by_test_id("download-svg").click()
    found.value.save_as(tmp_path / "line.svg")
    text = (tmp_path / "line.svg").read_text()
    longest = max(re.findall(r' d="([^"]*)"', text), key=len)
    assert "<image" not in text and longest.count("L") > 500
    page.goto((tmp_path / "line.svg").as_uri())
    assert page.evaluate("document.documentElement.tagName") == "svg"


def test_a_view_of_a_stranger_is_taken_with_care(page: Page, server: Any) -> None:
    nonsense: list[dict[str, Any]] = [
        {"x": "nowhere", "y": 5, "kind": "<img>", "at": {"time": -1, "lat": "x"}, "limits": [2, 1]},
        {"x": "lat", "y": "lat", "x_range": [5, 5], "y_range": "all", "pane": {"node": 5}, "colors": "constructor"},
        {"at": None, "extent": [0, 0, 0, 0], "gain": 0, "bins": 10**9, "field": None, "limits": ["a", None]},
    ]
    for view in nonsense:
        show(page, server, "maps.zarr", "/t2m", view)
        assert page.get_by_test_id("reduction").inner_text()
    show(page, server, "maps.zarr", "/t2m")
    page.goto("about:blank")
    page.goto(f"{server.address}/#/data/maps.zarr?node=/t2m&view={quote(json.dumps({'pane': {'node': '/nowhere'}}))}")
    wait(page, "error")
    assert "NodeNotFound" in page.get_by_test_id("gaps").inner_text()
