"""Databases that grow: look-ups cost what they find, whatever else is stored, by the server's own count of its work."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.monitoring import CommandListener

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.errors import Invalid, NotFound
from hyperslab.mongo import XarrayMongoDB

sys.path.insert(0, str(Path(__file__).parents[2]))
from servers.mongo import Mongo, Work, watched_work

META, CHUNKS = "xarray.meta", "xarray.chunks"
SEARCH = [
    "name_1__id_1",
    *(f"hyperslab.{field}_1" for field in ("claims", "status", "replaces", "lineage", "putting", "undo")),
]
MANY = 300
# More than any look-up below may examine, and less than a scan of all does.
FEW = 30


def small(value: int = 0) -> xr.Dataset:
    attrs = {"station": f"s{value % 10}", "number": value, "list": [value, value + 1]}
    return xr.Dataset({"v": ("x", np.arange(3.0) + value)}, attrs=attrs)


def fill(database: Database[Any], count: int = MANY) -> None:
    """Put copies of one object under other names and ids, as it is stored."""
    first, _ = XarrayMongoDB(database, search_index="station").put(small(), name="n0")
    document = database[META].find_one({"_id": first})
    assert document is not None
    database[META].insert_many(
        [{**document, "_id": ObjectId(), "name": f"n{value}", "attrs": small(value).attrs} for value in range(1, count)]
    )


def indexes(database: Database[Any], collection: str = META) -> set[str]:
    return set(database[collection].index_information()) - {"_id_"}


def url_of(database: Database[Any], mongo: Mongo) -> str:
    return f"{mongo.url}/{database.name}"


@pytest.fixture
def grown(database: Database[Any]) -> Database[Any]:
    fill(database)
    return database


def scans(work: list[Work]) -> list[Work]:
    """Commands for which the server looked at more than a look-up may."""
    assert work
    return [one for one in work if one.documents > FEW or one.keys > FEW or "COLLSCAN" in one.plan or one.sorts]


# -- who makes which --------------------------------------------------------------------------------------------------


def test_the_first_put_makes_them(database: Database[Any]) -> None:
    XarrayMongoDB(database).put(small())
    assert indexes(database) == set(SEARCH)
    assert indexes(database, CHUNKS) == {"meta_id_1_name_1_chunk_1"}


def test_the_first_object_of_save_makes_them(database: Database[Any], mongo: Mongo) -> None:
    hs.save(f"{url_of(database, mongo)}#one", small(), search_index=["station", "number"])
    assert indexes(database) == {*SEARCH, "attrs.station_1__id_1", "attrs.number_1__id_1"}


@pytest.mark.parametrize("how", ["put", "save"])
def test_none_are_made_if_none_are_wanted(database: Database[Any], mongo: Mongo, how: str) -> None:
    if how == "put":
        XarrayMongoDB(database, search_index=False).put(small(), name="one")
    else:
        hs.save(f"{url_of(database, mongo)}#one", small(), search_index=False)
    assert indexes(database) == set()
    assert XarrayMongoDB(database).get("one").equals(small())


@pytest.mark.parametrize("wanted", [["a.b"], ["$where"], [1], 3, [""]])
def test_an_index_that_cannot_be(database: Database[Any], mongo: Mongo, wanted: Any) -> None:
    with pytest.raises(Invalid):
        XarrayMongoDB(database, search_index=wanted)
    with pytest.raises(Invalid):
        hs.save(f"{url_of(database, mongo)}#one", small(), search_index=wanted)
    assert database.list_collection_names() == []


def test_readers_make_none(database: Database[Any], mongo: Mongo) -> None:
    XarrayMongoDB(database, search_index=False).put(small(), name="one")
    xdb = XarrayMongoDB(database)
    assert [xdb.get("one").equals(small()), len(xdb.list())] == [True, 1]
    assert hs.open(f"{url_of(database, mongo)}#one")["v"].shape == (3,)
    assert CliRunner().invoke(main, ["doctor", url_of(database, mongo)]).exit_code == 0
    assert indexes(database) == set()


def test_a_copy_makes_them_where_it_goes(database: Database[Any]) -> None:
    here, there = XarrayMongoDB(database, search_index=False), XarrayMongoDB(database, "other")
    here.put(small(), name="one")
    here.copy("one", there)
    assert (indexes(database), indexes(database, "other.meta")) == (set(), set(SEARCH))


def test_an_index_of_somebody_else_serves(database: Database[Any]) -> None:
    database[META].create_index([("name", 1), ("_id", 1)], name="theirs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        XarrayMongoDB(database).put(small(), name="one")
    assert indexes(database) == {"theirs", *SEARCH[1:]}


def test_a_name_that_another_index_has(database: Database[Any]) -> None:
    """It can be made under no name of ours: the put succeeds, with a warning."""
    database[META].create_index("attrs.other", name=SEARCH[0])
    with pytest.warns(UserWarning, match=r"xarray\.meta lacks indexes .*hyperslab db index"):
        XarrayMongoDB(database).put(small(), name="one")
    assert XarrayMongoDB(database).get("one").equals(small())


@pytest.mark.sampled(0)
def test_a_writer_who_may_make_no_index(guarded: Mongo) -> None:
    with MongoClient[Any](guarded.admin) as admin:
        name = guarded.database()
        actions = ["find", "insert", "update", "remove", "listIndexes", "collStats"]
        privileges = [{"resource": {"db": name, "collection": ""}, "actions": actions}]
        admin[name].command("createRole", f"writer-{name}", privileges=privileges, roles=[])
        url = guarded.user(f"w-{name}", {"role": f"writer-{name}", "db": name})
        with MongoClient[Any](url) as client, pytest.warns(UserWarning, match="refuses this user.*hyperslab db index"):
            xdb = XarrayMongoDB(client[name])
            xdb.put(small(), name="one")
            assert xdb.get("one").equals(small())
        place = url.replace("/?", f"/{name}?")
        refused = CliRunner().invoke(main, ["db", "index", place])
        assert refused.exit_code != 0 and "refuses this user" in refused.stderr
        made = CliRunner().invoke(main, ["db", "index", guarded.admin.replace("/?", f"/{name}?")])
        assert made.exit_code == 0, made.output
        with MongoClient[Any](url) as client, warnings.catch_warnings():
            warnings.simplefilter("error")
            XarrayMongoDB(client[name]).put(small(), name="two")


def test_doctor_tells_and_db_index_makes(grown: Database[Any], mongo: Mongo) -> None:
    def states(*arguments: str) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*arguments, url_of(grown, mongo), "--json"])
        assert result.exit_code == 0, result.output
        return {one["name"]: one for one in json.loads(result.stdout)["indexes"]}

    grown[META].drop_indexes()
    missing = {name for name, one in states("doctor").items() if not one["is_present"] and not one["is_optional"]}
    assert missing == set(SEARCH)
    assert f"all {MANY} objects" in states("doctor")[SEARCH[0]]["cost"]
    said = CliRunner().invoke(main, ["doctor", url_of(grown, mongo)])
    assert f"hyperslab db index {url_of(grown, mongo)}" in said.stderr
    assert states("db", "index", "--attr", "number", "--positional")["attrs.number_1__id_1"]["is_present"]
    assert all(one["is_present"] for one in states("doctor").values())
    assert "makes those that are missing" not in CliRunner().invoke(main, ["doctor", url_of(grown, mongo)]).stderr


# -- what look-ups cost -----------------------------------------------------------------------------------------------


def test_by_name(grown: Database[Any], mongo: Mongo) -> None:
    with watched_work(grown, META) as work:
        assert XarrayMongoDB(grown).get("n7").attrs["number"] == 7
    assert not scans(work)
    assert sum(one.documents for one in work) == 2  # its name, then all of it
    with watched_work(grown, META) as work:
        assert hs.open(f"{url_of(grown, mongo)}#n8").attrs["number"] == 8
    assert not scans(work)


def test_a_name_that_none_has(grown: Database[Any], mongo: Mongo) -> None:
    grown[META].update_many({"attrs.number": {"$gte": 20}}, {"$unset": {"name": 1}})
    with watched_work(grown, META) as work, pytest.raises(NotFound, match="n7"):
        hs.open(f"{url_of(grown, mongo)}#n7x")
    assert sum(one.documents for one in work) == 0
    with watched_work(grown, META) as work:
        hs.save(f"{url_of(grown, mongo)}#new", small())
    assert not scans(work)


@pytest.mark.parametrize("order", ["created", "-created", "name", "-name"])
def test_the_first_ten(grown: Database[Any], order: Any) -> None:
    with watched_work(grown, META) as work:
        found = [info.attrs["number"] for info in XarrayMongoDB(grown).find(order=order, limit=10)]
    by_name = sorted(range(MANY), key=lambda value: f"n{value}")
    numbers = [*range(MANY)] if "created" in order else by_name
    assert found == (numbers[::-1] if order.startswith("-") else numbers)[:10]
    assert not scans(work)
    assert sum(one.documents for one in work) == 10
    assert {one.plan for one in work} >= {"IXSCAN { _id: 1 }" if "created" in order else "IXSCAN { name: 1, _id: 1 }"}


def test_by_an_attribute_with_an_index(grown: Database[Any]) -> None:
    grown[META].update_one({"attrs.number": 15}, {"$set": {"attrs.station": ["s5", "s6"]}})
    xdb = XarrayMongoDB(grown)
    with watched_work(grown, META) as work:
        newest = [info.attrs["number"] for info in xdb.find({"station": "s5"}, order="-created", limit=3)]
    assert newest == [MANY - 5, MANY - 15, MANY - 25]
    assert not scans(work)
    assert sum(one.documents for one in work) == 3
    with watched_work(grown, META) as work:
        assert len(list(xdb.find({"station": "s5"}))) == MANY // 10 - 1  # a list is not one of its items
    assert sum(one.documents for one in work) == MANY // 10


def test_by_what_only_the_client_compares(grown: Database[Any]) -> None:
    """The size of a dimension, a list: documents are read in order until there are enough, and never sorted."""
    xdb = XarrayMongoDB(grown)
    for criteria in ({"dims": {"x": 3}}, {"attrs": {"list": [5, 6]}}):
        with watched_work(grown, META) as work:
            assert len(list(xdb.find(**criteria, limit=1))) == 1
        assert "IXSCAN { _id: 1 }" in {one.plan for one in work}
        assert not any(one.sorts for one in work)


def test_limit_and_skip_are_those_of_the_result(grown: Database[Any]) -> None:
    """Also where an object is hidden that another one has replaced."""
    replaced = grown[META].find_one({"name": "n2"})
    assert replaced is not None
    grown[META].update_one({"name": "n1"}, {"$set": {"hyperslab": {"replaces": replaced["_id"]}}})
    xdb = XarrayMongoDB(grown)
    for skip in range(4):
        for criteria in ({}, {"dims": "x"}):  # which the server, and the client counts
            found = [info.name for info in xdb.find(**criteria, skip=skip, limit=3)]
            assert found == ["n0", "n1", "n3", "n4", "n5", "n6", "n7"][skip : skip + 3]


def test_new_names_are_claimed_by_index(grown: Database[Any], mongo: Mongo) -> None:
    with watched_work(grown, META) as work:
        XarrayMongoDB(grown).put(small(), name="another")
        XarrayMongoDB(grown).put(small(), name="another", replace=True)
        XarrayMongoDB(grown).rename("another", "third")
        XarrayMongoDB(grown).delete("third")
        hs.save(f"{url_of(grown, mongo)}#fourth", small())
    assert not scans(work)


def test_names_of_a_collection_are_listed_without_documents(grown: Database[Any], mongo: Mongo) -> None:
    root = hs.open(url_of(grown, mongo))
    with watched_work(grown, META) as work:
        assert len(list(root)) == MANY
    assert sum(one.documents for one in work) == 0


# -- what chunks cost -------------------------------------------------------------------------------------------------


def grid(positional: Any, database: Database[Any], side: int = 8) -> tuple[ObjectId, XarrayMongoDB]:
    """Put an array of side x side chunks that lie under ids of no meaning."""
    xdb = XarrayMongoDB(database, positional_index=positional, embed_threshold_bytes=0)
    cells = da.from_array(np.arange(4.0 * side * side).reshape(2 * side, 2 * side), chunks=(2, 2))
    id, future = xdb.put(xr.Dataset({"v": (("y", "x"), cells)}), name="grid")
    future.compute(scheduler="sync")
    return id, xdb


@pytest.mark.parametrize("positional", [True, "unique"])
def test_one_chunk_by_one_key(database: Database[Any], mongo: Mongo, positional: Any) -> None:
    id, xdb = grid(positional, database)
    lazy = xdb.get(id)["v"]
    with watched_work(database, CHUNKS) as work:
        assert float(lazy[6, 9].compute(scheduler="sync")) == 6 * 16 + 9
    assert [(one.keys, one.documents) for one in work if one.documents] == [(1, 1)]
    part = hs.open(f"{url_of(database, mongo)}#grid")["v"]
    part[0, 0]
    with watched_work(database, CHUNKS) as work:
        assert part[4:8, 4:8].sum() == np.arange(256.0).reshape(16, 16)[4:8, 4:8].sum()
    # A box of 2 x 2 chunks: at the end of each row of them, and of the box, the server looks at one key more.
    assert [one.documents for one in work] == [4]
    assert work[0].keys <= 2 * (2 + 1) + 1


def test_without_the_positional_index(database: Database[Any], mongo: Mongo) -> None:
    """The same cells, found by the index that every driver makes."""
    id, xdb = grid(False, database)
    with watched_work(database, CHUNKS) as work:
        assert float(xdb.get(id)["v"][6, 9].compute(scheduler="sync")) == 6 * 16 + 9
    assert {one.documents for one in work} >= {15}
    assert hs.open(f"{url_of(database, mongo)}#grid")["v"][4:8, 4:8].shape == (4, 4)


class Commands(CommandListener):
    """The commands that were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def started(self, event: Any) -> None:
        self.sent.append((event.command_name, event.command))

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


def test_check_and_collect_take_documents_as_they_go(grown: Database[Any], mongo: Mongo) -> None:
    """In batches, whatever they are; and one look at the server's clock each."""
    commands = Commands()
    with MongoClient[Any](mongo.url, event_listeners=[commands]) as client:
        xdb = XarrayMongoDB(client[grown.name])
        assert not xdb.check()
        assert not xdb.collect_garbage(dry_run=True).orphans
    assert [name for name, _ in commands.sent].count("hello") <= 2 + 1  # one by which chunks without an object are old
    of_objects = [command for name, command in commands.sent if name == "find" and not command["filter"].get("_id")]
    assert all(command.get("batchSize", 101) <= 101 for command in of_objects)
    assert len([name for name, _ in commands.sent if name == "getMore"]) >= MANY // 10 + MANY // 100 - 2
