"""What a root of collections that is open for writing shares: new collections, locks, batches, the root's document."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, Unsupported
from hyperslab.formats.base import BatchBlocks
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.collection_stores import CollectionStore, Layout
from hyperslab.formats.collection_tree import CollectionTreeReader
from hyperslab.formats.collection_tree_document import KEY, Tree, render
from hyperslab.model.schemas.records import Record
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import LocksNodes, Store
from hyperslab.stores.location import Location


class CollectionTreeEditor(CollectionTreeReader):
    """A root that takes changes; new collections get the first of the ``layouts``."""

    def __init__(
        self, where: Location, layouts: Sequence[Layout], settings: Settings, base: str = "", *, format: str
    ) -> None:
        super().__init__(where, layouts, settings, base)
        self._format = format
        self._batches = BatchBlocks(self._mutex)
        self._changes: list[Callable[[Tree], Tree]] = []
        self._records: dict[str, dict[str, Record]] = {}
        self._depths = threading.local()

    def _open_store(self) -> Store:
        return self._where.store(read_only=False, create=True)

    @property
    def writable(self) -> bool:
        """Return whether changes are taken."""
        return True

    # -- collections ------------------------------------------------------------------------------------------------

    def create_collection(self, document: CollectionDocument) -> CollectionStore:
        """A new collection in the layout that its document says. AlreadyExists; Unsupported for a layout that is not
        that of the format."""
        layout = next((layout for layout in self._layouts if layout.name == document.layout), None)
        if layout is None:
            remedy = f"choose format collections, or layout={self._layouts[0].name!r}"
            raise Unsupported(f"layout {document.layout!r} in format {self._format}", url=self.url, remedy=remedy)
        if document.name in self.collections():
            raise AlreadyExists(f"the collection {document.name!r} exists", url=self.url, node=document.name)
        made = layout.create(self._where, document, self._settings)
        with self._mutex:
            self._holdings[document.name] = made
        return made

    def _flush_records(self) -> None:
        """Make the arrays that wait, all of a collection at once."""
        if not self._records:
            return
        with self._mutex:
            waiting, self._records = self._records, {}
        for name, records in waiting.items():
            self._required(name, name).create(list(records.values()))

    # -- what is not stored yet -------------------------------------------------------------------------------------

    def children(self, path: str) -> Iterable[str]:
        """What is in a group or collection, with what waits in the running batch."""
        self._flush_records()
        return super().children(path)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """What is at a path, also in the running batch. NodeNotFound."""
        self._flush_records()
        return super().node(path)

    def _edit(self, change: Callable[[Tree], Tree]) -> None:
        """Change the document of groups and arrays as it is stored now; in a batch, at its end."""
        with self._mutex:
            if self._batches:
                self._known_tree = change(self._tree())
                self._changes.append(change)
                return
        with self._locked():
            tree = change(self._read_tree())
            self._write_tree(tree)

    def _write_tree(self, tree: Tree) -> None:
        store: Any = self._store
        data = render(tree)
        if data == render(Tree()) and self._where.scheme == "file":  # elsewhere it is what an empty root is known by
            store.delete(KEY, durable=self._settings.durable)
        else:
            store.put(KEY, data, durable=self._settings.durable)
        with self._mutex:
            self._known_tree = tree

    def refresh(self, path: str) -> None:
        """Ask for all anew when it is needed; what the running batch will write stays."""
        super().refresh(path)
        with self._mutex:
            if self._changes:
                tree = self._read_tree()
                for change in self._changes:
                    tree = change(tree)
                self._known_tree = tree

    # -- locks and batches ------------------------------------------------------------------------------------------

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold the documents of the root against other writers; afterwards reads see the newest. In a batch, until its
        end."""
        if self._batches:
            with self._mutex:
                if not self._is_holding:
                    self._batches.held.enter_context(self._locked())
                    self.refresh(path)
                yield
            return
        with self._locked():
            self.refresh(path)
            yield

    @property
    def _is_holding(self) -> bool:
        return bool(getattr(self._depths, "depth", 0))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The root's lock, once per thread, where the store has such."""
        if self._is_holding or not isinstance(self._store, LocksNodes):
            yield
            return
        with self._store.lock_node("", self._settings.lock_timeout):
            self._depths.depth = 1
            try:
                yield
            finally:
                self._depths.depth = 0

    def batch(self) -> AbstractContextManager[None]:
        """Arrays of a collection are made at once, and the document of the root is written once, at the end."""
        return self._batches.block(self._flush)

    def _flush(self) -> None:
        self._flush_records()
        with self._mutex:
            changes, self._changes = self._changes, []
        if changes:
            with self._locked():
                tree = self._read_tree()
                for change in changes:
                    tree = change(tree)
                self._write_tree(tree)

    def close(self) -> None:
        """Write what is pending and let go of the store, also when that fails."""
        try:
            self._flush_records()
        finally:
            super().close()
