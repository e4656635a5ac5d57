"""One object of a bucket or a web server as a file that is read by ranges, all of one version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperslab.errors import CorruptChunk

HEAD = 16 << 10
"""Bytes that the first request brings: enough to know the format, and most headers."""


class RemoteFile:
    """The object ``key`` of ``store``. ``size`` in bytes, ``stamp`` of its version, ``head``: its first bytes.

    A read of another version than the first one is a ``Conflict``, where the server names versions.
    """

    def __init__(self, store: Any, key: str, head: bytes, size: int, stamp: Any) -> None:
        self._store = store
        self._key = key
        self.head = head
        self.size = size
        self.stamp = stamp
        self.url = f"{store.url.rstrip('/')}/{key}"
        self.concurrency = getattr(store, "concurrency", None)

    @classmethod
    def open(cls, store: Any, key: str) -> RemoteFile | None:
        """By one request; None when there is no such object."""
        found = store.get_version(key, (0, HEAD))
        return None if found is None else cls(store, key, bytes(found.data), found.size, found.stamp)

    def pread(self, size: int, offset: int) -> bytes:
        """Exactly ``size`` bytes from ``offset`` on; CorruptChunk when the file is shorter."""
        return self.preads([(offset, offset + size)])[0]

    def preads(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes ``start <= i < stop`` of each range, by few requests at once."""
        for _, stop in ranges:
            if stop > self.size:
                remedy = "get the whole file"
                raise CorruptChunk(
                    "the file ends within the cells", expected=stop, found=self.size, url=self.url, remedy=remedy
                )
        found = self._store.get_ranges_of(self._key, ranges, self.stamp)
        if found is None:
            raise CorruptChunk("the file is gone", url=self.url, remedy="restore it from a copy, or open another one")
        return list(found)
