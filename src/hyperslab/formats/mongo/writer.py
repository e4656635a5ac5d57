"""Changing an object: its document is put in the place of the one that was read, else read and tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Conflict, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import BatchBlocks
from hyperslab.formats.mongo import lease, objects
from hyperslab.formats.mongo.bson_values import Document, MutableDocument
from hyperslab.formats.mongo.chunk_documents import AssembledChunk, Key
from hyperslab.formats.mongo.chunk_source import ChunkCollection, MongoChunks
from hyperslab.formats.mongo.chunk_writes import (
    ChunkUndo,
    UndoEntry,
    UndoView,
    roll_back_all,
    undo_entries,
    without_entries,
)
from hyperslab.formats.mongo.document import Meta, Variable, embed_cells, parse_object, render_object
from hyperslab.formats.mongo.edit_document import (
    auto_chunk_lengths,
    fits_one_piece,
    new_array,
    with_array,
    with_extension,
    with_group,
    with_inner_group,
    with_parent_groups,
    with_variable,
    without_group,
    without_variable,
)
from hyperslab.formats.mongo.embedded import EmbeddedChunk, EmbeddedView
from hyperslab.formats.mongo.reader import CollectionPair, ObjectReader
from hyperslab.formats.mongo.server import storage_errors
from hyperslab.formats.mongo.to_spec import (
    array_spec,
    inner_groups,
    variable_chunks,
    variable_extension,
)
from hyperslab.model.coo import Coo, Numbers
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.attempts import attempts, beaten

Edit = Callable[[Meta], Meta]


@dataclass(frozen=True, slots=True)
class EmbeddingLimits:
    """Bytes of cells in a chunk document, and of all the variables together that stand in the object's document."""

    chunk_size: int
    embedded: int


