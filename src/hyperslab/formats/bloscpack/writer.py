"""The writer of changes to a bloscpack file.

A file is changed by transactions: whatever is changed within one shows together, or not at all. A batch is one, and so
is each assignment, append, resize or change of attributes outside of one. Writers wait for one another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource, DecodingSource, SourceTraits
from hyperslab.codecs.blosc import container
from hyperslab.errors import Conflict, FormatError, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Writer
from hyperslab.formats.bloscpack.commit import (
    FileSnapshot,
    commit,
    found_bytes,
    is_same,
    pending_chunks_of,
    read_snapshot,
)
from hyperslab.formats.bloscpack.dataset import BloscpackReader, surplus_of
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.encoding import BloscpackOptions, new_array
from hyperslab.formats.bloscpack.file import LocalFile
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.bloscpack.rules import RULES, with_mends
from hyperslab.formats.bloscpack.state import State, count_rows, other_shape, take_rows
from hyperslab.formats.format_errors import dataset_closed, file_not_found, names_below, require_array
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.draft import SingleArrayDraft
from hyperslab.formats.single_array.reader import CoordinateChunk
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.atomic_file import journal_path, roll_back
from hyperslab.stores.files import write_errors
from hyperslab.stores.locks import hold_file
from hyperslab.stores.system import ALWAYS, IS_WINDOWS

# -- what the writers of new files and of changes share -------------------------------------------------------------


class StateWriter(Writer):
    """Nodes and cells of whatever state there is. Threads take turns, each with a whole change."""

    is_single_array = True

    def __init__(self, path: str, url: str, settings: Settings, options: BloscpackOptions) -> None:
        self._path = os.path.realpath(path)
        self._url = url
        self._settings = settings
        self._options = options
        self._turn = threading.RLock()
        self._closed = False

    def state(self) -> State:
        """Return the state that is read, and changed within a transaction."""
        raise NotImplementedError

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Show what is changed in the block together, or not at all; Conflict after ``timeout`` seconds."""
        raise NotImplementedError

    @contextmanager
    def _take_turn(self, timeout: float | None) -> Iterator[None]:
        if not self._turn.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            remedy = "wait longer (lock_timeout), or write from fewer threads"
            raise Conflict("another thread was writing until the timeout", url=self._url, remedy=remedy)
        try:
            self._check_open()
            yield
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        finally:
            self._turn.release()

    def _check_open(self) -> None:
        if self._closed:
            raise dataset_closed(self._url)

    # -- documents --------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str | None:
        """The name of the array; None while there is none."""
        return self.state().main

    def children(self, path: str) -> list[str]:
        """Return the arrays, in the order in which they were made."""
        return names_below(self.node(path), self.state().draft.specs)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        try:
            return self.state().node(path)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__

    def chunks(self, path: str) -> ChunkSource:
        spec, state = self.node(path), self.state()
        spec = require_array(path, spec, self._url)
        pending = state.pending_of(path)
        if pending is not None:
            return MainChunks(self, path, spec, pending.content.axis)
        return TransactionCoordinate(self, path, spec)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish as this format holds it, or Unsupported."""
        return new_array(spec, self._options)

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make a node, or change its attributes, dimensions and shape."""
        with self.transaction(self._settings.lock_timeout):
            self.state().put(path, spec)

    def drop(self, path: str) -> None:
        """Remove a coordinate; Unsupported for the array that the file is."""
        with self.transaction(self._settings.lock_timeout):
            self.state().drop(path)

    def move(self, source: str, target: str) -> bool:
        """Give the array, or a coordinate, another name."""
        with self.transaction(self._settings.lock_timeout):
            self.state().rename(source, target)
        return True

    locks_whole = True

    def lock_node(self, path: str) -> AbstractContextManager[None]:
        """Hold the whole dataset: all changes in the block are one."""
        return self.transaction(self._settings.lock_timeout)

    # -- cells ------------------------------------------------------------------------------------------------------

    def changing(self) -> AbstractContextManager[None]:
        """Return a context for one change: part of the transaction that runs, beside its other threads."""
        raise NotImplementedError

    def stored_sizes(self, numbers: Iterable[int] | None) -> int:
        """Return the bytes of the array's chunks and their digests, of all of them where ``numbers`` is None."""
        raise NotImplementedError


