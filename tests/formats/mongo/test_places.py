"""What a URL may say: a place of many objects is no dataset, and what the driver does not know is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid, MissingChunks

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
