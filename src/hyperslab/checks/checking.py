"""``check``: every problem of a dataset, found by looking through all of it; the first one never ends the search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from hyperslab.api import Target
from hyperslab.checks.abandoned_copies import examine_leftovers
from hyperslab.checks.findings import Finding, found
from hyperslab.checks.keyed import Walk
from hyperslab.checks.measuring import extent_of
from hyperslab.checks.places import CheckedDataset, find_place
from hyperslab.checks.readable import examine_reader
from hyperslab.checks.report import Report
from hyperslab.chunks.progress import Report as Reports
from hyperslab.chunks.progress import watching
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.zarr.opening import FormatWithReader


def check(
    url: Target,
    deep: bool = False,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    allow_external: Sequence[str] | bool = (),
    progress: bool | Reports | None = None,
) -> Report:
    """Every problem of the dataset at ``url``, with the node it is in and its kind; an empty report when it is sound.

    All folders, documents, names and lengths of chunks, indexes of shards and consolidated metadata are looked at;
    ``deep`` decodes every chunk besides, by ``workers`` threads, each in the memory of about one chunk. Links are
    looked at where ``open`` follows them: ``allow_external`` as there. ``progress``: True for a bar on a terminal, or a
    function of ``Progress``; it is of ``deep``. Nothing is changed. NotFound when nothing is there, FormatError when it
    is no dataset at all.
    """
    place = find_place(url, format, storage_options, allow_external)
    settings = Settings(workers=workers, cache_bytes=0)
    with watching(progress if deep else None, "checking", partial(extent_of, place, settings)):
        return report_of(place, examine(place, settings, deep=deep), deep)


def examine(place: CheckedDataset, settings: Settings, *, deep: bool) -> Iterable[Finding]:
    """Return the findings of a dataset of whatever format, and of what lies beside it."""
    return chain(examine_dataset(place, settings, deep=deep), examine_leftovers(place.where))


def examine_dataset(place: CheckedDataset, settings: Settings, *, deep: bool) -> Iterable[Finding]:
    """The findings of a dataset of whatever format."""
    dialect = place.dialect
    if dialect is not None:
        store = place.where.store(read_only=True)
        try:
            opens = place.format if isinstance(place.format, FormatWithReader) else None
            own = None if opens is None else opens.reader(store, dialect, settings, place.where)
            return Walk(store, dialect, settings, deep, own).run()
        finally:
            store.close()
    return _examine_opened(place, settings, deep)


def _examine_opened(place: CheckedDataset, settings: Settings, deep: bool) -> list[Finding]:
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except FormatError as error:
        problems = [found(problem.node, problem.kind, problem.message) for problem in error.problems]
        return problems or [found("", "unreadable-file", error.said)]
    except HyperslabError as error:
        raise error.locate(url=place.where.url) from error.__cause__
    try:
        return list(examine_reader(reader, settings, deep=deep))
    finally:
        reader.close()


def report_of(place: CheckedDataset, findings: Iterable[Finding], deep: bool) -> Report:
    """The findings as they are told."""
    findings = list(findings)
    problems = [finding.problem for finding in findings if not finding.sound]
    notes = [finding.problem for finding in findings if finding.sound]
    return Report(problems, url=place.where.url, notes=notes, deep=deep)
