"""Locks that the kernel holds and drops when their holder dies: nothing that is left on disk means anything.

Chunks: byte ranges of an empty file ``.lock`` in the array's folder, locked per open file description (``F_OFD_SETLK``
of fcntl(2)), so that threads exclude one another as processes do. Documents: ``flock`` of the node's folder itself, or
of the file that is the dataset.
Waiting is polling, up to a timeout.

Windows locks ranges of an open file as well (``msvcrt.locking``), but neither folders nor files that others are to read
or replace: there ``.lock`` of the folder stands for the folder and the files in it too, by bytes that no chunk has.
macOS and other systems have no such ranges: the whole of ``.lock`` is one lock, which a thread that has it takes again.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from weakref import WeakSet
from zlib import crc32

from hyperslab.stores.attempts import kept_waiting
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.keys import LOCK
from hyperslab.stores.system import ALWAYS, NO_FOLLOW, NO_WAIT, is_link_followed, more_open_files

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

Range = tuple[int, int]
"""The first byte and the number of bytes; ``WHOLE`` is the whole file or folder."""
WHOLE: Range = (0, 0)

# Each range is a system call of its own, and is remembered by the kernel; one range over all excludes more, no less.
_MOST_RANGES = 2048
# Seconds between two looks at a lock that another one holds: short at first, since most are held for one write alone.
_SHORTEST, _LONGEST = 0.0002, 0.01
_BUSY = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_LOCK_FILE: int = os.O_RDWR | os.O_CREAT | NO_FOLLOW
# Where ranges are counted by 31 bits (the C library of Windows): chunks share the bytes up to the first of these, then
# comes the one of the folder, then those of its files by their names. Two chunks that meet there wait for each other.
_CHUNK_BYTES = 0x7FFF0000
_FOLDER_BYTE, _FIRST_FILE_BYTE, _FILE_BYTES = _CHUNK_BYTES, _CHUNK_BYTES + 1, 0xFFF0


class _Descriptor:
    """An open file that may hold locks. Closing it in a forked child leaves the parent's locks alone."""

    def __init__(self, path: str, flags: int) -> None:
        self.number = -1
        if is_link_followed(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        self.number = os.open(path, flags | ALWAYS | NO_WAIT, 0o666)  # a pipe keeps nobody waiting
        _OPEN.add(self)

    def is_still(self, path: str) -> bool:
        """Return True if the path still leads to the file that is open here, and not to one made after its removal."""
        try:
            return os.path.samestat(os.fstat(self.number), os.stat(path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            with suppress(OSError):
                os.close(number)

    __del__ = close


_OPEN: WeakSet[_Descriptor] = WeakSet()


def _close_inherited() -> None:
    for descriptor in list(_OPEN):
        descriptor.close()


call_after_fork(_close_inherited)


if sys.platform == "linux":

    def _change(descriptor: int, part: Range, kind: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, *part, 0))

    def _lock_range(descriptor: int, part: Range) -> None:
        _change(descriptor, part, fcntl.F_WRLCK)

    def _unlock_ranges(descriptor: int, parts: Sequence[Range]) -> None:
        _change(descriptor, WHOLE, fcntl.F_UNLCK)

    def _lockable(slots: Iterable[int]) -> Iterable[int]:
        return slots

elif sys.platform == "win32":

    def _change(descriptor: int, part: Range, mode: int) -> None:
        start, count = part
        os.lseek(descriptor, start, os.SEEK_SET)  # the range begins at the position
        msvcrt.locking(descriptor, mode, count)

    def _lock_range(descriptor: int, part: Range) -> None:
        _change(descriptor, part, msvcrt.LK_NBLCK)

    def _unlock_ranges(descriptor: int, parts: Sequence[Range]) -> None:
        for part in parts:  # by the very ranges that were locked
            _change(descriptor, part, msvcrt.LK_UNLCK)

    def _lockable(slots: Iterable[int]) -> Iterable[int]:
        return (slot % _CHUNK_BYTES for slot in slots)

else:

    def _lock_range(descriptor: int, part: Range) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock_ranges(descriptor: int, parts: Sequence[Range]) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _lockable(slots: Iterable[int]) -> Iterable[int]:
        return (0 for _ in slots)


_HAS_RANGES = sys.platform in ("linux", "win32")
DESCRIPTION = {
    "linux": "ranges of bytes, by open file descriptions",
    "win32": "ranges of bytes; files and folders by a file beside them",
}.get(sys.platform, "whole files")
"""In words, what is locked on this system."""
_OWN = threading.local()  # the slots that a thread has by lock file, where the system locks no ranges


def merge(slots: Iterable[int]) -> list[Range]:
    """Return the byte ranges that cover the slots, sorted and merged; one range over all where they would be too
    many."""
    merged: list[list[int]] = []
    for slot in sorted(set(_lockable(slots))):
        if merged and merged[-1][0] + merged[-1][1] == slot:
            merged[-1][1] += 1
        else:
            merged.append([slot, 1])
    if len(merged) > _MOST_RANGES:
        return [(merged[0][0], sum(merged[-1]) - merged[0][0])]
    return [(start, count) for start, count in merged]


@contextmanager
def hold_ranges(folder: Callable[[], str], slots: Sequence[int], timeout: float | None) -> Iterator[None]:
    """Hold the slots of ``folder()/.lock`` exclusively; ``Conflict`` after ``timeout`` seconds (None: never).

    ``folder`` makes the folder where it is missing and is asked again when another process removed it meanwhile.
    """
    parts = merge(slots)

    def path() -> str:
        return folder() + LOCK

    if not parts:
        yield
    elif _HAS_RANGES:
        with _hold_parts(path, parts, timeout):
            yield
    else:  # who has other slots of the folder, has these as well
        own: list[frozenset[int]] = _OWN.__dict__.setdefault("slots", {}).setdefault(path(), [])
        is_ours = bool(own) and all(each.isdisjoint(slots) for each in own)
        with nullcontext() if is_ours else _hold_parts(path, parts, timeout):
            own.append(frozenset(slots))
            try:
                yield
            finally:
                own.pop()


@contextmanager
def hold_all_ranges(folders: Sequence[str], timeout: float | None) -> Iterator[None]:
    """Hold every slot of ``folder/.lock`` of all folders exclusively, so that nobody writes a chunk there; ``Conflict``
    after ``timeout`` seconds (None: never). FileNotFoundError where one is not there."""
    part = (0, _CHUNK_BYTES) if sys.platform == "win32" else WHOLE
    with more_open_files(len(folders)), ExitStack() as stack:
        for folder in sorted(folders):  # in one order, so that two of this kind never wait for one another
            os.stat(folder)  # else it is waited for
            stack.enter_context(_hold_parts(partial(os.path.join, folder, LOCK), [part], timeout))
        yield


@contextmanager
def _hold_parts(path: Callable[[], str], parts: Sequence[Range], timeout: float | None) -> Iterator[None]:
    descriptor = _acquire(path, _LOCK_FILE, parts, _lock_range, timeout)
    try:
        yield
    finally:
        if descriptor.number >= 0:
            _unlock_ranges(descriptor.number, parts)
            descriptor.close()


if sys.platform == "win32":

    @contextmanager
    def hold_folder(
        folder: Callable[[], str], timeout: float | None, *, shared: bool = False, beside: bool = False
    ) -> Iterator[None]:
        if not beside:
            with _hold_byte(folder, _FOLDER_BYTE, timeout):
                yield
            return
        with hold_file(lambda: folder().rstrip("/\\"), timeout):
            folder()  # others may have removed it meanwhile
            yield

    @contextmanager
    def hold_file(path: Callable[[], str], timeout: float | None) -> Iterator[None]:
        name = os.path.normcase(os.path.basename(path()))
        byte = _FIRST_FILE_BYTE + crc32(name.encode("utf-8", "surrogatepass")) % _FILE_BYTES
        with _hold_byte(lambda: os.path.dirname(path()), byte, timeout):
            yield

    @contextmanager
    def _hold_byte(folder: Callable[[], str], byte: int, timeout: float | None) -> Iterator[None]:
        part = (byte, 1)
        descriptor = _acquire(lambda: os.path.join(folder(), LOCK), _LOCK_FILE, [part], _lock_range, timeout)
        try:
            yield
        finally:
            _unlock_ranges(descriptor.number, [part])
            descriptor.close()
            with suppress(OSError):  # refused while another one has it open
                os.unlink(os.path.join(folder(), LOCK))

    def remove_empty_folder(path: str) -> None:
        if os.listdir(path) == [LOCK]:
            os.unlink(os.path.join(path, LOCK))  # refused while anybody has it open, who may hold it or wait for it
        os.rmdir(path)

else:

    def hold_folder(
        folder: Callable[[], str], timeout: float | None, *, shared: bool = False, beside: bool = False
    ) -> AbstractContextManager[None]:
        """Hold ``folder()`` itself exclusively, or as one of several (``shared``; exclusively on Windows); ``Conflict``
        after ``timeout`` seconds (None: never).

        ``beside``: it may be removed meanwhile. On Windows, where no folder is in which a file is open, the lock is
        then one in the folder above, to which one must be allowed to write.
        """
        return _hold_whole(folder, os.O_RDONLY | os.O_DIRECTORY, timeout, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def hold_file(path: Callable[[], str], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the file ``path()`` itself exclusively; ``Conflict`` after ``timeout`` seconds (None: never).

        Where the path leads to another file once the lock is there, that one is waited for. ``path`` raises when there
        is no such file: else a new one under that name is waited for too.
        """
        return _hold_whole(path, os.O_RDONLY, timeout)

    def remove_empty_folder(path: str) -> None:
        """Remove a folder that is empty, or has a lock file alone; OSError for any other, ``Conflict`` where a writer
        holds the folder or a part of that file. Who waits for either notices."""
        with hold_folder(lambda: path, 0):
            if os.listdir(path) == [LOCK]:
                file = os.path.join(path, LOCK)
                descriptor = _acquire(lambda: file, _LOCK_FILE & ~os.O_CREAT, [WHOLE], _lock_range, 0)
                try:
                    os.unlink(file)
                finally:
                    descriptor.close()
            os.rmdir(path)

    @contextmanager
    def _hold_whole(
        path: Callable[[], str], flags: int, timeout: float | None, kind: int = fcntl.LOCK_EX
    ) -> Iterator[None]:
        def lock(descriptor: int, part: Range) -> None:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)

        descriptor = _acquire(path, flags, [WHOLE], lock, timeout)
        try:
            yield
        finally:
            if descriptor.number >= 0:
                fcntl.flock(descriptor.number, fcntl.LOCK_UN)
                descriptor.close()


def _acquire(
    path: Callable[[], str],
    flags: int,
    parts: Sequence[Range],
    lock: Callable[[int, Range], Any],
    timeout: float | None,
) -> _Descriptor:
    """Lock every part in order (so that no two holders wait for each other) on a descriptor of its own."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        place = path()
        try:
            descriptor = _Descriptor(place, flags)
        except FileNotFoundError:
            _pause(_SHORTEST, deadline)
            continue
        try:
            for part in parts:
                _wait(descriptor.number, part, lock, deadline)
            if descriptor.is_still(place):
                return descriptor
        except BaseException:
            descriptor.close()
            raise
        descriptor.close()


def _wait(descriptor: int, part: Range, lock: Callable[[int, Range], Any], deadline: float | None) -> None:
    pause = _SHORTEST
    while True:
        try:
            lock(descriptor, part)
            return
        except OSError as error:
            if error.errno not in _BUSY:
                raise
        _pause(pause, deadline)
        pause = min(pause * 1.5, _LONGEST)


def _pause(seconds: float, deadline: float | None) -> None:
    left = seconds if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise kept_waiting()
    time.sleep(min(seconds, left))
