"""Links of HDF5 files to other files: they are told, and not followed; all else is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import ExternalLinkRefused, NodeNotFound, Unsupported

CELLS = np.arange(6.0).reshape(2, 3)
OUTSIDE = {
    "gone": "nowhere.h5/x",
    "group": "other.h5/inner",
    "there": "other.h5/x",
    "inner/by_words": "other.h5/inner/y",
    "inner/twice": "other.h5/inner/y",
    "inner/own": "made.h5/a",
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(5.0)
        file["inner/y"] = np.arange(2)
    path = tmp_path / "made.h5"
    with h5py.File(path, "w") as file:
        file["a"] = CELLS
        file["there"] = h5py.ExternalLink("other.h5", "/x")
        file["group"] = h5py.ExternalLink("other.h5", "inner")
        file["gone"] = h5py.ExternalLink("nowhere.h5", "/x")
        inner = file.create_group("inner")
        inner["b"] = np.arange(2)
        inner["soft"] = h5py.SoftLink("/a")
        inner["relative"] = h5py.SoftLink("b")
        inner["dangling"] = h5py.SoftLink("/nothing")
        inner["by_words"] = h5py.SoftLink("/group/y")
        inner["twice"] = h5py.SoftLink("./by_words")
        inner["own"] = h5py.ExternalLink("made.h5", "/a")
        inner["circle"] = h5py.SoftLink("/inner/circle")
    return path


def test_the_rest_is_read(made: Path) -> None:
    with hs.open_group(made) as root:
        np.testing.assert_array_equal(root["a"][...], CELLS)
        np.testing.assert_array_equal(root["inner/soft"][...], CELLS)
        np.testing.assert_array_equal(root["inner/relative"][...], [0, 1])
        assert sorted(root) == ["a", "gone", "group", "inner", "there"]
        assert sorted(root["inner"]) == ["b", "by_words", "own", "relative", "soft", "twice"]
        links = dict(root.links()) | {f"inner/{name}": link for name, link in root["inner"].links()}
        assert {path: str(link) for path, link in links.items()} == OUTSIDE
        assert [name for name, _ in root.arrays()] == ["a"]


@pytest.mark.parametrize("path", [*OUTSIDE, "group/y"])
def test_links_to_other_files_are_not_followed(made: Path, path: str) -> None:
    with (
        hs.open_group(made) as root,
        pytest.raises(ExternalLinkRefused, match="another file, and is not followed") as found,
    ):
        root[path]
    assert found.value.remedy == "open that file by its own place" and str(made) == found.value.url


def test_nothing_of_other_files_is_opened(made: Path) -> None:
    """A pipe that nobody writes into stands in for the other file: to open it takes for ever."""
    os.remove(made.with_name("other.h5"))
    os.mkfifo(made.with_name("other.h5"))
    commands = (["info"], ["check"], ["stats"], ["convert", str(made.with_name("copy.zarr")), "--allow-loss"])
    for name, *words in commands:
        line = [sys.executable, "-m", "hyperslab", name, str(made), *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_they_are_lost_in_a_copy_and_the_file_is_not_changed(made: Path, tmp_path: Path) -> None:
    for name in ("copy.zarr", "copy.nc", "copy.hdmf.zarr"):
        with pytest.raises(Unsupported, match=r"/there: the link to other\.h5/x is left out"):
            hs.convert(made, tmp_path / name)
        hs.convert(made, tmp_path / name, allow_loss=True)
        with hs.open_group(tmp_path / name) as root:
            np.testing.assert_array_equal(root["a"][...], CELLS)
            with pytest.raises(NodeNotFound):
                root["there"]
    with pytest.raises(Unsupported, match="the netCDF library follows links to other files"):
        hs.open_group(made, mode="r+")
