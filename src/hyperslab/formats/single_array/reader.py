"""The reader that formats of one array share: the array, its coordinates and their group as a tree of nodes; the cells
of coordinates."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from math import prod

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource, SourceTraits
from hyperslab.errors import Unsupported
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import ReadOnlyChunks, names_below, node_not_found, require_array
from hyperslab.formats.single_array.document import LabelledArray, cells_to_json
from hyperslab.model.cells import Values
from hyperslab.model.spec import ArraySpec, GroupSpec


class SingleArrayReader(Reader):
    """A dataset that is one array. A format gives its labels and its chunks; coordinates are served from memory."""

    is_single_array = True

    url: str
    """The URL of the dataset, for errors."""

    @property
    @abstractmethod
    def labelled(self) -> LabelledArray:
        """The array with its coordinates; FormatError for documents that make no sense."""

    @abstractmethod
    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of the array."""

    def coordinate_chunks(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of a coordinate."""
        return CoordinateCells(self.labelled.coords[path].cells)

    def field(self, path: str) -> tuple[ArraySpec, ChunkSource]:
        """Return the field of the array that is stored on its own at ``path``, and its chunks; NodeNotFound."""
        raise node_not_found(path, self.url)

    @property
    def main(self) -> str | None:
        return self.labelled.name

    def children(self, path: str) -> list[str]:
        """Return the array, then its coordinates."""
        return names_below(self.node(path), self.labelled.names)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the group of all, the array, a coordinate, or a field of the array that is stored on its own."""
        return self.labelled.node(path) or self.field(path)[0]

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of the array, of a coordinate or of a field."""
        spec, labelled = require_array(path, self.node(path), self.url), self.labelled
        if path == labelled.name:
            return self.array_chunks(spec)
        if path in labelled.coords:
            return self.coordinate_chunks(path, spec)
        return self.field(path)[1]


# -- coordinates, and other small arrays whose cells stand in a document -----------------------------------------------
# Each is the one chunk of an array, read and written. Which array is the main one may be seen late: until then arrays
# wait as coordinates, and cells move between both forms.


MOST_COORDINATE_BYTES = 64 << 20
"""Bytes that the cells of a coordinate may take: they stand in a document, which is read whole."""


class CoordinateCells(ReadOnlyChunks):
    """One chunk that holds all cells. Read-only."""

    def __init__(self, cells: Values) -> None:
        self._cells = cells
        self.grid = Grid.of(cells.shape, whole_chunks(cells.shape))

    def read(self, coords: Coords) -> Block:
        """Return the cells, in memory of their own."""
        return self._cells.copy()

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of the text of all cells, if any chunk is asked for."""
        return self.nbytes_stored() if any(True for _ in coords) else 0

    def nbytes_stored(self) -> int:
        """Return the bytes of the text that the cells are in a document, whatever that is packed in."""
        return len(json.dumps(cells_to_json(self._cells)))


class DocumentCells(CoordinateCells):
    """The same for writing: ``store`` changes the document."""

    def __init__(self, spec: ArraySpec, cells: Values, store: Callable[[Values], None]) -> None:
        super().__init__(cells)
        self._spec = spec
        self._store = store

    def write(self, coords: Coords, block: Block) -> None:
        """Store all cells."""
        cells = np.array(block, self._cells.dtype).reshape(self._cells.shape)
        self._store(cells)
        self._cells = cells

    def erase(self, coords: Coords) -> None:
        """Set all cells to the fill value."""
        self.write(coords, self._spec.filled())


def resize_cells(cells: Block, spec: ArraySpec) -> Block:
    """Return the cells in the shape of ``spec``: cut off, or filled up with the fill value."""
    if cells.shape == spec.shape:
        return cells.copy()
    out = spec.filled()
    common = tuple(slice(0, min(a, b)) for a, b in zip(cells.shape, spec.shape, strict=True))
    out[common] = cells[common]
    return out


class CoordinateChunk(ChunkSource):
    """One chunk that holds all cells: ``get`` gives them as they are now, ``put`` takes new ones, ``hold`` locks the
    document that they stand in."""

    def __init__(
        self,
        spec: ArraySpec,
        get: Callable[[], Values],
        put: Callable[[Values], None],
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
        traits: SourceTraits = SourceTraits(),  # noqa: B008 - it is frozen
    ) -> None:
        self._spec = spec
        self._get = get
        self._put = put
        self._hold = hold
        self.traits = traits
        self.grid = Grid.of(spec.shape, whole_chunks(spec.shape))

    def read(self, coords: Coords) -> Block:
        """Return the cells, in memory of their own."""
        return resize_cells(self._get(), self._spec).reshape(self.grid.chunk_shape(coords))

    def write(self, coords: Coords, block: Block) -> None:
        """Replace all cells."""
        self._put(np.array(block, self._spec.numpy_dtype).reshape(self._spec.shape))

    def erase(self, coords: Coords) -> None:
        """Set all cells to the fill value."""
        self._put(self._spec.filled())

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the document against other writers."""
        return self._hold()


def coordinate_spec(spec: ArraySpec) -> ArraySpec:
    """Return the spec of a coordinate: its cells are not chunked or encoded."""
    return spec.evolve(chunks=whole_chunks(spec.shape), codecs=(), layout={}, indexes={})


def coordinate_bytes(spec: ArraySpec) -> int:
    """Return the bytes of all cells of a coordinate, at least one for each."""
    return prod(spec.shape) * max(spec.numpy_dtype.itemsize, 1)


def check_size(name: str, spec: ArraySpec, format: str) -> None:
    """Raise Unsupported for a coordinate that is too large for a document; ``format``: its name, for the error."""
    nbytes = coordinate_bytes(spec)
    if nbytes > MOST_COORDINATE_BYTES:
        remedy = "use zarr3, or leave it out"
        raise Unsupported(f"a coordinate of {nbytes} bytes in a document of format {format}", node=name, remedy=remedy)


def may_be_coordinate(name: str, spec: ArraySpec) -> bool:
    """Return True if it may be a coordinate of an array that is not known yet."""
    return spec.dims == (name,) or spec.shape == ()


def read_all_cells(source: ChunkSource, spec: ArraySpec) -> Block:
    """Return all cells of an array that is small."""
    cells = spec.filled()
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            cells[extent] = block[tuple(slice(0, cut.stop - cut.start) for cut in extent)]
    return cells


def store_cells(source: ChunkSource, cells: Block) -> None:
    """Write all cells of an array that is small."""
    for coords in source.grid:
        block = np.zeros(source.grid.chunk_shape(coords), cells.dtype)
        extent = source.grid.extent(coords)
        block[tuple(slice(0, cut.stop - cut.start) for cut in extent)] = cells[extent]
        source.write(coords, block)
