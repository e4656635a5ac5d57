"""The cells of one VArray: a grid of tiles, each the file of an Array that a link in the tile's folder leads to.

A tile is found by its link; when that is gone, among the files that no link leads to, by what their ``meta`` says. Only
the part of a tile that is wanted is read. Writers of one tile exclude one another by its folder, and the peer by its
file. A tile whose cells are all fill has no file. Positions outside the grid are passed over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError, MissingChunks, NodeNotFound
from hyperslab.formats.deker import links, paths
from hyperslab.formats.deker.files import Form, empty_file, in_folder, put_file
from hyperslab.formats.deker.folder import Folder
from hyperslab.formats.deker.locks import hold_all
from hyperslab.formats.deker.lost import LostTiles
from hyperslab.formats.deker.opened import Box, file_stamp
from hyperslab.formats.deker.rewriting import Rewriting, count_fill
from hyperslab.formats.deker.source import FileCells, OpenFiles
from hyperslab.formats.deker.system_errors import translate_errors
from hyperslab.model.schemas.records import new_id
from hyperslab.stores import locks
from hyperslab.stores.files import write_errors

_PAUSES = (0.01, 0.05, 0.2)


@translate_errors(lambda tiles: tiles.folder, bare=("find", "read_into"))
@dataclass(frozen=True)
class TileCells:
    """The tiles of the VArray ``id`` of the collection at ``place``. ``meta`` makes the text of a new tile."""

    place: Folder
    id: str
    grid: Grid
    form: Form
    fill: Block
    files: OpenFiles
    lost: LostTiles
    meta: Callable[[str, Coords], str]

    @property
    def folder(self) -> str:
        """The folder of the collection."""
        return self.place.path

    @property
    def settings(self) -> Settings:
        """How files are written."""
        return self.place.settings

    # -- reading ----------------------------------------------------------------------------------------------------

    def find(self, coords: Coords) -> str | None:
        """The file of a tile, None when it has none. MissingChunks for a link that leads to nothing."""
        plain = links.plain_file(self.place.path, "array", paths.tile_folder(self.id, coords))
        if plain is not None:
            return plain
        for pause in _PAUSES:
            path, dangles = self._look(coords)
            if not dangles:
                return path
            time.sleep(pause)  # whoever removes a tile removes its link right after the file
        path, dangles = self._look(coords)
        if dangles:
            raise MissingChunks(
                f"the file of the tile {coords} is gone: its link leads to nothing",
                url=self.folder,
                key=paths.tile_folder(self.id, coords),
                remedy="restore the file from a copy, or repair the collection: the tile then reads as fill",
            )
        return path

    def _look(self, coords: Coords) -> tuple[str | None, bool]:
        """The file of a tile, and whether there is none though there is a link."""
        folder, place = self.place.path, paths.tile_folder(self.id, coords)
        for _ in range(3):
            ids = links.linked_ids(folder, "array", place)
            for id in ids:
                if (path := links.follow(folder, "array", place, id)) is not None:
                    return path, False
            if not ids or ids != links.linked_ids(folder, "array", place):
                break  # it was not removed between the two looks
        path = self.lost.find(self.id, coords)
        if path is not None:
            return path, False
        self._require()
        return None, bool(links.linked_ids(folder, "array", place))

    def _open(self, coords: Coords, path: str | None) -> FileCells | None:
        """A tile whose file was found."""
        for _ in range(3):
            if path is None:
                return None
            try:
                return FileCells(self.files, path, self.form, self.fill, self.place.settings)
            except NodeNotFound:  # removed between the two calls
                path = self.find(coords)
        return None

    def read_part(self, coords: Coords, within: Box, out: Block) -> bool:
        """Read the cells ``within`` a tile into ``out``; False when all are fill."""
        path = self.find(coords)
        if path is not None and out.shape == self.form.shape and self.files.read_flat(path, out):
            return True
        tile = self._open(coords, path)
        return tile is not None and tile.read_box(within, out)

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read a tile; False when all its cells are fill."""
        return self.read_part(coords, self._all, out)

    @cached_property
    def _all(self) -> Box:
        """All cells of a tile."""
        return tuple([slice(0, size) for size in self.form.shape])

    def read(self, coords: Coords) -> Block | None:
        """A tile in memory of its own."""
        block = np.empty(self.form.shape, self.form.dtype)
        return block if self.read_into(coords, block) else None

    def stored(self) -> Iterator[Coords]:
        """The tiles that have a file, in the order of the grid."""
        found = set(self.lost.positions(self.id))
        with suppress(FileNotFoundError), os.scandir(f"{self.folder}/{paths.tile_folder(self.id)}") as entries:
            for entry in entries:
                coords = paths.position_of(entry.name)
                if coords is not None and links.linked_ids(self.folder, "array", paths.tile_folder(self.id, coords)):
                    found.add(coords)
        return iter(sorted(coords for coords in found if self.is_inside(coords)))

    def is_inside(self, coords: Coords) -> bool:
        """Return whether a position is one of the grid."""
        counts = self.grid.counts
        return len(coords) == len(counts) and all(place < count for place, count in zip(coords, counts, strict=True))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes that the files of these tiles take."""
        total = 0
        for place in coords:
            with suppress(NodeNotFound, MissingChunks):
                path = self.find(place)
                total += 0 if path is None else file_stamp(path)[2]
        return total

    def nbytes_stored(self) -> int:
        """Bytes that the files of all tiles take."""
        return self.stored_sizes(self.stored())

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold tiles against every other writer; ``Conflict`` after ``timeout`` seconds."""
        self.place.require_writable()
        files: list[str] = []
        with ExitStack() as stack:
            with write_errors(self.folder, ""):
                for place in sorted(set(coords)):
                    stack.enter_context(locks.hold_folder(partial(self._make, place), timeout))
                    stack.callback(self._forget_empty, place)  # while it is held: who waits for it makes it anew
                    self._require()  # else its removal may have passed this folder by
                    path = self._lost_or_found(place)
                    files += [] if path is None else [path]
                stack.enter_context(hold_all(files, timeout))
            yield

    def _make(self, coords: Coords) -> str:
        """The folder of a tile's link, made where missing."""
        self._require()
        path = links.require_inside(self.folder, f"{self.folder}/{paths.tile_folder(self.id, coords)}")
        return in_folder(path, partial(str, path))

    def _require(self) -> None:
        """NodeNotFound when the array is gone."""
        if not os.path.lexists(f"{self.folder}/{paths.data_path('varray', self.id)}"):
            raise NodeNotFound("the array was removed", url=self.folder, node=f"{self.place.name}/{self.id}")

    def _forget_empty(self, coords: Coords) -> None:
        with suppress(OSError):
            os.rmdir(f"{self.folder}/{paths.tile_folder(self.id, coords)}")

    def _lost_or_found(self, coords: Coords) -> str | None:
        try:
            return self.find(coords)
        except MissingChunks:  # what is written takes the place of what was lost
            return None

    def write(self, coords: Coords, block: Block) -> None:
        """Store a whole tile: its file is replaced."""
        try:
            with self.place.changing():
                path = self._lost_or_found(coords)
                if count_fill(block, self.fill) == block.size:
                    self._drop(coords, path)
                else:
                    self._put(coords, path, block)
        except HyperslabError as error:
            raise error.locate(url=self.folder, key=paths.tile_folder(self.id, coords)) from error.__cause__

    def _put(self, coords: Coords, path: str | None, block: Block) -> None:
        place = paths.tile_folder(self.id, coords)
        written = {part: _padded(block, self.form, part, self.fill) for part in self.form.grid}
        old = None
        text = None
        if path is not None:
            old = self.files.get(path)
            text = old.text
            if self.lost.find(self.id, coords) == path:
                id = os.path.basename(path).removesuffix(paths.SUFFIXES["array"])
                links.put_link(self.folder, "array", place, id, relative=self.place.relative)
        if path is None or text is None:
            id = new_id()
            path = f"{self.folder}/{paths.data_path('array', id)}"
            new = Rewriting(path, self.form, self.fill, self.settings, None, written)
            in_folder(os.path.dirname(path), partial(new.run, self.meta(id, coords)))
            links.put_link(self.folder, "array", place, id, relative=self.place.relative, alone=True)
        else:
            Rewriting(path, self.form, self.fill, self.settings, old, written).run(text)
        self.files.forget(path)

    def erase(self, coords: Coords) -> None:
        """Forget a tile: its file is removed."""
        with self.place.changing():
            self._drop(coords, self._lost_or_found(coords))

    def _drop(self, coords: Coords, path: str | None) -> None:
        """Remove a tile's file and link. Before the link is gone the file holds nothing any more, so that a process
        that dies between leaves no cells that a later one would find. Each step is on the medium before the next: after
        a power cut no link leads to nothing."""
        durable = self.settings.durable
        if path is not None:
            with suppress(NodeNotFound):
                text = self.files.get(path).text or ""
                size = int(np.prod(self.form.shape, dtype=object))
                put_file(path, empty_file(text, size), durable=durable)
        place = paths.tile_folder(self.id, coords)
        for id in links.linked_ids(self.folder, "array", place):
            links.remove_link(self.folder, "array", place, id, durable=durable)
        if path is not None:
            links.remove_file(self.folder, "array", path, durable=durable)
            self.files.forget(path)


def _padded(block: Block, form: Form, part: Coords, fill: Block) -> Block:
    """A piece of a tile's own grid, what reaches past its edge with the fill value."""
    cells: Any = block[form.grid.extent(part)]
    shape = form.grid.chunk_shape(part)
    if cells.shape == shape:
        return np.asarray(cells)
    whole = np.full(shape, fill, form.dtype)
    whole[tuple(slice(0, size) for size in cells.shape)] = cells
    return whole
