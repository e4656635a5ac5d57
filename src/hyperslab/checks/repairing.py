"""``repair``: what a check finds is mended where that loses no sound cell, stage by stage, each after a new look."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from hyperslab.api import Target
from hyperslab.checks.abandoned_copies import mend_leftovers
from hyperslab.checks.blanking import Blanking
from hyperslab.checks.checking import examine_dataset
from hyperslab.checks.findings import Finding
from hyperslab.checks.keyed import Walk
from hyperslab.checks.measuring import extent_of
from hyperslab.checks.mending import Menders, Mending, OwnRepair, Stage, mends_itself, stage_of
from hyperslab.checks.mending_chunks import Act
from hyperslab.checks.places import CheckedDataset, find_place
from hyperslab.checks.quarantine import Quarantine, quarantine_folder
from hyperslab.checks.report import Mend, Report
from hyperslab.chunks.progress import Report as Reports
from hyperslab.chunks.progress import watching
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import HyperslabError, Problem, ReadOnly
from hyperslab.formats.base import Remedy
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.formats.zarr.opening import FormatWithReader
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.stores.base import Locks, LocksNodes


def repair(
    url: Target,
    dry_run: bool = True,
    *,
    deep: bool = True,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    lock_timeout: float = DEFAULTS.lock_timeout,
    links: bool = False,
    drop_links: bool = False,
    allow_external: Sequence[str] | bool = (),
    progress: bool | Reports | None = None,
) -> Report:
    """What would be mended (``dry_run``) or has been: a report of :class:`Mend`, empty when the dataset is sound.

    No sound cell is touched. Chunks that cannot be decoded are taken out and read as the fill value; of a shard only
    the inner chunks that are damaged. Missing documents come back from consolidated metadata; arrays that disagree
    about a dimension are made as long as the stored chunks ask for; consolidated metadata is written anew. What is
    taken out goes to the folder ``quarantine`` (beside a local dataset: its name with ``.quarantine``), else it is
    removed. ``deep``: decode every chunk to find the damaged ones. ``links``: mend links, references and consolidated
    metadata alone, and let links say all that they can of their targets; ``drop_links``: take out those that lead
    nowhere, which otherwise are only told; ``allow_external``: where they may lead, as for ``open``. ``progress``: as
    for ``check``. What cannot be mended, also because a writer held a lock for longer than ``lock_timeout`` seconds, is
    not ``done``. ReadOnly when the place takes no writes; Conflict when a bucket's lease is another's for that long: a
    conversion, or another repair, is at work.
    """
    place = find_place(url, format, storage_options, allow_external)
    settings = Settings(workers=workers, cache_bytes=0, lock_timeout=lock_timeout)
    wishes = frozenset(name for name, wished in (("links", links), ("drop_links", drop_links)) if wished)
    folder = partial(quarantine_folder, place.where, quarantine)
    with watching(progress if deep else None, "repairing", partial(extent_of, place, settings)):
        mends = _mends(place, settings, folder, wishes, deep=deep, dry_run=dry_run)
        left = () if wishes else mend_leftovers(place.where, dry_run=dry_run)
        return Report(chain(mends, left), url=place.where.url, deep=deep)


def _mends(
    place: CheckedDataset,
    settings: Settings,
    folder: Callable[[], str | None],
    wishes: frozenset[str],
    *,
    deep: bool,
    dry_run: bool,
) -> Iterable[Mend]:
    """Those of a dataset under keys; else by the format itself where it can, and damaged chunks as fill values."""
    dialect = place.dialect
    if dialect is None:
        problems: list[Problem]
        if mends_itself(place, settings):
            problems = list(OwnRepair(place, settings, folder()).run(deep, dry_run=dry_run))
        else:
            problems = [finding.problem for finding in examine_dataset(place, settings, deep=deep) if not finding.sound]
        return Blanking(place, settings, folder()).run(problems, dry_run=dry_run)
    job = _Repair(place, dialect, settings, folder(), wishes)
    return job.plan(deep) if dry_run else job.run(deep)


class _Repair:
    """One repair of a dataset of documents and chunks under keys."""

    def __init__(
        self,
        place: CheckedDataset,
        dialect: MetadataDialect,
        settings: Settings,
        folder: str | None,
        wishes: frozenset[str],
    ) -> None:
        self._place = place
        self._dialect = dialect
        self._settings = settings
        self._folder = folder
        self._wishes = wishes

    def plan(self, deep: bool) -> Iterator[Mend]:
        """What would be done, as far as can be told before the first stage."""
        store = self._place.where.store(read_only=True)
        try:
            for mending in self._mendings(store, deep, None):
                yield mending.report(done=False)
        finally:
            store.close()

    def run(self, deep: bool) -> Iterator[Mend]:
        """Mend, stage by stage: what one stage puts right is not there any more for the next."""
        store = self._place.where.store(read_only=False)
        failed = set()
        try:
            self._refuse_held(store)
            for stage in Stage:
                for mending in list(self._mendings(store, deep and stage is Stage.OBJECTS, stage)):
                    if mending.stage is stage and mending.act is not None:
                        mend = self._act(mending, mending.act)
                        if not mend.done:
                            failed.add(mending.finding.problem)
                        yield mend
                    elif stage is Stage.OBJECTS and mending.stage <= stage and mending.finding.problem not in failed:
                        yield mending.report(done=False)
        finally:
            store.close()

    def _refuse_held(self, store: Any) -> None:
        """Conflict, before anything is looked at, when somebody is making the dataset in a bucket."""
        if isinstance(store, LocksNodes) and not isinstance(store, Locks):
            with store.lock_node("", self._settings.lock_timeout):
                pass  # each mend takes it again, so that writers wait for one mend and not for all

    def _mendings(self, store: Any, deep: bool, only: Stage | None) -> Iterator[Mending]:
        format = self._place.format
        opens = format if isinstance(format, FormatWithReader) else None
        found = (store, self._dialect, self._settings)
        writer = ZarrWriter(*found) if opens is None else opens.writer(*found, self._place.where)
        walk = Walk(store, self._dialect, self._settings, deep, writer)
        findings = [finding for finding in walk.run() if self._is_wanted(finding)]
        return Menders(walk, writer, Quarantine(store, self._folder), self._wishes).plan(findings, only)

    def _is_wanted(self, finding: Finding) -> bool:
        """Return whether it is a problem, or is to be made better; of the part that the repair is limited to."""
        remedy = finding.means if isinstance(finding.means, Remedy) else None
        is_left = finding.problem.kind == "outside-grid"  # which no reader sees, and a repair takes out all the same
        if finding.sound and not is_left and (remedy is None or remedy.asked not in self._wishes):
            return False
        is_of_part = stage_of(finding) is Stage.COPIES if remedy is None else remedy.part == "links"
        return is_of_part or "links" not in self._wishes

    def _act(self, mending: Mending, act: Act) -> Mend:
        try:
            act()
        except ReadOnly as error:
            raise error.locate(url=self._place.where.url) from error.__cause__
        except HyperslabError as error:
            return mending.failed(error.said)
        return mending.report(done=True)
