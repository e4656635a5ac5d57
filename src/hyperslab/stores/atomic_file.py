"""Files that change as one: replaced by a whole new file, or patched in place under one undo record.

:class:`AtomicFile` is a file under a temporary name that takes the place of another when it is complete.
:func:`patch_file` changes bytes of a file where they lie; the journal ``.<name>.journal`` beside it holds the old bytes
of every place that changes, and the old length, until all changes are made::

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
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from struct import Struct

from hyperslab.errors import StorageError
from hyperslab.stores.base import Buffer
from hyperslab.stores.files import open_folder, read_at, read_whole, sync_and_close, sync_folder, write_at
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.system import ALWAYS, IS_WINDOWS, NO_FOLLOW, NO_WAIT, replace_file, set_mode, touch
from hyperslab.stores.unexpected_files import remove_leftovers

Part = tuple[int, int, int]
"""Bytes of another open file: its descriptor, an offset, a length."""
Piece = bytes | Part

# Bytes read at a time where the kernel does not copy from file to file.
_STEP = 1 << 20
# Parts that follow one another are copied by one call, up to this many bytes in it.
_LONGEST = 1 << 30
_FLAGS: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | ALWAYS | NO_FOLLOW


class AtomicFile:
    """A file under a temporary name beside ``target``; removed unless it is published. OSError as the system has it."""

    def __init__(self, target: str, mode: int | None = None) -> None:
        self._target = target
        self.path = os.path.join(os.path.dirname(target), temporary_name(os.path.basename(target)))
        self.descriptor = os.open(self.path, _FLAGS, 0o666)
        self._finish = weakref.finalize(self, _remove, self.path, self.descriptor, os.getpid())
        if mode is not None:
            set_mode(self.path, self.descriptor, mode & 0o7777)

    def publish(self, *, durable: bool) -> None:
        """Make the file complete on the medium, then give it its name."""
        # Order: the content is on the medium before the name leads to it, else a power cut could leave a torn file.
        if durable:
            os.fsync(self.descriptor)
        if IS_WINDOWS:  # what is open gets no other name there
            self._finish.detach()
            os.close(self.descriptor)
            self._finish = weakref.finalize(self, _remove, self.path, -1, os.getpid())
            self.descriptor = -1
        replace_file(self.path, self._target)
        if durable:
            with open_folder(os.path.dirname(self._target)) as folder:
                sync_folder(folder)
        self._finish.detach()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        remove_leftovers(self._target)

    def discard(self) -> None:
        """Close and remove it; doing so twice, or after it was published, is fine."""
        self._finish()


def _remove(path: str, descriptor: int, owner: int) -> None:
    """Remove the file in the process that made it: a forked child has the number of the same file, and closes its
    own."""
    with suppress(OSError):
        os.close(descriptor)
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)


def assemble(descriptor: int, front: bytes, pieces: Iterable[Piece]) -> None:
    """Write a file from its beginning: the front, then the pieces in order."""
    write_at(descriptor, front, 0)
    at = len(front)
    for piece in _merge_parts(pieces):
        if isinstance(piece, bytes):
            write_at(descriptor, piece, at)
            at += len(piece)
        else:
            _copy(piece, descriptor, at)
            at += piece[2]


def copy_bytes(source: str, target: str) -> None:
    """Copy the bytes of a file into one that is there, within the kernel where it can: a file system that shares blocks
    between files (XFS, Btrfs) writes none then."""
    with open(source, "rb", buffering=0) as old, open(target, "r+b", buffering=0) as new:
        assemble(new.fileno(), b"", [(old.fileno(), 0, os.fstat(old.fileno()).st_size)])


def _merge_parts(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces, those that follow one another in their file as one."""
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
    """Copy bytes from file to file, within the kernel where it can."""
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


Change = tuple[int, Buffer]
"""An offset in the file, and the bytes that come there."""

JOURNAL_BYTES = 64 << 20
"""Old bytes that a journal holds at the most; who changes more writes the file anew."""

