"""The pages on the architecture are held to the code: their names are there, their numbers are right, and the tables of
reads are compared with the calls of real reads."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.engine import has_engine
from hyperslab.database import AttributeSchema, Client, DimensionSchema, VArraySchema

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
OTHERS = {path.stem: path.read_text() for path in (ROOT / "docs" / "architecture").glob("*.md")}
ALL = "\n".join([PAGE, *OTHERS.values()])
FOLDERS = {path.stem for path in (ROOT / "src" / "hyperslab").iterdir()}
MODULES = sorted(
    {name for name in re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`", ALL) if name.split(".")[0] in FOLDERS}
)
ROW = r"^\| `([a-z_0-9.]+)` \| `([A-Za-z_0-9.]+)` \| (.*) \|$"
STEPS = [row[:2] for row in re.findall(ROW, ALL, re.MULTILINE)]
NUMBERS = re.findall(r"^\| `([A-Za-z_0-9.]+)` \| `([a-z_0-9.]+)` \| ([^|]+) \| [^|]+ \|$", ALL, re.MULTILINE)
ENGINE = "chunks/_engine.c"
ENGINE_NUMBERS = re.findall(rf"^\| `([A-Z_]+)` \| `{ENGINE}` \| ([^|]+) \| [^|]+ \|$", ALL, re.MULTILINE)
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "TiB": 1 << 40}


def number_in(text: str) -> int:
    """Return a number of the pages, such as ``16 KiB``."""
    number, _, unit = text.strip().partition(" ")
    return int(number) * UNITS[unit]


def test_names_are_found() -> None:
    assert len(MODULES) > 40 and len(STEPS) > 80 and len(NUMBERS) > 40 and len(ENGINE_NUMBERS) > 5
    assert sorted(OTHERS) == ["limits", "places"]
    assert all(f"(architecture/{name}.md)" in PAGE for name in OTHERS)
    rows = re.findall(r"^\| `[^`]+` \| `", OTHERS["limits"], re.MULTILINE)
    assert len(rows) == len(NUMBERS) + len(ENGINE_NUMBERS)


@pytest.mark.parametrize("name", MODULES)
def test_the_module_is_there(name: str) -> None:
    import_module(f"hyperslab.{name}")


@pytest.mark.parametrize(("module", "function"), STEPS)
def test_the_function_is_there(module: str, function: str) -> None:
    found = reduce(getattr, function.split("."), import_module(f"hyperslab.{module}"))
    assert callable(found) or isinstance(found, property)


@pytest.mark.parametrize(("name", "module", "value"), NUMBERS)
def test_the_number_is_right(name: str, module: str, value: str) -> None:
    assert reduce(getattr, name.split("."), import_module(f"hyperslab.{module}")) == number_in(value)


@pytest.mark.parametrize(("name", "value"), ENGINE_NUMBERS)
def test_the_number_of_the_engine_is_right(name: str, value: str) -> None:
    source = (ROOT / "src" / "hyperslab" / ENGINE).read_text()
    (defined,) = re.findall(rf"^#define {name} \(?(\d+)(?: << (\d+)\))?", source, re.MULTILINE)
    assert int(defined[0]) << int(defined[1] or 0) == number_in(value)


# -- tables of reads, compared with calls -----------------------------------------------------------------------------

Step = tuple[str, str]


def steps_of(title: str) -> dict[Step, set[str]]:
    """Return the rows of the table below a heading, or of the one whose last column is named so, with the system calls
    that each of them names."""
    if f"\n## {title}\n" in PAGE:
        part = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    else:
        part = PAGE.partition(f"| {title} |\n")[2]
        assert part, title
        part = "|" + part
    table = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)
    assert table is not None
    rows = re.findall(ROW, table[0], re.MULTILINE)
    return {(module, function): set(re.findall(r"`os\.([a-z]+)`", text)) for module, function, text in rows}


class Calls:
    """The functions of hyperslab in the order of their first calls, and each system call with those it came from."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.order: list[Step] = []
        self.system: list[tuple[str, list[Step]]] = []
        stack: list[Step] = []

        def note(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call":
                module = frame.f_globals.get("__name__", "")
                stack.append((module.removeprefix("hyperslab."), frame.f_code.co_qualname))
                if stack[-1] not in self.order:
                    self.order.append(stack[-1])
            elif event == "return" and stack:
                stack.pop()
            elif event == "c_call" and getattr(arg, "__module__", None) == "posix" and arg.__name__ != "fspath":
                self.system.append((arg.__name__, list(stack)))

        sys.setprofile(note)
        try:
            read()
        finally:
            sys.setprofile(None)


def compare_order(steps: dict[Step, set[str]], calls: Calls) -> None:
    """Compare the rows with the functions that were called, in their order."""
    assert len(steps) > 3
    assert [step for step in calls.order if step in steps] == list(steps)


def compare_system_calls(steps: dict[Step, set[str]], calls: Calls) -> None:
    """Compare the system calls of each row with those that its function made, itself or by functions without a row."""
    made: dict[Step | None, set[str]] = {}
    for name, stack in calls.system:
        step = next((each for each in reversed(stack) if each in steps), None)
        made.setdefault(step, set()).add(name)
    assert made == {step: names for step, names in steps.items() if names}


@pytest.fixture
def python_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads are as the tables say, which is where the engine in C is not built, or leaves a chunk."""
    monkeypatch.setattr("hyperslab.chunks.engine._import_engine", lambda: None)


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """A dataset with a sharded array and another one; both were read, so that libraries are loaded. By Blosc-lz4
    chunks of this size would be read by the engine in any case."""
    data = np.arange(64 * 64, dtype=np.int32).reshape(64, 64) % 91
    root = hs.create(tmp_path / "a.zarr")
    root.create_array("sharded", data=data, chunks=(8, 8), shards=(32, 32), dims=("y", "x"), codec="blosc:zlib")
    root.create_array("plain", data=data, chunks=(8, 8), dims=("y", "x"), codec="blosc:zlib")
    read = hs.open(tmp_path / "a.zarr")
    assert (read["sharded"][:3] == data[:3]).all() and (read["plain"][:3] == data[:3]).all()
    return tmp_path / "a.zarr"


@pytest.mark.skipif(sys.platform != "linux", reason="the page names Linux's system calls")
@pytest.mark.parametrize(
    ("title", "name", "key"),
    [
        ("One read of a sharded Zarr array", "sharded", np.s_[0:16, 0:12]),
        ("One read of an unsharded Zarr array", "plain", np.s_[0:5, 0:5]),
    ],
)
@pytest.mark.usefixtures("python_alone")
def test_a_read_of_an_array_is_as_its_table_says(title: str, name: str, key: Any, arrays: Path) -> None:
    array, steps = hs.open(arrays)[name], steps_of(title)
    calls = Calls(lambda: array[key])
    compare_order(steps, calls)
    compare_system_calls(steps, calls)


@pytest.mark.skipif(not has_engine(), reason="the engine in C is not built")
@pytest.mark.parametrize(
    ("key", "cache_bytes", "of_shards", "of_files"),
    [
        (np.s_[0:5, 0:5], 1 << 20, {"SingleChunks.read"}, {"SingleChunks.read"}),
        (np.s_[0:16, 0:12], 1 << 20, {"EngineJob.read"}, {"EngineJob.read", "SingleChunks.read"}),
        (np.s_[5:9], 1 << 20, set(), {"SingleChunks.read"}),
        (np.s_[5:9], 0, {"EngineJob.read"}, {"EngineJob.read"}),
        (np.s_[[1, 9]], 1 << 20, set(), {"SingleChunks.read"}),
    ],
)
def test_the_engine_reads_what_the_page_says(
    key: Any, cache_bytes: int, of_shards: set[str], of_files: set[str], arrays: Path
) -> None:
    root = hs.open(arrays, cache_bytes=cache_bytes)
    for name, expected in (("sharded", of_shards), ("plain", of_files)):
        array = root[name]
        calls = Calls(partial(array.__getitem__, key))
        ways = {function for module, function in calls.order if module == "chunks.engine"}
        assert ways & {"SingleChunks.read", "EngineJob.read"} == expected, name


@pytest.mark.usefixtures("python_alone")
def test_a_read_of_a_whole_shard_is_as_its_table_says(arrays: Path) -> None:
    array = hs.open(arrays)["sharded"]
    calls = Calls(lambda: array[0:32, 0:32])
    compare_order(steps_of("what it does in a whole shard"), calls)
    assert ("formats.zarr.shards", "ShardedChunks._from_ranges") not in calls.order


@pytest.mark.usefixtures("python_alone")
@pytest.mark.parametrize(("wanted", "whole"), [(128, True), (127, False), (64, False)])
def test_half_of_a_shard_is_fetched_whole(wanted: int, whole: bool, tmp_path: Path) -> None:
    root = hs.create(tmp_path / "a.zarr")
    root.create_array("x", data=np.arange(256), chunks=(1,), shards=(256,), dims=("x",))
    array = hs.open(tmp_path / "a.zarr")["x"]
    calls = Calls(lambda: array[:wanted])
    assert (("formats.zarr.shards", "ShardedChunks._from_ranges") in calls.order) is not whole


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_a_read_of_tiles_is_as_its_table_says(layout: Any, tmp_path: Path) -> None:
    if layout == "deker":
        pytest.importorskip("h5py")
    dimensions = [DimensionSchema("y", size=256), DimensionSchema("x", size=256)]
    key = [AttributeSchema("n", int, primary=True)]
    schema = VArraySchema(dimensions=dimensions, dtype=np.float32, attributes=key, vgrid=(2, 2))
    with Client(f"file://{tmp_path}/store", durable=False) as client:
        made = client.create_collection("c", schema, layout=layout)
        made.create({"n": 1})[:].update(np.ones((256, 256), np.float32))
    for path in tmp_path.rglob("*"):  # what has just been changed is opened anew for each read
        os.utime(path, (10**9, 10**9))
    with Client(f"file://{tmp_path}/store", mode="r", workers=1) as client:
        array = client.get_collection("c").filter({"n": 1}).first()
        calls = Calls(lambda: array[0:8, 0:256].read())
    column = {"hyperslab": "what it does in our own layout", "deker": "what differs in DEKER's layout"}[layout]
    steps = steps_of(column)
    compare_order(steps, calls)
    if layout == "deker" and sys.platform == "linux":
        steps |= {("database.arrays", "Array._exists"): {"stat", "lstat"}}
        named = {name for names in steps.values() for name in names}
        assert {name for name, _ in calls.system} <= named


def test_a_read_of_mongodb_is_as_its_table_says(mongo: Any) -> None:
    where = f"{mongo.url}/architecture?collection=c"
    with hs.create(f"{where}#obj") as root:
        root.create_array("v", data=np.arange(64.0 * 64).reshape(64, 64), chunks=(16, 16), dims=("y", "x"))
    array = hs.open(where)["obj/v"]
    calls = Calls(lambda: array[0:20, 0:20])
    compare_order(steps_of("One read of a MongoDB object"), calls)
