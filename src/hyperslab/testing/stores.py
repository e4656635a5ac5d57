"""What every store promises, as tests: subclass :class:`StoreTests`; beside it there is a state machine.

::

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

    TestMyMachine = store_machine(MyStore.in_memory).TestCase  # hyperslab.testing.store_machine

A test of what the store does not claim (``StoreTraits``) is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from hyperslab.errors import AlreadyExists, Conflict, CorruptChunk, Invalid, NotFound
from hyperslab.stores.base import Scratch, Store
from hyperslab.stores.keys import is_file_key

# -- keys --------------------------------------------------------------------------------------------------------------
# Strings that are keys, that are none, and every call of a store that takes one.


BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\\b", "a\0b", "C:/a", "c:", "\ud800"]
"""Strings that no store takes for a key, nor (but for the empty one) for a prefix."""
KEPT_KEYS = [".lock", "a/.lock", "a/.lock/b", ".x.0123456789abcdef.tmp", "a/.x.0123456789abcdef.tmp/b"]
"""Names kept for locks and unfinished writes; no key has such a segment."""
ODD_KEYS = ["a b", "ä/ö", "0.0", ".zattrs", "c/0/0", "x.tmp", ".x.tmp", "ab:c", "-", "\n", "~", "%2e%2e", "...", "日本"]
"""Strings that look suspicious and are keys."""


def calls_of(store: Store, key: str) -> list[Callable[[], object]]:
    """Return every call of the store that takes a key or a folder, given this one; ``""`` is given only as a key."""
    buffer = bytearray(8)
    traits = store.traits
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.get_into(key, Scratch()),
        lambda: store.read_exactly(key, memoryview(buffer)),
        lambda: store.get_ranges(key, [(0, 1)]),
        lambda: store.get_version(key),
        lambda: store.put(key, b"1"),
        lambda: store.put(key, b"1", durable=True),
        lambda: store.put_many([(key, b"1")]),
        lambda: store.put_new([(key, b"1")]),
        lambda: store.touch(key),
        lambda: store.stamp(key),
        lambda: store.size(key),
        lambda: store.delete(key),
        lambda: store.rename(key, "x"),
        lambda: store.rename("x", key),
    ]
    if traits.swaps:
        calls.append(lambda: store.put_if(key, b"1", None))
    if key:
        calls += [
            lambda: store.delete_prefix(key),
            lambda: list(store.list(key)),
            lambda: store.list_dir(key),
            lambda: list(store.entries(key)),
            lambda: list(store.scan(key)),
            lambda: store.nbytes_below(key),
        ]
    if key and traits.locks_chunks:
        calls += [lambda: _enter(store.lock_chunks(key, [0], 0)), lambda: _enter(store.lock_node(key, 0))]
    return calls


def _enter(lock: AbstractContextManager[None]) -> None:
    with lock:
        pass


# -- what some stores promise besides ----------------------------------------------------------------------------------
# More than to read and write values: many new ones, stamps of many, other keys for many.


def need(is_claimed: bool, what: str) -> None:
    """Skip the test unless the store claims what is tested."""
    if not is_claimed:
        pytest.skip(f"the store does not claim {what}")


def in_threads(count: int, job: Callable[[], None]) -> None:
    """Run the job in so many threads at once; the first error of one is raised."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(job) for _ in range(count)]:
            done.result()


