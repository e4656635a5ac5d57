"""Debian's Chromium, as the tests of the page drive it by Playwright, and what it has drawn."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("playwright") is None, reason="needs playwright (make interop brings it)"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]
NEEDS_MATPLOTLIB = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib (make interop)")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def is_wrong(said: Any) -> bool:
    """True for what the console says of scripts and policies; answers with an error are told in the page."""
    return said.type == "error" and "Failed to load resource" not in said.text


# -- what is drawn -----------------------------------------------------------------------------------------------------


def box_of(page: Page, pane: int = 0) -> dict[str, Any]:
    """Where the cells of a pane are, in pixels, and the positions at its ends: left and right, top and bottom."""
    found: dict[str, Any] = json.loads(page.get_by_test_id(f"pane-{pane}").get_attribute("data-box") or "{}")
    return found


def place_of(box: dict[str, Any], x: float, y: float) -> tuple[float, float]:
    """The pixel of a position in a pane."""
    (a, b), (c, d) = box["x"], box["y"]
    return box["left"] + (x - a) / (b - a) * box["width"], box["top"] + (y - c) / (d - c) * box["height"]


def pixels_of(page: Page, pane: int = 0) -> np.ndarray:
    """The pixels of a pane: rows by columns by red, green, blue."""
    return pixels_in(page.get_by_test_id(f"pane-{pane}").locator("canvas"))


def pixels_in(canvas: Locator) -> np.ndarray:
    """The pixels of a canvas: rows by columns by red, green, blue."""
    link: str = canvas.evaluate("canvas => canvas.toDataURL()")
    return read_png(io.BytesIO(base64.b64decode(link.partition(",")[2])))


def read_png(file: Any) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray((imread(file, format="png")[..., :3] * 255).round().astype("i4"))


def colors_of(cells: np.ndarray, name: str = "viridis", limits: tuple[float, float] | None = None) -> np.ndarray:
    """The colours that matplotlib gives to cells."""
    import matplotlib as mpl

    low, high = limits or (float(np.nanmin(cells)), float(np.nanmax(cells)))
    part = np.clip(np.floor((cells - low) / (high - low) * 256), 0, 255).astype(int)
    return (np.asarray(mpl.colormaps[name](part))[..., :3] * 255).round().astype("i4")


def drawn_cells(page: Page, columns: np.ndarray, rows: np.ndarray, pane: int = 0) -> np.ndarray:
    """The colours in the middle of cells, by positions along both axes."""
    box, pixels = box_of(page, pane), pixels_of(page, pane)
    places = [[place_of(box, x, y) for x in columns] for y in rows]
    return np.array([[pixels[int(y), int(x)] for x, y in row] for row in places])


def point(page: Page, x: float, y: float, pane: int = 0) -> None:
    """Put the pointer over a position."""
    left, top = place_of(box_of(page, pane), x, y)
    page.get_by_test_id(f"pane-{pane}").hover(position={"x": float(left), "y": float(top)})


def told(page: Page, index: str) -> tuple[str, str]:
    """The value and the labels of a cell, once it is read."""
    page.wait_for_selector(f'[data-testid="readout"][data-index="{index}"]')
    return page.get_by_test_id("readout-value").inner_text(), page.get_by_test_id("readout-labels").inner_text()


@contextmanager
def counted_views(page: Page) -> Iterator[list[dict[str, list[str]]]]:
    """The queries of the views that are fetched meanwhile."""
    found: list[dict[str, list[str]]] = []

    def count(request: Any) -> None:
        address = urlsplit(request.url)
        if address.path.startswith("/api/view/"):
            found.append(parse_qs(address.query))

    page.on("request", count)
    yield found
    page.remove_listener("request", count)
