"""Chosen chunk and shard sizes keep to their bounds for any shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.auto import (
    CHUNK_BYTES,
    LEAST_CHUNKS_OF_SHARD,
    MANY_CHUNKS,
    MEBIBYTE,
    MOST_CHUNKS_OF_SHARD,
    SHARD_BYTES,
    SMALL_CHUNK_BYTES,
    SMALL_SHARD_BYTES,
    auto_chunks,
    auto_shards,
    parse_shards,
    shards_of_many,
)
from hyperslab.errors import Invalid

shapes = st.lists(st.integers(0, 10**6), max_size=5).map(tuple)
items = st.integers(0, 64)


@given(shapes, items)
def test_chunks_fit_and_are_not_needlessly_small(shape: tuple[int, ...], item: int) -> None:
    chunks = auto_chunks(shape, item)
    assert len(chunks) == len(shape)
    assert all(chunk >= 1 for chunk in chunks)
    assert all(chunk <= length for chunk, length in zip(chunks, shape, strict=True) if length)
    nbytes = prod(chunks) * max(item, 1)
    assert nbytes <= CHUNK_BYTES
    if 0 not in shape and prod(shape) * max(item, 1) > CHUNK_BYTES:
        assert nbytes >= MEBIBYTE


def test_a_small_array_is_one_chunk() -> None:
    assert auto_chunks((240, 37, 49), 4) == (240, 37, 49)


def test_a_growing_axis_is_given_room() -> None:
    assert auto_chunks((0, 73, 144), 4) == (24, 73, 144)
    assert auto_chunks((), 8) == ()


@given(shapes, items)
def test_shards_are_whole_numbers_of_chunks(shape: tuple[int, ...], item: int) -> None:
    chunks = auto_chunks(shape, item)
    shards = auto_shards(shape, chunks, item)
    assert all(shard % chunk == 0 for shard, chunk in zip(shards, chunks, strict=True))
    assert prod(shards) * max(item, 1) <= max(SHARD_BYTES, prod(chunks) * max(item, 1))
    lengths = zip(shards, chunks, shape, strict=True)
    assert all(shard < length + chunk or shard == chunk for shard, chunk, length in lengths)


def test_a_shard_is_no_longer_than_the_array() -> None:
    assert auto_shards((130,), (30,), 4) == (150,)
    assert auto_shards((130, 7), (30, 7), 4) == (150, 7)


def test_a_large_array_is_sharded() -> None:
    chunks = auto_chunks((8760, 361, 720), 4)
    shards = auto_shards((8760, 361, 720), chunks, 4)
    assert 4 * MEBIBYTE < prod(shards) * 4 <= SHARD_BYTES


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 100), st.booleans()), min_size=1, max_size=4), items)
def test_shards_of_many_small_chunks(axes: list[tuple[int, int, bool]], item: int) -> None:
    shape, chunks, grows = zip(*axes, strict=True)
    growing = [axis for axis, does in enumerate(grows) if does]
    counts = [-(-length // cut) for length, cut in zip(shape, chunks, strict=True)]
    nbytes = prod(chunks) * max(item, 1)
    shards = shards_of_many(shape, chunks, item, growing)
    if prod(counts) <= MANY_CHUNKS or nbytes >= SMALL_CHUNK_BYTES:
        assert shards is None
    if shards is None:
        return
    members = [shard // cut for shard, cut in zip(shards, chunks, strict=True)]
    assert all(shard == many * cut for shard, many, cut in zip(shards, members, chunks, strict=True))
    assert all(many <= count for many, count in zip(members, counts, strict=True))
    assert all(members[axis] == 1 for axis in growing)
    assert LEAST_CHUNKS_OF_SHARD <= prod(members) <= MOST_CHUNKS_OF_SHARD
    assert prod(shards) * max(item, 1) <= SMALL_SHARD_BYTES


def test_many_small_chunks_become_few_files() -> None:
    assert shards_of_many((8192, 8192), (128, 128), 4) == (256, 8192)
    assert shards_of_many((1460, 361, 720), (1, 73, 144), 4) == (7, 365, 720)
    assert shards_of_many((1460, 361, 720), (1, 73, 144), 4, growing=[0]) == (1, 365, 720)
    assert shards_of_many((9, 2000), (1, 1000), 8) is None
    assert shards_of_many((10**6,), (100,), 8) == (333_400,)
    assert shards_of_many((10**6,), (100,), 8, growing=[0]) is None
    assert shards_of_many((8192, 8192), (1024, 1024), 4) is None


@pytest.mark.parametrize(
    ("shards", "meant"),
    [
        (None, None),
        (False, False),
        ("none", False),
        ("auto", "auto"),
        ("many", "many"),
        (4, 4),
        (-1, -1),
        (np.int64(4), 4),
        (np.array(4), 4),
        ([4, None], (4, None)),
        (np.array([4, -1]), (4, -1)),
        (range(4, 6), (4, 5)),
        ({"x": np.int32(4), "y": -1}, {"x": 4, "y": -1}),
        ({}, {}),
    ],
)
def test_what_is_said_of_shards(shards: Any, meant: object) -> None:
    found = parse_shards(shards)
    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize(
    "wrong",
    ["foo", "", b"auto", True, np.True_, 0, -2, 1.5, (4, 0), [True], ((4, 4),), {"x": 0}, {"x": "auto"}, object, [[4]]],
)
def test_anything_else_is_told_all_that_is_possible(wrong: Any) -> None:
    for what in (wrong, np.array(wrong)) if isinstance(wrong, tuple | list) else (wrong,):
        with pytest.raises(
            Invalid, match=r"--shards=.*; give False or 'none', 'auto', 'many' \(.*\), or lengths: one, "
        ):
            parse_shards(what, "--shards")


def test_lengths_that_a_caller_does_not_take() -> None:
    for lengths in (4, (4, 4), np.array([4, 4])):
        with pytest.raises(Invalid, match=r"'many' \(.*\), or lengths by dimension, such as"):
            parse_shards(lengths, lengths="by dimension")
