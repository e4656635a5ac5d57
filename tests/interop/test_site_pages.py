"""The site in Chromium: every page on a wide and on a narrow screen, its links, and its search without a server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browser
import built_site
import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="needs the extra [docs]"),
]
in_chromium = pytest.mark.skipif(browser.find() is None, reason="needs Chromium (Debian: apt-get install chromium)")
PATIENCE = 300
"""Seconds until a browser that has found nothing has failed."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    built_site.build(target)
    return target


def measured(site: Path, width: int, profile: Path) -> dict[str, dict[str, Any]]:
    with (
        built_site.served(site) as (address, found),
        browser.visiting(f"{address}/measuring.html?width={width}", profile),
    ):
        return found.get(timeout=PATIENCE)


def faults(found: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """Page and measure -> what is wrong there."""
    kinds = ("wider", "broken", "clipped", "narrow")
    wrong = {f"{page}: {kind}": seen[kind] for page, seen in found.items() for kind in kinds if seen[kind]}
    return wrong | {
        f"{page}: empty": seen for page, seen in found.items() if seen["texts"] < 100 or not seen["settled"]
    }


def test_every_link_leads_to_a_file_and_an_anchor(site: Path) -> None:
    assert built_site.lost(site) == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = {address for page in built_site.pages(site).values() for address in page.fetched}
    assert [address for address in fetched if "//" in address] == []
    assert [path for path in site.rglob("*.css") if "url(http" in path.read_text(encoding="utf-8")] == []


@in_chromium
@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_fits_its_screen(site: Path, tmp_path: Path, width: int) -> None:
    found = measured(site, width, tmp_path)
    assert len(found) > 40
    assert faults(found) == {}


@in_chromium
def test_the_search_works_in_a_folder(site: Path, tmp_path: Path) -> None:
    text = browser.text_of(f"{(site / 'index.html').as_uri()}?q=unlimited", tmp_path)
    assert "formats/netcdf.html" in text.split("md-search-result__list", 1)[1]


@in_chromium
def test_faults_are_seen(tmp_path: Path) -> None:
    """The oracle itself: a page that is too wide, a picture and links that are not there, a table without room."""
    row = "<td style='min-width:20px;max-width:30px'>a sentence of several words</td>"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.html").write_text(
        "<!doctype html><body style='margin:0'><article><div style='width:500px'>wide</div><img src=lost.png>"
        "<a href='gone.html'>x</a><a href='#none'>x</a><a href='#here'>x</a><p id=here>"
        f"<div class='md-typeset__scrollwrap md-typeset'><table><tr>{row}</table></div></article>"
    )
    page = measured(tmp_path / "site", 400, tmp_path / "profile")["page.html"]
    assert page["wider"] == 100 and len(page["broken"]) == 1 and len(page["narrow"]) == 1
    assert len(faults({"page.html": page})) == 5
    assert built_site.lost(tmp_path / "site") == [f"page.html: {link}" for link in ("gone.html", "#none", "lost.png")]
