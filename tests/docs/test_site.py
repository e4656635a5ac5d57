"""The site: every page can be reached, and every picture is shown somewhere."""

from __future__ import annotations

import re

from pages import ROOT

DOCS = ROOT / "docs"


def test_every_page_stands_in_the_navigation() -> None:
    named = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_picture_is_shown() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    shown = {
        (page.parent / target).resolve()
        for page, text in texts.items()
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    }
    assert shown == {path.resolve() for path in (DOCS / "images").iterdir()}
