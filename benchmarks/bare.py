"""What bounds every library: the same bytes in the same number of files, by system calls alone, without any format.

A contender that is no peer. It works by as many threads as there are cores, as hyperslab does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import blosc

from benchmarks.harness import BARE, BARE_DECODER, Contender

THREADS = os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS)


def _each(work: Callable[[Any], None], items: list[Any], threads: int = THREADS) -> None:
    """Do the work on every item."""

    def some(start: int) -> None:
        for item in items[start::threads]:
            work(item)

    list(_pool().map(some, range(threads)))


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def reading(folder: Path) -> Contender:
    """Read all files below a folder into fresh memory, one behind another; it gives how many bytes that are."""
    sizes = [(path, path.stat().st_size) for path in sorted(folder.rglob("*")) if path.is_file()]
    stops = np.cumsum([size for _, size in sizes]).tolist()

    def run() -> int:
        memory = memoryview(np.empty(stops[-1], np.uint8))

        def read(part: tuple[tuple[Path, int], int]) -> None:
            (path, size), stop = part
            with _opened(path, os.O_RDONLY) as descriptor:
                assert os.readv(descriptor, [memory[stop - size : stop]]) == size

        _each(read, list(zip(sizes, stops, strict=True)))
        return len(memory)

    return Contender(BARE, run)


def decoding(path: Path, places: list[tuple[int, int]]) -> Contender:
    """Read the Blosc chunks of one file, each from its offset and so long, and decode them into fresh memory, one
    behind another: no header is read, no checksum verified."""
    # how many bytes a chunk decodes to stands in its header
    with _opened(path, os.O_RDONLY) as descriptor:
        sizes = [int.from_bytes(os.pread(descriptor, 4, start + 4), "little") for start, _ in places]
    stops = np.cumsum(sizes).tolist()

    def run() -> int:
        memory = np.empty(stops[-1], np.uint8)
        with _opened(path, os.O_RDONLY) as descriptor:

            def decode(part: tuple[tuple[int, int], int, int]) -> None:
                (start, length), size, stop = part
                blosc.decompress(os.pread(descriptor, length, start), memory[stop - size : stop])

            _each(decode, list(zip(places, sizes, stops, strict=True)))
        return memory.nbytes

    return Contender(BARE_DECODER, run)


class Copy:
    """Write the files below a folder, as they lie there when the row is first run, below another one."""

    def __init__(self, source: Path, target: Path, *, durable: bool = False, threads: int = THREADS) -> None:
        self._source = source
        self._target = target
        self._durable = durable
        self._threads = threads
        self._folders: list[Path] = []
        self._files: list[tuple[Path, bytes]] = []

    def contender(self) -> Contender:
        """The contender, which stands behind the one that writes the folder."""
        return Contender(BARE, self._write, before=self._clear)

    def _clear(self) -> None:
        shutil.rmtree(self._target, ignore_errors=True)
        if not self._files:
            found = sorted(self._source.rglob("*"))
            places = [(self._target / path.relative_to(self._source), path) for path in found]
            self._folders = [self._target, *(place for place, path in places if path.is_dir())]
            self._files = [(place, path.read_bytes()) for place, path in places if path.is_file()]

    def _write(self) -> int:
        for folder in self._folders:
            folder.mkdir()
        _each(self._put, self._files, self._threads)
        if self._durable:
            _each(self._sync, self._folders, self._threads)
        return len(self._files)

    def _put(self, file: tuple[Path, bytes]) -> None:
        place, data = file
        with _opened(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            os.write(descriptor, data)
            if self._durable:
                os.fsync(descriptor)

    def _sync(self, folder: Path) -> None:
        with _opened(folder, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)
