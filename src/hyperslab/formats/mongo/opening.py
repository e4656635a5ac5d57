"""Open what a URL names, in a mode: an object, a new object (ObjectDraft), or a collection for writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from math import prod

import numpy as np
from bson import ObjectId

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, Invalid, NodeNotFound, NotFound, Unsupported
from hyperslab.formats.base import Mode, Reader
from hyperslab.formats.mongo import objects
from hyperslab.formats.mongo.bson_values import Document
from hyperslab.formats.mongo.chunk_documents import AssembledChunk, Segment, assemble_chunk, parse_segment
from hyperslab.formats.mongo.chunk_queries import ensure_index
from hyperslab.formats.mongo.document import DERIVED, EXTENSION, Meta, Variable, choose_embedded, embed_cells
from hyperslab.formats.mongo.edit_document import auto_chunk_lengths, new_array, with_extension, with_variable
from hyperslab.formats.mongo.reader import CollectionPair, CollectionReader, check_new_name, open_reader
from hyperslab.formats.mongo.server import ServerPlace, storage_errors
from hyperslab.formats.mongo.to_spec import fill_value_of, variable_extension
from hyperslab.formats.mongo.writer import EmbeddingLimits, ObjectWriter
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location

# -- a new object -----------------------------------------------------------------------------------------------------
# It has ``status: "writing"`` and is found by its id alone until it is closed, when it gets its name, and takes the
# place of an object that had it, by one change of its document.


class ObjectDraft(ObjectWriter):
    """An object that others find once it is closed, under ``name``; by its id before. ``overwrite``: it takes the place
    of the one that has the name."""

    def __init__(
        self, pair: CollectionPair, where: Location, name: str, limits: EmbeddingLimits, *, overwrite: bool
    ) -> None:
        extension = {"version": 1, "status": objects.WRITING, "chunk_ids": DERIVED}
        empty = {"coords": {}, "data_vars": {}, "chunkSize": limits.chunk_size, EXTENSION: extension}
        doc: Document = {"_id": ObjectId(), **empty}
        with storage_errors(pair.url):
            ensure_index(pair.chunks, best_effort=True)
            pair.durable_meta.insert_one(dict(doc))
        super().__init__(pair, doc, limits)
        self._where = where
        self._name = name
        self._overwrite = overwrite
        self._closed = False

    @property
    def location(self) -> Location:
        """Where it is found while it is being written."""
        target = f"{str(self._where.target).partition('#')[0]}#{self.id}"
        return Location.of(target, self._where.options)

    def close(self) -> None:
        """Let it be found. AlreadyExists when another object has got the name meanwhile, and is not to be replaced."""
        if self._closed:
            return
        self._closed = True
        try:
            self._flush()
            self._embed_small()
            self._say_what_is_complete()
            self._commit()
        except BaseException:
            self._remove()
            raise

    def _commit(self) -> None:
        try:
            with storage_errors(self.url):
                meta, chunks = self._pair.durable_meta, self._pair.chunks
                objects.commit_object(
                    meta, chunks, self.id, self._name, on_conflict="replace" if self._overwrite else "refuse"
                )
        except AlreadyExists as error:
            raise error.locate(url=self.url) from None
        with suppress(NotFound):  # it was there, and another writer has replaced it since
            self.refresh("")

    def discard(self) -> None:
        """Remove all that was written of it."""
        if not self._closed:
            self._closed = True
            self._remove()

    def _remove(self) -> None:
        with storage_errors(self.url):
            objects.delete_object(self._pair.meta, self._pair.chunks, self.id)

    # -- what is known once all is written ----------------------------------------------------------------------------

    def _embed_small(self) -> None:
        """Move the smallest of the arrays in one piece into the document, as xarray_mongodb does (reference 2.3)."""
        self.refresh("")
        pieces = {n: v for n, v in self._meta.variables.items() if v.chunks is None and v.embedded is None}
        most = self._limits.embedded
        small = {name: each for name, each in pieces.items() if _nbytes(each) <= most}
        if not small:
            return
        joined = self._assembled_pieces(small)
        chosen = choose_embedded({name: each.nbytes for name, each in joined.items()}, most)
        wanted = {"meta_id": self.id, "chunk": None, "name": {"$in": sorted(chosen)}}
        with storage_errors(self.url):
            self._pair.chunks.delete_many(wanted)
        self._change(lambda meta: _with_embedded(meta, {name: joined[name] for name in joined if name in chosen}))

    def _assembled_pieces(self, small: Mapping[str, Variable]) -> dict[str, AssembledChunk]:
        """Return the arrays as they are stored; those that were never written are the fill value."""
        found: dict[str, list[Segment]] = {name: [] for name in small}
        wanted = {"meta_id": self.id, "chunk": None, "name": {"$in": sorted(small)}}
        with storage_errors(self.url):
            for doc in self._pair.chunks.find(wanted):
                segment = parse_segment(doc)
                found[segment.key[0]].append(segment)
        return {name: self._whole(name, small[name], segments) for name, segments in found.items()}

    def _whole(self, name: str, variable: Variable, segments: list[Segment]) -> AssembledChunk:
        shape = tuple(size or 0 for size in variable.shape)
        if segments and (joined := assemble_chunk((name, None), segments)).shape == shape:
            return joined
        block = np.full(shape, fill_value_of(variable_extension(self._meta, name), variable), variable.dtype)
        if segments:  # it has grown since, or shrunk
            joined.read_common(block)
        fill = np.zeros((), variable.dtype) if variable.fill is None else np.frombuffer(variable.fill, variable.dtype)
        return embed_cells(name, Coo.of_dense(block, fill.reshape(())) if variable.sparse else block)

    def _say_what_is_complete(self) -> None:
        """Of arrays all of whose chunks are stored one that is not there is lost from now on, and no fill value."""
        complete = [name for name, each in self._meta.variables.items() if self._is_complete(name, each)]
        if complete:
            self._change(lambda meta: _with_complete(meta, complete))

    def _is_complete(self, name: str, variable: Variable) -> bool:
        if variable.embedded is not None or variable.sparse or variable.chunks is None:
            return False
        wanted = {"meta_id": self.id, "name": {"$eq": name}}
        with storage_errors(self.url):
            return self._pair.chunks.count_documents(wanted) == _count_documents(variable, self._meta.chunk_size)


def _count_documents(variable: Variable, chunk_size: int) -> int:
    """Return how many documents the chunks of a dense array take, each cut for itself."""
    count = 0
    sizes: dict[int, int] = {1: 1}
    for axis in variable.chunks or ():
        grown: dict[int, int] = {}
        for length in axis:
            for cells, times in sizes.items():
                grown[cells * (length or 0)] = grown.get(cells * (length or 0), 0) + times
        sizes = grown
    for cells, times in sizes.items():
        count += times * max(1, -(-cells * variable.dtype.itemsize // chunk_size))
    return count


def _nbytes(variable: Variable) -> int:
    return variable.dtype.itemsize * prod(size or 0 for size in variable.shape)


def _with_embedded(meta: Meta, cells: Mapping[str, AssembledChunk]) -> Meta:
    for name, joined in cells.items():
        one = _one_segment(name, joined)
        meta = with_variable(meta, name, replace(meta.variables[name], embedded=one), variable_extension(meta, name))
    return meta


def _one_segment(name: str, joined: AssembledChunk) -> AssembledChunk:
    """In the document of the object all bytes stand in one field."""
    first = joined.first
    if len(joined.segments) == 1:
        return joined
    return embed_cells(name, joined.coo() if first.sparse else joined.block())


def _with_complete(meta: Meta, complete: list[str]) -> Meta:
    for name in complete:
        entry = variable_extension(meta, name)
        meta = with_extension(meta, name, fill=None, fill_value=entry.get("fill", entry.get("fill_value")))
    return meta


# -- a collection of objects ------------------------------------------------------------------------------------------


class CollectionWriter(CollectionReader):
    """All objects of a collection. New ones are found once it is closed."""

    def __init__(self, pair: CollectionPair, where: Location, limits: EmbeddingLimits) -> None:
        super().__init__(pair)
        self._where = where
        self._limits = limits
        self._drafts: dict[str, ObjectDraft] = {}

    def _open_object(self, doc: Document, wanted: str) -> ObjectWriter:
        return ObjectWriter(self._pair, doc, self._limits)

    def _writer(self, path: str) -> tuple[ObjectWriter, str]:
        found, inner = self._object(path)
        assert isinstance(found, ObjectWriter)
        return found, inner

    def put(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Make a new object of this name, or change one, or one of its arrays."""
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
            target = self._new(wanted)
        target.put(inner, spec)

    def _new(self, name: str) -> ObjectDraft:
        check_new_name(replace(self._pair.place, object=name))
        draft = ObjectDraft(self._pair, self._where, name, self._limits, overwrite=False)
        self._objects[name] = self._drafts[name] = draft
        return draft

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
        """Return the chunks of an array before it is put."""
        target, inner = self._writer(path)
        return target.chunks_as(inner, spec)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of a new array as documents hold it, or Unsupported."""
        return new_array(spec)

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return chunks of one document each."""
        return auto_chunk_lengths(shape, itemsize, self._limits.chunk_size)

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold an object against other writers."""
        with ExitStack() as held:
            if path:
                target, inner = self._writer(path)
                held.enter_context(target.lock_node(inner))
            yield

    def _forget(self) -> None:
        self._objects = dict(self._drafts)

    def close(self) -> None:
        """Let new objects be found."""
        while self._drafts:
            self._drafts.popitem()[1].close()

    def discard(self) -> None:
        """Remove what was written of new objects."""
        while self._drafts:
            self._drafts.popitem()[1].discard()


# -- modes ------------------------------------------------------------------------------------------------------------


def open_place(where: Location, mode: Mode, settings: Settings, limits: EmbeddingLimits) -> Reader:
    """Open the object or the collection; a new object in the modes ``x`` and ``w``, and ``a`` where there is none."""
    pair = CollectionPair.of(ServerPlace.of(where), settings)
    wanted = pair.place.object
    if mode == "r":
        return open_reader(pair)
    if wanted is None:
        if mode == "w":
            remedy = "name one object of it behind #, or remove its objects one by one"
            raise Invalid("a whole collection is not replaced", url=pair.url, remedy=remedy)
        return CollectionWriter(pair, where, limits)
    try:
        key = pair.resolve(wanted)
    except NotFound:
        if mode == "r+":
            raise
        return ObjectDraft(pair, where, check_new_name(pair.place), limits, overwrite=mode == "w")
    if mode == "x":
        raise AlreadyExists("there is an object of this name", url=pair.url, remedy="mode='w' replaces it")
    if mode == "w":
        return ObjectDraft(pair, where, check_new_name(pair.place), limits, overwrite=True)
    return ObjectWriter(pair, pair.document(key), limits)
