"""A file or object by its URL, with what tells one version of it from another."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredFile:
    """``url``: an absolute path, or a URL, without secrets; ``size`` in bytes; ``mtime``: when a file was last changed,
    in nanoseconds; ``tag``: the ETag of an object, or what else its server tells of its version. None where unknown."""

    url: str
    size: int
    mtime: int | None = None
    tag: str | None = None

    @classmethod
    def of_path(cls, path: str, found: os.stat_result) -> StoredFile:
        """Return a file of this machine as it was found."""
        return cls(path, found.st_size, found.st_mtime_ns)

    @classmethod
    def of_object(cls, url: str, size: int, stamp: Hashable) -> StoredFile:
        """Return an object by the stamp that its store has for it."""
        return cls(url, size, None, tag_of(stamp))


def tag_of(stamp: Hashable) -> str | None:
    """Return the stamp of an object as text; None for one that tells nothing."""
    match stamp:
        case str():
            return stamp
        case tuple():
            return " ".join(map(str, stamp))
    return None


ValuePlace = tuple[StoredFile, int, int]
"""Where the bytes of a value lie: the file, the first byte, how many."""
