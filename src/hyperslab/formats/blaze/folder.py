"""The directory of one array in a store: its documents, the spec that they mean, the chunks of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import batched
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, DecodingSource
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound
from hyperslab.formats.blaze.column import Column, DataKeys, FetchedChunks, chunk_counts
from hyperslab.formats.blaze.data_file import ChunkOffsets, read_index
from hyperslab.formats.blaze.document import (
    ATTRIBUTES,
    DATA,
    LABELS,
    SIZES,
    STORAGE,
    SUPERCHUNKS,
    ColumnStorage,
    Field,
    columns,
    document_bytes,
    field_at,
    other_layout,
    parse_documents,
    to_blaze_spec,
)
from hyperslab.formats.blaze.superchunks import CasSuperchunks, Superchunks
from hyperslab.formats.bloscpack.preamble import ENOUGH, parse_header
from hyperslab.formats.documents import read_document
from hyperslab.formats.single_array.document import Doc, Document, LabelledArray
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.base import Store

# -- chunks in each data file of a column, where no document says it ------------------------------------------------


# Files whose headers one thread reads in one go.
HEADERS_PER_TASK = 16
MOST_CHUNKS_IN_HEADER = 1 << 32
"""Chunks of a file that counts its own, as many as a document may say."""


def count_chunks(column: Column) -> list[int | None]:
    """Return the chunks in each file of a column, in order; None for one that is missing or makes no sense."""
    places = column.keys.places()[0]
    found: dict[int, int | None] = {}

    def work(batch: Iterable[int]) -> None:
        for place in batch:
            try:
                found[place] = _count(column, column.keys.key(place))
            except HyperslabError:
                found[place] = None

    each_batch(work, batched(places, HEADERS_PER_TASK), column.keys.settings.threads)
    last = min(places[-1] + 1, len(places) + column.chunks) if places else 0
    return [found.get(place) for place in range(last)]


def _count(column: Column, key: str) -> int | None:
    store = column.keys.store
    head = store.get_ranges(key, [(0, ENOUGH)])
    if head is None:
        return None
    header = parse_header(head[0])
    if header.nchunks > MOST_CHUNKS_IN_HEADER:
        raise FormatError(f"{header.nchunks} chunks in a superchunk")
    if header.nchunks >= 0:
        return max(1, header.nchunks)
    require(column.keys.size(key) or 0, None)
    data = store.get(key)
    if data is None:
        return None
    index = read_index(data, len(data), replace(column.shape, most=MOST_CHUNKS_IN_HEADER))
    return index.count if isinstance(index, ChunkOffsets) else None


# -- structured arrays: each innermost field is a column of its own -------------------------------------------------
#
# The columns of a nested field lie in folders within that of the field. Reading a field reads its columns alone.


def column_spec(spec: ArraySpec, path: Field, dtype: NumpyDType) -> ArraySpec:
    """Return a field of ``spec`` as an array of its own: cells that are arrays become more dimensions."""
    base, shape = dtype.subdtype or (dtype, ())
    fill = field_of(spec.fill_cell(), path)
    storing = ColumnStorage.of(spec)
    config = {key: value for key, value in storing.codec.config.items() if key != "typesize"}
    if base.names is None:
        config["typesize"] = base.itemsize
    rows = spec.shape or (1,)
    column = spec.evolve(
        shape=(*rows, *shape),
        dtype=base,
        dims=(*(spec.dims or (None,)), *([None] * len(shape))),
        fill_value=None if fill.shape and (fill != fill.flat[0]).any() else fill.flat[0],
        attrs={},
    )
    storing = replace(storing, codec=Codec("blosc", config), rows=storing.rows if spec.shape else 1)
    return to_blaze_spec(column, storing, **other_layout(spec))


def field_of(cells: Block, path: Field) -> Block:
    """Return the field of structured cells that these names lead to, one within the other."""
    for name in path:
        cells = cells[name]
    return cells


class FetchedColumns(ChunkReader):
    """The stored bytes of chunks of all columns, to be decoded."""

    def __init__(self, source: Columns, fetched: Sequence[FetchedChunks | Superchunks]) -> None:
        self.grid = source.grid
        self._source = source
        self._fetched = fetched

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Put the chunk together in ``out``; False when no column has it."""
        return self._source.assemble(self._fetched, coords, out)


