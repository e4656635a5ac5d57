"""How each kind of problem is mended: the action in words, and as a deed under the locks that writers take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from hyperslab.checks.findings import Finding
from hyperslab.checks.keyed import Walk
from hyperslab.checks.objects import Objects, span
from hyperslab.checks.opening import open_objects
from hyperslab.checks.quarantine import Quarantine
from hyperslab.checks.report import Mend
from hyperslab.chunks.grid import Grid
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.documents import read_document, write_json
from hyperslab.formats.keyed_commit import key
from hyperslab.formats.keyed_writer import KeyedWriter
from hyperslab.formats.spelling import Docs
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Locks

Act = Callable[[], None]
Plan = tuple[str, Act] | None


class Stage(IntEnum):
    """In which order things are mended: what the documents say decides what is wrong with the chunks."""

    DOCUMENTS = 1
    DIMENSIONS = 2
    OBJECTS = 3
    COPIES = 4


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
        problem = self.finding.problem
        return Mend(problem.node, problem.kind, f"{problem.message}; mending failed: {reason}")


_CHUNKS = frozenset(
    [
        "empty-chunk",
        "truncated-chunk",
        "oversized-chunk",
        "corrupt-chunk",
        "shard-index",
        "shard-range",
        "shard-overlap",
    ]
)
_STRANGE = frozenset(
    [
        "foreign",
        "outside-grid",
        "folder-for-chunk",
        "dangling-link",
        "circular-link",
        "outside-link",
        "special-file",
        "unusable-name",
    ]
)
_OBJECTS = _CHUNKS | _STRANGE | {"misspelled-key", "temporary"}
_COPIES = frozenset(["stale-copy", "incomplete-copy", "copy-of-nothing", "damaged-copy"])


def stage_of(finding: Finding) -> Stage:
    """When such a thing is mended."""
    kind = finding.problem.kind
    if kind in _COPIES:
        return Stage.COPIES
    if kind == "dimension-sizes":
        return Stage.DIMENSIONS
    return Stage.OBJECTS if kind in _OBJECTS else Stage.DOCUMENTS


class Menders:
    """The mends of one look through a dataset."""

    def __init__(self, walk: Walk, writer: KeyedWriter, quarantine: Quarantine) -> None:
        self._walk = walk
        self._spelling = walk.spelling
        self._writer = writer
        self._quarantine = quarantine
        self._store = quarantine.store
        self._objects: dict[str, Objects] = {}
        self._seen: set[tuple[str, str]] = set()
        self._sizes: dict[str, ArraySpec] = {}

    def plan(self, findings: Iterable[Finding], only: Stage | None = None) -> Iterator[Mending]:
        """A mend for each finding (of the stage ``only``); of several about one chunk or copy the first mends all."""
        makers = {
            Stage.DOCUMENTS: self._document,
            Stage.DIMENSIONS: self._dimension,
            Stage.OBJECTS: self._object,
            Stage.COPIES: self._copy,
        }
        for finding in findings:
            stage = stage_of(finding)
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
        if kind == "missing-document" or (node in self._walk.unreadable and name in self._spelling.nodes):
            return self._lost(node)
        broken = kind.startswith("json-") or kind == "unreadable-document"
        if broken and name in (*self._spelling.extras, self._spelling.copy_name):
            return self._lost_extra(node, place, name)
        return None

    def _lost(self, node: str) -> Plan:
        """The documents from a copy; a group of which none is left gets new ones."""
        spare = self._walk.copies.spare(node)
        if spare is not None and self._parses(spare, node):
            return "take the documents from consolidated metadata", partial(
                self._locked, partial(self._put, node, spare)
            )
        if node not in self._walk.groups:
            return None
        fresh = self._spelling.render(GroupSpec())
        return "write the document of a group without attributes", partial(
            self._locked, partial(self._put, node, fresh)
        )

    def _parses(self, docs: Docs, node: str) -> bool:
        try:
            self._spelling.parse(docs, node)
        except HyperslabError:
            return False
        return True

    def _lost_extra(self, node: str, place: str, name: str) -> Plan:
        spare = self._walk.copies.spare(node) or {}
        if name in spare:
            docs = {name: spare[name]}
            return "take it from consolidated metadata", partial(self._locked, partial(self._put, node, docs))
        take = partial(self._locked, partial(self._quarantine.take, place))
        if name == self._spelling.copy_name:
            return f"{self._quarantine.verb} and write it anew", partial(self._renew, take)
        return f"{self._quarantine.verb}: the node has no attributes then", take

    def _renew(self, take: Act) -> None:
        take()
        self._writer.consolidate()

    def _put(self, node: str, docs: Docs) -> None:
        for name in (*self._spelling.extras, *self._spelling.nodes):
            if name in docs:
                self._quarantine.keep(key(node, name))
                self._store.put(key(node, name), _json(docs[name]), durable=True)

    def _rewrite(self, place: str) -> None:
        data = self._store.get(place)
        if data is not None:
            self._quarantine.keep(place)
            self._store.put(place, _json(read_document(data, place)), durable=True)

    def _locked(self, act: Act) -> None:
        """Under the lock of the root, which writers of documents hold."""
        with self._root_lock():
            act()

    def _root_lock(self) -> AbstractContextManager[None]:
        if isinstance(self._store, Locks):
            return self._store.lock_node("", self._walk.settings.lock_timeout)
        return nullcontext()

    # -- dimensions -------------------------------------------------------------------------------------------------

    def _dimension(self, finding: Finding) -> Plan:
        dim, size = finding.means
        changes = list(self._resized(finding.problem.node, dim, size))
        said = [f"/{path} from {spec.shape} to {new.shape}" for path, spec, new in changes]
        if not said or any(self._cannot(new) for _, _, new in changes):
            return None
        self._sizes |= {path: new for path, _, new in changes}
        return f"make {', '.join(said)}; new cells read as the fill value", partial(self._resize, changes)

    def _resized(self, group: str, dim: str, size: int) -> Iterator[tuple[str, ArraySpec, ArraySpec]]:
        for name in self._store.list_dir(group)[1]:
            path = key(group, name)
            try:
                spec = self._spec(path)
            except HyperslabError:
                continue
            if spec is not None and spec.dims.count(dim) == 1:
                axis = spec.dims.index(dim)
                shape = (*spec.shape[:axis], size, *spec.shape[axis + 1 :])
                if shape != spec.shape:
                    yield path, spec, spec.evolve(shape=shape)

    def _spec(self, path: str) -> ArraySpec | None:
        self._writer.refresh(path)
        spec = self._writer.node(path)
        return spec if isinstance(spec, ArraySpec) else None

    def _cannot(self, spec: ArraySpec) -> bool:
        cuts = zip(spec.chunks, spec.shape, strict=True)
        return any(not isinstance(cut, int) and sum(cut) < size for cut, size in cuts)

    def _resize(self, changes: list[tuple[str, ArraySpec, ArraySpec]]) -> None:
        for path, old, new in changes:
            with self._writer.lock_node(path):
                now = self._spec(path)
                if now is not None and now.shape == old.shape:
                    self._writer.put(path, new)

    # -- chunks and strangers ---------------------------------------------------------------------------------------

    def _object(self, finding: Finding) -> Plan:
        kind = finding.problem.kind
        if kind in _CHUNKS:
            return self._chunk(finding)
        if kind == "misspelled-key":
            return self._misspelled(finding)
        if kind == "temporary":
            return "remove it", partial(self._quarantine.remove, finding.key)
        take, verb = partial(self._quarantine.take, finding.key), self._quarantine.verb
        if finding.coords is None:
            return verb, take
        grid = self._grown(finding.problem.node)
        if kind != "outside-grid":
            return f"{verb}; the cells {span(grid, finding.coords)} read as the fill value then", take
        if all(index < axis.count for index, axis in zip(finding.coords, grid.axes, strict=True)):
            return "none of its own: it lies in the array once that is as long as its dimensions", lambda: None
        return verb, take

    def _grown(self, path: str) -> Grid:
        """The grid of an array as it will be when its dimensions are settled."""
        spec = self._sizes.get(path) or self._spec(path)
        return Grid(()) if spec is None else Grid.of(spec.shape, spec.chunks)

    def _of(self, path: str) -> Objects:
        if path not in self._objects:
            spec = self._spec(path)
            if spec is None:
                raise NodeNotFound("the array is gone", url=self._store.url, node=path)
            key_of = self._spelling.key_of(spec)
            self._objects[path] = open_objects(self._store, path, key_of, spec, self._walk.settings)
        return self._objects[path]

    def _chunk(self, finding: Finding) -> Plan:
        if self._again(finding):
            return "mended with the rest of this chunk", lambda: None
        objects = self._of(finding.problem.node)
        coords = finding.coords or ()
        saved, lost = objects.salvage(coords, finding.key)
        cells = f"the cells {lost} read as the fill value then" if lost else "no cell is lost"
        if saved is None:
            return f"{self._quarantine.verb}; {cells}", partial(self._replace, objects, finding)
        return f"keep its other inner chunks; {cells}", partial(self._replace, objects, finding)

    def _again(self, finding: Finding) -> bool:
        """Whether another finding about the same thing came before."""
        same = (finding.problem.node, finding.key)
        known = same in self._seen
        self._seen.add(same)
        return known

    def _replace(self, objects: Objects, finding: Finding) -> None:
        """Under the chunk's lock, if it is still damaged."""
        coords, place = finding.coords or (), finding.key
        with objects.keys.lock([coords], self._walk.settings.lock_timeout):
            if not any(True for _ in objects.examine(coords, place, deep=True)):
                return
            saved, _ = objects.salvage(coords, place)
            if saved is None:
                self._quarantine.take(place)
                return
            self._quarantine.keep(place)
            self._store.put(place, saved, durable=True)

    def _misspelled(self, finding: Finding) -> Plan:
        """A chunk that decodes takes the place that its name means, when nothing lies there."""
        objects = self._of(finding.problem.node)
        coords = finding.coords or ()
        right = objects.keys.prefix + objects.keys.key_of(coords)
        free = not objects.keys.exists(right)
        if free and not any(True for _ in objects.examine(coords, finding.key, deep=True)):
            cells = span(objects.grid, coords)
            return f"call it {right}; it holds the cells {cells}", partial(self._rename, objects, finding, right)
        return self._quarantine.verb, partial(self._quarantine.take, finding.key)

    def _rename(self, objects: Objects, finding: Finding, right: str) -> None:
        with objects.keys.lock([finding.coords or ()], self._walk.settings.lock_timeout):
            value = self._store.get(finding.key)
            if value is not None and not objects.keys.exists(right):
                self._store.put(right, value, durable=True)
                self._store.delete(finding.key)

    # -- copies -----------------------------------------------------------------------------------------------------

    def _copy(self, finding: Finding) -> Plan:
        holder = finding.means
        action = f"write the consolidated metadata of /{holder} anew"
        if ("copy", holder) in self._seen:
            return action, lambda: None
        self._seen.add(("copy", holder))
        return action, partial(self._writer.consolidate, holder)


def _json(doc: dict[str, object]) -> bytes:
    """The document as JSON; numbers that JSON lacks as they were written before."""
    try:
        return write_json(doc)
    except ValueError:
        return json.dumps(doc, indent=2).encode()
