"""The explorer in Chromium: what it shows of trees, attributes and cells, by mouse and keys, against NumPy."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import h5py
import numpy as np
import pytest
from chromium import MARKS, NEEDS_MATPLOTLIB, colors_of, counted_views, is_wrong, pixels_in, running_browser

import hyperslab as hs
from format_variants import Places, dataset, save
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema
from hyperslab.web import nodes, places

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from servers.mongo import Mongo

pytestmark = MARKS
ROOT = Path(__file__).parents[2]
HOSTILE = "<img src=x onerror='window.canary=1'><script>window.canary=2</script>\u202eabc\x07"
CELLS = np.arange(120 * 4, dtype="i4").reshape(120, 4)
AIR = np.linspace(250, 310, 6 * 10 * 12).reshape(6, 10, 12)
# The npm package whose rules look for what cannot be used by keyboard or screen reader.
AXE = "axe-core@4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
TOKEN = "letmein"


def make_data(folder: Path) -> None:
    """Datasets of arrays, rows, tables, references and collections, and one with texts of a stranger."""
    with hs.create(folder / "air.zarr") as root:
        root.attrs.update({"title": "Air over a place", "history": "\n".join(f"step {i}: done" for i in range(40))})
        root.create_array("time", data=np.arange(6), dims=["time"], units="days since 2013-01-01")
        root.create_array("lat", data=np.linspace(50, 40, 10), dims=["lat"], units="degrees_north")
        root.create_array("lon", data=np.linspace(0, 11, 12), dims=["lon"], units="degrees_east")
        root.create_array("air", data=AIR, dims=["time", "lat", "lon"], units="K", chunks=(1, 10, 12))
        group = root.create_group("deep/deeper")
        group.create_array("cells", data=CELLS, dims=["row", "column"], units="m", attrs={"long_name": "some cells"})
        group.create_array("large", data=np.array([2**62 + 1, -(2**60)]))
        records = np.array([(1, 0.5), (2, 1.5)], [("number", "i4"), ("part", "f8")])
        group.create_array("records", data=records)
        group.create_array("tenths", data=np.full((1, 1, 200), 0.1, "f4"))
        group.create_array("words", data=np.array(["one", "two\nlines", "three"], np.dtypes.StringDType()))
    with hs.create(folder / "lab.nwb.zarr", "hdmf") as root:
        units = root.create_group("units", {"colnames": ["times", "name"], "neurodata_type": "Units"})
        units.create_array("id", data=np.arange(3))
        units.create_array("times", data=np.arange(7) / 2)
        units.create_array("times_index", data=np.array([2, 2, 7]))
        units.create_array("name", data=np.array(["a", "b", "c"], np.dtypes.StringDType()))
        root.create_link("shortcut", "units/id")
        root.attrs["main"] = root["units/times"].ref
    with hs.create(folder / "strange.zarr") as root:
        root.create_group(HOSTILE.replace("/", "|"), {HOSTILE: HOSTILE, "list": [HOSTILE]})
        root.create_array("x", data=np.arange(3), dims=[HOSTILE[:-1]], units=HOSTILE, attrs={"long_name": HOSTILE})
        root.create_array("words", data=np.array([HOSTILE], np.dtypes.StringDType()), attrs={"description": HOSTILE})
        dims = [f"{number}{HOSTILE[:-1]}" for number in range(3)]
        root.create_array("cube", data=np.arange(24).reshape(2, 3, 4), dims=dims, units=HOSTILE)
    (folder / "broken.zarr").mkdir()
    (folder / "broken.zarr" / "zarr.json").write_text("{")
    (folder / "notes.txt").write_text("no dataset")


def make_collection(folder: Path) -> None:
    """A database with one collection of 120 arrays."""
    attributes = [AttributeSchema("name", str, primary=True), AttributeSchema("depth", float, primary=False)]
    schema = ArraySchema(dimensions=[DimensionSchema("x", 3)], dtype=float, attributes=attributes)
    with Client(f"file://{folder}/store", durable=False) as store:
        collection = store.create_collection("weather", schema)
        for number in range(120):
            made = collection.create({"name": f"n{number:03}"}, {"depth": number / 2})
            made[:].update(np.full(3, float(number)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data") / "data"
    made.mkdir()
    make_data(made)
    make_collection(made.parent)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with hs.serve(folder, folder.parent / "store", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@contextmanager
def opened(browser: Browser, server: Any, *, width: int = 1280, dark: bool = False) -> Iterator[Page]:
    """A page of the server in a context of its own; what goes wrong in it is an error at the end."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        accept_downloads=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
    page.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    page.goto(server.url)
    yield page
    context.close()
    assert wrong == []


@pytest.fixture
def page(browser: Browser, server: Any) -> Iterator[Page]:
    with opened(browser, server) as found:
        yield found


def show(page: Page, server: Any, place: str, **query: Any) -> None:
    """Go to an address, and wait until all of it is there."""
    told = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    page.goto(f"{server.address}/#/{quote(place)}?{told}")
    wait(page)


def until(page: Page, expression: str, argument: Any = None) -> None:
    """Wait until an expression is true: Playwright's own waiting evaluates text, which the page's policy forbids."""
    for _ in range(300):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression} ({argument}); {page.inner_text('main')[:500]}")


