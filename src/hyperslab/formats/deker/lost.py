"""Tiles that no link leads to: found among all files of the collection, once, by what their ``meta`` says."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

from hyperslab.chunks.grid import Coords
from hyperslab.errors import HyperslabError
from hyperslab.formats.deker.links import linked_ids, names
from hyperslab.formats.deker.listing import data_files
from hyperslab.formats.deker.opened import DekerFile
from hyperslab.formats.deker.paths import data_path, position_of

Place = tuple[str, Coords]
"""The id of a VArray, and a position in its grid."""


def place_of(text: str | None) -> Place | None:
    """The tile that a ``meta`` text describes; None when it describes none."""
    try:
        said = json.loads(text or "")
        key = said["primary_attributes"]
        vid, position = key["vid"], key["v_position"]
        if isinstance(vid, str) and all(isinstance(part, int) and part >= 0 for part in position):
            return vid, tuple(position)
    except (ValueError, TypeError, KeyError):
        pass
    return None


class LostTiles:
    """Those of the collection in ``folder``; looked for when a tile has no link for the first time."""

    def __init__(self, folder: str, open_file: Callable[[str], DekerFile]) -> None:
        self._folder = folder
        self._open = open_file
        self._lock = threading.Lock()
        self._found: dict[Place, str] | None = None

    def find(self, id: str, coords: Coords) -> str | None:
        """The file of a tile that has no link, None when there is none."""
        path = self._all().get((id, coords))
        return path if path is not None and os.path.exists(path) else None

    def positions(self, id: str) -> list[Coords]:
        """The positions of such tiles of a VArray."""
        return [coords for (of, coords), path in self._all().items() if of == id and os.path.exists(path)]

    def forget(self) -> None:
        """Look again when asked."""
        self._found = None

    def _all(self) -> dict[Place, str]:
        with self._lock:
            if self._found is None:
                self._found = self._search()
            return self._found

    def _search(self) -> dict[Place, str]:
        ids = {id for id, _ in data_files(self._folder, "array")}
        found: dict[Place, str] = {}
        for id in sorted(ids - linked_tiles(self._folder)) if ids else ():
            path = f"{self._folder}/{data_path('array', id)}"
            try:
                place = place_of(self._open(path).text)
            except HyperslabError:  # the integrity check tells
                continue
            if place is not None:
                found.setdefault(place, path)
        return found


def linked_tiles(folder: str) -> set[str]:
    """The ids of all tiles that a link in the folder of a tile leads to."""
    found: set[str] = set()
    for id in names(f"{folder}/array_symlinks"):
        for name in names(f"{folder}/array_symlinks/{id}"):
            if position_of(name) is not None:
                found.update(linked_ids(folder, "array", f"array_symlinks/{id}/{name}"))
    return found
