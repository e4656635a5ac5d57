"""Names: whoever takes one, and whenever, at most one object is found under it, and nothing is left of the others."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient, monitoring
from pymongo.database import Database

from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, Invalid
from hyperslab.formats.mongo import objects, search
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.object_changes import touch_object
from servers.mongo import Mongo

THREADS = 8


def put(db: Database[Any], name: str | None = None, **ours: Any) -> ObjectId:
    """An object with one chunk."""
    doc: dict[str, Any] = {"coords": {}, "data_vars": {}, "chunkSize": 1}
    doc |= {"name": name} if name is not None else {}
    doc |= {"hyperslab": ours} if ours else {}
    id: ObjectId = db["xarray.meta"].insert_one(doc).inserted_id
    db["xarray.chunks"].insert_one({"meta_id": id, "name": "d", "chunk": None, "n": 0, "data": b""})
    return id


def pair(db: Database[Any]) -> tuple[Any, Any]:
    return db["xarray.meta"], db["xarray.chunks"]


def stored(db: Database[Any]) -> list[ObjectId]:
    """The ids of all objects; each has its chunk, and there is no other."""
    ids = sorted(db["xarray.meta"].distinct("_id"))
    assert sorted(db["xarray.chunks"].distinct("meta_id")) == ids
    return ids


def at_once(*works: Callable[[], Any]) -> list[HyperslabError | None]:
    """What each work failed with, all done at the same time."""

    def run(work: Callable[[], Any]) -> HyperslabError | None:
        try:
            work()
        except HyperslabError as error:
            return error
        return None

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_commit_makes_an_object_found(db: Database[Any]) -> None:
    made = put(db, status="writing", unlimited=["t"])
    assert list(search.find_objects(db["xarray.meta"])) == []
    for _ in range(2):
        objects.commit_object(*pair(db), made, "x")
        assert objects.resolve_id(db["xarray.meta"], "x") == made
    doc = db["xarray.meta"].find_one({"_id": made}) or {}
    assert (doc["name"], doc["hyperslab"]) == ("x", {"unlimited": ["t"], "version": 4})


def test_commit_without_a_name_keeps_the_one_that_is_there(db: Database[Any]) -> None:
    made = [put(db, "x", status="writing"), put(db, "x", status="writing"), put(db, status="writing")]
    for id in made:
        objects.commit_object(*pair(db), id)
    assert [info.name for info in search.find_objects(db["xarray.meta"])] == ["x", "x", None]


def test_commit_replaces(db: Database[Any]) -> None:
    old, new = put(db, "x"), put(db, status="writing")
    with pytest.raises(AlreadyExists, match=str(old)):
        objects.commit_object(*pair(db), new, "x", on_conflict="refuse")
    assert objects.resolve_id(db["xarray.meta"], "x") == old
    objects.commit_object(*pair(db), new, "x")
    assert stored(db) == [new]
    assert "replaces" not in (db["xarray.meta"].find_one() or {})["hyperslab"]


def test_a_name_that_several_have_is_not_replaced(db: Database[Any]) -> None:
    several, new = [put(db, "x"), put(db, "x")], put(db, status="writing")
    with pytest.raises(AlreadyExists, match=f"{several[0]}, {several[1]}"):
        objects.commit_object(*pair(db), new, "x")
    objects.commit_object(*pair(db), new, "x", on_conflict="share")
    assert objects.find_holders(db["xarray.meta"], "x") == [*several, new]


def test_rename(db: Database[Any]) -> None:
    one, other = put(db, "one"), put(db, "other")
    objects.rename_object(*pair(db), one, "first")
    assert [info.name for info in search.find_objects(db["xarray.meta"])] == ["first", "other"]
    objects.rename_object(*pair(db), one, "first")
    with pytest.raises(AlreadyExists):
        objects.rename_object(*pair(db), one, "other")
    assert "claims" not in (db["xarray.meta"].find_one({"_id": one}) or {})["hyperslab"]
    objects.rename_object(*pair(db), one, "other", replace=True)
    assert stored(db) == [one]
    objects.rename_object(*pair(db), one, None)
    assert "name" not in (db["xarray.meta"].find_one({"_id": one}) or {})
    with pytest.raises(DocumentNotFoundError):
        objects.rename_object(*pair(db), other, "x")


def test_what_is_no_name(db: Database[Any]) -> None:
    one: Any = put(db, "one")
    wrong: list[Any] = [{"$gt": ""}, 5, ["a"], "a\0b", "", str(ObjectId())]
    for name in wrong:
        with pytest.raises(Invalid, match="cannot have the name"):
            objects.rename_object(*pair(db), one, name)
    for text in ("$set", "a.b", "é ✓", "$$NOW", "$name"):
        objects.rename_object(*pair(db), one, text)
        assert objects.resolve_id(db["xarray.meta"], text) == one


def test_what_is_being_made_is_not_renamed(db: Database[Any]) -> None:
    made = put(db, status="writing")
    with pytest.raises(Conflict, match="being made"):
        objects.rename_object(*pair(db), made, "x")
    touch_object(db["xarray.meta"], made)
    assert "touched" in (db["xarray.meta"].find_one() or {})["hyperslab"]
    objects.commit_object(*pair(db), made, "x")
    touch_object(db["xarray.meta"], made)
    assert (db["xarray.meta"].find_one() or {})["hyperslab"] == {"version": 2}


def test_what_was_collected_cannot_be_committed(db: Database[Any]) -> None:
    with pytest.raises(DocumentNotFoundError):
        objects.commit_object(*pair(db), ObjectId(), "x")


def test_commit_in_the_place_of_a_certain_object(db: Database[Any]) -> None:
    old, other = put(db, "x"), put(db, "x")
    new = put(db, "x", status="writing", replaces=old)
    assert [info.id for info in search.find_objects(db["xarray.meta"])] == [old, other]
    for _ in range(2):
        objects.commit_object(*pair(db), new)
        assert [info.id for info in search.find_objects(db["xarray.meta"])] == [other, new]
    assert stored(db) == [other, new]
    late = put(db, "x", status="writing", replaces=old)
    with pytest.raises(Conflict, match="removed or replaced"):
        objects.commit_object(*pair(db), late)
    assert [info.id for info in search.find_objects(db["xarray.meta"])] == [other, new]


@pytest.mark.parametrize("round", range(5))
def test_many_take_the_place_of_one_object(db: Database[Any], round: int) -> None:
    old = put(db, "x")
    made = [put(db, "x", status="writing", replaces=old) for _ in range(THREADS)]
    failed = at_once(*(partial(objects.commit_object, *pair(db), id) for id in made))
    assert sum(error is None for error in failed) == 1
    assert all(isinstance(error, Conflict) for error in failed if error is not None)
    assert len(list(search.find_objects(db["xarray.meta"]))) == 1
    assert old not in stored(db)


class Watcher(monitoring.CommandListener):
    """Calls back before a command is sent, and after its answer has come, in the thread that sends it."""

    def __init__(
        self,
        before: Callable[[monitoring.CommandStartedEvent], object] = lambda event: None,
        after: Callable[[monitoring.CommandSucceededEvent], object] = lambda event: None,
    ) -> None:
        self.before, self.after = before, after

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.before(event)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self.after(event)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


def test_one_that_is_replaced_between_two_looks_is_replaced_once(db: Database[Any]) -> None:
    """The first writer removes the old object just when the second one has seen that it is there."""
    old = put(db, "x")
    first, second = (put(db, "x", status="writing", replaces=old) for _ in range(2))
    takes_away, has_looked, is_done = threading.Event(), threading.Event(), threading.Event()
    looks: dict[int, bool] = {}

    def wait_for_the_look(event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "findAndModify":
            takes_away.set()
            has_looked.wait(5)

    def note_the_look(event: monitoring.CommandStartedEvent) -> None:
        looks[event.request_id] = event.command_name == "find" and event.command["filter"].get("_id") == {"$eq": old}

    def let_it_be_removed(event: monitoring.CommandSucceededEvent) -> None:
        if looks.pop(event.request_id) and event.reply["cursor"]["firstBatch"]:
            seen.append(event.request_id)
            if len(seen) == 2:  # the first look is for its name
                has_looked.set()
                is_done.wait(5)

    seen: list[int] = []
    host, port = db.client.address or ("", 0)

    def replace(id: ObjectId, watcher: Watcher) -> None:
        with MongoClient[Any](host, port, event_listeners=[watcher]) as client:
            objects.commit_object(*pair(client[db.name]), id)

    def replace_first() -> None:
        replace(first, Watcher(before=wait_for_the_look))
        is_done.set()

    with ThreadPoolExecutor(1) as pool:
        earlier = pool.submit(replace_first)
        assert takes_away.wait(30)
        with pytest.raises(Conflict, match="replaced meanwhile"):
            replace(second, Watcher(before=note_the_look, after=let_it_be_removed))
        has_looked.set()
        earlier.result(30)
    assert [info.id for info in search.find_objects(db["xarray.meta"])] == [first]


@pytest.mark.parametrize("round", range(5))
def test_by_name_and_by_id_at_the_same_time(db: Database[Any], round: int) -> None:
    old = put(db, "x")
    by_id = [put(db, "x", status="writing", replaces=old) for _ in range(THREADS // 2)]
    by_name = [put(db, status="writing") for _ in range(THREADS // 2)]
    works = [partial(objects.commit_object, *pair(db), id) for id in by_id]
    works += [partial(objects.commit_object, *pair(db), id, "x") for id in by_name]
    random.Random(round).shuffle(works)
    failed = at_once(*works)
    assert all(isinstance(error, Conflict) for error in failed if error is not None)
    assert len(objects.find_holders(db["xarray.meta"], "x")) == 1
    assert len(list(search.find_objects(db["xarray.meta"]))) == 1


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_replacement_that_was_broken_off(db: Database[Any], steps: int) -> None:
    """Each of a chain is found alone, and the next one to take the name removes them all."""
    first = put(db, "x")
    second = put(db, "x", replaces=first, version=1)
    third = put(db, "x", replaces=second, version=1)
    if steps > 0:
        db["xarray.meta"].delete_one({"_id": first})
    if steps > 1:
        db["xarray.chunks"].delete_many({"meta_id": first})
    assert objects.resolve_id(db["xarray.meta"], "x") == third
    new = put(db, status="writing")
    objects.commit_object(*pair(db), new, "x")
    assert stored(db) == [new]


def test_what_was_replaced_is_not_found_again(db: Database[Any]) -> None:
    old = put(db, "a")
    new = put(db, "a", version=2, replaces=old)  # whoever replaced it did not live to remove it
    objects.delete_object(*pair(db), new)
    assert stored(db) == []


def test_the_renamed_one_takes_along_what_it_replaced(db: Database[Any]) -> None:
    old = put(db, "x")
    new = put(db, "x", replaces=old)
    objects.rename_object(*pair(db), new, "y")
    assert stored(db) == [new]


def test_an_object_that_was_renamed_before_it_was_removed_stays(db: Database[Any]) -> None:
    old = put(db, "saved")
    new = put(db, "x", replaces=old)
    objects.finish_replacement(*pair(db), new)
    assert sorted(info.name for info in search.find_objects(db["xarray.meta"])) == ["saved", "x"]
    assert stored(db) == [old, new]


def test_a_claim_of_one_that_died_is_in_nobodys_way(db: Database[Any]) -> None:
    put(db, "other", claims="x")
    one = put(db, status="writing")
    objects.commit_object(*pair(db), one, "x", on_conflict="refuse")
    assert objects.resolve_id(db["xarray.meta"], "x") == one


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("round", range(5))
@pytest.mark.parametrize("replica", [False, True])
def test_many_commit_one_name_at_the_same_time(mongo: Mongo, mongo_replica: Mongo, round: int, replica: bool) -> None:
    server = mongo_replica if replica else mongo
    with MongoClient[Any](server.url) as client:
        db = client[server.database()]
        put(db, "x")
        made = [put(db, status="writing") for _ in range(THREADS)]
        failed = at_once(*(partial(objects.commit_object, *pair(db), id, "x") for id in made))
        assert failed == [None] * THREADS
        (last,) = stored(db)
        assert objects.find_holders(db["xarray.meta"], "x") == [last]
        assert last in made


@pytest.mark.parametrize("round", range(5))
def test_many_want_a_name_that_only_one_can_have(db: Database[Any], round: int) -> None:
    made = [put(db, f"own{i}") for i in range(THREADS)]
    failed = at_once(*(partial(objects.rename_object, *pair(db), id, "x") for id in made))
    assert sum(error is None for error in failed) == 1
    assert all(isinstance(error, AlreadyExists) for error in failed if error is not None)
    assert len(objects.find_holders(db["xarray.meta"], "x")) == 1
    assert stored(db) == sorted(made)


@pytest.mark.parametrize("round", range(5))
def test_renames_replacements_and_deletions_at_the_same_time(db: Database[Any], round: int) -> None:
    rng = random.Random(round)
    made = [put(db, "x")] + [put(db, f"own{i}") for i in range(THREADS)]
    works: list[Callable[[], Any]] = []
    for id in made:
        works.append(partial(objects.rename_object, *pair(db), id, "x", replace=True))
        works.append(partial(objects.rename_object, *pair(db), id, f"new{id}"))
    works.append(partial(objects.delete_object, *pair(db), made[0]))
    rng.shuffle(works)
    for error in at_once(*works):
        assert error is None or isinstance(error, AlreadyExists | Conflict | DocumentNotFoundError)
    assert len(objects.find_holders(db["xarray.meta"], "x")) <= 1
    found = [info.name for info in search.find_objects(db["xarray.meta"])]
    assert len(set(found)) == len(found)
    assert stored(db) == sorted(info.id for info in search.find_objects(db["xarray.meta"]))
