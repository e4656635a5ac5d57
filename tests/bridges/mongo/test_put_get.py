"""What is put comes back, and what cannot be put leaves nothing: the peer's defects D1 to D23, each as a test."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sparse
import xarray as xr
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError
from pymongo.monitoring import CommandListener

from hyperslab.errors import AlreadyExists, Invalid, Unsupported
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB
from programs import forking

pytestmark = pytest.mark.sampled(2)


def is_empty(xdb: XarrayMongoDB) -> bool:
    return xdb.meta.count_documents({}) == 0 and xdb.chunks.count_documents({}) == 0


def small() -> xr.Dataset:
    return xr.Dataset(
        {"t": (("y", "x"), np.arange(12.0).reshape(3, 4))}, {"x": [1, 2, 3, 4]}, {"title": "hello"}
    ).chunk({"x": 3, "y": 2})


# -- D1: computed twice ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_a_future_that_is_computed_twice_stores_one_set_of_documents(database: Database[Any], layout: Any) -> None:
    xdb = XarrayMongoDB(database, layout=layout, chunk_size_bytes=16)
    key, future = xdb.put(small())
    assert future.compute(scheduler="sync") is None
    before = list(xdb.chunks.find().sort("_id"))
    assert future.compute(scheduler="threads") is None
    assert list(xdb.chunks.find().sort("_id")) == before
    xr.testing.assert_identical(xdb.get(key, load=True), small().compute())


def test_a_future_that_was_broken_off_can_be_computed_again(xdb: XarrayMongoDB) -> None:
    xdb.chunk_size_bytes = 16
    key, future = xdb.put(small())
    future.compute(scheduler="sync")
    xdb.chunks.delete_many({"n": 1})
    xdb.chunks.delete_many({"chunk": [0, 1]})
    future.compute(scheduler="sync")
    xr.testing.assert_identical(xdb.get(key, load=True), small().compute())


# -- D2, D3, D10, D11, D13, D17, D22: refused before anything is written ---------------------------------------------


def refused() -> dict[str, Any]:
    midx = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["one", "two"])
    structured = np.zeros(2, [("a", "i4")])
    return {
        "objects": xr.Dataset({"bad": ("x", np.array([{}, None], object))}),
        "dask objects": xr.Dataset({"bad": ("x", da.from_array(np.array(["a", None], object), chunks=1))}),
        "multi-index": xr.Dataset(coords=xr.Coordinates.from_pandas_multiindex(midx, "bad")),
        "strings with gaps": xr.Dataset({"bad": ("x", np.array(["a", None], np.dtypes.StringDType(na_object=None)))}),
        "fields": xr.Dataset({"bad": ("x", structured)}),
        "categories with gaps": xr.Dataset({"bad": ("x", pd.Categorical(["a", None]))}),
        "complex attribute": xr.Dataset({"bad": ("x", [1], {"c": 1j})}),
        "large attribute": xr.Dataset({"bad": ("x", [1], {"c": 1 << 63})}),
        "attribute of objects": xr.Dataset({"bad": ("x", [1], {"c": np.array([{}], object)})}),
        "attribute of two dimensions": xr.Dataset({"bad": ("x", [1], {"c": np.zeros((2, 2))})}),
        "date of nanoseconds": xr.Dataset({"bad": ("x", [1], {"c": np.datetime64("2020-01-01", "ns")})}),
        "name of an attribute": xr.Dataset({"bad": ("x", [1], {5: 1})}),
        "set": xr.Dataset({"bad": ("x", [1], {"c": {1, 2}})}),
    }


@pytest.mark.parametrize("what", refused())
def test_what_cannot_be_stored_is_refused_by_name(xdb: XarrayMongoDB, what: str) -> None:
    good = {"good": ("q", np.arange(1000)), "later": ("q", da.arange(1000, chunks=10))}
    with pytest.raises(Unsupported, match="bad"):
        xdb.put(refused()[what].assign(good))
    assert is_empty(xdb)


@pytest.mark.parametrize(
    "x",
    [
        xr.Dataset({5: ("x", [1])}),
        xr.Dataset({"a\0b": ("x", [1])}),
        xr.Dataset({"\ud800": ("x", [1])}),
        xr.Dataset({"a": (("x", ("y", "z")), [[1]])}),
        xr.Dataset({"__DataArray__": ("x", [1])}),
        xr.DataArray([1], dims="x", name=("a", 1)),
        xr.DataArray([1], {"__DataArray__": ("x", [1])}, "x"),
    ],
)
def test_names_that_would_come_back_as_others_are_refused(xdb: XarrayMongoDB, x: Any) -> None:
    with pytest.raises(Invalid):
        xdb.put(x)
    assert is_empty(xdb)


@pytest.mark.parametrize("x", [xr.Variable("x", [1]), pd.DataFrame({"a": [1]}), xr.DataTree(), 5])
def test_what_is_no_dataset_is_a_type_error(xdb: XarrayMongoDB, x: Any) -> None:
    with pytest.raises(TypeError):
        xdb.put(x)
    assert is_empty(xdb)


def test_documents_that_no_server_takes_are_refused(xdb: XarrayMongoDB) -> None:
    with pytest.raises(Unsupported, match="16777216"):
        xdb.put(xr.Dataset(attrs={"long": "x" * (17 << 20)}))
    xdb.chunk_size_bytes = 17_000_000
    with pytest.raises(Invalid, match="chunk_size_bytes"):
        xdb.put(xr.DataArray([1]))
    xdb.chunk_size_bytes = (16 << 20) - (64 << 10)
    xdb.embed_threshold_bytes = 0
    with pytest.raises(Invalid, match="16777216"):
        xdb.put(xr.Dataset({"n" * (64 << 10): ("x", np.zeros(17 << 20, "u1"))}))
    assert is_empty(xdb)


def test_nothing_is_left_of_a_put_that_fails(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, embed_threshold_bytes=0)
    rule = {"$jsonSchema": {"properties": {"name": {"enum": ["a"]}}}}
    database.create_collection("xarray.chunks", validator=rule)
    with pytest.raises(BulkWriteError, match="validation"):
        xdb.put(xr.Dataset({"a": ("x", [1]), "b": ("x", [2])}))
    assert is_empty(xdb)


def test_names_and_attributes_come_back_as_they_are(xdb: XarrayMongoDB) -> None:
    attrs = {
        "i": np.int64(5),
        "f": np.float32(0.5),
        "b": np.bool_(True),
        "l": np.arange(3),
        "t": (1, 2),
        "d": {"a": [None]},
    }
    for name in ("", 0, 2.5, "é ✓"):
        x = xr.DataArray([[1, 2]], dims=(0, "y"), name=name, attrs=attrs)
        read = xdb.get(xdb.put(x)[0])
        assert (read.name, read.dims) == (name, (0, "y"))
        assert read.attrs == {"i": 5, "f": 0.5, "b": True, "l": [0, 1, 2], "t": [1, 2], "d": {"a": [None]}}
    odd = xr.Dataset({"a.b": ("x", [1]), "$c": ("x", [2]), "": ("x", [3]), "é ✓": ("x", [4])})
    for threshold in (0, 1000):
        xdb.embed_threshold_bytes = threshold
        xr.testing.assert_identical(xdb.get(xdb.put(odd)[0]), odd)


def test_cells_are_little_endian_and_paddings_are_zero(xdb: XarrayMongoDB) -> None:
    x = xr.Dataset({"a": ("x", np.arange(3, dtype=">i4")), "b": ("x", np.full(3, 1.5, np.longdouble))})
    key, _ = xdb.put(x)
    told = xdb.meta.find_one({"_id": key})["data_vars"]
    assert (told["a"]["dtype"], told["a"]["data"]) == ("<i4", np.arange(3, dtype="<i4").tobytes())
    assert np.frombuffer(told["b"]["data"], "u1").reshape(3, 16)[:, 10:].sum() == 0
    xr.testing.assert_equal(xdb.get(key), x)


# -- D4: sparse ------------------------------------------------------------------------------------------------------


@given(
    st.tuples(st.integers(0, 4), st.integers(0, 300)),
    st.integers(1, 200),
    st.sampled_from(["f8", "i2", "c16", "M8[s]"]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_sparse_cells_come_back(
    client: MongoClient[Any], shape: Any, size: int, dtype: str, lazy: bool, seed: int
) -> None:
    xdb = XarrayMongoDB(client["sparse_cells"], chunk_size_bytes=size, embed_threshold_bytes=0)
    random = np.random.default_rng(seed)
    dense = np.where(random.random(shape) < 0.1, random.integers(1, 9, shape), 0).astype(dtype)
    coo = sparse.COO.from_numpy(dense, fill_value=dense.dtype.type(0) if dtype[0] != "M" else np.datetime64(0, "s"))
    data = da.from_array(coo, chunks=(2, 100), asarray=False) if lazy and dense.size else coo
    key, future = xdb.put(xr.Dataset({"v": (("a", "b"), data)}))
    if future is not None:
        future.compute(scheduler="sync")
    for load in (None, True, False):
        read = xdb.get(key, load=load)["v"].data
        read = read.compute(scheduler="sync") if hasattr(read, "compute") else read
        assert isinstance(read, sparse.COO)
        assert read.dtype == dense.dtype
        assert np.array_equal(read.todense(), dense)
    xdb.delete(key)


def test_sparse_cells_are_dense_where_that_is_asked_for(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, densify=True)
    coo = sparse.COO.from_numpy(np.eye(4))
    key, future = xdb.put(xr.Dataset({"a": (("x", "y"), coo), "b": (("x", "y"), da.from_array(coo, asarray=False))}))
    future.compute(scheduler="sync")
    read = xdb.get(key, load=True)
    assert all(isinstance(read[name].data, np.ndarray) and (read[name].data == np.eye(4)).all() for name in "ab")


# -- D5, D12, D14, D15, D20, D23: reading ----------------------------------------------------------------------------


@pytest.mark.parametrize("load", [None, True, False, ["t"]])
def test_a_missing_index_coordinate_is_named(xdb: XarrayMongoDB, load: Any) -> None:
    xdb.embed_threshold_bytes = 0
    key, future = xdb.put(small())
    future.compute(scheduler="sync")
    xdb.chunks.delete_many({"name": "x"})
    with pytest.raises(DocumentNotFoundError) as caught:
        xdb.get(key, load=load)
    assert str(caught.value) == str({"meta_id": key, "name": "x", "chunk": None})


@pytest.mark.parametrize("key", [ObjectId("deadbeefdeadbeefdeadbeef"), "deadbeefdeadbeefdeadbeef", {"$ne": None}, 5])
def test_an_unknown_id_is_not_found(xdb: XarrayMongoDB, key: Any) -> None:
    xdb.put(small())
    with pytest.raises(DocumentNotFoundError) as caught:
        xdb.get(key)
    assert str(caught.value) == str(key)
    assert isinstance(caught.value, KeyError)


def test_lost_sparse_chunks_without_a_fill_value_are_told_when_they_are_read(database: Database[Any]) -> None:
    """xarray_mongodb writes no fill value into the document of an object."""
    xdb = XarrayMongoDB(database, embed_threshold_bytes=0)
    cells = da.from_array(sparse.COO.from_numpy(np.eye(4)), chunks=2, asarray=False)
    key, future = xdb.put(xr.DataArray(cells, dims=("x", "y")))
    future.compute(scheduler="sync")
    xdb.meta.update_one({}, {"$unset": {"data_vars.__DataArray__.fill_value": 1}})
    xr.testing.assert_identical(xdb.get(key).compute(), xdb.get(key, load=True))
    xdb.chunks.delete_many({})
    found = xdb.get(key)
    assert found.shape == (4, 4)
    with pytest.raises(DocumentNotFoundError):
        found.compute(scheduler="sync")


def test_an_object_is_got_by_its_name(xdb: XarrayMongoDB) -> None:
    key, future = xdb.put(small(), name="air")
    future.compute(scheduler="sync")
    for known in (key, str(key), "air"):
        xr.testing.assert_identical(xdb.get(known, load=True), small().compute())
    with pytest.raises(DocumentNotFoundError) as caught:
        xdb.get("airs")
    assert (str(caught.value), caught.value.remedy) == ("airs", "did you mean 'air'?")
    other, _ = xdb.put(small().compute())
    xdb.meta.update_one({"_id": other}, {"$set": {"name": "air"}})
    with pytest.raises(Invalid, match=f"{key}, {other}"):
        xdb.get("air")
    xdb.meta.update_one({"_id": other}, {"$set": {"name": str(key)}})  # an id is an id first
    assert xdb.get(str(key))["t"].chunks is not None


@pytest.mark.parametrize("load", ["t", 5, 1.0, b"t"])
def test_load_is_none_a_truth_or_names(xdb: XarrayMongoDB, load: Any) -> None:
    key, _ = xdb.put(xr.DataArray([1]))
    with pytest.raises(TypeError):
        xdb.get(key, load=load)


@pytest.mark.parametrize("size", [7, 1 << 18])
@pytest.mark.parametrize("threshold", [0, 1 << 18])
def test_arrays_are_ones_own(xdb: XarrayMongoDB, size: int, threshold: int) -> None:
    xdb.chunk_size_bytes, xdb.embed_threshold_bytes = size, threshold
    key, future = xdb.put(small().assign(w=("y", [1, 2, 3]), s=5.0))
    future.compute(scheduler="sync")
    read = xdb.get(key, load=True)
    for name in ("t", "w", "s"):
        flags = read[name].data.flags
        assert flags.writeable
        assert flags.c_contiguous
        assert flags.owndata


def test_chunks_of_unknown_size(xdb: XarrayMongoDB) -> None:
    cells = da.arange(10, chunks=3)
    x = xr.DataArray(cells[cells % 3 != 0])
    key, future = xdb.put(x)
    future.compute(scheduler="sync")
    expected = [1, 2, 4, 5, 7, 8]
    assert xdb.get(key, load=True).values.tolist() == expected
    lazy = xdb.get(key)
    assert str(lazy.chunks) == "((nan, nan, nan, nan),)"
    assert lazy.data.compute(scheduler="sync").tolist() == expected
    with dask.config.set({"array.query-planning": True}), pytest.raises(Unsupported, match="query-planning"):
        xdb.get(key)


def test_what_chunks_say_of_their_type_counts(xdb: XarrayMongoDB) -> None:
    lying = da.ones(4, chunks=2, dtype="f8").map_blocks(lambda block: block.astype("i2"), dtype="f8", meta=np.empty(0))
    key, future = xdb.put(xr.DataArray(lying))
    future.compute(scheduler="sync")
    lazy = xdb.get(key)
    assert lazy.dtype == lazy.compute(scheduler="sync").dtype == xdb.get(key, load=True).dtype == np.dtype("i2")


@pytest.mark.parametrize("load", [None, True, False])
def test_cells_that_are_there_twice_over_are_corrupt(xdb: XarrayMongoDB, load: Any) -> None:
    key, _ = xdb.put(xr.Dataset({"a": ("x", [1])}))
    told = {"meta_id": key, "name": "a", "chunk": None, "n": 0, "dtype": "<i8", "shape": [1], "type": "ndarray"}
    xdb.chunks.insert_one({**told, "data": bytes(8)})
    with pytest.raises(CorruptDocument, match="a"):
        xdb.get(key, load=load)


@pytest.mark.parametrize("load", [None, True, False])
def test_too_many_bytes_are_corrupt(xdb: XarrayMongoDB, load: Any) -> None:
    xdb.embed_threshold_bytes = 0
    key, _ = xdb.put(xr.Dataset({"a": ("x", [1])}))
    xdb.chunks.update_one({"name": "a"}, {"$set": {"data": bytes(9)}})
    with pytest.raises(CorruptDocument, match="expected 8, found 9"):
        xdb.get(key, load=load).compute(scheduler="sync")


# -- D6, D7, D16: clients --------------------------------------------------------------------------------------------


def test_a_future_can_be_computed_in_another_process(xdb: XarrayMongoDB) -> None:
    key, future = xdb.put(small())
    process = forking().Process(target=future.compute, kwargs={"scheduler": "sync"})
    process.start()
    process.join()
    xr.testing.assert_identical(xdb.get(key, load=True), small().compute())


def test_tasks_use_the_callers_client(xdb: XarrayMongoDB) -> None:
    status = xdb.meta.database.client.admin
    key, future = xdb.put(xr.DataArray(da.zeros((64, 8), chunks=(1, 8))))
    before = status.command("serverStatus")["connections"]["totalCreated"]
    again = pickle.loads(pickle.dumps(future))
    again.compute(scheduler="threads", num_workers=2)
    xdb.get(key).compute(scheduler="threads", num_workers=2)
    assert status.command("serverStatus")["connections"]["totalCreated"] - before <= 4


def test_getting_needs_no_right_to_make_an_index(mongo: Any, xdb: XarrayMongoDB) -> None:
    key, future = xdb.put(small())
    future.compute(scheduler="sync")
    reader = XarrayMongoDB(xdb.meta.database, "other", read_index=False)
    with pytest.raises(DocumentNotFoundError):
        reader.get(key)
    assert "other.chunks" not in xdb.meta.database.list_collection_names()


# -- what is ours ----------------------------------------------------------------------------------------------------


def test_an_id_of_ones_own(xdb: XarrayMongoDB) -> None:
    key = ObjectId()
    assert xdb.put(xr.DataArray([1]), _id=key, name="n") == (key, None)
    assert xdb.get(key).name == "n"
    with pytest.raises(AlreadyExists):
        xdb.put(xr.DataArray([2]), _id=key)
    assert xdb.get(key).item() == 1


@pytest.mark.parametrize(
    "given",
    [
        {"chunk_size_bytes": 0},
        {"chunk_size_bytes": 2.5},
        {"chunk_size_bytes": 16 << 20},
        {"embed_threshold_bytes": -1},
        {"layout": "other"},
        {"chunk_ids": "random"},
        {"positional_index": "yes"},
        {"commit": "never"},
        {"verify": "always"},
        {"credentials": "secret"},
    ],
)
def test_options_that_there_are_not(database: Database[Any], given: Any) -> None:
    with pytest.raises(Invalid, match=next(iter(given))):
        XarrayMongoDB(database, **given)


def test_the_document_of_an_object_comes_last(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, commit="meta_last")
    key, future = xdb.put(small())
    with pytest.raises(DocumentNotFoundError):
        xdb.get(key)
    future.compute(scheduler="sync")
    assert "hyperslab" not in xdb.meta.find_one({"_id": key})
    xr.testing.assert_identical(xdb.get(key, load=True), small().compute())


def test_verifying_finds_what_is_missing_before_it_is_read(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, layout="extended")
    key, future = xdb.put(small())
    future.compute(scheduler="sync")
    assert any(index.get("unique") for index in xdb.chunks.index_information().values())
    xdb.chunks.delete_one({"name": "t", "chunk": [1, 0]})
    assert not xdb.is_complete(key)
    with pytest.raises(DocumentNotFoundError) as caught:
        xdb.get(key)
    assert str(caught.value) == str({"meta_id": key, "name": "t", "chunk": (1, 0)})


def test_query_planning_of_dask(xdb: XarrayMongoDB) -> None:
    with dask.config.set({"array.query-planning": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        key, future = xdb.put(small())
        future.compute(scheduler="sync")
        read = xdb.get(key)
        assert read["t"].chunks == ((2, 1), (3, 1))
        xr.testing.assert_identical(read.compute(scheduler="sync"), small().compute())


def test_parts_of_lazy_arrays(xdb: XarrayMongoDB) -> None:
    cells = np.arange(7 * 9).reshape(7, 9)
    key, future = xdb.put(xr.DataArray(cells, dims=("y", "x")).chunk({"y": 3, "x": 4}))
    future.compute(scheduler="sync")
    lazy = xdb.get(key)
    for part in (
        (3, 5),
        (slice(None, None, -1), slice(1, 8, 3)),
        (slice(2, 2), slice(None)),
        ([6, 0, 3], slice(None)),
        (slice(None), [True, False, True] * 3),
        (-1, slice(-2, None)),
    ):
        assert np.array_equal(lazy[part].compute(scheduler="sync").values, xr.DataArray(cells, dims=("y", "x"))[part])


def test_a_point_of_a_large_chunk_moves_few_documents(mongo: Any) -> None:
    moved: list[int] = []

    class Counting(CommandListener):
        def started(self, event: Any) -> None: ...

        def failed(self, event: Any) -> None: ...

        def succeeded(self, event: Any) -> None:
            cursor = event.reply.get("cursor", {})
            moved.append(len(cursor.get("firstBatch", cursor.get("nextBatch", []))))

    with MongoClient[Any](mongo.url, event_listeners=[Counting()]) as client:
        xdb = XarrayMongoDB(client[mongo.database()], chunk_size_bytes=4096)
        cells = np.arange(256 * 256).reshape(256, 256)
        key, future = xdb.put(xr.DataArray(cells, dims=("y", "x")).chunk())
        future.compute(scheduler="sync")
        xdb.meta.database["other.chunks"].drop()
        for size in (4096, 777):  # what the object says of its documents may be wrong
            xdb.meta.update_one({"_id": key}, {"$set": {"chunkSize": size}})
            lazy = xdb.get(key)
            moved.clear()
            assert lazy[200, 3].compute(scheduler="sync").item() == cells[200, 3]
            assert sum(moved) <= 3
            assert np.array_equal(lazy[5:9, ::7].compute(scheduler="sync"), cells[5:9, ::7])
            assert np.array_equal(lazy[::3].compute(scheduler="sync"), cells[::3])
        xdb.chunks.delete_one({"n": 100})
        with pytest.raises(DocumentNotFoundError):
            xdb.get(key)[200, 3].compute(scheduler="sync")
        client.drop_database(xdb.meta.database)


def test_chunks_under_derived_ids_are_read_by_one_query_each(mongo: Any) -> None:
    class Finds(CommandListener):
        count = 0

        def started(self, event: Any) -> None:
            self.count += event.command_name in ("find", "getMore")

        def failed(self, event: Any) -> None: ...

        def succeeded(self, event: Any) -> None: ...

    finds = Finds()
    with MongoClient[Any](mongo.url, event_listeners=[finds]) as client:
        xdb = XarrayMongoDB(client[mongo.database()], layout="extended", chunk_size_bytes=1000, embed_threshold_bytes=0)
        cells = np.arange(64 * 64.0).reshape(64, 64)
        key, future = xdb.put(xr.DataArray(cells, dims=("y", "x")).chunk(32))
        future.compute(scheduler="sync")

        def read() -> int:
            """Compute the array, and return by how many queries."""
            lazy = xdb.get(key)
            finds.count = 0
            assert np.array_equal(lazy.compute(scheduler="sync"), cells)
            return finds.count

        # Four chunks of nine documents each; where the object says that they are one, the others by a second query.
        for size, queries in ((777, 4), (8, 4), (1 << 20, 8), (1000, 4)):
            xdb.meta.update_one({"_id": key}, {"$set": {"chunkSize": size}})
            assert read() == queries
        # A document that lies under an id of its own, as another driver may store it.
        for n in (0, 5):
            moved = xdb.chunks.find_one_and_delete({"chunk": [0, 0], "n": n})
            xdb.chunks.insert_one({**moved, "_id": ObjectId()})
            assert read() == 4
        xdb.chunks.delete_one({"chunk": [1, 0], "n": 3})
        with pytest.raises(DocumentNotFoundError):
            read()
        client.drop_database(xdb.meta.database)


@pytest.mark.parametrize("load", [None, True])
def test_chunks_that_were_never_written_read_as_the_fill_value(mongo: Any, xdb: XarrayMongoDB, load: Any) -> None:
    import hyperslab as hs

    url = f"{mongo.url}/{xdb.meta.database.name}#grown"
    with hs.create(url) as root:
        array = root.create_array("v", shape=(4, 6), dtype="i4", dims=("y", "x"), chunks=(2, 3), fill_value=-7)
        array[:2, 3:] = 5
        array.attrs["half"] = np.float16(0.5)
    read = xdb.get(xdb.list()[0].id, load=load)["v"]
    expected = np.full((4, 6), -7, "i4")
    expected[:2, 3:] = 5
    assert np.array_equal(read.compute(scheduler="sync"), expected)
    assert read.attrs["half"].dtype == np.float16


def test_dates_of_other_calendars_are_stored_as_numbers(xdb: XarrayMongoDB) -> None:
    time = xr.date_range("2000-01-01", periods=3, calendar="360_day", use_cftime=True)
    with pytest.raises(Unsupported, match="'t'") as caught:
        xdb.put(xr.Dataset({"t": ("x", time)}))
    assert "decode_times=False" in str(caught.value.remedy)


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_a_name_that_is_given_is_had_by_one_object(database: Database[Any], layout: Any) -> None:
    xdb = XarrayMongoDB(database, layout=layout)
    key, _ = xdb.put(small().compute(), name="air")
    before = [*xdb.meta.find()], [*xdb.chunks.find()]
    for x in (small(), small().compute(), xr.DataArray([1])):
        with pytest.raises(AlreadyExists, match=rf"'air': {key}.*replace=True"):
            xdb.put(x, name="air")
    assert before == ([*xdb.meta.find()], [*xdb.chunks.find()])
    new, future = xdb.put(small() + 1, name="air", replace=True)
    future.compute(scheduler="sync")
    assert [info.id for info in xdb.list()] == [new]
    xr.testing.assert_identical(xdb.get("air", load=True), (small() + 1).compute())
    first, _ = xdb.put(small().compute(), name="first", replace=True)
    assert {info.id: info.name for info in xdb.list()} == {new: "air", first: "first"}
    for wrong in ({}, {"name": "air", "_id": ObjectId()}):
        with pytest.raises(Invalid, match="replace=True"):
            xdb.put(small(), replace=True, **wrong)


def test_data_arrays_that_are_called_alike_are_put_as_by_xarray_mongodb(xdb: XarrayMongoDB) -> None:
    for _ in range(2):
        xdb.put(xr.DataArray([1], name="air"))
    assert [info.name for info in xdb.list()] == ["air", "air"]


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_of_many_that_put_under_one_name_one_does(database: Database[Any], layout: Any) -> None:
    def put(number: int) -> Any:
        xdb = XarrayMongoDB(database, layout=layout, embed_threshold_bytes=0)
        try:
            return xdb.put(xr.Dataset({"t": ("x", np.full(number + 1, number))}), name="n")[0]
        except AlreadyExists:
            return None

    with ThreadPoolExecutor(6) as threads:
        for _ in range(5):
            (winner,) = [key for key in threads.map(put, range(6)) if key is not None]
            xdb = XarrayMongoDB(database)
            assert [info.id for info in xdb.find(name="n")] == [winner]
            found = xdb.get("n", load=True)["t"].values
            assert set(found.tolist()) == {len(found) - 1}
            assert xdb.chunks.distinct("meta_id") == [winner]
            xdb.delete("n")
