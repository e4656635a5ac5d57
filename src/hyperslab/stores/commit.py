"""The one way in which values come to lie in folders: written under another name, made durable, then renamed.

A value is seen old or new and never torn (rename(2) is atomic); with ``durable`` an acknowledged value survives a power
cut (fsync of the file before the rename, of the folders after it).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hyperslab.stores import counting
from hyperslab.stores.attempts import beaten
from hyperslab.stores.base import Buffer
from hyperslab.stores.files import create, discard, flush_all, link_new, replace, sync_and_close, sync_file
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.threads import threads

if TYPE_CHECKING:
    from concurrent.futures import Future

_ATTEMPTS = 8
_MOST_OPEN = 128
_THREADS = 16
"""Which wait for the medium while the next values are written."""
_BY_DESCRIPTOR = os.utime in os.supports_fd
_FEW = 8
"""Folders for which one flush of each takes less time than one of all."""
_MAKERS, _BATCH = 2, 16
"""Threads that make new files, which some file systems take ten times as long for as writing them, and how many files
they make at a time."""


class Commit:
    """Values that become visible together, in the order in which they were added, when the ``with`` block ends well.

    When it does not, nothing of them is left. ``key`` is the one that is being worked on, for error messages.
    ``straight``: a new value gets its name at once, where nobody reads before all of the dataset is there. ``new``: no
    key may have a value, else ``Conflict``. ``at_once``: made durable by flushes of the whole file system. ``first``:
    keys of values that must be on the medium, if ``durable``, before these become visible.
    """

    def __init__(
        self,
        folders: Folders,
        *,
        durable: bool,
        straight: bool = False,
        new: bool = False,
        at_once: bool = False,
        first: Iterable[str] = (),
    ) -> None:
        self.key = ""
        self._straight = straight
        self._new = new
        self._at_once = at_once
        self._first = first
        self._shown: list[str] = []
        self._folders = folders
        self._durable = durable
        self._written: list[tuple[str, str, str]] = []
        self._last: tuple[str, int] | None = None
        self._flushing: list[tuple[str, Future[None]]] = []
        self._keys: set[str] = set()
        self._failed: str | None = None
        self._batch: list[tuple[str, bytes]] = []
        self._making: list[Future[None]] = []

    def add(self, key: str, value: Buffer) -> None:
        """Write one value under a temporary name, or let it be written with others: bytes, which do not change."""
        if counting.traces:
            counting.count(1, written=memoryview(value).nbytes)
        if not self._straight or self._durable or not isinstance(value, bytes) or key in self._keys:
            self._finish_batches()
            self.key = key
            self._write(key, value)
            return
        self._keys.add(key)
        self._batch.append((key, value))
        if len(self._batch) == _BATCH:
            self._making.append(threads(_MAKERS, "make").submit(self._write_batch, self._batch))
            self._batch = []

    def _write_batch(self, batch: list[tuple[str, bytes]]) -> None:
        for key, value in batch:
            try:
                self._write(key, value)
            except BaseException:
                self._failed = key
                raise

    def _finish_batches(self) -> None:
        """The last batch in this thread, while the others are under way."""
        batch, self._batch = self._batch, []
        self._write_batch(batch)
        while self._making:
            self._making[0].result()
            del self._making[0]

    def _write(self, key: str, value: Buffer) -> None:
        folder, _, name = key.rpartition("/")
        made = self._create_straight(folder, name, value) if self._straight else None
        temporary, descriptor = made or self._create(folder, temporary_name(name), value)
        self._written.append((key, temporary, folder))
        if made is None:
            _stamp(temporary, descriptor)
        if not self._durable or self._at_once:
            os.close(descriptor)
            return
        if self._last is not None:
            self._flushing.append((self._last[0], threads(_THREADS, "flush").submit(sync_and_close, self._last[1])))
        self._last = key, descriptor
        if len(self._flushing) >= _MOST_OPEN:
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

    def _create_straight(self, folder: str, name: str, value: Buffer) -> tuple[str, int] | None:
        """The value under its own name; None where there is one already."""
        try:
            return self._create(folder, name, value)
        except FileExistsError:
            return None

    def _flush(self) -> None:
        """The last value in this thread, while the others are under way."""
        self._finish_batches()
        settled = self._flush_first() if self._durable and not self._at_once else set()
        if self._last is not None:
            (self.key, descriptor), self._last = self._last, None
            sync_and_close(descriptor)
        self._wait()
        self._folders.settle(settled)

    def _flush_first(self) -> set[str]:
        """Have all that must be on the medium before flushed by other threads; the folders that will be there then."""
        submit = threads(_THREADS, "flush").submit
        keys = list(self._first)
        for key in keys:
            folder, _, name = key.rpartition("/")
            self._flushing.append((key, submit(sync_file, self._folders.path(folder) + name)))
        paths, settled = self._folders.to_flush(dict.fromkeys(key.rpartition("/")[0] for key in keys))
        self._flushing += [(path, submit(self._folders.flush, path)) for path in paths]
        return settled

    def _wait(self) -> None:
        while self._flushing:
            self.key, running = self._flushing.pop(0)
            running.result()

    def _show(self) -> None:
        while self._written:
            self.key, temporary, folder = self._written[0]
            place = self._folders.path(folder) + self.key.rpartition("/")[2]
            if self._new:
                self._link(temporary, place)
            elif temporary != place:
                replace(temporary, place, flushed=self._durable)
            del self._written[0]

    def _link(self, temporary: str, place: str) -> None:
        try:
            link_new(temporary, place)
        except FileExistsError:
            raise beaten(self._folders.url, self.key) from None
        self._shown.append(place)

    @contextmanager
    def _lasting(self, folders: Collection[str]) -> Iterator[None]:
        """The names that the block gives to values are on the medium afterwards."""
        if not self._durable:
            yield
            return
        if self._at_once:
            flush_all(self._folders.root)
        if not self._at_once or len(folders) <= _FEW:
            with self._folders.durable(folders):
                yield
        else:
            yield
            flush_all(self._folders.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                folders = dict.fromkeys(folder for _, _, folder in self._written)
                self._flush()
                with self._lasting(folders):
                    self._show()
                self._shown.clear()
        finally:
            self._abandon()
            self.key = self._failed or self.key

    def _abandon(self) -> None:
        if self._last is not None:
            with suppress(OSError):
                os.close(self._last[1])
        for running in [*(running for _, running in self._flushing), *self._making]:
            running.exception()
        for _, temporary, _ in self._written:
            discard(temporary)
        for place in reversed(self._shown):
            discard(place)


def _stamp(path: str, descriptor: int) -> None:
    """Give a file the present time; it is closed when that fails. The clock of a file system may tick only every few
    ms, and two versions must never share size, time and inode."""
    now = time.time_ns()
    try:
        os.utime(descriptor if _BY_DESCRIPTOR else path, ns=(now, now))
    except BaseException:
        os.close(descriptor)
        raise
