"""Every problem of a bloscpack file: of its metadata and of each of its chunks; none hides another."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.chunks.pool import each_batch
from hyperslab.codecs.digests import Digest
from hyperslab.errors import FormatError, HyperslabError, MemoryLimit, Problem, Unsupported
from hyperslab.formats.bloscpack.document import Content, parse
from hyperslab.formats.bloscpack.file import LocalFile, ServedFile
from hyperslab.formats.bloscpack.source import open_stream
from hyperslab.formats.bloscpack.table import ChunkTable, Tables

_BATCH = 64


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

    count = min(table.found, table.said)
    each_batch(work, (range(i, min(i + _BATCH, count)) for i in range(0, count, _BATCH)), workers)
    yield from (flaws[number] for number in sorted(flaws))
    if table.found < table.said:
        last = table.said - 1
        which = f"chunk {last} is" if table.found == last else f"chunks {table.found} to {last} are"
        yield Problem(node, "missing-chunk", f"{which} not there{f': {table.fault}' if table.fault else ''}")
