"""What is wrong with a collection of our own layout is told, and mended without loss; archives are read in place."""

from __future__ import annotations

import os
import uuid
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_store import SETTINGS, ids, key_of, kinds, made, opened, record, repair, tiled

import hyperslab as hs
from hyperslab.errors import AlreadyExists, ReadOnly
from hyperslab.formats.collections.own.batches import creation_marker
from hyperslab.formats.collections.own.layout import LAYOUT, OwnCollectionStore
from hyperslab.model.schemas.arrays import new_id
from hyperslab.stores import MemoryStore, leases
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore
from servers.s3 import S3

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(params=["folder", "memory", "bucket"])
def holding(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnCollectionStore]:
    """A collection of three arrays, one of them with cells."""
    if request.param == "folder":
        where = Location.of(tmp_path)
    elif request.param == "memory":
        where = Location.of(f"memory://{uuid.uuid4().hex}")
    else:
        s3 = request.getfixturevalue("s3")
        where = Location.of(f"s3://{s3.bucket()}", s3.options)
    found = made(where, tiled())
    found.create([record(number, id=f"{number}0" + new_id()[2:]) for number in range(3)])
    id = sorted(ids(found))[0]
    source = found.chunks(id, found.spec(id))
    for coords in source.grid:
        source.write(coords, np.full(source.grid.chunk_shape(coords), 7, np.int32))
    assert kinds(found, deep=True) == []
    yield found
    if request.param == "memory":
        MemoryStore.forget(where.url.removeprefix("memory://"))


def first(holding: OwnCollectionStore) -> str:
    return sorted(ids(holding))[0]


def shard(holding: OwnCollectionStore) -> str:
    """The key of a shard."""
    return next(key for key in holding.store.list(holding.keys.array(first(holding))) if "/c/" in key)


def test_an_array_that_was_not_made_to_the_end(holding: OwnCollectionStore) -> None:
    begun = record(9)
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
    (remedy,) = holding.find_damage(deep=False)
    assert (remedy.problem.kind, remedy.problem.node) == ("orphan", f"weather/{begun.id}")
    assert remedy.keep == (holding.keys.array_document(begun.id),)
    repair(holding)
    assert kinds(holding) == []
    assert holding.stamp(begun.id) is None
    assert len(ids(holding)) == 3
    holding.create([begun])


@pytest.mark.sampled(4)
@pytest.mark.covering
@pytest.mark.parametrize("blank", [b"", bytes(700)])
def test_an_array_whose_document_lost_its_power(holding: OwnCollectionStore, blank: bytes) -> None:
    """Nobody was told that it was made; where a key leads to such a document, an array is damaged, and stays."""
    begun, damaged = record(9), first(holding)
    for id in (begun.id, damaged):
        holding.store.put(holding.keys.array_document(id), blank)
    holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
    found = {remedy.problem.node: remedy for remedy in holding.find_damage(deep=False)}
    assert found.keys() == {f"weather/{begun.id}", f"weather/{damaged}"}
    lost = found[f"weather/{begun.id}"]
    assert (lost.problem.kind, lost.action) == ("leftover", "remove it")
    assert lost.keep == (holding.keys.array_document(begun.id),)
    repair(holding)
    assert holding.stamp(begun.id) is None
    assert {remedy.problem.node for remedy in holding.find_damage(deep=False)} == {f"weather/{damaged}"}
    holding.create([begun])


def test_an_array_that_was_made_to_the_end_meanwhile(holding: OwnCollectionStore) -> None:
    """Between the look and the deed."""
    begun = record(9)
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
    (remedy,) = holding.find_damage(deep=False)
    holding.store.put(holding.key_entry(begun), begun.id.encode())
    assert remedy.act is not None
    remedy.act()
    assert holding.record(begun.id) == begun
    assert kinds(holding) == []


