"""Chosen chunk and shard sizes keep to their bounds for any shape."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.auto import CHUNK_BYTES, MEBIBYTE, SHARD_BYTES, auto_chunks, auto_shards

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
