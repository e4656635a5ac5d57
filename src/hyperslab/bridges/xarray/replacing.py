"""Nodes that take the place of others once they are complete."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from hyperslab.errors import AlreadyExists, HyperslabError
from hyperslab.group import Group


@contextmanager
def replacing(group: Group, names: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """By name where to make each node: there where the name is free, else beside the old one, whose place it takes when
    the block ends. When it fails the old ones stand and nothing of the new ones is left.
    """
    places = {name: f"{name}-{secrets.token_hex(4)}" if name in group else name for name in names}
    try:
        yield places
    except BaseException as error:
        for name, place in places.items():
            if place in group and not (place == name and isinstance(error, AlreadyExists)):  # another writer's
                with suppress(HyperslabError):
                    del group[place]
        raise
    with group.batch():
        for name, place in places.items():
            if place != name:
                del group[name]
                group.move(place, name)