def test_an_array_that_is_made_to_the_end_while_one_looks(holding: OwnCollectionStore) -> None:
    """Is no problem; nor is one that is changed."""
    begun = record(9, id="00" + new_id()[2:])
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    holding.store.put(holding.keys.generation("00"), b"x")
    holding.store.put(holding.keys.unsettled(begun.id), b"")
    holding.store.put(f"{holding.keys.part('ff')}/x", b"a file of others, which is found after the array")
    remedies = iter(holding.find_damage(deep=True))
    assert next(remedies).problem.kind == "foreign"
    holding.store.put(holding.key_entry(begun), begun.id.encode())
    holding.store.delete(holding.keys.unsettled(begun.id))
    assert list(remedies) == []


def test_arrays_that_are_being_made(holding: OwnCollectionStore) -> None:
    """As long as their maker lives no repair takes them for leftovers; afterwards it does."""
    begun = record(9)
    with creation_marker(holding.store, holding.keys, 5, new_id()):
        holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
        holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
        assert kinds(holding) == []
    assert kinds(holding) == ["orphan"]
    holding.store.put(f"{holding.keys.folder('creating')}/{new_id()}/mark", b"")
    assert kinds(holding) == ["leftover", "orphan"]
    repair(holding)
    assert kinds(holding) == []


def test_an_array_that_was_not_removed_to_the_end_while_others_are_made(holding: OwnCollectionStore) -> None:
    """Its mark stays as long as it is left alone: without that its cells would be those of an array without its key."""
    old = holding.record(first(holding))
    double = replace(old, id="ff" + new_id()[2:])
    holding.store.put(holding.keys.array_document(double.id), holding.documents.new_document(double))
    holding.store.put(f"{holding.keys.array(double.id)}/c/0", b"cells")
    holding.store.put(holding.keys.unsettled(double.id), b"")
    with creation_marker(holding.store, holding.keys, 5, new_id()):
        repair(holding)
    repair(holding)
    assert kinds(holding) == []
    assert double.id not in ids(holding)


