"""Strings that are keys, that are none, and every call of a store that takes one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hyperslab.stores import base
from hyperslab.stores.scratch import Scratch

BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\\b", "a\0b", "C:/a", "c:", "\ud800"]
"""Strings that no store takes for a key, nor (but for the empty one) for a prefix."""
KEPT_KEYS = [".lock", "a/.lock", "a/.lock/b", ".x.0123456789abcdef.tmp", "a/.x.0123456789abcdef.tmp/b"]
"""Names kept for locks and unfinished writes; no key has such a segment."""
ODD_KEYS = ["a b", "ä/ö", "0.0", ".zattrs", "c/0/0", "x.tmp", ".x.tmp", "ab:c", "-", "\n", "~", "%2e%2e", "...", "日本"]
"""Strings that look suspicious and are keys."""


def calls_of(store: Any, key: str) -> list[Callable[[], object]]:
    """Every call of the store that takes a key or a folder, given this one; ``""`` is given only as a key."""
    buffer = bytearray(8)
    calls: dict[type, list[Callable[[], object]]] = {
        base.Get: [lambda: store.get(key)],
        base.GetInto: [lambda: store.get_into(key, Scratch())],
        base.ReadInto: [lambda: store.read_exactly(key, memoryview(buffer))],
        base.GetRanges: [lambda: store.get_ranges(key, [(0, 1)])],
        base.Put: [lambda: store.put(key, b"1"), lambda: store.put(key, b"1", durable=True)],
        base.PutMany: [lambda: store.put_many([(key, b"1")])],
        base.PutIf: [lambda: store.put_if(key, b"1", None)],
        base.PutNew: [lambda: store.put_new([(key, b"1")])],
        base.Touches: [lambda: store.touch(key)],
        base.Stamps: [lambda: store.stamp(key)],
        base.Size: [lambda: store.size(key)],
        base.Delete: [lambda: store.delete(key)],
        base.Rename: [lambda: store.rename(key, "x"), lambda: store.rename("x", key)],
    }
    folders: dict[type, list[Callable[[], object]]] = {
        base.Delete: [lambda: store.delete_prefix(key)],
        base.List: [lambda: list(store.list(key)), lambda: store.list_dir(key)],
        base.Tells: [lambda: list(store.entries(key)), lambda: store.nbytes_below(key)],
        base.Locks: [lambda: _enter(store.lock_chunks(key, [0], 0)), lambda: _enter(store.lock_node(key, 0))],
    }
    tables = [calls, folders] if key else [calls]
    return [
        call for table in tables for ability, found in table.items() if isinstance(store, ability) for call in found
    ]


def _enter(lock: AbstractContextManager[None]) -> None:
    with lock:
        pass
