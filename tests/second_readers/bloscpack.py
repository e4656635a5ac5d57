"""Read files of Bloscpack, from docs/formats/bloscpack.md alone: nothing of hyperslab is used."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numcodecs.blosc
import numpy as np

_SHA = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
_OURS = {"name": str, "dims": list, "attrs": dict, "types": dict, "coords": dict, "group": dict}


def digest_of(kind: int, data: bytes) -> bytes:
    """Return the digest of a kind 0 to 8 of some bytes, as it is stored behind them."""
    if kind == 0:
        return b""
    if kind < 3:
        return struct.pack("<I", (zlib.adler32, zlib.crc32)[kind - 1](data))
    return hashlib.new(_SHA[kind - 3], data).digest()


def read_undone(path: Path) -> bytes:
    """Return the bytes of a file as its journal, if it has a true one, says that they were before a writer died."""
    now = path.read_bytes()
    short = f".{path.name}.journal" if len(path.name.encode()) <= 200 else ""
    journal = path.with_name(short or f".{hashlib.sha256(path.name.encode()).hexdigest()}.journal")
    if not journal.exists():
        return now
    text = journal.read_bytes()
    body = text[:-32]
    if not body.startswith(b"hslabjnl") or hashlib.sha256(body).digest() != text[-32:]:
        return now
    _, length, count = struct.unpack_from("<3Q", body, 8)
    old, at = bytearray(now), 64 + 16 * count
    for index in range(count):
        offset, size = struct.unpack_from("<2Q", body, 64 + 16 * index)
        old[offset : offset + size] = body[at : at + size]
        at += size
    del old[length:]
    return bytes(old) if hashlib.sha256(old[:4096]).digest() == body[32:64] else now


def read_metadata(text: bytes) -> Any:
    """Return metadata, which are JSON or a Python literal."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text.decode())


class Chunks:
    """The header, the metadata and the chunks of one file."""

    def __init__(self, data: bytes) -> None:
        """Take the file apart; ``metadata`` is None where it has none."""
        if data[:4] != b"blpk":
            raise ValueError("no file of Bloscpack")
        self.data, self.end, version = data, 0, data[4]
        self.metadata: Any = None
        self.checksum, room, offsets, behind = 0, 0, False, False
        if version == 1:
            (self.count,) = struct.unpack_from("<q", data, 8)
            self.begin = 16
        else:
            options, self.checksum = data[5:7]
            self.count, room = struct.unpack_from("<qq", data, 16)
            offsets, self.begin = bool(options & 1), 32
            if version == 3 and (not options & 2 or data[32:36] == b"JSON"):
                if options & 2:
                    self._read_metadata()
            else:
                (length, zero) = struct.unpack_from("<ii", data, 24)
                if version not in (2, 3) or zero:
                    raise ValueError("unknown version of Bloscpack")
                room = 0
                if options & 2:
                    self.metadata = read_metadata(data[32 : 32 + length])
                    self.begin += length
                behind = version == 2 and not options & 2
        self.offsets = self._read_offsets(max(room, 0)) if offsets else None
        self.cells = b"".join(self._decode())
        if behind and data[self.end :].lstrip()[:1] == b"{":
            self.metadata = json.JSONDecoder().raw_decode(data[self.end :].decode().lstrip())[0]

    def _read_metadata(self) -> None:
        _, _, kind, codec, _, size, room, used = struct.unpack_from("<8s4B3I", self.data, 32)
        text = self.data[64 : 64 + used]
        self.begin = 64 + room + len(digest_of(kind, b""))
        if digest_of(kind, text) != self.data[64 + room : self.begin]:
            raise ValueError("wrong digest of the metadata")
        text = zlib.decompress(text) if codec == 1 else text
        assert len(text) == size
        self.metadata = read_metadata(text)

    def _read_offsets(self, room: int) -> list[int]:
        if self.count >= 0:
            count = self.count + room
        else:
            (first,) = struct.unpack_from("<q", self.data, self.begin)
            count = (first - self.begin) // 8
        found = struct.unpack_from(f"<{count}q", self.data, self.begin)
        self.begin += 8 * count
        return list(found)

    def _decode(self) -> Iterator[bytes]:
        at, number = self.begin, 0
        while number != self.count and (self.count >= 0 or at < len(self.data)):
            if self.offsets is not None and number < len(self.offsets) and self.offsets[number] >= 0:
                at = self.offsets[number]
            if at + 16 > len(self.data):
                return
            nbytes, _, stored = struct.unpack_from("<3I", self.data, at + 4)
            chunk = self.data[at : at + stored]
            at += stored
            found = self.data[at : at + len(digest_of(self.checksum, b""))]
            if len(chunk) < stored or digest_of(self.checksum, chunk) != found:
                raise ValueError(f"wrong digest of chunk {number}")
            at += len(found)
            self.end = at
            cells = numcodecs.blosc.decompress(chunk) if nbytes else b""
            assert len(cells) == nbytes
            yield bytes(cells)
            number += 1


