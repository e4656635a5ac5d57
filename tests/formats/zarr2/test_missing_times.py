"""Times without a fill value: what was never written is no time, as in zarr-python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import hyperslab as hs


@pytest.mark.parametrize("dtype", ["<M8[ns]", ">M8[s]", "<m8[D]"])
def test_a_null_fill_of_times_is_nat(tmp_path: Path, dtype: str) -> None:
    wrote = zarr.create_array(tmp_path / "x.zarr", shape=(8,), chunks=(4,), dtype=dtype, zarr_format=2, fill_value=None)
    wrote[:4] = np.arange(4).astype(dtype)
    before = json.loads((tmp_path / "x.zarr/.zarray").read_text())
    assert before["fill_value"] is None
    found: Any = hs.open(tmp_path / "x.zarr", "r+")
    np.testing.assert_array_equal(found[...], wrote[:])
    assert np.isnat(found.fill_value)
    found.resize((6,))
    assert json.loads((tmp_path / "x.zarr/.zarray").read_text())["fill_value"] is None
    hs.convert(tmp_path / "x.zarr", tmp_path / "y.zarr", "zarr3", verify=True)
    assert np.isnat(hs.open_array(tmp_path / "y.zarr")[4:]).all()
