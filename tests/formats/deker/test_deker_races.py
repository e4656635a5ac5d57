"""Processes that do whatever can be done with the same few arrays meet no error and leave none, killed or not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from deker_arrays import PLAIN, TILED, anything, key_at, kinds, make, new, read, reopen, write

from programs import forking

TURNS = 60
MANY = 1_000_000


@pytest.mark.covering
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("tiled", [False, True])
def test_anything_at_once(tmp_path: Path, tiled: bool, killed: bool) -> None:
    make(tmp_path, TILED if tiled else PLAIN)
    context = forking()
    turns = [TURNS, TURNS, MANY if killed else TURNS]
    processes = [
        context.Process(target=anything, args=(str(tmp_path), "c", seed, n), daemon=True)
        for seed, n in enumerate(turns)
    ]
    for process in processes:
        process.start()
    if killed:
        for process in processes[:2]:
            process.join()
        os.kill(processes[2].pid or 0, signal.SIGKILL)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, -signal.SIGKILL if killed else 0]
    holding = reopen(tmp_path)
    allowed = {"dangling-link", "missing-link", "orphan-tile", "temporary"} if killed else set()
    assert set(kinds(holding, deep=True)) <= allowed
    records = list(holding.records(holding.list_part("")))
    keys = [tuple(record.primary.values()) for record in records]
    assert len(set(keys)) == len(keys)
    for record, key in zip(records, keys, strict=True):
        read(holding, record.id)
        assert holding.id_of(key) == record.id
    for place in range(4):
        wanted = key_at(holding, place)
        id = holding.id_of(tuple(wanted.values())) or new(holding, wanted)
        write(holding, id, 3)
        assert (read(holding, id) == 3).all()
