"""The cells of a dataset that is open for writing, as chunks: those of the array, and those of its coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import Conflict
from hyperslab.formats.in_memory import resized
from hyperslab.model.spec import ArraySpec


class Owner(Protocol):
    """The writer, as its sources use it."""

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]: ...
    def read_main(self, path: str, number: int, out: Block, axis: int) -> bool: ...
    def write_main(self, path: str, number: int, block: Block, axis: int) -> None: ...
    def container_main(self, path: str) -> Any: ...
    def raw_main(self, path: str, number: int) -> bytes: ...
    def put_raw_main(self, path: str, number: int, chunk: bytes) -> None: ...
    def erase_main(self, path: str, number: int) -> None: ...
    def sizes_main(self, path: str, numbers: Iterable[int] | None) -> int: ...
    def read_coordinate(self, path: str) -> np.ndarray[Any, Any]: ...
    def write_coordinate(self, path: str, cells: np.ndarray[Any, Any]) -> None: ...
    def stamp(self, path: str) -> Any: ...


class _Cells:
    def __init__(self, owner: Owner, path: str, spec: ArraySpec) -> None:
        self._owner = owner
        self._path = path
        self._spec = spec
        self._grid = Grid.of(spec.shape, spec.chunks)

    @property
    def grid(self) -> Grid:
        """As it was when the array was looked at: others may have made it longer since."""
        return self._grid

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """All that is written in the block shows together, or not at all."""
        return self._owner.transaction(timeout)

    def stamp(self, coords: Coords) -> Any:
        """That of the file; None while nothing is to be remembered."""
        return self._owner.stamp(self._path)


class MainCells(_Cells):
    """The array's, in whole rows."""

    def __init__(self, owner: Owner, path: str, spec: ArraySpec, axis: int) -> None:
        super().__init__(owner, path, spec)
        self._axis = axis

    def _number(self, coords: Coords) -> int:
        return coords[self._axis] if coords else 0

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self._owner.read_main(self._path, self._number(coords), out, self._axis)

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk."""
        out = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return out if self.read_into(coords, out) else None

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk."""
        self._owner.write_main(self._path, self._number(coords), block, self._axis)

    @property
    def container(self) -> Any:
        """What lies in the stored chunks; None where they cannot be moved as they are."""
        return self._owner.container_main(self._path)

    @property
    def pads(self) -> bool:
        """A chunk at the edge holds the cells within the array only."""
        return False

    def raw(self, coords: Coords) -> bytes | None:
        """The chunk as it will be stored, without its digest."""
        return self._owner.raw_main(self._path, self._number(coords))

    def put_raw(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Take stored chunks as they are."""
        for coords, chunk in pairs:
            self._owner.put_raw_main(self._path, self._number(coords), chunk)

    def erase(self, coords: Coords) -> None:
        """The chunk becomes the fill value."""
        self._owner.erase_main(self._path, self._number(coords))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of these chunks and their digests."""
        return self._owner.sizes_main(self._path, [self._number(place) for place in coords])

    def nbytes_stored(self) -> int:
        """Bytes of all chunks and their digests."""
        return self._owner.sizes_main(self._path, None)


class CoordinateCells(_Cells):
    """Those of a coordinate, which are one chunk in memory."""

    def read(self, coords: Coords) -> Block:
        """All cells."""
        cells = self._owner.read_coordinate(self._path)
        if len(cells.shape) != len(self._spec.shape) or any(map(int.__lt__, cells.shape, self._spec.shape)):
            raise other_shape(self._path, self._spec.shape, cells.shape)
        return resized(cells, self._spec)

    def write(self, coords: Coords, block: Block) -> None:
        """Take all cells that lie in the array."""
        within: Any = (*(slice(0, length) for length in self._spec.shape), ...)
        self._owner.write_coordinate(self._path, block[within].copy())

    def erase(self, coords: Coords) -> None:
        """They become the fill value."""
        self.write(coords, self._spec.filled())


def other_shape(path: str, seen: tuple[int, ...], now: tuple[int, ...]) -> Conflict:
    """The error for cells of an array that another writer made shorter, or cut in another way."""
    message = f"the array is {now} by now, and was {seen} when it was looked at"
    return Conflict(message, node=path, remedy="call its refresh() and try again")
