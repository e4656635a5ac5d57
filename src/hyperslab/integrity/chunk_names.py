"""The meaning of names in an array's folder: a chunk's key, one in another spelling, or something foreign. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.formats.zarr.chunks import KeyOf, coords_of_key

# At most 19 digits, as many as a 64-bit integer has: a longer number is no chunk's.
_LIKE_A_KEY = re.compile(r"(?:c[./]?)?[0-9]{1,19}(?:[./][0-9]{1,19})*|c")
_LIKE_A_FOLDER = re.compile(r"(?:c|(?:c/)?[0-9]{1,19}(?:[./][0-9]{1,19})*)")
_NUMBERS = re.compile(r"[0-9]+")


class ChunkNames:
    """The key rule of one array, read backwards."""

    def __init__(self, key_of: KeyOf, grid: Grid) -> None:
        self._key_of = key_of
        self._grid = grid
        self._ndim = len(grid.axes)

    def coords(self, name: str) -> Coords | None:
        """Return the coordinates of which this is the key, within the grid or not; None when it is no key."""
        return coords_of_key(self._key_of, self._ndim, name)

    def within(self, coords: Coords) -> bool:
        """Return True if the grid has this chunk."""
        return is_within(coords, self._grid)

    def meant(self, name: str) -> Coords | None:
        """Return the chunk of the grid that a key in another spelling seems to mean."""
        if not _LIKE_A_KEY.fullmatch(name):
            return None
        numbers = tuple(map(int, _NUMBERS.findall(name)))
        return numbers if len(numbers) == self._ndim and self.within(numbers) else None

    def leads_to_keys(self, folder: str) -> bool:
        """Return True if chunks may lie below a folder, by its name."""
        return _LIKE_A_FOLDER.fullmatch(folder) is not None and len(_NUMBERS.findall(folder)) < max(self._ndim, 1)

    def is_alike(self, name: str) -> bool:
        """Return True if a name looks like a chunk's, of whatever array."""
        return _LIKE_A_KEY.fullmatch(name) is not None


def is_within(coords: Coords, grid: Grid) -> bool:
    """Return True if a grid has the chunk of these coordinates, which are not negative."""
    return all(index < axis.count for index, axis in zip(coords, grid.axes, strict=True))


def looks_like_chunks(names: Iterable[str], folders: Iterable[str]) -> bool:
    """Return True if a folder without documents holds what seem to be chunks of an array."""
    return any(map(_LIKE_A_KEY.fullmatch, names)) or any(map(_LIKE_A_FOLDER.fullmatch, folders))