class ObjectWriter(ObjectReader):
    """An object open for changes. Within a batch its document is written once, at the end."""

    def __init__(self, pair: CollectionPair, doc: Document, limits: EmbeddingLimits) -> None:
        super().__init__(pair, doc)
        self._limits = limits
        self._base = self._meta
        self._pending: list[Edit] = []
        self._after_commit: list[Callable[[], None]] = []
        self._batches = BatchBlocks(self._mutex)
        self._owner: str | None = None
        self._thread_lock = threading.RLock()
        self._lock_depth = 0
        self._rechunked: set[str] = set()
        self._undo_entries: dict[Key, UndoEntry] = {}
        self._heartbeats = objects.Heartbeats()
        self._heartbeats.start(self.id)
        if undo_entries(self._base.extension):
            self.refresh("")

    # -- documents --------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Make or replace the attributes of the object or of a group in it, or an array. Unsupported, Invalid."""
        if isinstance(spec, GroupSpec):
            if path in self._names:
                raise Invalid("an array cannot become a group", url=self.url, node=path, remedy="delete it first")
            self._change(lambda meta: with_inner_group(meta, path, spec) if path else with_group(meta, spec))
            return
        if not path or path in inner_groups(self._meta):
            what = "an object is a group" if not path else "a group cannot become an array"
            raise Unsupported(f"format mongo: {what}", url=self.url, node=path, remedy="give the array a name")
        name = self._names.get(path, path)
        fitted, whole = self._stored_spec(name, spec)
        if self._leaves_one_piece(name, whole):
            self._store_as_chunks(name, fitted)
            self._after_commit.append(lambda: self._delete_chunks(name, None))
            self._rechunked.discard(name)
        self._change(lambda meta: with_array(with_parent_groups(meta, path), name, fitted, whole=whole))

    def _stored_spec(self, name: str, spec: ArraySpec) -> tuple[ArraySpec, bool]:
        """Return the array as it is to be stored, and whether in one piece: what is stays so while it is small."""
        old = self._meta.variables.get(name)
        if old is None or old.problem is not None:
            return spec, fits_one_piece(spec, self._limits.embedded)
        if old.chunks is not None:
            return spec, False
        longer = tuple(max(1, n, c) if isinstance(c, int) else n for n, c in zip(spec.shape, spec.chunks, strict=True))
        stays = spec.shape == old.shape or self._is_small(old, spec)
        return (spec.evolve(chunks=longer), True) if stays else (spec, False)

    def _is_small(self, old: Variable, spec: ArraySpec) -> bool:
        one = spec.evolve(chunks=whole_chunks(spec.shape))
        return (old.embedded is not None or self._meta.has_derived_ids) and fits_one_piece(one, self._limits.embedded)

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
                    held = tuple(slice(p.start, min(p.stop, n)) for p, n in zip(extent, before.shape, strict=True))
                    block[tuple(slice(0, part.stop - part.start) for part in held)] = cells[held]
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
                self._change(lambda meta: without_group(meta, path))
            return
        name = self._names.get(path)
        if name is None:
            raise self._missing(path)
        self._after_commit.append(lambda: self._delete_chunks(name))
        self._change(lambda meta: without_variable(meta, name))

    def _delete_chunks(self, name: str, *chunk: None) -> None:
        """Of a variable: all chunks, or the one that is stored in one piece."""
        wanted = {"meta_id": self.id, "name": {"$eq": name}, **({"chunk": None} if chunk else {})}
        with storage_errors(self.url):
            self._pair.chunks.delete_many(wanted)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of a new array as documents hold it, or Unsupported."""
        return new_array(spec)

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return chunks of one document each."""
        return auto_chunk_lengths(shape, itemsize, self._limits.chunk_size)

    # -- chunks -----------------------------------------------------------------------------------------------------

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of an array as they will be under ``spec``, before it is put."""
        with self._mutex:
            name, variable = self._variable(path)
            fitted, whole = self._stored_spec(name, spec)
            if self._leaves_one_piece(name, whole):
                self._store_as_chunks(name, fitted)
            if variable.embedded is not None and whole:
                return self._embedded_source(name, fitted, ahead=True)
            return self._chunk_source(name, fitted, whole=whole, ahead=True)

    def _source(self, name: str, variable: Variable, spec: ArraySpec) -> ChunkSource:
        return (
            self._embedded_source(name, spec)
            if variable.embedded is not None
            else super()._source(name, variable, spec)
        )

    def _chunk_source(self, name: str, spec: ArraySpec, *, whole: bool = False, ahead: bool = False) -> MongoChunks:
        """Return chunks under a spec that is not stored yet. ``ahead``: others see the old ones until it is."""
        future = with_array(self._meta, name, spec, whole=whole)
        extension = variable_extension(future, name)
        cut = variable_chunks(future.variables[name], extension)
        return MongoChunks(
            self._chunk_collection(ahead), name, spec, cut, whole=whole, fill_unstored=True, lenient=True
        )

    def _embedded_source(self, name: str, spec: ArraySpec, *, ahead: bool = False) -> EmbeddedChunk:
        """Return the cells in the document. ``ahead``: they get the length of ``spec``, else they keep the one that
        they have by now, which another handle may have changed."""

        def cells() -> AssembledChunk:
            embedded = self._current_variable(self._meta, name, spec).embedded
            return embed_cells(name, self._embedded_view(name, spec).read()) if embedded is None else embedded

        def change(meta: Meta, block: Numbers, expected: bytes | None) -> Meta:
            old = self._current_variable(meta, name, spec)
            if old.embedded is None or (expected is not None and old.embedded.block().tobytes() != expected):
                raise beaten(self.url, name)
            new = block if ahead else _overlay(old.embedded, block)
            entry = replace(old, shape=new.shape, embedded=embed_cells(name, _as_stored(old, spec, new)))
            return with_variable(meta, name, entry, variable_extension(meta, name))

        def swap_cells(block: Numbers, expected: bytes | None) -> None:
            try:
                self._change(lambda meta: change(meta, block, expected))
            except Conflict:
                if self._current_variable(self._meta, name, spec).embedded is not None:
                    raise
                timeout = self._pair.settings.lock_timeout
                self._embedded_view(name, spec).swap(block, expected, timeout)

        return EmbeddedChunk(cells, spec, self.url, swap_cells)

    def _current_variable(self, meta: Meta, name: str, spec: ArraySpec) -> Variable:
        """Return the variable of a handle whose array is ``spec``. NodeNotFound where it is gone, or is another one by
        now."""
        variable = meta.variables.get(name)
        if variable is None or len(variable.shape) != len(spec.shape) or variable.dtype != spec.numpy_dtype:
            raise NodeNotFound("the array is gone, or another has its place", url=self.url, node=name)
        return variable

    def _embedded_view(self, name: str, spec: ArraySpec) -> EmbeddedView:
        """Return the cells that this handle knows in the document, and another one has moved to chunks."""
        variable = self._meta.variables[name]
        source = super()._source(name, variable, array_spec(self._meta, name, variable))
        assert isinstance(source, MongoChunks)
        return EmbeddedView(source, spec.shape, spec.fill_cell(), self.url)

    def _chunk_collection(self, ahead: bool = False) -> ChunkCollection:
        target = replace(super()._chunk_collection(), before_erase=self._allow_missing)
        if "status" in self._meta.extension:
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

    def _roll_back(self) -> bool:
        with storage_errors(self.url):
            return roll_back_all(self._pair.durable_meta, self._pair.chunks, self.id)

    def _is_visible(self, key: Key) -> bool:
        """Return whether others take a chunk for one of the object."""
        variable = self._base.variables.get(key[0])
        return variable is not None and variable.embedded is None and variable.has(key[1])

    def _touch(self) -> None:
        """Say time and again that the object is still being made, so that nobody takes it for garbage."""
        with storage_errors(self.url):
            self._heartbeats.beat(self._pair.meta, self.id)

    def _allow_missing(self, name: str) -> None:
        """Chunks are about to be erased: from now on those that are not stored read as the fill value."""
        extension = variable_extension(self._meta, name)
        if "fill" not in extension:
            _, variable = self._variable(next(face for face, own in self._names.items() if own == name))
            cell = array_spec(self._meta, name, variable).fill_cell().tobytes()
            self._change(lambda meta: with_extension(meta, name, fill=cell, fill_value=None))

    # -- changes ----------------------------------------------------------------------------------------------------

    def _change(self, change: Edit) -> None:
        """Make a change of the document, now or at the end of the batch."""
        with self._mutex:
            if self._batches:
                _check_document(render_object(new := change(self._meta)), self.url)
                self._pending.append(change)
                self._take(new)
                return
            self._store(change)

    def _store(self, change: Edit) -> None:
        meta = parse_object(self._pair.document(self.id)) if self._undo_entries else self._base
        # The document is replaced if its version is still the one that the change was made from, else it is read anew.
        for attempt in attempts(self._pair.settings.lock_timeout):
            extension = without_entries(meta.extension, self._undo_entries)
            if extension is None:
                raise lease.lease_lost(self.url)
            new = _with_next_version(change(replace(meta, extension=extension)))
            with attempt:
                if self._replace_if_unchanged(meta, new):
                    self._base = new
                    self._take(new)
                    self._undo().close()
                    break
                # Whoever tries again, here or above, is to go by what is stored now.
                self._base = meta = parse_object(self._pair.document(self.id))
                self._take(meta)
                if self._owner is not None and _owner(meta) != self._owner:
                    break
                raise beaten(self.url, str(self.id))
        if self._base is not new:
            raise lease.lease_lost(self.url)
        afterwards, self._after_commit = self._after_commit, []
        for act in afterwards:
            act()

    def _replace_if_unchanged(self, old: Meta, new: Meta) -> bool:
        """Return whether the document was still the old one."""
        doc = render_object(new)
        _check_document(doc, self.url)
        owner = _owner(old)
        wanted = objects.same_version(self.id, old.extension.get("version"))
        wanted[f"{lease.LEASE_FIELD}.owner"] = {"$exists": False} if owner is None else owner
        with storage_errors(self.url):
            return bool(self._pair.durable_meta.replace_one(wanted, doc).matched_count)

    def refresh(self, path: str) -> None:
        """Read the document again; what the running batch will write stays."""
        with self._mutex:
            self._base = parse_object(self._pair.document(self.id))
            if undo_entries(self._base.extension) and self._roll_back():
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
        with self._thread_lock, storage_errors(self.url), ExitStack() as held:
            if not self._lock_depth:
                self._owner = held.enter_context(lease.hold_lease(self._pair.meta, self.id, self.url, timeout))
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
                    self._base = _without_lease(self._base)

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Where the block fails, chunks whose length was to change are what they were."""
        before = set(self._undo_entries)
        try:
            yield
        except BaseException:
            self._undo().close(failed=True, keep=before)
            raise

    def close(self) -> None:
        """Write what is pending."""
        self._flush()