def wait(page: Page) -> None:
    until(page, "document.getElementById('main').getAttribute('aria-busy') === null")


def item(page: Page, label: str) -> Any:
    """The row of the tree whose name this is."""
    return page.locator("#tree .row", has=page.locator(f':scope > .name:text-is("{label}")'))


def focused(page: Page) -> str:
    """The text of what has the focus."""
    text: str = page.evaluate("document.activeElement.querySelector('.name').textContent")
    return text


def cells_of(page: Page) -> list[list[str]]:
    """The cells of the table, row by row."""
    found: list[list[str]] = (
        page.get_by_test_id("table")
        .locator("tbody tr")
        .evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('td:not(.picture)')].map(cell => cell.textContent))"
        )
    )
    return found


# -- tree, details ----------------------------------------------------------------------------------------------------


def test_the_token_leaves_the_address(page: Page, server: Any) -> None:
    wait(page)
    assert TOKEN not in page.url and page.title() == "hyperslab"
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")


def test_the_tree_is_unfolded_level_by_level(page: Page, server: Any) -> None:
    wait(page)
    assert page.locator("#tree .name").all_inner_texts() == ["data", "store"]
    item(page, "data").click()
    item(page, "air.zarr").click()
    air = item(page, "air")
    air.wait_for()
    assert air.locator(".facts").inner_text() == "6 x 10 x 12 · K · 5.6 KiB"
    item(page, "deep").locator("> .fold").click()
    item(page, "deeper").locator("> .fold").click()
    item(page, "cells").wait_for()
    names = item(page, "deeper").locator("xpath=following-sibling::ul").locator(".name").all_inner_texts()
    assert sorted(names) == ["cells", "large", "records", "tenths", "words"]
    assert item(page, "deep").get_attribute("aria-expanded") == "true"
    item(page, "deep").locator("> .fold").click()
    assert not item(page, "cells").is_visible()


