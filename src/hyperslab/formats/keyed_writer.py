"""Writing a dataset of JSON documents: one commit per change or batch, consolidated metadata never stale.

A commit holds the root's lock. It takes away every copy (consolidated metadata) that speaks of what changes, stores the
documents, and puts the copies back with the changes in them: a crash leaves no copy, never a stale one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound
from hyperslab.formats.documents import check_limits, read_document, write_json
from hyperslab.formats.keyed_dataset import KeyedReader, key
from hyperslab.formats.spelling import Copy, Docs, Spelling
from hyperslab.model.paths import normalize, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Locks, PutMany, Rename, WritableStore


class KeyedWriter(KeyedReader):
    """A dataset open for writing. ``consolidated``: keep consolidated metadata even where there was none."""

    def __init__(
        self,
        store: WritableStore,
        spelling: Spelling,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
        *,
        consolidated: bool = False,
    ) -> None:
        super().__init__(store, spelling, settings, remembered)
        self._target = store
        self._consolidated = consolidated
        self._pending: dict[str, Docs] = {}
        self._batches = 0
        self._batch_locks = ExitStack()
        self._batch_held: set[str] = set()
        self._held = threading.local()
        self._without_copy: set[str] = set()

    # -- changes ----------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Make or replace a node's documents; missing groups above are made. Within a batch, at its end."""
        path = normalize(path)
        docs = self._spelling.render(spec)
        for name, doc in docs.items():
            _check(doc, name, path)
        with self._mutex:
            changes = {above: self._spelling.render(GroupSpec()) for above in self._missing_above(path)} | {path: docs}
            if self._batches:
                self._pending |= changes
        if not self._batches:
            self._commit(changes)
        for place, written in changes.items():
            self._specs[place] = self._parse(place, written)
            self._copied.discard(place)
            self._direct.add(place)

    def _missing_above(self, path: str) -> list[str]:
        """The groups above that have no document yet, from the root on."""
        missing: list[str] = []
        above = path
        while above:
            above, _ = split(above)
            if above in self._pending:
                break
            found = self._specs.get(above) if above in self._direct else None
            spec = self._parse_stored(above) if found is None else found
            if isinstance(spec, ArraySpec):
                raise Invalid("an array holds no other nodes", url=self._store.url, node=above)
            if spec is not None:
                self._specs[above] = spec
                self._direct.add(above)
                break
            missing.insert(0, above)
        return missing

    def _parse_stored(self, path: str) -> GroupSpec | ArraySpec | None:
        docs = self._stored_docs(path)
        return None if docs is None else self._parse(path, docs)

    def drop(self, path: str) -> None:
        """Remove a node with all below it."""
        path = normalize(path)
        with self._mutex:
            for pending in [name for name in self._pending if _is_within(name, path)]:
                del self._pending[pending]
        self._commit({}, gone=[path], act=lambda: self._target.delete_prefix(path))
        self._forget(path)

    def move(self, source: str, target: str) -> None:
        """Rename a node with all below it; AlreadyExists when the target is taken."""
        source, target = normalize(source), normalize(target)
        self._flush()
        self.node(source)
        if self._stored_docs(target) is not None:
            raise AlreadyExists("the target of the move is taken", url=self._store.url, node=target)
        above = {place: self._spelling.render(GroupSpec()) for place in self._missing_above(target)}
        self._commit(above, gone=[source], act=lambda: self._move_keys(source, target), arrived=[target])
        self._forget(source)
        self._forget(target)

    def _move_keys(self, source: str, target: str) -> None:
        store = self._target
        if isinstance(store, Rename):
            store.rename(source, target)
            return
        names = set(self._documents())
        keys = sorted(store.list(source), key=lambda place: place.rpartition("/")[2] in names)
        for place in keys:
            value = store.get(place)
            if value is not None:
                store.put(target + place[len(source) :], value, durable=self._settings.durable)
        store.delete_prefix(source)

    def _forget(self, path: str) -> None:
        with self._mutex:
            for name in [name for name in self._specs if _is_within(name, path)]:
                del self._specs[name]
            self._copies.clear()
            self._ahead.clear()
            self._remembered.clear()
            self._without_copy.clear()

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """A user's wish in this format's own spelling, or Unsupported."""
        return self._spelling.new_array(spec)

    # -- reading what is not stored yet -----------------------------------------------------------------------------

    def _docs(self, path: str) -> Docs | None:
        return self._pending[path] if path in self._pending else super()._docs(path)

    def _implicit(self, path: str) -> GroupSpec:
        if any(_is_within(name, path) for name in self._pending):
            return GroupSpec()
        return super()._implicit(path)

    def children(self, path: str) -> Iterable[str]:
        """Names of the nodes right below a group, those of the running batch included."""
        names = list(super().children(path))
        prefix = key(path, "")
        new = (name[len(prefix) :].partition("/")[0] for name in self._pending if name and name.startswith(prefix))
        known = set(names)
        return [*names, *dict.fromkeys(name for name in new if name not in known)]

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node; what the running batch will write stays."""
        with self._mutex:
            self._without_copy.clear()
            if path not in self._pending:
                super().refresh(path)

    # -- locks and batches ------------------------------------------------------------------------------------------

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold a node's documents against other writers; afterwards reads see the newest. In a batch, until its end."""
        if self._batches:
            with self._mutex:
                if path not in self._batch_held:
                    self._batch_locks.enter_context(self._locked(path))
                    self._batch_held.add(path)
                    self.refresh(path)
                yield
            return
        with self._locked(path):
            self.refresh(path)
            yield

    @contextmanager
    def _locked(self, path: str) -> Iterator[None]:
        """The node's lock in the store, once per thread."""
        held: set[str] = self._held.__dict__.setdefault("paths", set())
        if path in held or path in self._batch_held or not isinstance(self._store, Locks):
            yield
            return
        with self._store.lock_node(path, self._settings.lock_timeout):
            held.add(path)
            try:
                yield
            finally:
                held.discard(path)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Each document of the block is written once, at its end, and consolidated metadata after them."""
        with self._mutex:
            self._batches += 1
        try:
            yield
        finally:
            with self._mutex:
                self._batches -= 1
                ends = not self._batches
            if ends:
                self._end_batch()

    def _end_batch(self) -> None:
        try:
            self._flush()
        finally:
            self._batch_locks.close()
            self._batch_held.clear()

    def _flush(self) -> None:
        with self._mutex:
            pending, self._pending = self._pending, {}
        if pending:
            self._commit(pending)

    def close(self) -> None:
        """Write what is pending and let go of the store."""
        self._flush()
        super().close()

    # -- the commit -------------------------------------------------------------------------------------------------

    def consolidate(self) -> None:
        """Write consolidated metadata of the whole dataset, as it is stored now."""
        self._flush()
        with self._locked(""):
            self._forget("")
            self._put_copy("", self._walk(""))

    def _commit(
        self,
        changes: Mapping[str, Docs],
        *,
        gone: Iterable[str] = (),
        act: Callable[[], None] | None = None,
        arrived: Iterable[str] = (),
    ) -> None:
        """Store documents (and ``act``) so that no copy is ever stale."""
        touched = [*changes, *gone, *arrived]
        with self._locked(""), self._mutex:
            copies = {holder: self._copy_at(holder) for holder in self._holders(touched)}
            held = {holder: copy for holder, copy in copies.items() if copy is not None}
            alone = len(held) == 1 and touched == list(held) and self._spelling.copy_name in self._spelling.nodes
            if not alone:
                for holder in held:
                    self._take_copy(holder, changes)
                self._store_all(changes)
            if act is not None:
                act()
            for holder, copy in held.items():
                new = _changed(copy, holder, changes, gone)
                for path in arrived:
                    new |= {_relative(path, holder, inner): docs for inner, docs in self._walk(path).items()}
                self._put_copy(holder, new, changes.get(holder))
            if self._consolidated and "" not in held:
                self._put_copy("", self._walk(""))
            self._copies.clear()

    def _holders(self, touched: Iterable[str]) -> list[str]:
        """The groups whose copy would speak of these nodes: themselves and all above, the root last."""
        holders: dict[str, None] = {}
        for path in touched:
            while path:
                holders[path] = None
                path, _ = split(path)
        return [*sorted(holders, key=len, reverse=True), ""]

    def _copy_at(self, holder: str) -> Copy | None:
        """The copy that a group holds now; what has none is not asked again, but for the root."""
        if holder and holder in self._without_copy:
            return None
        data = self._store.get(key(holder, self._spelling.copy_name))
        copy = None
        if data is not None:
            try:
                copy = self._spelling.read_copy(read_document(data, self._spelling.copy_name))
            except FormatError:
                copy = self._walk(holder)
        if copy is None:
            self._without_copy.add(holder)
        return copy

    def _take_copy(self, holder: str, changes: Mapping[str, Docs]) -> None:
        """Remove a copy; its document goes, or is written without it."""
        name = self._spelling.copy_name
        place = key(holder, name)
        if name in changes.get(holder, {}):
            return self._store_all({holder: changes[holder]})
        data = self._store.get(place)
        doc = None if data is None else self._spelling.without_copy(read_document(data, place))
        if doc is None:
            self._target.delete(place)
        else:
            self._put_all([(place, doc)])
        return None

    def _put_copy(self, holder: str, copy: Copy, docs: Docs | None = None) -> None:
        stored = self._stored_docs(holder) if docs is None else docs
        doc = self._spelling.write_copy(stored or {}, copy)
        self._put_all([(key(holder, self._spelling.copy_name), doc)])

    def _walk(self, path: str) -> Copy:
        """The stored documents of a node and of all below it, by path relative to it."""
        docs = self._stored_docs(path)
        found: Copy = {} if docs is None else {"": docs}
        if docs is not None and isinstance(self._parsed_or_none(path, docs), ArraySpec):
            return found
        for name in self._store.list_dir(path)[1]:
            found |= {key(name, inner).rstrip("/"): more for inner, more in self._walk(key(path, name)).items()}
        return found

    def _parsed_or_none(self, path: str, docs: Docs) -> GroupSpec | ArraySpec | None:
        try:
            return self._parse(path, docs)
        except FormatError:
            return None

    def _documents(self) -> tuple[str, ...]:
        return (*self._spelling.extras, *self._spelling.nodes)

    def _store_all(self, changes: Mapping[str, Docs]) -> None:
        """Write the documents of nodes: extras first, so that a node that is seen is whole; other kinds go."""
        for path, docs in changes.items():
            for name in self._documents():
                if name not in docs and self._store.get(key(path, name)) is not None:
                    self._target.delete(key(path, name))
        order = self._documents()
        self._put_all([(key(path, name), docs[name]) for path, docs in changes.items() for name in order if name in docs])

    def _put_all(self, pairs: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        encoded = [(place, write_json(doc)) for place, doc in pairs]
        if isinstance(self._target, PutMany):
            self._target.put_many(encoded, durable=self._settings.durable)
            return
        for place, data in encoded:
            self._target.put(place, data, durable=self._settings.durable)


def _check(doc: Mapping[str, Any], name: str, path: str) -> None:
    """Refuse a document that could not be read again."""
    try:
        check_limits(write_json(doc))
    except FormatError as error:
        raise Invalid(
            f"the attributes make {name} too large: {error.message}",
            node=path,
            remedy="store large values as an array",
        ) from None


def _is_within(path: str, group: str) -> bool:
    return path == group or not group or path.startswith(f"{group}/")


def _relative(path: str, holder: str, inner: str = "") -> str:
    whole = key(path, inner) if inner else path
    return whole[len(holder) :].lstrip("/")


def _changed(copy: Copy, holder: str, changes: Mapping[str, Docs], gone: Iterable[str]) -> Copy:
    """A copy with the changes below its holder in it."""
    lost = [_relative(path, holder) for path in gone if _is_within(path, holder)]
    new = {name: docs for name, docs in copy.items() if not any(_is_within(name, path) for path in lost)}
    return new | {_relative(path, holder): docs for path, docs in changes.items() if _is_within(path, holder)}
