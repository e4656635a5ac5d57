"""What writers leave who are killed: it is told by a check, and gone after a repair, or with the next write.

A driver forks children that change a dataset, each of which kills itself right before one of its calls that change the
file system, from the first to the last of them, and none cleans up after itself.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.stores.keys import temporary_name
from programs import ran

SUITE = [pytest.param(6, id="few"), pytest.param(60, id="many", marks=pytest.mark.soak)]
NAMES = ["a.nc", "a.blp", "a.b2nd", "a.zarr", "a.zarr.zip", "a.blaze", "b.blp"]
OPTIONS: dict[str, dict[str, Any]] = {"a.zarr": {"format": "zarr3"}, "b.blp": {"checksum": "none"}}

DRIVER = """
import os, random, signal, struct, sys
import mmap
import numpy as np
import hyperslab as hs

url, what, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
shared = mmap.mmap(-1, 8)
last = None
NAMES = ("write", "pwrite", "writev", "replace", "rename", "unlink", "ftruncate", "fsync", "fdatasync", "utime",
         "copy_file_range", "sendfile", "close", "mkdir", "rmdir")

def counted(real):
    def call(*arguments, **options):
        now = struct.unpack_from("<q", shared, 0)[0] + 1
        struct.pack_into("<q", shared, 0, now)
        if now == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

def change(generation):
    for name in NAMES:
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name)))
    if what == "anew":
        hs.save(url, np.full((40, 30), generation, "f8"), chunks=(10, 30), mode="w")
        return
    with hs.open_group(url, "r+", workers=1) as root:
        if what == "append":
            root["data"].append(np.full((9, 30), generation, "f8"))
        else:
            root["data"][3:] = generation

def forked(generation):
    struct.pack_into("<q", shared, 0, 0)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            change(generation)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert forked(1) == 0
calls = struct.unpack_from("<q", shared, 0)[0]
died = 0
for number in range(kills):
    last = 1 + number * max(1, calls - 1) // max(1, kills - 1)
    died += forked(2 + number) == -signal.SIGKILL
print(died, calls)
"""


def make(folder: Path, name: str) -> Path:
    home = folder / "home"
    home.mkdir()
    with hs.create(home / name, **OPTIONS.get(name, {})) as root:
        if name == "a.nc":
            root.create_dimension("t")
        root.create_array("data", data=np.zeros((40, 30)), chunks=(10, 30), dims=("t", "x"))
    return home / name


def entries(path: Path) -> list[str]:
    """All that lies beside the dataset, and in it."""
    return sorted(str(each.relative_to(path.parent)) for each in path.parent.rglob("*"))


def unfinished(names: list[str]) -> list[str]:
    return [name for name in names if re.search(r"\.[0-9a-f]{16}\.tmp|\.partial-", name)]


@pytest.mark.sampled(2)
@pytest.mark.covering
@pytest.mark.parametrize("kills", SUITE)
@pytest.mark.parametrize("what", ["cells", "append", "anew"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_after_a_repair(tmp_path: Path, name: str, what: str, kills: int) -> None:
    path = make(tmp_path, name)
    said = ran(DRIVER, path, what, kills)
    assert said.returncode == 0, said.stderr
    died, calls = map(int, said.stdout.split())
    assert died >= min(kills, calls) // 2, (died, calls)
    left = unfinished(entries(path))
    problems = hs.check(path)
    assert not left or "temporary" in problems.kinds, left
    assert all(mend.done for mend in hs.repair(path, dry_run=False))
    assert unfinished(entries(path)) == []
    assert not hs.check(path, deep=True)
    assert not [
        name for name in os.listdir(path.parent) if name not in (path.name, ".lock") and "quarantine" not in name
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.nc", "a.blp", "a.b2nd", "a.zarr.zip"])
def test_the_next_writer_removes_whole_copies(tmp_path: Path, name: str) -> None:
    path = make(tmp_path, name)
    what = "anew" if name == "a.blp" else "append"
    ran(DRIVER, path, what, 8)
    hs.save(path, np.ones((3, 30)), mode="w")
    assert unfinished(os.listdir(path.parent)) == []


def test_copies_of_others_stay(tmp_path: Path) -> None:
    """Those of a writer that lives, of another dataset, and of another machine, unless they are old."""
    path = make(tmp_path, "a.nc")
    mine = path.parent / temporary_name("a.nc")
    theirs = path.parent / ".a.nc.0123456789abcdef.tmp"
    other = path.parent / ".ab.nc.0123456789abcdef.tmp"
    for each in (mine, theirs, other):
        each.write_bytes(b"half")
    assert not hs.check(path) and not hs.repair(path, dry_run=False)
    hs.save(path, np.ones((3, 30)), mode="w")
    assert mine.exists() and theirs.exists() and other.exists()
    for each in (theirs, other):
        os.utime(each, times=(time.time() - 8 * 86400,) * 2)
    (problem,) = hs.check(path)
    assert problem.kind == "temporary" and theirs.name in problem.message
    (plan,) = hs.repair(path)
    assert plan.action == "remove it" and theirs.exists()
    (mend,) = hs.repair(path, dry_run=False)
    assert mend.done and mine.exists() and other.exists() and not theirs.exists()


def test_a_child_that_nobody_has_fetched_is_dead(tmp_path: Path) -> None:
    path = make(tmp_path, "a.nc")
    pid = os.fork()
    if not pid:
        (path.parent / temporary_name("a.nc")).write_bytes(b"half")
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    (mend,) = hs.repair(path, dry_run=False)
    os.waitpid(pid, 0)
    assert mend.done and os.listdir(path.parent) == ["a.nc"]
