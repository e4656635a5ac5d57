"""The cells of one VArray: a grid of tiles, each the file of an Array that a link in the tile's folder leads to.

A tile is found by its link; when that is gone, among the files that no link leads to, by what their ``meta`` says. Only
the part of a tile that is wanted is read. Writers of one tile exclude one another by its folder, and the peer by its
file. A tile whose cells are all fill has no file. Positions outside the grid are passed over.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource, SourceTraits
from hyperslab.errors import HyperslabError, MissingChunks, NodeNotFound
from hyperslab.formats.collections.deker import links
from hyperslab.formats.collections.deker.array_cells import DEKER_FILE_TRIES, FileCells, OpenFiles
from hyperslab.formats.collections.deker.data_file import Box, DekerFile, file_stamp
from hyperslab.formats.collections.deker.file_writer import DatasetForm, FileRewrite, count_fill, file_bytes
from hyperslab.formats.collections.deker.folder import (
    SUFFIXES,
    CollectionFolder,
    data_files,
    data_path,
    position_of,
    put_file,
    tile_folder,
    translate_errors,
    with_folder,
)
from hyperslab.formats.collections.deker.links import linked_ids, names
from hyperslab.formats.collections.deker.locks import lock_files
from hyperslab.model.schemas.arrays import new_id
from hyperslab.stores import locks
from hyperslab.stores.files import write_errors

# Seconds between looks at a link that leads to nothing: whoever removes a tile removes its link right after the file.
_PAUSES = (0.01, 0.05, 0.2)


@translate_errors(lambda tiles: tiles.place.path, bare=("find",))
@dataclass(frozen=True)
class TileCells(ChunkSource):
    """The tiles of the VArray ``id`` of the collection at ``place``. ``meta`` makes the text of a new tile."""

    traits = SourceTraits(reads_parts=True, locks=True, lists_chunks=True)

    place: CollectionFolder
    id: str
    grid: Grid
    form: DatasetForm
    fill: Block
    files: OpenFiles
    unlinked: UnlinkedTiles
    meta: Callable[[str, Coords], str]

    # -- reading ----------------------------------------------------------------------------------------------------

    def find(self, coords: Coords) -> str | None:
        """Return the file of a tile, None when it has none. MissingChunks for a link that leads to nothing."""
        plain = links.plain_file(self.place.path, "array", tile_folder(self.id, coords))
        if plain is not None:
            return plain
        for pause in _PAUSES:
            path, dangles = self._find_file(coords)
            if not dangles:
                return path
            time.sleep(pause)  # whoever removes a tile removes its link right after the file
        path, dangles = self._find_file(coords)
        if dangles:
            raise MissingChunks(
                f"the file of the tile {coords} is gone: its link leads to nothing",
                url=self.place.path,
                key=tile_folder(self.id, coords),
                remedy="restore the file from a copy, or repair the collection: the tile then reads as fill",
            )
        return path

    def _find_file(self, coords: Coords) -> tuple[str | None, bool]:
        """Return the file of a tile, and whether there is none though there is a link."""
        folder, place = self.place.path, tile_folder(self.id, coords)
        for _ in range(DEKER_FILE_TRIES):
            ids = links.linked_ids(folder, "array", place)
            for id in ids:
                if (path := links.follow(folder, "array", place, id)) is not None:
                    return path, False
            if not ids or ids != links.linked_ids(folder, "array", place):
                break  # it was not removed between the two looks
        path = self.unlinked.find(self.id, coords)
        if path is not None:
            return path, False
        self._require()
        return None, bool(links.linked_ids(folder, "array", place))

    def _open(self, coords: Coords, path: str | None) -> FileCells | None:
        """Return a tile whose file was found."""
        for _ in range(DEKER_FILE_TRIES):
            if path is None:
                return None
            try:
                return FileCells(self.files, path, self.form, self.fill, self.place.settings)
            except NodeNotFound:  # removed between the two calls
                path = self.find(coords)
        return None

    def read_part(self, coords: Coords, within: Box, out: Block) -> bool:
        """Read the cells ``within`` a tile into ``out``; False when all are fill."""
        if out.shape == self.form.shape:
            return self.read_into(coords, out)
        tile = self._open(coords, self.find(coords))
        return tile is not None and tile.read_box(within, out)

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read a tile; False when all its cells are fill."""
        path = self.find(coords)
        if path is not None and self.files.read_contiguous(path, out):
            return True
        tile = self._open(coords, path)
        return tile is not None and tile.read_box(self._all, out)

    @cached_property
    def _all(self) -> Box:
        """All cells of a tile."""
        return tuple([slice(0, size) for size in self.form.shape])

    def read(self, coords: Coords) -> Block | None:
        """Return a tile in memory of its own."""
        block = np.empty(self.form.shape, self.form.dtype)
        return block if self.read_into(coords, block) else None

    def stored_coords(self) -> Iterator[Coords]:
        """Return the tiles that have a file, in the order of the grid."""
        found = set(self.unlinked.positions(self.id))
        with suppress(FileNotFoundError), os.scandir(f"{self.place.path}/{tile_folder(self.id)}") as entries:
            for entry in entries:
                coords = position_of(entry.name)
                if coords is not None and links.linked_ids(self.place.path, "array", tile_folder(self.id, coords)):
                    found.add(coords)
        counts = self.grid.counts
        known = (coords for coords in found if len(coords) == len(counts))
        return iter(sorted(c for c in known if all(place < count for place, count in zip(c, counts, strict=True))))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes that the files of these tiles take."""
        total = 0
        for place in coords:
            with suppress(NodeNotFound, MissingChunks):
                path = self.find(place)
                total += 0 if path is None else file_stamp(path)[2]
        return total

    def nbytes_stored(self) -> int:
        """Return bytes that the files of all tiles take."""
        return self.stored_sizes(self.stored_coords())

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold tiles against every other writer; ``Conflict`` after ``timeout`` seconds."""
        self.place.require_writable()
        files: list[str] = []
        with ExitStack() as stack:
            with write_errors(self.place.path, ""):
                for place in sorted(set(coords)):  # in order, so that no two writers wait for each other
                    stack.enter_context(locks.hold_folder(partial(self._make, place), timeout))
                    stack.callback(self._forget_empty, place)  # while it is held: who waits for it makes it anew
                    self._require()  # else its removal may have passed this folder by
                    path = self._find_or_none(place)
                    files += [] if path is None else [path]
                stack.enter_context(lock_files(files, timeout))
            yield

    def _make(self, coords: Coords) -> str:
        """Return the folder of a tile's link, made where missing."""
        self._require()
        path = links.require_inside(self.place.path, f"{self.place.path}/{tile_folder(self.id, coords)}")
        return with_folder(path, partial(str, path))

    def _require(self) -> None:
        """Raise NodeNotFound when the array is gone."""
        if not os.path.lexists(f"{self.place.path}/{data_path('varray', self.id)}"):
            raise NodeNotFound("the array was removed", url=self.place.path, node=f"{self.place.name}/{self.id}")

    def _forget_empty(self, coords: Coords) -> None:
        with suppress(OSError):
            os.rmdir(f"{self.place.path}/{tile_folder(self.id, coords)}")

    def _find_or_none(self, coords: Coords) -> str | None:
        try:
            return self.find(coords)
        except MissingChunks:  # what is written takes the place of what was lost
            return None

    def write(self, coords: Coords, block: Block) -> None:
        """Store a whole tile: its file is replaced."""
        try:
            with self.place.modify():
                path = self._find_or_none(coords)
                if count_fill(block, self.fill) == block.size:
                    self._drop(coords, path)
                else:
                    self._put(coords, path, block)
        except HyperslabError as error:
            raise error.locate(url=self.place.path, key=tile_folder(self.id, coords)) from error.__cause__

    def _put(self, coords: Coords, path: str | None, block: Block) -> None:
        place = tile_folder(self.id, coords)
        written = {part: _padded(block, self.form, part, self.fill) for part in self.form.grid}
        old = None
        text = None
        if path is not None:
            old = self.files.get(path)
            text = old.text
            if self.unlinked.find(self.id, coords) == path:
                id = os.path.basename(path).removesuffix(SUFFIXES["array"])
                links.put_link(self.place.path, "array", place, id, relative=self.place.relative)
        if path is None or text is None:
            id = new_id()
            path = f"{self.place.path}/{data_path('array', id)}"
            new = FileRewrite(path, self.form, self.fill, self.place.settings, None, written)
            with_folder(os.path.dirname(path), partial(new.run, self.meta(id, coords)))
            links.put_link(self.place.path, "array", place, id, relative=self.place.relative, alone=True)
        else:
            FileRewrite(path, self.form, self.fill, self.place.settings, old, written).run(text)
        self.files.forget(path)

    def erase(self, coords: Coords) -> None:
        """Forget a tile: its file is removed."""
        with self.place.modify():
            self._drop(coords, self._find_or_none(coords))

    def _drop(self, coords: Coords, path: str | None) -> None:
        """Remove a tile's file and link. Before the link is gone the file holds nothing any more, so that a process
        that dies between leaves no cells that a later one would find. Each step is on the medium before the next: after
        a power cut no link leads to nothing."""
        durable = self.place.settings.durable
        if path is not None:
            with suppress(NodeNotFound):
                text = self.files.get(path).text or ""
                put_file(path, file_bytes(text, prod(self.form.shape)), durable=durable)
        place = tile_folder(self.id, coords)
        for id in links.linked_ids(self.place.path, "array", place):
            links.remove_link(self.place.path, "array", place, id, durable=durable)
        if path is not None:
            links.remove_file(self.place.path, "array", path, durable=durable)
            self.files.forget(path)


