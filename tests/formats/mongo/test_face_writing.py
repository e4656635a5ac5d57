"""Objects that are made and changed through the one face: nothing half made is found, no change is lost."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import bson
import numpy as np
import pytest
import xarray as xr
from pymongo.errors import AutoReconnect

import hyperslab as hs
from hyperslab.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    MissingChunks,
    NodeNotFound,
    NotFound,
    StorageError,
    Unsupported,
)
from hyperslab.formats.mongo import FORMAT, objects
from hyperslab.stores.location import Location
from hyperslab.testing.sources import SourceTests

pytestmark = pytest.mark.sampled(2)

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo


@pytest.fixture
def base(mongo: Mongo, db: Database[Any]) -> str:
    """The URL of an empty database."""
    return f"{mongo.url}/{db.name}"


def _dataset(rows: int = 6) -> xr.Dataset:
    time = np.datetime64("2020-01-01", "ns") + np.arange(rows) * np.timedelta64(1, "D")
    cells = np.arange(rows * 4.0).reshape(rows, 4)
    coords = {"time": time, "lat": [1.0, 2, 3, 4], "area": ("lat", np.ones(4)), "level": 3}
    return xr.Dataset({"t": (("time", "lat"), cells, {"units": "K"})}, coords, {"title": "x"})


# -- sources -----------------------------------------------------------------------------------------------------------


class TestChunks(SourceTests):
    """Of many documents each."""

    @pytest.fixture
    def source(self, base: str) -> Any:
        root = hs.create(f"{base}#x", chunk_size_bytes=17)
        return root.create_array("x", (6, 4), "f8", chunks=(3, 2))._cells.source


class TestChunksOfOthers(SourceTests):
    """Under ids that say nothing, as xarray_mongodb gives them."""

    fill = 0

    @pytest.fixture
    def source(self, base: str, db: Database[Any]) -> Any:
        with hs.create(f"{base}#x", chunk_size_bytes=np.int64(17)) as root:
            root.create_array("x", (6, 4), "f8", chunks=(3, 2))
        db["xarray.meta"].update_one({}, {"$unset": {"hyperslab.chunk_ids": 1}})
        return hs.open_group(f"{base}#x", "r+")["x"]._cells.source


class TestChunksOnAReplicaSet(SourceTests):
    """Where several documents are changed in one transaction."""

    @pytest.fixture
    def source(self, mongo_replica: Mongo) -> Any:
        root = hs.create(f"{mongo_replica.url}/{mongo_replica.database()}#x", chunk_size_bytes=17)
        return root.create_array("x", (6, 4), "f8", chunks=(3, 2))._cells.source


@pytest.mark.parametrize("size", [17, 1 << 20])
def test_two_writers_of_one_chunk_lose_nothing(base: str, size: int) -> None:
    """Each fills cells of its own, many times over, in the chunks of both."""
    hs.create(f"{base}#x", chunk_size_bytes=size).create_array("x", data=np.zeros(64), chunks=(32,))._session.close()
    arrays: list[Any] = [hs.open_group(f"{base}#x", "r+")["x"] for _ in range(4)]

    def fill(number: int) -> None:
        for place in range(number, 64, 4):
            arrays[number][place] = place

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(arrays[0][...], np.arange(64.0))


# -- made whole --------------------------------------------------------------------------------------------------------


def test_an_object_is_found_once_it_is_whole(base: str, db: Database[Any]) -> None:
    """Before that by its id alone; one that has the name stays until then."""
    hs.save(f"{base}#x", xr.Dataset({"a": ("i", [1, 2])}))
    with hs.create(f"{base}#x", overwrite=True) as root:
        root.create_array("a", data=np.arange(5))
        place = root._session.origin.where.url  # type: ignore[union-attr]
        assert len(hs.open_group(base)) == 1
        assert hs.open_group(f"{base}#x")["a"].shape == (2,)
        hs.open_group(place, "r+")["a"][0] = 7
    assert hs.open_group(f"{base}#x")["a"][...].tolist() == [7, 1, 2, 3, 4]
    assert db["xarray.meta"].count_documents({}) == 1
    assert db["xarray.chunks"].count_documents({}) == 0


def test_what_fails_leaves_nothing(base: str, db: Database[Any]) -> None:
    """The old object stands as it was."""
    hs.save(f"{base}#x", _dataset())
    before = [list(db[f"xarray.{kind}"].find()) for kind in ("meta", "chunks")]
    with pytest.raises(ZeroDivisionError), hs.create(f"{base}#x", overwrite=True) as root:
        root.create_array("a", data=np.arange(1 << 16))
        raise ZeroDivisionError
    with pytest.raises(Unsupported, match="attribute 'bad'"):
        hs.save(f"{base}#x", xr.Dataset(attrs={"bad": 1 << 70}), mode="w")
    assert [list(db[f"xarray.{kind}"].find()) for kind in ("meta", "chunks")] == before


def test_what_fails_behind_the_commit_removes_nothing(
    base: str, db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new object has taken the place of the old one, which the server does not remove at once."""
    hs.save(f"{base}#x", xr.Dataset({"a": ("t", np.zeros(3))}))
    new = xr.Dataset({"a": ("t", np.ones(4))})
    delete_documents, failures = objects._delete_documents, [AutoReconnect("not primary")]

    def fail_once(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return delete_documents(*arguments)

    monkeypatch.setattr(objects, "_delete_documents", fail_once)
    with pytest.raises(StorageError):
        hs.save(f"{base}#x", new, mode="w")
    assert xr.open_dataset(f"{base}#x", engine="hyperslab").load().identical(new)
    objects.finish_replacements(db["xarray.meta"], db["xarray.chunks"])
    assert db["xarray.meta"].count_documents({}) == 1


def test_a_writer_that_is_killed_leaves_the_old_object(base: str, db: Database[Any]) -> None:
    """And one more that nobody finds by name."""
    hs.save(f"{base}#x", xr.Dataset({"a": ("i", [1, 2])}))
    code = f"""
import os, numpy as np, hyperslab as hs
root = hs.create({base + "#x"!r}, overwrite=True)
root.create_array("a", data=np.arange(100000.0))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert hs.open_group(f"{base}#x")["a"][...].tolist() == [1, 2]
    assert len(hs.open_group(base)) == 1
    assert db["xarray.meta"].count_documents({"hyperslab.status": "writing"}) == 1


def test_a_name_is_given_once(base: str) -> None:
    """Of two that make the same object the later one is told, and leaves nothing."""
    first, second = hs.create(f"{base}#x"), hs.create(f"{base}#x")
    for root in (first, second):
        root.create_array("a", data=np.arange(3))
    first.close()
    with pytest.raises(AlreadyExists, match=r"the name 'x'.*mode='w'"):
        second.close()
    assert len(hs.open_group(base)) == 1
    with pytest.raises(AlreadyExists):
        hs.create(f"{base}#x")


def test_small_arrays_stand_in_the_document(base: str, db: Database[Any]) -> None:
    """The smallest, as many as are told; coordinates among them, so that they are there at once."""
    dataset = _dataset(40)
    hs.save(f"{base}#x", dataset)
    doc: Any = db["xarray.meta"].find_one({})
    assert list(doc["coords"]) == ["time", "lat", "area", "level"]
    assert all("data" in each for part in (doc["coords"], doc["data_vars"]) for each in part.values())
    assert db["xarray.chunks"].count_documents({}) == 0
    hs.save(f"{base}#y", dataset, embed_threshold_bytes=400)
    doc = db["xarray.meta"].find_one({"name": "y"})
    assert [name for name, each in doc["coords"].items() if "data" in each] == ["time", "lat", "area", "level"]
    assert doc["data_vars"]["t"]["chunks"] == [[40], [4]]
    for name in "xy":
        xr.testing.assert_identical(xr.load_dataset(f"{base}#{name}", engine="hyperslab"), dataset)


# -- changes -----------------------------------------------------------------------------------------------------------


def test_times_and_truths_are_stored_as_such(base: str, db: Database[Any]) -> None:
    """Others read them without CF's conventions; an encoding that is asked for counts."""
    dataset = _dataset().assign(ok=("time", np.arange(6) > 2))
    hs.save(f"{base}#x", dataset)
    hs.save(f"{base}#y", dataset, encoding={"time": {"units": "hours since 2020-01-01"}})
    types = []
    for name in "xy":
        doc: Any = db["xarray.meta"].find_one({"name": name})
        types.append((doc["coords"]["time"]["dtype"], doc["data_vars"]["ok"]["dtype"]))
        xr.testing.assert_identical(xr.load_dataset(f"{base}#{name}", engine="hyperslab"), dataset)
    assert types == [("<M8[ns]", "|b1"), ("<i8", "|b1")]


@pytest.mark.parametrize("threshold", [0, 255 << 10])
def test_rows_are_appended(base: str, threshold: int) -> None:
    """To arrays in the document and to chunks; the object stays what xarray_mongodb reads."""
    dataset = _dataset(20)
    hs.save(f"{base}#x", dataset.isel(time=slice(0, 5)), embed_threshold_bytes=threshold)
    for start in range(5, 20, 5):
        rows = dataset.drop_vars(["area", "level"]).isel(time=slice(start, start + 5))
        hs.save(f"{base}#x", rows, append_dim="time", embed_threshold_bytes=threshold)
    xr.testing.assert_identical(xr.load_dataset(f"{base}#x", engine="hyperslab"), dataset)


def test_appenders_queue_up(base: str) -> None:
    """Every row of four writers is there once."""
    hs.create(f"{base}#x").create_array("x", data=np.zeros((0, 2)), chunks=(8, 2), dims=("t", "x"))._session.close()

    def run(number: int) -> None:
        array: Any = hs.open_group(f"{base}#x", "r+")["x"]
        for _ in range(8):
            array.append(np.full((1, 2), number + 1))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: Any = hs.open_group(f"{base}#x")["x"][...]
    assert sorted(found[:, 0]) == sorted([1.0, 2, 3, 4] * 8)


@pytest.mark.parametrize("threshold", [0, 255 << 10])
def test_shapes_change_as_those_of_numpy_arrays(base: str, threshold: int) -> None:
    """Cells that come back are the fill value, wherever the others are stored."""
    root = hs.create(f"{base}#x", embed_threshold_bytes=threshold)
    array = root.create_array("x", data=np.arange(30.0).reshape(5, 6), chunks=(2, 4), fill_value=-1)
    small = root.create_array("s", data=np.arange(5), fill_value=-1)
    root.close()
    with hs.open_group(f"{base}#x", "r+", embed_threshold_bytes=threshold) as again:
        array, small = again["x"], again["s"]  # type: ignore[assignment]
        array.resize((3, 9))
        array.resize((6, 5))
        small.resize((2,))
        small.resize((8,))
    expected = np.full((6, 5), -1.0)
    expected[:3] = np.arange(30.0).reshape(5, 6)[:3, :5]
    with hs.open_group(f"{base}#x") as found:
        np.testing.assert_array_equal(found["x"][...], expected)
        assert found["s"][...].tolist() == [0, 1, -1, -1, -1, -1, -1, -1]


def test_an_array_that_grows_out_of_the_document_becomes_chunks(base: str, db: Database[Any]) -> None:
    """Its cells are stored before the document says so."""
    hs.save(f"{base}#x", xr.Dataset({"a": ("t", np.arange(10.0))}), embed_threshold_bytes=100)
    with hs.open_group(f"{base}#x", "r+", embed_threshold_bytes=100) as root:
        root["a"].append(np.arange(10.0, 25))
    doc: Any = db["xarray.meta"].find_one({})
    assert (doc["data_vars"]["a"]["chunks"], "data" in doc["data_vars"]["a"]) == ([[10, 10, 5]], False)
    np.testing.assert_array_equal(hs.open_group(f"{base}#x")["a"][...], np.arange(25.0))


def test_a_lost_chunk_is_no_fill_value(base: str, db: Database[Any]) -> None:
    """Of an array that was stored whole; one that was erased, or never written, is one."""
    with hs.create(f"{base}#x", embed_threshold_bytes=0) as root:
        root.create_array("whole", data=np.arange(8), chunks=(4,))
        root.create_array("part", (8,), "i4", chunks=(4,), fill_value=9)[:4] = 1
    db["xarray.chunks"].delete_one({"name": "whole", "chunk": [1]})
    with hs.open_group(f"{base}#x") as found:
        assert found["part"][...].tolist() == [1, 1, 1, 1, 9, 9, 9, 9]
        assert found["whole"][:4].tolist() == [0, 1, 2, 3]
        with pytest.raises(MissingChunks, match=r"whole\[1\]"):
            found["whole"][...]


def test_attributes_keep_what_is_stored(base: str, db: Database[Any]) -> None:
    """Values of BSON types that no attribute has are shown, and stay what they are when others change."""
    hs.save(f"{base}#x", xr.Dataset({"a": ("t", [1])}))
    moment, key = bson.datetime_ms.DatetimeMS(86_400_000).as_datetime(), bson.ObjectId()
    db["xarray.meta"].update_one({}, {"$set": {"attrs": {"when": moment, "who": key, "n": bson.Int64(3)}}})
    with hs.open_group(f"{base}#x", "r+") as root:
        assert root.attrs["when"] == np.datetime64("1970-01-02", "ms")
        assert root.attrs["who"] == str(key)
        root.attrs["new"] = np.float32(1.5)
        root.attrs["n"] = 4
    doc: Any = db["xarray.meta"].find_one({})
    assert doc["attrs"] == {"when": moment.replace(tzinfo=None), "who": key, "n": 4, "new": 1.5}
    assert type(hs.open_group(f"{base}#x").attrs["new"]) is np.float32


def test_an_attribute_that_cannot_be_says_where(base: str) -> None:
    for node, dataset in (("/", xr.Dataset(attrs={"bad": object()})), ("/a", xr.Dataset({"a": ((), 1, {"bad": {1}})}))):
        with pytest.raises(Unsupported, match="'bad' of type") as caught:
            hs.save(f"{base}#x", dataset)
        assert f"[{base}#x node={node}]" in str(caught.value)


def test_a_data_array_is_changed_as_one(base: str, db: Database[Any]) -> None:
    """Its attributes are those of its one array, units among them; other arrays have no place beside it."""
    with hs.open_group(base, "a") as root:
        root.create_group("x").create_array("t", data=np.arange(4), dims=("i",), attrs={"a": 1})
    doc: Any = db["xarray.meta"].find_one({})
    variable = doc["data_vars"]["t"]
    attrs = variable.pop("attrs")
    db["xarray.meta"].replace_one(
        {},
        {"_id": doc["_id"], "coords": {}, "data_vars": {"__DataArray__": {**variable, "units": "kelvin"}}}
        | {"chunkSize": 100, "attrs": attrs, "name": "temp"},
    )
    with hs.open_group(f"{base}#temp", "r+") as root:
        assert list(root) == ["temp"]
        array: Any = root["temp"]
        assert (dict(array.attrs), array.units) == ({"a": 1, "units": "kelvin"}, "kelvin")
        array.attrs["b"] = 2.5
        array[1:3] = 9
        array.append([7, 8])
        root.create_array("i", data=np.arange(6), dims=("i",))
        for refused in (lambda: root.attrs.update(c=1), lambda: root.create_array("other", data=[1, 2])):
            with pytest.raises(Unsupported, match="DataArray"):
                refused()
    doc = db["xarray.meta"].find_one({})
    assert (doc["attrs"], list(doc["coords"]), list(doc["data_vars"])) == ({"a": 1, "b": 2.5}, ["i"], ["__DataArray__"])
    assert doc["data_vars"]["__DataArray__"]["units"] == "kelvin"
    assert hs.open_group(f"{base}#temp")["temp"][...].tolist() == [0, 9, 9, 3, 7, 8]


def test_a_document_that_would_be_too_large_is_refused_before(base: str, db: Database[Any]) -> None:
    """Nothing of it is left."""
    with pytest.raises(Unsupported, match="16777216"), hs.create(f"{base}#x") as root:
        root.attrs["long"] = "x" * (17 << 20)
    assert db["xarray.meta"].count_documents({}) == 0


# -- names and places --------------------------------------------------------------------------------------------------


def test_a_name_that_several_have_is_told(base: str, db: Database[Any]) -> None:
    """With the ids to choose from."""
    for name in ("x", "y"):
        hs.save(f"{base}#{name}", xr.Dataset({"a": ("t", [1])}))
    db["xarray.meta"].update_many({}, {"$set": {"name": "x"}})
    ids = [str(doc["_id"]) for doc in db["xarray.meta"].find()]
    for act in (lambda: hs.open(f"{base}#x"), lambda: hs.open_group(base)["x"], lambda: hs.open(f"{base}#x", "w")):
        with pytest.raises((Invalid, AlreadyExists)) as told:
            act()
        assert all(key in str(told.value) for key in ids)
    assert list(hs.open_group(f"{base}#{ids[0]}")) == ["a"]


def test_no_name_is_an_operator(base: str, db: Database[Any]) -> None:
    """Names of objects and variables as odd as the server takes them."""
    names = ["$where", "a.b", "$c", "é ✓", '{"$ne":1}', "x y"]
    for name in names:
        with hs.open_group(base, "a") as root:
            root.create_group(name).create_array(name, data=np.arange(3), dims=("t",))
    with hs.open_group(base) as root:
        for name in names:
            np.testing.assert_array_equal(root[f"{name}/{name}"][...], np.arange(3))
    assert {doc["name"] for doc in db["xarray.meta"].find()} == set(names)


def test_names_that_are_none_of_a_node_are_escaped(base: str, db: Database[Any]) -> None:
    """Empty ones, dots and slashes of other writers."""
    entry = {"dims": ["i"], "dtype": "<i2", "shape": [1], "chunks": None, "type": "ndarray"}
    cells = {name: {**entry, "data": bytes([i, 0])} for i, name in enumerate(("", ".", "a/b", "..", "%"))}
    db["xarray.meta"].insert_one({"name": "odd", "coords": {}, "data_vars": cells, "chunkSize": 100})
    root = hs.open_group(f"{base}#odd")
    assert list(root) == ["%%", "%2E", "a%2Fb", "%2E%2E", "%"]
    assert [int(root[name][0]) for name in root] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("place", "why"), [("", "#|name"), ("#0123456789abcdef01234567", "which is an id"), ("#a%00", "without NUL")]
)
def test_a_new_object_needs_a_name(base: str, place: str, why: str) -> None:
    """An id is given by us."""
    with pytest.raises((Invalid, Unsupported), match=why):
        hs.save(f"{base}{place}", _dataset())


