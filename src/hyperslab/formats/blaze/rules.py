"""The problems of the data files of an array, and what mends them; no sound cell is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.source import Block
from hyperslab.codecs.blosc import HEADER
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Problem, StorageError
from hyperslab.formats.blaze.data_file import ChunkOffsets, read_index, verify_chunk
from hyperslab.formats.blaze.document import META, SIZES
from hyperslab.formats.blaze.folder import ArrayFolder, Columns
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.bloscpack.preamble import ENOUGH, parse_header
from hyperslab.formats.rules import FOREIGN, Finding, Rule, Rules, found_foreign, nothing
from hyperslab.stores import counting
from hyperslab.stores.base import Store
from hyperslab.stores.keys import Stray

# -- data files that are whole though they are not what the documents say -------------------------------------------


_LARGEST = 64 << 20
"""Bytes of a file, and of a chunk, beyond which nobody looks whether it is whole: a header that lies may say any."""


def has_whole_chunks(column: Superchunks, place: int) -> bool:
    """Return True if each chunk of a data file decodes to as many bytes as the file itself says, whatever the documents
    say."""
    key = column.keys.key(place)
    try:
        if not 0 < (column.keys.size(key) or 0) <= _LARGEST:
            return False
        data = column.keys.store.get(key)
        return data is not None and _decodes(column, memoryview(data))
    except HyperslabError:
        return False


def _decodes(column: Superchunks, data: memoryview) -> bool:
    header = parse_header(bytes(data[:ENOUGH]))
    size, at = header.chunk_size, header.size
    if size < 0:  # one chunk behind the header, which alone says how many bytes it holds
        size = int(HEADER.unpack_from(data, at)[4]) if len(data) >= at + HEADER.size else 0
    if not 0 < size <= _LARGEST:
        return False
    index = read_index(data, len(data), replace(column.shape, chunk_bytes=size, most=max(header.nchunks, 1)))
    if not isinstance(index, ChunkOffsets):
        return False
    for number in range(index.count):
        start, stop = index.span(number)
        chunk, nbytes = verify_chunk(data[start:stop], index, number)
        column.decode(chunk, np.empty(nbytes, np.uint8).data)
    return True


# Files that one thread examines in one go: each may hold a superchunk of many MiB.
FILES_PER_CHECK = 4
# A chunk that is replaced this often while it is read is left to its writer.
SUPERCHUNK_CHECK_TRIES = 5
_DAMAGE = (CorruptChunk, FormatError)
"""Errors of damaged bytes; any other, of the store or of a codec that is not there, says nothing of the bytes."""
_MANY = 1000
"""Missing superchunks in a row that are told, and written, one by one: a shape that lies may ask for 10**15 of them."""


def find_damage(folder: ArrayFolder, node: str, *, deep: bool, workers: int) -> Iterator[Finding]:
    """Yield each problem of the array at ``folder`` with what mends it; ``deep``: every digest is verified, and every
    chunk decoded, by several threads, each in the memory of one chunk."""
    spec, dtype = folder.labelled.spec, folder.labelled.spec.numpy_dtype
    stated, nbytes = folder.docs[SIZES].get("nbytes"), prod(spec.shape) * dtype.itemsize
    if stated != nbytes:
        message = f"meta/sizes says {stated!r:.30} bytes, {spec.shape} cells of {dtype} take {nbytes}"
        yield Finding(Problem(node, "sizes", message))
    source = folder.source(spec, exact=True)
    columns = source.columns if isinstance(source, Columns) else [((), source)]
    known = {"/".join(path[:depth]) for path, _ in columns for depth in range(len(path) + 1)}
    for place in (folder.root, folder.key(META)):
        abandoned = [stray for stray in folder.store.strays(place) if stray.is_abandoned]
        yield from (_unexpected_file(folder.store, node, place, stray) for stray in abandoned)
    for path in sorted(known):
        place = f"{source.keys.data}/{path}" if path else source.keys.data
        yield from _unexpected_files(folder, node, place, path, known)
    files = [_ColumnFiles(column, node, deep) for _, column in columns]
    findings = [finding for column in files for finding in column.examine(workers)]
    are_documents_wrong = stated != nbytes or any(column.are_documents_wrong for column in files)
    for finding in findings:
        # Where the documents are in question, nothing is done that would change cells by what they say.
        is_kept = finding.problem.kind == FOREIGN or not are_documents_wrong
        yield finding if is_kept else Finding(finding.problem)


def _unexpected_file(store: Store, node: str, place: str, stray: Stray) -> Finding:
    key = f"{place}/{stray.name}" if place else stray.name
    if stray.kind == "temporary":
        problem = Problem(node, stray.kind, f"{stray.name} is an unfinished write of a writer that is gone [key={key}]")
        return Finding(problem, "remove it", partial(store.expel, key, None))
    return Finding(Problem(node, stray.kind, f"{stray.name} is no data file [key={key}]"), "take it out", take=key)


def _unexpected_files(folder: ArrayFolder, node: str, place: str, path: str, known: set[str]) -> Iterator[Finding]:
    """Yield what is no value, or a folder that belongs to no field; what is in the way of a file is taken out first."""
    try:
        inner = folder.store.list_dir(place)[1]
    except StorageError as error:
        yield Finding(Problem(node, "unreadable-folder", f"{error.said} [key={place}]"))
        return
    for stray in folder.store.strays(place):
        if stray.kind != "temporary" or stray.is_abandoned:
            yield _unexpected_file(folder.store, node, place, stray)
    for name in inner:
        if (f"{path}/{name}" if path else name) not in known:
            key = f"{place}/{name}"
            yield found_foreign(node, f"the folder {name} belongs to no field", key)


class _ColumnFiles:
    """The files of one column."""

    def __init__(self, column: Superchunks, node: str, deep: bool) -> None:
        self._column = column
        self._node = node
        self._deep = deep
        self._found: list[tuple[int, Finding]] = []
        self._others: list[int] = []
        self._short: list[int] = []

    @property
    def are_documents_wrong(self) -> bool:
        """Return True if the documents do not describe the files: some are whole and of other chunks, or several are
        short, which no writer that was stopped leaves."""
        return bool(self._others) or len(self._short) > 1

    def examine(self, workers: int) -> Iterator[Finding]:
        """Yield all problems in the order of the files."""
        keys = self._column.keys
        try:
            places, others = keys.places()
        except StorageError as error:
            yield Finding(Problem(self._node, "unreadable-folder", f"{error.said} [key={keys.folder}]"))
            return
        for first, behind in _gaps(places, self._column.places):
            self._add_missing(first, behind)
        each_batch(self._examine_files, batched(places, FILES_PER_CHECK), workers)
        for name in others:
            self._found.append((1 << 62, found_foreign(self._node, f"{name} is no data file", keys.prefix + name)))
        yield from (finding for _, finding in sorted(self._found, key=lambda pair: pair[0]))

    def _add_missing(self, first: int, behind: int) -> None:
        """Tell of each superchunk from one to before another, which are missing, unless nobody would have them
        written."""
        if behind - first <= _MANY:
            for place in range(first, behind):
                self._add(place, "missing-superchunk", f"superchunk {place + 1} is missing", self._fill(place))
            return
        rows = f"{self._column.rows_of(first)[0]}:{self._column.rows_of(behind - 1)[1]}"
        message = f"superchunks {first + 1} to {behind} are missing, the rows {rows} read as the fill value; if the"
        message += f" array is not as long as {SIZES} says, make it shorter"
        self._found.append((first, Finding(Problem(self._node, "missing-superchunk", message))))

    def _fill(self, place: int) -> tuple[str, Callable[[], None]]:
        return "write fill values", partial(self._column.rewrite, place)

    def _add(
        self, place: int, kind: str, message: str, mend: tuple[str, Callable[[], None]] | None, **more: Any
    ) -> None:
        """Add a problem of a file, with its key and rows."""
        rows = self._column.rows_of(place)
        message = f"{message} [key={self._column.keys.key(place)}, rows {rows[0]}:{rows[1]}]"
        action, act = mend or (None, None)
        self._found.append((place, Finding(Problem(self._node, kind, message), action, act=act, **more)))

    def _examine_files(self, places: Iterable[int]) -> None:
        for place in places:
            if place >= max(self._column.places, 0 if self._column.shape.single else 1):
                key = self._column.keys.key(place)
                action = ("take it out", nothing)  # what is taken out leaves nothing to be done
                message = "the file lies behind the last row"
                self._add(place, "extra-superchunk", message, action, take=key, is_note=True)
            else:
                self._examine_file(place)

    def _examine_file(self, place: int) -> None:
        column, key = self._column, self._column.keys.key(place)
        try:
            index = column.index_at(place)
        except HyperslabError as error:
            if has_whole_chunks(column, place):
                self._others.append(place)
                message = f"{error.said}; its chunks are whole, so that the documents are in question"
                self._add(place, "other-cells", message, None)
                return
            if not isinstance(error, _DAMAGE):
                self._add(place, "not-decoded", error.said, None)
                return
            action = "take it out and write fill values"
            self._add(place, "damaged-superchunk", error.said, (action, self._fill(place)[1]), take=key)
            return
        if index is None:  # it went meanwhile
            return
        count = column.count(place)
        if index.count > max(count, 1):
            message = f"the file holds {index.count} chunks, the array has {count} there"
            self._add(place, "extra-chunks", message, ("cut them off", self._fill(place)[1]), keep=(key,), is_note=True)
        elif column.is_short(place):
            message = f"the file holds {index.count} chunks, the last of {index.last} bytes; the array has more there"
            self._short.append(place)
            self._add(place, "short-superchunk", message, self._fill(place))
        self._chunks(place, index, key)

    def _chunks(self, place: int, index: ChunkOffsets, key: str) -> None:
        """Examine each chunk; unless all are wanted, the last one: it is not whole in a file that is cut off."""
        column = self._column
        rest = (0,) * (len(column.grid.axes) - 1)
        scratch: Block | None = None
        for local in range(0 if self._deep else index.count - 1, index.count):
            coords = (column.numbering.first(place) + local, *rest) if column.grid.axes else ()
            if scratch is None:
                scratch = np.empty(column.grid.chunk_shape(coords), column.dtype)
            error = self._error(coords, scratch)
            if error is not None:
                first = column.rows_of(place)[0] + local * column.chunk_rows
                rows = f"{first}:{min(first + column.chunk_rows, column.rows_of(place)[1])}"
                action = f"write fill values in its place; the rows {rows} read as the fill value then"
                is_damaged = isinstance(error, _DAMAGE)
                act = (action, partial(column.blank_out, coords)) if is_damaged else None
                kind = "corrupt-chunk" if is_damaged else "not-decoded"
                self._add(place, kind, f"chunk {local}: {error.said}", act, keep=(key,) if act else ())
        if self._deep and counting.watchers:
            counting.done(1)

    def _error(self, coords: tuple[int, ...], scratch: Block) -> HyperslabError | None:
        """Return the error of reading one version of a chunk; one that is replaced meanwhile is read again."""
        found = None
        for _ in range(SUPERCHUNK_CHECK_TRIES):
            stamp = self._column.stamp(coords)
            try:
                self._column.read_into(coords, scratch)
            except HyperslabError as error:
                found = error
                if self._column.stamp(coords) == stamp:
                    return error
            else:
                return None
        return found


def _gaps(places: Iterable[int], count: int) -> Iterator[tuple[int, int]]:
    """Return the runs of the first ``count`` places that are not among ``places``, which are in order."""
    at = 0
    for place in places:
        if at < min(place, count):
            yield at, min(place, count)
        at = place + 1
    if at < count:
        yield at, count


# -- the table: all of it is found by the look above ------------------------------------------------------------------

RULES = Rules(
    Rule(
        ("missing-superchunk", "short-superchunk"),
        "a Blaze file that is missing, or ends before its last row",
        "the missing rows are filled with the fill value",
    ),
    Rule(
        ("damaged-superchunk",),
        "a Blaze file without a single complete chunk",
        "moved to quarantine; its rows read as the fill value",
    ),
    Rule(
        ("corrupt-chunk",),
        "a Blaze chunk that cannot be decoded",
        "replaced by fill values",
    ),
    Rule(
        ("extra-superchunk", "extra-chunks"),
        "a note: rows beyond the last one of a Blaze array, as left by a killed append",
        "truncated",
    ),
    Rule(
        (FOREIGN,),
        "a note: Blaze files that belong to no field",
        "left alone; `--drop-foreign` moves them to quarantine",
    ),
    Rule(
        ("temporary",),
        "unfinished writes of Blaze files",
        "removed",
    ),
    Rule(
        ("sizes", "shards"),
        "Blaze documents that contradict each other",
        "not repairable",
    ),
)