def test_long_levels_go_on(page: Page, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MOST_NODES", 3)
    show(page, server, "data/air.zarr")
    names = page.locator("#tree .row[aria-level='3'] .name")
    until(page, "document.querySelectorAll('#tree .more').length === 1")
    before = names.all_inner_texts()
    assert len(before) == 3 and before[-1] == "more …"
    item(page, "more …").click()
    until(page, "document.querySelectorAll('#tree .more').length === 0")
    assert sorted(names.all_inner_texts()) == ["air", "deep", "lat", "lon", "time"]
    assert focused(page) not in before


def test_many_nodes_and_attributes(browser: Browser, tmp_path: Path) -> None:
    documents = {"": {"zarr_format": 3, "node_type": "group", "attributes": {f"a{i}": "x" * 300 for i in range(2000)}}}
    for number in range(2500):
        documents[f"g{number:04}"] = {"zarr_format": 3, "node_type": "group"}
    for name, document in documents.items():
        (tmp_path / "many.zarr" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "many.zarr" / name / "zarr.json").write_text(json.dumps(document))
    with hs.serve(tmp_path / "many.zarr", token=TOKEN) as server, opened(browser, server) as page:
        until(page, "document.getElementById('title').textContent === 'many.zarr'")
        wait(page)
        until(page, "document.querySelectorAll('#tree .more').length === 1")
        assert page.get_by_test_id("details").locator(".attributes tr").count() == 501
        item(page, "more …").click()
        until(page, "document.querySelectorAll('#tree .row').length === 2501")
        item(page, "g2499").click()
        until(page, "document.getElementById('title').textContent === 'g2499'")


def test_names_that_are_not_shown_are_told(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_NAMES", 3)
    for name in "abcd":
        (tmp_path / "many" / name).mkdir(parents=True)
    with h5py.File(tmp_path / "many" / "a" / "file.h5", "w", track_order=True) as file:
        file["x"] = np.arange(3.0)
        file.create_dataset("refs", data=[file["x"].ref], dtype=h5py.ref_dtype)
    with hs.serve(tmp_path / "many", token=TOKEN) as server, opened(browser, server) as page:
        until(page, "document.getElementById('title').textContent === 'many'")
        wait(page)
        assert page.locator("#summary").inner_text() == "the first 3 names; there are more"
        assert page.locator("#tree .cut").inner_text() == "these are the first 3 names"
        show(page, server, "many/a/file.h5", node="/")
        assert "not shown: /refs: the array of HDF5 references" in page.locator("#names").inner_text()


def test_the_difference_of_numbers_of_any_size(page: Page, server: Any) -> None:
    """Numbers of 32 bits less some of 64: none of them is infinite, and what is close together stays apart."""
    script = """async () => {
      const base = [...document.scripts].find((each) => each.src.endsWith("/app.js")).src.replace(/app\\.js$/, "");
      const { Picture, subtract } = await import(`${base}picture.js`);
      const axis = { dim: "x", size: 2, start: 0, stop: 2, step: 1, block: 1, count: 2, labels: null, values: null };
      const picture = (factor) => new Picture({
        head: { x: axis, y: null, layers: ["cells"], factor, offset: 0, gaps: [], units: null },
        cells: Float32Array.of(1, 2),
      });
      return [subtract(picture(1), picture(2 ** 200)), subtract(picture(2 ** 200), picture(1))].map((found) => [
        ...found.layer(),
      ]);
    }"""
    wait(page)
    large = [2.0**200, 2.0**201]
    assert page.evaluate(script) == [[1 - large[0], 2 - large[1]], [large[0] - 1, large[1] - 2]]


def test_a_server_that_is_gone_is_told(browser: Browser, folder: Path) -> None:
    with hs.serve(folder / "air.zarr", token=TOKEN) as server, opened(browser, server) as page:
        until(page, "document.getElementById('title').textContent === 'air.zarr'")
        wait(page)
        server.close()
        page.locator("#names").get_by_role("link", name="air", exact=True).click()
        until(page, "!document.getElementById('notice').hidden")
        assert "does not answer" in page.locator("#notice").inner_text()


def test_attributes_dimensions_and_storage(page: Page, server: Any, folder: Path) -> None:
    show(page, server, "data/air.zarr", node="/air")
    details = page.get_by_test_id("details")
    with hs.open(folder / "air.zarr") as root:
        air = root["air"]
        told = dict(zip(details.locator("dt").all_inner_texts(), details.locator("dd").all_inner_texts(), strict=True))
        assert (told["Shape"], told["Chunks"], told["Units"]) == ("6 x 10 x 12", "1 x 10 x 12", "K")
        assert told["Type"] == "float64" and "blosc" in told["Codec"] and told["Format"] == "zarr3"
        assert told["Dataset"] == air.url
    cells = details.locator(".scrolled tbody tr").first.locator("th, td").all_inner_texts()
    labels = "2013-01-01T00:00:00 … 2013-01-06T00:00:00"
    assert cells == ["time", "6", labels, "days since 2013-01-01, standard", "/time"]
    details.get_by_role("link", name="/lat").click()
    until(page, "document.getElementById('title').textContent === 'lat'")
    assert "node=/lat" in page.url


def test_long_attributes_are_unfolded(page: Page, server: Any) -> None:
    show(page, server, "data/air.zarr")
    row = page.get_by_test_id("details").locator(".attributes tr", has_text="history")
    assert "step 39" not in row.inner_text()
    row.get_by_role("button").click()
    assert row.locator(".value").inner_text() == "\n".join(f"step {i}: done" for i in range(40))
    row.get_by_role("button").click()
    assert "step 39" not in row.inner_text()


def test_the_schema_of_a_collection_is_a_table(page: Page, server: Any) -> None:
    show(page, server, "store", node="/weather")
    table = page.get_by_test_id("details").locator("table.nested").first
    rows = dict(
        table.locator(":scope > tbody > tr").evaluate_all(
            "rows => rows.map(row => [row.querySelector('th').textContent, row.querySelector('td').textContent])"
        )
    )
    assert rows["name"] == "weather" and "{" not in table.inner_text()
    heads = table.locator("table.nested table.nested").last.locator("thead th").all_inner_texts()
    assert heads == ["name", "primary", "dtype"]
    cells = table.locator("table.nested table.nested").last.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["name", "true", "string"]


def test_links_and_references_lead_to_their_nodes(page: Page, server: Any) -> None:
    show(page, server, "data/lab.nwb.zarr", node="/shortcut")
    page.get_by_test_id("details").get_by_role("link", name="/units/id").first.click()
    until(page, "location.hash.includes('node=/units/id')")
    show(page, server, "data/lab.nwb.zarr")
    page.get_by_test_id("details").get_by_role("link", name="/units/times").click()
    until(page, "document.getElementById('title').textContent === 'times'")


# -- tables -----------------------------------------------------------------------------------------------------------


def test_cells_of_an_array_page_by_page(page: Page, server: Any) -> None:
    show(page, server, "data/air.zarr", node="/deep/deeper/cells", rows=0)
    page.wait_for_selector('[data-testid="table"][data-state="done"]')
    np.testing.assert_array_equal(np.array(cells_of(page), int), CELLS[:50])
    page.get_by_role("button", name="Rows after").click()
    until(page, "document.querySelector('[data-testid=row-range]').textContent.startsWith('rows 50')")
    np.testing.assert_array_equal(np.array(cells_of(page), int), CELLS[50:100])
    box = page.get_by_role("region", name="Rows")
    box.focus()
    box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    page.keyboard.press("PageDown")
    until(page, "document.querySelector('[data-testid=row-range]').textContent.startsWith('rows 100')")
    np.testing.assert_array_equal(np.array(cells_of(page), int), CELLS[100:])
    assert "rows=100" in page.url
    page.get_by_role("textbox", name="Go to row").fill("7")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('[data-testid=row-range]').textContent.startsWith('rows 7 ')")
    np.testing.assert_array_equal(np.array(cells_of(page), int), CELLS[7:57])
    assert page.get_by_test_id("row-range").inner_text() == "rows 7 to 56 of 120"


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("/deep/deeper/records", [["1", "0.5"], ["2", "1.5"]]),
        ("/deep/deeper/words", [["one"], ["two\nlines"], ["three"]]),
        ("/deep/deeper/tenths", [["0.1"]] * 50),
        ("/deep/deeper/large", [[str(2**62 + 1)], [str(-(2**60))]]),
    ],
)
def test_cells_of_other_types(page: Page, server: Any, node: str, wanted: list[list[str]]) -> None:
    show(page, server, "data/air.zarr", node=node, rows=0)
    page.wait_for_selector('[data-testid="table"][data-state="done"]')
    assert cells_of(page) == wanted


