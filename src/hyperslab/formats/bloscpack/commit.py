"""What a transaction does to the file that is there: changes in place where everything fits, else a new file.

In place: chunks that fit where the old ones lie, with room inside them; the last one and those behind it; header,
metadata and offsets where the old ones are. Only in files whose chunks have checksums, for a reader beside the writer
must notice that a chunk changed under its hands. Chunks that did not change go into a new file as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hyperslab.codecs.base import Buffer
from hyperslab.codecs.blosc import HEADER
from hyperslab.errors import CorruptChunk, StorageError
from hyperslab.formats.bloscpack import header as headers
from hyperslab.formats.bloscpack.atomic_file import AtomicFile, Piece, assemble
from hyperslab.formats.bloscpack.document import Content, render
from hyperslab.formats.bloscpack.encoding import refitted
from hyperslab.formats.bloscpack.journal import MOST, Change, journal_bytes, patch
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.bloscpack.preamble import Preamble, Room, render_front, section_in, text_of
from hyperslab.formats.bloscpack.table import ChunkTable
from hyperslab.stores.files import read_at, write_errors


@dataclass(frozen=True)
class Old:
    """The file that is there: open for reading and writing, its front, its chunks, and what it holds."""

    path: str
    descriptor: int
    front: Preamble
    table: ChunkTable
    content: Content

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.descriptor).st_size

    def stored(self, number: int) -> int:
        """Bytes of a stored chunk without its digest; CorruptChunk when its header makes no sense."""
        start, room = int(self.table.starts[number]), int(self.table.rooms[number])
        head = read_at(self.descriptor, HEADER.size, start) if room >= HEADER.size else b""
        size = int(HEADER.unpack(head)[6]) if len(head) == HEADER.size else 0
        if not HEADER.size <= size <= room - self.table.digest_size:
            raise CorruptChunk("its stored size makes no sense", expected=f"{HEADER.size} to {room}", found=size)
        return size

    def room_behind(self, number: int) -> int:
        """Return bytes that a chunk and its digest may take where others left room behind the digest; 0 where there is
        none.

        Only offsets lead past such room: what has none is read from chunk to chunk.
        """
        room = int(self.table.rooms[number])
        is_left = room > self.stored(number) + self.table.digest_size
        return room if is_left and self.front.header.has_offsets else 0


@dataclass
class Patch:
    """Changes in place: those within the file, those behind its end by number of the chunk, and its new size."""

    changes: list[Change] = field(default_factory=list)
    behind: range = range(0)
    begin: int = 0
    size: int = 0
    nbytes: int = 0

    def add(self, offset: int, data: Buffer) -> bool:
        """One more change; whether they are not yet too many to be held in memory, and in a journal."""
        self.changes.append((offset, data))
        self.nbytes += len(data)
        return self.nbytes <= MOST


def commit(old: Old, held: PendingChunks, url: str, *, documents: bool, durable: bool) -> None:
    """Make the file what ``held`` says; StorageError or ReadOnly, and the file is what it was. The lock is held.

    ``documents``: whether the metadata may be others.
    """
    held.settle()
    with write_errors(url, os.path.basename(old.path)):
        plan = plan_patch(old, held, documents=documents)
        if plan is None:
            _replace(old, held, durable)
        else:
            behind = _behind(plan, held)
            patch(old.path, old.descriptor, plan.changes, plan.size, durable=durable, behind=behind)


# -- in place -----------------------------------------------------------------------------------------------------


def plan_patch(old: Old, held: PendingChunks, *, documents: bool) -> Patch | None:
    """The changes in place that make the file what it shall be; None where it has to be written anew."""
    front, table = old.front, old.table
    if not _takes_changes(old, held):
        return None
    plan = Patch(size=old.size)
    if not (_plan_chunks(plan, old, held) and _plan_offsets(plan, old, held)):
        return None
    if documents and not _plan_metadata(plan, old, held):
        return None
    sizes = held.said_sizes
    new = front.header.evolve(
        chunk_size=sizes.chunk,
        last_chunk=sizes.last,
        nchunks=sizes.count,
        max_app=max(0, front.header.slots - sizes.count) if front.header.layout == "v3" else 0,
    )
    if new != front.header:
        if sizes.chunk != front.header.chunk_size and min(table.found, sizes.count) > 1:
            return None
        plan.add(0, headers.render(new))
    return plan if journal_bytes(plan.changes, old.size, plan.size) <= MOST else None


def _takes_changes(old: Old, held: PendingChunks) -> bool:
    """Return whether the file is as we, or bloscpack, write it: checksums, chunks in order, none missing."""
    header, table = old.front.header, old.table
    return (
        header.layout in ("v3", "spec")
        and os.fstat(old.descriptor).st_nlink == 1  # beside another name of the file there is no journal
        and header.checksum == held.style.checksum != 0
        and held.base is not None
        and not (table.unfinished or table.fault)
        and header.nchunks == table.found
        and table.found > 0
        and bool((np.diff(table.starts) > 0).all() and (table.rooms >= HEADER.size + table.digest_size).all())
        and is_aligned(old, held)
    )


def is_aligned(old: Old, held: PendingChunks) -> bool:
    """Return whether the stored chunks are those that are held by number."""
    size = held.rows * held.content.row
    return old.table.edges is None and (
        old.table.chunk_size == size or (old.table.found == 1 and old.table.last <= size)
    )


def _plan_chunks(plan: Patch, old: Old, held: PendingChunks) -> bool:
    """Chunks that changed where the old ones lie; from ``tail`` on one behind the other, to the end of the file."""
    table, digest = old.table, held.style.digest
    count, last = held.count, min(old.table.found, held.count) - 1
    tail = last + 1
    for number in held.slots:
        slot = held.slots.get(number) if number <= last else None
        if slot is None:
            continue
        fitting = refitted(slot, old.stored(number), digest)
        if fitting is None and number < last and len(slot) <= old.room_behind(number):
            fitting = slot
        if fitting is None and number < last:
            return False
        if fitting is None or (number == last and count != table.found):
            tail = last
        elif not plan.add(int(table.starts[number]), fitting):
            return False
    if tail == last + 1 and count == table.found:
        return True
    plan.begin = int(table.starts[tail]) if tail <= last else _end(old, last)
    return _plan_tail(plan, old, held, tail)


def _end(old: Old, number: int) -> int:
    """Where a stored chunk and its digest end."""
    return int(old.table.starts[number]) + old.stored(number) + old.table.digest_size


def _plan_tail(plan: Patch, old: Old, held: PendingChunks, tail: int) -> bool:
    """What begins within the old file is journaled, the rest is written one chunk after the other."""
    at, number = plan.begin, tail
    while number < held.count and at < old.size:
        slot = held.slots.get(number) or held.missing(number)
        if not plan.add(at, slot):
            return False
        at += len(slot)
        number += 1
    plan.begin, plan.behind = at, range(number, held.count)
    plan.size = at + sum(_size_of(held, each) for each in plan.behind)
    return True


def _size_of(held: PendingChunks, number: int) -> int:
    return held.slots.size_of(number) if number in held.slots else len(held.missing(number))


def _behind(plan: Patch, held: PendingChunks) -> Iterator[Change]:
    at = plan.begin
    for number in plan.behind:
        slot = held.slots.get(number) or held.missing(number)
        yield at, slot
        at += len(slot)


def _plan_metadata(plan: Patch, old: Old, held: PendingChunks) -> bool:
    text = text_of(held.content, held.style)
    if text == text_of(old.content, held.style):
        return True
    if not old.front.header.has_metadata:
        return not render(held.content)
    if old.front.section is not None:
        section = section_in(text, held.style, old.front.section.room)
        if section is not None:
            plan.add(headers.SIZE, section)
        return section is not None
    room = old.front.header.meta_size
    plan.add(headers.SIZE, text.ljust(room))
    return len(text) <= room


def _plan_offsets(plan: Patch, old: Old, held: PendingChunks) -> bool:
    header, table, count = old.front.header, old.table, held.count
    if not header.has_offsets or count == table.found:
        return True
    if count > header.slots or header.layout != "v3":
        return False
    at = old.front.offsets_at
    if count < table.found:
        return plan.add(at + 8 * count, b"\xff" * 8 * (table.found - count))
    tail = [_size_of(held, number) for number in range(table.found, count)]
    starts = plan.size - np.cumsum(np.array(tail[::-1], "<i8"))[::-1]
    return plan.add(at + 8 * table.found, starts.astype("<i8").tobytes())


# -- a new file ---------------------------------------------------------------------------------------------------


def _replace(old: Old, held: PendingChunks, durable: bool) -> None:
    """Write the file anew beside its place and put it there."""
    sizes = held.said_sizes
    style = held.style.evolve(metadata=held.style.metadata or bool(render(held.content)))
    whole = is_aligned(old, held) and old.front.header.checksum == style.checksum
    numbers = range(sizes.count)
    lengths = [_length(old, held, number, whole) for number in numbers]
    text = text_of(held.content, style)
    front = render_front(style, text, sizes, Room.of(style, text, sizes.count), lengths)
    if front is None:
        raise StorageError("the header of the file cannot be made")
    beside = AtomicFile(old.path, os.fstat(old.descriptor).st_mode)
    try:
        assemble(beside.descriptor, front, (_piece(old, held, number, whole) for number in numbers))
        beside.publish(durable=durable)
    except BaseException:
        beside.discard()
        raise


def _is_kept(old: Old, held: PendingChunks, number: int, whole: bool) -> bool:
    """Return whether a chunk is in the new file what it is in the old one."""
    kept = held.base is not None and number * held.rows < held.base.length
    return whole and kept and number < old.table.found and number not in held.slots


def _length(old: Old, held: PendingChunks, number: int, whole: bool) -> int:
    """Bytes of a slot; one that is cut or encoded in another way is made and waits."""
    if _is_kept(old, held, number, whole):
        return old.stored(number) + old.table.digest_size
    if number not in held.slots and held.base is not None and number * held.rows < held.base.length:
        held.put(number, held.block(number))
    return _size_of(held, number)


def _piece(old: Old, held: PendingChunks, number: int, whole: bool) -> Piece:
    if _is_kept(old, held, number, whole):
        return old.descriptor, int(old.table.starts[number]), old.stored(number) + old.table.digest_size
    return held.slots.get(number) or held.missing(number)
