"""xarray may be imported before hyperslab, after it, or by hyperslab alone: each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

ORDERS = {
    "by hyperslab": "import hyperslab as hs",
    "before": "import xarray; import hyperslab as hs",
    "after": "import hyperslab as hs; import xarray",
    "the engine": "import hyperslab.bridges.xarray.engine; import hyperslab as hs",
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_bridge_and_the_accessor_are_there(tmp_path: Path, order: str) -> None:
    path = tmp_path / "a.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(3), dims=("x",))
    program = (
        f"{ORDERS[order]}\nds = hs.open({str(path)!r}).to_xarray()\nds.hyperslab.save({str(tmp_path / 'b.zarr')!r})"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert hs.open(tmp_path / "b.zarr")["a"][...].tolist() == [0, 1, 2]
