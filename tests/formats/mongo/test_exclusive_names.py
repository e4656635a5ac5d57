"""Six processes that make an object, group or array of one name at the same time: one does, others are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pymongo import MongoClient

import hyperslab as hs
from programs import side_by_side

if TYPE_CHECKING:
    from servers.mongo import Mongo

PROCESSES = 6
FEW = [pytest.param(2, id="few"), pytest.param(50, id="many", marks=pytest.mark.soak)]
PROGRAM = """
import json, sys
import numpy as np
import xarray as xr
import hyperslab as hs
from hyperslab.errors import AlreadyExists

url, kind, me, names = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rows = np.full(me + 2, me, "i4")
root = None if kind in ("object", "replace") else hs.open_group(f"{url}#all", "r+")
print("ready", flush=True)
sys.stdin.readline()
won = []
for name in (f"n{number}" for number in range(names)):
    try:
        if kind == "object":
            with hs.create(f"{url}#{name}") as made:
                made.attrs["by"] = me
                made.create_array("t", data=rows, dims=("x",))
        elif kind == "array":
            root.create_array(name, data=rows, dims=(f"{name}_x",), attrs={"by": me})
        elif kind == "replace":
            hs.save(f"{url}#{name}", xr.Dataset({"t": ("x", rows)}, attrs={"by": me}), mode="w")
        else:
            root.create_group(name).attrs["by"] = me
    except AlreadyExists:
        continue
    won.append(name)
print(json.dumps(won), flush=True)
"""


def race(mongo: Mongo, kind: str, names: int) -> tuple[str, list[list[str]]]:
    """Where they make the names, and which each of them made."""
    url = f"{mongo.url}/{mongo.database()}"
    if kind not in ("object", "replace"):
        hs.create(f"{url}#all").close()
    with side_by_side(PROGRAM, *((url, kind, number, names) for number in range(PROCESSES))) as makers:
        assert [maker.stdout.readline() for maker in makers] == ["ready\n"] * PROCESSES
        for maker in makers:
            maker.stdin.write("go\n")
            maker.stdin.flush()
        return url, [json.loads(maker.communicate()[0]) for maker in makers]


@pytest.mark.parametrize("names", FEW)
@pytest.mark.parametrize(
    "kind", ["object", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("array", "group"))]
)
def test_one_of_six_processes_makes_each_name(mongo: Mongo, kind: str, names: int) -> None:
    url, answers = race(mongo, kind, names)
    by = {name: number for number, won in enumerate(answers) for name in won}
    assert sorted(name for won in answers for name in won) == sorted(by) == sorted(f"n{n}" for n in range(names))
    for name, number in by.items():
        node = hs.open_group(f"{url}#{name}") if kind == "object" else hs.open_group(f"{url}#all")[name]
        assert node.attrs["by"] == number
        if kind != "group":
            cells = (node["t"] if kind == "object" else node)[:]
            assert cells.tolist() == [number] * (number + 2)
    if kind == "object":
        with MongoClient[dict[str, object]](url) as client:
            assert client.get_default_database()["xarray.meta"].count_documents({}) == names
    assert not hs.check(url, deep=True)


@pytest.mark.parametrize("names", FEW)
def test_of_those_who_replace_an_object_one_is_there_whole(mongo: Mongo, names: int) -> None:
    url, answers = race(mongo, "replace", names)
    assert [len(won) for won in answers] == [names] * PROCESSES
    for number in range(names):
        found = hs.open_group(f"{url}#n{number}")
        assert found["t"][:].tolist() == [found.attrs["by"]] * (found.attrs["by"] + 2)
    assert not hs.check(url, deep=True)
