"""Debian's Chromium, as the tests of the page drive it by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("playwright") is None, reason="needs playwright (make interop brings it)"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]


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
