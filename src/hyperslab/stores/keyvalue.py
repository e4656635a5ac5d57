"""A map from keys to values over any store: the ten calls of the NCZarr draft of 2018, and Python's mutable mapping."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import Any, Self

from hyperslab.errors import Invalid, NotFound, SelectionError
from hyperslab.stores.base import Buffer, Store
from hyperslab.stores.keys import check_key, is_key
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore


class KeyValueMap(MutableMapping[str, bytes]):
    """Keys (text) to values (bytes). With ``ascii_only`` keys are US-ASCII, as the draft has them, else ``Invalid``.

    :meth:`keys` gives a list, and :meth:`ith` a pair by its place among the sorted keys.
    """

    def __init__(self, store: Store, *, ascii_only: bool = False) -> None:
        self._store: Store | None = store
        self._owned = False
        self._ascii_only = ascii_only
        self._sorted: list[str] | None = None

    @classmethod
    def newmap(
        cls, target: str | os.PathLike[str] | Store | None = None, *, ascii_only: bool = False, **options: Any
    ) -> Self:
        """Return a map over a store or a place, which is made where missing; by default a fresh one in memory."""
        store = MemoryStore() if target is None else Location.of(target, options).store(read_only=False, create=True)
        made = cls(store, ascii_only=ascii_only)
        made._owned = store is not target
        return made

    def freemap(self) -> None:
        """Let go of the store: the map refuses further use, its keys and values stay where they are."""
        if self._store is not None and self._owned:
            self._store.close()
        self._store = None
        self._sorted = None

    def contains(self, key: object) -> bool:
        """Return True if there is such a key."""
        if not isinstance(key, str) or not self._fits(key):
            return False
        return self._open().get(key) is not None

    def ith(self, i: int) -> tuple[str, bytes]:
        """Return the pair at place ``i`` among the sorted keys; ``SelectionError`` (an IndexError) when the end lies
        before.

        A change of the map moves the places: what was pair ``i`` may be another one afterwards.
        """
        while True:
            keys = self._snapshot()
            if not 0 <= i < len(keys):
                remedy = "places are counted from 0 and end before len(map)"
                raise SelectionError(f"pair {i} of a map of {len(keys)}", url=self._open().url, remedy=remedy)
            value = self._open().get(keys[i])
            if value is not None:
                return keys[i], value
            self._sorted = None

    def len(self) -> int:
        """Return how many keys there are."""
        return sum(1 for _ in self)

    def keys(self) -> list[str]:  # type: ignore[override]  # a list, as the draft has it
        """Return all keys, sorted."""
        return list(self)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or ``default``."""
        value = self._open().get(self._check(key))
        return default if value is None else value

    def set(self, key: str, item: Buffer) -> None:
        """Store the pair, in place of one that has this key."""
        if not isinstance(item, bytes | bytearray | memoryview):
            raise Invalid(f"a value of type {type(item).__name__}", key=key, remedy="values are bytes")
        self._open().put(self._check(key), item)
        self._sorted = None

    def remove(self, key: str) -> bytes:
        """Delete the pair and give its value; ``NotFound`` (a KeyError) when there is none."""
        value = self[key]
        self._open().delete(key)
        self._sorted = None
        return value

    def clear(self) -> None:
        """Remove all pairs."""
        self._open().delete_prefix("")
        self._sorted = None

    def __getitem__(self, key: str) -> bytes:
        value = self._open().get(self._check(key))
        if value is None:
            raise NotFound("there is no such key", url=self._open().url, key=key)
        return value

    def __setitem__(self, key: str, value: Buffer) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._open().list() if self._fits(key))

    def __len__(self) -> int:
        return self.len()

    def __repr__(self) -> str:
        return f"<KeyValueMap {self._store.url if self._store is not None else 'freed'}>"

    def _open(self) -> Store:
        if self._store is None:
            raise Invalid("the map was freed", remedy="make a new one with newmap")
        return self._store

    def _snapshot(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self)
        return self._sorted

    def _fits(self, key: str) -> bool:
        return bool(is_key(key)) and (key.isascii() or not self._ascii_only)

    def _check(self, key: str) -> str:
        check_key(key)
        if not self._fits(key):
            raise Invalid(f"{key!r} is not US-ASCII", remedy="use ASCII keys, or make the map without ascii_only")
        return key
