"""A power cut after any call of a durable write over several tiles, on a model of the medium."""

from __future__ import annotations

from pathlib import Path

from programs import ran

CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from hyperslab.stores.directory import DirectoryStore
from power import Medium
from tiled import aside, made, opened

PLACE, COPY = os.path.join(sys.argv[2], "x"), os.path.join(sys.argv[2], "copy")
OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)


def whole(array):
    array[...] = -OLD


def cleared(array):
    array[:, :6] = 0


def one(array):
    array[0, 7] = 99


changes = {"whole": whole, "cleared": cleared}[sys.argv[3]]
made(DirectoryStore(PLACE))[...] = OLD
new, last = OLD.copy(), OLD.copy()
changes(new)
changes(last)
one(last)
medium, stage, seen = Medium(PLACE, COPY), 0, set()


def check():
    allowed = {0: (OLD, new), 1: (new,), 2: (new, last), 3: (last,)}[stage]
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        store = DirectoryStore(COPY)
        found = opened(store)[...]
        which = [number for number, cells in enumerate(allowed) if (found == cells).all()]
        assert which, (stage, flushed_alone, found, sorted(store.list()))
        seen.add((stage, flushed_alone, which[0]))
        array = opened(store, lock_timeout=1.0, workers=1)
        array[4:, :] = 5
        assert (opened(store)[4:] == 5).all() and not aside(store)
        assert (opened(store)[:4] == found[:4]).all()


medium.watch(check)
array = opened(DirectoryStore(PLACE), workers=1, durable=True)
for change in (changes, one):
    change(array)
    stage += 1
    medium.look(check)
    stage += 1
assert {(0, True, 0), (0, True, 1), (0, False, 0), (0, False, 1)} <= seen, seen
print(len(seen))
"""


def test_a_power_cut_after_any_call(tmp_path: Path) -> None:
    """Old or new at any time; what was acknowledged is there, also when one of the tiles is written again."""
    tests = str(Path(__file__).parents[1])
    for change in ("whole", "cleared"):
        (tmp_path / change).mkdir()
        child = ran(CHILD, tests, tmp_path / change, change)
        assert child.returncode == 0, child.stderr[-3000:]
