"""The system calls under the stores that keep files: whole writes, flushes to the medium, and what an errno means."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from hyperslab.errors import CorruptChunk, HyperslabError, Invalid, ReadOnly, StorageError
from hyperslab.stores import system
from hyperslab.stores.base import Buffer
from hyperslab.stores.system import ALWAYS, FLUSHABLE, FOLDER, IS_WINDOWS, NO_FOLLOW, NO_WAIT, rename, replace_file

READ: int = os.O_RDONLY | ALWAYS | NO_FOLLOW | NO_WAIT
"""Flags to open a value: never through a symbolic link, never waiting for the other end of a pipe."""
READ_REGULAR: int = os.O_RDONLY | ALWAYS | NO_FOLLOW
"""Flags to open what is known to be a plain file."""
_CREATE: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | ALWAYS | NO_FOLLOW
_APPEND: int = os.O_WRONLY | os.O_CREAT | os.O_APPEND | ALWAYS | NO_FOLLOW | NO_WAIT

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENXIO, errno.ESPIPE})
"""The system's errors for a name that holds no value; for a reader it is a missing key."""

# AT_FDCWD, RENAME_NOREPLACE and RENAME_EXCHANGE of Linux.
_HERE, _NO_REPLACE, _EXCHANGE = -100, 1, 2
_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_REMEDIES = {
    errno.ENOSPC: "free space on the disk, then write again",
    errno.EDQUOT: "free space within the quota, then write again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or use smaller chunks",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or use fewer workers",
    errno.ENFILE: "close files in other programs",
    errno.EIO: "look at the disk and the system's log",
    errno.EACCES: "look at the permissions",
    errno.EISDIR: "a value and a folder cannot share a name; remove the folder first",
    errno.ENOTDIR: "a value and a folder cannot share a name; remove the value first",
}
_LOOKS = 100


def read_error(error: OSError, url: str, key: str) -> StorageError:
    """Return what a failed read is raised as."""
    remedy = _REMEDIES.get(error.errno or 0)
    return StorageError(f"cannot read: {error.strerror or error}", url=url, key=key, remedy=remedy)


def real_path(path: str) -> str:
    """Return ``os.path.realpath``, which fails where a link on the way is removed between two of its looks."""
    for _ in range(_LOOKS):
        with suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


def write_error(error: OSError, url: str, key: str) -> HyperslabError:
    """Return what a failed write is raised as: ``ReadOnly`` for a medium or folder that takes none, else
    ``StorageError``."""
    reason = error.strerror or str(error)
    if error.errno in _FORBIDDEN:
        remedy = "look at the permissions, or open a copy in a place that takes writes"
        if IS_WINDOWS:
            remedy = "close the file where it is open, or look at the permissions"
        return ReadOnly(f"cannot write: {reason}", url=url, key=key, remedy=remedy)
    if error.errno == errno.ENAMETOOLONG:
        return Invalid("the key is too long for this file system", url=url, key=key, remedy="use shorter names")
    known = "make the folder first" if error.errno == errno.ENOENT else _REMEDIES.get(error.errno or 0)
    return StorageError(f"cannot write: {reason}", url=url, key=key, remedy=known)


@contextmanager
def write_errors(url: str, key: str) -> Iterator[None]:
    """Raise what the system says within the block as :func:`write_error`; errors of ours stay what they are."""
    try:
        yield
    except HyperslabError:
        raise
    except OSError as error:
        raise write_error(error, url, key) from error


def read_rest(descriptor: int, out: memoryview, done: int) -> int:
    """Go on reading into ``out`` after ``done`` bytes until it is full or the file ends; the bytes read in all."""
    while done < out.nbytes:
        count: int = system.readv(descriptor, (out[done:],))
        if not count:
            break
        done += count
    return done


def absolute(path: str) -> str:
    """Return the absolute path, without ``.`` and ``..``."""
    # os.path.abspath, without its calls for a path that is one, as each dataset that is opened asks for twice
    if os.sep == "/" and path.startswith("/"):
        return os.path.normpath(path) if "//" in path or "/." in path or path.endswith("/") else path
    return os.path.abspath(path)


