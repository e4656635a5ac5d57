"""Any format at all, through its reader: every node is asked for, and with ``deep`` every cell is read."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from hyperslab.checks.dimensions import Member, examine_dimensions
from hyperslab.checks.findings import Finding, found
from hyperslab.checks.objects import span
from hyperslab.checks.reading import read_through
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.pool import batched, each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.base import Examines, HoldsOne, Reader, Repairs, omitted_at
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

_BATCH = 16


def examine_reader(reader: Reader, settings: Settings, *, deep: bool) -> Iterator[Finding]:
    """What is wrong with each node below the root, or all that the format itself finds."""
    if isinstance(reader, Repairs):
        for remedy in reader.remedies(deep=deep, workers=settings.threads):
            problem = remedy.problem
            yield found(problem.node, problem.kind, problem.message, sound=remedy.sound)
    elif isinstance(reader, Examines):
        for problem in reader.problems(deep=deep, workers=settings.threads):
            yield found(problem.node, problem.kind, problem.message)
    else:
        yield from flattened(_node(reader, "", settings, deep))
    yield from _sizes(reader)


def _sizes(reader: Reader) -> Iterator[Finding]:
    """In a format of one array: coordinates that are not as long as the dimension whose labels they are."""
    try:  # to ask what the array is called reads the documents
        names = reader.children("") if isinstance(reader, HoldsOne) else ()
        specs = [(name, reader.node(name)) for name in names]
    except HyperslabError:  # which is a finding already
        return
    yield from examine_dimensions("", [Member(name, spec) for name, spec in specs if isinstance(spec, ArraySpec)])


def _node(reader: Reader, path: str, settings: Settings, deep: bool) -> Generator[Any]:
    try:
        node = reader.node(path)
        names = list(reader.children(path)) if isinstance(node, GroupSpec) else []
    except HyperslabError as error:
        yield from _refused(path, error)
        return
    for problem in omitted_at(reader, path):
        yield found(problem.node, "not-shown", problem.message, sound=True)
    if isinstance(node, ArraySpec):
        yield from _array(reader, path, node, settings, deep)
    for name in names:
        yield _node(reader, child(path, name), settings, deep)


def _refused(path: str, error: HyperslabError) -> Iterator[Finding]:
    problems = error.problems if isinstance(error, FormatError) else ()
    for problem in problems:
        yield found(path, problem.kind, problem.message)
    if not problems:
        key = f" [key={error.key}]" if error.key else ""
        yield found(path, "unreadable-node", f"{error.said}{key}")


def _array(reader: Reader, path: str, spec: ArraySpec, settings: Settings, deep: bool) -> Iterator[Finding]:
    if spec.problem is not None:
        yield found(path, "not-decoded", spec.problem)
        return
    try:
        source = reader.chunks(path)
    except HyperslabError as error:
        yield found(path, "unreadable-node", error.said)
        return
    if deep:
        yield from _cells(path, spec, source, settings)


def _cells(path: str, spec: ArraySpec, source: ChunkSource, settings: Settings) -> list[Finding]:
    flaws: list[Finding] = []

    def work(batch: list[Coords]) -> None:
        for coords in batch:
            try:
                read_through(source, spec, coords, settings)
            except HyperslabError as error:
                key = f"key={error.key}, " if error.key else ""
                message = f"{error.said} [{key}cells {span(source.grid, coords)}]"
                flaws.append(found(path, "corrupt-chunk", message, coords=coords))

    each_batch(work, batched(source.grid, _BATCH), settings.threads)
    return sorted(flaws, key=lambda finding: finding.order)
