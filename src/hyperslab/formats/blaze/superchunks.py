"""Writing one column's chunks: each file is replaced as a whole, its other chunks as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import Buffer
from hyperslab.codecs.blosc import may_move
from hyperslab.errors import Conflict, Invalid
from hyperslab.formats.blaze.column import Column, FetchedChunks, Stored, align_parts
from hyperslab.formats.blaze.data_file import ChunkOffsets, join, read_index, seal, verify_chunk
from hyperslab.formats.zarr.chunks import decode_fetched
from hyperslab.stores.attempts import attempts
from hyperslab.stores.base import Unversioned, Version, too_long


class Superchunks(Column):
    """The chunks of a column, which takes writes."""

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk; the others of its superchunk are kept as they are stored."""
        self.write_batch([(coords, block)], durable=self.keys.settings.durable)

    def write_blosc(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store bare Blosc chunks as they are; Invalid unless each decodes to as many bytes as its place has."""
        parts: dict[int, dict[int, bytes]] = {}
        for coords, data in pairs:
            number = self._number(coords)
            if not may_move(data, self.size(number)):
                raise Invalid(f"chunk {coords} is no Blosc chunk of {self.size(number)} bytes")
            place, local = self.numbering.find(number)
            parts.setdefault(place, {})[local] = seal(data, self.shape)
        self._put(parts, durable)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Put chunks into their superchunks, each file by one write."""
        self._put(self.encode_chunks(pairs), durable)

    def encode_chunks(self, pairs: Iterable[tuple[Coords, Block]]) -> dict[int, dict[int, bytes]]:
        """Return the chunks as they are to be stored, by superchunk and number in it."""
        done: dict[int, dict[int, bytes]] = {}

        def encode(pair: tuple[Coords, Block]) -> None:
            place, local = self.numbering.find(self._number(pair[0]))
            part = self._encode(*pair)
            done.setdefault(place, {})[local] = part

        each_if_many(encode, pairs, self.keys.settings.threads)
        return done

    def _encode(self, coords: Coords, block: Block) -> bytes:
        number = self._number(coords)
        size = self.size(number)
        cells = block.reshape(-1).view(np.uint8) if block.size else np.empty(0, np.uint8)
        # Another writer may have made the array longer since: rows behind those that are known here stay.
        if not self._exact and number == self.chunks - 1:
            longer = self._bytes_behind(coords, size)
            if longer is not None:
                cells = np.concatenate((cells[:size], longer[size:]))
                size = len(longer)
        return seal(self._blosc.encode(np.ascontiguousarray(cells[:size]).data), self.shape)

    def _bytes_behind(self, coords: Coords, size: int) -> Any:
        """Return the bytes of the array's last chunk, where another writer has put rows behind those that are known
        here."""
        place, local = self.numbering.find(self._number(coords))
        index = self.index_at(place)
        if index is None or local >= index.count or index.size(local) <= size:
            return None
        block = self.read(coords)
        return None if block is None else block.reshape(-1).view(np.uint8)[: index.size(local)]

    def _put(self, parts: Mapping[int, Mapping[int, bytes]], durable: bool) -> None:
        self.keys.require_writable()
        self.keys.put_many(self.files(parts), durable)

    def files(self, parts: Mapping[int, Mapping[int, bytes]]) -> list[tuple[str, memoryview]]:
        """Return keys and contents of the files with new chunks in them."""
        found = []
        for place, new in parts.items():
            key = self.keys.key(place)
            data = self.merge_file(place, new, self.keys.store.get(key) if self._needs_old_file(place, new) else None)
            if data is not None:
                found.append((key, data))
        return found

    def _needs_old_file(self, place: int, new: Mapping[int, bytes]) -> bool:
        """Return True if it must be known what a file holds before some of its chunks are replaced."""
        return len(new) < self.count(place) or (not self._exact and place >= self.places - 1)

    def merge_file(self, place: int, new: Mapping[int, bytes], old: Buffer | None) -> memoryview | None:
        """Return the file of a superchunk with ``new`` chunks in it, the others as they are, or fill values; None when
        nothing is to be left of it."""
        index = None if old is None else self.index_of(old)
        existing = index.count if index is not None and not self._exact else 0
        count = max(self.count(place), existing)
        if not count and place == 0 and not self.shape.single and not self._rows:
            count = 1  # an array without rows has one chunk without cells
        parts: list[Buffer] = []
        for local in range(count):
            size = self._size_in(place, local, count, index)
            if local in new:
                parts.append(new[local])
            elif index is not None and old is not None and local < index.count:
                parts.append(self._kept(memoryview(old), index, local, size))
            else:
                parts.append(self.blank(size))
        return join(parts, self._size_in(place, count - 1, count, index), self.shape) if parts else None

    def _size_in(self, place: int, local: int, count: int, index: ChunkOffsets | None) -> int:
        """Return the decoded bytes that a chunk is to have in a file of ``count`` chunks."""
        if local < count - 1:
            return self.shape.chunk_bytes
        size = self.size(self.numbering.first(place) + local)
        existing = index is not None and not self._exact and local < index.count
        return max(size, index.size(local)) if existing and index is not None else size

    def _kept(self, old: memoryview, index: ChunkOffsets, local: int, size: int) -> Buffer:
        start, stop = index.span(local)
        if index.digest is self.shape.digest and index.size(local) == size:
            return old[start:stop]
        chunk, _ = verify_chunk(old[start:stop], index, local)
        if index.size(local) == size:
            return seal(chunk, self.shape)
        cells = np.frombuffer(self._fill_bytes(max(size, index.size(local))), np.uint8).copy()
        self.decode(chunk, cells[: index.size(local)].data)
        return seal(self._blosc.encode(cells[:size].data), self.shape)

    def blank(self, size: int) -> bytes:
        """Return a stored chunk of nothing but fill values."""
        if size not in self._blanks:
            self._blanks[size] = seal(self._blosc.encode(self._fill_bytes(size)), self.shape)
        return self._blanks[size]

    def _fill_bytes(self, size: int) -> bytes:
        cell = self.fill.tobytes()
        return cell * (size // len(cell))

    def erase(self, coords: Coords) -> None:
        """Set one chunk to the fill value."""
        self.erase_batch([coords])

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Set chunks to the fill value; files of which nothing is left go."""
        for place, members in self._by_place(coords).items():
            first, count = self.numbering.first(place), self.count(place)
            blank = {local: self.blank(self.size(first + local)) for local in members.values() if local < count}

            def blank_out(old: Buffer | None, place: int = place, blank: dict[int, bytes] = blank) -> memoryview | None:
                return None if old is None else self.merge_file(place, blank, old)

            self._replace(self.keys.key(place), blank_out)

    def _replace(self, key: str, change: Callable[[Buffer | None], memoryview | None]) -> None:
        """Put what ``change`` makes of a file in its place; None: nothing, it goes."""
        self.keys.require_writable()
        old = self.keys.store.get(key)
        data = change(old)
        if data is not None:
            self.keys.put_many([(key, data)], self.keys.settings.durable)
        elif old is not None:
            self.keys.store.delete(key, durable=self.keys.settings.durable)

    def blank_out(self, coords: Coords) -> None:
        """Replace a chunk that cannot be decoded by fill values."""
        with self.lock([coords], self.keys.settings.lock_timeout):
            self.erase(coords)

    def rewrite(self, place: int) -> None:
        """Write a superchunk anew, as long as the array: what is missing becomes fill values."""
        with self.keys.lock([(place,)], self.keys.settings.lock_timeout):
            self._replace(self.keys.key(place), partial(self.merge_file, place, {}))

    def complete(self, first: int) -> None:
        """Write the superchunks from ``first`` on that are missing or shorter than the array, with fill values."""
        there = set(self.keys.places()[0])
        least = 0 if self.shape.single else 1
        for place in range(first, max(self.places, least)):
            if place not in there or self.is_short(place):
                self.rewrite(place)


# -- stores with compare-and-swap and without locks -----------------------------------------------------------------
#
# A file is put back only if it is still the version that was read. Such a store tells a value's version with the value
# (`GetVersion`), so that nothing is asked before it is read.


class CasSuperchunks(Superchunks):
    """The chunks of the only column of an array."""

    uses_compare_and_swap = True

    # -- reading ----------------------------------------------------------------------------------------------------

    def _stored(self, place: int, key: str, numbers: Sequence[int]) -> tuple[list[Stored], Any]:
        if self._wants_most(place, numbers):
            whole = self.keys.store.get_version(key, most=self._limit)
            return ([None] * len(numbers), None) if whole is None else (self._cut(whole.data, numbers), whole.stamp)
        for attempt in attempts(self.keys.settings.lock_timeout):
            with attempt:
                return self._from_ranges(place, key, numbers)
        raise AssertionError

    def _from_ranges(self, place: int, key: str, numbers: Sequence[int]) -> tuple[list[Stored], Any]:
        store, cached = self.keys.store, self._indexes.get(key)
        stamp, index = cached or self._index_now(place, key)
        if index is None:
            return [None] * len(numbers), None
        there = [number for number in numbers if number < index.count]
        ranges = index.spans(there)
        try:
            found = store.get_ranges_of(key, ranges, stamp) if ranges else []
            if found is None or (not ranges and cached is not None and store.stamp(key) != stamp):
                raise Conflict("the superchunk is being replaced", url=store.url, key=key)
        except Conflict:
            self._indexes.pop(key, None)
            raise
        return align_parts(numbers, there, found, index), stamp

    def _index_now(self, place: int, key: str) -> tuple[Any, ChunkOffsets | None]:
        """Stamp and index of the present version; neither when it is missing."""
        store = self.keys.store
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
        """Return the chunks of one superchunk, and the file that they are of."""
        numbers = [self._number(each) for each in coords]
        key = self.keys.key(self.numbering.find(numbers[0])[0]) if coords else None
        version = self.keys.store.get_version(key, most=self._limit) if key is not None else None
        if version is None:
            return [None] * len(coords), None
        stored = self._cut(version.data, [self.numbering.find(number)[1] for number in numbers])
        fetched = FetchedChunks(self, dict(zip(coords, stored, strict=True)))
        return decode_fetched(fetched, coords, self.grid, self._spec), version

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one superchunk if it is still the file that was read, else ``Conflict``."""
        self.keys.require_writable()
        old = None if expected is None else expected.data
        for place, new in self.encode_chunks(pairs).items():
            data, durable = self.merge_file(place, new, old), self.keys.settings.durable
            self.keys.store.put_back(self.keys.key(place), data, expected, durable=durable)

    def _put(self, parts: Mapping[int, Mapping[int, bytes]], durable: bool) -> None:
        self.keys.require_writable()
        complete_files = {place: new for place, new in parts.items() if not self._needs_old_file(place, new)}
        self.keys.put_many(self.files(complete_files), durable)
        for place in parts.keys() - complete_files.keys():
            self._replace(self.keys.key(place), partial(self.merge_file, place, parts[place]))

    def _replace(self, key: str, change: Callable[[Buffer | None], memoryview | None]) -> None:
        self.keys.require_writable()
        settings = self.keys.settings
        self.keys.store.update(key, change, timeout=settings.lock_timeout, durable=settings.durable, most=self._limit)
