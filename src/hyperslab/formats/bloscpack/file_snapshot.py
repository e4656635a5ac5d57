"""A file that is there, as it is when it is looked at: for writers, who hold its lock when it matters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hyperslab.errors import HyperslabError, MissingChunks
from hyperslab.formats.bloscpack.creation import BloscpackOptions, default_rows
from hyperslab.formats.bloscpack.dataset import read_content
from hyperslab.formats.bloscpack.document import Content, parse
from hyperslab.formats.bloscpack.encoding import CODEC, typesize_of
from hyperslab.formats.bloscpack.file import LocalFile, settled
from hyperslab.formats.bloscpack.pending_chunks import Base, PendingChunks
from hyperslab.formats.bloscpack.preamble import Preamble, Style, read_front
from hyperslab.formats.bloscpack.source import StreamChunks
from hyperslab.formats.bloscpack.staging import ChunkStaging
from hyperslab.formats.bloscpack.table import ChunkTable, Tables, read_table
from hyperslab.model.spec import Codec
from hyperslab.stores.files import version_of


@dataclass(eq=False)
class FileSnapshot:
    """An open file of one version: its front, its chunks, and what it holds, as its metadata ``say`` and in truth.
    ``state``: what a writer made of it."""

    file: LocalFile
    stamp: Any
    front: Preamble
    tables: Tables
    said: Content
    content: Content
    state: Any = None

    @property
    def table(self) -> ChunkTable:
        """Where the chunks are."""
        return self.tables.get()


def look(path: str, url: str, *, whole: bool = False) -> FileSnapshot:
    """Open a file and read all of it but its cells; NotFound, FormatError. It is looked at again while it changes.

    ``whole``: as for :func:`read_content`.
    """
    file = LocalFile(path, url)

    def read() -> FileSnapshot:
        front = read_front(file)
        try:
            content = read_content(file, front)
        except MissingChunks:  # bytes whose writer never came to their end: those that are there
            content = parse(front.doc, nbytes=found_bytes(read_table(file, front)), chunk_size=front.header.chunk_size)
        tables = _tables(file, front, content)
        tables.get()
        longer = read_content(file, front, whole=True) if whole and content.surplus else content
        return FileSnapshot(file, file.stamp(), front, tables, content, longer)

    try:
        return settled(file, read)
    except HyperslabError as error:
        raise error.locate(url=url) from error.__cause__


def found_bytes(table: ChunkTable) -> int:
    """Bytes of the stream that are in the chunks that are there."""
    whole = table.edges is None and table.found < table.said
    return table.chunk_size * table.found if whole else table.nbytes


def _tables(file: LocalFile, front: Preamble, content: Content) -> Tables:
    expected = -1 if content.plain else content.nbytes
    first = [front]

    def load() -> ChunkTable:
        return read_table(file, first.pop() if first else read_front(file), expected)

    return Tables(file, load)


def is_same(present: FileSnapshot, path: str) -> bool:
    """Return whether the path still leads to this version."""
    try:
        return bool(version_of(os.stat(path)) == present.stamp)
    except OSError:
        return False


def held_of(present: FileSnapshot, options: BloscpackOptions, url: str, rows: int = 0) -> PendingChunks:
    """The chunks of the file, to be changed. ``rows`` of each before: they stay where the file says nothing of them."""
    front, content = present.front, present.content
    spec = content.spec
    codecs = tuple(_writable(codec) for codec in spec.codecs) or (CODEC,)
    content = content.evolve(
        labelled=type(content.labelled)(
            content.labelled.name,
            spec.evolve(codecs=codecs, layout={}),
            content.labelled.coords,
            content.labelled.group,
        )
    )
    style = Style.of(front.header, front.section).evolve(
        typesize=front.header.typesize if front.header.layout != "v1" else typesize_of(content.stored.itemsize),
        metadata=front.header.has_metadata or not content.plain,
    )
    folder = present.file.folder
    held = PendingChunks(
        content, _rows(present, options, rows), style, options.slack, lambda: ChunkStaging(folder), url
    )
    stream = StreamChunks(present.file, present.tables, present.content, front.header.digest, content.labelled.name)
    held.base = Base(stream, present.content, held.length)
    return held


def _writable(codec: Codec) -> Codec:
    """Chunks of Snappy are read, and written as LZ4."""
    return Codec("blosc", {**codec.config, "cname": "lz4"}) if codec.config.get("cname") == "snappy" else codec


def _rows(present: FileSnapshot, options: BloscpackOptions, before: int) -> int:
    """Rows of a chunk: what the file has. A single chunk that is as large as the array says nothing of others to come.

    Where stored chunks end within rows, they are cut anew.
    """
    content, table = present.content, present.table
    shape, row, axis = content.spec.shape, content.row, content.axis
    if not shape:
        return 1
    usual = default_rows((*shape[:axis], 0, *shape[axis + 1 :]), row, axis, options.chunk_bytes)
    size = table.uniform
    if not row or (not content.nbytes and size <= 0):
        return max(before, usual, shape[axis])
    if size > 0 and size % row == 0:
        if table.found > 1 or size != table.last:
            return size // row
        return before if before * row >= size else max(size // row, usual)
    cut: Any = content.spec.chunks[axis]
    return max(int(cut), 1)
