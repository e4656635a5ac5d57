"""What a dataset holds and its format does not show, asked of any reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperslab.errors import Problem
from hyperslab.formats.base import Omits, Reader
from hyperslab.model.paths import child

NAMES = "names"
"""The kind of a problem that tells of a node whose name no path can have."""


def omitted_at(reader: Reader, path: str) -> Iterable[Problem]:
    """Return what a node has, among its attributes or right below it, and is not shown."""
    return reader.omitted(path) if isinstance(reader, Omits) else ()


def omitted_below(reader: Reader, path: str) -> Iterator[Problem]:
    """Yield what a node and those below it hold and is not shown, group by group."""
    if not isinstance(reader, Omits):
        return
    waiting = [path]
    while waiting:
        path = waiting.pop()
        yield from reader.omitted(path)
        waiting += [child(path, name) for name in reader.children(path)]
