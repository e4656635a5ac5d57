"""The slots of a new file, written one behind the other as they come: parallel writers, and what comes too early waits.

A few MiB wait in any case, so that a small file gets exactly the room in front that it needs. From then on its place is
a file beside the target that begins with placeholders (-1), so that an interrupted one is readable up to its last whole
chunk. What is written again later waits as well: the file is then put together anew in the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence

from hyperslab.errors import StorageError
from hyperslab.formats.bloscpack.atomic_file import AtomicFile, Piece, assemble
from hyperslab.formats.bloscpack.staging import ChunkStaging
from hyperslab.stores.files import read_at, write_at

GATHERED = 8 << 20
"""Bytes that are kept until the file is begun."""

Render = Callable[[Sequence[int], int | None], bytes | None]
"""The front for slots of these lengths: of that size, or None where it does not fit; without a size it always does."""


class Building:
    """A new file for ``target``. ``start``: what stands in front while it is built."""

    def __init__(self, target: str, start: Callable[[], bytes], gathered: int = GATHERED) -> None:
        self._target = target
        self._start = start
        self._gathered = gathered
        self._lock = threading.Lock()
        self._waiting = ChunkStaging(os.path.dirname(target))
        self._flying: dict[int, bytes] = {}
        self._places: list[tuple[int, int]] = []
        self._end = 0
        self._front = 0
        self._beside: AtomicFile | None = None

    def put(self, number: int, slot: bytes) -> None:
        """Take a slot, in place of an older one; several threads may call it. OSError as the system has it."""
        with self._lock:
            if self._flying.pop(number, None) is None and number == len(self._places) - 1:
                self._end = self._places.pop()[0]
            self._waiting.put(number, slot)
            beside = self._begun()
            ready = [] if beside is None else self._take_ready()
        if beside is not None and ready:
            for _, offset, data in ready:
                write_at(beside.descriptor, data, offset)
            with self._lock:
                self._landed(ready)

    def _begun(self) -> AtomicFile | None:
        """The file, which is made once there is enough to write."""
        if self._beside is None and self._waiting.nbytes >= self._gathered:
            front = self._start()
            self._beside = AtomicFile(self._target)
            write_at(self._beside.descriptor, front, 0)
            self._front = self._end = len(front)
        return self._beside

    def _take_ready(self) -> list[tuple[int, int, bytes]]:
        """Places for all slots that wait for nothing any more; others see them where they wait until they are there."""
        ready = []
        while (number := len(self._places)) in self._waiting:
            slot = self._waiting.get(number) or b""
            ready.append((number, self._end, slot))
            self._places.append((self._end, len(slot)))
            self._flying[number] = slot
            self._end += len(slot)
        return ready

    def _landed(self, ready: list[tuple[int, int, bytes]]) -> None:
        for number, _, slot in ready:
            if self._flying.get(number) is slot:
                del self._flying[number]
                self._waiting.drop(number)

    def get(self, number: int) -> bytes | None:
        """The slot, None when there is none."""
        with self._lock:
            if number in self._waiting:
                return self._waiting.get(number)
            if self._beside is None or number >= len(self._places):
                return None
            offset, length = self._places[number]
        return read_at(self._beside.descriptor, length, offset)

    def __contains__(self, number: int) -> bool:
        return number in self._waiting or number < len(self._places)

    def __iter__(self) -> Iterator[int]:
        with self._lock:
            return iter(sorted({*range(len(self._places)), *self._waiting}))

    def size_of(self, number: int) -> int:
        """Bytes of one slot, 0 when there is none."""
        with self._lock:
            if number in self._waiting:
                return self._waiting.size_of(number)
            return self._places[number][1] if number < len(self._places) else 0

    def cut(self, count: int) -> None:
        """Forget the slots from ``count`` on."""
        with self._lock:
            self._waiting.cut(count)
            if count < len(self._places):
                self._end = self._places[count][0]
                del self._places[count:]

    def finish(self, count: int, missing: Callable[[int], bytes], render: Render) -> AtomicFile:
        """The file with ``count`` slots, complete but for its name; ``missing`` makes those that nobody gave."""
        self.cut(count)
        for number in range(count):
            if number not in self:
                self.put(number, missing(number))
        beside = self._beside
        if beside is not None and not len(self._waiting):
            front = render([length for _, length in self._places], self._front)
            if front is not None:
                write_at(beside.descriptor, front, 0)
                os.ftruncate(beside.descriptor, self._end)
                return beside
        whole = AtomicFile(self._target)
        try:
            front = render([self.size_of(number) for number in range(count)], None)
            if front is None:
                raise StorageError("the header of the file cannot be made")
            assemble(whole.descriptor, front, self._pieces(count))
        except BaseException:
            whole.discard()
            raise
        self.discard()
        return whole

    def _pieces(self, count: int) -> Iterator[Piece]:
        for number in range(count):
            slot = self._waiting.get(number)
            if slot is not None:
                yield slot
            elif self._beside is not None:
                offset, length = self._places[number]
                yield self._beside.descriptor, offset, length

    def discard(self) -> None:
        """Forget all, and the file."""
        self._waiting.discard()
        self._places.clear()
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.discard()
