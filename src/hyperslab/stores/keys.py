"""Which strings are keys, and which lie below which. The one place that decides it, for every kind of store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from hyperslab.errors import Invalid
from hyperslab.stores.owners import new_token

LOCK = ".lock"
"""The name of a lock file; no key has it as a segment."""

UNFINISHED = ".hyperslab-convert"
"""The folder of what is noted of a conversion into a store without renames, while it builds there: as long as it is
there, what else is there is half a dataset, or one whose conversion could not tidy up."""

_TEMPORARY = r"[^/]*\.[0-9a-f]{16}\.tmp"
_SEGMENT = rf"(?!\.(?:\.?|lock|{_TEMPORARY})(?:/|\Z))[^/\\\0\ud800-\udfff]+"

is_key = re.compile(rf"(?![A-Za-z]:){_SEGMENT}(?:/{_SEGMENT})*").fullmatch
"""A match (true) when the text is a key; one call in C, for the paths that are walked once per chunk."""

is_temporary = re.compile(r"\.[^/]*\.([0-9a-f]{16})\.tmp").fullmatch
"""A match when a file or folder name is that of an unfinished write, which may be removed once its writer is gone: the
first group is the token that tells whose it is."""

_LONGEST, _KEPT = 200, 40
"""Bytes of a name that a temporary one ends with, and the characters that are kept of a longer one."""


def check_key(key: object) -> str:
    """The key itself; ``Invalid`` when it could lead out of the store or names a lock or a temporary file.

    Refused: empty segments, ``.`` and ``..``, a leading slash, backslash, NUL, a drive (``C:``), lone surrogates,
    ``.lock``, and ``.<name>.<16 hex digits>.tmp``.
    """
    if not isinstance(key, str) or not is_key(key):
        raise Invalid(
            f"{key!r} is not a key",
            remedy="a key is a/b/c: no empty segment, '.' or '..', no backslash, NUL or drive, no name kept for locks",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Like :func:`check_key`, and ``""`` stands for the whole store."""
    return prefix and check_key(prefix)


def below(prefix: str) -> str:
    """What every key that stands below ``prefix/`` begins with; ``""`` stands for the whole store."""
    return f"{prefix}/" if prefix else ""


def split_names(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """What lies right below ``prefix/``, of keys that all do: (keys, sub-prefixes), each sorted."""
    skip = len(below(prefix))
    names: set[str] = set()
    inner: set[str] = set()
    for key in keys:
        name, slash, _ = key[skip:].partition("/")
        (inner if slash else names).add(name)
    return sorted(names), sorted(inner)


def temporary_stem(name: str) -> str:
    """Return what of a name stands in the temporary ones for it."""
    return name if len(name) < 50 else name[:50]


def temporary_name(name: str) -> str:
    """A fresh name beside ``name`` for a value that is not yet complete; never longer than a file name may be."""
    stem = temporary_stem(name)
    return f".{stem}.{new_token()}.tmp"


def partial_name(name: str) -> str:
    """Return what the temporary name of a whole dataset ends with, which has the ending of the name."""
    return name if len(os.fsencode(name)) <= _LONGEST else name[-_KEPT:]
