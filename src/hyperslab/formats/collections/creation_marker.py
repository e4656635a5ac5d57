"""Creations of many arrays that are under way: what one has made no key leads to yet, and repairs leave it alone.

Each holds a folder ``creating/<name>`` of its own, with an empty value in it, which is removed at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.collections.places import CREATING, Places
from hyperslab.formats.collections.store_fallbacks import lock_node

_MARK = "mark"


@contextmanager
def making(store: Any, places: Places, timeout: float, name: str) -> Iterator[None]:
    """For the block others know that a creation is under way, or, when they find nobody holding it, that it died.
    ``name``: one that no other creation has."""
    folder = f"{places.folder(CREATING)}/{name}"
    with ExitStack() as held:
        held.enter_context(lock_node(store, folder, timeout))
        try:
            store.put(f"{folder}/{_MARK}", b"")
            yield
        finally:
            with suppress(HyperslabError):  # all that counts is done by now, or undone
                held.close()
            with suppress(HyperslabError):
                store.delete(f"{folder}/{_MARK}")


def creations(store: Any, places: Places) -> list[str]:
    """The names of those that are under way, or whose makers died."""
    names: list[str] = store.list_dir(places.folder(CREATING))[1]
    return names


def is_under_way(store: Any, places: Places) -> bool:
    """Return whether any is, as far as the store can tell."""
    return not all(is_dead(store, places, name) for name in creations(store, places))


def is_dead(store: Any, places: Places, name: str) -> bool:
    """Return whether the maker of this name is at work no more.

    A store that was opened for reading takes no locks and cannot tell; the maker counts as dead there, and problems say
    that it may be at work.
    """
    if store.read_only or name not in creations(store, places):
        return True
    try:
        with lock_node(store, f"{places.folder(CREATING)}/{name}", 0):
            return True
    except Conflict:
        return False


def forget(store: Any, places: Places, name: str) -> None:
    """Remove what a creation left whose maker died; held meanwhile, as one may just be about to hold it."""
    folder = f"{places.folder(CREATING)}/{name}"
    with suppress(Conflict), lock_node(store, folder, 0):
        store.delete_prefix(folder)
