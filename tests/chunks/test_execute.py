"""The executor over a plain dict of blocks: threads, cache, locks, errors."""

import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

from hyperslab.chunks import execute
from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource, SourceTraits
from hyperslab.errors import CorruptChunk, MemoryLimit
from hyperslab.selection.positional import select

ZERO = np.zeros((), "i8")


class Blocks(ChunkSource):
    """The least a source can be: blocks in a dict, with what was asked of it."""

    def __init__(self, shape, chunks):
        self.grid = Grid.of(shape, chunks)
        self.blocks = {}
        self.reads = []

    def read(self, coords):
        self.reads.append(coords)
        block = self.blocks.get(coords)
        return None if block is None else block.copy()

    def write(self, coords, block):
        assert block.shape == self.grid.chunk_shape(coords)
        self.blocks[coords] = block.copy()

    def erase(self, coords):
        self.blocks.pop(coords, None)


class StampedBlocks(Blocks):
    """Blocks with a version each."""

    traits = SourceTraits(stamped=True)

    def __init__(self, shape, chunks):
        super().__init__(shape, chunks)
        self.versions = {}

    def write(self, coords, block):
        super().write(coords, block)
        self.versions[coords] = self.versions.get(coords, 0) + 1

    def stamp(self, coords):
        return self.versions.get(coords)


def put(source, key, values, **options):
    plan = make_plan(select(key, source.grid.shape).region, source.grid)
    execute.write(source, plan, np.broadcast_to(np.asarray(values, "i8"), plan.shape), ZERO, Settings(**options))


def get(source, key=(), cache=None, **options):
    selection = select(key, source.grid.shape)
    plan = make_plan(selection.region, source.grid)
    out = np.empty(plan.shape, "i8")
    execute.read(source, plan, out, ZERO, Settings(**options), cache)
    return selection.finish(out)


def test_a_whole_chunk_is_written_without_reading_it():
    source = Blocks((8, 8), (4, 4))
    put(source, (slice(0, 4), slice(0, 8)), 1)
    assert source.reads == []
    put(source, (0, 0), 2)
    assert source.reads == [(0, 0)]


def test_an_edge_chunk_is_padded_with_the_fill_value():
    source = Blocks((5,), (4,))
    put(source, (), 3)
    assert source.blocks[1,].tolist() == [3, 0, 0, 0]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_threads_give_the_same_cells(workers):
    cells = np.arange(512 * 512).reshape(512, 512)
    source = Blocks((512, 512), (100, 60))
    put(source, (), cells, workers=workers)
    np.testing.assert_array_equal(get(source, workers=workers), cells)
    np.testing.assert_array_equal(
        get(source, (slice(None, None, -3), slice(7, 400)), workers=workers), cells[::-3, 7:400]
    )


def test_an_error_in_a_thread_is_raised_and_stops_the_others():
    class Failing(Blocks):
        def read(self, coords):
            if coords == (3, 0):
                raise CorruptChunk("damaged", key="3.0")
            return super().read(coords)

    source = Failing((4096, 64), (1, 64))
    with pytest.raises(CorruptChunk, match=r"3\.0"):
        get(source, workers=3)
    assert len(source.reads) < 4096


def test_the_cache_serves_a_chunk_until_it_changes():
    source = StampedBlocks((8,), (4,))
    put(source, (), 1)
    cache = BlockCache(1 << 20)
    assert get(source, 0, cache) == get(source, 1, cache) == 1
    assert source.reads == [(0,)]
    source.write((0,), np.full(4, 9))
    assert get(source, 1, cache) == 9
    assert source.reads == [(0,), (0,)]


def test_the_cache_is_bounded():
    cache = BlockCache(100)
    for i in range(10):
        cache.put(i, 0, np.zeros(5))
    assert cache.nbytes <= 100
    assert cache.get(9, 0) is not None
    assert cache.get(0, 0) is None
    cache.put("large", 0, np.zeros(50))
    assert cache.get("large", 0) is None


def test_a_cached_block_cannot_be_changed_through_a_result():
    source = StampedBlocks((4,), (4,))
    put(source, (), 1)
    cache = BlockCache(1 << 20)
    part = get(source, slice(0, 2), cache)
    part[...] = 7
    assert get(source, slice(0, 2), cache).tolist() == [1, 1]


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    require(10, 10)
    with pytest.raises(MemoryLimit, match="memory_limit"):
        require(11, 10)
    with pytest.raises(MemoryLimit):
        require(1 << 62, None)


def test_a_chunk_that_does_not_fit_is_refused():
    source = Blocks((2**40,), (2**40,))
    with pytest.raises(MemoryLimit):
        get(source, 5, memory_limit=1 << 20)


def test_batches_are_shared_between_threads():
    seen, names = [], set()
    barrier = threading.Barrier(2, timeout=20)

    def work(item):
        if item < 2:
            barrier.wait()
        names.add(threading.current_thread().name)
        seen.append(item)

    each_batch(work, range(100), 2)
    assert sorted(seen) == list(range(100))
    assert len(names) == 2


class TransactingBlocks(Blocks):
    """Blocks that tell what was written within which transaction."""

    traits = SourceTraits(transacts=True)

    def __init__(self, shape, chunks):
        super().__init__(shape, chunks)
        self.told = []

    @contextmanager
    def transaction(self, timeout):
        self.told.append(("begins", timeout))
        try:
            yield
        except ZeroDivisionError:
            self.told.append("fails")
            raise
        self.told.append("ends")

    def write(self, coords, block):
        if (block == 13).any():
            raise ZeroDivisionError
        self.told.append(coords)
        super().write(coords, block)


@pytest.mark.parametrize("workers", [1, 2])
def test_all_chunks_of_one_write_are_one_transaction(workers):
    source = TransactingBlocks((8,), (2,))
    put(source, slice(1, 7), 5, lock_timeout=7.0, workers=workers)
    assert source.told[0] == ("begins", 7.0)
    assert sorted(source.told[1:-1]) == [(0,), (1,), (2,), (3,)]
    assert source.told[-1] == "ends"
    source.told.clear()
    with pytest.raises(ZeroDivisionError):
        put(source, slice(2, 4), 13)
    assert [source.told[0][0], source.told[-1]] == ["begins", "fails"]
    source.told.clear()
    put(source, slice(2, 2), 5)
    assert source.told == [], "nothing to write needs no transaction"


def test_work_that_is_done_is_let_go():
    class Result:
        pass

    outer, left = threading.Barrier(2), []

    def work(number):
        outer.wait(30)  # both threads are at it, so that nobody is free to help with what is nested
        result = Result()
        each_batch(lambda piece, result=result: None, range(4), 2)
        left.append(weakref.ref(result))
        del result
        outer.wait(30)
        assert left[0]() is None and left[1]() is None

    each_batch(work, range(2), 2)
    assert len(left) == 2


@pytest.mark.parametrize("most", [0, 1, 3])
def test_where_no_more_threads_are_to_be_had_those_that_started_work(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The first thread starts the others; an error in it would be told nowhere, and leave the caller without a pool."""
    begin, left = threading.Thread.start, iter(range(most))

    def start(self: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[int] = []
    each_batch(done.append, range(20), 974 + most)  # numbers of workers that no other test has
    assert sorted(done) == list(range(20))
