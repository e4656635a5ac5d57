"""A model of a medium under durable writes: what would be there after a power cut. For programs that tests run.

The model knows what was flushed: a file's bytes by fsync of the file, a folder's entries by fsync of the folder (a
rename between two folders by that of either, for file systems keep it whole). Two media are built after each call: of
what was flushed alone, and of all entries with the bytes that were flushed, so that a file that was not is empty.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

_OPEN = os.open
_WATCHED = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")


class Move(NamedTuple):
    """A file that got another name in another folder: numbers of the file and of both folders, and both names."""

    inode: int
    source: int
    target: int
    old: str
    new: str


class Medium:
    """The folder ``place`` as it is on its medium; :meth:`build` makes it anew at ``copy``."""

    def __init__(self, place: str, copy: str) -> None:
        self._place = place
        self._copy = copy
        self._contents: dict[int, bytes] = {}
        self._entries: dict[int, dict[str, tuple[int, bool]]] = {}
        self._moves: list[Move] = []
        self._links: dict[int, str] = {}
        self._lock = threading.RLock()
        self._is_busy = False
        for folder, _, files in os.walk(place):
            self._flush_folder(folder)
            for name in files:
                self._flush_file(os.path.join(folder, name))

    def watch(self, check: Callable[[], object]) -> None:
        """From here on look at what would be left after each call; ``check`` writes in its own thread alone."""

        def guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                with self._lock:
                    if self._is_busy:
                        return real(*arguments, **options)
                    move = self._before(name, arguments)
                    result = real(*arguments, **options)
                    self._after(name, arguments, move)
                    self.look(check)
                    return result

            return call

        for name in _WATCHED:
            setattr(os, name, guarded(name, getattr(os, name)))

    def look(self, check: Callable[[], object]) -> None:
        """Check what would be left now, whose calls are none of the writer's."""
        self._is_busy = True
        try:
            check()
        finally:
            self._is_busy = False

    # -- what is flushed ----------------------------------------------------------------------------------------------

    def _before(self, name: str, arguments: tuple[Any, ...]) -> Move | None:
        if name in ("unlink", "replace") and os.path.isfile(arguments[-1]):
            _OPEN(arguments[-1], os.O_RDONLY)  # never closed: no other file gets the number of this one
        if name == "replace":
            (source, old), (target, new) = map(os.path.split, arguments)
            if source != target:
                return Move(*(os.stat(path).st_ino for path in (arguments[0], source, target)), old, new)
        return None

    def _after(self, name: str, arguments: tuple[Any, ...], move: Move | None) -> None:
        if name == "fsync":
            path = os.readlink(f"/proc/self/fd/{arguments[0]}")
            (self._flush_folder if os.path.isdir(path) else self._flush_file)(path)
        elif move is not None:
            self._moves.append(move)

    def _flush_folder(self, path: str) -> None:
        number = os.stat(path).st_ino
        self._entries[number] = self._list(path)
        for move in [move for move in self._moves if number in (move.source, move.target)]:
            self._moves.remove(move)
            if self._entries.get(move.source, {}).get(move.old, (None,))[0] == move.inode:
                del self._entries[move.source][move.old]
            self._entries.setdefault(move.target, {})[move.new] = (move.inode, False)

    def _flush_file(self, path: str) -> None:
        with open(path, "rb") as file:
            self._contents[os.fstat(file.fileno()).st_ino] = file.read()

    # -- what is left -------------------------------------------------------------------------------------------------

    def build(self, flushed_alone: bool) -> None:
        """Make the copy: of the entries that were flushed, or of all."""
        shutil.rmtree(self._copy, ignore_errors=True)
        os.mkdir(self._copy)
        self._build_folder(os.stat(self._place).st_ino, self._place, self._copy, flushed_alone)

    def _build_folder(self, number: int, path: str, target: str, flushed_alone: bool) -> None:
        for name, (inode, is_folder) in (self._entries.get(number, {}) if flushed_alone else self._list(path)).items():
            inner = os.path.join(target, name)
            if is_folder:
                os.mkdir(inner)
                self._build_folder(inode, os.path.join(path, name), inner, flushed_alone)
            elif inode in self._links:
                os.symlink(self._links[inode], inner)
            else:
                with open(inner, "wb") as file:
                    file.write(self._contents.get(inode, b""))

    def _list(self, path: str) -> dict[str, tuple[int, bool]]:
        """The entries of a folder; a symbolic link is whole wherever its entry is."""
        with os.scandir(path) as found:
            entries = list(found)
        for entry in entries:
            self._links.pop(entry.inode(), None)  # the number may have been that of a link before
            if entry.is_symlink():
                self._links[entry.inode()] = os.readlink(entry.path)
        return {entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries}
