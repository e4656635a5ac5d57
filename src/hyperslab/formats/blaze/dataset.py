"""Reading a directory: an array with its coordinates, or a table of bcolz or BLZ as a group of its columns.

Shards are directories that hold the superchunks of one array one after another, on whatever stores.
They are read as one.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, SourceTraits
from hyperslab.errors import FormatError, HyperslabError, Invalid, Problem, ReadOnly, Unsupported
from hyperslab.formats.blaze.document import (
    ATTRIBUTES,
    LABELS,
    SIZES,
    TABLE,
    ColumnStorage,
    parse_table,
    to_blaze_spec,
    with_whole_rows,
)
from hyperslab.formats.blaze.folder import ArrayFolder, Columns
from hyperslab.formats.blaze.rules import RULES, find_damage
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.format_errors import names_below, node_not_found, require_array
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.document import Doc, LabelledArray, StoredCoordinate
from hyperslab.formats.single_array.reader import SingleArrayReader
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


class BlazeReader(SingleArrayReader):
    """A dataset open for reading, its directory as ``folder``.

    ``remembered`` holds values by key that were read before, None for missing ones.
    """

    def __init__(self, store: Store, settings: Settings, remembered: Mapping[str, bytes | None] | None = None) -> None:
        self.store: Store = store
        self.url = store.url
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
    def labelled(self) -> LabelledArray:
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
        if self.table is None:
            return super().node(path)
        if not path:
            return GroupSpec(attrs=self.folder.document(ATTRIBUTES["bcolz"]) or {})
        return self._column(path).labelled.spec

    def field(self, path: str) -> tuple[ArraySpec, ChunkSource]:
        return self.folder.field(tuple(path.split("/"))) or super().field(path)

    def _column(self, path: str) -> ArrayFolder:
        columns = self.table or {}
        if path not in columns:
            raise node_not_found(path, self.url)
        return columns[path]

    def chunks(self, path: str) -> ChunkSource:
        try:
            if self.table is None:
                return super().chunks(path)
            spec = require_array(path, self.node(path), self.url)
            return self._column(path).source(spec)
        except HyperslabError as error:
            raise error.locate(url=self.url, node=path) from error.__cause__

    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
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
                    reported = error.problems if isinstance(error, FormatError) else ()
                    problems = [replace(problem, node=name) for problem in reported]
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
        self.store.close()


# -- shards, read as one ---------------------------------------------------------------------------------------------


def join_labels(parts: Sequence[LabelledArray], names: Sequence[str]) -> LabelledArray:
    """Return the array that shards are parts of: their rows one after another, all else as the first one says.

    Invalid names the shard that does not fit: other cells or rows, or no whole number of chunks before the last.
    """
    first = parts[0]
    spec, storing = first.spec, ColumnStorage.of(first.spec)
    for part, name in zip(parts, names, strict=True):
        now = ColumnStorage.of(part.spec)
        if part.spec.dtype != spec.dtype or part.spec.shape[1:] != spec.shape[1:] or not spec.shape:
            message = f"{name} holds rows of {part.spec.shape[1:]} {part.spec.dtype}, the first one of "
            raise Invalid(f"{message}{spec.shape[1:]} {spec.dtype}", remedy="give shards of one array")
        if now.rows != storing.rows or (part is not parts[-1] and part.spec.shape[0] % storing.rows):
            message = f"{name} has {part.spec.shape[0]} rows in chunks of {now.rows}"
            raise Invalid(f"{message}, which does not go on in chunks of {storing.rows}", remedy="convert them instead")
    rows = sum(part.spec.shape[0] for part in parts)
    # Superchunks go on across shards only where each shard but the last ends with a whole one; else each chunk counts
    # for itself.
    goes_on = all(
        ColumnStorage.of(part.spec).per == storing.per and not part.spec.shape[0] % (storing.rows * storing.per)
        for part in parts[:-1]
    )
    per = storing.per if goes_on else 1
    whole = with_whole_rows(_with_per(spec.evolve(shape=(rows, *spec.shape[1:])), storing, per))
    coords = {name: _join_coordinate(name, parts) for name in first.coords}
    dims = tuple(
        Dimension(dim.name, rows if dim.name == spec.dims[0] else dim.size, dim.unlimited) for dim in first.group.dims
    )
    return LabelledArray(first.name, whole, coords, first.group.evolve(dims=dims))


def _with_per(spec: ArraySpec, storing: ColumnStorage, per: int) -> ArraySpec:
    return spec if per == storing.per else to_blaze_spec(spec, replace(storing, per=per))


def _join_coordinate(name: str, parts: Sequence[LabelledArray]) -> StoredCoordinate:
    """Return a coordinate that goes on along the rows from shard to shard."""
    first = parts[0].coords[name]
    along = parts[0].spec.dims[0]
    if along is None or along not in first.spec.dims:
        return first
    axis = first.spec.dims.index(along)
    missing = [part.name for part in parts if name not in part.coords]
    if missing:
        raise Invalid(f"a shard has no coordinate {name!r}", remedy="give shards of one array")
    cells = np.concatenate([part.coords[name].cells for part in parts], axis)
    return StoredCoordinate(first.spec.evolve(shape=cells.shape, chunks=whole_chunks(cells.shape)), cells)


def cut_labels(labelled: LabelledArray, start: int, stop: int) -> LabelledArray:
    """Return the rows from ``start`` to ``stop`` as an array of their own, with what the coordinates say of them."""
    spec = labelled.spec
    along = spec.dims[0]
    coords = {}
    for name, each in labelled.coords.items():
        cells, shape = each.cells, each.spec.shape
        if along is not None and along in each.spec.dims:
            axis = each.spec.dims.index(along)
            cells = cells[(*[slice(None)] * axis, slice(start, stop))]
            shape = cells.shape
        coords[name] = StoredCoordinate(each.spec.evolve(shape=shape, chunks=whole_chunks(shape)), cells)
    rows = stop - start
    dims = tuple(replace(dim, size=rows) if dim.name == along else dim for dim in labelled.group.dims)
    part = with_whole_rows(spec.evolve(shape=(rows, *spec.shape[1:])))
    return LabelledArray(labelled.name, part, coords, labelled.group.evolve(dims=dims))


class MultiDirectoryChunks(ChunkSource):
    """The chunks of all shards, one after another. Read-only."""

    def __init__(self, spec: ArraySpec, parts: Sequence[Superchunks | Columns]) -> None:
        self._spec = spec
        self._parts = parts
        counts = [part.grid.counts[0] for part in parts]
        self._starts = [0, *accumulate(counts)][: len(parts)]
        outer = Grid.of(spec.shape, spec.chunks) if spec.inner_chunks else None
        self.grid = Grid.of(spec.shape, spec.inner_chunks or spec.chunks, outer)
        limits = [part.traits.concurrency for part in parts if part.traits.concurrency is not None]
        is_stamped = any(part.traits.stamped for part in parts)
        self.traits = SourceTraits(
            concurrency=max(limits, default=None), fetches=True, stamped=is_stamped, lists_chunks=True
        )

    def _find(self, coords: Coords) -> tuple[int, Coords]:
        """Return the shard of a chunk, and its place there."""
        number = bisect_right(self._starts, coords[0]) - 1
        return number, (coords[0] - self._starts[number], *coords[1:])

    def _by_shard(self, coords: Iterable[Coords]) -> dict[int, list[Coords]]:
        """Return the chunks of each shard, as they are called there."""
        found: dict[int, list[Coords]] = {}
        for each in coords:
            number, local = self._find(each)
            found.setdefault(number, []).append(local)
        return found

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        """Get what is stored of these chunks, shard by shard."""
        fetched = {number: self._parts[number].fetch(local) for number, local in self._by_shard(coords).items()}
        return _Fetched(self.grid, self._find, fetched)

    def read_into(self, coords: Coords, out: Block) -> bool:
        number, local = self._find(coords)
        return self._parts[number].read_into(local, out)

    def read(self, coords: Coords) -> Block | None:
        number, local = self._find(coords)
        return self._parts[number].read(local)

    def write(self, coords: Coords, block: Block) -> None:
        """Raise Unsupported."""
        raise ReadOnly("shards are only read together", remedy="open one of them for writing, or gather them")

    def erase(self, coords: Coords) -> None:
        """Raise Unsupported."""
        raise ReadOnly("shards are only read together", remedy="open one of them for writing, or gather them")

    def stamp(self, coords: Coords) -> object:
        """Return what identifies the stored version of the chunk's superchunk."""
        number, local = self._find(coords)
        stamp = self._parts[number].stamp(local)
        return None if stamp is None else (number, stamp)

    def stored_coords(self) -> Iterator[Coords]:
        for start, part in zip(self._starts, self._parts, strict=True):
            yield from ((start + first, *rest) for first, *rest in part.stored_coords())

    def nbytes_stored(self) -> int:
        """Return the bytes of all data files."""
        return sum(part.nbytes_stored() for part in self._parts)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of the files that these chunks lie in."""
        return sum(self._parts[number].stored_sizes(local) for number, local in self._by_shard(coords).items())


class _Fetched(ChunkReader):
    def __init__(
        self, grid: Grid, find: Callable[[Coords], tuple[int, Coords]], fetched: Mapping[int, ChunkReader]
    ) -> None:
        self.grid = grid
        self._find = find
        self._fetched = fetched

    def read_into(self, coords: Coords, out: Block) -> bool:
        number, local = self._find(coords)
        return self._fetched[number].read_into(local, out)


class MultiDirectoryReader(SingleArrayReader):
    """Shards open for reading."""

    def __init__(self, store: Store, stores: Sequence[Store], settings: Settings) -> None:
        self.store: Store = store
        self.url = store.url
        self.parts = [BlazeReader(each, settings) for each in stores]
        for part in self.parts:
            if part.table is not None:
                raise Unsupported("tables of bcolz have no shards", url=part.store.url, remedy="open them one by one")
        self._labelled: LabelledArray | None = None

    @property
    def labelled(self) -> LabelledArray:
        """The array that they are parts of."""
        found = self._labelled  # another thread may forget it
        if found is None:
            labels = [part.labelled for part in self.parts]
            found = self._labelled = join_labels(labels, [part.store.url for part in self.parts])
        return found

    def field(self, path: str) -> tuple[ArraySpec, ChunkSource]:
        """Return the field of the array that every shard stores on its own at ``path``, and its chunks."""
        fields = [part.folder.field(tuple(path.split("/"))) for part in self.parts]
        present = [field for field in fields if field is not None]
        if len(present) < len(fields):
            return super().field(path)
        rows = self.labelled.spec.shape[0]
        spec = present[0][0]
        whole = with_whole_rows(spec.evolve(shape=(rows, *spec.shape[1:])))
        if self.labelled.spec.inner_chunks is None:
            whole = _with_per(whole, ColumnStorage.of(whole), 1)
        return whole, MultiDirectoryChunks(whole, [source for _, source in present])

    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        return MultiDirectoryChunks(spec, [part.folder.source(part.labelled.spec) for part in self.parts])

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield every problem of every shard; none of them is mended here."""
        for part in self.parts:
            for finding in part.find_damage(deep=deep, workers=workers):
                message = f"{finding.problem.message} in {part.store.url}"
                yield Finding(replace(finding.problem, message=message))
        try:
            _ = self.labelled
        except HyperslabError as error:
            yield Finding(Problem("", "shards", error.message))

    def refresh(self, path: str) -> None:
        """Read the documents anew when they are needed."""
        self._labelled = None
        for part in self.parts:
            part.refresh(path)

    def stamp(self, path: str) -> object:
        """Return what identifies the present version of the documents; None where a store cannot tell."""
        stamps = tuple(part.stamp("") for part in self.parts)
        return None if None in stamps else stamps

    def close(self) -> None:
        for part in self.parts:
            part.close()
