"""The writer of b2nd files: when it is closed, the one array and its coordinates become a file.

Small arrays stay in memory, larger ones are working files beside the target. A dataset that is opened for changes is
copied at its first change, and the copy takes its place at the end: a crash leaves the old file or the new one.
"""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from math import prod

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Conflict, HyperslabError, Invalid, StorageError, Unsupported
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.b2nd.dataset import B2ndReader
from hyperslab.formats.b2nd.library import B2ndCells, ChangedSlices, MemoryCells
from hyperslab.formats.base import Writer
from hyperslab.formats.format_errors import dataset_closed, names_below, node_not_found, require_array
from hyperslab.formats.library_array import Part
from hyperslab.formats.single_array.document import (
    Doc,
    Document,
    LabelledArray,
    StoredCoordinate,
    is_label,
    text_not_main,
)
from hyperslab.formats.single_array.draft import SingleArrayDraft, main_array, main_array_or_none
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.building import already_exists, put_in_place, remove, sibling
from hyperslab.stores.files import write_error, write_errors
from hyperslab.stores.locks import hold_folder
from hyperslab.stores.system import ALWAYS
from hyperslab.stores.unclosed import Unclosed

# -- working files: a temporary name beside the dataset, which they replace -----------------------------------------


class WorkingFile(library.ArrayHandle):
    """An array of blosc2 under a temporary name beside ``target``: a new one, or a copy of what lies there."""

    def __init__(self, target: str, url: str, settings: Settings, spec: ArraySpec | None = None) -> None:
        self.path = path = sibling(target)
        module, threads = library.blosc2(), settings.threads
        super().__init__(lambda: module.open(path, mode="a", dparams=module.DParams(nthreads=threads)), url)
        self._finish = weakref.finalize(self, _remove, path, os.getpid())
        try:
            if spec is None:
                copy = shutil.copytree if os.path.isdir(target) else shutil.copy
                copy(target, path)
            else:
                _make(path, spec, threads, url)
        except OSError as error:
            self.discard()
            if isinstance(error, HyperslabError):
                raise
            raise write_error(error, url, os.path.basename(target)) from error
        except BaseException:
            self.discard()
            raise

    def resize(self, old: ArraySpec, new: ArraySpec) -> None:
        """Give the array another shape; new cells hold the fill value, also where it once was longer."""
        with self.locked_array() as array, library.translate_write_errors(self._url):
            array.resize(new.shape)
        for part in new_regions(old.shape, new.shape):
            for piece in _pieces(part, new):
                self.write(piece, new.filled(tuple(cut.stop - cut.start for cut in piece)))

    def write_metalayers(self, metalayers: Document) -> None:
        """Replace the metalayers of ours, and those that are attributes; those of other programs stay."""
        with self.locked_array() as array, library.translate_write_errors(self._url):
            layers = array.schunk.vlmeta
            current = layers.getall()
            for key, value in current.items():
                if key not in metalayers and (is_label(key, value) or document.can_be_attribute(value)):
                    del layers[key]
            for key, value in metalayers.items():
                if key not in current or document.as_lists(current[key]) != value:
                    layers[key] = value

    def release(self) -> str:
        """Let go of the complete file; the caller gives it its name."""
        self.close()
        self._finish.detach()
        return self.path

    def discard(self) -> None:
        """Remove the file."""
        self.close()
        self._finish()


def _make(path: str, spec: ArraySpec, threads: int, url: str) -> None:
    """Make a file in which every cell holds the fill value."""
    module = library.blosc2()
    words = document.compression_of(spec.codecs)
    filters = [getattr(module.Filter, name) for name in words["filters"]] or [module.Filter.NOFILTER]
    params = module.CParams(
        codec=getattr(module.Codec, words["codec"]),
        clevel=words["clevel"],
        typesize=spec.numpy_dtype.itemsize,
        nthreads=threads,
        filters=[*[module.Filter.NOFILTER] * (6 - len(filters)), *filters],
    )
    options: Doc = {"chunks": spec.chunks} if spec.shape else {}
    options |= {"dtype": spec.numpy_dtype, "urlpath": path, "contiguous": True, "mode": "w"}
    options |= {"cparams": params, "dparams": module.DParams(nthreads=threads)}
    fill = spec.fill_cell()
    # This tells why a place takes no file; blosc2 does not.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | ALWAYS, 0o666))
    with library.translate_write_errors(url):
        if any(fill.tobytes()):
            module.full(spec.shape, fill[()], **options)
        else:
            module.zeros(spec.shape, **options)


def new_regions(old: tuple[int, ...], new: tuple[int, ...]) -> list[Part]:
    """Return the cells of ``new`` that ``old`` does not have, as parts that do not overlap."""
    parts = []
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        if after > before:
            kept = tuple(slice(0, min(a, b)) for a, b in zip(old[:axis], new[:axis], strict=True))
            parts.append((*kept, slice(before, after), *(slice(0, length) for length in new[axis + 1 :])))
    return [part for part in parts if all(cut.stop > cut.start for cut in part)]


