"""Where the data files of one column lie, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.formats.blaze.document import DATA
from hyperslab.formats.zarr.chunks import ChunkKeys, KeyOf
from hyperslab.stores.base import Store

_NAMES = {"blaze": re.compile(r"__([1-9]\d{0,17})__\.bin"), "bcolz": re.compile(r"__(0|[1-9]\d{0,17})\.blp")}


class DataKeys(ChunkKeys):
    """The data files of one column; all columns of an array share the lock in its folder ``root``."""

    def __init__(
        self,
        store: Store,
        root: str,
        column: Sequence[str],
        layout: str,
        settings: Settings,
        note: Callable[[], None] | None = None,
    ) -> None:
        folder = "/".join((*([root] if root else []), DATA, *column))
        super().__init__(store, folder, _KEYS[layout], settings)
        self._root = root
        self._locks = ChunkKeys(store, root, _KEYS[layout], settings)
        self._note = note
        self._pattern = _NAMES[layout]
        self._first = 1 if layout == "blaze" else 0

    @property
    def data(self) -> str:
        """The folder that holds those of all columns."""
        return f"{self._root}/{DATA}" if self._root else DATA

    def key(self, place: int) -> str:
        """The key of a superchunk."""
        return self.prefix + self.key_of((place,))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold superchunks against other writers."""
        return self._locks.lock(coords, timeout)

    def require_writable(self) -> None:
        """ReadOnly when the store takes no writes; this comes before each of them."""
        super().require_writable()
        if self._note is not None:
            self._note()

    def places(self) -> tuple[list[int], list[str]]:
        """The superchunks that are there, and the names of whatever else is."""
        names = self.store.list_dir(self.folder)[0]
        found = [(name, self._pattern.fullmatch(name)) for name in names]
        return (
            sorted(int(match[1]) - self._first for _, match in found if match),
            [name for name, match in found if match is None],
        )


_KEYS: dict[str, KeyOf] = {
    "blaze": lambda place: f"__{place[0] + 1}__.bin",
    "bcolz": lambda place: f"__{place[0]}.blp",
}
