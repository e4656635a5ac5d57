"""Objects and collections open for changes, new objects, and what a URL opens in a mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from bson import ObjectId

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, Invalid, NodeNotFound, NotFound, StorageError, Unsupported
from hyperslab.formats.base import BatchBlocks, Mode, Reader, Writer
from hyperslab.formats.format_errors import node_not_found, require_no_link
from hyperslab.formats.mongo import edit_document, objects
from hyperslab.formats.mongo.bson_values import Document
from hyperslab.formats.mongo.chunk_documents import Key
from hyperslab.formats.mongo.chunk_queries import STORED_WHOLE, conditions, delete_chunks
from hyperslab.formats.mongo.chunk_source import ChunkCollection, MongoChunks
from hyperslab.formats.mongo.chunk_writes import ChunkUndo, UndoEntry, UndoView, roll_back_all, undo_entries
from hyperslab.formats.mongo.document import (
    DERIVED,
    EXTENSION,
    RETIRED,
    WRITING,
    Meta,
    Variable,
    choose_embedded,
    parse_object,
)
from hyperslab.formats.mongo.embedded import EmbeddedCells, EmbeddedChunk
from hyperslab.formats.mongo.indexes import SEARCH_INDEXES, Index, ensure_write_indexes
from hyperslab.formats.mongo.object_changes import Edit, Heartbeats, change_document, check_object, hold_lease
from hyperslab.formats.mongo.reader import CollectionPair, CollectionReader, ObjectReader, check_new_name, open_reader
from hyperslab.formats.mongo.server import (
    ServerPlace,
    current_writer,
    each_chunk_waits,
    storage_errors,
    wait_for_journal,
)
from hyperslab.formats.mongo.to_spec import array_spec, inner_groups, variable_chunks, variable_extension
from hyperslab.formats.mongo.variables import read_pieces
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.location import Location

# -- an object --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Bytes of cells in a chunk document, and of all the variables together that stand in the object's document; the
    indexes of objects that are made before a new one is."""

    chunk_size: int
    embedded: int
    indexes: tuple[Index, ...] = SEARCH_INDEXES


class _ArrayMaker(Writer):
    """What new arrays are like, the same for a writer of an object and one of a collection."""

    _options: WriteOptions

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of a new array as documents hold it, or Unsupported."""
        return edit_document.new_array(spec)

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return chunks of one document each."""
        return edit_document.auto_chunk_lengths(shape, itemsize, self._options.chunk_size)


