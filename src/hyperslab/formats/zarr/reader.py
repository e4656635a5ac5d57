"""Reading a dataset of JSON documents and chunks under the keys of a store (Zarr v2 and v3).

Opening reads the root's document alone. A node is looked up in consolidated metadata first, and directly when it is not
there; a path without a document but with nodes below it is a group.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound, Problem
from hyperslab.formats.base import Reader
from hyperslab.formats.documents import INLINE, JsonMapping, JsonObject, read_document
from hyperslab.formats.format_errors import node_not_found, require_array
from hyperslab.formats.signatures import ends_as_dataset
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.dialect import Consolidated, Docs, MetadataDialect, read_consolidated
from hyperslab.formats.zarr.node_search import NodeSearch
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.model.paths import child, is_within, relative
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp, Store

_log = logging.getLogger("hyperslab")


class ThreadPaths(threading.local):
    """The paths of nodes that the calling thread holds or reads; other threads have their own."""

    def __init__(self) -> None:
        self.paths: set[str] = set()


class ZarrReader(Reader):
    """A dataset open for reading. ``remembered`` holds values by key that were read before, None for missing ones."""

    may_shrink = True

    def __init__(
        self,
        store: Store,
        dialect: MetadataDialect,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
    ) -> None:
        self.store: Store = store
        self._dialect = dialect
        self._settings = settings
        self._remembered = dict(remembered or {})
        self._remembers_nodes = False
        for key, value in self._remembered.items():
            self._remembers_nodes |= value is not None and "/" in key
        self._specs: dict[str, GroupSpec | ArraySpec] = {}
        # Counts what is forgotten or written. Who read a node's documents before that does not remember them after it:
        # the next reader, perhaps one who appends, would take a shape of before for the present one.
        self._changes = 0
        self._spec_lock = threading.Lock()  # the last lock of all: nothing is asked for while it is held
        self._consolidated: dict[str, Consolidated] = {}
        self._prefetched: dict[str, Docs | None] = {}
        self._looked_for_consolidated = False
        self._unconsolidated_paths: set[str] = set()
        self._known_documents: dict[bytes, JsonObject] = {}  # many arrays have the same document, which is read once
        self._in_consolidated: set[str] = set()
        self._search: NodeSearch | None = None
        # What is remembered needs no lock: each look at a dict and each change is one call, and what two threads read
        # at once is the same. The mutex is for what is one step of several calls. Lock order: a node's in the store,
        # the mutex, the store's own; who holds the mutex asks for no node's lock.
        self._mutex = threading.RLock()

    def close(self) -> None:
        self.store.close()

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node; it is read from its own documents from now on."""
        with self._mutex:
            self._forget_spec(path)
            self._prefetched.pop(path, None)
            self._remembered.clear()
            self._known_documents.clear()
            self._unconsolidated_paths.add(path)

    def stamp(self, path: str) -> Stamp | None:
        """Return what identifies the present version of a node's own document; None where the store cannot tell."""
        store = self.store
        if not store.traits.stamped:
            return None
        stamps = (store.stamp(child(path, name)) for name in self._dialect.nodes)
        return next((stamp for stamp in stamps if stamp is not None), None)

    def watch(self, path: str) -> Callable[[], Stamp | None]:
        if self.store.traits.stamped:
            for name in self._dialect.nodes:
                key = child(path, name)
                if self.store.stamp(key) is not None:
                    return self.store.watch(key)
        return partial(self.stamp, path)

    # -- documents --------------------------------------------------------------------------------------------------

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return what lies at ``path``; NodeNotFound, or FormatError with every problem of its documents."""
        spec = self._specs.get(path)
        if spec is None:
            changes = self._changes
            docs = self._docs(path)
            if docs is not None:
                spec = self._parse(path, docs)
            elif self._consolidated_names(path) or self._holds_nodes(path):
                spec = GroupSpec()  # a group that has no document of its own: something below it has
            else:
                raise node_not_found(path, self.store.url)
            with self._spec_lock:
                if changes == self._changes:
                    self._specs[path] = spec
        return spec

    def _holds_nodes(self, path: str) -> bool:
        """Return True for a folder without documents that has nodes below. Where the root has none either, and may be a
        folder of anything, all such searches together look at so many folders in vain."""
        search = NodeSearch.of(self.store, self._dialect.nodes) if self._search is None else self._search
        before, found = search.left, search.holds_nodes(path)
        if found and not path:
            self._search = search
            self.has_omissions = True
        if self._search is not None and search.left <= 0 < before:
            message = "%s: %s folders were looked at for %s, and no more are: name a dataset in it"
            _log.warning(message, self.store.url, f"{search.looked:,}", " or ".join(self._dialect.nodes))
        return found

    def _forget_spec(self, path: str) -> None:
        with self._spec_lock:
            self._changes += 1
            self._specs.pop(path, None)

    def _replace_spec(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Remember what was just written, or read as the present state, in the place of all that was read before."""
        with self._spec_lock:
            self._changes += 1
            self._specs[path] = spec

    def stored_node(self, path: str) -> GroupSpec | ArraySpec | None:
        """Return what a node's own documents say, whatever consolidated metadata does; None where it has none."""
        docs = self._stored_docs(path)
        return None if docs is None else self._parse(path, docs)

    def _parse(self, path: str, docs: Docs) -> GroupSpec | ArraySpec:
        try:
            return self._dialect.parse(docs, path)
        except HyperslabError as error:
            raise error.locate(url=self.store.url, node=path) from error.__cause__

    def _docs(self, path: str) -> Docs | None:
        """Return the documents of a node, from consolidated metadata where that has it; what is remembered of
        it is newer."""
        if path not in self._unconsolidated_paths and not (self._remembers_nodes and self._is_remembered(path)):
            if not self._looked_for_consolidated:
                self._look_for_consolidated()
            copied = self._consolidated_docs(path) if self._consolidated else None
            if copied is not None:
                self._in_consolidated.add(path)
                return copied
            if path in self._prefetched:
                try:
                    return self._prefetched.pop(path)
                except KeyError:  # another thread has taken it
                    return self._stored_docs(path)
        self._in_consolidated.discard(path)
        return self._stored_docs(path)

    def _is_remembered(self, path: str) -> bool:
        return path != "" and any(self._remembered.get(child(path, name)) for name in self._dialect.nodes)

    def _stored_docs(self, path: str) -> Docs | None:
        """Return the documents of a node as they are stored; consolidated metadata that is met on the way is
        remembered."""
        for name in self._dialect.nodes:
            doc = self._stored(path, name)
            if doc is None:
                continue
            docs = {name: doc}
            for extra in self._dialect.extras:
                if (more := self._stored(path, extra)) is not None:
                    docs[extra] = more
            inline = name == self._dialect.consolidated_name and INLINE in doc
            if inline and path not in self._consolidated:
                self._remember_consolidated(path, doc)
            return docs
        return None

    def _stored(self, path: str, name: str) -> JsonObject | None:
        data = self._value(path, name)
        if data is None:
            return None
        if (known := self._known_documents.get(data)) is not None:
            return known
        try:
            doc = read_document(data, f"{path}/{name}" if path else name)
        except FormatError as error:
            raise error.locate(url=self.store.url, node=path) from None
        if name in self._dialect.nodes and name != self._dialect.consolidated_name:
            self._known_documents[data] = doc
        return doc

    def _value(self, path: str, name: str) -> bytes | None:
        """Return the bytes of a document, those that were read before once."""
        place = f"{path}/{name}" if path else name
        try:
            return self._remembered.pop(place) if place in self._remembered else self.store.get(place)
        except KeyError:  # another thread has taken it
            return self.store.get(place)

    # -- consolidated metadata --------------------------------------------------------------------------------------

    def _look_for_consolidated(self) -> None:
        """Read the root's consolidated metadata once; damage is no reason to read nothing."""
        if self._looked_for_consolidated:
            return
        with self._mutex:  # other threads wait for it: without it they would take the dataset for one that has none
            if self._looked_for_consolidated:
                return
            name = self._dialect.consolidated_name
            try:
                if name in self._dialect.nodes:
                    # it is in the root's own document, which need not be read again for the root
                    self._prefetched[""] = self._stored_docs("")
                elif (doc := self._stored("", name)) is not None:
                    self._remember_consolidated("", doc)
            except FormatError:
                return
            finally:
                self._looked_for_consolidated = True

    @property
    def is_consolidated(self) -> bool:
        """Return True where the root has consolidated metadata that is read."""
        self._look_for_consolidated()
        return "" in self._consolidated

    def _remember_consolidated(self, holder: str, doc: JsonMapping) -> None:
        docs = read_consolidated(self._dialect, doc)
        if docs is not None:
            self._consolidated[holder] = Consolidated(docs)

    def _consolidated_above(self, path: str) -> Iterator[tuple[str, Consolidated]]:
        """Yield the consolidated metadata that may speak of a node, the nearest first, with the node's path relative to
        its holder."""
        for holder, each in sorted(self._consolidated.items(), key=_length_of_holder, reverse=True):
            if is_within(path, holder):
                yield relative(path, holder), each

    def _consolidated_docs(self, path: str) -> Docs | None:
        root = self._consolidated.get("")
        if root is not None and len(self._consolidated) == 1:  # nearly always, and for each node
            return root.docs.get(path)
        return next((each.docs[inner] for inner, each in self._consolidated_above(path) if inner in each.docs), None)

    def _consolidated_names(self, path: str) -> list[str] | None:
        """Return names right below ``path``, as the nearest consolidated metadata that knows the group has them; None
        without any."""
        if path in self._unconsolidated_paths:
            return None
        known = (each.names(inner) for inner, each in self._consolidated_above(path))
        return next((names for names in known if names is not None), None)

    # -- the tree ---------------------------------------------------------------------------------------------------

    def children(self, path: str) -> Iterable[str]:
        """Return names of the nodes right below a group: in the order of consolidated metadata, else sorted. Each
        folder is looked at when its turn comes: of a group of 100,000 who wants the first ones reads no more."""
        if self.node(path).is_array:
            return []
        copied = self._consolidated_names(path)
        if copied is not None:
            return copied
        return self._nodes_of(path, self.store.list_dir(path)[1])

    def children_after(self, path: str, name: str) -> Iterator[str]:
        """Return the names behind one. Of the folders before it none is looked at."""
        if self._consolidated_names(path) is not None:
            return super().children_after(path, name)
        folders = self.store.list_dir(path)[1]
        place = bisect_left(folders, name)
        if not any(self._nodes_of(path, [each for each in folders[place : place + 1] if each == name])):
            raise NodeNotFound("nothing is there any more", url=self.store.url, node=child(path, name))
        return self._nodes_of(path, folders[place + 1 :])

    def _nodes_of(self, path: str, folders: Sequence[str]) -> Iterator[str]:
        """Yield the folders right below a group that are nodes."""
        return (name for name in folders if self._is_node(child(path, name)))

    def _is_node(self, path: str) -> bool:
        """Return True for a folder with documents, also for one whose documents cannot be read."""
        try:
            self.node(path)
        except NodeNotFound:
            return False
        except HyperslabError:
            return True
        return True

    def omitted(self, path: str) -> Iterable[Problem]:
        """Return the datasets of other formats right below a folder without a document, by the ends of their names: it
        may be a folder of anything."""
        if not self.has_omissions or self.node(path).is_array or self._docs(path) is not None:
            return []
        keys, folders = self.store.list_dir(path)
        names = (name for name in {*keys, *folders} if ends_as_dataset(name) and not self._is_node(child(path, name)))
        message = "a dataset of another format, which is opened by its own name"
        return [Problem(child(path, name), "datasets", message) for name in sorted(names)]

    # -- chunks -----------------------------------------------------------------------------------------------------

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of an array. What is known from consolidated metadata alone is looked up now:
        NodeNotFound when it is gone."""
        spec = self._specs.get(path) or self.node(path)
        # cells are never read by what consolidated metadata says alone: others may have changed the array since
        if path in self._in_consolidated:
            changes = self._changes
            docs = self._stored_docs(path)
            if docs is None:
                self._forget_spec(path)
                self._unconsolidated_paths.add(path)
                raise NodeNotFound(
                    "the array is gone; only consolidated metadata speaks of it", url=self.store.url, node=path
                )
            if docs != self._consolidated_docs(path):
                copied, spec = spec, self._parse(path, docs)
                self._raise_if_stale(path, copied, spec)  # as often as it is asked for: an array keeps what it has
                with self._spec_lock:
                    if changes == self._changes:
                        self._changes += 1  # nor is what consolidated metadata says
                        self._specs[path] = spec
            self._in_consolidated.discard(path)
        return self.chunks_as(path, spec if spec.is_array else require_array(path, spec, self.store.url))

    def _raise_if_stale(self, path: str, copied: GroupSpec | ArraySpec, own: GroupSpec | ArraySpec) -> None:
        """Refuse cells whose rank or type consolidated metadata says otherwise: who asks has shape and type from it."""
        if copied.is_array and own.is_array:
            if len(copied.shape) == len(own.shape) and copied.numpy_dtype == own.numpy_dtype:
                return
            claim = f"{copied.numpy_dtype} of shape {copied.shape}"
            raise FormatError(
                f"consolidated metadata is stale: it says {claim}, the array's own {own.numpy_dtype} of {own.shape}",
                url=self.store.url,
                node=path,
                remedy="repair makes it anew; refresh() of the array reads its own document",
            )

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks as they are under ``spec``, whatever the documents say."""
        try:
            return open_chunks(self.keys_of(path, spec), spec)
        except HyperslabError as error:
            raise error.locate(url=self.store.url, node=path) from error.__cause__

    def keys_of(self, path: str, spec: ArraySpec) -> ChunkKeys:
        """Return the keys of an array's chunks."""
        return ChunkKeys(self.store, path, self._dialect.key_of(spec), self._settings)


def _length_of_holder(entry: tuple[str, Consolidated]) -> int:
    return len(entry[0])
