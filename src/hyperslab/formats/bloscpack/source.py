"""The cells of an array that lies as one stream of bytes in Blosc chunks, cut where it suited its writer.

The grid that is shown has whole rows. Where every stored chunk holds whole rows, a chunk of the grid is a stored one,
and decodes straight into the result; elsewhere it is a range of the stream, put together from the stored chunks that
hold it. Every digest is verified, also when only a part of a chunk is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.memory import require
from hyperslab.chunks.source import Block, ChunkReader, SourceTraits, Within
from hyperslab.codecs.base import Buffer
from hyperslab.codecs.blosc import HEADER, Blosc, container, decode_part
from hyperslab.codecs.checksums import Digest
from hyperslab.errors import CorruptChunk, HyperslabError, MissingChunks, Replaced
from hyperslab.formats.bloscpack.chunk_table import ChunkTable, TableCache
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.file import FileBytes, LocalFile, ServedFile, Stamp
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.model.spec import Codec
from hyperslab.stores.base import Scratch

ReadChunk = Callable[[ChunkTable, int], tuple[Buffer, int]]
"""A stored chunk whose digest is right, and the bytes that it decodes to."""

_KEPT = 4 << 20
_SCRATCH = Scratch()
"""For chunks of up to ``_KEPT`` bytes of whatever file: memory that a thread has used before costs it nothing."""


# A chunk that is wrong is read again while its file changes, so often at the most; one that is wrong in a file at rest
# is damaged.
_ATTEMPTS = 50


class StreamChunks(ReadOnlyChunks):
    """One array over the chunks of a file."""

    traits = SourceTraits(reads_parts=True, stamped=True, lists_chunks=True)

    def __init__(self, file: FileBytes, tables: TableCache, content: Content, digest: Digest, node: str) -> None:
        self._file: Any = file
        self._tables = tables
        self._table: ChunkTable | None = None
        self._digest = digest
        self._node = node
        spec = content.spec
        self.grid = Grid.of(spec.shape, spec.chunks)
        self._content = content
        self._turns = content.order == "F"
        self._axis = content.axis
        self._length = spec.shape[content.axis] if spec.shape else 1
        self._row = content.row
        self._rows = (self.grid.fixed or (1,))[content.axis] if spec.shape else 1
        self._shape = spec.shape[-2::-1] if self._turns else spec.shape[1:]
        self._direct = not self._turns and content.stored == spec.numpy_dtype
        self._fits = self._direct and not content.surplus
        self._chunks_match = False
        self._scratch = Scratch()

    def table(self) -> ChunkTable:
        """Return where the stored chunks lie."""
        if self._table is None:
            table = self._tables.get()
            self._chunks_match = self._fits and table.edges is None and table.chunk_size == self._rows * self._row
            self._table = table
        return self._table

    # -- a chunk of the grid ----------------------------------------------------------------------------------------

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; what lies behind the array's edge is left as it is."""
        self._fill(coords, out, self._read_chunk)
        return True

    def _fill(self, coords: Coords, out: Block, read_chunk: ReadChunk) -> None:
        table = self._table or self.table()
        number = coords[self._axis] if coords else 0
        if self._chunks_match:
            try:
                chunk, size = read_chunk(table, number)
                Blosc.decode_into(chunk, out.reshape(-1).view(np.uint8).data[:size])
            except HyperslabError as error:
                nbytes = min(self._rows, self._length - number * self._rows) * self._row
                self._retry(error, table, number, 0, out.reshape(-1).view(np.uint8).data[:nbytes])
            return
        first = number * self._rows
        count = min(self._rows, self._length - first)
        if self._direct:
            self._gather(table, first * self._row, out.reshape(-1).view(np.uint8).data[: count * self._row], read_chunk)
        elif coords:
            self._in_stream_order(out)[:count] = self._rows_of(table, first, count, read_chunk)
        else:
            out[...] = self._rows_of(table, first, count, read_chunk)

    def _rows_of(self, table: ChunkTable, first: int, count: int, read_chunk: ReadChunk) -> Block:
        """Return the rows of the array as they lie in the stream: the slowest axis first."""
        rows = np.empty((count, *self._shape) if self.grid.axes else (), self._content.stored)
        self._gather(table, first * self._row, rows.reshape(-1).view(np.uint8).data, read_chunk)
        return rows

    def _in_stream_order(self, block: Block) -> Block:
        """Return a block with its axes in the order of the stream."""
        return block.T if self._turns else block

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Decode only the rows that hold the cells ``within``, and of large chunks only the blocks that hold those."""
        self._fill_part(coords, within, out, self._read_chunk)
        return True

    def _fill_part(self, coords: Coords, within: Within, out: Block, read_chunk: ReadChunk) -> None:
        table = self._table or self.table()
        rows = within[self._axis]
        first = coords[self._axis] * self._rows + rows.start
        if self._direct and rows.step in (None, 1) and out.flags.c_contiguous and out.shape[1:] == self._shape:
            self._gather(table, first * self._row, out.reshape(-1).view(np.uint8).data, read_chunk)
            return
        others = [part for axis, part in enumerate(within) if axis != self._axis]
        count = range(rows.start, rows.stop, rows.step or 1)[-1] + 1 - rows.start
        cells = self._rows_of(table, first, count, read_chunk)
        self._in_stream_order(out)[...] = cells[
            (slice(None, None, rows.step), *(others[::-1] if self._turns else others))
        ]

    # -- the stream -------------------------------------------------------------------------------------------------

    def _gather(self, table: ChunkTable, start: int, out: memoryview, read_chunk: ReadChunk) -> None:
        """Fill ``out`` with the bytes of the stream from ``start`` on."""
        done = 0
        while done < len(out):
            number = table.find(start + done)
            begin, end = table.span(number)
            within = start + done - begin
            part = out[done : done + min(end - begin - within, len(out) - done)]
            if not part:
                raise self._locate_error(table.missing(number), table, number)
            try:
                self._decode(table, number, within, part, read_chunk)
            except HyperslabError as error:
                self._retry(error, table, number, within, part)
            done += len(part)

    def _decode(self, table: ChunkTable, number: int, start: int, out: memoryview, read_chunk: ReadChunk) -> None:
        """Decode the bytes of a stored chunk from ``start`` on."""
        chunk, size = read_chunk(table, number)
        if len(out) == size:
            Blosc.decode_into(chunk, out)
        else:
            decode_part(chunk, start, out, size)

    def _retry(self, error: HyperslabError, table: ChunkTable, number: int, start: int, out: memoryview) -> None:
        """Read a chunk once more, and again while the file changes; else raise what was wrong with it.

        A writer may be changing the chunk right now, where it lies: its digest tells.
        """
        # A digest that is wrong may be that of a chunk half written: only when nothing was changing at two reads in a
        # row is the chunk itself wrong. The clock of a file system may tick only every few ms, so the table is read
        # anew first.
        calm = False  # whether nothing was changing when it was last read
        for attempt in range(_ATTEMPTS):
            if not isinstance(error, CorruptChunk | MissingChunks):
                break
            present = self._tables.refreshed(table) if attempt else self._tables.reload()
            is_at_work = isinstance(self._file, LocalFile) and self._file.has_journal()
            still = present is table and not is_at_work and self._tables.refreshed(table) is table
            if still and calm:
                break
            calm = still
            self._table, table = None, present
            try:
                size = present.entry(number)[2]
                if size < start + len(out):
                    raise present.missing(number)
                self._decode(present, number, start, out, self._read_chunk)
                return
            except HyperslabError as another:
                error = another
        if isinstance(error, MissingChunks) and not (table.fault or table.unfinished):
            error = Replaced("the file became shorter", remedy="call refresh() to see it as it is now")
        raise self._locate_error(error, table, number) from error.__cause__

    def _read_chunk(self, table: ChunkTable, number: int) -> tuple[Buffer, int]:
        """Read a chunk into the scratch memory of this thread."""
        offset, size, nbytes = table.entry(number)
        scratch = _SCRATCH if size <= _KEPT else self._scratch
        data = scratch.buffer
        if size > len(data):
            require(size, None)
            data = scratch.reserve(size)
        data = data[:size]
        self._file.pread_into(data, offset)
        return self._verified(data, nbytes), nbytes

    def _verified(self, data: memoryview, nbytes: int) -> memoryview:
        """Return the chunk alone, of what was read from its place on; CorruptChunk when its digest is not right."""
        stored = int.from_bytes(data[12:16], "little")
        chunk, size = data[:stored], self._digest.size
        if not HEADER.size <= stored <= len(data) - size:
            limit = min(len(data) - size, nbytes + HEADER.size)
            raise CorruptChunk("its stored size makes no sense", expected=f"{HEADER.size} to {limit}", found=stored)
        if size and self._digest.of(chunk) != data[stored : stored + size]:
            self._digest.check(chunk, data[stored : stored + size])
        return chunk

    def _locate_error(self, error: HyperslabError, table: ChunkTable, number: int) -> HyperslabError:
        at = f" at byte {table.starts[number]}" if number < table.found else ""
        return error.locate(url=self._file.url, node=self._node, key=f"chunk {number}{at}")

    def verify(self, number: int, *, decode: bool) -> None:
        """Raise what is wrong with a stored chunk: its place, its header; with ``decode`` its digest and its blocks."""
        table = self._table or self.table()
        try:
            offset, size, nbytes = table.entry(number)
            if decode:
                chunk, _ = self._read_chunk(table, number)
                require(nbytes, None)
                Blosc.decode_into(chunk, np.empty(nbytes, np.uint8).data)
                return
            _, _, _, _, found, _, stored = HEADER.unpack(self._file.pread(HEADER.size, offset))
            if found != nbytes or not HEADER.size <= stored <= size - self._digest.size:
                expected = f"{nbytes} bytes, stored in at most {size - self._digest.size}"
                raise CorruptChunk("its header makes no sense", expected=expected, found=f"{found} in {stored}")
        except HyperslabError as error:
            raise self._locate_error(error, table, number) from error.__cause__

    # -- what else can be asked -------------------------------------------------------------------------------------

    def read(self, coords: Coords) -> Block:
        """Return the decoded chunk; cells behind the array's edge are zero."""
        block = np.zeros(self.grid.chunk_shape(coords), self._content.spec.numpy_dtype)
        self.read_into(coords, block)
        return block

    @property
    def blosc_container(self) -> Hashable | None:
        """The contents of the stored chunks, where each is a chunk of the grid; None where they are cut otherwise."""
        self.table()
        return container(self._content.stored, self.grid.fixed or ()) if self._chunks_match else None

    pads_edges = False

    def read_blosc(self, coords: Coords) -> bytes | None:
        table = self._table or self.table()
        number = coords[self._axis] if coords else 0
        try:
            return bytes(self._read_chunk(table, number)[0])
        except HyperslabError as error:
            raise self._locate_error(error, table, number) from error.__cause__

    def locations(self) -> ChunkLocations | None:
        """Return the stored chunks without their digests, where each is a chunk of the grid; a last one that is shorter
        counts as odd. None where they are cut otherwise."""
        table = self._table or self.table()
        shape, spec = self.grid.fixed, self._content.spec
        file = self._file.stored_file()
        if not self._chunks_match or shape is None or file is None or table.found < table.declared:
            return None
        whole = table.found - (table.last != table.chunk_size)
        headers = [self._file.pread(HEADER.size, start) for start in table.starts[:whole].tolist()]
        sizes = np.array([HEADER.unpack(header)[-1] for header in headers], np.int64)
        coords = np.zeros((table.found, len(shape)), np.int64)
        coords[:, self._axis] = np.arange(table.found)
        return ChunkLocations(
            (file,),
            shape,
            self._content.stored,
            (Codec("bytes"), *(codec for codec in spec.codecs if codec.name == "blosc")),
            coords[:whole],
            np.zeros(whole, np.int32),
            np.asarray(table.starts[:whole], np.int64),
            sizes,
            coords[whole:],
        )

    def stamp(self, coords: Coords) -> Stamp:
        """Return the stamp of the file: a chunk may lie in any of its bytes."""
        return self._file.stamp()

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of the stored chunks that hold these, digests included."""
        table = self._table or self.table()
        numbers: set[int] = set()
        for place in coords:
            numbers |= set(self.stored_chunks(table, place))
        return sum(int(table.rooms[number]) for number in numbers if number < table.found)

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """Return what is stored of a chunk, whatever is wrong with it; None where stored chunks are not those of the
        grid."""
        table = self._table or self.table()
        numbers = self.stored_chunks(table, coords)
        if len(numbers) != 1 or table.edges is not None or table.chunk_size != self._rows * self._row:
            return None
        try:
            offset, size, _ = table.entry(numbers[0])
            return bytes(self._file.pread(size, offset))
        except HyperslabError:
            return None

    def stored_chunks(self, table: ChunkTable, coords: Coords) -> range:
        """Return the stored chunks that hold a chunk of the grid."""
        first = (coords[self._axis] if coords else 0) * self._rows
        start, stop = first * self._row, min(first + self._rows, self._length) * self._row
        return range(table.find(start), table.find(stop - 1) + 1) if start < stop else range(0)

    def nbytes_stored(self) -> int:
        """Return the bytes of all stored chunks, digests included."""
        table = self._table or self.table()
        return int(np.maximum(table.rooms, 0).sum())


class ServedChunks(StreamChunks):
    """The same of a file on a server: what a batch of chunks needs comes by few requests."""

    def __init__(self, file: ServedFile, tables: TableCache, content: Content, digest: Digest, node: str) -> None:
        super().__init__(file, tables, content, digest, node)
        self.traits = replace(self.traits, concurrency=file.concurrency, fetches=True)

    def fetch(self, coords: Sequence[Coords]) -> _FetchedBuffers:
        """Fetch the stored bytes of these chunks."""
        table = self._table or self.table()
        numbers = sorted({number for place in coords for number in self.stored_chunks(table, place)})
        entries = []
        for number in numbers:
            try:
                entries.append(table.entry(number))
            except HyperslabError as error:
                raise self._locate_error(error, table, number) from error.__cause__
        parts = self._file.preads([(offset, offset + size) for offset, size, _ in entries])
        return _FetchedBuffers(self, dict(zip(numbers, parts, strict=True)))

    def _read_chunk(self, table: ChunkTable, number: int) -> tuple[Buffer, int]:
        offset, size, nbytes = table.entry(number)
        return self._verified(memoryview(self._file.pread(size, offset)), nbytes), nbytes


class _FetchedBuffers(ChunkReader):
    """Stored chunks that are here, to be decoded."""

    def __init__(self, source: ServedChunks, parts: dict[int, bytes]) -> None:
        self.grid = source.grid
        self._source = source
        self._parts = parts

    def read_into(self, coords: Coords, out: Block) -> bool:
        self._source._fill(coords, out, self._read_chunk)
        return True

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Decode only the rows that hold the cells ``within``."""
        self._source._fill_part(coords, within, out, self._read_chunk)
        return True

    def _read_chunk(self, table: ChunkTable, number: int) -> tuple[Buffer, int]:
        nbytes = table.entry(number)[2]
        return self._source._verified(memoryview(self._parts[number]), nbytes), nbytes


def open_stream(file: FileBytes, tables: TableCache, content: Content, digest: Digest, node: str) -> StreamChunks:
    """Return the cells of an array in a file of this machine or of a server."""
    if isinstance(file, ServedFile):
        return ServedChunks(file, tables, content, digest, node)
    return StreamChunks(file, tables, content, digest, node)
