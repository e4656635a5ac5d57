"""Chains: what they refuse, what they know of themselves, how they decode into the result."""

from __future__ import annotations

import gc
import subprocess
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from chains import BIG, LITTLE, chain

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.registry import ALIASES, DEFAULT, MAKERS, REFUSED, as_codecs, build_chain, parse_codec
from hyperslab.errors import CorruptChunk, Invalid, Unsupported
from hyperslab.model.dtypes import VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import Codec

I4 = np.arange(600, dtype="<i4").reshape(20, 30)


@pytest.mark.parametrize("name", ["pickle", "numcodecs.pickle", "msgpack2", "szip", "no-such", "", "__init__"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_unknown_and_unsafe_codecs(name: str, place: int) -> None:
    codecs: list[Any] = [LITTLE, "zstd"]
    codecs.insert(place, name)
    with pytest.raises(Unsupported) as caught:
        chain("<i4", (2,), *codecs)
    assert repr(name) in str(caught.value)
    assert caught.value.remedy


def test_the_registry_names_no_codec_twice() -> None:
    assert not set(REFUSED) & set(MAKERS)
    assert set(ALIASES.values()) <= set(MAKERS)
    assert not set(ALIASES) & set(MAKERS)


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"json2"}))
def test_unknown_parameters_are_refused(name: str) -> None:
    dtype = {"vlen-utf8": VlenString(), "categorize": VlenString(), "vlen-bytes": VlenBytes()}.get(
        name, np.dtype("<f4")
    )
    dtype = VlenArray(np.dtype("<f4")) if name == "vlen-array" else dtype
    with pytest.raises(Invalid, match="no_such"):
        chain(dtype, (4,), (name, {"no_such": 1}))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("zlib", {"level": 10}),
        ("zlib", {"level": "x"}),
        ("zlib", {"level": 1.5}),
        ("gzip", {"level": True}),
        ("zstd", {"level": 23}),
        ("zstd", {"checksum": "yes"}),
        ("blosc", {"cname": "lz5"}),
        ("blosc", {"clevel": 10}),
        ("blosc", {"shuffle": "bits"}),
        ("blosc", {"shuffle": 3}),
        ("blosc", {"typesize": 0}),
        ("lzma", {"format": 4}),
        ("lzma", {"format": 3}),
        ("lzma", {"filters": "x"}),
        ("lzma", {"format": 3, "filters": [{"id": 33, "dict_size": 1 << 30}]}),
        ("crc32", {"location": "middle"}),
        ("bytes", {"endian": "middle"}),
        ("transpose", {"order": [0, 0]}),
        ("transpose", {"order": [0]}),
        ("transpose", {}),
        ("delta", {"dtype": "|O"}),
        ("delta", {"dtype": "<f8"}),
        ("delta", {"dtype": "not a type"}),
        ("delta", {"dtype": "<i4", "astype": "S4"}),
        ("astype", {}),
        ("bitround", {"keepbits": 3}),
        ("fixedscaleoffset", {"offset": 0, "scale": 0}),
        ("fixedscaleoffset", {"offset": "x", "scale": 1}),
        ("quantize", {"digits": 3}),
        ("shuffle", {"elementsize": -1}),
        ("packbits", {"first_bit": 32}),
        ("packbits", {"first_bit": 5, "last_bit": 4}),
        ("packbits", {"padding_encoding": "middle"}),
        ("numcodecs.packbits", {}),
        ("vlen-utf8", {}),
        ("vlen-bytes", {}),
        ("vlen-array", {"dtype": "<i4"}),
        ("categorize", {"labels": ["a"]}),
        ("jenkins_lookup3", {"initval": -1}),
        ("pcodec", {"level": 13}),
        ("zfpy", {"mode": 1}),
    ],
)
def test_configurations_that_make_no_sense(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        chain("<i4", (4, 6), (name, config))
    assert str(caught.value)


def test_the_order_of_kinds() -> None:
    for codecs in (["zlib", "transpose"], ["bytes", "vlen-utf8"], ["bytes", "bytes"], ["zstd", "packbits"]):
        config = [(name, {"order": [0, 1]} if name == "transpose" else {}) for name in codecs]
        with pytest.raises(Invalid, match=r"before them|works on strings"):
            chain("<i4", (4, 6), *config)
    with pytest.raises(Unsupported, match="vlen-utf8"):
        chain(VlenString(), (2,), "zstd")
    with pytest.raises(Unsupported, match="bytes"):
        chain(np.dtype([("a", "O")]), (2,), "bytes")


def test_bytes_is_put_in_where_zarr2_leaves_it_out() -> None:
    for dtype in ("<i4", ">i4"):
        block = I4.astype(dtype)
        assert bytes(chain(dtype, (20, 30)).encode(block)) == block.tobytes()
        stored = bytes(chain(dtype, (20, 30), ("shuffle", {"elementsize": 0})).encode(block))
        assert stored[:600] == block.tobytes()[::4]


def test_size_and_direct() -> None:
    assert chain("<i4", (20, 30), LITTLE).direct
    assert not chain("<i4", (20, 30), BIG).direct
    assert chain("|u1", (20, 30), BIG).direct
    assert not chain("<i4", (20, 30), LITTLE, "crc32c").direct
    assert chain("<i4", (20, 30), BIG, "crc32c", "crc32").size == 2408
    assert chain("<i4", (20, 30), LITTLE, "zstd", "crc32c").size is None
    assert chain("?", (3, 5), "numcodecs.packbits").size == 3
    assert chain(VlenString(), (3,), "vlen-utf8").size is None


def test_decode_into_wants_the_right_array() -> None:
    made = chain("<i4", (20, 30), LITTLE)
    for out in (
        np.empty((30, 20), "<i4"),
        np.empty((20, 30), "<f4"),
        np.empty((30, 20), "<i4").T,
        np.empty((20, 60), "<i4")[:, ::2],
    ):
        with pytest.raises(Invalid, match="decoding"):
            made.decode_into(I4.tobytes(), out)


def test_blocks_that_do_not_fit() -> None:
    made = chain("<i4", (20, 30), LITTLE)
    with pytest.raises(Invalid, match="shape"):
        made.encode(I4[:10])
    with pytest.raises(Invalid, match="cells of int32"):
        made.encode(I4.astype("<f8"))


def test_encoding_plain_cells_copies_nothing() -> None:
    data = chain("<i4", (20, 30), LITTLE).encode(I4)
    assert np.shares_memory(np.frombuffer(data, "u1"), I4)
    assert np.shares_memory(chain("<i4", (20, 30), LITTLE).decode(data), I4)


STRAIGHT = {
    "bytes": (["bytes"], 4),
    "blosc": (["bytes", "blosc"], 3),
    "zstd": (["bytes", "zstd"], 5),
    "lz4": (["bytes", "lz4"], 3),
    "crc32c": (["bytes", "crc32c"], 2),
    "zstd crc32c": (["bytes", "zstd", "crc32c"], 7),
    "blosc crc32c": (["bytes", "blosc", "crc32c"], 5),
    "shuffle zlib": (["bytes", ("shuffle", {"elementsize": 4}), "zlib"], 6),
    "gzip": (["bytes", "gzip"], 7),
}
BY_NUMCODECS = {"blosc": 20, "zstd": 14, "lz4": 12, "zstd crc32c": 16, "blosc crc32c": 22}
"""Those of the codecs that numcodecs decodes where blosc2 is not installed; more than the budget, and pinned."""


def calls(function: Any) -> int:
    """Python calls that it takes; the garbage of other tests, whose finalizers are calls too, waits."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()
    sys.setprofile(trace)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count - 1


@pytest.mark.parametrize("name", STRAIGHT)
def test_the_number_of_python_calls_to_decode_a_chunk(decoder: str, name: str) -> None:
    codecs, budget = STRAIGHT[name]
    budget = BY_NUMCODECS.get(name, budget) if decoder == "numcodecs" else budget
    made = chain("<i4", (20, 30), *codecs)
    data = bytes(made.encode(I4))
    out = np.zeros_like(I4)
    decode = made.decoder(out)
    decode(data)
    assert calls(lambda: decode(data)) <= budget
    assert out.tobytes() == I4.tobytes()


def test_reading_needs_no_numcodecs_beside_blosc2() -> None:
    code = """
import sys
import numpy as np
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.model.spec import Codec
for name, data in eval(sys.argv[1]).items():
    chain = build_chain([Codec(name)], ChunkLayout(np.dtype("<i4"), (64,)))
    assert chain.decode(data).tolist() == list(range(64))
print(sorted({name.split(".")[0] for name in sys.modules} & {"numcodecs", "blosc2", "pcodec", "zfpy", "ml_dtypes"}))
"""
    cells = np.arange(64, dtype="<i4")
    names = ("blosc", "zstd", "lz4", "shuffle", "fletcher32", "gzip", "lzma")
    stored = repr({name: bytes(chain("<i4", (64,), name).encode(cells)) for name in names})
    done = subprocess.run([sys.executable, "-c", code, stored], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["pcodec", "zfpy"])
def test_a_missing_library_names_its_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unsupported, match=r"hyperslab\[codecs\]"):
        chain("<f4", (4,), missing)


def test_words() -> None:
    f4 = np.dtype("<f4")
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4}
    assert parse_codec("default", f4) == parse_codec(DEFAULT, f4) == (Codec("blosc", blosc),)
    assert parse_codec("blosc", np.dtype("u1"))[0].config["shuffle"] == "bitshuffle"
    assert parse_codec("blosc:zstd:9:noshuffle", f4) == (
        Codec("blosc", {"cname": "zstd", "clevel": 9, "shuffle": "noshuffle", "typesize": 4}),
    )
    assert parse_codec("zstd:7:true") == (Codec("zstd", {"level": 7, "checksum": True}),)
    assert parse_codec("zstd:-3")[0].config["level"] == -3
    assert parse_codec("gzip") == (Codec("gzip"),)
    assert parse_codec("shuffle+zlib:1", f4) == (Codec("shuffle", {"elementsize": 4}), Codec("zlib", {"level": 1}))
    assert parse_codec("none") == parse_codec(None) == parse_codec([]) == ()
    assert parse_codec({"id": "zlib", "level": 4}) == (Codec("zlib", {"level": 4}),)
    assert parse_codec([{"name": "gzip", "configuration": {"level": 2}}, "crc32c"]) == (
        Codec("gzip", {"level": 2}),
        Codec("crc32c"),
    )
    assert parse_codec(Codec("delta", {"dtype": "<f4"})) == (Codec("delta", {"dtype": "<f4"}),)


@pytest.mark.parametrize(
    "word", ["blosc:lz4:5", "zstd", "gzip:9", "zlib", "bz2", "lzma:1", "lz4", "crc32c", "shuffle+zlib"]
)
@pytest.mark.parametrize("dtype", ["<f4", "|u1", "|S3", "<c16"])
def test_every_word_makes_a_chain(word: str, dtype: str) -> None:
    made = chain(dtype, (7,), "bytes", *parse_codec(word, np.dtype(dtype)))
    block = np.arange(7).astype(dtype)
    assert made.decode(made.encode(block)).tobytes() == block.tobytes()


@pytest.mark.parametrize(
    "word", ["lz5", "blosc:lz4:5:shuffle:9", "pickle", "delta", 7, {"level": 1}, {"id": "nothing"}, "a:b"]
)
def test_words_that_mean_nothing(word: Any) -> None:
    with pytest.raises(Invalid):
        parse_codec(word)


@pytest.mark.parametrize("word", ["bytes", "endian", "vlen-utf8"])
def test_a_word_need_not_name_what_formats_add(word: str) -> None:
    with pytest.raises(Invalid, match=f"codec '{word}' is not chosen") as caught:
        parse_codec(f"{word}+zstd:3")
    assert caught.value.remedy == "leave it out: the format adds it"


def test_the_message_lists_what_exists() -> None:
    with pytest.raises(Invalid, match="did you mean 'zstd'"):
        parse_codec("zst:5")
    with pytest.raises(Invalid) as caught:
        parse_codec("brotli")
    assert all(f"{name}" in str(caught.value) for name in ("blosc:cname:clevel:shuffle", "zstd:level", "delta", "none"))
    assert "reference_pickle" not in str(caught.value)  # which no format would take


def test_codecs_from_json() -> None:
    codecs = as_codecs(
        ["bytes", {"name": "gzip"}, {"name": "zstd", "configuration": {"level": 1}, "must_understand": True}]
    )
    assert codecs == (Codec("bytes"), Codec("gzip"), Codec("zstd", {"level": 1}))
    assert isinstance(build_chain(codecs, ChunkLayout(np.dtype("<i4"), (2,))), Chain)


def test_a_corrupt_chunk_says_what_was_expected() -> None:
    with pytest.raises(CorruptChunk, match="expected 2400 bytes, found 10"):
        chain("<i4", (20, 30), LITTLE).decode(bytes(10))
