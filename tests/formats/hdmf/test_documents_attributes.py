"""Attributes and links in the documents of both profiles: references, bytes, floats that JSON lacks, reserved names."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.documents import read_document, write_again
from hyperslab.formats.hdmf.attributes import RESERVED
from hyperslab.formats.hdmf.profile import HdmfOptions
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.model.attrs import equal, equal_attrs
from hyperslab.model.dtypes import Opaque, tagged
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.regions import Everything, Points, Product, Steps
from hyperslab.model.spec import ArraySpec, GroupSpec

PROFILES = [HdmfV2, HdmfV3]
IDS = {"object_id": "f6685427", "source_object_id": "6224bb89"}
VALUES = {
    "text": "é",
    "flag": True,
    "int": 7,
    "float": 1.5,
    "nan": float("nan"),
    "inf": float("-inf"),
    "list": [1, float("nan"), "a", None],
    "deep": {"a": [float("inf")], "b": {"c": 1}},
    "bytes": b"byt",
    "raw": b"\xff\x00",
    "f4": np.float32(1.25),
    "f4nan": np.float32("nan"),
    "array": np.array([1.5, np.nan]),
    "complex": np.array([1 + 2j, complex("nan")]),
    "ints": np.arange(6, dtype="u1").reshape(2, 3),
    "S": np.bytes_(b"abc"),
    "Ss": np.array([b"a", b"bc"], "S2"),
    "texts": np.array(["a", "é"], np.dtypes.StringDType()),
    "np_str": np.str_("x"),
    "time": np.datetime64("2020-01-01", "D"),
    "opaque": np.array(b"\1\2").view("V2").view(tagged(np.dtype("V2"), Opaque(2, "o"))),
    "_FillValue": np.float32("nan"),
    "none": None,
}


def stored(docs):
    """The attributes as they stand in the documents."""
    return docs["zarr.json"]["attributes"] if "zarr.json" in docs else docs[".zattrs"]


def group(spelling, **attrs):
    """The documents of a group with these attributes stored."""
    if isinstance(spelling, HdmfV3):
        return {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attrs}}
    return {".zgroup": {"zarr_format": 2}, ".zattrs": attrs}


def on_disk(docs):
    """The documents as they are read when they have been written."""
    return {name: read_document(write_again(doc), name) for name, doc in docs.items()}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(profile, name):
    spelling = profile()
    wish = ArraySpec(shape=(2,), dtype=np.dtype("f4"), chunks=(2,), attrs={name: VALUES[name], "last": 1})
    for spec in (GroupSpec(attrs=wish.attrs), spelling.new_array(wish)):
        docs = on_disk(spelling.render(spec))
        found = spelling.parse(docs, "a")
        assert equal(found.attrs[name], VALUES[name])
        assert set(found.attrs) == {name, "last"}
        assert json.dumps(on_disk(spelling.render(found))) == json.dumps(docs)
        assert spelling.problems(docs, "specifications/a") == [] or profile is HdmfV2


@pytest.mark.parametrize("profile", PROFILES)
def test_all_of_them_together_keep_their_order(profile):
    found = profile().parse(on_disk(profile().render(GroupSpec(attrs=VALUES))), "")
    assert equal_attrs(found.attrs, VALUES)
    assert list(found.attrs) == list(VALUES)


@pytest.mark.parametrize("profile", PROFILES)
def test_peers_see_plain_values(profile):
    said = stored(profile().render(GroupSpec(attrs=VALUES)))
    assert (said["bytes"], said["S"], said["Ss"]) == ("byt", "abc", ["a", "bc"])
    assert (said["f4"], said["ints"], said["texts"]) == (1.25, [[0, 1, 2], [3, 4, 5]], ["a", "é"])
    assert str([said["nan"], said["inf"], said["list"][1], said["f4nan"]]) == "[nan, -inf, nan, nan]"
    assert str([said["array"], said["deep"]["a"]]) == "[[1.5, nan], [inf]]"
    text = write_again({"a": said["nan"], "b": said["inf"]}).decode()
    assert "NaN" in text
    assert '"NaN"' not in text


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("code", ["utf-8:", "utf-8:gizmo", "utf-8:bytes", 3, None, "utf-8:|S1[9]", ["utf-8:"]])
def test_codes_that_do_not_fit_leave_the_value(profile, code):
    attrs = {"a": 5, "_hyperslab": {"version": 1, "attrs": {"a": code}}}
    assert profile().parse(group(profile(), **attrs), "").attrs == {"a": 5}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("value", [object(), {1: 2}, [object()], [ObjectReference("/a")], np.array([None, 1])])
def test_values_that_no_document_holds_name_their_attribute(profile, value):
    with pytest.raises((Invalid, Unsupported), match="'bad'"):
        profile().render(GroupSpec(attrs={"bad": value}))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", RESERVED)
def test_reserved_names_are_not_for_users(profile, name):
    with pytest.raises(Invalid, match="reserved"):
        profile().render(GroupSpec(attrs={name: 1}))
    with pytest.raises(Invalid, match="reserved"):
        wish = ArraySpec(shape=(2,), dtype=np.dtype("f4"), chunks=(2,), attrs={name: 1})
        profile().new_array(wish)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("value", [1, "x", None, [1], {"a": 1}, ["ref"]])
def test_reserved_names_are_never_seen_and_kept_where_they_make_no_sense(profile, value):
    attrs = dict.fromkeys(RESERVED, value) | {"a": 1}
    docs = group(profile(), **attrs)
    spec = profile().parse(docs, "g")
    assert spec.attrs == {"a": 1}
    links = profile.links_name
    wanted = attrs | {links: value if isinstance(value, list) else [value]}
    again = profile().render(spec)
    assert stored(again) == wanted
    assert profile().render(profile().parse(again, "g")) == again
    wish = ArraySpec(shape=(2,), dtype=np.dtype("f4"), chunks=(2,), attrs={"a": 1})
    docs = profile().render(profile().new_array(wish))
    stored(docs).update(dict.fromkeys(RESERVED, value))
    spec = profile().parse(docs, "g")
    assert spec.attrs == {"a": 1}
    again = stored(profile().render(spec))
    kept = {name: again.get(name) for name in RESERVED if name != profile.dtype_name}
    assert kept == {name: value for name in RESERVED if name != profile.dtype_name}


# -- references -------------------------------------------------------------------------------------------------------


def test_a_reference_in_profile_v2():
    inner = {"path": "/general/electrodes", "source": ".", **IDS}
    docs = group(HdmfV2(), table={"value": inner, "zarr_dtype": "object"})
    spec = HdmfV2().parse(docs, "es/electrodes")
    assert spec.attrs == {"table": ObjectReference("/general/electrodes")}
    assert spec.attrs["table"].object_id == "f6685427"
    assert spec.attrs["table"].source_object_id == "6224bb89"
    assert HdmfV2().render(spec) == docs
    assert HdmfV2().render(GroupSpec(attrs=spec.attrs)) == docs


def test_a_reference_in_profile_v3():
    docs = group(HdmfV3(), table={"_REFERENCE": {"source": ".", "path": "/g1"}})
    spec = HdmfV3().parse(docs, "a")
    assert spec.attrs == {"table": ObjectReference("/g1")}
    assert HdmfV3().render(spec) == docs
    assert HdmfV3().render(GroupSpec(attrs=spec.attrs)) == docs
    known = GroupSpec(attrs={"table": ObjectReference("/g1", "../x.zarr", "a", "b")})
    said = stored(HdmfV3().render(known))["table"]
    assert said == {"_REFERENCE": {"source": "../x.zarr", "path": "/g1", "object_id": "a", "source_object_id": "b"}}


def test_four_keys_are_written_in_profile_v2_always():
    said = stored(HdmfV2().render(GroupSpec(attrs={"t": ObjectReference("/a")})))["t"]
    assert said == {
        "value": {"source": ".", "path": "/a", "object_id": None, "source_object_id": None},
        "zarr_dtype": "object",
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_unknown_keys_of_a_reference_are_kept(profile):
    inner = {"path": "/a", "source": ".", "object_id": "1", "source_object_id": "2", "of_others": [1]}
    whole = {"value": inner, "zarr_dtype": "object", "more": 1} if profile is HdmfV2 else {"_REFERENCE": inner}
    docs = group(profile(), t=whole)
    spec = profile().parse(docs, "")
    assert profile().render(spec) == docs
    moved = spec.evolve(attrs={"t": ObjectReference("/b", object_id="1", source_object_id="2")})
    said = stored(profile().render(moved))["t"]
    assert said.get("value", said.get("_REFERENCE")) == inner | {"path": "/b"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "region", [Everything(), Everything((3,)), Points(((1,),), (3,)), Product((Steps(0, 2),), (3,))]
)
def test_a_region_in_an_attribute(profile, region):
    spelling = profile(HdmfOptions(profile=profile.name, region_attributes=True))
    spec = GroupSpec(attrs={"part": RegionReference("/d", region)})
    docs = spelling.render(spec)
    said = stored(docs)["part"]
    assert said.get("zarr_dtype", "region") == "region"
    assert "region" in said.get("value", said.get("_REFERENCE"))
    found = profile().parse(docs, "")
    assert found.attrs == spec.attrs
    assert profile().render(found) == docs  # what is there already may stay


def test_regions_in_attributes_of_profile_v2_are_asked_for():
    with pytest.raises(Unsupported, match="region_attributes=True"):
        HdmfV2().render(GroupSpec(attrs={"part": RegionReference("/d", Everything())}))


@pytest.mark.parametrize(
    "inner",
    [
        None,
        1,
        "x",
        [],
        {},
        {"path": 1},
        {"path": ""},
        {"path": "/a", "source": 1},
        {"path": "/a", "object_id": []},
        {"path": "/a", "source": ".", "region": {"type": "gizmo"}},
        {"path": "/a", "region": 1},
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_nonsense_is_an_object_as_it_stands(profile, inner):
    whole = {"value": inner, "zarr_dtype": "object"} if profile is HdmfV2 else {"_REFERENCE": inner}
    docs = group(profile(), t=whole)
    spec = profile().parse(docs, "")
    assert spec.attrs == {"t": whole}
    assert [problem.kind for problem in profile().problems(docs, "")] == ([] if inner is None else ["reference"])
    assert profile().render(spec) == docs


def test_a_region_without_one_is_no_reference():
    whole = {"value": {"path": "/a", "source": "."}, "zarr_dtype": "region"}
    assert HdmfV2().parse(group(HdmfV2(), t=whole), "").attrs == {"t": whole}


@pytest.mark.parametrize("profile", PROFILES)
def test_objects_that_only_look_alike_are_objects(profile):
    attrs = {"a": {"zarr_dtype": "object"}, "b": {"value": 1, "zarr_dtype": "int"}, "c": {"_REFERENCE": {}, "more": 1}}
    assert profile().parse(group(profile(), **attrs), "").attrs == attrs


# -- links ------------------------------------------------------------------------------------------------------------


def test_links_of_three_keys_become_links_of_five():
    said = {"name": "raw", "path": "/g1/i2", "source": "."}
    spec = HdmfV2().parse(group(HdmfV2(), zarr_link=[said]), "refs")
    assert spec.layout["hdmf"]["links"] == {"raw": Link("/g1/i2")}
    assert spec.attrs == {}
    whole = said | {"object_id": None, "source_object_id": None}
    assert stored(HdmfV2().render(spec)) == {"zarr_link": [whole]}


def test_links_of_profile_v3_have_the_ids_that_are_known():
    said = [{"source": ".", "path": "/a", "name": "x"}, {"source": "../b.zarr", "path": "/", "name": "y", **IDS}]
    docs = group(HdmfV3(), _LINKS=said)
    spec = HdmfV3().parse(docs, "")
    assert spec.layout["hdmf"]["links"] == {"x": Link("/a"), "y": Link("/", "../b.zarr")}
    assert spec.layout["hdmf"]["links"]["y"].object_id == "f6685427"
    assert HdmfV3().render(spec) == docs


@pytest.mark.parametrize("profile", PROFILES)
def test_unknown_keys_of_a_link_are_kept(profile):
    said = {"name": "x", "source": ".", "path": "/a", **IDS, "of_others": {"a": 1}}
    docs = group(profile(), **{profile.links_name: [said]})
    assert profile().render(profile().parse(docs, "")) == docs


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "entry",
    [
        1,
        None,
        [],
        {},
        {"name": "x", "source": "."},
        {"name": 1, "source": ".", "path": "/a"},
        {"name": "", "source": ".", "path": "/a"},
        {"name": "..", "source": ".", "path": "/a"},
        {"name": "a/b", "source": ".", "path": "/a"},
        {"name": "x", "source": None, "path": "/a"},
        {"name": "x", "source": ".", "path": "/a", "object_id": 1},
        {"name": "good", "source": ".", "path": "/b"},
    ],
)
def test_what_is_no_link_is_noted_and_kept(profile, entry):
    good = {"name": "good", "source": ".", "path": "/a", "object_id": "1", "source_object_id": "2"}
    docs = group(profile(), **{profile.links_name: [good, entry]})
    spec = profile().parse(docs, "")
    assert spec.layout["hdmf"]["links"] == {"good": Link("/a")}
    assert [problem.kind for problem in profile().problems(docs, "")] == ["links"]
    assert profile().render(spec) == docs


@pytest.mark.parametrize("profile", PROFILES)
def test_paths_are_made_absolute_and_sources_named(profile):
    said = [{"name": "x", "source": "", "path": "g/a"}, {"name": "y", "source": "/etc", "path": "/../../secret"}]
    spec = profile().parse(group(profile(), **{profile.links_name: said}), "")
    assert spec.layout["hdmf"]["links"] == {"x": Link("/g/a", "."), "y": Link("/../../secret", "/etc")}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_name_of_a_new_link_is_a_name(profile):
    with pytest.raises(Invalid, match="not a name"):
        profile().render(GroupSpec(layout={"hdmf": {"links": {"a/b": Link("/x")}}}))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_group_without_anything_has_no_attributes(profile):
    assert stored(profile().render(GroupSpec())) == {}
    assert profile().parse(group(profile()), "").layout["hdmf"] == {"links": {}, "specloc": None}


# -- the place of the specifications ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_the_root_names_the_specifications(profile):
    docs = group(profile(), **{".specloc": "specifications", "neurodata_type": "NWBFile"})
    spec = profile().parse(docs, "")
    assert spec.layout["hdmf"]["specloc"] == "specifications"
    assert spec.attrs == {"neurodata_type": "NWBFile"}
    assert profile().render(spec) == docs


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("value", [1, "", "/", "../a", {"path": "/a"}])
def test_a_place_that_is_none_is_noted_and_kept(profile, value):
    docs = group(profile(), **{".specloc": value})
    spelling = profile()
    spec = spelling.parse(docs, "")
    assert spec.layout["hdmf"]["specloc"] is None
    assert spelling.specloc == "specifications"
    assert [problem.kind for problem in spelling.problems(docs, "")] == ["specloc"]
    assert spelling.render(spec) == docs


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_no_version_of_zarr_is_refused(profile):
    docs = group(profile())
    next(iter(docs.values()))["zarr_format"] = 7
    with pytest.raises(FormatError, match="zarr_format"):
        profile().parse(docs, "")
