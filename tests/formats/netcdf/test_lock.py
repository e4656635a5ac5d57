"""The netCDF and HDF5 libraries are called by one thread at a time, whoever else in the process uses them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from xarray.backends import locks

import hyperslab as hs
from hyperslab.formats.hdf5.lock import LOCK, LibraryLock
from programs import ran


def is_free(lock: object) -> bool:
    """Whether another thread could take it."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    if got[0]:
        lock.release()
    return got[0]


def test_xarray_waits_for_us_and_we_for_it() -> None:
    for lock in (locks.HDF5_LOCK, locks.NETCDFC_LOCK):
        with LOCK, LOCK:
            assert not is_free(lock)
        assert is_free(lock)
    entered = threading.Event()

    def enter() -> None:
        with LOCK:
            entered.set()

    thread = threading.Thread(target=enter)
    with locks.HDF5_LOCK:
        thread.start()
        assert not entered.wait(0.1)
    thread.join()
    assert entered.is_set()
    assert is_free(locks.HDF5_LOCK)


def test_an_interrupted_wait_leaves_it_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def acquire(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(locks, "HDF5_LOCK", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        LOCK.acquire()
    monkeypatch.undo()
    assert is_free(locks.NETCDFC_LOCK)
    with LOCK:
        assert not is_free(locks.HDF5_LOCK)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_dropped_dataset_is_closed_under_the_lock(tmp_path: Path, mode: str) -> None:
    """Not by the garbage collector, in any thread."""
    url = tmp_path / "a.nc"
    with netCDF4.Dataset(url, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    dataset = hs.open(url, mode=mode)
    assert isinstance(dataset, hs.Group)
    np.testing.assert_array_equal(dataset["v"][:], [1, 2, 3])
    if mode == "r+":
        dataset["v"][:] = 0
    with pytest.warns(ResourceWarning, match="changes were lost") if mode == "r+" else nullcontext():
        del dataset
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
    left = list(LOCK._abandoned)
    assert left
    assert any(handle.isopen() for handle in left if isinstance(handle, netCDF4.Dataset))
    with LOCK:
        pass
    assert not LOCK._abandoned
    assert not any(handle.isopen() for handle in left if isinstance(handle, netCDF4.Dataset))


class Interrupted:
    def close(self) -> None:
        raise KeyboardInterrupt


def test_it_is_free_after_an_interrupt_while_dropped_handles_are_closed() -> None:
    lock = LibraryLock()
    lock.close_later(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert is_free(locks.NETCDFC_LOCK)
    with lock:
        assert not is_free(locks.NETCDFC_LOCK)


def test_a_forked_child_finds_it_free() -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with LOCK:
            held.set()
            go_on.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        with LOCK:
            os._exit(7)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


OPENED_AGAIN = """
import sys
import hyperslab as hs
path = sys.argv[1]
def use(read):
    with hs.open_group(path) as root:
        assert not read or root["text"][:].tolist() == ["a", "b"]
if sys.argv[2] == "open":
    before = hs.open_group(path)
for _ in range(4):
    use(False)
    use(True)
print("fine")
"""


@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_file_with_text_is_opened_again_while_it_is_open(tmp_path: Path, state: str) -> None:
    with hs.create(tmp_path / "a.nc", "netcdf") as root:
        root.create_array("text", data=np.array(["a", "b"], np.dtypes.StringDType()))
    done = ran(OPENED_AGAIN, tmp_path / "a.nc", state)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr[-2000:]


def test_who_opened_a_file_first_may_close_it_first(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc", "netcdf") as root:
        root.create_array("x", data=np.arange(4))
    first, second = hs.open_group(tmp_path / "a.nc"), hs.open_group(tmp_path / "a.nc")
    first.close()
    first.close()
    assert second["x"][:].tolist() == [0, 1, 2, 3]
    second.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_files_that_nobody_closed_are_closed(tmp_path: Path, model: str) -> None:
    def opened() -> int:
        gc.collect()
        with LOCK:
            return sum(os.path.realpath(f"/proc/self/fd/{each}") == str(path) for each in os.listdir("/proc/self/fd"))

    path = tmp_path / "a.nc"
    with hs.create(path, "netcdf", model=model) as root:
        root.create_array("x", data=np.arange(4, dtype="i4"), dims=("x",))
    group = hs.open_group(path)
    array = group["x"]
    del group
    assert opened() > 0 and array[:].tolist() == [0, 1, 2, 3]
    del array
    assert opened() == 0
