"""Objects found by what they are: values are compared and never run, names are never paths."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import golden_documents as golden
import numpy as np
import pytest
from bson import ObjectId
from pymongo import MongoClient
from pymongo.database import Database

from hyperslab.errors import AlreadyExists, Conflict, Invalid, NotFound, WrongType
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix
from hyperslab.formats.mongo import objects, search
from hyperslab.formats.mongo.chunk_documents import DerivedIds
from hyperslab.formats.mongo.completeness import is_complete
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from servers.mongo import Mongo


def put(db: Database[Any], name: str | None = None, id: ObjectId | None = None, **fields: Any) -> ObjectId:
    doc: dict[str, Any] = {"coords": {}, "data_vars": {}, "chunkSize": 1, **fields}
    doc |= {} if name is None else {"name": name}
    doc |= {} if id is None else {"_id": id}
    found: ObjectId = db["xarray.meta"].insert_one(doc).inserted_id
    return found


def ids(db: Database[Any], *criteria: Any, **more: Any) -> list[ObjectId]:
    return [info.id for info in search.find_objects(db["xarray.meta"], *criteria, **more)]


def test_every_object_is_told_of(full: Database[Any]) -> None:
    infos = {info.id: info for info in search.find_objects(full["xarray.meta"])}
    cases = [*golden.cases(golden.REAL), *golden.cases(golden.SPECIFIED)]
    assert list(infos) == sorted(case._id for case in cases)
    for case in cases:
        info = infos[case._id]
        variables = {**case.meta["coords"], **case.meta["data_vars"]}
        assert (info.variables, info.name) == (tuple(variables), case.meta.get("name"))
        assert info.attrs == case.meta.get("attrs", {})
        assert info.kind == ("DataArray" if list(case.meta["data_vars"]) == ["__DataArray__"] else "Dataset")
        assert info.created == case._id.generation_time
        assert search.describe_object(full["xarray.meta"], case._id) == info
    basic = infos[golden.case("ds_basic")._id]
    assert (basic.dims, basic.nbytes, basic.status) == ({"x": 7, "y": 5}, 534, None)
    unknown = infos[golden.case("nan_chunks")._id]
    assert (unknown.dims, unknown.nbytes) == ({"dim_0": None}, None)
    assert infos[golden.case("BAD_object_pointers")._id].nbytes is None
    with pytest.raises(DocumentNotFoundError):
        search.describe_object(full["xarray.meta"], ObjectId())


def test_found_by_dimensions_variables_and_names(full: Database[Any]) -> None:
    basic, odd = golden.case("ds_basic")._id, golden.case("names_odd")._id
    assert basic in ids(full, dims={"x": 7, "y": None})
    assert ids(full, dims={"x": slice(7, 8), "y": {4, 5}}, names="scalar") == ids(full, dims=["y"], names=["scalar"])
    assert basic not in ids(full, dims={"x": slice(0, 6)})
    assert basic in ids(full, dims={"x": slice(0, 7)})
    for name in ("a.b", "$c", "", "é ✓"):
        assert ids(full, names=name) == [odd]
    assert ids(full, names=["a.b", "no"]) == []
    assert ids(full, name="dup") == [golden.case("DUP_future_computed_twice")._id]
    assert len(ids(full, name={"dup", "seg"})) == 2


ATTRS = {
    "text": "a",
    "number": 1,
    "truth": True,
    "nan": float("nan"),
    "list": ["a", 1],
    "dict": {"$gt": ""},
    "none": None,
    "a.b": 1,
    "$where": "1",
    "": "empty",
    "when": datetime(2020, 1, 1),
}


@pytest.mark.parametrize("name", ATTRS)
def test_what_is_equal_is_found(db: Database[Any], name: str) -> None:
    here, other = put(db, attrs=ATTRS), put(db, attrs={"other": ATTRS[name]})
    assert ids(db, {name: ATTRS[name]}) == ([here, other] if ATTRS[name] is None else [here])  # which is not set, too
    assert ids(db, {name: {"$gt": ""}}) == ([here] if name == "dict" else [])
    assert ids(db, {name: {"no", 2}}) == []


@pytest.mark.parametrize(
    "value",
    [{"$gt": ""}, {"$ne": None}, {"$exists": True}, {"$regex": ".*"}, {"$where": "true"}, {"$in": ["a"]}, {"$gt": 0}],
)
def test_a_query_is_a_value(db: Database[Any], value: Any) -> None:
    put(db, attrs={"text": "a", "a.b": "a", "number": 1}, name="a")
    for name in ("text", "a.b", "number"):
        assert ids(db, {name: value}) == []
    assert ids(db, name=value) == []
    with pytest.raises((NotFound, Invalid)):
        objects.resolve_id(db["xarray.meta"], value)
    literal = put(db, attrs={"text": value, "a.b": value})
    assert ids(db, {"text": value, "a.b": value}) == [literal]


@pytest.mark.parametrize("name", ["$where", "$or", "text.$gt", "a.b", "hyperslab.status", "0", "text.0"])
def test_a_name_is_no_path_and_no_operator(db: Database[Any], name: str) -> None:
    put(db, attrs={"text": ["a"], "a": {"b": "a"}, "hyperslab": {"status": "a"}})
    assert ids(db, {name: "a"}) == []
    assert ids(db, names=name) == []
    assert ids(db, dims=name) == []
    assert ids(db, {name: "a"}) == []
    mine = put(db, attrs={name: "a"})
    assert ids(db, {name: "a"}) == [mine]


def test_one_item_of_a_list_is_not_the_list(db: Database[Any]) -> None:
    several, _ = put(db, attrs={"k": ["a", 1]}), put(db, attrs={"k": "b"})
    assert ids(db, {"k": "a"}) == []
    assert ids(db, {"k": ("a", 1)}) == [several]
    assert ids(db, {"k": slice("a", "aa")}) == []


def test_truths_are_no_numbers(db: Database[Any]) -> None:
    truth, one, real = put(db, attrs={"k": True, "a.b": True}), put(db, attrs={"k": 1}), put(db, attrs={"k": 1.0})
    assert (ids(db, {"k": True}), ids(db, {"k": 1}), ids(db, {"a.b": 1})) == ([truth], [one, real], [])
    assert ids(db, {"k": np.int64(1)}) == [one, real]
    assert ids(db, {"k": slice(0, 1)}) == [one, real]


def test_ranges(db: Database[Any]) -> None:
    values = [1, 2.5, "b", datetime(2020, 1, 2), None]
    made = [put(db, attrs={"k": value, "a.b": value}) for value in values]
    for name in ("k", "a.b"):
        assert ids(db, {name: slice(1, 2.5)}) == made[:2]
        assert ids(db, {name: slice(1, 2.4)}) == made[:1]
        assert ids(db, {name: slice(1, None)}) == made[:2]
        assert ids(db, {name: slice(None, "c")}) == [made[2]]
        assert ids(db, {name: slice(datetime(2020, 1, 1), None)}) == [made[3]]
        assert ids(db, {name: slice(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 23))}) == []
        assert ids(db, {name: np.datetime64("2020-01-02")}) == [made[3]]


@pytest.mark.parametrize("name", ["k", "a.b"])
def test_the_conditions_of_collections(db: Database[Any], name: str) -> None:
    """Opposites, beginnings, patterns, choices and alternatives: what the server finds is what a look at all finds."""
    values = [
        "KEF",
        "KEX",
        "",
        "ke",
        "K.F",
        "a\0b",
        1,
        2.5,
        None,
        True,
        ["KEF"],
        [1, 2],
        {"KEF": 1},
        datetime(2020, 1, 2),
    ]
    made = [put(db, attrs={name: value}) for value in values]
    bare = put(db, attrs={"other": 1})

    def found(wanted: Any) -> list[Any]:
        several = wanted if isinstance(wanted, list) else [wanted]
        got = ids(db, [{name: each} for each in several])
        assert [*ids(db, [{name: each} for each in several], limit=3)] == got[:3]
        return [values[made.index(each)] if each != bare else "bare" for each in got]

    everything = [*values, "bare"]
    assert found(Prefix("K")) == ["KEF", "KEX", "K.F"] and found(Prefix("K.")) == ["K.F"]
    assert found(Prefix("a\0")) == ["a\0b"] and found(Prefix("")) == [each for each in values if isinstance(each, str)]
    assert found(Like("K?F")) == ["KEF", "K.F"] and found(Like("*E[!F]")) == ["KEX"] and found(Like("KEF")) == ["KEF"]
    assert found(Not("KEF")) == everything[1:]
    assert found(Not({"KEF", 1})) == [each for each in everything[1:] if each is True or each != 1]
    assert found(Not(Prefix("K"))) == [each for each in everything if not (isinstance(each, str) and each[:1] == "K")]
    assert found(Not(Not(Like("K*")))) == ["KEF", "KEX", "K.F"]
    assert found(Not(slice(1, 2))) == [each for each in everything if each is True or each != 1]
    assert found(None) == [None, "bare"] and found(Not(None)) == [each for each in values if each is not None]
    assert found(AnyOf([[1, 2], "ke"])) == ["ke", [1, 2]] and found(set()) == [] and found(Not(set())) == everything
    assert found(["KEF", slice(2, None)]) == ["KEF", 2.5] and found([Prefix("KE"), None]) == [
        "KEF",
        "KEX",
        None,
        "bare",
    ]
    assert ids(db, [{name: "KEF"}, {"other": 1}]) == [made[0], bare]
    assert ids(db, [{name: "KEF", "other": None}, {"other": slice(1, 1)}], limit=5) == [made[0], bare]
    assert ids(db, [{name: "KEF"}, {}]) == [*made, bare]
    assert ids(db, {name: "KEF", "other": Not(None)}) == []


def test_names_meet_conditions(db: Database[Any]) -> None:
    made = [put(db, name) for name in ("run-1", "run-2", "other")]
    assert ids(db, name=Prefix("run")) == made[:2] and ids(db, name=Not("run-1")) == made[1:]
    assert ids(db, name=Like("*2")) == [made[1]]


@pytest.mark.parametrize(
    "criteria",
    [
        {"attrs": {"k": slice(1, 2, 3)}},
        {"attrs": {"k": slice(None)}},
        {"attrs": []},
        {"attrs": [{"k": 1}, "k"]},
        {"attrs": {"k": 1 << 64}},
        {"attrs": {"k": object()}},
        {"attrs": {"k": {1: 2}}},
        {"attrs": {1: 2}},
        {"attrs": "k"},
        {"dims": [1]},
        {"names": [None]},
        {"since": "yesterday"},
        {"order": "size"},
    ],
)
def test_what_cannot_be_asked(db: Database[Any], criteria: Any) -> None:
    with pytest.raises((Invalid, WrongType)):
        search.find_objects(db["xarray.meta"], **criteria)


def test_moments_order_and_number(db: Database[Any]) -> None:
    days = [datetime(2024, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
    made = [put(db, name, ObjectId.from_datetime(day)) for name, day in zip("bca", days, strict=True)]
    assert ids(db, since="2024-01-02") == made[1:]
    assert ids(db, since=days[1], until=days[2]) == [made[1]]
    assert ids(db, until=np.datetime64("2024-01-02")) == made[:1]
    assert ids(db, since=days[0] + timedelta(hours=1), until=days[1].date()) == []
    assert ids(db, order="-created", limit=2) == [made[2], made[1]]
    assert ids(db, order="name") == [made[2], made[0], made[1]]
    assert ids(db, order="-name", skip=1) == [made[0], made[2]]
    assert ids(db, limit=0) == []


def test_what_is_being_made_or_replaced_is_not_found(db: Database[Any]) -> None:
    old = put(db, "x")
    new = put(db, "x", hyperslab={"replaces": old})
    making = put(db, "x", hyperslab={"status": "writing", "replaces": new})
    assert ids(db) == [new]
    assert objects.resolve_id(db["xarray.meta"], "x") == new
    assert objects.resolve_id(db["xarray.meta"], str(making)) == making
    assert search.describe_object(db["xarray.meta"], making).status == "writing"


@pytest.mark.parametrize(
    "doc", [{"hyperslab": 5}, {"attrs": 5, "coords": [], "data_vars": "x"}, {"data_vars": {"a": 5, "b": {}}}]
)
def test_documents_that_make_no_sense_are_told_of(db: Database[Any], doc: dict[str, Any]) -> None:
    db["xarray.meta"].insert_one({**doc})
    (info,) = search.find_objects(db["xarray.meta"])
    assert info.dims == {}


def test_ids_first_names_second(db: Database[Any]) -> None:
    first = put(db)
    second = put(db, str(first))
    hexadecimal = put(db, "ab" * 12)
    assert objects.resolve_id(db["xarray.meta"], str(first)) == first
    assert objects.resolve_id(db["xarray.meta"], first) == first
    assert objects.resolve_id(db["xarray.meta"], "ab" * 12) == hexadecimal
    db["xarray.meta"].delete_one({"_id": first})
    assert objects.resolve_id(db["xarray.meta"], str(first)) == second
    with pytest.raises(DocumentNotFoundError):
        objects.resolve_id(db["xarray.meta"], first)


def test_names_that_nobody_or_several_have(db: Database[Any]) -> None:
    made = [put(db, "temperature"), put(db, "temperature"), put(db, "wind")]
    with pytest.raises(Invalid, match=f"2 objects.*{made[0]}, {made[1]}"):
        objects.resolve_id(db["xarray.meta"], "temperature")
    with pytest.raises(NotFound, match="did you mean 'wind'"):
        objects.resolve_id(db["xarray.meta"], "wynd")


def test_delete_leaves_nothing_and_can_be_repeated(full: Database[Any]) -> None:
    case = golden.case("da_dask_2d")
    meta, chunks = full["xarray.meta"], full["xarray.chunks"]
    before = chunks.count_documents({})
    meta.delete_one({"_id": case._id})  # a deletion that was broken off
    assert objects.delete_object(meta, chunks, case._id) == len(case.chunks)
    assert objects.delete_object(meta, chunks, case._id) == 0
    assert chunks.count_documents({}) == before - len(case.chunks)


CASES = [*golden.cases(golden.REAL), *golden.cases(golden.SPECIFIED)]
SOUND = [case for case in CASES if not case.case.startswith(("BAD", "DUP"))]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("case", SOUND, ids=repr)
def test_a_copy_holds_the_same_documents(full: Database[Any], case: golden.Case) -> None:
    meta, chunks = full["xarray.meta"], full["xarray.chunks"]
    there = full["copy.meta"], full["copy.chunks"]
    new = objects.copy_object(meta, chunks, *there, case._id)
    doc = there[0].find_one({"_id": new}, {"_id": 0, "hyperslab": 0})
    assert repr(doc) == repr({field: value for field, value in case.meta.items() if field != "_id"})
    copied = [{**doc, "_id": 0, "meta_id": 0} for doc in there[1].find({"meta_id": new})]
    key = lambda doc: (doc["name"], doc["chunk"] or [], doc["n"])  # noqa: E731
    assert sorted(copied, key=key) == sorted(({**doc, "_id": 0, "meta_id": 0} for doc in case.chunks), key=key)
    assert is_complete(*there, new)


def test_copies_under_names(db: Database[Any], mongo_replica: Mongo) -> None:
    meta, chunks = db["xarray.meta"], db["xarray.chunks"]
    one = put(db, "a", hyperslab={"version": 7, "lease": {"owner": "x"}, "unlimited": ["t"]})
    chunks.insert_one({"_id": DerivedIds(one)("d", (0,), 0), "meta_id": one, "name": "d", "chunk": [0], "n": 0})
    with MongoClient[Any](mongo_replica.url) as client:
        other = client[mongo_replica.database()]
        new = objects.copy_object(meta, chunks, other["y.meta"], other["y.chunks"], one, name="b")
        assert objects.resolve_id(other["y.meta"], "b") == new
        assert (other["y.meta"].find_one() or {})["hyperslab"] == {"unlimited": ["t"], "version": 2}
        assert (other["y.chunks"].find_one() or {})["_id"] == DerivedIds(new)("d", (0,), 0)
        with pytest.raises(AlreadyExists, match=str(new)):
            objects.copy_object(meta, chunks, other["y.meta"], other["y.chunks"], one, name="b")
        assert other["y.meta"].count_documents({}) == other["y.chunks"].count_documents({}) == 1
        newer = objects.copy_object(
            meta, chunks, other["y.meta"], other["y.chunks"], one, name="b", on_conflict="replace"
        )
        assert [row["_id"] for row in other["y.meta"].find()] == [newer]
        assert other["y.chunks"].distinct("meta_id") == [newer]
    with pytest.raises(DocumentNotFoundError):
        objects.copy_object(meta, chunks, meta, chunks, ObjectId())


def test_an_object_that_changes_is_not_copied(db: Database[Any]) -> None:
    meta, chunks = db["xarray.meta"], db["xarray.chunks"]
    one = put(db, "a")

    class Changing:
        """A collection of chunks that are read while the object is changed."""

        def with_options(self, **options: Any) -> Changing:
            return self

        def find(self, query: Any) -> Iterator[Any]:
            meta.update_one({"_id": one}, {"$set": {"attrs": {"k": 1}}})
            return iter(())

    changing: Any = Changing()
    with pytest.raises(Conflict, match="changed"):
        objects.copy_object(meta, changing, meta, chunks, one)
    assert ids(db) == [one]
    assert meta.count_documents({}) == 1
