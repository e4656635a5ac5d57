"""Indexes: those that the peer makes, and the positional one, which never takes neighbours for one another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, OperationFailure

from hyperslab.formats.mongo.indexes import ensure_index, ensure_positional, find_duplicates
from servers.mongo import running_mongod

PLAIN = "meta_id_1_name_1_chunk_1"


def chunk(meta_id: ObjectId, *place: int, n: int = 0) -> dict[str, Any]:
    return {"meta_id": meta_id, "name": "d", "chunk": list(place), "n": n}


def positional(db: Database[Any]) -> list[str]:
    """The names of the positional indexes that we made."""
    return [name for name in db.chunks.index_information() if "positions" in name]


def test_the_index_of_the_peer(db: Database[Any]) -> None:
    for _ in range(2):
        assert ensure_index(db.chunks)
    info = db.chunks.index_information()
    assert set(info) == {"_id_", PLAIN}
    assert info[PLAIN]["key"] == [("meta_id", 1), ("name", 1), ("chunk", 1)]
    assert "unique" not in info[PLAIN]
    assert info[PLAIN]["background"]


def test_a_chunk_is_found_by_one_key(db: Database[Any]) -> None:
    id = ObjectId()
    db.chunks.insert_many([chunk(id, i, j) for i in range(16) for j in range(16)])
    assert not ensure_positional(db.chunks)
    (hint,) = positional(db)
    wanted = {"meta_id": id, "name": "d", "chunk.0": 3, "chunk.1": 4}
    plan = db.chunks.find(wanted).hint(hint).explain()["executionStats"]
    assert (plan["totalKeysExamined"], plan["totalDocsExamined"], plan["nReturned"]) == (1, 1, 1)


def test_unique_means_every_position(db: Database[Any]) -> None:
    """Two chunks of nine indices that differ in the last alone are two chunks (reference 4.4)."""
    assert ensure_positional(db.chunks, 2, unique=True)
    assert ensure_positional(db.chunks, 2, unique=True)
    id, one, other = ObjectId(), (0,) * 8 + (0,), (0,) * 8 + (1,)
    db.chunks.insert_one(chunk(id, *one[:8]))
    with pytest.raises(DuplicateKeyError):
        db.chunks.insert_one(chunk(id, *one[:8]))
    assert positional(db) == ["hyperslab_8_positions_unique"]
    assert ensure_positional(db.chunks, 9, unique=True)
    db.chunks.insert_many([chunk(id, *other), chunk(id, *other[:8], 2), chunk(id, *one[:7], 1), chunk(id, *one, n=1)])
    assert positional(db) == ["hyperslab_9_positions_unique"]
    assert ensure_positional(db.chunks, 3, unique=True)  # a narrower one is not made again
    assert positional(db) == ["hyperslab_9_positions_unique"]


def test_documents_that_are_there_twice(db: Database[Any]) -> None:
    id = ObjectId()
    db.chunks.insert_many([chunk(id, i) for i in (0, 0, 1, 2, 2, 2)])
    with pytest.warns(UserWarning, match=rf"{id} d\[\d\] n=0"):
        assert not ensure_positional(db.chunks, 1, unique=True)
    assert sorted(find_duplicates(db.chunks)) == [(id, ("d", (0,)), 0), (id, ("d", (2,)), 0)]
    assert positional(db) == ["hyperslab_8_positions"]
    db.chunks.delete_many({"chunk": {"$in": [[0], [2]]}})
    assert ensure_positional(db.chunks, 1, unique=True)


def test_more_dimensions_than_an_index_has(db: Database[Any]) -> None:
    with pytest.warns(UserWarning, match="covers 29 dimensions, not 31"):
        assert not ensure_positional(db.chunks, 31, unique=True)
    id = ObjectId()
    db.chunks.insert_many([chunk(id, *[0] * 30, i) for i in range(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not ensure_positional(db.chunks, 31)


def test_the_index_of_somebody_else_is_used_and_stays(db: Database[Any]) -> None:
    keys = [("meta_id", 1), ("name", 1), *((f"chunk.{i}", 1) for i in range(4)), ("n", 1)]
    name = db.chunks.create_index(keys)
    assert positional(db) == []
    assert ensure_positional(db.chunks, 4, unique=True)
    assert name in db.chunks.index_information()


@pytest.mark.sampled(0)
def test_a_user_who_may_only_read(tmp_path: Path) -> None:
    with running_mongod(auth=True, dbpath=tmp_path) as server:
        name = server.database()
        with (
            MongoClient[Any](server.admin) as admin,
            MongoClient[Any](server.user("r", {"role": "read", "db": name})) as r,
        ):
            admin[name].chunks.insert_one(chunk(ObjectId(), 0))
            assert not ensure_index(r[name].chunks, best_effort=True)
            with pytest.raises(OperationFailure, match="not authorized"):
                ensure_index(r[name].chunks)
