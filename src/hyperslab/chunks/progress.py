"""How far a conversion, a check or a long write is: a value for callers' functions, and a bar on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from hyperslab.stores import counting

ProgressCallback = Callable[["Progress"], None]
"""A function to be called with each new :class:`Progress`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Done and to do: bytes of decoded cells, and chunks (shards) of the target.

    ``seconds``: since copying began. ``resumed_bytes``: how many of ``done_bytes`` an interrupted run had copied.
    """

    done_bytes: int
    total_bytes: int
    done_chunks: int
    total_chunks: int
    seconds: float = 0.0
    resumed_bytes: int = 0

    def advanced(self, nbytes: int, chunks: int, seconds: float) -> Progress:
        """Return the same conversion, that much further, after so many seconds in all."""
        done = self.done_bytes + nbytes, self.done_chunks + chunks
        return replace(self, done_bytes=done[0], done_chunks=done[1], seconds=seconds)

    @property
    def rate(self) -> float:
        """Bytes of cells per second, of this run; 0.0 as long as nothing is known."""
        return (self.done_bytes - self.resumed_bytes) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None as long as nothing is known."""
        left = self.total_bytes - self.done_bytes
        return left / self.rate if self.rate > 0 else (None if left else 0.0)


@contextmanager
def reporting(progress: bool | ProgressCallback | None, title: str) -> Iterator[ProgressCallback]:
    """Yield what to call with each new :class:`Progress`: nothing, the caller's function, or a bar on stderr's
    terminal."""
    if callable(progress):
        yield progress
    else:
        with bar(progress is True, title) as report:
            yield report


@contextmanager
def bar(wanted: bool, title: str) -> Iterator[ProgressCallback]:
    """Yield a bar on stderr, when it is ``wanted`` and stderr is a terminal."""
    if wanted and sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield lambda now: None


@contextmanager
def watching(
    progress: bool | ProgressCallback | None, title: str, total: Callable[[], tuple[int, int]], *, written: bool = False
) -> Iterator[None]:
    """Report each batch of chunks that this process reads, or has ``written``, until the block ends well, when all is
    done. ``total``: bytes of cells and chunks, asked for only where somebody is to be told.

    What other threads do meanwhile is counted too, but never beyond the total. Chunks that are 0 in ``total`` are not
    known before: there are as many as were done.
    """
    if not callable(progress) and not (progress and sys.stderr.isatty()):
        yield
        return
    with reporting(progress, title) as report:
        nbytes, chunks = total()
        watch = _Watch(report, Progress(0, nbytes, 0, chunks), written)
        counting.watchers.append(watch)
        try:
            yield
        finally:
            counting.watchers.remove(watch)
        watch.finish()


def storing(progress: bool | ProgressCallback | None, obj: Any) -> AbstractContextManager[None]:
    """Do :func:`watching` while the cells of an object are stored: their bytes are known, as far as it tells, and
    chunks are not, for how they are cut is decided as they are written."""
    nbytes = getattr(obj, "nbytes", 0)
    return watching(progress, "saving", lambda: (int(nbytes) if isfinite(nbytes) else 0, 0), written=True)


class _Watch(counting.Watcher):
    """Adds up what is done, and tells it."""

    def __init__(self, report: ProgressCallback, begun: Progress, written: bool) -> None:
        self._report = report
        self._written = written
        self._now = begun
        self._knows_chunks = begun.total_chunks > 0
        self._nbytes = 0.0
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        report(begun)

    def done(self, chunks: int, nbytes: float, *, written: bool) -> None:
        """Add what was read or written."""
        if written is not self._written:
            return
        with self._lock:
            now = self._now
            self._nbytes += nbytes or chunks * now.total_bytes / max(now.total_chunks, 1)
            self._tell(min(round(self._nbytes), now.total_bytes), now.done_chunks + chunks)

    def finish(self) -> None:
        """Report that all is done."""
        with self._lock:
            self._tell(self._now.total_bytes, max(self._now.total_chunks, self._now.done_chunks))

    def _tell(self, nbytes: int, chunks: int) -> None:
        total = self._now.total_chunks if self._knows_chunks else chunks
        seconds = time.perf_counter() - self._began
        self._now = replace(
            self._now, done_bytes=nbytes, done_chunks=min(chunks, total), total_chunks=total, seconds=seconds
        )
        self._report(self._now)


def rate_text(now: Progress) -> str:
    """Return ``12.3 MB/s, 0:01:05 left``; nothing as long as nothing is known."""
    left = now.seconds_left
    if left is None or not now.rate:
        return ""
    minutes, seconds = divmod(round(left), 60)
    return f"{now.rate / 1e6:.1f} MB/s, {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"


@contextmanager
def _bar(title: str) -> Iterator[ProgressCallback]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    class Amount(ProgressColumn):
        """Bytes; where none are known, chunks or pieces by their number."""

        columns = DownloadColumn(), MofNCompleteColumn()

        def render(self, task: Any) -> Any:
            return self.columns[task.fields["counts"]].render(task)

    columns = (TextColumn("{task.description}"), BarColumn(), Amount(), TextColumn("{task.fields[rate]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=None, rate="", counts=False)

        def report(now: Progress) -> None:
            if now.total_bytes:
                shown.update(task, completed=now.done_bytes, total=now.total_bytes, rate=rate_text(now))
            else:
                shown.update(task, completed=now.done_chunks, total=now.total_chunks, counts=True)

        yield report
