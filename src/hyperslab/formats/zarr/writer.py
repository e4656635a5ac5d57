"""Writing a dataset of JSON documents: one commit per change or batch, under the root's lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice
from operator import gt

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, Conflict, FormatError, HyperslabError, Invalid, NodeNotFound
from hyperslab.formats.base import BatchBlocks, Reader, Writer
from hyperslab.formats.documents import JsonMapping, check_limits, write_again
from hyperslab.formats.enclosing import EnclosingDataset
from hyperslab.formats.format_errors import require_no_link
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.commit import DocumentChange, DocumentCommits
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.formats.zarr.reader import ThreadPaths, ZarrReader
from hyperslab.model.paths import child, is_within, normalize, split
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.keys import LOCK

# Arrays whose writers are kept out while a group is renamed or removed: each lock is an open file, of which a process
# has 1,024 by default. Of more arrays none is locked; who writes there learns of it behind the write (_guard_of).
MOST_LOCKED = 1000

# Seconds for which a writer in a bucket goes on without a look at the array's document: one before each write would be
# as many requests as of chunks where these are written one by one.
SECONDS_WITHOUT_LOOK = 10.0


class ZarrWriter(ZarrReader, Writer):
    """A dataset open for writing. ``consolidated``: keep consolidated metadata even where there was none."""

    def __init__(
        self,
        store: Store,
        dialect: MetadataDialect,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
        *,
        consolidated: bool = False,
    ) -> None:
        super().__init__(store, dialect, settings, remembered)
        self._pending: dict[str, Docs] = {}
        self._flushing: Collection[str] = ()
        """Nodes that were pending and are being stored."""
        self._batches = BatchBlocks(self._mutex)
        self._batch_locks: set[str] = set()
        self._locked_nodes = ThreadPaths()
        self._node_mutex = threading.RLock()
        self.enclosing: EnclosingDataset | None = None
        """What is around the dataset, where it was opened by its place: its consolidated metadata follows."""
        self._commits = DocumentCommits(store, dialect, durable=settings.durable, consolidated=consolidated)

    # -- changes ----------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: Node) -> None:
        """Make or replace a node's documents; missing groups above are made. Within a batch, at its end."""
        path, spec = normalize(path), require_no_link(spec, path, self._dialect.format)
        docs = self._documents_of(path, spec)
        for name, doc in docs.items():
            check_document(doc, name, path)
        # what a dead writer left must not become cells of the new array
        if spec.is_array:
            self._clear(path)
        with self._mutex:
            changes = {above: self._documents_of(above, GroupSpec()) for above in self._missing_above(path)}
            changes |= {path: docs}
            # Asked once: a batch may begin or end beside. A store that transacts shows nothing before the end of the
            # batch, and takes chunks only of arrays whose documents it has.
            waits = bool(self._batches) and not self.store.traits.transacts
            if waits:
                self._pending |= changes
        if not waits:
            self._commit(DocumentChange(changes))
        for place, written in changes.items():
            self._replace_spec(place, self._parse(place, written))
            self._in_consolidated.discard(place)
            self._unconsolidated_paths.add(place)

    def _documents_of(self, path: str, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the documents that a node is written as."""
        return self._dialect.render(spec)

    def _clear(self, path: str) -> None:
        """Remove the chunks that a writer left who died before it wrote the documents of a new array."""
        known = path in self._specs or path in self._pending
        if path and not known and any(self.store.list_dir(path)) and self._stored_docs(path) is None:
            self.store.delete_prefix(path)

    def _missing_above(self, path: str) -> list[str]:
        """Return the groups above that have no document yet, from the root on."""
        missing: list[str] = []
        above = path
        while above:
            above, _ = split(above)
            if above in self._pending:
                break
            found = self._specs.get(above) if above in self._unconsolidated_paths else None
            spec = self.stored_node(above) if found is None else found
            if spec is not None and spec.is_array:
                raise Invalid("an array holds no other nodes", url=self.store.url, node=above)
            if spec is not None:
                self._replace_spec(above, spec)
                self._unconsolidated_paths.add(above)
                break
            missing.insert(0, above)
        return missing

    def drop(self, path: str) -> None:
        path = normalize(path)
        with self._mutex:
            for pending in [name for name in self._pending if is_within(name, path)]:
                del self._pending[pending]
        self._commit(DocumentChange({}, gone=(path,), act=lambda: self._remove(path)))
        self._forget(path)

    def _remove(self, path: str) -> None:
        with self._without_chunk_writers(path):
            self.store.delete_prefix(path, durable=self._settings.durable)

    def move(self, source: str, target: str) -> bool:
        """Rename a node with all below it; AlreadyExists when the target is taken."""
        source, target = normalize(source), normalize(target)
        self._flush()
        self.node(source)
        if self._stored_docs(target) is not None:
            raise AlreadyExists("the target of the move is taken", url=self.store.url, node=target)
        above = {place: self._documents_of(place, GroupSpec()) for place in self._missing_above(target)}
        act = partial(self._move_keys, source, target)
        self._commit(DocumentChange(above, gone=(source,), act=act, arrived=(target,)))
        self._forget(source)
        self._forget(target)
        return True

    def _move_keys(self, source: str, target: str) -> None:
        store = self.store
        if store.traits.renames:
            with self._without_chunk_writers(source):
                store.rename(source, target)
            return
        names = {*self._dialect.extras, *self._dialect.nodes}
        # documents last: nothing is seen at the new place before its chunks are there; in a store that transacts they
        # come first, since it takes chunks only of arrays whose documents it has
        is_first = not store.traits.transacts
        keys = sorted(store.list(source), key=lambda place: (place.rpartition("/")[2] in names) is is_first)
        for place in keys:
            value = store.get(place)
            if value is not None:
                store.put(target + place[len(source) :], value, durable=self._settings.durable)
        self._remove(source)

    @contextmanager
    def _without_chunk_writers(self, path: str) -> Iterator[None]:
        """Have writers of the arrays at and below a node wait, or end before: none finds the folder gone half-way."""
        arrays = list(islice(self._arrays_below(path), MOST_LOCKED + 1))
        if len(arrays) > MOST_LOCKED:
            arrays = []
        with self.store.lock_writers(arrays, self._settings.lock_timeout):
            yield

    def _arrays_below(self, path: str) -> Iterator[str]:
        """Yield the arrays at and below a node, without those whose documents cannot be read."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            with suppress(HyperslabError):
                if self.node(path).is_array:
                    yield path
                else:
                    waiting += [child(path, name) for name in self.children(path)]

    def _forget(self, path: str) -> None:
        with self._mutex:
            for name in [name for name in list(self._specs) if is_within(name, path)]:  # others read, and remember more
                self._forget_spec(name)
            self._consolidated.clear()
            self._prefetched.clear()
            self._remembered.clear()
            self._commits.forget()

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        return self._dialect.new_array(spec)

    # -- reading what is not stored yet -----------------------------------------------------------------------------

    def _docs(self, path: str) -> Docs | None:
        pending = self._pending.get(path)
        return super()._docs(path) if pending is None else pending

    def children(self, path: str) -> Iterable[str]:
        """Return names of the nodes right below a group, those of the running batch included."""
        names = list(super().children(path))
        prefix = child(path, "")
        new = (
            name[len(prefix) :].partition("/")[0] for name in list(self._pending) if name and name.startswith(prefix)
        )
        known = set(names)
        return [*names, *dict.fromkeys(name for name in new if name not in known)]

    # Names of the running batch are behind the others.
    children_after = Reader.children_after

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node; what the running batch will write stays."""
        with self._mutex:
            self._commits.forget()
            if path not in self._pending:
                super().refresh(path)

    # -- locks and batches ------------------------------------------------------------------------------------------

    @contextmanager
    def one_commit(self, *, shared: bool = True) -> Iterator[None]:
        if not self.store.traits.transacts:
            yield
            return
        try:
            with self.store.transaction(self._settings.lock_timeout, shared=shared):
                yield
        except BaseException:
            self._forget("")  # nothing of it is stored
            raise

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold a node's documents against other writers; afterwards reads see the newest. In a batch, until its end."""
        if self.store.traits.transacts:
            with self.one_commit(shared=False):
                self.refresh(path)
                yield
            return
        if self._batches:
            with self._node_mutex:
                if path not in self._batch_locks:
                    self._batches.locks.enter_context(self._locked(path))
                    self._batches.locks.callback(self._batch_locks.discard, path)
                    self._batch_locks.add(path)
                    self.refresh(path)
                yield
            return
        with self._locked(path):
            self.refresh(path)
            yield

    @contextmanager
    def _locked(self, path: str) -> Iterator[None]:
        """Hold the node's lock in the store, once per thread."""
        paths = self._locked_nodes.paths
        # the store's locks are not taken twice by one thread, and a batch holds its own until its end
        if path in paths or path in self._batch_locks or not self.store.traits.locks_nodes:
            yield
            return
        with self.store.lock_node(path, self._settings.lock_timeout):
            paths.add(path)
            try:
                yield
            finally:
                paths.discard(path)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write each document of the block once, at its end, and consolidated metadata after them."""
        with self.one_commit(), self._batches.block(self._flush):
            yield

    def _flush(self) -> None:
        with self._mutex:
            # taken out first: what is put meanwhile belongs to the next commit
            self._flushing = (*self._flushing, *self._pending)
            pending, self._pending = self._pending, {}
        try:
            if pending:
                self._commit(DocumentChange(pending))
        finally:
            self._flushing = ()

    def close(self) -> None:
        """Write what is pending and let go of the store."""
        self._flush()
        super().close()
        if self.enclosing is not None:
            self.enclosing.close()

    def consolidate(self, path: str = "") -> None:
        """Write consolidated metadata of a group (the whole dataset) into it, as it is stored now."""
        self._flush()
        with self._locked(""), self._mutex:
            self._commits.consolidate(path)
            self._forget("")

    def _commit(self, change: DocumentChange) -> None:
        with self.one_commit(shared=False), self._locked(""), self._mutex, self._followed_above(change):
            self._commits.commit(change)
            self._consolidated.clear()

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks as they are under ``spec``. A store that transacts takes none beyond the shape that the
        array's document has, so there a larger shape is put first: nobody sees it before the cells."""
        if self.store.traits.transacts:
            known = self.node(path)
            if known.is_array and any(map(gt, spec.shape, known.shape)):
                self.put(path, spec)
        return super().chunks_as(path, spec)

    def keys_of(self, path: str, spec: ArraySpec) -> ChunkKeys:
        """Return the keys of an array's chunks, with a guard where the store has locks, or looks in their place."""
        keys = super().keys_of(path, spec)
        traits = self.store.traits
        if traits.locks_chunks:
            keys.guard = self._guard_of(path)
        elif traits.concurrency is not None and not traits.transacts:
            keys.look = self._look_of(path)
        return keys

    def _look_of(self, path: str) -> Callable[[], None]:
        """Return the function by which a writer of chunks in a store without locks learns some seconds later that the
        array is not there any more: NodeNotFound, since after a Conflict a swap is tried again."""
        guard, looked = self._guard_of(path), time.monotonic()

        def look() -> None:
            nonlocal looked
            if time.monotonic() - looked < SECONDS_WITHOUT_LOOK:
                return
            try:
                guard()
            except Conflict as error:
                raise NodeNotFound(error.message, url=error.url, node=path, remedy=error.remedy) from None
            looked = time.monotonic()

        return look

    def _guard_of(self, path: str) -> Callable[[], None]:
        """Return the function by which a writer of chunks learns that others have meanwhile renamed or removed the
        array (NodeNotFound), or put another one in its place (Conflict): one of another type, or of another lock
        file than the one that the first write took. That goes with the folder, and an edit that makes the folders anew
        links it."""
        names = [child(path, name) for name in self._dialect.nodes]
        known: Stamp | None = None
        docs: Docs | None = None
        lock: tuple[int, int] | None = None

        def guard() -> None:
            nonlocal known, docs, lock
            stamp = next(filter(None, map(self.store.stamp, names)), None)
            if stamp is not None and stamp == known:
                return
            # in this order, and without the mutex, which a thread may have that waits for the lock of these chunks
            if path in self._pending or path in self._flushing:
                return
            stored = self._stored_docs(path)  # what was pending before is stored now
            if stored is None:
                message = "the array was renamed or removed while it was open for writing"
                remedy = "open it where it is now, and write again"
                raise NodeNotFound(message, url=self.store.url, node=path, remedy=remedy)
            lock_now = self._lock_file(path)
            is_other = docs is not None and self._chunk_layout(path, stored) != self._chunk_layout(path, docs)
            if is_other or (None not in (lock, lock_now) and lock != lock_now):
                message = "another array was put in place of the one that is open for writing"
                raise Conflict(message, url=self.store.url, node=path, remedy="open it anew, and write again")
            known, docs, lock = stamp, stored, lock_now or lock

        return guard

    def _lock_file(self, path: str) -> tuple[int, int] | None:
        """Return the number of the file by which chunks of an array are locked, and when it was made, since numbers are
        given again; None where there is none."""
        place = self.store.locate(child(path, self._dialect.nodes[0]))
        try:
            found = None if place is None else os.stat(os.path.join(os.path.dirname(place), LOCK))
        except OSError:
            return None
        return None if found is None else (found.st_ino, found.st_mtime_ns)

    def _chunk_layout(self, path: str, docs: Docs) -> tuple[object, ...] | None:
        """Return all of an array's documents that the bytes of a chunk follow from, which it keeps while it grows."""
        spec = self._parse(path, docs)
        if not spec.is_array:
            return None
        ndim = len(spec.shape)
        cuts = [None if isinstance(cut, tuple) else cut for cut in spec.chunks]  # of varying sizes there come more
        return ndim, spec.dtype, cuts, spec.codecs, self._dialect.key_of(spec)((0,) * ndim)

    def _followed_above(self, change: DocumentChange) -> AbstractContextManager[None]:
        if self.enclosing is None:
            return nullcontext()
        stored = (*change.docs, *change.after)
        return self.enclosing.follow(stored=stored, gone=change.gone, arrived=change.arrived)

    @contextmanager
    def follow(
        self, way: str, *, stored: Collection[str] = (), gone: Collection[str] = (), arrived: Collection[str] = ()
    ) -> Iterator[None]:
        """Have consolidated metadata follow what another writer makes of nodes below ``way`` in the block."""
        with self._locked(""), self._mutex:
            with self._commits.follow(way, stored, gone, arrived):
                yield
            self._forget("")


def check_document(doc: JsonMapping, name: str, path: str) -> None:
    """Refuse a document that could not be read again."""
    try:
        check_limits(write_again(doc))
    except FormatError as error:
        raise Invalid(
            f"the attributes make {name} too large: {error.message}",
            node=path,
            remedy="store large values as an array",
        ) from None
