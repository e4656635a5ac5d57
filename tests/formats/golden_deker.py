"""The store that DEKER wrote: its documents and truth from the archive, and the store itself in a folder of a test."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVE = Path(__file__).parents[1] / "golden" / "deker" / "deker_fixtures.zip"
EXTENDED = np.finfo(np.longdouble).nmant == 63
"""Whether this platform has the 80-bit floats of float128 and complex256."""


@cache
def manifest() -> dict[str, Any]:
    """``root`` and ``collections``: by name ``as_dict`` and ``arrays``."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        found: dict[str, Any] = json.loads(archive.read("truth/manifest.json"))
    return found


def collections() -> list[str]:
    """The names of the collections."""
    return sorted(manifest()["collections"])


def arrays(collection: str) -> list[dict[str, Any]]:
    """What the manifest says of a collection's arrays."""
    said: list[dict[str, Any]] = manifest()["collections"][collection]["arrays"]
    return said


@cache
def document(collection: str) -> bytes:
    """The bytes of a collection document."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(f"store/collections/{collection}/{collection}.json")


def truth(array: dict[str, Any]) -> np.ndarray[Any, Any]:
    """All cells of an array of the manifest."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        cells: np.ndarray[Any, Any] = np.load(io.BytesIO(archive.read(f"truth/{array['truth']}")))
    return cells


def unpack(folder: Path, *, relink: bool = False, relative: bool = False) -> Path:
    """The root of the store, unpacked into a folder with its links; the links lead nowhere unless ``relink``.

    ``relink`` makes them lead to the unpacked files, absolutely or (``relative``) from where they lie.
    """
    with zipfile.ZipFile(ARCHIVE) as archive:
        for entry in archive.infolist():
            if not entry.filename.startswith("store/"):
                continue
            target = folder / entry.filename
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(entry.external_attr >> 16):
                said = Path(archive.read(entry).decode())
                target.symlink_to(_moved(said, folder, target, relative=relative) if relink else said)
            else:
                target.write_bytes(archive.read(entry))
    return folder / "store"


def _moved(said: Path, folder: Path, link: Path, *, relative: bool) -> Path:
    there = folder / "store" / said.relative_to(manifest()["root"])
    return Path(relpath(there, link.parent)) if relative else there