def test_ragged_columns_are_joined(page: Page, server: Any) -> None:
    show(page, server, "data/lab.nwb.zarr", node="/units")
    page.wait_for_selector('[data-testid="table"][data-state="done"]')
    assert cells_of(page) == [["0", "[0, 0.5]", "a"], ["1", "[]", "b"], ["2", "[1, 1.5, 2, 2.5, 3]", "c"]]


def test_arrays_of_a_collection(page: Page, server: Any, folder: Path) -> None:
    show(page, server, "store", node="/weather")
    page.wait_for_selector('[data-testid="table"][data-state="done"]')
    heads = page.get_by_test_id("table").locator("thead th").all_inner_texts()
    names = {row[heads.index("name") - 2] for row in cells_of(page)}
    assert len(names) == 50 and page.get_by_role("button", name="Last rows").is_disabled()
    page.get_by_role("searchbox", name="Where").fill("depth>=10 and name^=n02")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('[data-testid=row-range]').textContent.startsWith('rows 0 to 9 ')")
    place = page.get_by_test_id("table").locator("thead th").all_inner_texts().index("name") - 2
    assert sorted(row[place] for row in cells_of(page)) == [f"n02{number}" for number in range(10)]
    assert "filter=" in page.url
    page.get_by_role("button", name="depth").click()
    until(page, "location.hash.includes('order=depth')")
    page.get_by_role("button", name="depth ↑").click()
    until(page, "document.querySelector('[data-testid=table]').dataset.state === 'done'")
    until(page, "location.hash.includes('order=-depth')")
    page.locator("th[aria-sort=descending]").wait_for()
    assert [row[place] for row in cells_of(page)] == [f"n02{number}" for number in reversed(range(10))]
    page.go_back()
    page.go_back()
    page.locator("th[aria-sort]").wait_for(state="detached")
    line = page.get_by_test_id("command").inner_text()
    assert line == f"hyperslab db query {folder.parent}/store weather 'depth>=10' 'name^=n02'"
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    assert len(names["collection"]) == 120
    assert sorted(each.primary_attributes["name"] for each in names["arrays"]) == [
        f"n02{number}" for number in range(10)
    ]
    names["client"].close()
    page.get_by_role("searchbox", name="Where").fill("name=bread and butter and depth<=2")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('[data-testid=row-range]').textContent === 'no rows of 0'")
    until(page, "document.querySelector('[data-testid=command]').textContent.includes('butter')")
    line = page.get_by_test_id("command").inner_text()
    assert shlex.split(line)[-2:] == ["name=bread and butter", "depth<=2"]
    page.go_back()
    page.get_by_test_id("table").locator("tbody a").first.click()
    until(page, "location.hash.includes('/weather/')")
    wait(page)
    assert "3" in page.get_by_test_id("details").inner_text()


FIELDS = np.random.default_rng(5).normal(0, 1, (60, 2, 8, 12))
SERIES = np.array([[0.0, 4, 4, 0, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1, 9, 9]])


def make_pictured(folder: Path) -> None:
    """Collections of grids and of lines, of each the second array damaged."""
    name = AttributeSchema("name", str, primary=True)
    grid = [DimensionSchema(dim, size) for dim, size in zip(("level", "lat", "lon"), FIELDS.shape[1:], strict=True)]
    with Client(f"file://{folder}/pictured", durable=False) as store:
        for kind, dims, values in (("fields", grid, FIELDS), ("series", [DimensionSchema("x", 8)], SERIES)):
            collection = store.create_collection(kind, ArraySchema(dimensions=dims, dtype=float, attributes=[name]))
            for number, cells in enumerate(values):
                made = collection.create({"name": f"n{number:03}"})
                made[...].update(cells)
                if number == 1:
                    (chunk,) = (path for path in folder.rglob(f"{made.id}/c/**/*") if path.is_file())
                    chunk.write_bytes(b"damaged!")


def thumbnail(page: Page, name: str) -> Any:
    """The picture in the row of the array of this name, once it is there."""
    found = page.get_by_test_id("table").locator("tr", has_text=name).locator("canvas.thumbnail")
    found.scroll_into_view_if_needed()
    until(page, "name => document.querySelector(`canvas[aria-label^='Picture of ${name}']`).dataset.state", name)
    return found


