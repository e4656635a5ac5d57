"""Documents that are damaged: what is said of them, and what is written beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, MissingChunks

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

DAMAGE: list[dict[str, Any]] = [
    {"$unset": {"n": 1}},
    {"$set": {"n": 5}},
    {"$set": {"chunk": [2**31]}},
    {"$set": {"name": "y"}},
    {"$unset": {"chunk": 1}},
]


@pytest.fixture(params=DAMAGE, ids=str)
def array(mongo: Mongo, db: Database[Any], request: pytest.FixtureRequest) -> hs.Array:
    """An array of two chunks, of which the second has a document that does not say so."""
    url = f"{mongo.url}/{db.name}#o"
    with hs.create(url, embed_threshold_bytes=0) as root:
        root.create_array("x", data=np.arange(8.0), dims=("x",), chunks=(4,))
    db["xarray.chunks"].update_one({"chunk": [1]}, request.param)
    found = hs.open(url, "r+", embed_threshold_bytes=0)["x"]
    assert isinstance(found, hs.Array)
    return found


def test_a_part_of_it_is_not_written(array: hs.Array) -> None:
    with pytest.raises((CorruptChunk, MissingChunks), match=r"repair the object|write or restore it") as caught:
        array[5] = 1
    assert caught.value.node == "x" and caught.value.url and caught.value.key
    array[1] = 7
    assert array[:4].tolist() == [0, 7, 2, 3]


def test_it_is_whole_again_when_it_is_written_whole(array: hs.Array) -> None:
    array[4:8] = [9, 8, 7, 6]
    array[5] = 5
    assert array[:].tolist() == [0, 1, 2, 3, 9, 5, 7, 6]
    assert not hs.check(array.url, deep=True)


@pytest.mark.parametrize("name", [[1], {"a": 1}])
def test_dimensions_that_have_no_names(mongo: Mongo, db: Database[Any], name: Any) -> None:
    url = f"{mongo.url}/{db.name}#o"
    with hs.create(url) as root:
        root.create_array("x", data=np.arange(4.0), dims=("x",))
        root.create_array("y", data=np.arange(3.0), dims=("y",))
    db["xarray.meta"].update_one({}, {"$set": {"coords.x.dims": [name]}})
    assert [problem.node for problem in hs.check(url)] == ["x"]
    assert [mend.node for mend in hs.repair(url)] == ["x"]
    assert hs.open_group(url)["y"][:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("damage", [{"dims": [[1]]}, {"dtype": "|O"}, {"shape": "?"}])
def test_an_entry_that_makes_no_sense_stays_as_it_is(mongo: Mongo, db: Database[Any], damage: dict[str, Any]) -> None:
    """A change of something else of the object is no reason to lose what others may still read, or mend."""
    url = f"{mongo.url}/{db.name}#o"
    with hs.create(url) as root:
        root.create_array("x", data=np.arange(4.0), dims=("x",))
        root.create_array("y", data=np.arange(3.0), dims=("y",))
    db["xarray.meta"].update_one({}, {"$set": {f"coords.x.{name}": value for name, value in damage.items()}})
    before = db["xarray.meta"].find_one({})["coords"]["x"]  # type: ignore[index]
    hs.open_group(url, "r+")["y"].attrs["units"] = "m"
    after = db["xarray.meta"].find_one({})["coords"]  # type: ignore[index]
    assert after["x"] == before and after["y"]["attrs"] == {"units": "m"}