class BulkTests:
    """See :class:`~hyperslab.testing.stores.StoreTests`."""

    def test_put_new(self, store: Store) -> None:
        """All values or, when one of the keys is taken, none; many are flushed at once where the system can."""
        for durable, count in ((False, 3), (True, 3), (True, 100)):
            pairs = [(f"{durable}{count}/{n}/x", bytes([n])) for n in range(count)]
            store.put_new(pairs, durable=durable)
            assert {key: store.get(key) for key, _ in pairs} == dict(pairs)
            before = list(store.list())
            with pytest.raises(Conflict, match="another writer was faster"):
                store.put_new([("new/a", b""), ("new/b", b"1"), (pairs[0][0], b"other"), ("new/c", b"2")])
            assert list(store.list()) == before
            assert store.get(pairs[0][0]) == b"\0"

    def test_put_new_in_threads(self, store: Store) -> None:
        """Of several writers of one key one succeeds."""
        need(store.traits.swaps, "compare-and-swap")
        won: list[tuple[int, str]] = []

        def compete() -> None:
            name = str(len(won)) + str(time.perf_counter_ns())
            for number in range(20):
                try:
                    store.put_new([(f"k/{number}", name.encode())])
                    won.append((number, name))
                except Conflict:
                    continue

        in_threads(4, compete)
        assert sorted(number for number, _ in won) == list(range(20))
        assert all(store.get(f"k/{number}") == name.encode() for number, name in won)

    def test_touch(self, store: Store) -> None:
        """A stamp that the key never had, each time, for many times."""
        need(store.traits.stamped, "stamps")
        seen = set()
        store.put("a/b", bytes(65_000))
        for number in range(5000):
            store.touch("a/b", durable=number % 1000 == 0)
            seen.add(store.stamp("a/b"))
        assert None not in seen
        assert len(seen) == 5000
        assert len(store.get("a/b") or b"") < 65_000  # it does not grow for ever

    def test_entries(self, store: Store) -> None:
        """Names, stamps and sizes of what lies right in a folder, or in each of its folders under one name."""
        need(store.traits.stamped, "stamps")
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
            found = {name: (stamp, size) for name, stamp, size in store.entries(folder, tail)}
            whole = {name: below + name + behind for name in expected}
            assert found == {name: (store.stamp(key), keys.index(key) + 1) for name, key in whole.items()}
        for prefix in ("", "a", "q"):
            values = {key: (stamp, size) for key, stamp, size in store.scan(prefix)}
            assert values == {key: (store.stamp(key), store.size(key)) for key in store.list(prefix)}
        assert store.nbytes_below("a") == sum(range(1, 7))
        assert store.nbytes_below("") == sum(range(1, 9))
        assert store.nbytes_below("q") == 0

    @pytest.mark.parametrize("durable", [False, True])
    def test_move(self, store: Store, durable: bool) -> None:
        """Over what is there, into new folders; a missing one is passed over, a bad key is refused. A store that does
        not copy keeps the stamp."""
        for key in ("a/one", "a/two", "b/two"):
            store.put(key, key.encode())
        stamp = store.stamp("a/two")
        store.move([("a/one", "new/x/one"), ("a/none", "b/none"), ("a/two", "b/two")], durable=durable)
        assert {key: store.get(key) for key in store.list()} == {"new/x/one": b"a/one", "b/two": b"a/two"}
        assert type(store).move is Store.move or store.stamp("b/two") == stamp
        store.move([("a/one", "new/x/one")], durable=durable)
        assert store.get("new/x/one") == b"a/one"
        store.move([])
        for pair in (("../a", "b"), ("b", "a/../b")):
            with pytest.raises(Invalid):
                store.move([pair])

    @pytest.mark.parametrize("durable", [False, True])
    def test_copy(self, store: Store, durable: bool) -> None:
        """Over what is there, into new folders; each key goes its own way afterwards; nothing is made of nothing."""
        store.put("a/one", b"first")
        store.put("b/taken", b"old")
        assert store.copy("a/one", "new/x/one", durable=durable)
        assert store.copy("a/one", "b/taken", durable=durable)
        assert store.copy("a/one", "b/taken", durable=durable)
        store.put("a/one", b"second")
        store.delete("b/taken")
        assert {key: store.get(key) for key in store.list()} == {"a/one": b"second", "new/x/one": b"first"}
        assert not store.copy("a/none", "b/none", durable=durable)
        assert not store.copy("none/none", "b/none", durable=durable)
        assert list(store.list()) == ["a/one", "new/x/one"]
        for pair in (("../a", "b"), ("a/one", "a/../b")):
            with pytest.raises(Invalid):
                store.copy(*pair)


