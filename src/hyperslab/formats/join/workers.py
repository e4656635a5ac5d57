"""A look at all pieces: by threads, or by processes where many are on this machine, since HDF5 does one thing at a time
in each process.

A worker is asked by pickles through its pipes, which no other process has. It is started as a program of its own, so
that it needs nothing of the caller's (no ``if __name__ == "__main__"``), and inherits no thread, lock or open file.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import BinaryIO

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Reader
from hyperslab.formats.join.pieces import PieceMetadata, Template, look_at_piece, open_piece, read_tree
from hyperslab.stores.location import Location

# Pieces that are looked at at once: each waits for a disk or a server most of the time.
_THREADS = 16
# Pieces that a process is asked for at once.
_BATCH = 8
# A process takes half a second to begin, in which this one looks at a hundred files.
_FEWEST = 200
_MOST_PROCESSES = 8
_PROGRAM = "from hyperslab.formats.join.workers import serve; serve()"
FAILURES = (OSError, EOFError, pickle.PickleError)
"""What is raised where a worker cannot be started, or has died."""


def count_workers(places: Sequence[Location]) -> int:
    """Return how many processes are worth their while; 0 for places elsewhere, whose secrets are in no pickle."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    is_python = os.path.basename(sys.executable or "").startswith("python")
    if len(places) < _FEWEST or cores < 2 or not is_python or any(place.scheme != "file" for place in places):
        return 0
    return min(cores, _MOST_PROCESSES)


# -- all pieces --------------------------------------------------------------------------------------------------------


def look_at_pieces(
    places: Sequence[Location],
    open_reader: Callable[[int], Reader],
    first: int = 0,
    *,
    locates: bool = False,
    settings: Settings = DEFAULTS,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Template, list[PieceMetadata]]:
    """Return the tree of the piece ``first``, which all have, and what is known of each; ``advance`` is called after
    each. The first error is raised. ``locates``: also where their chunks lie, which other processes find out where that
    is faster; they open pieces with ``settings``."""
    urls = [place.url for place in places]

    def look(number: int) -> PieceMetadata:
        try:
            found = look_at_piece(open_reader(number), urls[number], template, locates=locates)
            advance()
            return found
        except HyperslabError as error:
            raise error.locate(url=urls[number]) from error.__cause__

    try:
        template = read_tree(open_reader(first), urls[first])
    except HyperslabError as error:
        raise error.locate(url=urls[first]) from error.__cause__
    if locates and (count := count_workers(places)):
        return template, _look_by_workers(count, lambda: PieceWorker(template, settings), places, look, advance)
    with ThreadPoolExecutor(min(_THREADS, len(places)), "hyperslab_join") as pool:
        return template, list(pool.map(look, range(len(places))))


def _look_by_workers(
    count: int,
    start_worker: Callable[[], PieceWorker],
    places: Sequence[Location],
    look: Callable[[int], PieceMetadata],
    advance: Callable[[], None],
) -> list[PieceMetadata]:
    """Return what is known of each piece, as so many processes find it out; what a process that died should have looked
    at is looked at here."""
    free: SimpleQueue[PieceWorker | None] = SimpleQueue()

    def look_at_some(numbers: range) -> list[PieceMetadata]:
        worker = free.get()
        try:
            found = None if worker is None else worker.look([places[number] for number in numbers])
        except FAILURES:
            worker = found = None
        finally:
            free.put(worker)
        known: list[PieceMetadata] = [look(number) for number in numbers] if found is None else []
        for each in found or ():
            if isinstance(each, HyperslabError):
                raise each
            advance()
            known.append(each)
        return known

    batches = [range(start, min(start + _BATCH, len(places))) for start in range(0, len(places), _BATCH)]
    with ExitStack() as stack:
        for _ in range(count):
            try:
                free.put(stack.enter_context(closing(start_worker())))
            except FAILURES:
                free.put(None)
        with ThreadPoolExecutor(count, "hyperslab_join") as pool:
            return [piece for some in pool.map(look_at_some, batches) for piece in some]


# -- one process -------------------------------------------------------------------------------------------------------


class PieceWorker:
    """One process, which compares pieces with a template and says where their chunks lie."""

    def __init__(self, template: Template, settings: Settings = DEFAULTS) -> None:
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            # -P: without it Python would import from the working directory first, which may be a folder of others' data
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
        )
        self._send((template, settings))

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None  # it is a pipe
        pickle.dump(value, self._process.stdin)
        self._process.stdin.flush()

    def look(self, places: Sequence[Location]) -> list[PieceMetadata | HyperslabError]:
        """Return what is known of pieces, or what is wrong with them; one of :data:`FAILURES` where it has died."""
        self._send(list(places))
        assert self._process.stdout is not None  # it is a pipe
        found: list[PieceMetadata | HyperslabError] = pickle.load(self._process.stdout)
        return found

    def close(self) -> None:
        """End the process; closing twice is fine."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Answer whoever started this process until the pipe is closed."""
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    requests = sys.stdin.buffer
    try:
        template, settings = pickle.load(requests)
        while True:
            pickle.dump([_look(place, template, settings) for place in pickle.load(requests)], answers)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return


def _look(place: Location, template: Template, settings: Settings) -> PieceMetadata | HyperslabError:
    try:
        reader, _ = open_piece(place, settings)
        try:
            return look_at_piece(reader, place.url, template, locates=True)
        finally:
            reader.close()
    except HyperslabError as error:
        return error.locate(url=place.url)
