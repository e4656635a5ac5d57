"""Read the cells of arrays of Zarr v3, from its specification and docs/formats/zarr.md alone."""

from __future__ import annotations

import base64
import itertools
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

_UNWRITTEN = 2**64 - 1


def load(folder: Path) -> dict[str, Any]:
    """Return the document of a node, an empty one where there is none."""
    path = folder / "zarr.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def decode_dtype(said: Any) -> np.dtype[Any]:
    """Return NumPy's type of a data type; text and bytes of any length are objects."""
    name, config = (said, {}) if isinstance(said, str) else (said["name"], said.get("configuration", {}))
    if name in ("string", "variable_length_bytes"):
        return np.dtype(object)
    if name in ("fixed_length_utf32", "null_terminated_bytes", "raw_bytes"):
        size = config["length_bytes"]
        return np.dtype({"f": f"U{size // 4}", "n": f"S{size}", "r": f"V{size}"}[name[0]])
    if name.startswith("numpy."):
        step = config["scale_factor"] if config["scale_factor"] != 1 else ""
        return np.dtype(f"{name[6:]}" + (f"[{step}{config['unit']}]" if config["unit"] != "generic" else ""))
    if name == "struct":
        return np.dtype([(field["name"], decode_dtype(field["data_type"])) for field in config["fields"]])
    return np.dtype(name)


def decode_fill(value: Any, dtype: np.dtype[Any], said: Any) -> Any:
    """Return the cell that ``fill_value`` spells."""
    if dtype.names:
        made = np.zeros((), dtype)
        for field in said["configuration"]["fields"]:
            made[field["name"]] = decode_fill(value[field["name"]], dtype[field["name"]], field["data_type"])
        return made[()]
    if dtype.kind == "O":
        return value if said == "string" else base64.b64decode(value)
    if dtype.kind in "SV":
        raw = bytes(value) if isinstance(value, list) else base64.b64decode(value)
        return np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype)[0]
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return dtype.type(complex(*(float(decode_fill(each, part, "")) for each in value)))
    if dtype.kind in "mM":
        return np.array(-(2**63) if value == "NaT" else value, "i8").view(dtype)[()]
    if isinstance(value, str) and value.startswith("0x"):
        return np.frombuffer(bytes.fromhex(value[2:]), dtype.newbyteorder(">"))[0].astype(dtype)
    return dtype.type(value)


def _reflect(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC32C = list(map(_reflect, range(256)))


def _strip_checksum(data: bytes) -> bytes:
    crc = 2**32 - 1
    for byte in data[:-4]:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 255]
    if (crc ^ (2**32 - 1)).to_bytes(4, "little") != data[-4:]:
        raise ValueError("wrong crc32c")
    return data[:-4]


class Chunk:
    """How the cells of a chunk are encoded: their type, their shape, the fill value, the codecs."""

    def __init__(self, dtype: np.dtype[Any], shape: list[int], fill: Any, codecs: list[dict[str, Any]]) -> None:
        """Keep the parts; a chunk that is transposed is stored with its axes in another order."""
        self.dtype, self.fill, self.codecs, self.axes = dtype, fill, codecs, list(range(len(shape)))
        for codec in codecs:
            if codec["name"] == "transpose":
                self.axes = [self.axes[axis] for axis in codec["configuration"]["order"]]
        self.shape = [shape[axis] for axis in self.axes]

    def decode(self, data: Any) -> np.ndarray[Any, Any]:
        """Return the cells of a chunk."""
        for codec in reversed(self.codecs):
            data = self._undo(codec["name"], codec.get("configuration", {}), data)
        cells: np.ndarray[Any, Any] = data.reshape(self.shape).transpose(np.argsort(self.axes))
        return cells

    def _undo(self, name: str, config: dict[str, Any], data: Any) -> Any:
        match name:
            case "crc32c":
                return _strip_checksum(bytes(data))
            case "gzip":
                return zlib.decompress(data, 31)
            case "zstd" | "blosc":
                return numcodecs.get_codec({"id": name}).decode(data)
            case "vlen-utf8" | "vlen-bytes":
                return numcodecs.get_codec({"id": name}).decode(bytes(data))
            case "bytes":
                order = ">" if config.get("endian") == "big" else "<"
                return np.frombuffer(bytes(data), self.dtype.newbyteorder(order)).astype(self.dtype)
            case "sharding_indexed":
                return self._decode_shard(config, bytes(data))
            case "transpose":
                return data
        raise ValueError(f"codec {name} is not read")

    def _decode_shard(self, config: dict[str, Any], data: bytes) -> np.ndarray[Any, Any]:
        inner = config["chunk_shape"]
        counts = [size // step for size, step in zip(self.shape, inner, strict=True)]
        guarded = any(codec["name"] == "crc32c" for codec in config["index_codecs"])
        size = 16 * math.prod(counts) + 4 * guarded
        raw = data[:size] if config.get("index_location") == "start" else data[-size:]
        index = Chunk(np.dtype("u8"), [*counts, 2], 0, config["index_codecs"]).decode(raw)
        chunk, made = Chunk(self.dtype, inner, self.fill, config["codecs"]), filled(self.shape, self.dtype, self.fill)
        for place in np.ndindex(*counts):
            offset, length = index[place].tolist()
            if offset != _UNWRITTEN:
                here = tuple(slice(at * step, (at + 1) * step) for at, step in zip(place, inner, strict=True))
                made[here] = chunk.decode(data[offset : offset + length])
        return made


def filled(shape: list[int], dtype: np.dtype[Any], fill: Any) -> np.ndarray[Any, Any]:
    """Return new cells that are all the fill value."""
    made = np.empty(shape, dtype)
    made[...] = fill
    return made


def read_cells(folder: Path) -> np.ndarray[Any, Any]:
    """Return all cells of the array in a folder."""
    said = load(folder)
    dtype, shape = decode_dtype(said["data_type"]), said["shape"]
    fill, chunks = decode_fill(said["fill_value"], dtype, said["data_type"]), said["chunk_grid"]["configuration"]
    chunk, made = Chunk(dtype, chunks["chunk_shape"], fill, said["codecs"]), filled(shape, dtype, fill)
    keys, steps = said["chunk_key_encoding"], chunks["chunk_shape"]
    first, mark = (["c"], "/") if keys["name"] == "default" else ([], ".")
    mark = keys.get("configuration", {}).get("separator", mark)
    for place in itertools.product(*(range(-(-size // step)) for size, step in zip(shape, steps, strict=True))):
        path = folder / (mark.join([*first, *map(str, place)]) or "0")
        if path.is_file():
            starts = [at * step for at, step in zip(place, steps, strict=True)]
            sizes = [min(step, size - at) for at, step, size in zip(starts, steps, shape, strict=True)]
            here = tuple(slice(at, at + size) for at, size in zip(starts, sizes, strict=True))
            made[here] = chunk.decode(path.read_bytes())[tuple(map(slice, sizes))]
    return made
