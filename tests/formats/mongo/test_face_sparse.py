"""Sparse objects of other writers through the one face, as lists of cells and as dense ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import golden_documents as golden
import numpy as np
import pytest
import sparse
import xarray as xr

import hyperslab as hs
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

CASES = [each for each in golden.cases(golden.SPECIFIED) if "coo" in each.case or "sparse" in each.case]


@pytest.fixture
def url(mongo: Mongo, full: Database[Any]) -> str:
    """The database with all golden objects."""
    return f"{mongo.url}/{full.name}"


def _only(url: str, case: golden.Case) -> Any:
    ((_, array),) = [pair for pair in hs.open_group(f"{url}#{case._id}").arrays() if pair[1].spec.sparse]
    return array


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_lists_are_the_cells(url: str, case: golden.Case) -> None:
    """Whole, and of a part; of those that are too large to be dense, the places and values that are told."""
    array = _only(url, case)
    found = array.to_sparse()
    assert isinstance(found, sparse.COO)
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert "sparse" in repr(array)
    assert "COO" in array._repr_html_()
    if not case.arrays:
        return
    expected = next(cells for cells in case.arrays.values() if cells.shape == array.shape)
    assert np.asarray(found.todense()).tobytes() == expected.tobytes()
    key = tuple(slice(None, None, -2) for _ in expected.shape)
    assert np.asarray(array.to_sparse(key).todense()).tobytes() == expected[key].tobytes()


@pytest.mark.parametrize("name", ["coo_word_255", "coo_word_256", "coo_word_65536", "coo_word_big"])
def test_one_of_two_to_the_32_is_read_here_and_there(url: str, name: str) -> None:
    array = _only(url, golden.case(name))
    lists = array.to_sparse()
    for place, value in zip(lists.coords.T.tolist(), lists.data.tolist(), strict=True):
        assert array[tuple(place)] == value
        around = tuple(slice(at, at + 1) for at in place)
        assert array[around].ravel().tolist() == [value]
        assert array.to_sparse(around).nnz == 1
    assert lists.nnz == 2
    assert array.nbytes_stored < 100
    hs.convert(f"{url}#{golden.case(name)._id}", f"{url}?collection=other#{name}")
    again = hs.open_group(f"{url}?collection=other#{name}")[array.name].to_sparse()
    assert (again.coords.tolist(), again.data.tolist()) == (lists.coords.tolist(), lists.data.tolist())


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("face", ["update", "open"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_sparse_chunk_of_several_documents_lists_other_cells(
    mongo: Mongo, db: Database[Any], layout: Any, face: str, lazy: bool
) -> None:
    """Each document says how many cells are listed in all, also those whose own bytes stay."""
    cells = np.array([1.0, 2, 3, 4, 5, 0, 0, 0])
    ds = xr.Dataset({"s": ("x", sparse.COO.from_numpy(cells))})
    xdb = XarrayMongoDB(db, layout=layout, chunk_size_bytes=16, embed_threshold_bytes=0)
    future = xdb.put(ds.chunk({"x": 8}) if lazy else ds, name="o")[1]
    if future is not None:
        future.compute(scheduler="sync")
    for place, value in ((7, 8.0), (4, 0.0), (5, 6.0), (slice(2, 8), 0.0), (0, 0.0)):
        cells[place] = value
        if face == "update":
            region = slice(place, place + 1) if isinstance(place, int) else place
            xdb.update("o", xr.Dataset({"s": ("x", cells[region])}), {"x": region})
        else:
            hs.open_group(f"{mongo.url}/{db.name}#o", "r+")["s"][place] = value
        assert xdb.get("o", load=True)["s"].data.todense().tolist() == cells.tolist()
        assert xdb.check("o", deep=True) == []
