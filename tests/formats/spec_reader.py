"""A reader of Blaze's two formats, written from their description alone: the bytes of 2.1 to 2.5, nothing of hyperslab.

``read(path)`` gives the cells of one file (v2 or the specification's layout) or of one directory (also of bcolz).
"""

from __future__ import annotations

import ast
import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import blosc

HASHES = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]


def digest(code: int, data: bytes) -> bytes:
    """The checksum of a chunk as it is stored behind it."""
    if code in (1, 2):
        return struct.pack("<I", (zlib.adler32 if code == 1 else zlib.crc32)(data))
    return b"" if code == 0 else hashlib.new(HASHES[code - 3], data).digest()


def chunks_of(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The metadata of a file and its chunks, decoded; every number in it is checked against every other one."""
    magic, version, options, checksum, typesize = struct.unpack_from("<4s4B", data)
    assert magic == b"blpk"
    meta: dict[str, Any] = {}
    if version == 1:
        (count,) = struct.unpack_from("<q", data, 8)
        sizes, at, starts = None, 16, None
    else:
        chunk_size, last_chunk, count, meta_size, reserved = struct.unpack_from("<iiqii", data, 8)
        assert version == 2 and options < 4 and reserved == 0
        at = 32 + meta_size
        assert bool(options & 2) == bool(meta_size)
        meta = json.loads(data[32:at]) if meta_size else {}
        starts = struct.unpack_from(f"<{count}q", data, at) if options & 1 else None
        at += 8 * count if options & 1 else 0
        sizes = [chunk_size] * (count - 1) + [last_chunk]
    found = []
    for number in range(count):
        assert starts is None or starts[number] == at
        _, _, _, itemsize, nbytes, _, stored = struct.unpack_from("<4B3I", data, at)
        chunk = data[at : at + stored]
        at += stored
        behind = digest(checksum, chunk)
        assert data[at : at + len(behind)] == behind
        at += len(behind)
        assert version == 1 or itemsize == typesize or nbytes < 16
        found.append(bytes(blosc.decompress(chunk)) if nbytes else b"")
        assert len(found[-1]) == nbytes and (sizes is None or nbytes == sizes[number])
    assert at == len(data)
    return meta, found


def dtype_of(text: str) -> np.dtype[Any]:
    """The type that a text spells: a name, or a list of fields."""
    return np.dtype(ast.literal_eval(text) if text[0] in "['\"" else text)


def column(folder: Path) -> bytes:
    """The cells of one column: its files in the order of their numbers, which have no gaps."""
    numbers = {int(path.name.strip("_").split(".")[0].strip("_")): path for path in folder.glob("__*.b*")}
    if numbers:
        assert sorted(numbers) == list(range(min(numbers), min(numbers) + len(numbers)))
    return b"".join(part for number in sorted(numbers) for part in chunks_of(numbers[number].read_bytes())[1])


def fill(cells: np.ndarray[Any, Any], folder: Path) -> None:
    """Each field from its own folder, at any depth."""
    if cells.dtype.names is None:
        raw = column(folder)
        assert len(raw) == cells.nbytes
        cells[...] = np.frombuffer(raw, cells.dtype).reshape(cells.shape) if raw else cells
        return
    for name in cells.dtype.names:
        part = np.empty(cells[name].shape, cells[name].dtype)
        fill(part, folder / name)
        cells[name] = part


def read(path: Path) -> np.ndarray[Any, Any]:
    """The cells of a file or directory."""
    if path.is_file():
        meta, parts = chunks_of(path.read_bytes())
        cells = np.frombuffer(b"".join(parts), dtype_of(meta["dtype"]))
        return cells.reshape(meta["shape"], order=meta.get("order", "C"))
    sizes, storage = (json.loads((path / "meta" / name).read_bytes()) for name in ("sizes", "storage"))
    cells = np.empty(sizes["shape"], dtype_of(storage["dtype"]))
    assert sizes["nbytes"] == cells.nbytes
    files = [each for each in (path / "data").rglob("*") if each.suffix in (".bin", ".blp")]
    assert sizes["cbytes"] == sum(each.stat().st_size for each in files)
    fill(cells, path / "data")
    return cells
