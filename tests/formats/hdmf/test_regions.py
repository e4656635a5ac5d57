"""Region references through the format: every kind of region, in every place that holds one, in both profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, Invalid, RegionOutOfBounds, Unsupported
from hyperslab.model.dtypes import RegionRef, VlenString, tagged
from hyperslab.model.refs import RegionReference
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Steps
from hyperslab.stores.memory import MemoryStore

SHAPE = (5, 8)
VALUES = np.arange(40).reshape(SHAPE)
MASK = VALUES % 7 == 1
REGIONS: dict[str, tuple[Region, dict[str, Any], Any]] = {
    "all as it was": (Everything(SHAPE), {"type": "all", "shape": [5, 8]}, VALUES),
    "all": (Everything(), {"type": "all"}, VALUES),
    "none": (Nothing(), {"type": "none"}, VALUES[:0, 0]),
    "slices": (
        Product((Steps(1, 4), Steps(0, 8, 2)), SHAPE),
        {
            "type": "slices",
            "shape": [5, 8],
            "axes": [{"start": 1, "stop": 4, "step": 1}, {"start": 0, "stop": 8, "step": 2}],
        },
        VALUES[1:4, ::2],
    ),
    "orthogonal": (
        Product((Steps(0, 5), (1, 5, 6)), SHAPE),
        {"type": "orthogonal", "shape": [5, 8], "axes": [{"start": 0, "stop": 5, "step": 1}, {"index": [1, 5, 6]}]},
        VALUES[:, [1, 5, 6]],
    ),
    "points": (
        Points(((3, 3), (0, 1), (3, 3)), SHAPE),
        {"type": "points", "shape": [5, 8], "points": [[3, 3], [0, 1], [3, 3]]},
        VALUES[[3, 0, 3], [3, 1, 3]],
    ),
    "blocks": (
        Blocks((((0, 0), (2, 3)), ((4, 0), (5, 8))), SHAPE),
        {"type": "blocks", "shape": [5, 8], "blocks": [[[0, 0], [2, 3]], [[4, 0], [5, 8]]]},
        np.array([0, 1, 2, 8, 9, 10, *range(32, 40)]),
    ),
}
ROWS = np.dtype(
    [("id", "i4"), ("label", tagged(np.dtype(object), VlenString())), ("cells", tagged(np.dtype(object), RegionRef()))]
)
Put = Callable[[hs.Group, RegionReference], None]


def in_dataset(root: hs.Group, reference: RegionReference) -> None:
    array = root.create_array("refs", shape=(2, 2), dtype=RegionRef(), chunks=(1, 2))
    array[0, 1] = reference


def in_one(root: hs.Group, reference: RegionReference) -> None:
    root.create_array("refs", shape=(1,), dtype=RegionRef())[0] = reference


def in_field(root: hs.Group, reference: RegionReference) -> None:
    rows = np.zeros(2, ROWS)
    rows["id"], rows["label"] = [1, 2], ["a", "é"]
    rows["cells"][0], rows["cells"][1] = None, reference  # one by one: NumPy reads the references in a list
    root.create_array("refs", shape=(2,), dtype=ROWS)[...] = rows


def in_attribute(root: hs.Group, reference: RegionReference) -> None:
    root["g/d"].attrs["refs"] = reference
    root.attrs["refs"] = reference


def found_in(root: hs.Group, put: Put) -> RegionReference:
    if put is in_attribute:
        assert root.attrs["refs"] == root["g/d"].attrs["refs"]
        found = root.attrs["refs"]
    elif put is in_field:
        rows = root["refs"][...]
        assert rows["id"].tolist() == [1, 2]
        assert rows["label"].tolist() == ["a", "é"]
        assert rows["cells"][0] is None
        found = rows["cells"][1]
    elif put is in_one:
        found = root["refs"][0]
    else:
        assert [cell is None for cell in root["refs"][...].flat] == [True, False, True, True]
        found = root["refs"][0, 1]
    assert isinstance(found, RegionReference)
    return found


def new(profile: str, **options: Any) -> tuple[MemoryStore, hs.Group]:
    store = MemoryStore()
    root = hs.create(store, format="hdmf", profile=profile, **options)
    array = root.create_array("g/d", shape=SHAPE, dtype="i8", dims=("y", "x"), chunks=(2, 3))
    array[...] = VALUES
    return store, root


@pytest.mark.covering
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("put", [in_dataset, in_one, in_field, in_attribute])
@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_every_region_in_every_place(profile: str, put: Put, name: str) -> None:
    region, _, cells = REGIONS[name]
    store, root = new(profile, region_attributes=True)
    put(root, RegionReference("/g/d", region))
    root.close()
    root = hs.open(store)
    assert root.format == "hdmf"
    reference = found_in(root, put)
    assert reference == RegionReference("/g/d", region)
    np.testing.assert_array_equal(reference.read(), cells)
    np.testing.assert_array_equal(np.asarray(reference), cells)
    assert reference.resolve().path == "g/d"


def documents(store: MemoryStore) -> dict[str, Any]:
    names = (".zarray", ".zattrs", "zarr.json")
    return {key: json.loads(store.get(key)) for key in store.list("") if key.rpartition("/")[2] in names}


@pytest.mark.parametrize("name", REGIONS)
def test_the_bytes_of_zarr_v2(name: str) -> None:
    region, said, _ = REGIONS[name]
    store, root = new("v2", region_attributes=True)
    root.create_array("refs", shape=(2,), dtype=RegionRef(), codec=None)[0] = RegionReference("/g/d", region)
    root.attrs["r"] = RegionReference("/g/d", region)
    root.create_array("rows", shape=(2,), dtype=ROWS)
    root.close()
    found = documents(store)
    assert found["refs/.zattrs"]["zarr_dtype"] == "region"
    assert found["refs/.zarray"]["dtype"] == "|O"
    assert [codec["id"] for codec in found["refs/.zarray"]["filters"]] == ["json2"]
    element = {"source": ".", "path": "/g/d", "object_id": None, "source_object_id": None, "region": said}
    text = json.dumps([element, 0, "|O", [2]], sort_keys=True, separators=(",", ":"))
    assert store.get("refs/0") == text.encode()
    assert found[".zattrs"]["r"] == {"zarr_dtype": "region", "value": element}
    assert found["rows/.zattrs"]["zarr_dtype"][2] == {"name": "cells", "dtype": "region"}


@pytest.mark.parametrize("name", REGIONS)
def test_the_bytes_of_zarr_v3(name: str) -> None:
    region, said, _ = REGIONS[name]
    store, root = new("v3")
    root.create_array("refs", shape=(2,), dtype=RegionRef(), codec=None)[0] = RegionReference("/g/d", region)
    root.attrs["r"] = RegionReference("/g/d", region)
    root.create_array("rows", shape=(2,), dtype=ROWS)
    root.close()
    found = documents(store)
    assert found["refs/zarr.json"]["data_type"] == "string"
    assert found["refs/zarr.json"]["attributes"]["_DTYPE"] == "region_reference"
    assert found["rows/zarr.json"]["attributes"]["_REGION_FIELDS"] == ["cells"]
    assert found["zarr.json"]["attributes"]["r"] == {"_REFERENCE": {"source": ".", "path": "/g/d", "region": said}}
    chunk = store.get("refs/c/0")
    length = int.from_bytes(chunk[4:8], "little")
    text = chunk[8 : 8 + length].decode()
    assert json.loads(text)["region"] == said
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_attributes_of_zarr_v2_only_on_request() -> None:
    store, root = new("v2")
    with pytest.raises(Unsupported, match="region_attributes=True"):
        root.attrs["r"] = root["g/d"].regionref[0]
    root.close()
    root = hs.open(store, mode="r+", region_attributes=True)
    root.attrs["r"] = root["g/d"].regionref[0]
    root.close()
    np.testing.assert_array_equal(hs.open(store).attrs["r"].read(), VALUES[:1])


@pytest.mark.parametrize("profile", ["v2", "v3"])
@pytest.mark.parametrize(
    "key", [np.s_[1:4, ::2], np.s_[2, [0, 1, 7]], MASK, MASK.nonzero(), ..., np.s_[:, 3:3]], ids=str
)
def test_references_made_by_keys(profile: str, key: Any) -> None:
    store, root = new(profile)
    in_dataset(root, root["g/d"].regionref[key])
    root.close()
    cells = hs.open(store)["refs"][0, 1].read()
    np.testing.assert_array_equal(cells.reshape(-1), VALUES[key].reshape(-1))


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_a_region_is_resolved_against_the_shape_of_when_it_was_made(profile: str) -> None:
    store, root = new(profile)
    in_dataset(root, root["g/d"].regionref[...])
    root["g/d"].resize((9, 9))
    root.close()
    np.testing.assert_array_equal(hs.open(store)["refs"][0, 1].read(), VALUES)
    root = hs.open(store, mode="r+")
    root["g/d"].resize((4, 8))
    with pytest.raises(RegionOutOfBounds, match="node=/g/d"):
        root["refs"][0, 1].read()


@pytest.mark.parametrize(("profile", "shape"), [("v2", [1]), ("v3", [])])
def test_scalars_have_the_shape_of_their_documents(profile: str, shape: list[int]) -> None:
    store, root = new(profile, region_attributes=True)
    root.create_array("one", shape=(), dtype="i4")[...] = 7
    reference = root["one"].regionref[...]
    root.attrs["r"] = reference
    root.create_array("refs", shape=(1,), dtype=RegionRef(), codec=None)[0] = reference
    root.close()
    found = documents(store)
    said = found[".zattrs"]["r"]["value"] if profile == "v2" else found["zarr.json"]["attributes"]["r"]["_REFERENCE"]
    assert said["region"] == {"type": "all", "shape": shape}
    assert json.dumps(shape).encode() in store.get("refs/0" if profile == "v2" else "refs/c/0")
    root = hs.open(store)
    for found in (root.attrs["r"], root["refs"][0]):
        assert found.read() == 7
        assert found.read().shape == ()


def test_a_region_of_a_v2_scalar_that_another_writer_made() -> None:
    """There its rank is 1: slices and points of it are read, too."""
    store, root = new("v2")
    root.create_array("one", shape=(), dtype="i4")[...] = 7
    in_one(root, RegionReference("/one", Product((Steps(0, 1),), (1,))))
    root.close()
    assert hs.open(store)["refs"][0].read().tolist() == [7]


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_only_the_chunks_of_the_region_are_read(profile: str) -> None:
    store = MemoryStore()
    root = hs.create(store, format="hdmf", profile=profile)
    array = root.create_array("d", shape=(1 << 14, 1 << 14), dtype="f4", chunks=(512, 512), fill_value=3)
    array[600, 5000] = 1
    in_one(root, array.regionref[[600, 601], 4990:5010])
    root.close()
    root = hs.open(store)
    with hs.trace() as cost:
        reference = root["refs"][0]
    assert cost.chunks == 1
    with hs.trace() as cost:
        cells = reference.read()
    assert cost.chunks == 1
    assert cells.shape == (2, 20)
    assert cells.sum() == 40 * 3 - 2


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_a_region_that_is_nonsense_stops_its_own_array_alone(profile: str) -> None:
    store, root = new(profile)
    array = root.create_array("refs", shape=(1,), dtype=RegionRef(), codec=None)
    array[0] = root["g/d"].regionref[1:4, ::2]
    root.attrs["r"] = "kept"
    root.close()
    key = "refs/0" if profile == "v2" else "refs/c/0"
    store.put(key, store.get(key).replace(b'"stop":4', b'"stop":9'))
    root = hs.open(store)
    with pytest.raises((CorruptChunk, FormatError), match="refs"):
        root["refs"][0]
    assert root.attrs["r"] == "kept"
    np.testing.assert_array_equal(root["g/d"][...], VALUES)


@pytest.mark.parametrize("put", [in_dataset, in_field])
def test_regions_are_never_pickled(put: Put) -> None:
    """The specification's table of types has a row for regions; its default codec, pickle, is not for them."""
    store, root = new("v2", object_codec="pickle")
    put(root, RegionReference("/g/d", Nothing()))
    root.close()
    assert [codec["id"] for codec in documents(store)["refs/.zarray"]["filters"]] == ["json2"]
    assert found_in(hs.open(store), put).region == Nothing()


def test_what_isel_takes() -> None:
    _, root = new("v2")
    array = root["g/d"]
    reference = array.regionref[1:4, [0, 1, 5]]
    assert reference.isel == {"y": slice(1, 4, 1), "x": [0, 1, 5]}
    np.testing.assert_array_equal(array.isel(reference.isel), reference.read())
    assert array.regionref[...].isel == {"y": slice(0, 5, 1), "x": slice(0, 8, 1)}
    with pytest.raises(Invalid, match="node=/g/d"):
        _ = array.regionref[MASK].isel
    array.resize((2, 2))
    with pytest.raises(RegionOutOfBounds, match="node=/g/d"):
        _ = reference.isel


def test_references_in_the_cells_of_a_region_know_their_dataset() -> None:
    store, root = new("v2")
    in_one(root, root["g/d"].regionref[1:4, ::2])
    root.create_array("more", shape=(1,), dtype=RegionRef())[0] = root["refs"].regionref[...]
    root.close()
    (reference,) = hs.open(store)["more"][0].read()
    np.testing.assert_array_equal(reference.read(), VALUES[1:4, ::2])
