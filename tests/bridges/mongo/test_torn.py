"""Chunks of another length than their object says, as a writer that was killed while an array grew or shrank leaves
them: both faces read the same cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sparse
from pymongo.database import Database

import hyperslab as hs
from hyperslab.formats.mongo.chunk_documents import DerivedIds, make_documents
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.model.coo import Coo
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

FILL = 7.0
CELLS = np.arange(20.0).reshape(5, 4)


def made(url: str, *, listed: bool) -> Any:
    """An object of five rows, two in a chunk; its id."""
    cells = sparse.COO.from_numpy(CELLS, fill_value=FILL) if listed else CELLS
    with hs.create(url, embed_threshold_bytes=0) as root:
        root.create_array("v", data=cells, chunks=(2, 4), dims=("y", "x"), fill_value=FILL)
    return hs.open_group(url)._session.reader.id


def put_rows(database: Database[Any], key: Any, chunk: int, rows: int, *, listed: bool) -> None:
    """Another number of rows in one of the chunks."""
    cells = np.full((rows, 4), 100.0 + chunk)
    stored = Coo.of_dense(cells, np.float64(FILL)) if listed else cells
    chunks = database["xarray.chunks"]
    chunks.delete_many({"chunk": [chunk, 0]})
    chunks.insert_many(make_documents(DerivedIds(key), key, ("v", (chunk, 0)), stored, 1000))


def plain(cells: Any) -> Any:
    return cells.todense() if hasattr(cells, "todense") else cells


@pytest.mark.parametrize("listed", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("chunk", "rows"), [(2, 2), (2, 0), (1, 1), (1, 5)])
def test_both_faces_read_the_same(
    mongo: Mongo, database: Database[Any], chunk: int, rows: int, *, listed: bool
) -> None:
    url = f"{mongo.url}/{database.name}#v"
    key = made(url, listed=listed)
    put_rows(database, key, chunk, rows, listed=listed)
    place = slice(2 * chunk, min(2 * chunk + 2, 5))
    expected = CELLS.copy()
    expected[place] = FILL
    expected[place][:rows] = 100.0 + chunk
    np.testing.assert_array_equal(hs.open_group(url)["v"][...], expected)
    xdb = XarrayMongoDB(database)
    for load in (True, None, False):
        found = xdb.get(key, load=load)["v"]
        np.testing.assert_array_equal(plain(found.compute(scheduler="sync").data), expected)
        np.testing.assert_array_equal(plain(found[place].compute(scheduler="sync").data), expected[place])
    assert xdb.is_complete(key)
    assert xdb.check() == []


def test_of_other_dimensions_it_is_corrupt(mongo: Mongo, database: Database[Any]) -> None:
    url = f"{mongo.url}/{database.name}#v"
    key = made(url, listed=False)
    database["xarray.chunks"].update_one({"chunk": [2, 0]}, {"$set": {"shape": [4]}})
    xdb = XarrayMongoDB(database)
    for read in (lambda: hs.open_group(url)["v"][...], lambda: xdb.get(key, load=True)):
        with pytest.raises(CorruptDocument):
            read()
    assert not xdb.is_complete(key)
