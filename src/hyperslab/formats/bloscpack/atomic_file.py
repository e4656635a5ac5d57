"""A file that is made beside the one whose place it takes; how it is put together of slots and of parts of others."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress

from hyperslab.errors import StorageError
from hyperslab.stores.files import open_folder, read_at, sync_folder, write_at
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.leftovers import remove_leftovers

Part = tuple[int, int, int]
"""Bytes of another open file: its descriptor, an offset, a length."""
Piece = bytes | Part

_STEP = 1 << 20
_LONGEST = 1 << 30
_FLAGS: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class AtomicFile:
    """A file under a temporary name beside ``target``; removed unless it is published. OSError as the system has it."""

    def __init__(self, target: str, mode: int | None = None) -> None:
        self._target = target
        self.path = os.path.join(os.path.dirname(target), temporary_name(os.path.basename(target)))
        self.descriptor = os.open(self.path, _FLAGS, 0o666)
        self._finish = weakref.finalize(self, _remove, self.path, self.descriptor, os.getpid())
        if mode is not None:
            os.fchmod(self.descriptor, mode & 0o7777)

    def publish(self, *, durable: bool) -> None:
        """Make the file complete on the medium, then give it its name."""
        if durable:
            os.fsync(self.descriptor)
        os.replace(self.path, self._target)
        if durable:
            with open_folder(os.path.dirname(self._target)) as folder:
                sync_folder(folder)
        self._finish.detach()
        os.close(self.descriptor)
        remove_leftovers(self._target)

    def discard(self) -> None:
        """Close and remove it; doing so twice, or after it was published, is fine."""
        self._finish()


def _remove(path: str, descriptor: int, owner: int) -> None:
    """In the process that made it: a forked child has the number of the same file, and closes its own."""
    with suppress(OSError):
        os.close(descriptor)
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)


def assemble(descriptor: int, front: bytes, pieces: Iterable[Piece]) -> None:
    """Write a file from its beginning: the front, then the pieces in order."""
    write_at(descriptor, front, 0)
    at = len(front)
    for piece in _joined(pieces):
        if isinstance(piece, bytes):
            write_at(descriptor, piece, at)
            at += len(piece)
        else:
            _copy(piece, descriptor, at)
            at += piece[2]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, parts that follow one another as one."""
    run: Part | None = None
    for piece in pieces:
        if run is not None:
            if isinstance(piece, tuple) and piece[:2] == (run[0], run[1] + run[2]) and run[2] < _LONGEST:
                run = (run[0], run[1], run[2] + piece[2])
                continue
            yield run
        run = piece if isinstance(piece, tuple) else None
        if isinstance(piece, bytes):
            yield piece
    if run is not None:
        yield run


def _copy(part: Part, target: int, at: int) -> None:
    """Bytes from file to file, within the kernel where it can."""
    source, offset, left = part
    copy_range = getattr(os, "copy_file_range", None)
    while left:
        done = 0
        if copy_range is not None:
            try:
                done = copy_range(source, target, left, offset, at)
            except OSError:  # two file systems, or one that cannot: what is wrong with the medium shows below
                copy_range = None
                continue
        if not done:
            data = read_at(source, min(left, _STEP), offset)
            if not data:
                raise StorageError("the file ends within a chunk that is to be copied")
            write_at(target, data, at)
            done = len(data)
        offset, at, left = offset + done, at + done, left - done
