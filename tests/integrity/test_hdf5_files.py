"""Damaged chunks of HDF5 files: the netCDF library changes those whose groups keep the order of their members alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk

CELLS = np.arange(200, dtype="i4")


def damaged(path: Path, *, track_order: bool) -> Path:
    """Write a file by h5py, and change a byte of its second chunk."""
    with h5py.File(path, "w", track_order=track_order) as file:
        file["sound"] = CELLS
        group = file.create_group("g", track_order=track_order)
        array = group.create_dataset("a", data=CELLS, chunks=(100,), compression="gzip", track_order=track_order)
        found = array.id.get_chunk_info(1)
    data = bytearray(path.read_bytes())
    data[found.byte_offset + found.size // 2] ^= 255
    path.write_bytes(data)
    return path


def test_a_file_that_cannot_be_changed_is_not_to_be_repaired(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.h5", track_order=False)
    before = path.read_bytes()
    with pytest.raises(CorruptChunk) as error:
        hs.open(path)["g/a"][...]
    assert error.value.remedy is not None
    assert "repair" not in error.value.remedy and "--skip-damaged" in error.value.remedy
    for dry_run in (True, False):
        report = hs.repair(path, dry_run=dry_run)
        assert [problem.kind for problem in report] == ["corrupt-chunk"]
        assert "cannot be mended: the netCDF library cannot change this HDF5 file" in str(report)
        assert "--skip-damaged" in str(report)
        assert sorted(tmp_path.iterdir()) == [path]
        assert path.read_bytes() == before
    report = hs.convert(path, tmp_path / "b.zarr", "zarr3", skip_damaged=True)
    assert [problem.node for problem in report.damaged] == ["g/a"]


def test_a_file_that_keeps_its_order_is_repaired(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.h5", track_order=True)
    with pytest.raises(CorruptChunk, match="hyperslab repair"):
        hs.open(path)["g/a"][...]
    report = hs.repair(path, dry_run=False)
    assert [problem.kind for problem in report] == ["corrupt-chunk"]
    assert not hs.check(path, deep=True)
    np.testing.assert_array_equal(hs.open(path)["g/a"][...], np.where(CELLS < 100, CELLS, 0))
    assert (tmp_path / "a.h5.quarantine/g/a/chunk.1").is_file()


def test_the_groups_of_a_file_are_looked_at_once_for_all_damaged_chunks(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.h5", track_order=True)
    array = hs.open(path)["g/a"]
    looks = 0

    def count_looks(frame: Any, event: str, _: object) -> None:
        nonlocal looks
        looks += event == "call" and frame.f_code.co_name == "keeps_order"

    sys.setprofile(count_looks)
    try:
        for _ in range(5):
            with pytest.raises(CorruptChunk):
                array[150]
    finally:
        sys.setprofile(None)
    assert looks == 1
