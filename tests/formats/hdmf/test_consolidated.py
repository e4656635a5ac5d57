"""Consolidated metadata: always there, always what the documents say; each document is written once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting import CountingStore
from golden_hdmf import opened, truths

from hyperslab.errors import HyperslabError, StorageError
from hyperslab.model.dtypes import VlenString
from hyperslab.model.refs import Link, ObjectReference
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe

INT = np.dtype("i4")
DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json")


def is_sound(store: Any) -> bool:
    """Whether there is a copy that says exactly what the documents say."""
    wanted: dict[str, Any] = {}
    for key in store.list():
        path, _, name = key.rpartition("/")
        if name not in DOCUMENTS:
            continue
        doc = json.loads(store.get(key))
        if name != "zarr.json":
            wanted[key] = doc
        elif path:
            assert "consolidated_metadata" not in doc
            wanted[path] = doc
    data = store.get(".zmetadata")
    if data is not None:
        return bool(json.loads(data)["metadata"] == wanted)
    said = json.loads(store.get("zarr.json")).get("consolidated_metadata", {}).get("metadata")
    if said is None:
        return False
    return {path: without_consolidated(doc) for path, doc in said.items()} == wanted


def without_consolidated(doc: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in doc.items() if name != "consolidated_metadata"}


def array(writer: Any, dtype: Any = INT, **more: Any) -> ArraySpec:
    spec: ArraySpec = writer.new_array(
        ArraySpec(**{"dtype": dtype, "shape": (4,), "chunks": (2,), "dims": ("x",)} | more)
    )
    return spec


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def changes(writer: Any) -> Any:
    """Every kind of change, each after the one before."""
    yield writer.put("", GroupSpec(attrs={"object_id": "r", "neurodata_type": "Root"}))
    yield writer.put("g", GroupSpec(attrs={"object_id": "g"}))
    yield writer.put("g/a", array(writer, attrs={"ref": ObjectReference("/g")}))
    yield writer.put("deep/er/b", array(writer, VlenString()))
    yield writer.put("g/a", writer.node("g/a").evolve(shape=(9,), attrs={"units": "m", "nan": float("nan")}))
    yield writer.put("g/l", Link("/deep/er"))
    yield writer.put("l", Link("/nope"))
    yield writer.put("g/l", Link("/deep"))
    yield writer.move("g/l", "deep/l")
    yield writer.move("g", "new/place")
    yield writer.put("deep/l", array(writer))
    yield writer.drop("l")
    yield writer.drop("deep/er")
    yield writer.put("specifications/core/1.0/namespace", array(writer, VlenString(), shape=(), chunks=(), dims=()))
    with writer.batch():
        writer.put("batch/a", array(writer))
        writer.put("batch/l", Link("/batch/a"))
    yield
    yield writer.drop("")


def test_it_follows_every_change(profile: str, store: CountingStore) -> None:
    writer = opened(store, "x", profile=profile)
    assert is_sound(store)
    steps = 0
    for _ in changes(writer):
        steps += 1
        assert is_sound(store) or not list(store.list()), steps
    assert steps == 16


@pytest.mark.parametrize("name", sorted(truths()))
def test_that_of_peers_is_made_whole(name: str, tmp_path: Path, peers: Path) -> None:
    """One change, and it says what the documents say: also where it lacked the specifications, or was not there."""
    shutil.copytree(peers / f"{name}.zarr", tmp_path / "x.zarr")
    writer = opened(tmp_path / "x.zarr", "r+")
    before = {path: writer.node(path) for path in nodes(writer)}
    writer.put("added", GroupSpec(attrs={"n": 1}))
    writer.put("added/link", Link("/added"))
    writer.close()
    assert is_sound(Location.of(tmp_path / "x.zarr").store(read_only=True))
    reader = opened(tmp_path / "x.zarr")
    found = {path: reader.node(path) for path in nodes(reader)}
    assert found.pop("added").attrs == {"n": 1}
    assert found.pop("added/link") == Link("/added")
    assert set(found) == set(before)
    assert {path: spec for path, spec in found.items() if path} == {path: spec for path, spec in before.items() if path}


def nodes(reader: Any, path: str = "") -> list[str]:
    below = [f"{path}/{name}".lstrip("/") for name in reader.children(path)]
    return [path, *(place for name in below for place in nodes(reader, name))]


def test_a_batch_writes_each_document_once(profile: str, store: CountingStore) -> None:
    writer = opened(store, "x", profile=profile)
    store.calls.clear()
    with writer.batch():
        writer.put("", GroupSpec(attrs={"object_id": "r"}))
        for number in range(100):
            writer.put(f"g/a{number}", array(writer, attrs={"n": number, "object_id": f"{number}"}))
            writer.put(f"g/l{number}", Link(f"/g/a{number}"))
        for version in ("1.0", "1.1"):
            text = array(writer, VlenString(), shape=(), chunks=(), dims=())
            writer.put(f"specifications/core/{version}/namespace", text)
    written = store.puts()
    again = {key for key in written if written.count(key) > 1}
    assert again == (set() if profile == "v2" else {"zarr.json"})  # the root is written without its copy, then with it
    assert written.count("zarr.json") <= 2
    assert written.count(".zmetadata") == (profile == "v2")
    assert is_sound(store)
    assert {opened(store).node(f"g/l{number}").object_id for number in range(100)} == {str(n) for n in range(100)}


def test_opening_reads_one_document(profile: str, store: CountingStore) -> None:
    writer = opened(store, "x", profile=profile)
    with writer.batch():
        for number in range(20):
            writer.put(f"g{number}/a", array(writer))
            writer.put(f"g{number}/l", Link("/g0"))
    document = {"v2": ".zmetadata", "v3": "zarr.json"}[profile]
    probe = Probe(Location.of(store))
    assert probe.get("zarr.json") or probe.get(document)
    store.calls.clear()
    reader = opened(store, remembered=probe)
    assert len(nodes(reader)) == 61
    assert store.calls == []
    reader = opened(store)
    assert len(nodes(reader)) == 61
    assert {key for _, key in store.calls} == {"zarr.json", document}


def test_a_crash_leaves_no_stale_copy(profile: str, store: CountingStore) -> None:
    """Whatever change is the last that reaches the store, the copy says what the documents say, or is gone."""
    writer = opened(store, "x", profile=profile)
    writer.put("g/a", array(writer))
    for left in range(20):
        trial = CountingStore()
        for key in store.list():
            trial.put(key, store.get(key))
        writer = opened(trial, "r+")
        trial.left = left
        try:
            with writer.batch():
                writer.put("g/l", Link("/g/a"))
                writer.put("g/a", writer.node("g/a").evolve(attrs={"n": 1}))
            done = True
        except StorageError:
            done = False
        trial.left = None
        gone = trial.get(".zmetadata") is None and b"consolidated" not in (trial.get("zarr.json") or b"")
        assert gone or is_sound(trial)
        if done:
            break
    assert done
    assert is_sound(trial)


@pytest.mark.parametrize("name", ["hz0130_builders_json", "hz0140_builders_v3"])
def test_the_document_itself_counts_when_cells_are_read(name: str, tmp_path: Path, peers: Path) -> None:
    """Consolidated metadata may be older, and nothing is decoded by it."""
    place = tmp_path / "x.zarr"
    shutil.copytree(peers / f"{name}.zarr", place)
    document = place / "g1" / "i2" / ("zarr.json" if "v3" in name else ".zarray")
    said = json.loads(document.read_text())
    document.write_text(json.dumps(said | {"shape": [2, 4]}))
    reader = opened(place)
    assert reader.node("g1/i2").shape == (3, 4)
    assert list(reader.chunks("g1/i2").grid.shape) == [2, 4]
    assert reader.node("g1/i2").shape == (2, 4)
    writer = opened(place, "r+")
    with writer.lock_node("g1/i2"):
        assert writer.node("g1/i2").shape == (2, 4)


def test_a_damaged_node_hides_no_other(profile: str, store: CountingStore) -> None:
    writer = opened(store, "x", profile=profile)
    writer.put("g/a", array(writer))
    writer.put("g/l", Link("/g/a"))
    writer.put("other/a", array(writer))
    store.put({"v2": "g/.zgroup", "v3": "g/zarr.json"}[profile], b"{")
    store.delete(".zmetadata")
    if profile == "v3":
        store.put("zarr.json", json.dumps(without_consolidated(json.loads(store.get("zarr.json")))).encode())
    reader = opened(store)
    assert reader.node("g/a").shape == reader.node("other/a").shape == (4,)
    with pytest.raises(HyperslabError):
        reader.node("g")
