"""Superchunks in a store without locks: a file is put back only if it is still the version that was read.

Such a store tells a value's version with the value (``GetVersion``), so that nothing is asked before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import Buffer
from hyperslab.errors import Conflict
from hyperslab.formats.blaze.data_file import ChunkOffsets, read_index
from hyperslab.formats.blaze.source import FetchedChunks, Stored, in_order
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.zarr.chunks import decode_fetched
from hyperslab.stores.attempts import attempts
from hyperslab.stores.base import Unversioned, Version
from hyperslab.stores.files import too_long


class SwappedSuperchunks(Superchunks):
    """The chunks of the only column of an array."""

    _has_stamps = True

    # -- reading ----------------------------------------------------------------------------------------------------

    def _stored(self, place: int, key: str, numbers: Sequence[int]) -> tuple[list[Stored], Any]:
        if self._wants_most(place, numbers):
            whole = self._keys.store.get_version(key, most=self._limit)
            return ([None] * len(numbers), None) if whole is None else (self._cut(whole.data, numbers), whole.stamp)
        for attempt in attempts(self._keys.settings.lock_timeout):
            with attempt:
                return self._from_ranges(place, key, numbers)
        raise AssertionError

    def _from_ranges(self, place: int, key: str, numbers: Sequence[int]) -> tuple[list[Stored], Any]:
        store, known = self._keys.store, self._indexes.get(key)
        stamp, index = known or self._index_now(place, key)
        if index is None:
            return [None] * len(numbers), None
        there = [number for number in numbers if number < index.count]
        ranges = index.spans(there)
        try:
            found = store.get_ranges_of(key, ranges, stamp) if ranges else []
            if found is None or (not ranges and known is not None and store.stamp(key) != stamp):
                raise Conflict("the superchunk is being replaced", url=store.url, key=key)
        except Conflict:
            self._indexes.pop(key, None)
            raise
        return in_order(numbers, there, found, index), stamp

    def _index_now(self, place: int, key: str) -> tuple[Any, ChunkOffsets | None]:
        """Stamp and index of the present version; neither when it is missing."""
        store = self._keys.store
        found: Version | None = store.get_version(key, (0, self._head(place)))
        if found is None:
            return None, None
        head = found.data
        index = read_index(head, found.size, self.shape)
        while not isinstance(index, ChunkOffsets):
            if index > self._limit:
                raise too_long(store.url, key, self._limit, index)
            (head,) = store.get_ranges_of(key, [(0, index)], found.stamp) or (b"",)
            if len(head) < index:
                raise Conflict("the superchunk is being replaced", url=store.url, key=key)
            index = read_index(head, found.size, self.shape)
        if not isinstance(found.stamp, Unversioned):  # whether it is still true could not be asked
            self._indexes.remember(key, found.stamp, index)
        return found.stamp, index

    # -- writing ----------------------------------------------------------------------------------------------------

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Chunks of one superchunk, and the file that they are of."""
        numbers = [self._number(each) for each in coords]
        key = self._keys.key(self.numbering.find(numbers[0])[0]) if coords else None
        version = self._keys.store.get_version(key, most=self._limit) if key is not None else None
        if version is None:
            return [None] * len(coords), None
        stored = self._cut(version.data, [self.numbering.find(number)[1] for number in numbers])
        fetched = FetchedChunks(self, dict(zip(coords, stored, strict=True)))
        return decode_fetched(fetched, coords, self._grid, self._spec), version

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one superchunk if it is still the file that was read, else ``Conflict``."""
        self._keys.require_writable()
        for place, new in self.encoded(pairs).items():
            self._swap(place, new, expected)

    def _swap(self, place: int, new: Mapping[int, bytes], old: Version | None) -> None:
        self._swap_file(self._keys.key(place), self.merged(place, new, None if old is None else old.data), old)

    def _swap_file(self, key: str, data: memoryview | None, old: Version | None) -> None:
        store = self._keys.store
        if data is not None:
            store.put_if(key, data, None if old is None else old.stamp, durable=self._keys.settings.durable)
        elif old is not None:
            store.delete(key, durable=self._keys.settings.durable)

    def _put(self, parts: Mapping[int, Mapping[int, bytes]], durable: bool) -> None:
        self._keys.require_writable()
        known = {place: new for place, new in parts.items() if not self._asks(place, new)}
        self._keys.put_many(self.files(known), durable)
        for place in parts.keys() - known.keys():
            self._replace(self._keys.key(place), partial(self.merged, place, parts[place]))

    def _replace(self, key: str, change: Callable[[Buffer | None], memoryview | None]) -> None:
        self._keys.require_writable()
        for attempt in attempts(self._keys.settings.lock_timeout):
            with attempt:
                old = self._keys.store.get_version(key, most=self._limit)
                self._swap_file(key, change(None if old is None else old.data), old)
