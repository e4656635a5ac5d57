"""Nodes that take the place of others once they are complete."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from hyperslab.errors import HyperslabError
from hyperslab.group import Group


@contextmanager
def replacing(group: Group, names: Iterable[str]) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """By name where to make each node: there where the name is free, else beside the old one, whose place it takes when
    the block ends; and a list, to which the block adds each place where it has made one. When it fails the old ones
    stand and nothing of the new ones is left.
    """
    places = {name: f"{name}-{secrets.token_hex(4)}" if name in group else name for name in names}
    made: list[str] = []
    try:
        yield places, made
    except BaseException:
        for place in made:
            with suppress(HyperslabError):
                del group[place]
        raise
    with group.batch():
        for name, place in places.items():
            if place != name:
                del group[name]
                group.move(place, name)
