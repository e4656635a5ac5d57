"""Stored arrays as dask arrays and dask arrays into stored ones: NumPy's cells under the schedulers of one machine."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import tokenize
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from forked import pool
from hyperslab.array.lazy_cells import is_dask_array
from hyperslab.bridges.dask import Cuts, fitted, write
from hyperslab.errors import HyperslabError, Invalid, ReadOnly, Unsupported
from hyperslab.stores import MemoryStore
from hyperslab.stores.base import Store
from hyperslab.testing.selections import random_grid, random_key, random_shape

pytestmark = pytest.mark.sampled(2)


class Plain(Store):
    """A store that can do no more than it must: no locks, no versions, one call per key."""

    def __init__(self, values=None):
        super().__init__("plain://")
        self._values = {} if values is None else values

    def get(self, key):
        return self._values.get(key)

    def put(self, key, value, *, durable=False):
        self._values[key] = bytes(value)

    def delete(self, key, *, durable=False):
        self._values.pop(key, None)

    def list(self, prefix=""):
        return iter(sorted(key for key in self._values if not prefix or key.startswith(f"{prefix}/")))


CELLS = np.arange(140, dtype="i4").reshape(10, 14)
OTHER = -CELLS - 1


@pytest.fixture(params=["zarr2", "zarr3", "netcdf"])
def place(request, tmp_path):
    """A dataset on disk with an array of chunks that do not fill it."""
    path = tmp_path / f"a.{'nc' if request.param == 'netcdf' else 'zarr'}"
    with hs.create(path, request.param) as root:
        root.create_array("t", data=CELLS, dims=("y", "x"), chunks=(3, 4))
    return path


@pytest.fixture
def root(tmp_path):
    """An empty dataset on disk."""
    return hs.create(tmp_path / "b.zarr")


SCHEDULERS = ["threads", "sync", "processes"]


@pytest.fixture(scope="module")
def processes():
    """Two processes for all tests: they know nothing of this one."""
    with pool() as started:
        yield started


@pytest.fixture
def under(processes):
    """Where the tasks are run."""

    def use(scheduler):
        return dask.config.set(scheduler=scheduler, **({"pool": processes} if scheduler == "processes" else {}))

    return use


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_reading(under, place, scheduler):
    array = hs.open(place)["t"]
    with under(scheduler):
        lazy = array.to_dask()
        np.testing.assert_array_equal(lazy, CELLS)
        np.testing.assert_array_equal((lazy[::-2, 3:] + 1).sum(0), (CELLS[::-2, 3:] + 1).sum(0))
        np.testing.assert_array_equal(lazy[[7, 0, 0]][:, 2], CELLS[[7, 0, 0]][:, 2])


def test_one_task_per_chunk_or_shard(root):
    plain = root.create_array("plain", data=CELLS, chunks=(3, 4)).to_dask()
    assert plain.chunks == ((3, 3, 3, 1), (4, 4, 4, 2))
    sharded = root.create_array("sharded", data=CELLS, chunks=(2, 2), shards=(6, 8)).to_dask()
    assert sharded.chunks == ((6, 4), (8, 6))
    np.testing.assert_array_equal(sharded, CELLS)
    varying = root.create_array("varying", data=CELLS, chunks=((3, 1, 6), (14,))).to_dask()
    assert varying.chunks == ((3, 1, 6), (14,))
    np.testing.assert_array_equal(varying, CELLS)


def test_chunks_as_asked(root):
    array = root.create_array("t", data=CELLS, dims=("y", "x"), chunks=(3, 4))
    for asked, wanted in (
        ((5, 7), ((5, 5), (7, 7))),
        (-1, ((10,), (14,))),
        ("auto", ((10,), (14,))),
        ({}, ((3, 3, 3, 1), (4, 4, 4, 2))),
        ({"x": 14}, ((3, 3, 3, 1), (14,))),
        (((1, 9), (14,)), ((1, 9), (14,))),
    ):
        lazy = array.to_dask(asked)
        assert lazy.chunks == wanted
        np.testing.assert_array_equal(lazy, CELLS)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"z": 1}, "no dimension 'z'.*there are time, x"),
        ({"tyme": 2}, "did you mean 'time'"),
        ({"time": 0}, "at least 1"),
        ({"time": -3}, "at least 1"),
        ({"time": 2.5}, "at least 1"),
        ({"time": "x"}, "'x' as a byte unit"),
        ({"time": (1, 2)}, "do not add up"),
        ((1, 2, 3), "same length"),
        (0, "at least 1"),
        (object(), "at least 1"),
    ],
)
def test_chunks_that_make_no_sense(root, asked, words):
    array = root.create_array("t", data=CELLS, dims=("time", "x"), chunks=(3, 4))
    with pytest.raises(Invalid, match=words):
        array.to_dask(asked)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (["", "é☃", "word"], str),
        ([b"", b"\x00\x01", b"abc"], bytes),
        (np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[D]"), None),
        (np.array(["ab", "c", ""]), None),
        (np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "i2"), ("b", "f8")]), None),
        (np.array([1, 2, 3], ">i4"), None),
        (np.array([True, False, True]), None),
        (np.zeros(0, "f4"), None),
    ],
    ids=str,
)
def test_every_kind_of_cell(root, data, dtype):
    array = root.create_array("a", data=np.asarray(data, object) if dtype else data, dtype=dtype, chunks=2)
    lazy = array.to_dask()
    assert lazy.dtype == lazy._meta.dtype == array.dtype
    got = lazy.compute()
    assert got.dtype == array.dtype
    assert got.tolist() == array[...].tolist()
    root.create_array("b", data=lazy, dtype=dtype)
    assert root["b"].dtype == array.dtype
    assert root["b"][...].tolist() == got.tolist()


def test_no_dimensions(root):
    array = root.create_array("a", data=np.float32(4.5))
    assert array.to_dask().compute() == 4.5
    array[...] = da.from_array(np.float64(1.5))
    assert array[()] == 1.5


def test_a_task_reads_by_its_own_thread(root):
    """The scheduler has the threads; a pool of ours in each of them would be too many."""
    seen = set()

    class Watched(dict):
        def get(self, key):
            seen.add(threading.current_thread().name)
            return super().get(key)

    cells = np.arange(1 << 22, dtype="f8")
    array = hs.create(Plain(Watched())).create_array("a", data=cells, chunks=1 << 17)
    for _ in range(50):  # on a busy machine this thread may have read all before another one woke up
        array[...]
        if any(name.startswith("hyperslab") for name in seen):
            break
    else:
        pytest.fail("no thread of the pool has read anything")
    seen.clear()
    np.testing.assert_array_equal(array.to_dask(-1), cells)
    assert len(seen) == 1
    assert not any(name.startswith("hyperslab") for name in seen)


def test_dask_s_own_functions(root):
    """An array is what dask asks of one: it can be sliced, and be stored into by blocks that share chunks."""
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    np.testing.assert_array_equal(da.from_array(array), CELLS)
    np.testing.assert_array_equal(da.from_array(array, chunks=(4, 5))[::2], CELLS[::2])
    da.store(da.from_array(OTHER, chunks=(2, 3)), array, lock=False)
    np.testing.assert_array_equal(array[...], OTHER)


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_lasts_as_long_as_nothing_changes(place):
    first = hs.open(place)["t"]
    token = tokenize(first)
    assert token == tokenize(first) == tokenize(hs.open(place)["t"]) == tokenize(pickle.loads(pickle.dumps(first)))
    assert first.to_dask().name == hs.open(place)["t"].to_dask().name
    assert first.to_dask().name != first.to_dask((5, 5)).name
    first[0]
    assert tokenize(first) == token


def test_a_change_gives_another_token(place):
    token = tokenize(hs.open(place)["t"])
    with hs.open(place, "r+") as root:
        root["t"].attrs["units"] = "K"
    changed = tokenize(hs.open(place)["t"])
    with hs.open(place, "r+") as root:
        root["t"].attrs["units"] = "m"
    assert len({token, changed, tokenize(hs.open(place)["t"])}) == 3


@pytest.mark.parametrize("url", ["disk", "memory"])
def test_writing_cells_gives_another_token(tmp_path, url):
    root = hs.create(tmp_path / "a.zarr" if url == "disk" else MemoryStore())
    array = root.create_array("t", data=CELLS)
    tokens = [tokenize(array)]
    for change in (
        lambda: array.__setitem__(0, 1),
        lambda: array.oindex.__setitem__(0, 2),
        lambda: array.lazy[0].write(3),
        lambda: array.__setitem__(0, da.zeros(14, chunks=5)),
        lambda: array.append(CELLS),
    ):
        change()
        tokens.append(tokenize(array))
    assert len(set(tokens)) == len(tokens)


def test_other_arrays_have_other_tokens(root, tmp_path):
    a, b = root.create_array("a", data=CELLS), root.create_array("b", data=CELLS)
    stores = [hs.create(MemoryStore()).create_array("a", data=CELLS) for _ in range(2)]
    assert len({tokenize(array) for array in (a, b, *stores)}) == 4


# -- writing ----------------------------------------------------------------------------------------------------------


def blocks(cells, chunks):
    """A dask array that is made of tasks."""
    return da.from_array(cells, chunks=chunks) + 0


@pytest.mark.covering
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("chunks", [(3, 4), (4, 5), (1, 14), (10, 3)])
def test_writing(under, root, scheduler, chunks):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    with under(scheduler):
        array[...] = blocks(OTHER, chunks)
    np.testing.assert_array_equal(array[...], OTHER)


@pytest.mark.parametrize(
    "key",
    [
        (slice(2, 9), slice(3, 13)),
        (slice(None, None, -1), slice(None, None, 3)),
        (5,),
        (slice(None), -1),
        ([7, 2, 4], slice(1, 6)),
        (np.arange(10) % 3 == 0,),
        (None, slice(3), Ellipsis),
    ],
    ids=str,
)
def test_writing_a_part(root, key):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    wanted = CELLS.copy()
    wanted[key] = OTHER[key]
    array[key] = blocks(OTHER[key], 2)
    np.testing.assert_array_equal(array[...], wanted)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("count", [90, pytest.param(900, marks=pytest.mark.soak)])
def test_writing_any_part(count):
    """Keys of NumPy's whole dialect that name no cell twice, chunks and blocks as they come."""
    rng, written = np.random.default_rng(2), 0
    for number in range(count):
        shape = random_shape(rng, 3)
        root = hs.create(MemoryStore() if number % 3 else Plain())
        wanted = np.zeros(shape, "i8")
        array = root.create_array("t", data=wanted, chunks=random_grid(rng, shape))
        key = random_key(rng, shape, invalid=0)
        places = np.arange(wanted.size).reshape(shape)[key]
        if np.unique(places).size != places.size:
            continue
        written += 1
        values = np.arange(1, places.size + 1).reshape(places.shape)
        wanted[key] = values
        array[key] = da.from_array(values, chunks=int(rng.integers(1, 5)))
        np.testing.assert_array_equal(array[...], wanted)
    assert written > count // 3


