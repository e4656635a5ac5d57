"""Real files of many kinds in the explorer, in Chromium: pixels, values under the pointer, sliders and what they
play, zoom, addresses and files are compared with what other libraries, or NumPy, hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import numpy as np
import pytest
from chromium import (
    MARKS,
    NEEDS_MATPLOTLIB,
    box_of,
    colors_of,
    drawn_cells,
    is_wrong,
    pixels_of,
    place_of,
    point,
    running_browser,
    told,
)

import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from servers.mongo import Mongo
    from servers.s3 import S3

pytestmark = [*MARKS, NEEDS_MATPLOTLIB]
RANDOM = np.random.default_rng(11)
FIELD = RANDOM.normal(280, 20, (5, 20, 30)).astype("f4")


@dataclass
class Real:
    """An array that is shown: where it lies, the ``node`` (None for the main one), its ``cells`` as another library has
    them, with NaN for missing ones, and where they are on the earth if they are drawn there (``lon``, ``lat``)."""

    url: str
    node: str | None
    cells: np.ndarray
    lon: np.ndarray | None = None
    lat: np.ndarray | None = None
    options: dict[str, Any] | None = None

    @property
    def plane(self) -> np.ndarray:
        """The cells at position 0 of the dimension that has a slider."""
        return self.cells if self.cells.ndim == 2 else self.cells[0]


@dataclass(frozen=True)
class Makers:
    """What places are made with."""

    folder: Path
    mongo: Mongo
    s3: S3


def read_sample(name: str, variable: str, makers: Makers, **places: str) -> Real:
    """A variable of a file of iris-sample-data, as netCDF4 has it."""
    samples = pytest.importorskip("iris_sample_data").path
    netcdf = pytest.importorskip("netCDF4")
    shutil.copy(Path(samples) / f"{name}.nc", makers.folder)
    with netcdf.Dataset(makers.folder / f"{name}.nc") as data:
        found = {key: np.ma.filled(data[each][:].astype("f8"), np.nan) for key, each in places.items()}
        cells = np.ma.filled(data[variable][:].astype(data[variable].dtype.newbyteorder("=")), np.nan)
    return Real(str(makers.folder / f"{name}.nc"), f"/{variable}", cells, **found)


def make_nwb(makers: Makers) -> Path:
    """A file with a series of each kind: 4 channels of a probe, and frames of 12 by 16 pixels."""
    pytest.importorskip("pynwb")
    from pynwb import NWBFile
    from pynwb.ecephys import ElectricalSeries
    from pynwb.ophys import OpticalChannel, TwoPhotonSeries

    from hyperslab.hdmf import HyperslabIO

    start = datetime(2024, 5, 2, tzinfo=UTC)
    made = NWBFile(session_description="a session", identifier="one", session_start_time=start)
    device = made.create_device(name="device")
    group = made.create_electrode_group(name="shank", description="a shank", location="cortex", device=device)
    for _ in range(4):
        made.add_electrode(group=group, location="cortex")
    electrodes = made.create_electrode_table_region(region=[0, 1, 2, 3], description="all")
    made.add_acquisition(
        ElectricalSeries(name="probe", data=PROBE, electrodes=electrodes, rate=1000.0, starting_time=0.0)
    )
    channel = OpticalChannel(name="green", description="green light", emission_lambda=500.0)
    plane = made.create_imaging_plane(
        optical_channel=channel,
        name="plane",
        description="a plane",
        device=device,
        excitation_lambda=600.0,
        indicator="GFP",
        location="V1",
    )
    series = TwoPhotonSeries(name="frames", data=FRAMES, imaging_plane=plane, rate=10.0, unit="n.a.")
    made.add_acquisition(series)
    path = makers.folder / "session.nwb.zarr"
    if not path.exists():
        with HyperslabIO(path, "w") as io:
            io.write(made)
    return path


PROBE = RANDOM.normal(0, 1, (200, 4)).cumsum(axis=0)
FRAMES = RANDOM.normal(100, 20, (6, 12, 16))


def make_b2nd(makers: Makers) -> Real:
    blosc2 = pytest.importorskip("blosc2")
    blosc2.asarray(FIELD, urlpath=str(makers.folder / "field.b2nd"), chunks=(1, 20, 30))
    return Real(str(makers.folder / "field.b2nd"), None, FIELD)


def make_bloscpack(makers: Makers) -> Real:
    with hs.create(makers.folder / "field.zarr") as root:
        root.create_array("field", data=FIELD, chunks=(1, 20, 30))
    hs.convert(makers.folder / "field.zarr", makers.folder / "field.blp", allow_loss=True)
    return Real(str(makers.folder / "field.blp"), None, FIELD)


def make_collection(makers: Makers) -> Real:
    dims = [DimensionSchema(dim, size) for dim, size in zip(("level", "lat", "lon"), FIELD.shape, strict=True)]
    schema = ArraySchema(dims, np.float32, [AttributeSchema("name", str, primary=True)])
    with Client(f"file://{makers.folder}/store", durable=False) as store:
        made = store.create_collection("fields", schema).create({"name": "one"})
        made[...].update(FIELD)
    return Real(str(makers.folder / "store"), f"/fields/{made.id}", FIELD)


def make_object(makers: Makers) -> Real:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("hyperslab.xarray")
    coords = {"time": np.arange(5), "lat": np.linspace(60.0, 41.0, 20), "lon": np.linspace(0.0, 29.0, 30)}
    url = f"{makers.mongo.url}/{makers.mongo.database()}#run"
    made = xr.Dataset({"field": (("time", "lat", "lon"), FIELD, {"units": "K"})}, coords)
    made.hyperslab.save(url, chunks={"time": 1}, durable=False)
    return Real(url, "/field", FIELD)


def make_bucket(makers: Makers) -> Real:
    url = f"s3://{makers.s3.bucket()}/field.zarr"
    with hs.create(url, storage_options=makers.s3.options) as root:
        root.create_array("field", data=FIELD, dims=("time", "y", "x"), chunks=(1, 10, 30), units="K")
    return Real(url, "/field", FIELD, options=makers.s3.options)


PLACES: dict[str, Callable[[Makers], Real]] = {
    "A1B": lambda makers: read_sample("A1B_north_america", "air_temperature", makers),
    "ostia": lambda makers: read_sample("ostia_monthly", "surface_temperature", makers),
    "orca2": lambda makers: read_sample("orca2_votemper", "votemper", makers, lon="nav_lon", lat="nav_lat"),
    "atlantic_profiles": lambda makers: read_sample("atlantic_profiles", "salinity", makers),
    "space_weather": lambda makers: read_sample("space_weather", "Ne", makers),
    "NWB, ecephys": lambda makers: Real(str(make_nwb(makers)), "/acquisition/probe/data", PROBE),
    "NWB, ophys": lambda makers: Real(str(make_nwb(makers)), "/acquisition/frames/data", FRAMES),
    "b2nd": make_b2nd,
    "bloscpack": make_bloscpack,
    "collection": make_collection,
    "MongoDB": make_object,
    "S3": make_bucket,
}
IMAGES = [name for name in PLACES if name != "NWB, ecephys"]
WITH_SLIDERS = [name for name in IMAGES if name != "orca2"]


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory, mongo: Mongo, s3: S3) -> Makers:
    return Makers(tmp_path_factory.mktemp("real"), mongo, s3)


@pytest.fixture(scope="module")
def served(makers: Makers) -> Iterator[Callable[[str], tuple[Real, str]]]:
    """Has a place made and served; returns it with the address of the array in the page, without a view."""
    known: dict[str, tuple[Real, str]] = {}
    with ExitStack() as stack:

        def serve(name: str) -> tuple[Real, str]:
            if name not in known:
                real = PLACES[name](makers)
                server = stack.enter_context(hs.serve(real.url, token="", storage_options=real.options))
                (place,) = server.zarr_urls
                node = real.node or httpx.get(f"{server.address}/api/browse/{place}").json()["main"]
                known[name] = real, f"{server.address}/#/{quote(place)}?node={node}"
            return known[name]

        yield serve


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        accept_downloads=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    made = context.new_page()
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    yield made
    context.close()
    assert wrong == []


def wait(page: Page) -> None:
    page.wait_for_selector('[data-testid="plot"][data-state="done"]')


def show(page: Page, found: tuple[Real, str], **view: Any) -> Real:
    """Show an array without coastlines, which would hide cells, and wait for all of it."""
    real, address = found
    page.goto("about:blank")
    page.goto(f"{address}&view={quote(json.dumps({'coast': False, **view}))}")
    wait(page)
    assert page.get_by_test_id("reduction").inner_text() == "every cell"
    return real


def state_of(page: Page) -> dict[str, Any]:
    """The view that the address holds."""
    query = parse_qs(urlsplit(page.url).fragment.partition("?")[2])
    state: dict[str, Any] = json.loads(query["view"][0])
    return state


def limits_of(real: Real) -> list[float]:
    return [float(np.nanmin(real.cells)), float(np.nanmax(real.cells))]


def assert_drawn(page: Page, real: Real, plane: np.ndarray, limits: Any = None) -> None:
    """The cells that are seen have their colours, and missing ones none."""
    box = box_of(page)
    (left, right), (top, bottom) = sorted(box["x"]), sorted(box["y"])
    wanted = colors_of(np.nan_to_num(plane, nan=float(np.nanmin(plane))), limits=limits or ends_of(plane))
    there = ~np.isnan(plane)
    if real.lon is None:
        columns, rows = np.arange(int(np.ceil(left)), int(right)), np.arange(int(np.ceil(top)), int(bottom))
        if box["width"] / columns.size < 4:  # the frame covers half of the outermost cells
            columns = columns[1:-1]
        assert columns.size and rows.size
        drawn = drawn_cells(page, columns + 0.5, rows + 0.5)
        part = np.ix_(rows, columns)
        assert np.abs(drawn - wanted[part])[there[part]].max() <= 2
        missing = drawn[~there[part]]
        assert missing.size == 0 or np.ptp(missing, axis=-1).max() < 25
        return
    assert real.lat is not None
    pixels, count = pixels_of(page), 0
    for row, column in zip(*np.nonzero(there & is_alone(real)), strict=True):
        lon, lat = real.lon[row, column], real.lat[row, column]
        lon += 360 * np.ceil((left - lon) / 360)
        if not (left + 1 < lon < right - 1 and top + 1 < lat < bottom - 1):
            continue
        x, y = place_of(box, lon, lat)
        assert np.abs(pixels[int(y), int(x)] - wanted[row, column]).max() <= 2, (row, column, lon, lat, x, y, box)
        count += 1
    assert count > 20


def ends_of(plane: np.ndarray) -> tuple[float, float]:
    """The limits of the colours of a plane, which are apart also where all of its cells are the same."""
    low, high = float(np.nanmin(plane)), float(np.nanmax(plane))
    room = (abs(low) or 1) / 2 if low == high else 0
    return low - room, high + room


def is_alone(real: Real) -> np.ndarray:
    """Return which cells of a curved grid no other covers: ORCA's first and last columns, and its last rows, are there
    twice, and near the poles many cells share a pixel."""
    assert real.lat is not None and real.lon is not None
    found = (np.abs(real.lat) < 60) & np.isfinite(real.lon)
    found[:, :3] = found[:, -3:] = found[-3:] = False
    return np.asarray(found)


def seen_cells(real: Real) -> list[tuple[int, int]]:
    """Rows and columns of some cells that are not missing."""
    free = ~np.isnan(real.plane) & (np.ones(real.plane.shape, bool) if real.lon is None else is_alone(real))
    found = np.argwhere(free)
    return [(int(row), int(column)) for row, column in found[:: max(len(found) // 3, 1)]]


@pytest.mark.parametrize("name", IMAGES)
def test_pixels_and_the_value_under_the_pointer(page: Page, served: Any, name: str) -> None:
    real = show(page, served(name))
    assert_drawn(page, real, real.plane)
    for row, column in seen_cells(real):
        if real.lon is None:
            point(page, column + 0.5, row + 0.5)
        else:
            assert real.lat is not None
            (west, _), lon = sorted(box_of(page)["x"]), real.lon[row, column]
            point(page, lon + 360 * np.ceil((west - lon) / 360), real.lat[row, column])
        index = f"{row},{column}" if real.cells.ndim == 2 else f"0,{row},{column}"
        value, _ = told(page, index)
        assert float(value.split()[0]) == pytest.approx(float(real.plane[row, column]), rel=1e-6)


@pytest.mark.parametrize("name", WITH_SLIDERS)
def test_a_slider_and_what_it_plays(page: Page, served: Any, name: str) -> None:
    limits = limits_of(served(name)[0])
    real = show(page, served(name), limits=limits)
    slider, play = page.locator('[data-testid^="slider-"]'), page.locator('[data-testid^="play-"]')
    assert slider.get_attribute("max") == str(len(real.cells) - 1)
    number = page.locator(".plot-slider .plot-number")
    number.fill("3")
    number.press("Enter")
    wait(page)
    assert list(state_of_once(page, "at")["at"].values()) == [3]
    assert_drawn(page, real, real.cells[3], limits)
    play.click()
    page.wait_for_function("() => Number(document.querySelector('[data-testid^=slider-]').value) === 0 || 5 <= "
                           "Number(document.querySelector('[data-testid^=slider-]').value)")  # fmt: skip
    play.click()
    wait(page)
    assert_drawn(page, real, real.cells[int(slider.input_value())], limits)


def state_of_once(page: Page, name: str) -> dict[str, Any]:
    """The view of the address, once the page itself, which writes no blanks, has told something there."""
    page.wait_for_function(f'() => /"{name}":[^ ]/.test(decodeURIComponent(location.hash))')
    return state_of(page)


@pytest.mark.parametrize("name", IMAGES)
def test_zoom_address_and_file(page: Page, served: Any, tmp_path: Path, name: str) -> None:
    limits = limits_of(served(name)[0])
    real = show(page, served(name), limits=limits)
    box = box_of(page)
    row, column = seen_cells(real)[1]
    if real.lon is None:
        point(page, column + 0.5, row + 0.5)
    else:
        assert real.lat is not None
        west, lon = sorted(box["x"])[0], real.lon[row, column]
        point(page, lon + 360 * np.ceil((west - lon) / 360), real.lat[row, column])
    for _ in range(3):
        page.mouse.wheel(0, -100)
    state = state_of_once(page, "x_range" if real.lon is None else "extent")
    wait(page)
    for axis in ("x", "y"):
        # whole cells of an image, degrees of a map
        slack = {"abs": 2} if real.lon is None else {"rel": 0.01}
        assert np.ptp(box_of(page)[axis]) == pytest.approx(np.ptp(box[axis]) / 1.3**3, **slack)
    assert_drawn(page, real, real.plane, limits)
    assert_address_shows_the_same(page)
    cells = np.load(download(page, tmp_path))
    if real.lon is None:
        part = [slice(*(state.get(f"{axis}_range") or (None,))) for axis in ("y", "x")]
        np.testing.assert_array_equal(cells, real.plane[tuple(part)])
        return
    # of a map the cells that are seen, and no more than whole blocks of rows and columns around them
    assert real.lat is not None
    (west, east), (south, north) = sorted(box_of(page)["x"]), sorted(box_of(page)["y"])
    inside = ((real.lon - west) % 360 <= east - west) & (real.lat >= south) & (real.lat <= north)
    rows, columns = place_in(real.plane, cells)
    assert inside.sum() > 10 and inside[rows, columns].sum() == inside.sum()


def place_in(plane: np.ndarray, part: np.ndarray) -> tuple[slice, slice]:
    """Where a part of a plane lies."""
    (height, width), (rows, columns) = part.shape, plane.shape
    corners = [(row, column) for row in range(rows - height + 1) for column in range(columns - width + 1)]
    places = [(slice(row, row + height), slice(column, column + width)) for row, column in corners]
    (found,) = [place for place in places if np.array_equal(plane[place], part, equal_nan=True)]
    return found


def assert_address_shows_the_same(page: Page) -> None:
    """What is copied as link shows the same pixels."""
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("() => document.getElementById('permalink').textContent === 'Copied'")
    address = page.evaluate("navigator.clipboard.readText()")
    state, before, box = state_of(page), pixels_of(page), box_of(page)
    page.goto("about:blank")
    page.goto(address)
    wait(page)
    assert state_of(page) == state and box_of(page) == box
    np.testing.assert_array_equal(pixels_of(page), before)


def download(page: Page, folder: Path) -> Path:
    """What is shown as a file of NumPy."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download as npy").click()
    waiting.value.save_as(folder / "part.npy")
    return folder / "part.npy"


