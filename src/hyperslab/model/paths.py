"""Node paths: ``a/b/c`` without leading slash, ``""`` for the root. The function that joins names refuses escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hyperslab.errors import Invalid

_NAME = re.compile(r"(?!\.{1,2}\Z)[^/\\\0]+")


def is_name(name: str) -> bool:
    """Return True if a node can have this name."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return one path segment; refuses empty, ``.``, ``..``, and names with slash, backslash or NUL."""
    if _NAME.fullmatch(name) is None:
        raise Invalid(
            f"{name!r} is not a name",
            remedy="a name is not empty, '.' or '..', and holds no slash, backslash or NUL",
        )
    return name


def normalize(path: str) -> str:
    """Turn ``"/a//b/"`` into ``"a/b"``; each segment is checked."""
    if "/" not in path:
        return check_name(path) if path else path
    return "/".join([check_name(part) for part in path.split("/") if part])


def join(base: str, path: str) -> str:
    """Return ``path`` below ``base`` (an absolute ``/x`` starts at the root)."""
    tail = normalize(path)
    if path.startswith("/") or not base:
        return tail
    return f"{base}/{tail}" if tail else base


def child(group: str, name: str) -> str:
    """Return the path (or key) of ``name`` right below ``group``, both known to be sound: nothing is checked."""
    return f"{group}/{name}" if group else name


def split(path: str) -> tuple[str, str]:
    """Split ``"a/b/c"`` into ``("a/b", "c")``."""
    parent, _, name = path.rpartition("/")
    return parent, name


def is_within(path: str, group: str) -> bool:
    """Return True if ``path`` is ``group`` or stands below it."""
    return path == group or not group or path.startswith(f"{group}/")


def relative(path: str, group: str) -> str:
    """Return ``path`` as seen from ``group``, which it is within."""
    return path[len(group) :].lstrip("/")


def outward(group: str) -> Iterator[str]:
    """Yield a group and those around it, the nearest first, the root last."""
    yield group
    while group:
        group, _ = split(group)
        yield group
