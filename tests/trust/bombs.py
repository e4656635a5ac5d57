"""A few bytes that claim to be, or inflate to, far more than their chunk holds."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from corpus import Case, crc, edit, shard

GIB = 1 << 30
LARGE = 1 << 26


PAYLOADS: dict[str, Callable[[], bytes]] = {
    "zlib": lambda: zlib.compress(bytes(LARGE), 1),
    "gzip": lambda: gzip.compress(bytes(LARGE), 1),
    "bz2": lambda: bz2.compress(bytes(LARGE)),
    "lzma": lambda: lzma.compress(bytes(LARGE), preset=0),
    "zstd": lambda: b"\x28\xb5\x2f\xfd\xa0" + GIB.to_bytes(4, "little") + b"\x01\x00\x00",
    "zstd of unknown size": lambda: b"\x28\xb5\x2f\xfd\x00\x60" + 4000 * b"\x02\x00\x10\x00" + b"\x01\x00\x00",
    "lz4": lambda: GIB.to_bytes(4, "little") + b"\x1f\x00\x01\x00\xff\xff",
    "lz4 of 4 GiB": lambda: b"\xff\xff\xff\xff\x00\x00",
    "blosc": lambda: struct.pack("<BBBBIII", 2, 1, 0x21, 4, GIB, GIB, 24) + b"\x14" + bytes(7),
    "blosc of one byte blocks": lambda: struct.pack("<BBBBIII", 2, 1, 0x21, 4, 64, 1, 24) + b"\x14" + bytes(7),
}


@cache
def payload(name: str) -> bytes:
    """Bytes under a codec that decode to 64 MiB, or say that they decode to a GiB or more."""
    return PAYLOADS[name]()


ERRORS = ("CorruptChunk", "MemoryLimit")


def bombs() -> Iterator[Case]:
    """Each payload in a chunk of format 2 and 3, behind a checksum, in a shard; and in chains of two."""
    for name in PAYLOADS:
        codec = name.partition(" ")[0]
        data = payload(name)
        yield Case(f"zarr2: {name}", _zarr2(codec, data), ERRORS, "zarr2")
        yield Case(f"zarr3: {name}", _zarr3([_named(codec)], data), ERRORS, "zarr3")
        yield Case(f"zarr3, checksum: {name}", _zarr3([_named(codec), "crc32c"], crc(data)), ERRORS, "zarr3")
        yield Case(f"shards: {name}", _shards([_named(codec)], data), ERRORS, "shards")
    twice = gzip.compress(payload("gzip"))
    yield Case("zarr2: gzip of gzip", _zarr2("gzip", twice, [{"id": "gzip"}]), ERRORS, "zarr2")
    yield Case("zarr3: gzip of gzip", _zarr3(["gzip", "gzip"], twice), ERRORS, "zarr3")
    yield Case("zarr3: zstd in gzip", _zarr3(["zstd", "gzip"], gzip.compress(payload("zstd"))), ERRORS, "zarr3")
    yield Case("zarr3: many gzip members", _zarr3(["gzip"], gzip.compress(b"") * 50_000), ERRORS, "zarr3")
    yield Case("zarr3: a shard within a shard of bombs", _nested(payload("zstd")), ERRORS, "shards")
    for codec in ("zstd", "gzip", "blosc", "lz4"):
        yield Case(f"zarr3, strings: {codec}", _strings(codec, payload(codec)), ERRORS, "zarr3", memory=160 << 20)
    for name, count in {"2^32-1 strings": 2**32 - 1, "2^20 strings": 2**20}.items():
        yield Case(f"zarr3, strings: {name}", _strings(None, struct.pack("<I", count) + bytes(64)), ERRORS, "zarr3")


def _named(codec: str) -> str:
    return codec if codec in ("gzip", "zstd", "blosc") else f"numcodecs.{codec}"


def _zarr2(codec: str, data: bytes, filters: Any = None) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        edit(root / "a/.zarray", lambda doc: doc.update(compressor={"id": codec}, filters=filters))
        (root / "a/0.0").write_bytes(data)

    return make


def _codecs(names: list[str]) -> list[dict[str, Any]]:
    known: dict[str, Any] = {
        "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        "zstd": {"level": 0, "checksum": False},
        "gzip": {"level": 1},
    }
    head = {"name": "bytes", "configuration": {"endian": "little"}}
    return [head, *({"name": name, "configuration": known.get(name, {})} for name in names)]


def _zarr3(names: list[str], data: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        edit(root / "a/zarr.json", lambda doc: doc.update(codecs=_codecs(names)))
        (root / "a/c/0/0").write_bytes(data)

    return make


def _shards(names: list[str], data: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        edit(root / "a/zarr.json", lambda doc: doc["codecs"][0]["configuration"].update(codecs=_codecs(names)))
        (root / "a/c/0/0").write_bytes(shard([data] * 16))

    return make


def _nested(data: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        def nest(doc: dict[str, Any]) -> None:
            outer = doc["codecs"][0]["configuration"]
            inner = json.loads(json.dumps(outer)) | {"codecs": _codecs(["zstd"]), "chunk_shape": [1, 1]}
            outer["codecs"] = [{"name": "sharding_indexed", "configuration": inner}]

        edit(root / "a/zarr.json", nest)
        (root / "a/c/0/0").write_bytes(shard([shard([data] * 4)] * 16))

    return make


def _strings(codec: str | None, data: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        codecs = [{"name": "vlen-utf8"}, *(_codecs([_named(codec)])[1:] if codec else [])]
        edit(root / "a/zarr.json", lambda doc: doc.update(codecs=codecs, data_type="string", fill_value=""))
        (root / "a/c/0/0").write_bytes(data)

    return make
