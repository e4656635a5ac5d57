"""The files of a DEKER collection, by walking its sharded folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from hyperslab.formats.deker.paths import Kind, data_path, id_in

_DEPTH = 9
"""Folders between ``array_data`` and a file."""


def data_files(folder: str, kind: Kind) -> Iterator[tuple[str, os.stat_result]]:
    """The ids of all arrays (or tiles, or VArrays) with what the system says of their files.

    Files elsewhere than where their id says are no arrays. What vanishes meanwhile is passed over.
    """
    for name, path, entry in walk(f"{folder}/{kind}_data", _DEPTH):
        id = id_in(kind, name)
        if id is not None and path == f"{folder}/{data_path(kind, id)}":
            with suppress(FileNotFoundError):
                yield id, _status(entry)


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """Of a link that leads to nothing that can be reached, of itself: reading it tells what is wrong."""
    try:
        return entry.stat()
    except FileNotFoundError:
        raise
    except OSError:
        return entry.stat(follow_symlinks=False)


def walk(folder: str, depth: int) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """All that is no folder at most so deep below ``folder``, sorted by name within each: its name, path and entry."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from walk(entry.path, depth - 1)
        else:
            yield entry.name, entry.path, entry


def total_size(folder: str) -> int:
    """Bytes of all plain files below a folder."""
    total = 0
    for _, _, entry in walk(folder, 100):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
    return total
