"""Whole copies that dead writers left beside a dataset, under the temporary names of what was to take its place."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass

from hyperslab.stores.files import remove_tree
from hyperslab.stores.keys import is_temporary, partial_name, temporary_stem
from hyperslab.stores.owners import owner_of

_PARTIAL = re.compile(r"\.partial-([0-9a-f]{8}|[0-9a-f]{16})-(.+)", re.DOTALL).fullmatch
_FORGOTTEN = 7 * 86400.0
"""Seconds without a change after which a copy is taken for one of a dead writer where that cannot be told, since it is
of another machine or an earlier boot: a conversion may take days."""
_SPARED = 50
"""So many times as long as a look through a folder took no other follows: writing many files costs 2 % more at most."""
_MOST = 1000
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
    if len(_looked) >= _MOST:
        _looked.clear()
    _looked[folder] = time.monotonic(), time.thread_time() - spent


def _is_for(entry: str, name: str) -> bool:
    """Return whether a temporary name is one for a dataset of this name, or for a copy that was to become it."""
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
