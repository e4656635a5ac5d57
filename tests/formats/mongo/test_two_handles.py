"""Two handles of one object: what one has changed, the other one goes by, and neither takes anything back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sparse

import hyperslab as hs
from hyperslab.errors import NodeNotFound
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


def test_a_sparse_array_in_the_document_is_changed_by_two(base: str, db: Database[Any]) -> None:
    import xarray as xr

    xdb = XarrayMongoDB(db)
    xdb.put(xr.Dataset({"s": ("x", sparse.COO.from_numpy(np.array([0.0, 1, 0, 2])))}), name="o")
    one, other = (hs.open(f"{base}#o", "r+", lock_timeout=5)["s"] for _ in range(2))
    one[0] = 5
    other[1] = 0
    one[2] = 6
    assert xdb.get("o")["s"].data.todense().tolist() == [5, 0, 6, 2]
