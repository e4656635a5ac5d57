"""The Reader of bloscpack files: one array, its coordinates beside it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hyperslab.chunks.source import ChunkSource
from hyperslab.codecs.blosc import HEADER, may_move
from hyperslab.codecs.blosc_blocks import used_bytes
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.bloscpack.document import Content, contradiction, parse
from hyperslab.formats.bloscpack.file import LocalFile, ServedFile, settled
from hyperslab.formats.bloscpack.metadata import Doc
from hyperslab.formats.bloscpack.preamble import Preamble, read_appendix, read_front
from hyperslab.formats.bloscpack.problems import SURPLUS, chunk_problems, remedies_of, told
from hyperslab.formats.bloscpack.source import open_stream
from hyperslab.formats.bloscpack.table import ChunkTable, Tables, codecs_of, read_table, stored_end
from hyperslab.formats.format_errors import names_below, node_not_found, require_array
from hyperslab.formats.in_memory import CellsInMemory
from hyperslab.model.spec import ArraySpec, GroupSpec

_log = logging.getLogger("hyperslab")


def read_content(file: LocalFile | ServedFile, front: Preamble, *, whole: bool = False) -> Content:
    """Return what a file holds by its header and metadata; FormatError when they make no sense or contradict each
    other.

    ``whole``: where the chunks hold more rows than the shape says, they are all of the array.
    """
    if front.fault is not None:
        raise front.fault
    header, doc, codecs = front.header, front.doc, codecs_of(file, front)
    nbytes, size = header.nbytes, header.chunk_size
    if header.layout == "v2":
        doc = read_appendix(file, stored_end(file, read_table(file, front)))
    if nbytes < 0:
        said = parse(doc, nbytes=-1, chunk_size=size, loose=front.is_loose)
        table = read_table(file, front, -1 if said.plain else said.nbytes)
        nbytes, size = table.nbytes, table.uniform
        if said.plain and table.found < table.said:
            raise table.missing(table.found)
        if table.fault:
            _log.warning("%s: %s", file.url, table.fault)
        if table.unfinished and nbytes < said.nbytes:
            nbytes = -1
        elif header.nchunks < 0 and nbytes > said.nbytes and not said.plain:
            doc = _longer(doc, said, nbytes)
    content = parse(doc, nbytes=nbytes, chunk_size=size, loose=front.is_loose, codecs=codecs)
    return _with_surplus(file, front, content, doc, whole=whole) if content.surplus else content


def _with_surplus(
    file: LocalFile | ServedFile, front: Preamble, content: Content, doc: Doc | None, *, whole: bool
) -> Content:
    """Return an array whose chunks hold more than its cells; FormatError when it is the header alone that says so."""
    nbytes = content.nbytes + content.surplus
    if not read_table(file, front).holds_what_is_said(file):
        raise contradiction(content, nbytes)
    if whole and rows_behind(content):
        said = parse(_longer(doc, content, nbytes), nbytes=nbytes, chunk_size=front.header.chunk_size)
        return said.evolve(labelled=replace(said.labelled, spec=said.spec.evolve(codecs=content.spec.codecs)))
    _log.warning("%s: %s", file.url, surplus_of(content))
    return content


def rows_behind(content: Content) -> int:
    """Return whole rows that the chunks hold behind those of the array; 0 where they are none, or coordinates lack
    them."""
    axis, spec = content.axis, content.spec
    if not content.row or content.surplus % content.row or not spec.shape:
        return 0
    dim = spec.dims[axis]
    labels = [name for name, each in content.labelled.coords.items() if dim is not None and dim in each.spec.dims]
    return 0 if labels else content.surplus // content.row


def surplus_of(content: Content) -> str:
    """Return what is said of bytes behind the cells."""
    shape, dtype = content.spec.shape, content.stored
    message = f"the chunks hold {content.surplus} bytes behind the cells of {shape} {dtype}, which are not read"
    rows = rows_behind(content)
    return f"{message}: {rows} rows that blpk append, or another program, left out of the shape" if rows else message


def _longer(doc: Doc | None, content: Content, nbytes: int) -> Doc | None:
    """The metadata of a stream whose writer never came to say how long it is: as many rows as there are."""
    if doc is None or not content.row or not content.spec.shape:
        return doc
    shape = list(content.spec.shape)
    shape[content.axis] = nbytes // content.row
    return doc | {"shape": shape}


class BloscpackReader:
    """One bloscpack file, read-only. A file that is changed in place is read as it is then, in its old shape."""

    def __init__(self, file: LocalFile | ServedFile) -> None:
        self._lock = threading.RLock()
        try:
            self._begin(file)
        except HyperslabError as error:
            file.close()
            raise error.locate(url=file.url) from error.__cause__

    def _begin(self, file: LocalFile | ServedFile) -> None:
        """What is known of the file as it is now."""
        self._front, self._seen = settled(file, lambda: (read_front(file), file.stamp()))
        self._file = file
        self._content: Content | None = None
        self._tables = Tables(file, lambda: self._load(file))

    def _load(self, file: LocalFile | ServedFile) -> ChunkTable:
        """Where the chunks lie now."""
        front = self._front if file.stamp() == self._seen else read_front(file)
        content = self.content if file is self._file else read_content(file, front)
        return read_table(file, front, -1 if content.plain else content.nbytes)

    def refresh(self, path: str) -> None:
        """Read the file that has the name now; what was taken from the old one goes on reading that."""
        with self._lock:
            self._begin(self._file.again())

    @property
    def content(self) -> Content:
        """The array with its labels, and how it is stored; FormatError lists what is wrong with the metadata."""
        found = self._content
        if found is None:
            with self._lock:
                try:
                    found = self._content = self._content or read_content(self._file, self._front)
                except HyperslabError as error:
                    raise error.locate(url=self._file.url) from error.__cause__
        return found

    @property
    def main(self) -> str | None:
        """The name of the array."""
        return self.content.labelled.name

    def children(self, path: str) -> list[str]:
        """The array and its coordinates."""
        return names_below(self.node(path), self.content.labelled.names)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """What lies at ``path``."""
        found = self.content.labelled.node(path)
        if found is None:
            raise node_not_found(path, self._file.url)
        return found

    def chunks(self, path: str) -> ChunkSource:
        """The cells of the array, or of a coordinate."""
        spec = self.node(path)
        content = self.content
        spec = require_array(path, spec, self._file.url)
        if path != content.labelled.name:
            return CellsInMemory(content.labelled.coords[path].cells)
        return open_stream(self._file, self._tables, content, self._front.header.digest, path)

    def storage(self, path: str) -> dict[str, Any]:
        """Layout and checksum of the file, the chunks that it holds, how many more its offsets have room for."""
        if path != self.content.labelled.name:
            return {}
        header = self._front.header
        found: dict[str, Any] = {"layout": header.layout, "checksum": header.digest.name, "order": self.content.order}
        found |= {"stored_chunks": self._tables.get().found, "offsets": header.has_offsets}
        found |= {"slack": f"{self._slack()} bytes in the first chunk"} if found["stored_chunks"] else {}
        found |= {"attributes_beside_the_dtype": ", ".join(self.content.outer)} if self.content.outer else {}
        return found | ({"room_for_chunks": header.max_app} if header.layout == "v3" else {})

    def _slack(self) -> int:
        """Bytes in the first chunk that it may grow by where it lies."""
        offset, _, nbytes = self._tables.get().entry(0)
        stored = HEADER.unpack(self._file.pread(HEADER.size, offset))[6]
        chunk = self._file.pread(stored, offset)
        return stored - used_bytes(chunk) if may_move(chunk, nbytes) else 0

    def problems(self, *, deep: bool, workers: int) -> Iterator[Problem]:
        """Every problem of the metadata and of the chunks; ``deep`` verifies and decodes each of these."""
        content: Content | None = None
        seen: list[Problem] = []
        try:
            content = self.content
        except HyperslabError as error:
            seen = told(error)
        yield from seen
        if content is not None and content.surplus:
            yield Problem(content.labelled.name, SURPLUS, surplus_of(content))
        if self._front.offsets_at < 0:
            return
        try:
            table = self._tables.get() if content is not None else read_table(self._file, self._front)
        except HyperslabError as error:
            yield from (problem for problem in told(error) if problem not in seen)
            return
        digest = self._front.header.digest
        yield from chunk_problems(self._file, table, content, digest, deep, workers)

    def remedies(
        self,
        *,
        deep: bool,
        workers: int,
        complete: Callable[[], None] | None = None,
        lengthen: Callable[[], None] | None = None,
    ) -> Iterator[Remedy]:
        """Return what can be mended; ``complete`` is what ends an unfinished file, ``lengthen`` what takes in all
        rows."""
        died = isinstance(self._file, LocalFile) and self._file.look_for_journal()
        problems = list(self.problems(deep=deep, workers=workers))
        table: ChunkTable | None = None
        with suppress(HyperslabError):
            table = read_table(self._file, self._front)
        for remedy in remedies_of(problems, table, died=died, complete=complete or (lambda: None)):
            rows = rows_behind(self.content) if remedy.problem.kind == SURPLUS else 0
            if rows:
                remedy = Remedy(remedy.problem, f"make the array {rows} rows longer", act=lengthen or (lambda: None))
            yield remedy

    def stamp(self, path: str) -> Any:
        """What identifies the present version of the file."""
        return self._file.stamp()

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        self._file.close()
