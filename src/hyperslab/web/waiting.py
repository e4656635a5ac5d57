"""Long reads for a client, which end once it no longer waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from hyperslab.errors import Conflict

T = TypeVar("T")
StillWaiting = Callable[[], bool]
"""Returns True while somebody waits for the answer."""
# Items between two looks.
_LOOK_EVERY = 1000


def raise_if_gone(is_waiting: StillWaiting) -> None:
    """Raise Conflict once nobody waits for an answer."""
    if not is_waiting():
        raise Conflict("nobody waits for the answer any more")


def while_waiting(items: Iterable[T], is_waiting: StillWaiting) -> Iterator[T]:
    """Yield items; Conflict once nobody waits for them."""
    for number, item in enumerate(items):
        if number % _LOOK_EVERY == 0:
            raise_if_gone(is_waiting)
        yield item
