"""Arrays in several tiles against NumPy, what they touch, and what a write leaves that fails."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tiled import ASIDE, JOURNAL, Between, Stopper, aside, made, opened, tiles_of

from hyperslab.chunks import engine, execute
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.plan import make_plan, outer_chunks
from hyperslab.chunks.settings import Settings
from hyperslab.database.arrays import write_tiles
from hyperslab.errors import Conflict, CorruptChunk, FormatError, NodeNotFound, ReadOnly, StorageError, TilesFailed
from hyperslab.formats.collections.own.tile_transaction import JournalEntry, parse_journal
from hyperslab.formats.collections.own.tiles import open_shard
from hyperslab.selection.positional import select
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.object import ObjectStore
from hyperslab.testing.datasets import advanced_keys, basic_keys
from hyperslab.testing.sources import SourceTests

CELLS = np.arange(1, 65, dtype="i4").reshape(8, 8)


def journal_of(store: Any) -> JournalEntry | None:
    data = store.get(JOURNAL)
    return None if data is None else parse_journal(data, JOURNAL)


@given(data=st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_writes_are_numpys(data: st.DataObject) -> None:
    """Whatever is selected, of tiles that reach past the edge, and cleared now and then."""
    shape = (7, 9)
    expected = np.full(shape, -1, "i4")
    array = made(MemoryStore(), shape, (4, 4), (2, 4), fill=-1)
    for value in range(4):
        key, wanted = (data.draw(basic_keys(shape) | advanced_keys(shape)) for _ in range(2))
        cells = -1 if data.draw(st.booleans()) else value
        try:
            expected[key] = cells
            found = expected[wanted]
        except IndexError:
            reject()
        array[key] = cells
        np.testing.assert_array_equal(array[wanted], found)
    np.testing.assert_array_equal(array[...], expected)


def test_every_kind_of_store(store: Any) -> None:
    """Whole, in part, along one axis; nothing lies aside afterwards and the journal is done."""
    array, expected = made(store), np.zeros((8, 8), "i4")
    for seed in range(30):
        rng = np.random.default_rng(seed)
        key = tuple(slice(*sorted(rng.integers(0, 9, 2))) for _ in range(2))
        array[key] = expected[key] = rng.integers(0, 2) * seed
        np.testing.assert_array_equal(opened(store)[...], expected)
        assert aside(store) == []
    entry = journal_of(store)
    assert entry is not None
    assert not entry.pending


def test_one_tile_needs_no_journal(store: Any) -> None:
    array = made(store)
    array[1:3, 4:8] = 7
    array[0, 0] = 8
    assert journal_of(store) is None
    assert tiles_of(store) == ["a/c/0/0", "a/c/0/1"]
    assert aside(store) == []


@pytest.mark.parametrize("durable", [False, True])
def test_what_is_cleared_is_removed(store: Any, durable: bool) -> None:
    """A tile without a cell is no file, whether it is cleared alone or with others; others stay what they are. In a
    bucket one that is cleared alone stays, for another writer may fill it meanwhile."""
    array = made(store, durable=durable)
    array[...] = CELLS
    array[0:4, 0:4] = 0
    assert ("a/c/0/0" in tiles_of(store)) == isinstance(store, ObjectStore)
    assert tiles_of(store)[-3:] == ["a/c/0/1", "a/c/1/0", "a/c/1/1"]
    array[0:4] = 0
    assert tiles_of(store) == ["a/c/1/0", "a/c/1/1"]
    array[3:6] = 0
    array[:, 0:6] = 0
    assert tiles_of(store) == ["a/c/1/1"]
    expected = CELLS.copy()
    expected[:6] = expected[:, :6] = 0
    np.testing.assert_array_equal(array[...], expected)
    array[...] = 0
    assert tiles_of(store) == []


def test_growing_and_shrinking(store: Any) -> None:
    array = made(store)
    array[...] = CELLS
    array.append(CELLS[:3])
    array.append(CELLS[:6, :], 0)
    expected = np.concatenate([CELLS, CELLS[:3], CELLS[:6]])
    np.testing.assert_array_equal(opened(store)[...], expected)
    array.resize((3, 6))
    array.resize((17, 8))
    grown = np.zeros((17, 8), "i4")
    grown[:3, :6] = CELLS[:3, :6]
    np.testing.assert_array_equal(opened(store)[...], grown)
    assert isinstance(store, ObjectStore) or tiles_of(store) == ["a/c/0/0", "a/c/0/1"]
    assert aside(store) == []


def touched(store: Any, key: Any, value: Any = None) -> set[str]:
    """The tiles that a read or write asks for."""
    keys: list[str] = []
    array = opened(Between(store, lambda operation, key: keys.append(key)), cache_bytes=0)
    if value is None:
        array[key]
    else:
        array[key] = value
    names = {key.rpartition("c.")[2].replace(".", "/") for key in keys if key.startswith(f"{ASIDE}/")}
    return names | {key.removeprefix("a/c/") for key in keys if key.startswith("a/c/")}


@pytest.mark.parametrize(("tile", "count"), [((2, 2, 4), 4), ((2, 2, 2), 8), ((4, 2, 2), 4), ((1, 4, 4), 2)])
def test_the_tiles_of_a_slice_and_no_other(
    store: Any, tile: tuple[int, ...], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: ``[1:3, :, :]`` of (4, 4, 4)."""
    monkeypatch.setattr(engine, "turned_off", True)  # which reads files without asking the store
    array = made(store, (4, 4, 4), tile, (1, 1, 1))
    array[...] = 1
    key = np.s_[1:3, :, :]
    grid = Grid.of((4, 4, 4), tile)
    wanted = {"/".join(map(str, piece.coords)) for piece in make_plan(select(key, (4, 4, 4)).region, grid)}
    assert len(wanted) == count
    assert touched(store, key) == wanted
    assert touched(store, key, 2) == wanted
    assert touched(store, np.s_[3, 3, 3]) == {"/".join(map(str, (3 // side for side in tile)))}


def test_a_plan_over_many_tiles_is_short() -> None:
    """Its making calls no function for each of 10,000 tiles, and asks for nothing."""
    array = made(MemoryStore(), (400, 400), (4, 4), (4, 4))
    cells = array.lazy[()].cells
    region = select((slice(1, 399), slice(1, 399)), array.shape).region
    calls: list[str] = []
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    plan = make_plan(region, cells.grid)
    sys.setprofile(None)
    assert plan.count == 10_000
    assert len(calls) < 2_000
    assert len(outer_chunks(plan)) == 10_000


class TestTheSource(SourceTests):
    """What every source must do."""

    dtype = np.dtype("<i4")

    @pytest.fixture
    def source(self, store: Any) -> Any:
        return made(store, (12, 6), (8, 6), (4, 3))._cells.source


# -- failures ---------------------------------------------------------------------------------------------------------


def test_one_error_tells_of_all_tiles_that_fail_to_be_written(store: Any) -> None:
    """R10: nothing of the write shows, and nothing lies aside."""
    made(store)[...] = CELLS
    before = {key: store.get(key) for key in store.list()}

    def full(operation: str, key: str) -> None:
        if operation == "put" and key.endswith((".c.0.1", ".c.1.0")):
            raise StorageError("no space left", key=key)

    array = opened(Between(store, full))
    with pytest.raises(TilesFailed, match=r"2 of 4 tiles .* nothing of this write shows") as failure:
        array[1:7, 1:7] = 5
    assert {place: type(error) for place, error in failure.value.exceptions.items()} == {
        (0, 1): StorageError,
        (1, 0): StorageError,
    }
    assert {key: store.get(key) for key in store.list()} == before
    np.testing.assert_array_equal(array[...], CELLS)
    opened(store)[1:7, 1:7] = 5
    assert (opened(store)[1:7, 1:7] == 5).all()


def test_a_durable_write_that_fails_in_the_end_shows_nothing(store: Any) -> None:
    made(store)[...] = CELLS
    before = {key: store.get(key) for key in store.list()}
    for doomed in (".c.1.1", JOURNAL):

        def full(operation: str, key: str, doomed: str = doomed) -> None:
            if operation in ("put", "put_if") and key.endswith(doomed):
                raise StorageError("no space left", key=key)

        with pytest.raises(StorageError, match="no space left"):
            opened(Between(store, full), durable=True)[1:7, 1:7] = 5
        assert {key: store.get(key) for key in store.list()} == before


def test_one_error_tells_of_all_tiles_that_cannot_be_read(store: Any) -> None:
    """Also those that a write must read first. A read of one tile fails as it does elsewhere."""
    array = made(store)
    array[...] = CELLS
    for key in ("a/c/0/0", "a/c/1/1"):
        store.put(key, store.get(key)[:-3] + b"\xff\xff\xff")
    before = {key: store.get(key) for key in store.list()}
    for act in (lambda: array[...], lambda: array.__setitem__((slice(1, 7), slice(1, 7)), 5)):
        with pytest.raises(TilesFailed, match="2 of 4 tiles") as failure:
            act()
        assert {place: type(error) for place, error in failure.value.exceptions.items()} == {
            (0, 0): CorruptChunk,
            (1, 1): CorruptChunk,
        }
    assert {key: store.get(key) for key in store.list()} == before
    with pytest.raises(CorruptChunk):
        array[0, 0]
    np.testing.assert_array_equal(array[:4, 4:], CELLS[:4, 4:])
    array[...] = CELLS
    np.testing.assert_array_equal(array[...], CELLS)


@pytest.mark.covering
@pytest.mark.parametrize("key", [np.s_[1:7, 1:7], np.s_[0, 0]])
def test_an_array_that_is_removed_between_any_two_operations_of_a_writer(store: Any, key: Any) -> None:
    """The writer is told, and leaves nothing."""

    def remove() -> None:
        for place in ("a", JOURNAL, ASIDE):
            store.delete_prefix(place)

    def left() -> list[str]:
        return [key for key in store.list() if key != "zarr.json"]

    at, removed = 1, True
    while removed:
        made(store)[...] = CELLS
        stopper = Stopper(0, remove)
        array = opened(Between(store, stopper), workers=1)
        array[0, 0] = 7  # the writer has seen that it is there
        stopper.count, stopper.at = 0, at
        try:
            array[key] = 5
        except NodeNotFound as error:
            assert error.key == "a/zarr.json"
            assert left() == []
        removed = stopper.count >= at
        assert removed == (left() == [])
        at += 1
    assert at > 4


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_an_array_of_one_shard_that_is_removed(kind: str, tmp_path: Path) -> None:
    """Its writer is told, too, and leaves nothing."""
    store: Any = MemoryStore() if kind == "memory" else DirectoryStore(tmp_path / "x")
    at, removed = 1, True
    while removed:
        spec, stopper = made(store, tile=(8, 8)).spec, Stopper(0, lambda: store.delete_prefix("a"))
        source = open_shard(Between(store, stopper), "a", spec, Settings(durable=False))
        plan = make_plan(select((slice(1, 5), slice(1, 5)), spec.shape).region, source.grid)
        execute.write(source, plan, CELLS[1:5, 1:5], spec.fill_cell())
        stopper.count, stopper.at = 0, at
        with suppress(NodeNotFound):
            execute.write(source, plan, CELLS[1:5, 1:5], spec.fill_cell())
        removed = stopper.count >= at
        assert [key for key in store.list() if key != "zarr.json"] == ([] if removed else ["a/c/0/0", "a/zarr.json"])
        at += 1
    assert at > 4


def test_a_write_of_a_database_is_all_or_nothing(store: Any) -> None:
    """When it fails in its end the tiles are not tried one by one."""
    made(store)[...] = CELLS
    before = {key: store.get(key) for key in store.list()}

    def full(operation: str, key: str) -> None:
        if operation in ("put", "put_if") and key == JOURNAL:
            raise StorageError("no space left", key=key)

    array = opened(Between(store, full), durable=True)
    with pytest.raises(StorageError, match="no space left"):
        write_tiles(array, (slice(1, 7), slice(1, 7)), (4, 4), np.full((6, 6), 5, "i4"))
    assert {key: store.get(key) for key in store.list()} == before


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_writers_wait_for_their_tiles_alone(kind: str, tmp_path: Path) -> None:
    """One tile is free while a write over others is at work; the same tile, or several, wait until the timeout."""
    store: Any = MemoryStore() if kind == "memory" else DirectoryStore(tmp_path / "x")
    made(store)[...] = CELLS
    other = opened(store, lock_timeout=0.05)
    busy = opened(store)
    with busy._cells.source.multi_shard_write([(0, 0), (0, 1)], 1.0):
        other[5, 5] = -5
        with pytest.raises(Conflict):
            other[0, 0] = -1
        with pytest.raises(Conflict):
            other[4:, :] = -1
        assert other[5, 5] == -5
        assert other[0, 0] == 1
        np.testing.assert_array_equal(other[:4], CELLS[:4])
    with busy._cells.source.multi_shard_write([(0, 0)], 1.0) as target, target.lock([(0, 0)], 1.0):
        other[7:, :] = -7
        with pytest.raises(Conflict):
            other[0, :] = -1
    assert (other[7] == -7).all()


def test_a_store_that_is_read_only_is_read(tmp_path: Path) -> None:
    made(DirectoryStore(tmp_path / "x"))[...] = CELLS
    array = opened(DirectoryStore(tmp_path / "x", read_only=True))
    np.testing.assert_array_equal(array[...], CELLS)
    for key in (np.s_[0, 0], np.s_[...]):
        with pytest.raises(ReadOnly):
            array[key] = 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"txn": "../../x", "state": "pending", "tiles": ""}',
        b'{"txn": "0011223344556677", "state": "other"}',
        b'{"txn": "0011223344556677", "state": "done", "tiles": ["c/0/0"]}',
        b'{"txn": "0011223344556677", "state": "pending", "after": "up", "tiles": "c/0/0"}',
        b"[]",
        b"{",
        b"\xff",
    ],
)
def test_a_journal_that_is_none_is_said(store: Any, data: bytes) -> None:
    made(store)[...] = CELLS
    store.put(JOURNAL, data)
    array = opened(store)
    for act in (lambda: array[...], lambda: array[0, 0], lambda: array.__setitem__(0, 1)):
        with pytest.raises(FormatError, match=JOURNAL):
            act()


def test_a_hostile_journal_moves_nothing_else(store: Any) -> None:
    """Only tiles of this array get what lies aside; a document that never came to the medium says nothing."""
    made(store)[...] = CELLS
    store.put(f"{ASIDE}/0011223344556677.zarr.json", b"{}")
    store.put(JOURNAL, b'{"txn": "0011223344556677", "state": "pending", "tiles": "zarr.json ../b c/0/00"}')
    before = store.get("a/zarr.json")
    np.testing.assert_array_equal(opened(store)[...], CELLS)
    with pytest.raises(FormatError, match="no tile"):
        opened(store)[...] = 1
    assert store.get("a/zarr.json") == before
    for nothing in (b"", bytes(100)):
        store.put(JOURNAL, nothing)
        np.testing.assert_array_equal(opened(store)[...], CELLS)
    opened(store)[...] = 1
    assert aside(store) == []
