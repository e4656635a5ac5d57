"""Any format at all, through its reader: every node is asked for, and with ``deep`` every cell is read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import numpy as np

from hyperslab.checks.findings import Finding, found, told
from hyperslab.checks.objects import span
from hyperslab.chunks import execute
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.base import Reader
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.selection.region import Range, Region

_MOST = 64 << 20
"""Bytes of cells that are read at once where the chunks are larger."""


def examine_reader(reader: Reader, settings: Settings, *, deep: bool) -> Iterator[Finding]:
    """What is wrong with each node below the root."""
    yield from _node(reader, "", settings, deep)


def _node(reader: Reader, path: str, settings: Settings, deep: bool) -> Iterator[Finding]:
    try:
        node = reader.node(path)
        names = list(reader.children(path)) if isinstance(node, GroupSpec) else []
    except HyperslabError as error:
        yield from _refused(path, error)
        return
    if isinstance(node, ArraySpec):
        yield from _array(reader, path, node, settings, deep)
    for name in names:
        yield from _node(reader, child(path, name), settings, deep)


def _refused(path: str, error: HyperslabError) -> Iterator[Finding]:
    problems = error.problems if isinstance(error, FormatError) else ()
    for problem in problems:
        yield found(path, problem.kind, problem.message)
    if not problems:
        yield found(path, "unreadable-node", told(error))


def _array(reader: Reader, path: str, spec: ArraySpec, settings: Settings, deep: bool) -> Iterator[Finding]:
    if spec.problem is not None:
        yield found(path, "not-decoded", spec.problem, sound=True)
        return
    try:
        source = reader.chunks(path)
    except HyperslabError as error:
        yield found(path, "unreadable-node", told(error))
        return
    if deep:
        yield from _cells(path, spec, source, settings)


def _cells(path: str, spec: ArraySpec, source: ChunkSource, settings: Settings) -> list[Finding]:
    flaws: list[Finding] = []

    def work(batch: list[Coords]) -> None:
        for coords in batch:
            try:
                _read(spec, source, coords, settings)
            except HyperslabError as error:
                message = f"{told(error)} [cells {span(source.grid, coords)}]"
                flaws.append(found(path, "corrupt-chunk", message, coords=coords))

    chunks = iter(source.grid)
    each_batch(work, iter(lambda: list(islice(chunks, 16)), []), settings.threads)
    return sorted(flaws, key=lambda finding: finding.order)


def _read(spec: ArraySpec, source: ChunkSource, coords: Coords, settings: Settings) -> None:
    """All cells of one chunk, a part at a time where it is large."""
    extent = source.grid.extent(coords)
    itemsize = max(spec.numpy_dtype.itemsize, 1)
    for part in _parts(extent, max(_MOST // itemsize, 1)):
        shape = tuple(cut.stop - cut.start for cut in part)
        require(int(np.prod(shape, dtype=object)) * itemsize, settings.memory_limit)
        region = Region(tuple(Range(cut.start, cut.stop - cut.start, 1) for cut in part))
        out = np.empty(shape, spec.numpy_dtype)
        execute.read(source, make_plan(region, source.grid), out, spec.fill_cell(), settings)


def _parts(extent: tuple[slice, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most ``most`` cells that cover an extent: the first axes are cut first."""
    left = most
    steps = []
    for cut in reversed(extent):
        length = max(1, min(cut.stop - cut.start, left))
        steps.append(length)
        left = max(1, left // length)
    cuts = [
        [slice(start, min(start + step, cut.stop)) for start in range(cut.start, cut.stop, step)]
        for cut, step in zip(extent, reversed(steps), strict=True)
    ]
    return product(*cuts)
