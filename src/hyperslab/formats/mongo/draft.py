"""A new object, from its first document to its name.

It has ``status: "writing"`` and is found by its id alone until it is closed, when it gets its name, and takes the place
of an object that had it, by one change of its document.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from bson import ObjectId

from hyperslab.errors import AlreadyExists, NotFound
from hyperslab.formats.mongo import names
from hyperslab.formats.mongo.dataset import DERIVED, Stock
from hyperslab.formats.mongo.document import OURS, Meta, Variable, embed, embedded_names
from hyperslab.formats.mongo.edit_document import with_ours, with_variable
from hyperslab.formats.mongo.indexes import ensure_index
from hyperslab.formats.mongo.segments import AssembledChunk, Segment, join, parse_segment
from hyperslab.formats.mongo.server import storage_errors
from hyperslab.formats.mongo.to_spec import fill_of, ours_of
from hyperslab.formats.mongo.writer import EmbeddingLimits, ObjectWriter
from hyperslab.model.coo import Coo
from hyperslab.stores.location import Location


class ObjectDraft(ObjectWriter):
    """An object that others find once it is closed, under ``name``; by its id before. ``overwrite``: it takes the place
    of the one that has the name."""

    def __init__(self, stock: Stock, where: Location, name: str, limits: EmbeddingLimits, *, overwrite: bool) -> None:
        ours = {"version": 1, "status": names.WRITING, "chunk_ids": DERIVED}
        empty = {"coords": {}, "data_vars": {}, "chunkSize": limits.chunk_size, OURS: ours}
        doc: Mapping[str, Any] = {"_id": ObjectId(), **empty}
        with storage_errors(stock.url):
            ensure_index(stock.chunks, best_effort=True)
            stock.durable_meta.insert_one(dict(doc))
        super().__init__(stock, doc, limits)
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
                meta, chunks = self._stock.durable_meta, self._stock.chunks
                names.commit(meta, chunks, self.id, self._name, taken="replace" if self._overwrite else "refuse")
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
            names.delete(self._stock.meta, self._stock.chunks, self.id)

    # -- what is known once all is written ----------------------------------------------------------------------------

    def _embed_small(self) -> None:
        """Move the smallest of the arrays in one piece into the document, as xarray_mongodb does (reference 2.3)."""
        self.refresh("")
        pieces = {n: v for n, v in self._meta.variables.items() if v.chunks is None and v.embedded is None}
        most = self._limits.embedded
        small = {name: each for name, each in pieces.items() if _nbytes(each) <= most}
        if not small:
            return
        joined = self._joined(small)
        chosen = embedded_names({name: each.nbytes for name, each in joined.items()}, most)
        wanted = {"meta_id": self.id, "chunk": None, "name": {"$in": sorted(chosen)}}
        with storage_errors(self.url):
            self._stock.chunks.delete_many(wanted)
        self._change(lambda meta: _with_embedded(meta, {name: joined[name] for name in joined if name in chosen}))

    def _joined(self, small: Mapping[str, Variable]) -> dict[str, AssembledChunk]:
        """The arrays as they are stored; those that were never written are the fill value."""
        found: dict[str, list[Segment]] = {name: [] for name in small}
        wanted = {"meta_id": self.id, "chunk": None, "name": {"$in": sorted(small)}}
        with storage_errors(self.url):
            for doc in self._stock.chunks.find(wanted):
                segment = parse_segment(doc)
                found[segment.key[0]].append(segment)
        return {name: self._whole(name, small[name], segments) for name, segments in found.items()}

    def _whole(self, name: str, variable: Variable, segments: list[Segment]) -> AssembledChunk:
        shape = tuple(size or 0 for size in variable.shape)
        if segments and (joined := join((name, None), segments)).shape == shape:
            return joined
        block = np.full(shape, fill_of(ours_of(self._meta, name), variable), variable.dtype)
        if segments:  # it has grown since, or shrunk
            joined.read_common(block)
        fill = np.zeros((), variable.dtype) if variable.fill is None else np.frombuffer(variable.fill, variable.dtype)
        return embed(name, Coo.of_dense(block, fill.reshape(())) if variable.sparse else block)

    def _say_what_is_complete(self) -> None:
        """Of arrays all of whose chunks are stored one that is not there is lost from now on, and no fill value."""
        complete = [name for name, each in self._meta.variables.items() if self._is_complete(name, each)]
        if complete:
            self._change(lambda meta: _complete(meta, complete))

    def _is_complete(self, name: str, variable: Variable) -> bool:
        if variable.embedded is not None or variable.sparse or variable.chunks is None:
            return False
        wanted = {"meta_id": self.id, "name": {"$eq": name}}
        with storage_errors(self.url):
            return self._stock.chunks.count_documents(wanted) == _documents(variable, self._meta.chunk_size)


def _documents(variable: Variable, chunk_size: int) -> int:
    """How many documents the chunks of a dense array take, each cut for itself."""
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
        meta = with_variable(meta, name, replace(meta.variables[name], embedded=one), ours_of(meta, name))
    return meta


def _one_segment(name: str, joined: AssembledChunk) -> AssembledChunk:
    """In the document of the object all bytes stand in one field."""
    first = joined.first
    if len(joined.segments) == 1:
        return joined
    return embed(name, joined.coo() if first.sparse else joined.block())


def _complete(meta: Meta, complete: list[str]) -> Meta:
    for name in complete:
        entry = ours_of(meta, name)
        meta = with_ours(meta, name, fill=None, fill_value=entry.get("fill", entry.get("fill_value")))
    return meta
