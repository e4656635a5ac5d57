"""A document of an object that is wrong costs no cell: no repair, and no search for garbage, removes sound chunks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo.database import Database

import hyperslab as hs
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

OLD = datetime.now(UTC) - timedelta(hours=3)
CELLS = np.arange(1, 49, dtype="<i4").reshape(6, 8)
Variable = dict[str, Any]


def old_id(index: int) -> ObjectId:
    """Return an id of a moment so long ago that nobody is storing its document any more."""
    return ObjectId(int(OLD.timestamp()).to_bytes(4, "big") + index.to_bytes(8, "big"))


def aged(db: Database[Any]) -> None:
    """Give all documents ids of some time ago, as those of a database have."""
    (meta,) = db["xarray.meta"].find()
    db["xarray.meta"].delete_many({})
    db["xarray.meta"].insert_one({**meta, "_id": old_id(0)})
    docs = list(db["xarray.chunks"].find())
    db["xarray.chunks"].delete_many({})
    db["xarray.chunks"].insert_many({**doc, "_id": old_id(i + 1), "meta_id": old_id(0)} for i, doc in enumerate(docs))


def put_by_xarray(db: Database[Any], url: str) -> None:
    data = xr.Dataset({"t": (("y", "x"), CELLS), "u": (("y", "x"), CELLS)}).chunk({"y": 3, "x": 4})
    XarrayMongoDB(db, embed_threshold_bytes=0, chunk_size_bytes=24).put(data, name="o")[1].compute(scheduler="sync")


def put_by_face(db: Database[Any], url: str) -> None:
    with hs.create(f"{url}#o", "mongo", embed_threshold_bytes=0, chunk_size_bytes=24) as root:
        for name in "tu":
            root.create_array(name, data=CELLS, dims=("y", "x"), chunks=(3, 4))


PUTS: dict[str, Callable[[Database[Any], str], None]] = {"xarray": put_by_xarray, "face": put_by_face}


def _cut(chunks: list[list[int]], shape: list[int] | None = None) -> Callable[[dict[str, Variable]], Any]:
    return lambda variables: variables["t"].update(chunks=chunks, **({"shape": shape} if shape else {}))


EDITS: dict[str, Callable[[dict[str, Variable]], Any]] = {
    "of 8 bytes": lambda variables: variables["t"].update(dtype="<i8"),
    "of one byte": lambda variables: variables["t"].update(dtype="|i1"),
    "of larger chunks": _cut([[6], [4, 4]]),
    "of larger chunks along both axes": _cut([[6], [8]]),
    "of smaller chunks": _cut([[1] * 6, [1] * 8]),
    "of one row": _cut([[1], [4, 4]], [1, 8]),
    "of more rows": _cut([[3, 3, 3], [4, 4]], [9, 8]),
    "of one axis": lambda variables: variables["t"].update(dims=["x"], shape=[8], chunks=[[4, 4]]),
    "without chunks": lambda variables: variables["t"].update(chunks=None),
    "of another type": lambda variables: variables["t"].update(type="COO"),
    "without a shape": lambda variables: variables["t"].pop("shape"),
    "of another name": lambda variables: variables.update(other=variables.pop("t")),
}


@pytest.mark.covering
@pytest.mark.parametrize("case", EDITS)
@pytest.mark.parametrize("by", PUTS)
def test_sound_chunks_stay_whatever_the_document_says(db: Database[Any], mongo: Mongo, by: str, case: str) -> None:
    url = f"{mongo.url}/{db.name}"
    PUTS[by](db, url)
    aged(db)
    (meta,) = db["xarray.meta"].find()
    EDITS[case](meta["data_vars"])
    db["xarray.meta"].replace_one({"_id": meta["_id"]}, meta)
    before = list(db["xarray.chunks"].find().sort("_id", 1))
    assert len(before) >= 8
    for place in (url, f"{url}#o"):
        for dry_run in (True, False):
            list(hs.repair(place, deep=True, dry_run=dry_run))
            assert list(db["xarray.chunks"].find().sort("_id", 1)) == before
    XarrayMongoDB(db).collect_garbage()
    assert list(db["xarray.chunks"].find().sort("_id", 1)) == before
