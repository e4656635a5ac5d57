"""The Reader of netCDF files: specs through the library, cells by pread where the layout is known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import CorruptChunk, ExternalLinkRefused, Problem, Replaced, Unsupported
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import dataset_closed, node_not_found, require_array, require_no_link
from hyperslab.formats.hdf5.cells import (
    NO_REPAIR,
    ContiguousCells,
    Hdf5Chunks,
    SourceTypes,
    check_chunk_sizes,
    open_chunk_source,
)
from hyperslab.formats.hdf5.filters import list_plugin_filters, require_filters
from hyperslab.formats.hdf5.types import Place, is_bool
from hyperslab.formats.netcdf import library, parser
from hyperslab.formats.netcdf.classic import cell_spans
from hyperslab.formats.netcdf.library import FindVariable, LibraryChunks
from hyperslab.formats.netcdf.open_file import FileDescriptor, OpenNetcdfFile, share_open_file
from hyperslab.formats.netcdf.parser import find_omissions
from hyperslab.model.dtypes import VlenString, is_fixed
from hyperslab.model.paths import is_name, split
from hyperslab.model.refs import Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.stores.files import version_of
from hyperslab.stores.location import Location
from hyperslab.stores.stored_file import StoredFile

if TYPE_CHECKING:
    import h5py


class RecordChunks(LibraryChunks):
    """A variable of netCDF-3 whose cells lie in records, between those of other variables; ``starts``: the first byte
    of each."""

    def __init__(
        self, find: FindVariable, spec: ArraySpec, url: str, node: str, file: StoredFile, starts: Sequence[int]
    ) -> None:
        super().__init__(find, spec, url, node)
        self._file = file
        self._starts = starts

    def locations(self) -> ChunkLocations:
        """Return each record as a chunk; all as one where they follow each other."""
        shape, stored = self._spec.shape, self._spec.numpy_dtype.newbyteorder(">")
        row, starts = (1, *shape[1:]), np.array(self._starts, np.int64)
        size = prod(row) * stored.itemsize
        if len(starts) > 1 and bool((np.diff(starts) == size).all()):
            return ChunkLocations.of_cells(self._file, shape, stored, starts[:1])
        return ChunkLocations.of_cells(self._file, row, stored, starts)


class NetcdfReader(Reader):
    """One version of a netCDF file, read-only. ``fast=False`` reads every cell through the library."""

    has_omissions = True

    def __init__(self, path: str, url: str, *, fast: bool = True) -> None:
        opened = share_open_file(self, path, url)
        self._file: OpenNetcdfFile | None = opened
        self._url = url
        self._fast = fast
        self.has_links = bool(opened.outside)
        self._specs: dict[str, GroupSpec | ArraySpec] = {}
        self._sound: set[str] = set()

    @property
    def model(self) -> str:
        """netCDF's name of the data model, such as ``NETCDF4``."""
        return self._opened().model

    def made_up_dimensions(self) -> set[Place]:
        """Return the dimensions that the library gives axes of plain HDF5, which the file has none of."""
        opened = self._opened()
        with library.read_locked(self._url, ""):
            return set() if opened.hdf5 is None else set(opened.list_made_up())

    def named_bools(self) -> set[str]:
        """Return the names of the types of booleans in the root."""
        return {name for name, kind in self._opened().types.of("").items() if is_bool(kind)}

    @property
    def limit(self) -> Unsupported | None:
        """Why the netCDF library does not open the file, so that it is read through h5py alone."""
        return self._opened().limit

    def _opened(self) -> OpenNetcdfFile:
        if self._file is None:
            raise dataset_closed(self._url)
        if self._file.is_overwritten:
            message = "the file was overwritten in place since it was opened"
            raise Replaced(message, url=self._url)
        return self._file

    def children(self, path: str) -> list[str]:
        """Return the names of the variables, then of the groups, right below a group, and of links to other files."""
        opened = self._opened()
        links = [split(place) for place in opened.outside]
        with library.read_locked(self._url, path):
            if opened.group(path) is not None:
                below = [name for folder, name in links if folder == path and is_name(name)]
                return [*parser.list_children(opened, path), *below]
        self.node(path)
        return []

    def node(self, path: str) -> Node:
        """Return the group or array at ``path``, or the link to another file."""
        opened = self._opened()
        if path in opened.outside:
            return opened.outside[path]
        found = self._specs.get(path)
        if found is None:
            try:
                found = self._specs[path] = self._parse(path)
            except CorruptChunk:  # perhaps of an attribute
                self._opened().keep_open()
                raise
        return found

    def _parse(self, path: str) -> GroupSpec | ArraySpec:
        opened = self._opened()
        with library.read_locked(self._url, path):
            if opened.group(path) is not None:
                return parser.parse_group(opened, path)
            parent, _, name = path.rpartition("/")
            is_array = opened.variable(path) is not None
            if not is_array and opened.hdf5 is not None and opened.group(parent) is not None:
                is_array = name in parser.list_children(opened, parent)
            if is_array:
                return parser.parse_array(opened, path)
        raise node_not_found(path, self._url)

    def place_of(self, pointer: Pointer) -> Location | None:
        """Return None for this file; ExternalLinkRefused for a pointer to another one."""
        if pointer.source in ("", "."):
            return None
        message = f"a link leads to {pointer}, in another file, and is not followed"
        raise ExternalLinkRefused(message, url=self._url, remedy="open that file by its own place")

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of the variable at ``path``: by pread and our codecs where they are known, else by the
        library."""
        spec = require_array(path, require_no_link(self.node(path), path, "netcdf", self._url), self._url)
        if spec.problem is not None:
            raise Unsupported(spec.problem, url=self._url, node=path)
        fast = self._fast_chunks(path, spec) if self._fast and is_fixed(spec.dtype) else None
        if fast is not None:
            return fast
        is_shown = self._opened().variable(path) is not None and parser.MISREAD not in spec.layout
        if self._opened().hdf5 is not None and list_plugin_filters(spec.codecs):
            require_filters(spec.codecs, self._url, path)
            is_shown = False
        find = self._find if is_shown else self._find_hidden
        header = self._opened().header
        variable = None if header is None or not self._fast else header.find(path)
        if header is not None and variable is not None and variable.record:
            starts = [start for start, _ in cell_spans(header, path)][: spec.shape[0]]
            return RecordChunks(lambda: find(path), spec, self._url, path, self._stored_file(), starts)
        return LibraryChunks(lambda: find(path), spec, self._url, path)

    def _stored_file(self) -> StoredFile:
        return StoredFile.of_path(self._url, os.fstat(self._opened().descriptor))

    def _check_sizes(self, path: str) -> None:
        """Raise CorruptChunk for an array with chunks that end the process when the library decodes them."""
        if path not in self._sound:
            stored = self._opened().hdf5_dataset(path)
            if stored is not None:
                check_chunk_sizes(stored, self._url)
            self._sound.add(path)

    def unreadable(self) -> dict[str, CorruptChunk]:
        """Return the errors of the arrays, among those whose specs were read, that the library must not read."""
        found = {}
        for path, spec in self._specs.items():
            try:
                if spec.is_array and spec.codecs:
                    with library.read_locked(self._url, path):
                        self._check_sizes(path)
            except CorruptChunk as error:
                found[path] = error.locate(node=path)
        return found

    def _find(self, path: str) -> object:
        self._check_sizes(path)
        return self._opened().variable(path)

    def _find_hidden(self, path: str) -> h5py.Dataset | None:
        self._check_sizes(path)
        stored = self._opened().hdf5_dataset(path)
        spec = self.node(path)
        if stored is None or not spec.is_array:
            return stored
        if stored.dtype.kind == "c":  # what h5py makes of a row of two numbers, r and i
            return stored.astype(spec.numpy_dtype)
        return stored.asstr() if isinstance(spec.dtype, VlenString) else stored

    def _fast_chunks(self, path: str, spec: ArraySpec) -> ChunkSource | None:
        opened = self._opened()
        file, source_types = self._cell_source()
        if opened.header is not None:
            variable = opened.header.find(path)
            if variable is None or variable.record:
                return None
            # Without records the cells of netCDF-3 lie in one piece, big-endian.
            return source_types[0](file, variable.begin, spec, spec.numpy_dtype.newbyteorder(">"), self._url)
        with library.read_locked(self._url, path):
            stored = opened.hdf5_dataset(path)
            return None if stored is None else open_chunk_source(stored, file, spec, self._url, source_types)

    def _cell_source(self) -> tuple[Any, SourceTypes]:
        """Return what the cells are read from, and the classes that read them."""
        opened = self._opened()
        return FileDescriptor.of(opened), (ContiguousCells, partial(Hdf5Chunks, can_be_repaired=opened.is_changeable))

    def omitted(self, path: str) -> list[Problem]:
        """Return what HDF5 holds at a node and netCDF has no type for: references above all."""
        opened, spec = self._opened(), self.node(path)
        if spec.is_link:
            return []
        with library.read_locked(self._url, path):
            return list(find_omissions(opened, path, spec))

    def lost_by_rewriting(self) -> list[Problem]:
        """Return what a file that is made of what is shown of this one would lack."""
        problems = list(self.omitted_below(""))
        specs = [(path, spec) for path, spec in self._specs.items() if spec.is_array]
        problems += [Problem(path, "cells", spec.problem) for path, spec in specs if spec.problem is not None]
        words = "the netCDF library takes {}"
        misread = [(path, spec.layout[parser.MISREAD]) for path, spec in specs if parser.MISREAD in spec.layout]
        return problems + [Problem(path, "cells", words.format(what)) for path, what in misread]

    def repair_problem(self) -> str | None:
        """Return why the library cannot change the file, and what works instead; None where it can."""
        is_changeable = self._opened().is_changeable()
        return None if is_changeable else f"the netCDF library cannot change this HDF5 file; {NO_REPAIR}"

    def stamp(self, path: str) -> tuple[int, int, int]:
        """Return what identifies the version of the file that is open here."""
        return version_of(os.fstat(self._opened().descriptor))

    def close(self) -> None:
        opened, self._file = self._file, None
        if opened is not None:
            opened.leave(self)
