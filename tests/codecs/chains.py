"""Chains for the tests: every codec at least once, with cells that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.registry import build_chain
from hyperslab.model.dtypes import DataType, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import Codec

STRING = np.dtypes.StringDType()


def chain(dtype: Any, shape: tuple[int, ...], *codecs: Any, fill: Any = None) -> Chain:
    """A chain of words, (name, config) pairs or codecs."""
    made = [Codec(c) if isinstance(c, str) else c if isinstance(c, Codec) else Codec(*c) for c in codecs]
    known: DataType = dtype if isinstance(dtype, VlenString | VlenBytes | VlenArray) else np.dtype(dtype)
    return build_chain(made, ChunkLayout(known, shape, fill))


LITTLE = ("bytes", {"endian": "little"})
BIG = ("bytes", {"endian": "big"})

# What may stand behind `bytes`, for cells of any fixed size. True: damage never gives other cells.
TAILS: dict[str, tuple[list[Any], bool]] = {
    "plain": ([], False),
    "gzip": ([("gzip", {"level": 1})], True),
    "gzip 9": ([("gzip", {"level": 9})], True),
    "gzip 0": ([("gzip", {"level": 0})], True),
    "zlib": ([("zlib", {"level": 1})], True),
    "zlib 6": ([("zlib", {"level": "6"})], True),
    "zstd": ([("zstd", {"level": 3})], False),
    "zstd checksum": ([("zstd", {"level": -5, "checksum": True})], True),
    "lz4": (["lz4"], False),
    "bz2": ([("bz2", {"level": 9})], True),
    "lzma": (["lzma"], True),
    "lzma alone": ([("lzma", {"format": 2})], False),
    "lzma raw": ([("lzma", {"format": 3, "filters": [{"id": 33, "preset": 1}]})], False),
    "shuffle zlib": ([("shuffle", {"elementsize": 0}), "zlib"], True),
    "shuffle 3": ([("shuffle", {"elementsize": 3})], False),
    "base64": (["base64"], False),
    "blosc zstd crc32c": ([("blosc", {"cname": "zstd", "shuffle": "bitshuffle"}), "crc32c"], True),
    "gzip crc32c": (["gzip", "crc32c"], True),
    "zstd gzip": (["zstd", "gzip"], True),
    "crc32": (["crc32"], True),
    "crc32 end": ([("crc32", {"location": "end"})], True),
    "crc32c": (["crc32c"], True),
    "crc32c twice": (["crc32c", "crc32c"], True),
    "adler32": (["adler32"], True),
    "fletcher32": (["fletcher32"], True),
    "jenkins_lookup3": ([("jenkins_lookup3", {"initval": 5, "prefix": "ab"})], True),
    **{
        f"blosc {cname} {shuffle}": ([("blosc", {"cname": cname, "shuffle": shuffle, "clevel": 9})], False)
        for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in ("noshuffle", "shuffle", "bitshuffle")
    },
    "blosc 0": ([("blosc", {"clevel": 0})], False),
    "blosc blocks": ([("blosc", {"blocksize": 64, "typesize": 4, "clevel": 9})], False),
}


@dataclass(frozen=True)
class Case:
    """A chain and a block for it; ``sound``: damage to a chunk never gives other cells, only errors."""

    chain: Chain
    block: np.ndarray[Any, Any]
    sound: bool = False


def cells_like(dtype: Any, count: int = 24) -> np.ndarray[Any, Any]:
    """Smooth numbers with some repetition, so that compressors do something."""
    return (np.arange(count) // 3 * 7 % 50).astype(dtype)


def strings(*words: str) -> np.ndarray[Any, Any]:
    """A StringDType array."""
    return np.array(words, STRING)


def objects(*items: Any) -> np.ndarray[Any, Any]:
    """An object array of these items."""
    return np.fromiter(items, object, len(items))


def cases() -> dict[str, Case]:
    """One small case per tail, and one per codec that works on cells."""
    i4 = cells_like("<i4").reshape(4, 6)
    f8 = i4 / 8
    large = cells_like("<i4", 300).reshape(15, 20)  # Blosc compresses nothing below 128 bytes
    found = {}
    for name, (tail, sound) in TAILS.items():
        block = large if "blosc" in name else i4
        found[name] = Case(chain("<i4", block.shape, LITTLE, *tail), block, sound)
    flags = i4 % 2 == 0
    inner = {"chunk_shape": [2, 3], "codecs": [Codec(*LITTLE), Codec("zstd"), Codec("crc32c")]}
    words = strings("a", "", "hé", "twelve chars", "a", "\U0001f600")
    found |= {
        "big": Case(chain("<i4", (4, 6), BIG), i4),
        "transpose": Case(chain("<i4", (4, 6), ("transpose", {"order": [1, 0]}), LITTLE, "zlib"), i4),
        "delta": Case(chain("<i4", (4, 6), ("delta", {"dtype": "<i4", "astype": "<i2"}), "zlib"), i4),
        "fixedscaleoffset": Case(
            chain("<f8", (4, 6), ("fixedscaleoffset", {"offset": 1, "scale": 8, "dtype": "f8", "astype": "i2"})), f8
        ),
        "quantize": Case(chain("<f8", (4, 6), ("quantize", {"digits": 3, "dtype": "<f8", "astype": "<f4"})), f8),
        "bitround": Case(chain("<f8", (4, 6), ("bitround", {"keepbits": 20})), f8),
        "astype": Case(chain("<i4", (4, 6), ("astype", {"encode_dtype": "u1", "decode_dtype": "<i4"})), i4),
        "numcodecs.packbits": Case(chain("?", (4, 6), "numcodecs.packbits", "zlib"), flags),
        "packbits": Case(chain("?", (4, 6), ("packbits", {"padding_encoding": "first_byte"})), flags),
        "packbits bits": Case(chain("<i4", (4, 6), ("packbits", {"first_bit": 0, "last_bit": 6})), i4),
        "cast_value": Case(chain("<f8", (4, 6), ("cast_value", {"data_type": "float32"}), LITTLE), f8),
        "scale_offset": Case(chain("<f8", (4, 6), ("scale_offset", {"offset": 2, "scale": 8}), LITTLE), f8),
        "pcodec": Case(chain("<f8", (4, 6), "pcodec"), f8),
        "zfpy": Case(chain("<f8", (4, 6), ("zfpy", {"mode": 5})), f8),
        "zfpy rate": Case(chain("<f8", (4, 6), ("zfpy", {"mode": 2, "rate": 64})), f8),
        "categorize": Case(
            chain(VlenString(), (6,), ("categorize", {"labels": words.tolist(), "dtype": "|O", "astype": "u1"})), words
        ),
        "vlen-utf8": Case(chain(VlenString(), (6,), "vlen-utf8"), words),
        "vlen-utf8 zstd": Case(chain(VlenString(), (6,), "vlen-utf8", "zstd", "crc32c"), words, True),
        "vlen-bytes": Case(chain(VlenBytes(), (3,), "vlen-bytes", "gzip"), objects(b"", b"\0\xff", b"x" * 40)),
        "vlen-array": Case(
            chain(VlenArray(np.dtype("<i2")), (2,), ("vlen-array", {"dtype": "<i2"}), "blosc"),
            objects(np.arange(3, dtype="<i2"), np.zeros(0, "<i2")),
        ),
        "viewed delta": Case(chain("<i4", (4, 6), "zlib", ("delta", {"dtype": "u1"})), i4),
        "sharding": Case(chain("<i4", (4, 6), ("sharding_indexed", inner), fill=0), i4, True),
        "sharding gzip": Case(
            chain("<i4", (4, 6), ("sharding_indexed", inner | {"index_location": "start"}), "gzip", fill=0), i4, True
        ),
    }
    return found
