"""Readers that were written from the pages alone read the databases that hyperslab writes; NumPy knows what it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from second_readers import collections
from second_readers import mongo as objects
from second_readers.cells import ATTRIBUTES, PLAIN, ROWS, assert_cells, assert_values, make


@pytest.fixture
def database(mongo: Any) -> Iterator[Any]:
    """A new database of pymongo."""
    with MongoClient[Any](mongo.url) as client:
        yield client[mongo.database()]


MONGO = [kind for kind in PLAIN if kind[0] != ">"]


@pytest.mark.parametrize("embedded", [0, 10**6])
def test_mongo_cells(mongo: Any, database: Any, embedded: int) -> None:
    wanted: dict[str, np.ndarray[Any, Any]] = {}
    attributes = {name: value for name, value in ATTRIBUTES.items() if name not in ("u8", "row")}
    with hs.open(f"{mongo.url}/{database.name}", "a", embed_threshold_bytes=embedded, chunk_size_bytes=64) as root:
        group = root.create_group("sea", attrs=attributes)
        group.create_dimension("t", None)
        for number, kind in enumerate(MONGO):
            wanted[f"n{number}"] = cells = make(kind, 7, 5)
            group.create_array(f"n{number}", data=cells, dims=["y", "x"], chunks=(2, 3) if number % 2 else (7, 5))
            wanted[f"h{number}"] = np.full((4, 3), cells[0, 0], kind)
            wanted[f"h{number}"][1, 1] = cells[1, 1]
            group.create_array(f"h{number}", (4, 3), kind, dims=["u", "v"], chunks=(2, 2), fill_value=cells[0, 0])
            group[f"h{number}"][1, 1] = cells[1, 1]
        group.create_array("sub/dir/v", data=np.arange(9), dims=["y"], attrs=attributes)
        group["sub"].attrs["q"] = np.int8(1)
        wanted["sub/dir/v"] = np.arange(9)
        group.create_array("grown", (0, 3), "f8", chunks=(4, 2), dims=["t", "v"], fill_value=-1, units="K")
        for size in (5, 6):
            group["grown"].append(np.full((size, 3), float(size)))
        wanted["grown"] = np.repeat([5.0, 6.0], [15, 18]).reshape(11, 3)
        group.create_array("scalar", data=np.float32(2.5))
        wanted["scalar"] = np.array(2.5, "f4")
    found = objects.Collection(database).find("sea")
    assert set(found.arrays) == set(wanted) and found.unlimited == ("t",)
    for name, cells in wanted.items():
        assert_cells(found.arrays[name].read(), cells)
    assert found.arrays["sub/dir/v"].dims == ("y",) and found.arrays["grown"].attrs == {"units": "K"}
    assert found.groups["sub"] == {"q": np.int8(1)} and found.arrays["h1"].fill_value == make(MONGO[1], 7, 5)[0, 0]
    assert_values(found.attrs, attributes)
    assert_values(found.arrays["sub/dir/v"].attrs, attributes)


def test_mongo_objects_of_xarray(database: Any) -> None:
    xr, sparse = pytest.importorskip("xarray"), pytest.importorskip("sparse")
    from hyperslab.mongo import XarrayMongoDB

    cells = sparse.COO([[0, 3, 5], [1, 299, 0]], [5.0, 6.0, 7.0], shape=(6, 300), fill_value=np.float64(-1))
    for embedded in (0, 10**6):
        client = XarrayMongoDB(database, f"c{embedded}", chunk_size_bytes=16, embed_threshold_bytes=embedded)
        client.put(
            xr.Dataset({"sp": (("a", "b"), cells), "a/b": ((), 1), ".": ((), 2)}, {"s": 5, "a": range(6)}), name="ds"
        )
        client.put(xr.DataArray([1.0, 2.0], dims="x", attrs={"q": 1}, name="da"), name="da")
        found = objects.Collection(database, f"c{embedded}")
        assert_cells(found.find("ds").arrays["sp"].read(), cells.todense())
        assert set(found.find("ds").arrays) == {"sp", "a%2Fb", "%2E", "s", "a"}
        assert found.find("ds").attrs == {"coordinates": "s"}
        assert found.find("da").arrays["da"].read().tolist() == [1.0, 2.0]


def test_mongo_versions_and_objects_that_are_not_complete(mongo: Any, database: Any) -> None:
    xr = pytest.importorskip("xarray")
    from hyperslab.mongo import XarrayMongoDB

    client = XarrayMongoDB(database, keep_versions=timedelta(days=30))
    client.put(xr.Dataset({"q": ("a", [1, 2, 3])}), name="s")
    client.replace("s", xr.Dataset({"q": ("a", [4, 5])}))
    found = objects.Collection(database)
    assert found.find("s").arrays["q"].read().tolist() == [4, 5]
    retired = found.meta.find_one({"hyperslab.status": "retired"})["hyperslab"]["retired_at"]
    assert found.find("s", retired - timedelta(milliseconds=1)).arrays["q"].read().tolist() == [1, 2, 3]
    assert found.find("s", retired).arrays["q"].read().tolist() == [4, 5]
    with hs.open(f"{mongo.url}/{database.name}", "a") as root:
        root.create_group("half")
        assert [each.document.get("name") for each in found.list_objects()] == ["s"]
    assert {each.document.get("name") for each in found.list_objects()} == {"s", "half"}


def test_mongo_chunk_that_is_being_changed(mongo: Any, database: Any) -> None:
    with hs.open(f"{mongo.url}/{database.name}", "a", embed_threshold_bytes=0, chunk_size_bytes=16) as root:
        root.create_group("sea").create_array("x", data=np.arange(8.0).reshape(4, 2), chunks=(4, 1))
    meta, chunks = database["xarray.meta"], database["xarray.chunks"]
    owner, copy = meta.find_one()["_id"], objects.ObjectId()
    documents = list(chunks.find({"meta_id": owner, "chunk": [0, 0]}))
    for each in documents:
        chunks.insert_one({**each, "_id": objects.ObjectId(), "meta_id": copy, "was": each["_id"]})
    chunks.update_one({"_id": documents[0]["_id"]}, {"$set": {"data": bytes(16)}})
    entry = {"id": copy, "name": "x", "chunk": [0, 0], "owner": None, "until": datetime.now(UTC) + timedelta(hours=1)}
    begun = np.array([[0, 1], [0, 3], [4, 5], [6, 7]], "f8")
    for undo, wanted in (({}, begun), ({"documents": len(documents)}, np.arange(8.0).reshape(4, 2))):
        meta.update_one({"_id": owner}, {"$set": {"hyperslab.undo": {str(documents[0]["_id"]): entry | undo}}})
        assert_cells(objects.Collection(database).find("sea").arrays["x"].read(), wanted)
        assert_cells(hs.open(f"{mongo.url}/{database.name}#sea")["x"][...], wanted)


KEY = {"dt": datetime(2023, 1, 1, 1, 2, 3, 456, tzinfo=UTC), "s": "é", "c": 1 + 2j, "f": 0.1, "n": np.int16(4)}
WORDS: dict[str, Any] = {
    "dt": datetime,
    "s": str,
    "c": complex,
    "f": float,
    "n": np.int16,
    "tu": tuple,
    "none": int,
    "nan": float,
}


def test_collections_arrays(tmp_path: Path) -> None:
    attributes = [AttributeSchema(name, kind, primary=name in KEY) for name, kind in WORDS.items()]
    day = TimeDimensionSchema("h", 4, "$dt", timedelta(hours=6))
    dimensions = [day, DimensionSchema("lat", 3, scale=Scale(60.0, -2.5)), DimensionSchema("l", 2, labels=["a", "b"])]
    with Client(str(tmp_path / "db")) as client:
        made = client.create_collection(
            "air", ArraySchema(dimensions, np.int32, attributes, fill_value=-5), keep_versions=True
        )
        array = made.create(KEY, {"tu": (1, "x"), "nan": float("nan")})
        array[1].update(make("<i4", 3, 2))
        made.add_attribute(AttributeSchema("q", int, primary=False, default=7))
        made.rename_attribute("s", "station")
    collection = collections.Database(tmp_path / "db").collections["air"]
    found = collection.find(**{**KEY, "c": "(1+2j)", "n": 4, "station": "é"})
    wanted = np.full((4, 3, 2), -5, "i4")
    assert (found.id, found.dims) == (array.id, ("h", "lat", "l"))
    assert found.primary == {"station" if name == "s" else name: value for name, value in KEY.items()}
    assert {**found.custom, "nan": None} == {"tu": (1, "x"), "none": None, "nan": None, "q": 7} and found.custom[
        "nan"
    ] != 0
    assert found.labels["lat"].tolist() == [60.0, 57.5, 55.0] and found.labels["l"] == ["a", "b"]
    assert collection.find_times(found, "h")[1] == KEY["dt"] + timedelta(hours=6)  # type: ignore[operator]
    assert found.labels["h"][1] == np.datetime64("2023-01-01T07:02:03.000456")
    assert_cells(found.read_at(datetime(2020, 1, 1)), wanted)
    wanted[1] = make("<i4", 3, 2)
    assert_cells(found.read(), wanted)
    assert_cells(found.read_at(datetime(3020, 1, 1)), wanted)


CELLS = [
    np.int8,
    np.uint8,
    np.int64,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
    np.longdouble,
]


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.__name__)
def test_collections_types_and_tiles(tmp_path: Path, kind: Any) -> None:
    cells = make(np.float64, 5, 3).astype(kind) if np.dtype(kind).kind in "fc" else make(kind, 5, 3)
    with Client(str(tmp_path / "db")) as client:
        tiled = VArraySchema([DimensionSchema("r", 7), DimensionSchema("c", 5)], kind, arrays_shape=(3, 2))
        array = client.create_collection("tiles", tiled).create()
        array[2:, 1:4].update(cells)
        grown = ArraySchema(
            [DimensionSchema("x", None), DimensionSchema("y", 3)], kind, [AttributeSchema("k", int, True)]
        )
        many = client.create_collection("many", grown).create_many([{"k": at} for at in range(3)])
        many[1].append(cells, "x")
        many[1].append(np.zeros((700, 3), kind), "x")
        fill = array[0, 0].read()
    database = collections.Database(tmp_path / "db")
    (found,) = database.collections["tiles"].arrays.values()
    wanted = np.full((7, 5), found.fill_value, kind)
    wanted[2:, 1:4] = cells
    assert repr(found.fill_value) == repr(fill[()])
    np.testing.assert_array_equal(found.read(), wanted)
    np.testing.assert_array_equal(
        database.collections["many"].find(k=1).read(), np.vstack([cells, np.zeros((700, 3), kind)])
    )
    assert database.collections["many"].find(k=0).read().shape == (0, 3)


def test_collections_write_over_tiles_that_is_going_on(tmp_path: Path) -> None:
    schema = VArraySchema([DimensionSchema("x", 4)], np.float64, [AttributeSchema("k", str, True)], arrays_shape=(2,))
    with Client(str(tmp_path / "db")) as client:
        made = client.create_collection("t", schema)
        zero, one = made.create({"k": "zero"}), made.create({"k": "one"})
        zero[:].update(np.zeros(4))
        one[:].update(np.ones(4))
    folder, txn = tmp_path / "db/collections/t", "559a20af9dfd6ea8"
    (folder / "staged" / zero.id).mkdir(parents=True, exist_ok=True)
    tile = folder / "arrays" / one.id[:2] / one.id / "c/0"
    (folder / "staged" / zero.id / f"{txn}.c.0").write_bytes(tile.read_bytes())
    (folder / "journal").mkdir(exist_ok=True)
    journal = {"txn": txn, "state": "pending", "after": None, "tiles": "c/0 c/1", "gone": ""}
    old, new = np.zeros(4), np.array([1.0, 1, 0, 0])
    for change, wanted in (({}, new), ({"state": "done"}, old), ({"gone": "c/1"}, np.array([1.0, 1, np.nan, np.nan]))):
        (folder / "journal" / zero.id).write_text(json.dumps(journal | change))
        np.testing.assert_array_equal(
            collections.Database(tmp_path / "db").collections["t"].find(k="zero").read(), wanted
        )
        np.testing.assert_array_equal(hs.open(tmp_path / "db")["t"][zero.id][:], wanted)
    (folder / "keys" / hashlib.blake2b(b'["one"]', digest_size=16).hexdigest()).unlink()
    assert list(collections.Database(tmp_path / "db").collections["t"].arrays) == [zero.id]


def test_collections_checksum_of_a_damaged_tile(tmp_path: Path) -> None:
    schema = VArraySchema([DimensionSchema("x", 4)], np.float64, [AttributeSchema("k", str, True)], arrays_shape=(2,))
    with Client(tmp_path / "db") as client:
        client.create_collection("t", schema).create({"k": "a"})[:].update(np.arange(4.0))
    array = collections.Database(tmp_path / "db").collections["t"].find(k="a")
    tile = array.folder / "c" / "1"
    data = bytearray(tile.read_bytes())
    for place in (0, len(data) - 1):
        tile.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ValueError, match="crc32c"):
            array.read()
    tile.write_bytes(data)
    np.testing.assert_array_equal(array.read(), np.arange(4.0))


def test_collections_of_a_dataset(tmp_path: Path) -> None:
    little = [np.dtype(kind).newbyteorder("<") for kind in [*PLAIN, *ROWS]]
    cells = {f"n{at}": make(kind, 3, 2) for at, kind in enumerate(little)}
    cells |= {"g/sub/v": np.arange(4), "scalar": np.array(3.5, "f4")}
    with hs.create(tmp_path / "x.zarr", "zarr2") as root:
        root.attrs.update(ATTRIBUTES)
        root.create_dimension("t", None)
        root.create_group("g/sub", attrs={"q": 1})
        for name, array in cells.items():
            dims = ["t"] if array.ndim == 1 else [None] * array.ndim
            root.create_array(name, data=array, dims=dims, attrs=ATTRIBUTES)
        root.create_array("text", data=["a", "é"], dtype=str)
        root.create_array("hole", (3,), "M8[D]", fill_value=np.datetime64("2020-01-01"))
    hs.convert(tmp_path / "x.zarr", tmp_path / "db", "collections")
    database = collections.Database(tmp_path / "db")
    assert database.paths == sorted([*cells, "text", "hole"]) and database.dims[""]["t"]["unlimited"]
    for name, array in cells.items():
        assert database.read(name).tobytes() == array.tobytes(), name
        assert_values(database.attrs[name], ATTRIBUTES)
    assert_values(database.groups[""], ATTRIBUTES)
    assert database.groups["g/sub"] == {"q": 1} and database.read("text").tolist() == ["a", "é"]
    assert_cells(database.read("hole"), np.full(3, "2020-01-01", "M8[D]"))
