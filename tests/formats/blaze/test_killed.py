"""A writer that is killed leaves whole chunks, old or new, and a directory that the next one goes on with."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
from spec_reader import read

import hyperslab as hs
from programs import side_by_side

_KILLS = 12


@pytest.mark.sampled(20)
@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_killed_writers(tmp_path: Path, layout: str) -> None:
    place = tmp_path / "a.blaze"
    options = {"superchunk": 4} if layout == "blaze" else {}
    with hs.create(place, layout=layout, **options) as root:
        root.create_array("data", data=np.zeros((640, 2), "i4"), chunks=(10, 2))
    chance = random.Random(7)
    for seed in range(_KILLS):
        with side_by_side(Path(__file__).with_name("killed.py"), (place, seed)) as (writer,):
            assert writer.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.1))
            assert writer.poll() is None
        cells = hs.open_array(place)[...]
        chunks = cells.reshape(-1, 10, 2)
        assert (chunks == chunks[:, :1, :1]).all()
        harmless = {"missing-superchunk", "short-superchunk", "temporary"}
        assert {problem.kind for problem in hs.check(place, deep=True)} <= harmless
    with hs.open_group(place, "r+") as root:
        root["data"].append(np.full((5, 2), -1))
    assert all(mend.done for mend in hs.repair(place, dry_run=False))
    assert not hs.check(place, deep=True)
    found = hs.open_array(place)[...]
    np.testing.assert_array_equal(found[: len(cells)], cells)
    np.testing.assert_array_equal(found[len(cells) :], np.full((5, 2), -1))
    np.testing.assert_array_equal(read(place), found)
