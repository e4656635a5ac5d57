"""What it costs to open arrays, by the Python calls and system calls of one: counted in a process of its own.

Many arrays of a dataset have the same documents but for their attributes; what follows from those alone is worked out
once. Cells are never read by what consolidated metadata says alone, so that a first read also reads the array's own
documents: what it costs besides is pinned here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.engine import load_engine

CHILD = """
import json, sys
import hyperslab as hs

SYSTEM = {"open", "close", "read", "readv", "lseek", "stat", "lstat", "fstat"}

def count(work):
    calls, system = 0, 0
    def notice(frame, event, argument):
        nonlocal calls, system
        calls += event == "call"
        system += event == "c_call" and argument.__module__ == "posix" and argument.__name__ in SYSTEM
    sys.setprofile(notice)
    work()
    sys.setprofile(None)
    return calls, system

def look(url):
    for group_name, group in hs.open(url).groups():
        for name, array in group.arrays():
            array.shape, array.dtype, array.dims, dict(array.attrs)

def first_reads(url):
    arrays = [array for _, group in hs.open(url).groups() for _, array in group.arrays()]
    arrays[0][:]
    return max(count(lambda: array[:]) for array in arrays[1:])

url, what, *more = sys.argv[1:]
if what == "element":
    read = lambda: hs.open(url)["x"][3, 5]
    read()
    read()
    print(json.dumps(count(read)))
elif what == "read":
    first_reads(url)
    print(json.dumps(first_reads(url)))
else:
    work = (lambda: look(url)) if what == "look" else (lambda: hs.open(f"{url}/{more[0]}"))
    work()
    work()
    print(json.dumps(count(work)))
"""
GROUPS, ARRAYS = 4, 25


def make(place: Path, form: str, **options: object) -> str:
    """Arrays that differ by their attributes, in groups."""
    with hs.create(place, form, durable=False, **options) as root, root.batch():
        for number in range(GROUPS):
            group = root.create_group(f"g{number}")
            group.create_array("x", data=np.arange(50.0), dims=("x",))
            for place_of in range(ARRAYS - 1):
                attrs = {"units": "K", "long_name": f"variable {place_of} of {number}", "valid_min": 1.5}
                group.create_array(f"v{place_of}", data=np.arange(50.0), dims=("x",), attrs=attrs)
    return str(place)


def count(*arguments: str) -> tuple[int, int]:
    """Return Python calls and calls of the system."""
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls, system = json.loads(done.stdout)
    print(arguments, calls, system)
    return calls, system


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("form", "most"), [("hdmf", 73), ("zarr2", 68), ("zarr3", 70)])
def test_the_first_read_of_a_small_array(tmp_path: Path, form: str, most: int) -> None:
    """Of a consolidated dataset: folders are looked at, then each document and the chunk opened, read and closed."""
    calls, system = count(make(tmp_path / "a", form, consolidated=True), "read")
    assert calls <= most
    assert system <= (7 if form == "zarr3" else 8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("form", "most"), [("zarr2", 46), ("zarr3", 45), ("nczarr", 116)])
def test_a_look_at_each_array(tmp_path: Path, form: str, most: int) -> None:
    """Shape, type, dimensions and all attributes."""
    calls, _ = count(make(tmp_path / "a", form, consolidated=form != "nczarr"), "look")
    assert calls / (GROUPS * ARRAYS) <= most


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("form", "most"), [("zarr2", 215), ("zarr3", 140)])
def test_an_array_by_its_own_place(tmp_path: Path, form: str, most: int) -> None:
    calls, _ = count(make(tmp_path / "a.zarr", form), "place", "g1/v1")
    assert calls <= most


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("form", "most", "options"),
    [
        ("zarr3", 158, {}),
        ("zarr3", 212, {"shards": (32, 32)}),
        ("zarr2", 199, {}),
        ("hdmf", 232, {}),
        ("nczarr", 325, {}),
    ],
)
def test_one_element_of_a_dataset_that_is_opened_for_it(
    tmp_path: Path, form: str, most: int, options: dict[str, object]
) -> None:
    """With finding out the format, both documents and the chunk."""
    with hs.create(tmp_path / "a", form, durable=False) as root:
        root.create_array("x", data=np.zeros((64, 64), "f4"), chunks=(8, 8), dims=("y", "x"), **options)
        root["x"][:] = 1
    calls, _ = count(str(tmp_path / "a"), "element")
    assert calls <= most + (0 if load_engine() is not None else 35 if options else 15)
