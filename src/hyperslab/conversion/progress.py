"""How far a conversion is: a value for callers' functions, and a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """Done and to do: bytes of decoded cells, and chunks (shards) of the target."""

    done_bytes: int
    total_bytes: int
    done_chunks: int
    total_chunks: int

    def advanced(self, nbytes: int, chunks: int) -> Progress:
        """The same conversion, that much further."""
        return Progress(self.done_bytes + nbytes, self.total_bytes, self.done_chunks + chunks, self.total_chunks)


@contextmanager
def reporting(progress: bool | Report | None, title: str) -> Iterator[Report]:
    """What to call with each new :class:`Progress`: nothing, the caller's function, or a bar on stderr's terminal."""
    if callable(progress):
        yield progress
    elif progress and sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _silent


def _silent(progress: Progress) -> None:
    """Nobody asked."""


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda now: bar.update(task, completed=now.done_bytes, total=now.total_bytes)
