"""How each kind of problem is mended: the action in words, and as a deed under the locks that writers take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from hyperslab.array.growth import grow
from hyperslab.checks.chunk_content import KIND as OTHER_CELLS
from hyperslab.checks.findings import Finding
from hyperslab.checks.keyed import Walk
from hyperslab.checks.mending_chunks import OBJECTS, Act, ChunkMender, Plan, nothing, spec_now
from hyperslab.checks.places import CheckedDataset
from hyperslab.checks.quarantine import Quarantine
from hyperslab.checks.report import Mend, not_mended
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, ReadOnly
from hyperslab.formats.base import LocksDataset, Remedy, Repairs
from hyperslab.formats.documents import read_document, write_again
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec


class Stage(IntEnum):
    """In which order things are mended: what the documents say decides what is wrong with the chunks."""

    DOCUMENTS = 1
    MEANING = 2
    DIMENSIONS = 3
    OBJECTS = 4
    COPIES = 5


@dataclass(frozen=True, slots=True)
class Mending:
    """A finding and its mend; without one nothing is done."""

    finding: Finding
    stage: Stage
    action: str | None = None
    act: Act | None = None

    def report(self, *, done: bool) -> Mend:
        """What is told of it."""
        problem = self.finding.problem
        return Mend(problem.node, problem.kind, problem.message, self.action, done and self.act is not None)

    def failed(self, reason: str) -> Mend:
        """What is told when the deed failed."""
        return not_mended(self.finding.problem, reason)


_LEFT_NOTHING = frozenset(["missing-document", "json-damaged", "json-kind"])
_COPIES = frozenset(["stale-copy", "incomplete-copy", "copy-of-nothing", "damaged-copy"])


def stage_of(finding: Finding) -> Stage:
    """When such a thing is mended."""
    kind = finding.problem.kind
    if isinstance(finding.means, Remedy):
        return Stage.MEANING
    if kind in _COPIES:
        return Stage.COPIES
    if kind == "dimension-sizes":
        return Stage.DIMENSIONS
    return Stage.OBJECTS if kind in OBJECTS else Stage.DOCUMENTS


class Menders:
    """The mends of one look through a dataset. ``wishes``: what of that which is not mended unasked is asked for."""

    def __init__(
        self, walk: Walk, writer: ZarrWriter, quarantine: Quarantine, wishes: frozenset[str] = frozenset()
    ) -> None:
        self._walk = walk
        self._dialect = walk.dialect
        self._writer = writer
        self._quarantine = quarantine
        self._wishes = wishes
        self._store = quarantine.store
        self._chunks = ChunkMender(walk, writer, quarantine)
        self._renewed: set[str] = set()

    def plan(self, findings: Iterable[Finding], only: Stage | None = None) -> Iterator[Mending]:
        """A mend for each finding (of the stage ``only``); of several about one chunk or copy the first mends all."""
        makers = {
            Stage.DOCUMENTS: self._document,
            Stage.MEANING: self._remedy,
            Stage.DIMENSIONS: self._dimension,
            Stage.OBJECTS: self._chunks.plan,
            Stage.COPIES: self._copy,
        }
        findings = list(findings)
        self._chunks.questioned |= {finding.problem.node for finding in findings if finding.problem.kind == OTHER_CELLS}
        for finding in findings:
            stage = stage_of(finding)
            plan: Plan = None
            with suppress(HyperslabError):
                plan = makers[stage](finding) if only in (None, stage) else None
            yield Mending(finding, stage) if plan is None else Mending(finding, stage, *plan)

    # -- documents --------------------------------------------------------------------------------------------------

    def _document(self, finding: Finding) -> Plan:
        node, place, kind = finding.problem.node, finding.key, finding.problem.kind
        name = place.rpartition("/")[2]
        if kind == "two-kinds":
            return self._quarantine.verb, partial(self._locked, partial(self._quarantine.take, place))
        if kind == "json-mended":
            return "write it as JSON", partial(self._locked, partial(self._rewrite, place))
        if kind == "missing-document" or (node in self._walk.unreadable and name in self._dialect.nodes):
            return self._lost(node, kind)
        if kind.startswith("json-") and name in (*self._dialect.extras, self._dialect.consolidated_name):
            return self._lost_extra(node, place, name)
        return self._respelled(node, kind) if name in self._dialect.nodes else None

    def _respelled(self, node: str, kind: str) -> Plan:
        """What is understood though something is missing is written as it is understood, if that mends it."""
        self._writer.refresh(node)
        docs = self._dialect.render(self._writer.node(node))
        if kind in {problem.kind for problem in self._dialect.problems(docs, node)}:
            return None
        return "write the document as it is understood", partial(self._locked, partial(self._put, node, docs))

    def _lost(self, node: str, kind: str) -> Plan:
        """The documents from a copy; a group of which nothing is left gets a bare one."""
        if kind == "unreadable-document":
            return None
        spare = self._walk.copies.spare(node)
        if spare is not None and self._parses(spare, node):
            return "take the documents from consolidated metadata", partial(
                self._locked, partial(self._put, node, spare)
            )
        if node not in self._walk.groups or kind not in _LEFT_NOTHING:
            return None
        whole = self._dialect.render(GroupSpec())
        fresh = {name: whole[name] for name in self._dialect.nodes if name in whole}
        return "write the document of a group without attributes", partial(
            self._locked, partial(self._put, node, fresh)
        )

    def _parses(self, docs: Docs, node: str) -> bool:
        try:
            self._dialect.parse(docs, node)
        except HyperslabError:
            return False
        return True

    def _lost_extra(self, node: str, place: str, name: str) -> Plan:
        spare = self._walk.copies.spare(node) or {}
        if name in spare:
            docs = {name: spare[name]}
            return "take it from consolidated metadata", partial(self._locked, partial(self._put, node, docs))
        take = partial(self._locked, partial(self._quarantine.take, place))
        if name == self._dialect.consolidated_name:
            return f"{self._quarantine.verb} and write it anew", partial(self._renew, take)
        return f"{self._quarantine.verb}: the node has no attributes then", take

    def _renew(self, take: Act) -> None:
        take()
        self._writer.consolidate()

    def _put(self, node: str, docs: Docs) -> None:
        for name in (*self._dialect.extras, *self._dialect.nodes):
            if name in docs:
                self._quarantine.keep(child(node, name))
                self._store.put(child(node, name), write_again(docs[name]), durable=True)

    def _rewrite(self, place: str) -> None:
        data = self._store.get(place)
        if data is not None:
            self._quarantine.keep(place)
            self._store.put(place, write_again(read_document(data, place)), durable=True)

    def _locked(self, act: Act) -> None:
        """Under the lock of the root, which writers of documents hold."""
        with self._writer.lock_node(""):
            act()

    # -- what the format itself knows to mend --------------------------------------------------------------------

    def _remedy(self, finding: Finding) -> Plan:
        remedy: Remedy = finding.means
        if remedy.action is None or (remedy.asked and remedy.asked not in self._wishes):
            return None
        return remedy.action, partial(self._locked, partial(self._quarantine.carry_out, remedy))

    # -- dimensions -------------------------------------------------------------------------------------------------

    def _dimension(self, finding: Finding) -> Plan:
        dim, size = finding.means
        changes = list(self._resized(finding.problem.node, dim, size))
        said = ", ".join(f"/{path} from {old.shape} to {new.shape}" for path, old, new in changes)
        if not said:
            return None
        self._chunks.settled |= {path: new for path, _, new in changes}
        action = f"make {said}; new cells read as what is stored there, else the fill value"
        return action, partial(self._resize, [(path, old) for path, old, _ in changes], dim, size)

    def _resized(self, group: str, dim: str, size: int) -> Iterator[tuple[str, ArraySpec, ArraySpec]]:
        for name in self._store.list_dir(group)[1]:
            path = child(group, name)
            try:
                spec = spec_now(self._writer, path)
            except HyperslabError:
                continue
            new = None if spec is None else _with_size(spec, dim, size)
            if spec is not None and new is not None:
                yield path, spec, new

    def _resize(self, changes: list[tuple[str, ArraySpec]], dim: str, size: int) -> None:
        """Under the lock of each array, unless it was given another size meanwhile."""
        for path, old in changes:
            with self._writer.lock_node(path):
                now = spec_now(self._writer, path)
                new = None if now is None else _with_size(now, dim, size)
                axis = old.dims.index(dim)
                if now is not None and new is not None and now.shape[axis] == old.shape[axis]:
                    self._writer.put(path, new)

    # -- copies -----------------------------------------------------------------------------------------------------

    def _copy(self, finding: Finding) -> Plan:
        holder = finding.means
        action = f"write the consolidated metadata of /{holder} anew"
        if holder in self._renewed:
            return action, nothing
        self._renewed.add(holder)
        return action, partial(self._consolidate, holder)

    def _consolidate(self, holder: str) -> None:
        self._quarantine.keep(child(holder, self._dialect.consolidated_name))
        self._writer.consolidate(holder)


def _with_size(spec: ArraySpec, dim: str, size: int) -> ArraySpec | None:
    """The array with another size of a dimension; None when it has that size, or not this dimension once."""
    if spec.dims.count(dim) != 1:
        return None
    axis = spec.dims.index(dim)
    shape = (*spec.shape[:axis], size, *spec.shape[axis + 1 :])
    return None if shape == spec.shape else grow(spec, shape)


# -- ------------------------------------------------------------------------------------------------------------------
# Repair of a format that knows itself what mends it (:class:`~hyperslab.formats.base.Repairs`).


def mends_itself(place: CheckedDataset, settings: Settings) -> bool:
    """Return whether the format of a place that can be opened has remedies."""
    try:
        reader = place.format.open(place.where, "r", settings=settings)
    except HyperslabError:
        return False
    try:
        return isinstance(reader, Repairs)
    finally:
        reader.close()


@dataclass(frozen=True, slots=True)
class OwnRepair:
    """One repair. ``folder``: where what is taken out goes, None: nowhere."""

    place: CheckedDataset
    settings: Settings
    folder: str | None

    def run(self, deep: bool, *, dry_run: bool) -> Iterator[Mend]:
        """What would be done, or is done."""
        try:
            reader: Any = self.place.format.open(self.place.where, "r" if dry_run else "r+", settings=self.settings)
        except HyperslabError as error:
            raise error.locate(url=self.place.where.url) from error.__cause__
        try:
            store: Any = getattr(reader, "store", None)  # a file is none, and nothing is taken out of it
            quarantine = None if dry_run else Quarantine(store, self.folder)
            with nullcontext() if dry_run or not isinstance(reader, LocksDataset) else reader.lock_node(""):
                for remedy in list(reader.remedies(deep=deep, workers=self.settings.threads)):
                    yield _mend(remedy, quarantine)
        finally:
            reader.close()


def _mend(remedy: Remedy, quarantine: Quarantine | None) -> Mend:
    problem = remedy.problem
    done = quarantine is not None and remedy.action is not None
    if quarantine is not None and done:
        try:
            quarantine.carry_out(remedy)
        except ReadOnly:
            raise
        except HyperslabError as error:
            return not_mended(problem, error.said)
    return Mend(problem.node, problem.kind, problem.message, remedy.action, done)