class StoreTests(BulkTests):
    """Give a fixture ``store``: an empty writable store, new for each test."""

    def test_missing(self, store: Store) -> None:
        """A missing key reads as None everywhere, and removing it is no error."""
        assert store.get("a/b") is None
        store.put("a/b", b"1")
        assert store.get("a/c") is None
        assert store.get("a") is None
        assert store.get("a/b/c") is None
        store.delete("a/c")
        store.delete("nowhere/c")
        store.delete_prefix("nowhere")
        assert store.get("a/b") == b"1"

    @pytest.mark.parametrize("value", [b"", b"x", bytes(range(256)) * 300], ids=["empty", "byte", "76800"])
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_put(self, store: Store, value: bytes, kind: Callable[[bytes], Any]) -> None:
        """Any buffer, durable or not; the last value counts."""
        for durable in (False, True):
            store.put("a/b", b"something older and longer" * 2, durable=durable)
            store.put("a/b", kind(value), durable=durable)
            found = store.get("a/b")
            assert type(found) is bytes
            assert found == value

    def test_put_copies(self, store: Store) -> None:
        """What the caller does to its buffer afterwards changes nothing."""
        buffer = bytearray(b"old")
        store.put("a", buffer)
        buffer[:] = b"new"
        assert store.get("a") == b"old"

    def test_put_array_buffer(self, store: Store) -> None:
        """A buffer of wide items in several dimensions is stored byte by byte."""
        store.put("a", memoryview(bytes(range(24))).cast("I", (2, 3)))
        assert store.get("a") == bytes(range(24))

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_keys(self, store: Store, key: str) -> None:
        """Unusual names are stored, listed and removed like any other, if a file can have them on this system."""
        if not is_file_key(key):
            pytest.skip("no file has such a name on this system")
        store.put(key, b"1")
        assert store.get(key) == b"1"
        assert list(store.list()) == [key]
        store.delete(key)
        assert list(store.list()) == []

    @pytest.mark.parametrize("key", BAD_KEYS + KEPT_KEYS)
    def test_bad_keys(self, store: Store, key: str) -> None:
        """What is no key is refused by every call that takes one, and nothing is stored."""
        for call in calls_of(store, key):
            with pytest.raises(Invalid):
                call()
        assert list(store.list()) == []

    def test_list(self, store: Store) -> None:
        """Sorted as whole keys; a prefix is a folder and no mere beginning."""
        keys = ["a-b/x", "a.x", "a/b/c", "a/b-c", "a/b.c", "a0", "b"]
        for key in reversed(keys):
            store.put(key, b"")
        assert list(store.list()) == sorted(keys)
        assert list(store.list("a")) == ["a/b-c", "a/b.c", "a/b/c"]
        assert list(store.list("a/b")) == ["a/b/c"]
        assert list(store.list("b")) == []
        assert list(store.list("nowhere")) == []

    def test_list_dir(self, store: Store) -> None:
        """The names of one level, apart."""
        for key in ("a/z", "a/b/c", "a/b/d", "top"):
            store.put(key, b"")
        assert tuple(map(list, store.list_dir())) == (["top"], ["a"])
        assert tuple(map(list, store.list_dir("a"))) == (["z"], ["b"])
        assert tuple(map(list, store.list_dir("nowhere"))) == ([], [])
        assert tuple(map(list, store.list_dir("top"))) == ([], [])

    def test_delete(self, store: Store) -> None:
        """A folder whose last key went is gone."""
        store.put("a/b/c", b"1")
        store.put("d", b"2")
        store.delete("a/b")
        assert store.get("a/b/c") == b"1"
        store.delete("a/b/c", durable=True)
        assert tuple(map(list, store.list_dir())) == (["d"], [])

    def test_delete_prefix(self, store: Store) -> None:
        """The folder, or the key of that name, and nothing that only begins so."""
        for key in ("a/b/c", "a/b/d/e", "a/bc", "a-b", "z"):
            store.put(key, b"1")
        store.delete_prefix("a/b")
        assert list(store.list()) == ["a-b", "a/bc", "z"]
        store.delete_prefix("z", durable=True)
        assert list(store.list()) == ["a-b", "a/bc"]
        store.delete_prefix("")
        assert list(store.list()) == []
        store.put("a/b/c", b"2")
        assert store.get("a/b/c") == b"2"

    def test_url(self, store: Store) -> None:
        """A place for messages, and a repr."""
        assert store.url
        assert repr(store)
        assert store.read_only is False

    def test_size(self, store: Store) -> None:
        """Bytes, or None."""
        store.put("a/b", b"12345")
        assert store.size("a/b") == 5
        assert store.size("a") is None
        assert store.size("c") is None

    @pytest.mark.parametrize("size", [0, 1, 10, 100_000])
    def test_get_into(self, store: Store, size: int) -> None:
        """The view is as long as the value. A scratch that is read into grows when it must and is used again else."""
        scratch = Scratch(10)
        assert store.get_into("a/b", scratch) is None
        value = bytes(i % 251 for i in range(size))
        store.put("a/b", value)
        for _ in range(2):
            view = store.get_into("a/b", scratch)
            assert view is not None
            assert view == value
            is_filled = view.obj is scratch.buffer.obj
        assert not is_filled or len(scratch.buffer) >= max(size, 10)
        if size:
            with pytest.raises(CorruptChunk):
                store.get_into("a/b", Scratch(), most=size - 1)
        assert store.get_into("a", scratch) is None

    def test_read_exactly(self, store: Store) -> None:
        """Only a buffer of the right length is filled; the true length is told in any case."""
        assert store.read_exactly("a/b", memoryview(bytearray(3))) is None
        store.put("a/b", b"12345678")
        for length in (0, 1, 7, 9, 100):
            assert store.read_exactly("a/b", memoryview(bytearray(length))) == 8
        out = bytearray(8)
        assert store.read_exactly("a/b", memoryview(out).cast("I", (2, 1))) == 8
        assert out == b"12345678"
        store.put("empty", b"")
        assert store.read_exactly("empty", memoryview(bytearray(0))) == 0
        assert store.read_exactly("a", memoryview(bytearray(8))) is None

    def test_get_ranges(self, store: Store) -> None:
        """Each range is cut to what there is."""
        store.put("a", b"0123456789")
        ranges = [(0, 3), (8, 20), (20, 30), (3, 3), (5, 2), (-3, 0), (-3, -1), (-99, 0), (-3, 10), (0, 10)]
        expected = [b"012", b"89", b"", b"", b"", b"789", b"78", b"0123456789", b"789", b"0123456789"]
        assert store.get_ranges("a", ranges) == expected
        assert store.get_ranges("a", []) == []
        assert store.get_ranges("b", [(0, 1)]) is None
        store.put("c/d", b"1")
        assert store.get_ranges("c", []) is None

    @pytest.mark.parametrize("durable", [False, True])
    def test_put_many(self, store: Store, durable: bool) -> None:
        """All values of any iterable; the last of one key counts."""
        store.put_many(iter([]), durable=durable)
        pairs = [(f"c/{i}/{j}", bytes([i, j])) for i in range(10) for j in range(10)]
        store.put_many(iter([*pairs, ("c/0/0", b"last")]), durable=durable)
        assert {key: store.get(key) for key in store.list()} == dict(pairs) | {"c/0/0": b"last"}
        memory = bytearray(2)

        def in_one_memory() -> Iterator[tuple[str, memoryview]]:
            for key, value in pairs:
                memory[:] = value
                yield key, memoryview(memory)

        store.put_many(in_one_memory(), durable=durable)
        assert {key: store.get(key) for key in store.list()} == dict(pairs)

    def test_put_many_failing(self, store: Store) -> None:
        """When the values run out with an error, or a key is bad, none of them is to be seen."""
        need(type(store).put_many is not Store.put_many, "a group commit")

        def failing() -> Any:
            yield "a", b"1"
            raise ZeroDivisionError

        for durable in (False, True):
            with pytest.raises(ZeroDivisionError):
                store.put_many(failing(), durable=durable)
            with pytest.raises(Invalid):
                store.put_many([("a", b"1"), ("../b", b"2")], durable=durable)
        assert list(store.list()) == []

    def test_put_if(self, store: Store) -> None:
        """Stored when the stamp is that of the present version, else refused and unchanged."""
        need(store.traits.swaps, "compare-and-swap")
        first = store.put_if("a/b", b"1", None)
        with pytest.raises(Conflict):
            store.put_if("a/b", b"x", None)
        second = store.put_if("a/b", b"2", first)
        assert second != first
        with pytest.raises(Conflict):
            store.put_if("a/b", b"x", first)
        assert store.get("a/b") == b"2"
        assert store.stamp("a/b") == second
        store.delete("a/b")
        with pytest.raises(Conflict):
            store.put_if("a/b", b"x", second)
        assert store.get("a/b") is None

    def test_put_if_in_threads(self, store: Store) -> None:
        """No increment is lost."""
        need(store.traits.swaps, "compare-and-swap")

        def increment() -> None:
            for _ in range(10):
                while True:
                    stamp = store.stamp("n")
                    value = int(store.get("n") or b"0")
                    try:
                        store.put_if("n", str(value + 1).encode(), stamp)
                        break
                    except Conflict:
                        continue

        in_threads(4, increment)
        assert store.get("n") == b"40"

    def test_get_version(self, store: Store) -> None:
        """Value, size and stamp belong together; a version that is known is not sent again."""
        assert store.get_version("a/b") is None
        store.put("a/b", b"0123456789")
        version = store.get_version("a/b")
        assert version is not None
        assert (bytes(version.data), version.size) == (b"0123456789", 10)
        part = store.get_version("a/b", (2, 4))
        assert part is not None
        assert (bytes(part.data), part.size, part.stamp) == (b"23", 10, version.stamp)
        again = store.get_version("a/b", unless=version.stamp)
        assert again is not None
        assert again.data is None
        assert store.get_ranges_of("a/b", [(0, 1), (-2, 0)], version.stamp) == [b"0", b"89"]
        with pytest.raises(CorruptChunk):
            store.get_version("a/b", most=9)
        store.put("a/b", b"other")
        newer = store.get_version("a/b", unless=version.stamp)
        assert newer is not None
        assert bytes(newer.data) == b"other"
        with pytest.raises(Conflict):
            store.get_ranges_of("a/b", [(0, 1)], version.stamp)

    def test_stamps(self, store: Store) -> None:
        """Every version has a stamp of its own, also when the bytes are the same and time hardly passed."""
        need(store.traits.stamped, "stamps")
        assert store.stamp("a/b") is None
        seen = set()
        for _ in range(50):
            store.put("a/b", b"same")
            stamp = store.stamp("a/b")
            assert stamp == store.stamp("a/b")
            seen.add(stamp)
        assert len(seen) == 50
        assert store.stamp("a") is None

    def test_rename(self, store: Store) -> None:
        """A folder moves with all below it, into folders that are made; nothing is overwritten."""
        for key in ("a/b", "a/c/d", "taken/x", "ab"):
            store.put(key, key.encode())
        store.rename("a", "new/place")
        assert list(store.list()) == ["ab", "new/place/b", "new/place/c/d", "taken/x"]
        assert store.get("new/place/c/d") == b"a/c/d"
        with pytest.raises(AlreadyExists):
            store.rename("new/place", "taken")
        with pytest.raises(AlreadyExists):
            store.rename("new/place", "ab")
        with pytest.raises(NotFound):
            store.rename("nowhere", "else")
        with pytest.raises(Invalid):
            store.rename("new", "new/place/deeper")
        assert list(store.list()) == ["ab", "new/place/b", "new/place/c/d", "taken/x"]

    def test_locks_exclude(self, store: Store) -> None:
        """The same slot twice waits and gives up; other slots, other folders and the node are free."""
        need(store.traits.locks_chunks, "locks of chunks")
        with store.lock_chunks("a", [3, 1, 2, 9], 1):
            for slots in ([1], [2, 20], [9]):
                with pytest.raises(Conflict), store.lock_chunks("a", slots, 0.02):
                    pass
            with store.lock_chunks("a", [0, 4, 8, 10], 1), store.lock_chunks("b", [1], 1), store.lock_node("a", 1):
                pass
            with store.lock_chunks("a", [], 0):
                pass
        with store.lock_chunks("a", [1], 0):
            pass
        with store.lock_node("a", 1):
            with pytest.raises(Conflict), store.lock_node("a", 0.02):
                pass
            with store.lock_node("b", 1), store.lock_node("", 1), store.lock_chunks("a", [1], 1):
                pass
        with store.lock_node("a", 0):
            pass
        assert list(store.list()) == []

    def test_lock_is_let_go_after_an_error(self, store: Store) -> None:
        """Whatever ends the block ends the lock."""
        need(store.traits.locks_chunks, "locks of chunks")
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), store.lock_chunks("a", [1], 0), store.lock_node("a", 0):
                raise ZeroDivisionError

    def test_locks_in_threads(self, store: Store) -> None:
        """Read, change and put back under a lock loses nothing, whatever the order in which slots are named."""
        need(store.traits.locks_chunks, "locks of chunks")
        store.put("a/n", b"0")
        orders = iter([[5, 1, 3], [3, 1], [1, 5], [3, 5, 1, 2]])

        def increment() -> None:
            slots = [*next(orders), 1]
            for _ in range(10):
                with store.lock_chunks("a", slots, 30):
                    value = int(store.get("a/n") or b"")
                    time.sleep(0)
                    store.put("a/n", str(value + 1).encode())

        in_threads(4, increment)
        assert store.get("a/n") == b"40"

    def test_many_slots(self, store: Store) -> None:
        """Thousands of scattered slots are held, too."""
        need(store.traits.locks_chunks, "locks of chunks")
        with store.lock_chunks("a", range(0, 20_000, 2), 5):
            with pytest.raises(Conflict), store.lock_chunks("a", [10_000], 0):
                pass
            with store.lock_chunks("a", [20_001], 0):
                pass

    def test_threads(self, store: Store) -> None:
        """Readers beside writers see whole values only."""
        store.put("a/b", b"0" * 5000)
        torn = []

        def write() -> None:
            for digit in b"123456789" * 3:
                store.put("a/b", bytes([digit]) * 5000)

        def read() -> None:
            for _ in range(60):
                value = store.get("a/b")
                if value is None or len(value) != 5000 or len(set(value)) != 1:
                    torn.append(value)

        jobs = iter([write, read, write, read])
        in_threads(4, lambda: next(jobs)())
        assert not torn