class ObjectWriter(ObjectReader, _ArrayMaker):
    """An object open for changes. Within a batch its document is written once, at the end."""

    def __init__(self, pair: CollectionPair, doc: Document, options: WriteOptions) -> None:
        super().__init__(pair, doc)
        self._options = options
        self._base = self._meta
        self._pending: list[Edit] = []
        self._after_commit: list[Callable[[], None]] = []
        self._batches = BatchBlocks(self._mutex)
        self._owner: str | None = None
        self._thread_lock = threading.RLock()
        self._lock_depth = 0
        self._rechunked: set[str] = set()
        self._undo_entries: dict[Key, UndoEntry] = {}
        self._heartbeats = Heartbeats()
        self._heartbeats.start(self.id)
        if undo_entries(self._base.extension):
            self.refresh("")

    # -- documents --------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: Node) -> None:
        """Make or replace the attributes of the object or of a group in it, or an array. Unsupported, Invalid."""
        spec = require_no_link(spec, path, "mongo")
        if isinstance(spec, GroupSpec):
            if path in self._names:
                raise Invalid("an array cannot become a group", url=self.url, node=path, remedy="delete it first")
            self._change(lambda meta: edit_document.with_group(meta, path, spec))
            return
        if not path or path in inner_groups(self._meta):
            what = "an object is a group" if not path else "a group cannot become an array"
            raise Unsupported(f"format mongo: {what}", url=self.url, node=path, remedy="give the array a name")
        name = self._names.get(path, path)
        fitted, whole = self._stored_spec(name, spec)
        if self._leaves_one_piece(name, whole):
            self._store_as_chunks(name, fitted)
            self._after_commit.append(lambda: self._delete_chunks(name, STORED_WHOLE))
            self._rechunked.discard(name)

        def edit(meta: Meta) -> Meta:
            return edit_document.with_array(edit_document.with_parent_groups(meta, path), name, fitted, whole=whole)

        self._change(edit)

    def _stored_spec(self, name: str, spec: ArraySpec) -> tuple[ArraySpec, bool]:
        """Return the array as it is to be stored, and whether in one piece: what is stays so while it is small."""
        old = self._meta.variables.get(name)
        if old is None or old.problem is not None:
            return spec, edit_document.fits_one_piece(spec, self._options.embedded)
        if old.chunks is not None:
            return spec, False
        stays = spec.shape == old.shape
        if not stays and (old.embedded is not None or self._meta.has_derived_ids):
            # Of an array without cells no chunk is there yet: the lengths that its maker chose count.
            one = spec if 0 in old.shape else spec.evolve(chunks=whole_chunks(spec.shape))
            stays = edit_document.fits_one_piece(one, self._options.embedded)
        if stays and 0 in spec.shape:
            return spec, True
        longer = tuple(max(1, n, c) if isinstance(c, int) else n for n, c in zip(spec.shape, spec.chunks, strict=True))
        return (spec.evolve(chunks=longer), True) if stays else (spec, False)

    def _leaves_one_piece(self, name: str, whole: bool) -> bool:
        old = self._meta.variables.get(name)
        return old is not None and old.problem is None and old.chunks is None and not whole

    def _store_as_chunks(self, name: str, spec: ArraySpec) -> None:
        """Store the cells of an array in one piece as chunks, before its document says so; once."""
        if name in self._rechunked:
            return
        old = self._meta.variables[name]
        before = array_spec(self._meta, name, old)
        cells = self._source(name, old, before).read((0,) * len(before.shape))
        target = self._chunk_source(name, spec)
        if cells is not None and 0 not in before.shape:
            for coords in target.grid:
                extent = target.grid.extent(coords)
                if all(part.start < length for part, length in zip(extent, before.shape, strict=True)):
                    block = np.full(target.grid.chunk_shape(coords), spec.fill_cell(), spec.numpy_dtype)
                    inside = tuple(slice(p.start, min(p.stop, n)) for p, n in zip(extent, before.shape, strict=True))
                    block[tuple(slice(0, part.stop - part.start) for part in inside)] = cells[inside]
                    target.write(coords, block)
        self._rechunked.add(name)

    def drop(self, path: str) -> None:
        """Remove a variable, then its chunks; or a group with all below it."""
        if not path:
            remedy = "open the collection (the URL without what stands behind #), and remove it there"
            raise Invalid("the object itself is removed by its collection", url=self.url, remedy=remedy)
        if path in inner_groups(self._meta):
            with self.batch():
                for inner in [face for face in self._names if face.startswith(f"{path}/")]:
                    self.drop(inner)
                self._change(lambda meta: edit_document.without_group(meta, path))
            return
        name = self._names.get(path)
        if name is None:
            raise node_not_found(path, self.url)
        self._after_commit.append(lambda: self._delete_chunks(name))
        self._change(lambda meta: edit_document.without_variable(meta, name))

    def _delete_chunks(self, name: str, where: Document | None = None) -> None:
        with storage_errors(self.url):
            delete_chunks(self._pair.chunks, self.id, name, where)

    # -- chunks -----------------------------------------------------------------------------------------------------

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        with self._mutex:
            name, variable = self._variable(path)
            fitted, whole = self._stored_spec(name, spec)
            if self._leaves_one_piece(name, whole):
                self._store_as_chunks(name, fitted)
            if variable.embedded is not None and whole:
                return self._embedded_source(name, fitted, ahead=True)
            return self._chunk_source(name, fitted, whole=whole, ahead=True)

    def _source(self, name: str, variable: Variable, spec: ArraySpec) -> ChunkSource:
        if variable.embedded is not None:
            return self._embedded_source(name, spec)
        return super()._source(name, variable, spec)

    def _chunk_source(self, name: str, spec: ArraySpec, *, whole: bool = False, ahead: bool = False) -> MongoChunks:
        """Return chunks under a spec that is not stored yet. ``ahead``: others see the old ones until it is."""
        future = edit_document.with_array(self._meta, name, spec, whole=whole)
        extension = variable_extension(future, name)
        cut = variable_chunks(future.variables[name], extension)
        return MongoChunks(
            self._chunk_collection(ahead), name, spec, cut, whole=whole, fill_unstored=True, lenient=True
        )

    def _embedded_source(self, name: str, spec: ArraySpec, *, ahead: bool = False) -> EmbeddedChunk:
        """Return the cells in the document. ``ahead``: they get the length of ``spec``, else they keep the one that
        they have by now, which another handle may have changed."""

        def moved() -> MongoChunks:
            variable = self._meta.variables[name]
            source = ObjectReader._source(self, name, variable, array_spec(self._meta, name, variable))
            assert isinstance(source, MongoChunks)
            return source

        timeout = self._pair.settings.lock_timeout
        cells = EmbeddedCells(name, spec, ahead, self.url, timeout, lambda: self._meta, self._change, moved)
        return EmbeddedChunk(cells.read, spec, self.url, cells)

    def _chunk_collection(self, ahead: bool = False) -> ChunkCollection:
        target = replace(super()._chunk_collection(), before_erase=self._allow_missing)
        if self._meta.extension.get("status", RETIRED) != RETIRED:
            return replace(target, after_write=self._touch)
        undo_view = UndoView(self._pair.meta, self.id, undo_entries(self._meta.extension), self._undo_entries)
        return replace(target, undo_view=undo_view, undo=self._undo(ahead))

    def _undo(self, ahead: bool = True) -> ChunkUndo:
        return ChunkUndo(
            meta=self._pair.durable_meta,
            chunks=self._pair.chunks,
            meta_id=self.id,
            url=self.url,
            patience=self._pair.settings.lock_timeout,
            owner=self._owner,
            open_entries=self._undo_entries if ahead else None,
            is_visible=self._is_visible,
        )

    def _is_visible(self, key: Key) -> bool:
        """Return True if others take a chunk for one of the object."""
        variable = self._base.variables.get(key[0])
        return variable is not None and variable.embedded is None and variable.has(key[1])

    def _touch(self) -> None:
        """Say time and again that the object is still being made, so that nobody takes it for garbage."""
        with storage_errors(self.url):
            self._heartbeats.beat(self._pair.meta, self.id)

    def _allow_missing(self, name: str) -> None:
        """Have chunks that are not stored read as the fill value from now on: some are about to be erased."""
        extension = variable_extension(self._meta, name)
        if "fill" not in extension:
            _, variable = self._variable(next(face for face, own in self._names.items() if own == name))
            cell = array_spec(self._meta, name, variable).fill_cell().tobytes()
            self._change(lambda meta: edit_document.with_extension(meta, name, fill=cell, fill_value=None))

    # -- changes ----------------------------------------------------------------------------------------------------

    def _change(self, change: Edit) -> None:
        """Make a change of the document, now or at the end of the batch."""
        with self._mutex:
            if self._batches:
                check_object(new := change(self._meta), self.url)
                self._pending.append(change)
                self._take(new)
                return
            self._store(change)

    def _store(self, change: Edit) -> None:
        base = parse_object(self._pair.document(self.id)) if self._undo_entries else self._base
        with storage_errors(self.url):
            self._base = change_document(
                self._pair.durable_meta,
                base,
                change,
                url=self.url,
                timeout=self._pair.settings.lock_timeout,
                reload=self._reload,
                owner=self._owner,
                undo=self._undo_entries,
            )
            self._take(self._base)
            self._undo().close()
        afterwards, self._after_commit = self._after_commit, []
        for act in afterwards:
            act()

    def _reload(self) -> Meta:
        """Read the document again, so that whoever tries again, here or above, goes by what is stored now."""
        self._base = parse_object(self._pair.document(self.id))
        self._take(self._base)
        return self._base

    def refresh(self, path: str) -> None:
        """Read the document again; what the running batch will write stays."""
        with self._mutex:
            self._base = parse_object(self._pair.document(self.id))
            if undo_entries(self._base.extension):
                with storage_errors(self.url):
                    roll_back_all(self._pair.durable_meta, self._pair.chunks, self.id)
                self._base = parse_object(self._pair.document(self.id))
            self._take(_apply_edits(self._base, self._pending))

    def batch(self) -> AbstractContextManager[None]:
        """Return a block at the end of which the document is written, once."""
        return self._batches.block(self._flush)

    def _flush(self) -> None:
        with self._mutex:
            pending, self._pending = self._pending, []
            if pending:
                self._store(lambda meta: _apply_edits(meta, pending))

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold the object against other writers; afterwards reads see the newest. In a batch, until its end."""
        if self._batches:
            if not self._lock_depth:
                self._batches.locks.enter_context(self._hold_lock())
                self.refresh(path)
            with self._undoing():
                yield
            return
        with self._hold_lock():
            self.refresh(path)
            yield

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        timeout = self._pair.settings.lock_timeout
        with self._thread_lock, storage_errors(self.url), ExitStack() as locks:
            if not self._lock_depth:
                self._owner = locks.enter_context(hold_lease(self._pair.meta, self.id, self.url, timeout))
            self._lock_depth += 1
            try:
                with self._undoing():
                    yield
                if self._lock_depth == 1:
                    self._undo().close()
            finally:
                self._lock_depth -= 1
                if not self._lock_depth:
                    self._owner = None
                    extension = {name: value for name, value in self._base.extension.items() if name != "lease"}
                    self._base = replace(self._base, extension=extension)

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Make chunks whose length was to change what they were where the block fails."""
        before = set(self._undo_entries)
        try:
            yield
        except BaseException:
            self._undo().close(failed=True, keep=before)
            raise

    def close(self) -> None:
        """Write what is pending."""
        self._flush()


