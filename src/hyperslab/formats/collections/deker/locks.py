"""Locks of DEKER's files: ``flock`` of the data file, and the peer's lock files for as long as their process lives.

What is changed here appears by a rename, so that readers need no lock, of ours or of the peer's making. Writers exclude
one another, and the peer, by the lock of the kernel; lock files that a dead process left mean nothing.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial

from hyperslab.errors import Conflict, NodeNotFound
from hyperslab.stores import locks
from hyperslab.stores.attempts import kept_waiting
from hyperslab.stores.system import process_lives

# Endings of the peer's lock files: of its readers, and of its writers of a tile.
READ_LOCK, TILE_LOCK = ".arrayreadlock", ".varraylock"
_holder = re.compile(
    rf"(?P<id>[^:]+)(?::[^:]+:(?P<reader>[0-9]+):[0-9]+\{READ_LOCK}|\.hdf5:(?P<writer>[0-9]+)\{TILE_LOCK})"
).fullmatch
# Seconds between looks at a lock file: it is no lock of the kernel, and nobody is woken when it goes.
_SHORTEST, _LONGEST = 0.005, 0.1
# Seconds by which a clock of the system may differ from that of its processes.
_SLACK = 2.0

_LOCKED_HERE: list[str] = []
"""Files that this process holds: it never leaves one half-written. Each change and look is one call of the list."""


def is_lock(name: str) -> bool:
    """Return True if a file is named as the peer's lock files are."""
    return name.endswith((READ_LOCK, TILE_LOCK))


def is_live(path: str) -> bool:
    """Return True if the process that a lock file of the peer names is alive, and is the one that made it."""
    match = _holder(os.path.basename(path))
    if match is None:
        return False
    pid = int(match["reader"] or match["writer"])
    if pid == os.getpid() or pid <= 0:  # nobody here makes such files
        return False
    try:
        if not process_lives(pid):
            return False
    except OverflowError:
        return False
    try:
        made = os.stat(path).st_mtime
    except OSError:
        return False
    return _started(pid) <= made + _SLACK


def _started(pid: int) -> float:
    """Return the start of a process in seconds since 1970; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0.0
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat, open("/proc/stat", "rb") as system:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
            booted = next(int(line.split()[1]) for line in system if line.startswith(b"btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0.0
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def live_locks(path: str) -> list[str]:
    """Return the lock files of processes that are alive beside a data file, for it."""
    folder, name = os.path.split(path)
    id = os.path.splitext(name)[0]
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    beside = (name for name in names if is_lock(name) and name.startswith((f"{id}:", f"{id}.hdf5:")))
    return [place for name in sorted(beside) if is_live(place := os.path.join(folder, name))]


@contextmanager
def lock_file(path: Callable[[], str], timeout: float | None) -> Iterator[None]:
    """Hold a data file against every other writer, once nobody reads it by the peer; ``Conflict`` after ``timeout`` s.

    ``path`` raises :class:`NodeNotFound` when the file is gone.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        with locks.hold_file(partial(_present, path), timeout):
            place = path()
            _wait(place, deadline)
            with _registered([place]):
                yield
    except Conflict as error:
        raise error.locate(url=path()) from None


@contextmanager
def lock_files(paths: Sequence[str], timeout: float | None) -> Iterator[None]:
    """Hold data files as :func:`lock_file` does one; those that are gone are passed over.

    While one of them is held by another none is: a writer of the peer's keeps those that it has while it waits.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with ExitStack() as stack:
        pause = _SHORTEST
        # All or none: held one by one, two writers of the peer and of ours could each wait for what the other holds.
        while not _take_all(stack, paths, deadline):
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
        for path in paths:
            _wait(path, deadline)
        with _registered(paths):
            yield


def _take_all(stack: ExitStack, paths: Sequence[str], deadline: float | None) -> bool:
    """Hold files at once, all or none; ``Conflict`` after the deadline."""
    with ExitStack() as taken:
        for path in paths:
            try:
                with suppress(NodeNotFound):
                    taken.enter_context(locks.hold_file(partial(_present, partial(str, path)), 0))
                    _wait(path, 0, TILE_LOCK)
            except Conflict as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise error.locate(url=path) from None
                return False
        stack.push(taken.pop_all())
        return True


def lock_folder(path: str, timeout: float | None) -> AbstractContextManager[None]:
    """Hold a folder that links lie in; NodeNotFound when it is gone."""
    return locks.hold_folder(partial(_present, partial(str, path)), timeout)


@contextmanager
def _registered(paths: Sequence[str]) -> Iterator[None]:
    """Register files as locked by this process for the block."""
    _LOCKED_HERE.extend(paths)
    try:
        yield
    finally:
        for path in paths:
            _LOCKED_HERE.remove(path)


def _present(path: Callable[[], str]) -> str:
    place = path()
    if not os.path.lexists(place):
        raise NodeNotFound("the array was removed", url=place)
    return place


def _wait(path: str, deadline: float | None, kind: str = "") -> None:
    """Wait for those that have a lock file, of a kind, until the deadline."""
    pause = _SHORTEST
    while others := [each for each in live_locks(path) if each.endswith(kind)]:
        left = pause if deadline is None else deadline - time.monotonic()
        if left <= 0:
            error = kept_waiting(url=path, key=os.path.basename(others[0]))
            error.remedy = "wait longer (lock_timeout), or end the process that made this lock file"
            raise error
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST)


def is_locked_elsewhere(path: str) -> bool:
    """Return True if another process holds a file at this moment, and may change it in place, which none of ours
    ever does.
    """
    if path in _LOCKED_HERE:
        return False
    try:
        with locks.hold_file(partial(_present, partial(str, path)), 0):
            return False
    except Conflict:
        return True
    except (OSError, NodeNotFound):
        return False
