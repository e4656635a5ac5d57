"""Media that take no writes: folders without permission, files that may not grow, a full disk. Nothing half-written."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from corpus import MAIN, Case

import hyperslab as hs

sys.path.insert(0, str(Path(__file__).parents[1]))
from permissions import read_only

NOISE = np.random.default_rng(3).integers(0, 2**31, (8, 8)).astype("i4")
_LIBC = ctypes.CDLL(None, use_errno=True)


def _array(url: str) -> Any:
    return hs.open(url, "r+")["a"]


def _batch(url: str) -> None:
    root: Any = hs.open(url, "r+")
    with root.batch():
        for i in range(5):
            root.create_array(f"new{i}", data=NOISE, chunks=(4, 4))


def _saved(url: str) -> None:
    hs.convert(url, os.path.join(url, "../copy.zarr"), format="zarr2")


WRITES: dict[str, Callable[[str], Any]] = {
    "all cells": lambda url: _array(url).__setitem__((), NOISE),
    "one cell": lambda url: _array(url).__setitem__((0, 0), 5),
    "an attribute": lambda url: _array(url).attrs.__setitem__("note", "x" * 5000),
    "an attribute of the root": lambda url: hs.open(url, "r+").attrs.__setitem__("note", "x" * 5000),
    "an array": lambda url: hs.open(url, "r+").create_array("new", data=NOISE),
    "a group": lambda url: hs.open(url, "r+").create_group("new", attrs={"x": "y" * 5000}),
    "five arrays": _batch,
    "an append": lambda url: _array(url).append(NOISE),
    "a larger shape": lambda url: _array(url).resize((100, 100)),
    "a smaller shape": lambda url: _array(url).resize((3, 3)),
}
REMOVALS: dict[str, Callable[[str], Any]] = {
    "a removal": lambda url: hs.open(url, "r+").__delitem__("good"),
    "a move": lambda url: hs.open(url, "r+").move("good", "better"),
    "a replacement": lambda url: hs.open(url, "w", format="zarr3"),
    "consolidated metadata": lambda url: hs.open(url, "r+", consolidated=True).attrs.__setitem__("x", 1),
}


# -- permissions ------------------------------------------------------------------------------------------------------


def readonly() -> Iterator[Case]:
    """Every kind of change to a dataset in a folder without permission, and to one that is open for reading."""
    for layout in MAIN:
        for name, write in {**WRITES, **REMOVALS}.items():
            yield Case(
                f"{layout}: {name}",
                _nothing,
                ("ReadOnly",),
                layout,
                (write, write),
                where=(),
                around=read_only,
                afterwards=write,
            )
        for name in ("all cells", "one cell", "an append"):
            yield Case(
                f"{layout}: {name}, open for reading", _nothing, ("ReadOnly",), layout, (_read_only(name),), where=()
            )
    made: tuple[Callable[[str], Any], ...] = (
        lambda url: hs.create(url, "zarr3").create_array("a", data=NOISE),
        lambda url: hs.create(url, "zarr2"),
        lambda url: hs.create(url.replace(".zarr", ".zip"), "zarr3").close(),
    )
    yield Case("a new dataset", _nothing, ("ReadOnly",), None, made[:2], None, (), False, around=_no_permission_above)
    yield Case(
        "a new archive",
        _nothing,
        ("ReadOnly",),
        None,
        made[2:],
        None,
        (),
        False,
        target="x.zip",
        around=_no_permission_above,
    )


def _read_only(name: str) -> Callable[[str], Any]:
    def write(url: str) -> None:
        array: Any = hs.open(url)["a"]
        if name == "all cells":
            array[...] = NOISE
        elif name == "one cell":
            array[0, 0] = 1
        else:
            array.append(NOISE)

    return write


@contextmanager
def _no_permission_above(path: Path) -> Iterator[None]:
    with read_only(path.parent / "nothing"):
        yield


def _nothing(root: Path) -> None:
    if root.parent.name == "inside" and not root.exists():
        (root.parent / "nothing").mkdir()


# -- space ------------------------------------------------------------------------------------------------------------


@contextmanager
def _short_files(root: Path) -> Iterator[None]:
    """No file may become longer than 16 bytes: a write is cut off, the next call fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _small_disk(place: Path) -> Iterator[None]:
    """A file system of its own in memory at ``place``."""
    if _LIBC.mount(b"none", os.fsencode(place), b"tmpfs", 0, b"size=1m"):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield
    finally:
        _LIBC.umount2(os.fsencode(place), 2)


def _filled(pages: int) -> Callable[[Path], Any]:
    """All but so many pages of the disk are taken while this lasts."""

    @contextmanager
    def fill(root: Path) -> Iterator[None]:
        filler = root.parent / "filler"
        status = os.statvfs(root.parent)
        with open(filler, "wb") as file:
            file.write(bytes(max(0, status.f_bavail - pages) * status.f_frsize))
        try:
            yield
        finally:
            filler.unlink()

    return fill


def _mounts() -> bool:
    """Whether this process may mount: from here on in a name space of its own, which ends with it."""
    if _LIBC.unshare(0x00020000):
        return False
    return not _LIBC.mount(b"none", b"/", None, 0x4000 | 0x40000, None)


def fulldisk() -> Iterator[Case]:
    """Every kind of write where files may not grow, and on a disk with room for some of the files only.

    An append that fails may leave chunks behind the end of the array, where nobody sees them.
    """
    errors = ("StorageError",)
    small = _mounts()
    for layout in MAIN:
        behind = r"inside/x\.zarr/a/c/1/.*" if layout == "shards" else r"inside/x\.zarr/a/(c/)?[23][./].*"
        for name, write in WRITES.items():
            yield Case(
                f"{layout}: short files: {name}", _nothing, errors, layout, (write, write),
                where=("key=",), around=_short_files, afterwards=write,
            )  # fmt: skip
        for pages, names in _TOO_LITTLE.items() if small else ():
            for name in names:
                if layout == "shards" and pages and name == "all cells":
                    continue
                yield Case(
                    f"{layout}: {pages} pages left: {name}", _nothing, errors, layout, (WRITES[name],), where=("key=",),
                    around=_filled(pages), medium=_small_disk, leaves=behind if "append" in name else "(?!)",
                    afterwards=WRITES[name],
                )  # fmt: skip


_TOO_LITTLE = {
    0: ("all cells", "an array", "five arrays", "an append", "an attribute"),
    1: ("all cells", "an array", "five arrays", "an append", "an attribute"),
    3: ("all cells", "five arrays"),
}
