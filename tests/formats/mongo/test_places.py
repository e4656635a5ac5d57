"""What a URL and options may say: a place of many objects is no dataset, and what the driver does not know is an
error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid, MissingChunks
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo


@pytest.fixture
def base(mongo: Mongo, db: Database[Any]) -> str:
    """The URL of an empty database."""
    return f"{mongo.url}/{db.name}"


def test_a_collection_is_no_dataset(base: str) -> None:
    with pytest.raises(Invalid, match="there is none in it yet"):
        xr.open_dataset(base, engine="hyperslab")
    air = xr.Dataset({"t": ("x", np.arange(3))})
    for number in range(12):
        hs.save(f"{base}#air{number}", air)
        if number == 1:
            with pytest.raises(Invalid, match=r"name one of them behind #: 'air0', 'air1'$"):
                xr.open_dataset(base, engine="hyperslab")
    with pytest.raises(Invalid, match=r"'air9' and more$"):
        hs.open_group(base).to_xarray()
    xr.testing.assert_identical(xr.load_dataset(base, engine="hyperslab", group="air7"), air)
    xr.testing.assert_identical(xr.load_dataset(f"{base}#air7", engine="hyperslab"), air)
    assert len(xr.open_datatree(base, engine="hyperslab").children) == 12


@pytest.mark.parametrize("parameter", ["bogus=1", "tls=maybe", "slaveOk=true", "nothing"])
def test_a_parameter_that_the_driver_does_not_know(base: str, parameter: str) -> None:
    for action in (hs.open, hs.create, lambda url: xr.open_dataset(url, engine="hyperslab")):
        with pytest.raises(Invalid, match="(?i)" + ("key=value" if "=" not in parameter else parameter.split("=")[0])):
            action(f"{base}?collection=c&{parameter}#one")


def test_parameters_of_the_driver_are_its_own(base: str) -> None:
    tags = "readPreference=secondaryPreferred&readPreferenceTags=dc:ny&readPreferenceTags=dc:la"
    hs.save(f"{base}?collection=c&appName=a&{tags}#one", xr.Dataset({"t": ("x", np.arange(3))}))
    assert hs.open_group(f"{base}?collection=c#one")["t"][:].tolist() == [0, 1, 2]


def test_an_empty_name_is_refused(base: str, db: Database[Any]) -> None:
    with pytest.raises(Invalid, match="name is empty"):
        hs.save(f"{base}#one", xr.Dataset({"": ("x", np.arange(3))}))
    assert db.list_collection_names() == []


def test_a_missing_chunk_says_what_to_do(base: str, db: Database[Any]) -> None:
    with hs.create(f"{base}#one", embed_threshold_bytes=0) as root:
        root.create_array("t", data=np.arange(3), dims="x")
    db["xarray.meta"].update_one({}, {"$unset": {"hyperslab.variables.t.fill": 1}})
    db["xarray.chunks"].delete_many({})
    with pytest.raises(MissingChunks, match="check the dataset"):
        hs.open_group(f"{base}#one")["t"][...]


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        *(("chunk_size_bytes", size) for size in (0, -1, 1.5, True, "1", (16 << 20) - (64 << 10) + 1)),
        *(("embed_threshold_bytes", size) for size in (-1, 1.5, True, "1")),
    ],
)
def test_both_faces_refuse_the_same_sizes(db: Database[Any], base: str, option: str, wrong: Any) -> None:
    options: dict[str, Any] = {option: wrong}
    with pytest.raises(Invalid, match=f"{option}=") as one:
        hs.create(f"{base}#o", "mongo", **options)
    with pytest.raises(Invalid, match=f"{option}=") as other:
        XarrayMongoDB(db, **options)
    assert (one.value.message, one.value.remedy) == (other.value.message, other.value.remedy)


def test_both_faces_take_the_largest_chunks_and_embed_what_has_room(db: Database[Any], base: str) -> None:
    """The larger one of the two has no room in the document of the object."""
    options: dict[str, Any] = {"chunk_size_bytes": np.int64((16 << 20) - (64 << 10)), "embed_threshold_bytes": 1 << 40}
    cells = np.arange(options["chunk_size_bytes"], dtype="u1")
    data = xr.Dataset({"a": ("x", cells), "b": ("y", cells[:1000])})
    XarrayMongoDB(db, **options).put(data, name="one")
    hs.save(f"{base}#two", data, **options)
    for name in ("one", "two"):
        xr.testing.assert_identical(XarrayMongoDB(db).get(name, load=True), data)
        meta = db["xarray.meta"].find_one({"name": name}, {"data_vars": 1})
        assert meta is not None
        assert ["data" in each for each in meta["data_vars"].values()] == [False, True]
