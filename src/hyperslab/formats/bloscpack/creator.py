"""The writer of a new bloscpack file: others see it, complete, when it is closed.

A few MiB wait in any case, so that a small file gets exactly the room in front that it needs. From then on its place is
a file beside the target that begins with placeholders (-1), so that an interrupted one is readable up to its last whole
chunk. What is written again later waits as well: the file is then put together anew in the end.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, StorageError
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.encoding import BloscpackOptions, typesize_of
from hyperslab.formats.bloscpack.pending_chunks import ChunkStaging, PendingChunks
from hyperslab.formats.bloscpack.preamble import UNKNOWN, Room, Sizes, render_preamble, text_of
from hyperslab.formats.bloscpack.state import State
from hyperslab.formats.bloscpack.writer import StateWriter, roll_back_journal
from hyperslab.stores.atomic_file import AtomicFile, Piece, assemble
from hyperslab.stores.building import already_exists
from hyperslab.stores.files import read_at, write_at, write_error, write_errors
from hyperslab.stores.locks import hold_file, hold_folder

# -- the chunks of a new file, one behind the other as they come ----------------------------------------------------


FILE_THRESHOLD = 8 << 20
"""Bytes that are kept until the file is begun."""

Render = Callable[[Sequence[int], int | None], bytes | None]
"""The front for slots of these lengths: of that size, or None where it does not fit; without a size it always does."""


class NewFile(ChunkStaging):
    """A new file for ``target``: slots that follow one another go there, the others wait. ``start``: what stands in
    front while it is built."""

    def __init__(self, target: str, start: Callable[[], bytes], threshold: int = FILE_THRESHOLD) -> None:
        super().__init__(os.path.dirname(target))
        self._target = target
        self._start = start
        self._threshold = threshold
        # Taken before the lock of what waits, never within it.
        self._file_lock = threading.Lock()
        self._in_flight: dict[int, bytes] = {}
        self._places: list[tuple[int, int]] = []
        self._behind = 0
        self._front = 0
        self._temporary: AtomicFile | None = None

    def put(self, number: int, slot: bytes) -> None:
        """Take a slot, in place of an older one; several threads may call it. OSError as the system has it."""
        with self._file_lock:
            if self._in_flight.pop(number, None) is None and number == len(self._places) - 1:
                self._behind = self._places.pop()[0]
            super().put(number, slot)
            if self._temporary is None and self.nbytes >= self._threshold:
                preamble = self._start()
                self._temporary = AtomicFile(self._target)
                write_at(self._temporary.descriptor, preamble, 0)
                self._front = self._behind = len(preamble)
            temporary, ready = self._temporary, []
            # Slots get their places in order: one that comes early waits for those before it.
            while temporary is not None and (number := len(self._places)) in self._slots:
                slot = super().get(number) or b""
                ready.append((number, self._behind, slot))
                self._places.append((self._behind, len(slot)))
                self._in_flight[number] = slot
                self._behind += len(slot)
        # Places are assigned under the lock and written without it, so that several threads write at once. Until its
        # bytes are there, a slot is read from where it waits.
        if temporary is not None and ready:
            for _, offset, data in ready:
                write_at(temporary.descriptor, data, offset)
            with self._file_lock:
                for number, _, slot in ready:
                    if self._in_flight.get(number) is slot:
                        del self._in_flight[number]
                        self.drop(number)

    def get(self, number: int) -> bytes | None:
        with self._file_lock:
            if number in self._slots:
                return super().get(number)
            if self._temporary is None or number >= len(self._places):
                return None
            offset, length = self._places[number]
        return read_at(self._temporary.descriptor, length, offset)

    def __contains__(self, number: int) -> bool:
        return number in self._slots or number < len(self._places)

    def __iter__(self) -> Iterator[int]:
        with self._file_lock:
            return iter(sorted({*range(len(self._places)), *self._slots}))

    def size_of(self, number: int) -> int:
        """Return the bytes of one slot, 0 when there is none."""
        with self._file_lock:
            if number in self._slots:
                return super().size_of(number)
            return self._places[number][1] if number < len(self._places) else 0

    def cut(self, count: int) -> None:
        with self._file_lock:
            super().cut(count)
            if count < len(self._places):
                self._behind = self._places[count][0]
                del self._places[count:]

    def finish(self, count: int, missing: Callable[[int], bytes], render: Render) -> AtomicFile:
        """Return the file with ``count`` slots, complete but for its name; ``missing`` makes those that nobody
        wrote."""
        self.cut(count)
        for number in range(count):
            if number not in self:
                self.put(number, missing(number))
        temporary = self._temporary
        # Nothing came late and the preamble fits in the room that was left: the file is whole but for its beginning.
        if temporary is not None and not self._slots:
            preamble = render([length for _, length in self._places], self._front)
            if preamble is not None:
                write_at(temporary.descriptor, preamble, 0)
                os.ftruncate(temporary.descriptor, self._behind)
                return temporary
        whole = AtomicFile(self._target)
        try:
            preamble = render([self.size_of(number) for number in range(count)], None)
            if preamble is None:
                raise StorageError("the header of the file cannot be made")
            assemble(whole.descriptor, preamble, self._pieces(count))
        except BaseException:
            whole.discard()
            raise
        self.discard()
        return whole

    def _pieces(self, count: int) -> Iterator[Piece]:
        for number in range(count):
            slot = super().get(number)
            if slot is not None:
                yield slot
            elif self._temporary is not None:
                offset, length = self._places[number]
                yield self._temporary.descriptor, offset, length

    def discard(self) -> None:
        super().discard()
        self._places.clear()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.discard()


_STREAM = 8192
"""Offsets that are kept for a file whose number of chunks is not known."""


class BloscpackCreator(StateWriter):
    """A new file (modes ``w``, ``x``): others see it, complete, when it is closed."""

    is_written_whole = True

    def __init__(self, path: str, url: str, mode: str, settings: Settings, options: BloscpackOptions) -> None:
        super().__init__(path, url, settings, options)
        self._mode = mode
        self._failed = False
        self._room = Room(0, 0)
        self._first = 0
        if mode == "x" and os.path.lexists(self._path):
            raise already_exists(url)
        folder = os.path.dirname(self._path)
        if not os.access(folder, os.W_OK):
            code = errno.EACCES if os.path.isdir(folder) else errno.ENOENT
            raise write_error(OSError(code, os.strerror(code)), url, os.path.basename(self._path))
        self._state = State(options, self._new_pending_chunks)

    def state(self) -> State:
        self._check_open()
        return self._state

    @contextmanager
    def transaction(self, timeout: float | None) -> Iterator[None]:
        """Keep other threads waiting; all is shown when the file is closed."""
        with self._take_turn(timeout), self.changing():
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Publish nothing after a failure of the medium."""
        try:
            yield
        except StorageError:
            self._failed = True
            raise

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Do nothing: all is written at the end in any case."""
        self._check_open()
        yield

    def stored_sizes(self, numbers: Iterable[int] | None) -> int:
        pending = self.state().pending
        if pending is None:
            return 0
        return sum(pending.slots.size_of(number) for number in (pending.slots if numbers is None else numbers))

    # -- the file ---------------------------------------------------------------------------------------------------

    def _new_pending_chunks(self, content: Content, rows: int) -> PendingChunks:
        """Return the chunks of an array that is the main one from now on."""
        self._first = content.spec.shape[content.axis] if content.spec.shape else 1
        style = replace(self._options.style, typesize=typesize_of(content.stored.itemsize))
        return PendingChunks(
            content, rows, style, self._options.slack, lambda: NewFile(self._path, self._start), self._url
        )

    def _start(self) -> bytes:
        """Return what stands in front while the file is built: room for what is known, placeholders for what is not."""
        state = self.state()
        if state.pending is None:
            raise Invalid("there is no array to write", url=self._url)
        pending = state.pending
        text = text_of(pending.content.evolve(labelled=state.draft.labelled_so_far()), pending.style)
        grows = pending.length != self._first or not self._first or state.draft.grows(pending.content.axis)
        self._room = Room.of(pending.style, text, pending.count, _STREAM if grows else 0)
        if pending.style.layout == "spec":
            self._room = Room(2 * len(text) + 4096, self._room.slots)
        sizes = Sizes(pending.sizes.chunk, UNKNOWN, UNKNOWN) if grows else pending.sizes
        return render_preamble(pending.style, text, sizes, self._room, None) or b""

    def _publish(self, content: Content, pending: PendingChunks) -> None:
        pending.with_content(content)
        pending.rewrite_edges()
        text, sizes = text_of(content, pending.style), pending.header_sizes
        new_file = pending.slots
        assert isinstance(new_file, NewFile)

        def render(lengths: Sequence[int], size: int | None) -> bytes | None:
            room = Room.of(pending.style, text, sizes.count) if size is None else self._room
            preamble = render_preamble(pending.style, text, sizes, room, lengths)
            return preamble if size is None or (preamble is not None and len(preamble) == size) else None

        temporary = new_file.finish(sizes.count, pending.blank_slot, render)
        try:
            with self._lock_target():
                temporary.publish(durable=self._settings.durable)
        except BaseException:
            temporary.discard()
            raise

    @contextmanager
    def _lock_target(self) -> Iterator[None]:
        """Keep others from making or changing the target meanwhile."""
        timeout = self._settings.lock_timeout
        # The folder first, then the file, in every writer: two that replace one another cannot wait for each other.
        with ExitStack() as locks:
            locks.enter_context(hold_folder(lambda: os.path.dirname(self._path), timeout))
            if os.path.lexists(self._path):
                if self._mode == "x":
                    raise AlreadyExists("another writer made the target meanwhile", url=self._url)
                locks.enter_context(hold_file(lambda: self._path, timeout))
                roll_back_journal(self._path, durable=self._settings.durable)
            yield

    def close(self) -> None:
        """Put the file in its place; closing twice is fine. After a failed write the old one, or nothing, stays:
        StorageError. Without any array nothing is made."""
        if self._closed:
            return
        state = self._state
        try:
            if self._failed:
                message = "a write failed, so nothing was published"
                raise StorageError(message, url=self._url, remedy="repeat the changes")
            if state.draft.specs:
                content = state.content()
                if state.pending is not None:
                    with write_errors(self._url, os.path.basename(self._path)):
                        self._publish(content, state.pending)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        finally:
            self.discard()

    def discard(self) -> None:
        """Close without publishing: the old file, or nothing, stays."""
        self._closed = True
        if self._state.pending is not None:
            self._state.pending.slots.discard()
