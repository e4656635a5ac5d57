"""The Writer of b2nd files: arrays that are held until it is closed; then the one and its coordinates become a file.

Small arrays stay in memory, larger ones are working files beside the target. A dataset that is opened for changes is
copied at its first change, and the copy takes its place at the end: a crash leaves the old file or the new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from math import prod

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, Invalid, StorageError, Unsupported
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.b2nd.dataset import B2ndReader
from hyperslab.formats.b2nd.source import B2ndCells, ChangedSlices, MemoryCells, all_cells, whole
from hyperslab.formats.b2nd.working import WorkingFile
from hyperslab.formats.format_errors import dataset_closed, names_below, node_not_found, require_array
from hyperslab.formats.one_array import Labelled, StoredCoordinate, found_main, main_array, no_text
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.building import put_in_place, remove
from hyperslab.stores.files import write_errors
from hyperslab.stores.locks import hold_folder
from hyperslab.stores.unclosed import Unclosed

_SMALL = 1 << 20
"""Bytes of an array up to which it is held in memory."""
_MOST_LABELS = 256 << 20
"""Bytes of all coordinates, which stand in the metalayers."""

Held = MemoryCells | WorkingFile


class B2ndWriter:
    """A b2nd file being made (modes ``w``, ``x``) or changed (``r+``); seen by others when it is closed."""

    def __init__(self, path: str, url: str, mode: str, settings: Settings) -> None:
        self._target = os.path.realpath(path)
        self._url = url
        self._mode = mode
        self._settings = settings
        self._lock = threading.RLock()
        self._closed = False
        self._failed = False
        self._held_back = Unclosed(self, url)
        self._group = GroupSpec()
        self._specs: dict[str, ArraySpec] = {}
        self._cells: dict[str, Held] = {}
        self._old: B2ndReader | None = None
        if mode == "x" and os.path.lexists(self._target):
            raise AlreadyExists("the target exists", url=url, remedy="choose another, or mode='w' to replace it")
        if mode == "r+":
            self._load(B2ndReader(path, url, settings))

    def _load(self, old: B2ndReader) -> None:
        labelled = old.labelled
        self._old, self._group = old, labelled.group
        self._specs[labelled.name] = labelled.spec
        for name, coordinate in labelled.coords.items():
            self._specs[name] = coordinate.spec
            self._cells[name] = MemoryCells(coordinate.cells.copy())

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str | None:
        """The array that the others are coordinates of; None while there is none, or no telling."""
        return found_main(self._specs)

    def children(self, path: str) -> list[str]:
        """The names of the array and its coordinates."""
        return names_below(self.node(path), self._specs)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """The group of all, the array, or a coordinate."""
        self._check_open()
        if not path:
            return self._group
        if path not in self._specs:
            raise node_not_found(path, self._url)
        return self._specs[path]

    def chunks(self, path: str) -> ChunkSource:
        """The chunks of an array as they are now."""
        spec = require_array(path, self.node(path), self._url)
        find, changing = lambda: self._found(path), lambda: self._changing(path)
        return ChangedSlices(spec, find, (self._url, path), changing, self._lock)

    def _found(self, path: str) -> B2ndCells:
        self.node(path)
        held = self._cells.get(path)
        if held is not None:
            return held
        assert self._old is not None  # what has no cells here is the array of the file that is changed
        return self._old.handle

    def _check_open(self) -> None:
        if self._closed:
            raise dataset_closed(self._url)

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, path: str) -> Iterator[Held]:
        """The cells of an array, to be changed; after a failure of blosc2 nothing will be published."""
        self._check_open()
        with self._lock:
            try:
                self._held_back.changed = True
                yield self._held(path)
            except StorageError:
                self._failed = True
                raise

    def _held(self, path: str) -> Held:
        if path not in self._cells:
            self.node(path)
            self._cells[path] = WorkingFile(self._target, self._url, self._settings)
            if self._old is not None and library.version(self._target) != self._old.version:
                raise self._conflict()
        return self._cells[path]

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """A user's wish as b2nd holds it; Unsupported names what it cannot hold."""
        return document.new_array(spec)

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make a node, or change its attributes, dimension names, fill value and shape.

        Unsupported for groups, and where type or chunks of an array would become others.
        """
        self._check_open()
        if isinstance(spec, Link) or bool(split(path)[0]) or (path and isinstance(spec, GroupSpec)):
            what = "links" if isinstance(spec, Link) else "groups"
            remedy = "put the array and its coordinates at the root, or use zarr3 or netcdf"
            raise Unsupported(f"format b2nd has no {what}", url=self._url, node=path, remedy=remedy)
        if isinstance(spec, GroupSpec):
            self._group, self._held_back.changed = spec, True
        elif not path:
            raise Unsupported("an array of format b2nd has a name", url=self._url, remedy="put it at a name")
        else:
            with self._lock:
                self._put_array(path, spec)

    def _put_array(self, path: str, spec: ArraySpec) -> None:
        known = self._specs.get(path)
        if known is None:
            spec = document.new_array(spec)
            self._cells[path] = self._new_cells(spec)
        elif (spec.numpy_dtype, spec.chunks) != (known.numpy_dtype, known.chunks):
            what = "the chunks" if spec.numpy_dtype == known.numpy_dtype else "the type"
            raise Unsupported(f"b2nd cannot change {what} of an array", node=path, remedy="delete it and make it anew")
        elif spec.shape != known.shape:
            with self._changing(path) as cells:
                self._resize(path, cells, known, spec)
        self._specs[path] = spec
        self._held_back.changed = True

    def _new_cells(self, spec: ArraySpec) -> Held:
        if isinstance(spec.dtype, VlenString) or prod(spec.shape) * spec.numpy_dtype.itemsize <= _SMALL:
            return MemoryCells(spec.filled())
        return WorkingFile(self._target, self._url, self._settings, spec)

    def _resize(self, path: str, cells: Held, old: ArraySpec, new: ArraySpec) -> None:
        if isinstance(cells, WorkingFile):
            cells.resize(old, new)
            return
        kept = tuple(slice(0, min(pair)) for pair in zip(old.shape, new.shape, strict=True))
        grown = self._new_cells(new)
        grown.write(kept, cells.array[kept])
        self._cells[path] = grown

    def rebuild(self, path: str, without: Collection[Coords]) -> None:
        """Make an array anew of its chunks; those at the coordinates ``without`` are not read, and hold the fill
        value. blosc2 counts wrongly where it replaces a chunk whose header is damaged."""
        old, spec, gone = self._found(path), self._specs[path], frozenset(without)
        made = WorkingFile(self._target, self._url, self._settings, spec)
        if self._old is not None:
            made.describe(self._old.handle.metadata())
        grid = Grid.of(spec.shape, spec.chunks)
        for coords in grid:
            if coords not in gone:
                part = grid.extent(coords)
                cells = np.empty([cut.stop - cut.start for cut in part], spec.numpy_dtype)
                old.read(part, cells)
                made.write(part, cells)
        self._cells[path], self._held_back.changed = made, True

    def drop(self, path: str) -> None:
        """Remove the array or a coordinate."""
        if not isinstance(self.node(path), ArraySpec):
            raise Invalid("the root cannot be removed", url=self._url, remedy="remove the file itself")
        with self._lock:
            held = self._cells.pop(path, None)
            if isinstance(held, WorkingFile):
                held.discard()
            del self._specs[path]
            self._held_back.changed = True

    # -- ending -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Put the file in its place; closing twice is fine. After a failed write the old file, or nothing, stays:
        StorageError. Invalid when there are several arrays that are no coordinates."""
        if self._closed:
            return
        try:
            if self._failed:
                remedy = "repeat the changes"
                raise StorageError("a write failed, so nothing was published", url=self._url, remedy=remedy)
            if self._specs and self._held_back.changed:
                self._publish()
            elif self._held_back.changed and self._mode == "r+":
                raise Invalid("a b2nd file without its array", url=self._url, remedy="remove the file itself")
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        finally:
            self.discard()

    def _publish(self) -> None:
        name = main_array(self._specs)
        main = self._specs[name]
        if isinstance(main.dtype, VlenString):
            raise no_text("b2nd", name)
        labels = document.render(self._labelled(name), self._old.foreign if self._old is not None else frozenset())
        held = self._held(name)
        if isinstance(held, MemoryCells):
            made = WorkingFile(self._target, self._url, self._settings, main)
            self._cells[name] = made
            made.write(whole(main.shape), held.array)
            held = made
        held.describe(labels)
        self._put_in_place(held)

    def _labelled(self, main: str) -> Labelled:
        coords, nbytes = {}, 0
        for name, spec in self._specs.items():
            if name != main:
                nbytes += prod(spec.shape) * spec.numpy_dtype.itemsize
                if nbytes > _MOST_LABELS:
                    raise Invalid(f"coordinates of more than {_MOST_LABELS >> 20} MiB", node=name, remedy="use zarr3")
                coords[name] = StoredCoordinate(spec, all_cells(self._found(name), spec))
        return Labelled(main, self._specs[main], coords, self._group)

    def _put_in_place(self, working: WorkingFile) -> None:
        path = working.settle()
        try:
            with (
                write_errors(self._url, os.path.basename(self._target)),
                hold_folder(lambda: os.path.dirname(self._target), self._settings.lock_timeout),
            ):
                if self._old is not None and self._now() != self._old.version:
                    raise self._conflict()
                durable = self._settings.durable
                put_in_place(path, self._target, overwrite=self._mode != "x", durable=durable)
        finally:
            remove(path)

    def _now(self) -> library.Version | None:
        try:
            return library.version(self._target)
        except FileNotFoundError:
            return None

    def _conflict(self) -> Conflict:
        remedy = "open it again and repeat the changes"
        return Conflict("another writer changed the file meanwhile", url=self._url, remedy=remedy)

    def discard(self) -> None:
        """Close without publishing: the old file, or nothing, stays."""
        self._closed, self._held_back.changed = True, False
        for held in self._cells.values():
            if isinstance(held, WorkingFile):
                held.discard()
        if self._old is not None:
            self._old.close()
