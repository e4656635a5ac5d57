"""Chunks under keys: how large one may be before it is read, and which are left out."""

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


@pytest.mark.parametrize(("options", "stored"), [({}, True), ({"fill_value": 0}, False)], ids=["no fill value", "zero"])
@pytest.mark.parametrize("format", ["zarr2", "nczarr"])
def test_zeros_are_stored_where_nothing_says_that_they_fill(
    tmp_path: Path, format: str, options: dict[str, int], stored: bool
) -> None:
    """Readers of Zarr v2 may take anything for a chunk that is missing in an array without a fill value."""
    with hs.create(tmp_path / "a", format) as root:
        root.create_array("x", data=np.zeros(4), chunks=2, **options)
    assert (tmp_path / "a/x/1").exists() == stored
