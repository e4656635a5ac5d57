"""What the peers say that their stores hold, and the same of what is read here, to be compared."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.formats.hdmf import FORMAT
from hyperslab.formats.hdmf.reader import HdmfReader
from hyperslab.model.refs import ObjectReference
from hyperslab.stores.location import Location

GOLDEN = Path(__file__).parents[2] / "golden" / "hdmf"
ARCHIVES = ("hdmf_zarr_v2_old_060", "hdmf_zarr_v2_0130", "hdmf_zarr_v3_0140")


def unpacked(folder: Path, *archives: str) -> Path:
    """A folder with the stores of these archives."""
    for name in archives:
        with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
            archive.extractall(folder)
    return folder


@cache
def truths() -> Mapping[str, dict[str, Any]]:
    """The root of each store's truth, by the store's name."""
    found = {}
    for archive in ARCHIVES:
        with zipfile.ZipFile(GOLDEN / f"{archive}.zip") as stored:
            for name in stored.namelist():
                if name.endswith(".truth.json"):
                    found[name.removesuffix(".truth.json")] = json.loads(stored.read(name))["root"]
    return found


def groups(root: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All groups of a truth by path."""
    yield path, root
    for name, below in root["groups"].items():
        yield from groups(below, f"{path}/{name}".lstrip("/"))


def opened(place: Any, mode: Any = "r", **options: Any) -> Any:
    """A dataset opened as the format alone does it."""
    reader = FORMAT.open(Location.of(place), mode, **options)
    assert isinstance(reader, HdmfReader)
    return reader


def spelled(value: Any) -> Any:
    """A value as the truth spells it; references by path alone."""
    match value:
        case ObjectReference():
            return {"$ref": value.path}
        case bytes():
            return {"$bytes": value.decode("latin-1")}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case dict():
            return {key: spelled(part) for key, part in value.items()}
        case np.ndarray() | np.generic():
            return spelled(value.tolist())
        case list() | tuple():
            return [spelled(part) for part in value]
    return value


def told(value: Any) -> Any:
    """A value of the truth without what a reference's target is called."""
    match value:
        case {"$ref": path}:
            return {"$ref": path}
        case dict():
            return {key: told(part) for key, part in value.items()}
        case list():
            return [told(part) for part in value]
    return value


def same(found: Any, said: Any) -> bool:
    """Whether two spelled values are the same; a list of one element is its element."""
    if isinstance(found, list) and isinstance(said, list):
        return len(found) == len(said) and all(map(same, found, said))
    if isinstance(found, list) and len(found) == 1:
        return same(found[0], said)
    if isinstance(said, list) and len(said) == 1:
        return same(found, said[0])
    return bool(found == said)
