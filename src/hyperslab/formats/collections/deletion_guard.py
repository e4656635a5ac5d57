"""True if an array is there still while it is written to: others may remove it, and its writers hold no lock of its
document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hyperslab.chunks.grid import Coords
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr3.document import NAME


class Presence:
    """That of the array whose chunks lie under ``keys``; ``others`` are the places of what belongs to it besides."""

    def __init__(self, keys: ChunkKeys, others: Iterable[str] = ()) -> None:
        self._keys = keys
        self._places = (keys.folder, *others)
        self._was_there = False

    @contextmanager
    def required(self) -> Iterator[None]:
        """What is written in the block is removed again when the array was meanwhile: NodeNotFound. One that has no
        document yet may be written to."""
        self._check()
        try:
            yield
        except HyperslabError:
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        store, document = self._keys.store, self._keys.prefix + NAME
        if self._keys.exists(document):
            self._was_there = True
        elif self._was_there:
            for place in self._places:
                store.delete_prefix(place)
            remedy = "make it anew, or write to another one"
            raise NodeNotFound("the array was removed meanwhile", url=store.url, key=document, remedy=remedy)


class PresentKeys(ChunkKeys):
    """Where the chunks of an array lie that is not in several tiles."""

    _presence: Presence | None = None

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the chunks' byte ranges, of an array that is there: NodeNotFound when it was removed meanwhile."""
        self._presence = self._presence or Presence(self)
        with super().lock(coords, timeout), self._presence.required():
            yield
