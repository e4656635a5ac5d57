"""A value that is read, changed and put back: no change of another writer is lost, and who is always beaten is told."""

from __future__ import annotations

from threading import Thread

import pytest

from hyperslab.errors import Conflict
from hyperslab.stores import MemoryStore


def test_no_change_is_lost() -> None:
    store = MemoryStore()

    def count() -> None:
        for _ in range(50):
            store.update("n", lambda old: b"%d" % (int(bytes(old or b"0")) + 1), timeout=60)

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("n") == b"200"


def test_who_is_always_beaten_is_told_after_the_timeout() -> None:
    store = MemoryStore()
    store.put("n", b"0")
    met = []

    def change(old: object) -> bytes:
        met.append(bytes(old))  # type: ignore[call-overload]
        store.put("n", b"%d" % len(met))  # another writer was faster
        return b"mine"

    with pytest.raises(Conflict, match="another writer was faster"):
        store.update("n", change, timeout=1)
    assert met[:2] == [b"0", b"1"]
    assert store.get("n") == b"%d" % len(met)


def test_no_value_is_removed_or_never_made() -> None:
    store = MemoryStore()
    store.update("n", lambda old: None, timeout=0)
    assert store.get("n") is None
    store.update("n", lambda old: b"1" if old is None else None, timeout=0)
    assert store.get("n") == b"1"
    store.update("n", lambda old: None, timeout=0)
    assert store.get("n") is None


def test_a_version_that_is_not_there_any_more_is_a_conflict() -> None:
    store = MemoryStore()
    store.put("n", b"1")
    old = store.get_version("n")
    store.put_back("n", b"2", old)
    with pytest.raises(Conflict):
        store.put_back("n", b"3", old)
    with pytest.raises(Conflict):
        store.put_back("n", b"3", None)
    assert store.get("n") == b"2"
