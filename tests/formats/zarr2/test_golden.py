"""Every array and attribute that zarr-python wrote in format 2 reads as it was written."""

from __future__ import annotations

import pytest

from golden import FOLDER, arrays, check, plain, read_all, truth
from hyperslab.formats.zarr2 import FORMAT
from hyperslab.stores.location import Location

NAME = "zarr2/zarr3.4.2.zip"


@pytest.fixture(scope="module")
def reader():
    opened = FORMAT.open(Location.of(FOLDER / NAME), "r")
    yield opened
    opened.close()


def test_all_are_there(reader):
    assert len(arrays(NAME)) == 111
    found = [
        f"{group}/{name}"
        for group in ("codecs", "dtypes", "fills", "layout", "objects")
        for name in reader.children(group)
    ]
    assert set(found) == {path for path in arrays(NAME) if not path.startswith(("tree", "rootarray"))}


@pytest.mark.parametrize("path", arrays(NAME))
def test_array(reader, path):
    spec = reader.node(path)
    assert spec.problem is None
    check(read_all(reader, path), truth(NAME)[path])


def test_attributes(reader):
    attrs = reader.node("tree").attrs
    assert {name: plain(value) for name, value in attrs.items()} == truth(NAME)["tree/_attrs"]
    assert attrs["big"] == 2**63
    assert isinstance(attrs["f"], float)


def test_dimension_names_are_no_attributes(reader):
    spec = reader.node("tree/t2m")
    assert spec.dims == ("time", "y", "x")
    assert dict(spec.attrs) == {"units": "K"}
    assert reader.node("tree/noname").dims == (None, None)
