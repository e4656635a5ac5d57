"""Other processes: writers killed before each system call that changes a file, and races of writers with readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiled import made, opened

from hyperslab.stores.directory import DirectoryStore
from programs import Program

TESTS = str(Path(__file__).parents[1])

KILLED = """
import json, os, shutil, sys
import numpy as np
sys.path[:0] = sys.argv[1], os.path.join(sys.argv[1], "..")
from dying import killed_at
from hyperslab.formats.collections.own.tile_transaction import parse_journal
from hyperslab.stores.directory import DirectoryStore
from tiled import JOURNAL, aside, made, opened

folder, durable, step = sys.argv[2], sys.argv[3] == "durable", int(sys.argv[4])
SOUND, PLACE = os.path.join(folder, "sound"), os.path.join(folder, "x")
OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)


def whole(array):
    array[:8] = -OLD


def middle(array):
    array[2:6, 2:6] = -OLD[2:6, 2:6]


def cleared(array):
    array[:8, :6] = 0


def grown(array):
    array.append(OLD)


def writer():
    return opened(DirectoryStore(PLACE), workers=1, durable=durable)


made(DirectoryStore(SOUND))[...] = OLD
report = {}
for change in (whole, cleared) if durable else (whole, middle, cleared, grown):
    new = OLD.copy()
    if change is not grown:
        change(new)
    number, died, outcomes = 1, True, set()
    while died:
        shutil.rmtree(PLACE, ignore_errors=True)
        shutil.copytree(SOUND, PLACE)
        died = killed_at(number, writer, change, "fsync")
        found = opened(DirectoryStore(PLACE, read_only=True))[...]
        try:
            if change is grown:
                outcomes.add(len(found) == 16)
                assert (found == np.tile(OLD, (len(found) // 8, 1))).all(), found
            else:
                outcomes.add(bool((found == new).all()))
                assert (found == new).all() or (found == OLD).all(), found
                for cell in ((0, 0), (3, 5), (7, 7)):
                    assert opened(DirectoryStore(PLACE))[cell] == found[cell]
            assert died or True in outcomes
            store = DirectoryStore(PLACE)
            array = opened(store, lock_timeout=1.0, durable=durable)
            if number % 2:
                array[0, 7], found[0, 7] = 99, 99
                assert (opened(store)[...] == found).all()
            array[:8] = 5
            assert (opened(store)[:8] == 5).all()
            assert not parse_journal(store.get(JOURNAL), JOURNAL).pending
            assert aside(store) == []
            assert not store.strays("staged/x")
        except BaseException:
            print(f"{change.__name__}, killed at call {number}", file=sys.stderr)
            raise
        number += step
    assert outcomes == {False, True}
    report[change.__name__] = number - 2
print(json.dumps(report))
"""

WRITER = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from hyperslab.stores.directory import DirectoryStore
from tiled import opened

array, number, rounds = opened(DirectoryStore(sys.argv[2])), int(sys.argv[3]), 0
while not os.path.exists(sys.argv[4]):
    rounds += 1
    value = 10 * rounds + number
    if number == 3:
        array[7, 7] = value  # a tile alone
    elif number == 2:
        array[2:6, 0:2] = value  # two of the tiles that the others write
    else:
        array[:7, 2:] = value
print(rounds)
"""

READER = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
from hyperslab.stores.directory import DirectoryStore
from tiled import opened

array, rounds, seen = opened(DirectoryStore(sys.argv[2], read_only=True)), 0, set()
stop = time.monotonic() + 60
while len(seen) < 12 and time.monotonic() < stop:
    cells = array[...]
    for part in (cells[:7, 2:], cells[2:6, 0:2]):
        assert (part == part[0, 0]).all(), cells
    assert cells[7, 7] % 10 in (0, 3) and cells[2, 0] % 10 in (0, 2) and cells[0, 2] % 10 in (0, 1, 4), cells
    rounds += 1
    seen.add(int(cells[0, 2]))
print(len(seen))
"""


def run(code: str, *arguments: Any) -> Program:
    return Program(code, TESTS, *arguments)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the children are forked")
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("durable", ["durable", "not durable"])
def test_each_call_may_be_the_last(tmp_path: Path, durable: str, step: int) -> None:
    """Old or new for whoever reads, a writer waits for nobody, and its write leaves nothing aside."""
    child = run(KILLED, tmp_path, durable, step)
    out, errors = child.communicate()
    assert child.wait() == 0, errors[-3000:]
    points = json.loads(out)
    print(points)
    assert all(count > 20 for count in points.values()), points


def test_a_race(tmp_path: Path) -> None:
    """Two writers of four tiles, one of two of them and one of another one, while two readers see a dozen states."""
    place, stop = tmp_path / "x", tmp_path / "stop"
    made(DirectoryStore(place))[...] = np.zeros((8, 8), "i4")
    writers = [run(WRITER, place, number, stop) for number in (1, 2, 3, 4)]
    readers = [run(READER, place) for _ in range(2)]
    try:
        told = [reader.communicate() for reader in readers]
    finally:
        stop.touch()
    told += [writer.communicate() for writer in writers]
    for process, (_, errors) in zip((*readers, *writers), told, strict=True):
        assert process.wait() == 0, errors[-3000:]
    assert [int(out) for out, _ in told[:2]] == [12, 12]
    cells = opened(DirectoryStore(place))[...]
    assert (cells[:7, 2:] == cells[0, 2]).all()
