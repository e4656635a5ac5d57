"""All that it takes to write a format of your own, in one place: import it from here.

What a format is stands in :mod:`hyperslab.formats.base`: the classes ``Format``, ``Reader`` and ``Writer``. It is
registered by an entry point of the group ``hyperslab.formats`` and proved by ``hyperslab.testing.formats.FormatTests``.
A worked example is the page "A format of your own" of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, SourceTraits
from hyperslab.errors import CorruptChunk, FormatError, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Reader, Writer
from hyperslab.formats.documents import read_json, write_json
from hyperslab.formats.metadata_json.nodes import node_from_json, node_to_json
from hyperslab.formats.single_array.reader import resize_cells
from hyperslab.model.dtypes import describe
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp, Store, Unversioned
from hyperslab.stores.location import Location, Probe

# -- arrays that are stored as one piece of plain cells under a key --------------------------------------------------


PLAIN = frozenset(
    {
        Feature.GROUPS,
        Feature.ARRAYS,
        Feature.DIMENSIONS,
        Feature.UNLIMITED,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.STRUCTURED,
        Feature.SUBARRAYS,
        Feature.COMPLEX,
        Feature.BOOLEAN,
        Feature.DATETIME,
        Feature.FLOAT16,
        Feature.UNICODE,
        Feature.FIXED_BYTES,
        Feature.BIG_ENDIAN,
        Feature.SCALARS,
        Feature.UNITS,
    }
)
"""What a format can hold whose arrays are pieces of plain NumPy cells, with groups and what ``node_to_json`` says."""


@dataclass(slots=True, eq=False)
class SingleChunkArray(ChunkSource):
    """The one chunk of an array: the value under ``key``, which ``decode`` and ``encode`` turn into cells and back.

    A ValueError or EOFError of ``decode`` says that the value is damaged.
    """

    spec: ArraySpec
    store: Store
    key: str
    decode: Callable[[bytes], Block]
    encode: Callable[[Block], bytes]
    durable: bool = True
    grid: Grid = field(init=False)
    """One chunk; none where the array has no cells."""
    traits: SourceTraits = field(init=False)

    def __post_init__(self) -> None:
        self.grid = Grid.of(self.spec.shape, whole_chunks(self.spec.shape))
        store = self.store.traits
        self.traits = SourceTraits(stamped=store.stamped, locks=store.locks_chunks)

    def read(self, coords: Coords) -> Block | None:
        """Return all cells; CorruptChunk when they are damaged, or others than the spec says."""
        stored = self.store.get(self.key)
        if stored is None:
            return None
        try:
            cells = np.asarray(self.decode(stored))
        except (ValueError, EOFError) as error:
            raise CorruptChunk(f"the cells cannot be decoded: {error}", url=self.store.url, key=self.key) from error
        if (cells.shape, cells.dtype) != (self.spec.shape, self.spec.numpy_dtype):
            raise CorruptChunk("the cells have another shape or type than was said", url=self.store.url, key=self.key)
        return cells

    def write(self, coords: Coords, block: Block) -> None:
        """Store all cells."""
        self.store.put(self.key, self.encode(block), durable=self.durable)

    def erase(self, coords: Coords) -> None:
        """Make all cells the fill value."""
        self.write(coords, self.spec.filled())

    def fit(self, before: ArraySpec | None) -> None:
        """Make room as the spec says it: fill values for an array that is new, or what it gained since ``before``."""
        if before is None:
            self.erase(())
        elif before.shape != self.spec.shape:
            cells = SingleChunkArray(before, self.store, self.key, self.decode, self.encode).read(())
            if cells is not None:
                self.write((), resize_cells(cells, self.spec))

    def stamp(self, coords: Coords) -> Stamp | None:
        """Return what identifies the version of the value, so that cells that were read may be kept."""
        return self.store.stamp(self.key) if self.traits.stamped else Unversioned()

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the array against other writers, where the store can."""
        folder, name = split(self.key)
        return self.store.lock_chunks(folder, [crc32(name.encode())], timeout)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of the value, if any chunk is named."""
        return self.nbytes_stored() if any(True for _ in coords) else 0

    def nbytes_stored(self) -> int:
        """Return the bytes of the value."""
        return self.store.size(self.key) or 0


def whole_wish(wish: ArraySpec, format: str) -> ArraySpec:
    """Return a user's wish as one chunk of plain cells without codecs; Unsupported names what it cannot be."""
    if not isinstance(wish.dtype, np.dtype) or wish.dtype.hasobject or wish.dtype.kind == "T":
        raise Unsupported(f"format {format} has no cells of type {describe(wish.dtype)}", remedy="convert the values")
    return wish.evolve(chunks=whole_chunks(wish.shape), codecs=(), layout={})


__all__ = [
    "DEFAULTS",
    "PLAIN",
    "ArraySpec",
    "Block",
    "ChunkReader",
    "ChunkSource",
    "Coords",
    "CorruptChunk",
    "Feature",
    "Format",
    "FormatError",
    "FormatInfo",
    "FormatTraits",
    "Grid",
    "GroupSpec",
    "Location",
    "Mode",
    "NodeNotFound",
    "Probe",
    "Reader",
    "Settings",
    "SingleChunkArray",
    "SourceTraits",
    "Unsupported",
    "Writer",
    "node_from_json",
    "node_to_json",
    "outward",
    "read_json",
    "split",
    "whole_chunks",
    "whole_wish",
    "write_json",
]
