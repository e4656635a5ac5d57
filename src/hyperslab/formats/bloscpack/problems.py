"""Every problem of a bloscpack file, of its metadata and of each of its chunks, none of which hides another; and what
can be mended: a change in place that its writer never finished, an end never written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hyperslab.chunks.pool import each_batch
from hyperslab.codecs.digests import Digest
from hyperslab.errors import FormatError, HyperslabError, MemoryLimit, Problem, Unsupported
from hyperslab.formats.base import Remedy
from hyperslab.formats.bloscpack.document import Content, parse
from hyperslab.formats.bloscpack.file import LocalFile, ServedFile
from hyperslab.formats.bloscpack.source import open_stream
from hyperslab.formats.bloscpack.table import ChunkTable, Tables
from hyperslab.stores import counting

_BATCH = 64
SURPLUS = "longer-than-said"
"""The kind of problem of chunks that hold more rows than the metadata say."""
_ENDS = ("unfinished", "missing-chunk")
_UNFILLED = Problem("", "unfinished", "the header or the offsets were never filled in")
_DIED = Problem("", "unfinished-change", "a writer died before it had made all of a change")


def told(error: HyperslabError) -> list[Problem]:
    """What an error says, as problems."""
    if isinstance(error, FormatError) and error.problems:
        return list(error.problems)
    kind = "not-decoded" if isinstance(error, Unsupported) else "unreadable-file"
    return [Problem("", kind, error.said)]


def chunk_problems(
    file: LocalFile | ServedFile, table: ChunkTable, content: Content | None, digest: Digest, deep: bool, workers: int
) -> Iterator[Problem]:
    """What is wrong with the stored chunks; without ``content`` they are taken as bytes."""
    node = content.labelled.name if content is not None else ""
    if table.unfinished and (table.fault or table.found < table.said):
        why = f": {table.fault}" if table.fault else ""
        yield Problem(node, "unfinished", f"the file was not written to its end{why}")
    content = content or parse(None, nbytes=table.nbytes, chunk_size=table.uniform)
    source = open_stream(file, Tables(file, lambda: table), content, digest, node)
    flaws: dict[int, Problem] = {}

    def work(numbers: range) -> None:
        for number in numbers:
            try:
                source.verify(number, decode=deep)
            except HyperslabError as error:
                kind = "not-decoded" if isinstance(error, Unsupported | MemoryLimit) else "corrupt-chunk"
                flaws[number] = Problem(node, kind, f"{error.key}: {error.said}")
        if deep and counting.watchers:
            counting.done(len(numbers))

    count = min(table.found, table.said)
    each_batch(work, (range(i, min(i + _BATCH, count)) for i in range(0, count, _BATCH)), workers)
    yield from (flaws[number] for number in sorted(flaws))
    if table.found < table.said:
        last = table.said - 1
        which = f"chunk {last} is" if table.found == last else f"chunks {table.found} to {last} are"
        yield Problem(node, "missing-chunk", f"{which} not there{f': {table.fault}' if table.fault else ''}")


def remedies_of(
    problems: Iterable[Problem], table: ChunkTable | None, *, died: bool, complete: Callable[[], None]
) -> Iterator[Remedy]:
    """The remedies of a file with these problems. ``died``: whether there is, or was, a journal of a dead writer;
    ``complete``: ends a file whose writer never came to its end with the last whole chunk."""
    if died:
        yield Remedy(_DIED, "put back what was there before", _nothing, sound=True)  # it is read as if it were done
    problems = list(problems)
    action = None
    if table is not None and table.found and (table.unfinished or table.found < table.said):
        action = f"fill in the header and the offsets of the {table.found} whole chunks, with which the file ends"
        if not any(problem.kind in _ENDS for problem in problems):
            problems.append(_UNFILLED)
    act: Callable[[], None] | None = complete
    for problem in problems:
        if problem.kind not in _ENDS or action is None:
            yield Remedy(problem)
        else:
            yield Remedy(problem, action, act or _nothing, sound=problem is _UNFILLED)  # all cells are read as they are
            act = None  # which mends the others too


def _nothing() -> None:
    """Opening the file for writing has done it."""
