"""What lies in a store's folder and is no value: unfinished writes, links that lead nowhere, pipes, odd names."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hyperslab.errors import Invalid
from hyperslab.stores.files import MISSING, open_folder, real_path, remove_tree, sync_and_close, sync_folder
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import LOCK, is_key, is_temporary
from hyperslab.stores.owners import owner_of

ABANDONED = 3600.0
"""Seconds after which an unfinished write is taken for one of a dead writer, on whatever machine: a live one takes
moments."""


@dataclass(frozen=True, slots=True)
class Stray:
    """One of them. ``kind``: ``temporary``, ``dangling-link``, ``circular-link``, ``outside-link``, ``special-file`` or
    ``unusable-name``; ``age``: seconds since it changed; ``target``: what a link names."""

    name: str
    kind: str
    age: float
    target: str = ""

    @property
    def is_abandoned(self) -> bool:
        """Return whether it is an unfinished write of a writer that is gone."""
        return self.kind == "temporary" and has_no_writer(self.name, self.age)


def has_no_writer(name: str, age: float) -> bool:
    """Return whether nobody goes on with an unfinished write of this name: its writer is dead, or it is older than
    moments.
    """
    temporary = is_temporary(name)
    return age > ABANDONED or (temporary is not None and owner_of(temporary[1]) == "dead")


@runtime_checkable
class Strays(Protocol):
    def strays(self, folder: str) -> list[Stray]:
        """What lies right in the folder and is no value, sorted by name; locks are no strays."""
        ...

    def expel(self, place: str, target: str | None) -> None:
        """Take what lies at ``place`` (a value, a folder with all below it, a stray) out of the store.

        It is moved to the path ``target``, which must be free, or removed when that is None. Links are not followed.
        """
        ...


def strays_in(folders: Folders, folder: str) -> list[Stray]:
    """The strays of one folder; none when it is missing."""
    path = folders.find(folder)
    if path is None:
        return []
    found = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    kind = _kind(folders, entry)
                    if kind is not None:
                        target = os.readlink(entry.path) if entry.is_symlink() else ""
                        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                        found.append(Stray(entry.name, kind, age, target))
    except OSError as error:
        if error.errno not in MISSING:
            raise
    return sorted(found, key=lambda stray: stray.name)


def _kind(folders: Folders, entry: os.DirEntry[str]) -> str | None:
    """What kind of stray an entry is; None for values, folders and locks."""
    if entry.name == LOCK:
        return None
    if is_temporary(entry.name):
        return "temporary"
    if not is_key(entry.name):
        return "unusable-name"
    if entry.is_symlink():
        return _link_kind(folders, entry)
    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return None if plain else "special-file"


def _link_kind(folders: Folders, entry: os.DirEntry[str]) -> str | None:
    try:
        mode = os.stat(entry.path).st_mode
    except OSError as error:
        return "circular-link" if error.errno == errno.ELOOP else "dangling-link"
    real = real_path(entry.path)
    if not folders.inside(real):
        return "outside-link"
    if stat.S_ISDIR(mode):
        place = os.path.join(real_path(os.path.dirname(entry.path)), "")
        return "circular-link" if place.startswith(os.path.join(real, "")) else None
    return None if stat.S_ISREG(mode) else "special-file"


def expel(folders: Folders, place: str, target: str | None) -> None:
    """See :class:`Strays`; a missing one is fine."""
    folder, _, name = place.rpartition("/")
    if name in ("", ".", "..") or "\0" in name or (folder and not is_key(folder)):
        raise Invalid(f"{place!r} names nothing in a store", url=folders.url, remedy="name what lies in a folder of it")
    parent = folders.find(folder)
    if parent is None or not os.path.lexists(parent + name):
        return
    folders.forget_all()
    if target is not None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.move(parent + name, target, _copy_durably)  # copies to another disk, else renames
    elif os.path.isdir(parent + name) and not os.path.islink(parent + name):
        remove_tree(parent + name)
    else:
        os.unlink(parent + name)


def _copy_durably(source: str, target: str) -> None:
    shutil.copy2(source, target)
    sync_and_close(os.open(target, os.O_RDONLY))
    with open_folder(os.path.dirname(target)) as descriptor:
        sync_folder(descriptor)
