"""One array's chunks, decoded: the protocol that every format gives, and the abilities it may have on top.

A ``Block`` is an ndarray of the chunk's whole stored shape. Cells past the array's edge hold the fill value or garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec

Block = np.ndarray[Any, Any]
Stamp = Any


class ChunkSource(Protocol):
    """One array's chunks under their coordinates."""

    @property
    def grid(self) -> Grid: ...

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk, or None when it was never written."""
        ...

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk; old or new afterwards, never torn."""
        ...

    def erase(self, coords: Coords) -> None:
        """Forget one chunk: it reads as the fill value."""
        ...


@runtime_checkable
class ReadsInto(Protocol):
    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the whole chunk into ``out`` (C-contiguous, the chunk's whole shape); False when never written."""
        ...


@runtime_checkable
class ReadsAgain(ReadsInto, Protocol):
    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """``read_into`` of one block, for many chunks of its shape: what depends on the block alone is done once."""
        ...


@runtime_checkable
class ReadsPart(Protocol):
    def read_part(self, coords: Coords, within: tuple[slice, ...], out: Block) -> bool:
        """Read only the cells ``within`` (forward slices) into ``out`` (any strides); False when never written."""
        ...


@runtime_checkable
class ReadsMany(Protocol):
    def fetch(self, coords: Sequence[Coords]) -> ReadsInto:
        """Get what is stored of these chunks by few requests (one query, coalesced ranges); the result decodes them.

        When the grid has an outer one, all the chunks lie in one outer chunk, but for a source that is known to take
        those of several (``fetches_across``). The result of one that says so (``fetches_stamps``) has the
        ``version`` of what was fetched, its stamp. ``concurrency``: how many requests at once suit the store of any
        source, whatever the number of cores; None where that does not matter.
        """
        ...


@runtime_checkable
class ReadsParts(ReadsMany, ReadsPart, Protocol):
    def fetch_parts(self, wanted: Sequence[tuple[Coords, tuple[slice, ...] | None]]) -> ReadsPart:
        """Get parts of chunks (None: of the whole) by few requests; the result has them, and the whole ones decoded."""
        ...


@runtime_checkable
class WritesMany(Protocol):
    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Group commit: encode and write all, make all durable, make all visible.

        When the grid has an outer one, all the chunks lie in one outer chunk.
        """
        ...


@runtime_checkable
class ErasesMany(Protocol):
    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget chunks that all lie in one outer chunk, by one write."""
        ...


@runtime_checkable
class Stamped(Protocol):
    def stamp(self, coords: Coords) -> Stamp | None:
        """What identifies the chunk's present version, asked before a cached copy is served; None when missing."""
        ...


@runtime_checkable
class Locking(Protocol):
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold these chunks against other threads and processes while they are read, changed and put back."""
        ...


@runtime_checkable
class Transacts(Protocol):
    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the array against other writers for all the chunks of one write: they show together, when it ends well,
        or not at all. ``Conflict`` after ``timeout`` seconds (None: never)."""
        ...


@runtime_checkable
class WritesTogether(Protocol):
    """Whose outer chunks are stored one by one, and whose writes over several of them show as one."""

    def together(self, outer: Sequence[Coords], timeout: float | None) -> AbstractContextManager[ChunkSource]:
        """Hold these outer chunks for one write. What is put into the source that is given shows when the block ends
        well, all of it together, or not at all. ``Conflict`` after ``timeout`` seconds (None: never)."""
        ...


@runtime_checkable
class ReadsSteadily(Protocol):
    def steady(self, outer: Sequence[Coords]) -> Generator[ChunkSource, None, None]:
        """Sources as of one moment, to read these outer chunks from, each from the start: when another is given, a
        write over several of them has shown meanwhile. It is closed when the last was read."""
        ...


@runtime_checkable
class CompareAndSwap(Protocol):
    """Where no lock can be held: what is written back must still be what was read. All the chunks of one call are
    stored together: they lie in one outer chunk, or it is one chunk."""

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Stamp | None]:
        """Chunks, and what identifies this version of them."""
        ...

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Stamp | None) -> None:
        """Store chunks if their version is still ``expected``, else ``Conflict``."""
        ...


@runtime_checkable
class ReadsNewer(Protocol):
    """Where asking for a stamp costs as much as reading."""

    def read_newer(self, coords: Coords, known: Stamp | None = None) -> tuple[Block | None, Stamp | None]:
        """A chunk and its stamp; no chunk when the stamp is ``known``, neither when it was never written."""
        ...


@runtime_checkable
class Sized(Protocol):
    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes that these chunks take where they are stored, without what lies beside them in an outer chunk."""
        ...

    def nbytes_stored(self) -> int:
        """Bytes that all chunks take where they are stored."""
        ...


@runtime_checkable
class TellsStored(ChunkSource, Protocol):
    def stored_bytes(self, coords: Coords) -> bytes | None:
        """What is stored of a chunk, whatever is wrong with it; None when it has no place that is its own."""
        ...


@runtime_checkable
class HasColumns(Protocol):
    def of_field(self, name: str) -> tuple[ArraySpec, ChunkSource]:
        """The array as if its cells had this field alone: chunks that read nothing else."""
        ...


@runtime_checkable
class ListsChunks(Protocol):
    def stored(self) -> Iterator[Coords]:
        """The coordinates of every chunk that was written; those of one outer chunk follow each other."""
        ...


@runtime_checkable
class ReadsSparse(Protocol):
    """Whose chunks may be stored as lists of cells. What ``fetch`` gives may have the same ability."""

    def read_coo(self, coords: Coords) -> Coo | None:
        """The chunk as a list of the cells that are not its fill value, which may be another than the array's; a dense
        one is compared with a fill value. None when it was never written."""
        ...


@runtime_checkable
class WritesSparse(Protocol):
    def write_coo(self, pairs: Iterable[tuple[Coords, Coo]], *, durable: bool) -> None:
        """Store chunks by such lists, of the array's dtype; their shape is that of the cells within the array."""
        ...


@runtime_checkable
class CarriesBlosc(Protocol):
    """Whose stored chunks are bare Blosc-1 buffers: they go as they are into a source with an equal ``container``."""

    @property
    def container(self) -> Hashable | None:
        """What lies in them: type, shape of a chunk, order of its axes. None when they are no bare Blosc buffers."""
        ...

    @property
    def pads(self) -> bool:
        """Return whether a chunk at the array's edge is stored whole; else only its cells within the array are."""
        ...

    def raw(self, coords: Coords) -> bytes | None:
        """A stored chunk, any digest verified and taken off; None when it was never written."""
        ...

    def put_raw(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store chunks as they are. When the grid has an outer one, all of them lie in one outer chunk."""
        ...
