"""The datasets that links and references lead to: each is opened once, kept, and closed with the first of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import ref

from hyperslab.array.origin import DatasetRef
from hyperslab.formats.base import Reader
from hyperslab.stores.location import Location


class LinkedDataset(Protocol):
    """What is kept: a session."""

    @property
    def reader(self) -> Reader: ...
    @property
    def origin(self) -> DatasetRef | None: ...


Kept = TypeVar("Kept", bound=LinkedDataset)


class LinkedDatasets(Generic[Kept]):
    """What is open by its place, shared by a dataset and those that it leads to; several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._first: Callable[[], Kept | None] | None = None
        self._others: dict[str, Kept] = {}

    def get(self, asking: Kept, place: Location, make: Callable[[], Kept]) -> Kept:
        """The dataset at a place; the first that asks is the one that they all start at."""
        key = _key(place)
        with self._lock:
            if self._first is None:
                self._first = ref(asking)
            first = self._first()
            if first is not None and first.origin is not None and _key(first.origin.where) == key:
                return first
            if key not in self._others:
                self._others[key] = make()
            return self._others[key]

    def closed(self, session: Kept) -> None:
        """One was closed: if it is the first, so are all others; if not, it is opened again when it is needed."""
        if self._is_first(session):
            self.close()
        else:
            self.keep(session)

    def _is_first(self, session: Kept) -> bool:
        first = None if self._first is None else self._first()
        return first is not None and first.reader is session.reader

    def close(self) -> None:
        """Let go of all that were opened for links."""
        with self._lock:
            others, self._others = self._others, {}
        for other in others.values():
            other.reader.close()

    def keep(self, session: Kept) -> None:
        """It goes on by itself, and is not closed with the others."""
        with self._lock:
            self._others = {key: other for key, other in self._others.items() if other.reader is not session.reader}


def _key(place: Location) -> str:
    return place.url if place.path is None else f"{place.scheme}://{os.path.realpath(place.path)}"