def test_labels_say_where(root):
    root.create_array("y", data=np.linspace(0, 4.5, 10), dims=("y",))
    array = root.create_array("t", data=CELLS, dims=("y", "x"), chunks=(3, 4))
    wanted = CELLS.copy()
    array[1.5:4.0] = blocks(OTHER[3:8], 2)
    wanted[3:8] = OTHER[3:8]
    np.testing.assert_array_equal(array[...], wanted)
    write(array, blocks(OTHER[:2, 4:], 3), {"x": slice(4, None), "y": slice(2)})
    wanted[:2, 4:] = OTHER[:2, 4:]
    np.testing.assert_array_equal(array[...], wanted)
    with pytest.raises(Invalid, match="'z'"):
        write(array, blocks(OTHER, 3), {"z": slice(2)})
    with pytest.raises(Invalid, match="no dimension names"):
        write(array.lazy[1:], blocks(OTHER, 3), {"x": slice(2)})


def test_writing_into_a_view(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    write(array.lazy[::-1], blocks(OTHER, 3))
    np.testing.assert_array_equal(array[...], OTHER[::-1])
    write(array.lazy[2:], blocks(CELLS[:2], 3), (slice(1, 3),))
    np.testing.assert_array_equal(array[3:5], CELLS[:2])


@pytest.mark.parametrize("shape", [(14,), (1, 14), (10, 1), (1, 1), (), (1, 1, 10, 14)])
def test_broadcasting(root, shape):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    array[...] = da.from_array(value, chunks=4)
    np.testing.assert_array_equal(array[...], np.broadcast_to(value.reshape(shape[-2:]), (10, 14)))


@pytest.mark.parametrize("shape", [(13,), (2, 14), (2, 10, 14), (0, 14)])
def test_what_does_not_broadcast(root, shape):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    with pytest.raises(ValueError, match="broadcast"):
        array[...] = da.zeros(shape, chunks=4)
    np.testing.assert_array_equal(array[...], CELLS)


def test_fields(root):
    cells = np.array([(1, 1.5), (2, 2.5), (3, 3.5)], [("a", "i4"), ("b", "f8")])
    array = root.create_array("s", data=cells, chunks=2)
    array["b"] = da.from_array(np.array([7.0, 8.0, 9.0]), chunks=1)
    cells["b"] = [7, 8, 9]
    np.testing.assert_array_equal(array[...], cells)


def test_casting_is_numpys(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    array[...] = blocks(OTHER * 1.5, 4)
    np.testing.assert_array_equal(array[...], (OTHER * 1.5).astype("i4"))


def unknown(cells, chunks):
    """Rows that are even, of which dask does not know how many there are."""
    lazy = da.from_array(cells, chunks=chunks)
    return lazy[lazy[:, 0] % 2 == 0]


def test_unknown_chunk_sizes(root):
    rows = np.arange(60).reshape(20, 3)
    even = rows[rows[:, 0] % 2 == 0]
    root["t"] = unknown(rows, (3, 2))
    np.testing.assert_array_equal(root["t"][...], even)
    root["t"][::-1] = unknown(rows, (7, 3))
    np.testing.assert_array_equal(root["t"][...], even[::-1])
    with pytest.raises(ValueError, match="broadcast"):
        root["t"][1:] = unknown(rows, (7, 3))
    with pytest.raises(Invalid, match="compute_chunk_sizes"):
        write(root["t"], unknown(rows, (7, 3)), compute=False)


def test_writing_later(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    later = write(array, blocks(OTHER, 4), compute=False)
    more = write(
        root.create_array("u", data=CELLS), blocks(OTHER, 4), region=(slice(0, 2),) if False else None, compute=False
    )
    np.testing.assert_array_equal(array[...], CELLS)
    assert dask.compute(later, more) == (None, None)
    np.testing.assert_array_equal(array[...], OTHER)
    np.testing.assert_array_equal(root["u"][...], OTHER)


def test_writing_the_same_again_writes_again(root):
    array, data = root.create_array("t", data=CELLS), blocks(OTHER, 4)
    first, second = (write(array, data, compute=False) for _ in range(2))
    assert first.key != second.key
    array[...] = data
    array[...] = 0
    array[...] = data
    np.testing.assert_array_equal(array[...], OTHER)


def test_blocks_of_another_shape_than_told(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    wrong = blocks(OTHER, 5).map_blocks(lambda block: block[:1], chunks=((5, 5), (5, 5, 4)), dtype="i4")
    with pytest.raises(Invalid, match=r"block \(\d, \d\) is of shape \(1, \d\), dask had told"):
        array[...] = wrong


class Slow(Plain):
    """Once it is told so, a chunk is stored when the writer has gone on, or in a while."""

    def __init__(self):
        super().__init__()
        self.slow, self.busy, self.gone_on = False, threading.Event(), threading.Event()

    def put(self, key, value, *, durable=False):
        if self.slow:
            self.busy.set()
            self.gone_on.wait(0.5)
        super().put(key, value, durable=durable)


def rows(first, second):
    """Two blocks, each computed by a function."""

    def row(block, block_id):
        return (second if block_id[0] else first)(block)

    return blocks(OTHER, (5, 14)).map_blocks(row, dtype="i4", meta=OTHER[:0])


def failing_after(event):
    """What fails once something has happened."""

    def fail(_):
        event.wait()
        raise OSError("no such cells")

    return fail


@contextmanager
def two_threads():
    """They have ended their work afterwards."""
    with ThreadPoolExecutor(2) as threads, dask.config.set(scheduler="threads", pool=threads):
        yield


def test_a_write_that_fails_waits_for_what_is_being_stored():
    store = Slow()
    array = hs.create(store).create_array("t", data=CELLS, chunks=(5, 14))
    store.slow = True
    with two_threads():
        with pytest.raises(OSError, match="no such cells"):
            array[...] = rows(lambda block: block, failing_after(store.busy))
        found = array[...]
        store.gone_on.set()
    np.testing.assert_array_equal(found[:5], OTHER[:5])
    np.testing.assert_array_equal(found[5:], CELLS[5:])


def test_nothing_is_stored_after_a_write_has_failed(root):
    """By a task that was still computing its block."""
    array = root.create_array("t", data=CELLS, chunks=(5, 14))
    busy, failed = threading.Event(), threading.Event()

    def slowly(block):
        busy.set()
        failed.wait()
        return block

    with two_threads():
        with pytest.raises(OSError, match="no such cells"):
            array[...] = rows(slowly, failing_after(busy))
        failed.set()
    np.testing.assert_array_equal(array[...], CELLS)


def test_nothing_is_written_to_what_is_read_only(place):
    array, made = hs.open(place)["t"], []
    data = blocks(OTHER, 5).map_blocks(lambda block: made.append(1) or block, dtype="i4", meta=OTHER[:0])
    with pytest.raises(ReadOnly):
        array[...] = data
    assert made == []


def test_an_array_that_is_made_of_itself(root):
    """Cell by cell it may be; where blocks would read what others have written, nothing is written."""
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    array[...] = array.to_dask() * 2 + da.from_array(CELLS, chunks=(3, 4))
    np.testing.assert_array_equal(array[...], CELLS * 3)
    array[...] = CELLS
    for data in (
        array.to_dask()[::-1],
        array.to_dask() - array.to_dask().sum(axis=0),
        array.to_dask().rechunk((4, 5)),
        hs.open(root.url)["t"].to_dask()[:, ::-1] + 1,
    ):
        with pytest.raises(Invalid, match="made of the array that it is written to"):
            array[...] = data
        np.testing.assert_array_equal(array[...], CELLS)
    with pytest.raises(Invalid, match="persist"):
        array[::-1] = array.to_dask()
    array[::-1] = array.to_dask().persist()
    np.testing.assert_array_equal(array[::-1], CELLS)
    root["u"] = array.to_dask()[::-1]
    np.testing.assert_array_equal(root["u"], CELLS)


def test_no_way_to_read_itself_is_missed(root):
    """However the graph came by the array: what another part of the program dropped, dask's and xarray's own ways."""
    array = root.create_array("t", data=CELLS, dims=("y", "x"), chunks=(3, 4))
    lazy = array.to_dask()
    again = array.to_dask()
    assert again.name == lazy.name
    del again
    (Path(root.url).parent / "link.zarr").symlink_to(root.url)
    dataset = xr.open_dataset(root.url, engine="hyperslab", chunks={})
    turned = {
        "ours": lazy[::-1],
        "pickled": pickle.loads(pickle.dumps(lazy))[::-1],
        "optimized": dask.optimize(lazy[::-1])[0],
        "from_array": da.from_array(array)[::-1],
        "inline": da.from_array(array, inline_array=True)[::-1],
        "view": da.from_array(array.lazy[::-1]),
        "xarray": (dataset["t"] * 1).data[::-1],
        "lazy xarray": hs.open(root.url).to_xarray()["t"][::-1].chunk({"y": 2}).data,
        "linked": hs.open(Path(root.url).parent / "link.zarr")["t"].to_dask()[::-1],
        "several": lazy + root.create_array("u", data=CELLS, chunks=(3, 4)).to_dask() + da.from_array(array)[::-1],
    }
    for name, data in turned.items():
        with pytest.raises(Invalid, match="made of the array that it is written to"):
            array[...] = data
        np.testing.assert_array_equal(array[...], CELLS, name)
    array[...] = lazy + root["u"].to_dask()[::-1].rechunk((3, 4))  # the other one may be turned as it likes
    np.testing.assert_array_equal(array[...], CELLS + CELLS[::-1])


def test_an_error_in_a_block_is_raised(root):
    def fail(block):
        raise RuntimeError("no such block")

    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    with pytest.raises(RuntimeError, match="no such block"):
        array[...] = blocks(OTHER, 5).map_blocks(fail, dtype="i4", meta=OTHER[:0])
    with pytest.raises(RuntimeError, match="no such block"):
        root["u"] = blocks(OTHER, 5).map_blocks(fail, dtype="i4", meta=OTHER[:0])
    assert list(root) == ["t"]


def test_every_way_to_assign(root):
    array, wanted = root.create_array("t", data=CELLS, chunks=(3, 4)), CELLS.copy()
    array.oindex[[7, 2], 1:] = blocks(OTHER[:2, 1:], 3)
    wanted[np.ix_([7, 2], np.arange(1, 14))] = OTHER[:2, 1:]
    array.vindex[[0, 9], [1, 2]] = da.from_array(np.array([5, 6]), chunks=1)
    wanted[[0, 9], [1, 2]] = [5, 6]
    array.lazy[3:5, ::-1].write(blocks(OTHER[:2], 3))
    wanted[3:5, ::-1] = OTHER[:2]
    np.testing.assert_array_equal(array[...], wanted)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "netcdf"])
def test_appending(tmp_path, format):
    """Row of blocks by row of blocks; the new shape is seen at once, when all are written."""
    path = tmp_path / ("a.nc" if format == "netcdf" else "a.zarr")
    with hs.create(path, format) as root:
        options = {"dims": ("y", "x")}
        array = root.create_array("t", shape=(0, 14), dtype="i4", chunks=(3, 4), **options)
        seen = []
        data = blocks(OTHER, (4, 5)).map_blocks(
            lambda block: seen.append(hs.open(path)["t"].shape if format != "netcdf" else (0, 14)) or block,
            dtype="i4",
            meta=OTHER[:0],
        )
        array.append(data)
        assert set(seen) == {(0, 14)}
        array.append(unknown(CELLS, (3, 14)))
        with pytest.raises(Invalid, match="does not fit"):
            array.append(blocks(OTHER[:, 1:], 3))
    np.testing.assert_array_equal(hs.open(path)["t"], np.concatenate([OTHER, CELLS[CELLS[:, 0] % 2 == 0]]))


def test_appending_what_fails_half_way(root):
    """What was written by then is never seen."""
    array = root.create_array("t", data=CELLS, chunks=(3, 4), fill_value=7)

    def fail_at_the_end(block, block_id=None):
        if block_id[0] == 2:
            raise RuntimeError("no such block")
        return block

    with pytest.raises(RuntimeError, match="no such block"):
        array.append(blocks(OTHER, (4, 14)).map_blocks(fail_at_the_end, dtype="i4", meta=OTHER[:0]))
    assert array.shape == (10, 14)
    array.resize((20, 14))
    np.testing.assert_array_equal(array[:10], CELLS)
    assert (array[10:] == 7).all()


def test_appending_along_another_axis(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4), dims=("y", "x"))
    array.append(blocks(OTHER, (4, 14)), "x")
    np.testing.assert_array_equal(array, np.concatenate([CELLS, OTHER], axis=1))


# -- new arrays -------------------------------------------------------------------------------------------------------


def test_new_arrays(root):
    data = blocks(OTHER, (4, 5))
    root["t"] = data
    root.create_array("u", data=data, chunks=(3, 3), shards=(6, 6), dims=("y", "x"), dtype="f8")
    for array in root["t"], root["u"]:
        np.testing.assert_array_equal(array[...], OTHER)
    assert (root["t"].chunks, root["t"].dtype) == ((4, 5), data.dtype)
    assert (root["u"].shards, root["u"].dims, root["u"].dtype) == ((6, 6), ("y", "x"), np.dtype("f8"))


def test_objects_want_a_type(root):
    texts = da.from_array(np.array(["a", "é", ""], object), chunks=2)
    with pytest.raises(Invalid, match="dtype="):
        root["t"] = texts
    root.create_array("t", data=texts, dtype=str)
    assert root["t"][...].tolist() == ["a", "é", ""]


def test_nothing_is_computed_whole(root):
    """At no time are there more than a few of 64 blocks."""
    alive, most = set(), []

    def make(block):
        made = np.array(block)
        alive.add(id(made))
        weakref.finalize(made, alive.discard, id(made))
        most.append(len(alive))
        return made

    data = da.zeros((64, 100), chunks=(1, 100)).map_blocks(make, dtype="f8", meta=np.zeros((0, 0)))
    with dask.config.set(scheduler="sync"):
        root["t"] = data
        root["t"][::-1] = data
    assert len(most) == 2 * 64
    assert max(most) <= 4


def test_chunks_fit_the_blocks():
    assert fitted(((100, 100, 50), (8,)), (40, 100)) == (25, 8)
    assert fitted(((97, 97),), (40,)) == (40,)
    assert fitted(((3, 5, 2), (0,)), (4, 7)) == (4, 7)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=9))
