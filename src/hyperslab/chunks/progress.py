"""How far a conversion or a long write is: a value for callers' functions, and a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

Report = Callable[["Progress"], None]


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
        """The same conversion, that much further, after so many seconds in all."""
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
def reporting(progress: bool | Report | None, title: str) -> Iterator[Report]:
    """What to call with each new :class:`Progress`: nothing, the caller's function, or a bar on stderr's terminal."""
    if callable(progress):
        yield progress
    else:
        with bar(progress is True, title) as report:
            yield report


@contextmanager
def bar(wanted: bool, title: str) -> Iterator[Report]:
    """A bar on stderr, when it is ``wanted`` and stderr is a terminal."""
    if wanted and sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _silent


def _silent(progress: Progress) -> None:
    """Nobody asked."""


def rate_text(now: Progress) -> str:
    """``12.3 MB/s, 0:01:05 left``; nothing as long as nothing is known."""
    left = now.seconds_left
    if left is None or not now.rate:
        return ""
    minutes, seconds = divmod(round(left), 60)
    return f"{now.rate / 1e6:.1f} MB/s, {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TextColumn("{task.fields[rate]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=None, rate="")

        def report(now: Progress) -> None:
            shown.update(task, completed=now.done_bytes, total=now.total_bytes, rate=rate_text(now))

        yield report