def _apply_edits(meta: Meta, changes: list[Edit]) -> Meta:
    for change in changes:
        meta = change(meta)
    return meta


# -- a new object -----------------------------------------------------------------------------------------------------
# It has ``status: "writing"`` and is found by its id alone until it is closed, when it gets its name, and takes the
# place of an object that had it, by one change of its document.


class ObjectDraft(ObjectWriter):
    """An object that others find once it is closed, under ``name``; by its id before. ``overwrite``: it takes the place
    of the one that has the name."""

    def __init__(
        self, pair: CollectionPair, where: Location, name: str, options: WriteOptions, *, overwrite: bool
    ) -> None:
        extension = {"version": 1, "status": WRITING, "chunk_ids": DERIVED}
        empty = {"coords": {}, "data_vars": {}, "chunkSize": options.chunk_size, EXTENSION: extension}
        doc: Document = {"_id": ObjectId(), **empty}
        with storage_errors(pair.url):
            self._server = current_writer(pair.meta.database)
            ensure_write_indexes(pair.collections, options.indexes)
            pair.durable_meta.insert_one(dict(doc))
        super().__init__(pair, doc, options)
        # where it is found while it is being written
        self.location = Location.of(f"{str(where.target).partition('#')[0]}#{self.id}", where.options)
        self._name = name
        self._on_conflict: objects.NameConflict = "replace" if overwrite else "refuse"
        self._closed = False

    def _chunk_collection(self, ahead: bool = False) -> ChunkCollection:
        each_waits = each_chunk_waits(self._server, durable=self._pair.settings.durable)
        return replace(super()._chunk_collection(ahead), each_waits=each_waits)

    def close(self) -> None:
        """Let it be found. AlreadyExists when another object has got the name meanwhile, and is not to be replaced."""
        if self._closed:
            return
        self._closed = True
        try:
            self._flush()
            self._raise_if_lost()
            self._embed_small()
            # Of arrays all of whose chunks are stored one that is not there is lost from now on, and no fill value.
            complete = [name for name, each in self._meta.variables.items() if self._is_complete(name, each)]
            if complete:
                self._change(lambda meta: edit_document.with_complete_arrays(meta, complete))
            with storage_errors(self.url):
                meta, chunks, on_conflict = self._pair.durable_meta, self._pair.chunks, self._on_conflict
                objects.commit_object(meta, chunks, self.id, self._name, on_conflict=on_conflict)
        except BaseException:
            self._remove()
            raise
        with suppress(NotFound):  # it was there, and another writer has replaced it since
            self.refresh("")

    def _raise_if_lost(self) -> None:
        """Raise StorageError where chunks are missing that may have been acknowledged by a server that did not have
        them in its journal: they would read as fill values. Where each chunk waits for the journal none is."""
        if self._server is None or not self._pair.settings.durable:
            return
        with storage_errors(self.url):
            if wait_for_journal(self._pair.durable_meta, self._server):
                return
        stored = [(name, each) for name, each in self._meta.variables.items() if each.embedded is None]
        if not all(self._is_complete(name, each) for name, each in stored):
            message = "the server was started anew, or another one took over, while the object was written"
            raise StorageError(message, url=self.url, remedy="write it again: chunks that it had taken may be lost")

    def discard(self) -> None:
        """Remove all that was written of it."""
        if not self._closed:
            self._closed = True
            self._remove()

    def _remove(self) -> None:
        with storage_errors(self.url):
            objects.delete_unfinished_object(self._pair.durable_meta, self._pair.chunks, self.id)

    # -- what is known once all is written ----------------------------------------------------------------------------

    def _embed_small(self) -> None:
        """Move the smallest of the arrays in one piece into the document, as xarray_mongodb does."""
        self.refresh("")
        most = self._options.embedded
        small = []
        for name, each in self._meta.variables.items():
            nbytes = each.dtype.itemsize * prod(size or 0 for size in each.shape)
            if each.chunks is None and each.embedded is None and nbytes <= most:
                small.append(name)
        if not small:
            return
        with storage_errors(self.url):
            pieces = read_pieces(self._pair.chunks, self._meta, small)
            chosen = choose_embedded({name: each.nbytes for name, each in pieces.items()}, most)
            for condition in conditions(sorted(chosen)):
                self._pair.chunks.delete_many({"meta_id": self.id, "name": condition, **STORED_WHOLE})
        moved = {name: each for name, each in pieces.items() if name in chosen}
        self._change(lambda meta: edit_document.with_embedded_cells(meta, moved))

    def _is_complete(self, name: str, variable: Variable) -> bool:
        """Return True if all chunks of a dense array are stored; of others nobody counts that."""
        if variable.embedded is not None or variable.sparse or variable.chunks is None:
            return False
        with storage_errors(self.url):
            stored = self._pair.chunks.count_documents({"meta_id": self.id, "name": {"$eq": name}})
        return stored == edit_document.count_variable_documents(variable, self._meta.chunk_size)


