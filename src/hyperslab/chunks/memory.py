"""Memory known before allocation: refuse a result that cannot fit, instead of dying of it."""

from __future__ import annotations

import contextlib
import os

import numpy as np

from hyperslab.errors import MemoryLimit

_SMALL = 32 << 20  # results below this are not worth asking the system about


def require(nbytes: int, limit: int | None, what: str = "this") -> None:
    """Raise :class:`MemoryLimit` unless ``nbytes`` fit below ``limit`` (None: the memory that is available)."""
    if limit is None and nbytes <= _SMALL:
        return
    allowed = available() if limit is None else limit
    if nbytes > allowed:
        raise MemoryLimit(
            f"{what} needs {nbytes:,} bytes and {allowed:,} are allowed",
            remedy="select less at a time, or open with a larger memory_limit=",
        )


def available() -> int:
    """Bytes that can be allocated now: what the kernel calls available, or what is left of the address space."""
    free = [int(np.iinfo(np.int64).max)]
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as lines:
        free.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            free.append(max(0, soft - _mapped()))
    return min(free)


def installed() -> int:
    """Bytes of the machine's memory and swap together; without bound where the system does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * sum(int(sizes[name].split()[0]) for name in ("MemTotal", "SwapTotal") if name in sizes)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 1 << 62


def _mapped() -> int:
    """Bytes of the address space that are in use."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0