def decode_dtype(spelled: Any) -> np.dtype[Any]:
    """Return the type that metadata spell: text, a Python literal in text, a list of fields."""
    if isinstance(spelled, str):
        try:
            spelled = ast.literal_eval(spelled)
        except (SyntaxError, ValueError):
            return np.dtype(spelled)
    if isinstance(spelled, str):
        return np.dtype(spelled)
    fields, offset = [], 0
    for name, kind, *shape in spelled:
        dtype = np.dtype((decode_dtype(kind), tuple(shape[0]))) if shape else decode_dtype(kind)
        if name:
            fields.append((name, dtype, offset))
        offset += dtype.itemsize
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})


def decode_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a cell, spelled in JSON, as NumPy takes it into an array of the type."""
    if dtype.subdtype:
        base, shape = dtype.subdtype
        return _make_array(value, base, shape)
    if dtype.names:
        return tuple(decode_cell(each, dtype[name]) for each, name in zip(value, dtype.names, strict=True))
    if dtype.kind == "c":
        return complex(float(value[0]), float(value[1]))
    if dtype.kind in "SV":
        return base64.b64decode(value)
    if dtype.kind in "mM":
        return np.array(value, "i8").view(dtype.newbyteorder("="))[()]
    return float(value) if dtype.kind == "f" else value


def _make_array(cells: list[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.empty(len(cells), dtype)
    for index, cell in enumerate(cells):
        made[index] = decode_cell(cell, dtype)
    return made.reshape(shape)


def _flatten(value: Any, depth: int) -> list[Any]:
    return [value] if depth == 0 else [cell for part in value for cell in _flatten(part, depth - 1)]


def decode_attribute(value: Any, code: Any) -> Any:
    """Return an attribute, spelled in JSON, as the value that its code says; as JSON has it if that does not fit."""
    try:
        return value if code is None else _decode_by_code(value, code)
    except (TypeError, ValueError, KeyError, IndexError):
        return value


def _decode_user(value: Any, code: dict[str, Any]) -> Any:
    said, several = code["type"], "array" in code
    cells = value if several else [value]
    if said["type"] == "vlen":
        base = decode_dtype(said["base"])
        found = np.empty(len(cells), object)
        for index, cell in enumerate(cells):
            found[index] = _make_array(cell, base, (len(cell),))
    else:
        kind = {"opaque": f"V{said.get('size')}", "char": "S1"}.get(said["type"]) or decode_dtype(said["base"])
        found = _make_array(cells, np.dtype(kind), (len(cells),))
    return found if several else found[0]


def _decode_by_code(value: Any, code: Any) -> Any:
    if code == "float":
        return float(value)
    if isinstance(code, list):
        holder = json.loads(json.dumps({"": value}))
        for pointer in code:
            *way, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
            where = holder
            for part in way:
                where = where[int(part)] if isinstance(where, list) else where[part]
            key = int(last) if isinstance(where, list) else last
            where[key] = float(where[key])
        return holder[""]
    if code == "bytes":
        return base64.b64decode(value)
    if code in ("string", "string[]"):
        return np.str_(value) if code == "string" else np.array(value, np.dtypes.StringDType())
    if isinstance(code, dict):
        if "type" in code:
            return _decode_user(value, code)
        kind, brackets = decode_dtype(code["fields"]), code.get("array", "")
    else:
        name, bracket, rest = code.partition("[") if code[1] not in "mM" else _split_time(code)
        kind, brackets = np.dtype(name), bracket + rest
    if not brackets:
        return _make_array([value], kind, ())[()]
    sizes = brackets.strip("[]")
    shape = tuple(int(size) for size in sizes.split(",")) if sizes else (len(value),)
    return _make_array(_flatten(value, len(shape)), kind, shape)


def _split_time(code: str) -> tuple[str, str, str]:
    end = code.index("]") + 1 if "[" in code else len(code)
    return code[:end], code[end : end + 1], code[end + 1 :]


class Array:
    """One array: ``name``, ``dims``, ``attrs``, ``shape``, ``dtype``, ``fill_value``."""

    def __init__(self, name: str, labels: dict[str, Any], cells: np.ndarray[Any, Any]) -> None:
        """Take what metadata say of an array, and its cells."""
        self.name, self.cells = name, cells
        self.dims = tuple(labels.get("dims") or [None] * cells.ndim)
        types = labels.get("types", {})
        self.attrs = {key: decode_attribute(value, types.get(key)) for key, value in labels.get("attrs", {}).items()}
        self.fill_value = labels.get("fill_value")
        if self.fill_value is not None and cells.dtype.kind != "T":
            self.fill_value = _make_array([self.fill_value], cells.dtype, ())[()]

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells."""
        return self.cells


