"""One array's directory in a store: its documents, the spec that they mean, and the chunks below ``data``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.blaze.columns import Columns, column_spec, fill_of
from hyperslab.formats.blaze.counting import count_chunks
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
    parse,
)
from hyperslab.formats.blaze.keys import DataKeys
from hyperslab.formats.blaze.numbering import counts_of
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.blaze.swapped import SwappedSuperchunks
from hyperslab.formats.documents import read_document
from hyperslab.formats.one_array import Labelled
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import PutMany, Store, WritableStore

Hold = Callable[[float | None], AbstractContextManager[None]]
Note = Callable[[], None]


class ArrayFolder:
    """The directory of an array at ``root`` of a store (a column of a table, or the whole). ``remembered``: values by
    key that were read before; ``hold``: what locks the array where chunks cannot be; ``note``: called by each write."""

    def __init__(
        self,
        store: Store,
        root: str,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
        hold: Hold | None = None,
        note: Note | None = None,
    ) -> None:
        self.store: Any = store
        self.root = root
        self._settings = settings
        self._remembered = dict(remembered or {})
        self._hold = hold
        self._note = note
        self._docs: dict[str, dict[str, Any]] | None = None
        self._labelled: Labelled | None = None
        self._counts: dict[Field, list[int]] = {}

    def key(self, name: str) -> str:
        """The key of a document or folder in the directory."""
        return f"{self.root}/{name}" if self.root else name

    def forget(self) -> None:
        """Read the documents anew when they are needed."""
        self._remembered.clear()
        self._docs = self._labelled = None

    # -- documents --------------------------------------------------------------------------------------------------

    @property
    def docs(self) -> dict[str, dict[str, Any]]:
        """The documents that are there."""
        found = self._docs  # another thread may forget it
        if found is None:
            names = (STORAGE, SIZES, SUPERCHUNKS, LABELS, *ATTRIBUTES.values())
            found = {name: doc for name in names if (doc := self.document(name)) is not None}
            self._docs = found
        return found

    def document(self, name: str) -> dict[str, Any] | None:
        """One document; FormatError when it is no JSON object."""
        key = self.key(name)
        data = self._remembered.pop(key) if key in self._remembered else self.store.get(key)
        return None if data is None else read_document(data, key)

    @property
    def labelled(self) -> Labelled:
        """The array with its labels; NodeNotFound when there is none, FormatError with every problem."""
        found = self._labelled
        if found is None:
            try:
                found = self._labelled = self._parse(self.docs)
            except HyperslabError as error:
                raise error.locate(url=self.store.url, node=self.root) from error.__cause__
        return found

    def _parse(self, docs: dict[str, dict[str, Any]]) -> Labelled:
        if STORAGE not in docs or SIZES not in docs:
            raise NodeNotFound("there is no array", node=self.root)
        layout = self._layout(docs)
        if layout == "bcolz" or SUPERCHUNKS in docs:
            return parse(docs, layout)
        rowwise = any(name.endswith(".bin") for name in self.store.list_dir(self.key(DATA))[0])
        self._counts = {}
        labelled = parse(docs, layout, 1, rowwise=rowwise)
        return parse(docs, layout, self._chunks_in_each(labelled.spec), rowwise=rowwise)

    @property
    def is_uneven(self) -> bool:
        """Return whether the superchunks have different numbers of chunks, so that where each chunk is, is told by
        all.
        """
        return bool(self.labelled and self._counts)

    def take(self, labelled: Labelled, docs: dict[str, dict[str, Any]]) -> None:
        """Remember what was just written."""
        self._docs = docs
        self._labelled = labelled

    def _layout(self, docs: dict[str, dict[str, Any]]) -> str:
        """``blaze`` or ``bcolz`` (BLZ is alike), by the documents or else by the names of the data files."""
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
            found[path], counts = counts_of(there, column.chunks, "/".join(path))
            each[path] = counts or [found[path] if count is None else count for count in there]
            found[path] = 0 if counts else found[path]
        if len(set(found.values())) == 1 and 0 not in found.values():
            return next(iter(found.values()))
        self._counts = each
        return 1

    # -- chunks -----------------------------------------------------------------------------------------------------

    def source(self, spec: ArraySpec, *, exact: bool = False) -> Superchunks | Columns:
        """The chunks under ``spec``. ``exact``: what lies behind its last row is cut off by a write."""
        layout = ColumnStorage.of(spec).layout
        fields = columns(spec.numpy_dtype) if _in_columns(spec) else [((), spec.numpy_dtype)]
        if fields[0][0] == ():
            keys = self._keys((), layout)
            kind = SwappedSuperchunks if keys.swaps else Superchunks
            return kind(keys, spec, exact=exact, counts=self._counts.get(()))
        found = []
        for path, dtype in fields:
            inner = column_spec(spec, path, dtype)
            keys, counts = self._keys(path, layout), self._counts.get(path)
            column = Superchunks(keys, inner, fill_of(spec, path), exact=exact, counts=counts)
            found.append((path, column))
        return Columns(spec, found, self._hold if found[0][1].keys.swaps else None)

    def _keys(self, path: Field, layout: str) -> DataKeys:
        return DataKeys(self.store, self.root, path, layout, self._settings, self._note)

    def field(self, path: Field) -> tuple[ArraySpec, Superchunks | Columns] | None:
        """A field of a field … that is stored on its own, as an array; None when there is none of these names."""
        spec = self.labelled.spec
        dtype = field_at(spec.numpy_dtype, path)
        if dtype is None or not path or not _in_columns(spec):
            return None
        whole = self.source(spec)
        assert isinstance(whole, Columns)
        inner = [(names[len(path) :], column) for names, column in whole.columns if names[: len(path)] == path]
        if inner[0][0] == ():
            return column_spec(spec, path, dtype), inner[0][1]
        narrow = spec.evolve(dtype=dtype, fill_value=fill_of(spec, path)[()], attrs={})
        return narrow, Columns(narrow, inner, self._hold if whole.keys.swaps else None)


def _in_columns(spec: ArraySpec) -> bool:
    """Return whether the fields of structures are stored apart."""
    said: Mapping[str, Any] = spec.layout.get("blaze", {})
    return ColumnStorage.of(spec).layout == "blaze" and not said.get("rowwise")


def publish(
    store: WritableStore,
    docs: Mapping[str, Mapping[str, Any] | None],
    before: Mapping[str, Any],
    *,
    durable: bool,
) -> None:
    """Store documents, the sizes last; None: it goes, if it was there ``before``."""
    values = [(key, document_bytes(doc)) for key, doc in docs.items() if doc is not None]
    last = [pair for pair in values if pair[0].endswith(SIZES)]
    rest = [pair for pair in values if pair not in last]
    for key, doc in docs.items():
        if doc is None and any(key.endswith(name) for name in before):
            store.delete(key, durable=durable)
    for pairs in (rest, last):
        if pairs and isinstance(store, PutMany):
            store.put_many(pairs, durable=durable)
        else:
            for key, value in pairs:
                store.put(key, value, durable=durable)
