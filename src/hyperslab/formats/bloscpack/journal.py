"""Changes of a file in place that happen as one: what was there before lies beside it until all of them are made.

``.<name>.journal`` holds the old bytes of every place that changes, and the old length::

    "hslabjnl"  u64 inode  u64 old length  u64 places  32 bytes: SHA-256 of the file's first 4 KiB as they were
    places x (u64 offset, u64 length)
    the old bytes of all places
    32 bytes: SHA-256 of all before

It belongs to the file whose first 4 KiB, the old bytes put back, have that digest: a copy of both files is read like
the original. (The inode tells nothing, and is there for readers of older versions, which compare it.)

It is written (and made durable) before the first change and removed after the last. A journal that is not whole means
that no change was begun; a whole one that the writer died, or is at work. Writers roll it back under the file's lock;
readers, who hold no lock, look at the old bytes in place of the new ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from struct import Struct

from hyperslab.stores.base import Buffer
from hyperslab.stores.files import open_folder, read_at, read_whole, sync_and_close, sync_folder, write_at

Change = tuple[int, Buffer]
"""An offset in the file, and the bytes that come there."""

MOST = 64 << 20
"""Old bytes that a journal holds at the most; who changes more writes the file anew."""

_MAGIC = b"hslabjnl"
_HEAD = Struct("<8s3Q32s")
_PLACE = Struct("<2Q")
_FRONT = 4096
_DIGEST = 32
_LONGEST_NAME = 200
_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_LARGEST = MOST + (1 << 20)


def journal_path(path: str) -> str:
    """Where the journal of the file at ``path`` lies."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.journal")


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """What a file was before it was changed in place: its ``size``, and the bytes at some offsets."""

    inode: int
    size: int
    front: bytes
    parts: tuple[tuple[int, bytes], ...]

    def restore(self, offset: int, out: memoryview) -> None:
        """Put the old bytes over what was read into ``out`` from ``offset`` on."""
        stop = offset + out.nbytes
        for start, old in self.parts:
            first, last = max(start, offset), min(start + len(old), stop)
            if first < last:
                out[first - offset : last - offset] = old[first - start : last - start]


def pending(path: str, descriptor: int) -> UndoRecord | None:
    """The journal of the file that is open here, if one lies beside it and is whole; one of another file counts not."""
    undo = _load(journal_path(path))
    if undo is None:
        return None
    front = bytearray(read_at(descriptor, min(_FRONT, undo.size), 0))
    front += bytes(min(_FRONT, undo.size) - len(front))
    undo.restore(0, memoryview(front))
    return undo if sha256(front).digest() == undo.front else None


def roll_back(path: str, descriptor: int, *, durable: bool) -> bool:
    """Undo what a writer began who died, and remove its journal; whether anything was undone. The lock is held."""
    place = journal_path(path)
    if not os.path.lexists(place):
        return False
    undo = pending(path, descriptor)
    if undo is not None:
        _restore(descriptor, undo, durable)
    _remove(place, durable)
    return undo is not None


def patch(
    path: str, descriptor: int, changes: Iterable[Change], size: int, *, durable: bool, behind: Iterable[Change] = ()
) -> None:
    """Make all the changes, and the file ``size`` bytes long; when that fails, or is killed, none. The lock is held.

    ``behind``: those that begin behind the end of the file, taken one after the other. OSError as the system gives it;
    the file is then what it was, or its journal is there to make it so.
    """
    ordered = sorted(changes, key=lambda change: change[0], reverse=True)  # what may not find room comes first
    undo = _undo_of(descriptor, ordered, size)
    place = journal_path(path)
    _write(place, undo, os.fstat(descriptor).st_mode & 0o777, durable)
    try:
        for offset, data in chain(behind, ordered):
            write_at(descriptor, data, offset)
        if size < undo.size:
            os.ftruncate(descriptor, size)
        now = time.time_ns()  # the clock of a file system may tick only every few ms: readers tell versions by it
        os.utime(descriptor, ns=(now, now))
        if durable:
            os.fsync(descriptor)
        _remove(place, durable)
    except BaseException:
        with suppress(OSError):  # then the journal stays
            _restore(descriptor, undo, durable)
            _remove(place, durable)
        raise


def journal_bytes(changes: Iterable[Change], old_size: int, size: int) -> int:
    """Old bytes that the journal of such changes holds."""
    replaced = sum(max(0, min(offset + len(data), old_size) - offset) for offset, data in changes)
    return replaced + max(0, old_size - size)


def _undo_of(descriptor: int, changes: Sequence[Change], size: int) -> UndoRecord:
    found = os.fstat(descriptor)
    places = [(offset, min(offset + len(data), found.st_size)) for offset, data in changes]
    places.append((size, found.st_size))
    parts = [(start, read_at(descriptor, stop - start, start)) for start, stop in places if start < stop]
    front = read_at(descriptor, min(_FRONT, found.st_size), 0)
    return UndoRecord(found.st_ino, found.st_size, sha256(front).digest(), tuple(parts))


def _write(place: str, undo: UndoRecord, mode: int, durable: bool) -> None:
    whole = sha256()
    head = _HEAD.pack(_MAGIC, undo.inode, undo.size, len(undo.parts), undo.front)
    head += b"".join(_PLACE.pack(offset, len(old)) for offset, old in undo.parts)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
    try:
        try:
            at = 0
            for piece in (head, *(old for _, old in undo.parts)):
                whole.update(piece)
                write_at(descriptor, piece, at)
                at += len(piece)
            write_at(descriptor, whole.digest(), at)
        except BaseException:
            os.close(descriptor)
            raise
        if durable:
            sync_and_close(descriptor)
            _sync_folder_of(place)
        else:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(place)
        raise


def _load(place: str) -> UndoRecord | None:
    try:
        descriptor = os.open(place, os.O_RDONLY | _FLAGS | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        data = read_whole(descriptor, _LARGEST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return _parse(data)


def _parse(data: bytes) -> UndoRecord | None:
    """A whole journal; None for anything else."""
    view = memoryview(data)
    if len(data) < _HEAD.size + _DIGEST or sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        return None
    magic, inode, size, count, front = _HEAD.unpack_from(data)
    at = _HEAD.size + count * _PLACE.size
    if magic != _MAGIC or at > len(data):
        return None
    parts = []
    for offset, length in _PLACE.iter_unpack(view[_HEAD.size : at]):
        parts.append((offset, data[at : at + length]))
        at += length
    return UndoRecord(inode, size, front, tuple(parts)) if at == len(data) - _DIGEST else None


def _restore(descriptor: int, undo: UndoRecord, durable: bool) -> None:
    for offset, old in undo.parts:
        write_at(descriptor, old, offset)
    os.ftruncate(descriptor, undo.size)
    now = time.time_ns()
    os.utime(descriptor, ns=(now, now))
    if durable:
        os.fsync(descriptor)


def _remove(place: str, durable: bool) -> None:
    """Without its removal being durable, a power cut could bring an old journal back."""
    os.unlink(place)
    if durable:
        _sync_folder_of(place)


def _sync_folder_of(place: str) -> None:
    with open_folder(os.path.dirname(place) or ".") as folder:
        sync_folder(folder)
