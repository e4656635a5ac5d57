"""Readers that were written from the pages alone read the databases that hyperslab writes; NumPy knows what it was."""

from __future__ import annotations

import hashlib
import json
import time
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
    HDF5CompressionOpts,
    HDF5Options,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from second_readers import bucket_index, collections, deker
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
    attributes = {name: value for name, value in ATTRIBUTES.items() if name != "row"}
    attributes |= {"counts": np.array([1, 2**64 - 1], "u8"), "date": np.datetime64("2020-01-01", "ms")}
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
    assert set(found.arrays) == set(wanted) and found.unlimited == {"": ("t",), "sub": (), "sub/dir": ()}
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
        client.put(xr.DataArray([1.0, 2.0], dims="q", coords={"q": [3, 4]}, attrs={"q": 1}), name="q")
        client.put(xr.Dataset({"": 1, "a\\b": 2, "a%b": 3, "..": 4}), name="odd")
        found = objects.Collection(database, f"c{embedded}")
        assert_cells(found.find("ds").arrays["sp"].read(), cells.todense())
        assert set(found.find("ds").arrays) == {"sp", "a%2Fb", "%2E", "s", "a"}
        assert found.find("ds").attrs == {"coordinates": "s"}
        for name, array in (("da", "da"), ("q", "data")):
            assert found.find(name).arrays[array].read().tolist() == [1.0, 2.0]
            assert found.find(name).arrays[array].attrs == {"q": 1} and found.find(name).attrs == {}
        assert set(found.find("odd").arrays) == {"%", "a%5Cb", "a%b", "%2E%2E"}


def test_mongo_dimensions(mongo: Any, database: Any) -> None:
    url = f"{mongo.url}/{database.name}#dims"
    with hs.create(url) as root:
        root.create_array("x", data=np.arange(3), dims=["x"])
        root.create_array("lat", data=np.arange(3.0), dims=["x"])
        root.create_array("own", data=np.arange(2), dims=["x@7"])
        root.create_array("none", data=np.arange(2))
        for path, size in (("g", 4), ("g/h", 5)):
            group = root.create_group(path)
            group.create_dimension("t", None)
            group.create_array("x", data=np.arange(size), dims=["x"], attrs={"coordinates": "lat"})
        root.create_array("cut", data=np.arange(6), chunks=(4,), dims=["t"])
        root["cut"].resize(9)
        root["cut"].resize(3)
        root["cut"].resize(7)
        root.attrs["coordinates"] = "lat none"
    found, shown = objects.Collection(database).find("dims"), hs.open(url)
    assert found.attrs == {"coordinates": "lat none"} and found.unlimited == {"": (), "g": ("t",), "g/h": ("t",)}
    for path, array in found.arrays.items():
        assert array.dims == shown[path].dims and array.attrs == dict(shown[path].attrs), path
        assert_cells(array.read(), shown[path][...])
    assert found.arrays["g/x"].dims == ("x",) and found.arrays["own"].dims == ("x@7",)
    assert found.arrays["cut"].read().tolist() == [0, 1, 2, 0, 0, 0, 0]


def test_mongo_sizes_that_nobody_knew(database: Any) -> None:
    xr, da = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    from hyperslab.mongo import XarrayMongoDB

    cells = da.arange(10.0, chunks=4)
    _, stored = XarrayMongoDB(database).put(xr.Dataset({"v": ("x", cells[cells % 3 > 0])}), name="some")
    stored.compute()
    found = objects.Collection(database).find("some").arrays["v"]
    assert found.said["shape"] != [6] and found.shape == (6,)
    assert found.read().tolist() == [1.0, 2.0, 4.0, 5.0, 7.0, 8.0]


