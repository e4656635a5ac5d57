"""The folders below one root: found, made, made durable; none is used before its real place is known to be inside.

A folder is named as keys are (``a/b``, ``""`` is the root) and given as an absolute path that ends with a separator.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property

from hyperslab.errors import Invalid, StorageError
from hyperslab.stores.files import open_folder, real_path, sync_folder
from hyperslab.stores.system import MAY_IGNORE_CASE

# Folders that are remembered; with one more all are forgotten, so that a store of any size takes bounded memory.
FOLDERS_REMEMBERED = 1 << 16
# Folders that are open at once while they are flushed, for a process may open few files (ulimit -n); others follow.
FOLDERS_OPEN_AT_ONCE = 64
# Times that a folder is made anew which another writer removes, as empty or with its node.
ATTEMPTS = 8
_SHALLOW = 64  # folders above one that are looked at one by one


class Folders:
    """The folders below ``root``, as far as they are known. ``known`` holds those that were found inside, once."""

    def __init__(self, root: str) -> None:
        self.url = root
        self.root = root if root.endswith(os.sep) else root + os.sep
        self.known: dict[str, str] = {}
        self._durable: set[str] = set()
        self._spellings: dict[str, str] = {}

    @cached_property
    def _above(self) -> list[str]:
        """The folder that the root is in, and those that were made with it."""
        return [os.path.dirname(self.url)]

    @cached_property
    def _real(self) -> str:
        """The root without symbolic links; asked for only when one is met."""
        return os.path.join(os.path.realpath(self.url), "")

    def path(self, folder: str) -> str:
        """Return where the folder is or would be."""
        return f"{self.root}{folder}/" if folder else self.root

    def inside(self, real: str) -> bool:
        """Return True if a path without symbolic links lies in the root."""
        return os.path.join(real, "").startswith(self._real)

    def is_linked(self, folder: str) -> bool:
        """Return True if a symbolic link stands on the way from the root to the folder."""
        return os.path.join(real_path(self.path(folder)), "") != os.path.join(self._real, folder, "")

    def find(self, folder: str) -> str | None:
        """Return the folder's path, None when there is none; a link that leads out of the root is a
        ``StorageError``."""
        known = self.known.get(folder)
        if known is not None:
            return known
        path = f"{self.root}{folder}/" if folder else self.root
        try:
            if not self._is_plain(folder, path):
                mode = os.stat(path).st_mode
                if not self.inside(real_path(path)):
                    raise self.escape(folder)
                if not stat.S_ISDIR(mode):
                    return None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
                return None
            raise
        self._know(folder, path)
        return path

    def _is_plain(self, folder: str, path: str) -> bool:
        """Return True if this is a folder and no link, in one that is known: its real place needs no look-up then."""
        if not folder:
            return stat.S_ISDIR(os.stat(path).st_mode)
        if not stat.S_ISDIR(os.lstat(path[:-1]).st_mode):
            return False
        above = folder.rpartition("/")[0]
        if above not in self.known and folder.count("/") < _SHALLOW:
            self.find(above)
        return above in self.known

    def escape(self, key: str) -> StorageError:
        """Return the refusal of a symbolic link that leads out of the root."""
        remedy = "put a copy of its target in place of the link"
        return StorageError("a symbolic link leads out of the dataset", url=self.url, key=key, remedy=remedy)

    def make(self, folder: str) -> str:
        """Return the folder's path; it and its parents are made where missing, again where others remove them."""
        known = self.known.get(folder)
        if known is not None:
            return known
        if MAY_IGNORE_CASE:
            self._refuse_other_case(folder)
        for _ in range(ATTEMPTS):
            try:
                return self._make_missing(folder)
            except FileNotFoundError:
                self.forget_all()
        return self._make_missing(folder)

    def _refuse_other_case(self, folder: str) -> None:
        """Raise Invalid where the file system takes this folder for one that was made here with a name in other case:
        what is written into both would be mixed."""
        if len(self._spellings) >= FOLDERS_REMEMBERED:
            self._spellings.clear()
        other = self._spellings.setdefault(folder.casefold(), folder)
        with suppress(OSError):
            if other != folder and os.path.samefile(self.path(other), self.path(folder)):
                message = f"{folder!r} and {other!r} differ in case only, which this file system does not tell"
                remedy = "choose other names, or keep the dataset in a zip archive (zip://) or a bucket"
                raise Invalid(message, url=self.url, key=folder, remedy=remedy)

    def _make_missing(self, folder: str) -> str:
        if folder and folder.rpartition("/")[0] in self.known:
            return self._make_one(folder)
        path = self.find(folder)
        if path is not None:
            return path
        missing = [folder]
        while missing[-1]:
            parent = missing[-1].rpartition("/")[0]
            if self.find(parent) is not None:
                break
            missing.append(parent)
        if len(missing) > 1:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.lstat(self.path(folder))  # a path that is too long fails here, before half of it is made
        for name in reversed(missing):
            path = self._make_one(name)
        return self.path(folder) if path is None else path

    def _make_one(self, folder: str) -> str:
        """Return one folder in a parent that is there; what was just made in one that is known to be inside is
        inside."""
        path = self.path(folder)
        try:
            os.mkdir(path) if folder else self._make_root()
            self._durable.discard(folder)
            if folder and folder.rpartition("/")[0] in self.known:
                self._know(folder, path)
                return path
        except FileExistsError:
            pass
        found = self.find(folder)
        if found is None and os.path.lexists(path[:-1]) and not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if found is None:  # who removed it saw it empty
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _know(self, folder: str, path: str) -> None:
        if len(self.known) >= FOLDERS_REMEMBERED:
            self.known.clear()
        self.known[folder] = path

    def _make_root(self) -> None:
        above = os.path.dirname(self.url)
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
            self._above.append(above)
        os.makedirs(self.url)
        self._real = os.path.join(os.path.realpath(self.url), "")

    @contextmanager
    def durable(self, folders: Iterable[str]) -> Iterator[None]:
        """Have what the block does to the entries of these folders on the medium afterwards, with all that leads to
        them.

        The descriptors are opened first: where there are none left, nothing was done yet.
        """
        flush, on_medium = self.to_flush(folders)
        with ExitStack() as stack:
            descriptors = []
            for path in flush[:FOLDERS_OPEN_AT_ONCE]:
                try:
                    descriptors.append(stack.enter_context(open_folder(path)))
                except PermissionError:
                    if path not in self._above:
                        raise
            yield
            for descriptor in descriptors:
                sync_folder(descriptor)
            for path in flush[FOLDERS_OPEN_AT_ONCE:]:
                with open_folder(path) as descriptor:
                    sync_folder(descriptor)
        self.settle(on_medium)

    def settle(self, folders: set[str]) -> None:
        """Remember that these folders are on the medium, with all that leads to them."""
        if len(self._durable) >= FOLDERS_REMEMBERED:
            self._durable.clear()
        self._durable |= folders

    def flush(self, path: str) -> None:
        """Flush one of the paths of :meth:`to_flush`; one above the root may be closed to us."""
        try:
            with open_folder(path) as descriptor:
                sync_folder(descriptor)
        except PermissionError:
            if path not in self._above:
                raise

    def to_flush(self, folders: Iterable[str]) -> tuple[list[str], set[str]]:
        """Return the folders whose entries may not be on the medium, by path, and what will be known to be there
        then."""
        flush: dict[str, None] = {}
        on_medium = set()
        for folder in folders:
            flush[self.path(folder)] = None
            while folder not in self._durable and folder not in on_medium:
                on_medium.add(folder)
                if not folder:
                    flush.update(dict.fromkeys(self._above))
                    break
                folder = folder.rpartition("/")[0]
                flush[self.path(folder)] = None
        return list(flush), on_medium

    def forget(self, folder: str) -> None:
        """Know nothing of this folder any more; it was removed while empty."""
        self.known.pop(folder, None)
        self._durable.discard(folder)

    def forget_all(self) -> None:
        """Know nothing any more: folders were moved, or removed by others."""
        self.known.clear()
        self._durable.clear()