def read_whole(descriptor: int, size: int) -> bytes:
    """Return up to ``size`` bytes from the descriptor's position on."""
    data = os.read(descriptor, size)
    if len(data) == size or not data:
        return data
    parts = [data]
    left = size - len(data)
    while left and (data := os.read(descriptor, left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return up to ``size`` bytes from ``offset`` on; fewer where the file ends."""
    data: bytes = system.pread(descriptor, size, offset)
    if len(data) == size or not data:
        return data
    parts, done = [data], len(data)
    while done < size and (data := system.pread(descriptor, size - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def pread(descriptor: int, size: int, offset: int) -> bytes | memoryview:
    """Return ``size`` bytes from ``offset`` on; CorruptChunk if the file is shorter, before memory is allocated."""
    length = os.fstat(descriptor).st_size
    if offset + size > length:
        raise _truncated(offset + size, length)
    try:
        data = system.pread(descriptor, size, offset)
    except OSError as error:
        raise StorageError(f"cannot read: {error.strerror}") from error
    if len(data) == size:
        return data
    out = memoryview(bytearray(size))  # more bytes than the system reads at once (2 GiB on Linux)
    pread_into(descriptor, out, offset)
    return out


def pread_into(descriptor: int, out: memoryview, offset: int) -> None:
    """Fill ``out`` (bytes) from ``offset`` on; CorruptChunk if the file is shorter."""
    done = 0
    while done < out.nbytes:
        try:
            count = system.preadv(descriptor, [out[done:]], offset + done)
        except OverflowError:  # a damaged file may say that cells lie beyond 2**63
            count = 0
        except OSError as error:
            raise StorageError(f"cannot read: {error.strerror}") from error
        if not count:
            raise _truncated(offset + out.nbytes, offset + done)
        done += count


def _truncated(stop: int, length: int) -> CorruptChunk:
    return CorruptChunk("the file ends within the cells", expected=stop, found=length)


def write_at(descriptor: int, data: Buffer, offset: int) -> None:
    """Write all of ``data`` from ``offset`` on."""
    view = memoryview(data).cast("B")
    done = 0
    while done < view.nbytes:
        done += system.pwrite(descriptor, view[done:], offset + done)


def create(path: str, value: Buffer) -> int:
    """Write a new file whole and give its open descriptor; when anything fails the file is gone again."""
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        view = memoryview(value).cast("B")
        done = os.write(descriptor, view)
        while done < len(view):
            done += os.write(descriptor, view[done:])
    except BaseException:
        discard(path, descriptor)
        raise
    return descriptor


def link_new(temporary: str, place: str) -> None:
    """Give a file or folder the name ``place``, which must be free: FileExistsError. Where the file system knows no
    links, an empty file (folder) takes the name first, which a writer that dies right then leaves."""
    if IS_WINDOWS:  # where a rename never replaces
        rename(temporary, place)
        return
    failed = _rename(temporary, place, _NO_REPLACE)
    if not failed:
        return
    if failed == errno.EEXIST:
        raise FileExistsError(failed, os.strerror(failed), place)
    if os.path.isdir(temporary):
        os.mkdir(place)
        os.rename(temporary, place)
        return
    try:
        os.link(temporary, place)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(place, _CREATE, 0o666))
        replace_file(temporary, place)
    else:
        os.unlink(temporary)


def replace(temporary: str, place: str, *, flushed: bool) -> None:
    """Give a file the name ``place``, over what has it, at one stroke. One that was not flushed changes names with the
    old one, which is removed then: a rename over it has ext4 write the new one out, which takes as long as all else."""
    if flushed or not exchange(temporary, place):
        replace_file(temporary, place)
        return
    try:
        os.unlink(temporary)
    except OSError:  # a folder had the name
        exchange(temporary, place)
        raise


def move_over(source: str, place: str, spare: str, *, flushed: bool) -> None:
    """Replace a file, as :func:`replace` does, by one that keeps its name until it has the other one. ``spare``: a free
    name beside it."""
    if not flushed and os.path.lexists(place):
        try:
            os.link(source, spare)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            try:
                replace(spare, place, flushed=False)
            except BaseException:
                discard(spare)
                raise
            os.unlink(source)
            return
    replace_file(source, place)


Change = tuple[tuple[int, int, int] | None, tuple[int, int, int]]
"""The versions of a file before and after a change (:func:`version_of`); None where there was none."""


def append_byte(path: str, *, durable: bool) -> tuple[int, Change | None]:
    """Make a file longer by a byte, and perhaps flush it; its length then, and the change if nobody else made one at
    the same time. A missing file is made."""
    try:
        descriptor, is_new = os.open(path, _APPEND & ~os.O_CREAT, 0o666), False
    except FileNotFoundError:
        try:
            descriptor, is_new = os.open(path, _APPEND | os.O_EXCL, 0o666), True
        except FileExistsError:
            descriptor, is_new = os.open(path, _APPEND, 0o666), False
    try:
        before = None if is_new else version_of(os.fstat(descriptor))
        os.write(descriptor, b"+")
        length = os.lseek(descriptor, 0, os.SEEK_CUR)
        after = version_of(os.fstat(descriptor))
        if durable:
            os.fsync(descriptor)
        # The system appends each byte whole, one behind the other: what was looked at right before and right after
        # was not changed by others if the lengths follow one another.
        is_alone = (before[0] if before else 0) + 1 == length == after[0]
        return length, (before, after) if is_alone else None
    finally:
        os.close(descriptor)


def discard(path: str, descriptor: int | None = None) -> None:
    """Close and remove an unfinished file; what cannot be removed is left under its recognisable name."""
    if descriptor is not None:
        with suppress(OSError):
            os.close(descriptor)
    with suppress(OSError):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Remove a folder with all below it, however deep; symbolic links are removed and not followed."""
    folders = [path]
    for folder in folders:  # grows while it is walked
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    os.unlink(entry.path)
    for folder in reversed(folders):
        os.rmdir(folder)


def sync_and_close(descriptor: int) -> None:
    """Flush a file to the medium and close it. A flush that failed is not tried again: the kernel may have dropped
    the pages and would then report success."""
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Flush a file to the medium; one that is gone needs it no more."""
    with suppress(FileNotFoundError):
        sync_and_close(os.open(path, FLUSHABLE | ALWAYS | NO_FOLLOW | NO_WAIT))


def version_of(found: os.stat_result) -> tuple[int, int, int]:
    """Return size, time of the last change, and inode: what tells one version of a file from another."""
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextmanager
def open_folder(path: str) -> Iterator[int]:
    """Yield a descriptor for :func:`sync_folder`; -1 where the system has none of folders."""
    if FOLDER is None:
        yield -1
        return
    descriptor = os.open(path, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_folder(descriptor: int) -> None:
    """Flush a folder's entries to the medium; nothing is done where the file system cannot."""
    try:
        if descriptor >= 0:
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@lru_cache(1)
def _libc() -> Any:
    """Return the C library of Linux, for what Python does not call; None elsewhere."""
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _rename(first: str, second: str, how: int) -> int:
    """Call renameat2(2) and return 0, or the errno; ENOSYS where the system has no such call."""
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        return errno.ENOSYS
    return _errno() if call(_HERE, os.fsencode(first), _HERE, os.fsencode(second), how) else 0


def _errno() -> int:
    import ctypes

    return ctypes.get_errno()


def exchange(first: str, second: str) -> bool:
    """Have two files or folders change names at one stroke; False where that cannot be done."""
    return not _rename(first, second, _EXCHANGE)


# What statfs(2) of Linux calls file systems whose files are shared by the processes of one machine alone, so that all
# see the same memory where they map one: ext2 to 4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs, bcachefs, jfs, ramfs.
_LOCAL = frozenset(
    {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x3153464A, 0x858458F6}
)


@lru_cache(64)
def is_local(folder: str) -> bool:
    """Return True if the file system of a folder is known to be on a disk, or in the memory, of this machine."""
    libc = _libc()
    if libc is None:
        return False
    import ctypes

    found = ctypes.create_string_buffer(256)  # a struct statfs; its first word is the type
    if libc.statfs(os.fsencode(folder), found):
        return False
    return int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) in _LOCAL


CAN_FLUSH_ALL = sys.platform == "linux"
"""True if :func:`flush_all` works: syncfs(2) is a call of Linux alone, in every C library there since 2011."""


def flush_all(folder: str) -> None:
    """Flush all that was written to the file system of a folder: for many new files the cheapest by far."""
    with open_folder(folder) as descriptor:
        if _libc().syncfs(descriptor):
            number = _errno()
            raise OSError(number, os.strerror(number), folder)
