"""What the Writers of bloscpack files have in common: nodes and cells of a state, and turns for threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.bloscpack.cells import CoordinateCells, MainCells
from hyperslab.formats.bloscpack.creation import BloscpackOptions, new_array
from hyperslab.formats.bloscpack.journal import journal_path, roll_back
from hyperslab.formats.bloscpack.state import State
from hyperslab.formats.format_errors import dataset_closed, names_below, require_array
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec


class StateWriter:
    """Nodes and cells of whatever state there is. Threads take turns, each with a whole change."""

    def __init__(self, path: str, url: str, settings: Settings, options: BloscpackOptions) -> None:
        self._path = os.path.realpath(path)
        self._url = url
        self._settings = settings
        self._options = options
        self._turn = threading.RLock()
        self._closed = False

    def _now(self) -> State:
        """The state that is read."""
        raise NotImplementedError

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """What is changed in the block shows together, or not at all; Conflict after ``timeout`` seconds."""
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
        return self._now().main

    def children(self, path: str) -> list[str]:
        """The arrays, in the order in which they were made."""
        return names_below(self.node(path), self._now().draft.specs)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """What lies at ``path``."""
        try:
            return self._now().node(path)
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__

    def chunks(self, path: str) -> ChunkSource:
        """The cells of the array at ``path``."""
        spec, state = self.node(path), self._now()
        spec = require_array(path, spec, self._url)
        if path == state.main and state.held is not None:
            return MainCells(self, path, spec, state.held.content.axis)
        return CoordinateCells(self, path, spec)

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """The cells as they will be: the transaction that this is part of shows them with the documents."""
        self.put(path, spec)
        return self.chunks(path)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """A user's wish as this format holds it, or Unsupported."""
        return new_array(spec, self._options)

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make a node, or change its attributes, dimensions and shape."""
        with self.transaction(self._settings.lock_timeout):
            self._now().put(path, spec)

    def drop(self, path: str) -> None:
        """Remove a coordinate; Unsupported for the array that the file is."""
        with self.transaction(self._settings.lock_timeout):
            self._now().drop(path)

    def lock_node(self, path: str) -> AbstractContextManager[None]:
        """Hold the whole dataset: all changes in the block are one."""
        return self.transaction(self._settings.lock_timeout)

    # -- cells ------------------------------------------------------------------------------------------------------

    def read_main(self, path: str, number: int, out: Block, axis: int) -> bool:
        """A chunk of the array."""
        return self._now().read_main(path, number, out, axis)

    def write_main(self, path: str, number: int, block: Block, axis: int) -> None:
        """Give a chunk of the array, in the transaction that runs, else in one of its own."""
        with self._joined():
            self._now().write_main(path, number, block, axis)

    def container_main(self, path: str) -> Any:
        """What lies in the array's stored chunks; None where they cannot be moved as they are."""
        return self._now().container_main(path)

    def raw_main(self, path: str, number: int) -> bytes:
        """A chunk of the array as it will be stored."""
        return self._now().raw_main(path, number)

    def put_raw_main(self, path: str, number: int, chunk: bytes) -> None:
        """Give a stored chunk as it is, in the transaction that runs, else in one of its own."""
        with self._joined():
            self._now().put_raw_main(path, number, chunk)

    @contextmanager
    def _joined(self) -> Iterator[None]:
        """The threads of one transaction work in it side by side."""
        if self._runs():
            yield
            return
        with self.transaction(self._settings.lock_timeout):
            yield

    def _runs(self) -> bool:
        """Return whether a transaction runs."""
        raise NotImplementedError

    def erase_main(self, path: str, number: int) -> None:
        """The chunk becomes the fill value."""
        with self._joined():
            state = self._now()
            if state.held is not None:
                content = state.held.content
                block = content.spec.filled(state.held.shape)
                self.write_main(path, number, block, content.axis)

    def sizes_main(self, path: str, numbers: Iterable[int] | None) -> int:
        """Bytes of chunks and their digests, of all of them when they are not named."""
        raise NotImplementedError

    def read_coordinate(self, path: str) -> np.ndarray[Any, Any]:
        """All cells of a coordinate."""
        state = self._now()
        state.node(path)
        return state.draft.cells[path]

    def write_coordinate(self, path: str, cells: np.ndarray[Any, Any]) -> None:
        """Give all cells of a coordinate."""
        with self._joined():
            self._now().write_coordinate(path, cells)

    def stamp(self, path: str) -> Any:
        """What identifies the present version of the file; None while it is being changed here."""
        return None


def settle_journal(path: str, *, durable: bool) -> bool:
    """Undo what a writer began who died; whether there was such a thing. The lock is held."""
    if not os.path.lexists(journal_path(path)):
        return False
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        roll_back(path, descriptor, durable=durable)
    finally:
        os.close(descriptor)
    return True
