"""One commit of changed documents, by which consolidated metadata is never stale.

It is taken away before the first document that it speaks of changes, and put back with the changes in it: a crash
leaves none, never a stale one. The caller holds the root's lock meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from hyperslab.errors import FormatError
from hyperslab.formats.documents import (
    JsonMapping,
    JsonObject,
    check_limits,
    large_consolidated,
    read_document,
    write_again,
)
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, MetadataDialect, strip_consolidated
from hyperslab.model.paths import child, is_within, relative, split
from hyperslab.stores.base import Store


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What a commit does: documents to store, nodes that go, an act between, nodes that arrive by it, and documents to
    store after it."""

    docs: Mapping[str, Docs]
    gone: tuple[str, ...] = ()
    act: Callable[[], None] | None = None
    arrived: tuple[str, ...] = ()
    after: Mapping[str, Docs] = field(default_factory=dict)

    @property
    def touched(self) -> list[str]:
        """Return every node that changes."""
        return [*self.docs, *self.gone, *self.arrived, *self.after]


class DocumentCommits:
    """Changes to the documents of one dataset. ``consolidated``: the root gets consolidated metadata even
    where there was none."""

    def __init__(self, store: Store, dialect: MetadataDialect, *, durable: bool, consolidated: bool) -> None:
        self._store = store
        self._dialect = dialect
        self._durable = durable
        self.consolidated = consolidated
        self._unconsolidated_groups: set[str] = set()

    def forget(self) -> None:
        """Look again for consolidated metadata in groups that had none."""
        self._unconsolidated_groups.clear()

    def commit(self, change: DocumentChange) -> None:
        """Store the change; consolidated metadata follows."""
        found = ((holder, self._consolidated_at(holder)) for holder in _holders(change.touched))
        by_holder = {holder: consolidated for holder, consolidated in found if consolidated is not None}
        # 1. consolidated metadata goes, or is replaced together with the one document that changes
        # 2. documents are stored
        in_node = self._dialect.consolidated_name in self._dialect.nodes
        if not (in_node and change.touched == list(by_holder)):  # else one write of one document does it
            for holder in by_holder:
                self._take_away(holder, change.docs.get(holder))
            stored = by_holder if in_node else {}  # of which the document was just written without it
            self._store_all({path: docs for path, docs in change.docs.items() if path not in stored})
        # 3. keys are moved or removed, while nothing consolidated speaks of them
        # 4. documents that need them at their place
        if change.act is not None:
            change.act()
        if change.after:
            self._store_all(change.after)
        # 5. it comes back with the changes in it; who dies before leaves none: that costs requests, no truth
        for holder, consolidated in by_holder.items():
            self._put_back(
                holder, self._after_change(consolidated, holder, change), {**change.docs, **change.after}.get(holder)
            )
        if self.consolidated and "" not in by_holder:
            self.consolidate()

    @contextmanager
    def follow(self, way: str, stored: Iterable[str], gone: Iterable[str], arrived: Iterable[str]) -> Iterator[None]:
        """Have consolidated metadata above the group at ``way`` follow what another writer makes of its nodes in the
        block."""
        self.forget()
        above = _holders([split(way)[0]])
        found = ((holder, self._consolidated_at(holder)) for holder in above)
        by_holder = {holder: consolidated for holder, consolidated in found if consolidated is not None}
        for holder in by_holder:
            self._take_away(holder, None)
        gone, arrived = [_below(way, path) for path in gone], [_below(way, path) for path in arrived]
        try:
            yield
        except BaseException:
            stored, gone, arrived = (), [way], [way]  # who knows how far it came
            raise
        finally:
            docs = {path: self._docs(path) for path in (_below(way, path) for path in stored)} if by_holder else {}
            kept = {path: each for path, each in docs.items() if each is not None}
            lost = [path for path in docs if path not in kept]
            change = DocumentChange(kept, gone=(*gone, *lost), arrived=tuple(arrived))
            for holder, consolidated in by_holder.items():
                self._put_back(holder, self._after_change(consolidated, holder, change), None)

    def consolidate(self, holder: str = "") -> None:
        """Write the consolidated metadata of a group (the root) anew, of all that is stored now."""
        self._put_back(holder, self.walk(holder), None)

    # -- consolidated metadata ----------------------------------------------------------------------------------------

    def _consolidated_at(self, holder: str) -> ConsolidatedDocs | None:
        """Return the consolidated metadata that a group holds now. A group below the root that has none is not asked
        again."""
        if holder and holder in self._unconsolidated_groups:
            return None
        name = self._dialect.consolidated_name
        doc = self._document(holder, name)
        consolidated = None if doc is None else self._dialect.read_consolidated(doc)
        if consolidated is None:
            self._unconsolidated_groups.add(holder)
            if doc is not None and large_consolidated(doc) is not None:
                self._warn(holder, "it is larger than what is decoded and written at once")
                self._take_away(holder, None)  # others would read on what is stale by now
        return consolidated

    def _take_away(self, holder: str, docs: Docs | None) -> None:
        """Remove consolidated metadata; its document goes, or is written without it."""
        name = self._dialect.consolidated_name
        if docs is not None and name in docs:
            self._put_documents([(child(holder, name), docs[name])])
            return
        doc = self._document(holder, name)
        left = None if doc is None else self._dialect.without_consolidated(doc)
        if left is None:
            self._store.delete(child(holder, name), durable=self._durable)
        else:
            self._store.put(child(holder, name), write_again(left), durable=self._durable)

    def _put_back(self, holder: str, consolidated: ConsolidatedDocs, docs: Docs | None) -> None:
        """Write consolidated metadata; what is larger than is read is left out from now on, and none stays. An array
        keeps none: it holds no other nodes, and zarr-python 3.1.3 opens no array with a copy in its document."""
        stored = self._docs(holder) if docs is None else docs
        if stored is not None and self._dialect.is_array(stored):
            self._take_away(holder, stored)
            return
        encoded = write_again(self._dialect.write_consolidated(stored or {}, consolidated))
        try:
            check_limits(encoded)
        except FormatError as error:
            # from now on: each commit would find the same
            self.consolidated = False
            self._take_away(holder, stored)
            self._warn(holder, error.message)
            return
        self._store.put(child(holder, self._dialect.consolidated_name), encoded, durable=self._durable)

    def _warn(self, holder: str, why: str) -> None:
        warnings.warn(f"{self._store.url}: /{holder} keeps no consolidated metadata: {why}", stacklevel=3)

    def _after_change(self, consolidated: ConsolidatedDocs, holder: str, change: DocumentChange) -> ConsolidatedDocs:
        lost = [relative(path, holder) for path in change.gone if is_within(path, holder)]
        new = {name: docs for name, docs in consolidated.items() if not any(is_within(name, path) for path in lost)}
        changed = {**change.docs, **change.after}
        new |= {relative(path, holder): docs for path, docs in changed.items() if is_within(path, holder)}
        for path in change.arrived:
            if is_within(path, holder):
                below = self.walk(path).items()
                new |= {relative(child(path, name) if name else path, holder): docs for name, docs in below}
        return new

    def walk(self, path: str) -> ConsolidatedDocs:
        """Return the stored documents of a node and of all below it, by path relative to it; arrays are not looked
        into."""
        docs = self._docs(path)
        result: ConsolidatedDocs = {} if docs is None else {"": docs}
        if docs is not None and self._dialect.is_array(docs):
            return result
        for name in self._store.list_dir(path)[1]:
            result |= {child(name, inner).rstrip("/"): more for inner, more in self.walk(child(path, name)).items()}
        return result

    # -- documents --------------------------------------------------------------------------------------------------

    def _document(self, path: str, name: str) -> JsonObject | None:
        """Return a stored document; a damaged one speaks of nothing."""
        data = self._store.get(child(path, name))
        try:
            return None if data is None else read_document(data, name)
        except FormatError:
            return None

    def _docs(self, path: str) -> Docs | None:
        for name in self._dialect.nodes:
            doc = self._document(path, name)
            if doc is not None:
                found = {extra: self._document(path, extra) for extra in self._dialect.extras}
                extras = {extra: more for extra, more in found.items() if more is not None}
                return {name: strip_consolidated(self._dialect, name, doc), **extras}
        return None

    def _store_all(self, changes: Mapping[str, Docs]) -> None:
        """Write the documents of nodes: extras first, so that a node that is seen is whole; those of other kinds go."""
        names = (*self._dialect.extras, *self._dialect.nodes)
        for path, docs in changes.items():
            for name in names:
                if name not in docs and self._store.get(child(path, name)) is not None:
                    self._store.delete(child(path, name), durable=self._durable)
        self._put_documents(
            [(child(path, name), docs[name]) for path, docs in changes.items() for name in names if name in docs]
        )

    def _put_documents(self, pairs: Iterable[tuple[str, JsonMapping]]) -> None:
        self._store.put_many([(place, write_again(doc)) for place, doc in pairs], durable=self._durable)


def _below(way: str, path: str) -> str:
    return child(way, path) if path else way


def _holders(touched: Iterable[str]) -> list[str]:
    """Return the groups whose consolidated metadata would speak of these nodes: themselves and all above, the root
    last."""
    holders = {""}
    for path in touched:
        while path:
            holders.add(path)
            path, _ = split(path)
    return sorted(holders, key=len, reverse=True)
