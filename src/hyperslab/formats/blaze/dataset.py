"""Reading a directory: an array with its coordinates, or a table of bcolz or BLZ as a group of its columns."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.blaze.document import ATTRIBUTES, LABELS, SIZES, TABLE, ColumnStorage, parse_table
from hyperslab.formats.blaze.folder import ArrayFolder
from hyperslab.formats.blaze.rules import RULES, find_damage
from hyperslab.formats.format_errors import names_below, node_not_found, require_array
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.document import Doc, LabelledArray
from hyperslab.formats.single_array.reader import SingleArrayReader
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


class BlazeReader(SingleArrayReader):
    """A dataset open for reading, its directory as ``folder``.

    ``remembered`` holds values by key that were read before, None for missing ones.
    """

    def __init__(self, store: Store, settings: Settings, remembered: Mapping[str, bytes | None] | None = None) -> None:
        self.store: Store = store
        self._settings = settings
        self._mutex = threading.RLock()
        self.folder = self._open_folder("", remembered)
        self._columns: dict[str, ArrayFolder] | None = None
        self._is_table_read = False

    def _open_folder(self, root: str, remembered: Mapping[str, bytes | None] | None = None) -> ArrayFolder:
        return ArrayFolder(self.store, root, self._settings, remembered)

    @property
    def table(self) -> Mapping[str, ArrayFolder] | None:
        """The columns of a table by name; None for an array."""
        with self._mutex:
            if not self._is_table_read:
                doc = self.folder.document(TABLE)
                if doc is not None:
                    self._columns = {name: self._open_folder(folder) for name, folder in parse_table(doc).items()}
                self._is_table_read = True
            return self._columns

    @property
    def url(self) -> str:
        """The URL of the directory."""
        return self.store.url

    @property
    def labelled(self) -> LabelledArray:
        """The array with its coordinates."""
        return self.folder.labelled

    @property
    def main(self) -> str | None:
        """The name of the array; None for a table."""
        return None if self.table is not None else super().main

    def children(self, path: str) -> list[str]:
        """Return the array and its coordinates, or the columns of a table."""
        return names_below(self.node(path), self._names())

    def _names(self) -> list[str]:
        return self.labelled.names if self.table is None else list(self.table)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the group, the array, a coordinate, or a field of the array that is stored on its own."""
        if self.table is None:
            return super().node(path)
        if not path:
            return GroupSpec(attrs=self.folder.document(ATTRIBUTES["bcolz"]) or {})
        return self._column(path).labelled.spec

    def field(self, path: str) -> tuple[ArraySpec, ChunkSource]:
        """Return the field of the array that is stored on its own at ``path``, and its chunks; NodeNotFound."""
        return self.folder.field(tuple(path.split("/"))) or super().field(path)

    def _column(self, path: str) -> ArrayFolder:
        columns = self.table or {}
        if path not in columns:
            raise node_not_found(path, self.url)
        return columns[path]

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of an array."""
        try:
            if self.table is None:
                return super().chunks(path)
            spec = require_array(path, self.node(path), self.url)
            return self._column(path).source(spec)
        except HyperslabError as error:
            raise error.locate(url=self.url, node=path) from error.__cause__

    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of the array."""
        return self.folder.source(spec)

    def storage(self, path: str) -> Doc:
        """Return the layout of the directory, its checksum, its superchunks and how many chunks are in each."""
        spec = self.node(path)
        if not spec.is_array or "blaze" not in spec.layout:
            return {}
        storing = ColumnStorage.of(spec)
        doc: Doc = {"layout": storing.layout, "checksum": storing.checksum}
        if path == self.main and self.folder.is_uneven:
            return doc | {"superchunks": "of different lengths"}
        return doc | {"superchunks": Grid.of(spec.shape, spec.chunks).size, "chunks_in_each": storing.per}

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield every problem of the data files, with what mends it."""
        if self.table is not None:
            for name, folder in self.table.items():
                try:
                    yield from map(RULES.with_rule, find_damage(folder, name, deep=deep, workers=workers))
                except HyperslabError as error:
                    listed = error.problems if isinstance(error, FormatError) else ()
                    problems = [replace(problem, node=name) for problem in listed]
                    yield from map(Finding, problems or [Problem(name, "unreadable-node", error.message)])
        else:
            found = find_damage(self.folder, self.labelled.name, deep=deep, workers=workers)
            yield from map(RULES.with_rule, found)

    def refresh(self, path: str) -> None:
        """Read the documents anew when they are needed."""
        with self._mutex:
            for folder in (self.folder, *(self._columns or {}).values()):
                folder.forget()

    def stamp(self, path: str) -> Hashable:
        """Return what identifies the present version of the documents; None where the store cannot tell."""
        if not self.store.traits.stamped:
            return None
        folder = self._column(path) if path and self.table is not None else self.folder
        names = (SIZES, LABELS, *ATTRIBUTES.values())
        stamps = tuple(self.store.stamp(folder.key(name)) for name in names)
        return None if all(stamp is None for stamp in stamps) else stamps

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()
