"""One array's chunks, decoded, as one abstract class whose methods have defaults that are right, if slow.

A ``Block`` is an ndarray of the chunk's whole stored shape. Cells past the array's edge hold the fill value or garbage.
The executor calls the methods; which of them are worth their while it reads from ``traits``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hyperslab.chunks.engine import StoredFiles
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.errors import Unsupported
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.attempts import attempts
from hyperslab.stores.base import Stamp, Store

Block = np.ndarray
Within = tuple[slice, ...]
"""Cells of a chunk: one forward slice along each axis."""


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What a source does better than the defaults of :class:`ChunkSource`: callers choose their way of working by it.

    Each flag says what it switches on, and by which method.
    """

    concurrency: int | None = None
    """The threads of a read: so many requests at once suit the store; None: one per core (no method)."""
    fetches: bool = False
    """``fetch``: it gets many chunks by few requests, and what it returns decodes them."""
    fetches_across: bool = False
    """``fetch``: its chunks may be of several outer chunks."""
    fetches_outer: bool = False
    """``fetch_outer``: it gets an outer chunk by one request, for all batches of a read that wants half of it."""
    reads_parts: bool = False
    """``read_part``, ``fetch_parts``: a part costs less than the whole chunk."""
    stamped: bool = False
    """``stamp``: it tells versions of a chunk apart, so that decoded chunks may be kept in the cache."""
    reads_stamps: bool = False
    """``ChunkReader.version`` of what ``fetch`` returns, or ``read_newer`` without ``fetches``: the stamp comes with
    the cells, by the same request."""
    locks: bool = False
    """``lock``: it keeps other processes out."""
    swaps: bool = False
    """``read_stamped``, ``swap``: a chunk is put back only if it is still the version that was read."""
    transacts: bool = False
    """``transaction``: what is written within shows together."""
    multi_shard: bool = False
    """``snapshot``, ``multi_shard_write``: reads and writes of several outer chunks count as one."""
    reads_sparse: bool = False
    """``read_coo``: it works."""
    writes_sparse: bool = False
    """``write_coo``: it works."""
    in_files: bool = False
    """``stored_files``: the engine in C may read its chunks; ``read_part``, ``read_newer``: also one chunk alone."""
    lists_chunks: bool = False
    """``stored_coords``: it yields only chunks that were written."""
    joins_writes: bool = False
    """``write_batch``: it stores neighbouring chunks by one call, so that many small ones are best given together."""


