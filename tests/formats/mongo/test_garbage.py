"""Garbage and repair: what belongs to nothing goes, what somebody is storing stays, and sound objects are untouched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import golden_documents as golden
import pytest
from bson import ObjectId, encode
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from hyperslab.errors import Invalid
from hyperslab.formats.mongo import objects, search
from hyperslab.formats.mongo.chunk_documents import DerivedIds
from hyperslab.formats.mongo.completeness import is_complete
from hyperslab.formats.mongo.document import EXTENSION, PUTTING
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.object_changes import Heartbeats
from hyperslab.formats.mongo.rules import collect_garbage, find_damage, find_orphans, find_problems, remove_orphan
from servers.mongo import running_mongod

OLD = datetime.now(UTC) - timedelta(hours=3)
DATA = b"12345678"


def pair(db: Database[Any]) -> tuple[Any, Any]:
    return db["xarray.meta"], db["xarray.chunks"]


def id_of(moment: datetime) -> ObjectId:
    """A new id of a moment."""
    return ObjectId(int(moment.timestamp()).to_bytes(4, "big") + ObjectId().binary[4:])


def put(
    db: Database[Any], moment: datetime = OLD, *, with_meta: bool = True, derived: bool = False, **ours: Any
) -> ObjectId:
    """An object of two chunks."""
    id = id_of(moment)
    variable = {"dims": ["x"], "dtype": "<i8", "shape": [2], "chunks": [[1, 1]], "type": "ndarray"}
    doc = {
        "_id": id,
        "coords": {},
        "data_vars": {"d": variable},
        "chunkSize": 8,
        **({"hyperslab": ours} if ours else {}),
    }
    if with_meta:
        db["xarray.meta"].insert_one(doc)
    for i in (0, 1):
        put_chunk(db, id, i, _id=DerivedIds(id)("d", (i,), 0) if derived else id_of(moment))
    return id


def put_chunk(db: Database[Any], id: Any, i: int, **fields: Any) -> None:
    doc = {
        "_id": id_of(OLD),
        "meta_id": id,
        "name": "d",
        "chunk": [i],
        "n": 0,
        "dtype": "<i8",
        "shape": [1],
        "data": DATA,
    }
    db["xarray.chunks"].insert_one({**doc, **fields})


def found(db: Database[Any], **options: Any) -> list[tuple[str, Any]]:
    return [(orphan.kind, orphan.id) for orphan in find_orphans(*pair(db), **options)]


def test_chunks_without_an_object(db: Database[Any]) -> None:
    kept, lost = put(db), [put(db, with_meta=False), put(db, with_meta=False, derived=True), "text", 5]
    for odd in ("text", 5):
        put_chunk(db, odd, 0)
    seen = collect_garbage(*pair(db), dry_run=True)
    assert {orphan.id for orphan in seen.orphans} == set(lost)
    assert (seen.documents, seen.applied) == (6, False)
    stored = db["xarray.chunks"].find({"meta_id": {"$in": lost}})
    assert seen.nbytes == sum(len(encode(doc)) for doc in stored)
    done = collect_garbage(*pair(db))
    assert (set(done.orphans), done.applied) == (set(seen.orphans), True)
    assert db["xarray.chunks"].distinct("meta_id") == [kept]
    assert collect_garbage(*pair(db)).orphans == ()


@pytest.mark.parametrize("derived", [False, True])
def test_what_is_being_put_stays(db: Database[Any], derived: bool) -> None:
    now = datetime.now(UTC)
    put(db, now, with_meta=False, derived=derived)
    put(db, now, derived=derived, status="writing")
    put(db, OLD, status="writing", touched=now)
    put(db, OLD, status="writing", lease={"owner": "x", "until": now + timedelta(seconds=30)})
    late = put(db, OLD, with_meta=False)
    put_chunk(db, late, 5, _id=id_of(now))
    assert found(db) == []
    assert found(db, age=timedelta(days=1)) == []
    assert len(found(db, age=0)) == 5


def test_an_object_that_was_never_finished(db: Database[Any]) -> None:
    left = put(db, status="writing", touched=OLD)
    assert [(one.kind, one.id, one.documents) for one in find_orphans(*pair(db))] == [("unfinished", left, 3)]
    (orphan,) = find_orphans(*pair(db))
    objects.commit_object(*pair(db), left, "x")
    assert not remove_orphan(*pair(db), orphan)
    assert is_complete(*pair(db), left)
    left = put(db, status="writing", touched=OLD)
    collect_garbage(*pair(db))
    assert db["xarray.meta"].count_documents({}) == 1
    assert db["xarray.chunks"].count_documents({}) == 2


def test_an_object_that_appears_before_its_chunks_are_removed(db: Database[Any]) -> None:
    lost = put(db, with_meta=False)
    (orphan,) = find_orphans(*pair(db))
    db["xarray.meta"].insert_one({"_id": lost, "coords": {}, "data_vars": {}})
    assert not remove_orphan(*pair(db), orphan)
    assert db["xarray.chunks"].count_documents({}) == 2


def test_a_replacement_that_was_broken_off(db: Database[Any]) -> None:
    old = put(db)
    new = put(db, replaces=old)
    assert found(db) == [("replaced", new)]
    assert collect_garbage(*pair(db)).documents == 3
    assert (db["xarray.meta"].distinct("_id"), db["xarray.chunks"].distinct("meta_id")) == ([new], [new])
    assert found(db) == []


@pytest.mark.parametrize("derived", [False, True])
def test_documents_that_an_object_does_not_have(db: Database[Any], derived: bool) -> None:
    id = put(db)
    for i, name in ((2, "d"), (0, "other")):
        _id = DerivedIds(id)(name, (i,), 0) if derived else id_of(OLD)
        put_chunk(db, id, i, name=name, _id=_id)
    put_chunk(db, id, 0, name="young", _id=id_of(datetime.now(UTC)))
    expected = [] if derived else [("stray-documents", id)]
    assert found(db) == expected
    assert found(db, surplus=False) == []
    assert collect_garbage(*pair(db), age=0, dry_run=True).documents == 3
    collect_garbage(*pair(db), age=0)
    assert db["xarray.chunks"].count_documents({}) == 2
    assert is_complete(*pair(db), id)


def test_of_copies_the_one_that_can_be_addressed_stays(db: Database[Any]) -> None:
    id = put(db)
    for i in (0, 1):
        put_chunk(db, id, i)
    put_chunk(db, id, 0, _id=(known := DerivedIds(id)("d", (0,), 0)))
    collect_garbage(*pair(db))
    assert db["xarray.chunks"].count_documents({}) == 4  # of the first chunk one has no age
    for remedy in find_damage(*pair(db), id):
        assert remedy.act is not None
        remedy.act()
    assert [doc["_id"] for doc in db["xarray.chunks"].find({"chunk": [0]})] == [known]
    assert db["xarray.chunks"].count_documents({}) == 2
    assert is_complete(*pair(db), id)


def test_contradictions_are_only_told_of(db: Database[Any]) -> None:
    id = put(db)
    put_chunk(db, id, 0, data=b"x" * 8)
    (remedy,) = find_damage(*pair(db), id)
    assert (remedy.problem.kind, remedy.problem.node, remedy.action, remedy.act) == (
        "contradicting-documents",
        "d",
        None,
        None,
    )
    assert found(db, age=0) == []


@pytest.mark.parametrize("age", [-1, float("nan"), float("inf"), timedelta(days=-1)])
def test_an_age_that_is_none(db: Database[Any], age: Any) -> None:
    with pytest.raises(Invalid, match="at least 0"):
        collect_garbage(*pair(db), age=age)


@pytest.mark.sampled(0)
def test_a_user_who_may_only_read(tmp_path: Path) -> None:
    with running_mongod(auth=True, dbpath=tmp_path) as server:
        name = server.database()
        reader = server.user("reader", {"role": "read", "db": name})
        with MongoClient[Any](server.admin) as admin, MongoClient[Any](reader) as client:
            sound, lost = put(admin[name]), put(admin[name], with_meta=False)
            assert found(client[name]) == [("no-object", lost)]
            assert [problem.kind for problem in find_problems(*pair(client[name]))] == ["no-object"]
            assert is_complete(*pair(client[name]), sound)
            assert [info.id for info in search.find_objects(client[name]["xarray.meta"])] == [sound]
            with pytest.raises(OperationFailure, match="not authorized"):
                collect_garbage(*pair(client[name]))
            assert admin[name]["xarray.chunks"].count_documents({}) == 4


# -- check and repair -------------------------------------------------------------------------------------------------


def golden_problems() -> list[tuple[str, str, str]]:
    node = {name: str(golden.case(name)._id) for name in DAMAGE}
    return sorted((f"{node[name]}/{place}", kind, text) for name, all in DAMAGE.items() for place, kind, text in all)


DAMAGE = {
    "BAD_object_pointers": [("data", "document", "variable '__DataArray__' has cells of type '|O'")],
    "BAD_never_computed": [
        ("never", "missing-chunk", "2 of 2 chunks are not stored: __DataArray__[0], __DataArray__[1]")
    ],
    "BAD_missing_chunk": [("one", "missing-chunk", "1 of 2 chunks are not stored: __DataArray__[1]")],
    "BAD_missing_segment": [("seg", "missing-segment", "__DataArray__[0]: 8 of 16 bytes, in 1 documents, n up to 1")],
    "DUP_future_computed_twice": [
        ("dup", "duplicate-documents", f"2 of 4 documents of __DataArray__[{i}] are copies") for i in (0, 1)
    ],
}


def test_golden_objects_are_examined_exactly(full: Database[Any]) -> None:
    seen = sorted((each.node, each.kind, each.message) for each in find_problems(*pair(full), deep=True))
    assert seen == golden_problems()
    for name, damage in DAMAGE.items():
        alone = [(each.node, each.kind, each.message) for each in find_problems(*pair(full), golden.case(name)._id)]
        assert alone == damage
    with pytest.raises(DocumentNotFoundError):
        list(find_problems(*pair(full), ObjectId()))


def test_golden_objects_are_mended_as_far_as_can_be(full: Database[Any]) -> None:
    put(full, with_meta=False)
    before = full["xarray.chunks"].count_documents({})
    for remedy in list(find_damage(*pair(full), deep=True)):
        assert (
            (remedy.act is None)
            == (remedy.action is None)
            == (remedy.problem.kind in ("document", "missing-chunk", "missing-segment"))
        )
        if remedy.act:
            remedy.act()
    left = [each.kind for each in find_problems(*pair(full), deep=True)]
    assert sorted(left) == ["document", "missing-chunk", "missing-chunk", "missing-segment"]
    assert full["xarray.chunks"].count_documents({}) == before - 2 - 4
    docs = list(full["xarray.chunks"].find({"meta_id": golden.case("DUP_future_computed_twice")._id}))
    assert sorted((doc["chunk"], doc["n"], doc["data"][0]) for doc in docs) == [
        ([i], n, 2 * i + n) for i in (0, 1) for n in (0, 1)
    ]


def test_sparse_cells_outside_of_their_chunk(full: Database[Any]) -> None:
    case = golden.case("seed_example_sparse")
    full["xarray.chunks"].update_one({"meta_id": case._id}, {"$set": {"sparse_coords": b"\0\1\1\7"}})
    assert list(find_problems(*pair(full), case._id)) == []
    (problem,) = find_problems(*pair(full), case._id, deep=True)
    assert (problem.node, problem.kind) == ("x", "corrupt-chunk")


def test_an_object_that_makes_no_sense(db: Database[Any]) -> None:
    id = db["xarray.meta"].insert_one({"coords": 5}).inserted_id
    (problem,) = find_problems(*pair(db))
    assert (problem.node, problem.kind) == (str(id), "document")
    variables = {
        "b": {"dims": ["x"]},
        "c": 5,
        "a": {"dims": [], "dtype": "<i8", "shape": [], "chunks": None, "data": DATA},
    }
    db["xarray.meta"].replace_one({"_id": id}, {"data_vars": variables})
    assert [(each.node, each.kind) for each in find_problems(*pair(db), id)] == [("b", "document"), ("c", "document")]


def test_very_many_chunks_that_are_not_there(db: Database[Any]) -> None:
    variable = {"dims": ["x", "y"], "dtype": "<i8", "shape": [50_000] * 2, "chunks": [[1] * 50_000] * 2}
    id = db["xarray.meta"].insert_one({"coords": {}, "data_vars": {"d": variable}}).inserted_id
    (problem,) = find_problems(*pair(db), id, deep=True)
    assert problem.message.startswith("2500000000 of 2500000000 chunks are not stored: d[0, 0], d[0, 1],")
    assert problem.message.endswith("and 2499999994 more")


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("stored", [0, 1])
def test_a_put_that_was_broken_off_is_garbage(db: Database[Any], layout: Any, stored: int) -> None:
    """Of which nothing was computed, or a chunk; an object that lost a chunk is none."""
    from dask.array import arange
    from xarray import Dataset

    from hyperslab.mongo import XarrayMongoDB

    def ds() -> Dataset:
        return Dataset({"t": ("x", arange(6, chunks=2))})

    xdb = XarrayMongoDB(db, layout=layout)
    whole, future = xdb.put(ds(), name="whole")
    future.compute(scheduler="sync")
    damaged, future = xdb.put(ds(), name="damaged")
    future.compute(scheduler="sync")
    broken, future = xdb.put(ds(), name="broken")
    resumed, _ = xdb.put(ds(), name="resumed")
    if stored:
        future.compute(scheduler="sync")
        xdb.meta.update_one({"_id": broken}, {"$set": {"hyperslab.putting": True}})
        if layout == "extended":
            xdb.meta.delete_one({"_id": broken})
    for key in (damaged, broken):
        xdb.chunks.delete_one({"meta_id": key, "chunk": [1]})
    xdb.resume(resumed, ds()).compute(scheduler="sync")
    assert xdb.collect_garbage().documents == 0
    xdb.collect_garbage(age=0)
    assert {info.id for info in xdb.list()} == {whole, damaged, resumed}
    assert set(xdb.chunks.distinct("meta_id")) == {whole, damaged, resumed}
    assert all("hyperslab" not in doc for doc in xdb.meta.find())


def test_an_object_that_is_long_in_the_making_stays_alive_beside_many_others(db: Database[Any]) -> None:
    """The ids of 1,000 others push its own out of what is remembered: it is touched again, not counted anew."""
    heartbeats, meta, id = Heartbeats(), db["test.meta"], ObjectId()
    meta.insert_one({"_id": id, EXTENSION: {"putting": datetime(2020, 1, 1, tzinfo=UTC)}})
    heartbeats.start(id)
    heartbeats.beat(meta, id)
    assert meta.find_one({"_id": id, PUTTING: datetime(2020, 1, 1, tzinfo=UTC)})
    for _ in range(1100):
        heartbeats.start(ObjectId())
    heartbeats.beat(meta, id)
    assert not meta.find_one({"_id": id, PUTTING: datetime(2020, 1, 1, tzinfo=UTC)})
