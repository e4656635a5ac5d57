"""Changes of a root of collections: collections by their documents, arrays by their attributes; locks and batches.

An array that is put elsewhere than in a collection becomes a collection of its own
(:mod:`~hyperslab.formats.collections.single_array`); groups stand in the document of the root.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound, SchemaError, Unsupported
from hyperslab.formats.base import BatchBlocks, Writer
from hyperslab.formats.collections import single_array
from hyperslab.formats.collections.base import CollectionDocument, CollectionStore, Layout, parse_document, record_of
from hyperslab.formats.collections.tree import (
    DOCUMENT_ATTRIBUTE,
    KEPT_OPTIONS,
    KEY,
    ArrayEntry,
    CollectionTreeReader,
    Tree,
    all_ids,
    portable_document,
    render_tree,
)
from hyperslab.formats.format_errors import require_no_link
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.reader import DocumentCells, resize_cells
from hyperslab.model.dims import Coordinate, Index
from hyperslab.model.paths import outward, split
from hyperslab.model.refs import Link
from hyperslab.model.schemas.arrays import Record, allows_shape, new_id
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

# Cells of an array that is read for the labels of others, at the most: all of them are in memory then.
_MOST_LABELS = 1 << 20


class _RootLock(threading.local):
    """The state of the root's lock, for each thread by itself."""

    is_held = False


