"""Cells become the bytes of documents: by one copy where they lie apart, and the same bytes whatever their order."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from bson import ObjectId

from hyperslab.formats.mongo.chunk_documents import DerivedIds, make_documents

TYPES = ("<f8", ">f8", "<i2", ">u4", "<c8", ">c16", "|b1", "<M8[s]", ">M8[ns]", "<U3", ">U3", "|S2", "<g", "<G", "<f2")


def stored(cells: Any, chunk_size: int) -> list[bytes]:
    ids = DerivedIds(ObjectId())
    return [doc["data"] for doc in make_documents(ids, ids.meta_id, ("x", (0, 0)), cells, chunk_size)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("chunk_size", (7, 64, 1 << 20))
def test_cells_that_lie_apart_become_the_bytes_of_contiguous_ones(dtype: str, chunk_size: int) -> None:
    whole = np.arange(8 * 12).reshape(8, 12).astype(dtype)
    for apart in (whole[1:5, 2:7], whole.T, whole[::-1, ::3], whole[:0, :5]):
        found = stored(apart, chunk_size)
        assert found == stored(np.array(apart, order="C"), chunk_size)
        assert [len(each) for each in found[:-1]] == [chunk_size] * (len(found) - 1)
        back = np.frombuffer(b"".join(found), np.dtype(dtype).newbyteorder("<")).reshape(apart.shape)
        assert np.array_equal(back, apart)


def test_cells_that_lie_apart_are_copied_once() -> None:
    block = np.zeros((512, 2048))[:, :1024]
    tracemalloc.start()
    try:
        documents = stored(block, block.nbytes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(documents) == 1
    assert block.nbytes < peak < 1.1 * block.nbytes
