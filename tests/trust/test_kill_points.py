"""SIGKILL before each system call that changes a dataset, for every kind of change.

What is left is the old state or the new one, consolidated metadata never says anything else than the documents, the
next writer is held up by nothing, and repeating the change gives what it should.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from programs import ran

DRIVER = '''
import json, os, shutil, sys
import numpy as np
import hyperslab as hs
from dying import killed_at
from hyperslab.errors import NodeNotFound

folder, name, sharded, step = sys.argv[1], sys.argv[2], sys.argv[3] == "sharded", int(sys.argv[4])
ROWS = np.repeat(np.arange(12, dtype="i4")[:, None] + 1, 4, 1)
SOUND, URL = os.path.join(folder, "sound"), os.path.join(folder, "x.zarr")
OPTIONS = {"durable": False, "workers": 1, "lock_timeout": 2.0, "consolidated": True}


def rows(array, length):
    """The rows are right, or zero behind a length that a shrink may have taken."""
    cells = array[...]
    right = ROWS[: len(cells)]
    assert ((cells == right) | ((cells == 0) & (np.arange(len(cells)) >= length)[:, None])).all(), cells


def is_there(root, path):
    return path in root


def attribute(root):
    root["g/a"].attrs["note"] = "new"


def attribute_is(root, done):
    assert root["g/a"].attrs["note"] in (("new",) if done else ("old", "new"))
    rows(root["g/a"], 12)


def append(root):
    root["g/a"].append(ROWS[root["g/a"].shape[0] :])


def append_is(root, done):
    assert root["g/a"].shape[0] in ((12,) if done else (8, 12))
    rows(root["g/a"], 12)


def shrink(root):
    root["g/a"].resize((3, 4))


def shrink_is(root, done):
    assert root["g/a"].shape[0] in ((3,) if done else (8, 3))
    rows(root["g/a"], 3)


def grow(root):
    root["g/a"].resize((11, 4))


def grow_is(root, done):
    assert root["g/a"].shape[0] in ((11,) if done else (8, 11))
    rows(root["g/a"], 8)


def create(root):
    if "new" not in root:
        root.create_array("new", data=ROWS, chunks=(3, 4))
    else:
        root["new"][...] = ROWS


def create_is(root, done):
    if done or "new" in root:
        rows(root["new"], 12 if done else 0)


def batch(root, part=slice(6, 12)):
    with root.batch():
        for path in ("h/one", "h/two"):
            if path not in root:
                root.create_array(path, (12, 4), "i4", chunks=(6, 4), attrs={"which": path})[part] = ROWS[part]


def batch_again(root):
    """Other cells than the killed writer wrote: its chunks must not show in arrays whose documents it never wrote."""
    batch(root, slice(0, 6))


def batch_is(root, done):
    for path in ("h/one", "h/two"):
        if done or path in root:
            rows(root[path], 0)
            assert (root[path][...] != 0).any(1).sum() == 6
            assert root[path].attrs["which"] == path


def check_growth():
    """New cells read as the fill value, whatever was there before."""
    array = hs.open(URL, "r+", **OPTIONS)["g/a"]
    length = array.shape[0]
    array.resize((length + 9, 4))
    assert (hs.open(URL)["g/a"][length:] == 0).all(), "cells of before came back"


def delete(root):
    if "g/a" in root:
        del root["g/a"]


def delete_is(root, done):
    if "g/a" in root:
        assert not done
        rows(root["g/a"], 12)


def move(root):
    if "g/a" in root:
        root.move("g/a", "moved")


def move_is(root, done):
    assert ("g/a" in root) + ("moved" in root) == 1
    assert "moved" in root or not done
    rows(root["moved" if "moved" in root else "g/a"], 12)


CHANGES = {
    "attribute": (attribute, attribute_is), "append": (append, append_is), "shrink": (shrink, shrink_is),
    "grow": (grow, grow_is), "create": (create, create_is), "batch": (batch, batch_is),
    "delete": (delete, delete_is), "move": (move, move_is),
}


def paths_below(root, path=""):
    """Every node by listing, as consolidated metadata has it where there is some."""
    group = root[path] if path else root
    for name in group:
        inner = f"{path}/{name}" if path else name
        yield inner
        if isinstance(root[inner], hs.Group):
            yield from paths_below(root, inner)


def told(root, path, direct):
    if direct:
        root._session.refresh(path)
    spec = root._session.reader.node(path)
    return type(spec).__name__, getattr(spec, "shape", None), dict(spec.attrs)


def check_copy():
    """What consolidated metadata says is what the documents say, and nothing is missing in it."""
    copied, direct = hs.open(URL), hs.open(URL)
    listed = set(paths_below(copied))
    for path in ["", *listed]:
        try:
            assert told(copied, path, False) == told(direct, path, True), path
        except NodeNotFound:
            raise AssertionError(f"{path} is gone, but consolidated metadata has it") from None
    found = {os.path.relpath(place, URL) for place, _, files in os.walk(URL)
             if {".zarray", "zarr.json"} & set(files) and ".tmp" not in place} - {"."}
    assert found <= listed, found - listed


def opened():
    return hs.open(URL, "r+", **OPTIONS)


def fresh():
    shutil.rmtree(URL, ignore_errors=True)
    shutil.copytree(SOUND, URL)


with hs.create(SOUND, name, **OPTIONS) as root:
    shards = {"shards": (4, 4)} if sharded else {}
    root.create_array("g/a", data=ROWS[:8], chunks=(2, 4), attrs={"note": "old"}, **shards)
    root.create_array("good", data=ROWS, chunks=(3, 4))
report = {}
for title, (change, state) in CHANGES.items():
    number = 1
    while True:
        fresh()
        died = killed_at(number, opened, change)
        try:
            check_copy()
            state(hs.open(URL), not died)
            if died:
                if number % 2 and title in ("append", "shrink", "grow"):
                    check_growth()
                    number += step
                    continue
                (batch_again if change is batch else change)(hs.open(URL, "r+", **OPTIONS))
                check_copy()
                state(hs.open(URL), True)
            if title in ("append", "shrink", "grow"):
                check_growth()
            rows(hs.open(URL)["good"], 12)
        except BaseException:
            print(f"{title}, killed at call {number}", file=sys.stderr)
            raise
        if not died:
            break
        number += step
    report[title] = number - 1


def replace(_):
    hs.create(URL, name, overwrite=True, **OPTIONS)


number, died = 1 - step, True
while died:
    number += step
    fresh()
    died = killed_at(number, opened, replace)
    left = sorted(hs.open(URL))
    assert left == [] or (died and left == ["g", "good"]), f"replace, killed at call {number}: {left}"
    if left:
        rows(hs.open(URL)["g/a"], 8)
        rows(hs.open(URL)["good"], 12)
report["replace"] = number - 1
print(json.dumps(report))
'''


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
@pytest.mark.parametrize(
    ("name", "sharded"),
    [("zarr2", "plain"), pytest.param("zarr3", "plain", marks=pytest.mark.soak), ("zarr3", "sharded")],
)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_each_call_may_be_the_last(tmp_path: Path, name: str, sharded: str, step: int) -> None:
    done = ran(DRIVER, tmp_path, name, sharded, step)
    assert done.returncode == 0, done.stderr[-3000:]
    points = json.loads(done.stdout)
    print(points)
    assert len(points) == 9
    assert all(count >= 3 for count in points.values()), points
