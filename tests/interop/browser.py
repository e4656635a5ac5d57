"""Headless Chromium: a page as it looks, and what a script in it finds."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")


_QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")
_QUIET += ("--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync")


def find() -> str | None:
    """The browser's command, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _run(page: Path, width: int, height: int, dark: bool, *flags: str) -> str:
    """``dark``: the user prefers dark pages, which changes those that say that they can be dark."""
    command = [find() or "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},{height}"]
    command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def text_of(address: str, profile: Path) -> str:
    """The document at an address once its scripts have had five seconds, as the browser has it then."""
    command = [*_QUIET, f"--user-data-dir={profile}", "--dump-dom", "--virtual-time-budget=5000", address]
    return subprocess.run(
        [find() or "chromium", *command], capture_output=True, text=True, timeout=120, check=True
    ).stdout


@contextmanager
def visiting(address: str, profile: Path) -> Iterator[None]:
    """The browser at an address, until the block ends."""
    command = [find() or "chromium", *_QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0"]
    process = subprocess.Popen(
        [*command, "--window-size=1400,1000", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def screenshot(page: Path, target: Path, *, width: int, height: int, dark: bool = False) -> None:
    """The page as a PNG."""
    _run(page, width, height, dark, f"--screenshot={target}")


def measure(page: Path, *, width: int = 900, dark: bool = False) -> dict[str, Any]:
    """What measure.js says of the page, with everything unfolded: see there."""
    text = page.read_text(encoding="utf-8")
    measured = page.with_name(f"measured-{page.name}")
    measured.write_text(
        f"<script>window.called = []; window.alert = (x) => called.push(x)</script>{text}<script>{MEASURE}</script>"
        if "<!doctype" not in text[:20].lower()
        else f"{text}<script>{MEASURE}</script>",
        encoding="utf-8",
    )
    dom = _run(measured, width, 1200, dark, "--dump-dom", "--virtual-time-budget=3000")
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.S)
    assert found, "the script in the page did not run"
    result: dict[str, Any] = json.loads(html.unescape(found[1]))
    return result