class ChunkReader(ABC):
    """What decodes chunks of one array: a source, or what a source has fetched of some chunks."""

    __slots__ = ()

    grid: Grid
    """How the array is cut."""
    version: Stamp | None = None
    """The stamp of what was fetched, where it came with it (``reads_stamps``)."""

    @abstractmethod
    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the whole chunk into ``out`` (C-contiguous, the chunk's whole shape); False when never written."""

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """Return :meth:`read_into` of one block, for many chunks of its shape: what depends on the block alone is done
        once."""
        return partial(self.read_into, out=out)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read only the cells ``within`` into ``out`` (any strides); False when never written."""
        block = np.empty(self.grid.chunk_shape(coords), out.dtype)
        if not self.read_into(coords, block):
            return False
        out[...] = block[within]
        return True

    def read_coo(self, coords: Coords) -> Coo | None:
        """Return the chunk as a list of the cells that are not its fill value, which may be another than the array's;
        None when it was never written. A dense chunk is compared with a fill value."""
        raise Unsupported(f"{type(self).__name__} stores no lists of cells")


class ChunkSource(ChunkReader):
    """One array's chunks under their coordinates.

    Of one's own: ``grid``, :meth:`read`, :meth:`write` and :meth:`erase`. Every other method works by these, and is
    replaced where the format has a better way; ``traits`` says which of them are worth building on.
    """

    __slots__ = ()

    traits: SourceTraits = SourceTraits()

    # -- reading ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, coords: Coords) -> Block | None:
        """Return the decoded chunk in memory of its own, or None when it was never written."""

    def read_into(self, coords: Coords, out: Block) -> bool:
        block = self.read(coords)
        if block is not None:
            out[...] = block
        return block is not None

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        """Get what is stored of these chunks by few requests (one query, coalesced ranges); the result decodes them.

        When the grid has an outer one, all the chunks lie in one outer chunk, but for a source that takes those of
        several (``fetches_across``).
        """
        return self

    def fetch_outer(self, outer: Coords) -> ChunkReader:
        """Get all that is stored of one outer chunk, in memory of its own: any thread may decode chunks of it."""
        spans = zip(outer, self.grid.members, self.grid.counts, strict=True)
        places = [range(place * count, min((place + 1) * count, limit)) for place, count, limit in spans]
        return self.fetch(list(product(*places)))

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> ChunkReader:
        """Get parts of chunks (None: of the whole) by few requests; the result reads them by ``read_part``, and the
        whole ones by either, ``read_into`` where they lie contiguous in the result."""
        return self.fetch([coords for coords, _ in wanted])

    def snapshot(self, outer: Sequence[Coords]) -> Generator[ChunkSource, None, None]:
        """Yield a source as of one moment, from which the caller reads all that it wants of these outer chunks.

        If another source follows, a write over several of them became visible meanwhile and what was read may be torn:
        everything is read again from that one. The caller closes the generator.
        """
        yield self

    # -- writing ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk; old or new afterwards, never torn."""

    @abstractmethod
    def erase(self, coords: Coords) -> None:
        """Forget one chunk: it reads as the fill value."""

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Commit a group: encode and write all, make all durable, make all visible.

        When the grid has an outer one, all the chunks lie in one outer chunk.
        """
        for coords, block in pairs:
            self.write(coords, block)

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget chunks that all lie in one outer chunk, by one write."""
        for each in coords:
            self.erase(each)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold these chunks against other threads and processes while they are read, changed and put back.
        ``Conflict`` after ``timeout`` seconds (None: never)."""
        return nullcontext()

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the array against other writers for all the chunks of one write: they show together, when it ends well,
        or not at all. ``Conflict`` after ``timeout`` seconds (None: never)."""
        return nullcontext()

    def multi_shard_write(self, outer: Sequence[Coords], timeout: float | None) -> AbstractContextManager[ChunkSource]:
        """Hold these outer chunks for one write. What is put into the source that is given shows when the block ends
        well, all of it together, or not at all. ``Conflict`` after ``timeout`` seconds (None: never)."""
        return nullcontext(self)

    # -- versions ---------------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> Stamp | None:
        """Return what identifies the chunk's present version, before a cached copy is served; None when missing, or
        always where nothing tells (``stamped``)."""
        return None

    def read_newer(self, coords: Coords, known: Stamp | None = None) -> tuple[Block | None, Stamp | None]:
        """Return a chunk and its stamp by one request; no chunk when the stamp is ``known``, neither when it was never
        written."""
        # The stamp is taken before the cells: should they be newer, the next look finds another stamp and reads again.
        stamp = self.stamp(coords)
        return (None, stamp) if stamp is None or stamp == known else (self.read(coords), stamp)

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], object]:
        """Return chunks that are stored together (one chunk, or those of one outer chunk), and their version, for
        :meth:`swap`."""
        raise Unsupported(f"{type(self).__name__} has no compare-and-swap")

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store chunks that are stored together if their version is still ``expected``, else ``Conflict``."""
        raise Unsupported(f"{type(self).__name__} has no compare-and-swap")

    def update(
        self,
        coords: Sequence[Coords],
        change: Callable[[list[Block | None]], Sequence[tuple[Coords, Block]]],
        timeout: float | None,
    ) -> None:
        """Have ``change`` make new chunks of these, which are stored together, and put them back where no lock can be
        held; what another writer changed meanwhile is read again, ``Conflict`` after ``timeout`` seconds."""
        for attempt in attempts(timeout):
            with attempt:
                blocks, stamp = self.read_stamped(coords)
                if pairs := change(blocks):
                    self.swap(pairs, stamp)

    # -- what is stored ---------------------------------------------------------------------------------------------

    def stored_coords(self) -> Iterator[Coords]:
        """Yield the coordinates of every chunk that was written, those of one outer chunk one after the other; of every
        chunk of the grid where nothing tells which (``lists_chunks``)."""
        return iter(self.grid)

    def stored_sizes(self, coords: Iterable[Coords]) -> int | None:
        """Return the bytes that these chunks take where they are stored, without what lies beside them in an outer
        chunk; None where nothing tells."""
        return None

    def nbytes_stored(self) -> int | None:
        """Return the bytes that all chunks take where they are stored; None where nothing tells."""
        return None

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """Return what is stored of a chunk, whatever is wrong with it; None when it has no place that is its own."""
        return None

    def stored_value(self, outer: Coords) -> tuple[Store, str] | None:
        """Return the store and the key of the value that a chunk is stored as (with an outer grid: an outer chunk),
        written or not; None where it is no value of its own."""
        return None

    def locations(self) -> ChunkLocations | None:
        """Return where the stored bytes of all chunks lie, and what decodes them; None where they are no bytes of a
        file that others can read. Their chunks may be other ones than those of ``grid``."""
        return None

    def of_field(self, name: str) -> tuple[ArraySpec, ChunkSource] | None:
        """Return the array as if its cells had this field alone, with chunks that read nothing else; None where the
        fields of a cell are stored together."""
        return None

    @property
    def stored_files(self) -> StoredFiles | None:
        """How the chunks lie in files, where the engine in C reads them; None where it does not."""
        return None

    def write_encoded(self, pairs: Iterable[tuple[Coords, object]], *, durable: bool) -> None:
        """Store chunks as the engine encoded them, None for those of nothing but fill values; their locks are held.

        Without an outer grid each is written before the next is taken, whose bytes may lie in the same memory. With one
        they are of one outer chunk, and stay valid until all are stored.
        """
        raise NotImplementedError

    def write_shard(self, coords: Coords, shard: memoryview, *, durable: bool) -> None:
        """Replace the outer chunk of this chunk by one that the engine built; an empty one holds nothing. Its lock is
        held."""
        raise NotImplementedError

    # -- lists of cells (``writes_sparse``) -------------------------------------------------------------------------

    def write_coo(self, pairs: Iterable[tuple[Coords, Coo]], *, durable: bool) -> None:
        """Store chunks by lists of cells, of the array's dtype; their shape is that of the cells within the array."""
        raise Unsupported(f"{type(self).__name__} stores no lists of cells")

    # -- bare Blosc-1 buffers, which go as they are into a source with an equal ``blosc_container`` --------------------

    @property
    def blosc_container(self) -> Hashable | None:
        """What lies in each stored chunk: type, shape of a chunk, order of its axes. None when they are no bare Blosc
        buffers."""
        return None

    @property
    def pads_edges(self) -> bool:
        """Return True if a chunk at the array's edge is stored whole; else only its cells within the array are."""
        return True

    def read_blosc(self, coords: Coords) -> bytes | None:
        """Return a stored chunk, any digest verified and taken off; None when it was never written."""
        raise Unsupported(f"{type(self).__name__} stores no Blosc buffers")

    def write_blosc(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store chunks as they are. When the grid has an outer one, all of them lie in one outer chunk."""
        raise Unsupported(f"{type(self).__name__} stores no Blosc buffers")


class DecodingSource(ChunkSource):
    """A source that decodes into memory of its caller: :meth:`read_into` is its own, :meth:`read` follows from it."""

    _spec: ArraySpec

    @abstractmethod
    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the whole chunk into ``out`` (C-contiguous, the chunk's whole shape); False when never written."""

    def read(self, coords: Coords) -> Block | None:
        block = np.empty(self.grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None


class WrappedSource(ChunkSource):
    """Another source, whose methods and traits are passed on: a wrapper replaces what it changes.

    Not passed on are ``update``, which works by the wrapper's own ``read_stamped`` and ``swap``, and what the engine
    in C needs (``stored_files``, ``write_encoded``, ``write_shard``): it would pass the wrapper by.
    """

    def __init__(self, source: ChunkSource) -> None:
        self.source = source
        self.grid = source.grid
        self.traits = source.traits

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.source.read_into(coords, out)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        return self.source.reader(out)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        return self.source.read_part(coords, within, out)

    def read_coo(self, coords: Coords) -> Coo | None:
        return self.source.read_coo(coords)

    def read(self, coords: Coords) -> Block | None:
        return self.source.read(coords)

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        return self.source.fetch(coords)

    def fetch_outer(self, outer: Coords) -> ChunkReader:
        return self.source.fetch_outer(outer)

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> ChunkReader:
        return self.source.fetch_parts(wanted)

    def snapshot(self, outer: Sequence[Coords]) -> Generator[ChunkSource, None, None]:
        return self.source.snapshot(outer)

    def write(self, coords: Coords, block: Block) -> None:
        self.source.write(coords, block)

    def erase(self, coords: Coords) -> None:
        self.source.erase(coords)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        self.source.write_batch(pairs, durable=durable)

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        self.source.erase_batch(coords)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        return self.source.lock(coords, timeout)

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        return self.source.transaction(timeout)

    def multi_shard_write(self, outer: Sequence[Coords], timeout: float | None) -> AbstractContextManager[ChunkSource]:
        return self.source.multi_shard_write(outer, timeout)

    def stamp(self, coords: Coords) -> Stamp | None:
        return self.source.stamp(coords)

    def read_newer(self, coords: Coords, known: Stamp | None = None) -> tuple[Block | None, Stamp | None]:
        return self.source.read_newer(coords, known)

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], object]:
        return self.source.read_stamped(coords)

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        self.source.swap(pairs, expected)

    def stored_coords(self) -> Iterator[Coords]:
        return self.source.stored_coords()

    def stored_sizes(self, coords: Iterable[Coords]) -> int | None:
        return self.source.stored_sizes(coords)

    def nbytes_stored(self) -> int | None:
        return self.source.nbytes_stored()

    def stored_bytes(self, coords: Coords) -> bytes | None:
        return self.source.stored_bytes(coords)

    def stored_value(self, outer: Coords) -> tuple[Store, str] | None:
        return self.source.stored_value(outer)

    def locations(self) -> ChunkLocations | None:
        return self.source.locations()

    def of_field(self, name: str) -> tuple[ArraySpec, ChunkSource] | None:
        return self.source.of_field(name)

    def write_coo(self, pairs: Iterable[tuple[Coords, Coo]], *, durable: bool) -> None:
        self.source.write_coo(pairs, durable=durable)

    @property
    def blosc_container(self) -> Hashable | None:
        return self.source.blosc_container

    @property
    def pads_edges(self) -> bool:
        return self.source.pads_edges

    def read_blosc(self, coords: Coords) -> bytes | None:
        return self.source.read_blosc(coords)

    def write_blosc(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        self.source.write_blosc(pairs, durable=durable)
