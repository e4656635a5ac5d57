"""Notebook pages in Chromium: readable on light and dark, plain and in JupyterLab's style sheets; nothing in them runs.

``python tests/interop/test_notebook_pages.py`` takes the picture in docs/images anew.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.cli.tour.runner import sample
from hyperslab.stores import MemoryStore

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import browser

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("nbconvert") is None, reason="needs nbconvert, which holds JupyterLab's style sheets"),
    pytest.mark.skipif(browser.find() is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "notebook.png"
READABLE = 4.5
"""The contrast ratio that WCAG 2.2 asks of text (1.4.3, level AA)."""
PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)" autofocus onfocus="alert(4)',
    "</style></details></div><svg onload=alert(5)>",
    "<iframe srcdoc='<script>parent.alert(6)</script>'>",
)
DOCUMENT = "<!doctype html><meta charset=utf-8><style>{}</style><body>{}"
PAGES = {
    "light": "",
    "dark by preference": ":root{color-scheme:light dark}",
    "always light": ":root{color-scheme:only light}",
    "dark by style": "body{background:#1f1f1f;color:#cccccc}",
    "light ink of VS Code": ":root{--vscode-editor-foreground:#ddd}body{background:#1f1f1f}",
}
PREFERS_DARK = {"dark by preference", "always light"}


def america(place: Path) -> Any:
    """Real data in chunks, with a forecast below it."""
    hs.convert(sample("A1B_north_america.nc"), place, chunks={"time": 60, "latitude": 20, "longitude": 20})
    with hs.open(place, mode="r+") as root:
        rain = {"units": "mm", "long_name": "rain that is expected to fall on land and sea within six hours"}
        root.create_array(
            "forecast/rain",
            shape=(1000, 500),
            dtype="f4",
            dims=["y", "x"],
            chunks=(100, 100),
            shards=(500, 500),
            attrs=rain,
        )
    return hs.open(place)


def pages(root: Any) -> str:
    """The page of the group and that of each of two arrays."""
    return "<br>".join(node._repr_html_() for node in (root, root["air_temperature"], root["forecast/rain"]))


def assert_readable(found: dict[str, Any]) -> None:
    words = " ".join(word for _, word in found["texts"])
    assert "air_temperature" in words and "500, 500" in words and "240" in words
    assert [(round(ratio, 2), word) for ratio, word in found["texts"] if ratio < READABLE] == []
    assert found["beyond"] == []
    assert set(found["aligned"]) <= {"left", "start"}
    assert found["backgrounds"] == ["rgba(0, 0, 0, 0)"]


@pytest.mark.parametrize("width", [900, 420])
@pytest.mark.parametrize("kind", PAGES)
def test_pages_are_readable(tmp_path: Path, kind: str, width: int) -> None:
    place = tmp_path / "page.html"
    place.write_text(DOCUMENT.format(PAGES[kind], pages(america(tmp_path / "a.zarr"))), encoding="utf-8")
    assert_readable(browser.measure(place, width=width, dark=kind in PREFERS_DARK))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_readable_in_jupyterlab(tmp_path: Path, theme: str) -> None:
    import nbconvert
    import nbformat

    data = {"text/html": pages(america(tmp_path / "a.zarr")), "text/plain": ""}
    cell = nbformat.v4.new_code_cell("root", outputs=[nbformat.v4.new_output("execute_result", data)])
    cell.outputs[0]["execution_count"] = 1
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"language_info": {"name": "python", "pygments_lexer": "python3"}}
    )
    text, _ = nbconvert.HTMLExporter(theme=theme).from_notebook_node(notebook)
    place = tmp_path / "notebook.html"
    place.write_text(text, encoding="utf-8")
    assert_readable(browser.measure(place, width=1100))


def test_a_page_that_cannot_be_read_is_seen(tmp_path: Path) -> None:
    """The oracle itself: grey on grey, text beyond the edge, a script that runs."""
    place = tmp_path / "page.html"
    wide = "<div style='white-space:nowrap'>air_temperature 500, 500 240 " + "x" * 500 + "</div>"
    place.write_text(
        f'<div class="hs-page" style="color:#999">{wide}<img src=x onerror=alert(1)></div>', encoding="utf-8"
    )
    found = browser.measure(place)
    assert found["texts"][0][0] == pytest.approx(2.85, abs=0.01)
    assert found["beyond"] and found["called"] == [1] and found["scripts"] == 1


def test_nothing_in_a_page_runs(tmp_path: Path) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    for number, payload in enumerate(PAYLOADS):
        name = payload.replace("/", "|")
        attrs = {payload: payload, "units": payload, "long_name": payload, "list": [payload]}
        group = root.create_group(name, attrs=attrs)
        group.create_array(name, data=np.arange(3), dims=(payload,), attrs=attrs)
        root.create_array(f"{number}{name}", data=np.arange(3), dims=(payload,), attrs=attrs)
    nodes = [root, *(group[name] for name, group in root.groups()), *(array for _, array in root.arrays())]
    place = tmp_path / "page.html"
    place.write_text("".join(node._repr_html_() for node in nodes), encoding="utf-8")
    found = browser.measure(place)
    words = " ".join(word for _, word in found["texts"])
    assert all(payload in words for payload in PAYLOADS)
    assert (found["called"], found["scripts"]) == ([], 0)


def take_picture(target: Path) -> None:
    """The page of real data on white with one array unfolded, above that of the array on black."""
    with tempfile.TemporaryDirectory() as folder:
        root = america(Path(folder) / "america.zarr")
        row = '<details{} class="hs-array"><summary class="hs-row"><span class="hs-name"><u>air_temperature'
        group = root._repr_html_().replace(f"{folder}/", "").replace(row.format(""), row.format(" open"))
        group = group.replace("<details open><summary>Attributes (8)", "<details><summary>Attributes (8)")
        array = root["air_temperature"]._repr_html_()
        place = Path(folder) / "page.html"
        place.write_text(
            "<!doctype html><meta charset=utf-8><body style='margin:0'>"
            f"<div style='padding:14px 18px;background:#fff;color:#111'>{group}</div>"
            f"<div style='padding:14px 18px;background:#181818;color:#e4e4e4'>{array}</div>",
            encoding="utf-8",
        )
        browser.screenshot(place, target, width=900, height=930)


def test_the_picture_can_be_taken(tmp_path: Path) -> None:
    take_picture(tmp_path / "page.png")
    size = slice(16, 24)
    assert (tmp_path / "page.png").read_bytes()[size] == PICTURE.read_bytes()[size]


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    take_picture(PICTURE)
