"""The bound on memory holds: the peak of a process stays below it and 64 MiB for interpreter, libraries, allocator."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from programs import ran

MEMORY = 32 << 20
SLACK = 64 << 20
# In all 125 MB: more than a process may take that keeps what it reads.
SHAPE = (240, 2, 181, 360)
CHILD = """
import os, sys, threading, time
from pathlib import Path

folder, work, threads, memory = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.sched_getaffinity = lambda process: range(threads)
import dask
import xarray as xr

import hyperslab as hs
import hyperslab.integrity
import hyperslab.conversion


def anonymous():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


peak = before = anonymous()
ended = threading.Event()


def watch():
    global peak
    while not ended.wait(0.002):
        peak = max(peak, anonymous())


watching = threading.Thread(target=watch, daemon=True)
watching.start()
source, target = folder / "planes.zarr", folder / f"{work}{threads}.zarr"
cut = {"t": 100, "y": 30, "x": 30}
if work == "rechunk":
    hs.convert(source, target, chunks=cut, memory=memory)
elif work == "verify":
    hs.convert(source, target, chunks=cut, memory=memory, verify=True)
elif work == "netcdf":
    hs.convert(source, folder / f"{work}{threads}.nc", chunks=cut, memory=memory)
elif work == "diff":
    assert not hs.diff(source, folder / "columns.zarr", memory=memory)
elif work == "check":
    assert not hs.check(source, deep=True)
else:
    with dask.config.set(scheduler="threads", num_workers=threads):
        hs.save(target, xr.open_dataset(source, engine="hyperslab", chunks={}))
ended.set()
watching.join()
print(peak - before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory")
    for name, chunks in (("planes", (1, *SHAPE[1:])), ("columns", (100, 2, 30, 30))):
        with hs.create(place / f"{name}.zarr", format="zarr2") as root:
            array = root.create_array("v", shape=SHAPE, dtype="f4", chunks=chunks, dims=("t", "l", "y", "x"))
            for start in range(0, SHAPE[0], 80):
                array[start : start + 80] = np.random.default_rng(start).random((80, *SHAPE[1:]), "f4")
    return place


def peak_of(folder: Path, work: str, threads: int) -> int:
    done = ran(CHILD, folder, work, threads, MEMORY)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
@pytest.mark.parametrize(
    ("work", "threads"),
    [
        ("rechunk", 16),
        pytest.param("verify", 4, marks=pytest.mark.soak),  # which is a copy and a diff
        ("diff", 16),
        ("check", 16),
        ("save", 4),
    ],
)
def test_the_bound_on_memory_holds(folder: Path, work: str, threads: int) -> None:
    assert peak_of(folder, work, threads) <= MEMORY + SLACK


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize("work", ["rechunk", "netcdf", "verify", "diff", "check", "save"])
def test_the_bound_on_memory_holds_with_any_number_of_threads(folder: Path, work: str, threads: int) -> None:
    assert peak_of(folder, work, threads) <= MEMORY + SLACK
