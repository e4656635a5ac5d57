"""The reading half of the store that is a folder of files: few system calls and fewer calls of Python per value."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from hyperslab.errors import HyperslabError, Invalid, MemoryLimit, NotFound, StorageError
from hyperslab.stores import counting
from hyperslab.stores.base import Scratch, Stamp, Store, Version, too_long
from hyperslab.stores.files import (
    MISSING,
    READ,
    READ_REGULAR,
    absolute,
    read_at,
    read_error,
    read_rest,
    read_whole,
    real_path,
    version_of,
)
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import Stray, below, check_file_key, check_file_prefix, is_file_key
from hyperslab.stores.ranges import span
from hyperslab.stores.stored_file import StoredFile, ValuePlace
from hyperslab.stores.system import FOLDER, IS_WINDOWS, NO_FOLLOW, is_link_followed, open_again, pread, preadv, readv
from hyperslab.stores.unexpected_files import stray_on_way, strays_in

# -- keys in a folder --------------------------------------------------------------------------------------------------
# In the order of their names; what leads out of the root is not among them.


Names = tuple[list[str], list[str]]


def names_in(folders: Folders, folder: str) -> Names:
    """Return the names of values and of folders right in a folder, each sorted; both empty when it is missing."""
    path = folders.find(folder)
    files: list[str] = []
    inner: list[str] = []
    if path is None:
        return files, inner
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if is_file_key(entry.name):
                    _sort_in(folders, folder, entry, files, inner)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return sorted(files), sorted(inner)


def _sort_in(folders: Folders, folder: str, entry: os.DirEntry[str], files: list[str], inner: list[str]) -> None:
    """Sort in one entry. Behind a link to a folder no further one is shown, else a few of them would make an endless
    tree."""
    is_link = entry.is_symlink()
    if is_link and not folders.inside(real_path(entry.path)):
        return
    try:
        is_folder = entry.is_dir()
    except OSError:  # links in a circle
        return
    if is_folder:
        if not (is_link and folders.is_linked(folder)):
            inner.append(entry.name)
    elif entry.is_file():
        files.append(entry.name)


def walk(folders: Folders, folder: str) -> Iterator[str]:
    """Yield every key below a folder in the order of whole keys. A link to a folder that one is already in is not
    entered."""
    stack = [_steps(folders, folder)]
    way = [os.path.realpath(folders.path(folder))]
    within = set(way)
    while stack:
        name = next(stack[-1], None)
        if name is None:
            stack.pop()
            within.discard(way.pop())
        elif name.endswith("/"):
            path = folders.root + name[:-1]
            real = real_path(path) if os.path.islink(path) else os.path.join(way[-1], os.path.basename(path))
            if real not in within:
                stack.append(_steps(folders, name[:-1]))
                way.append(real)
                within.add(real)
        else:
            yield name


def _steps(folders: Folders, folder: str) -> Iterator[str]:
    files, inner = names_in(folders, folder)
    start = below(folder)
    return (start + name for name in sorted([*files, *(f"{name}/" for name in inner)]))


def statuses(folders: Folders, folder: str, tail: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield the status of every ``folder/<name>`` (``folder/<name>/<tail>``) that is a plain file; None where a
    symbolic link is on the way that stays in the root: it is to be looked at more closely."""
    path = folders.find(folder)
    if path is None:
        return
    behind = f"/{tail}" if tail else ""
    with suppress(FileNotFoundError), os.scandir(path) as entries:  # removed since it was found
        for entry in entries:
            if not is_file_key(entry.name):
                continue
            place = entry.path + behind
            status = None if entry.is_symlink() else _status(place)
            if status is not None and stat.S_ISREG(status.st_mode):
                yield entry.name, status
            elif (status is None or stat.S_ISLNK(status.st_mode)) and folders.inside(real_path(place)):
                yield entry.name, None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise


