"""References in cells, fields of rows and attributes: they know where they were read, and lead there from anywhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.array import Array
from hyperslab.errors import BrokenLink, Invalid, SelectionError
from hyperslab.group import Group
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenString, tagged
from hyperslab.model.refs import Link, ObjectReference, RegionReference

CELLS = np.arange(40.0).reshape(5, 8)
OBJECT = np.dtype(object)
ROW = np.dtype([("id", "i4"), ("label", tagged(OBJECT, VlenString())), ("ref", tagged(OBJECT, ObjectRef()))])


@pytest.fixture(params=["v2", "v3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Group]:
    """A dataset with something to refer to."""
    with hs.create(tmp_path / "in" / "a.zarr", format="hdmf", profile=request.param) as made:
        made.attrs["object_id"] = "id-root"
        made.create_array("g/d", data=CELLS, chunks=(2, 8), attrs={"object_id": "id-d"})
        made.create_group("h")
        yield made


def test_a_reference_to_a_node(root: Group) -> None:
    assert root["g/d"].ref == ObjectReference("/g/d")
    assert (root["g/d"].ref.object_id, root["g/d"].ref.source_object_id) == ("id-d", "id-root")
    assert root["h"].ref.resolve() == root["h"] and root.ref.resolve() == root
    assert root[root["g/d"].ref].path == "g/d"
    assert root[ObjectReference("/g/d")].path == root["h"][Link("/g/d")].path == "g/d"
    assert root["g/d"].ref in root and ObjectReference("/nope") not in root
    with pytest.raises(BrokenLink, match="nope"):
        root[ObjectReference("/nope")]
    with pytest.raises(Invalid, match="read from no dataset"):
        ObjectReference("/g/d").resolve()


def test_cells_of_references(root: Group) -> None:
    nodes = [[root["g/d"].ref, None], [root["h"].ref, root["g"].ref]]
    refs = root.create_array("refs", data=nodes, chunks=(1, 2))
    assert refs.data_type == ObjectRef() and refs.dtype == OBJECT
    found = hs.open_group(root.url)["refs"]
    for read in (lambda key: found[key], lambda key: found.lazy[key].read(), lambda key: found.oindex[key]):
        np.testing.assert_array_equal(read(()), np.array(nodes, object))
        assert read((0, 0)).resolve().path == "g/d" and read((0, 1)) is None
        assert [each.resolve().path for each in read((1, slice(None)))] == ["h", "g"]
    assert next(iter(found))[0].resolve().path == "g/d"
    refs[0] = [None, root["h"].ref]
    refs[1, 1] = root["g/d"].ref
    assert [cell and cell.path for cell in refs[...].flat] == [None, "/h", "/h", "/g/d"]
    assert refs[0, 1].resolve() == root["h"]


@pytest.mark.parametrize("bad", [3, "/g", b"x", [1, 2], ObjectReference, Link("/g")])
def test_what_is_no_reference_is_refused(root: Group, bad: Any) -> None:
    refs = root.create_array("refs", shape=(2,), dtype="object reference")
    with pytest.raises(Invalid, match="ObjectReference"):
        refs[...] = bad
    with pytest.raises(Invalid, match="ObjectReference"):
        refs[0] = root["g/d"].regionref[0]
    assert refs[:].tolist() == [None, None]


def test_rows_with_references(root: Group) -> None:
    rows = root.create_array("rows", shape=(3,), dtype=ROW, chunks=2)
    rows[0:2] = [(1, "one", root["g/d"].ref), (2, "two", root["h"].ref)]
    rows["ref", 2] = root["g"].ref
    found = hs.open_group(root.url)["rows"]
    assert [cell and cell.resolve().path for cell in found["ref"]] == ["g/d", "h", "g"]
    assert found[0]["ref"].resolve().path == "g/d" and found[1]["label"] == "two" and found[2]["id"] == 0
    rows[0] = np.array((7, "seven", None), ROW)
    assert rows[0].tolist() == (7, "seven", None)
    with pytest.raises(Invalid):
        rows[0] = (1, "one", "no reference")
    with pytest.raises(Invalid, match="tuples of id, label, ref"):
        rows[0] = (1, "one")
    with pytest.raises(Invalid):
        rows[0] = 5


def test_attributes_that_are_references(root: Group) -> None:
    root["h"].attrs["table"] = root["g/d"].ref
    for attrs in (root["h"].attrs, hs.open_group(root.url)["h"].attrs):
        assert attrs["table"].resolve().path == "g/d"
        assert dict(attrs)["table"] == ObjectReference("/g/d")


def test_references_lead_on_from_another_dataset(root: Group, tmp_path: Path) -> None:
    """What is written elsewhere says where it came from; what comes back says so no more."""
    with hs.create(tmp_path / "in" / "b.zarr", format="hdmf") as other:
        other.create_array("refs", data=[root["g/d"].ref, None])
        other.create_array("rows", shape=2, dtype=ROW)
        other["rows"][0] = (1, "", root["h"].ref)
        other.attrs["d"] = root["g/d"].ref
        stored = [other["refs"][0], other["rows"][0]["ref"], other.attrs["d"]]
        assert [(each.source, each.object_id) for each in stored[::2]] == [("../a.zarr", "id-d")] * 2
        assert [each.resolve().url for each in stored] == [root.url] * 3
        root.create_array("back", data=other["refs"][:])
        root.attrs["d"] = other.attrs["d"]
        root.attrs["own"] = other.ref
        assert [root["back"][0].source, root.attrs["d"].source, root.attrs["own"].source] == [".", ".", "../b.zarr"]
        assert root.attrs["d"].resolve() == root["g/d"] or root.attrs["d"].resolve().path == "g/d"
        assert other["refs"][0].source == "../a.zarr"


def test_a_copy_that_calls_itself_as_this_dataset_does_is_meant_by_its_place(root: Group, tmp_path: Path) -> None:
    """An id that both have would mean the dataset itself."""
    with hs.create(tmp_path / "in" / "copy.zarr", format="hdmf") as other:
        other.attrs["object_id"] = "id-root"
        other.attrs["d"] = root["g/d"].ref
        assert other.attrs["d"].resolve().url == root.url


def test_references_are_pickled_and_copied_with_their_dataset(root: Group) -> None:
    reference = hs.open_group(root.url)["g/d"].ref
    for again in (pickle.loads(pickle.dumps(reference)), copy.deepcopy(reference), copy.copy(reference)):
        np.testing.assert_array_equal(again.resolve()[:], CELLS)


@pytest.mark.parametrize(
    "key", [slice(1, 4), (slice(None), [1, 5]), ..., (2, slice(0, 8, 2)), CELLS % 7 == 0, (slice(0, 0),)]
)
def test_references_to_regions(root: Group, key: Any) -> None:
    """As in h5py: the cells of ``d[key]``, of which ints keep their axis."""
    region = root["g/d"].regionref[key]
    assert isinstance(region, RegionReference)
    expected = CELLS[key]
    np.testing.assert_array_equal(np.asarray(region).reshape(expected.shape), expected)
    np.testing.assert_array_equal(root["g/d"].read_region(region.region), region.read())
    assert root[region].path == "g/d"
    refs = root.create_array("refs", data=[region, None])
    found = hs.open_group(root.url)["refs"][0]
    np.testing.assert_array_equal(found.read().reshape(expected.shape), expected)
    assert refs[0] == region and refs[1] is None


def test_one_region_alone_is_not_read_when_it_is_stored(root: Group) -> None:
    region = root["g/d"].regionref[1:3]
    one = root.create_array("one", data=region)
    assert one.shape == () and one[()] == region
    root.create_array("others", shape=(2,), dtype="region reference")[1] = region
    assert hs.open_group(root.url)["others"][1] == region
    with pytest.raises(SelectionError):
        root["g/d"].regionref[::-1]


def test_growth_does_not_move_a_region(root: Group) -> None:
    region = root["g/d"].regionref[...]
    root["g/d"].append(CELLS)
    np.testing.assert_array_equal(region.read(), CELLS)
    root["g/d"].resize((3, 8))
    with pytest.raises(hs.errors.RegionOutOfBounds):
        region.read()


def test_plain_cells_are_read_as_before(root: Group) -> None:
    array = root["g/d"]
    assert isinstance(array, Array)
    assert array._cells.references == ()


def test_lists_of_regions_are_appended_and_assigned_as_they_are(root: Group) -> None:
    """NumPy would read the cells that they refer to."""
    region = root["g/d"].regionref[1:3]
    refs = root.create_array("refs", data=[None, region])
    refs.append([region])
    refs.append([None, region])
    assert refs[:].tolist() == [None, region, region, None, region]
    refs[0:2] = [region, None]
    refs.oindex[[3, 4]] = [region, None]
    assert hs.open_group(root.url)["refs"][:].tolist() == [region, None, region, region, None]
    square = root.create_array("square", data=[[None, None], [None, region]], chunks=(1, 2))
    square.append([[region, region]])
    square.append([[region]] * 3, 1)
    assert square[:].tolist() == [[None, None, region], [None, region, region], [region] * 3]


def test_lists_of_rows_with_regions(root: Group) -> None:
    region, ref = root["g/d"].regionref[1:3], root["g/d"].ref
    kind = np.dtype([*((name, ROW[name]) for name in ROW.names or ()), ("cells", tagged(OBJECT, RegionRef()))])
    first = [(1, "one", ref, region), (2, "two", None, None)]
    rows = root.create_array("rows", data=first, dtype=kind, chunks=2)
    assert rows.shape == (2,) and rows[:].tolist() == first
    rows.append([(3, "three", ref, region)])
    assert rows[2].tolist() == (3, "three", ref, region)
    rows["cells"] = [None, region, None]
    rows[["id", "cells"], 0] = (7, region)
    rows[["cells", "id"], 1:] = [(None, 8), (region, 9)]
    assert rows[:].tolist() == [(7, "one", ref, region), (8, "two", None, None), (9, "three", ref, region)]
    with pytest.raises(Invalid, match="give tuples of cells, id"):
        rows[["cells", "id"], 1:] = [(None, 8, 3), (region, 9, 3)]
    with pytest.raises(Invalid, match="no RegionReference"):
        rows.append([(3, "three", ref, ref)])
    assert rows.shape == (3,)


def test_what_is_appended_leads_on_from_another_dataset_and_is_a_reference(root: Group, tmp_path: Path) -> None:
    with hs.create(tmp_path / "in" / "b.zarr", format="hdmf") as other:
        other.create_array("e", data=[1.0, 2.0])
        refs = root.create_array("refs", data=[root["h"].ref])
        refs.append([other["e"].ref])
        assert str(refs[1]) == "../b.zarr/e" and refs[1].resolve().url == other.url
        for bad in ([3], ["/g"], [root["g/d"].regionref[0]]):
            with pytest.raises(Invalid, match="ObjectReference"):
                refs.append(bad)
        assert refs.shape == (2,)


def test_a_copy_of_a_group_keeps_ids_and_leads_where_the_original_leads(root: Group) -> None:
    root.create_array("g/refs", data=[root["g/d"].ref, root["g"].ref, None])
    root.create_array("g/rows", data=[(1, "one", root["g/d"].ref)], dtype=ROW)
    root["g"].attrs["d"] = root["g/d"].ref
    root["g"].create_link("own", root["g/d"])
    root.copy("g", "copy")
    copied = root["copy"]
    assert copied["refs"][:].tolist() == root["g/refs"][:].tolist() and copied["rows"][0]["ref"].resolve().path == "g/d"
    assert copied["own"].path == copied.attrs["d"].resolve().path == "g/d"
    assert copied["d"].attrs["object_id"] == "id-d"
    assert [(problem.kind, problem.node) for problem in hs.check(root.url)] == [("object-id-twice", "g/d")]
    copied["d"].attrs["object_id"] = "id-copy"
    assert not hs.check(root.url, deep=True) and root.object_ids["id-copy"] == "copy/d"
