"""What is wrong with the HDF5 file of an Array or tile, and what mends it: the file written anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from hyperslab.chunks.grid import Grid
from hyperslab.errors import Conflict, HyperslabError, Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.deker import listing
from hyperslab.formats.deker.cells import DekerCells
from hyperslab.formats.deker.folder import Folder
from hyperslab.formats.deker.locks import hold
from hyperslab.formats.deker.opened import DekerFile, open_file
from hyperslab.formats.deker.rewriting import Rewriting, count_fill


class FileProblems:
    """Those of the files of one collection; ``deep`` reads every cell."""

    def __init__(self, folder: Folder, cells: DekerCells, deep: bool) -> None:
        self._folder = folder
        self._cells = cells
        self._deep = deep

    def examine(self, node: str, place: str, opened: DekerFile) -> Iterator[Remedy]:
        """What is wrong with one file; ``place`` in the folder of the collection."""
        key = f"collections/{self._folder.name}/{place}"
        form = self._cells.form

        def found(kind: str, message: str, *, mends: bool = True, sound: bool = False) -> Remedy:
            action = "write the file anew" if mends else None
            act = partial(self._rewrite, opened.path) if mends else None
            return Remedy(Problem(node, kind, f"{message} [key={key}]"), action, act, at=key, sound=sound)

        if opened.cells is not None and opened.shape != form.shape:
            message = f"data has the shape {opened.shape}, the schema says {form.shape}"
            yield found("wrong-shape", message, mends=False)
            return
        if opened.cells is not None and opened.dtype.newbyteorder("=") != form.dtype:
            message = f"data has the type {opened.dtype}, the schema says {form.dtype}"
            if self._fits_no_file:
                message = f"{message}, as no file of the collection is: the schema is in question"
            yield found("wrong-dtype", message, mends=not self._fits_no_file)
        elif opened.cells is not None and opened.dtype != form.dtype:
            yield found("byte-order", f"data is stored as {opened.dtype.str}", sound=True)
        if opened.empty_cells is None:
            yield found("no-count", "empty_cells is missing: DEKER cannot update the array")
        if self._deep and opened.cells is not None:
            try:
                count = self._count(opened)
            except HyperslabError as error:
                yield found("unreadable-cells", error.said, mends=False)
                return
            if opened.empty_cells is not None and count != opened.empty_cells:
                message = f"empty_cells is {opened.empty_cells}, {count} cells are: DEKER may take data away by it"
                yield found("wrong-count", message, sound=True)

    @cached_property
    def _fits_no_file(self) -> bool:
        """True if the schema tells the type of the cells of no file: it is wrong then, and not the files."""
        form = self._cells.form
        for id, _ in listing.data_files(self._folder.path, "array"):
            with suppress(HyperslabError):
                opened = open_file(self._folder.data(id, "array"))
                if opened.cells is not None and opened.dtype.newbyteorder("=") == form.dtype:
                    return False
        return True

    def _require_fit(self, opened: DekerFile) -> None:
        """Raise Conflict where the cells of a file are none of the type that the schema says."""
        form = self._cells.form
        if opened.cells is None or opened.dtype.newbyteorder("=") == form.dtype:
            return
        grid = Grid.of(form.shape, form.pieces)
        for coords in grid:
            box = grid.extent(coords)
            shape = [part.stop - part.start for part in box]
            stored, cast = np.empty(shape, opened.dtype), np.empty(shape, form.dtype)
            for block in (stored, cast):
                opened.read(box, block, self._folder.settings)
            if not np.array_equal(cast, stored, equal_nan=form.dtype.kind in "fc" and stored.dtype.kind in "fc"):
                message = f"cells of type {opened.dtype} are not all of type {form.dtype}"
                raise Conflict(message, url=opened.path, remedy="look which is right, the schema or the file")

    def _count(self, opened: DekerFile) -> int:
        """The cells that hold the fill value; every cell is read."""
        form, fill = self._cells.form, self._cells.fill
        grid = Grid.of(form.shape, form.pieces)
        count = 0
        for coords in grid:
            box = grid.extent(coords)
            block = np.empty([part.stop - part.start for part in box], form.dtype)
            opened.read(box, block, self._folder.settings)
            count += count_fill(block, fill)
        return count

    def _rewrite(self, path: str) -> None:
        """The file as it should be, with the cells that it has."""
        cells, settings = self._cells, self._folder.settings
        with self._folder.changing(), hold(partial(str, path), settings.lock_timeout):
            opened = cells.files.get(path)
            self._require_fit(opened)
            Rewriting(path, cells.form, cells.fill, settings, opened).run(opened.text or "")
        cells.files.forget(path)