@NEEDS_MATPLOTLIB
def test_thumbnails_of_grids(browser: Browser, tmp_path: Path) -> None:
    make_pictured(tmp_path)
    with hs.serve(tmp_path / "pictured", token=TOKEN) as server, opened(browser, server) as page:
        running: set[Any] = set()
        most = 0

        def count(request: Any) -> None:
            nonlocal most
            if "/api/view/" in request.url:
                running.add(request)
                most = max(most, len(running))

        page.on("request", count)
        page.on("requestfinished", lambda request: running.discard(request))
        with counted_views(page) as views:
            show(page, server, "pictured", node="/fields", order="name")
            page.wait_for_selector('[data-testid="table"][data-state="done"]')
            canvas = thumbnail(page, "n003")
            page.wait_for_timeout(500)
        assert most <= 3
        # those of the rows that are seen, and no others
        assert 5 < len(views) < 30 and all(view["thumbnail"] == ["1"] for view in views)
        pixels = pixels_in(canvas)
        assert pixels.shape == (40, 72, 3)
        # 12 columns of 6 pixels, 8 rows of 5: the first level
        np.testing.assert_allclose(pixels[2::5, 3::6], colors_of(FIELDS[3, 0]), atol=2)
        ends = (float(each) for each in re.findall(r"-?[\d.]+", canvas.get_attribute("aria-label").partition(":")[2]))
        np.testing.assert_allclose(list(ends), [FIELDS[3, 0].min(), FIELDS[3, 0].max()], rtol=1e-5)
        box = page.evaluate("document.querySelector('tbody tr:nth-child(40) canvas').getBoundingClientRect().toJSON()")
        assert page.locator("tbody tr:nth-child(40) canvas[data-state]").count() == 0
        assert (box["width"], box["height"]) == (72, 40)
        last = thumbnail(page, "n045")
        np.testing.assert_allclose(pixels_in(last)[2::5, 3::6], colors_of(FIELDS[45, 0]), atol=2)
        damaged = thumbnail(page, "n001")
        assert damaged.get_attribute("data-state") == "error"
        assert damaged.get_attribute("title").startswith("CorruptChunk: ")
        assert "not read" in damaged.get_attribute("aria-label")
        hatched = pixels_in(damaged)
        red = hatched[..., 0] - hatched[..., 2] > 40
        assert 0.1 < red.mean() < 0.6 and red.any(axis=1).all() and red.any(axis=0).all()


@NEEDS_MATPLOTLIB
def test_thumbnails_of_lines_follow_the_theme(browser: Browser, tmp_path: Path) -> None:
    make_pictured(tmp_path)
    with hs.serve(tmp_path / "pictured", token=TOKEN) as server, opened(browser, server) as page:
        show(page, server, "pictured", node="/series")
        page.wait_for_selector('[data-testid="table"][data-state="done"]')
        canvas = thumbnail(page, "n000")
        for _ in range(2):
            accent = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')")
            wanted = [int(accent[place : place + 2], 16) for place in (1, 3, 5)]
            is_line = np.abs(pixels_in(canvas) - wanted).max(axis=-1) < 20
            # cell i stands at (i + 0.5) / 8 of the width; 0 to 4 with 6 % above and below
            for cell, value in enumerate(SERIES[0]):
                top, left = 40 * (1 - (value + 0.24) / 4.48), 72 * (cell + 0.5) / 8
                near = is_line[max(int(top) - 2, 0) : int(top) + 3, int(left) - 1 : int(left) + 2]
                assert near.any(), (cell, value)
            assert is_line.mean() < 0.2
            page.get_by_test_id("theme").click()
        assert thumbnail(page, "n001").get_attribute("title").startswith("CorruptChunk: ")


def test_objects_of_a_database(browser: Browser, mongo: Mongo) -> None:
    database = f"{mongo.url}/{mongo.database()}"
    for number in range(3):
        save("mongo", f"{database}#{quote(f'run {number}')}", dataset("mongo"))
    with hs.serve(database, token=TOKEN) as server, opened(browser, server) as page:
        page.wait_for_selector('[data-testid="table"][data-state="done"]')
        for number in range(3):
            assert thumbnail(page, f"run {number}").get_attribute("data-state") == "done"
        links = page.get_by_test_id("table").locator("tbody a")
        assert sorted(links.all_inner_texts()) == ["run 0", "run 1", "run 2"]
        page.get_by_role("button", name="name").click()
        until(page, "location.hash.includes('order=name')")
        page.get_by_role("button", name="name ↑").click()
        page.locator("th[aria-sort=descending]").wait_for()
        assert links.all_inner_texts() == ["run 2", "run 1", "run 0"]
        page.get_by_role("searchbox", name="Where").fill("name=run 1")
        page.keyboard.press("Enter")
        until(page, "document.querySelectorAll('[data-testid=table] tbody tr').length === 1")
        links.click()
        until(page, "document.getElementById('title').textContent === 'run 1'")
        wait(page)
        page.locator("#names").get_by_role("link", name="air", exact=True).click()
        until(page, "document.getElementById('title').textContent === 'air'")
        wait(page)
        names: dict[str, Any] = {}
        exec(page.get_by_test_id("python").inner_text(), names)
        np.testing.assert_array_equal(names["cells"], dataset("mongo")["air"].values[0])


@pytest.mark.parametrize("name", ["b2nd", "bloscpack", "netcdf", "zarr2"])
def test_code_reads_every_format(browser: Browser, tmp_path: Path, name: str) -> None:
    from command_line import CliRunner
    from hyperslab.cli import main

    url = Places(tmp_path, "").new(name)
    save(name, url, dataset(name))
    with hs.serve(url, token=TOKEN) as server, opened(browser, server) as page:
        until(page, "document.getElementById('crumbs').children.length > 0")
        wait(page)
        if page.locator("#names a").count():
            page.locator("#names").get_by_role("link", name="air", exact=True).click()
        until(page, "document.getElementById('title').textContent === 'air'")
        wait(page)
        names: dict[str, Any] = {}
        exec(page.get_by_test_id("python").inner_text(), names)
        wanted = dataset(name)["air"].values[0]
        np.testing.assert_array_equal(names["cells"], wanted)
        words = shlex.split(page.get_by_test_id("command").inner_text())
        found = CliRunner().invoke(main, [*words[1:], "--json"])
        np.testing.assert_array_equal(json.loads(found.stdout)["values"], wanted)


