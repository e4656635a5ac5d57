"""One conversion at work: which arrays are copied from where to where, how far that is, and what it came to."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.progress import Progress, Report
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.columns import Columns, with_columns
from hyperslab.conversion.copying import ArrayCopy, Boxes, Check
from hyperslab.conversion.journal import ConversionJournal
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.raw_chunk_copy import copy_box
from hyperslab.conversion.report import ConversionReport
from hyperslab.conversion.walking import Planned
from hyperslab.errors import FormatError
from hyperslab.formats.base import Format
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

SETTINGS = Settings(cache_bytes=0, durable=False)
"""How a target is written that nobody sees yet, and read to be compared."""


@dataclass(frozen=True, eq=False)
class Job:
    """From an open source, by a plan of nodes, into a target of ``format``, within ``memory`` bytes. ``options``: of
    the target's own. ``pointing``: what becomes of links and references. ``columns``: arrays that are fields of rows.
    """

    format: Format
    source: OpenDataset
    planned: list[Planned]
    memory: int
    options: Mapping[str, Any] = field(default_factory=dict)
    pointing: Pointing | None = None
    columns: Columns = field(default_factory=dict)

    def copies(self, target: OpenDataset, source: OpenDataset | None = None) -> list[ArrayCopy]:
        """The copy of every array; ``source``: the same source, opened anew."""
        copies, given = [], with_columns(source or self.source, self.columns).reader
        for plan in self.planned:
            path, spec, picked = plan.item.path, plan.item.node, plan.item.picked
            if isinstance(spec, ArraySpec) and picked is not None:
                written = target.reader.node(path)
                if not isinstance(written, ArraySpec):
                    raise FormatError("the array was not made", url=target.url, node=path)
                origin = plan.item.origin
                sides = given.chunks(origin), target.reader.chunks(path)
                copies.append(
                    ArrayCopy(path, picked, sides[0], spec, sides[1], written, self.memory, origin, self.pointing)
                )
        return copies

    def summary(self, target: str, done: Progress, recut: tuple[str, ...] = ()) -> ConversionReport:
        """What was written."""
        kinds = [type(plan.node) for plan in self.planned]
        return ConversionReport(
            source=self.source.url,
            target=target,
            format=self.format.name,
            groups=kinds.count(GroupSpec),
            arrays=kinds.count(ArraySpec),
            links=kinds.count(Link),
            chunks=done.done_chunks,
            nbytes=done.done_bytes,
            resumed_nbytes=done.resumed_bytes,
            recut=recut,
        )


class CopyProgress:
    """How far the copies are: told to ``report``, noted in the ``journal``. Boxes that the journal has are skipped."""

    def __init__(self, copies: Sequence[ArrayCopy], report: Report, journal: ConversionJournal | None = None) -> None:
        self._report = report
        self._journal = journal
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._skips = {copy.path: _known(copy, journal) for copy in copies}
        done = [copy.extent(skip) for copy in copies if (skip := self._skips[copy.path]) is not None]
        nbytes, chunks = (sum(part) for part in zip((0, 0), *done, strict=True))
        total = sum(copy.nbytes for copy in copies), sum(copy.chunks for copy in copies)
        self.now = Progress(nbytes, total[0], chunks, total[1], resumed_bytes=nbytes)
        report(self.now)

    def skip(self, copy: ArrayCopy) -> Boxes | None:
        """The boxes that are done already."""
        return self._skips[copy.path]

    def __call__(self, copy: ArrayCopy, number: int, box: Box) -> None:
        """A box is done."""
        nbytes, chunks = copy.box_bytes(box), copy.chunks_in(box)
        with self._lock:
            if self._journal is not None:
                self._journal.note((copy.path, copy.counts, number))
            self.now = self.now.advanced(nbytes, chunks, time.perf_counter() - self._began)
            self._report(self.now)


def _known(copy: ArrayCopy, journal: ConversionJournal | None) -> Boxes | None:
    if journal is None:
        return None
    return journal.done(copy.path, copy.counts, tuple(cut.target.count for cut in copy.cuts))


def copy_arrays(copies: Sequence[ArrayCopy], tally: CopyProgress, settings: Settings) -> None:
    """All arrays, one after another, by the threads of this process."""
    for copy in copies:

        def work(number: int, box: Box, check: Check, copy: ArrayCopy = copy) -> None:
            copy_box(copy, box, settings, check)
            tally(copy, number, box)

        copy.run(work, settings, tally.skip(copy))
