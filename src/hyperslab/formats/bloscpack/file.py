"""The bytes of a file at places: a file of this machine under a descriptor, or an object of a server by ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hyperslab.errors import CorruptChunk, HyperslabError
from hyperslab.formats.format_errors import dataset_closed, file_not_found
from hyperslab.stores.atomic_file import UndoRecord, journal_path, read_undo
from hyperslab.stores.files import MISSING, READ_REGULAR, pread_into, read_error, version_of
from hyperslab.stores.object import RemoteFile
from hyperslab.stores.stored_file import StoredFile
from hyperslab.stores.system import NO_FOLLOW, pread, preadv

Stamp = Any
T = TypeVar("T")
# A file that changed this often while it was read has a writer that never rests: what is found then counts.
_ATTEMPTS = 100


class LocalFile:
    """A file that is kept open: what takes its name later is another one. ``size``: as of the last :meth:`stamp`.

    While a writer changes it in place, or when one died at it, what its journal holds is read in place of what changed.
    """

    def __init__(self, path: str, url: str, flags: int = READ_REGULAR & ~NO_FOLLOW) -> None:
        self.url = url
        self.path = os.path.realpath(path)
        self._undo: UndoRecord | None = None
        self._journal: tuple[int, int, int] | None = None
        self._last_version: Stamp = None
        try:
            self.descriptor = os.open(path, flags)
        except OSError as error:
            if error.errno in MISSING:
                raise file_not_found(url) from error
            raise read_error(error, url, "") from error
        self.size = 0
        self.stamp()

    def stamp(self) -> tuple[int, int, int]:
        """Return size, time of the last change, and inode; with a journal the time is the journal's."""
        try:
            found = os.fstat(self.descriptor)
        except OSError as error:
            raise self._failed(error) from error
        version = version_of(found)
        if version != self._last_version or self._undo is not None:
            self._last_version = version
            self.has_journal()
        if self._undo is None or self._journal is None:
            self.size = found.st_size
            return version
        # What is read now are the old bytes, and from the moment at which the journal goes the new ones, while the file
        # itself does not change any more: without another stamp both would count as one version.
        self.size = self._undo.size
        return self.size, self._journal[1], version[2]

    def stored_file(self) -> StoredFile | None:
        """Return the file as others open it; None while a journal holds some of its bytes."""
        self.stamp()
        return None if self._undo is not None else StoredFile.of_path(self.path, os.fstat(self.descriptor))

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return os.path.dirname(self.path)

    def reopen(self) -> LocalFile:
        """Return the file that has the name now: this one, or one that took its place."""
        now = LocalFile(self.path, self.url)
        return self if now.stamp()[-1] == self.stamp()[-1] else now

    def has_journal(self) -> bool:
        """Look for a journal again; return True if a writer is changing the file, or died at it."""
        journal = _stat(journal_path(self.path))
        if journal is None or journal != self._journal:
            self._journal = journal
            self._undo = None if journal is None else read_undo(self.path, self.descriptor)
        return self._undo is not None

    def pread(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on; CorruptChunk when the file is shorter, before memory is taken."""
        if offset + size > self.size:
            raise _short(offset + size, self.size)
        if self._undo is not None:
            out = bytearray(size)
            self.pread_into(memoryview(out), offset)
            return bytes(out)
        try:
            found = pread(self.descriptor, size, offset)
        except OSError as error:
            raise self._failed(error) from error
        if len(found) < size:
            raise _short(offset + size, offset + len(found))
        return found

    def pread_into(self, out: memoryview, offset: int) -> None:
        """Fill ``out`` from ``offset`` on; CorruptChunk when the file is shorter.

        Never with what a writer is about to put there, who may yet fail: a file that changed may have a journal.
        """
        last_version = self._last_version
        try:
            done = preadv(self.descriptor, [out], offset)
            changed = os.fstat(self.descriptor).st_mtime_ns != last_version[1]
        except OSError as error:
            raise self._failed(error) from error
        if changed or self._undo is not None:
            self.stamp()
        # The bytes may be new ones: a writer wrote its journal before them, so it is looked for after they were read.
        # It holds the bytes that were cut off, too. Once it is another one, the bytes read belong to neither.
        undo = self._undo
        if undo is not None:
            if _stat(journal_path(self.path)) == self._journal:
                undo.restore(offset, out)
            else:
                self.pread_into(out, offset)
        elif done < len(out):
            pread_into(self.descriptor, out[done:], offset + done)

    def _failed(self, error: OSError) -> HyperslabError:
        if self.descriptor < 0:
            return dataset_closed(self.url)
        return read_error(error, self.url, "")

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close()


class ServedFile:
    """An object of a server, all reads of one version. What its first request brought is not asked for again."""

    def __init__(self, remote: RemoteFile) -> None:
        self._remote = remote
        self.url = remote.url
        self.size = remote.size
        self.concurrency = remote.concurrency

    def stamp(self) -> Stamp:
        """Return that of the version that is read."""
        return self._remote.stamp

    def stored_file(self) -> StoredFile:
        """Return the object as others open it."""
        return StoredFile.of_object(self.url, self.size, self._remote.stamp)

    def reopen(self) -> ServedFile:
        """Return this object: another version is opened anew."""
        return self

    def pread(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on; CorruptChunk when the object is shorter."""
        return self.preads([(offset, offset + size)])[0]

    def preads(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes ``start <= i < stop`` of each range, by few requests at once."""
        head = self._remote.head
        far = [(start, stop) for start, stop in ranges if stop > len(head)]
        found = iter(self._remote.preads(far) if far else ())
        return [head[start:stop] if stop <= len(head) else next(found) for start, stop in ranges]

    def close(self) -> None:
        """Do nothing: no connection is kept."""


FileBytes = LocalFile | ServedFile
"""The bytes that readers of bloscpack files take."""


def read_stable(file: FileBytes, read: Callable[[], T]) -> tuple[Stamp, T]:
    """Return the result of ``read`` on one version of the file, and the stamp of that: it is called again while another
    writer changes it."""
    for _ in range(_ATTEMPTS):
        before = file.stamp()
        try:
            found = read()
        except HyperslabError:
            if file.stamp() == before:
                raise
            continue
        if file.stamp() == before:
            return before, found
    return file.stamp(), read()


def _stat(path: str) -> tuple[int, int, int] | None:
    """Return the stamp of the file of this name; None when there is none."""
    try:
        return version_of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def _short(stop: int, length: int) -> CorruptChunk:
    return CorruptChunk("the file ends within its bytes", expected=stop, found=length)
