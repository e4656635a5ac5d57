"""Writing an NCZarr dataset: one commit per change, with the lists, dimensions and lengths of all that it concerns.

All writers of a dataset queue for the lock of its root, since an array that grows makes others grow. Documents are
stored in an order by which a reader beside finds the cells of every length that it sees: chunks, arrays, then groups
from the innermost out, and last consolidated metadata.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product

import numpy as np

from hyperslab.chunks.edges import blank_outside
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, HyperslabError, NodeNotFound
from hyperslab.formats.documents import JsonObject
from hyperslab.formats.format_errors import require_array, require_no_link
from hyperslab.formats.nczarr.attributes import MAXIMUM_TEXT
from hyperslab.formats.nczarr.cells import DEFAULT_MAXIMUM, MAXIMUM, with_member_check
from hyperslab.formats.nczarr.dialect import NczarrDialect
from hyperslab.formats.nczarr.edits import Edits, moved_path, written_lengths
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.formats.nczarr.reader import NczarrReader
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr.writer import ZarrWriter, check_document
from hyperslab.model.paths import child, is_within, normalize
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.base import Store

Spec = GroupSpec | ArraySpec


class NczarrWriter(ZarrWriter, NczarrReader):
    """A dataset open for writing."""

    _dialect: NczarrDialect

    def __init__(
        self,
        store: Store,
        dialect: NczarrDialect,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
        *,
        consolidated: bool = False,
    ) -> None:
        super().__init__(store, dialect, settings, remembered, consolidated=consolidated)
        self._root_lock = _LockDepth()
        self._upcoming: dict[str, Spec] = {}

    def _without_root(self) -> Docs | None:
        return None

    def room_for_text(self, longest: int) -> JsonObject:
        """Return the attribute that makes cells wider than 128 bytes of UTF-8, or than the root says, where that is
        needed."""
        usual, _ = self.node("").layout.get("hidden", {}).get(DEFAULT_MAXIMUM, (MAXIMUM_TEXT, None))
        return {MAXIMUM: np.int32(longest)} if longest > usual else {}

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks as they are under ``spec``; cells of an enumeration are checked when they are written."""
        return super().chunks_as(path, with_member_check(spec))

    # -- changes ----------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: Node) -> None:
        """Make or replace a node, with what it brings: groups above, dimensions, types, rows of other arrays."""
        path, spec = normalize(path), require_no_link(spec, path, "nczarr")
        with self._lock_root():
            edits = self._edits()
            if spec.is_array:
                edits.put_array(path, spec)
                self._clear(path)
                self._blank_dead_rows(edits.changed, besides=path)
            else:
                edits.put_group(path, spec)
            self._apply(edits.changed)

    def drop(self, path: str) -> None:
        """Remove a node with all below it; arrays elsewhere that use its dimensions declare them themselves."""
        path = normalize(path)
        with self._lock_root():
            self._flush()
            edits = self._edits()
            edits.drop(path)
            docs = self._rendered(edits.changed)
            self._commit(DocumentChange(docs, gone=(path,), act=lambda: self._remove(path)))
            self._forget("")

    def move(self, source: str, target: str) -> bool:
        source, target = normalize(source), normalize(target)
        with self._lock_root():
            self._flush()
            self.node(source)
            if self._stored_docs(target) is not None:
                raise AlreadyExists("the target of the move is taken", url=self.store.url, node=target)
            edits = self._edits()
            edits.move(source, target)
            if edits.draft:
                for place in [place for place in self._walk_paths("") if is_within(place, source)]:
                    edits.changed.setdefault(moved_path(place, source, target), self.node(place))
            docs = self._rendered(edits.changed)
            # groups that the move makes are stored before it, all else when the node is at its new place
            after, new = docs, {}
            for place in [place for place in docs if self._find_node(place) is None and not is_within(place, target)]:
                new[place] = after.pop(place)
            act = partial(self._move_keys, source, target)
            with self._with_node_order(source, target):
                self._commit(DocumentChange(new, gone=(source,), act=act, arrived=(target,), after=after))
            self._forget("")
        return True

    def rename_dimension(self, group: str, old: str, new: str) -> bool:
        with self._lock_root():
            edits = self._edits()
            edits.rename_dimension(normalize(group), old, new)
            self._apply(edits.changed)
        return True

    def consolidate(self, path: str = "") -> None:
        with self._lock_root(), self._with_node_order():
            super().consolidate(path)

    @contextmanager
    def follow(
        self, way: str, *, stored: Collection[str] = (), gone: Collection[str] = (), arrived: Collection[str] = ()
    ) -> Iterator[None]:
        followed = super().follow(way, stored=stored, gone=gone, arrived=arrived)
        with self._lock_root(), self._with_node_order(), followed:
            yield

    @contextmanager
    def _with_node_order(self, source: str | None = None, target: str = "") -> Iterator[None]:
        """Make consolidated metadata, in the block, with the present order of all nodes, which in the draft stands
        nowhere else. A node that moves comes last in its group."""
        if self.generation is Generation.DRAFT:
            groups = [place for place in self._walk_paths("") if self.node(place).is_group]
            self._dialect.order = {
                place if source is None else moved_path(place, source, target): [
                    name for name in self.children(place) if child(place, name) != source
                ]
                for place in groups
            }
        try:
            yield
        finally:
            self._dialect.order = {}

    def _commit(self, change: DocumentChange) -> None:
        """Commit a change. The draft always has consolidated metadata: plain readers warn of documents that are not in
        it."""
        self._commits.consolidated |= self.generation is Generation.DRAFT
        super()._commit(change)

    def mend(self, change: DocumentChange) -> None:
        """Store documents as they are given, and do what else the change says."""
        self._commit(change)
        self._forget("")

    def _edits(self) -> Edits:
        draft = self.generation is Generation.DRAFT
        return Edits(self._find_node, self._arrays, self.written_length, draft)

    def _find_node(self, path: str) -> Spec | None:
        try:
            return self.node(path)
        except NodeNotFound:
            return None

    def _arrays(self) -> Iterator[tuple[str, ArraySpec]]:
        for path in self._walk_paths(""):
            spec = self.node(path)
            if spec.is_array:
                yield path, spec

    def _walk_paths(self, path: str) -> Iterator[str]:
        """Yield the paths of all nodes that can be read, the group itself included."""
        try:
            spec = self.node(path)
        except HyperslabError:
            return
        yield path
        if spec.is_group:
            for name in self.children(path):
                yield from self._walk_paths(child(path, name))

    def _apply(self, changed: Mapping[str, Spec]) -> None:
        """Store what changes, now or at the end of the batch."""
        docs = self._rendered(changed)
        with self._mutex:
            waits = bool(self._batches)  # asked once: a batch may begin or end beside
            if waits:
                self._pending |= docs
        if not waits:
            self._commit(DocumentChange(docs))
        for place, written in docs.items():
            self._forget_spec(place)
            self._in_consolidated.discard(place)
            self._unconsolidated_paths.add(place)
            with self._with_upcoming(changed):
                self._replace_spec(place, self._parse(place, written))

    def _rendered(self, changed: Mapping[str, Spec]) -> dict[str, Docs]:
        """Return the documents of what changes, in the order in which they are stored."""
        if self._dialect.generation is None:
            self._dialect.learn_generation(None)
        # readers beside see arrays grow before the groups that declare their dimensions
        places = sorted(changed, key=lambda place: _write_order(place, changed[place].is_array))
        with self._with_upcoming(changed):
            docs = {}
            for place in places:
                try:
                    docs[place] = self._dialect.render(changed[place], place)
                except HyperslabError as error:
                    raise error.locate(url=self.store.url, node=place) from error.__cause__
        for place, made in docs.items():
            for name, doc in made.items():
                check_document(doc, name, place)
        return docs

    @contextmanager
    def _with_upcoming(self, changed: Mapping[str, Spec]) -> Iterator[None]:
        """Let documents that depend on groups see these, in the block, as they will be."""
        before, self._upcoming = self._upcoming, dict(changed)
        try:
            yield
        finally:
            self._upcoming = before

    def _declared(self, path: str) -> GroupSpec | None:
        coming = self._upcoming.get(path)
        if coming is not None:
            return coming if coming.is_group else None
        return super()._declared(path)

    def _texts(self, path: str) -> Mapping[str, str]:
        return {} if path in self._pending or path in self._upcoming else super()._texts(path)

    def _flush(self) -> None:
        with self._mutex:
            order = sorted(
                self._pending, key=lambda place: _write_order(place, self._dialect.is_array(self._pending[place]))
            )
            self._pending = {place: self._pending[place] for place in order}
        super()._flush()

    # -- rows -------------------------------------------------------------------------------------------------------

    def appended(self, path: str, axis: int, stop: int) -> None:
        """Remember that the array was given cells up to ``stop``, and none behind."""
        with self._lock_root():
            spec = self.node(path)
            rows = written_lengths(spec) if spec.is_array else None
            if not spec.is_array or rows is None or rows[axis] == stop:
                return
            rows = (*rows[:axis], stop, *rows[axis + 1 :])
            layout = {**spec.layout, "written": None if rows == spec.shape else rows}
            self._apply({path: spec.evolve(layout=layout)})

    def written_length(self, path: str, axis: int) -> int:
        """Return how far the array was given cells along ``axis``, by appending or by writing them where its dimension,
        which others may have made longer, already reached."""
        spec = require_array(path, self.node(path), self.store.url)
        length = (written_lengths(spec) or spec.shape)[axis]
        source = self.chunks_as(path, spec) if length < spec.shape[axis] and spec.problem is None else None
        if source is None or not source.traits.lists_chunks:
            return length
        fill, grid = spec.fill_cell(), source.grid
        for coords in source.stored_coords():
            extent = grid.extent(coords)[axis]
            if extent.start >= spec.shape[axis]:
                continue  # of an append that died
            block = source.read(coords) if min(extent.stop, spec.shape[axis]) > length else None
            if block is None:
                continue
            # cells that are not the fill value were written, whatever the array says of itself
            is_fill = block == fill
            if block.dtype.kind in "fc":
                is_fill |= np.isnan(block) & np.isnan(fill)
            rows = np.moveaxis(np.asarray(~is_fill), axis, 0)[: spec.shape[axis] - extent.start]
            last = np.flatnonzero(rows.reshape(len(rows), -1).any(axis=1))
            length = max(length, extent.start + int(last[-1]) + 1) if len(last) else length
        return length

    def _blank_dead_rows(self, changed: Mapping[str, Spec], besides: str) -> None:
        """Erase what an append that died stored behind the last row of an array, whose dimension grows now."""
        for path, spec in changed.items():
            before = self._find_node(path)
            if path == besides or not isinstance(spec, ArraySpec) or not isinstance(before, ArraySpec):
                continue
            sizes = list(zip(before.shape, spec.shape, strict=True))
            axes = [axis for axis, (old, new) in enumerate(sizes) if new > old]
            if not axes or before.problem is not None:
                continue
            source = self.chunks_as(path, before)
            new = [coords for coords in _chunks_behind(before, spec, axes) if source.read(coords) is not None]
            blank_outside(source, new, before.fill_cell(), axes, self._settings)

    # -- locks ------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold the documents of all nodes against other writers; afterwards reads see the newest."""
        alone = nullcontext() if self.store.traits.locks_nodes else self._node_mutex
        with alone, super().lock_node(""):
            self._root_lock.depth += 1
            try:
                yield
            finally:
                self._root_lock.depth -= 1

    @contextmanager
    def _lock_root(self) -> Iterator[None]:
        """Hold the lock of the root; what is known is read anew unless it was held already."""
        if self._root_lock.depth:
            yield
            return
        with self.lock_node(""):
            yield

    def refresh(self, path: str) -> None:
        """Forget what is remembered of all nodes; what the running batch will write stays."""
        with self._mutex:
            self._commits.forget()
            NczarrReader.refresh(self, path)


def _chunks_behind(before: ArraySpec, after: ArraySpec, axes: list[int]) -> list[Coords]:
    """Return the chunks that hold cells of ``after`` behind the edge of ``before``, along any of ``axes``."""
    cuts = [(int(cut) if isinstance(cut, int) else 0) for cut in after.chunks]
    lasts = [-(-size // cut) if cut else 0 for size, cut in zip(after.shape, cuts, strict=True)]
    found: dict[Coords, None] = {}
    for axis in axes:
        ranges = [range(last) for last in lasts]
        ranges[axis] = range(before.shape[axis] // cuts[axis], lasts[axis])
        found |= dict.fromkeys(product(*ranges))
    return list(found)


def _write_order(place: str, is_array: bool) -> tuple[bool, int]:
    """Return when the documents of a node are stored: arrays first, the root last."""
    return (False, 0) if is_array else (True, -place.count("/") - bool(place))


class _LockDepth(threading.local):
    """How often the calling thread holds the lock of the root, one block within another."""

    depth = 0
