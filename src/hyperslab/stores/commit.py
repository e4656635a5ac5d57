"""The one way in which values come to lie in folders: written under another name, made durable, then renamed.

A value is seen old or new and never torn (rename(2) is atomic); with ``durable`` an acknowledged value survives a power
cut (fsync of the file before the rename, of the folders after it).
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Self

from hyperslab.stores.base import Buffer
from hyperslab.stores.files import create, discard, sync_and_close
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import temporary_name

_ATTEMPTS = 8
_MOST_OPEN = 128
_THREADS = 16


class Commit:
    """Values that become visible together, in the order in which they were added, when the ``with`` block ends well.

    When it does not, nothing of them is left. ``key`` is the one that is being worked on, for error messages.
    """

    def __init__(self, folders: Folders, *, durable: bool) -> None:
        self.key = ""
        self._folders = folders
        self._durable = durable
        self._written: list[tuple[str, str, str]] = []
        self._open: list[tuple[str, int]] = []

    def add(self, key: str, value: Buffer) -> None:
        """Write one value under a temporary name."""
        self.key = key
        folder, _, name = key.rpartition("/")
        temporary, descriptor = self._create(folder, temporary_name(name), value)
        self._written.append((key, temporary, folder))
        self._open.append((key, descriptor))
        # the clock of a file system may tick only every few ms: two versions must never share size, time and inode
        now = time.time_ns()
        os.utime(temporary, ns=(now, now))
        if not self._durable:
            self._open.pop()
            os.close(descriptor)
        elif len(self._open) >= _MOST_OPEN:
            self._flush()

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
        if len(self._open) > 1:
            self._flush_in_threads()
        while self._open:
            self.key, descriptor = self._open.pop()
            sync_and_close(descriptor)

    def _flush_in_threads(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        batch, self._open = self._open, []  # from here on each descriptor is closed by its thread alone
        with ThreadPoolExecutor(min(_THREADS, len(batch))) as pool:
            running = [(key, pool.submit(sync_and_close, descriptor)) for key, descriptor in batch]
        for self.key, done in running:
            done.result()

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
        for _, descriptor in self._open:
            with suppress(OSError):
                os.close(descriptor)
        for _, temporary, _ in self._written:
            discard(temporary)
