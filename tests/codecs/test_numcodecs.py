"""numcodecs as the oracle: what it encodes we decode, what we encode it decodes, to the same cells."""

from __future__ import annotations

from typing import Any

import numcodecs
import numcodecs.vlen
import numpy as np
import pytest
from chains import STRING, cells_like, chain, objects, strings

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.model.dtypes import VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import Codec

pytestmark = pytest.mark.usefixtures("decoder")

BYTES: list[dict[str, Any]] = [
    {"id": "zlib", "level": 1},
    {"id": "zlib", "level": 9},
    {"id": "gzip", "level": 3},
    {"id": "bz2", "level": 5},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "zstd", "level": 5},
    {"id": "zstd", "level": -3, "checksum": True},
    {"id": "lz4", "acceleration": 1},
    {"id": "lz4", "acceleration": 100},
    *(
        {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
        for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in (-1, 0, 1, 2)
    ),
    {"id": "blosc", "cname": "lz4", "clevel": 0, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "lz4", "clevel": 9, "shuffle": 1, "blocksize": 256},
    {"id": "shuffle", "elementsize": 4},
    {"id": "shuffle", "elementsize": 2},
    {"id": "base64"},
    {"id": "crc32"},
    {"id": "crc32", "location": "end"},
    {"id": "crc32c"},
    {"id": "adler32"},
    {"id": "fletcher32"},
    {"id": "jenkins_lookup3"},
]
FILTERS: list[tuple[str, dict[str, Any], bool]] = [
    ("<i4", {"id": "delta", "dtype": "<i4"}, True),
    ("<i4", {"id": "delta", "dtype": "<i4", "astype": "<i2"}, True),
    (">i4", {"id": "delta", "dtype": ">i4"}, True),
    (">i4", {"id": "delta", "dtype": "i4"}, True),
    ("|u1", {"id": "delta", "dtype": "u1"}, True),
    ("<f8", {"id": "delta", "dtype": "<f8", "astype": "<f4"}, True),
    ("<f8", {"id": "fixedscaleoffset", "offset": 3, "scale": 10, "dtype": "<f8", "astype": "u1"}, True),
    (">f4", {"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": ">f4", "astype": ">i2"}, True),
    ("<f4", {"id": "quantize", "digits": 2, "dtype": "<f4"}, True),
    ("<f8", {"id": "quantize", "digits": 0, "dtype": "<f8", "astype": "<f4"}, True),
    ("<f8", {"id": "quantize", "digits": -1, "dtype": "<f8"}, True),
    ("<f4", {"id": "bitround", "keepbits": 5}, True),
    ("<f8", {"id": "bitround", "keepbits": 0}, True),
    ("<f2", {"id": "bitround", "keepbits": 10}, True),
    ("<i4", {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i4"}, True),
    (">f8", {"id": "astype", "encode_dtype": ">f4", "decode_dtype": ">f8"}, True),
    ("?", {"id": "packbits"}, True),
    ("<f4", {"id": "pcodec", "level": 8}, False),
    ("<i8", {"id": "pcodec", "level": 3, "delta_spec": "try_consecutive", "delta_encoding_order": 2}, False),
    ("<f8", {"id": "zfpy", "mode": 3, "precision": 20}, False),
    ("<f4", {"id": "zfpy", "mode": 4, "tolerance": 0.01}, False),
]


def ours(dtype: Any, shape: tuple[int, ...], *configs: dict[str, Any]) -> Any:
    codecs = []
    for config in configs:
        name = "numcodecs.packbits" if config["id"] == "packbits" else config["id"]
        codecs.append(Codec(name, {key: value for key, value in config.items() if key != "id"}))
    return build_chain(
        codecs, ChunkLayout(dtype if isinstance(dtype, VlenString | VlenBytes | VlenArray) else np.dtype(dtype), shape)
    )


def label(value: Any) -> str | None:
    return " ".join(map(str, value.values())) if isinstance(value, dict) else None


@pytest.mark.covering
@pytest.mark.parametrize("config", BYTES, ids=label)
@pytest.mark.parametrize("count", [7, 5000])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "|u1"])
def test_bytes_codecs(config: dict[str, Any], count: int, dtype: str) -> None:
    if config["id"] == "shuffle" and dtype == "|u1":
        count -= count % 4  # numcodecs takes whole elements only
    peer = numcodecs.get_codec(dict(config))
    block = cells_like(dtype, count)
    made = ours(dtype, (count,), config)
    assert made.decode(bytes(memoryview(peer.encode(block)))).tobytes() == block.tobytes()
    assert bytes(memoryview(peer.decode(bytes(made.encode(block))))) == block.tobytes()
    if made.size is not None:
        assert bytes(made.encode(block)) == bytes(memoryview(peer.encode(block)))


