"""Read databases of collections, from docs/formats/collections.md alone: nothing of hyperslab is used."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numcodecs
import numcodecs.blosc
import numpy as np

from second_readers.bloscpack import decode_attribute, decode_coordinate


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


_CRC32C = list(range(256))
for _ in range(8):
    _CRC32C = [each >> 1 ^ (0x82F63B78 if each & 1 else 0) for each in _CRC32C]


def _check_crc32c(data: Any) -> bytes:
    """Return bytes without the checksum behind them, which must be theirs."""
    data, crc = bytes(data), 0xFFFFFFFF
    for byte in data[:-4]:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    if data[-4:] != struct.pack("<I", crc ^ 0xFFFFFFFF):
        raise ValueError("a wrong crc32c")
    return data[:-4]


STAMP = "%Y%m%dT%H%M%S%f"
"""How the names of versions spell a moment."""


class Codecs:
    """The codecs of an array of Zarr v3, from a chunk's bytes to its cells."""

    def __init__(self, codecs: list[dict[str, Any]], dtype: np.dtype[Any], shape: tuple[int, ...], fill: Any) -> None:
        """Take the documents of the codecs, and what a chunk is."""
        self.codecs, self.dtype, self.shape, self.fill = codecs, dtype, shape, fill

    def decode(self, data: Any) -> np.ndarray[Any, Any]:
        """Return the cells of a chunk."""
        for codec in reversed(self.codecs):
            name, said = codec["name"], codec.get("configuration", {})
            if name == "crc32c":
                data = _check_crc32c(data)
            elif name == "blosc":
                data = numcodecs.blosc.decompress(data)
            elif name == "gzip":
                data = gzip.decompress(data)
            elif name == "zstd":
                data = numcodecs.Zstd().decode(data)
            elif name == "bytes":
                order = ">" if said.get("endian") == "big" else "<"
                data = np.frombuffer(bytes(data), self.dtype.newbyteorder(order)).astype(self.dtype).reshape(self.shape)
            elif name == "sharding_indexed":
                data = self._decode_shard(data, said)
            else:
                raise ValueError(f"codec {name} is not known")
        return np.asarray(data)

    def _decode_shard(self, data: bytes, said: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Return the cells of a shard: its index, of places and sizes, ends with 4 bytes of crc32c."""
        inner = tuple(said["chunk_shape"])
        grid = [size // step for size, step in zip(self.shape, inner, strict=True)]
        count = int(np.prod(grid))
        end = said.get("index_location", "end") == "end"
        checked = 4 * any(codec["name"] == "crc32c" for codec in said["index_codecs"])
        size = 16 * count + checked
        index = data[len(data) - size :] if end else data[:size]
        if checked:
            index = _check_crc32c(index)
        codecs, made = Codecs(said["codecs"], self.dtype, inner, self.fill), np.full(self.shape, self.fill, self.dtype)
        for number, place in enumerate(itertools.product(*map(range, grid))):
            offset, size = struct.unpack_from("<2Q", index, 16 * number)
            if offset != 2**64 - 1:
                here = tuple(slice(at * step, (at + 1) * step) for at, step in zip(place, inner, strict=True))
                made[here] = codecs.decode(data[offset : offset + size])
        return made


class Array:
    """An array of a collection: ``id``, ``shape``, ``dtype``, ``dims``, ``primary``, ``custom``, ``labels``."""

    def __init__(self, id_: str, collection: Collection) -> None:
        """Read the document."""
        self.folder, self.collection = collection.folder / "arrays" / id_[:2] / id_, collection
        self.said = json.loads(collection.get(id_, "zarr.json") or b"")
        attributes = self.said["attributes"]
        self.id, mark = attributes["id"], attributes.get("_hyperslab", {})
        self.shape, self.dims = tuple(self.said["shape"]), tuple(self.said["dimension_names"])
        wide = isinstance(self.said["data_type"], dict) or mark.get("dtype")
        self.dtype = np.dtype(mark["dtype"] if wide else self.said["data_type"])
        fill = self.said["fill_value"]
        if wide:
            self.fill_value = np.frombuffer(base64.b64decode(fill), self.dtype)[0]
        elif self.dtype.kind == "c":
            self.fill_value = np.array(complex(*map(float, fill)), self.dtype)[()]
        else:
            self.fill_value = np.array(float(fill) if self.dtype.kind == "f" else fill).astype(self.dtype)[()]
        stored: dict[str, Any] = {}
        for part in ("primary_attributes", "custom_attributes"):
            stored |= decode_attribute(attributes[part], mark.get("attrs", {}).get(part))
        self.primary = {name: value for name, value, primary in collection.decode(stored) if primary}
        self.custom = {name: value for name, value, primary in collection.decode(stored) if not primary}
        self.labels = {dim: self._make_labels(dim, said) for dim, said in mark.get("indexes", {}).items()}

    def _make_labels(self, dim: str, said: dict[str, Any]) -> Any:
        size = self.shape[self.dims.index(dim)]
        if "labels" in said:
            return said["labels"]
        if "scale" in said:
            return said["scale"]["start"] + np.arange(size) * said["scale"]["step"]
        times = said["times"]
        return np.datetime64(times["start"], times["unit"]) + np.arange(size) * np.timedelta64(
            times["step"], times["unit"]
        )

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells, as the last whole write made them."""
        steps = tuple(self.said["chunk_grid"]["configuration"]["chunk_shape"])
        codecs = Codecs(self.said["codecs"], self.dtype, steps, self.fill_value)
        made = np.full(self.shape, self.fill_value, self.dtype)
        for place in itertools.product(*(range(-(-n // step)) for n, step in zip(self.shape, steps, strict=True))):
            data = self._read_tile("/".join(["c", *map(str, place)]))
            if data is not None:
                edges = [
                    (at * step, min((at + 1) * step, n)) for at, step, n in zip(place, steps, self.shape, strict=True)
                ]
                part = codecs.decode(data)[tuple(slice(stop - start) for start, stop in edges)]
                made[tuple(slice(*edge) for edge in edges)] = part
        return made

    def _read_tile(self, key: str) -> bytes | None:
        """Return a tile: while the journal is pending what is staged, and none of those that go."""
        collection = self.collection
        journal = _load(collection.folder / "journal" / self.id)
        tiles, gone = (journal.get(part, "").split() for part in ("tiles", "gone"))
        changed_later = any(collection.find_version(self.id, tile) for tile in [*tiles, *gone])
        if journal.get("state") == "pending" and not changed_later:
            staged = collection.folder / "staged" / self.id / f"{journal['txn']}.{key.replace('/', '.')}"
            if key in gone:
                return None
            if key in tiles and staged.exists():
                return staged.read_bytes()
        return collection.get(self.id, key)


def parse_dtype(word: str) -> np.dtype[Any]:
    """Return the type that a schema names."""
    return np.dtype({"cfloat": "complex128", "uint": "uint64"}.get(word[6:], word[6:]))


def decode_value(value: Any, word: str) -> Any:
    """Return a value of an attribute as its type in the schema says."""
    if value is None or word == "string":
        return value
    if word == "datetime":
        return datetime.fromisoformat(value)
    if word == "tuple":
        return _decode_tuple(value)
    if word.startswith("numpy."):
        kind = parse_dtype(word)
        return kind.type({"c": complex, "f": float}.get(kind.kind, int)(value))
    return {"int": int, "float": float, "complex": complex}[word](value)


def _decode_tuple(value: list[Any]) -> tuple[Any, ...]:
    """Return a tuple: lists in it are tuples, and a text that Python would make of a complex number is that number."""
    found = []
    for each in value:
        if isinstance(each, list):
            each = _decode_tuple(each)
        elif isinstance(each, str) and each.endswith(("j", "j)")):
            with suppress(ValueError):
                each = complex(each) if str(complex(each)) == each else each
        found.append(each)
    return tuple(found)


def _spell_in_key(value: Any) -> Any:
    """Return a value as the text of a key has it: numbers, without negative zeros; times and complex as text."""
    if isinstance(value, tuple):
        return [str(each) if isinstance(each, complex) else _spell_in_key(each) for each in value]
    if isinstance(value, complex):
        return str(value + 0j)
    if isinstance(value, float):
        return value + 0.0
    return value.isoformat() if isinstance(value, datetime) else value


class Collection:
    """A collection: its ``schema`` and ``arrays`` by id, now or as of a moment (UTC)."""

    def __init__(self, folder: Path, at: datetime | None = None) -> None:
        """Read the document, and the keys."""
        self.folder, self.said, self.moment = folder, _load(folder / "collection.json"), at
        self.name, self.schema = self.said["name"], self.said["schema"]
        self.arrays = {id_: Array(id_, self) for id_ in self._find_ids()}

    def find_version(self, id_: str, key: str) -> Path | None:
        """Return what lay under a key of an array at the moment, where that was changed since."""
        if self.moment is None:
            return None
        versions, stamp = self.folder / "versions" / id_[:2] / id_ / key.replace("/", "."), f"{self.moment:{STAMP}}"
        return min((path for path in versions.glob("[!.]*") if path.name.rstrip("-") > stamp), default=None)

    def get(self, id_: str, key: str) -> bytes | None:
        """Return a value of an array: nothing where it is not there, or was not at the moment."""
        version = self.find_version(id_, key)
        path = version or self.folder / "arrays" / id_[:2] / id_ / key
        return path.read_bytes() if path.is_file() and not path.name.endswith("-") else None

    def _find_ids(self) -> list[str]:
        changed = {path.name for path in self.folder.glob("versions/*/*")}
        later = {id_ for id_ in changed if self.find_version(id_, "zarr.json")}
        return sorted(id_ for id_ in later | set(self._find_present()) if self.get(id_, "zarr.json"))

    def _find_present(self) -> list[str]:
        if not any(each["primary"] for each in self.schema["attributes"]):
            return [path.parent.name for path in self.folder.glob("arrays/*/*/zarr.json")]
        found = []
        for path in self.folder.glob("keys/[!.]*"):
            id_, _, batch = path.read_text().partition(" ")
            committed = self.folder / "batches" / batch
            if not batch or (committed.exists() and committed.read_text() == "committed"):
                found.append(id_)
        return found

    def decode(self, stored: dict[str, Any]) -> list[tuple[str, Any, bool]]:
        """Return name, value and True if primary of each attribute of the schema."""
        at = {each["now"]: each["name"] for each in self.said.get("stored_attributes", ()) if each["now"]}
        found = []
        for each in self.schema["attributes"]:
            value = stored.get(at.get(each["name"], each["name"]), each.get("default"))
            found.append((each["name"], decode_value(value, each["dtype"]), each["primary"]))
        return found

    def find(self, **primary: Any) -> Array:
        """Return the array of a key."""
        names = [each["name"] for each in self.schema["attributes"] if each["primary"]]
        values = [_spell_in_key(primary[name]) for name in names]
        text = json.dumps(values, separators=(",", ":")).encode()
        entry = self.folder / "keys" / hashlib.blake2b(text, digest_size=16).hexdigest()
        return self.arrays[entry.read_text().split()[0]]

    def find_times(self, array: Array, dim: str) -> list[datetime]:
        """Return the times of a dimension, as the schema says them."""
        (said,) = [each for each in self.schema["dimensions"] if each["name"] == dim]
        start = said["start_value"]
        begin = (array.primary | array.custom)[start[1:]] if start[0] == "$" else datetime.fromisoformat(start)
        return [
            begin.astimezone(UTC) + at * timedelta(**said["step"]) for at in range(array.shape[array.dims.index(dim)])
        ]


class Database:
    """A database: ``collections`` by name; of one that was a dataset ``groups`` and ``arrays`` by path, too."""

    def __init__(self, root: str | Path, at: datetime | None = None) -> None:
        """Read the documents; of the collections as of a moment."""
        root = Path(root)
        own = [path for path in root.glob("collections/*/collection.json") if _load(path).get("layout") == "hyperslab"]
        self.collections = {path.parent.name: Collection(path.parent, at) for path in sorted(own)}
        said = _load(root / "collections.json")
        self.groups = {path: _decode_all(each) for path, each in said.get("groups", {}).items()}
        self.dims = {path: each.get("dims", {}) for path, each in said.get("groups", {}).items()}
        self.attrs = {path: _decode_all(each) for path, each in said.get("arrays", {}).items()}
        self._arrays = said.get("arrays", {})
        self.paths = sorted(self._arrays)

    def read(self, path: str) -> np.ndarray[Any, Any]:
        """Return the cells of an array of the dataset that the database was made of."""
        said = self._arrays[path]
        if "collection" in said:
            return self.collections[said["collection"]].arrays[said["id"]].read()
        if "cells" in said or "base64" in said:
            return decode_coordinate(path, said).read()
        cell = decode_coordinate(path, {**said, "shape": [], "cells": [said["fill_value"]]}).read()
        return np.full(said["shape"], cell, cell.dtype)


def _decode_all(said: dict[str, Any]) -> dict[str, Any]:
    types = said.get("types", {})
    return {name: decode_attribute(value, types.get(name)) for name, value in said.get("attrs", {}).items()}
