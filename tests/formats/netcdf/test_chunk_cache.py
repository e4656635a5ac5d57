"""What the library keeps of chunks until it writes them is bounded, however many variables there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

CHILD = """
import sys

import numpy as np

import hyperslab as hs


def anonymous():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


cells = np.zeros((16, 1 << 17))
with hs.create(sys.argv[1], cache_bytes=int(sys.argv[2])) as root:
    arrays = [
        root.create_array(f"v{number}", shape=cells.shape, dtype="f8", chunks=(1, 1 << 16), codec=None)
        for number in range(8)
    ]
    before = anonymous()
    for array in arrays:
        array[:] = cells
    print(anonymous() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
@pytest.mark.parametrize("cache", [0, 32 << 20])
def test_what_the_library_keeps_of_chunks_is_bounded(tmp_path: Path, cache: int) -> None:
    """Of 128 MiB in 8 variables no more than the cache has room for, and 4 MiB."""
    # A process of its own, where each chunk gets pages of its own: else glibc keeps half as much again between the
    # chunks that are freed. It reads the variable when a process starts, so no fork of a running one would do.
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.nc"), str(cache)],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= cache + (4 << 20)


def test_a_variable_that_is_called_like_a_dimension_gets_its_own_cells(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("length", data=np.arange(4, dtype="i4"), dims=["name"])
        root.create_array("name", data=np.arange(2, dtype="i4"), dims=["lat"])
        root.create_array("g/name", data=np.arange(8, dtype="i4").reshape(2, 4), dims=["lat", "name"])
    assert not hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", verify=True).losses
    assert not hs.diff(tmp_path / "a.zarr", tmp_path / "a.nc")
