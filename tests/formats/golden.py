"""Reading the stores of other implementations, as the golden tests of both Zarr formats do."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.formats.base import Reader
from hyperslab.model.spec import ArraySpec

FOLDER = Path(__file__).parents[1] / "golden"


@cache
def truth(name: str) -> dict[str, Any]:
    """What the writers say that they wrote."""
    with zipfile.ZipFile(FOLDER / name) as archive:
        return json.loads(archive.read("truth.json"))


def arrays(name: str) -> list[str]:
    """The arrays that are there."""
    held = ("hex", "objects", "objects_hex")
    return [
        path
        for path, said in truth(name).items()
        if path[0] != "_" and "absent" not in said and any(k in said for k in held)
    ]


def read_all(reader: Reader, path: str) -> np.ndarray[Any, Any]:
    """All cells of an array, chunk by chunk."""
    spec = reader.node(path)
    assert isinstance(spec, ArraySpec)
    source = reader.chunks(path)
    out = np.empty(spec.shape, spec.numpy_dtype)
    out[...] = spec.fill_cell()
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            out[extent] = block[tuple(slice(0, cut.stop - cut.start) for cut in extent)]
    return out


def check(found: np.ndarray[Any, Any], said: dict[str, Any]) -> None:
    """The cells are those of the truth: exactly, or within the tolerance of a lossy codec."""
    assert list(found.shape) == said["shape"]
    if "objects" in said:
        assert found.ravel().tolist() == said["objects"]
    elif "objects_hex" in said:
        assert [cell.hex() for cell in found.ravel().tolist()] == said["objects_hex"]
    elif "tolerance" in said:
        wanted = np.frombuffer(bytes.fromhex(said["hex"]), found.dtype).reshape(found.shape)
        assert np.abs(wanted - found).max(initial=0) <= said["tolerance"] * 1.001
    else:
        assert found.tobytes().hex() == said["hex"]


def plain(value: Any) -> Any:
    """An attribute as the truth spells it: NaN and infinities as text."""
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value
