"""The cells of one Array: pieces of its file, read as the file is at that moment; what one write changes shows at once.

Pieces are the HDF5 chunks that the collection's options ask for, or blocks of rows where cells lie in one piece. A file
that is laid out in another way, of another type or byte order, is read all the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, SourceTraits
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError
from hyperslab.formats.collections.deker.data_file import (
    Box,
    ContiguousDekerCells,
    DekerFile,
    Stamp,
    file_stamp,
    open_file,
    stamp_of,
)
from hyperslab.formats.collections.deker.file_writer import DatasetForm, FileRewrite
from hyperslab.formats.collections.deker.folder import translate_errors
from hyperslab.formats.collections.deker.locks import lock_file
from hyperslab.stores.attempts import kept_waiting
from hyperslab.stores.files import READ, pread_into, read_error, write_errors

# Files that are kept open: each takes a descriptor, of which a process has few.
DEKER_FILES_OPEN = 64
# A file that is replaced or half-written so often while it is read has a writer that never rests.
DEKER_FILE_TRIES = 3
# Files in one piece of which it is remembered where their cells lie.
DEKER_FILES_REMEMBERED = 1 << 14
# A writer of the peer changes a file in place. The clock of a file system ticks every 4 to 10 ms (a jiffy of Linux at
# 250 or 100 Hz): of a file that was changed so shortly before, a further change may leave the stamp as it is.
CLOCK_TICKS_NS = 20_000_000


class OpenFiles:
    """The data files that were read last, each as long as it stays the same; of many more it is known where the cells
    lie, where that is in one piece. A file that has just been changed is opened anew for each read."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, DekerFile] = OrderedDict()
        self._contiguous: dict[str, tuple[Stamp, int, tuple[int, ...], np.dtype[np.generic]]] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> DekerFile:
        """Return the file as it is now; the errors of :func:`.open_file`."""
        stamp = file_stamp(path)
        with self._lock:
            known = self._files.get(path)
            if known is not None and known.stamp == stamp:
                self._files.move_to_end(path)
                return known
        opened = open_file(path)
        if time.time_ns() - opened.stamp[3] < CLOCK_TICKS_NS:
            self.forget(path)
            return opened
        with self._lock:
            self._files[path] = opened
            while len(self._files) > DEKER_FILES_OPEN:
                self._files.popitem(last=False)
            if isinstance(opened.cells, ContiguousDekerCells) and opened.cells.offset is not None:
                if len(self._contiguous) >= DEKER_FILES_REMEMBERED:
                    self._contiguous.clear()
                self._contiguous[path] = opened.stamp, opened.cells.offset, opened.shape, opened.dtype
        return opened

    def read_contiguous(self, path: str, out: Block) -> bool:
        """Read all cells of a file into ``out``, without opening it as one of HDF5; False where that takes more: the
        file is not known, or no longer the same, or its cells lie otherwise."""
        known = self._contiguous.get(path)
        if known is None or known[2:] != (out.shape, out.dtype):
            return False
        cells = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        try:
            descriptor = os.open(path, READ)
        except OSError:
            return False
        try:
            stamp, offset, *_ = known
            if stamp_of(os.fstat(descriptor)) != stamp:
                return False
            pread_into(descriptor, cells.reshape(-1).view(np.uint8).data, offset)
        except (OSError, CorruptChunk):
            return False
        finally:
            os.close(descriptor)
        if cells is not out:
            out[...] = cells
        return True

    def forget(self, path: str) -> None:
        """Drop what is known of a file that was replaced or removed."""
        with self._lock:
            self._files.pop(path, None)
            self._contiguous.pop(path, None)


class FileCells(ChunkReader):
    """Cells of one file as it is now, by pieces of a grid; changed in place by the peer meanwhile it is read anew."""

    def __init__(self, files: OpenFiles, path: str, form: DatasetForm, fill: Block, settings: Settings) -> None:
        self.grid = form.grid
        self._files = files
        self._form = form
        self._fill = fill
        self._settings = settings
        self.opened = self._open(path)

    def _open(self, path: str) -> DekerFile:
        opened = self._files.get(path)
        if opened.cells is not None and opened.shape != self._form.shape:
            raise FormatError(
                f"data has the shape {opened.shape}, the schema says {self._form.shape}",
                url=path,
                remedy="restore the file from a copy, or remove the array",
            )
        return opened

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read a piece; what reaches past the array's edge holds the fill value. False without ``data``."""
        return self._retry_if_changed(lambda: self._read_piece(coords, out))

    def read_part(self, coords: Coords, within: Box, out: Block) -> bool:
        """Read the cells ``within`` a piece into ``out``; False without ``data``."""
        origin = self._form.grid.origin(coords)
        box = [slice(a + part.start, a + part.stop, part.step) for a, part in zip(origin, within, strict=True)]
        return self.read_box(tuple(box), out)

    def read_box(self, box: Box, out: Block) -> bool:
        """Read a part of the whole array into ``out``; False without ``data``."""
        return self._retry_if_changed(lambda: self.opened.read(box, out, self._settings))

    def _read_piece(self, coords: Coords, out: Block) -> bool:
        opened = self.opened
        cells: Any = opened.cells
        if cells is not None and opened.dtype == out.dtype and cells.grid == self._form.grid:
            found: bool = cells.read_into(coords, out)
            if not found:
                out[...] = opened.fill
            return True
        extent = self._form.grid.extent(coords)
        inside = tuple(slice(0, part.stop - part.start) for part in extent)
        if out[inside].shape != out.shape:
            out[...] = self._fill
        return opened.read(extent, out[inside], self._settings)

    def _retry_if_changed(self, work: Callable[[], bool]) -> bool:
        # A writer of the peer changes a file in place: what is damaged may be half-written, and is read anew when the
        # file's stamp tells of a change.
        for _ in range(DEKER_FILE_TRIES):
            path = self.opened.path
            try:
                return work()
            except (CorruptChunk, FormatError):
                if file_stamp(path) == self.opened.stamp:
                    raise
                self.opened = self._open(path)
            except HyperslabError:
                raise
            except OSError as error:
                raise read_error(error, path, "") from error
        return work()


