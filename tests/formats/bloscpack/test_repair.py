"""Repair of bloscpack files: a change that its writer never finished, a file that its writer never ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from struct import pack, pack_into
from typing import Any

import numpy as np
import pytest
from blp_files import file_of, golden, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.formats.bloscpack.chunk_table import read_table
from hyperslab.formats.bloscpack.file import LocalFile
from hyperslab.formats.bloscpack.preamble import read_preamble

WALK = np.round(np.cumsum(np.random.default_rng(5).normal(size=64 * 16)), 2).reshape(64, 16)


def interrupted(path: Path, chunks: int, *, count: bool, more: int = 0, **options: Any) -> None:
    """A file as a writer leaves it that dies after some chunks; ``count``: which knew how many there would be."""
    hs.save(path, WALK, chunks=(5, 16), **options)
    file = LocalFile(str(path), str(path))
    front = read_preamble(file)
    table = read_table(file, front)
    data = bytearray(path.read_bytes())
    if not count:
        pack_into("<iq", data, 12, -1, -1)
        if front.header.layout == "v3":
            pack_into("<q", data, 24, 0)
    if front.header.has_offsets:
        first = data[front.offsets_at : front.offsets_at + 8]
        data[front.offsets_at : front.chunks_at] = b"\xff" * (front.chunks_at - front.offsets_at)
        if not count:
            data[front.offsets_at : front.offsets_at + 8] = first
    path.write_bytes(data[: int(table.starts[chunks]) + more] if chunks < table.found else data)


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["v3", "blaze"])
@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize(("chunks", "more"), [(7, 0), (7, 40), (13, 0), (1, 3)])
def test_an_interrupted_file(tmp_path: Path, layout: str, offsets: bool, count: bool, chunks: int, more: int) -> None:
    path = tmp_path / "a.blp"
    interrupted(path, chunks, count=count, more=more, layout=layout, offsets=offsets)
    rows = min(5 * chunks, 64)
    assert_array_equal(hs.open(path)[:rows], WALK[:rows])
    whole = chunks == 13 and count and not offsets
    before = path.read_bytes()
    plan = hs.repair(path)
    assert path.read_bytes() == before
    fixed = hs.repair(path, dry_run=False)
    if whole:
        assert list(plan) == list(fixed) == []
        return
    assert {mend.kind for mend in plan} <= {"unfinished", "missing-chunk"}
    assert all(mend.action and not mend.done for mend in plan), list(plan)
    assert all(mend.done for mend in fixed), list(fixed)
    assert_array_equal(hs.open(path)[...], WALK[:rows])
    file = LocalFile(str(path), str(path))
    header = read_preamble(file).header
    assert (header.nchunks, header.has_offsets) == (chunks, offsets)
    assert not read_table(file, read_preamble(file)).unfinished
    assert not hs.check(path, deep=True)
    assert list(hs.repair(path)) == []


def test_bytes_of_bloscpack_that_were_cut_off(tmp_path: Path) -> None:
    data = bytearray(golden("append_fill_last.blp"))
    path = Path(write(tmp_path, bytes(data)))
    file = LocalFile(str(path), str(path))
    front = read_preamble(file)
    table = read_table(file, front)
    expected = hs.open(path)[...][: (table.found - 1) * table.chunk_size]
    data[front.offsets_at : front.chunks_at] = pack("<q", -1) * ((front.chunks_at - front.offsets_at) // 8)
    path.write_bytes(data[: int(table.starts[-1]) + 20])
    assert all(mend.done for mend in hs.repair(path, dry_run=False))
    assert_array_equal(hs.open(path)[...], expected)
    assert not hs.check(path, deep=True)


def test_a_change_that_was_never_finished(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    hs.save(path, WALK, chunks=(4, 16), slack="full")
    program = (
        "import os, sys, hyperslab as hs\n"
        "array = hs.open(sys.argv[1], 'r+')\n"
        "os.unlink = lambda *arguments, **options: os._exit(7)\n"
        "array[:9] = 5\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 7
    (plan,) = hs.repair(path)
    assert (plan.kind, plan.done) == ("unfinished-change", False)
    assert sorted(os.listdir(tmp_path)) == [".x.blp.journal", "x.blp"]
    (mend,) = hs.repair(path, dry_run=False)
    assert (mend.kind, mend.done) == ("unfinished-change", True)
    assert os.listdir(tmp_path) == ["x.blp"]
    assert_array_equal(hs.open(path)[...], WALK)
    assert list(hs.repair(path, dry_run=False)) == []


def test_a_copy_in_the_middle_of_a_change(tmp_path: Path) -> None:
    """A backup of both files, the journal too, is read as before the change, and goes back to that."""
    home, backup = tmp_path / "home", tmp_path / "backup"
    home.mkdir()
    path = home / "x.blp"
    hs.save(path, WALK, chunks=(4, 16), slack="full")
    program = (
        "import os, sys, hyperslab as hs\n"
        "array = hs.open(sys.argv[1], 'r+')\n"
        "write, calls = os.pwrite, []\n"
        "def die(*arguments):\n"
        "    calls.append(0)\n"
        "    return write(*arguments) if len(calls) < 8 else os._exit(7)\n"
        "os.pwrite = die\n"
        "array[:30] = 5\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 7
    shutil.copytree(home, backup)
    copy = backup / "x.blp"
    assert copy.read_bytes() == path.read_bytes() and (backup / ".x.blp.journal").exists()
    assert_array_equal(hs.open(copy)[...], WALK)
    (mend,) = hs.repair(copy, dry_run=False)
    assert (mend.kind, mend.done) == ("unfinished-change", True)
    assert os.listdir(backup) == ["x.blp"]
    assert_array_equal(hs.open(copy)[...], WALK)


def test_a_damaged_chunk_becomes_fill_values(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    hs.save(path, WALK, chunks=(4, 16))
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    (mend,) = hs.repair(path)
    assert (mend.kind, mend.done) == ("corrupt-chunk", False) and "[60:64, 0:16] read as the fill value" in mend.action
    assert path.read_bytes() == data
    (mend,) = hs.repair(path, dry_run=False)
    assert mend.done and not hs.check(path, deep=True)
    assert_array_equal(hs.open(path)[...], np.concatenate([WALK[:60], np.zeros((4, 16))]))
    assert (tmp_path / "x.blp.quarantine" / "data" / "chunk.15.0").read_bytes() in bytes(data)


def test_a_damaged_chunk_that_is_none_of_the_grid_stays(tmp_path: Path) -> None:
    """With it sound cells would be lost."""
    data = bytearray(file_of(WALK, chunk_size=1000))
    data[-20] ^= 1
    path = Path(write(tmp_path, bytes(data)))
    found = hs.repair(path, dry_run=False)
    assert [(mend.kind, mend.action, mend.done) for mend in found] == [("corrupt-chunk", None, False)]  # type: ignore[attr-defined]
    assert path.read_bytes() == data