# -- a collection of objects ------------------------------------------------------------------------------------------


class CollectionWriter(CollectionReader, _ArrayMaker):
    """All objects of a collection. New ones are found once it is closed."""

    is_written_whole = True

    def __init__(self, pair: CollectionPair, where: Location, options: WriteOptions) -> None:
        super().__init__(pair)
        self._where = where
        self._options = options
        self._drafts: dict[str, ObjectDraft] = {}

    def _open_object(self, doc: Document, wanted: str) -> ObjectWriter:
        return ObjectWriter(self._pair, doc, self._options)

    def _writer(self, path: str) -> tuple[ObjectWriter, str]:
        found, inner = self._object(path)
        assert isinstance(found, ObjectWriter)
        return found, inner

    def put(self, path: str, spec: Node) -> None:
        """Make a new object of this name, or change one, or one of its arrays."""
        spec = require_no_link(spec, path, "mongo")
        wanted, _, inner = path.partition("/")
        if not wanted:
            if isinstance(spec, ArraySpec) or spec.attrs:
                remedy = "name the object behind #: mongodb://host/database#name"
                raise Unsupported("format mongo: a collection holds objects", url=self.url, node=path, remedy=remedy)
            return
        try:
            target = self._writer(wanted)[0]
        except NodeNotFound:
            if not inner and isinstance(spec, ArraySpec):
                remedy = "make a group of it first: its name is that of the object"
                message = "format mongo: a collection holds objects"
                raise Unsupported(message, url=self.url, node=path, remedy=remedy) from None
            check_new_name(replace(self._pair.place, object=wanted))
            target = ObjectDraft(self._pair, self._where, wanted, self._options, overwrite=False)
            self._objects[wanted] = self._drafts[wanted] = target
        target.put(inner, spec)

    def children(self, path: str) -> list[str]:
        """Return the ids of the objects and the names of new ones, or the names of an object's variables."""
        found = list(super().children(path))
        return found if path else [*found, *self._drafts]

    def drop(self, path: str) -> None:
        """Remove an object, or one of its arrays."""
        target, inner = self._writer(path)
        if inner:
            target.drop(inner)
            return
        self._objects = {name: each for name, each in self._objects.items() if each is not target}
        if isinstance(target, ObjectDraft):
            self._drafts = {name: each for name, each in self._drafts.items() if each is not target}
            target.discard()
            return
        with storage_errors(self.url):
            objects.delete_object(self._pair.durable_meta, self._pair.chunks, target.id)

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        target, inner = self._writer(path)
        return target.chunks_as(inner, spec)

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold an object against other writers."""
        with ExitStack() as locks:
            if path:
                target, inner = self._writer(path)
                locks.enter_context(target.lock_node(inner))
            yield

    def _unfinished_objects(self) -> dict[str, ObjectReader]:
        return dict(self._drafts)

    def close(self) -> None:
        """Let new objects be found."""
        while self._drafts:
            self._drafts.popitem()[1].close()

    def discard(self) -> None:
        """Remove what was written of new objects."""
        while self._drafts:
            self._drafts.popitem()[1].discard()


# -- modes ------------------------------------------------------------------------------------------------------------


def open_place(where: Location, mode: Mode, settings: Settings, options: WriteOptions) -> Reader:
    """Open the object or the collection; a new object in the modes ``x`` and ``w``."""
    pair = CollectionPair.of(ServerPlace.of(where), settings)
    wanted = pair.place.object
    if mode == "r":
        return open_reader(pair)
    if wanted is None:
        if mode == "w":
            remedy = "name one object of it behind #, or remove its objects one by one"
            raise Invalid("a whole collection is not replaced", url=pair.url, remedy=remedy)
        return CollectionWriter(pair, where, options)
    # Whoever makes an object wants no names that are like its own.
    key = pair.resolve(wanted) if mode == "r+" else pair.find_id(wanted)
    if key is None:
        return ObjectDraft(pair, where, check_new_name(pair.place), options, overwrite=mode == "w")
    if mode == "x":
        raise AlreadyExists("there is an object of this name", url=pair.url, remedy="mode='w' replaces it")
    if mode == "w":
        return ObjectDraft(pair, where, check_new_name(pair.place), options, overwrite=True)
    return ObjectWriter(pair, pair.document(key), options)