def decode_coordinate(name: str, said: dict[str, Any]) -> Array:
    """Return an array that stands beside the one that a file is about."""
    shape = tuple(said["shape"])
    if said["dtype"] == "string":
        return Array(name, said, np.array(said["cells"], np.dtypes.StringDType()).reshape(shape))
    dtype = decode_dtype(said["dtype"])
    if "base64" in said:
        little = dtype if dtype.names else dtype.newbyteorder("<")
        cells = np.frombuffer(base64.b64decode(said["base64"]), little)
        return Array(name, said, cells.astype(dtype).reshape(shape))
    return Array(name, said, _make_array(said["cells"], dtype, shape))


def _tells_array(said: Any, size: int) -> bool:
    """Return True if metadata are an array's, False if a user's own."""
    if not isinstance(said, dict) or "dtype" not in said or "shape" not in said:
        return False
    try:
        return (
            said.get("container") == "numpy" or math.prod(said["shape"]) * decode_dtype(said["dtype"]).itemsize == size
        )
    except (TypeError, ValueError):
        return False


class File:
    """A file of Bloscpack: ``arrays`` by name, the array that it is about first, and ``attrs`` and ``unlimited``."""

    def __init__(self, path: str | Path) -> None:
        """Read the file, as its journal says that it was."""
        chunks = Chunks(read_undone(Path(path)))
        cells, said = chunks.cells, chunks.metadata
        if not _tells_array(said, len(cells)):
            own = said if isinstance(said, dict) else {} if said is None else {"metadata": said}
            array = Array("data", {"attrs": own}, np.frombuffer(cells, "u1"))
            self.arrays, self.attrs, self.unlimited = {array.name: array}, {}, ()
            return
        ours = {key: said[key] for key, kind in _OURS.items() if isinstance(said.get(key), kind)}
        coords = ours.get("coords", {})
        if not all(isinstance(each, dict) and "dtype" in each for each in coords.values()):
            coords = ours.pop("coords") and {}
        known = {*ours, "dtype", "shape", "order", "container", "fill_value"}
        known |= set() if said.get("others") else {"others"}
        attrs = {key: value for key, value in said.items() if key not in known} | ours.get("attrs", {})
        dtype, shape = decode_dtype(said["dtype"]), tuple(said["shape"])
        stored = np.frombuffer(cells, dtype, math.prod(shape))
        stored = stored.reshape(shape[::-1]).T if said.get("order") == "F" else stored.reshape(shape)
        array = Array(ours.get("name", "data"), said | ours | {"attrs": attrs}, stored)
        self.arrays = {array.name: array} | {key: decode_coordinate(key, each) for key, each in coords.items()}
        group = ours.get("group", {})
        types = group.get("types", {})
        self.attrs = {key: decode_attribute(value, types.get(key)) for key, value in group.get("attrs", {}).items()}
        self.unlimited = tuple(group.get("unlimited", ()))
