"""What files of many small datasets cost, counted: documents parsed, files opened, names changed."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nwb_files import small_file
from pynwb import NWBFile, TimeSeries

from hyperslab.hdmf import HyperslabIO

SERIES = 40


def many() -> NWBFile:
    """A file with many series that are alike."""
    nwb = small_file()
    for number in range(1, SERIES):
        times = np.arange(10) / 10
        nwb.add_acquisition(TimeSeries(name=f"ts{number}", data=np.arange(10.0), timestamps=times, unit="m"))
    return nwb


noted: list[Counter[str]] = []
"""Who counts now: what is called for each event of the interpreter can never be taken away."""


def note(event: str, given: Any, noted: list[Counter[str]] = noted) -> None:
    for counts in noted:
        if event == "open" and ".partial-" in str(given[0]):
            counts["made" if given[2] & os.O_CREAT else "read"] += 1
        elif event in ("os.rename", "os.utime", "os.mkdir"):
            counts[event] += 1


@pytest.fixture(scope="module")
def notes() -> None:
    sys.addaudithook(note)


@pytest.mark.parametrize("profile", ["v2", "v3"], indirect=True)
@pytest.mark.usefixtures("notes")
def test_a_new_file_is_written_straight(tmp_path: Path, profile: str) -> None:
    """Each file of it is made once, under its own name."""
    place = tmp_path / "a.nwb.zarr"
    counts, nwb = Counter[str](), small_file(SERIES)
    with HyperslabIO(place, "w", profile=profile) as io:
        noted.append(counts)
        io.write(nwb)
        noted.clear()
    files = sum(path.is_file() for path in place.rglob("*"))
    folders = sum(path.is_dir() for path in place.rglob("*"))
    assert files <= counts["made"] <= files + 8
    assert counts["os.mkdir"] <= folders + 2
    assert counts.get("os.rename", 0) <= 5
    assert counts.get("os.utime", 0) <= 5


def calls_of(names: frozenset[str], action: Any) -> Counter[str]:
    """How often functions of these names are called in this thread."""
    counts: Counter[str] = Counter()

    def see(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in names:
            counts[frame.f_code.co_name] += 1

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.sampled(0)
def test_documents_are_parsed_once(tmp_path: Path, profile: str) -> None:
    """Each once where it is written and once where it is opened; where an array is rendered, its kind was known."""
    path = tmp_path / "a.nwb.zarr"

    def write() -> None:
        with HyperslabIO(path, "w", profile=profile) as io:
            io.write(many())

    def read() -> None:
        with HyperslabIO(path) as io:
            nwb = io.read()
            for number in range(SERIES):
                assert len(nwb.acquisition[f"ts{number}"].data[:]) == 10

    write()
    documents = [each for each in path.rglob("*") if each.name in ("zarr.json", ".zarray", ".zgroup")]
    arrays = sum("shape" in json.loads(each.read_text()) for each in documents)
    path.rename(tmp_path / "old")
    written = calls_of(frozenset({"_read_array", "read_array"}), write)  # one within the other
    assert written.total() <= 3 * arrays
    counts = calls_of(frozenset({"parse", "set_attribute"}), read)
    assert counts["parse"] <= len(documents) + 5
    assert counts["set_attribute"] <= 10, "those of builders check types, which takes most of the time"


@pytest.mark.parametrize("changed", [False, True])
def test_a_document_like_its_copy_is_not_parsed_again(tmp_path: Path, profile: str, changed: bool) -> None:
    path = tmp_path / "a.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(small_file())
    place = path / "acquisition/ts0/data" / ("zarr.json" if profile == "v3" else ".zarray")
    if changed:
        place.write_text(json.dumps(json.loads(place.read_text()) | {"shape": [4]}))
    with HyperslabIO(path) as io:
        data = io.read().acquisition["ts0"].data.dataset
        assert calls_of(frozenset({"parse"}), lambda: data.grid)["parse"] == changed
        assert data.grid.shape == ((4,) if changed else (10,))
