"""Schemas that change: attributes that a collection with arrays gets, loses or has renamed, and collections that get
another name."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    Collection,
    DimensionSchema,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import (
    AlreadyExists,
    ClientError,
    CollectionNotFound,
    Conflict,
    FormatError,
    Invalid,
    ReadOnly,
    SchemaError,
    Unsupported,
)
from hyperslab.model.schemas.arrays import new_id
from hyperslab.stores.location import Location

DIMENSIONS = [DimensionSchema("x", 4), DimensionSchema("y", 6)]
KEY = [AttributeSchema("day", int, primary=True), AttributeSchema("note", str, primary=False)]
QUALITY = AttributeSchema("quality", int, primary=False, default=3)


def make(client: Client, name: str = "air", **options: Any) -> Collection:
    """Make a collection with ten arrays."""
    collection = client.create_collection(name, ArraySchema(DIMENSIONS, np.float32, KEY), **options)
    for day in range(10):
        array = collection.create({"day": day}, {"note": f"n{day}"})
        array[:].update(np.full((4, 6), day, np.float32))
    return collection


@pytest.fixture(params=["stored", "memory"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"index": request.param}


def test_each_reason_against_a_new_attribute_is_told_by_itself(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        with pytest.raises(SchemaError, match="'note' already"):
            collection.add_attribute(AttributeSchema("note", str, primary=False))
        with pytest.raises(SchemaError, match="'new' is primary"):
            collection.add_attribute(AttributeSchema("new", int, primary=True))
        with pytest.raises(SchemaError, match="'new' has no default"):
            collection.add_attribute(AttributeSchema("new", int, primary=False))


def test_a_copy_of_one_collection_is_that_collection(tmp_path: Path) -> None:
    with Client(tmp_path / "from.db") as client:
        make(client)
        make(client, "sea")
    for place, path in ((tmp_path / "from.db", "air"), (tmp_path / "from.db" / "collections" / "air", None)):
        with pytest.raises(Unsupported, match="one collection") as caught:
            hs.convert(place, tmp_path / "lost.db", format="collections", path=path)
        assert "variables='air/**'" in str(caught.value)
    hs.convert(tmp_path / "from.db", tmp_path / "copy.db", format="collections", variables="air/**", verify=True)
    with Client(tmp_path / "copy.db", mode="r") as client:
        assert [collection.name for collection in client] == ["air"]
        found = client.get_collection("air")
        assert found is not None
        assert len(found) == 10
        assert found.filter({"day": 7}).first().custom_attributes == {"note": "n7"}


def test_all_arrays_have_an_attribute_that_is_added(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as client:
        collection = make(client, **options)
        assert len(collection.query(day=(2, 4))) == 3
        collection.add_attribute(QUALITY)
        assert [each.name for each in collection.schema.attributes] == ["day", "note", "quality"]
        assert len(collection.query(quality=3)) == 10
        collection.create({"day": 10}, {"quality": 9})
        collection.create({"day": 11})
        collection.get(day=4).update_custom_attributes({"quality": 5})
        assert [array.primary_attributes["day"] for array in collection.query(quality=(4, None))] == [4, 10]
        assert [array.primary_attributes["day"] for array in collection.query(order="-quality", limit=2)] == [10, 4]
        assert collection.get(day=11).custom_attributes == {"note": None, "quality": 3}
        assert collection.get(day=4)[0, 0].read() == 4
    with Client(tmp_path, mode="r") as client:
        again = client.get_collection("air")
        assert again is not None
        assert len(again.query(quality=3)) == 10
        assert again.get(day=4).custom_attributes == {"note": "n4", "quality": 5}
        assert again.schema == collection.schema
    assert not hs.check(tmp_path)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, "öl"),
        (float, float("nan")),
        (float, -0.5),
        (complex, 1 - 2j),
        (tuple, (1, "a", (2.5,))),
        (datetime, datetime(2026, 1, 2, 3, tzinfo=UTC)),
        (np.int16, 7),
        (int, None),
    ],
    ids=str,
)
def test_a_default_is_stored_and_read(tmp_path: Path, kind: type, value: object) -> None:
    with Client(tmp_path) as client:
        collection = make(client, strict=False)
        collection.add_attribute(AttributeSchema("added", kind, primary=False, default=value))
        schema = collection.schema
        copied = client.collection_from_dict({**collection.as_dict, "name": "copy"})
    with Client(tmp_path, mode="r") as client:
        again = client.get_collection("air")
        assert again is not None and again.schema == schema == copied.schema
        got = again.first().custom_attributes["added"]
        assert got == value or (got != got and value != value)
        assert len(again.query(added=value)) == 10


def test_who_has_the_collection_open_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    """Another client sees the attribute, and what it changes keeps the values of it."""
    with Client(tmp_path) as one, Client(tmp_path) as other:
        make(one, **options)
        theirs = other.get_collection("air")
        assert theirs is not None
        known = theirs.get(day=1)
        assert len(theirs.query(day=1)) == 1
        ours = one.get_collection("air")
        assert ours is not None
        ours.add_attribute(QUALITY)
        ours.get(day=1).update_custom_attributes({"quality": 8})
        known.update_custom_attributes({"note": "changed"})
        assert ours.get(day=1).custom_attributes == {"note": "changed", "quality": 8}
        assert len(theirs.query(quality=8)) == 1
        theirs.create({"day": 20}, {"quality": 1})
        assert pickle.loads(pickle.dumps(theirs)).get(day=20).custom_attributes["quality"] == 1
        assert [array.primary_attributes["day"] for array in ours.query(quality=1)] == [20]


def test_a_store_with_the_old_schema_keeps_new_values(tmp_path: Path) -> None:
    """It was read before, and writes after: values of attributes that it does not know stay as they are."""
    with Client(tmp_path) as client, Client(tmp_path) as late:
        collection = make(client)
        known = late.get_collection("air")
        assert known is not None
        store = known._collection.store
        id = known.get(day=2).id
        collection.add_attribute(QUALITY)
        collection[id].update_custom_attributes({"quality": 8})
        index = tmp_path / "collections" / "air" / "index.sqlite"
        before = index.stat().st_ino if index.exists() else None
        store.update(id, lambda record: type(record)(record.id, record.primary, {"note": "late"}))
        assert collection[id].custom_attributes == {"note": "n2", "quality": 8} | {"note": "late"}
        assert [array.id for array in collection.query(note="late")] == [id]
        if before is not None:  # it was left alone
            assert index.stat().st_ino == before


def test_attributes_are_added_one_after_another(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as client:
        collection = make(client, **options)
        for number in range(9):
            collection.add_attribute(AttributeSchema(f"a{number}", int, primary=False, default=number))
        assert all(len(collection.query({f"a{number}": number})) == 10 for number in range(9))


def test_the_index_is_not_made_anew(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        if collection._collection.store.index_database is None:
            pytest.skip("this file system has no stored index")
        assert len(collection.query(day=1)) == 1
        file = tmp_path / "collections" / "air" / "index.sqlite"
        before = file.stat().st_ino
        collection.add_attribute(QUALITY)
        assert len(collection.query(quality=3)) == 10
        assert file.stat().st_ino == before
    with Client(tmp_path) as client:  # which has not opened the index yet
        collection = client.get_collection("air")
        assert collection is not None
        collection.add_attribute(AttributeSchema("more", int, primary=False, default=1))
        assert len(collection.query(more=1)) == 10
        assert file.stat().st_ino == before


def test_the_index_goes_on_while_a_reader_of_the_same_process_has_it_open(tmp_path: Path) -> None:
    """Whoever opens the file first does not decide whether the others may write into it."""
    with Client(tmp_path) as client, Client(tmp_path, mode="r") as reader:
        collection = make(client)
        if collection._collection.store.index_database is None:
            pytest.skip("this file system has no stored index")
        known = reader.get_collection("air")
        assert known is not None
        assert len(collection.query(note="n1")) == len(known.query(note="n1")) == 1
        collection.add_attribute(QUALITY)  # which lets go of the file
        assert len(known.query(quality=3)) == 10  # the first one to open it anew
        collection.create({"day": 20}, {"quality": 8})
        assert collection.index_state().stale == 0
        assert len(known.query(quality=8)) == 1
        collection.add_attribute(AttributeSchema("more", int, primary=False, default=1))
        assert known.index_state().stale == 0
        with Client(tmp_path, mode="r") as late:
            again = late.get_collection("air")
            assert again is not None
            assert again.index_state().stale == 0 and len(again.query(more=1)) == 11


# -- attributes that are removed and renamed --------------------------------------------------------------------------


def test_an_attribute_is_renamed(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as client:
        collection = make(client, **options)
        held = collection.get(day=4)
        assert len(collection.query(note="n3")) == 1
        collection.rename_attribute("note", "remark")
        assert [each.name for each in collection.schema.attributes] == ["day", "remark"]
        assert [array.primary_attributes["day"] for array in collection.query(remark="n3")] == [3]
        assert held.custom_attributes == {"remark": "n4"}
        held.update_custom_attributes({"remark": "changed"})
        collection.create({"day": 10}, {"remark": "new"})
        assert [array.primary_attributes["day"] for array in collection.query(order="remark", limit=1)] == [4]
        with pytest.raises(SchemaError, match="remark"):
            collection.query(note="n3")
    with Client(tmp_path, mode="r") as client:
        again = client.get_collection("air")
        assert again is not None
        assert [array.primary_attributes["day"] for array in again.query(remark="new")] == [10]
        assert again.get(day=4).custom_attributes == {"remark": "changed"}
        assert again.get(day=4)[0, 0].read() == 4
        assert dict(hs.open(tmp_path)[f"air/{again.get(day=4).id}"].attrs)["custom_attributes"] == {"remark": "changed"}
    assert not hs.check(tmp_path)


def test_an_attribute_is_removed(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as client:
        collection = make(client, **options)
        assert len(collection.query(note="n3")) == 1
        held = collection.get(day=4)
        collection.remove_attribute("note")
        assert [each.name for each in collection.schema.attributes] == ["day"]
        assert held.custom_attributes == {} and len(collection) == 10
        with pytest.raises(SchemaError, match="note"):
            collection.query(note="n3")
        collection.create({"day": 10})
        collection.add_attribute(AttributeSchema("note", int, primary=False, default=7))
        assert len(collection.query(note=7)) == 11
        held.update_custom_attributes({"note": 1})
        assert [array.primary_attributes["day"] for array in collection.query(note=1)] == [4]
    with Client(tmp_path, mode="r") as client:
        again = client.get_collection("air")
        assert again is not None
        assert (len(again.query(note=7)), len(again.query(note=1))) == (10, 1)
    assert not hs.check(tmp_path)


def test_the_key_and_the_times_that_start_at_it_are_renamed(tmp_path: Path) -> None:
    dims = [TimeDimensionSchema("time", 3, "$dt", timedelta(hours=1)), DimensionSchema("x", 2)]
    keys = [AttributeSchema("dt", datetime, primary=True), AttributeSchema("level", int, primary=True)]
    start = datetime(2026, 1, 2, tzinfo=UTC)
    with Client(tmp_path) as client, Client(tmp_path) as other:
        collection = client.create_collection("air", ArraySchema(dims, float, keys))
        array = collection.create({"dt": start, "level": 1})
        array["2026-01-02T01:00"].update(5)
        theirs = other.get_collection("air")
        assert theirs is not None
        theirs_array = theirs.first()
        collection.rename_attribute("dt", "valid_from")
        collection.rename_attribute("level", "height")
        assert collection.schema.time_dimensions[0].start_value == "$valid_from"
        for one in (array, theirs_array):
            assert one["2026-01-02T01:00", 0].read() == 5
        assert collection.get(valid_from=start, height=1) == array
        with pytest.raises(AlreadyExists):
            collection.create({"valid_from": start, "height": 1})
        assert theirs.get(valid_from=start, height=1) == array
        with pytest.raises(SchemaError, match="start at"):
            collection.remove_attribute("valid_from")
        with pytest.raises(SchemaError, match="primary"):
            collection.remove_attribute("height")
    assert not hs.check(tmp_path)


def test_who_has_the_collection_open_goes_on_with_other_attributes(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as one, Client(tmp_path) as other:
        ours = make(one, **options)
        theirs = other.get_collection("air")
        assert theirs is not None
        known = theirs.get(day=1)
        ours.add_attribute(QUALITY)
        ours.rename_attribute("note", "remark")
        ours.remove_attribute("quality")
        known.update_custom_attributes({"remark": "late"})
        assert [array.primary_attributes["day"] for array in theirs.query(remark="late")] == [1]
        assert ours.get(day=1).custom_attributes == known.custom_attributes == {"remark": "late"}
        assert pickle.loads(pickle.dumps(theirs)).get(day=2).custom_attributes == {"remark": "n2"}


def test_what_was_found_before_has_the_names_of_now(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        found, walked = collection.query(day=(2, 4)), iter(collection)
        assert [array.custom_attributes for array in found[:1]] == [{"note": "n2"}]
        assert next(walked).custom_attributes == {"note": "n0"}
        collection.rename_attribute("note", "remark")
        collection.add_attribute(QUALITY)
        wanted = [{"remark": f"n{day}", "quality": 3} for day in (2, 3, 4)]
        assert [array.custom_attributes for array in found] == wanted
        assert found[1:][0].custom_attributes == found[1].custom_attributes == wanted[1]
        assert next(walked).custom_attributes == {"remark": "n1", "quality": 3}
        stacked = found.to_xarray(stack="day")
        assert (stacked.remark.values.tolist(), stacked.quality.values.tolist()) == (["n2", "n3", "n4"], [3, 3, 3])


def test_a_store_with_the_old_schema_writes_what_the_new_one_reads(tmp_path: Path) -> None:
    """What it knows keeps its name in documents, and a new attribute of an old name is another one."""
    with Client(tmp_path) as client, Client(tmp_path) as late:
        collection = make(client)
        known = late.get_collection("air")
        assert known is not None
        store, id = known._collection.store, known.get(day=2).id
        collection.rename_attribute("note", "remark")
        collection.add_attribute(AttributeSchema("note", int, primary=False, default=1))
        collection[id].update_custom_attributes({"note": 5})
        store.update(id, lambda record: type(record)(record.id, record.primary, {"note": "late"}))
        assert collection[id].custom_attributes == {"remark": "late", "note": 5}
        assert [array.id for array in collection.query(remark="late", note=5)] == [id]
        with pytest.raises(CollectionNotFound, match="schema"):
            store.create([type(store.record(id))(new_id(), {"day": 50}, {"note": "made late"})])
        assert len(collection) == 10
    assert not hs.check(tmp_path)


def test_the_index_stays_when_attributes_are_renamed_or_removed(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        if collection._collection.store.index_database is None:
            pytest.skip("this file system has no stored index")
        file = tmp_path / "collections" / "air" / "index.sqlite"
        before = file.stat().st_ino
        collection.rename_attribute("note", "remark")
        collection.add_attribute(QUALITY)
        collection.remove_attribute("remark")
        assert len(collection.query(quality=3)) == 10
        assert file.stat().st_ino == before
        state = collection.index_state()
        assert state.stale == 0


def test_older_states_have_the_present_names(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client, keep_versions=True)
        array = collection.get(day=3)
        then = array.changes()[-1]
        array.update_custom_attributes({"note": "later"})
        collection.rename_attribute("note", "remark")
        past = client.get_collection("air", at=then)
        assert past is not None
        assert past.get(day=3).custom_attributes == {"remark": "n3"}
        assert len(past.query(remark="n3")) == 1


def test_a_copy_has_the_names_of_the_schema_alone(tmp_path: Path) -> None:
    with Client(tmp_path / "a") as client:
        collection = make(client)
        collection.rename_attribute("note", "remark")
        document = collection.as_dict
        assert "stored_attributes" in document
        assert "stored_attributes" not in client.collection_from_dict({**document, "name": "copy"}).as_dict
    hs.convert(tmp_path / "a", tmp_path / "b", format="collections")
    with Client(tmp_path / "b") as client:
        copied = client.get_collection("air")
        assert copied is not None and "stored_attributes" not in copied.as_dict
        assert copied.get(day=2).custom_attributes == {"remark": "n2"}


@pytest.mark.parametrize(
    ("kind", "value"), [(str, "XX"), (float, float("nan")), (tuple, (1, "a")), (int, None)], ids=str
)
def test_a_copy_and_its_source_have_the_defaults_of_attributes_that_were_added(
    tmp_path: Path, kind: type, value: object
) -> None:
    source, copy = tmp_path / "from.db", tmp_path / "copy.db"
    with Client(source) as client:
        collection = make(client)
        collection.rename_attribute("note", "remark")
        collection.add_attribute(AttributeSchema("added", kind, primary=False, default=value))
    documents = {path: path.read_bytes() for path in source.rglob("zarr.json")}
    hs.convert(source, copy, format="collections", verify=True)
    assert not hs.diff(source, copy)
    assert documents == {path: path.read_bytes() for path in source.rglob("zarr.json")}
    assert not hs.check(source) and not hs.check(copy)


def test_a_name_that_comes_back_leaves_the_document_as_it_was(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        before = collection.as_dict
        collection.rename_attribute("note", "remark")
        collection.rename_attribute("remark", "note")
        assert collection.as_dict == before


def test_changes_of_attributes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        before = collection.as_dict
        for name, new_name in (("note", "day"), ("none", "other"), ("note", ""), ("note", "note")):
            with pytest.raises(SchemaError):
                collection.rename_attribute(name, new_name)
        for name in ("day", "none"):
            with pytest.raises(SchemaError):
                collection.remove_attribute(name)
        assert collection.as_dict == before
        deker = make(client, "old", layout="deker")
        with pytest.raises(Unsupported, match="hyperslab"):
            deker.remove_attribute("note")
        with pytest.raises(Unsupported, match="hyperslab"):
            deker.rename_attribute("note", "remark")
    with Client(tmp_path, mode="r") as client, pytest.raises(ReadOnly):
        client.get_collection("air").remove_attribute("note")


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:1],
        lambda stored: [*stored, stored[0]],
        lambda stored: [{**each, "now": "x"} for each in stored],
        lambda stored: [{key: value for key, value in each.items() if key != "now"} for each in stored],
        lambda stored: "text",
        lambda stored: [1, 2],
    ],
)
def test_damaged_names_are_told(tmp_path: Path, damage: Any) -> None:
    with Client(tmp_path) as client:
        make(client).rename_attribute("note", "remark")
    file = tmp_path / "collections" / "air" / "collection.json"
    document = json.loads(file.read_text())
    document["stored_attributes"] = damage(document["stored_attributes"])
    file.write_text(json.dumps(document))
    with Client(tmp_path, mode="r") as client, pytest.raises(FormatError, match="stored"):
        client.get_collection("air")
    assert all(problem.kind.startswith("stored_attributes") for problem in hs.check(tmp_path)) and hs.check(tmp_path)


def test_varrays_keep_their_tiles(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        schema = VArraySchema(DIMENSIONS, np.int32, KEY, arrays_shape=(3, 4))
        collection = client.create_collection("tiled", schema)
        array = collection.create({"day": 1})
        array[:].update(np.arange(24, dtype=np.int32).reshape(4, 6))
        collection.add_attribute(QUALITY)
        assert collection.varray_schema is not None
        assert collection.varray_schema.arrays_shape == (3, 4)
        np.testing.assert_array_equal(collection.first()[:].read(), np.arange(24).reshape(4, 6))


def test_what_cannot_be_added_is_refused(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        before = collection.as_dict
        for wrong in (
            AttributeSchema("more", int, primary=True),
            AttributeSchema("more", int, primary=False),
            AttributeSchema("note", str, primary=False, default=None),
        ):
            with pytest.raises(SchemaError):
                collection.add_attribute(wrong)
        with pytest.raises(SchemaError):
            AttributeSchema("more", int, primary=False, default="text")
        with pytest.raises(SchemaError):
            AttributeSchema("more", int, primary=True, default=1)
        assert collection.as_dict == before
    with Client(tmp_path, mode="r") as client, pytest.raises(ReadOnly):
        client.get_collection("air").add_attribute(QUALITY)


def test_dekers_layout_keeps_its_schema_and_name(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client, layout="deker")
        with pytest.raises(Unsupported, match="hyperslab"):
            collection.add_attribute(QUALITY)
        with pytest.raises(Unsupported):
            collection.rename("other")
        with pytest.raises(SchemaError):
            client.create_collection("more", ArraySchema(DIMENSIONS, int, [*KEY, QUALITY]), layout="deker")
        assert len(collection) == 10


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_makers_of_both_layouts_wait_for_the_same_lock(tmp_path: Path, layout: str) -> None:
    with Client(tmp_path, write_lock_timeout=0) as client:
        store = Location.of(str(tmp_path)).store(read_only=False)
        with store.lock_node("collections", 0), pytest.raises(Conflict):
            make(client, layout=layout)
        make(client, layout=layout)
        with pytest.raises(AlreadyExists):
            make(client, layout="deker" if layout == "hyperslab" else "hyperslab")


def test_a_collection_gets_another_name(tmp_path: Path, options: dict[str, Any]) -> None:
    with Client(tmp_path) as client, Client(tmp_path) as other:
        collection = make(client, **options)
        theirs = other.get_collection("air")
        assert theirs is not None
        assert len(collection.query(day=(2, 4))) == 3
        renamed = collection.rename("wind")
        assert renamed.name == "wind"
        assert [each.name for each in client] == ["wind"]
        assert [array.primary_attributes["day"] for array in renamed.query(day=(2, 4))] == [2, 3, 4]
        assert renamed.get(day=3)[1, 1].read() == 3
        renamed.create({"day": 30})
        for gone in (collection, theirs):
            with pytest.raises(CollectionNotFound):
                gone.create({"day": 40})
            with pytest.raises(CollectionNotFound):
                gone.query(day=1)
        assert other.get_collection("air") is None
        assert len(other.get_collection("wind")) == 11
        make(client)
        with pytest.raises(AlreadyExists):
            renamed.rename("air")
        with pytest.raises(SchemaError):
            renamed.rename("a/b")
    assert not hs.check(tmp_path)


def test_a_name_that_another_one_is_making_a_collection_of_waits(tmp_path: Path) -> None:
    """Who makes a collection clears what a removed one left under its name: it must not be the renamed one."""
    store = Location.of(tmp_path).store(read_only=False)
    with Client(tmp_path, write_lock_timeout=1) as client:
        collection = make(client)
        with store.lock_node("collections/wind", 1), pytest.raises(Conflict):
            collection.rename("wind")
        assert [(each.name, len(each)) for each in client] == [("air", 10)]
        assert len(collection.rename("wind")) == 10


def test_other_names_in_memory(tmp_path: Path) -> None:
    """Other places than folders either rename at one stroke, or say that they cannot."""
    with Client("memory://renamed") as client:
        collection = make(client)
        try:
            collection = collection.rename("wind")
        except Unsupported:
            assert collection.name == "air"
        assert len(collection) == 10
        collection.add_attribute(QUALITY)
        assert len(collection.query(quality=3)) == 10


def test_removed_collections_are_no_evolved_ones(tmp_path: Path) -> None:
    with Client(tmp_path) as client, Client(tmp_path) as other:
        make(client)
        theirs = other.get_collection("air")
        assert theirs is not None
        client.get_collection("air").delete()
        client.create_collection("air", ArraySchema(DIMENSIONS, np.int8, KEY))
        with pytest.raises(CollectionNotFound):
            theirs.create({"day": 1})


def test_names_are_checked_before_anything_is_moved(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        with pytest.raises((SchemaError, Invalid)):
            collection.rename("..")
        assert len(collection) == 10


def test_datetimes_need_a_default_where_they_are_always_set(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        collection = make(client)
        with pytest.raises(SchemaError, match="give a default"):
            collection.add_attribute(AttributeSchema("seen", datetime, primary=False, default=None))
        with pytest.raises(SchemaError, match="default=, None"):
            collection.add_attribute(AttributeSchema("seen", int, primary=False))
        with pytest.raises(SchemaError, match="AttributeSchema"):
            collection.add_attribute("seen")  # type: ignore[arg-type]
        collection.create({"day": 99})


def test_options_that_are_slips_are_refused(tmp_path: Path) -> None:
    """DEKER takes any keyword, and keeps it."""
    for slip in ({"duarble": False}, {"at": "2020-01-01"}, {"mod": "r"}):
        with pytest.raises(ClientError, match="no option"):
            Client(tmp_path, **slip)  # type: ignore[arg-type]
    with Client(tmp_path, plugin_url="x") as client:
        assert client.kwargs == {"plugin_url": "x"}
