"""Memory known before allocation: refuse a result that cannot fit, instead of dying of it."""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import replace
from math import prod

import numpy as np

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import MemoryLimit

UNASKED_BYTES = 32 << 20  # results below this are not worth asking the system about


LARGER_LIMIT = "select less at a time, or open with a larger memory_limit="

PAGED_BYTES = 1 << 20  # below, pages cost more than they give back


def require(nbytes: int, limit: int | None, what: str = "this", remedy: str = LARGER_LIMIT) -> None:
    """Raise :class:`MemoryLimit` unless ``nbytes`` fit below ``limit`` (None: the memory that is available)."""
    if limit is None and nbytes <= UNASKED_BYTES:
        return
    allowed = available() if limit is None else limit
    if nbytes > allowed:
        raise MemoryLimit(
            f"{what} needs {nbytes:,} bytes and {allowed:,} are allowed",
            remedy=remedy,
        )


def largest_chunk(grid: Grid) -> int:
    """Return the cells of the largest chunk."""
    if grid.fixed is not None:
        return prod(min(size, max(axis.length, 1)) for size, axis in zip(grid.fixed, grid.axes, strict=True))
    return prod(max(map(axis.size_of, range(axis.count)), default=1) for axis in grid.axes)


def settings_within(source: ChunkSource, settings: Settings, chunk_bytes: int, memory: int) -> Settings:
    """Return the settings with so many threads that the chunks in their hands fit into ``memory`` bytes.

    Half of the memory is for that, the other for boxes of cells. A thread holds a chunk encoded and decoded, and
    glibc keeps what it freed: six times a chunk, as measured with 16 threads.
    """
    threads = max(1, memory // (12 * max(chunk_bytes, 1)))
    most = max(settings.threads, source.traits.concurrency or 0)
    return settings if threads >= most else replace(settings, workers=threads)


def empty_cells(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of any cells, large ones in pages that go back to the system once nothing refers to the array.

    glibc takes freed blocks of this size as a reason to keep such blocks from then on, for each thread: a copy that
    worked within 64 MiB held 150 MiB of memory at the end, half of it free.
    """
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < PAGED_BYTES or dtype.hasobject or dtype.kind == "T" or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(shape, dtype)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # there is not so much: NumPy raises MemoryError with the size
        return np.empty(shape, dtype)
    return np.frombuffer(pages, dtype, prod(shape)).reshape(shape)


def available() -> int:
    """Return the bytes that can be allocated now: what the kernel calls available, or what is left of the address
    space."""
    free = [int(np.iinfo(np.int64).max)]
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as lines:
        free.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            used = 0
            with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")  # of the address space
            free.append(max(0, soft - used))
    return min(free)


def installed() -> int:
    """Return the bytes of the machine's memory and swap together; without bound where the system does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * sum(int(sizes[name].split()[0]) for name in ("MemTotal", "SwapTotal") if name in sizes)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 1 << 62
