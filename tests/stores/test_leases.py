"""Locks that are objects: one holder at a time, whoever it is; a dead one holds up nobody for long."""

from __future__ import annotations

import threading
import time

import pytest

from hyperslab.errors import Conflict
from hyperslab.stores import leases
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore
from hyperslab.testing.stores import in_threads
from servers.s3 import S3


@pytest.fixture
def store(s3: S3) -> ObjectStore:
    store = Location.of(f"s3://{s3.bucket()}/x", s3.options).store(read_only=False, create=True)
    assert isinstance(store, ObjectStore)
    return store


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second instead of a quarter of a minute."""
    monkeypatch.setattr(leases, "LEASE", 1.0)
    monkeypatch.setattr(leases, "BEAT", 0.25)


def test_one_at_a_time(store: ObjectStore) -> None:
    """The same node waits and gives up; others are free; no key is to be seen; afterwards nothing is left."""
    with store.lock_node("a", 1):
        with pytest.raises(Conflict, match=r"timeout.*key=a/\.lock"), store.lock_node("a", 0.1):
            pass
        with store.lock_node("", 1), store.lock_node("b", 1):
            pass
        assert list(store.list()) == []
        assert tuple(map(list, store.list_dir("a"))) == ([], [])
    with store.lock_node("a", 0):
        pass
    assert store.read_lock("a/.lock") is None


@pytest.mark.sampled(0)
def test_in_threads(store: ObjectStore) -> None:
    """Read, change and put back under the lock loses nothing."""
    store.put("n", b"0")

    def increment() -> None:
        for _ in range(8):
            with store.lock_node("", 60):
                store.put("n", str(int(store.get("n") or b"") + 1).encode())

    in_threads(4, increment)
    assert store.get("n") == b"32"


@pytest.mark.sampled(0)
def test_a_long_holder_keeps_it(store: ObjectStore) -> None:
    """As long as it lives, also without doing anything."""
    with store.lock_node("a", 1):
        begin = time.monotonic()
        with pytest.raises(Conflict), store.lock_node("a", 2.5):
            pass
        assert time.monotonic() - begin >= 2.5


def test_a_dead_holder_loses_it(store: ObjectStore) -> None:
    """After the time of a lease, not before, and to one of those who wait."""
    store.swap_lock("a/.lock", b"somebody who died", None)
    begin = time.monotonic()
    held: list[float] = []

    def take() -> None:
        with store.lock_node("a", 30):
            held.append(time.monotonic() - begin)
            time.sleep(0.2)
            held.append(time.monotonic() - begin)

    in_threads(3, take)
    assert held == sorted(held)
    assert 1 <= held[0] < 10


def test_a_holder_that_was_stopped_is_told(store: ObjectStore) -> None:
    """When another one took over, the block ends with an error, and the other keeps the lock."""
    with pytest.raises(Conflict, match="taken over"), store.lock_node("a", 1):
        found = store.read_lock("a/.lock")
        assert found is not None
        store.swap_lock("a/.lock", b"another", found.stamp)
        time.sleep(0.6)
    left = store.read_lock("a/.lock")
    assert left is not None
    assert bytes(left.data) == b"another"


def test_let_go_after_an_error(store: ObjectStore) -> None:
    """Whatever ends the block ends the lock, and the thread that keeps it alive."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), store.lock_node("a", 0):
            raise ZeroDivisionError
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and not done(thread)]


def done(timer: threading.Timer) -> bool:
    timer.join(1)
    return not timer.is_alive()


def test_another_ones_lock_is_not_removed(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the holder has not noticed that time went by: its clock stood still while the computer slept."""
    monkeypatch.setattr(leases, "BEAT", 60.0)
    for taken in (b"another", None):
        with pytest.raises(Conflict, match="taken over"), store.lock_node("a", 1):
            found = store.read_lock("a/.lock")
            assert found is not None
            if taken is None:
                store.drop_lock("a/.lock")
            else:
                store.swap_lock("a/.lock", taken, found.stamp)
        left = store.read_lock("a/.lock")
        assert (None if left is None else bytes(left.data)) == taken
        store.drop_lock("a/.lock")


def test_what_holds_a_lock_may_remove_all_else(store: ObjectStore) -> None:
    """Its own lock stays, and goes at the end of the block; those of dead writers go with the rest."""
    store.put_many([("n", b""), ("a/n", b"")])
    store.swap_lock("a/b/.lock", b"somebody who died", None)
    for prefix in ("a", ""):
        with store.lock_node(prefix, 1):
            store.delete_prefix(prefix)
            with pytest.raises(Conflict, match="timeout"), store.lock_node(prefix, 0.05):
                pass
    assert store._below("") == []


def test_two_looks_that_do_not_wait_tell_a_dead_holder(store: ObjectStore) -> None:
    store.swap_lock("a/.lock", b"of a process that is gone", None)
    with pytest.raises(Conflict), store.lock_node("a", 0):
        pass
    time.sleep(store.lease_seconds)
    with store.lock_node("a", 0):
        pass
    with store.lock_node("b", 1):
        for _ in range(2):
            with pytest.raises(Conflict), store.lock_node("b", 0):
                pass
            time.sleep(store.lease_seconds)


def test_who_was_stopped_for_too_long_writes_nothing(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process stands still, its beats too; another one takes the lock over, and changes what it guards."""
    monkeypatch.setattr(leases.Lease, "_beat", lambda self: None)
    store.put("a/zarr.json", b"before")
    writes = [
        lambda: store.put("a/zarr.json", b"stale"),
        lambda: store.put_many([("a/zarr.json", b"stale")]),
        lambda: store.delete("a/zarr.json"),
        lambda: store.delete_prefix("a"),
        lambda: store.move([("a/zarr.json", "b")]),
    ]
    for write in writes:
        with pytest.raises(Conflict, match="taken over"), store.lock_node("a", 1):
            taken = store.read_lock("a/.lock")
            assert taken is not None
            store.swap_lock("a/.lock", b"of another process", taken.stamp)
            time.sleep(0.6)  # more than half a lease
            write()
        assert store.get("a/zarr.json") == b"before"
        store.drop_lock("a/.lock")
