"""A writer that dies before any of its writes: each node is as it was or as it is to be, and others can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.formats.documents import read_document
from hyperslab.formats.nczarr.dialect import NczarrDialect
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import GroupSpec
from hyperslab.stores.base import Stamp
from hyperslab.stores.memory import MemoryStore

ROWS = np.arange(1.0, 25).reshape(6, 4)


class Death(BaseException):
    """The process is gone."""


class Mortal(MemoryStore):
    """A store over the values of another, whose process dies after so many changes."""

    def __init__(self, shared: MemoryStore, left: int) -> None:
        super().__init__()
        self._shelf = shared._shelf
        self.left = left

    def _live(self) -> None:
        if not self.left:
            raise Death
        self.left -= 1

    def put(self, key: str, value: Any, *, durable: bool = False) -> None:
        self._live()
        super().put(key, value)

    def put_many(self, pairs: Iterable[tuple[str, Any]], *, durable: bool = False) -> None:
        for key, value in pairs:
            self.put(key, value)

    def put_if(self, key: str, value: Any, expected: Stamp | None, *, durable: bool = False) -> Stamp:
        self.put(key, value)
        return self.stamp(key)

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._live()
        super().delete(key, durable=durable)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._live()
        super().delete_prefix(prefix, durable=durable)

    def rename(self, source: str, target: str) -> None:
        self._live()
        super().rename(source, target)


def append(root: Any) -> None:
    if root["a"].shape[0] < 6:
        root["a"].append(ROWS[root["a"].shape[0] :])


def append_together(root: Any) -> None:
    with root.batch():
        for name in ("a", "g/b"):
            reader = root._session.reader
            if (rows := reader.written_length(name, 0)) < 6:
                root[name].append(ROWS[rows:, : root[name].shape[1]])


def create(root: Any) -> None:
    if "g/h/new" not in root:
        root.create_array("g/h/new", data=ROWS, dims=("k", "x"), chunks=(2, 4))
    root["g/h/new"][...] = ROWS


def attribute(root: Any) -> None:
    root["g"].attrs["note"] = "new"


def remove(root: Any) -> None:
    if "g" in root:
        del root["g"]


def move(root: Any) -> None:
    if "g" in root:
        root.move("g", "k/l")


def shrink(root: Any) -> None:
    root["a"].resize((1, 4))


CHANGES = [append, append_together, create, attribute, remove, move, shrink]


def made(dialect: str, consolidated: bool) -> MemoryStore:
    store = MemoryStore()
    root = hs.create(store, "nczarr", dialect=dialect, consolidated=consolidated)
    root._session.reader.put("", GroupSpec(dims=(Dimension("t", 0, unlimited=True), Dimension("x", 4))))
    root.create_array("a", shape=(0, 4), dtype="f8", dims=("t", "x"), chunks=(4, 4), fill_value=-1)
    root.create_array("g/b", shape=(0, 2), dtype="f8", dims=("t", "y"), chunks=(4, 2), fill_value=-1)
    root["g"].attrs["note"] = "old"
    with root.batch():
        root["a"].append(ROWS[:3])
        root["g/b"].append(ROWS[:3, :2])
    root.create_array("z", data=np.arange(2.0), dims=("/g/y",))
    return store


def seen(store: MemoryStore) -> dict[str, Any]:
    """Every array: its cells, attributes and dimensions."""
    found: dict[str, Any] = {}

    def look(group: Any) -> None:
        for name in group:
            node = group[name]
            if isinstance(node, hs.Array):
                found[node.path] = (node[...].tolist(), dict(node.attrs), node.dims)
            else:
                found[node.path] = dict(node.attrs)
                look(node)

    look(hs.open_group(store))
    return found


def check_copy(store: MemoryStore) -> None:
    """Consolidated metadata, where there is any, says what the documents say."""
    data = store.get(".zmetadata")
    if data is None:
        return
    dialect = NczarrDialect()
    copy = dialect.read_consolidated(read_document(data, ".zmetadata")) or {}
    for path, docs in copy.items():
        for name, doc in docs.items():
            stored = store.get(f"{path}/{name}" if path else name)
            assert stored is not None
            assert read_document(stored, name) == doc


def is_part(found: Any, old: Any, new: Any) -> bool:
    """Whether what is there is old or new; rows that only came with the dimension read as the fill value."""
    if found in (old, new):
        return True
    cells, *rest = found
    return any(
        side is not None
        and rest == list(side[1:])
        and cells[: len(side[0])] == side[0][: len(cells)]
        and all(set(row) == {-1} for row in cells[len(side[0]) :])
        for side in (old, new)
        if isinstance(side, tuple)
    )


@pytest.mark.covering
@pytest.mark.parametrize(("dialect", "consolidated"), [("current", False), ("current", True), ("draft", True)])
@pytest.mark.parametrize("change", CHANGES)
def test_dying_anywhere(dialect: str, consolidated: bool, change: Callable[[Any], None]) -> None:
    store = made(dialect, consolidated)
    old = seen(store)
    change(hs.open(store, "r+"))
    new = seen(store)
    deaths = 0
    while True:
        store = made(dialect, consolidated)
        mortal = Mortal(store, deaths)
        try:
            change(hs.open(mortal, "r+", workers=1))
        except Death:
            pass
        else:
            break
        deaths += 1
        check_copy(store)
        found = seen(store)
        assert found.keys() <= old.keys() | new.keys(), deaths
        for path in old.keys() & new.keys():
            assert is_part(found[path], old[path], new[path]), (deaths, path, found[path])
        for path in ("g/b", "z"):
            moved = path.replace("g/", "k/l/")
            assert (path in found) + (path != moved and moved in found) == 1 or change is remove
        change(hs.open(store, "r+"))
        assert seen(store) == new, deaths
        check_copy(store)
    assert deaths > 1


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize(("dialect", "consolidated"), [("current", False), ("current", True), ("draft", True)])
def test_rows_of_an_append_that_died_are_never_data(dialect: str, consolidated: bool, rows: int) -> None:
    """It dies between the chunks and the documents; then the dimension grows by an append to another array."""
    deaths = 0
    while True:
        store = made(dialect, consolidated)
        mortal = Mortal(store, deaths)
        try:
            hs.open(mortal, "r+", workers=1)["g/b"].append(np.full((rows, 2), 99.0))
        except Death:
            deaths += 1
        else:
            break
        dead = hs.open(store)["g/b"].shape[0] == 3
        hs.open(store, "r+")["a"].append(ROWS[3:])
        if dead:
            behind = hs.open(store)["g/b"][3:]
            assert len(behind) >= 3 and (behind == -1).all()
            assert hs.open(store)["g/b"][:3].tolist() == ROWS[:3, :2].tolist()
        with hs.open(store, "r+") as root:
            if dead:
                root["g/b"].append(ROWS[3:5, :2])
                assert [row for row in root["g/b"][...].tolist() if row != [-1.0, -1.0]] == ROWS[:5, :2].tolist()
    assert deaths > 1


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_rows_of_an_append_that_died_are_no_data_of_an_array_that_is_made(dialect: str) -> None:
    store = made(dialect, False)
    with pytest.raises(Death):
        hs.open(Mortal(store, 2), "r+", workers=1)["g/b"].append(np.full((6, 2), 99.0))
    hs.open(store, "r+").create_array("longer", data=np.zeros((9, 4)), dims=("t", "x"), chunks=(4, 4))
    assert hs.open(store)["g/b"][3:].tolist() == [[-1.0, -1.0]] * 6
