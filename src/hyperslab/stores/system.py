"""Functions of Python's ``os`` that some systems lack, and their substitutes there.

Windows reads at no offset, opens no folders, flushes no file that was opened for reading, gives an open file no other
name, and cannot be asked whether a process lives; it opens files as text unless told otherwise. Whoever works with
descriptors takes the names of this module, so that no other room knows of systems; locks are in
:mod:`hyperslab.stores.locks`. ``tests/other_system.py`` shows hyperslab other systems.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

if sys.platform != "win32":
    import resource

IS_WINDOWS = sys.platform == "win32"
MAY_IGNORE_CASE = sys.platform in ("win32", "darwin", "cygwin")
"""True where file systems mostly take names that differ in case only for one."""
ALWAYS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags that every file is opened with: not for programs that are started, and its bytes as they are."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag that refuses a symbolic link; nothing where the system has none."""
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
"""The flag that does not wait for the other end of a pipe; nothing where the system has none."""
FOLDER: int | None = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC if hasattr(os, "O_DIRECTORY") else None
"""Flags to open a folder; None where the system opens none."""
FLUSHABLE: int = os.O_RDWR if IS_WINDOWS else os.O_RDONLY
"""The access that a file is opened for so that it can be flushed: FlushFileBuffers asks for the right to write."""

# Where the system reads at no offset, threads take turns at the position of a descriptor. Those that read through
# different descriptors seldom meet at one of so many.
_TURNS = tuple(Lock() for _ in range(64))


def _read_into(descriptor: int, buffers: Sequence[memoryview]) -> int:
    data = os.read(descriptor, buffers[0].nbytes)
    buffers[0].cast("B")[: len(data)] = data
    return len(data)


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    with _TURNS[descriptor % len(_TURNS)]:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, offset, os.SEEK_SET)
        try:
            return os.read(descriptor, size)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def _seek_and_read_into(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
    data = _seek_and_read(descriptor, buffers[0].nbytes, offset)
    buffers[0].cast("B")[: len(data)] = data
    return len(data)


def _seek_and_write(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    with _TURNS[descriptor % len(_TURNS)]:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, offset, os.SEEK_SET)
        try:
            return os.write(descriptor, data)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


readv = getattr(os, "readv", _read_into)
"""``os.readv`` of one buffer, or the same through a copy where the system has none."""
pread = getattr(os, "pread", _seek_and_read)
"""``os.pread``: up to so many bytes from an offset on; the position of the descriptor stays."""
preadv = getattr(os, "preadv", _seek_and_read_into)
"""``os.preadv`` of one buffer, likewise."""


def pwrite(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes from an offset on and return how many, as ``os.pwrite``; the position of the descriptor stays."""
    if IS_WINDOWS:
        return _seek_and_write(descriptor, data, offset)
    return os.pwrite(descriptor, data, offset)


def set_mode(path: str, descriptor: int, mode: int) -> None:
    """Give an open file the permissions ``mode``; by its name where the system cannot otherwise."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    else:
        os.chmod(path, mode)


def most_files() -> int | None:
    """Return how many files the process may have open; None where there is no such limit (ulimit -n)."""
    if IS_WINDOWS:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


@contextmanager
def more_open_files(number: int) -> Iterator[None]:
    """Let the process have so many more files open within the block, as far as the system allows."""
    most = most_files()
    if most is None or 2 * number <= most:  # half of them is left for what is open already
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + number if hard == resource.RLIM_INFINITY else min(soft + number, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def process_lives(process: int) -> bool:
    """Return True if there is a process of this number; True, too, where the system cannot be asked.

    OverflowError for what is no number of a process.
    """
    if IS_WINDOWS:  # os.kill would send Ctrl-C there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


# Seconds for which a file that is open elsewhere is waited for, and between two looks: a reader has a chunk open for
# less than a millisecond, a scanner of viruses for some hundred.
_PATIENCE, _PAUSE = 2.0, 0.005


def replace_file(source: str, target: str) -> None:
    """Give a file the name ``target``, over what has it. On Windows PermissionError while one of them stays open."""
    if IS_WINDOWS:
        _insist(os.replace, source, target)
    else:
        os.replace(source, target)


def rename(source: str, target: str) -> None:
    """Give a file or folder the name ``target``. On Windows PermissionError while a file of it stays open, and
    FileExistsError for a name that is taken."""
    if IS_WINDOWS:
        _insist(os.rename, source, target)
    else:
        os.rename(source, target)


def _insist(call: Callable[[str, str], None], source: str, target: str) -> None:
    """Rename, again for some seconds, since a file that anybody has open gets no other name."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            call(source, target)
            return
        except PermissionError as error:
            if os.path.isdir(target):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target) from error
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


def open_again(path: str, flags: int) -> int | None:
    """Open a file that could not be opened before; on Windows for some seconds, since one that is just being replaced
    is refused there, and None for a folder, which is refused in the same words."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return os.open(path, flags)
        except PermissionError:
            if not IS_WINDOWS or time.monotonic() > deadline:
                raise
            if os.path.isdir(path):
                return None
        time.sleep(_PAUSE)


def is_link_followed(path: str) -> bool:
    """Return True for a symbolic link that :data:`NO_FOLLOW` would not refuse here."""
    return not NO_FOLLOW and os.path.islink(path)


def touch(path: str, descriptor: int) -> None:
    """Set the time of the last change of an open file to now; by its name where the system cannot otherwise."""
    now = time.time_ns()
    os.utime(descriptor if os.utime in os.supports_fd else path, ns=(now, now))
