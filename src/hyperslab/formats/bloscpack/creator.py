"""The Writer of a new bloscpack file: others see it, complete, when it is closed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, StorageError
from hyperslab.formats.bloscpack.building import Building
from hyperslab.formats.bloscpack.creation import BloscpackOptions
from hyperslab.formats.bloscpack.document import Content
from hyperslab.formats.bloscpack.encoding import typesize_of
from hyperslab.formats.bloscpack.pending_chunks import PendingChunks
from hyperslab.formats.bloscpack.preamble import UNKNOWN, Room, Sizes, render_front, text_of
from hyperslab.formats.bloscpack.state import State
from hyperslab.formats.bloscpack.writing import StateWriter, settle_journal
from hyperslab.stores.files import write_error, write_errors
from hyperslab.stores.locks import hold_file, hold_folder

_STREAM = 8192
"""Offsets that are kept for a file whose number of chunks is not known."""


class BloscpackCreator(StateWriter):
    """A new file (modes ``w``, ``x``): others see it, complete, when it is closed."""

    def __init__(self, path: str, url: str, mode: str, settings: Settings, options: BloscpackOptions) -> None:
        super().__init__(path, url, settings, options)
        self._mode = mode
        self._failed = False
        self._room = Room(0, 0)
        self._first = 0
        if mode == "x" and os.path.lexists(self._path):
            raise AlreadyExists("the target exists", url=url, remedy="choose another, or mode='w' to replace it")
        folder = os.path.dirname(self._path)
        if not os.access(folder, os.W_OK):
            code = errno.EACCES if os.path.isdir(folder) else errno.ENOENT
            raise write_error(OSError(code, os.strerror(code)), url, os.path.basename(self._path))
        self._state = State(options, self._made)

    def _now(self) -> State:
        self._check_open()
        return self._state

    def _runs(self) -> bool:
        return True

    @contextmanager
    def transaction(self, timeout: float | None) -> Iterator[None]:
        """Other threads wait; all is shown when the file is closed."""
        with self._take_turn(timeout), self._noting_failure():
            yield

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """After a failure of the medium nothing will be published."""
        try:
            yield
        except StorageError:
            self._failed = True
            raise

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Nothing is written before the end in any case."""
        self._check_open()
        yield

    def write_main(self, path: str, number: int, block: Block, axis: int) -> None:
        """Give a chunk; after a failure nothing will be published."""
        with self._noting_failure():
            self._now().write_main(path, number, block, axis)

    def put_raw_main(self, path: str, number: int, chunk: bytes) -> None:
        """Give a stored chunk as it is; after a failure nothing will be published."""
        with self._noting_failure():
            self._now().put_raw_main(path, number, chunk)

    def sizes_main(self, path: str, numbers: Iterable[int] | None) -> int:
        held = self._now().held
        if held is None:
            return 0
        return sum(held.slots.size_of(number) for number in (held.slots if numbers is None else numbers))

    # -- the file ---------------------------------------------------------------------------------------------------

    def _made(self, content: Content, rows: int) -> PendingChunks:
        """Chunks of an array that is the main one from now on."""
        self._first = content.spec.shape[content.axis] if content.spec.shape else 1
        style = self._options.style.evolve(typesize=typesize_of(content.stored.itemsize))
        return PendingChunks(
            content, rows, style, self._options.slack, lambda: Building(self._path, self._start), self._url
        )

    def _start(self) -> bytes:
        """What stands in front while the file is built: room for what is known, placeholders for what is not."""
        state = self._now()
        if state.held is None:
            raise Invalid("there is no array to write", url=self._url)
        held = state.held
        text = text_of(held.content.evolve(labelled=state.draft.labelled_so_far()), held.style)
        grows = held.length != self._first or not self._first or state.draft.grows(held.content.axis)
        self._room = Room.of(held.style, text, held.count, _STREAM if grows else 0)
        if held.style.layout == "spec":
            self._room = Room(2 * len(text) + 4096, self._room.slots)
        sizes = Sizes(held.sizes.chunk, UNKNOWN, UNKNOWN) if grows else held.sizes
        return render_front(held.style, text, sizes, self._room, None) or b""

    def _publish(self, content: Content, held: PendingChunks) -> None:
        held.become(content)
        held.settle()
        text, sizes = text_of(content, held.style), held.said_sizes
        slots: Any = held.slots
        building: Building = slots

        def render(lengths: Any, size: int | None) -> bytes | None:
            room = Room.of(held.style, text, sizes.count) if size is None else self._room
            found = render_front(held.style, text, sizes, room, lengths)
            return found if size is None or (found is not None and len(found) == size) else None

        beside = building.finish(sizes.count, held.missing, render)
        try:
            with self._alone():
                beside.publish(durable=self._settings.durable)
        except BaseException:
            beside.discard()
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else makes or changes the target meanwhile."""
        timeout = self._settings.lock_timeout
        with ExitStack() as held:
            held.enter_context(hold_folder(lambda: os.path.dirname(self._path), timeout))
            if os.path.lexists(self._path):
                if self._mode == "x":
                    raise AlreadyExists("another writer made the target meanwhile", url=self._url)
                held.enter_context(hold_file(lambda: self._path, timeout))
                settle_journal(self._path, durable=self._settings.durable)
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
                if state.held is not None:
                    with write_errors(self._url, os.path.basename(self._path)):
                        self._publish(content, state.held)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        finally:
            self.discard()

    def discard(self) -> None:
        """Close without publishing: the old file, or nothing, stays."""
        self._closed = True
        held = self._state.held
        if held is not None:
            held.slots.discard()