def test_what_is_not_there(base: str) -> None:
    """An object, a database, an array; options that mean nothing."""
    hs.save(f"{base}#x", _dataset())
    with pytest.raises(NotFound, match="there are x"):
        hs.open(f"{base}#z")
    with pytest.raises(NodeNotFound):
        hs.open(f"{base}#x", path="none")
    with pytest.raises(Invalid, match="names no database"):
        hs.open("mongodb://127.0.0.1:1")
    with pytest.raises(Invalid, match="no option 'layers'"):
        hs.open(f"{base}#x", layers=3)
    with pytest.raises(Unsupported, match="no store of keys"):
        hs.open(f"{base}#x", format="zarr3")


def test_no_password_is_shown_or_sent(base: str) -> None:
    """In no repr, error or pickle; a worker is told how to get it."""
    where = Location.of("mongodb://ada:canary@127.0.0.1:1/db?serverSelectionTimeoutMS=50#x", {"password": "canary"})
    with pytest.raises(hs.errors.StorageError) as told:
        FORMAT.open(where, "r")
    assert "canary" not in f"{where!r}{told.value}{told.value.__cause__}{pickle.dumps(where)!r}"


def test_a_writer_in_another_process_opens_the_draft_by_its_id(base: str) -> None:
    """What is pickled names the id, while the name is that of another object or of none."""
    with hs.create(f"{base}#x") as root:
        array = root.create_array("a", (6,), "f8", chunks=(3,), dims=("t",))
        twin: Any = pickle.loads(pickle.dumps(array))
        twin[3:] = [3, 4, 5]
        array[:3] = [0, 1, 2]
    assert hs.open_group(f"{base}#x")["a"][...].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_object_of_a_collection_is_one_by_its_name_and_its_id(base: str, db: Database[Any]) -> None:
    """What is changed by the one is seen by the other; a new object is closed, or removed, once."""
    hs.save(f"{base}#x", _dataset())
    with hs.open_group(base, "r+") as root:
        by_id: Any = root[next(iter(root))]
        by_name: Any = root["x"]
        by_name.attrs["title"] = "y"
        assert by_id.attrs["title"] == "y"
        del root["x"]
        assert by_id.name not in root
        root.create_group("made")
        made = str(db["xarray.meta"].find_one({})["_id"])
        root[made].attrs["title"] = "z"
        assert root["made"].attrs["title"] == "z"
        del root[made]
        root.create_group("other")
    assert [row["name"] for row in db["xarray.meta"].find()] == ["other"]


