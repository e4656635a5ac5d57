"""SIGKILL before each call of an append: when the array grows afterwards, no row of the dead one shows.

What a killed append stored before its document told of it is no data: rows that come by a resize read as the fill
value, those that come by another append as what was appended.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from programs import ran

DRIVER = """
import json, os, shutil, sys
import numpy as np
import hyperslab as hs
from dying import killed_at

folder, options, array_options = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
STEP = int(sys.argv[5])
is_collection = options["format"] == "collections"
NAME = array_options.pop("name", "v")
SOUND, URL = os.path.join(folder, "sound", "x"), os.path.join(folder, "now", "x")
ROWS = np.repeat(np.arange(1, 13, dtype="i4")[:, None], 4, 1)
OPTIONS = {"durable": False, "workers": 1, "lock_timeout": 2.0}


def root_of(mode):
    return hs.open_group(URL, mode, **OPTIONS) if mode != "r" else hs.open_group(URL)


def array_of(root):
    return next(iter(root[NAME].values())) if is_collection else root[NAME]


def fresh():
    shutil.rmtree(os.path.dirname(URL), ignore_errors=True)
    shutil.copytree(os.path.dirname(SOUND), os.path.dirname(URL))


def dying_append(root):
    with root:
        array_of(root).append(np.full((DEAD, 4), 99, "i4"))


def cells():
    with root_of("r") as root:
        return array_of(root)[...]


os.makedirs(os.path.dirname(SOUND))
if is_collection:
    from hyperslab.database import ArraySchema, Client, DimensionSchema, VArraySchema
    dimensions = [DimensionSchema("y", None), DimensionSchema("x", 4)]
    tiles = {"arrays_shape": (3, 4)} if array_options.get("tiled") else {}
    schema = (VArraySchema if tiles else ArraySchema)(dimensions, np.int32, fill_value=-1, **tiles)
    with Client(SOUND, durable=False) as client:
        client.create_collection(NAME, schema).create().append(ROWS[:4])
else:
    with hs.create(SOUND, durable=False, **options) as root:
        root.create_array(NAME, data=ROWS[:4], fill_value=-1, **array_options)
deaths = {}
for DEAD, after in json.loads(sys.argv[4]):
    number = 1 - STEP
    while True:
        number += STEP
        fresh()
        died = killed_at(number, lambda: root_of("r+"), dying_append)
        if not died:
            break
        found = cells()
        try:
            assert found.shape[0] in (4, 4 + DEAD), found.shape
            assert (found[:4] == ROWS[:4]).all() and (found[4:] == 99).all(), found
            if found.shape[0] == 4:
                with root_of("r+") as root:
                    array = array_of(root)
                    if after == "resize":
                        array.resize((13, 4))
                    else:
                        array.append(ROWS[4 : 5 if after == "append" else 12])
                        array.resize((13, 4))
                known = {"resize": 4, "append": 5, "long append": 12}[after]
                now = cells()
                assert (now[:known] == ROWS[:known]).all(), now
                assert (now[known:] == -1).all(), now
                found = {each.kind for each in hs.check(URL, deep=True)}
                assert found <= {"temporary", "unfinished-write", "unsettled", "leftover"}, found
        except BaseException:
            print(f"{DEAD} rows, killed at call {number}, then {after}", file=sys.stderr)
            raise
    deaths[f"{DEAD} {after}"] = number - 1
print(json.dumps(deaths))
"""
CHUNKS = {"chunks": [3, 4]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "zarr2": ({"format": "zarr2"}, CHUNKS),
    "zarr3": ({"format": "zarr3"}, CHUNKS),
    "shards": ({"format": "zarr3"}, {"chunks": [1, 4], "shards": [3, 4]}),
    "nczarr": ({"format": "nczarr"}, CHUNKS),
    "draft": ({"format": "nczarr", "dialect": "draft"}, CHUNKS),
    "hdmf v2": ({"format": "hdmf", "profile": "v2"}, CHUNKS),
    "hdmf v3": ({"format": "hdmf", "profile": "v3"}, CHUNKS),
    "blaze": ({"format": "blaze", "superchunk": 2}, CHUNKS),
    "bcolz": ({"format": "blaze", "layout": "bcolz"}, CHUNKS),
    "bloscpack": ({"format": "bloscpack"}, CHUNKS),
    "b2nd": ({"format": "b2nd"}, CHUNKS),
    "collections": ({"format": "collections"}, {}),
    "tiles": ({"format": "collections"}, {"tiled": True}),
}


ALL = [(dead, after) for dead in (1, 7) for after in ("resize", "append", "long append")]
SOAK = [pytest.param(name, ALL, 1, marks=pytest.mark.soak) for name in CASES]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
@pytest.mark.parametrize(("name", "ways", "step"), [("tiles", [(7, "resize")], 3), *SOAK])
def test_rows_of_a_killed_append_are_never_data(
    name: str, ways: list[tuple[int, str]], step: int, tmp_path: Path
) -> None:
    done = ran(DRIVER, tmp_path, *map(json.dumps, (*CASES[name], ways, step)))
    assert done.returncode == 0, done.stderr[-3000:]
    deaths = json.loads(done.stdout)
    assert len(deaths) == len(ways) and all(count >= 1 for count in deaths.values()), deaths
