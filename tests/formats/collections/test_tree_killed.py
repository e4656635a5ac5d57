"""Writers of ``collections.json`` that are killed before each system call that changes a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, Client, DimensionSchema
from hyperslab.errors import Unsupported
from hyperslab.formats import collections
from hyperslab.formats.collections import deker, tree
from hyperslab.formats.collections.tree_writer import CollectionTreeWriter
from hyperslab.stores.location import Location
from programs import ran

WRITERS = {"collections": collections.FORMAT.open, "deker": deker.FORMAT.open}

KILLED = '''
import json, os, shutil, sys
import numpy as np
import hyperslab as hs
from dying import killed_at

folder, name, format, step = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
SOUND, PLACE = os.path.join(folder, "sound"), os.path.join(folder, "x")
OPTIONS = {"durable": False, "workers": 1}
CELLS = np.arange(12.0).reshape(3, 4) + 1
PATHS = ["g/a", "g/b", "top"]
GONE = {"group": ["g/a", "g/b"], "batch": ["g/a", "top"], "all": PATHS, "create": [], "create_many": []}[name]


def group(root):
    if "g" in root:
        del root["g"]


def batch(root):
    with root.batch():
        for path in GONE:
            if path in root:
                del root[path]


def all(root):
    for name in list(root):
        del root[name]


def create(root):
    for path in ("new", "h/new"):
        if path not in root:
            root.create_array(path, data=CELLS, attrs={"which": path})


def create_many(root):
    with root.batch():
        create(root)


def check_new(root, done):
    """A new array is there, with its cells as far as they were written, or nothing is."""
    for path in ("new", "h/new"):
        if done or path in root:
            assert ((root[path][...] == CELLS) | (root[path][...] == 0)).all()
            assert root[path].attrs["which"] == path
    assert set(root) <= {"g", "top", "new", "h"}, list(root)
    assert name == "create" or ("new" in root) == ("h/new" in root)


def check(root, done):
    """Arrays are there with all their cells, or gone, and nothing stands in their places."""
    there = [path for path in PATHS if path in root]
    for path in there:
        assert (root[path][...] == CELLS).all(), path
    assert set(PATHS) - set(GONE) <= set(there)
    if name != "all":
        assert set(GONE) <= set(there) or not set(GONE) & set(there), there
    if done:
        assert not set(GONE) & set(there)
    if name.startswith("create"):
        return check_new(root, done)
    listed = list(root)
    assert set(listed) <= {"g", "top"}, listed
    assert ("top" in listed) == ("top" in there)
    if "g" in listed:
        assert {f"g/{each}" for each in root["g"]} == {path for path in there if path != "top"}


change = globals()[name]
with hs.create(SOUND, format=format, **OPTIONS) as root:
    for path in PATHS:
        root.create_array(path, data=CELLS, attrs={"which": path})
number, left = 1 - step, set()
while True:
    number += step
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(SOUND, PLACE)
    died = killed_at(number, lambda: hs.open(PLACE, "r+", **OPTIONS), change)
    with hs.open(PLACE) as root:
        check(root, not died)
    left.update(problem.kind for problem in hs.check(PLACE))
    with hs.open(PLACE, "r+", **OPTIONS) as root:
        change(root)  # who comes after is held up by nothing
        check(root, True)
        again = root.create_array("g/a2", data=CELLS + 1)
    hs.repair(PLACE, deep=False, dry_run=False)
    assert not hs.check(PLACE), list(hs.check(PLACE))
    with hs.open(PLACE) as root:
        assert (root["g/a2"][...] == CELLS + 1).all()
    if not died:
        break
print(json.dumps({"steps": number, "left": sorted(left)}))
'''


@pytest.mark.parametrize(
    ("name", "format", "step"),
    [
        ("batch", "deker", 3),
        ("group", "collections", 12),
        ("create", "collections", 5),
        ("create_many", "deker", 7),
        pytest.param("batch", "collections", 5, marks=pytest.mark.soak),
        pytest.param("all", "collections", 5, marks=pytest.mark.soak),
    ],
)
def test_made_and_removed_at_one_stroke(tmp_path: Path, name: str, format: str, step: int) -> None:
    """A new array is there or not, all arrays that one removal takes are there or gone; what is left is taken away."""
    done = ran(KILLED, tmp_path, name, format, step)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["steps"] > 5
    assert "leftover" in report["left"]


@pytest.mark.parametrize("format", ["collections", "deker"])
def test_another_type_leaves_the_cells(tmp_path: Path, format: str) -> None:
    """Of an array that has cells nobody makes another one under its name; names of its dimensions may change."""
    cells = np.arange(12.0).reshape(3, 4)
    with hs.create(tmp_path / "x", format=format) as root:
        root.create_array("a", data=cells, dims=["y", "x"])
    writer = WRITERS[format](Location.of(tmp_path / "x"), "r+")
    assert isinstance(writer, CollectionTreeWriter)
    spec = writer.node("a")
    assert spec.is_array
    with pytest.raises(Unsupported, match="remove the array"):
        writer.put("a", spec.evolve(dtype=np.dtype("i4")))
    writer.put("a", spec.evolve(dims=("row", None)))
    writer.close()
    found = hs.open(tmp_path / "x")["a"]
    assert found.dims == ("row", None)
    assert (found[...] == cells).all()


def test_a_name_of_before_is_free(tmp_path: Path) -> None:
    """A collection that is made under the name of one whose remover died is shown, and kept by repairs."""
    place = tmp_path / "x"
    hs.create(place, "collections").close()
    (place / tree.KEY).write_bytes(tree.render_tree(tree.Tree(unused={"days": "gone"})))
    schema = ArraySchema([DimensionSchema("x", 3)], float)
    with Client(place) as client:
        client.create_collection("days", schema).create()
    hs.repair(place, dry_run=False)
    assert list(hs.open(place)) == ["days"]
    assert not hs.check(place)
    (place / tree.KEY).write_bytes(tree.render_tree(tree.Tree(unused={"days": "gone"})))  # as another program leaves it
    assert [problem.kind for problem in hs.check(place)] == ["leftover"]
    hs.repair(place, dry_run=False)
    assert len(hs.open(place)["days"]) == 1