def roll_back_journal(path: str, *, durable: bool) -> bool:
    """Undo what a writer began who died; whether there was such a thing. The lock is held."""
    if not os.path.lexists(journal_path(path)):
        return False
    descriptor = os.open(path, os.O_RDWR | ALWAYS)
    try:
        roll_back(path, descriptor, durable=durable)
    finally:
        os.close(descriptor)
    return True


# -- the cells of a dataset that is open for writing, as chunks -----------------------------------------------------


class _TransactionChunks(ChunkSource):
    """Chunks of a writer that are changed by its transactions."""

    traits = SourceTraits(stamped=True, transacts=True)

    def __init__(self, writer: StateWriter, path: str) -> None:
        self._writer = writer
        self._path = path

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Show what is changed in the block together, or not at all; Conflict after ``timeout`` seconds."""
        return self._writer.transaction(timeout)

    def stamp(self, coords: Coords) -> object:
        """Return the stamp of the file; None while nothing is to be cached."""
        return self._writer.stamp(self._path)


class MainChunks(_TransactionChunks, DecodingSource):
    """The chunks of the array, in whole rows along ``axis``; it may turn out to be a coordinate while it is open."""

    def __init__(self, writer: StateWriter, path: str, spec: ArraySpec, axis: int) -> None:
        super().__init__(writer, path)
        self._spec = spec
        self.grid = Grid.of(spec.shape, spec.chunks)
        self._axis = axis

    def _number(self, coords: Coords) -> int:
        return coords[self._axis] if coords else 0

    def _pending(self, state: State, shape: tuple[int, ...]) -> PendingChunks | None:
        """Return the chunks of the array, None where it became a coordinate; Conflict where they have another shape."""
        pending = state.pending_of(self._path)
        if pending is not None and pending.shape != shape:
            raise other_shape(self._path, shape, pending.shape)
        return pending

    def _rows_in_memory(self, state: State, coords: Coords, shape: tuple[int, ...]) -> Block:
        """Return the cells of a chunk of what is a coordinate by now."""
        cells = state.draft.cells.get(self._path)
        if cells is None:
            raise NodeNotFound(f"there is no /{self._path} any more", node=self._path)
        rows = take_rows(cells, self._axis, self._number(coords), shape[self._axis] if shape else 1)
        if any(rows.shape[i] != shape[i] for i in range(len(shape)) if i != self._axis):
            raise other_shape(self._path, shape, cells.shape)
        return rows

    def read_into(self, coords: Coords, out: Block) -> bool:
        state = self._writer.state()
        pending = self._pending(state, out.shape)
        if pending is not None:
            return pending.read_into(self._number(coords), out)
        rows = self._rows_in_memory(state, coords, out.shape)
        out[...] = state.draft.specs[self._path].fill_cell()
        take_rows(out, self._axis, 0, count_rows(rows, self._axis))[...] = rows
        return True

    def write(self, coords: Coords, block: Block) -> None:
        with self._writer.changing():
            state = self._writer.state()
            pending = self._pending(state, block.shape)
            if pending is not None:
                pending.put(self._number(coords), block)
            else:
                rows = self._rows_in_memory(state, coords, block.shape)
                rows[...] = take_rows(block, self._axis, 0, count_rows(rows, self._axis))
                state.touched = True
            state.written = True

    @property
    def blosc_container(self) -> Hashable | None:
        """The contents of the stored chunks; None where they cannot be moved as they are."""
        pending = self._writer.state().pending_of(self._path)
        if pending is None or pending.content.order != "C":
            return None
        return container(pending.content.stored, pending.shape)

    def _movable_chunks(self, state: State) -> PendingChunks:
        pending = state.pending_of(self._path)
        if pending is None or self.blosc_container is None:
            remedy = "read and write its cells"
            raise Unsupported("its chunks cannot be moved as they are", node=self._path, remedy=remedy)
        return pending

    pads_edges = False

    def read_blosc(self, coords: Coords) -> bytes | None:
        """Return the chunk as it will be stored, without its digest."""
        return self._movable_chunks(self._writer.state()).raw(self._number(coords))

    def write_blosc(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Take stored chunks as they are."""
        for coords, chunk in pairs:
            with self._writer.changing():
                state = self._writer.state()
                self._movable_chunks(state).put_raw(self._number(coords), chunk)
                state.written = True

    def erase(self, coords: Coords) -> None:
        """Set the chunk to the fill value."""
        self.write(coords, self._spec.filled(self.grid.chunk_shape(coords)))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of these chunks and their digests."""
        return self._writer.stored_sizes([self._number(place) for place in coords])

    def nbytes_stored(self) -> int:
        """Return the bytes of all chunks and their digests."""
        return self._writer.stored_sizes(None)


class TransactionCoordinate(_TransactionChunks, CoordinateChunk):
    """The one chunk of a coordinate."""

    def __init__(self, writer: StateWriter, path: str, spec: ArraySpec) -> None:
        _TransactionChunks.__init__(self, writer, path)
        CoordinateChunk.__init__(self, spec, self._present_cells, self._replace_cells, traits=self.traits)

    def _present_cells(self) -> Block:
        state = self._writer.state()
        state.node(self._path)
        cells = state.draft.cells[self._path]
        if len(cells.shape) != len(self._spec.shape) or any(map(int.__lt__, cells.shape, self._spec.shape)):
            raise other_shape(self._path, self._spec.shape, cells.shape)
        return cells

    def _replace_cells(self, cells: Block) -> None:
        with self._writer.changing():
            state = self._writer.state()
            current, spec = state.draft.cells.get(self._path), state.draft.specs.get(self._path)
            if current is None or current.shape != cells.shape:
                raise other_shape(self._path, cells.shape, () if spec is None else spec.shape)
            state.draft.cells[self._path] = cells
            state.touched = True


# -- changes of a file that is there --------------------------------------------------------------------------------


class BloscpackWriter(StateWriter):
    """Changes to a file that is there (``r+``)."""

    def __init__(self, path: str, url: str, settings: Settings, options: BloscpackOptions) -> None:
        super().__init__(path, url, settings, options)
        self._snapshot: FileSnapshot | None = None
        self._running: State | None = None
        self._rows = 0
        self._rolled_back = False
        self._depth = 0
        self._lock = ExitStack()
        self._current_snapshot()

    def _existing_path(self) -> str:
        if not os.path.lexists(self._path):
            raise file_not_found(self._url)
        return self._path

    def _current_snapshot(self) -> FileSnapshot:
        """Return the file as it is now."""
        self._check_open()
        snapshot = self._snapshot
        if snapshot is None or not is_same(snapshot, self._existing_path()):
            snapshot = self._snapshot = read_snapshot(self._existing_path(), self._url)
        return snapshot

    def state(self) -> State:
        running = self._running
        if running is not None:
            return running
        snapshot = self._current_snapshot()
        if snapshot.state is None:
            snapshot.state = self._state_of(snapshot)
        state: State = snapshot.state
        return state

    def _state_of(self, snapshot: FileSnapshot) -> State:
        pending = pending_chunks_of(snapshot, self._options, self._url, self._rows)
        self._rows = pending.rows
        return State(self._options, _refuse_second_array, SingleArrayDraft.of(snapshot.content.labelled), pending)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Run the block in the transaction that runs, beside its other threads, else in one of its own."""
        if self._running is not None:
            yield
            return
        with self.transaction(self._settings.lock_timeout):
            yield

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, timeout: float | None) -> Iterator[None]:
        with self._take_turn(timeout):
            state = self._begin(timeout)
            mark = state.mark()
            try:
                yield
            except BaseException:
                state.reset(mark)
                raise
            finally:
                self._end()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Open one transaction, in which other threads may take part; what was changed before an error is kept."""
        timeout = self._settings.lock_timeout
        with self._take_turn(timeout):
            self._begin(timeout)
        try:
            yield
        finally:
            with self._turn:
                self._end()

    def _begin(self, timeout: float | None) -> State:
        """Return the state that the transaction changes: of the file as it is once it is locked."""
        if self._running is None:
            if IS_WINDOWS:  # the writer who has the lock can replace no file that another one has open
                self._snapshot = None
            with write_errors(self._url, os.path.basename(self._path)), ExitStack() as locks:
                locks.enter_context(hold_file(self._existing_path, timeout))
                if roll_back_journal(self._path, durable=self._settings.durable):
                    self._snapshot, self._rolled_back = None, True
                self._running = self.state()
                self._lock = locks.pop_all()
            self._depth = 0
        self._depth += 1
        return self._running

    def _end(self) -> None:
        state = self._running
        self._depth -= 1
        if self._depth or state is None:
            return
        try:
            if state.touched or state.written:
                self._commit(state, self._locked_snapshot())
        finally:
            # The lock goes last: the next writer finds the file as it is after the commit.
            self._running = self._snapshot = None
            self._lock.close()

    def _locked_snapshot(self) -> FileSnapshot:
        """Return the file as it was when the transaction began: nobody else changes it meanwhile."""
        if self._snapshot is None:
            raise Invalid("no transaction runs", url=self._url)
        return self._snapshot

    def _commit(self, state: State, snapshot: FileSnapshot) -> None:
        pending = state.pending
        if pending is None:
            raise Invalid("there is no array", url=self._url)
        if snapshot.content.surplus:  # a change would cut it off
            raise FormatError(surplus_of(snapshot.content), url=self._url, remedy="repair it first (hs.repair)")
        content = state.content()
        # Documents may have changed the shape: chunks at its edge are made anew before anything is planned.
        pending = pending.with_content(content)
        commit(snapshot, pending, self._url, documents=state.touched, durable=self._settings.durable)

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield what can be mended, and what opening the file for writing has mended."""
        reader = BloscpackReader(LocalFile(self._path, self._url))
        try:
            found = list(
                reader.find_damage(deep=deep, workers=workers, complete=self._complete, lengthen=self._lengthen)
            )
        finally:
            reader.close()
        died, self._rolled_back = self._rolled_back, False
        yield from map(RULES.with_rule, with_mends((), None, died=died, complete=self._complete))
        yield from found

    def _lengthen(self) -> None:
        """Give the array the rows that its chunks hold behind it."""
        with self.transaction(self._settings.lock_timeout):
            self._snapshot = read_snapshot(self._existing_path(), self._url, whole=True)
            self._running = self._state_of(self._snapshot)
            self._running.touched = True

    def _complete(self) -> None:
        """End the file with its last whole chunk: header and offsets are filled in when it is written anew."""
        with self.transaction(self._settings.lock_timeout):
            state, table = self.state(), self._locked_snapshot().table
            pending, path = state.pending, state.main or ""
            spec = state.node(path)
            if pending is None or not spec.is_array:
                return
            rows = found_bytes(table) // pending.content.row if pending.content.row else 0
            shape = list(spec.shape)
            if shape:
                shape[pending.content.axis] = min(shape[pending.content.axis], rows)
            state.put(path, spec.evolve(shape=tuple(shape)))

    # -- cells ------------------------------------------------------------------------------------------------------

    def stored_sizes(self, numbers: Iterable[int] | None) -> int:
        rooms = self._current_snapshot().table.rooms
        return int(rooms.sum() if numbers is None else sum(rooms[n] for n in numbers if n < len(rooms)))

    def stamp(self, path: str) -> object:
        return None if self._running is not None else self._current_snapshot().stamp

    def refresh(self, path: str) -> None:
        """Look at the file again, unless it is being changed here."""
        if self._running is None:
            self._snapshot = None

    def close(self) -> None:
        """End the batch that runs, and let go of the file; closing twice is fine."""
        with self._turn:
            if self._running is not None:
                self._depth = 1
                self._end()
            self._closed = True
            self._snapshot = None


def _refuse_second_array(content: Content, rows: int) -> PendingChunks:
    raise Invalid("this file holds an array already", remedy="save the other one in a file of its own")
