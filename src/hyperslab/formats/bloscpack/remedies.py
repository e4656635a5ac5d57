"""What of a bloscpack file can be mended: a change in place that its writer never finished, an end never written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hyperslab.errors import Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.bloscpack.table import ChunkTable

_ENDS = ("unfinished", "missing-chunk")
_DIED = Problem("", "unfinished-change", "a writer died before it had made all of a change")


def remedies_of(
    problems: Iterable[Problem], table: ChunkTable | None, *, died: bool, complete: Callable[[], None]
) -> Iterator[Remedy]:
    """The remedies of a file with these problems. ``died``: whether there is, or was, a journal of a dead writer;
    ``complete``: ends a file whose writer never came to its end with the last whole chunk."""
    if died:
        yield Remedy(_DIED, "put back what was there before", _nothing)
    problems = list(problems)
    action = None
    if table is not None and table.found and (table.unfinished or table.found < table.said):
        action = f"fill in the header and the offsets of the {table.found} whole chunks, with which the file ends"
        if not any(problem.kind in _ENDS for problem in problems):
            problems.append(Problem("", "unfinished", "the header or the offsets were never filled in"))
    act: Callable[[], None] | None = complete
    for problem in problems:
        if problem.kind not in _ENDS or action is None:
            yield Remedy(problem)
        else:
            yield Remedy(problem, action, act or _nothing)
            act = None  # which mends the others too


def _nothing() -> None:
    """Opening the file for writing has done it."""