def sizes(folders: Folders, folder: str) -> Iterator[int]:
    """Yield the bytes of every plain file below a folder; symbolic links are not followed."""
    path = folders.find(folder)
    waiting = [] if path is None else [path]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False).st_size


_PAGE = 4096
"""Bytes that a system reads at one stroke, and most documents are shorter than."""


class FolderReader(Store):
    """Keys as files below ``root``: what :class:`~hyperslab.stores.directory.DirectoryStore` can do without writing."""

    def __init__(self, root: str | os.PathLike[str], *, read_only: bool = False) -> None:
        super().__init__(absolute(os.fspath(root)), read_only=read_only)
        if "\0" in self._url:
            raise Invalid(f"{self._url!r} is no path", remedy="leave out what is behind NUL")
        self._folders = Folders(self._url)
        self._known = self._folders.known
        try:
            is_folder = stat.S_ISDIR(os.stat(self._url).st_mode)
        except (OSError, ValueError):
            is_folder = False
        if is_folder:
            self._known[""] = self._folders.root
        elif os.path.lexists(self._url):
            kind = (
                "folder"
                if os.path.isfile(self._url)
                else "file and no folder: a pipe, socket or device, or a broken link"
            )
            raise Invalid(f"this is no {kind}", url=self._url, remedy="name a folder")
        elif read_only:
            raise NotFound("there is no such folder", url=self._url)

    def get(self, key: str) -> bytes | None:
        descriptor = self._open(key)
        if descriptor is None:
            return None
        try:
            value: bytes = pread(descriptor, _PAGE, 0)
            if not 0 < len(value) < _PAGE:  # less than a page is all there is, as in get_into
                status = os.fstat(descriptor)
                if not status.st_size and not stat.S_ISREG(status.st_mode):
                    return None
                value = read_whole(descriptor, status.st_size)
            if counting.traces:
                counting.count(read=len(value))
            return value
        except (OSError, MemoryError) as error:
            self._unread(error, key)
            return None
        finally:
            os.close(descriptor)

    def get_into(self, key: str, scratch: Scratch, most: int | None = None) -> memoryview | None:
        """Return the whole value read into ``scratch``, grown where too small; valid until that is used again.

        ``CorruptChunk`` for one of more than ``most`` bytes, before anything is allocated.
        """
        descriptor = self._open(key)
        if descriptor is None:
            return None
        try:
            buffer = scratch.buffer
            room = len(buffer)
            done = preadv(descriptor, (buffer,), 0) if room else 0
            # less than there is room for is all there is; a system that stops early does so at the edge of a page
            if 0 < done < room and done % _PAGE:
                if counting.traces:
                    counting.count(read=done)
                return buffer[:done]
            status = os.fstat(descriptor)
            size = status.st_size
            if not size:
                return scratch.buffer[:0] if stat.S_ISREG(status.st_mode) else None
            if most is not None and size > max(most, len(scratch.buffer)):
                raise too_long(self._url, key, most, size)
            view = scratch.reserve(size + size // 8 + 1)[:size]  # the next value may be somewhat longer
            if counting.traces:
                counting.count(read=size)
            return view[: read_rest(descriptor, view, 0)]
        except (OSError, MemoryError) as error:
            self._unread(error, key)
            return None
        finally:
            os.close(descriptor)

    def read_exactly(self, key: str, out: memoryview) -> int | None:
        descriptor = self._open(key)
        if descriptor is None:
            return None
        try:
            status = os.fstat(descriptor)
            size = status.st_size
            if size != out.nbytes or not size:
                return size if stat.S_ISREG(status.st_mode) else None
            if counting.traces:
                counting.count(read=size)
            done: int = readv(descriptor, (out,))
            return done if done == size else read_rest(descriptor, out.cast("B"), done)
        except OSError as error:
            self._unread(error, key)
            return None
        finally:
            os.close(descriptor)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        descriptor = self._open(key)
        if descriptor is None:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            parts = []
            for start, stop in ranges:
                first, last = span(start, stop, status.st_size)
                parts.append(read_at(descriptor, last - first, first))
            if counting.traces:
                counting.count(read=sum(map(len, parts)))
            return parts
        except (OSError, MemoryError) as error:
            self._unread(error, key)
            return None
        finally:
            os.close(descriptor)

    def get_version(
        self, key: str, part: tuple[int, int] | None = None, *, unless: Stamp | None = None, most: int | None = None
    ) -> Version | None:
        """Do :meth:`.Store.get_version` by opening the file once: what replaces it meanwhile is another file."""
        while True:
            descriptor = self._open(key)
            if descriptor is None:
                return None
            try:
                status = os.fstat(descriptor)
                size, stamp = status.st_size, version_of(status)
                if not stat.S_ISREG(status.st_mode):
                    return None
                if stamp == unless:
                    return Version(None, 0, unless)
                if most is not None and size > most:
                    raise too_long(self._url, key, most, size)
                start, stop = (0, size) if part is None else span(*part, size)
                data = read_at(descriptor, stop - start, start)
                if counting.traces:
                    counting.count(read=len(data))
                if version_of(os.fstat(descriptor)) == stamp:  # else something wrote into the file itself
                    return Version(data, size, stamp)
            except (OSError, MemoryError) as error:
                self._unread(error, key)
                return None
            finally:
                os.close(descriptor)

    def descriptor(self, key: str) -> int | None:
        return self._open(key)

    def locate(self, key: str) -> str | None:
        """Return the path of a value that is no symbolic link; None where its folder is missing."""
        if not is_file_key(key):
            check_file_key(key)
        folder, _, name = key.rpartition("/")
        place = self._known.get(folder) or self._safe_folder(folder)
        return None if place is None else place + name

    def place(self, key: str) -> ValuePlace | None:
        """Return the file that the value is, all of it; None when missing."""
        status = self._status(key)
        if status is None:
            return None
        path = self.locate(key)
        return None if path is None else (StoredFile.of_path(path, status), 0, status.st_size)

    def open_folder(self, folder: str) -> int | None:
        """Return a folder, open for reading files below it (the caller closes it); None where there is none."""
        place = self._safe_folder(check_file_prefix(folder))
        try:
            return None if place is None or FOLDER is None else os.open(place, FOLDER)
        except OSError:  # what cannot be opened so is read value by value, which tells why
            return None

    def _open(self, key: str) -> int | None:
        if not is_file_key(key):
            check_file_key(key)
        folder, _, name = key.rpartition("/")  # as in locate, without its call: this is done for every value
        place = self._known.get(folder) or self._safe_folder(folder)  # one look: another thread may forget the folder
        if place is None:
            return None
        try:
            if counting.traces:
                counting.count(1)
            if not NO_FOLLOW and is_link_followed(place + name):
                return self._open_slowly(key, folder)
            return os.open(place + name, READ)
        except OSError as error:
            if error.errno in MISSING:
                return None
            if error.errno in (errno.ELOOP, errno.EAGAIN) or (IS_WINDOWS and error.errno == errno.EACCES):
                return self._open_slowly(key, folder)
            raise read_error(error, self._url, key) from error

    def _safe_folder(self, folder: str) -> str | None:
        """Return the folder's path, found safe and known from now on; None when there is none."""
        try:
            return self._folders.find(folder)
        except OSError as error:
            raise self._unlisted(error, folder) from error

    def _open_slowly(self, key: str, folder: str) -> int | None:
        """Return a value behind a symbolic link, or one that another program holds a lease on."""
        try:
            path = self._resolve(key, folder)
            return None if path is None else open_again(path, READ_REGULAR)
        except StorageError:
            raise
        except OSError as error:
            if error.errno in MISSING:
                return None
            raise read_error(error, self._url, key) from error

    def _resolve(self, key: str, folder: str) -> str | None:
        """Return the real path of a value that is a plain file within the root, None when there is none."""
        place = self._folders.find(folder)
        if place is None:
            return None
        path = real_path(place + key.rpartition("/")[2])
        if not self._folders.inside(path):
            raise self._folders.escape(key)
        return path if os.path.isfile(path) else None

    def _unread(self, error: OSError | MemoryError, key: str) -> None:
        """Raise what a failed read means, unless it means that there is no such value."""
        if isinstance(error, HyperslabError):
            raise error
        if isinstance(error, MemoryError):
            raise MemoryLimit("the value does not fit into memory", url=self._url, key=key) from error
        if error.errno not in MISSING:
            raise read_error(error, self._url, key) from error

    def _status(self, key: str) -> os.stat_result | None:
        if not is_file_key(key):
            check_file_key(key)
        folder, _, name = key.rpartition("/")
        try:
            status = os.stat(self._known[folder] + name, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                return status
            path = self._resolve(key, folder) if stat.S_ISLNK(status.st_mode) else None
            return None if path is None else os.stat(path)
        except KeyError:
            return None if self._safe_folder(folder) is None else self._status(key)
        except OSError as error:
            self._unread(error, key)
            return None

    def size(self, key: str) -> int | None:
        status = self._status(key)
        return None if status is None else status.st_size

    def stamp(self, key: str) -> Stamp | None:
        """Return ``(size, mtime in ns, inode)`` of the present version, None when missing."""
        status = self._status(key)
        # what version_of gives, without its call: this is asked with nearly every read
        return None if status is None else (status.st_size, status.st_mtime_ns, status.st_ino)

    def watch(self, key: str) -> Callable[[], Stamp | None]:
        path = self.locate(key)
        if path is None:
            return super().watch(key)

        def ask() -> Stamp | None:
            # The key is checked already: of the calls of one small read a stamp by its key would be a fifth.
            try:
                status = os.stat(path, follow_symlinks=False)
            except OSError:
                return self.stamp(key)
            is_file = stat.S_ISREG(status.st_mode)
            return (status.st_size, status.st_mtime_ns, status.st_ino) if is_file else self.stamp(key)

        return ask

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield every key below ``prefix/``, sorted; links that lead out of the root are left out."""
        try:
            yield from walk(self._folders, check_file_prefix(prefix))
        except OSError as error:
            raise self._unlisted(error, prefix) from error

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        try:
            return names_in(self._folders, check_file_prefix(prefix))
        except OSError as error:
            raise self._unlisted(error, prefix) from error

    def is_mount(self, folder: str) -> bool:
        path = self._safe_folder(folder)
        try:
            return path is not None and os.stat(path).st_dev != os.stat(self._folders.root).st_dev
        except OSError:
            return False

    def entries(self, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
        start = below(check_file_prefix(folder))
        behind = f"/{check_file_key(tail)}" if tail else ""
        try:
            for name, status in statuses(self._folders, folder, tail):
                found = self._status(start + name + behind) if status is None else status
                if found is not None:
                    yield name, (found.st_size, found.st_mtime_ns, found.st_ino), found.st_size
        except OSError as error:
            raise self._unlisted(error, folder) from error

    def nbytes_below(self, prefix: str) -> int:
        try:
            return sum(sizes(self._folders, check_file_prefix(prefix)))
        except OSError as error:
            raise self._unlisted(error, prefix) from error

    def strays(self, folder: str) -> Sequence[Stray]:
        """Return what lies right in the folder and is no value: unfinished writes, links that lead nowhere, pipes."""
        try:
            return strays_in(self._folders, check_file_prefix(folder))
        except OSError as error:
            raise self._unlisted(error, folder) from error

    def stray_at(self, key: str) -> str | None:
        """Return in words what lies under a key that has no value, or in place of a folder on the way to it."""
        try:
            return stray_on_way(self._folders, key)
        except OSError as error:
            raise self._unlisted(error, key) from error

    def _unlisted(self, error: OSError, prefix: str) -> OSError:
        return error if isinstance(error, HyperslabError) else read_error(error, self._url, prefix)
