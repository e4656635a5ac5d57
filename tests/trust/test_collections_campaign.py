"""Eight processes create, update, read, query and delete in one collection; many race for one key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_schemas import client, key, made, opened

from programs import ran

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")

HERE = Path(__file__).parent

LAYOUTS = ("hyperslab", "deker")
FLAVOURS = ("array", "varray")


def told(*arguments: Any) -> Any:
    """What the processes say that work as they are told."""
    done = ran(HERE / "collection_workers.py", *arguments)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("racers", [12, pytest.param(100, marks=pytest.mark.soak)])
def test_one_of_many_wins(tmp_path: Path, layout: str, racers: int) -> None:
    """Each key has one array, that of the process which was told so."""
    url, keys = str(tmp_path), 4
    made(url, layout, "array")
    won = [(slot, id) for each in told(url, racers, keys) for slot, id in each]
    assert sorted(slot for slot, _ in won) == list(range(keys))
    found = {array.primary_attributes["slot"]: array.id for array in opened(url)}
    assert {slot: id for slot, id in found.items() if slot >= 0} == dict(won)
    assert client(url).check_integrity(4, stop_on_error=False) == []


@pytest.mark.sampled(0)
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.soak)])
def test_eight_at_work(tmp_path: Path, layout: str, flavour: str, seconds: int) -> None:
    """No cell, attribute or array is lost, no key has two arrays, nobody meets an error that is none."""
    url, witnesses = str(tmp_path / "store"), tmp_path / "witnesses"
    witnesses.mkdir()
    made(url, layout, flavour)
    said = told(url, layout, flavour, seconds, witnesses)
    print([each["done"] for each in said])
    found = opened(url, mode="r")
    wanted = {int(slot): saved for each in said for slot, saved in each["mine"].items()}
    assert {array.primary_attributes["slot"]: array.id for array in found if array.primary_attributes["slot"] >= 0} == {
        slot: id for slot, (id, _, _) in wanted.items()
    }
    assert len(found) == len(wanted) + 1
    for slot, (id, value, note) in wanted.items():
        array = found.get(**key(slot))
        assert array is not None
        assert (array.id, array.custom_attributes["note"]) == (id, note)
        assert (array[:].read() == value).all()
    common = found.get(slot=-1, station="all")
    assert common is not None
    cells = np.full((8, 16), -1)
    for each in said:
        for place, value in each["cells"].items():
            cells[tuple(map(int, place.split(",")))] = value
    np.testing.assert_array_equal(common[:].read(), cells)
    for number, each in enumerate(said):
        assert common.custom_attributes[f"w{number}"] == (each["counter"] or None)
    assert client(url, mode="r").check_integrity(4, stop_on_error=False) == []