# -- the address ------------------------------------------------------------------------------------------------------


def test_the_address_holds_what_is_shown(browser: Browser, page: Page, server: Any) -> None:
    wait(page)
    item(page, "data").click()
    item(page, "air.zarr").click()
    item(page, "deep").locator("> .fold").click()
    item(page, "deeper").locator("> .fold").click()
    item(page, "records").click()
    page.wait_for_selector('[data-testid="table"][data-state="done"]')
    page.get_by_test_id("permalink").click()
    address = page.evaluate("navigator.clipboard.readText()")
    assert address == page.url and TOKEN not in address
    with opened(browser, server) as other:
        other.goto(address)
        other.wait_for_selector('[data-testid="table"][data-state="done"]')
        assert cells_of(other) == cells_of(page) and other.title() == page.title()
        selected = other.locator('[role="treeitem"][aria-selected="true"] > .name').all_inner_texts()
        assert selected == ["records"]
    page.go_back()
    until(page, "document.getElementById('title').textContent === 'air.zarr'")
    page.go_back()
    until(page, "document.getElementById('title').textContent === 'data'")
    page.go_forward()
    page.go_forward()
    until(page, "document.getElementById('title').textContent === 'records'")
    assert page.url == address


def test_what_is_nowhere_is_told(page: Page, server: Any) -> None:
    for place, query, kind in (
        ("nowhere", {}, "NotFound"),
        ("data/notes.txt", {}, "NotFound"),
        ("data/broken.zarr", {}, "FormatError"),
        ("data/air.zarr", {"node": "/no/such/array"}, "NodeNotFound"),
        ("data/air.zarr", {"node": "/\x07"}, "Invalid"),
    ):
        show(page, server, place, **query)
        assert page.locator("#notice").inner_text().startswith(kind), place
    show(page, server, "data/air.zarr", node="/air", view="{broken", rows="x")
    assert page.locator("#notice").is_hidden()


# -- code and files ---------------------------------------------------------------------------------------------------

VIEW = {"x": "lon", "y": "lat", "at": {"time": 2}, "y_range": [1, 4]}


def test_code_gives_what_is_shown(page: Page, server: Any) -> None:
    from command_line import CliRunner
    from hyperslab.cli import main

    show(page, server, "data/air.zarr", node="/air", view=json.dumps(VIEW))
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    np.testing.assert_array_equal(names["cells"], AIR[2, 1:4])
    line = page.get_by_test_id("command").inner_text()
    found = CliRunner().invoke(main, [*shlex.split(line)[1:], "--json"])
    assert found.exit_code == 0, found.output
    np.testing.assert_array_equal(json.loads(found.stdout)["values"], AIR[2, 1:4])
    zarr = page.get_by_test_id("zarr").inner_text()
    options = {"client_options": {"default_headers": server.headers}}
    with hs.open(zarr, storage_options=options) as root:
        np.testing.assert_array_equal(root["air"][2, 1:4], AIR[2, 1:4])
    code = page.get_by_test_id("xarray").inner_text()
    assert json.dumps(zarr) in code and TOKEN not in code
    compile(code, "xarray", "exec")


def test_code_of_a_view_that_makes_no_sense_gives_what_is_drawn(page: Page, server: Any) -> None:
    view = {"x": "nowhere", "at": {"time": 99}, "y_range": "1:4", "x_range": [2, 5]}
    show(page, server, "data/air.zarr", node="/air", view=json.dumps(view))
    page.wait_for_selector('[data-testid="plot"][data-state="done"]')
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    np.testing.assert_array_equal(names["cells"], AIR[0, :, 2:5])
    assert json.loads(page.get_by_test_id("pane-0").get_attribute("data-box") or "")["x"] == [2, 5]


