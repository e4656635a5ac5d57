"""``repair``: what a survey finds is mended where that loses no sound cell, stage by stage, each after a new look.

A dataset of documents and chunks under keys is mended by its rules (:class:`Mender`) under the locks that writers take.
In any other the findings of its format bring their own deeds, and chunks of single files that cannot be decoded and
that nothing else mends are replaced by fill values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import prod

from hyperslab.api import Target
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.progress import ProgressCallback, watching
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Invalid, ReadOnly
from hyperslab.formats.base import Writer
from hyperslab.formats.enclosing import EnclosingDataset
from hyperslab.formats.opening import refuse_moment
from hyperslab.formats.rules import FOREIGN, LINKS, Act, Finding, Plan, Stage, Subject, span
from hyperslab.formats.zarr.opening import ZarrFormat
from hyperslab.integrity.dataset import CheckedDataset, extent_of, find_place
from hyperslab.integrity.quarantine import Quarantine, quarantine_folder
from hyperslab.integrity.report import Mend, Report, not_mended
from hyperslab.integrity.rules import RULES
from hyperslab.integrity.stored_chunks import unpacked_size
from hyperslab.integrity.survey import KeyedSurvey, findings_of_unreadable, survey_dataset
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
    drop_foreign: bool = False,
    allow_external: Sequence[str] | bool = (),
    progress: bool | ProgressCallback | None = None,
) -> Report:
    """Mend what a check finds, or tell what would be mended (``dry_run``): a report of :class:`Mend`, empty when the
    dataset is sound.

    No sound cell is touched. Chunks that cannot be decoded are taken out and read as the fill value; of a shard only
    the inner chunks that are damaged. Missing documents come back from consolidated metadata; an array that is shorter
    than those beside it, and has chunks behind its end, is made as long; consolidated metadata is written anew. What is
    taken out goes to the folder ``quarantine`` (beside a local dataset: its name with ``.quarantine``), else it is
    removed. ``deep``: decode every chunk to find the damaged ones. ``links``: mend links, references and consolidated
    metadata alone, and let links say all that they can of their targets; ``drop_links``: take out those that lead
    nowhere, which otherwise are only told; ``allow_external``: where they may lead, as for ``open``. ``drop_foreign``:
    take out files and folders that no format knows, which otherwise are only notes of a check. ``progress``: as for
    ``check``, and so is the place of a node within a dataset. What cannot be mended, also because a writer held a lock
    for longer than ``lock_timeout`` seconds, is not ``done``. ReadOnly when the place takes no writes; Conflict when a
    bucket's lease is another's for that long: a conversion, or another repair, is at work. Invalid for ``links`` and
    ``drop_foreign`` at once.
    """
    place = find_place(url, format, storage_options, allow_external)
    refuse_moment(place.where)
    if links and drop_foreign:
        remedy = "run two repairs: one with --links (links=), one with --drop-foreign (drop_foreign=)"
        raise Invalid("a repair of links alone takes out no files", url=place.where.url, remedy=remedy)
    settings = Settings(workers=workers, cache_bytes=0, lock_timeout=lock_timeout)
    wanted = {LINKS: links, "drop_links": drop_links, FOREIGN: drop_foreign}
    wishes = frozenset(name for name, wished in wanted.items() if wished)
    folder = quarantine_folder(place.where, quarantine)
    mends: Iterable[Mend]
    with watching(progress if deep else None, "repairing", partial(extent_of, place, settings)):
        if isinstance(place.format, ZarrFormat):
            job = KeyedRepair(place.where, place.format, settings, folder, wishes, place.node)
            mends = job.plan(deep) if dry_run else job.run(deep)
        else:
            mends = list(_mends_of_format(place, settings, folder, wishes, deep=deep, dry_run=dry_run))
            mends = _replace_damaged_chunks(place, settings, Quarantine(None, folder), mends, dry_run=dry_run)
        # whole copies that dead writers left beside the dataset are kept nowhere
        beside = () if links or drop_links or place.node else RULES.apply(Subject.BESIDE, place.where, deep=False)
        remover = None if dry_run else Quarantine(None, None)
        removals = (carry_out(finding, remover) for finding in beside)
        return Report(chain(mends, removals), url=place.where.url, node=place.node, deep=deep)


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
    action: str | None = None
    act: Act | None = None

    def report(self, *, done: bool) -> Mend:
        """Return its line of a report."""
        problem, rule = self.finding.problem, self.finding.rule
        remedy = rule.otherwise if rule is not None and self.action is None else None
        return Mend(problem.node, problem.kind, problem.message, self.action, done and self.act is not None, remedy)


class Mender:
    """The mends of one look through a dataset. ``wishes``: what of that which is not mended unasked is asked for."""

    def __init__(self, state: RepairState, wishes: frozenset[str] = frozenset()) -> None:
        self._state = state
        self._wishes = wishes

    def plan(self, findings: Iterable[Finding], only: Stage | None = None) -> Iterator[PlannedMend]:
        """Yield a mend for each finding (of the stage ``only``); of several about one chunk, or about one
        consolidated metadata, the first mends all."""
        findings = list(findings)
        self._state.questioned |= {each.problem.node for each in findings if each.rule and each.rule.questions_document}
        for finding in findings:
            plan: Plan = None
            with suppress(HyperslabError):
                plan = self._plan(finding) if only in (None, finding.stage) else None
            yield PlannedMend(finding) if plan is None else PlannedMend(finding, *plan)

    def _plan(self, finding: Finding) -> Plan:
        rule, state = finding.rule, self._state
        if rule is not None and rule.mend is not None:
            is_blocked = rule.trusts_document and finding.problem.node in state.questioned
            return None if is_blocked else rule.mend(state, finding)
        if finding.action is None or (finding.wish and finding.wish not in self._wishes):
            return None
        return state.under_lock(finding.action, partial(state.quarantine.carry_out, finding))


@dataclass(frozen=True)
class KeyedRepair:
    """One repair of a dataset of documents and chunks under keys. ``folder``: where what is taken out goes, None:
    nowhere. ``node``: what is mended, with all below it."""

    where: Location
    format: ZarrFormat
    settings: Settings
    folder: str | None
    wishes: frozenset[str]
    node: str = ""

    def plan(self, deep: bool) -> Iterator[Mend]:
        """Yield what would be done, as far as can be told before the first stage."""
        store = self.where.store(read_only=True)
        try:
            for planned in self._plan_mends(store, deep, None):
                yield planned.report(done=False)
        finally:
            store.close()

    def run(self, deep: bool) -> Iterator[Mend]:
        """Mend, stage by stage: what one stage puts right is not there any more for the next."""
        store = self.where.store(read_only=False)
        failed = set()
        try:
            if store.traits.locks_nodes and not store.traits.locks_chunks:
                # Conflict, before anything is looked at, when somebody is making the dataset in a bucket. Each mend
                # takes the lease again, so that writers wait for one mend and not for all.
                with store.lock_node("", self.settings.lock_timeout):
                    pass
            for stage in Stage:
                for planned in list(self._plan_mends(store, deep and stage is Stage.SHAPES_FINAL, stage)):
                    if planned.finding.stage is stage and planned.act is not None:
                        mend = planned.report(done=True)
                        try:
                            planned.act()
                        except ReadOnly as error:
                            raise error.locate(url=self.where.url) from error.__cause__
                        except HyperslabError as error:
                            failed.add(planned.finding.problem)
                            mend = not_mended(planned.finding.problem, error.said)
                        yield mend
                    elif (
                        stage is Stage.SHAPES_FINAL
                        and planned.finding.stage <= stage
                        and planned.finding.problem not in failed
                    ):
                        yield planned.report(done=False)
        finally:
            store.close()

    def _plan_mends(self, store: Store, deep: bool, only: Stage | None) -> Iterator[PlannedMend]:
        """Look through the dataset, and yield a mend for each finding that is to be mended."""
        dialect = self.format.metadata_dialect
        writer = self.format.repair_writer(store, dialect, self.settings, self.where)
        writer.enclosing = EnclosingDataset(self.where, self.settings)
        survey = KeyedSurvey(store, dialect, self.settings, deep, writer, self.format.traits)
        findings = [finding for finding in survey.run(self.node) if self._is_wanted(finding)]
        state = RepairState(survey.view, store, writer, Quarantine(store, self.folder))
        return Mender(state, self.wishes).plan(findings, only)

    def _is_wanted(self, finding: Finding) -> bool:
        """Return True if it is a problem, or is to be made better; of the part that the repair is limited to."""
        is_mended = finding.rule is not None and finding.rule.mends_notes
        if finding.is_note and not is_mended and finding.wish not in self.wishes:
            return False
        return finding.part == LINKS or LINKS not in self.wishes


# -- any other format -------------------------------------------------------------------------------------------------


def _mends_of_format(
    place: CheckedDataset,
    settings: Settings,
    folder: str | None,
    wishes: frozenset[str],
    *,
    deep: bool,
    dry_run: bool,
) -> Iterator[Mend]:
    """Mend what a format finds itself, by the deeds that its findings bring, and yield a mend for each."""
    if not place.format.traits.finds_damage:
        findings = (finding for finding in survey_dataset(place, settings, deep=deep) if not finding.is_note)
        yield from (carry_out(finding, None) for finding in findings)
        return
    try:
        reader = place.format.open(place.where, "r" if dry_run else "r+", settings=settings)
    except FormatError as error:
        yield from (carry_out(finding, None) for finding in findings_of_unreadable(error))
        return
    except HyperslabError as error:
        raise error.locate(url=place.where.url) from error.__cause__
    try:
        store = reader.store  # a file is none, and nothing is taken out of it
        quarantine = None if dry_run else Quarantine(store, folder)
        with nullcontext() if dry_run or not isinstance(reader, Writer) else reader.lock_node(""):
            for finding in list(filter(place.includes, reader.find_damage(deep=deep, workers=settings.threads))):
                if finding.wish in ("", *wishes):
                    yield carry_out(finding, quarantine)
    finally:
        reader.close()


# -- chunks that are replaced by fill values ---------------------------------------------------------------------------

_CORRUPT = "corrupt-chunk"
# Chunks that one thread looks at in one go.
CHUNKS_PER_MEND = 16


@dataclass(frozen=True, slots=True)
class _DamagedChunk:
    """A chunk that cannot be decoded, the bytes that are stored of it, and how it is mended."""

    coords: Coords
    stored: bytes
    mend: Mend


def _replace_damaged_chunks(
    place: CheckedDataset, settings: Settings, quarantine: Quarantine, mends: list[Mend], *, dry_run: bool
) -> Iterator[Mend]:
    """Yield the mends; in place of those of damaged chunks that nothing else mends, how they get fill values.

    What was stored of such a chunk goes to the quarantine. Only where it lies in a place of its own.
    """
    nodes = sorted({mend.node for mend in mends if mend.kind == _CORRUPT and mend.action is None})
    damaged: list[_DamagedChunk] = []
    if nodes and place.format.info.writable and place.where.path is not None:
        with closing(place.format.open(place.where, "r", settings=settings)) as reader:
            if (reason := reader.repair_problem()) is not None:
                is_left = [mend.kind == _CORRUPT and mend.action is None for mend in mends]
                yield from (replace(m, remedy=reason) if left else m for m, left in zip(mends, is_left, strict=True))
                return
            for node in nodes:
                spec, source = reader.node(node), reader.chunks(node)
                if spec.is_array:
                    damaged += _find_damaged_chunks(node, source, spec.numpy_dtype.itemsize, quarantine, settings)
    replaced = {each.mend.node for each in damaged}
    yield from (mend for mend in mends if mend.kind != _CORRUPT or mend.action or mend.node not in replaced)
    if dry_run or not damaged:
        yield from (each.mend for each in damaged)
        return
    try:
        _write_fill_values(place, settings, quarantine, damaged)
    except ReadOnly:
        raise
    except HyperslabError as error:
        yield from (not_mended(each.mend, error.said) for each in damaged)
        return
    yield from (replace(each.mend, done=True) for each in damaged)


def _find_damaged_chunks(
    node: str, source: ChunkSource, itemsize: int, quarantine: Quarantine, settings: Settings
) -> list[_DamagedChunk]:
    """Return the chunks of an array whose bytes are damaged; none where those of one chunk may be sound, and its cells
    of another type or length than the array says, or where it shares its bytes with others."""
    damaged: list[_DamagedChunk] = []
    perhaps_sound: list[Coords] = []

    def work(batch: list[Coords]) -> None:
        for coords in batch:
            try:
                source.read(coords)
            except HyperslabError as error:
                stored = source.stored_bytes(coords) if isinstance(error, CorruptChunk) else None
                nbytes = prod(source.grid.chunk_shape(coords)) * itemsize
                if stored is None or unpacked_size(stored) not in (None, nbytes):
                    perhaps_sound.append(coords)
                    continue
                cells = span(source.grid.extent(coords))
                action = f"{quarantine.verb}; the cells {cells} read as the fill value then"
                mend = Mend(node, _CORRUPT, f"{error.said} [{error.key}, cells {cells}]", action)
                damaged.append(_DamagedChunk(coords, bytes(stored), mend))

    each_batch(work, batched(source.grid, CHUNKS_PER_MEND), settings.threads)
    return [] if perhaps_sound else sorted(damaged, key=lambda each: each.coords)


def _write_fill_values(
    place: CheckedDataset, settings: Settings, quarantine: Quarantine, damaged: Sequence[_DamagedChunk]
) -> None:
    """Keep what is stored of damaged chunks, then have them read as the fill value."""
    places: dict[str, list[Coords]] = {}
    with closing(place.format.open(place.where, "r+", settings=settings)) as writer:
        for each in damaged:  # only now: nothing is kept of a file that takes no changes
            quarantine.keep_bytes(f"{each.mend.node}/chunk.{'.'.join(map(str, each.coords)) or '0'}", each.stored)
            places.setdefault(each.mend.node, []).append(each.coords)
        for node, chunks in places.items():
            if isinstance(writer, Writer) and writer.rebuild(node, chunks):
                continue
            source = writer.chunks(node)
            with source.transaction(settings.lock_timeout):
                for coords in chunks:
                    source.erase(coords)