def test_mongo_versions_and_objects_that_are_not_complete(mongo: Any, database: Any) -> None:
    xr = pytest.importorskip("xarray")
    from hyperslab.mongo import XarrayMongoDB

    client = XarrayMongoDB(database, keep_versions=timedelta(days=30))
    client.put(xr.Dataset({"q": ("a", [1, 2, 3])}), name="s")
    for cells in ([4, 5], [6]):
        client.replace("s", xr.Dataset({"q": ("a", cells)}))
    found = objects.Collection(database)
    assert found.find("s").arrays["q"].read().tolist() == [6]
    versions = found.meta.find({"hyperslab.status": "retired"}).sort("hyperslab.retired_at")
    first, second = (each["hyperslab"]["retired_at"] for each in versions)
    assert found.find("s", first - timedelta(milliseconds=1)).arrays["q"].read().tolist() == [1, 2, 3]
    for moment in (first, second - timedelta(milliseconds=1)):
        assert found.find("s", moment).arrays["q"].read().tolist() == [4, 5]
    assert found.find("s", second).arrays["q"].read().tolist() == [6]
    found.meta.delete_one({"hyperslab.retired_at": first})
    with pytest.raises(KeyError):
        found.find("s", first - timedelta(seconds=9))
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
TUPLE = (1, "x", (2.5, 1j, (-0.0, "1+j")), float("inf"))
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
        array = made.create(KEY, {"tu": TUPLE, "nan": float("nan")})
        array[1].update(make("<i4", 3, 2))
        made.add_attribute(AttributeSchema("q", int, primary=False, default=7))
        made.add_attribute(AttributeSchema("low", float, primary=False, default=float("-inf")))
        made.rename_attribute("s", "station")
    collection = collections.Database(tmp_path / "db").collections["air"]
    found = collection.find(**{**KEY, "n": 4, "station": "é"})
    wanted = np.full((4, 3, 2), -5, "i4")
    assert (found.id, found.dims) == (array.id, ("h", "lat", "l"))
    assert found.primary == {"station" if name == "s" else name: value for name, value in KEY.items()}
    default = {"tu": TUPLE, "none": None, "nan": float("nan"), "q": 7, "low": float("-inf")}
    assert repr(found.custom) == repr(default)
    document = json.loads((collection.folder / "collection.json").read_bytes(), parse_constant=pytest.fail)
    assert document["schema"]["attributes"][-1]["default"] == "-Infinity"
    assert found.labels["lat"].tolist() == [60.0, 57.5, 55.0] and found.labels["l"] == ["a", "b"]
    assert collection.find_times(found, "h")[1] == KEY["dt"] + timedelta(hours=6)  # type: ignore[operator]
    assert found.labels["h"][1] == np.datetime64("2023-01-01T07:02:03.000456")
    wanted[1] = make("<i4", 3, 2)
    assert_cells(found.read(), wanted)


ODD: list[tuple[Any, Any]] = [
    (float, float("nan")),
    (float, -0.0),
    (np.float32, float("-inf")),
    (complex, complex(-0.0, -0.0)),
    (complex, complex("nan+infj")),
    (tuple, (-0.0, float("inf"), ("é", 1j))),
    (datetime, datetime(1969, 1, 1, tzinfo=UTC)),
    (int, 2**70),
]


@pytest.mark.parametrize(("kind", "value"), ODD, ids=str)
def test_collections_key(tmp_path: Path, kind: Any, value: Any) -> None:
    schema = ArraySchema([DimensionSchema("x", 1)], float, [AttributeSchema("k", kind, True)])
    with Client(tmp_path / "db") as client:
        array = client.create_collection("t", schema).create({"k": value})
    found = collections.Database(tmp_path / "db").collections["t"].find(k=value)
    assert found.id == array.id and str(found.primary["k"]) == str(value)


