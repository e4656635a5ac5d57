"""Groups thousands deep: whatever walks a tree comes to its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.model.nesting import flattened
from hyperslab.stores.memory import MemoryStore

DEPTH = 500
PATH = "/".join("g" * DEPTH)


@pytest.fixture(autouse=True)
def shallow() -> Iterator[None]:
    """No more frames than groups, so that nothing has to be thousands deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(DEPTH)
    yield
    sys.setrecursionlimit(before)


def _deep(name: str | None = None) -> MemoryStore:
    """One group in another, without going through all of them for each."""
    store = MemoryStore() if name is None else MemoryStore(name)
    document = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()
    for depth in range(DEPTH + 1):
        store.put(f"{'g/' * depth}zarr.json", document)
    return store


@pytest.fixture(scope="module")
def deep() -> MemoryStore:
    """To be read alone."""
    return _deep()


WALKS: dict[str, Callable[[Any], Any]] = {
    "open": lambda store: hs.open_group(store)[PATH].path.count("g") == DEPTH,
    "tree": lambda store: hs.open_group(store).tree().count("g/") == DEPTH,
    "check": lambda store: [problem.kind for problem in hs.check(store, deep=True)] == ["too-deep"],
    "diff": lambda store: not hs.diff(store, store),
    "convert": lambda store: hs.convert(store, MemoryStore(), "zarr2", verify=True).verified.groups == DEPTH + 1,
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("walk", WALKS)
def test_reading(walk: str, deep: MemoryStore) -> None:
    assert WALKS[walk](deep)


def test_copy_move_and_remove() -> None:
    store = _deep()
    with hs.open_group(store, "r+") as root:
        root.copy("g", "h")
        root.move("g", "k")
        assert sorted(root) == ["h", "k"]
        del root["k"]
    assert sum(key.startswith("h/") for key in store.list()) == DEPTH


def test_commands() -> None:
    _deep("deep")
    try:
        for words in (["tree"], ["tree", "--json"], ["info"]):
            said = CliRunner().invoke(main, [words[0], "memory://deep", *words[1:]])
            assert said.exit_code == 0, said.output[-300:]
    finally:
        MemoryStore.forget("deep")


def test_netcdf_is_as_deep_as_its_library_goes(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_group("/".join("g" * 60), attrs={"n": 1})
    assert hs.open_group(tmp_path / "a.nc").tree().count("g/") == 60
    report = hs.convert(tmp_path / "a.nc", tmp_path / "b.nczarr", verify=True)
    assert report.groups == 61
    assert hs.open_group(tmp_path / "b.nczarr").tree().count("g/") == 60


def test_generators_in_generators_are_in_order() -> None:
    def walk(number: int) -> Any:
        yield number
        if number < DEPTH:
            yield walk(number + 1)
        yield -number

    found = list(flattened(walk(0)))
    assert found == [*range(DEPTH + 1), *range(-DEPTH, 1)]