def test_cuts(sizes):
    """Small where blocks are of one length, and always those of dask."""
    cuts = Cuts.of((tuple(sizes), (3, 3, 2)))
    edges = np.cumsum([0, *sizes])
    assert [cuts.extent((i, 2))[0] for i in range(len(sizes))] == [slice(a, b) for a, b in pairwise(edges)]
    assert cuts.extent((0, 2))[1] == slice(6, 8)
    assert Cuts.of(((5,) * 1000,)).sizes == (5,)


# -- blocks that share chunks -----------------------------------------------------------------------------------------

SIZES = st.integers(1, 20)


@st.composite
def layouts(draw):
    """A shape, the chunks and shards of the stored array, and any cuts of the data."""
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 6)) for _ in shape)
    shards = tuple(cut * draw(st.integers(1, 3)) for cut in chunks) if draw(st.booleans()) else None
    cuts = []
    for length in shape:
        edges = sorted(draw(st.sets(st.integers(1, length - 1), max_size=4))) if length > 1 else []
        edges = [0, *edges, length]
        cuts.append(tuple(b - a for a, b in pairwise(edges)))
    return shape, chunks, shards, tuple(cuts)


@given(layouts(), st.booleans(), st.sampled_from(["locks", "none", "turned"]))
@settings(max_examples=min(settings.default.max_examples, 150))
def test_any_cuts_lose_nothing(layout, inside, kind):
    """Blocks and chunks as they come, in stores with locks and without, in a part of the array, turned round."""
    shape, chunks, shards, cuts = layout
    data = np.arange(1, np.prod(shape) + 1).reshape(shape)
    root = hs.create(MemoryStore() if kind == "locks" else Plain())
    outer = tuple(length + 4 for length in shape) if inside else shape
    array = root.create_array("t", shape=outer, dtype="i8", chunks=chunks, shards=shards, fill_value=-1)
    key = tuple(slice(2, 2 + length) if inside else slice(None) for length in shape)
    wanted = np.full(outer, -1)
    array[...] = wanted
    if kind == "turned":
        key = tuple(slice(2 + length - 1, 1, -1) if inside else slice(None, None, -1) for length in shape)
    wanted[key] = data
    array[key] = da.from_array(data, chunks=cuts)
    np.testing.assert_array_equal(array[...], wanted)
    np.testing.assert_array_equal(array.to_dask(), wanted)


