"""Many threads share what is open: groups, arrays, caches, stores. What they read and leave is what NumPy has.

Threads begin together on what was just opened, where each is the first to need something. Where Python has a lock of
its own, it is passed on as often as can be. ``make test-free-threaded`` runs this by an interpreter that has none.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.cache import BlockCache
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Conflict
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.spec import Codec
from hyperslab.stores.memory import MemoryStore

THREADS = 8
CELLS = np.random.default_rng(18).normal(size=(40, 24)).astype("f4")
LAYOUTS = pytest.mark.parametrize(
    ("form", "options"),
    [
        ("zarr2", {"codec": "zlib:1"}),
        ("zarr3", {"codec": "blosc:lz4:5"}),
        ("zarr3", {"codec": "zstd:1", "shards": (16, 16)}),
        ("zarr3", {"codec": "none"}),
        ("nczarr", {"codec": "zlib:1"}),
        ("hdmf", {}),
    ],
    ids=["zarr2", "zarr3", "shards", "raw", "nczarr", "hdmf"],
)
CODECS = ["none", "blosc:lz4:5", "blosc:zstd:3", "zstd:1", "gzip:1", "lz4", "zlib:1"]


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Let threads take turns after each few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(work: Callable[[int], object], count: int = THREADS) -> None:
    """Call ``work`` with 0, 1 ... in a thread for each, which begin together; raise the first error."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def make(url: str, form: str, options: Any) -> None:
    """Make a dataset of groups with arrays and labels, with consolidated metadata."""
    with hs.create(url, form, durable=False, consolidated=True) as root:
        for name in ("a", "b", "c"):
            group = root.create_group(name, attrs={"title": name, "number": 1})
            group.create_array("t", data=CELLS, dims=("y", "x"), chunks=(8, 8), attrs={"units": "K"}, **options)
            group.create_array("y", data=np.arange(40) * 0.5, dims=("y",))


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(20)
@LAYOUTS
def test_all_begin_on_what_was_just_opened(tmp_path: Path, form: str, options: Any) -> None:
    """One group, one cache; each thread finds the same nodes, attributes and cells."""
    url = str(tmp_path / "d.zarr")
    make(url, form, options)
    for cache in (0, 4000, 1 << 20):  # bytes: none, one block of all, all blocks
        root = hs.open_group(url, cache_bytes=cache)

        def read(number: int, root: Any = root) -> None:
            rng = np.random.default_rng(number)
            for name in rng.permutation(["a", "b", "c"]):
                group = root[name]
                array = group["t"]
                assert sorted(group) == ["t", "y"]
                assert (group.attrs["title"], array.attrs["units"], array.dims) == (name, "K", ("y", "x"))
                np.testing.assert_array_equal(array.sel(y=[2.5, 17.0]), CELLS[[5, 34]])
                for _ in range(4):
                    start, stop = sorted(rng.integers(0, 41, 2))
                    np.testing.assert_array_equal(array[start:stop, ::3], CELLS[start:stop, ::3])
                    i, j = rng.integers(0, 40), rng.integers(0, 24)
                    assert array[i, j] == CELLS[i, j]

        at_once(read)


def test_one_array_under_every_codec(tmp_path: Path) -> None:
    """The first use of each codec's library is by all threads at once."""
    for number, codec in enumerate(CODECS):
        url = str(tmp_path / f"{number}.zarr")
        hs.create(url, "zarr2", durable=False).create_array("t", data=CELLS, chunks=(8, 8), codec=codec)
        array = hs.open_group(url)["t"]
        at_once(lambda number, array=array: np.testing.assert_array_equal(array[number:, :], CELLS[number:]))


# -- writing ----------------------------------------------------------------------------------------------------------