@pytest.mark.parametrize(("dtype", "config", "exact"), FILTERS, ids=label)
def test_filters(dtype: str, config: dict[str, Any], exact: bool) -> None:
    peer = numcodecs.get_codec(dict(config))
    block = (cells_like("i4", 300) / 4).astype(dtype)
    made = ours(dtype, (300,), config)
    theirs = bytes(np.ascontiguousarray(peer.encode(block)).view("u1"))
    mine = bytes(made.encode(block))
    if exact:
        assert mine == theirs
    expected = np.asarray(peer.decode(peer.encode(block))).view(dtype)
    for stored in (mine, theirs):
        assert made.decode(stored).tobytes() == expected.tobytes()
    assert made.decode(theirs).dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "configs",
    [
        ({"id": "delta", "dtype": "<i4"}, {"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}),
        ({"id": "zlib", "level": 1}, {"id": "delta", "dtype": "u1"}),
        ({"id": "shuffle", "elementsize": 4}, {"id": "delta", "dtype": "<i2", "astype": "<i4"}, {"id": "lz4"}),
        ({"id": "crc32"}, {"id": "astype", "encode_dtype": "<i4", "decode_dtype": "u1"}),
        ({"id": "fletcher32"}, {"id": "crc32c"}, {"id": "bz2"}),
    ],
)
def test_filters_in_any_order(configs: tuple[dict[str, Any], ...]) -> None:
    block = cells_like("<i4", 60)
    stored: Any = block
    for config in configs:
        stored = numcodecs.get_codec(dict(config)).encode(stored)
    theirs = bytes(np.ascontiguousarray(stored).view("u1"))
    made = ours("<i4", (60,), *configs)
    assert made.decode(theirs).tobytes() == block.tobytes()
    back: Any = bytes(made.encode(block))
    for config in reversed(configs):
        back = numcodecs.get_codec(dict(config)).decode(back)
    assert np.asarray(back).tobytes() == block.tobytes()


@pytest.mark.covering
@pytest.mark.parametrize("size", [0, 1, 2, 3, 719, 720, 721, 131072, 131073, 500001])
@pytest.mark.parametrize("fill", [0, 255, None])
def test_fletcher32_of_any_length(size: int, fill: int | None) -> None:
    data = np.full(size, fill, "u1") if fill is not None else np.random.default_rng(1).integers(0, 256, size, "u1")
    made = chain("u1", (size,), "fletcher32")
    expected = numcodecs.Fletcher32().encode(data) if size else b"\0\0\0\0"
    assert bytes(made.encode(data)) == expected


WORDS = ["a", "", "hé", "\U0001f600" * 50, "x" * 300]


def test_vlen() -> None:
    cases: list[tuple[Any, Any, np.ndarray[Any, Any]]] = [
        (VlenString(), numcodecs.VLenUTF8(), strings(*WORDS)),
        (VlenBytes(), numcodecs.VLenBytes(), objects(*(word.encode() for word in WORDS))),
        (
            VlenArray(np.dtype("<f4")),
            numcodecs.VLenArray("<f4"),
            objects(*(np.arange(n, dtype="<f4") for n in (3, 0, 9))),
        ),
    ]
    for dtype, peer, block in cases:
        made = ours(dtype, block.shape, peer.get_config())
        theirs = bytes(peer.encode(block.astype(object)))
        assert bytes(made.encode(block)) == theirs
        found = made.decode(theirs)
        assert all(np.array_equal(a, b) for a, b in zip(found.tolist(), block.tolist(), strict=True))
        assert found.dtype == (STRING if dtype == VlenString() else np.dtype(object))


def test_categorize() -> None:
    peer = numcodecs.Categorize(["a", "hé", "a"], dtype=object, astype="u2")
    block = strings("hé", "a", "other", "")
    made = ours(VlenString(), (4,), peer.get_config())
    assert bytes(made.encode(block)) == bytes(peer.encode(block.astype(object)).view("u1"))
    assert made.decode(bytes(made.encode(block))).tolist() == ["hé", "a", "", ""]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_json2(shape: tuple[int, ...]) -> None:
    words = np.array(["a", None, "hé", "d", "", "f"], object)[: int(np.prod(shape))].reshape(shape)
    data = numcodecs.JSON().encode(words)
    text = ours(VlenString(), shape, numcodecs.JSON().get_config()).decode(data)
    assert text.tolist() == np.where(words == None, "", words).tolist()  # noqa: E711
    numbers = np.arange(words.size, dtype="<i4").reshape(shape)
    assert ours("<i4", shape, {"id": "json2"}).decode(numcodecs.JSON().encode(numbers)).tolist() == numbers.tolist()