def _overlay(stored: AssembledChunk, block: Numbers) -> Numbers:
    """Return the cells that are stored with those of a block over them, as far as there are any."""
    cells = stored.block()
    common = tuple(slice(0, min(pair)) for pair in zip(cells.shape, block.shape, strict=True))
    cells[common] = block[common]
    return cells


def _as_stored(variable: Variable, spec: ArraySpec, block: Numbers) -> Numbers | Coo:
    cells = np.ascontiguousarray(block, variable.dtype).reshape(block.shape)
    return Coo.of_dense(cells, spec.fill_cell()) if variable.sparse else cells


def _apply_edits(meta: Meta, changes: list[Edit]) -> Meta:
    for change in changes:
        meta = change(meta)
    return meta


def _with_next_version(meta: Meta) -> Meta:
    version = meta.extension.get("version")
    return replace(
        meta, extension={"version": (version if isinstance(version, int) else 0) + 1, **_without_version(meta)}
    )


def _without_version(meta: Meta) -> MutableDocument:
    return {name: value for name, value in meta.extension.items() if name != "version"}


def _owner(meta: Meta) -> str | None:
    found = meta.extension.get("lease")
    return found.get("owner") if isinstance(found, Mapping) else None


def _without_lease(meta: Meta) -> Meta:
    return replace(meta, extension={name: value for name, value in meta.extension.items() if name != "lease"})


def _check_document(doc: Document, url: str) -> None:
    """Refuse a document that MongoDB would, before anything is sent."""
    from hyperslab.formats.mongo.bson_values import check_document

    try:
        check_document(doc)
    except Unsupported as error:
        raise error.locate(url=url) from error.__cause__