def test_the_root_of_an_object_is_not_removed_by_its_writer(base: str) -> None:
    hs.save(f"{base}#x", _dataset())
    writer: Any = FORMAT.open(Location.of(f"{base}#x"), "r+")
    with pytest.raises(Invalid, match=r"itself is removed .*#x.*open the collection"):
        writer.drop("")


# -- the rest of the house ---------------------------------------------------------------------------------------------


def test_converted_there_and_back(base: str, tmp_path: Any) -> None:
    """Verified by every cell; a whole collection becomes groups."""
    dataset = _dataset()
    for suffix in ("zarr", "nc"):
        hs.save(tmp_path / f"in.{suffix}", dataset)
        hs.convert(tmp_path / f"in.{suffix}", f"{base}#{suffix}", verify=True)
        hs.convert(tmp_path / f"in.{suffix}", f"{base}#{suffix}", overwrite=True, verify=True)
        hs.convert(f"{base}#{suffix}", tmp_path / f"out.{suffix}", verify=True)
        xr.testing.assert_identical(xr.load_dataset(tmp_path / f"out.{suffix}", engine="hyperslab"), dataset)
    with pytest.raises(AlreadyExists):
        hs.convert(tmp_path / "in.zarr", f"{base}#zarr")
    hs.convert(base, tmp_path / "all.zarr", verify=True)
    assert len(hs.open_group(tmp_path / "all.zarr")) == 2


