"""Places without permission, for the superuser as well: his capabilities are put down while a block lasts."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEADER = struct.pack("Ii", 0x20080522, 0)
_OVERRIDES = 0b1110
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER."""


@contextmanager
def read_only(root: Path) -> Iterator[None]:
    """Nobody may write below ``root``, nor beside it."""
    paths = [root.parent, root, *sorted(root.rglob("*"))] if root.is_dir() else [root.parent, root]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with without_privileges():
            yield
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """Nobody may read ``file``."""
    mode = file.stat().st_mode & 0o777
    file.chmod(0)
    try:
        with without_privileges():
            yield
    finally:
        file.chmod(mode)


@contextmanager
def without_privileges() -> Iterator[None]:
    """This thread, and those that it starts, may only what the modes of files and folders say."""
    before = _capabilities()
    _set_capabilities((before[0] & ~_OVERRIDES, before[1], before[2]))
    try:
        yield
    finally:
        _set_capabilities(before)


def _capabilities() -> tuple[int, int, int]:
    low = struct.unpack("6I", _call("capget", bytes(23)))
    return low[0] | low[3] << 32, low[1] | low[4] << 32, low[2] | low[5] << 32


def _set_capabilities(sets: tuple[int, int, int]) -> None:
    mask = 2**32 - 1
    _call("capset", struct.pack("6I", *(each & mask for each in sets), *(each >> 32 for each in sets)))


def _call(name: str, given: bytes) -> bytes:
    """Ask the system for the sets of this thread, or set them: what stands there afterwards."""
    sets = ctypes.create_string_buffer(given, 24)
    if getattr(ctypes.CDLL(None, use_errno=True), name)(ctypes.create_string_buffer(_HEADER, 8), sets):
        raise OSError(ctypes.get_errno(), name)
    return sets.raw
