"""The requirements of the specification (R1 to R54) that speak of documents, one test each, named after its number.

The others speak of folders and keys, of following links, of cells, or of nothing that is written.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.hdmf.attributes import RESERVED
from hyperslab.formats.hdmf.cell_types import JSON2
from hyperslab.formats.hdmf.profile import HdmfOptions
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenBytes, VlenString, tag_of, tagged
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.regions import Product, Steps
from hyperslab.model.spec import ArraySpec, GroupSpec

PROFILES = [HdmfV2, HdmfV3]
IDS = {
    "object_id": "f6685427-3919-4e06-b195-ccb7ab42f0fa",
    "source_object_id": "6224bb89-578a-4839-b31c-83f11009292c",
}


def attributes(docs):
    """The attributes that stand in the documents."""
    return docs["zarr.json"]["attributes"] if "zarr.json" in docs else docs[".zattrs"]


def group(**attrs):
    """The documents of a group of profile v2."""
    return {".zgroup": {"zarr_format": 2}, ".zattrs": attrs}


def made(profile, dtype, shape=(3,), options=None, **more):
    """The documents of a new array."""
    spelling = profile() if options is None else profile(options)
    return spelling.render(spelling.new_array(ArraySpec(shape=shape, dtype=dtype, chunks=shape, **more)))


def test_r02_groups_arrays_and_attributes_are_those_of_zarr():
    assert HdmfV2().render(GroupSpec(attrs={"a": 1})) == group(a=1)
    docs = made(HdmfV2, np.dtype("i2"), attrs={"a": 1})
    assert docs[".zattrs"] == {"a": 1, "zarr_dtype": "int16"}
    assert docs[".zarray"]["dtype"] == "<i2"
    assert HdmfV3().render(GroupSpec(attrs={"a": 1}))["zarr.json"]["node_type"] == "group"


@pytest.mark.parametrize("profile", PROFILES)
def test_r03_links_and_references_stand_in_the_documents_of_zarr(profile):
    spec = GroupSpec(attrs={"r": ObjectReference("/a")}, layout={"hdmf": {"links": {"x": Link("/b")}}})
    docs = profile().render(spec)
    assert set(docs) <= {".zgroup", ".zattrs", "zarr.json"}
    found = profile().parse(docs, "g")
    assert found.attrs == spec.attrs
    assert found.layout["hdmf"]["links"] == {"x": Link("/b")}


@pytest.mark.parametrize("profile", PROFILES)
def test_r05_and_r14_doc_is_kept_where_it_is_and_never_made(profile):
    assert attributes(profile().render(GroupSpec(attrs={"doc": "d"}))) == {"doc": "d"}
    assert "doc" not in attributes(profile().render(GroupSpec()))
    docs = made(profile, np.dtype("i2"), attrs={"doc": "d"})
    assert profile().parse(docs, "a").attrs == {"doc": "d"}


@pytest.mark.parametrize("profile", PROFILES)
def test_r08_attributes_of_a_group_are_its_attributes(profile):
    attrs = {"s": "é", "list": [1, 2, 3], "b": True, "f": 1.25}
    assert attributes(profile().render(GroupSpec(attrs=attrs))) == attrs


def test_r09_links_are_json_in_an_attribute_of_the_group():
    spec = GroupSpec(layout={"hdmf": {"links": {"x": Link("/b")}}})
    assert json.loads(json.dumps(HdmfV2().render(spec)))[".zattrs"]["zarr_link"][0]["name"] == "x"


@pytest.mark.parametrize("profile", PROFILES)
def test_r11_and_r18_type_namespace_and_id_are_plain_attributes(profile):
    attrs = {"neurodata_type": "TimeSeries", "namespace": "core", "object_id": "1"}
    assert profile().parse(profile().render(GroupSpec(attrs=attrs)), "g").attrs == attrs
    assert profile().parse(made(profile, np.dtype("f8"), attrs=attrs), "a").attrs == attrs


@pytest.mark.parametrize("profile", PROFILES)
def test_r12_the_root_knows_where_its_schema_is(profile):
    docs = profile().render(GroupSpec(layout={"hdmf": {"links": {}, "specloc": "specifications"}}))
    assert attributes(docs) == {".specloc": "specifications"}
    assert profile().parse(docs, "").layout["hdmf"]["specloc"] == "specifications"


def test_r15_each_array_says_its_type():
    assert attributes(made(HdmfV2, np.dtype("f4")))["zarr_dtype"] == "float32"
    assert attributes(made(HdmfV3, np.dtype("f4")))["_DTYPE"] == "float32"
    lies = {".zattrs": {"zarr_dtype": "int"}, ".zarray": made(HdmfV2, np.dtype("i8"))[".zarray"]}
    assert HdmfV2().parse(lies, "a").dtype == np.dtype("i8")


@pytest.mark.parametrize("profile", PROFILES)
def test_r16_axes_can_be_made_longer(profile):
    spec = profile().parse(made(profile, np.dtype("f4")), "a")
    docs = profile().render(spec.evolve(shape=(9,)))
    assert profile().parse(docs, "a").shape == (9,)
    assert attributes(docs) == attributes(made(profile, np.dtype("f4")))


@pytest.mark.parametrize("profile", PROFILES)
def test_r17_dimensions_are_named(profile):
    docs = made(profile, np.dtype("f4"), (2, 3), dims=("num_times", "num_channels"))
    assert attributes(docs)["_ARRAY_DIMENSIONS"] == ["num_times", "num_channels"]
    assert profile().parse(docs, "a").dims == ("num_times", "num_channels")


def test_r19_attributes_have_the_shape_of_their_values():
    docs = HdmfV2().render(GroupSpec(attrs={"a": np.zeros((2, 3), "i4")}))
    assert docs[".zattrs"]["a"] == [[0, 0, 0], [0, 0, 0]]
    assert HdmfV2().parse(docs, "g").attrs["a"].dtype == np.dtype("i4")


@pytest.mark.parametrize("profile", PROFILES)
def test_r20_attributes_are_cast_to_json_where_that_can_be(profile):
    attrs = {"f": np.float32(1.5), "b": b"byt", "t": (1, 2), "flag": np.bool_(True)}
    said = attributes(profile().render(GroupSpec(attrs=attrs)))
    assert {name: said[name] for name in attrs} == {"f": 1.5, "b": "byt", "t": [1, 2], "flag": True}
    with pytest.raises(Invalid, match="'bad'"):
        profile().render(GroupSpec(attrs={"bad": object()}))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", RESERVED)
def test_r21_reserved_attributes_are_not_for_users(profile, name):
    with pytest.raises(Invalid, match="reserved"):
        profile().render(GroupSpec(attrs={name: "x"}))
    spec = profile().parse(group(**{name: "x"}) if profile is HdmfV2 else in_v3(**{name: "x"}), "g")
    assert spec.attrs == {}


def in_v3(**attrs):
    """The document of a group of profile v3."""
    return {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attrs}}


def test_r23_links_are_a_list_of_objects():
    spec = GroupSpec(layout={"hdmf": {"links": {"a": Link("/x"), "b": Link("/y", "../o.zarr")}}})
    said = attributes(HdmfV2().render(spec))["zarr_link"]
    assert [entry["name"] for entry in said] == ["a", "b"]
    assert [entry["name"] for entry in attributes(HdmfV3().render(spec))["_LINKS"]] == ["a", "b"]


def test_r24_five_keys_are_written_and_three_are_enough():
    spec = HdmfV2().parse(group(zarr_link=[{"name": "device", "path": "/general/devices/array", "source": "."}]), "g")
    assert spec.layout["hdmf"]["links"] == {"device": Link("/general/devices/array")}
    (said,) = attributes(HdmfV2().render(spec))["zarr_link"]
    assert set(said) == {"name", "source", "path", "object_id", "source_object_id"}


def test_r25_the_example_of_a_link():
    docs = group(zarr_link=[{"name": "device", "source": ".", "path": "/general/devices/array", **IDS}])
    spec = HdmfV2().parse(docs, "g")
    link = spec.layout["hdmf"]["links"]["device"]
    assert (link.target, link.source) == ("/general/devices/array", ".")
    assert {"object_id": link.object_id, "source_object_id": link.source_object_id} == IDS
    assert HdmfV2().render(spec) == docs


def test_r27_they_stand_in_the_zattrs_of_their_group():
    docs = HdmfV2().render(GroupSpec(layout={"hdmf": {"links": {"x": Link("/b")}}}))
    assert set(docs) == {".zgroup", ".zattrs"}
    assert "zarr_link" in docs[".zattrs"]


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_r29_references_are_cells_of_arrays_of_any_shape(shape):
    for profile in PROFILES:
        spec = profile().parse(made(profile, ObjectRef(), shape), "a")
        assert (spec.dtype, spec.shape) == (ObjectRef(), shape)


def test_r30_an_array_of_references_is_marked():
    docs = made(HdmfV2, ObjectRef())
    assert (docs[".zattrs"], docs[".zarray"]["dtype"]) == ({"zarr_dtype": "object"}, "|O")
    assert attributes(made(HdmfV3, ObjectRef())) == {"_DTYPE": "object_reference"}


def test_r33_and_r34_the_codec_of_objects_is_chosen_and_json_by_itself():
    assert made(HdmfV2, ObjectRef())[".zarray"]["filters"] == [{"id": "json2", **JSON2}]
    pickled = made(HdmfV2, ObjectRef(), options=HdmfOptions(object_codec="pickle"))
    assert pickled[".zarray"]["filters"] == [{"id": "pickle", "protocol": 5}]
    for docs in (pickled, made(HdmfV2, ObjectRef())):
        assert HdmfV2().parse(docs, "a").dtype == ObjectRef()


def test_r35_a_reference_in_an_attribute_has_its_kind_and_value():
    said = attributes(HdmfV2().render(GroupSpec(attrs={"t": ObjectReference("/a")})))["t"]
    assert set(said) == {"zarr_dtype", "value"}
    assert said["zarr_dtype"] == "object"


def test_r36_the_value_has_four_keys():
    said = attributes(HdmfV2().render(GroupSpec(attrs={"t": ObjectReference("/a", "../b.zarr")})))["t"]["value"]
    assert said == {"source": "../b.zarr", "path": "/a", "object_id": None, "source_object_id": None}


def test_r37_the_example_of_a_reference():
    value = {"path": "/general/extracellular_ephys/electrodes", "source": ".", **IDS}
    docs = group(table={"value": value, "zarr_dtype": "object"})
    spec = HdmfV2().parse(docs, "g")
    assert spec.attrs["table"] == ObjectReference("/general/extracellular_ephys/electrodes")
    assert HdmfV2().render(GroupSpec(attrs=spec.attrs)) == docs


def test_r38_an_array_of_regions_is_marked():
    assert attributes(made(HdmfV2, RegionRef())) == {"zarr_dtype": "region"}
    assert attributes(made(HdmfV3, RegionRef())) == {"_DTYPE": "region_reference"}
    for profile in PROFILES:
        assert profile().parse(made(profile, RegionRef()), "a").dtype == RegionRef()


@pytest.mark.parametrize("profile", PROFILES)
def test_r39_and_r41_the_region_stands_beside_source_and_path(profile):
    region = RegionReference("/g/d", Product((Steps(1, 4), Steps(0, 8, 2)), (5, 8)))
    options = HdmfOptions(profile=profile.name, region_attributes=True)
    docs = profile(options).render(GroupSpec(attrs={"part": region}))
    said = attributes(docs)["part"]
    axes = [{"start": 1, "stop": 4, "step": 1}, {"start": 0, "stop": 8, "step": 2}]
    inner = said["value"] if profile is HdmfV2 else said["_REFERENCE"]
    assert inner["region"] == {"type": "slices", "shape": [5, 8], "axes": axes}
    assert profile().parse(docs, "g").attrs == {"part": region}


def test_r40_what_older_readers_cannot_open_is_asked_for():
    with pytest.raises(Unsupported, match="region_attributes"):
        HdmfV2().render(GroupSpec(attrs={"part": RegionReference("/d", Product((Steps(0, 1),), (2,)))}))


@pytest.mark.parametrize(
    ("kind", "dtype", "word"),
    [
        (np.dtype("f4"), "<f4", "float32"),
        (np.dtype("f8"), "<f8", "float64"),
        (np.dtype("i8"), "<i8", "int64"),
        (np.dtype("i4"), "<i4", "int32"),
        (np.dtype("i2"), "<i2", "int16"),
        (np.dtype("i1"), "|i1", "int8"),
        (np.dtype("u8"), "<u8", "uint64"),
        (np.dtype("u4"), "<u4", "uint32"),
        (np.dtype("u2"), "<u2", "uint16"),
        (np.dtype("u1"), "|u1", "uint8"),
        (np.dtype("?"), "|b1", "bool_"),
        (VlenString(), "|O", "str"),
        (VlenBytes(), "|O", "bytes"),
        (ObjectRef(), "|O", "object"),
        (RegionRef(), "|O", "region"),
    ],
)
def test_r47_the_table_of_types(kind, dtype, word):
    docs = made(HdmfV2, kind)
    assert (docs[".zarray"]["dtype"], docs[".zattrs"]["zarr_dtype"]) == (dtype, word)
    assert HdmfV2().parse(docs, "a").dtype == kind


def test_r47_compound_types():
    field = tagged(np.dtype(object), ObjectRef())
    docs = made(HdmfV2, np.dtype([("n", "<i4"), ("r", field)]))
    assert docs[".zattrs"]["zarr_dtype"] == [{"name": "n", "dtype": "int32"}, {"name": "r", "dtype": "object"}]
    found = HdmfV2().parse(docs, "a").dtype
    assert tag_of(found.fields["r"][0]) == ObjectRef()


def test_r48_times_are_bytes_or_text():
    docs = made(HdmfV2, VlenBytes(), ())
    for word, filters in (("scalar", docs[".zarray"]["filters"]), ("scalar", [{"id": "vlen-utf8"}])):
        said = {".zattrs": {"zarr_dtype": word}, ".zarray": docs[".zarray"] | {"filters": filters}}
        assert HdmfV2().parse(said, "session_start_time").dtype in (VlenBytes(), VlenString())


def test_r51_a_source_of_a_schema_is_a_text_in_json_without_a_compressor():
    said = HdmfV2().render(HdmfV2().specification())
    assert (said[".zarray"]["shape"], said[".zarray"]["dtype"], said[".zarray"]["compressor"]) == ([1], "|O", None)
    assert said[".zarray"]["filters"] == [{"id": "json2", **JSON2}]
    assert attributes(said) == {"zarr_dtype": "scalar"}
    newer = HdmfV3().render(HdmfV3().specification())["zarr.json"]
    assert (newer["shape"], newer["data_type"], newer["attributes"]) == ([], "string", {})


def test_r51_other_texts_are_accepted():
    for filters in ([{"id": "vlen-utf8"}], [{"id": "vlen-bytes"}]):
        said = HdmfV2().render(HdmfV2().specification())
        said[".zarray"]["filters"] = filters
        assert HdmfV2().parse(said, "specifications/core/2.0.1/namespace").problem is None


def test_r53_all_documents_stand_in_one():
    docs = {"g": HdmfV2().render(GroupSpec(attrs={"a": 1})), "g/a": made(HdmfV2, np.dtype("i2"))}
    copied = HdmfV2().write_consolidated(group(), docs)
    assert set(copied["metadata"]) == {".zgroup", ".zattrs", "g/.zgroup", "g/.zattrs", "g/a/.zarray", "g/a/.zattrs"}
    assert HdmfV2().read_consolidated(copied) == {"": group(), **docs}
