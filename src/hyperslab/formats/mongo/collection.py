"""A collection open for writing: its objects can be changed and removed, and new ones made under a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from hyperslab.errors import NodeNotFound, Unsupported
from hyperslab.formats.mongo import names
from hyperslab.formats.mongo.dataset import CollectionReader, Stock, check_name
from hyperslab.formats.mongo.draft import ObjectDraft
from hyperslab.formats.mongo.edit_document import fitting_chunks, new_array
from hyperslab.formats.mongo.server import storage_errors
from hyperslab.formats.mongo.writer import EmbeddingLimits, ObjectWriter
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location


class CollectionWriter(CollectionReader):
    """All objects of a collection. New ones are found once it is closed."""

    def __init__(self, stock: Stock, where: Location, limits: EmbeddingLimits) -> None:
        super().__init__(stock)
        self._where = where
        self._limits = limits
        self._drafts: dict[str, ObjectDraft] = {}

    def _opened(self, doc: Mapping[str, Any], wanted: str) -> ObjectWriter:
        return ObjectWriter(self._stock, doc, self._limits)

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
        check_name(replace(self._stock.place, object=name))
        draft = ObjectDraft(self._stock, self._where, name, self._limits, overwrite=False)
        self._objects[name] = self._drafts[name] = draft
        return draft

    def children(self, path: str) -> list[str]:
        """The ids of the objects and the names of new ones, or the names of an object's variables."""
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
            names.delete(self._stock.durable_meta, self._stock.chunks, target.id)

    def chunks_as(self, path: str, spec: ArraySpec) -> Any:
        """The chunks of an array before it is put."""
        target, inner = self._writer(path)
        return target.chunks_as(inner, spec)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """A user's wish as documents hold it, or Unsupported."""
        return new_array(spec)

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Chunks of one document each."""
        return fitting_chunks(shape, itemsize, self._limits.chunk_size)

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