@LAYOUTS
def test_writers_of_chunks_and_of_parts_of_chunks(tmp_path: Path, form: str, options: Any) -> None:
    """Rows of one thread lie between those of the others, in the same chunks; blocks have chunks of their own."""
    url = str(tmp_path / "d.zarr")
    root = hs.create(url, form, durable=False)
    group = root.create_group("g")
    rows = group.create_array("rows", shape=(40, 24), dtype="f4", dims=("y", "x"), chunks=(8, 8), **options)
    blocks = group.create_array("blocks", shape=(64, 16), dtype="i8", dims=("r", "k"), chunks=(8, 8), **options)

    def write(number: int) -> None:
        for row in range(number, 40, THREADS):
            rows[row] = CELLS[row]
        own = slice(8 * number, 8 * number + 8)
        for generation in range(3):
            blocks[own] = generation + number
            assert (blocks[own] == generation + number).all()

    at_once(write)
    root.close()
    found = hs.open_group(url)["g"]
    np.testing.assert_array_equal(found["rows"][...], CELLS)
    np.testing.assert_array_equal(found["blocks"][...], np.repeat(np.arange(8) + 2, 8)[:, None].repeat(16, 1))


@LAYOUTS
def test_appenders_beside_readers(tmp_path: Path, form: str, options: Any) -> None:
    """Row i of a thread is there once; no reader finds an array of one shape with cells of another."""
    url = str(tmp_path / "d.zarr")
    root = hs.create(url, form, durable=False)
    options = {**options, "shards": (16, 2)} if "shards" in options else options
    group = root.create_group("g")
    log = group.create_array("log", (0, 2), "i8", dims=("event", "pair"), chunks=(8, 2), **options)
    rounds = 6

    def work(number: int) -> None:
        for i in range(rounds):
            if number < 4:
                log.append(np.array([[number, i], [number, i]]))
                continue
            log.refresh()
            shape = root["g"]["log"].shape
            cells = log[...]
            assert len(cells) % 2 == 0 and shape[1] == 2
            assert (cells[::2] == cells[1::2]).all()

    at_once(work)
    assert log.shape == (8 * rounds, 2)
    root.close()
    found = hs.open_group(url)["g/log"][...]
    assert sorted(map(tuple, found[::2].tolist())) == sorted((n, i) for n in range(4) for i in range(rounds))
    np.testing.assert_array_equal(found[::2], found[1::2])


