"""How damaged chunks and what does not belong to a dataset are mended, under the locks that writers take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from hyperslab.checks.chunk_names import is_within
from hyperslab.checks.findings import Finding
from hyperslab.checks.keyed import Walk
from hyperslab.checks.objects import ArrayObjects, span
from hyperslab.checks.opening import open_objects
from hyperslab.checks.quarantine import Quarantine
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.errors import Conflict, NodeNotFound
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.writer import ZarrWriter
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Locks, PutIf

Act = Callable[[], None]
Plan = tuple[str, Act] | None

_CHUNKS = frozenset(
    [
        "empty-chunk",
        "truncated-chunk",
        "oversized-chunk",
        "corrupt-chunk",
        "unsafe-pickle",
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
_OF_DOCUMENT = _CHUNKS | {"outside-grid", "misspelled-key", "foreign"}
"""The kinds that a document may be the cause of."""
OBJECTS = _CHUNKS | _STRANGE | {"misspelled-key", "temporary"}
"""The kinds that are mended here."""


class ChunkMender:
    """Mends of one look through a dataset. ``settled``: arrays that will have another shape before these mends;
    ``questioned``: those whose documents do not describe their chunks, of which none is touched."""

    def __init__(self, walk: Walk, writer: ZarrWriter, quarantine: Quarantine) -> None:
        self.settled: dict[str, ArraySpec] = {}
        self.questioned: set[str] = set()
        self._walk = walk
        self._writer = writer
        self._quarantine = quarantine
        self._store = quarantine.store
        self._objects: dict[str, tuple[Docs, ArrayObjects]] = {}
        self._seen: set[tuple[str, str]] = set()

    def plan(self, finding: Finding) -> Plan:
        """The action in words, and the deed."""
        kind = finding.problem.kind
        if finding.problem.node in self.questioned and kind in _OF_DOCUMENT:
            return None
        if kind in _CHUNKS:
            return self._chunk(finding)
        if kind == "misspelled-key":
            return self._misspelled(finding)
        if kind == "outside-grid":
            return self._outside(finding)
        if kind == "temporary":
            return "remove it", partial(self._quarantine.remove, finding.key)
        take, verb = partial(self._take, finding.key), self._quarantine.verb
        if finding.coords is None:
            return verb, take
        cells = span(self._of(finding.problem.node).grid, finding.coords)
        return f"{verb}; the cells {cells} read as the fill value then", take

    def _take(self, place: str) -> None:
        with self._leased():
            self._quarantine.take(place)

    def _leased(self) -> AbstractContextManager[None]:
        """In a bucket, where chunks have no locks: the dataset's lease, which whoever makes it anew holds."""
        return nullcontext() if isinstance(self._store, Locks) else self._writer.lock_node("")

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _of(self, path: str) -> ArrayObjects:
        """The objects of an array as it is described when the mends are planned."""
        if path not in self._objects:
            spec = spec_now(self._writer, path)
            if spec is None:
                raise NodeNotFound("the array is gone", url=self._store.url, node=path)
            objects = self._open(path, spec)
            self._objects[path] = (self._walk.dialect.render(spec), objects)
        return self._objects[path][1]

    def _open(self, path: str, spec: ArraySpec) -> ArrayObjects:
        return open_objects(self._store, path, self._walk.dialect.key_of(spec), spec, self._walk.settings)

    @contextmanager
    def _held(self, finding: Finding) -> Iterator[tuple[ArrayObjects, Coords]]:
        """The array against growth and change, the chunk against writers; Conflict when the array did change."""
        path, coords = finding.problem.node, finding.coords or ()
        objects = self._of(path)
        with (
            self._writer.lock_node(path),
            self._leased(),
            objects.keys.lock([coords], self._walk.settings.lock_timeout),
        ):
            now = spec_now(self._writer, path)
            if now is None or self._walk.dialect.render(now) != self._objects[path][0]:
                message = "the array was changed while it was repaired"
                raise Conflict(message, url=self._store.url, node=path, remedy="repair it again")
            yield objects, coords

    # -- chunks -----------------------------------------------------------------------------------------------------

    def _chunk(self, finding: Finding) -> Plan:
        if self._again(finding):
            return "mended with the rest of this chunk", nothing
        saved, lost = self._of(finding.problem.node).salvage(finding.coords or (), finding.key)
        cells = f"the cells {lost} read as the fill value then" if lost else "no cell is lost"
        gone = "write fill values in its place" if self._swaps else self._quarantine.verb
        action = gone if saved is None else "keep its other inner chunks" if lost else "write it anew"
        return f"{action}; {cells}", partial(self._replace, finding)

    def _again(self, finding: Finding) -> bool:
        """Return whether another finding about the same thing came before."""
        same = (finding.problem.node, finding.key)
        known = same in self._seen
        self._seen.add(same)
        return known

    def _replace(self, finding: Finding) -> None:
        """If it is still damaged. Where a store has no locks, a writer that was faster is a Conflict."""
        with self._held(finding) as (objects, coords):
            stamp = objects.keys.stamp(finding.key)
            if not any(True for _ in objects.examine(coords, finding.key, deep=True)):
                return
            saved, _ = objects.salvage(coords, finding.key)
            if objects.keys.stamp(finding.key) != stamp:
                raise Conflict("the chunk was written meanwhile", url=self._store.url, key=finding.key)
            if saved is None and not self._swaps:
                self._quarantine.take(finding.key)
                return
            self._quarantine.keep(finding.key)
            # no bucket deletes on a condition: a chunk that is lost there is swapped for one of fill values
            self._put(finding.key, objects.blank(coords) if saved is None else saved, stamp)

    @property
    def _swaps(self) -> bool:
        """Return whether chunks have no locks and are swapped, as writers do there."""
        return isinstance(self._store, PutIf) and not isinstance(self._store, Locks)

    def _put(self, key: str, value: Any, stamp: Any) -> None:
        """Store a chunk; where there are no locks only if the present one still has this stamp, else Conflict."""
        if isinstance(self._store, PutIf) and self._swaps:
            self._store.put_if(key, value, stamp, durable=True)
        else:
            self._store.put(key, value, durable=True)

    def _misspelled(self, finding: Finding) -> Plan:
        """A chunk that decodes takes the place that its name means, when nothing lies there."""
        objects, coords = self._of(finding.problem.node), finding.coords or ()
        right = objects.keys.prefix + objects.keys.key_of(coords)
        sound = not any(True for _ in objects.examine(coords, finding.key, deep=True))
        if sound and not objects.keys.exists(right):
            cells = span(objects.grid, coords)
            return f"call it {right}; it holds the cells {cells}", partial(self._rename, finding, right)
        return self._quarantine.verb, partial(self._take, finding.key)

    def _rename(self, finding: Finding, right: str) -> None:
        with self._held(finding) as (objects, _):
            value = self._store.get(finding.key)
            if value is not None and not objects.keys.exists(right):
                self._put(right, value, None)
                self._store.delete(finding.key)

    def _outside(self, finding: Finding) -> Plan:
        """A chunk outside the grid, which may be that of an append that has not published its shape yet."""
        spec = self.settled.get(finding.problem.node)
        if spec is not None and is_within(finding.coords or (), Grid.of(spec.shape, spec.chunks)):
            return "nothing: it lies in the array once that is as long as its dimensions", nothing
        return self._quarantine.verb, partial(self._take_outside, finding)

    def _take_outside(self, finding: Finding) -> None:
        path = finding.problem.node
        with self._writer.lock_node(path), self._leased():
            now = spec_now(self._writer, path)
            if now is not None and not is_within(finding.coords or (), Grid.of(now.shape, now.chunks)):
                self._quarantine.take(finding.key)


def spec_now(writer: ZarrWriter, path: str) -> ArraySpec | None:
    """The array as its own documents have it at this moment; None when it is none."""
    writer.refresh(path)
    spec = writer.node(path)
    return spec if isinstance(spec, ArraySpec) else None


def nothing() -> None:
    """The deed of a mend that another one brings about."""