@translate_errors(lambda cells: "")
class ArrayCells(ChunkSource):
    """The cells of the Array whose file ``path`` tells (NodeNotFound when it is gone)."""

    def __init__(
        self,
        files: OpenFiles,
        path: Callable[[], str],
        form: DatasetForm,
        fill: Block,
        settings: Settings,
        writable: Callable[[], None],
    ) -> None:
        self.grid = form.grid
        # Of cells in one piece any part is read alone; a chunk is decoded whole.
        self.traits = SourceTraits(fetches=True, transacts=True, lists_chunks=True, reads_parts=form.chunks is None)
        self._files = files
        self._path = path
        self._form = form
        self._fill = fill
        self._settings = settings
        self._writable = writable
        self._busy = threading.RLock()
        self._written: dict[Coords, Block] | None = None

    def fetch(self, coords: Sequence[Coords]) -> FileCells:
        """Return the file as it is now."""
        return FileCells(self._files, self._path(), self._form, self._fill, self._settings)

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Box | None]]) -> FileCells:
        """Return the file as it is now."""
        return self.fetch(())

    def read_part(self, coords: Coords, within: Box, out: Block) -> bool:
        """Read the cells ``within`` a piece into ``out``; False when nothing was ever written."""
        return self.fetch([coords]).read_part(coords, within, out)

    def read(self, coords: Coords) -> Block | None:
        """Return a piece, as the write that is going on made it; None when nothing was ever written."""
        if self._written is not None and coords in self._written:
            return self._written[coords]
        block = np.empty(self.grid.chunk_shape(coords), self._form.dtype)
        return block if self.fetch([coords]).read_into(coords, block) else None

    def write(self, coords: Coords, block: Block) -> None:
        """Store a piece, with the others of its transaction."""
        if self._written is not None:
            self._written[coords] = block
            return
        with self.transaction(self._settings.lock_timeout):
            self.write(coords, block)

    def erase(self, coords: Coords) -> None:
        """Have a piece hold the fill value."""
        self.write(coords, np.full(self.grid.chunk_shape(coords), self._fill, self._form.dtype))

    @contextmanager
    def transaction(self, timeout: float | None) -> Iterator[None]:
        """Hold the file against other writers; what is written within shows at the end, or not at all."""
        self._writable()
        if not self._busy.acquire(timeout=-1 if timeout is None else timeout):
            raise kept_waiting(url=self._path())
        try:
            if self._written is not None:  # within another one of this thread
                yield
                return
            with ExitStack() as stack:
                with write_errors("", ""):
                    stack.enter_context(lock_file(self._path, timeout))
                self._written = {}
                try:
                    yield
                    if self._written:
                        self._commit(self._written)
                finally:
                    self._written = None
        finally:
            self._busy.release()

    def _commit(self, written: dict[Coords, Block]) -> None:
        path = self._path()
        with write_errors(path, ""):
            old = FileCells(self._files, path, self._form, self._fill, self._settings).opened
            text = old.meta()
            try:
                FileRewrite(path, self._form, self._fill, self._settings, old, written).run(text)
            except HyperslabError as error:
                raise error.locate(url=path) from error.__cause__
        self._files.forget(path)

    def stored_sizes(self, coords: object) -> int:
        """Return bytes that the file takes: all pieces lie in it."""
        return self.nbytes_stored()

    def nbytes_stored(self) -> int:
        """Return bytes that the file takes."""
        return file_stamp(self._path())[2]

    def stored_coords(self) -> Iterator[Coords]:
        """Return every piece, where the file has ``data``."""
        return iter(self.grid) if self.fetch(()).opened.cells is not None else iter(())
