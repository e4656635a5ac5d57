"""The keys that lie in a folder, in the order of their names; what leads out of the root is not among them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from hyperslab.stores.files import MISSING, real_path
from hyperslab.stores.folders import Folders
from hyperslab.stores.keys import below, is_key

Names = tuple[list[str], list[str]]


def names_in(folders: Folders, folder: str) -> Names:
    """The names of values and of folders right in a folder, each sorted; both empty when it is missing."""
    path = folders.find(folder)
    files: list[str] = []
    inner: list[str] = []
    if path is None:
        return files, inner
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if is_key(entry.name):
                    _sort_in(folders, folder, entry, files, inner)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return sorted(files), sorted(inner)


def _sort_in(folders: Folders, folder: str, entry: os.DirEntry[str], files: list[str], inner: list[str]) -> None:
    """One entry. Behind a link to a folder no further one is shown, else a few of them would make an endless tree."""
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
    """Every key below a folder in the order of whole keys. A link to a folder that one is already in is not entered."""
    stack = [_steps(folders, folder)]
    way = [os.path.realpath(folders.path(folder))]
    within = set(way)
    while stack:
        name = next(stack[-1], None)
        if name is None:
            stack.pop()
            within.discard(way.pop())
        elif name.endswith("/"):
            real = _real(folders.root + name[:-1], way[-1])
            if real not in within:
                stack.append(_steps(folders, name[:-1]))
                way.append(real)
                within.add(real)
        else:
            yield name


def _real(path: str, parent: str) -> str:
    """The real place of a folder whose parent's is known."""
    return real_path(path) if os.path.islink(path) else os.path.join(parent, os.path.basename(path))


def _steps(folders: Folders, folder: str) -> Iterator[str]:
    files, inner = names_in(folders, folder)
    start = below(folder)
    return (start + name for name in sorted([*files, *(f"{name}/" for name in inner)]))


def statuses(folders: Folders, folder: str, tail: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """The status of every ``folder/<name>`` (``folder/<name>/<tail>``) that is a plain file; None where a symbolic link
    is on the way that stays in the root: it is to be looked at more closely."""
    path = folders.find(folder)
    if path is None:
        return
    behind = f"/{tail}" if tail else ""
    with suppress(FileNotFoundError), os.scandir(path) as entries:  # removed since it was found
        for entry in entries:
            if not is_key(entry.name):
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
    """The bytes of every plain file below a folder; symbolic links are not followed."""
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