def _padded(block: Block, form: DatasetForm, part: Coords, fill: Block) -> Block:
    """Return a piece of a tile's own grid, what reaches past its edge with the fill value."""
    cells: Block = block[form.grid.extent(part)]
    shape = form.grid.chunk_shape(part)
    if cells.shape == shape:
        return cells
    whole = np.full(shape, fill, form.dtype)
    whole[tuple(slice(0, size) for size in cells.shape)] = cells
    return whole


# -- tiles that no link leads to --------------------------------------------------------------------------------------


Place = tuple[str, Coords]
"""The id of a VArray, and a position in its grid."""


def parse_tile_position(text: str | None) -> Place | None:
    """Return the tile that a ``meta`` text describes; None when it describes none."""
    try:
        doc = json.loads(text or "")
        key = doc["primary_attributes"]
        vid, position = key["vid"], key["v_position"]
        if isinstance(vid, str) and all(isinstance(part, int) and part >= 0 for part in position):
            return vid, tuple(position)
    except (ValueError, TypeError, KeyError):
        pass
    return None


class UnlinkedTiles:
    """Those of the collection in ``folder``; looked for when a tile has no link for the first time."""

    def __init__(self, folder: str, open_file: Callable[[str], DekerFile]) -> None:
        self._folder = folder
        self._open = open_file
        self._lock = threading.Lock()
        self._found: dict[Place, str] | None = None

    def find(self, id: str, coords: Coords) -> str | None:
        """Return the file of a tile that has no link, None when there is none."""
        path = self._all().get((id, coords))
        return path if path is not None and os.path.exists(path) else None

    def positions(self, id: str) -> list[Coords]:
        """Return the positions of such tiles of a VArray."""
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
                place = parse_tile_position(self._open(path).text)
            except HyperslabError:  # the integrity check tells
                continue
            if place is not None:
                found.setdefault(place, path)
        return found


def linked_tiles(folder: str) -> set[str]:
    """Return the ids of all tiles that a link in the folder of a tile leads to."""
    found: set[str] = set()
    for id in names(f"{folder}/array_symlinks"):
        for name in names(f"{folder}/array_symlinks/{id}"):
            if position_of(name) is not None:
                found.update(linked_ids(folder, "array", f"array_symlinks/{id}/{name}"))
    return found
