"""Chains are compiled once for the arrays that have the same: what is not the same is never taken for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.codecs import registry
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import Codec

FLOATS = ChunkLayout(np.dtype("<f8"), (4,), np.float64(0))


def test_equal_codecs_of_equal_cells_share_a_chain() -> None:
    def built() -> Any:
        return build_chain([Codec("bytes"), Codec("zstd", {"level": 3})], ChunkLayout(np.dtype("<f8"), (4,)))

    assert built() is built()


@pytest.mark.parametrize(
    "other",
    [
        ChunkLayout(np.dtype(">f8"), (4,), np.float64(0)),
        ChunkLayout(np.dtype("<i8"), (4,), np.int64(0)),
        ChunkLayout(np.dtype("<f8"), (2, 2), np.float64(0)),
        ChunkLayout(np.dtype("<f8"), (4,), np.float64(-0.0)),
        ChunkLayout(np.dtype("<f8"), (4,), None),
        ChunkLayout(np.dtype("<f8"), (4,), np.float32(0)),
    ],
)
def test_other_cells_have_a_chain_of_their_own(other: ChunkLayout) -> None:
    codecs = [Codec("bytes"), Codec("zlib", {"level": 1})]
    assert build_chain(codecs, FLOATS) is not build_chain(codecs, other)


def test_values_that_compare_equal_are_told_apart() -> None:
    """1 is a level of zlib and true is none, whatever was built before."""
    keys = {registry._chain_key([Codec("zlib", {"level": level})], FLOATS) for level in (1, True, 1.0, "1")}
    assert len(keys) == 4
    build_chain([Codec("zlib", {"level": 1})], FLOATS)
    with pytest.raises(Invalid):
        build_chain([Codec("zlib", {"level": True})], FLOATS)


def test_configurations_with_arrays_and_cells_of_any_length_are_built_anew() -> None:
    long = {"labels": ["x" * 5000]}
    assert registry._chain_key([Codec("categorize", {"labels": np.arange(5000)})], FLOATS) is None
    assert registry._chain_key([Codec("categorize", long)], FLOATS) is None
    assert registry._chain_key([Codec("vlen-utf8")], ChunkLayout(VlenString(), (4,), "")) is None


def test_a_bounded_number_is_remembered() -> None:
    for length in range(1, 266):
        build_chain([Codec("bytes")], ChunkLayout(np.dtype("<i2"), (length,)))
    assert len(registry._assemble_once._results) <= 256
