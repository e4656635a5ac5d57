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
from hyperslab.errors import Invalid
from hyperslab.formats.blaze.data_file import ChunkOffsets, join, open_part, seal
from hyperslab.formats.blaze.keys import DataKeys
from hyperslab.formats.blaze.source import Column
from hyperslab.model.spec import ArraySpec


class Superchunks(Column):
    """The chunks of a column. ``exact``: what lies behind the last row of ``spec`` is cut off by a write; else it is
    kept, for another writer may have made the array longer."""

    def __init__(
        self,
        keys: DataKeys,
        spec: ArraySpec,
        fill: Any = None,
        *,
        exact: bool = False,
        counts: Sequence[int] | None = None,
    ) -> None:
        super().__init__(keys, spec, fill, counts)
        self._exact = exact
        self._blank: dict[int, bytes] = {}

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk; the others of its superchunk are kept as they are stored."""
        self.write_many([(coords, block)], durable=self._keys.settings.durable)

    def put_raw(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store bare Blosc chunks as they are; Invalid unless each decodes to as many bytes as its place has."""
        parts: dict[int, dict[int, bytes]] = {}
        for coords, data in pairs:
            number = self._number(coords)
            if not may_move(data, self.size(number)):
                raise Invalid(f"chunk {coords} is no Blosc chunk of {self.size(number)} bytes")
            place, local = self.numbering.find(number)
            parts.setdefault(place, {})[local] = seal(data, self.shape)
        self._put(parts, durable)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Put chunks into their superchunks, each file by one write."""
        self._put(self.encoded(pairs), durable)

    def encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> dict[int, dict[int, bytes]]:
        """Chunks as they are to be stored, by superchunk and number in it."""
        done: dict[int, dict[int, bytes]] = {}

        def encode(pair: tuple[Coords, Block]) -> None:
            place, local = self.numbering.find(self._number(pair[0]))
            part = self._encode(*pair)
            done.setdefault(place, {})[local] = part

        each_if_many(encode, pairs, self._keys.settings.threads)
        return done

    def _encode(self, coords: Coords, block: Block) -> bytes:
        number = self._number(coords)
        size = self.size(number)
        cells = block.reshape(-1).view(np.uint8) if block.size else np.empty(0, np.uint8)
        if not self._exact and number == self.chunks - 1:
            longer = self._longer(coords, size)
            if longer is not None:
                cells = np.concatenate((cells[:size], longer[size:]))
                size = len(longer)
        return seal(self._blosc.encode(np.ascontiguousarray(cells[:size]).data), self.shape)

    def _longer(self, coords: Coords, size: int) -> Any:
        """The bytes of the array's last chunk, where another writer has put rows behind those that are known here."""
        place, local = self.numbering.find(self._number(coords))
        index = self.index_at(place)
        if index is None or local >= index.count or index.size(local) <= size:
            return None
        block = self.read(coords)
        return None if block is None else block.reshape(-1).view(np.uint8)[: index.size(local)]

    def _put(self, parts: Mapping[int, Mapping[int, bytes]], durable: bool) -> None:
        self._keys.require_writable()
        self._keys.put_many(self.files(parts), durable)

    def files(self, parts: Mapping[int, Mapping[int, bytes]]) -> list[tuple[str, memoryview]]:
        """Keys and contents of the files with new chunks in them."""
        found = []
        for place, new in parts.items():
            key = self._keys.key(place)
            data = self.merged(place, new, self._keys.store.get(key) if self._asks(place, new) else None)
            if data is not None:
                found.append((key, data))
        return found

    def _asks(self, place: int, new: Mapping[int, bytes]) -> bool:
        """Return whether it must be known what a file holds before some of its chunks are replaced."""
        return len(new) < self.count(place) or (not self._exact and place >= self.places - 1)

    def merged(self, place: int, new: Mapping[int, bytes], old: Buffer | None) -> memoryview | None:
        """The file of a superchunk with ``new`` chunks in it, the others as they are, or fill values; None when nothing
        is to be left of it."""
        index = None if old is None else self.index_of(old)
        kept = index.count if index is not None and not self._exact else 0
        count = max(self.count(place), kept)
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
        """Decoded bytes that a chunk is to have in a file of ``count`` chunks."""
        if local < count - 1:
            return self.shape.chunk_bytes
        size = self.size(self.numbering.first(place) + local)
        kept = index is not None and not self._exact and local < index.count
        return max(size, index.size(local)) if kept and index is not None else size

    def _kept(self, old: memoryview, index: ChunkOffsets, local: int, size: int) -> Buffer:
        start, stop = index.span(local)
        if index.digest is self.shape.digest and index.size(local) == size:
            return old[start:stop]
        chunk, _ = open_part(old[start:stop], index, local)
        if index.size(local) == size:
            return seal(chunk, self.shape)
        cells = np.frombuffer(self._fill_bytes(max(size, index.size(local))), np.uint8).copy()
        self.decode(chunk, cells[: index.size(local)].data)
        return seal(self._blosc.encode(cells[:size].data), self.shape)

    def blank(self, size: int) -> bytes:
        """A stored chunk of nothing but fill values."""
        if size not in self._blank:
            self._blank[size] = seal(self._blosc.encode(self._fill_bytes(size)), self.shape)
        return self._blank[size]

    def _fill_bytes(self, size: int) -> bytes:
        cell = self.fill.tobytes()
        return cell * (size // len(cell))

    def erase(self, coords: Coords) -> None:
        """Set one chunk to the fill value."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Set chunks to the fill value; files of which nothing is left go."""
        for place, members in self._by_place(coords).items():
            key = self._keys.key(place)
            gone = set(members.values())
            self._replace(key, partial(self._without, place, gone))

    def _without(self, place: int, gone: Iterable[int], old: Buffer | None) -> memoryview | None:
        count = self.count(place)
        blank = {local: self.blank(self.size(self.numbering.first(place) + local)) for local in gone if local < count}
        return None if old is None else self.merged(place, blank, old)

    def _replace(self, key: str, change: Callable[[Buffer | None], memoryview | None]) -> None:
        """Put what ``change`` makes of a file in its place; None: nothing, it goes."""
        self._keys.require_writable()
        old = self._keys.store.get(key)
        data = change(old)
        if data is not None:
            self._keys.put_many([(key, data)], self._keys.settings.durable)
        elif old is not None:
            self._keys.store.delete(key, durable=self._keys.settings.durable)

    def blank_out(self, coords: Coords) -> None:
        """Replace a chunk that cannot be decoded by fill values."""
        with self.lock([coords], self._keys.settings.lock_timeout):
            self.erase(coords)

    def rewrite(self, place: int) -> None:
        """Write a superchunk anew, as long as the array: what is missing becomes fill values."""
        with self._keys.lock([(place,)], self._keys.settings.lock_timeout):
            self._replace(self._keys.key(place), partial(self.merged, place, {}))

    def complete(self, first: int) -> None:
        """Write the superchunks from ``first`` on that are missing or shorter than the array, with fill values."""
        there = set(self._keys.places()[0])
        least = 0 if self.shape.single else 1
        for place in range(first, max(self.places, least)):
            if place not in there or self.is_short(place):
                self.rewrite(place)
