"""The reader of bloscpack files: one array, its coordinates beside it; what is wrong with a file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from hyperslab.chunks.source import ChunkSource
from hyperslab.codecs.blosc import HEADER, may_move, used_bytes
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.bloscpack.chunk_table import ChunkTable, TableCache, codecs_of, read_table, stored_end
from hyperslab.formats.bloscpack.document import Content, contradiction, parse_document
from hyperslab.formats.bloscpack.file import FileBytes, LocalFile, read_stable
from hyperslab.formats.bloscpack.preamble import Preamble, read_appendix, read_preamble
from hyperslab.formats.bloscpack.rules import RULES, SURPLUS, chunk_problems, problems_of, with_mends
from hyperslab.formats.bloscpack.source import open_stream
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.document import Doc, LabelledArray
from hyperslab.formats.single_array.reader import SingleArrayReader
from hyperslab.model.spec import ArraySpec

_log = logging.getLogger("hyperslab")


def read_content(file: FileBytes, preamble: Preamble, *, whole: bool = False) -> Content:
    """Return what a file holds by its header and metadata; FormatError when they make no sense or contradict each
    other.

    ``whole``: where the chunks hold more rows than the shape says, they are all of the array.
    """
    if preamble.fault is not None:
        raise preamble.fault
    header, doc, codecs = preamble.header, preamble.doc, codecs_of(file, preamble)
    nbytes, size = header.nbytes, header.chunk_size
    if header.layout == "v2":
        doc = read_appendix(file, stored_end(file, read_table(file, preamble)))
    if nbytes < 0:
        declared = parse_document(doc, nbytes=-1, chunk_size=size, loose=preamble.is_loose)
        table = read_table(file, preamble, -1 if declared.plain else declared.nbytes)
        nbytes, size = table.nbytes, table.uniform
        if declared.plain and table.found < table.declared:
            raise table.missing(table.found)
        if table.fault:
            _log.warning("%s: %s", file.url, table.fault)
        if table.unfinished and nbytes < declared.nbytes:
            nbytes = -1
        # A stream whose writer never said its length: the chunks tell it.
        elif header.nchunks < 0 and nbytes > declared.nbytes and not declared.plain:
            doc = _with_rows_of(doc, declared, nbytes)
    content = parse_document(doc, nbytes=nbytes, chunk_size=size, loose=preamble.is_loose, codecs=codecs)
    return _with_surplus(file, preamble, content, doc, whole=whole) if content.surplus else content


def _with_surplus(file: FileBytes, preamble: Preamble, content: Content, doc: Doc | None, *, whole: bool) -> Content:
    """Return an array whose chunks hold more than its cells; FormatError when it is the header alone that says so."""
    nbytes = content.nbytes + content.surplus
    if not read_table(file, preamble).is_complete(file):
        raise contradiction(content, nbytes)
    if whole and rows_behind(content):
        longer = parse_document(
            _with_rows_of(doc, content, nbytes), nbytes=nbytes, chunk_size=preamble.header.chunk_size
        )
        return longer.evolve(labelled=replace(longer.labelled, spec=longer.spec.evolve(codecs=content.spec.codecs)))
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


def _with_rows_of(doc: Doc | None, content: Content, nbytes: int) -> Doc | None:
    """Return the metadata of a stream whose writer never came to say how long it is: as many rows as there are."""
    if doc is None or not content.row or not content.spec.shape:
        return doc
    shape = list(content.spec.shape)
    shape[content.axis] = nbytes // content.row
    return doc | {"shape": shape}


class BloscpackReader(SingleArrayReader):
    """One bloscpack file, read-only. A file that is changed in place is read as it is then, in its old shape."""

    def __init__(self, file: FileBytes) -> None:
        self.url = file.url
        self._lock = threading.RLock()
        try:
            self._begin(file)
        except HyperslabError as error:
            file.close()
            raise error.locate(url=file.url) from error.__cause__

    def _begin(self, file: FileBytes) -> None:
        """Read the preamble of the file as it is now; the rest is read when it is needed."""
        self._preamble_stamp, self._preamble = read_stable(file, lambda: read_preamble(file))
        self._file = file
        self._content: Content | None = None
        self._tables = TableCache(file, lambda: self._load(file))

    def _load(self, file: FileBytes) -> ChunkTable:
        """Return the table of the chunks as they lie now."""
        preamble = self._preamble if file.stamp() == self._preamble_stamp else read_preamble(file)
        content = self.content if file is self._file else read_content(file, preamble)
        return read_table(file, preamble, -1 if content.plain else content.nbytes)

    def refresh(self, path: str) -> None:
        """Read the file that has the name now; what was taken from the old one goes on reading that."""
        with self._lock:
            self._begin(self._file.reopen())

    @property
    def content(self) -> Content:
        """The array with its labels, and how it is stored; FormatError lists what is wrong with the metadata."""
        found = self._content
        if found is None:
            with self._lock:
                try:
                    found = self._content = self._content or read_content(self._file, self._preamble)
                except HyperslabError as error:
                    raise error.locate(url=self._file.url) from error.__cause__
        return found

    @property
    def labelled(self) -> LabelledArray:
        return self.content.labelled

    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        """Return the cells of the array."""
        content, digest = self.content, self._preamble.header.digest
        return open_stream(self._file, self._tables, content, digest, content.labelled.name)

    def storage(self, path: str) -> Doc:
        """Return layout and checksum of the file, the chunks that it holds, how many more its offsets have room for."""
        if path != self.content.labelled.name:
            return {}
        header = self._preamble.header
        table = self._tables.get()
        doc: Doc = {"layout": header.layout, "checksum": header.digest.name, "order": self.content.order}
        doc |= {"stored_chunks": table.found, "offsets": header.has_offsets}
        if table.found:
            # Slack is what the first chunk may grow by where it lies.
            offset, _, nbytes = table.entry(0)
            stored = HEADER.unpack(self._file.pread(HEADER.size, offset))[6]
            chunk = self._file.pread(stored, offset)
            slack = stored - used_bytes(chunk) if may_move(chunk, nbytes) else 0
            doc["slack"] = f"{slack} bytes in the first chunk"
        if self.content.outer:
            doc["attributes_beside_the_dtype"] = ", ".join(self.content.outer)
        return doc | ({"room_for_chunks": header.max_app} if header.layout == "v3" else {})

    def _problems(self, *, deep: bool, workers: int) -> Iterator[Problem]:
        """Yield every problem of the metadata and of the chunks; ``deep`` verifies and decodes each of these."""
        content: Content | None = None
        listed_problems: list[Problem] = []
        try:
            content = self.content
        except HyperslabError as error:
            listed_problems = problems_of(error)
        yield from listed_problems
        if content is not None and content.surplus:
            yield Problem(content.labelled.name, SURPLUS, surplus_of(content))
        if self._preamble.offsets_at < 0:
            return
        try:
            table = self._tables.get() if content is not None else read_table(self._file, self._preamble)
        except HyperslabError as error:
            yield from (problem for problem in problems_of(error) if problem not in listed_problems)
            return
        digest = self._preamble.header.digest
        yield from chunk_problems(self._file, table, content, digest, deep, workers)

    def find_damage(
        self,
        *,
        deep: bool,
        workers: int,
        complete: Callable[[], None] | None = None,
        lengthen: Callable[[], None] | None = None,
    ) -> Iterator[Finding]:
        """Return what can be mended; ``complete`` is what ends an unfinished file, ``lengthen`` what takes in all
        rows."""
        died = isinstance(self._file, LocalFile) and self._file.has_journal()
        problems = list(self._problems(deep=deep, workers=workers))
        table: ChunkTable | None = None
        with suppress(HyperslabError):
            table = read_table(self._file, self._preamble)
        for finding in with_mends(problems, table, died=died, complete=complete or (lambda: None)):
            rows = rows_behind(self.content) if finding.problem.kind == SURPLUS else 0
            if rows:
                finding = Finding(finding.problem, f"make the array {rows} rows longer", act=lengthen or (lambda: None))
            yield RULES.with_rule(finding)

    def stamp(self, path: str) -> object:
        return self._file.stamp()

    def close(self) -> None:
        self._file.close()
