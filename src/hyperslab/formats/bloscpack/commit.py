"""Change a file that is there: in place where everything fits, else by a new file in its place.

In place: chunks that fit where the old ones lie, with room inside them; the last one and those behind it; header,
metadata and offsets where the old ones are. Only in files whose chunks have checksums, for a reader beside the writer
must notice that a chunk changed under its hands. Chunks that did not change go into a new file as they are.

A kill at any moment leaves the old state or the new one: :mod:`hyperslab.stores.atomic_file`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer
from hyperslab.codecs.blosc import HEADER
from hyperslab.errors import Conflict, CorruptChunk, HyperslabError, MissingChunks, StorageError
from hyperslab.formats.bloscpack import preamble as headers
from hyperslab.formats.bloscpack.chunk_table import ChunkTable, TableCache, read_table
from hyperslab.formats.bloscpack.dataset import read_content
from hyperslab.formats.bloscpack.document import Content, parse_document, render_document
from hyperslab.formats.bloscpack.encoding import CODEC, BloscpackOptions, default_rows, refitted, typesize_of
from hyperslab.formats.bloscpack.file import LocalFile, read_stable
from hyperslab.formats.bloscpack.pending_chunks import ArrayOnDisk, ChunkStaging, PendingChunks
from hyperslab.formats.bloscpack.preamble import (
    Preamble,
    Room,
    Style,
    read_preamble,
    render_preamble,
    section_in,
    text_of,
)
from hyperslab.formats.bloscpack.source import StreamChunks
from hyperslab.model.spec import Codec
from hyperslab.stores.atomic_file import JOURNAL_BYTES, AtomicFile, Change, assemble, journal_bytes, patch_file
from hyperslab.stores.files import read_at, version_of, write_errors
from hyperslab.stores.system import ALWAYS, IS_WINDOWS

# -- the file as it is before the change ----------------------------------------------------------------------------
#
# Writers look without a lock, and again once they hold it.


@dataclass(eq=False)
class FileSnapshot:
    """An open file of one version: its preamble, its chunks, and what it holds, as its metadata ``declared`` it and in
    truth (``content``). ``state``: what a writer made of it."""

    file: LocalFile
    stamp: Any
    preamble: Preamble
    tables: TableCache
    declared: Content
    content: Content
    state: Any = None

    @property
    def table(self) -> ChunkTable:
        """The places of the chunks."""
        return self.tables.get()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.file.descriptor).st_size

    def stored_size(self, number: int) -> int:
        """Return the bytes of a stored chunk without its digest; CorruptChunk when its header makes no sense."""
        start, room = int(self.table.starts[number]), int(self.table.rooms[number])
        head = read_at(self.file.descriptor, HEADER.size, start) if room >= HEADER.size else b""
        size = int(HEADER.unpack(head)[6]) if len(head) == HEADER.size else 0
        if not HEADER.size <= size <= room - self.table.digest_size:
            raise CorruptChunk("its stored size makes no sense", expected=f"{HEADER.size} to {room}", found=size)
        return size

    def room_behind(self, number: int) -> int:
        """Return the bytes that a chunk and its digest may take where others left room behind the digest, else 0.

        Only offsets lead past such room: what has none is read from chunk to chunk.
        """
        room = int(self.table.rooms[number])
        is_left = room > self.stored_size(number) + self.table.digest_size
        return room if is_left and self.preamble.header.has_offsets else 0


def read_snapshot(path: str, url: str, *, whole: bool = False) -> FileSnapshot:
    """Open a file and read all of it but its cells; NotFound, FormatError. It is looked at again while it changes.

    ``whole``: as for :func:`read_content`.
    """
    file = LocalFile(path, url)

    def read() -> FileSnapshot:
        preamble = read_preamble(file)
        try:
            content = read_content(file, preamble)
        except MissingChunks:  # bytes whose writer never came to their end: those that are there
            content = parse_document(
                preamble.doc, nbytes=found_bytes(read_table(file, preamble)), chunk_size=preamble.header.chunk_size
            )
        expected = -1 if content.plain else content.nbytes
        first = [preamble]
        tables = TableCache(file, lambda: read_table(file, first.pop() if first else read_preamble(file), expected))
        tables.get()
        longer = read_content(file, preamble, whole=True) if whole and content.surplus else content
        return FileSnapshot(file, file.stamp(), preamble, tables, content, longer)

    try:
        return read_stable(file, read)[1]
    except HyperslabError as error:
        raise error.locate(url=url) from error.__cause__


def found_bytes(table: ChunkTable) -> int:
    """Return the bytes of the stream that are in the chunks that are there."""
    whole = table.edges is None and table.found < table.declared
    return table.chunk_size * table.found if whole else table.nbytes


def is_same(snapshot: FileSnapshot, path: str) -> bool:
    """Return True if the path still leads to this version."""
    try:
        return bool(version_of(os.stat(path)) == snapshot.stamp)
    except OSError:
        return False


def pending_chunks_of(snapshot: FileSnapshot, options: BloscpackOptions, url: str, rows: int = 0) -> PendingChunks:
    """Return the chunks of the file, to be changed. ``rows`` of each before: they stay where the file says nothing of
    them."""
    preamble, content = snapshot.preamble, snapshot.content
    # Chunks of Snappy are read, and written as LZ4.
    codecs = tuple(
        Codec("blosc", {**codec.config, "cname": "lz4"}) if codec.config.get("cname") == "snappy" else codec
        for codec in content.spec.codecs
    )
    spec = content.spec.evolve(codecs=codecs or (CODEC,), layout={})
    content = content.evolve(labelled=replace(content.labelled, spec=spec))
    style = replace(
        Style.of(preamble.header, preamble.section),
        typesize=preamble.header.typesize if preamble.header.layout != "v1" else typesize_of(content.stored.itemsize),
        metadata=preamble.header.has_metadata or not content.plain,
    )
    folder = snapshot.file.folder
    pending = PendingChunks(
        content, _rows(snapshot, options, rows), style, options.slack, lambda: ChunkStaging(folder), url
    )
    stream = StreamChunks(
        snapshot.file, snapshot.tables, snapshot.content, preamble.header.digest, content.labelled.name
    )
    pending.base = ArrayOnDisk(stream, snapshot.content, pending.length)
    return pending


def _rows(snapshot: FileSnapshot, options: BloscpackOptions, before: int) -> int:
    """Return the rows of a chunk, as the file has them; where stored chunks end within rows, they are cut anew.

    A single chunk that is as large as the array says nothing of others to come.
    """
    content, table = snapshot.content, snapshot.table
    shape, row, axis = content.spec.shape, content.row, content.axis
    if not shape:
        return 1
    usual = default_rows((*shape[:axis], 0, *shape[axis + 1 :]), row, axis, options.chunk_bytes)
    size = table.uniform
    if not row or (not content.nbytes and size <= 0):
        return max(before, usual, shape[axis])
    if size > 0 and size % row == 0:
        if table.found > 1 or size != table.last:
            return size // row
        return before if before * row >= size else max(size // row, usual)
    cut: Any = content.spec.chunks[axis]
    return max(int(cut), 1)


# -- the change -----------------------------------------------------------------------------------------------------


@dataclass
class Patch:
    """Changes in place: those within the file, those behind its end by number of the chunk, and its new size."""

    changes: list[Change] = field(default_factory=list)
    behind: range = range(0)
    begin: int = 0
    size: int = 0
    nbytes: int = 0

    def add(self, offset: int, data: Buffer) -> bool:
        """Add a change; return whether they are not yet too many to be held in memory, and in a journal."""
        self.changes.append((offset, data))
        self.nbytes += len(data)
        return self.nbytes <= JOURNAL_BYTES


def commit(old: FileSnapshot, pending: PendingChunks, url: str, *, documents: bool, durable: bool) -> None:
    """Make the file what ``pending`` says; Conflict, StorageError or ReadOnly, and the file is what it was. The lock is
    held.

    ``documents``: whether the metadata may be others.
    """
    with write_errors(url, os.path.basename(old.file.path)):
        with _open_same(old, url) as descriptor:
            pending.rewrite_edges()
            plan = plan_patch(old, pending, documents=documents)
            if plan is not None:
                behind = _behind(plan, pending)
                patch_file(old.file.path, descriptor, plan.changes, plan.size, durable=durable, behind=behind)
                return
        _replace(old, pending, durable)


@contextmanager
def _open_same(old: FileSnapshot, url: str) -> Iterator[int]:
    """Yield a descriptor to change the file by; Conflict where another one has its name by now.

    The lock keeps hyperslab's writers away, and no other program: a file that took the name meanwhile stays.
    """
    descriptor = os.open(old.file.path, os.O_RDWR | ALWAYS)
    try:
        if version_of(os.fstat(descriptor)) != old.stamp:
            remedy = "look at what is there now, and repeat the changes"
            raise Conflict("another program put another file in its place", url=url, remedy=remedy)
        yield descriptor
    finally:
        os.close(descriptor)


# -- in place -----------------------------------------------------------------------------------------------------


def plan_patch(old: FileSnapshot, pending: PendingChunks, *, documents: bool) -> Patch | None:
    """Return the changes in place that make the file what it shall be; None where it has to be written anew."""
    preamble, table = old.preamble, old.table
    if not _takes_changes(old, pending):
        return None
    plan = Patch(size=old.size)
    if not (_plan_chunks(plan, old, pending) and _plan_offsets(plan, old, pending)):
        return None
    if documents and not _plan_metadata(plan, old, pending):
        return None
    sizes = pending.header_sizes
    new = replace(
        preamble.header,
        chunk_size=sizes.chunk,
        last_chunk=sizes.last,
        nchunks=sizes.count,
        max_app=max(0, preamble.header.slots - sizes.count) if preamble.header.layout == "v3" else 0,
    )
    if new != preamble.header:
        if sizes.chunk != preamble.header.chunk_size and min(table.found, sizes.count) > 1:
            return None
        plan.add(0, headers.render_header(new))
    return plan if journal_bytes(plan.changes, old.size, plan.size) <= JOURNAL_BYTES else None


def _takes_changes(old: FileSnapshot, pending: PendingChunks) -> bool:
    """Return True if the file is as we, or bloscpack, write it: checksums, chunks in order, none missing."""
    header, table = old.preamble.header, old.table
    return (
        header.layout in ("v3", "spec")
        and os.fstat(old.file.descriptor).st_nlink == 1  # beside another name of the file there is no journal
        and header.checksum == pending.style.checksum != 0
        and pending.base is not None
        and not (table.unfinished or table.fault)
        and header.nchunks == table.found
        and table.found > 0
        and bool((np.diff(table.starts) > 0).all() and (table.rooms >= HEADER.size + table.digest_size).all())
        and is_aligned(old, pending)
    )


def is_aligned(old: FileSnapshot, pending: PendingChunks) -> bool:
    """Return True if the stored chunks are those that are held by number."""
    size = pending.rows * pending.content.row
    return old.table.edges is None and (
        old.table.chunk_size == size or (old.table.found == 1 and old.table.last <= size)
    )


def _plan_chunks(plan: Patch, old: FileSnapshot, pending: PendingChunks) -> bool:
    """Plan the chunks that changed where the old ones lie; from ``tail`` on one behind the other, to the end of the
    file."""
    table, digest = old.table, pending.style.digest
    count, last = pending.count, min(old.table.found, pending.count) - 1
    tail = last + 1
    # A chunk stays at its place if it has the stored size of the old one (zeros within it fill it up), or if others
    # left room behind that one; else the whole file is written anew.
    for number in pending.slots:
        slot = pending.slots.get(number) if number <= last else None
        if slot is None:
            continue
        fitting = refitted(slot, old.stored_size(number), digest)
        if fitting is None and number < last and len(slot) <= old.room_behind(number):
            fitting = slot
        if fitting is None and number < last:
            return False
        # The last chunk may take another size: all behind it is written anew.
        if fitting is None or (number == last and count != table.found):
            tail = last
        elif not plan.add(int(table.starts[number]), fitting):
            return False
    if tail == last + 1 and count == table.found:
        return True
    if tail <= last:
        return _plan_tail(plan, old, pending, tail, int(table.starts[tail]))
    end = int(table.starts[last]) + old.stored_size(last) + table.digest_size
    return _plan_tail(plan, old, pending, tail, end)


def _plan_tail(plan: Patch, old: FileSnapshot, pending: PendingChunks, tail: int, at: int) -> bool:
    """Plan the chunks from ``tail`` on, the first at byte ``at``: what begins within the old file is journaled, the
    rest is written one chunk after the other."""
    number = tail
    while number < pending.count and at < old.size:
        slot = pending.slot(number)
        if not plan.add(at, slot):
            return False
        at += len(slot)
        number += 1
    plan.begin, plan.behind = at, range(number, pending.count)
    plan.size = at + sum(map(pending.slot_size, plan.behind))
    return True


def _behind(plan: Patch, pending: PendingChunks) -> Iterator[Change]:
    """Yield the chunks behind the end of the old file, each when the one before is written."""
    at = plan.begin
    for number in plan.behind:
        slot = pending.slot(number)
        yield at, slot
        at += len(slot)


def _plan_metadata(plan: Patch, old: FileSnapshot, pending: PendingChunks) -> bool:
    text = text_of(pending.content, pending.style)
    if text == text_of(old.declared, pending.style):
        return True
    if not old.preamble.header.has_metadata:
        return not render_document(pending.content)
    if old.preamble.section is not None:
        section = section_in(text, pending.style, old.preamble.section.room)
        if section is not None:
            plan.add(headers.SIZE, section)
        return section is not None
    room = old.preamble.header.meta_size
    plan.add(headers.SIZE, text.ljust(room))
    return len(text) <= room


def _plan_offsets(plan: Patch, old: FileSnapshot, pending: PendingChunks) -> bool:
    header, table, count = old.preamble.header, old.table, pending.count
    if not header.has_offsets or count == table.found:
        return True
    if count > header.slots or header.layout != "v3":
        return False
    at = old.preamble.offsets_at
    if count < table.found:
        return plan.add(at + 8 * count, b"\xff" * 8 * (table.found - count))
    # The new slots end with the file, so their starts follow from its new size, backwards.
    backwards = [pending.slot_size(number) for number in reversed(range(table.found, count))]
    starts = plan.size - np.cumsum(np.array(backwards, "<i8"))[::-1]
    return plan.add(at + 8 * table.found, starts.astype("<i8").tobytes())


# -- a new file ---------------------------------------------------------------------------------------------------


def _replace(old: FileSnapshot, pending: PendingChunks, durable: bool) -> None:
    """Write the file anew beside its place and put it there."""
    sizes, table = pending.header_sizes, old.table
    style = replace(pending.style, metadata=pending.style.metadata or bool(render_document(pending.content)))
    has_same_chunks = is_aligned(old, pending) and old.preamble.header.checksum == style.checksum
    # A chunk that did not change is copied as it is stored. One that is cut or encoded in another way is made first and
    # staged: the offsets, which stand before the chunks, follow from the bytes of all of them.
    copies: dict[int, int] = {}
    for number in range(sizes.count):
        if pending.is_on_disk(number) and number not in pending.slots:
            if has_same_chunks and number < table.found:
                copies[number] = old.stored_size(number) + table.digest_size
            else:
                pending.put(number, pending.block(number))
    lengths = [copies.get(number) or pending.slot_size(number) for number in range(sizes.count)]
    text = text_of(pending.content, style)
    preamble = render_preamble(style, text, sizes, Room.of(style, text, sizes.count), lengths)
    if preamble is None:
        raise StorageError("the header of the file cannot be made")
    pieces = (
        (old.file.descriptor, int(table.starts[number]), copies[number]) if number in copies else pending.slot(number)
        for number in range(sizes.count)
    )
    temporary = AtomicFile(old.file.path, os.fstat(old.file.descriptor).st_mode)
    try:
        assemble(temporary.descriptor, preamble, pieces)
        if IS_WINDOWS:  # which replaces no file that is open
            old.file.close()
        temporary.publish(durable=durable)
    except BaseException:
        temporary.discard()
        raise
