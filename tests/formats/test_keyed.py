"""Chunks under keys: how large one may be before it is read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk


@pytest.mark.parametrize("chunks", [4, ((4, 6),)], ids=["fixed", "varying"])
@pytest.mark.parametrize("key", [slice(None), slice(0, 4), 1])
def test_a_chunk_far_too_long_is_not_read(tmp_path: Path, chunks: object, key: object) -> None:
    root = hs.create(tmp_path / "a.zarr", "zarr3")
    root.create_array("x", data=np.arange(10.0), chunks=chunks)
    os.truncate(tmp_path / "a.zarr/x/c/0", 1 << 40)
    with pytest.raises(CorruptChunk, match="x/c/0"):
        hs.open(tmp_path / "a.zarr")["x"][key]
