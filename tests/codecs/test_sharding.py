"""Shards: whole ones and their index."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from chains import LITTLE, chain, strings
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.codecs.registry import shard_index
from hyperslab.codecs.sharding import MISSING
from hyperslab.errors import CorruptChunk, FormatError, Invalid
from hyperslab.model.dtypes import VlenBytes, VlenString
from hyperslab.model.spec import Codec

pytestmark = pytest.mark.usefixtures("decoder")

INDEX = (Codec(*LITTLE), Codec("crc32c"))


def sharded(
    dtype: Any, shape: tuple[int, ...], inner: tuple[int, ...], *codecs: Any, fill: Any = 0, **more: Any
) -> Any:
    config = {"chunk_shape": list(inner), "codecs": list(codecs)} | more
    return chain(dtype, shape, ("sharding_indexed", config), fill=fill)


@given(counts=st.lists(st.integers(1, 3), max_size=3), place=st.sampled_from(["start", "end"]), seed=st.integers(0, 99))
def test_inner_chunks_of_fill_are_left_out(counts: list[int], place: str, seed: int) -> None:
    inner = tuple(range(2, 2 + len(counts)))
    shape = tuple(a * b for a, b in zip(counts, inner, strict=True))
    rng = np.random.default_rng(seed)
    block = np.where(rng.random(shape) < 0.05, rng.integers(1, 9, shape), 0).astype("<i2")
    made = sharded("<i2", shape, inner, "bytes", "gzip", index_location=place)
    data = made.encode(block)
    assert made.decode(data).tolist() == block.tolist()
    entries = shard_index(tuple(counts), INDEX, place).find(data)
    for at in np.ndindex(*counts):
        part = block[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, inner, strict=True))]
        assert (int(entries[at][0]) == MISSING) == (not part.any())


def test_fill_values_are_told_by_their_bits() -> None:
    block = np.array([np.nan, np.nan, -0.0, -0.0, 0.0, 0.0])
    for fill, missing in ((np.nan, 0), (-0.0, 1), (0.0, 2)):
        made = sharded("<f8", (6,), (2,), "bytes", fill=fill)
        data = made.encode(block)
        assert made.decode(data).tobytes() == block.tobytes()
        entries = shard_index((3,), INDEX, "end").find(data)
        assert [int(offset) == MISSING for offset in entries[:, 0]] == [i == missing for i in range(3)]


def test_without_a_fill_value_nothing_is_left_out() -> None:
    data = sharded("<f8", (6,), (2,), "bytes", fill=None).encode(np.zeros(6))
    assert len(data) == 48 + 3 * 16 + 4


def test_nested_strings_and_transposed() -> None:
    deep = {"chunk_shape": [1, 2], "codecs": ["vlen-utf8", "zstd"]}
    made = sharded(VlenString(), (4, 4), (2, 4), Codec("sharding_indexed", deep), fill="")
    block = strings(*("é" * (n % 3) for n in range(16))).reshape(4, 4)
    assert made.decode(made.encode(block)).tolist() == block.tolist()
    across = sharded("<i4", (4, 6), (2, 6), {"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes")
    cells = np.arange(24, dtype="<i4").reshape(4, 6)
    out = np.empty((4, 6), "<i4")
    across.decode_into(across.encode(cells), out)
    assert out.tolist() == cells.tolist()


@pytest.mark.parametrize("place", ["start", "end"])
def test_what_is_joined_is_found_again(place: str) -> None:
    """In memory of the caller, which may be longer, and byte for byte what the codec makes of the cells."""
    index = shard_index((2, 2), INDEX, place)
    parts = [b"ab", None, memoryview(b"cde"), b""]
    held = bytearray(500)
    shard = index.join(parts, lambda size: memoryview(held))
    assert len(shard) == index.nbytes + 5
    entries = index.find(shard).reshape(-1, 2).tolist()
    found = [None if start == MISSING else bytes(shard[start : start + size]) for start, size in entries]
    assert found == [b"ab", None, b"cde", b""]
    assert bytes(index.join(parts)) == bytes(shard) == bytes(held[: len(shard)])
    block = np.array([[1, 0], [2, 3]], "u1")
    made = sharded("u1", (2, 2), (1, 1), "bytes", index_location=place).encode(block)
    assert bytes(made) == bytes(index.join([b"\1", None, b"\2", b"\3"]))


def test_unsound_entries_are_told_one_by_one() -> None:
    index = shard_index((5,), INDEX, "end", most=8)
    entries = index.empty()
    entries[1:] = (0, 8), (0, 9), (8, 9), (2**63, 2**63)
    assert index.unsound(entries, 16 + index.nbytes).tolist() == [False, False, True, True, True]
    entries[3:] = MISSING
    shard = bytes(16) + bytes(index.render(entries))
    with pytest.raises(CorruptChunk, match=r"inner chunk \(2,\) is too long for its cells.*at most 8 bytes"):
        index.find(shard)


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize(
    "entry", [(0, 2**63), (2**63, 2**63), (200, 1), (MISSING, 3), (3, MISSING), (0, 65), (90, 30)], ids=str
)
def test_ranges_outside_the_shard(entry: tuple[int, int], place: str) -> None:
    index = shard_index((4,), INDEX, place)
    entries = index.empty()
    entries[2] = entry
    stored = bytes(index.render(entries))
    assert len(stored) == index.nbytes == 68
    shard = stored + bytes(32) if place == "start" else bytes(32) + stored
    with pytest.raises(CorruptChunk, match="inner chunk"):
        index.find(shard)
    assert index.parse(stored).tolist() == entries.tolist()


def test_an_index_longer_than_the_shard_is_refused_before_it_is_made() -> None:
    made = sharded("u1", (1 << 20, 1 << 10), (1, 1), "bytes")
    with pytest.raises(CorruptChunk, match="shorter than its index"):
        made.decode(bytes(100))


@pytest.mark.parametrize(
    "config",
    [
        {"chunk_shape": [3, 3]},
        {"chunk_shape": [2]},
        {"chunk_shape": [0, 3]},
        {"chunk_shape": "2,3"},
        {"chunk_shape": [2, 3], "codecs": "bytes"},
        {"chunk_shape": [2, 3], "codecs": [{"configuration": {}}]},
        {"chunk_shape": [2, 3], "codecs": ["bytes"], "other": 1},
    ],
)
def test_configurations_that_make_no_sense(config: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        chain("u1", (4, 6), ("sharding_indexed", config))


def test_index_codecs_without_a_fixed_size() -> None:
    with pytest.raises(FormatError, match="fixed size"):
        sharded("u1", (4,), (2,), "bytes", index_codecs=["bytes", "zstd"])
    with pytest.raises(FormatError, match="middle"):
        sharded("u1", (4,), (2,), "bytes", index_location="middle")


def test_shards_within_shards_without_end() -> None:
    config: dict[str, Any] = {"chunk_shape": [1], "codecs": ["bytes"]}
    for _ in range(30):
        config = {"chunk_shape": [1], "codecs": [Codec("sharding_indexed", config)]}
    with pytest.raises(Invalid, match="deep"):
        chain("u1", (1,), ("sharding_indexed", config))


@given(
    counts=st.lists(st.integers(1, 5), max_size=3),
    place=st.sampled_from(["start", "end"]),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=1),
    most=st.none() | st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_short_indexes_are_read_as_any_other(
    counts: list[int], place: str, flips: list[tuple[int, int]], most: int | None, seed: int
) -> None:
    """Numbers in any order, damage anywhere: the same parts, or the same error, as of the entries of ``find``."""
    index = shard_index(tuple(counts), INDEX, place, most)
    rng = np.random.default_rng(seed)
    parts = [None if rng.random() < 0.3 else rng.bytes(int(rng.integers(0, 9))) for _ in range(index.size)]
    shard = bytearray(index.join(parts))
    for at, bits in flips:
        shard[at % len(shard)] ^= bits
    if seed % 7 == 0:
        del shard[: seed + 1]
    if seed % 5 == 0:  # entries that make no sense under a digest that is right
        entries = index.empty()
        entries[(0,) * len(counts)] = rng.integers(0, len(shard) + 9, 2)
        where = slice(0, index.nbytes) if place == "start" else slice(max(0, len(shard) - index.nbytes), None)
        shard[where] = index.render(entries)
    numbers = rng.permutation(index.size).tolist()
    try:
        entries = index.find(shard).reshape(-1, 2)
    except CorruptChunk as error:
        with pytest.raises(CorruptChunk, match=re.escape(error.message)):
            index.cut(shard, numbers)
        return
    found = [None if part is None else bytes(part) for part in index.cut(shard, numbers)]
    spans = [(int(start), int(start) + int(length)) for start, length in entries[numbers]]
    assert found == [None if start == MISSING else bytes(shard[start:stop]) for start, stop in spans]


@pytest.mark.parametrize(
    ("dtype", "codec", "cell"), [(VlenBytes(), "vlen-bytes", b""), (VlenString(), "vlen-utf8", "")]
)
def test_inner_chunks_never_written_are_empty(dtype: Any, codec: str, cell: Any) -> None:
    empty = bytes(shard_index((2,), INDEX, "end").join([None, None]))
    assert sharded(dtype, (4,), (2,), codec, fill=None).decode(empty).tolist() == [cell] * 4
