"""Changes that only a close stores, of what is never closed: lost, and said to be."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

LOST = "changes were lost"


NAMES = ["a.b2nd", "a.nc", "a.zarr.zip", "a.blaze.zip"]


def made(place: Path) -> Path:
    with hs.create(place) as root:
        root.create_array("a", data=np.arange(4.0), dims=("x",))
    return place


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made(tmp_path / request.param)


@pytest.mark.linux
def test_a_dropped_handle_says_what_is_lost(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = hs.open_group(place, "r+")
    root["a"][0] = 9
    with pytest.warns(ResourceWarning, match=f"{place.name}: {LOST}"):
        del root
        gc.collect()
    assert LOST in caplog.text and hs.open_array(place, path="a")[0] == 0
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_nothing_is_said_where_nothing_is_lost(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hs.open_group(place, "r+") as root:
        root["a"][0] = 9
    root = hs.open_group(place, "r+")
    assert root["a"][0] == 9
    del root
    with pytest.raises(ZeroDivisionError), hs.open_group(place, "r+") as root:
        root["a"][1] = 1 // 0
    gc.collect()
    assert not caplog.text


@pytest.mark.sampled(0)
def test_it_is_said_when_the_program_ends(tmp_path: Path) -> None:
    places = [str(made(tmp_path / name)) for name in NAMES]
    program = f"import hyperslab as hs; roots = [hs.open_group(place, 'r+') for place in {places}]"
    program += "\nfor root in roots: root['a'][0] = 9"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = done.stderr.splitlines()
    assert len(said) == len(NAMES)
    assert all(any(f"{place}: {LOST}" in line for line in said) for place in places)
