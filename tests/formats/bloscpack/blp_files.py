"""The golden files, and bloscpack files made to measure: every field can be set, and none is checked."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

import numcodecs.blosc
import numpy as np

from hyperslab.codecs.checksums import DIGESTS

GOLDEN = Path(__file__).parents[2] / "golden" / "bloscpack" / "bloscpack-0.16.0.zip"


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """What the writers say that they wrote."""
    with zipfile.ZipFile(GOLDEN) as archive:
        return dict(json.loads(archive.read("manifest.json")))


@cache
def golden(name: str) -> bytes:
    """The bytes of one golden file."""
    with zipfile.ZipFile(GOLDEN) as archive:
        return archive.read(name)


def truth(name: str) -> np.ndarray[Any, Any]:
    """What a golden file holds: an array, or bytes."""
    said = manifest()[name]["truth"]
    if said.endswith(".npy"):
        with zipfile.ZipFile(GOLDEN) as archive, archive.open(said) as file:
            return np.lib.format.read_array(file)
    return np.frombuffer(golden(said), np.uint8)


def chunk(data: bytes, typesize: int = 8, cname: str = "lz4", shuffle: int = 1, blocksize: int = 0) -> bytes:
    """A Blosc chunk."""
    if not data:
        return bytes.fromhex("02011308000000000100000010000000")
    items = np.frombuffer(data, f"V{typesize}" if len(data) % typesize == 0 else "u1")
    return bytes(numcodecs.blosc.compress(items, cname.encode(), 5, shuffle, blocksize))


def section(text: bytes, checksum: int = 1, codec: int = 1, room: int | None = None, **fields: int) -> bytes:
    """A metadata section; ``fields`` are put in as they are."""
    used = zlib.compress(text) if codec else text
    room = 10 * len(text) if room is None else room
    sizes = {"options": 0, "level": 6, "size": len(text), "room": room, "used": len(used)} | fields
    head = pack("<8s4B3I8s", b"JSON", sizes["options"], checksum, codec, sizes["level"],
                sizes["size"], sizes["room"], sizes["used"], b"")  # fmt: skip
    return head + used.ljust(room, b"\0") + DIGESTS[min(checksum, 8)].of(used)


def blp(
    chunks: Sequence[bytes],
    metadata: bytes = b"",
    *,
    sizes: tuple[int, int] | None = None,
    nchunks: int | None = None,
    offsets: bool = True,
    spare: int = 0,
    checksum: int = 1,
    version: int = 3,
    places: Sequence[int] | None = None,
    tail: bytes = b"",
    gap: int = 0,
    **fields: int,
) -> bytes:
    """A file of Blosc chunks; ``metadata`` as they stand in the file. Sizes and places are right unless given."""
    decoded = [int.from_bytes(stored[4:8], "little") for stored in chunks]
    sizes = sizes or (decoded[0] if decoded else 0, decoded[-1] if decoded else 0)
    count = len(chunks) if nchunks is None else nchunks
    options = fields.get("options", offsets | (2 if metadata else 0))
    spec = bool(metadata) and metadata[:4] != b"JSON"
    last = len(metadata) if spec else spare
    head = pack("<4s4Biiqq", b"blpk", version, options, checksum, fields.get("typesize", 8), *sizes, count,
                fields.get("last", last))  # fmt: skip
    slots = len(chunks) + spare if offsets else 0
    digest = DIGESTS[min(checksum, 8)]
    body, at, found = b"", len(head) + len(metadata) + 8 * slots, []
    for stored in chunks:
        found.append(at)
        body += stored + digest.of(stored) + b"\0" * gap
        at += len(stored) + digest.size + gap
    table = [*(found if places is None else places), *[-1] * spare][:slots]
    return head + metadata + np.array(table, "<i8").tobytes() + body + tail


def text_of(array: np.ndarray[Any, Any], **more: Any) -> bytes:
    """bloscpack's metadata of an array, and more keys."""
    name = repr(array.dtype.descr if array.dtype.names else array.dtype.str)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    doc = {"dtype": name, "shape": list(array.shape), "order": order, "container": "numpy"} | more
    return json.dumps(doc, separators=(",", ":")).encode()


def file_of(
    array: np.ndarray[Any, Any], chunk_size: int = 2048, more: dict[str, Any] | None = None, **how: Any
) -> bytes:
    """An array as a file of v3 with chunks of ``chunk_size`` bytes."""
    data = array.tobytes("A")
    typesize = array.itemsize if array.itemsize <= 255 else 1
    parts = [data[i : i + chunk_size] for i in range(0, len(data), chunk_size)] or [b""]
    form = {name: how.pop(name) for name in ("cname", "shuffle", "blocksize") if name in how}
    stored = [chunk(part, typesize, **form) for part in parts]
    return blp(stored, section(text_of(array, **(more or {}))), typesize=typesize, **how)


def write(folder: Path, data: bytes, name: str = "a.blp") -> str:
    """A file of these bytes; its path."""
    path = folder / name
    path.write_bytes(data)
    return str(path)
