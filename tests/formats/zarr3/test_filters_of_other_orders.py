"""Filters of numcodecs that zarr-python writes for big-endian cells: the cells are the same by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec
from zarr.codecs.numcodecs import AsType, FixedScaleOffset

import hyperslab as hs

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3:UserWarning")
CELLS = np.arange(1.0, 9.0)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("stored", ["<", ">"])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (AsType, lambda own, other: {"encode_dtype": f"{other}f4", "decode_dtype": f"{own}f8"}),
        (FixedScaleOffset, lambda own, other: {"offset": 0, "scale": 2, "dtype": f"{own}f8", "astype": f"{other}i2"}),
    ],
)
def test_cells_that_zarr_python_wrote(tmp_path: Path, kind: Any, config: Any, order: str, stored: str) -> None:
    wrote = zarr.create_array(
        tmp_path / "x.zarr",
        shape=(8,),
        chunks=(4,),
        dtype=f"{order}f8",
        filters=[kind(**config(order, stored))],
        serializer=BytesCodec(endian="little" if stored == "<" else "big"),
        compressors=None,
        fill_value=0,
    )
    wrote[:] = CELLS
    if not np.array_equal(wrote[:], CELLS):  # numcodecs with NumPy 2.5
        pytest.skip("zarr-python does not read what it wrote itself")
    raw = (tmp_path / "x.zarr/c/0").read_bytes()
    found: Any = hs.open(tmp_path / "x.zarr", "r+")
    np.testing.assert_array_equal(found[...], CELLS)
    found[...] = CELLS
    assert (tmp_path / "x.zarr/c/0").read_bytes() == raw
