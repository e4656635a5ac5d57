"""Where one array's chunks lie in a store: the key rule, the locks that guard the keys, the group commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from zlib import crc32

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.errors import ReadOnly
from hyperslab.stores.base import Store
from hyperslab.stores.scratch import Scratch

KeyOf = Callable[[Coords], str]

_NUMBERS = re.compile(r"(?:0|[1-9][0-9]{0,18})(?![0-9])")


class ChunkKeys:
    """Where one array's chunks lie: its store, folder and key rule, with the locks that guard them.

    ``stamp(key)``: what identifies the stored version; None when missing or when the store cannot tell.
    """

    def __init__(self, store: Store, folder: str, key_of: KeyOf, settings: Settings) -> None:
        self.store: Any = store
        self.folder = folder
        self.prefix = f"{folder}/" if folder else ""
        self.key_of = key_of
        self.settings = settings
        self.scratch = Scratch() if hasattr(store, "get_into") else None
        self.concurrency: int | None = getattr(store, "concurrency", None)
        self.stamp: Callable[[str], Any] = getattr(store, "stamp", _unknown)

    @property
    def tells_stamps(self) -> bool:
        """Return whether a key without a stamp is one that is missing."""
        return self.stamp is not _unknown

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the chunks' byte ranges; a range follows from the key alone, so it stays when the array grows."""
        if not hasattr(self.store, "lock_chunks"):
            return nullcontext()
        slots = sorted({crc32(self.key_of(place).encode()) for place in coords})
        lock: AbstractContextManager[None] = self.store.lock_chunks(self.folder, slots, timeout)
        return lock

    def get(self, key: str, most: int | None = None) -> Any:
        """The whole stored value, in the calling thread's buffer where the store can; None when missing.

        One of more than ``most`` bytes is not read into a buffer: ``CorruptChunk``.
        """
        return self.store.get(key) if self.scratch is None else self.store.get_into(key, self.scratch, most)

    @property
    def swaps(self) -> bool:
        """Return whether there are versions to compare in place of locks."""
        return hasattr(self.store, "get_version") and not hasattr(self.store, "lock_chunks")

    def size(self, key: str) -> int | None:
        """Bytes stored under the key; None when missing."""
        if hasattr(self.store, "size"):
            size: int | None = self.store.size(key)
            return size
        value = self.store.get(key)
        return None if value is None else len(value)

    def put_many(self, pairs: Iterable[tuple[str, Any]], durable: bool) -> None:
        """Store encoded chunks by one group commit where the store has it."""
        self.require_writable()
        if hasattr(self.store, "put_many"):
            self.store.put_many(pairs, durable=durable)
            return
        for key, value in pairs:
            self.store.put(key, value, durable=durable)

    def require_writable(self) -> None:
        """ReadOnly when the store takes no writes."""
        if self.store.read_only:
            raise ReadOnly("the store is read-only", url=self.store.url, remedy="open it with mode='r+'")

    def stored_sizes(self, keys: Iterable[str]) -> int:
        """Bytes stored under the keys."""
        return sum(self.size(key) or 0 for key in keys)

    def stored(self, ndim: int) -> Iterator[Coords]:
        """The coordinates whose keys are in the store: the numbers at the end of each key, if the key rule agrees."""
        for key in self.store.list(self.folder):
            coords = self.coords_of(key[len(self.prefix) :], ndim)
            if coords is not None:
                yield coords

    def coords_of(self, tail: str, ndim: int) -> Coords | None:
        """The coordinates whose key rule gives ``tail``; None when there are none."""
        numbers = tuple(map(int, _NUMBERS.findall(tail)))
        coords = numbers[len(numbers) - ndim :]
        return coords if len(numbers) >= ndim and self.key_of(coords) == tail else None

    def exists(self, key: str) -> bool:
        """Return whether something is stored under the key."""
        return self.size(key) is not None


def _unknown(key: str) -> None:
    """The stamp of a store that tells none."""


def fill_bytes(cell: Block) -> bytes | None:
    """The bytes of one fill cell (0-d); None for cells that are no plain bytes."""
    if cell.dtype.hasobject or cell.dtype.kind == "T" or not cell.dtype.itemsize:
        return None
    return cell.tobytes()


def is_all(block: Block, cell: bytes | None) -> bool:
    """Return whether every cell of a contiguous ``block`` has the bytes ``cell`` (so that -0.0 is not 0.0, and NaN
    is NaN).
    """
    if cell is None or not block.size:
        return False
    raw = block.reshape(-1).view(np.uint8)
    if raw[: len(cell)].tobytes() != cell or raw[-len(cell) :].tobytes() != cell:
        return False
    return bool((raw.reshape(-1, len(cell)) == np.frombuffer(cell, np.uint8)).all())
