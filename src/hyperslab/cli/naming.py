"""What arrays and dimensions of a dataset are called here, and what is said of a path that leads to no array."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

from hyperslab.array import Array
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.group import Group
from hyperslab.model.guessing import meant
from hyperslab.model.nesting import flattened

_DATABASES = ("collections", "deker")
_SHOWN = 10
_IN_DATABASES = 2  # whose names are ids
_LOOKED_AT = 1000


def named_dims(dims: Iterable[str | None]) -> list[str]:
    """The names of dimensions; one without a name is called by its place, ``dim_0``."""
    return [dim or f"dim_{axis}" for axis, dim in enumerate(dims)]


def arrays_of(node: Group | Array) -> Iterator[tuple[str, Array]]:
    """Path and array of every array at or below a node; damaged nodes are passed over, and links, which may lead up."""
    return flattened(_arrays(node))


def _arrays(node: Group | Array) -> Generator[Any]:
    if isinstance(node, Array):
        yield node.path, node
        return
    links = dict(node.links())
    for name in node:
        if name in links:
            continue
        try:
            found = node[name]
        except HyperslabError:
            continue
        yield _arrays(found)


def listing(group: Group) -> str:
    """The first arrays at and below a group; of a collection how to find one."""
    most = _IN_DATABASES if group._session.format.name in _DATABASES else _SHOWN
    some = [path for path, _ in islice(arrays_of(group), most + 1)]
    more = ["…"] if len(some) > most else []
    return f"there are {', '.join(some[:most] + more) or 'none'}{_of_database(group)}"


def _of_database(group: Group) -> str:
    if group._session.format.name not in _DATABASES:
        return ""
    url, name = group._session.url, group.path.partition("/")[0]
    return f"; see hyperslab db arrays {url} {name}" if name else f"; see hyperslab db list {url}"


def instead(root: Group, path: str) -> str:
    """What may have been meant by a path that leads nowhere: looked for in the last group on the way that is there."""
    group, done, parts = root, "", path.split("/")
    while parts:
        try:
            node = group[parts[0]]
        except NodeNotFound:
            break
        except HyperslabError:
            return "see what hyperslab tree shows"
        done = f"{done}/{parts.pop(0)}".lstrip("/")
        if isinstance(node, Array):
            return f"take /{done} itself: it is an array, with nothing below it"
        group = node
    if parts and (near := get_close_matches(parts[0], list(group), 1)):
        guess = f"{done}/{near[0]}".lstrip("/")
        return f"did you mean {_whole(root, guess, parts[1:])!r}?"
    if group._session.format.name in _DATABASES:
        return listing(group)
    known = [path for path, _ in islice(arrays_of(root), _LOOKED_AT)]
    return meant(path, known) if get_close_matches(path, known, 1) else listing(root)


def _whole(root: Group, guess: str, left: list[str]) -> str:
    """The guess with the rest of the path, where that leads to something."""
    whole = "/".join([guess, *left])
    try:
        return whole if root[whole] is not None else guess
    except HyperslabError:
        return guess