@pytest.mark.parametrize("times", [1, *(pytest.param(time, marks=pytest.mark.soak) for time in range(2, 6))])
def test_threads_that_share_a_chunk_lose_nothing(tmp_path, times):
    """Each block is one cell, all blocks lie in one chunk, 16 threads write them."""
    cells = np.arange(100)
    for target in (MemoryStore(), Plain(), tmp_path / "a.zarr", tmp_path / "a.zarr.zip", tmp_path / "a.nc"):
        with hs.create(target) as root:
            array = root.create_array("t", shape=100, dtype="i8", chunks=100)
            with dask.config.set(scheduler="threads", num_workers=16):
                array[::-1] = da.from_array(cells, chunks=1)
                np.testing.assert_array_equal(array[...], cells[::-1])
                array[...] = da.from_array(cells, chunks=1)
                np.testing.assert_array_equal(array[...], cells)


def test_processes_that_share_a_chunk_lose_nothing(under, root):
    array = root.create_array("t", shape=60, dtype="i8", chunks=60)
    with under("processes"):
        array[...] = da.arange(60, chunks=1)
    np.testing.assert_array_equal(array[...], np.arange(60))


# -- what cannot travel -----------------------------------------------------------------------------------------------


def test_what_is_of_this_process_is_for_its_threads(under, tmp_path):
    array = hs.create(MemoryStore()).create_array("t", data=CELLS)
    np.testing.assert_array_equal(array.to_dask(), CELLS)
    with under("processes"):
        with pytest.raises(Unsupported, match="name its place"):
            array.to_dask()
        with pytest.raises(Unsupported, match="name its place"):
            array[...] = blocks(OTHER, 5)
    with hs.create(tmp_path / "a.nc") as root:
        root["t"] = blocks(OTHER, 5)
        with under("processes"):  # they compute, and this one stores
            root["t"][...] = blocks(CELLS, 5)
    np.testing.assert_array_equal(hs.open(tmp_path / "a.nc")["t"][...], CELLS)