def test_collections_index_in_a_bucket(s3: Any) -> None:
    from obstore.store import S3Store

    bucket = s3.bucket()
    attributes = [AttributeSchema("k", datetime, True)]
    attributes += [AttributeSchema(f"a{at}", kind, False) for at, (kind, _) in enumerate(ODD)]
    start, values = KEY["dt"], {f"a{at}": value for at, (_, value) in enumerate(ODD)}
    with Client(f"s3://{bucket}/db", storage_options=s3.options) as client:
        made = client.create_collection("t", ArraySchema([DimensionSchema("x", 1)], float, attributes))
        many = made.create_many({"k": start + timedelta(hours=at), **values} for at in range(200))  # type: ignore[operator]
        made.add_attribute(AttributeSchema("late", float, False, default=1.5))
        made.remove_attribute("a1")
        for array in many[:2]:
            array.delete()
        many[2].update_custom_attributes({"late": float("nan"), "a7": -256})
        made.create({"k": datetime(1960, 1, 1, tzinfo=UTC)}, {"a6": datetime(2000, 1, 1, tzinfo=UTC)})
    where = s3.options | {"client_options": {"allow_http": True}, "virtual_hosted_style_request": False}
    index = bucket_index.Index(S3Store(bucket, prefix="db/collections/t", **where), f"s3://{bucket}/db/collections/t")
    assert index.is_here and all(index.is_known(part) for part in index.parts) and not index.unsettled
    assert len(index.rows) == 199 and many[1].id not in index.rows
    found = index.rows[many[2].id]
    assert found["k"] == start + timedelta(hours=2) and found["a7"] == -256  # type: ignore[operator]
    assert [repr(found[name]) for name in ("a0", "a2", "a4", "late")] == ["nan", "-inf", "nan", "nan"]
    assert repr(found["a3"]) == "0j" and found["a5"] == [0.0, float("inf"), ["é", "1j"]]
    assert index.rows[many[3].id]["late"] == 1.5 and index.rows[many[3].id]["a7"] == 2**70
    hours = {start + timedelta(hours=at) for at in range(2, 200)}  # type: ignore[operator]
    assert {row["k"] for row in index.rows.values()} == hours | {datetime(1960, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize("tiles", [(2, 2), (4, 3)], ids=str)
@pytest.mark.parametrize("primary", [True, False])
def test_collections_as_of_a_moment(tmp_path: Path, tiles: tuple[int, int], primary: bool) -> None:
    dimensions, past = [DimensionSchema("y", 4), DimensionSchema("x", 3)], list[tuple[datetime, dict[str, Any]]]()
    key, run = AttributeSchema("k", str, primary), AttributeSchema("run", int, False)

    def keep() -> None:
        time.sleep(0.002)
        now = {array.id: (array[:].read(), array.custom_attributes["run"]) for array in made}
        past.append((datetime.now(UTC).replace(tzinfo=None), now))
        time.sleep(0.002)

    with Client(tmp_path / "db") as client:
        schema = VArraySchema(dimensions, np.int64, [key, run], arrays_shape=tiles)
        made = client.create_collection("t", schema, keep_versions=True)
        keep()
        array = made.create_many([{"k": "a", "run": 1}, {"k": "b", "run": 2}])[0]
        keep()
        for change in (np.arange(12).reshape(4, 3), 5, 6):
            array[:].update(change)
            keep()
        array[1, 1].update(7)
        keep()
        array.update_custom_attributes({"run": 3})
        keep()
        array[:].clear()
        keep()
        array.delete()
        keep()
        made.create({"k": "a"} if primary else {}, {"run": 4} if primary else {"k": "a", "run": 4})
        keep()
    for moment, wanted in past:
        found = collections.Database(tmp_path / "db", moment).collections["t"]
        assert set(found.arrays) == set(wanted)
        for id_, (cells, run_then) in wanted.items():
            assert found.arrays[id_].custom["run"] == run_then
            assert_cells(found.arrays[id_].read(), cells)


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


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.__name__)
def test_deker_types_and_tiles(tmp_path: Path, kind: Any) -> None:
    cells = make(np.float64, 4, 6).astype(kind) if np.dtype(kind).kind in "fc" else make(kind, 4, 6)
    dimensions = [DimensionSchema("y", 4), DimensionSchema("x", 6)]
    cut = HDF5Options((2, 2), HDF5CompressionOpts("gzip", 4))
    wanted: dict[str, np.ndarray[Any, Any]] = {}
    with Client(tmp_path / "db", durable=False) as client:
        for name, fill in (("lowest", None), ("three", 3)):
            whole, tiled = ArraySchema(dimensions, kind, (), fill), VArraySchema(dimensions, kind, (), fill, (2, 3))
            for end, schema in (("", whole), ("-tiled", tiled)):
                made = client.create_collection(name + end, schema, cut, layout="deker")
                for part in ((slice(None), slice(None)), (slice(1, 3), slice(0, 3)), (slice(0, 0), slice(None))):
                    array = made.create()
                    if cells[part].size:
                        array[part].update(cells[part])
                    wanted[array.id] = array[:].read()
                array = made.create()
                array[:].update(cells)
                array[:].clear()
                wanted[array.id] = array[:].read()
    found = [deker.Collection(path) for path in (tmp_path / "db/collections").iterdir() if path.is_dir()]
    arrays = {id_: array for collection in found for id_, array in collection.arrays.items()}
    assert set(arrays) == set(wanted)
    for id_, array in arrays.items():
        np.testing.assert_array_equal(array.read(), wanted[id_])
        assert array.read().dtype == kind


@pytest.mark.parametrize("tiled", [False, True])
def test_deker_attributes_and_moves(tmp_path: Path, tiled: bool) -> None:
    attributes = [AttributeSchema(name, kind, primary=name in KEY) for name, kind in WORDS.items()]
    dimensions = [DimensionSchema("x", 4)]
    schema = (
        VArraySchema(dimensions, int, attributes, vgrid=(2,)) if tiled else ArraySchema(dimensions, int, attributes)
    )
    with Client(tmp_path / "db", durable=False) as client:
        made = client.create_collection("air", schema, layout="deker")
        array = made.create(KEY, {"tu": TUPLE, "nan": float("nan")})
        array[1:3].update([1, 2])
    (tmp_path / "db").rename(tmp_path / "moved")
    found = deker.Collection(tmp_path / "moved/collections/air").find(KEY["dt"].isoformat(), *list(KEY.values())[1:])
    assert found.id == array.id and found.primary == KEY
    assert repr(found.custom) == repr({"tu": TUPLE, "none": None, "nan": float("nan")})
    assert found.read()[1:3].tolist() == [1, 2]
