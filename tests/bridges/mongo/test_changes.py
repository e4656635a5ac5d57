"""Objects made longer, changed in a region, replaced and completed where they lie: NumPy says what they should be."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import sparse
import xarray as xr
from bson import ObjectId
from pymongo.database import Database
from pymongo.errors import BulkWriteError

import hyperslab as hs
from hyperslab.bridges.mongo import updates
from hyperslab.errors import Conflict, Invalid, NotFound, WrongType
from hyperslab.formats.mongo.bson_values import Collections
from hyperslab.formats.mongo.rules import find_problems
from hyperslab.formats.mongo.variables import load_object, read_variables
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

pytestmark = pytest.mark.sampled(2)

if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture(params=["standalone", "replica"])
def xdb(request: pytest.FixtureRequest) -> XarrayMongoDB:
    return XarrayMongoDB(request.getfixturevalue("database" if request.param == "standalone" else "replica"))


def days(start: int, count: int, lazy: bool = False) -> xr.Dataset:
    time = np.arange(start, start + count)
    t = np.add.outer(time * 10, np.arange(3)).astype("f8")
    ds = xr.Dataset({"t": (("time", "x"), t), "n": ("time", time * 2), "s": ("x", [7, 8, 9])}, {"time": time})
    return ds.chunk({"time": 2, "x": 2}) if lazy else ds


def stored(xdb: XarrayMongoDB, x: Any, **given: Any) -> ObjectId:
    key, future = xdb.put(x, **given)
    if future is not None:
        future.compute(scheduler="sync")
    return key


def no_rest(xdb: XarrayMongoDB) -> bool:
    """Whether every chunk document belongs to a chunk that an object has."""
    for told in xdb.meta.find():
        for name, variable in {**told["coords"], **told["data_vars"]}.items():
            for chunk in xdb.chunks.distinct("chunk", {"meta_id": told["_id"], "name": name}):
                del chunk
            for row in xdb.chunks.find({"meta_id": told["_id"], "name": name}):
                chunk, grid = row["chunk"], variable["chunks"]
                if "data" in variable or (chunk is None) != (grid is None):
                    return False
                if chunk is not None and any(at >= len(sizes) for at, sizes in zip(chunk, grid, strict=True)):
                    return False
    ids = xdb.meta.distinct("_id")
    return xdb.chunks.count_documents({"meta_id": {"$nin": ids}}) == 0


# -- append ----------------------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("threshold", [0, 100, 1 << 18])
@pytest.mark.parametrize(("first", "second"), [(False, False), (True, True), (True, False), (False, True)])
def test_append_makes_an_object_longer(xdb: XarrayMongoDB, threshold: int, first: bool, second: bool) -> None:
    xdb.embed_threshold_bytes = threshold
    key = stored(xdb, days(0, 5, first))
    for start in (5, 8):
        xdb.append(key, days(start, 3, second), "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 11))
    xr.testing.assert_identical(xdb.get(key).compute(scheduler="sync"), days(0, 11))
    assert xdb.is_complete(key)
    assert no_rest(xdb)


def test_labels_that_are_there_are_not_appended(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 4))
    with pytest.raises(Invalid, match=r"'time' has the label .* already, and 1 more of the 3") as caught:
        xdb.append(key, days(2, 3), "time")
    assert "repeated='allow'" in str(caught.value) and "update()" in str(caught.value)
    assert "overwrite" not in str(caught.value)  # which objects have not
    with pytest.raises(Invalid, match=r"give one of error, allow$"):
        xdb.append(key, days(2, 3), "time", repeated="replace")  # type: ignore[arg-type]
    assert xdb.get(key).sizes["time"] == 4
    with pytest.raises(Invalid, match="update"):
        xdb.append(key, days(2, 3), "time", repeated="overwrite")  # type: ignore[arg-type]
    xdb.append(key, days(2, 3), "time", repeated="allow")
    assert xdb.get(key).sizes["time"] == 7


@pytest.mark.parametrize("name", ["limit", "skip"])
def test_a_limit_is_a_whole_number(xdb: XarrayMongoDB, name: str) -> None:
    stored(xdb, days(0, 4))
    for wrong in ("3", 1.5, -1):
        with pytest.raises(Invalid, match="whole number"):
            xdb.find(**{name: wrong})
    for dims in (None, ["time"]):  # which the server, and the client counts
        assert len(list(xdb.find(dims=dims, **{name: np.int64(0)}))) == (0 if name == "limit" else 1)
        assert len(list(xdb.find(dims=dims, **{name: np.int64(1)}))) == (1 if name == "limit" else 0)


def test_append_of_sparse_cells(xdb: XarrayMongoDB) -> None:
    cells = sparse.COO.from_numpy(np.eye(6))
    for threshold in (0, 1 << 18):
        xdb.embed_threshold_bytes = threshold
        for data in (cells[:4], da.from_array(cells[:4], chunks=2, asarray=False)):
            key = stored(xdb, xr.DataArray(data, dims=("x", "y")))
            xdb.append(key, xr.DataArray(cells[4:], dims=("x", "y")), "x")
            read = xdb.get(key, load=True)
            assert isinstance(read.data, sparse.COO)
            assert np.array_equal(read.data.todense(), np.eye(6))


@pytest.mark.covering
@pytest.mark.parametrize(
    ("x", "dim", "said"),
    [
        (days(5, 1), "other", "dimension"),
        (days(5, 1).drop_vars("n"), "time", "'n'"),
        (days(5, 1).isel(x=[0]), "time", "shape"),
        (days(5, 1).transpose("x", "time"), "time", "transpose"),
        (days(5, 1).assign(n=("time", [0.5])), "time", "dtype"),
    ],
)
def test_what_does_not_fit_is_not_appended(xdb: XarrayMongoDB, x: Any, dim: str, said: str) -> None:
    key = stored(xdb, days(0, 5, True))
    with pytest.raises(Invalid, match=said):
        xdb.append(key, x, dim)
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 5))
    assert no_rest(xdb)


def test_an_append_that_fails_changes_nothing(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 4, True))

    def fail(block: Any) -> Any:
        raise ZeroDivisionError

    bad = days(4, 4, True)
    bad["t"] = bad["t"].copy(data=da.map_blocks(fail, bad["t"].data, dtype="f8", meta=np.empty((0, 0))))
    with pytest.raises(ZeroDivisionError):
        xdb.append(key, bad, "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 4))
    assert no_rest(xdb)
    xdb.append(key, days(4, 4), "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 8))


@pytest.mark.covering
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("chunk_ids", ["objectid", "derived"])
def test_one_that_came_to_a_halt_touches_nothing_of_the_next_one(
    xdb: XarrayMongoDB, chunk_ids: Any, fails: bool
) -> None:
    xdb = XarrayMongoDB(xdb.meta.database, chunk_ids=chunk_ids)
    key = stored(xdb, days(0, 4, True))

    def halt(block: Any) -> Any:
        """The lease runs out, and another one appends."""
        xdb.meta.update_one({"_id": key}, {"$set": {"hyperslab.lease.until": datetime(2000, 1, 1)}})
        xdb.append(key, days(4, 2), "time")
        if fails:
            raise ZeroDivisionError
        return block

    late = days(14, 2, True)
    late["n"] = late["n"].copy(data=da.map_blocks(halt, late["n"].data, dtype="i8", meta=np.empty(0, "i8")))
    with dask.config.set(scheduler="sync"), pytest.raises((Conflict, ZeroDivisionError)):
        xdb.append(key, late, "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 6))
    xdb.append(key, days(6, 2), "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 8))


def test_one_whose_lease_was_taken_lets_nobody_see_its_cells(
    xdb: XarrayMongoDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = stored(xdb, days(0, 4, True))
    store_growth = updates._store_growth

    def halt(*arguments: Any) -> None:
        """All chunks are stored; the lease runs out, and another one, who stores its own, has it."""
        store_growth(*arguments)
        lease = {"owner": "another", "until": datetime(2100, 1, 1)}
        xdb.meta.update_one({"_id": key}, {"$set": {"hyperslab.lease": lease}})

    monkeypatch.setattr(updates, "_store_growth", halt)
    with pytest.raises(Conflict, match="locked by another writer"):
        xdb.append(key, days(4, 2), "time")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 4))


def test_an_object_that_is_updated_meanwhile_is_not_copied(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 4, True))
    before = xdb.meta.find_one({"_id": key})
    xdb.update(key, days(10, 2)[["t"]].drop_vars("time"), {"time": slice(0, 2)})
    assert xdb.meta.find_one({"_id": key}) != before


def test_many_append_at_the_same_time(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 2, True))
    append = partial(xdb.append, key, dim="time", repeated="allow")  # which comes first is anybody's guess
    threads = [threading.Thread(target=append, args=(days(at, 2),)) for at in (2, 4, 6, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = xdb.get(key, load=True)
    assert sorted(read["n"].values) == sorted(days(0, 10)["n"].values)
    xr.testing.assert_identical(read.sortby("time"), days(0, 10))


# -- update ----------------------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("size", [20, 1 << 18])
@pytest.mark.parametrize("threshold", [0, 1 << 18])
def test_update_puts_cells_over_others(xdb: XarrayMongoDB, lazy: bool, size: int, threshold: int) -> None:
    xdb.embed_threshold_bytes, xdb.chunk_size_bytes = threshold, size
    key = stored(xdb, days(0, 7, lazy))
    expected = days(0, 7)
    for region in ({"time": slice(1, 4)}, {"time": slice(-2, None), "x": slice(1, 2)}, {"time": slice(0, 0)}):
        part = expected[["t"]].isel(region) * -1 - 5
        expected["t"][region] = part["t"]
        xdb.update(key, part.chunk() if lazy else part, region)
        xr.testing.assert_identical(xdb.get(key, load=True), expected)
    xdb.update(key, xr.Dataset({"s": ("x", [1])}), {"x": slice(0, 1)})
    assert xdb.get(key, load=True)["s"].values.tolist() == [1, 8, 9]
    assert no_rest(xdb)


def test_update_of_sparse_cells(xdb: XarrayMongoDB) -> None:
    for threshold in (0, 1 << 18):
        xdb.embed_threshold_bytes = threshold
        key = stored(xdb, xr.DataArray(sparse.COO.from_numpy(np.eye(6)), dims=("x", "y")))
        xdb.update(key, xr.DataArray([[5.0, 0.0]], dims=("x", "y")), {"x": slice(2, 3), "y": slice(1, 3)})
        expected = np.eye(6)
        expected[2, 1:3] = 5, 0
        assert np.array_equal(xdb.get(key).data.todense(), expected)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("x", "region", "said"),
    [
        (xr.Dataset({"t": (("time", "x"), [[1.0]])}), {"q": slice(0, 1)}, "dimension"),
        (xr.Dataset({"t": (("time", "x"), [[1.0]])}), {"time": slice(0, 2), "x": slice(0, 1)}, "shape"),
        (xr.Dataset({"t": (("time", "x"), [[1.0]])}), {"time": slice(0, 100)}, "append"),
        (xr.Dataset({"t": (("time", "x"), [[1.0]])}), {"time": slice(0, 2, 2)}, "step"),
        (xr.Dataset({"new": (("time", "x"), [[1.0]])}), {"time": slice(0, 1)}, "new"),
        (xr.Dataset({"s": ("x", [1, 2, 3])}), {"time": slice(0, 1)}, "drop_vars"),
    ],
)
def test_what_does_not_fit_is_not_put_over(xdb: XarrayMongoDB, x: Any, region: Any, said: str) -> None:
    key = stored(xdb, days(0, 5, True))
    with pytest.raises(Invalid, match=said):
        xdb.update(key, x, region)
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 5))


# -- resume ----------------------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_resume_stores_what_is_missing(xdb: XarrayMongoDB, lazy: bool, layout: Any) -> None:
    other = XarrayMongoDB(xdb.meta.database, layout=layout, chunk_size_bytes=20, embed_threshold_bytes=0)
    key = stored(other, days(0, 7, True))
    other.chunks.delete_many({"chunk": [1, 0]})
    other.chunks.delete_many({"name": "s", "n": 0})
    other.chunks.delete_many({"name": "time"})
    kept = {row["_id"] for row in other.chunks.find({"chunk": [2, 1]})}
    future = other.resume(key, days(0, 7, lazy))
    assert (future is not None) == lazy
    if future is not None:
        assert future.compute(scheduler="sync") is None
        future.compute(scheduler="sync")
    assert other.is_complete(key)
    assert kept == {row["_id"] for row in other.chunks.find({"chunk": [2, 1]})}
    xr.testing.assert_identical(other.get(key, load=True), days(0, 7))
    assert other.resume(key, days(0, 7, lazy)) is None


def test_resume_takes_the_same_object_alone(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 5))
    for other in (days(0, 6), days(0, 5).drop_vars("n"), days(0, 5).astype("f4")):
        with pytest.raises(Invalid):
            xdb.resume(key, other)


def test_resume_of_an_object_whose_document_was_to_come_last(database: Database[Any]) -> None:
    xdb = XarrayMongoDB(database, layout="extended")
    key, _ = xdb.put(days(0, 5, True))
    xdb.resume(key, days(0, 5, True)).compute(scheduler="sync")
    xr.testing.assert_identical(xdb.get(key, load=True), days(0, 5))


# -- replace, and what lies there ------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("by", ["name", "id", "hex"])
def test_replace_swaps_objects(xdb: XarrayMongoDB, lazy: bool, by: str) -> None:
    old = stored(xdb, days(0, 5), name="n")
    new, future = xdb.replace({"name": "n", "id": old, "hex": str(old)}[by], days(5, 5, lazy))
    assert new != old
    if future is not None:
        assert [each.id for each in xdb.find(name="n")] == [old]
        xr.testing.assert_identical(xdb.get(old, load=True), days(0, 5))
        assert future.compute(scheduler="sync") is None
        future.compute(scheduler="sync")
    assert [(each.id, each.name) for each in xdb.list()] == [(new, "n")]
    xr.testing.assert_identical(xdb.get(new, load=True), days(5, 5))
    with pytest.raises(DocumentNotFoundError):
        xdb.get(old)
    assert no_rest(xdb)


def test_replace_of_what_has_no_name(xdb: XarrayMongoDB) -> None:
    old = stored(xdb, days(0, 5))
    new, _ = xdb.replace(old, days(5, 5))
    assert [(each.id, each.name) for each in xdb.list()] == [(new, None)]
    named, _ = xdb.replace("first", days(0, 1))
    assert {each.id: each.name for each in xdb.list()} == {new: None, named: "first"}
    with pytest.raises(NotFound):
        xdb.replace(ObjectId(), days(0, 1))


def test_no_object_is_given_a_name_that_is_taken_for_an_id(xdb: XarrayMongoDB) -> None:
    key, name = stored(xdb, days(0, 5), name="n"), str(ObjectId())
    for give in (
        lambda: xdb.put(days(0, 1), name=name),
        lambda: xdb.put(days(0, 1), name=name, replace=True),
        lambda: xdb.replace(name, days(0, 1)),
        lambda: xdb.rename("n", name),
        lambda: xdb.copy("n", name=name),
    ):
        with pytest.raises(Invalid, match="which is an id"):
            give()
    assert [(each.id, each.name) for each in xdb.list()] == [(key, "n")]
    assert no_rest(xdb)
    # One that another program has given it is found, and can be replaced.
    xdb.meta.update_one({"_id": key}, {"$set": {"name": name}})
    new, _ = xdb.replace(name, days(5, 5))
    assert [(each.id, each.name) for each in xdb.list()] == [(new, name)]


def test_objects_are_found_renamed_copied_and_deleted(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 5).assign_attrs(kind="day"), name="n")
    other = stored(xdb, days(0, 2))
    assert [each.id for each in xdb.find({"kind": "day"})] == [key]
    xdb.rename("n", "m")
    assert [each.name for each in xdb.list()] == ["m", None]
    copy = xdb.copy("m", XarrayMongoDB(xdb.meta.database, "elsewhere"))
    there = XarrayMongoDB(xdb.meta.database, "elsewhere")
    xr.testing.assert_identical(there.get(copy), xdb.get(key))
    xdb.delete("m")
    xdb.delete(other)
    assert xdb.chunks.count_documents({}) == xdb.meta.count_documents({}) == 0
    with pytest.raises(NotFound):
        xdb.delete("m")


def test_an_object_that_is_being_made_is_not_changed(xdb: XarrayMongoDB) -> None:
    key, _ = xdb.replace("n", days(0, 5, True))
    with pytest.raises(Conflict):
        xdb.append(key, days(5, 1), "time")


def test_what_belongs_to_nothing_is_told_of_and_collected(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 5, True))
    assert xdb.check() == xdb.check(key) == []
    broken, _ = xdb.put(days(0, 5, True))
    assert {problem.node.split("/")[0] for problem in xdb.check()} == {str(broken)}
    xdb.meta.delete_one({"_id": key})
    assert xdb.collect_garbage().documents == 0
    told = xdb.collect_garbage(age=0, dry_run=True)
    assert told.documents == xdb.chunks.count_documents({"meta_id": key}) + 1  # and the document of the put
    assert xdb.collect_garbage(age=0).documents == told.documents
    assert xdb.chunks.count_documents({}) == xdb.meta.count_documents({}) == 0


def test_a_replacement_that_fails_leaves_the_old_object(xdb: XarrayMongoDB) -> None:
    for _ in range(2):
        stored(xdb, days(0, 5))
    xdb.meta.update_many({}, {"$set": {"name": "n"}})
    before = [each.id for each in xdb.list()]
    with pytest.raises(Invalid, match="2 objects"):
        xdb.replace("n", days(5, 5))
    xdb.embed_threshold_bytes = 0
    rule = {"$jsonSchema": {"properties": {"name": {"enum": ["t"]}}}}
    xdb.meta.database.command("collMod", xdb.chunks.name, validator=rule)
    with pytest.raises(BulkWriteError):
        xdb.replace(before[0], days(5, 5))
    assert [each.id for each in xdb.list()] == before
    assert xdb.meta.count_documents({}) == 2
    assert no_rest(xdb)


def test_a_copy_goes_to_a_database(xdb: XarrayMongoDB) -> None:
    key = stored(xdb, days(0, 2))
    target: Any = "name of the copy"
    with pytest.raises(WrongType, match="name="):
        xdb.copy(key, target)
    assert len(xdb.list()) == 1


@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize("embed", [0, 1 << 18])
def test_update_of_cells_that_resize_has_made(
    mongo: Mongo, database: Database[Any], embed: int, sparsely: bool
) -> None:
    """Chunks that were never stored, and such as are shorter than the array is now."""
    xdb = XarrayMongoDB(database, embed_threshold_bytes=embed)
    cells = np.arange(1.0, 5)
    stored(xdb, xr.Dataset({"t": ("x", sparse.COO.from_numpy(cells) if sparsely else cells)}).chunk({"x": 3}), name="o")
    hs.open_group(f"{mongo.url}/{database.name}#o", "r+")["t"].resize((11,))
    cells = np.concatenate([cells, np.zeros(7)])
    for region in (slice(5, 6), slice(7, 11), slice(2, 9)):
        cells[region] = -np.arange(region.start, region.stop)
        xdb.update("o", xr.Dataset({"t": ("x", cells[region])}), {"x": region})
        read = xdb.get("o", load=True)["t"].data
        assert (read.todense() if sparsely else read).tolist() == cells.tolist()
    assert xdb.check("o", deep=True) == []


def test_an_object_is_read_as_it_was_before_its_first_append(database: Database[Any]) -> None:
    """Whoever has read its document finds cells there, and by then chunks of the same variable behind."""
    xdb = XarrayMongoDB(database, layout="compatible", embed_threshold_bytes=20)
    id, _ = xdb.put(xr.Dataset({"v": ("x", np.arange(2.0))}), name="a")
    here = Collections(xdb.meta, xdb.chunks)
    before = load_object(here, id)
    assert not before.extension and before.variables["v"].embedded is not None
    xdb.append("a", xr.Dataset({"v": ("x", np.arange(2.0))}), "x")
    assert xdb.chunks.count_documents({"meta_id": id, "name": "v"}) == 2
    np.testing.assert_array_equal(read_variables(here, before, ["v"])["v"].cells, [0.0, 1.0])


def test_a_check_sees_what_is_changed_and_removed_meanwhile(database: Database[Any]) -> None:
    """Documents of some objects are read at once, and chunks of those that have many when it is their turn."""
    xdb = XarrayMongoDB(database, layout="compatible", embed_threshold_bytes=20)
    many = xr.Dataset({"w": ("y", da.zeros(201, chunks=1))})
    damaged, _ = xdb.put(xr.Dataset({"v": ("x", np.arange(20.0))}), name="damaged")
    xdb.chunks.delete_many({"meta_id": damaged})
    for name, each in (("appended", many.assign(v=("x", np.arange(2.0)))), ("removed", many)):
        xdb.put(each, name=name)[1].compute()
    problems = find_problems(xdb.meta, xdb.chunks)
    assert next(problems).kind == "missing-chunk"
    xdb.append("appended", xr.Dataset({"v": ("x", np.arange(2.0))}), "x")
    xdb.delete("removed")
    assert [str(each) for each in problems] == []
