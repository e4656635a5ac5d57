"""The chunks of the array as they will be in the file: those that were written since, over those that are stored.

A stored chunk has no more rows than the array; one at its end is made anew when the array gets longer or shorter.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from hyperslab.chunks import execute
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.codecs.blosc import HEADER, Blosc, may_move
from hyperslab.errors import Invalid
from hyperslab.formats.bloscpack.document import Content, in_rows
from hyperslab.formats.bloscpack.encoding import AUTO, Slack, blosc_of, sealed, with_slack
from hyperslab.formats.bloscpack.preamble import Sizes, Style
from hyperslab.formats.bloscpack.source import StreamChunks
from hyperslab.selection.region import Range, Region
from hyperslab.stores.files import read_at, write_at, write_errors

# -- where chunks wait until the file is written --------------------------------------------------------------------


Place = tuple[int, int]
"""Offset and length in the file."""

MEMORY = 64 << 20
"""Bytes that wait in memory; more go to the file."""


class ChunkStaging:
    """Slots by their number: stored chunks, each with its digest, that were written and are not yet in the file.

    Several threads may give them. ``folder``: where the file is that takes what is too much for memory.
    """

    def __init__(self, folder: str, memory: int = MEMORY) -> None:
        self._file: Any = None
        self._rest = ExitStack()
        self._folder = folder
        self._lock = threading.Lock()
        self._memory = memory
        self._slots: dict[int, bytes | Place] = {}
        self._end = 0
        self.nbytes = 0

    def put(self, number: int, slot: bytes) -> None:
        """Take a slot in place of an older one."""
        with self._lock:
            self._drop(number)
            if self.nbytes + len(slot) <= self._memory:
                self._slots[number] = slot
                self.nbytes += len(slot)
                return
            if self._file is None:
                with ExitStack() as stack:
                    self._file = stack.enter_context(tempfile.TemporaryFile(dir=self._folder))
                    self._rest = stack.pop_all()
            place = self._end, len(slot)
            self._end += len(slot)
        # Its place is its own, so the slot is written without the lock; others see it only when it is there.
        write_at(self._file.fileno(), slot, place[0])
        self._slots[number] = place

    def get(self, number: int) -> bytes | None:
        """Return the slot, None when none waits."""
        found = self._slots.get(number)
        if isinstance(found, tuple):
            return read_at(self._file.fileno(), found[1], found[0])
        return found

    def drop(self, number: int) -> None:
        """Forget a slot; missing is fine."""
        with self._lock:
            self._drop(number)

    def _drop(self, number: int) -> None:
        found = self._slots.pop(number, None)
        if isinstance(found, bytes):
            self.nbytes -= len(found)

    def size_of(self, number: int) -> int:
        """Return the bytes of a slot that waits."""
        found = self._slots[number]
        return found[1] if isinstance(found, tuple) else len(found)

    def cut(self, count: int) -> None:
        """Forget the slots from ``count`` on."""
        for number in [number for number in self._slots if number >= count]:
            self.drop(number)

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._slots))

    def __len__(self) -> int:
        return len(self._slots)

    def mark(self) -> dict[int, bytes | Place]:
        """Return what waits now, for :meth:`reset`."""
        return dict(self._slots)

    def reset(self, mark: dict[int, bytes | Place]) -> None:
        """Let wait again what waited when the mark was made."""
        self._slots = mark
        self.nbytes = sum(len(slot) for slot in mark.values() if isinstance(slot, bytes))

    def discard(self) -> None:
        """Forget all, and the file."""
        self._slots = {}
        self.nbytes = 0
        self._file, self._end = None, 0
        self._rest.close()

    __del__ = discard


# -- the chunks of the array ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayOnDisk:
    """The array as the file has it: ``rows`` in each of its chunks, ``length`` in all that still count."""

    stream: StreamChunks
    content: Content
    length: int


class PendingChunks:
    """Chunks of ``rows`` rows by their number. Several threads may put and read different ones. ``make_slots``: makes
    what keeps the slots."""

    def __init__(
        self, content: Content, rows: int, style: Style, slack: Slack, make_slots: Callable[[], ChunkStaging], url: str
    ) -> None:
        self.content = content
        self.rows = rows
        self.style = style
        self.slack = slack
        self.slots = make_slots()
        self.base: ArrayOnDisk | None = None
        self._url = url
        self._make_slots = make_slots
        self._blosc = blosc_of(content.spec.codecs, content.stored)
        self._edges: set[int] = set()
        self._blank: dict[int, bytes] = {}

    # -- how many ---------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Rows of the array."""
        return self.content.spec.shape[self.content.axis] if self.content.spec.shape else 1

    @property
    def count(self) -> int:
        """Chunks that the file will have, which is one at least."""
        return self.sizes.count

    @property
    def sizes(self) -> Sizes:
        """Bytes of the chunks before compression, and their number."""
        return Sizes.of(self.content.nbytes, self.rows * self.content.row)

    @property
    def header_sizes(self) -> Sizes:
        """The sizes for the header: an empty array in chunks that nobody chose has none, as in bloscpack."""
        return Sizes(0, 0, 1) if self.content.spec.layout.get(AUTO) and not self.content.nbytes else self.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a whole chunk."""
        return in_rows(self.content.spec.shape, self.content.order, self.rows)

    def rows_in(self, number: int) -> int:
        """Return the rows that a chunk will have."""
        return max(0, min(self.rows, self.length - number * self.rows))

    def is_on_disk(self, number: int) -> bool:
        """Return True if the file has rows of a chunk, which still count."""
        return self.base is not None and number * self.rows < self.base.length

    # -- cells ------------------------------------------------------------------------------------------------------

    def read_into(self, number: int, out: Block) -> bool:
        """Read a chunk into ``out``, with the fill value behind its rows; False when it was never written."""
        with self._medium():
            slot = self.slots.get(number)
        if slot is not None:
            rows = self._decode(slot, out)
        elif self.base is not None and self.is_on_disk(number) and self.base.content.nbytes:
            rows = self._read_base(self.base, number, out)
        else:
            return False
        if rows < self.rows:
            self._part(out, rows, self.rows)[...] = self.content.spec.fill_cell()
        return True

    def block(self, number: int) -> Block:
        """Return the whole chunk in memory of its own; the fill value where nothing was written."""
        out = np.empty(self.shape, self.content.spec.numpy_dtype)
        if not self.read_into(number, out):
            out[...] = self.content.spec.fill_cell()
        return out

    def _part(self, block: Block, start: int, stop: int) -> Block:
        """Return the rows of a block."""
        if not block.ndim:
            return block
        return block[start:stop] if self.content.axis == 0 else block[..., start:stop]

    def _decode(self, slot: bytes, out: Block) -> int:
        """Decode the cells of a slot into the first rows of ``out``; return how many rows those are."""
        size = self.style.digest.size
        chunk = memoryview(slot)[: len(slot) - size]
        self.style.digest.check(chunk, slot[len(slot) - size :])
        nbytes = HEADER.unpack_from(chunk)[4]
        if not nbytes:
            return 0
        rows = nbytes // self.content.row
        raw = np.empty(nbytes, np.uint8)
        Blosc.decode_into(chunk, raw.data)
        target = self._part(out, 0, rows)
        order: Literal["C", "F"] = self.content.order
        target[...] = raw.view(self.content.stored).reshape(target.shape, order=order).astype(target.dtype, copy=False)
        return int(rows)

    def _read_base(self, base: ArrayOnDisk, number: int, out: Block) -> int:
        """Read the rows of a chunk that the file has into ``out``; return how many they are."""
        shape, axis = base.content.spec.shape, self.content.axis
        start = number * self.rows
        count = min(self.rows, base.length - start)
        if base.stream.grid.fixed == out.shape and base.length == shape[axis]:
            base.stream.read_into(tuple(number if i == axis else 0 for i in range(out.ndim)), out)
            return count
        axes = tuple(Range(0, length, 1) for length in shape)
        if shape:
            axes = (*axes[:axis], Range(start, count, 1), *axes[axis + 1 :])
        plan = make_plan(Region(axes), base.stream.grid)
        target = self._part(out, 0, count)
        cells = np.empty(plan.shape, target.dtype)
        execute.read(base.stream, plan, cells, self.content.spec.fill_cell(), Settings(workers=1))
        target[...] = cells
        return count

    def _encode(self, number: int, block: Block) -> bytes:
        """Return the slot of a chunk: the rows within the array, with slack and a digest."""
        cells = block[tuple(map(slice, self._shape_of(self.rows_in(number))))]
        if cells.dtype != self.content.stored:
            padded = np.zeros(
                cells.shape, self.content.stored
            )  # what lies between fields is not whatever was in memory
            padded[...] = cells
            cells = padded
        flat = np.ascontiguousarray(cells.T if self.content.order == "F" else cells).reshape(-1)
        chunk = self._blosc.encode(flat.view(np.uint8).data if flat.size else b"")
        return sealed(with_slack(chunk, self.slack), self.style.digest)

    def put(self, number: int, block: Block) -> None:
        """Take a chunk, of which the rows within the array are kept."""
        slot = self._encode(number, block)
        with self._medium():
            self.slots.put(number, slot)

    def raw(self, number: int) -> bytes:
        """Return a chunk as it will be stored, without its digest."""
        with self._medium():
            slot = self.slots.get(number)
        if slot is None:
            slot = self._encode(number, self.block(number))
        return slot[: len(slot) - self.style.digest.size]

    def put_raw(self, number: int, chunk: bytes) -> None:
        """Take a Blosc chunk as it is; Invalid unless it decodes to as many bytes as are wanted."""
        size = self.rows_in(number) * self.content.row
        if not may_move(chunk, size):
            raise Invalid(f"this is no Blosc chunk of {size} bytes", key=f"chunk {number}")
        with self._medium():
            self.slots.put(number, sealed(with_slack(chunk, self.slack), self.style.digest))

    def _shape_of(self, rows: int) -> tuple[int, ...]:
        """Return the shape of so many rows of the array."""
        shape, axis = self.content.spec.shape, self.content.axis
        return (*shape[:axis], rows, *shape[axis + 1 :]) if shape else ()

    def blank_slot(self, number: int) -> bytes:
        """Return the slot of a chunk of nothing but fill values."""
        rows = self.rows_in(number)
        blank = self._blank  # another thread may need one of other rows
        if rows not in blank:
            blank = self._blank = {rows: self._encode(number, self.content.spec.filled(self._shape_of(rows)))}
        return blank[rows]

    def slot(self, number: int) -> bytes:
        """Return the slot of a chunk that is not in the file: it was written since, or holds fill values."""
        return self.slots.get(number) or self.blank_slot(number)

    def slot_size(self, number: int) -> int:
        """Return the bytes of that slot."""
        return self.slots.size_of(number) if number in self.slots else len(self.blank_slot(number))

    def _medium(self) -> AbstractContextManager[None]:
        return write_errors(self._url, "")

    # -- another shape ----------------------------------------------------------------------------------------------

    def with_content(self, content: Content) -> PendingChunks:
        """Return the chunks of the array with other documents, or another shape; these chunks are not to be used any
        more."""
        old, new = self.content.spec.shape, content.spec.shape
        others = [i for i in range(len(new)) if i != self.content.axis]
        if any(old[i] != new[i] for i in others):
            return self._rechunk(content)
        before, last = self.length, self.count - 1
        self.content, self._blank = content, {}
        if old != new:
            self._edges |= {last, self.count - 1}
        if self.length < before:
            with self._medium():
                self.slots.cut(-(-self.length // self.rows))
            if self.base is not None and self.length < self.base.length:
                self.base = ArrayOnDisk(self.base.stream, self.base.content, self.length)
            self.rewrite_edges()
        return self

    def _rechunk(self, content: Content) -> PendingChunks:
        """Return the chunks of an array with rows of another length: every chunk is another one."""
        made = PendingChunks(content, self.rows, self.style, self.slack, self._make_slots, self._url)
        kept: Any = (*(slice(0, min(pair)) for pair in zip(self.shape, made.shape, strict=True)), ...)
        for number in range(min(self.count, made.count)):
            block = content.spec.filled(made.shape)
            block[kept] = self.block(number)[kept]
            made.put(number, block)
        return made

    def rewrite_edges(self) -> None:
        """Rewrite the chunks at the edge that hold more or fewer rows than they should."""
        for number in sorted(self._edges):
            stored_rows = self._stored_rows(number)
            if number < self.count and stored_rows is not None and stored_rows != self.rows_in(number):
                self.put(number, self.block(number))
        self._edges.clear()

    def _stored_rows(self, number: int) -> int | None:
        """Return the rows that are stored of a chunk; None when there is none."""
        with self._medium():
            slot = self.slots.get(number)
        if slot is not None:
            nbytes = int(HEADER.unpack_from(slot)[4])
            return nbytes // self.content.row if nbytes else 0
        if self.base is None or number * self.rows >= max(self.base.length, 1):
            return None
        length = self.base.content.spec.shape[self.content.axis] if self.content.spec.shape else 1
        return max(0, min(self.rows, length - number * self.rows))

    # -- to come back to --------------------------------------------------------------------------------------------

    def mark(self) -> object:
        """Return the state now, for :meth:`reset`."""
        return self.content, self.base, self.slots.mark()

    def reset(self, mark: Any) -> Self:
        """Go back to the state of when the mark was made."""
        self.content, self.base, waiting = mark
        self._blank = {}
        self.slots.reset(waiting)
        return self