def colored_rows(pixels: np.ndarray, x: float, color: list[int]) -> np.ndarray:
    """The rows of pixels at a column that have nearly a colour."""
    return np.flatnonzero(np.abs(pixels[:, int(x)] - color).max(axis=-1) < 90)


def accent_of(page: Page) -> list[int]:
    """The colour of lines."""
    text = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')")
    return [int(text[place : place + 2], 16) for place in (1, 3, 5)]


def test_traces_of_a_probe(page: Page, served: Any, tmp_path: Path) -> None:
    show(page, served("NWB, ecephys"), x_range=[20, 60])
    part, accent = PROBE[20:60], accent_of(page)

    def assert_lines(part: np.ndarray, first: int) -> None:
        box, pixels = box_of(page), pixels_of(page)
        sizes = np.sort(np.ptp(part, axis=0))
        step = sizes[len(sizes) // 2] / 1.2
        height = place_of(box, 0, 1)[1] - place_of(box, 0, 0)[1]
        for channel, sample in [(0, 1), (1, 7), (2, len(part) // 2), (3, len(part) - 2)]:
            x, middle = place_of(box, first + sample + 0.5, channel + 0.5)
            y = middle - (part[sample, channel] - part[:, channel].mean()) / step * height
            assert np.abs(colored_rows(pixels, x, accent) - y).min() <= 2, (channel, sample)

    assert_lines(part, 20)
    for channel, sample in [(0, 25), (3, 41)]:
        point(page, sample + 0.5, channel + 0.5)
        assert float(told(page, f"{sample},{channel}")[0].split()[0]) == pytest.approx(PROBE[sample, channel], rel=1e-6)
    page.get_by_test_id("pane-0").press("+")
    state = state_of_once(page, "x_range")
    wait(page)
    first, last = state["x_range"]
    assert 20 <= first < last <= 60 and last - first == pytest.approx(40 / 1.3, abs=2)
    rows = state.get("y_range") or [0, 4]
    if rows == [0, 4]:
        assert_lines(PROBE[first:last], first)
    assert_address_shows_the_same(page)
    np.testing.assert_array_equal(np.load(download(page, tmp_path)), PROBE[first:last, slice(*rows)])


def test_a_line_over_240_years(page: Page, served: Any, tmp_path: Path) -> None:
    real = show(page, served("A1B"), kind="line", x="time", at={"latitude": 10, "longitude": 20})
    box, pixels, accent = box_of(page), pixels_of(page), accent_of(page)
    cells = real.cells[:, 10, 20]
    (left, right), (top, bottom) = box["x"], box["y"]
    days = np.asarray(box_times(real))
    for year in (3, 100, 201, 236):
        x = box["left"] + (days[year] - left) / (right - left) * box["width"]
        y = box["top"] + (cells[year] - top) / (bottom - top) * box["height"]
        assert np.abs(colored_rows(pixels, x, accent) - y).min() <= 6, year
    element = page.get_by_test_id("pane-0")
    element.hover(position={"x": float(box["left"] + (days[100] - left) / (right - left) * box["width"]), "y": 100})
    page.wait_for_selector('[data-testid="readout"][data-index]')
    index = [int(each) for each in (page.get_by_test_id("readout").get_attribute("data-index") or "").split(",")]
    assert abs(index[0] - 100) <= 1 and index[1:] == [10, 20]
    value, labels = told(page, ",".join(map(str, index)))
    assert float(value.split()[0]) == pytest.approx(float(cells[index[0]]), rel=1e-6)
    assert labels.startswith(f"time {1860 + index[0]}-")
    np.testing.assert_array_equal(np.load(download(page, tmp_path)), cells)


def box_times(real: Real) -> list[float]:
    """The numbers of the coordinate of time, as netCDF4 has them."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(real.url) as data:
        return [float(each) for each in data["time"][:]]