class PausingStore(MemoryStore):
    """Values in memory; the thread ``slow`` waits behind each read of a document until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: int | None = None
        self.has_read, self.may_go_on = threading.Event(), threading.Event()

    def get(self, key: str) -> bytes | None:
        found = super().get(key)
        if threading.get_ident() == self.slow and key.startswith("log/"):
            self.has_read.set()
            self.may_go_on.wait(60)
        return found


@pytest.mark.parametrize("form", ["zarr2", "zarr3", "nczarr"])
def test_who_read_before_an_append_does_not_remember_that_shape_after_it(form: str) -> None:
    store = PausingStore()
    with hs.create(store, form) as root:
        root.create_array("log", data=np.arange(2), dims=("event",), chunks=(2,))
    root = hs.open_group(store, "r+")

    def look() -> None:
        store.slow = threading.get_ident()
        root["log"]

    thread = threading.Thread(target=look)
    thread.start()
    assert store.has_read.wait(60)
    log = root["log"]
    log.append(np.arange(2, 4))
    store.may_go_on.set()
    thread.join()
    assert root["log"].shape == (4,)
    log.append(np.arange(4, 6))
    np.testing.assert_array_equal(root["log"][...], np.arange(6))


@pytest.mark.parametrize("form", ["zarr2", "zarr3", "nczarr", "hdmf"])
def test_makers_of_nodes_and_attributes(tmp_path: Path, form: str) -> None:
    """Each thread makes groups and arrays and sets attributes through one group; all are there, with their own."""
    url = str(tmp_path / "d.zarr")
    root = hs.create(url, form, durable=False)

    def make_own(number: int) -> None:
        for i in range(3):
            group = root.create_group(f"g{number}_{i}", attrs={"who": number})
            group.create_array("a", data=np.full((2, 3), number), dims=(f"u{number}", f"v{number}"))
            root.attrs[f"k{number}_{i}"] = i
            assert group["a"][1, 2] == number

    at_once(make_own)
    root.close()
    found = hs.open_group(url)
    assert {name: found[name].attrs["who"] for name in found} == {
        f"g{n}_{i}": n for n in range(THREADS) for i in range(3)
    }
    for n in range(THREADS):
        assert (found[f"g{n}_2/a"][...] == n).all()
        assert [found.attrs[f"k{n}_{i}"] for i in range(3)] == [0, 1, 2]


def test_conversions_of_one_open_dataset(tmp_path: Path) -> None:
    source = str(tmp_path / "d.zarr")
    make(source, "zarr3", {"codec": "blosc:zstd:3"})
    targets = ["zarr2", "zarr3", "nczarr", "hdmf", "zarr2", "zarr3", "nczarr", "hdmf"]

    def convert(number: int) -> None:
        target = str(tmp_path / f"to{number}")
        hs.convert(source, target, format=targets[number])
        for name in ("a", "b", "c"):
            np.testing.assert_array_equal(hs.open_group(target)[name]["t"][...], CELLS)

    at_once(convert)


# -- what all of a process share -------------------------------------------------------------------------------------


def test_a_memo_that_begins_anew_meanwhile() -> None:
    memo = BoundedMemo(lambda number: -number)

    def ask(number: int) -> None:
        for i in range(4000):
            assert memo(i % 70) == -(i % 70)

    at_once(ask)


def test_chains_that_are_forgotten_meanwhile() -> None:
    def build(number: int) -> None:
        for length in range(1, 300):
            cells = np.arange(length, dtype="<f8")
            chain = build_chain([Codec("bytes"), Codec("crc32c")], ChunkLayout(np.dtype("<f8"), (length,)))
            np.testing.assert_array_equal(chain.decode(chain.encode(cells)), cells)

    at_once(build)


def test_a_cache_of_blocks_keeps_its_bound() -> None:
    cache = BlockCache(800)

    def use(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(3000):
            name = int(rng.integers(0, 20))
            found = cache.get(name, 1)
            assert found is None or (found == name).all()
            if found is None:
                cache.put(name, 1, np.full(10, float(name)))

    at_once(use)
    assert 0 < cache.nbytes <= 800
    assert cache.nbytes == 80 * sum(cache.peek(name) is not None for name in range(20))


def test_swaps_in_memory_lose_nothing() -> None:
    """A plain ``put`` is never overwritten by a swap that looked before it."""
    store = MemoryStore()
    store.put("count", b"0")
    rounds = 300

    def add(number: int) -> None:
        if number == 0:
            for i in range(rounds):
                store.put(f"other/{i}", b"x")
                store.delete(f"other/{i - 5}") if i >= 5 else None
            return
        for _ in range(rounds):
            while True:
                found = store.get_version("count")
                try:
                    store.put_if("count", str(int(bytes(found.data)) + 1).encode(), found.stamp)
                    break
                except Conflict:
                    continue

    at_once(add)
    assert store.get("count") == str(rounds * (THREADS - 1)).encode()
    assert len(list(store.list("other"))) == 5


def test_a_put_beside_a_swap_is_seen_by_it() -> None:
    """Of a put and a swap at once the swap fails or the put comes last: the put's value is there in the end."""
    store = MemoryStore()
    for number in range(400):
        store.put("k", b"before")
        stamp = store.stamp("k")
        swapped: list[bool] = []

        def write(side: int, stamp: Any = stamp, swapped: list[bool] = swapped) -> None:
            if side:
                store.put("k", b"put")
                return
            try:
                store.put_if("k", b"swap", stamp)
                swapped.append(True)
            except Conflict:
                swapped.append(False)

        at_once(write, 2)
        assert store.get("k") == b"put", (number, swapped)


def test_the_first_uses_of_two_modules_of_numcodecs_meet(tmp_path: Path) -> None:
    """numcodecs and its modules import each other: a module that another thread has half made is no error."""
    program = (
        "import sys, threading\n"
        "from hyperslab.codecs.buffers import numcodecs_module\n"
        "sys.setswitchinterval(1e-6)\n"
        "names = ['blosc', 'zstd', 'lz4', 'jenkins']\n"
        "gate, failed = threading.Barrier(len(names)), []\n"
        "def use(name):\n"
        "    gate.wait()\n"
        "    try: numcodecs_module(name)\n"
        "    except BaseException as error: failed.append(error)\n"
        "threads = [threading.Thread(target=use, args=(name,)) for name in names]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "sys.exit(repr(failed) if failed else 0)\n"
    )
    for _ in range(2):
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert not found.returncode, found.stderr