class Columns(DecodingSource):
    """The chunks of a structured array. ``columns``: each with the names that lead to its field."""

    def __init__(
        self,
        spec: ArraySpec,
        columns: Sequence[tuple[Field, Superchunks]],
        hold: Callable[[float | None], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._spec = spec
        self.columns = columns
        self._hold = hold
        first = columns[0][1]
        self._first = first
        self.keys = first.keys
        self.places = first.places
        """Superchunks that each column has."""
        self.traits = replace(first.traits, swaps=False, reads_stamps=False, transacts=hold is not None)
        outer = Grid.of(spec.shape, spec.chunks) if spec.inner_chunks else None
        self.grid = Grid.of(spec.shape, spec.inner_chunks or spec.chunks, outer)
        self._fill = spec.fill_cell()

    def of_field(self, name: str) -> tuple[ArraySpec, Columns]:
        dtype = self._spec.numpy_dtype
        assert dtype.fields is not None
        narrow = np.dtype([(name, dtype.fields[name][0])])
        fill = np.zeros((), narrow)
        fill[name] = self._fill[name]
        spec = self._spec.evolve(dtype=narrow, fill_value=fill[()])
        chosen = [(names, column) for names, column in self.columns if names[0] == name]
        return spec, Columns(spec, chosen, self._hold)

    def _local(self, column: Superchunks, coords: Coords) -> Coords:
        """Return the chunk of a column that holds its part of a chunk."""
        return (coords or (0,)) + (0,) * (len(column.grid.axes) - max(len(coords), 1))

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> FetchedColumns:
        """Get what is stored of these chunks, column by column."""
        return FetchedColumns(
            self, [column.fetch([self._local(column, each) for each in coords]) for _, column in self.columns]
        )

    def assemble(self, sources: Sequence[FetchedChunks | Superchunks], coords: Coords, out: Block) -> bool:
        """Put a chunk together of those of all columns."""
        found = False
        for (path, column), source in zip(self.columns, sources, strict=True):
            local, target = self._local(column, coords), field_of(out, path)
            block = np.empty(column.grid.chunk_shape(local), column.dtype)
            if source.read_into(local, block):
                found = True
                target[...] = block.reshape(target.shape)
            else:
                target[...] = field_of(self._fill, path)
        return found

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Put the chunk together in ``out``; False when it was never written."""
        return self.assemble([column for _, column in self.columns], coords, out)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, coords: Coords, block: Block) -> None:
        self.write_batch([(coords, block)], durable=self.keys.settings.durable)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Store chunks: the files of all columns are shown together."""
        self.keys.require_writable()
        kept = list(pairs)
        files: list[tuple[str, memoryview]] = []
        for path, column in self.columns:
            blocks = []
            for coords, block in kept:
                local, cells = self._local(column, coords), field_of(block, path)
                blocks.append((local, np.ascontiguousarray(cells).reshape(column.grid.chunk_shape(local))))
            files += column.files(column.encode_chunks(blocks))
        self.keys.put_many(files, durable)

    def erase(self, coords: Coords) -> None:
        """Set one chunk to the fill value."""
        self.erase_batch([coords])

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Set chunks to the fill value; files of which nothing is left go."""
        for _, column in self.columns:
            column.erase_batch([self._local(column, each) for each in coords])

    def complete(self, first: int) -> None:
        """Write the superchunks from ``first`` on that are missing or shorter than the array, with fill values."""
        for _, column in self.columns:
            column.complete(first)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> object:
        """Return what identifies the stored version of the chunk in every column."""
        stamps = tuple(column.stamp(coords or (0,)) for _, column in self.columns)
        return None if all(stamp is None for stamp in stamps) else stamps

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Do all of a write under one lock of the array, where chunks have none."""
        return nullcontext() if self._hold is None else self._hold(timeout)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the superchunks of these chunks against other writers, where the store can."""
        return self._first.lock([each or (0,) for each in coords], timeout)

    def stored_coords(self) -> Iterator[Coords]:
        """Yield the coordinates of every chunk that any column has."""
        seen: set[int] = set()
        for _, column in self.columns:
            seen.update(coords[0] for coords in column.stored_coords())
        rest = (0,) * (len(self.grid.axes) - 1)
        yield from ((number, *rest) if self.grid.axes else () for number in sorted(seen))

    def nbytes_stored(self) -> int:
        """Return the bytes of all data files."""
        return sum(column.nbytes_stored() for _, column in self.columns)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of the files that these chunks lie in."""
        places = [each or (0,) for each in coords]
        return sum(column.stored_sizes(places) for _, column in self.columns)


Hold = Callable[[float | None], AbstractContextManager[None]]
OnWrite = Callable[[], None]


class ArrayFolder:
    """The directory of an array at ``root`` of a store (a column of a table, or the whole). ``remembered``: values by
    key that were read before; ``hold``: locks the array where chunks cannot be locked; ``on_write``: called before
    each write."""

    def __init__(
        self,
        store: Store,
        root: str,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
        hold: Hold | None = None,
        on_write: OnWrite | None = None,
    ) -> None:
        self.store = store
        self.root = root
        self._settings = settings
        self._remembered = dict(remembered or {})
        self._hold = hold
        self._on_write = on_write
        self._docs: dict[str, Doc] | None = None
        self._labelled: LabelledArray | None = None
        self._counts: dict[Field, list[int]] = {}

    def key(self, name: str) -> str:
        """Return the key of a document or folder in the directory."""
        return f"{self.root}/{name}" if self.root else name

    def forget(self) -> None:
        """Read the documents anew when they are needed."""
        self._remembered.clear()
        self._docs = self._labelled = None

    # -- documents --------------------------------------------------------------------------------------------------

    @property
    def docs(self) -> dict[str, Doc]:
        """The documents that are there."""
        found = self._docs  # another thread may forget it
        if found is None:
            names = (STORAGE, SIZES, SUPERCHUNKS, LABELS, *ATTRIBUTES.values())
            found = {name: doc for name in names if (doc := self.document(name)) is not None}
            self._docs = found
        return found

    def document(self, name: str) -> Doc | None:
        """Return one document, None where it is missing; FormatError when it is no JSON object."""
        key = self.key(name)
        data = self._remembered.pop(key) if key in self._remembered else self.store.get(key)
        return None if data is None else read_document(data, key)

    @property
    def labelled(self) -> LabelledArray:
        """The array with its labels; NodeNotFound when there is none, FormatError with every problem."""
        found = self._labelled
        if found is None:
            try:
                found = self._labelled = self._parse(self.docs)
            except HyperslabError as error:
                raise error.locate(url=self.store.url, node=self.root) from error.__cause__
        return found

    def _parse(self, docs: dict[str, Doc]) -> LabelledArray:
        if STORAGE not in docs or SIZES not in docs:
            raise NodeNotFound("there is no array", node=self.root)
        layout = self._layout(docs)
        if layout == "bcolz" or SUPERCHUNKS in docs:
            return parse_documents(docs, layout)
        rowwise = any(name.endswith(".bin") for name in self.store.list_dir(self.key(DATA))[0])
        self._counts = {}
        labelled = parse_documents(docs, layout, 1, rowwise=rowwise)
        return parse_documents(docs, layout, self._chunks_in_each(labelled.spec), rowwise=rowwise)

    @property
    def is_uneven(self) -> bool:
        """Return True if the superchunks have different numbers of chunks, so that where each chunk is, is told by
        all.
        """
        return bool(self.labelled and self._counts)

    def take(self, labelled: LabelledArray, docs: dict[str, Doc]) -> None:
        """Remember what was just written."""
        self._docs = docs
        self._labelled = labelled

    def _layout(self, docs: dict[str, Doc]) -> str:
        """Return ``blaze`` or ``bcolz`` (BLZ is alike), by the documents or else by the names of the data files."""
        if SUPERCHUNKS in docs or ATTRIBUTES["bcolz"] not in docs:
            names = [] if SUPERCHUNKS in docs else self.store.list_dir(self.key(DATA))[0]
            return "bcolz" if any(name.endswith(".blp") for name in names) else "blaze"
        return "bcolz"

    def _chunks_in_each(self, spec: ArraySpec) -> int:
        """Return chunks in a superchunk, as the headers of all files say: 1 where they differ, and then it is
        remembered how many are in each."""
        found, each = {}, {}
        source = self.source(spec)
        columns = source.columns if isinstance(source, Columns) else [((), source)]
        for path, column in columns:
            there = count_chunks(column)
            found[path], counts = chunk_counts(there, column.chunks, "/".join(path))
            each[path] = counts or [found[path] if count is None else count for count in there]
            found[path] = 0 if counts else found[path]
        if len(set(found.values())) == 1 and 0 not in found.values():
            return next(iter(found.values()))
        self._counts = each
        return 1

    # -- chunks -----------------------------------------------------------------------------------------------------

    def source(self, spec: ArraySpec, *, exact: bool = False) -> Superchunks | Columns:
        """Return the chunks under ``spec``. ``exact``: what lies behind its last row is cut off by a write."""
        layout = ColumnStorage.of(spec).layout
        fields = columns(spec.numpy_dtype) if _in_columns(spec) else [((), spec.numpy_dtype)]
        if fields[0][0] == ():
            keys = self._keys((), layout)
            kind = CasSuperchunks if keys.uses_compare_and_swap else Superchunks
            return kind(keys, spec, exact=exact, counts=self._counts.get(()))
        found = []
        for path, dtype in fields:
            inner = column_spec(spec, path, dtype)
            keys, counts = self._keys(path, layout), self._counts.get(path)
            column = Superchunks(keys, inner, field_of(spec.fill_cell(), path), exact=exact, counts=counts)
            found.append((path, column))
        return Columns(spec, found, self._hold if found[0][1].keys.uses_compare_and_swap else None)

    def _keys(self, path: Field, layout: str) -> DataKeys:
        return DataKeys(self.store, self.root, path, layout, self._settings, self._on_write)

    def field(self, path: Field) -> tuple[ArraySpec, Superchunks | Columns] | None:
        """Return a field of a field … that is stored on its own, as an array; None when there is none of these
        names."""
        spec = self.labelled.spec
        dtype = field_at(spec.numpy_dtype, path)
        if dtype is None or not path or not _in_columns(spec):
            return None
        whole = self.source(spec)
        assert isinstance(whole, Columns)
        inner = [(names[len(path) :], column) for names, column in whole.columns if names[: len(path)] == path]
        if inner[0][0] == ():
            return column_spec(spec, path, dtype), inner[0][1]
        narrow = spec.evolve(dtype=dtype, fill_value=field_of(spec.fill_cell(), path)[()], attrs={})
        return narrow, Columns(narrow, inner, self._hold if whole.keys.uses_compare_and_swap else None)


def _in_columns(spec: ArraySpec) -> bool:
    """Return True if the fields of structures are stored apart."""
    layout: Document = spec.layout.get("blaze", {})
    return ColumnStorage.of(spec).layout == "blaze" and not layout.get("rowwise")


def publish(
    store: Store,
    docs: Mapping[str, Document | None],
    before: Document,
    *,
    durable: bool,
) -> None:
    """Store documents, the sizes last; None: it goes, if it was there ``before``."""
    values = [(key, document_bytes(doc)) for key, doc in docs.items() if doc is not None]
    # The sizes say how many rows there are, so they come when all else that tells of these rows is there.
    last = [pair for pair in values if pair[0].endswith(SIZES)]
    rest = [pair for pair in values if pair not in last]
    for key, doc in docs.items():
        if doc is None and any(key.endswith(name) for name in before):
            store.delete(key, durable=durable)
    for pairs in (rest, last):
        if pairs:
            store.put_many(pairs, durable=durable)