def test_dask_writes_and_reads_chunks(base: str) -> None:
    """At once and later, with the chunks that dask had."""
    dataset = _dataset().chunk({"time": 2})
    dataset.hyperslab.save(f"{base}#x")
    later = dataset.hyperslab.save(f"{base}#y", compute=False)
    later.compute()
    for name in "xy":
        found = xr.open_dataset(f"{base}#{name}", engine="hyperslab", chunks={})
        assert found.chunks["time"] == (2, 2, 2)
        xr.testing.assert_identical(found.load(), dataset.compute())


def test_an_old_lease_is_taken(base: str, db: Database[Any]) -> None:
    """That of a dead writer; of a living one nothing is changed meanwhile."""
    hs.save(f"{base}#x", _dataset())
    held = {"owner": "someone", "until": bson.datetime_ms.DatetimeMS(0)}
    db["xarray.meta"].update_one({}, {"$set": {"hyperslab.lease": held}})
    root = hs.open_group(f"{base}#x", "r+", lock_timeout=0.1)
    root.attrs["a"] = 1
    db["xarray.meta"].update_one(
        {}, {"$set": {"hyperslab.lease": {**held, "until": bson.datetime_ms.DatetimeMS(1 << 45)}}}
    )
    with pytest.raises(Conflict):
        root.attrs["a"] = 2
    assert hs.open_group(f"{base}#x").attrs["a"] == 1
