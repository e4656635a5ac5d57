"""One conversion at work: write the planned documents, copy the cells, compare both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from hyperslab import api
from hyperslab.array.session import Session
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copying import ArrayCopy, Counter, copy_arrays
from hyperslab.conversion.progress import Progress, Report
from hyperslab.conversion.report import ConversionReport, Verification
from hyperslab.conversion.verifying import compare_cells, compare_documents
from hyperslab.conversion.walking import Planned
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.base import Batches, Discards, Feature, Format
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec

_SETTINGS = Settings(cache_bytes=0, durable=False)


@dataclass(frozen=True, eq=False)
class Job:
    """From an open source, by a plan of nodes, into a target of ``format``, within ``memory`` bytes."""

    format: Format
    source: Session
    planned: list[Planned]
    memory: int

    def write(self, target: Session, report: Report) -> Progress:
        """Documents first, then cells."""
        self._put_documents(target)
        copies = self._copies(self.source, target)
        now = Progress(0, sum(copy.nbytes for copy in copies), 0, sum(copy.chunks for copy in copies))
        report(now)

        def done(nbytes: int, chunks: int) -> None:
            nonlocal now
            now = now.advanced(nbytes, chunks)
            report(now)

        copy_arrays(copies, _SETTINGS, done)
        return now

    def _put_documents(self, target: Session) -> None:
        writer = target.writer()
        with writer.batch() if isinstance(writer, Batches) else nullcontext():
            for plan in self.planned:
                try:
                    writer.put(plan.item.path, plan.node)
                except HyperslabError as error:
                    raise error.locate(url=target.url, node=plan.item.path) from error.__cause__

    def _copies(self, source: Session, target: Session) -> list[ArrayCopy]:
        copies = []
        for plan in self.planned:
            path, spec, picked = plan.item.path, plan.item.node, plan.item.picked
            if isinstance(spec, ArraySpec) and picked is not None:
                written = target.reader.node(path)
                if not isinstance(written, ArraySpec):
                    raise FormatError("the array was not made", url=target.url, node=path)
                sides = source.reader.chunks(path), target.reader.chunks(path)
                copies.append(ArrayCopy(path, picked, sides[0], spec, sides[1], written, self.memory))
        return copies

    def verify(self, src: api.Target, built: api.Target) -> Verification:
        """Open both sides anew and compare them; raises at the first node that differs."""
        seen: list[int] = []
        count = Counter(lambda nbytes, chunks: seen.append(nbytes))
        attributes = 0
        with opened(src) as source, opened(built, format=self.format.name) as target:
            for plan in self.planned:
                attributes += self._compare_documents(target, plan)
            copies = self._copies(source, target)
            for copy in copies:
                compare_cells(copy, _SETTINGS, count)
        return Verification(
            groups=sum(isinstance(plan.node, GroupSpec) for plan in self.planned),
            arrays=len(copies),
            attributes=attributes,
            cells=sum(copy.size for copy in copies),
            nbytes=sum(seen),
        )

    def _compare_documents(self, target: Session, plan: Planned) -> int:
        found = target.reader.node(plan.item.path)
        if isinstance(plan.node, Link):
            if found != plan.node:
                raise FormatError("the link differs from the source", url=target.url, node=plan.item.path)
            return 0
        return compare_documents(plan.item.path, plan.node, found, Feature.DIMENSIONS in self.format.features)

    def summary(self, target: str, done: Progress) -> ConversionReport:
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
        )


@contextmanager
def opened(url: api.Target, **options: Any) -> Iterator[Session]:
    """A dataset's session without a cache; closed afterwards, or discarded where what was written is not whole."""
    session = api.open(url, cache_bytes=0, **options)._session
    try:
        yield session
    except BaseException:
        if isinstance(session.reader, Discards):
            session.reader.discard()
        else:
            session.reader.close()
        raise
    session.reader.close()
