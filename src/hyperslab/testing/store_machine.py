"""A state machine that compares any store with a dict, step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hyperslab.errors import AlreadyExists, Conflict, NotFound
from hyperslab.stores.base import Scratch, Store

FOLDERS = st.sampled_from(["a", "a/b", "a/b/c", "d", "a-b"])
FILES = st.builds("{}/{}".format, FOLDERS, st.sampled_from(["x", "y.z", "0"])) | st.sampled_from(["x", "y"])
VALUES = st.binary(max_size=40)


def store_machine(make: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """Return a state machine that does to a store what it does to a dict, and compares; ``make`` gives an empty
    store."""

    class Machine(_Machine):
        def new_store(self) -> Store:
            return make()

    return Machine


class _Machine(RuleBasedStateMachine):
    """Keys are such that none is a folder of another: stores may differ there."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.new_store()
        self.model: dict[str, bytes] = {}

    def new_store(self) -> Store:
        raise NotImplementedError

    @rule(key=FILES, value=VALUES, durable=st.booleans())
    def put(self, key: str, value: bytes, durable: bool) -> None:
        self.store.put(key, value, durable=durable)
        self.model[key] = value

    @rule(pairs=st.lists(st.tuples(FILES, VALUES), max_size=5), durable=st.booleans())
    def put_many(self, pairs: list[tuple[str, bytes]], durable: bool) -> None:
        self.store.put_many(iter(pairs), durable=durable)
        self.model.update(pairs)

    @rule(key=FILES, value=VALUES, fresh=st.booleans())
    def put_if(self, key: str, value: bytes, fresh: bool) -> None:
        if not self.store.traits.swaps:
            return
        expected = self.store.stamp(key) if fresh else None
        if fresh or key not in self.model:
            self.store.put_if(key, value, expected)
            self.model[key] = value
        else:
            with pytest.raises(Conflict):
                self.store.put_if(key, value, expected)

    @rule(key=FILES)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(prefix=FOLDERS | FILES)
    def delete_prefix(self, prefix: str) -> None:
        self.store.delete_prefix(prefix)
        for key in self._below(prefix):
            del self.model[key]
        self.model.pop(prefix, None)

    @rule(source=FOLDERS, to=FOLDERS)
    def rename(self, source: str, to: str) -> None:
        if f"{to}/".startswith(f"{source}/"):
            return
        moved = self._below(source)
        if not moved or self._below(to):
            with pytest.raises((NotFound, AlreadyExists)):
                self.store.rename(source, to)
            return
        self.store.rename(source, to)
        for key in moved:
            self.model[to + key[len(source) :]] = self.model.pop(key)

    @rule(key=FILES, start=st.integers(0, 50), count=st.integers(0, 50))
    def read(self, key: str, start: int, count: int) -> None:
        value = self.model.get(key)
        assert self.store.get(key) == value
        found = self.store.get_ranges(key, [(start, start + count)])
        assert found == (None if value is None else [value[start : start + count]])
        assert self.store.size(key) == (None if value is None else len(value))
        view = self.store.get_into(key, Scratch(7))
        assert (None if view is None else bytes(view)) == value

    @rule(prefix=FOLDERS | st.just(""))
    def list_dir(self, prefix: str) -> None:
        skip = len(prefix) + 1 if prefix else 0
        rest = [key[skip:] for key in self._below(prefix)]
        files = sorted({name for name in rest if "/" not in name})
        inner = sorted({name.partition("/")[0] for name in rest if "/" in name})
        assert tuple(map(list, self.store.list_dir(prefix))) == (files, inner)

    @rule(folder=FOLDERS, slots=st.lists(st.integers(0, 9)))
    def lock(self, folder: str, slots: list[int]) -> None:
        if self.store.traits.locks_chunks and self._below(folder):
            with self.store.lock_chunks(folder, slots, 0), self.store.lock_node(folder, 0):
                pass

    @invariant()
    def same_keys(self) -> None:
        assert {key: self.store.get(key) for key in self.store.list()} == self.model
        assert list(self.store.list()) == sorted(self.model)

    def teardown(self) -> None:
        self.store.close()

    def _below(self, prefix: str) -> list[str]:
        return [key for key in self.model if not prefix or key.startswith(f"{prefix}/")]
