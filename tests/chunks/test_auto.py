"""Chosen chunk and shard sizes keep to their bounds for any shape."""

from __future__ import annotations

from math import prod

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
    shards_of_many,
)

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
