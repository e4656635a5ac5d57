"""``repair``: what a survey finds is mended where that loses no sound cell, stage by stage, each after a new look.

A dataset of documents and chunks under keys is mended by its rules (:class:`Mender`) under the locks that writers take.
In any other the findings of its format bring their own deeds, and chunks of single files that cannot be decoded and
that nothing else mends are replaced by fill values (``fill_values``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

from hyperslab.api import Target
from hyperslab.chunks.progress import Report as Reports
from hyperslab.chunks.progress import watching
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import HyperslabError, ReadOnly
from hyperslab.formats.base import Writer
from hyperslab.formats.rules import Act, Finding, Place, Plan, Stage
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.integrity.dataset import CheckedDataset, extent_of, find_place
from hyperslab.integrity.fill_values import FillValues
from hyperslab.integrity.quarantine import Quarantine, quarantine_folder
from hyperslab.integrity.report import Mend, Report, not_mended
from hyperslab.integrity.rules import RULES
from hyperslab.integrity.survey import KeyedSurvey, survey_dataset
from hyperslab.integrity.views import RepairState
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location


def repair(
    url: Target,
    dry_run: bool = True,
    *,
    deep: bool = True,
    format: str | None = None,
    storage_options: Mapping[str, object] | None = None,
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
        beside = () if wishes else _mend_beside(place.where, dry_run=dry_run)
        return Report(chain(mends, beside), url=place.where.url, deep=deep)


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
    if isinstance(place.format, ZarrFormat):
        job = KeyedRepair(place.where, place.format, settings, folder(), wishes)
        return job.plan(deep) if dry_run else job.run(deep)
    mends = list(_mends_of_format(place, settings, folder(), deep=deep, dry_run=dry_run))
    return FillValues(place, settings, folder()).run(mends, dry_run=dry_run)


def _mend_beside(where: Location, *, dry_run: bool) -> Iterator[Mend]:
    """Remove the whole copies that dead writers left beside the dataset."""
    for finding in RULES.apply(Place.BESIDE, where, deep=False):
        yield carry_out(finding, None if dry_run else Quarantine(None, None))


def carry_out(finding: Finding, quarantine: Quarantine | None) -> Mend:
    """Do what a finding says mends it, and tell what became of it; without a quarantine it is only planned."""
    problem = finding.problem
    done = quarantine is not None and finding.action is not None
    if quarantine is not None and done:
        try:
            quarantine.carry_out(finding)
        except ReadOnly:
            raise
        except HyperslabError as error:
            return not_mended(problem, error.said)
    return Mend(problem.node, problem.kind, problem.message, finding.action, done)


# -- documents and chunks under keys ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedMend:
    """A finding and its mend; without one nothing is done."""

    finding: Finding
    stage: Stage
    action: str | None = None
    act: Act | None = None

    def report(self, *, done: bool) -> Mend:
        """Return what is told of it."""
        problem = self.finding.problem
        return Mend(problem.node, problem.kind, problem.message, self.action, done and self.act is not None)

    def failed(self, reason: str) -> Mend:
        """Return what is told when the deed failed."""
        return not_mended(self.finding.problem, reason)


class Mender:
    """The mends of one look through a dataset. ``wishes``: what of that which is not mended unasked is asked for."""

    def __init__(self, state: RepairState, wishes: frozenset[str] = frozenset()) -> None:
        self._state = state
        self._wishes = wishes

    def plan(self, findings: Iterable[Finding], only: Stage | None = None) -> Iterator[PlannedMend]:
        """Yield a mend for each finding (of the stage ``only``); of several about one chunk or copy the first mends
        all."""
        findings = list(findings)
        self._state.questioned |= {each.problem.node for each in findings if each.rule and each.rule.questions}
        for finding in findings:
            stage = stage_of(finding)
            plan: Plan = None
            with suppress(HyperslabError):
                plan = self._plan(finding) if only in (None, stage) else None
            yield PlannedMend(finding, stage) if plan is None else PlannedMend(finding, stage, *plan)

    def _plan(self, finding: Finding) -> Plan:
        rule, state = finding.rule, self._state
        if rule is not None and rule.mend is not None:
            is_doubtful = rule.doubtful and finding.problem.node in state.questioned
            return None if is_doubtful else rule.mend(state, finding)
        if finding.action is None or (finding.wish and finding.wish not in self._wishes):
            return None
        return state.under_lock(finding.action, partial(state.quarantine.carry_out, finding))


def stage_of(finding: Finding) -> Stage:
    """Return when such a thing is mended; what a format finds without a rule: with the meaning of its documents."""
    return Stage.MEANING if finding.rule is None else finding.rule.stage


class KeyedRepair:
    """One repair of a dataset of documents and chunks under keys. ``folder``: where what is taken out goes, None:
    nowhere."""

    def __init__(
        self,
        where: Location,
        format: ZarrFormat,
        settings: Settings,
        folder: str | None,
        wishes: frozenset[str],
    ) -> None:
        self._where = where
        self._format = format
        self._dialect = format.metadata_dialect
        self._settings = settings
        self._folder = folder
        self._wishes = wishes

    def plan(self, deep: bool) -> Iterator[Mend]:
        """Yield what would be done, as far as can be told before the first stage."""
        store = self._where.store(read_only=True)
        try:
            for planned in self._planned(store, deep, None):
                yield planned.report(done=False)
        finally:
            store.close()

    def run(self, deep: bool) -> Iterator[Mend]:
        """Mend, stage by stage: what one stage puts right is not there any more for the next."""
        store = self._where.store(read_only=False)
        failed = set()
        try:
            self._raise_if_leased(store)
            for stage in Stage:
                for planned in list(self._planned(store, deep and stage is Stage.OBJECTS, stage)):
                    if planned.stage is stage and planned.act is not None:
                        mend = self._act(planned, planned.act)
                        if not mend.done:
                            failed.add(planned.finding.problem)
                        yield mend
                    elif stage is Stage.OBJECTS and planned.stage <= stage and planned.finding.problem not in failed:
                        yield planned.report(done=False)
        finally:
            store.close()

    def _raise_if_leased(self, store: Store) -> None:
        """Conflict, before anything is looked at, when somebody is making the dataset in a bucket."""
        if store.traits.locks_nodes and not store.traits.locks_chunks:
            with store.lock_node("", self._settings.lock_timeout):
                pass  # each mend takes it again, so that writers wait for one mend and not for all

    def _planned(self, store: Store, deep: bool, only: Stage | None) -> Iterator[PlannedMend]:
        writer = self._format.writer(store, self._dialect, self._settings, self._where)
        survey = KeyedSurvey(store, self._dialect, self._settings, deep, writer, self._format.traits)
        findings = [finding for finding in survey.run() if self._is_wanted(finding)]
        state = RepairState(survey.view, store, writer, Quarantine(store, self._folder))
        return Mender(state, self._wishes).plan(findings, only)

    def _is_wanted(self, finding: Finding) -> bool:
        """Return whether it is a problem, or is to be made better; of the part that the repair is limited to."""
        is_mended = finding.rule is not None and finding.rule.mends_notes
        if finding.sound and not is_mended and finding.wish not in self._wishes:
            return False
        is_of_links = finding.part == "links" or stage_of(finding) is Stage.COPIES
        return is_of_links or "links" not in self._wishes

    def _act(self, planned: PlannedMend, act: Act) -> Mend:
        try:
            act()
        except ReadOnly as error:
            raise error.locate(url=self._where.url) from error.__cause__
        except HyperslabError as error:
            return planned.failed(error.said)
        return planned.report(done=True)


# -- any other format -------------------------------------------------------------------------------------------------


def _mends_of_format(
    place: CheckedDataset, settings: Settings, folder: str | None, *, deep: bool, dry_run: bool
) -> Iterator[Mend]:
    """Yield what the findings of a format are mended by, or are not."""
    if not _finds_damage(place, settings):
        findings = (finding for finding in survey_dataset(place, settings, deep=deep) if not finding.sound)
        yield from (carry_out(finding, None) for finding in findings)
        return
    try:
        reader = place.format.open(place.where, "r" if dry_run else "r+", settings=settings)
    except HyperslabError as error:
        raise error.locate(url=place.where.url) from error.__cause__
    try:
        store = reader.store  # a file is none, and nothing is taken out of it
        quarantine = None if dry_run else Quarantine(store, folder)
        with nullcontext() if dry_run or not isinstance(reader, Writer) else reader.lock_node(""):
            for finding in list(reader.find_damage(deep=deep, workers=settings.threads) or ()):
                yield carry_out(finding, quarantine)
    finally:
        reader.close()


def _finds_damage(place: CheckedDataset, settings: Settings) -> bool:
    """Return whether the format of a place that can be opened looks for damage itself, and is written here."""
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except HyperslabError:
        return False
    try:
        return reader.find_damage(deep=False, workers=1) is not None
    finally:
        reader.close()
