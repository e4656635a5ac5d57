"""A power cut after any call of a durable removal: what was acknowledged as gone does not come back."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

import pytest

from programs import ran

CHILD = """
import os, sys
import numpy as np
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema, VArraySchema
from power import Medium

PLACE, COPY, LAYOUT = os.path.join(sys.argv[1], "x"), os.path.join(sys.argv[1], "copy"), sys.argv[2]
STEP, calls = int(sys.argv[3]), 0
KEY, X = [AttributeSchema("k", int, True)], [DimensionSchema("x", 4)]
client = Client(PLACE)
arrays = client.create_collection("arrays", ArraySchema(X, int, KEY, -1), layout=LAYOUT)
tiled = client.create_collection("tiled", VArraySchema(X, int, KEY, -1, vgrid=(2,)), layout=LAYOUT)
emptied = client.create_collection("emptied", ArraySchema(X, int, KEY, -1), layout=LAYOUT)
dropped = client.create_collection("dropped", ArraySchema(X, int, KEY, -1), layout=LAYOUT)
MADE = {"arrays": 2, "tiled": 2, "emptied": 1, "dropped": 1}
for collection in (arrays, tiled, emptied, dropped):
    for k in range(MADE[collection.name]):
        collection.create({"k": k})[:].update([1, 2, 3, 4])
medium, gone, cells = Medium(PLACE, COPY), [], {("tiled", 1): [[1, 2, 3, 4]]}


def check():
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        with Client(COPY, mode="r") as copy:
            for name, count in MADE.items():
                collection = copy.get_collection(name)
                if collection is None:
                    assert name == "dropped", name
                    continue
                assert (name,) not in gone, name
                found = {array.primary_attributes["k"]: array for array in collection}
                for k in range(count):
                    assert (k in found) <= ((name, k) not in gone), (name, k, flushed_alone)
                    assert k in found or collection.filter({"k": k}).first() is None
                    if (name, k) in cells:
                        read = found[k][:].read().tolist()
                        assert read in cells[name, k], (name, k, read, flushed_alone)


def check_some():
    global calls
    calls += 1
    if calls % STEP == 0:
        check()


medium.watch(check_some)
tile = tiled.filter({"k": 1}).first()
cells["tiled", 1] = [[1, 2, 3, 4], [-1, -1, 3, 4]]
tile[:2].clear()
cells["tiled", 1] = [[-1, -1, 3, 4]]
medium.look(check)
cells["tiled", 1] += [[-1, -1, -1, -1]]
tile[2:].clear()
cells["tiled", 1] = [[-1, -1, -1, -1]]
medium.look(check)
for collection in (arrays, tiled):
    collection.filter({"k": 0}).first().delete()
    gone.append((collection.name, 0))
    medium.look(check)
emptied.clear()
gone.append(("emptied", 0))
medium.look(check)
dropped.delete()
gone.append(("dropped",))
medium.look(check)
"""


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_an_acknowledged_removal_survives_a_power_cut(layout: str, step: int) -> None:
    """After every call, or every third, and after each removal.

    In memory where that can be: thousands of folders are made, and what a flush does is the model's to say.
    """
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        child = ran(CHILD, folder, layout, step)
    assert child.returncode == 0, child.stderr[-3000:]