def test_code_that_a_page_may_not_copy_is_selected(browser: Browser, server: Any) -> None:
    """As that of a page that came by HTTP from another machine."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(server.url)
    show(page, server, "data/air.zarr", node="/air")
    page.get_by_role("button", name="Copy Python").click()
    until(page, "getSelection().toString().length > 0")
    assert page.evaluate("getSelection().toString()").strip() == page.get_by_test_id("python").inner_text().strip()
    context.close()


@pytest.mark.parametrize("node", ["/deep/deeper/records", "/deep/deeper/words", "/deep", "/"])
def test_code_of_other_nodes_runs(page: Page, server: Any, node: str) -> None:
    show(page, server, "data/air.zarr", node=node)
    exec(page.get_by_test_id("python").inner_text(), {})


def test_code_and_file_of_a_table_give_its_rows(page: Page, server: Any, tmp_path: Path) -> None:
    from command_line import CliRunner
    from hyperslab.cli import main

    show(page, server, "data/lab.nwb.zarr", node="/units")
    until(page, "document.querySelector('[data-testid=python]').textContent.includes('read_table(0, 3)')")
    names: dict[str, Any] = {}
    exec(page.get_by_test_id("python").inner_text(), names)
    assert names["columns"]["name"].tolist() == ["a", "b", "c"]
    assert [list(times) for times in names["columns"]["times"]] == [[0, 0.5], [], [1, 1.5, 2, 2.5, 3]]
    line = page.get_by_test_id("command").inner_text()
    found = CliRunner().invoke(main, shlex.split(line)[1:])
    assert found.stdout.split()[:7] == ["id", "times", "name", "0", "[0.0,", "0.5]", "a"], found.output
    with page.expect_download() as waiting:
        page.get_by_test_id("table-csv").click()
    assert waiting.value.suggested_filename == "units.csv"
    waiting.value.save_as(tmp_path / "units.csv")
    assert (tmp_path / "units.csv").read_text().splitlines()[:3] == ["id,times,name", '0,"[0.0, 0.5]",a', "1,[],b"]


def test_code_of_a_group_shows_what_is_in_it(page: Page, server: Any) -> None:
    from command_line import CliRunner
    from hyperslab.cli import main

    show(page, server, "data/air.zarr", node="/deep")
    line = page.get_by_test_id("command").inner_text()
    assert line.endswith("air.zarr/deep")
    found = CliRunner().invoke(main, shlex.split(line)[1:])
    assert found.exit_code == 0 and "cells" in found.stdout and "air" not in found.stdout.split(), found.output


def test_code_of_a_group_is_not_that_of_the_table_before(page: Page, server: Any) -> None:
    for place, node in (("data/lab.nwb.zarr", "/units"), ("store", "/weather")):
        show(page, server, place, node=node)
        page.get_by_test_id("table").locator("tbody tr").first.wait_for()
        show(page, server, "data/air.zarr", node="/deep")
        assert page.get_by_test_id("python").inner_text().endswith('print(root["deep"].tree())')
        assert page.get_by_test_id("command").inner_text().startswith("hyperslab tree ")


def test_a_name_like_an_option_is_no_option(browser: Browser, tmp_path: Path) -> None:
    from command_line import CliRunner
    from hyperslab.cli import main

    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("-owned.csv", data=np.arange(3), dims=("-x",))
        root.create_group("-h").create_array("cells", data=np.arange(2))
    with hs.serve(tmp_path / "a.zarr", token=TOKEN) as server, opened(browser, server) as page:
        for node, wanted in (("/-owned.csv", ["0", "1", "2"]), ("/-h", ["cells"])):
            show(page, server, "a.zarr", node=node)
            line = page.get_by_test_id("command").inner_text()
            found = CliRunner().invoke(main, shlex.split(line)[1:])
            assert found.exit_code == 0 and set(wanted) <= set(found.stdout.split()), (line, found.output)


def test_files_hold_what_is_shown(page: Page, server: Any, tmp_path: Path) -> None:
    show(page, server, "data/air.zarr", node="/air", view=json.dumps(VIEW))
    for title, ending in (("CSV", "csv"), ("npy", "npy"), ("netCDF", "nc")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download as {title}").click()
        assert waiting.value.suggested_filename == f"air.{ending}"
        waiting.value.save_as(tmp_path / f"air.{ending}")
    np.testing.assert_array_equal(np.load(tmp_path / "air.npy"), AIR[2, 1:4])
    rows = [line.split(",") for line in (tmp_path / "air.csv").read_text().splitlines()]
    assert rows[0] == ["lat", "lon", "air"]
    np.testing.assert_array_equal([float(row[2]) for row in rows[1:]], AIR[2, 1:4].ravel())
    with hs.open(tmp_path / "air.nc") as root:
        np.testing.assert_array_equal(root["air"][...], AIR[2, 1:4])


# -- strangers, keys, colours, sizes ----------------------------------------------------------------------------------


def test_texts_of_strangers_are_texts(page: Page, server: Any) -> None:
    show(page, server, "data/strange.zarr")
    seen = []
    for name in page.locator("#names a").all_inner_texts():
        page.get_by_role("link", name=name, exact=True).last.click()
        until(page, "name => document.getElementById('title').textContent === name", name)
        wait(page)
        if page.get_by_test_id("plot").is_visible():
            page.wait_for_selector('[data-testid="plot"][data-state="done"]')
        seen.append(page.inner_text("body"))
        assert page.locator("script:not([src]), [onerror], img[src='x'], iframe, object, embed, base").count() == 0
        page.go_back()
        until(page, "document.getElementById('title').textContent === 'strange.zarr'")
        wait(page)
    assert len(seen) == 4
    assert page.evaluate("window.canary") is None
    for text in seen:
        assert "<script>window.canary=2</script>⟨202E⟩abc" in text.replace("<|script>", "</script>")
        assert not re.search("[\u202e\x07]", text)
    assert page.evaluate("document.title").endswith("hyperslab")


def test_names_of_the_tree_are_filtered(page: Page, server: Any) -> None:
    """What a shown name lies in is shown, and what is in it; the way to what is open stays."""

    def names() -> list[str]:
        return page.locator("#tree .name:visible").all_inner_texts()

    page.goto(f"{server.address}/#/data/air.zarr?node=/lon")
    page.wait_for_selector("[data-testid='plot'][data-state='done']")
    page.get_by_test_id("tree-filter").fill("LAT")
    assert names() == ["data", "air.zarr", "lat", "lon"]
    item(page, "lat").click()
    page.wait_for_selector("h1:text-is('lat')")
    assert names() == ["data", "air.zarr", "lat"]
    item(page, "lat").press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.querySelector('.name').textContent") == "lat"
    page.get_by_test_id("tree-filter").fill("air")
    assert {"lat", "lon", "deep"} <= set(names()) and "lab.nwb.zarr" not in names()
    page.get_by_test_id("tree-filter").fill("")
    assert {"lat", "lon", "lab.nwb.zarr"} <= set(names())


def test_the_tree_by_keys(page: Page, server: Any) -> None:
    wait(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    item(page, "data").focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    assert focused(page).startswith("air.zarr")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('title').textContent === 'air.zarr'")
    item(page, "air").wait_for()
    page.keyboard.press("d")
    assert focused(page).startswith("deep")
    page.keyboard.press("ArrowRight")
    item(page, "deeper").wait_for()
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("deeper")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "4"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert item(page, "deep").get_attribute("aria-expanded") == "false"
    page.keyboard.press("Home")
    assert focused(page).startswith("data")
    assert page.locator('[role="tree"] [tabindex="0"]').count() == 1
    outline = item(page, "data").evaluate("row => getComputedStyle(row).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser: Browser, server: Any, dark: bool) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, black = "rgb(255, 255, 255)", "rgb(20, 22, 27)"
    with opened(browser, server, dark=dark) as page:
        wait(page)
        assert page.evaluate(colour) == (black if dark else light)
        page.get_by_test_id("theme").click()
        assert page.evaluate(colour) == (light if dark else black)
        page.reload()
        wait(page)
        assert page.evaluate(colour) == (light if dark else black)


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_pages_fit_their_screen_and_do_not_jump(browser: Browser, server: Any, width: int) -> None:
    with opened(browser, server, width=width) as page:
        page.add_init_script(
            "window.shifts = []; new PerformanceObserver(list => list.getEntries().forEach(e => "
            "e.hadRecentInput || window.shifts.push([e.value, ...e.sources.map(s => s.node?.id || s.node?.className)])"
            ")).observe({type: 'layout-shift', buffered: true})"
        )
        for place, query in (
            ("data", {}),
            ("data/air.zarr", {}),
            ("data/air.zarr", {"node": "/air", "rows": 0}),
            ("data/lab.nwb.zarr", {"node": "/units"}),
            ("data/strange.zarr", {"node": "/x"}),
            ("store", {"node": "/weather"}),
        ):
            page.goto("about:blank")
            show(page, server, place, **query)
            page.wait_for_timeout(300)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            inside = page.evaluate("(m => m.scrollWidth - m.clientWidth)(document.getElementById('main'))")
            assert (wide, inside) == (0, 0), (place, query)
            shifts = page.evaluate("window.shifts")
            assert sum(value for value, *_ in shifts) < 0.1, (place, query, shifts)


def test_the_tree_of_a_narrow_screen_is_behind_a_button(browser: Browser, server: Any) -> None:
    with opened(browser, server, width=400) as page:
        wait(page)
        assert not page.get_by_test_id("tree").is_visible()
        page.get_by_role("button", name="Datasets").click()
        item(page, "data").click()
        until(page, "document.getElementById('title').textContent === 'data'")
        assert not page.get_by_test_id("tree").is_visible()


def test_attributes_of_arrays_are_seen_on_a_narrow_screen(browser: Browser, server: Any) -> None:
    with opened(browser, server, width=400) as page:
        show(page, server, "store", node="/weather")
        page.wait_for_selector('[data-testid="table"][data-state="done"]')
        box = page.get_by_role("button", name="name", exact=True).bounding_box()
        assert box and box["x"] + box["width"] < 400
        link = page.get_by_test_id("table").locator("td.id").first
        assert len(link.inner_text()) == len(link.get_attribute("title") or "") == 36


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core, out of the npm package, which is fetched once."""
    kept = ROOT / ".venvs" / f"{AXE.replace('@', '-')}.tgz"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        npm = shutil.which("npm")
        command = [npm or "npm", "pack", AXE, "--silent", "--pack-destination", str(kept.parent)]
        if npm is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("needs npm and its registry, for axe-core")
    data = kept.read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == AXE_SHA512
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_axe_finds_nothing(browser: Browser, server: Any, axe: str, dark: bool, width: int) -> None:
    with opened(browser, server, width=width, dark=dark) as page:
        for place, query in (
            ("", {}),
            ("data/air.zarr", {}),
            ("data/air.zarr", {"node": "/air", "rows": 0}),
            ("data/lab.nwb.zarr", {"node": "/units"}),
            ("store", {"node": "/weather"}),
            ("data/broken.zarr", {}),
        ):
            show(page, server, place, **query)
            page.wait_for_timeout(300)
            page.evaluate(f"{axe}; 0")
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            faults = [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found["violations"]]
            assert faults == [], (place, query)


def test_the_first_load_is_small(browser: Browser, server: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(f"{server.url}#/data/air.zarr?node=/air")
    wait(page)
    page.wait_for_timeout(500)
    context.close()
    assert len(sizes) > 10 and sum(sizes) < 300 << 10
