"""Four processes write one dataset: single cells, whole chunks, attributes, appends. Nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from programs import side_by_side

CELLS = """
import sys
import numpy as np
import hyperslab as hs
url, worker, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
root = hs.open(url, "r+", durable=False)
cells, blocks, log = root["cells"], root["blocks"], root["log"]
for i in range(rounds):
    cells[worker + 4 * i] = 1000 * (worker + 1) + i      # the four interleave within every chunk
    if worker % 2:
        blocks[8 * (i % 8) : 8 * (i % 8) + 8] = np.full(8, i)
    else:
        blocks[8 * (i % 8) + worker] = i
    root.attrs[f"w{worker}_{i}"] = i
    if i % 4 == 0:
        log.append(np.array([[worker, i]]))
print("done")
"""

ROUNDS = 40


@pytest.mark.parametrize(("name", "shards"), [("zarr2", None), ("zarr3", None), ("zarr3", (32,))])
def test_nothing_acknowledged_is_lost(tmp_path: Path, name: str, shards: tuple[int] | None) -> None:
    url = str(tmp_path / "shared.zarr")
    root = hs.create(url, name, durable=False)
    root.create_array("cells", (4 * ROUNDS,), "i4", chunks=(16,), shards=shards, fill_value=-1)
    root.create_array("blocks", (64,), "i4", chunks=(8,), fill_value=-1)
    root.create_array("log", (0, 2), "i4", chunks=(8, 2), dims=("event", "pair"))
    root.close()
    with side_by_side(CELLS, *((url, worker, ROUNDS) for worker in range(4))) as writers:
        for writer in writers:
            out, err = writer.communicate()
            assert out == "done\n", err
    root = hs.open(url)
    expected = np.array([1000 * (i % 4 + 1) + i // 4 for i in range(4 * ROUNDS)])
    np.testing.assert_array_equal(root["cells"][...], expected)
    blocks = root["blocks"][...].reshape(8, 8)
    for number, block in enumerate(blocks):
        assert len(set(block[[1, 3, 4, 5, 6, 7]])) == 1, "only whole blocks were written here"
        assert all(value % 8 == number and 0 <= value < ROUNDS for value in block.tolist())
    assert len(root.attrs) == 4 * ROUNDS
    assert all(root.attrs[f"w{worker}_{i}"] == i for worker in range(4) for i in range(ROUNDS))
    events = sorted(map(tuple, root["log"][...].tolist()))
    assert events == sorted((worker, i) for worker in range(4) for i in range(0, ROUNDS, 4))
