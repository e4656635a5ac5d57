"""The format of the worked example: short, shown as it is, found by its entry point, no trouble when it is broken."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT, blocks
from plugins import EXAMPLE, install

import hyperslab as hs
from hyperslab import formats
from hyperslab.errors import Unsupported
from hyperslab.formats import authoring, format_for_new, get_format

PAGE = ROOT / "docs" / "how-to" / "third-party-format.md"


def test_it_takes_less_than_a_hundred_lines() -> None:
    module, tests = (len((EXAMPLE / name).read_text().splitlines()) for name in _modules())
    assert (module < 100, tests < 20) == (True, True)


def _modules() -> tuple[str, str]:
    return "hyperslab_npy.py", "test_hyperslab_npy.py"


def test_the_page_shows_the_files_as_they_are() -> None:
    shown = [block.text for block in blocks(PAGE.read_text(encoding="utf-8"))]
    for name in (*_modules(), "pyproject.toml"):
        assert (EXAMPLE / name).read_text(encoding="utf-8") in shown, name


def test_it_needs_nothing_but_the_names_for_authors() -> None:
    imported = [line for line in (EXAMPLE / "hyperslab_npy.py").read_text().splitlines() if "hyperslab." in line]
    assert [line for line in imported if line.startswith(("import", "from"))] == [
        "from hyperslab.formats import authoring as own"
    ]
    assert all(hasattr(authoring, name) for name in authoring.__all__)


@pytest.mark.usefixtures("npy_folder")
def test_it_is_found_by_its_entry_point(tmp_path: Path) -> None:
    assert hs.list_formats()["npy"].writable
    assert [format_for_new(name) for name in ("a.npys", "a.npys.zip", "a.zarr", "a")] == [
        "npy",
        "npy",
        "zarr3",
        "zarr3",
    ]
    with hs.create(tmp_path / "a.npys") as root:
        root.create_array("g/v", data=np.arange(3), dims=("x",))
    root = hs.open_group(tmp_path / "a.npys")
    assert (root.format, root["g/v"].dims, root["g/v"][:].tolist()) == ("npy", ("x",), [0, 1, 2])


@pytest.mark.usefixtures("npy_folder")
def test_writers_of_parts_of_one_array_keep_each_others_cells(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.npys") as root:
        root.create_array("v", shape=(4, 10), dtype="i4", fill_value=-1)

    def fill(row: int) -> None:
        array = hs.open_array(tmp_path / "a.npys", "r+", path="v", durable=False)
        for column in range(10):
            array[row, column] = 10 * row + column

    threads = [threading.Thread(target=fill, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(hs.open_group(tmp_path / "a.npys")["v"][:], np.arange(40).reshape(4, 10))


def test_one_that_cannot_be_imported_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(EXAMPLE, site)
    (site / "hyperslab_npy.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "hyperslab_npy", raising=False)
    formats._foreign.cache_clear()
    try:
        hs.create(tmp_path / "mine").close()
        assert hs.open_group(tmp_path / "mine").format == "zarr3"
        with pytest.raises(Unsupported, match="npy of another package"):
            get_format("npy")
    finally:
        formats._foreign.cache_clear()
