"""Locks that the kernel holds and drops when their holder dies: nothing that is left on disk means anything.

Chunks: byte ranges of an empty file ``.lock`` in the array's folder, locked per open file description (``F_OFD_SETLK``
of fcntl(2)), so that threads exclude one another as processes do. Documents: ``flock`` of the node's folder itself, or
of the file that is the dataset.
Where the system has no such ranges, the whole of ``.lock`` is one lock. Waiting is polling, up to a timeout.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from weakref import WeakSet

from hyperslab.stores.attempts import kept_waiting
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.keys import LOCK

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
_ALWAYS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe keeps nobody waiting
_LOCK_FILE: int = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


class _Descriptor:
    """An open file that may hold locks. Closing it in a forked child leaves the parent's locks alone."""

    def __init__(self, path: str, flags: int) -> None:
        self.number = -1
        self.number = os.open(path, flags | _ALWAYS, 0o666)
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

    def _unlock_ranges(descriptor: int) -> None:
        _change(descriptor, WHOLE, fcntl.F_UNLCK)

elif sys.platform == "win32":

    def _lock_range(descriptor: int, part: Range) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock_ranges(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _lock_range(descriptor: int, part: Range) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock_ranges(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# True if bytes can be locked apart; else one lock stands for all of them.
_RANGES = sys.platform == "linux"


def merge(slots: Iterable[int]) -> list[Range]:
    """Return the byte ranges that cover the slots, sorted and merged; one range over all where they would be too
    many."""
    merged: list[list[int]] = []
    for slot in sorted(set(slots)):
        if merged and merged[-1][0] + merged[-1][1] == slot:
            merged[-1][1] += 1
        else:
            merged.append([slot, 1])
    if len(merged) > _MOST_RANGES or (merged and not _RANGES):
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

    descriptor = _acquire(path, _LOCK_FILE, parts, _lock_range, timeout) if parts else None
    try:
        yield
    finally:
        if descriptor is not None and descriptor.number >= 0:
            _unlock_ranges(descriptor.number)
            descriptor.close()


def remove_lock_file(folder: str) -> None:
    """Remove ``.lock`` of a folder; ``Conflict`` when a writer holds a part of it. Who waits for it notices."""
    descriptor = _acquire(lambda: folder + LOCK, _LOCK_FILE & ~os.O_CREAT, [WHOLE], _lock_range, 0)
    try:
        os.unlink(folder + LOCK)
    finally:
        descriptor.close()


if sys.platform == "win32":

    @contextmanager
    def hold_folder(folder: Callable[[], str], timeout: float | None, *, shared: bool = False) -> Iterator[None]:
        with hold_ranges(folder, [0], timeout):
            yield

    @contextmanager
    def hold_file(path: Callable[[], str], timeout: float | None) -> Iterator[None]:
        with hold_ranges(lambda: os.path.join(os.path.dirname(path()), ""), [0], timeout):
            yield

else:

    def hold_folder(
        folder: Callable[[], str], timeout: float | None, *, shared: bool = False
    ) -> AbstractContextManager[None]:
        """Hold ``folder()`` itself exclusively, or as one of several (``shared``; exclusively on Windows); ``Conflict``
        after ``timeout`` seconds (None: never)."""
        return _hold_whole(folder, os.O_RDONLY | os.O_DIRECTORY, timeout, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def hold_file(path: Callable[[], str], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the file ``path()`` itself exclusively; ``Conflict`` after ``timeout`` seconds (None: never).

        Where the path leads to another file once the lock is there, that one is waited for. ``path`` raises when there
        is no such file: else a new one under that name is waited for too.
        """
        return _hold_whole(path, os.O_RDONLY, timeout)

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
