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
    known: DataType = dtype if isinstance(dtype, VlenString | VlenBytes | VlenArray) else np.dtype(dtype)
    return build_chain(as_list(codecs), ChunkLayout(known, shape, fill))


def as_list(codecs: Any) -> tuple[Codec, ...]:
    """Codecs of words, (name, config) pairs or codecs."""
    return tuple(Codec(c) if isinstance(c, str) else c if isinstance(c, Codec) else Codec(*c) for c in codecs)


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal in dtype, shape and every bit (cells of variable length: in value)."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "OT":
        pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
        return all(np.array_equal(x, y) and type(x) is type(y) for x, y in pairs)
    return a.tobytes() == b.tobytes()


LITTLE = ("bytes", {"endian": "little"})
BIG = ("bytes", {"endian": "big"})

# What may stand behind `bytes`, for cells of any fixed size. True (`Case.sound`): damage to what it made never gives
# other cells, only errors, as checksums and streams with one notice it.
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
    sound: bool
    dtype: DataType
    codecs: tuple[Codec, ...]


def case(block: np.ndarray[Any, Any], dtype: Any, *codecs: Any, sound: bool = False, fill: Any = None) -> Case:
    """The chain of these codecs for a block of cells of this type."""
    known: DataType = dtype if isinstance(dtype, VlenString | VlenBytes | VlenArray) else np.dtype(dtype)
    return Case(chain(dtype, block.shape, *codecs, fill=fill), block, sound, known, as_list(codecs))


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
    flags = i4 % 2 == 0
    inner = {"chunk_shape": [2, 3], "codecs": [Codec(*LITTLE), Codec("zstd"), Codec("crc32c")]}
    words = strings("a", "", "hé", "twelve chars", "a", "\U0001f600")
    arrays = objects(np.arange(3, dtype="<i2"), np.zeros(0, "<i2"))
    tails = {
        name: case(large if "blosc" in name else i4, "<i4", LITTLE, *tail, sound=sound)
        for name, (tail, sound) in TAILS.items()
    }
    return tails | {
        "big": case(i4, "<i4", BIG),
        "transpose": case(i4, "<i4", ("transpose", {"order": [1, 0]}), LITTLE, "zlib"),
        "delta": case(i4, "<i4", ("delta", {"dtype": "<i4", "astype": "<i2"}), "zlib"),
        "fixedscaleoffset": case(
            f8, "<f8", ("fixedscaleoffset", {"offset": 1, "scale": 8, "dtype": "f8", "astype": "i2"})
        ),
        "quantize": case(f8, "<f8", ("quantize", {"digits": 3, "dtype": "<f8", "astype": "<f4"})),
        "bitround": case(f8, "<f8", ("bitround", {"keepbits": 20})),
        "astype": case(i4, "<i4", ("astype", {"encode_dtype": "u1", "decode_dtype": "<i4"})),
        "numcodecs.packbits": case(flags, "?", "numcodecs.packbits", "zlib"),
        "packbits": case(flags, "?", ("packbits", {"padding_encoding": "first_byte"})),
        "packbits bits": case(i4, "<i4", ("packbits", {"first_bit": 0, "last_bit": 6})),
        "cast_value": case(f8, "<f8", ("cast_value", {"data_type": "float32"}), LITTLE),
        "scale_offset": case(f8, "<f8", ("scale_offset", {"offset": 2, "scale": 8}), LITTLE),
        "pcodec": case(f8, "<f8", "pcodec"),
        "zfpy": case(f8, "<f8", ("zfpy", {"mode": 5})),
        "zfpy rate": case(f8, "<f8", ("zfpy", {"mode": 2, "rate": 64})),
        "categorize": case(
            words, VlenString(), ("categorize", {"labels": words.tolist(), "dtype": "|O", "astype": "u1"})
        ),
        "vlen-utf8": case(words, VlenString(), "vlen-utf8"),
        "vlen-utf8 zstd": case(words, VlenString(), "vlen-utf8", "zstd", "crc32c", sound=True),
        "vlen-bytes": case(objects(b"", b"\0\xff", b"x" * 40), VlenBytes(), "vlen-bytes", "gzip"),
        "vlen-array": case(arrays, VlenArray(np.dtype("<i2")), ("vlen-array", {"dtype": "<i2"}), "blosc"),
        "viewed delta": case(i4, "<i4", "zlib", ("delta", {"dtype": "u1"})),
        "sharding": case(i4, "<i4", ("sharding_indexed", inner), sound=True, fill=0),
        "sharding gzip": case(
            i4, "<i4", ("sharding_indexed", inner | {"index_location": "start"}), "gzip", sound=True, fill=0
        ),
    }
