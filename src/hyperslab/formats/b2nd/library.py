"""The library blosc2 as it is used here: imported on use, one call at a time for each file, its errors in our words.

A frame's header is checked before blosc2 sees the file (:mod:`~hyperslab.formats.b2nd.frame`), and blosc2 checks its
index and chunks itself: no damage of these that was tried brought it down. What cannot be contained: a file that
another program cuts off while it is mapped (the system then ends the process), and one that it writes in place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any
from weakref import WeakSet
from zipfile import BadZipFile

import numpy as np

from hyperslab.errors import (
    CorruptChunk,
    FormatError,
    HyperslabError,
    MissingLibrary,
    StorageError,
    Unsupported,
)
from hyperslab.formats.b2nd import frame
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.library_array import Part
from hyperslab.stores.files import read_error, version_of

Version = tuple[int, int, int]
_HEAD = 16
_STORED = 12
"""Where the header of a chunk says how long it is, to its end."""
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
    """The module blosc2; Unsupported names the extra when it is missing."""
    try:
        import blosc2 as module
    except ImportError as error:
        raise MissingLibrary("format b2nd needs the library blosc2", remedy="pip install 'hyperslab[b2nd]'") from error
    return module


def check(path: str, url: str) -> frame.Frame:
    """What the header of a file or sparse directory says; FormatError before blosc2 sees what is damaged."""
    sparse = os.path.isdir(path)
    name = os.path.join(path, frame.SPARSE) if sparse else path
    try:
        with open(name, "rb") as file:
            head = file.read(128)
            head += file.read(max(0, frame.header_size(head) - len(head)))
            return frame.parse(head, os.fstat(file.fileno()).st_size, sparse=sparse)
    except FileNotFoundError:
        raise file_not_found(url) from None
    except HyperslabError as error:
        raise error.locate(url=url) from None
    except OSError as error:
        raise read_error(error, url, "") from error


def version(path: str) -> Version:
    """What identifies the present contents of a file or sparse directory."""
    return version_of(os.stat(os.path.join(path, frame.SPARSE) if os.path.isdir(path) else path))


class Handle:
    """One array of blosc2, which ``find`` opens. One thread uses it at a time; blosc2 itself may use several."""

    def __init__(self, find: Callable[[], Any], url: str) -> None:
        self._find = find
        self._url = url
        self._array: Any = None
        self._lock = threading.RLock()
        _OPEN.add(self)

    def leave(self) -> Any:
        """In a forked child: what was open, of which the threads stayed behind; it is opened anew."""
        left, self._array, self._lock = self._array, None, threading.RLock()
        return left

    @contextmanager
    def using(self) -> Iterator[Any]:
        """The array, for this thread alone."""
        with self._lock:
            yield self._found()

    def _found(self) -> Any:
        if self._array is None:
            self._array = opened(self._find, self._url)
        return self._array

    def read(self, part: Part, out: np.ndarray[Any, Any]) -> None:
        """Read the cells of ``part`` into ``out``, of any strides; CorruptChunk when they cannot be decoded."""
        if not out.size:
            return
        with self._lock:  # using(), without its calls: this is done for every chunk
            array = self._found() if self._array is None else self._array
            straight = out.flags.c_contiguous
            cells = out if straight else np.empty(out.shape, out.dtype)
            try:
                array.get_slice_numpy(cells, (tuple(map(_START, part)), tuple(map(_STOP, part))))
            except FAILURES as error:
                raise CorruptChunk(f"blosc2 cannot read this: {error}", url=self._url) from error
            if not straight:
                out[...] = cells

    def write(self, part: Part, cells: np.ndarray[Any, Any]) -> None:
        """Put the cells of ``part``; StorageError when blosc2 fails."""
        if cells.size:
            with self.using() as array, writing(self._url):
                array[part or ()] = np.ascontiguousarray(cells, array.dtype).reshape(cells.shape)

    def chunk_sizes(self) -> list[int]:
        """Stored bytes of each chunk, in their order in the file; of each only the header is read."""
        with self.using() as array:
            try:
                heads = [info.lazychunk[:_HEAD] for info in array.schunk.iterchunks_info()]
            except FAILURES as error:
                raise CorruptChunk(f"blosc2 cannot read this: {error}", url=self._url) from error
        return [int.from_bytes(head[_STORED:], "little") for head in heads]

    def metadata(self) -> dict[str, Any]:
        """All variable-length metalayers by name."""
        with self.using() as array:
            return metadata(array, self._url)

    def stored(self, number: int) -> bytes | None:
        """What is stored of a chunk, whatever is wrong with it; None when blosc2 does not give it."""
        with self.using() as array:
            try:
                return bytes(array.schunk.get_chunk(number))
            except FAILURES:
                return None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._array = None


_START, _STOP = attrgetter("start"), attrgetter("stop")
_OPEN: WeakSet[Handle] = WeakSet()
_LEFT: list[Any] = []
"""Arrays that a forked child must never free: blosc2 would wait for their threads."""


def _leave_inherited() -> None:
    _LEFT.extend(handle.leave() for handle in list(_OPEN))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_inherited)


def opened(find: Callable[[], Any], url: str) -> Any:
    """The array; FormatError when blosc2 does not find one."""
    try:
        array = find()
    except FAILURES as error:
        raise FormatError(f"blosc2 cannot open this: {error}", url=url) from error
    if not isinstance(array, blosc2().NDArray):
        raise Unsupported(f"blosc2 finds a {type(array).__name__} here and no array", url=url)
    return array


@contextmanager
def writing(url: str) -> Iterator[None]:
    """What blosc2 cannot write is a failure of the medium."""
    try:
        yield
    except HyperslabError:
        raise
    except FAILURES as error:
        raise StorageError(f"blosc2 cannot write this: {error}", url=url) from error


def open_file(path: str, threads: int) -> Callable[[], Any]:
    """What opens a file or sparse directory for reading; a file is mapped, so that it stays what it is."""

    def find() -> Any:
        module = blosc2()
        mapped = {} if os.path.isdir(path) else {"mmap_mode": "r"}
        return module.open(path, mode="r", dparams=module.DParams(nthreads=threads), **mapped)

    return find


def metadata(array: Any, url: str) -> dict[str, Any]:
    """All variable-length metalayers by name."""
    try:
        found = array.schunk.vlmeta.getall()
    except FAILURES as error:
        raise FormatError(f"blosc2 cannot read the metalayers: {error}", url=url) from error
    return {str(key): value for key, value in found.items()}
