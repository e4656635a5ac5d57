"""Two handles of one object: what one has changed, the other one goes by, and neither takes anything back."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sparse
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Conflict, NodeNotFound, NotFound
from hyperslab.formats.mongo import chunk_queries, chunk_writes
from hyperslab.formats.mongo.object_changes import hold_lease
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

PLACES = ("small", "documents")


@pytest.fixture
def base(mongo: Mongo, db: Database[Any]) -> str:
    """The URL of an empty database."""
    return f"{mongo.url}/{db.name}"


def handles(base: str, place: str, cells: Any) -> tuple[hs.Array, hs.Array]:
    """Two of one array, which stands in the document of its object, or in documents of 16 bytes."""
    sizes = {"chunk_size_bytes": 16, "embed_threshold_bytes": 0} if place == "documents" else {}
    with hs.create(f"{base}#o", **sizes) as root:
        root.create_array("x", data=cells, dims=("x",), chunks=(4 if sizes else 1 << 14,), fill_value=-1)
    one, other = (hs.open(f"{base}#o", "r+", lock_timeout=5, **sizes)["x"] for _ in range(2))
    assert one[:].tolist() == other[:].tolist() == list(cells)
    return one, other


@pytest.mark.parametrize("place", PLACES)
def test_an_older_handle_changes_cells_after_another(base: str, place: str) -> None:
    one, other = handles(base, place, np.arange(4.0))
    one[1] = 10
    other[2] = 20
    one[3] = 30
    other[0] = 40
    one.refresh()
    assert hs.open(f"{base}#o")["x"][:].tolist() == one[:].tolist() == [40, 10, 20, 30]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", [2, slice(None)])
def test_an_older_handle_leaves_the_rows_that_another_one_has_appended(base: str, place: str, key: Any) -> None:
    one, other = handles(base, place, np.arange(4.0))
    one.append(np.array([4.0, 5.0]), dim="x")
    other[key] = 7
    expected = np.arange(6.0)
    expected[:4][key] = 7
    assert hs.open(f"{base}#o")["x"][:].tolist() == expected.tolist()
    assert not hs.check(f"{base}#o", deep=True)


@pytest.mark.parametrize("key", [2, slice(1, 3), slice(None)])
def test_an_older_handle_finds_the_cells_that_another_one_has_cut_into_chunks(base: str, key: Any) -> None:
    one, other = handles(base, "small", np.arange(4.0))
    one.append(np.arange(4.0, 1e5), dim="x")
    other[key] = 7
    expected = np.arange(1e5)
    expected[:4][key] = 7
    assert np.array_equal(hs.open(f"{base}#o")["x"][:], expected)
    assert other[:].tolist() == expected[:4].tolist()
    assert not hs.check(f"{base}#o", deep=True)


@pytest.mark.parametrize("place", PLACES)
def test_an_older_handle_changes_what_is_left_of_a_shorter_array(base: str, place: str) -> None:
    one, other = handles(base, place, np.arange(4.0))
    one.resize((2,))
    other[1] = 7
    other[3] = 8
    assert hs.open(f"{base}#o")["x"][:].tolist() == [0, 7]
    one.resize((4,))
    assert hs.open(f"{base}#o")["x"][:2].tolist() == [0, 7]


def test_an_older_handle_is_told_that_its_array_is_gone(base: str) -> None:
    one, other = handles(base, "small", np.arange(4.0))
    root = hs.open(f"{base}#o", "r+")
    del root["x"]
    with pytest.raises(NodeNotFound):
        other[2] = 7
    root.create_array("x", data=np.arange(4), dims=("x",))
    with pytest.raises(NodeNotFound):
        one[2] = 7.5
    assert hs.open(f"{base}#o")["x"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("place", "how"), [*product(PLACES, ("deleted", "replaced", "kept")), ("documents", "compacted")]
)
@pytest.mark.parametrize("key", [2, slice(None)])
def test_no_write_ends_in_an_object_that_is_gone_or_replaced(
    base: str, db: Database[Any], place: str, how: str, key: Any
) -> None:
    one, _ = handles(base, place, np.arange(8.0))
    xdb = XarrayMongoDB(db, keep_versions=60 if how == "kept" else False)
    old = xdb.list()[0].id
    match how:
        case "deleted":
            xdb.delete("o")
        case "compacted":
            assert xdb.compact("o") != old
        case _:
            xdb.replace("o", xr.Dataset({"x": ("x", np.zeros(8))}))
    with pytest.raises(NotFound, match=r"the object is gone|another object has taken the place"):
        one[key] = 7
    if how in ("kept", "compacted"):
        assert hs.open(f"{base}#{old}")["x"][:].tolist() == list(range(8))
    if how != "deleted":
        assert hs.open(f"{base}#o")["x"][:].tolist() == ([0] * 8 if how != "compacted" else list(range(8)))


def test_an_older_version_takes_no_changes(base: str, db: Database[Any]) -> None:
    xdb = XarrayMongoDB(db, keep_versions=60)
    old, _ = xdb.put(xr.Dataset({"x": ("x", np.zeros(8))}), name="o")
    xdb.replace("o", xr.Dataset({"x": ("x", np.ones(8))}))
    root = hs.open(f"{base}#{old}", "r+")
    with pytest.raises(NotFound, match="older version"):
        root["x"][2] = 5
    with pytest.raises(NotFound, match="older version"):
        root.attrs["k"] = 5
    assert (xdb.get(old).x.values.tolist(), xdb.get(old).attrs) == ([0] * 8, {})


@pytest.mark.parametrize("place", PLACES)
def test_writers_wait_for_who_makes_a_new_object_of_theirs(base: str, db: Database[Any], place: str) -> None:
    handles(base, place, np.arange(8.0))
    root = hs.open(f"{base}#o", "r+", lock_timeout=0.3)
    with hold_lease(db["xarray.meta"], XarrayMongoDB(db).list()[0].id, base, 5, moves=True):
        for key in (2, slice(None)):
            with pytest.raises(Conflict):
                root["x"][key] = 7
        with pytest.raises(Conflict):
            root.attrs["k"] = 5
        assert hs.open(f"{base}#o")["x"][:].tolist() == list(range(8))
        db["xarray.meta"].update_one({}, [{"$set": {"hyperslab.lease.until": {"$subtract": ["$$NOW", 1]}}}])
        root["x"][2] = 7  # its holder died, and finds the lease gone should it live after all
        assert "lease" not in db["xarray.meta"].find_one()["hyperslab"]
    root.attrs["k"] = 5
    assert hs.open(f"{base}#o")["x"][:3].tolist() == [0, 1, 7]


class Overtaken(chunk_writes.ChunkUndo):
    """Of a writer who has looked that nobody makes a new object; then ``act`` does."""

    act: Any = None

    def wait_until_free(self, keys: Any = ()) -> int | None:
        version = super().wait_until_free(keys)
        act, self.act = self.act, None
        if act is not None:
            act()
        return version


def test_a_write_that_a_compaction_overtakes_is_not_acknowledged(base: str, db: Database[Any]) -> None:
    handles(base, "documents", np.arange(8.0))
    xdb, meta, chunks = XarrayMongoDB(db), db["xarray.meta"], db["xarray.chunks"]
    old = xdb.list()[0].id
    undo = Overtaken(meta=meta, chunks=chunks, meta_id=old, url=base, patience=1)
    undo.act = lambda: xdb.compact("o")
    before = chunk_queries.fetch_segments(chunks, old, "x", [(0,)])[(0,)]
    doc = chunks.find_one({"meta_id": old, "chunk": [0], "n": 0}) | {"data": bytes(16)}
    rest = chunks.find({"meta_id": old, "chunk": [0], "n": {"$gt": 0}}).sort("n")
    swap = chunk_writes.ChunkSwap(("x", (0,)), [doc, *rest], before)
    with pytest.raises((Conflict, NotFound)):
        chunk_writes.swap_chunks(chunks, old, [swap], base, undo)
    assert xdb.list()[0].id != old
    assert hs.open(f"{base}#o")["x"][:].tolist() == list(range(8))


def test_a_sparse_array_in_the_document_is_changed_by_two(base: str, db: Database[Any]) -> None:
    xdb = XarrayMongoDB(db)
    xdb.put(xr.Dataset({"s": ("x", sparse.COO.from_numpy(np.array([0.0, 1, 0, 2])))}), name="o")
    one, other = (hs.open(f"{base}#o", "r+", lock_timeout=5)["s"] for _ in range(2))
    one[0] = 5
    other[1] = 0
    one[2] = 6
    assert xdb.get("o")["s"].data.todense().tolist() == [5, 0, 6, 2]
