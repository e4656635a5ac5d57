"""What dead writers over several tiles leave is found, and mended; also a journal that was damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import own_store
import pytest
from tiled import JOURNAL, Between, Killed, Mortal, aside, dies, made, opened

from hyperslab.chunks import execute
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError
from hyperslab.formats.collections.own.tiles import tile_orphans
from hyperslab.selection.positional import select
from hyperslab.stores.buckets import wrapped
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore

OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)


@pytest.fixture(params=["memory", "directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "bucket":
        return wrapped(obstore.store.MemoryStore())
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "x")


def test_what_dead_writers_leave(store: Any) -> None:
    """Before its commit: removed. After it: done. The cells are what readers saw before."""
    kinds, at, died = set(), 1, True
    while died:
        made(store)[...] = OLD
        died = dies(at, store, lambda array: array.__setitem__(np.s_[2:6, 2:8], 7))
        array = opened(store)
        seen = array[...]
        found = list(tile_orphans(array._cells.source))
        kinds |= {each.problem.kind for each in found}
        assert bool(found) >= bool(aside(store))
        for each in found:
            each.act()
        assert list(tile_orphans(array._cells.source)) == []
        assert aside(store) == []
        np.testing.assert_array_equal(opened(store)[...], seen)
        at += 1
    assert kinds == {"unsettled", "leftover"}


def test_a_damaged_journal(store: Any) -> None:
    made(store)[...] = OLD
    store.put(JOURNAL, b'{"txn": 1}')
    array = opened(store)
    with pytest.raises(FormatError):
        array[...]
    (found,) = tile_orphans(array._cells.source)
    assert (found.problem.kind, found.key) == ("journal", JOURNAL)
    found.act()
    np.testing.assert_array_equal(array[...], OLD)
    array[...] = 5
    assert list(tile_orphans(array._cells.source)) == []


def test_of_a_collection(tmp_path: Path) -> None:
    """Check tells of it, and repair mends it, wherever the writer died."""
    holding = own_store.made(Location.of(tmp_path), own_store.tiled())
    said = own_store.record(1)
    holding.create([said])
    spec = holding.spec(said.id)
    grid, fill = holding.chunks(said.id, spec).grid, spec.fill_cell()
    plan = make_plan(select((), spec.shape).region, grid)
    kinds, at, cells, store = set(), 1, np.zeros(spec.shape, "i4"), holding.store
    mortal = Mortal(at)
    while mortal.died or at == 1:
        before, cells = cells, cells + 1
        mortal = Mortal(at)
        holding.store = Between(store, mortal)
        with suppress(Killed):
            execute.write(holding.chunks(said.id, spec), plan, cells, fill, Settings(durable=False, workers=1))
        holding.store = store
        kinds |= set(own_store.kinds(holding))
        own_store.repair(holding)
        assert own_store.kinds(holding, deep=True) == []
        found = np.empty_like(cells)
        execute.read(holding.chunks(said.id, spec), plan, found, fill)
        assert (found == cells).all() or (mortal.died and (found == before).all()) or at == 1
        cells = found
        at += 1
    assert kinds == {"unsettled", "leftover"}


def interrupted(folder: Path) -> tuple[Any, str, Any]:
    """A collection of tiles with one array of ones, over which twos were written by who died right after the commit."""
    holding = own_store.made(Location.of(folder), own_store.tiled())
    said = own_store.record(1)
    holding.create([said])
    spec, store = holding.spec(said.id), holding.store
    plan = make_plan(select((), spec.shape).region, holding.chunks(said.id, spec).grid)

    def die(operation: str, key: str) -> None:
        if operation == "move" and "/staged/" in key and number == 2:
            raise Killed

    for number in (1, 2):
        holding.store = Between(store, die)
        with suppress(Killed):
            cells = np.full(spec.shape, number, "i4")
            source = holding.chunks(said.id, spec)
            execute.write(source, plan, cells, spec.fill_cell(), Settings(durable=False, workers=1))
        holding.store = store
    return holding, said.id, plan


def cells_of(holding: Any, id: str, plan: Any) -> Any:
    spec = holding.spec(id)
    found = np.empty(spec.shape, "i4")
    execute.read(holding.chunks(id, spec), plan, found, spec.fill_cell())
    return found


def test_tiles_without_their_keys_are_looked_at_where_they_lie(tmp_path: Path) -> None:
    holding, id, plan = interrupted(tmp_path)
    store = holding.store
    (tile, *_) = sorted(store.list(f"{holding.keys.folder('staged')}/{id}"))
    data = bytearray(store.get(tile))
    data[5] ^= 255
    store.put(tile, bytes(data))
    assert own_store.kinds(holding, deep=True) == ["corrupt-chunk", "unsettled"]
    own_store.repair(holding, deep=True)
    assert own_store.kinds(holding, deep=True) == ["corrupt-chunk"]
    own_store.repair(holding, deep=True)
    assert own_store.kinds(holding, deep=True) == []
    assert set(cells_of(holding, id, plan).ravel()) == {2, int(holding.spec(id).fill_cell())}


def test_a_damaged_tile_that_another_one_replaces(tmp_path: Path) -> None:
    """It is no problem where the other one lies aside; what was found before is not taken out with the new cells."""
    holding, id, plan = interrupted(tmp_path)
    store = holding.store
    (tile, *_) = (key for key in store.list(holding.keys.array(id)) if "/c/" in key)
    store.put(tile, b"damaged")
    assert own_store.kinds(holding, deep=True) == ["unsettled"]
    own_store.repair(holding)
    store.put(tile, b"damaged")
    (found,) = holding.find_damage(deep=True)
    spec = holding.spec(id)
    execute.write(holding.chunks(id, spec), plan, np.full(spec.shape, 3, "i4"), spec.fill_cell(), Settings())
    found.act()
    assert (cells_of(holding, id, plan) == 3).all()
