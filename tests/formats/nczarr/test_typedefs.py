"""``.ztypedefs``: types in one another, in other groups, and documents that would do harm."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr.generation import Context, Generation
from hyperslab.formats.nczarr.user_types import (
    DEEPEST,
    LARGEST,
    MOST_FIELDS,
    Scope,
    dtype_in_bytes,
    read_types,
    same_type,
    text_lengths,
    write_types,
)
from hyperslab.model.dtypes import Compound, Enum, Opaque, VlenArray, tag_of, tagged
from hyperslab.model.spec import GroupSpec

COLOUR = Enum(np.dtype("i2"), (("red", -1), ("green", 300)), "colour")
BLOB = Opaque(3, "blob")
POINT = Compound(np.dtype([("x", "<f8"), ("y", "<f8")]), "point")


def compound(*fields):
    return {"class": "compound", "fields": list(fields)}


def scope(group="", **groups):
    """What is seen from a group, where these groups declare these types."""
    specs = {path: GroupSpec(types=types) for path, types in groups.items()}
    return Scope(group, Context(generation=Generation.DRAFT, group=specs.get), {})


def read(doc, stored=(), group="", **groups):
    """The types of a document, and what was noted of it."""
    problems = Problems(group)
    types, left = read_types(doc, dict(stored), scope(group, **groups), problems)
    assert types.keys() | left.keys() == doc.keys()
    assert set(left) == {problem.message.split("'")[1] for problem in problems}
    return types, [problem.message for problem in problems]


def test_types_lie_in_one_another_in_any_order():
    doc = {
        "line": compound(["ends", "/point", [2]], ["colour", "/colour"], ["raw", "/blob"], ["in", [["a", "|u1"]]]),
        "point": compound(["x", "<f8"], ["y", "<f8"]),
        "colour": {"class": "enum", "base": "<i2", "members": {"red": -1, "green": 300}},
        "blob": {"class": "opaque", "size": 3},
    }
    types, said = read(doc)
    assert said == []
    line = types.pop("line")
    assert types == {"point": POINT, "colour": COLOUR, "blob": BLOB}
    assert line.base == np.dtype([("ends", POINT.base, (2,)), ("colour", "<i2"), ("raw", "V3"), ("in", [("a", "u1")])])
    assert [tag_of(line.base[name].base) for name in ("ends", "colour", "raw", "in")] == [POINT, COLOUR, BLOB, None]
    whole = {**types, "line": line}
    assert write_types(whole, Scope("", Context(generation=Generation.DRAFT), whole)) == doc


def test_types_of_groups_above_are_seen_and_others_are_not():
    doc = {"t": compound(["a", "/point"], ["b", "/g/blob"])}
    types, _ = read(doc, group="g/h", **{"": {"point": POINT}, "g": {"blob": BLOB}})
    assert types["t"].base.itemsize == 19
    for place in ("/other/blob", "/g/h/i/blob", "/blob", "/g/point"):
        types, said = read(
            {"t": compound(["a", place])}, group="g/h", **{"": {"point": POINT}, "other": {"blob": BLOB}}
        )
        assert (types, said) == ({}, [f"type 't': there is no type {place} here or above, or it holds itself"])


def test_a_field_without_a_tag_is_named_where_a_compound_has_its_fields():
    base = np.dtype([("p", [("x", "<f8"), ("y", "<f8")]), ("n", "<i2")])
    here = Scope("g", Context(generation=Generation.DRAFT, group={"": GroupSpec(types={"point": POINT})}.get), {})
    assert write_types({"t": Compound(base, "t")}, here) == {"t": compound(["p", "/point"], ["n", "<i2"])}


def test_the_nearest_type_of_a_name_counts():
    groups = {"": GroupSpec(types={"blob": BLOB, "point": POINT}), "g": GroupSpec(types={"blob": Opaque(4, "blob")})}
    seen = Scope("g", Context(generation=Generation.DRAFT, group=groups.get))
    assert [seen.name_of(kind) for kind in (BLOB, Opaque(4, "blob"), POINT, COLOUR)] == [
        "/blob",
        "/g/blob",
        "/point",
        None,
    ]
    assert [seen.find(fqn) for fqn in ("/blob", "/g/blob", "/g/point", "/h/x")] == [BLOB, Opaque(4, "blob"), None, None]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (None, "None is no compound, enum or opaque type"),
        ({"class": "vlen", "base": "<i4"}, "is no compound, enum or opaque type"),
        ({"class": "opaque", "size": 0}, "is no compound"),
        ({"class": "opaque", "size": True}, "is no compound"),
        ({"class": "opaque", "size": LARGEST + 1}, "is no compound"),
        ({"class": "enum", "base": "<f4", "members": {}}, "an enum of float32; it counts in whole numbers"),
        ({"class": "enum", "base": "|O", "members": {}}, "'|O' is no data type that is known"),
        ({"class": "enum", "base": "|u1", "members": {"A": 256}}, "member 'A' is 256, no uint8"),
        ({"class": "enum", "base": "|u1", "members": {"A": 1.0}}, "member 'A' is 1.0, no uint8"),
        (compound(), "is no compound"),
        (compound(["a"]), "['a'] is no field"),
        (compound(["", "<i4"]), "['', '<i4'] is no field"),
        (compound(["a", "<i4"], ["a", "<i2"]), "two fields have the same name"),
        (compound(["a", "|O"]), "'|O' is no data type that is known"),
        (compound(["a", 3]), "3 is no data type"),
        (compound(["a", []]), "[] is no data type"),
        (compound(["a", "<i4", [0]]), "[0] is no shape of a field"),
        (compound(["a", "<i4", [2**27, 4]]), "a field of 536870912 cells"),
        (compound(["a", f"|V{2**27}", [4]]), "a cell of 536870912 bytes"),
        (compound(["a", "/no"]), "there is no type /no here or above"),
        (compound(["a", "/t"]), "there is no type /t here or above, or it holds itself"),
        (compound(["a", "|S5"]), "text of 5 bytes needs the attribute 't.a' of its group, which is missing"),
        (compound(["a", [["b", "|S5"]]]), "text of 5 bytes needs the attribute 't.a.b' of its group, which is missing"),
    ],
)
def test_what_is_no_type_is_noted_and_kept(said, message):
    types, (problem,) = read({"t": said})
    assert types == {}
    assert problem.startswith("type 't': ")
    assert message in problem


@pytest.mark.parametrize("name", ["", "a/b"])
def test_names(name):
    assert read({name: {"class": "opaque", "size": 1}})[1] == [f"type {name!r}: no name of a type"]
    with pytest.raises(Invalid, match="is no name of a dimension or type"):
        write_types({name: BLOB}, scope())


def test_lengths_of_text_must_be_those_of_the_fields():
    doc = {"t": compound(["a", "|S5"], ["b", "|S1", [4]])}
    assert text_lengths(doc) == {"t.a": 5}
    assert read(doc, {"t.a": 5})[0]["t"].base == np.dtype([("a", "S5"), ("b", "S1", (4,))])
    assert "the attribute 't.a' of its group, which is 6" in read(doc, {"t.a": 6})[1][0]


def test_circles_are_found():
    doc = {
        "a": compound(["b", "/b"]),
        "b": compound(["c", "/c"]),
        "c": compound(["a", "/a"]),
        "d": compound(["x", "<i2"]),
    }
    types, said = read(doc)
    assert list(types) == ["d"]
    assert len(said) == 3


@pytest.mark.parametrize("forwards", [True, False])
def test_types_are_not_nested_without_end(forwards):
    names = [f"t{n}" for n in range(5000)]
    pairs = list(pairwise(names))
    places = pairs if forwards else [(inner, name) for name, inner in pairs]
    doc = {name: compound(["a", f"/{inner}"]) for name, inner in places}
    types, said = read({**doc, names[-1] if forwards else names[0]: compound(["a", "|u1"])})
    assert 0 < len(types) <= DEEPEST
    assert said


def test_types_do_not_multiply_without_end():
    doc = {"t0": compound(["a", "|u1"])}
    doc |= {f"t{n}": compound(*([f"f{i}", f"/t{n - 1}"] for i in range(10))) for n in range(1, 8)}
    types, said = read(doc)
    assert list(types) == [f"t{n}" for n in range(5)]
    assert f"more than {MOST_FIELDS} fields" in said[0]


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.fixed_dictionaries(
            {},
            optional={
                "class": st.sampled_from(["compound", "enum", "opaque", "vlen", 3]),
                "fields": st.lists(
                    st.lists(
                        st.sampled_from(["a", "b", "/a", "/b", "<i4", "|S3", [2], 7, None, [["x", "/c"]]]), max_size=4
                    ),
                    max_size=4,
                )
                | st.none(),
                "base": st.sampled_from(["|u1", "<i16", "<f4", None, "|O"]),
                "members": st.dictionaries(st.text(max_size=2), st.integers() | st.none(), max_size=2) | st.none(),
                "size": st.integers(-1, 5) | st.none(),
            },
        )
        | st.none(),
    )
)
def test_no_document_does_harm(doc):
    types, _ = read(doc, {"a.a": 3, "b.b": 3})
    again, said = read(write_types(types, Scope("", Context(generation=Generation.DRAFT), types)), text_lengths(doc))
    assert (again, said) == (types, [])


@pytest.mark.parametrize("kind", [VlenArray(np.dtype("i4"), "v"), Compound(np.dtype([("a", object)]), "o")], ids=str)
def test_types_that_the_draft_has_not(kind):
    with pytest.raises(Unsupported, match=r"has no type such as 't'|fields are of fixed size"):
        write_types({"t": kind}, scope())


def test_same_type():
    assert same_type(POINT, Compound(POINT.base.newbyteorder(">"), "point"))
    assert same_type(COLOUR, Enum(np.dtype(">i2"), COLOUR.members, "colour"))
    assert not same_type(COLOUR, Enum(np.dtype("<i2"), COLOUR.members[:1], "colour"))
    assert not same_type(BLOB, POINT)


def test_sizes_in_bits():
    assert [dtype_in_bytes(name) for name in ("<i16", ">f64", "<i8", "|S64", ["a"])] == [
        "<i2",
        ">f8",
        "<i8",
        "|S64",
        ["a"],
    ]
    assert read({"e": {"class": "enum", "base": "<u16", "members": {"A": 500}}})[0]["e"].base == np.dtype("u2")


def test_a_tag_outweighs_the_fields():
    twin = Compound(POINT.base, "twin")
    types = {"point": POINT, "twin": twin, "t": Compound(np.dtype([("p", tagged(twin.base, twin))]), "t")}
    assert write_types(types, Scope("", Context(generation=Generation.DRAFT), types))["t"] == compound(["p", "/twin"])