def test_a_bucket_whose_maker_of_arrays_died(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair waits until the lock is known to be that of a dead maker; beside a living one it leaves all."""
    monkeypatch.setattr(leases, "LEASE", 0.5)
    monkeypatch.setattr(leases, "BEAT", 0.1)
    holding = made(Location.of(f"s3://{s3.bucket()}/root", s3.options))
    begun, folder = record(9), f"{holding.keys.folder('creating')}/{new_id()}"
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
    with creation_marker(holding.store, holding.keys, 5, new_id()):
        repair(opened(Location.of(holding.store.url, s3.options)))
    assert kinds(opened(Location.of(holding.store.url, s3.options))) == ["orphan"]
    holding.store.put(f"{folder}/mark", b"")
    assert isinstance(holding.store, ObjectStore)
    holding.store.swap_lock(f"{folder}/.lock", b"of a process that is gone", None)
    repair(opened(Location.of(holding.store.url, s3.options)))
    assert kinds(opened(Location.of(holding.store.url, s3.options))) == []


@pytest.mark.sampled(0)
def test_repairs_beside_a_creation_of_many_arrays(tmp_path: Path) -> None:
    holding = made(Location.of(tmp_path))
    wanted = [record(number) for number in range(400)]
    with ThreadPoolExecutor(1) as pool:
        made_all = pool.submit(holding.create, wanted)
        while not made_all.done():
            repair(opened(Location.of(tmp_path)))
        made_all.result()
    assert ids(holding) == {each.id for each in wanted}
    assert kinds(holding) == []


def test_two_arrays_of_one_key(holding: OwnCollectionStore) -> None:
    old = holding.record(first(holding))
    double = replace(old, id="ff" + new_id()[2:])
    holding.store.put(holding.keys.array_document(double.id), holding.documents.new_document(double))
    holding.store.put(holding.keys.generation("ff"), b"x")
    (remedy,) = holding.find_damage(deep=False)
    assert remedy.problem.kind == "orphan"
    assert old.id in remedy.problem.message
    repair(holding)
    assert (kinds(holding), holding.id_of(key_of(old))) == ([], old.id)


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize(
    "said", [b"", b"no id of anything", b"\0" * 36, b"../../x", b"ffffffff-ffff-ffff-ffff-ffffffffffff", "other"]
)
def test_a_key_entry_that_leads_elsewhere(holding: OwnCollectionStore, said: bytes | str) -> None:
    """It is led to its array again; no cell of that is lost."""
    old = holding.record(first(holding))
    other = sorted(ids(holding))[1]
    holding.store.put(holding.key_entry(old), other.encode() if isinstance(said, str) else said)
    assert kinds(holding) == ["dangling-key"]
    assert len(ids(holding)) == 2
    repair(holding)
    assert kinds(holding, deep=True) == []
    assert holding.id_of(key_of(old)) == old.id
    assert len(ids(holding)) == 3


def test_a_key_entry_that_leads_to_nothing(holding: OwnCollectionStore) -> None:
    """A repair removes it, and whoever wants the key takes its place."""
    gone = record(9)
    for mend in (repair, lambda holding: holding.create([record(9)])):
        holding.store.put(holding.key_entry(gone), gone.id.encode())
        assert kinds(holding) == ["dangling-key"]
        mend(holding)
        assert kinds(holding) == []
    assert len(ids(holding)) == 4  # three were there
    with pytest.raises(AlreadyExists):
        holding.create([gone])


def test_a_generation_that_is_missing(holding: OwnCollectionStore) -> None:
    id = first(holding)
    holding.store.delete(holding.keys.generation(id[:2]))
    assert id not in ids(holding)
    assert kinds(holding) == ["missing-generation"]
    repair(holding)
    assert id in ids(holding)
    assert kinds(holding) == []


def test_leftovers(holding: OwnCollectionStore) -> None:
    id, gone = first(holding), "ee" + new_id()[2:]
    for key in (
        holding.keys.unsettled(id),
        holding.keys.unsettled(gone),
        f"{holding.keys.folder('journal')}/{gone}",
        f"{holding.keys.folder('staged')}/{gone}/0123/c/0/0/0",
        f"{holding.keys.array(gone)}/c/0/0/0",
    ):
        holding.store.put(key, b"x")
    generation = holding.generations()[id[:2]]
    assert kinds(holding) == ["leftover"] * 3 + ["unsettled"] * 2
    repair(holding)
    assert kinds(holding) == []
    assert holding.generations()[id[:2]] != generation
    assert not [key for key in holding.store.list("") if gone in key]


@pytest.mark.sampled(0)
def test_keys_of_others_are_told_and_stay(holding: OwnCollectionStore) -> None:
    base = holding.keys.base
    others = [f"{base}/x", f"{base}/more/x", f"{base}/keys/x", f"{base}/arrays/zz/x", f"{base}/arrays/zz/{new_id()}/x"]
    others.append(f"{holding.keys.array(first(holding))}/c/9/9/9")
    for key in others:
        holding.store.put(key, b"x")
    assert kinds(holding) == ["foreign"] * 4 + ["misplaced-file", "outside-grid"]
    repair(holding)
    assert all(holding.store.get(key) == b"x" for key in others)
    assert len(ids(holding)) == 3


def test_damaged_cells(holding: OwnCollectionStore) -> None:
    """Found by looking deep; taken out, with a copy kept, and all else stays."""
    key = shard(holding)
    data = bytearray(holding.store.get(key) or b"")
    data[4] ^= 255
    holding.store.put(key, bytes(data))
    assert kinds(holding) == []
    (remedy,) = holding.find_damage(deep=True)
    assert (remedy.problem.kind, remedy.keep) == ("corrupt-chunk", (key,))
    repair(holding, deep=True)
    assert kinds(holding, deep=True) == []
    other = shard(holding)
    holding.store.put(other, b"no shard")
    assert kinds(holding) == ["corrupt-shard"]
    repair(holding)
    assert kinds(holding, deep=True) == []


def test_an_array_that_is_not_as_the_schema_says(holding: OwnCollectionStore) -> None:
    id = first(holding)
    key = holding.keys.array_document(id)
    text = (holding.store.get(key) or b"").decode()
    for old, new, kind in (
        ('"int32"', '"int64"', "wrong-dtype"),
        ('"hour"', '"hours"', "wrong-dimensions"),
        ('"shape": [\n    4', '"shape": [\n    5', "wrong-shape"),
    ):
        assert old in text
        holding.store.put(key, text.replace(old, new, 1).encode())
        assert kind in kinds(holding)


def test_check_and_repair_of_a_root(tmp_path: Path) -> None:
    """By the functions that everybody calls; what is taken out lies in the quarantine."""
    holding = made(Location.of(tmp_path / "root"))
    begun = record(1)
    holding.create([record(2)])
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    holding.store.put(holding.keys.generation(begun.id[:2]), b"x")
    assert [problem.kind for problem in hs.check(tmp_path / "root")] == ["orphan"]
    (mend,) = hs.repair(tmp_path / "root", dry_run=False)
    assert (mend.kind, mend.done) == ("orphan", True)
    assert list(hs.check(tmp_path / "root")) == []
    assert len(list((tmp_path / "root.quarantine").rglob("zarr.json"))) == 1


def test_unfinished_writes_of_the_dead(tmp_path: Path) -> None:
    """Go when they are old."""
    holding = made(Location.of(tmp_path))
    holding.create([record(1)])
    place = tmp_path / holding.keys.folder("keys") / ".x.0123456789abcdef.tmp"
    place.write_bytes(b"x")
    assert kinds(holding) == []
    os.utime(place, (1e9, 1e9))
    assert kinds(holding) == ["unfinished-write"]
    repair(holding)
    assert not place.exists()


def test_an_archive_is_read_in_place(tmp_path: Path) -> None:
    """A root in a zip file, whose one folder is that of its collections."""
    holding = made(Location.of(tmp_path / "root"), tiled())
    found = record(1)
    holding.create([found])
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in sorted((tmp_path / "root").rglob("*")):
            if path.is_file() and path.name != ".lock":
                archive.write(path, path.relative_to(tmp_path / "root").as_posix())
    where = Location.of(tmp_path / "x.zip")
    assert list(LAYOUT.names(where)) == ["weather"]
    there = opened(where, writable=False)
    assert ids(there) == {found.id}
    assert there.record(found.id) == found
    assert there.id_of(key_of(found)) == found.id
    assert there.generations().keys() == {found.id[:2]}
    assert kinds(there, deep=True) == []
    with pytest.raises(ReadOnly):
        there.create([record(2)])
    assert there.nbytes_stored() > 1000


def test_a_copy_and_a_moved_root(tmp_path: Path) -> None:
    """Nothing in a collection tells where it lies."""
    holding = made(Location.of(tmp_path / "root"))
    found = record(1)
    holding.create([found])
    for path in (tmp_path / "root").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes()
    (tmp_path / "root").rename(tmp_path / "moved")
    there = opened(Location.of(tmp_path / "moved"))
    assert there.id_of(key_of(found)) == found.id
    there.remove(found.id)
    assert kinds(there) == []


def test_what_was_left_of_a_collection_is_not_in_the_next(tmp_path: Path) -> None:
    """One that was not removed to the end."""
    holding = made(Location.of(tmp_path))
    found = record(1)
    holding.create([found])
    holding.store.delete(holding.keys.document)
    assert list(LAYOUT.names(Location.of(tmp_path))) == []
    again = made(Location.of(tmp_path))
    assert ids(again) == set()
    assert again.id_of(key_of(found)) is None
    assert kinds(again) == []
    assert SETTINGS.durable is False