_MAGIC = b"hslabjnl"
_HEAD = Struct("<8s3Q32s")
_PLACE = Struct("<2Q")
# So many bytes tell the file that a journal belongs to from another one.
_FRONT = 4096
_DIGEST = 32
# Names of files may have 255 bytes: a longer one could not take the dot and `.journal`; its digest stands for it.
_LONGEST_NAME = 200
_JOURNAL_FLAGS: int = ALWAYS | NO_FOLLOW
# Bytes of a journal beyond which it is none of ours: the old bytes, and the places that they come from.
_LARGEST = JOURNAL_BYTES + (1 << 20)


def journal_path(path: str) -> str:
    """Return the path of the journal of the file at ``path``."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.journal")


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The state of a file before it was changed in place: its ``size``, and the bytes at some offsets."""

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


def read_undo(path: str, descriptor: int) -> UndoRecord | None:
    """Return the journal of the file that is open here, if one lies beside it and is whole; None for one of another
    file."""
    undo = _load_journal(journal_path(path))
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
    undo = read_undo(path, descriptor)
    if undo is not None:
        _restore(path, descriptor, undo, durable)
    _remove_journal(place, durable)
    return undo is not None


def patch_file(
    path: str, descriptor: int, changes: Iterable[Change], size: int, *, durable: bool, behind: Iterable[Change] = ()
) -> None:
    """Make all the changes, and the file ``size`` bytes long; when that fails, or is killed, none. The lock is held.

    ``behind``: those that begin behind the end of the file, taken one after the other. OSError as the system gives it;
    the file is then what it was, or its journal is there to make it so.
    """
    ordered = sorted(changes, key=lambda change: change[0], reverse=True)
    # Order: the journal is whole and durable before the first change, and its removal is the moment of the commit. A
    # kill before it is written changes nothing; one after it makes the next writer roll back; one after the removal
    # loses nothing. What makes the file longer comes before what changes within, for that is what may find no room.
    found = os.fstat(descriptor)
    places = [(offset, min(offset + len(data), found.st_size)) for offset, data in ordered]
    places.append((size, found.st_size))
    parts = [(start, read_at(descriptor, stop - start, start)) for start, stop in places if start < stop]
    front = read_at(descriptor, min(_FRONT, found.st_size), 0)
    undo = UndoRecord(found.st_ino, found.st_size, sha256(front).digest(), tuple(parts))
    place = journal_path(path)
    _write_journal(place, undo, os.fstat(descriptor).st_mode & 0o777, durable)
    try:
        for offset, data in chain(behind, ordered):
            write_at(descriptor, data, offset)
        if size < undo.size:
            os.ftruncate(descriptor, size)
        touch(path, descriptor)  # the clock of a file system may tick only every few ms: readers tell versions by it
        if durable:
            os.fsync(descriptor)
        _remove_journal(place, durable)
    except BaseException:
        with suppress(OSError):  # then the journal stays
            _restore(path, descriptor, undo, durable)
            _remove_journal(place, durable)
        raise


def journal_bytes(changes: Iterable[Change], old_size: int, size: int) -> int:
    """Return the old bytes that the journal of such changes holds."""
    replaced = sum(max(0, min(offset + len(data), old_size) - offset) for offset, data in changes)
    return replaced + max(0, old_size - size)


def _write_journal(place: str, undo: UndoRecord, mode: int, durable: bool) -> None:
    whole = sha256()
    head = _HEAD.pack(_MAGIC, undo.inode, undo.size, len(undo.parts), undo.front)
    head += b"".join(_PLACE.pack(offset, len(old)) for offset, old in undo.parts)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _JOURNAL_FLAGS, mode)
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


def _load_journal(place: str) -> UndoRecord | None:
    try:
        descriptor = os.open(place, os.O_RDONLY | _JOURNAL_FLAGS | NO_WAIT)
    except OSError:
        return None
    try:
        data = read_whole(descriptor, _LARGEST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
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


def _restore(path: str, descriptor: int, undo: UndoRecord, durable: bool) -> None:
    for offset, old in undo.parts:
        write_at(descriptor, old, offset)
    os.ftruncate(descriptor, undo.size)
    touch(path, descriptor)
    if durable:
        os.fsync(descriptor)


def _remove_journal(place: str, durable: bool) -> None:
    """Remove the journal, durably: a power cut could bring an old one back."""
    os.unlink(place)
    if durable:
        _sync_folder_of(place)


def _sync_folder_of(place: str) -> None:
    with open_folder(os.path.dirname(place) or ".") as folder:
        sync_folder(folder)
