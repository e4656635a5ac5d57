"""Read directories of Blaze, bcolz and BLZ, from docs/formats/blaze.md alone: nothing of hyperslab is used."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from second_readers.bloscpack import Array, Chunks, decode_attribute, decode_cell, decode_coordinate, decode_dtype


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _decode_default(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return ``dflt``: as a cell in the metadata of Bloscpack, but text for bytes; what fits no cell is zero."""
    if dtype.names:
        if not isinstance(value, list) or len(value) != len(dtype.names):
            return np.zeros((), dtype)[()]
        cell = np.zeros((), dtype)
        for name, part in zip(dtype.names, value, strict=True):
            cell[name] = (
                decode_cell(part, dtype[name]) if dtype[name].kind == "S" else _decode_default(part, dtype[name])
            )
        return cell[()]
    if dtype.subdtype:
        base, shape = dtype.subdtype
        parts = value if isinstance(value, list) and len(value) == math.prod(shape) else [0] * math.prod(shape)
        return np.array([_decode_default(part, base) for part in parts], base).reshape(shape)
    if isinstance(value, list) and value and dtype.kind != "c" and value.count(value[0]) == len(value):
        value = value[0]
    try:
        if dtype.kind == "S":
            return np.array(value.encode("latin-1"), dtype)[()]
        if dtype.kind == "c" and not isinstance(value, list):
            return np.array(complex(value), dtype)[()]
        return np.array(decode_cell(value, dtype), dtype)[()]
    except (TypeError, ValueError, AttributeError):
        return np.zeros((), dtype)[()]


class Carray:
    """The cells of one directory of Blaze, bcolz or BLZ: ``shape``, ``dtype``, ``fill_value``."""

    def __init__(self, folder: Path) -> None:
        """Read the documents."""
        storage, self.told = _load(folder / "meta/storage"), _load(folder / "meta/superchunks")
        self.shape = tuple(_load(folder / "meta/sizes")["shape"])
        self.dtype, self.rows = decode_dtype(storage["dtype"]), storage["chunklen"]
        self.fill_value = _decode_default(storage["dflt"], self.dtype)
        self.data = folder / "data"
        lone = not self.told and (any(self.data.glob("*.bin")) or any(self.data.glob("*.blp")))
        self.whole = self.told.get("rowwise", lone)

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells."""
        made = np.full(self.shape, self.fill_value, self.dtype)
        self._fill(made.reshape(self.shape or (1,)), self.data)
        return made

    def _fill(self, cells: np.ndarray[Any, Any], folder: Path, *, whole: bool = False) -> None:
        if cells.dtype.names and not self.whole and not whole:
            for name in cells.dtype.names:
                self._fill(cells[name], folder / name, whole=cells.dtype[name].subdtype is not None)
            return
        for begin, part in self._parts(folder):
            raw = np.frombuffer(part, cells.dtype)
            size = len(raw) // math.prod(cells.shape[1:]) if math.prod(cells.shape[1:]) else 0
            rows = raw.reshape(size, *cells.shape[1:])
            cells[begin : begin + size] = rows[: max(0, len(cells) - begin)]

    def _parts(self, folder: Path) -> list[tuple[int, bytes]]:
        """Return the first row and the bytes of each file that is there."""
        chunk_files = sorted(folder.glob("__*.blp"), key=lambda path: int(path.stem[2:]))
        if chunk_files:
            return [(int(path.stem[2:]) * self.rows, Chunks(path.read_bytes()).cells) for path in chunk_files]
        found, begin = [], 0
        for path in sorted(folder.glob("__*__.bin"), key=lambda path: int(path.stem[2:-2])):
            chunks = Chunks(path.read_bytes())
            if "nchunks" in self.told:
                begin = (int(path.stem[2:-2]) - 1) * self.told["nchunks"] * self.rows
            found.append((begin, chunks.cells))
            begin += chunks.count * self.rows
        return found


class Directory:
    """A directory: ``arrays`` by name, the array that it is about first, and ``attrs`` and ``unlimited``."""

    def __init__(self, folder: str | Path) -> None:
        """Read the labels, and all cells."""
        folder = Path(folder)
        self.unlimited: tuple[str, ...] = ()
        columns = _load(folder / "__rootdirs__")
        if columns:
            dirs = columns.get("dirs", {})
            self.attrs = _load(folder / "__attrs__")
            self.arrays = {name: self._open(folder / dirs.get(name, name), {"name": name}) for name in columns["names"]}
            return
        labels = _load(folder / "meta/labels")
        array = self._open(folder, labels)
        self.arrays = {array.name: array}
        self.arrays |= {name: decode_coordinate(name, said) for name, said in labels.get("coords", {}).items()}
        group = labels.get("group", {})
        types = group.get("types", {})
        self.attrs = {name: decode_attribute(value, types.get(name)) for name, value in group.get("attrs", {}).items()}
        self.unlimited = tuple(group.get("unlimited", ()))

    @staticmethod
    def _open(folder: Path, labels: dict[str, Any]) -> Array:
        attrs = _load(folder / "meta/attributes") or _load(folder / "__attrs__")
        carray = Carray(folder)
        array = Array(labels.get("name", "data"), labels | {"attrs": attrs}, carray.read())
        array.fill_value = carray.fill_value
        return array
