"""Entries of a store's folder that are no values: unfinished writes, links that lead nowhere, pipes, odd names.

And whole copies that dead writers left beside a dataset.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass

from hyperslab.errors import Invalid
from hyperslab.stores.files import MISSING, open_folder, real_path, remove_tree, sync_and_close, sync_folder
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import LOCK, Stray, is_key, is_temporary, owner_of, partial_name, temporary_stem
from hyperslab.stores.system import ALWAYS, FLUSHABLE


def strays_in(folders: Folders, folder: str) -> list[Stray]:
    """Return the strays of one folder; none when it is missing."""
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
    """Return what kind of stray an entry is; None for values, folders and locks."""
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


def stray_on_way(folders: Folders, key: str) -> str | None:
    """Return in words what lies in place of a file under a key, or of one of the folders that lead to it; None where
    nothing does."""
    path = folders.root + key
    is_folder_known = folders.find(key.rpartition("/")[0]) is not None  # then one look is enough
    for above in range(key.count("/") + 1):
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return _describe_link(path, is_file=not above)
            if stat.S_ISDIR(mode):
                return None if above else "a folder"
            if stat.S_ISREG(mode):  # a file in place of the key was written since it was missing
                return "a file in place of a folder" if above else None
            return "a pipe, socket or device"
        except OSError as error:
            if error.errno not in MISSING:
                raise
            if is_folder_known and error.errno == errno.ENOENT:
                return None
        path = os.path.dirname(path)
    return None


def _describe_link(path: str, *, is_file: bool) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "a symbolic link that leads nowhere"
    if stat.S_ISREG(mode) if is_file else stat.S_ISDIR(mode):
        return None
    return "a symbolic link to a folder" if stat.S_ISDIR(mode) else "a symbolic link to what is no folder"


def expel(folders: Folders, place: str, target: str | None) -> None:
    """See :meth:`Store.expel <hyperslab.stores.base.Store.expel>`; a missing one is fine."""
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
    sync_and_close(os.open(target, FLUSHABLE | ALWAYS))
    with open_folder(os.path.dirname(target)) as descriptor:
        sync_folder(descriptor)


# -- whole copies that dead writers left beside a dataset ----------------------------------------------------------


_PARTIAL = re.compile(r"\.partial-([0-9a-f]{8}|[0-9a-f]{16})-(.+)", re.DOTALL).fullmatch
# Seconds without a change after which a copy is taken for one of a dead writer where that cannot be told, since it is
# of another machine or an earlier boot: a conversion may take days.
_FORGOTTEN = 7 * 86400.0
# So many times as long as a look through a folder took no other follows: writing many files costs 2 % more at most.
_SPARED = 50
# Folders that are remembered; with one more all are forgotten. No lock: each step is one call of the dict.
FOLDERS_LOOKED_AT = 1000
_looked: dict[str, tuple[float, float]] = {}


@dataclass(frozen=True, slots=True)
class Leftover:
    """One of them: its path, and the bytes of a file (0 of a folder)."""

    path: str
    nbytes: int


def leftovers_of(path: str) -> list[Leftover]:
    """Return the copies for the dataset at a local path, sorted; none while there is no such dataset, for one may be
    it."""
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    found: list[Leftover] = []
    if not name or not os.path.lexists(target):
        return found
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[:1] == ".":
                with suppress(OSError):
                    if _is_for(entry.name, name) and _has_no_writer(entry):
                        is_file = entry.is_file(follow_symlinks=False)
                        found.append(Leftover(entry.path, entry.stat().st_size if is_file else 0))
    return sorted(found, key=lambda each: each.path)


def remove_leftover(path: str) -> None:
    """Remove a copy; a missing one is fine. OSError as the system gives it."""
    with suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            os.unlink(path)


def remove_leftovers(path: str) -> None:
    """Remove the copies for the dataset that was just put at a local path, as far as that is possible."""
    folder, name = os.path.split(os.path.realpath(path))
    if _PARTIAL(name):  # what is made there will have another name
        return
    before, spent = time.monotonic(), time.thread_time()
    when, cost = _looked.get(folder, (0.0, 0.0))
    if before - when < _SPARED * cost:
        return
    for each in leftovers_of(path):
        with suppress(OSError):
            remove_leftover(each.path)
    if len(_looked) >= FOLDERS_LOOKED_AT:
        _looked.clear()
    _looked[folder] = time.monotonic(), time.thread_time() - spent


def _is_for(entry: str, name: str) -> bool:
    """Return True if a temporary name is one for a dataset of this name, or for a copy that was to become it."""
    written = is_temporary(entry) is not None
    rest, before = entry[1 : -len(".0123456789abcdef.tmp")] if written else entry, ""
    while partial := _PARTIAL(rest):
        before += rest[: -len(partial[2])]
        rest = partial[2]
    if written:
        return before + rest == temporary_stem(before + partial_name(name) if before else name)
    return before != "" and rest == partial_name(name)


def _has_no_writer(entry: os.DirEntry[str]) -> bool:
    temporary = is_temporary(entry.name)
    partial = _PARTIAL(entry.name)
    token = temporary[1] if temporary else partial[1] if partial else ""
    owner = owner_of(token) if len(token) == 16 else "unknown"
    if owner == "unknown":
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _FORGOTTEN
    return owner == "dead"