def test_a_graph_is_small(root):
    """What a task carries is the place and the options, not the cells and not where every block lies."""
    import cloudpickle

    array = root.create_array("t", shape=2_000, dtype="i8", chunks=10)
    lazy = cloudpickle.loads(cloudpickle.dumps(array.to_dask(1_000)))
    np.testing.assert_array_equal(lazy, np.zeros(2_000))
    later = write(array, da.arange(2_000, chunks=10), compute=False)
    task = next(task for key, task in later.dask.items() if "hyperslab-write" in str(key))
    assert len(cloudpickle.dumps(task)) < 6_000
    cloudpickle.loads(cloudpickle.dumps(later)).compute()
    np.testing.assert_array_equal(array[...], np.arange(2_000))


# -- other kinds of dask ----------------------------------------------------------------------------------------------

PLANNED = """
import dask, numpy as np, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
dask.config.set({"array.query-planning": True})
import dask.array as da
import hyperslab as hs
from hyperslab.bridges.dask import write

def main(pool):
    assert da.Array.__module__ == "dask.array._array_expr._collection"
    root = hs.create(sys.argv[1])
    cells = np.arange(140).reshape(10, 14)
    array = root.create_array("t", data=cells, chunks=(3, 4))
    for scheduler in ("threads", "processes"):
        with dask.config.set(scheduler=scheduler, **({"pool": pool} if scheduler == "processes" else {})):
            lazy = array.to_dask()
            assert lazy.chunks == ((3, 3, 3, 1), (4, 4, 4, 2))
            np.testing.assert_array_equal(lazy.compute(), cells)
            np.testing.assert_array_equal((lazy[::-2, 1:] + 1).sum(0).compute(), (cells[::-2, 1:] + 1).sum(0))
            cells = -cells - 1
            array[...] = da.from_array(cells, chunks=(4, 5))
            np.testing.assert_array_equal(array[...], cells)
            with hs.create(sys.argv[1] + scheduler + ".nc") as file:
                file["u"] = file["t"] = da.from_array(cells, chunks=(4, 5))
                for name in ("t", "u"):
                    np.testing.assert_array_equal(file[name][...], cells)
    later = write(array, da.from_array(cells[:, :3] * 2, chunks=2), (slice(None), slice(3)), compute=False)
    np.testing.assert_array_equal(array[...], cells)
    later.compute()
    cells[:, :3] *= 2
    np.testing.assert_array_equal(array[...], cells)
    array[...] = array.to_dask() * 2
    cells *= 2
    np.testing.assert_array_equal(array[...], cells)
    for data in (array.to_dask()[::-1], array.to_dask() - array.to_dask().sum(axis=0), array.to_dask().T.T):
        try:
            array[...] = data
        except hs.errors.Invalid as error:
            assert "made of the array" in str(error)
        else:
            raise AssertionError(data)
    root["u"] = da.from_array(cells, chunks=5)
    np.testing.assert_array_equal(root["u"][...], cells)
    numbers = da.from_array(np.arange(20), chunks=6)
    even = numbers.map_blocks(lambda block: block[block % 2 == 0], chunks=((np.nan,) * 4,), dtype=int)
    root["v"] = even
    np.testing.assert_array_equal(root["v"][...], np.arange(0, 20, 2))

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        main(pool)
"""


@pytest.mark.sampled(0)
def test_query_planning(tmp_path):
    """It is settled for a process when dask.array is imported."""
    pytest.importorskip("dask.array._array_expr")
    (tmp_path / "planned.py").write_text(PLANNED)
    command = [sys.executable, "-W", "error", str(tmp_path / "planned.py"), str(tmp_path / "a.zarr")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_a_dask_array():
    assert is_dask_array(da.zeros(3))
    for value in (np.zeros(3), dask.delayed(1), [1], None):
        assert not is_dask_array(value)


def test_dask_is_imported_on_use():
    program = "import hyperslab as hs, sys, numpy as np\n"
    program += "hs.create('memory://x').create_array('a', data=np.arange(3))[0] = 1\nassert 'dask' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_error_is_ours(root):
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    lazy = array.to_dask()
    (next(path for path in Path(root.url).glob("t/c/1/1"))).write_bytes(b"broken")
    with pytest.raises(HyperslabError, match="t/c/1/1"):
        lazy.compute()
