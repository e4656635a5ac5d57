"""The one way in which values come to lie in folders: written under another name, made durable, then renamed.

A value is seen old or new and never torn (rename(2) is atomic); with ``durable`` an acknowledged value survives a power
cut (fsync of the file before the rename, of the folders after it).
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hyperslab.stores import counting
from hyperslab.stores.base import Buffer
from hyperslab.stores.files import create, discard, sync_and_close
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.threads import threads

if TYPE_CHECKING:
    from concurrent.futures import Future

_ATTEMPTS = 8
_MOST_OPEN = 128
_THREADS = 16
"""Which wait for the medium while the next values are written."""


class Commit:
    """Values that become visible together, in the order in which they were added, when the ``with`` block ends well.

    When it does not, nothing of them is left. ``key`` is the one that is being worked on, for error messages.
    """

    def __init__(self, folders: Folders, *, durable: bool) -> None:
        self.key = ""
        self._folders = folders
        self._durable = durable
        self._written: list[tuple[str, str, str]] = []
        self._last: tuple[str, int] | None = None
        self._flushing: list[tuple[str, Future[None]]] = []

    def add(self, key: str, value: Buffer) -> None:
        """Write one value under a temporary name."""
        if counting.traces:
            counting.count(1, written=memoryview(value).nbytes)
        self.key = key
        folder, _, name = key.rpartition("/")
        temporary, descriptor = self._create(folder, temporary_name(name), value)
        self._written.append((key, temporary, folder))
        if self._last is not None:
            self._flushing.append((self._last[0], threads(_THREADS, "flush").submit(sync_and_close, self._last[1])))
        self._last = key, descriptor
        # the clock of a file system may tick only every few ms: two versions must never share size, time and inode
        now = time.time_ns()
        os.utime(temporary, ns=(now, now))
        if not self._durable:
            self._last = None
            os.close(descriptor)
        elif len(self._flushing) >= _MOST_OPEN:
            self._wait()

    def _create(self, folder: str, name: str, value: Buffer) -> tuple[str, int]:
        for _ in range(_ATTEMPTS):
            try:
                temporary = self._folders.make(folder) + name
                return temporary, create(temporary, value)
            except FileNotFoundError:  # the folder was removed meanwhile, as empty or with its node
                self._folders.forget_all()
        temporary = self._folders.make(folder) + name
        return temporary, create(temporary, value)

    def _flush(self) -> None:
        """The last value in this thread, while the others are under way."""
        if self._last is not None:
            (self.key, descriptor), self._last = self._last, None
            sync_and_close(descriptor)
        self._wait()

    def _wait(self) -> None:
        while self._flushing:
            self.key, running = self._flushing.pop(0)
            running.result()

    def _show(self) -> None:
        while self._written:
            self.key, temporary, folder = self._written[0]
            os.replace(temporary, self._folders.path(folder) + self.key.rpartition("/")[2])
            del self._written[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                folders = dict.fromkeys(folder for _, _, folder in self._written)
                self._flush()
                with self._folders.durable(folders) if self._durable else nullcontext():
                    self._show()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self._last is not None:
            with suppress(OSError):
                os.close(self._last[1])
        for _, running in self._flushing:
            running.exception()
        for _, temporary, _ in self._written:
            discard(temporary)