def _pieces(part: Part, spec: ArraySpec) -> list[Part]:
    """Return a part cut along the chunks of the array."""
    grid = Grid.of(spec.shape, spec.chunks)
    ranges = [
        range(axis.find(cut.start), axis.find(cut.stop - 1) + 1) for axis, cut in zip(grid.axes, part, strict=True)
    ]
    inner = Grid.of(tuple(map(len, ranges)), (1,) * len(ranges))
    pieces = []
    for place in inner:
        extent = grid.extent(tuple(numbers[i] for numbers, i in zip(ranges, place, strict=True)))
        pieces.append(
            tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(extent, part, strict=True))
        )
    return pieces


def _remove(path: str, owner: int) -> None:
    """Remove the temporary file, in the process that made it."""
    if os.getpid() == owner:
        with suppress(OSError):
            remove(path)


_SMALL = 1 << 20
"""Bytes of an array up to which it is held in memory."""
_MOST_LABELS = 256 << 20
"""Bytes of all coordinates, which stand in the metalayers."""

ChangedCells = MemoryCells | WorkingFile


class B2ndWriter(Writer):
    """A b2nd file being made (modes ``w``, ``x``) or changed (``r+``); seen by others when it is closed."""

    is_single_array = True
    is_written_whole = True

    def __init__(self, path: str, url: str, mode: str, settings: Settings) -> None:
        self._target = os.path.realpath(path)
        self._url = url
        self._mode = mode
        self._settings = settings
        self._lock = threading.RLock()
        self._closed = False
        self._failed = False
        self._unclosed = Unclosed(self, url)
        self._draft = SingleArrayDraft()
        self._cells: dict[str, ChangedCells] = {}
        self._old: B2ndReader | None = None
        if mode == "x" and os.path.lexists(self._target):
            raise already_exists(url)
        if mode == "r+":
            self._old = B2ndReader(path, url, settings)
            self._draft = SingleArrayDraft.of(self._old.labelled)
            self._cells.update({name: MemoryCells(cells.copy()) for name, cells in self._draft.cells.items()})

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str | None:
        """The array that the others are coordinates of; None while there is none, or no telling."""
        return main_array_or_none(self._draft.specs)

    def children(self, path: str) -> list[str]:
        """Return the names of the array and its coordinates."""
        return names_below(self.node(path), self._draft.specs)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the group of all, the array, or a coordinate."""
        self._check_open()
        if path and path not in self._draft.specs:
            raise node_not_found(path, self._url)
        return self._draft.node(path)

    def chunks(self, path: str) -> ChunkSource:
        spec = require_array(path, self.node(path), self._url)
        find, changing = lambda: self._readable_cells(path), lambda: self._change_cells(path)
        return ChangedSlices(spec, find, (self._url, path), changing, self._lock)

    def _readable_cells(self, path: str) -> B2ndCells:
        self.node(path)
        stored = self._cells.get(path)
        if stored is not None:
            return stored
        assert self._old is not None  # what has no cells here is the array of the file that is changed
        return self._old.handle

    def _check_open(self) -> None:
        if self._closed:
            raise dataset_closed(self._url)

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _change_cells(self, path: str) -> Iterator[ChangedCells]:
        """Hold the cells of an array to change them; after a failure of blosc2 nothing will be published."""
        self._check_open()
        with self._lock:
            try:
                self._unclosed.changed = True
                yield self._writable_cells(path)
            except StorageError:
                self._failed = True
                raise

    def _writable_cells(self, path: str) -> ChangedCells:
        if path not in self._cells:
            self.node(path)
            self._cells[path] = WorkingFile(self._target, self._url, self._settings)
            # What was copied must be the version that was read: another writer may have replaced it since.
            if self._old is not None and library.file_version(self._target) != self._old.version:
                raise self._conflict()
        return self._cells[path]

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish as b2nd holds it; Unsupported names what it cannot hold."""
        return document.new_array(spec)

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make a node, or change its attributes, dimension names, fill value and shape.

        Unsupported for groups, and where type or chunks of an array would become others.
        """
        self._check_open()
        if spec.is_link or bool(split(path)[0]) or (path and spec.is_group):
            what = "links" if spec.is_link else "groups"
            remedy = "put the array and its coordinates at the root, or use zarr3 or netcdf"
            raise Unsupported(f"format b2nd has no {what}", url=self._url, node=path, remedy=remedy)
        if spec.is_group:
            self._draft.group, self._unclosed.changed = spec, True
        elif not path:
            raise Unsupported("an array of format b2nd has a name", url=self._url, remedy="put it at a name")
        else:
            with self._lock:
                self._put_array(path, spec)

    def _put_array(self, path: str, spec: ArraySpec) -> None:
        current = self._draft.specs.get(path)
        if current is None:
            spec = document.new_array(spec)
            self._cells[path] = self._new_cells(spec)
        elif (spec.numpy_dtype, spec.chunks) != (current.numpy_dtype, current.chunks):
            what = "the chunks" if spec.numpy_dtype == current.numpy_dtype else "the type"
            raise Unsupported(f"b2nd cannot change {what} of an array", node=path, remedy="delete it and make it anew")
        elif spec.shape != current.shape:
            with self._change_cells(path) as cells:
                if isinstance(cells, WorkingFile):
                    cells.resize(current, spec)
                else:
                    kept = tuple(slice(0, min(pair)) for pair in zip(current.shape, spec.shape, strict=True))
                    resized = self._cells[path] = self._new_cells(spec)
                    resized.write(kept, cells.array[kept])
        self._draft.specs[path] = spec
        self._unclosed.changed = True

    def _new_cells(self, spec: ArraySpec) -> ChangedCells:
        if isinstance(spec.dtype, VlenString) or prod(spec.shape) * spec.numpy_dtype.itemsize <= _SMALL:
            return MemoryCells(spec.filled())
        return WorkingFile(self._target, self._url, self._settings, spec)

    def rebuild(self, path: str, without: Collection[Coords]) -> bool:
        """Make an array anew of its chunks; those at the coordinates ``without`` are not read, and hold the fill
        value. blosc2 counts wrongly where it replaces a chunk whose header is damaged."""
        old, spec, gone = self._readable_cells(path), self._draft.specs[path], frozenset(without)
        made = WorkingFile(self._target, self._url, self._settings, spec)
        if self._old is not None:
            with self._old.handle.locked_array() as array:
                metalayers = library.metadata(array, self._url)
            made.write_metalayers(metalayers)
        grid = Grid.of(spec.shape, spec.chunks)
        for coords in grid:
            if coords not in gone:
                part = grid.extent(coords)
                cells = np.empty([cut.stop - cut.start for cut in part], spec.numpy_dtype)
                old.read(part, cells)
                made.write(part, cells)
        self._cells[path], self._unclosed.changed = made, True
        return True

    def drop(self, path: str) -> None:
        """Remove the array or a coordinate."""
        if not self.node(path).is_array:
            raise Invalid("the root cannot be removed", url=self._url, remedy="remove the file itself")
        with self._lock:
            stored = self._cells.pop(path, None)
            if isinstance(stored, WorkingFile):
                stored.discard()
            self._draft.drop(path)
            self._unclosed.changed = True

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
            if self._draft.specs and self._unclosed.changed:
                self._publish()
            elif self._unclosed.changed and self._mode == "r+":
                raise Invalid("a b2nd file without its array", url=self._url, remedy="remove the file itself")
        except HyperslabError as error:
            raise error.locate(url=self._url) from error.__cause__
        finally:
            self.discard()

    def _publish(self) -> None:
        name = main_array(self._draft.specs)
        main = self._draft.specs[name]
        if isinstance(main.dtype, VlenString):
            raise text_not_main("b2nd", name)
        labels = document.render_metalayers(
            self._labelled(name), self._old.foreign if self._old is not None else frozenset()
        )
        working = self._writable_cells(name)
        if isinstance(working, MemoryCells):
            cells = working.array
            self._cells[name] = working = WorkingFile(self._target, self._url, self._settings, main)
            working.write(tuple(map(slice, main.shape)), cells)
        working.write_metalayers(labels)
        self._put_in_place(working)

    def _labelled(self, main: str) -> LabelledArray:
        coords, nbytes = {}, 0
        for name, spec in self._draft.specs.items():
            if name != main:
                nbytes += prod(spec.shape) * spec.numpy_dtype.itemsize
                if nbytes > _MOST_LABELS:
                    raise Invalid(f"coordinates of more than {_MOST_LABELS >> 20} MiB", node=name, remedy="use zarr3")
                cells = np.empty(spec.shape, spec.numpy_dtype)
                self._readable_cells(name).read(tuple(slice(0, length) for length in spec.shape), cells)
                coords[name] = StoredCoordinate(spec, cells)
        return LabelledArray(main, self._draft.specs[main], coords, self._draft.group)

    def _put_in_place(self, working: WorkingFile) -> None:
        # From here on the file is nobody's: it is renamed, or removed.
        path = working.release()
        try:
            with (
                write_errors(self._url, os.path.basename(self._target)),
                hold_folder(lambda: os.path.dirname(self._target), self._settings.lock_timeout),
            ):
                now: library.Version | None = None
                with suppress(FileNotFoundError):
                    now = library.file_version(self._target)
                if self._old is not None and now != self._old.version:
                    raise self._conflict()
                durable = self._settings.durable
                if self._old is not None:
                    self._old.close()  # Windows replaces no file that is mapped
                put_in_place(path, self._target, overwrite=self._mode != "x", durable=durable)
        finally:
            remove(path)

    def _conflict(self) -> Conflict:
        remedy = "open it again and repeat the changes"
        return Conflict("another writer changed the file meanwhile", url=self._url, remedy=remedy)

    def discard(self) -> None:
        """Close without publishing: the old file, or nothing, stays."""
        self._closed, self._unclosed.changed = True, False
        for stored in self._cells.values():
            if isinstance(stored, WorkingFile):
                stored.discard()
        if self._old is not None:
            self._old.close()
