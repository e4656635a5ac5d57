"""The library blosc2 as it is used here: imported on use, one call at a time for each file, its errors in our words.

A frame's header is checked before blosc2 sees the file (:mod:`~hyperslab.formats.b2nd.document`), and blosc2 checks its
index and chunks itself: no damage of these that was tried brought it down. What cannot be contained: a file that
another program cuts off while it is mapped (the system then ends the process), and one that it writes in place.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any
from weakref import WeakSet
from zipfile import BadZipFile

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block, SourceTraits
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingLibrary, StorageError, Unsupported
from hyperslab.formats.b2nd import document
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.library_array import Part, SlicedArray
from hyperslab.formats.single_array.document import Doc
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.files import read_error, version_of
from hyperslab.stores.forks import call_after_fork

Version = tuple[int, int, int]
# Bytes of the header of a chunk of Blosc2 that are read here.
_HEAD = 16
_STORED = 12
"""The place in the header of a chunk of its stored length, which fills the header to its end."""
# blosc2 has no errors of its own: whatever it or the layers below it raise stands for damage or a failed write.
FAILURES = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OSError,
    AttributeError,
    OverflowError,
    BadZipFile,
)


def blosc2() -> Any:
    """Return the module blosc2; Unsupported names the extra when it is missing."""
    try:
        import blosc2 as module
    except ImportError as error:
        raise MissingLibrary("format b2nd needs the library blosc2", remedy="pip install 'hyperslab[b2nd]'") from error
    return module


def read_frame_header(path: str, url: str) -> document.Frame:
    """Read the header of a file or sparse directory; FormatError before blosc2 sees what is damaged."""
    sparse = os.path.isdir(path)
    name = os.path.join(path, document.SPARSE) if sparse else path
    try:
        with open(name, "rb") as file:
            head = file.read(128)
            head += file.read(max(0, document.header_size(head) - len(head)))
            return document.parse_frame(head, os.fstat(file.fileno()).st_size, sparse=sparse)
    except FileNotFoundError:
        raise file_not_found(url) from None
    except HyperslabError as error:
        raise error.locate(url=url) from None
    except OSError as error:
        raise read_error(error, url, "") from error


def file_version(path: str) -> Version:
    """Return the stamp of the present contents of a file or sparse directory."""
    return version_of(os.stat(os.path.join(path, document.SPARSE) if os.path.isdir(path) else path))


class B2ndCells(ABC):
    """The cells of one array, in a file or in memory."""

    @abstractmethod
    def read(self, part: Part, out: Block) -> None:
        """Read the cells of a part into ``out``."""

    @abstractmethod
    def write(self, part: Part, cells: Block) -> None:
        """Write the cells of a part."""


class ArrayHandle(B2ndCells):
    """One array of blosc2, which ``find`` opens. One thread uses it at a time; blosc2 itself may use several."""

    def __init__(self, find: Callable[[], Any], url: str) -> None:
        self._find = find
        self._url = url
        self._array: Any = None
        self._lock = threading.RLock()
        _OPEN.add(self)

    def abandon(self) -> Any:
        """Give up, in a forked child, what was open, of which the threads stayed behind; it is opened anew."""
        left, self._array, self._lock = self._array, None, threading.RLock()
        return left

    @contextmanager
    def locked_array(self) -> Iterator[Any]:
        """Hold the array for this thread alone."""
        with self._lock:
            if self._array is None:
                self._array = open_array(self._find, self._url)
            yield self._array

    def read(self, part: Part, out: Block) -> None:
        """Read the cells of ``part`` into ``out``, of any strides; CorruptChunk when they cannot be decoded."""
        if not out.size:
            return
        with self._lock:  # as locked_array does, without its calls: this is done for every chunk
            if self._array is None:
                self._array = open_array(self._find, self._url)
            straight = out.flags.c_contiguous
            cells = out if straight else np.empty(out.shape, out.dtype)
            try:
                self._array.get_slice_numpy(cells, (tuple(map(_START, part)), tuple(map(_STOP, part))))
            except FAILURES as error:
                raise CorruptChunk(f"blosc2 cannot read this: {error}", url=self._url) from error
            if not straight:
                out[...] = cells

    def write(self, part: Part, cells: Block) -> None:
        """Put the cells of ``part``; StorageError when blosc2 fails."""
        if cells.size:
            with self.locked_array() as array, translate_write_errors(self._url):
                array[part or ()] = np.ascontiguousarray(cells, array.dtype).reshape(cells.shape)

    def chunk_sizes(self) -> list[int]:
        """Return the stored bytes of each chunk, in their order in the file; of each only the header is read."""
        with self.locked_array() as array:
            try:
                heads = [info.lazychunk[:_HEAD] for info in array.schunk.iterchunks_info()]
            except FAILURES as error:
                raise CorruptChunk(f"blosc2 cannot read this: {error}", url=self._url) from error
        return [int.from_bytes(head[_STORED:], "little") for head in heads]

    def stored(self, number: int) -> bytes | None:
        """Return what is stored of a chunk, whatever is wrong with it; None when blosc2 does not give it."""
        with self.locked_array() as array:
            try:
                return bytes(array.schunk.get_chunk(number))
            except FAILURES:
                return None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._array = None


_START, _STOP = attrgetter("start"), attrgetter("stop")
# A fork copies the handles and not the threads of blosc2: each array is opened anew in the child.
_OPEN: WeakSet[ArrayHandle] = WeakSet()
_ABANDONED: list[Any] = []
"""Arrays that a forked child must never free: blosc2 would wait for their threads."""


call_after_fork(lambda: _ABANDONED.extend([handle.abandon() for handle in list(_OPEN)]))


def open_array(find: Callable[[], object], url: str) -> Any:
    """Return the array; FormatError when blosc2 does not find one."""
    try:
        array = find()
    except FAILURES as error:
        raise FormatError(f"blosc2 cannot open this: {error}", url=url) from error
    if not isinstance(array, blosc2().NDArray):
        raise Unsupported(f"blosc2 finds a {type(array).__name__} here and no array", url=url)
    return array


@contextmanager
def translate_write_errors(url: str) -> Iterator[None]:
    """Raise what blosc2 cannot write as a failure of the medium."""
    try:
        yield
    except HyperslabError:
        raise
    except FAILURES as error:
        raise StorageError(f"blosc2 cannot write this: {error}", url=url) from error


def file_opener(path: str, threads: int) -> Callable[[], Any]:
    """Return a function that opens a file or sparse directory for reading; a file is mapped, so that it stays what it
    is."""

    def find() -> Any:
        module = blosc2()
        mapped = {} if os.path.isdir(path) else {"mmap_mode": "r"}
        return module.open(path, mode="r", dparams=module.DParams(nthreads=threads), **mapped)

    return find


def metadata(array: Any, url: str) -> Doc:
    """Return all variable-length metalayers by name."""
    try:
        layers = array.schunk.vlmeta.getall()
    except FAILURES as error:
        raise FormatError(f"blosc2 cannot read the metalayers: {error}", url=url) from error
    return {str(key): value for key, value in layers.items()}


# -- chunks as slices of an array of blosc2, or of a coordinate in memory -------------------------------------------


class MemoryCells(B2ndCells):
    """All cells of a small array."""

    def __init__(self, array: Block) -> None:
        self.array = array

    def read(self, part: Part, out: Block) -> None:
        out[...] = self.array[part]

    def write(self, part: Part, cells: Block) -> None:
        self.array[part] = cells


class SlicedChunks(SlicedArray):
    """Chunks as slices of the cells that ``find`` gives. Read-only."""

    traits = SourceTraits(reads_parts=True)

    def __init__(self, spec: ArraySpec, find: Callable[[], B2ndCells], place: tuple[str, str]) -> None:
        super().__init__(spec)
        self._find = find
        self._url, self._node = place

    def read_part(self, coords: Coords, within: Part, out: Block) -> bool:
        """Read only the blocks that hold the cells ``within``. Always True."""
        if any((cut.step or 1) != 1 for cut in within) or out.ndim != len(within):
            block = np.empty(self.grid.chunk_shape(coords), self._spec.numpy_dtype)
            self.read_into(coords, block)
            out[...] = block[within]
            return True
        origin = self.grid.origin(coords)
        part = tuple(slice(at + cut.start, at + cut.stop) for at, cut in zip(origin, within, strict=True))
        self.take(coords, part, out)
        return True

    def take(self, coords: Coords, part: Part, out: Block) -> None:
        """Read a part of the cells by blosc2."""
        try:
            self._find().read(part, out)
        except HyperslabError as error:
            key = f"chunk {', '.join(map(str, coords))}"
            raise error.locate(url=self._url, node=self._node, key=key) from error.__cause__


class ChangedSlices(SlicedChunks):
    """The same of an array that is being written: ``changing`` gives its cells for a change, ``hold`` keeps other
    threads away from it."""

    traits = SourceTraits(reads_parts=True, locks=True)

    def __init__(
        self,
        spec: ArraySpec,
        find: Callable[[], B2ndCells],
        place: tuple[str, str],
        changing: Callable[[], AbstractContextManager[B2ndCells]],
        hold: AbstractContextManager[Any],
    ) -> None:
        super().__init__(spec, find, place)
        self._change_cells = changing
        self._hold = hold

    def give(self, part: Part, cells: Block) -> None:
        with self._change_cells() as target:
            target.write(part, cells)

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the array, which no other process sees yet, against other threads."""
        with self._hold:
            yield


class StoredSlices(SlicedChunks):
    """The same of a file, whose ``handle`` tells what is stored of each chunk, in C order."""

    def __init__(
        self, spec: ArraySpec, find: Callable[[], B2ndCells], place: tuple[str, str], handle: ArrayHandle
    ) -> None:
        super().__init__(spec, find, place)
        self._handle = handle

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        sizes = self._handle.chunk_sizes()
        return sum(sizes[number] for number in map(self._number, coords) if number < len(sizes))

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """Return what is stored of a chunk, whatever is wrong with it; None when blosc2 does not give it."""
        return self._handle.stored(self._number(coords))

    def _number(self, coords: Coords) -> int:
        return int(np.ravel_multi_index(coords, self.grid.counts)) if coords else 0

    def nbytes_stored(self) -> int:
        return sum(self._handle.chunk_sizes())
