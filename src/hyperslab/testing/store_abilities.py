# mypy: disable-error-code="type-abstract"
"""What stores promise that do more than read and write values: many new ones, stamps of many, other keys for many."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from hyperslab.errors import Conflict, Invalid
from hyperslab.stores import base
from hyperslab.stores.base import WritableStore

Ability = TypeVar("Ability")


def need(store: object, ability: type[Ability]) -> Ability:
    """The store, as one that has the ability; else the test is skipped."""
    if not isinstance(store, ability):
        pytest.skip(f"{type(store).__name__} does not claim {ability.__name__}")
    return store


def in_threads(count: int, job: Callable[[], None]) -> None:
    """Run the job in so many threads at once; the first error of one is raised."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(job) for _ in range(count)]:
            done.result()


class AbilityTests:
    """See :class:`~hyperslab.testing.stores.StoreTests`."""

    def test_put_new(self, store: WritableStore) -> None:
        """All values or, when one of the keys is taken, none; many are flushed at once where the system can."""
        writer = need(store, base.PutNew)
        for durable, count in ((False, 3), (True, 3), (True, 100)):
            pairs = [(f"{durable}{count}/{n}/x", bytes([n])) for n in range(count)]
            writer.put_new(pairs, durable=durable)
            assert {key: store.get(key) for key, _ in pairs} == dict(pairs)
            before = list(store.list())
            with pytest.raises(Conflict, match="another writer was faster"):
                writer.put_new([("new/a", b""), ("new/b", b"1"), (pairs[0][0], b"other"), ("new/c", b"2")])
            assert list(store.list()) == before
            assert store.get(pairs[0][0]) == b"\0"

    def test_put_new_in_threads(self, store: WritableStore) -> None:
        """Of several writers of one key one succeeds."""
        writer = need(store, base.PutNew)
        won: list[tuple[int, str]] = []

        def compete() -> None:
            name = str(len(won)) + str(time.perf_counter_ns())
            for number in range(20):
                try:
                    writer.put_new([(f"k/{number}", name.encode())])
                    won.append((number, name))
                except Conflict:
                    continue

        in_threads(4, compete)
        assert sorted(number for number, _ in won) == list(range(20))
        assert all(store.get(f"k/{number}") == name.encode() for number, name in won)

    def test_touch(self, store: WritableStore) -> None:
        """A stamp that the key never had, each time, for many times."""
        touches, stamps = need(store, base.Touches), need(store, base.Stamps)
        seen = set()
        for number in range(5000):
            touches.touch("a/b", durable=number % 1000 == 0)
            seen.add(stamps.stamp("a/b"))
        assert None not in seen
        assert len(seen) == 5000
        assert len(store.get("a/b") or b"") < 5000

    def test_entries(self, store: WritableStore) -> None:
        """Names, stamps and sizes of what lies right in a folder, or in each of its folders under one name."""
        tells, stamps = need(store, base.Tells), need(store, base.Stamps)
        keys = ["a/x", "a/y", "a/b/x", "a/b/z", "a/c/x", "a/c/d/x", "ab/x", "x"]
        for number, key in enumerate(keys):
            store.put(key, bytes(number + 1))
        for folder, tail, expected in (
            ("a", "", "xy"),
            ("a", "x", "bc"),
            ("a", "z", "b"),
            ("", "", "x"),
            ("q", "", ""),
        ):
            below, behind = folder and f"{folder}/", tail and f"/{tail}"
            found = {name: (stamp, size) for name, stamp, size in tells.entries(folder, tail)}
            whole = {name: below + name + behind for name in expected}
            assert found == {name: (stamps.stamp(key), keys.index(key) + 1) for name, key in whole.items()}
        assert tells.nbytes_below("a") == sum(range(1, 7))
        assert tells.nbytes_below("") == sum(range(1, 9))
        assert tells.nbytes_below("q") == 0

    @pytest.mark.parametrize("durable", [False, True])
    def test_move(self, store: WritableStore, durable: bool) -> None:
        """Over what is there, into new folders, with its stamp; a missing one is passed over, a bad key is refused."""
        moves = need(store, base.Moves)
        for key in ("a/one", "a/two", "b/two"):
            store.put(key, key.encode())
        stamp = store.stamp("a/two") if isinstance(store, base.Stamps) else None
        moves.move([("a/one", "new/x/one"), ("a/none", "b/none"), ("a/two", "b/two")], durable=durable)
        assert {key: store.get(key) for key in store.list()} == {"new/x/one": b"a/one", "b/two": b"a/two"}
        assert not isinstance(store, base.Stamps) or store.stamp("b/two") == stamp
        moves.move([("a/one", "new/x/one")], durable=durable)
        assert store.get("new/x/one") == b"a/one"
        moves.move([])
        for pair in (("../a", "b"), ("b", "a/../b")):
            with pytest.raises(Invalid):
                moves.move([pair])
