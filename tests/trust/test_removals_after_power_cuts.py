"""A power cut after any call of a durable removal: what was acknowledged as removed does not come back.

``tests/power.py`` is the model of the medium.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from programs import ran

CHILD = """
import os, sys
import numpy as np
import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema, VArraySchema
from power import Medium

PLACE, COPY = os.path.join(sys.argv[1], "x"), os.path.join(sys.argv[1], "copy")
layout, how, every = sys.argv[2], sys.argv[3], sys.argv[4] == "every"
CELLS = np.arange(1, 81, dtype="i4").reshape(40, 2)
TREES = {
    "zarr2": ("zarr2", {}, {}), "zarr3": ("zarr3", {}, {}), "shards": ("zarr3", {}, {"shards": (20, 2)}),
    "consolidated": ("zarr2", {"consolidated": True}, {}),
    "nczarr-current": ("nczarr", {"dialect": "current"}, {}), "nczarr-draft": ("nczarr", {"dialect": "draft"}, {}),
    "hdmf-v2": ("hdmf", {"profile": "v2"}, {}), "hdmf-v3": ("hdmf", {"profile": "v3"}, {}),
    "blaze": ("blaze", {}, {}), "bcolz": ("blaze", {"layout": "bcolz"}, {}),
}


def make_tree():
    form, options, cut = TREES[layout]
    with hs.create(PLACE, form, **options) as root:
        if form != "blaze":
            root.create_group("g").create_array("b", data=CELLS, chunks=(10, 2))
        root.create_array("a", data=CELLS, chunks=(10, 2), fill_value=0, **cut)


def shrink_and_grow(root):
    root["a"].resize((5, 2))
    root["a"].resize((40, 2))


TREE = {
    "array": (lambda root: root.__delitem__("a"), lambda root: "a" in root),
    "group": (lambda root: root.__delitem__("g"), lambda root: "g" in root),
    "fill": (lambda root: root["a"].__setitem__(slice(0, 40), 0), lambda root: bool(root["a"][...].any())),
    "part": (lambda root: root["a"].__setitem__(slice(0, 20), 0), lambda root: bool(root["a"][:20].any())),
    "resize": (shrink_and_grow, lambda root: root["a"].shape != (40, 2) or bool(root["a"][5:].any())),
    "move": (lambda root: root.move("a", "z"), lambda root: "a" in root),
}
SCHEMAS = {
    "plain": ArraySchema([DimensionSchema("x", 8)], int, [AttributeSchema("k", int, True)]),
    "tiled": VArraySchema([DimensionSchema("x", 8)], int, [AttributeSchema("k", int, True)], vgrid=(4,)),
}


def make_collection():
    form, kind = layout.split("-")
    with Client(PLACE, workers=1) as client:
        collection = client.create_collection("c", SCHEMAS[kind], layout=form)
        for k in range(2):
            collection.create({"k": k})[:].update(np.arange(1, 9))


def there(client, k):
    collection = client.get_collection("c")
    return None if collection is None else collection.filter({"k": k}).first()


COLLECTION = {
    "delete": (lambda client: there(client, 0).delete(), lambda client: there(client, 0) is not None),
    "clear": (lambda client: there(client, 0)[0:4].clear(),
              lambda client: bool((there(client, 0)[0:4].read() == np.arange(1, 5)).any())),
    "empty": (lambda client: client.get_collection("c").clear(), lambda client: there(client, 0) is not None),
    "drop": (lambda client: client.get_collection("c").delete(), lambda client: client.get_collection("c") is not None),
}
is_tree = layout in TREES
make_tree() if is_tree else make_collection()
remove, is_left = (TREE if is_tree else COLLECTION)[how]


def opened(place, mode):
    return hs.open_group(place, mode, workers=1) if is_tree else Client(place, workers=1)


medium, acknowledged, looks = Medium(PLACE, COPY), False, 0


def check():
    global looks
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        with opened(COPY, "r") as copy:
            looks += 1
            if acknowledged:
                assert not is_left(copy), (flushed_alone, looks)


medium.watch(check if every else lambda: None)
with opened(PLACE, "r+") as root:
    remove(root)
    acknowledged = True
    medium.look(check)
acknowledged = True
medium.look(check)
print(looks)
"""
TREES = ("zarr2", "zarr3", "shards", "consolidated", "nczarr-current", "nczarr-draft", "hdmf-v2", "hdmf-v3")
CASES = [
    *((layout, how) for layout in TREES for how in ("array", "group", "fill", "part", "resize", "move")),
    *((layout, how) for layout in ("blaze", "bcolz") for how in ("fill", "part", "resize")),
    *((f"{form}-plain", how) for form in ("hyperslab", "deker") for how in ("delete", "empty", "drop", "clear")),
    *((f"{form}-tiled", how) for form in ("hyperslab", "deker") for how in ("delete", "clear")),
]
SHORT = {("shards", "fill"), ("zarr3", "resize"), ("zarr2", "array"), ("nczarr-draft", "group"), ("blaze", "resize")}
SHORT |= {case for case in CASES if case[1] in ("delete", "clear")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("layout", "how", "looks"),
    [
        *(pytest.param(*case, "end", marks=() if case in SHORT else pytest.mark.soak) for case in CASES),
        *(pytest.param(*case, "every", marks=pytest.mark.soak) for case in CASES),
    ],
)
def test_what_was_removed_stays_removed(tmp_path: Path, layout: str, how: str, looks: str) -> None:
    child = ran(CHILD, tmp_path, layout, how, looks)
    assert child.returncode == 0, child.stderr[-3000:]
