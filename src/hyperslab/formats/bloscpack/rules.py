"""The problems of a bloscpack file, none of which hides another, and what mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hyperslab.chunks.pool import each_batch
from hyperslab.codecs.checksums import Digest
from hyperslab.errors import FormatError, HyperslabError, MemoryLimit, Problem, Unsupported
from hyperslab.formats.bloscpack.chunk_table import ChunkTable, TableCache
from hyperslab.formats.bloscpack.document import Content, parse_document
from hyperslab.formats.bloscpack.file import FileBytes
from hyperslab.formats.bloscpack.source import open_stream
from hyperslab.formats.rules import Finding, Rule, Rules, nothing
from hyperslab.stores import counting

# Chunks that a thread examines in one go: their headers are small.
CHUNKS_PER_TASK = 64
SURPLUS = "longer-than-said"
"""The kind of problem of chunks that hold more rows than the metadata say."""
_ENDS = ("unfinished", "missing-chunk")
_UNFILLED = Problem("", "unfinished", "the header or the offsets were never filled in")
_DIED = Problem("", "unfinished-change", "a writer died before it had made all of a change")


def problems_of(error: HyperslabError) -> list[Problem]:
    """Return the problems that an error lists, or the error as one."""
    if isinstance(error, FormatError) and error.problems:
        return list(error.problems)
    kind = "not-decoded" if isinstance(error, Unsupported) else "unreadable-file"
    return [Problem("", kind, error.said)]


def chunk_problems(
    file: FileBytes, table: ChunkTable, content: Content | None, digest: Digest, deep: bool, workers: int
) -> Iterator[Problem]:
    """Yield the problems of the stored chunks; without ``content`` they are taken as bytes."""
    node = content.labelled.name if content is not None else ""
    if table.unfinished and (table.fault or table.found < table.declared):
        why = f": {table.fault}" if table.fault else ""
        yield Problem(node, "unfinished", f"the file was not written to its end{why}")
    content = content or parse_document(None, nbytes=table.nbytes, chunk_size=table.uniform)
    source = open_stream(file, TableCache(file, lambda: table), content, digest, node)
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

    count = min(table.found, table.declared)
    each_batch(work, (range(i, min(i + CHUNKS_PER_TASK, count)) for i in range(0, count, CHUNKS_PER_TASK)), workers)
    yield from (flaws[number] for number in sorted(flaws))
    if table.found < table.declared:
        last = table.declared - 1
        which = f"chunk {last} is" if table.found == last else f"chunks {table.found} to {last} are"
        yield Problem(node, "missing-chunk", f"{which} not there{f': {table.fault}' if table.fault else ''}")


def with_mends(
    problems: Iterable[Problem], table: ChunkTable | None, *, died: bool, complete: Callable[[], None]
) -> Iterator[Finding]:
    """Yield the remedies of a file with these problems. ``died``: whether there is, or was, a journal of a dead writer;
    ``complete``: ends a file whose writer never came to its end with the last whole chunk."""
    if died:
        # opening the file for writing puts it back, and whoever reads it reads it so
        yield Finding(_DIED, "put back what was there before", nothing, is_note=True)
    problems = list(problems)
    action = None
    if table is not None and table.found and (table.unfinished or table.found < table.declared):
        action = f"fill in the header and the offsets of the {table.found} whole chunks, with which the file ends"
        if not any(problem.kind in _ENDS for problem in problems):
            problems.append(_UNFILLED)
    act: Callable[[], None] | None = complete
    for problem in problems:
        if problem.kind not in _ENDS or action is None:
            yield Finding(problem)
        else:
            # an unfilled header alone is a note: all cells are read as they are
            yield Finding(problem, action, act or nothing, is_note=problem is _UNFILLED)
            act = None  # which mends the others too


# -- the table: all of it is found by the look above ------------------------------------------------------------------

RULES = Rules(
    Rule(
        ("longer-than-said",),
        "rows appended by `blpk append` that the shape of the bloscpack array does not include",
        "the shape is extended",
    ),
    Rule(
        ("unfinished", "missing-chunk"),
        "an incomplete bloscpack file",
        "header and offsets are rewritten for the complete chunks",
    ),
    Rule(
        ("unfinished-change",),
        "a note: an unfinished change of a bloscpack file",
        "the previous state is restored",
    ),
    Rule(
        ("header", "metadata"),
        "an invalid header or metadata of a bloscpack file",
        "not repairable",
    ),
)
