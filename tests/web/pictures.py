"""Pictures of the explorer in Chromium, of each page at 400, 1,280 and 2,560 pixels, in light and in dark.

``python tests/web/pictures.py`` takes those in docs/images. ``python tests/web/pictures.py FOLDER`` takes those of all
kinds of pages and places that the tests open, with a sheet of the six of each: for whoever changes what the page looks
like.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from chromium import running_browser
from PIL import Image

import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema, Scale

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
# A telephone, a small and a large screen.
SIZES = ((400, 860), (1280, 800), (2560, 1440))
THEMES = ("light", "dark")
# Milliseconds after all is drawn, in which small pictures in tables and coastlines arrive.
REST = 600
SAMPLES = 30_000


def take_pictures(target: Path, addresses: Mapping[str, str]) -> None:
    """Take six pictures of each page, `addresses` by name, as `target/NAME-WIDTH-THEME.png`."""
    target.mkdir(parents=True, exist_ok=True)
    with running_browser() as browser:
        for (width, height), theme in product(SIZES, THEMES):
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            page = context.new_page()
            for name, address in addresses.items():
                page.goto("about:blank")
                page.goto(address)
                wait(page)
                page.screenshot(path=target / f"{name}-{width}-{theme}.png")
            context.close()


def wait(page: Page) -> None:
    """Wait until nothing of the page is being fetched."""
    busy = "[aria-busy=true], [data-state=loading], [data-state=coarse]"
    page.wait_for_timeout(100)
    for _ in range(300):
        if not page.evaluate("busy => document.querySelector(busy) !== null", busy):
            break
        page.wait_for_timeout(100)
    page.wait_for_timeout(REST)


def compress(source: Path, target: Path) -> None:
    """Write the pictures of `source` into `target` as WebP, with 64 shades of each of red, green and blue.

    That is less than a third of the bytes of PNG. Of 256 colours it would be a quarter, but those that are rare get
    lost: the logo's, and one half of a legend.
    """
    shades = [round(round(value / 255 * 63) * 255 / 63) for value in range(256)]
    for path in sorted(source.glob("*.png")):
        with Image.open(path) as picture:
            few = picture.convert("RGB").point(shades * 3)
        few.save(target / f"explorer-{path.stem}.webp", lossless=True, quality=100, method=6)


def address_of(server: Any, place: str, node: str | None = None, **query: Any) -> str:
    """Return the address of a node of a place, with its `view`, a mapping, and what else its state has."""
    words = {"node": node, **query}
    told = [
        f"{name}={quote(json.dumps(each) if name == 'view' else str(each))}" for name, each in words.items() if each
    ]
    return f"{server.address}/#/{quote(place)}?{'&'.join(told)}"


# -- the docs ---------------------------------------------------------------------------------------------------------


def make_scenarios(folder: Path) -> None:
    """Write `scenarios.zarr`: how warm North America gets in two scenarios of emissions, in one dataset."""
    with (
        hs.open(folder / "america.nc") as one,
        hs.open(samples() / "E1_north_america.nc") as other,
        hs.create(folder / "scenarios.zarr") as root,
    ):
        for dim in ("time", "latitude", "longitude"):
            made = one[dim]
            attrs = {name: made.attrs[name] for name in ("standard_name", "calendar") if name in made.attrs}
            root.create_array(dim, data=made[...], dims=[dim], units=made.units, attrs=attrs)
        for name, source in (("A1B", one), ("E1", other)):
            cells = source["air_temperature"][...]
            attrs = {"long_name": f"air temperature in scenario {name}"}
            dims = ["time", "latitude", "longitude"]
            root.create_array(name, data=cells, dims=dims, chunks=(1, 37, 49), units="K", attrs=attrs)


def make_session(folder: Path) -> None:
    """Write `session.nwb.zarr`: 40 units, and 12 channels of a probe that show when some of these fired."""
    from pynwb import NWBFile
    from pynwb.ecephys import ElectricalSeries

    from hyperslab.hdmf import HyperslabIO

    random = np.random.default_rng(7)
    made = NWBFile("units of one session", "lab", datetime(2024, 5, 2, tzinfo=UTC))
    made.add_unit_column("quality", "how well the unit is isolated")
    for number in range(40):
        spikes = np.round(np.sort(random.uniform(0, 60, random.integers(2, 9))), 3)
        made.add_unit(spike_times=spikes, quality=("good", "fair", "poor")[number % 3])
    device = made.create_device(name="probe")
    group = made.create_electrode_group(name="shank", description="a shank", location="cortex", device=device)
    for _ in range(12):
        made.add_electrode(group=group, location="cortex")
    electrodes = made.create_electrode_table_region(region=list(range(12)), description="all")
    data = make_traces(random)
    made.add_acquisition(ElectricalSeries(name="probe", data=data, electrodes=electrodes, rate=30_000.0))
    with HyperslabIO(folder / "session.nwb.zarr", "w") as file:
        file.write(made)


def make_traces(random: np.random.Generator) -> np.ndarray:
    """Return samples by 12 channels, in volts: noise, a slow wave, and spikes of units near some of the channels."""
    times = np.arange(SAMPLES) / 30_000
    cells = random.normal(0, 3e-6, (SAMPLES, 12)) + 2e-5 * np.sin(2 * np.pi * 8 * times)[:, None]
    spike = -np.exp(-((np.arange(60) - 20) ** 2) / 30) + 0.35 * np.exp(-((np.arange(60) - 36) ** 2) / 90)
    for middle in (1, 4, 7, 10):
        for start in random.integers(0, SAMPLES - 60, 14):
            near = np.exp(-((np.arange(12) - middle) ** 2) / 1.5)
            cells[start : start + 60] += 1.4e-4 * spike[:, None] * near
    return cells.astype("f4")


def make_years(folder: Path) -> None:
    """Write `years`: a collection of every fifth year of `america.nc`, each a grid with its warmest cell."""
    attributes = [AttributeSchema("year", int, primary=True), AttributeSchema("warmest", float, primary=False)]
    with hs.open(folder / "america.nc") as root, Client(f"file://{folder}/years", durable=False) as store:
        air = root["air_temperature"]
        dims = [
            DimensionSchema("latitude", 37, scale=Scale(15.0, 1.25)),
            DimensionSchema("longitude", 49, scale=Scale(225.0, 1.875)),
        ]
        years = store.create_collection("air_temperature", ArraySchema(dims, np.float32, attributes))
        for position in range(0, 240, 5):
            cells = air[position]
            made = years.create({"year": 1860 + position}, {"warmest": round(float(cells.max()), 2)})
            made[...].update(cells)


def samples() -> Path:
    """Return the folder of iris-sample-data."""
    import iris_sample_data

    return Path(iris_sample_data.path)


@contextmanager
def pages_of_docs() -> Iterator[dict[str, str]]:
    """Serve real data (iris-sample-data), and an NWB file (pynwb), for the block; returns addresses by name."""
    folder = Path(tempfile.gettempdir()) / "data"  # which pages show
    folder.mkdir()
    try:
        shutil.copy(samples() / "A1B_north_america.nc", folder / "america.nc")
        make_scenarios(folder)
        make_session(folder)
        make_years(folder)
        places = ("america.nc", "scenarios.zarr", "session.nwb.zarr", "years")
        with hs.serve(*(folder / place for place in places), token="") as server:
            line = {"kind": "line", "x": "time", "at": {"latitude": 20, "longitude": 25}}
            difference = {"at": {"time": 239}, "pane": {"node": "/E1", "operation": "difference"}}
            yield {
                "map": address_of(server, "america.nc", "/air_temperature"),
                "line": address_of(server, "america.nc", "/air_temperature", view=line),
                "difference": address_of(server, "scenarios.zarr", "/A1B", view=difference),
                "traces": address_of(
                    server, "session.nwb.zarr", "/acquisition/probe/data", view={"x_range": [0, 1800]}
                ),
                "table": address_of(server, "session.nwb.zarr", "/units"),
                "collection": address_of(server, "years", "/air_temperature", order="-warmest"),
            }
    finally:
        shutil.rmtree(folder)


# -- all kinds of pages and places ------------------------------------------------------------------------------------

PAGES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "folder": ("data", None, {}),
    "dataset": ("data/air.zarr", None, {}),
    "rows": ("data/air.zarr", "/air", {"rows": 0}),
    "attributes": ("data/strange.zarr", "/x", {}),
    "error": ("data/broken.zarr", None, {}),
    "plane": ("data/big.zarr", "/plane", {}),
    "long-line": ("data/big.zarr", "/line", {}),
    "histogram": ("data/maps.zarr", "/t2m", {"view": {"kind": "histogram"}}),
    "flags": ("data/maps.zarr", "/kinds", {}),
    "points": ("data/maps.zarr", "/points", {}),
    "curved": ("data/maps.zarr", "/curved", {}),
    "complex": ("data/maps.zarr", "/waves", {}),
    "beside": ("data/maps.zarr", "/t2m", {"view": {"pane": {"node": "/other", "operation": "beside"}}}),
    "damaged": ("data/damaged.zarr", "/x", {}),
    "huge": ("data/huge.zarr", "/cells", {}),
}


@contextmanager
def pages_of_tests() -> Iterator[dict[str, str]]:
    """Serve what the tests of the page, of plots and of real places open, for the block; returns addresses by name."""
    import test_page
    import test_plots
    import test_real_places

    from servers.mongo import running_mongod
    from servers.s3 import running_s3

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = folder / "data"
        data.mkdir()
        test_plots.make_data(data)
        for name in ("strange.zarr", "lab.nwb.zarr"):  # others of these names are made next
            shutil.rmtree(data / name)
        test_page.make_data(data)
        server = stack.enter_context(hs.serve(data, token=""))
        found = {name: address_of(server, place, node, **query) for name, (place, node, query) in PAGES.items()}
        servers = stack.enter_context(running_mongod()), stack.enter_context(running_s3())
        makers = test_real_places.Makers(folder, *servers)
        for name, make in test_real_places.PLACES.items():
            real = make(makers)
            server = stack.enter_context(hs.serve(real.url, token="", storage_options=real.options))
            (place,) = server.zarr_urls
            found[name.replace(", ", "-")] = address_of(server, place, real.node)
        yield found


def make_sheet(target: Path, name: str) -> None:
    """Put the six pictures of a page on one sheet, light above dark, as `target/sheet-NAME.png`."""
    height = SIZES[-1][1]
    sheet = Image.new("RGB", (sum(width for width, _ in SIZES), 2 * height), "grey")
    for row, theme in enumerate(THEMES):
        left = 0
        for width, _ in SIZES:
            with Image.open(target / f"{name}-{width}-{theme}.png") as picture:
                sheet.paste(picture, (left, row * height))
            left += width
    sheet.save(target / f"sheet-{name}.png")


if __name__ == "__main__":
    if sys.argv[1:]:
        folder = Path(sys.argv[1])
        with pages_of_tests() as addresses:
            take_pictures(folder, addresses)
        for page in addresses:
            make_sheet(folder, page)
    else:
        with pages_of_docs() as addresses, tempfile.TemporaryDirectory() as name:
            take_pictures(Path(name), addresses)
            compress(Path(name), IMAGES)
