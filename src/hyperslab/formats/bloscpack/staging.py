"""What waits to be written: slots by their number, in memory, and in a nameless file once they are many."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from hyperslab.stores.files import read_at, write_at

Place = tuple[int, int]
"""Offset and length in the file."""

MEMORY = 64 << 20
"""Bytes that wait in memory; more go to the file."""


class ChunkStaging:
    """Slots by number; several threads may give them. ``folder``: where the file is that takes what is too much."""

    def __init__(self, folder: str, memory: int = MEMORY) -> None:
        self._file: Any = None
        self._rest = ExitStack()
        self._folder = folder
        self._lock = threading.Lock()
        self._memory = memory
        self._slots: dict[int, bytes | Place] = {}
        self._end = 0
        self.nbytes = 0

    def put(self, number: int, slot: bytes) -> None:
        """Take a slot in place of an older one."""
        with self._lock:
            self._drop(number)
            if self.nbytes + len(slot) <= self._memory:
                self._slots[number] = slot
                self.nbytes += len(slot)
                return
            if self._file is None:
                with ExitStack() as stack:
                    self._file = stack.enter_context(tempfile.TemporaryFile(dir=self._folder))
                    self._rest = stack.pop_all()
            place = self._end, len(slot)
            self._end += len(slot)
        write_at(self._file.fileno(), slot, place[0])
        self._slots[number] = place

    def get(self, number: int) -> bytes | None:
        """The slot, None when none waits."""
        found = self._slots.get(number)
        if isinstance(found, tuple):
            return read_at(self._file.fileno(), found[1], found[0])
        return found

    def drop(self, number: int) -> None:
        """Forget a slot; missing is fine."""
        with self._lock:
            self._drop(number)

    def _drop(self, number: int) -> None:
        found = self._slots.pop(number, None)
        if isinstance(found, bytes):
            self.nbytes -= len(found)

    def size_of(self, number: int) -> int:
        """Bytes of a slot that waits."""
        found = self._slots[number]
        return found[1] if isinstance(found, tuple) else len(found)

    def cut(self, count: int) -> None:
        """Forget the slots from ``count`` on."""
        for number in [number for number in self._slots if number >= count]:
            self.drop(number)

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._slots))

    def __len__(self) -> int:
        return len(self._slots)

    def mark(self) -> dict[int, bytes | Place]:
        """What waits now, for :meth:`reset`."""
        return dict(self._slots)

    def reset(self, mark: dict[int, bytes | Place]) -> None:
        """Let wait again what waited when the mark was made."""
        self._slots = mark
        self.nbytes = sum(len(slot) for slot in mark.values() if isinstance(slot, bytes))

    def discard(self) -> None:
        """Forget all, and the file."""
        self._slots = {}
        self.nbytes = 0
        self._file, self._end = None, 0
        self._rest.close()

    __del__ = discard
