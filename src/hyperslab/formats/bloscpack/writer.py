"""The Writer of changes to a bloscpack file.

A file is changed by transactions: whatever is changed within one shows together, or not at all. A batch is one, and so
is each assignment, append, resize or change of attributes outside of one. Writers wait for one another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import Conflict, FormatError, Invalid
from hyperslab.formats.base import Remedy
from hyperslab.formats.bloscpack.commit import Old, commit
from hyperslab.formats.bloscpack.creation import BloscpackOptions
from hyperslab.formats.bloscpack.dataset import BloscpackReader, surplus_of
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.draft import BloscpackDraft
from hyperslab.formats.bloscpack.file import LocalFile
from hyperslab.formats.bloscpack.file_snapshot import FileSnapshot, found_bytes, held_of, is_same, look
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.bloscpack.problems import remedies_of
from hyperslab.formats.bloscpack.state import State
from hyperslab.formats.bloscpack.writing import StateWriter, settle_journal
from hyperslab.formats.format_errors import file_not_found
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.files import version_of, write_errors
from hyperslab.stores.locks import hold_file


class BloscpackWriter(StateWriter):
    """Changes to a file that is there (``r+``)."""

    def __init__(self, path: str, url: str, settings: Settings, options: BloscpackOptions) -> None:
        super().__init__(path, url, settings, options)
        self._present: FileSnapshot | None = None
        self._running: State | None = None
        self._rows = 0
        self._undid = False
        self._depth = 0
        self._lock = ExitStack()
        self._seen()

    def _there(self) -> str:
        if not os.path.lexists(self._path):
            raise file_not_found(self._url)
        return self._path

    def _seen(self) -> FileSnapshot:
        """The file as it is now."""
        self._check_open()
        present = self._present
        if present is None or not is_same(present, self._there()):
            present = self._present = look(self._there(), self._url)
        return present

    def _now(self) -> State:
        running = self._running
        if running is not None:
            return running
        present = self._seen()
        if present.state is None:
            present.state = self._state_of(present)
        state: State = present.state
        return state

    def _state_of(self, present: FileSnapshot) -> State:
        held = held_of(present, self._options, self._url, self._rows)
        self._rows = held.rows
        return State(self._options, _no_other, BloscpackDraft.of(present.content.labelled), held)

    def _runs(self) -> bool:
        return self._running is not None

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, timeout: float | None) -> Iterator[None]:
        """Hold the file against other writers; at the end of the outermost block everything shows."""
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
        """One transaction, in which other threads may take part; what was changed before an error is kept."""
        timeout = self._settings.lock_timeout
        with self._take_turn(timeout):
            self._begin(timeout)
        try:
            yield
        finally:
            with self._turn:
                self._end()

    def _begin(self, timeout: float | None) -> State:
        if self._running is None:
            with write_errors(self._url, os.path.basename(self._path)):
                self._running = self._held_state(timeout)
            self._depth = 0
        self._depth += 1
        return self._running

    def _held_state(self, timeout: float | None) -> State:
        """The file as it is once it is locked."""
        with ExitStack() as held:
            held.enter_context(hold_file(self._there, timeout))
            if settle_journal(self._path, durable=self._settings.durable):
                self._present, self._undid = None, True
            present = self._seen()
            state: State = present.state or self._state_of(present)
            self._lock = held.pop_all()
        return state

    def _end(self) -> None:
        state = self._running
        self._depth -= 1
        if self._depth or state is None:
            return
        try:
            if state.touched or state.written:
                self._commit(state, self._seen_before())
        finally:
            self._running = self._present = None
            self._lock.close()

    def _seen_before(self) -> FileSnapshot:
        """The file as it was when the transaction began: nobody else changes it meanwhile."""
        if self._present is None:
            raise Invalid("no transaction runs", url=self._url)
        return self._present

    def _commit(self, state: State, present: FileSnapshot) -> None:
        held = state.held
        if held is None:
            raise Invalid("there is no array", url=self._url)
        if present.content.surplus:  # a change would cut it off
            raise FormatError(surplus_of(present.content), url=self._url, remedy="repair it first (hs.repair)")
        content = state.content()
        held = held.become(content)
        with write_errors(self._url, os.path.basename(self._path)):
            descriptor = os.open(self._path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        try:
            if version_of(os.fstat(descriptor)) != present.stamp:
                remedy = "look at what is there now, and repeat the changes"
                raise Conflict("another program put another file in its place", url=self._url, remedy=remedy)
            old = Old(self._path, descriptor, present.front, present.table, present.said)
            commit(old, held, self._url, documents=state.touched, durable=self._settings.durable)
        finally:
            os.close(descriptor)

    def remedies(self, *, deep: bool, workers: int) -> Iterator[Remedy]:
        """What can be mended, and what opening the file for writing has mended."""
        reader = BloscpackReader(LocalFile(self._path, self._url))
        try:
            found = list(reader.remedies(deep=deep, workers=workers, complete=self._complete, lengthen=self._lengthen))
        finally:
            reader.close()
        died, self._undid = self._undid, False
        yield from remedies_of((), None, died=died, complete=self._complete)
        yield from found

    def _lengthen(self) -> None:
        """Give the array the rows that its chunks hold behind it."""
        with self.transaction(self._settings.lock_timeout):
            self._present = look(self._there(), self._url, whole=True)
            self._running = self._state_of(self._present)
            self._running.touched = True

    def _complete(self) -> None:
        """End the file with its last whole chunk: header and offsets are filled in when it is written anew."""
        with self.transaction(self._settings.lock_timeout):
            state, table = self._now(), self._seen_before().table
            held, path = state.held, state.main or ""
            spec = state.node(path)
            if held is None or not isinstance(spec, ArraySpec):
                return
            rows = found_bytes(table) // held.content.row if held.content.row else 0
            shape = list(spec.shape)
            if shape:
                shape[held.content.axis] = min(shape[held.content.axis], rows)
            state.put(path, spec.evolve(shape=tuple(shape)))

    # -- cells ------------------------------------------------------------------------------------------------------

    def sizes_main(self, path: str, numbers: Iterable[int] | None) -> int:
        rooms = self._seen().table.rooms
        return int(rooms.sum() if numbers is None else sum(rooms[n] for n in numbers if n < len(rooms)))

    def stamp(self, path: str) -> Any:
        return None if self._running is not None else self._seen().stamp

    def refresh(self, path: str) -> None:
        """Look at the file again, unless it is being changed here."""
        if self._running is None:
            self._present = None

    def close(self) -> None:
        """End the batch that runs, and let go of the file; closing twice is fine."""
        with self._turn:
            if self._running is not None:
                self._depth = 1
                self._end()
            self._closed = True
            self._present = None


def _no_other(content: Content, rows: int) -> PendingChunks:
    raise Invalid("this file holds an array already", remedy="save the other one in a file of its own")
