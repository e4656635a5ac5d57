"""The site: every page can be reached, every picture is shown somewhere, every public name is in the reference."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

import hyperslab
import hyperslab.database
import hyperslab.hdmf
import hyperslab.mongo
from hyperslab import errors, list_formats, stores

DOCS = ROOT / "docs"
STRUCTURE = ["How it is known", "On disk", "Options", "What it cannot hold", "Beside"]
"""The sections that the page of each format has, in this order; others may stand between them."""
FACTS = ["known by", "made where", "lies in", "needs"]
FACES = (hyperslab, hyperslab.database, hyperslab.mongo, hyperslab.hdmf, stores)


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


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in (DOCS / "images").iterdir()) < 2_800_000


FORMATS = {"zarr" if name.startswith("zarr") else name for name, info in list_formats().items() if info.writable}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_pages_of_formats_have_one_structure(name: str) -> None:
    text = (DOCS / "formats" / f"{name}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.M)
    same = [heading if not heading.startswith("Beside ") else "Beside" for heading in headings]
    assert [heading for heading in same if heading in STRUCTURE] == STRUCTURE
    assert re.findall(r"^\| (known by|made where|lies in|needs) \|", text, re.M)[:4] == FACTS
    disk = text.split("## On disk\n")[1].split("\n## ")[0]
    assert "](matrix.md)" in text.split("## What it cannot hold\n")[1].split("\n## ")[0]
    assert "```python" in disk and "```text" in disk, "shows no bytes"


def test_every_public_name_stands_in_the_reference() -> None:
    shown = {
        name
        for page in (DOCS / "reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
    }
    public = [f"{module.__name__}.{name}" for module in FACES for name in module.__all__]
    public += [f"hyperslab.errors.{name}" for name in vars(errors) if _is_error(getattr(errors, name))]
    pages = {"hyperslab.errors", "hyperslab.stores"}
    homes = {"hyperslab.HyperslabError": "hyperslab.errors.HyperslabError"}
    assert [name for name in public if homes.get(name, name) not in shown | pages] == []


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.HyperslabError)
