"""Compare a finished target with its source, both opened anew: types, dimensions, attributes, cells by their bits.

What no read shows (documents beside a consolidated copy, the padding of chunks at the edge, a compressor's parameters)
is compared as bytes: the documents, and the chunks that no checksum covers, are made once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.progress import Report
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.comparing import Comparing, is_checksummed, is_lossy
from hyperslab.conversion.copying import ArrayCopy, Check
from hyperslab.conversion.dry_run import documents_of
from hyperslab.conversion.job import SETTINGS, CopyProgress, Job
from hyperslab.conversion.opening import opened
from hyperslab.conversion.raw_chunk_copy import copy_box
from hyperslab.conversion.report import Verification
from hyperslab.conversion.staged_target import StagedTarget
from hyperslab.conversion.walking import Planned
from hyperslab.errors import CorruptChunk, FormatError
from hyperslab.formats.base import Feature
from hyperslab.model.cells import same_cells
from hyperslab.model.differences import differences
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Get
from hyperslab.stores.location import Location

_AGAIN = "convert again"


def verify(job: Job, src: Location, site: StagedTarget, report: Report, *, keyed: bool) -> Verification:
    """What was equal; FormatError or CorruptChunk at the first node, box or stored value that differs."""
    with opened(src) as source, opened(site.anew(), format=job.format.name) as target:
        try:
            return _compared(job, source, target, site, report, keyed)
        except (FormatError, CorruptChunk) as error:
            raise error.locate(url=target.url) from error.__cause__


def _compared(
    job: Job, source: OpenDataset, target: OpenDataset, site: StagedTarget, report: Report, keyed: bool
) -> Verification:
    if keyed:
        compare_bytes(documents_of(job.format, job.planned, job.options), target)
    dims = Feature.DIMENSIONS in job.format.features
    attributes = sum(_compare_node(target, plan, dims) for plan in job.planned)
    copies = job.copies(target, source)
    tally = CopyProgress(copies, report)
    with _written_again(job, site, keyed) as twins:
        for copy in copies:
            compare_cells(copy, SETTINGS, tally, twins.get(copy.path))
    return Verification(
        groups=sum(isinstance(plan.node, GroupSpec) for plan in job.planned),
        arrays=len(copies),
        attributes=attributes,
        cells=sum(copy.size for copy in copies),
        nbytes=tally.now.done_bytes,
    )


@contextmanager
def _written_again(job: Job, site: StagedTarget, keyed: bool) -> Iterator[Mapping[str, ArrayCopy]]:
    """By path, copies into a target that takes only what it has, of the arrays that reading alone does not prove."""
    if not keyed:
        yield {}
        return
    place = site.anew()
    store = place.store(read_only=True) if isinstance(place, Location) else place
    with opened(Comparing(store), mode="r+", format=job.format.name) as target:
        yield {copy.path: copy for copy in job.copies(target) if not _is_proved_by_reading(copy)}


def _is_proved_by_reading(copy: ArrayCopy) -> bool:
    codecs = copy.target_spec.codecs
    return is_checksummed(codecs) and not is_lossy(codecs)


def compare_bytes(documents: Mapping[str, bytes], target: OpenDataset) -> None:
    """FormatError at the first document whose bytes are not those that were written."""
    store = getattr(target.reader, "store", None)
    if not isinstance(store, Get):
        return
    for key, expected in documents.items():
        found = store.get(key)
        if found != expected:
            what = "is missing" if found is None else "differs from what was written"
            raise FormatError(f"a document {what}", url=target.url, key=key, remedy=_AGAIN)


def _compare_node(target: OpenDataset, plan: Planned, dims: bool) -> int:
    path, found = plan.item.path, target.reader.node(plan.item.path)
    if isinstance(plan.node, Link):
        if found != plan.node:
            raise FormatError("the link differs from the source", node=path, remedy=_AGAIN)
        return 0
    return compare_documents(path, plan.node, found, dims)


def compare_documents(path: str, expected: GroupSpec | ArraySpec, found: object, dims: bool) -> int:
    """The number of equal attributes; FormatError that lists every difference from what was asked for."""
    problems = differences(path, expected, found, dims=dims)
    if problems:
        shown = "; ".join(str(problem) for problem in problems)
        raise FormatError(f"the target differs from the source: {shown}", problems=problems, node=path, remedy=_AGAIN)
    return len(expected.attrs)


def compare_cells(copy: ArrayCopy, settings: Settings, tally: CopyProgress, twin: ArrayCopy | None = None) -> None:
    """CorruptChunk at the first box whose cells differ by a bit, or whose stored bytes do, where a ``twin`` is given
    that writes them again; of cells that a codec may change the bytes alone."""
    exact = twin is None or not is_lossy(copy.target_spec.codecs)

    def work(number: int, box: Box, check: Check) -> None:
        wanted, there = copy.read_source(box, settings, check), copy.read_target(box, settings)
        if exact and not same_cells(wanted, there):
            raise CorruptChunk(
                f"the cells [{_span(box)}] differ from the source",
                node=copy.path,
                remedy=f"the medium is at fault, or the source changed meanwhile: {_AGAIN}",
            )
        if twin is not None:
            if twin.carries:
                copy_box(twin, box, settings, check)
            else:
                twin.write_target(box, wanted, settings, check)
        tally(copy, number, box)

    copy.run(work, settings)


def _span(box: Sequence[Any]) -> str:
    return ", ".join(f"{part.start}:{part.stop}" for part in box)