class CollectionTreeWriter(CollectionTreeReader, Writer):
    """A root that takes changes; new collections get the first of the ``layouts``."""

    def __init__(
        self, where: Location, layouts: Sequence[Layout], settings: Settings, base: str = "", *, format: str
    ) -> None:
        super().__init__(where, layouts, settings, base)
        self._format = format
        self._batches = BatchBlocks(self._mutex)
        self._changes: list[Callable[[Tree], Tree]] = []
        self._unused: list[str] = []
        self._records: dict[str, dict[str, Record]] = {}
        self._root_lock = _RootLock()

    def _open_store(self) -> Store:
        return self._where.store(read_only=False, create=True)

    @property
    def writable(self) -> bool:
        return True

    # -- collections ------------------------------------------------------------------------------------------------

    def create_collection(self, document: CollectionDocument) -> CollectionStore:
        """Make a new collection in the layout that its document says. AlreadyExists; Unsupported for a layout that is
        not that of the format."""
        made = self._make_collection(document)
        if document.name in self._tree().unused:  # of before, by a writer that died
            self._edit(lambda tree: tree.without_unused({document.name}))
        return made

    def _make_collection(self, document: CollectionDocument) -> CollectionStore:
        layout = next((layout for layout in self._layouts if layout.name == document.layout), None)
        if layout is None:
            remedy = f"choose format collections, or layout={self._layouts[0].name!r}"
            raise Unsupported(f"layout {document.layout!r} in format {self._format}", url=self.url, remedy=remedy)
        if document.name in self.collections():
            raise AlreadyExists(f"the collection {document.name!r} exists", url=self.url, node=document.name)
        made = layout.create(self._where, replace(document, stored_attributes=None), self._settings)
        with self._mutex:
            self._collection_stores[document.name] = made
        return made

    def _flush_records(self) -> None:
        """Make the arrays that wait, all of a collection at once."""
        if not self._records:
            return
        with self._mutex:
            waiting, self._records = self._records, {}
        for name, records in waiting.items():
            self._required_store(name, name).create(list(records.values()))

    # -- what is not stored yet -------------------------------------------------------------------------------------

    def children(self, path: str) -> Iterable[str]:
        """Return the names in a group or collection, with what waits in the running batch."""
        self._flush_records()
        return super().children(path)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the node at a path, also one of the running batch. NodeNotFound."""
        self._flush_records()
        return super().node(path)

    def _edit(self, change: Callable[[Tree], Tree]) -> None:
        """Change the document of groups and arrays as it is stored now; in a batch, at its end."""
        with self._mutex:
            if self._batches:
                self._cached_tree = change(self._tree())
                self._changes.append(change)
                return
        self._store_now(change)

    def _store_now(self, change: Callable[[Tree], Tree]) -> None:
        """Change the stored document, also in a batch, whose own changes wait further on."""
        with self._locked():  # read under the lock: another writer may have changed the document meanwhile
            self._write_tree(change(self._read_tree()))
        self._apply_waiting()

    def _apply_waiting(self) -> None:
        """Add to what is known of the document what the running batch will write."""
        with self._mutex:
            for change in self._changes:
                self._cached_tree = change(self._tree())

    def _write_tree(self, tree: Tree) -> None:
        store = self.store
        data = render_tree(tree)
        # Elsewhere than in folders the document is what an empty root is known by.
        if data == render_tree(Tree()) and self._where.scheme == "file":
            store.delete(KEY, durable=self._settings.durable)
        else:
            store.put(KEY, data, durable=self._settings.durable)
        with self._mutex:
            self._cached_tree = tree

    def refresh(self, path: str) -> None:
        """Ask for all anew when it is needed; what the running batch will write stays."""
        super().refresh(path)
        self._apply_waiting()

    # -- collections that no array uses any more --------------------------------------------------------------------

    def _drop_unused(self) -> None:
        """Remove the collections of arrays that the stored document has no more. Until all are gone it names them."""
        with self._mutex:
            names, self._unused = self._unused, []
        if names:
            for name in names:
                self._drop_collection(name)
            self._store_now(lambda tree: tree.without_unused(names))

    def _leftover(self, name: str) -> Finding:
        return replace(super()._leftover(name), act=partial(self._remove_rest, name))

    def _remove_rest(self, name: str) -> None:
        """Remove what a writer that died has left of an array, unless others use its collection by now."""
        id = self._read_tree().unused.get(name)
        store = self.collection_store(name)
        if store is None or set(all_ids(store)) <= {id}:
            self._drop_collection(name)
        self._edit(lambda tree: tree.without_unused({name}))

    # -- locks and batches ------------------------------------------------------------------------------------------

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold the documents of the root against other writers; afterwards reads see the newest. In a batch, until its
        end."""
        if self._batches:
            with self._mutex:
                if self._lock_batch():
                    self.refresh(path)
                yield
            return
        with self._locked():
            self.refresh(path)
            yield

    def _lock_batch(self) -> bool:
        """Hold the root's lock until the end of the running batch; return False where this thread has it."""
        if self._root_lock.is_held:
            return False
        self._batches.locks.enter_context(self._locked())
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the root's lock, once per thread, where the store has locks."""
        if self._root_lock.is_held or not self.store.traits.locks_nodes:
            yield
            return
        with self.store.lock_node("", self._settings.lock_timeout):
            self._root_lock.is_held = True
            try:
                yield
            finally:
                self._root_lock.is_held = False

    def batch(self) -> AbstractContextManager[None]:
        """Make arrays of a collection at once, and write the document of the root once, at the end."""
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
        self._drop_unused()

    def close(self) -> None:
        """Write what is pending and let go of the store, also when that fails."""
        try:
            self._flush_records()
        finally:
            super().close()

    # -- nodes ------------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make a collection, an array in one, a group, or an array that becomes a collection; or change what is there.

        Invalid and Unsupported for what a collection cannot hold, and for other documents of what is there.
        """
        path = self._full_path(path)
        spec = require_no_link(spec, path, self._format, self.url)
        if spec.is_group:
            self._put_group(path, spec)
            return
        above, name = split(path)
        if path in self._tree().arrays:
            self._change_array(path, self._tree().arrays[path], spec)
        elif (found := self._shown_collection(above)) is not None:
            self._put_record(found, path, name, spec)
        else:
            self._put_array(path, spec)

    def _put_group(self, path: str, spec: GroupSpec) -> None:
        if not path and self._document("root", spec) is not None:  # its arrays would lose what makes them one
            name = json.loads(spec.attrs[DOCUMENT_ATTRIBUTE]).get("name") or "NAME"
            remedy = f"convert the database that it is in, with variables='{name}/**' (-v '{name}/**')"
            raise Unsupported("one collection as a whole database", url=self.url, remedy=remedy)
        found = self._shown_collection(path)
        document = self._document(path, spec)
        rest = {name: value for name, value in spec.attrs.items() if name != DOCUMENT_ATTRIBUTE}
        if document is None:
            if found is not None:
                remedy = f"leave its attribute {DOCUMENT_ATTRIBUTE!r} as it is"
                raise Invalid("a collection cannot become a group", url=self.url, node=path, remedy=remedy)
            self._raise_if_inside(path)
            self._edit(lambda tree: tree.with_group(path, spec))
            return
        if found is None:
            self._create_like(document)
        elif portable_document(found.document) != portable_document(document):
            raise Unsupported(
                "the schema of a collection never changes", url=self.url, node=path, remedy="make another collection"
            )
        if rest or path in self._tree().groups:
            self._edit(lambda tree: tree.with_group(path, GroupSpec(attrs=rest)))

    def _create_like(self, document: CollectionDocument) -> None:
        """Create a collection like one of another layout, without filters that this layout has not."""
        try:
            self.create_collection(document)
        except Unsupported:
            if document.options is None:
                raise
            extra = {**document.extra, KEPT_OPTIONS: document.options.as_dict}
            self.create_collection(replace(document, options=None, extra=extra))

    def _document(self, path: str, spec: GroupSpec) -> CollectionDocument | None:
        """Return the document that a group's attributes hold; None for those of a plain group."""
        value = spec.attrs.get(DOCUMENT_ATTRIBUTE)
        if not path or "/" in path or not isinstance(value, str | Mapping):
            return None
        try:
            doc = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return None
        if not isinstance(doc, Mapping) or not {"type", "schema"} <= set(doc):
            return None
        try:
            document = parse_document({**doc, "name": path, "layout": "hyperslab"}, path)
        except FormatError as error:
            raise error.locate(url=self.url, node=path) from error.__cause__
        try:
            return replace(document, layout="deker") if self._layouts[0].name == "deker" else document
        except SchemaError as error:
            raise Unsupported(error.message, url=self.url, node=path, remedy="choose format collections") from None

    def _raise_if_inside(self, path: str) -> None:
        """Raise Invalid within an array, which holds nothing, and a collection, which holds its arrays alone."""
        tree = self._tree()
        for group in outward(split(path)[0]):
            if group in tree.arrays or self._shown_collection(group) is not None:
                what = "an array holds no other nodes" if group in tree.arrays else "a collection holds only its arrays"
                raise Invalid(what, url=self.url, node=group)
        if path in tree.arrays:
            raise Invalid("an array cannot become a group", url=self.url, node=path, remedy="remove it first")

    # -- arrays of collections --------------------------------------------------------------------------------------

    def _put_record(self, store: CollectionStore, path: str, id: str, spec: ArraySpec) -> None:
        """Make an array of a collection, or change its attributes or shape."""
        if more := [each for each in spec.attrs if each not in single_array.RECORD]:
            remedy = "add custom attributes to the schema of a new collection, or keep it beside its group's attributes"
            message = f"an array of a collection has the attributes of its schema, and no {more[0]!r}"
            raise Unsupported(message, url=self.url, node=path, remedy=remedy)
        if missing := [each for each in single_array.RECORD if each not in spec.attrs]:
            message = f"an array of a collection without the attribute {missing[0]!r}"
            remedy = "make it with hyperslab.database: collection.create(...)"
            raise Invalid(message, url=self.url, node=path, remedy=remedy)
        if id in self._records.get(store.document.name, ()):
            self._flush_records()
        try:
            store.spec(id)
        except NodeNotFound:
            self._put_new_record(store, path, id, spec)
        else:
            store.put_spec(id, spec)

    def _put_new_record(self, store: CollectionStore, path: str, id: str, spec: ArraySpec) -> None:
        """Make an array of a collection, in a batch together with the others that it makes."""
        name = store.document.name
        record = record_of(store.document, single_array.record_attrs(spec.attrs))
        if record.id != id:
            remedy = f"put it at {name}/{record.id}"
            raise Invalid(f"an array with the id {record.id!r}", url=self.url, node=path, remedy=remedy)
        schema = store.document.schema
        if not allows_shape(schema, spec.shape):
            message = f"shape {spec.shape} in a collection of arrays of shape {schema.shape}"
            raise Invalid(message, url=self.url, node=path, remedy="convert it by its path, as an array of its own")
        self._records.setdefault(name, {})[id] = record
        if not self._batches or schema.unlimited:
            self._flush_records()
        if schema.unlimited and spec.shape != schema.shape:
            store.put_spec(id, store.spec(id).evolve(shape=spec.shape))

    # -- arrays that are collections --------------------------------------------------------------------------------

    def _put_array(self, path: str, spec: ArraySpec) -> None:
        if not path:
            message = f"format {self._format} has no place for an array as the root"
            raise Unsupported(message, url=self.url, remedy="give it a name")
        self._raise_if_inside(path)
        if path in self._tree().groups or self._shown_collection(path) is not None:
            raise Invalid("a group cannot become an array", url=self.url, node=path, remedy="remove it first")
        wish = single_array.new_array(spec, self._format) if spec.layout or spec.codecs else spec
        self._put_entry(path, wish)

    def _put_entry(self, path: str, spec: ArraySpec) -> None:
        """Make an array under the root's lock, so that a repair beside does not take it for left by the dead."""
        if self._batches:
            with self._mutex:
                self._lock_batch()
        with self._locked():
            entry = self._create_entry(path, spec)
            self._edit(lambda tree: tree.with_array(path, entry))

    def _create_entry(self, path: str, spec: ArraySpec) -> ArrayEntry:
        """Return the collection of an array; none as long as it has no cells."""
        attrs = dict(spec.attrs)
        tree = self._tree()
        unlimited = {dim for dim in spec.dims if dim is not None and tree.is_unlimited(path, dim)}
        if 0 in (length for length, dim in zip(spec.shape, spec.dims, strict=True) if dim not in unlimited):
            return ArrayEntry(spec.dims, attrs, inline_spec=spec.evolve(attrs={}, indexes={}))
        if single_array.is_small_kind(spec):
            cells = spec.filled()
            return ArrayEntry(spec.dims, attrs, inline_spec=spec.evolve(attrs={}, indexes={}), cells=cells)
        name = single_array.collection_name(path, {*self.collections(), *tree.unused})
        labels = {dim: self._labels(path, spec, dim) for dim in spec.dims if dim is not None and dim not in unlimited}
        known = {dim: index for dim, index in labels.items() if index is not None}
        layout = self._layouts[0].name
        document, record = single_array.document_of(name, spec, known, unlimited, layout), Record(new_id(), {}, {})
        # Not shown before the array is: what a writer that died leaves would be a group in its place.
        self._store_now(lambda tree: tree.with_unused(name, record.id))
        made = self._make_collection(document)
        made.create([record])
        if unlimited:
            made.put_spec(record.id, made.spec(record.id).evolve(shape=spec.shape))
        return ArrayEntry(spec.dims, attrs, name, record.id)

    def _labels(self, path: str, spec: ArraySpec, dim: str) -> Index | None:
        """Return the labels of a dimension: those given, or the cells of the nearest 1-D array of its name."""
        if dim in spec.indexes:
            return spec.indexes[dim]
        size = spec.shape[spec.dims.index(dim)]
        tree = self._tree()
        for group in outward(split(path)[0]):
            place = f"{group}/{dim}" if group else dim
            entry = tree.arrays.get(place)
            if place == path or entry is None or entry.collection is None or size > _MOST_LABELS:
                continue
            found = self._entry_spec(place, entry)
            if found.shape == (size,) and found.dims == (dim,):
                return Coordinate(self._cells(place, found))
        return None

    def _cells(self, path: str, spec: ArraySpec) -> Block:
        source = self.chunks(path)
        out = spec.filled()
        for coords in source.grid:
            extent = source.grid.extent(coords)
            block = source.read(coords)
            if block is not None:
                out[extent] = block[tuple(slice(0, cut.stop - cut.start) for cut in extent)]
        return out

    def _change_array(self, path: str, entry: ArrayEntry, spec: ArraySpec) -> None:
        """Give an array other attributes, names of dimensions or another shape, cut as it is. Unsupported for another
        type or number of dimensions: its collection, with all cells, would be another one."""
        before = self._entry_spec(path, entry)
        same = (before.dtype, len(before.shape)) == (spec.dtype, len(spec.shape))
        if entry.inline_spec is not None:
            if entry.cells is not None and same:
                spec = single_array.new_array(spec, self._format)
                cells, inline_spec = resize_cells(entry.cells, spec), spec.evolve(attrs={}, indexes={})
                made = ArrayEntry(spec.dims, dict(spec.attrs), inline_spec=inline_spec, cells=cells)
                self._edit(lambda tree: tree.with_array(path, made))
            else:
                self._put_entry(path, spec)
            return
        if not same:
            message = "another type of cells or number of dimensions"
            raise Unsupported(message, url=self.url, node=path, remedy="remove the array first")
        if before.shape != spec.shape:
            if not self._may_become(entry, spec):
                remedy = "declare the dimension unlimited before the array is made, or convert to zarr3"
                message = "another size of a dimension that is not unlimited"
                raise Unsupported(message, url=self.url, node=path, remedy=remedy)
            store, id = self._required_store(str(entry.collection), path), str(entry.id)
            store.put_spec(id, store.spec(id).evolve(shape=spec.shape))
        changed = replace(entry, dims=spec.dims, attrs=dict(spec.attrs))
        if changed != entry:
            self._edit(lambda tree: tree.with_array(path, changed))

    def _inline_cells(self, path: str, entry: ArrayEntry, spec: ArraySpec) -> ChunkSource:
        if entry.cells is None:
            return super()._inline_cells(path, entry, spec)

        def store_cells(cells: Block) -> None:
            self._edit(lambda tree: tree.with_array(path, replace(tree.arrays[path], cells=cells)))

        return DocumentCells(spec, entry.cells, store_cells)

    def _may_become(self, entry: ArrayEntry, spec: ArraySpec) -> bool:
        """Return True if the array may grow or shrink to another shape where it is."""
        if entry.collection is None:
            return False
        schema = self._required_store(entry.collection, entry.collection).document.schema
        return allows_shape(schema, spec.shape)

    def _drop_collection(self, name: str | None) -> None:
        """Remove a collection, if there is one of this name."""
        if name is not None and (store := self.collection_store(name)) is not None:
            store.drop()
            with self._mutex:
                self._collection_stores.pop(name, None)

    def drop(self, path: str) -> None:
        """Remove a collection, one of its arrays, a group with all below it, or an array with its collection."""
        path = self._full_path(path)
        self._flush_records()
        tree = self._tree()
        collections = [path] if path else [name for name in self.collections() if name not in tree.hidden]
        for name in collections:
            if self._shown_collection(name) is not None:
                self._drop_collection(name)
        above, id = split(path)
        if (found := self._shown_collection(above)) is not None and path not in tree.arrays:
            found.remove(id)
        elif not path or path in {*tree.groups, *tree.arrays}:
            # The document first: by one write of it all arrays are gone, whatever becomes of their collections.
            self._edit(lambda tree: tree.without_node(path))
            with self._mutex:
                self._unused += [each.collection for each in tree.entries_within(path) if each.collection is not None]
            if not self._batches:
                self._drop_unused()

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish as it is stored; that of an array of a collection is as its schema says. Unsupported."""
        return single_array.new_array(spec, self._format)

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        path = self._full_path(path)
        entry = self._tree().arrays.get(path)
        collection, id = (entry.collection, entry.id) if entry is not None else split(path)
        if not collection or not id or (entry is not None and not self._may_become(entry, spec)):
            inner = path[len(self._base) :]
            self.put(inner, spec)
            return self.chunks(inner)
        return self._required_store(collection, path).chunks(id, spec)
