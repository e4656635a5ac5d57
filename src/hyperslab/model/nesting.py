"""Walks of trees however deep: generators that give further generators in place of calling themselves. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any


def flattened(walk: Generator[object]) -> Iterator[Any]:
    """Yield what a generator gives, in order, and in the place of each generator among that, what this one gives.

    ``yield walk(child)`` then means ``yield from walk(child)``, without a limit of depth.
    """
    open_ones = [walk]
    while open_ones:
        for found in open_ones[-1]:
            if isinstance(found, Generator):
                open_ones.append(found)
                break
            yield found
        else:
            open_ones.pop()
