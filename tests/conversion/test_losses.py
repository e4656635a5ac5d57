"""What a format lacks is said before anything is copied, and what becomes of it is what was said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.conversion.losses import (
    is_left_out,
    losses_of,
    required_features,
    target_attrs,
    target_named_types,
    target_type,
)
from hyperslab.formats.base import Feature
from hyperslab.model.attrs import equal_attrs, untagged
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import (
    Char,
    Compound,
    Enum,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    tagged,
)
from hyperslab.model.refs import Link, ObjectReference
from hyperslab.model.spec import ArraySpec, GroupSpec

ALL = frozenset(Feature)
NONE: frozenset[Feature] = frozenset()


def _array(dtype: Any, **more: Any) -> ArraySpec:
    return ArraySpec(shape=(3,), dtype=dtype, chunks=(3,), **more)


@pytest.mark.parametrize(
    ("dtype", "lacking", "held"),
    [
        (np.dtype("f4"), [], np.dtype("f4")),
        (np.dtype("?"), [Feature.BOOLEAN], np.dtype("i1")),
        (np.dtype("f2"), [Feature.FLOAT16], np.dtype("f4")),
        (np.dtype(">f4"), [Feature.BIG_ENDIAN], np.dtype("f4")),
        (np.dtype("U5"), [Feature.UNICODE], VlenString()),
        (np.dtype("U5"), [Feature.UNICODE, Feature.STRINGS], None),
        (np.dtype("M8[s]"), [Feature.DATETIME], np.dtype("i8")),
        (np.dtype("c8"), [Feature.COMPLEX], np.dtype([("r", "f4"), ("i", "f4")])),
        (np.dtype("c8"), [Feature.COMPLEX, Feature.STRUCTURED], None),
        (np.dtype("S3"), [Feature.FIXED_BYTES], None),
        (np.dtype([("a", "f4"), ("b", "i2", (2,))]), [Feature.SUBARRAYS], None),
        (Char(), [Feature.CHAR], np.dtype("S1")),
        (Enum(np.dtype("u1"), (("a", 1),), "e"), [Feature.USER_TYPES], np.dtype("u1")),
        (Opaque(4, "o"), [Feature.USER_TYPES], np.dtype("V4")),
        (Compound(np.dtype([("a", "f4")]), "c"), [Feature.USER_TYPES], np.dtype([("a", "f4")])),
        (Compound(np.dtype([("a", "f4")]), "c"), [Feature.USER_TYPES, Feature.STRUCTURED], None),
        (VlenString(), [Feature.STRINGS], None),
        (VlenBytes(), [Feature.VLEN], None),
        (VlenArray(np.dtype("i4"), "v"), [Feature.VLEN], None),
        (ObjectRef(), [Feature.REFERENCES], VlenString()),
        (RegionRef(), [Feature.REFERENCES], VlenString()),
        (ObjectRef(), [Feature.REFERENCES, Feature.STRINGS], None),
        (np.dtype([("n", "i4"), ("r", tagged(np.dtype(object), ObjectRef()))]), [Feature.REFERENCES], None),
        (np.dtype([("n", "i4"), ("s", tagged(np.dtype(object), VlenString()))]), [Feature.STRINGS], None),
    ],
)
def test_types(dtype: Any, lacking: list[Feature], held: Any) -> None:
    features = ALL - set(lacking)
    assert target_type(dtype, features) == held
    losses = list(losses_of("a", _array(dtype), features))
    assert len(losses) == bool(lacking and lacking != [Feature.UNICODE])  # text of any length holds the same
    assert is_left_out("a", _array(dtype), features) == (held is None)
    if losses:
        assert losses[0].node == "a"
        assert losses[0].feature in lacking
        assert ("left out" in losses[0].message) == (held is None)


STATE = Enum(np.dtype("u1"), (("off", 0), ("on", 1)), "state_t")
PAIR = Compound(np.dtype([("a", "f4")]), "pair_t")


def test_attributes_of_user_types() -> None:
    attrs = {
        "state": np.array(1, tagged(STATE.base, STATE)),
        "key": np.array(b"ab", tagged(np.dtype("V2"), Opaque(2, "key_t"))),
        "pair": np.zeros(2, tagged(PAIR.base, PAIR)),
        "plain": np.uint8(1),
    }
    features = ALL - {Feature.USER_TYPES}
    held = target_attrs(attrs, features)
    assert equal_attrs(held, {name: untagged(value) for name, value in attrs.items()})
    assert len(list(losses_of("a", _array(np.dtype("f4"), attrs=attrs), features))) == 3
    features -= {Feature.STRUCTURED}
    losses = [str(loss) for loss in losses_of("a", _array(np.dtype("f4"), attrs=attrs), features)]
    assert losses == [
        "/a: the attribute 'state' of type enum<uint8> state_t becomes uint8",
        "/a: the attribute 'key' of type opaque(2) key_t is left out",
        "/a: the attribute 'pair' of type compound pair_t is left out",
    ]
    held = target_attrs(attrs, features)
    assert equal_attrs(held, {"state": np.uint8(1), "plain": np.uint8(1)})
    assert not list(losses_of("a", _array(np.dtype("f4"), attrs=attrs), ALL))
    assert equal_attrs(target_attrs(attrs, ALL), attrs)


def test_named_types() -> None:
    spec = GroupSpec(types={"state_t": STATE, "row_t": VlenArray(np.dtype("i4"), "row_t")})
    losses = [str(loss) for loss in losses_of("", spec, ALL - {Feature.VLEN})]
    assert losses == ["/: the type 'row_t' is left out"]
    assert list(target_named_types(spec.types, ALL - {Feature.VLEN})) == ["state_t"]
    assert not target_named_types(spec.types, ALL - {Feature.USER_TYPES})


def test_a_format_that_holds_everything_loses_nothing() -> None:
    spec = _array(np.dtype("f4"), dims=("x",), attrs={"a": np.float32(1), "r": ObjectReference("b")})
    assert list(losses_of("a", spec, ALL)) == []
    assert target_attrs(spec.attrs, ALL) == dict(spec.attrs)


def test_one_byte_of_text_is_char_where_there_is_nothing_else() -> None:
    features = ALL - {Feature.FIXED_BYTES}
    assert target_type(np.dtype("S1"), features) == Char()
    assert list(losses_of("a", _array(np.dtype("S1")), features)) == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_chars_in_fields_are_text_where_there_are_no_sub_arrays(wrapped: bool) -> None:
    cells = np.dtype([("name", "S1", (5,)), ("at", [("c", "S1"), ("id", "S1", (2,))]), ("v", "f4")])
    text = np.dtype([("name", "S5"), ("at", [("c", "S1"), ("id", "S2")]), ("v", "f4")])
    given, wanted = (Compound(cells, "t"), Compound(text, "t")) if wrapped else (cells, text)
    features = ALL - {Feature.SUBARRAYS, Feature.FIXED_BYTES}
    assert target_type(given, features) == wanted
    assert list(losses_of("a", _array(given), features)) == []
    assert target_type(given, ALL) == given
    vector = np.dtype([("name", "S1", (5,)), ("v", "f4", (2,))])
    assert target_type(vector, features) is None


def test_attributes() -> None:
    attrs = {"text": "x", "typed": np.float32(1.5), "many": np.array([1, 2], "i2"), "r": ObjectReference("b")}
    features = ALL - {Feature.TYPED_ATTRIBUTES, Feature.REFERENCES}
    told = {loss.feature for loss in losses_of("a", _array(np.dtype("f4"), attrs=attrs), features)}
    assert told == {Feature.TYPED_ATTRIBUTES, Feature.REFERENCES}
    assert target_attrs(attrs, features) == {"text": "x", "typed": 1.5, "many": [1, 2], "r": "/b"}
    assert target_attrs(attrs, NONE) == {}


def test_groups_dimensions_and_links() -> None:
    group = GroupSpec(dims=(Dimension("t", 3, True),), types={"e": Enum(np.dtype("u1"), (), "e")})
    told = [loss.feature for loss in losses_of("g", group, NONE)]
    assert told == [Feature.GROUPS, Feature.UNLIMITED, Feature.USER_TYPES]
    assert is_left_out("g", group, NONE) and not is_left_out("", group, NONE)
    link = Link("a")
    assert [loss.feature for loss in losses_of("l", link, NONE)] == [Feature.LINKS]
    assert is_left_out("l", link, NONE) and not is_left_out("l", link, ALL)
    names = _array(np.dtype("f4"), dims=("x",))
    assert [loss.feature for loss in losses_of("a", names, ALL - {Feature.DIMENSIONS})] == [Feature.DIMENSIONS]


def test_every_kind_of_type_needs_what_it_says() -> None:
    nested = np.dtype([("a", [("b", "c8")]), ("t", "M8[ns]", (2,))])
    wanted = {Feature.STRUCTURED, Feature.COMPLEX, Feature.SUBARRAYS, Feature.DATETIME}
    assert set(required_features(nested)) == wanted


def test_sparse_arrays_become_dense() -> None:
    spec = ArraySpec(shape=(4,), dtype=np.dtype("f8"), chunks=(2,), sparse="COO", fill_value=np.nan)
    (loss,) = losses_of("a", spec, ALL - {Feature.SPARSE})
    assert (loss.feature, loss.message) == (Feature.SPARSE, "the sparse array is stored dense")
    assert not is_left_out("a", spec, ALL - {Feature.SPARSE})
    assert list(losses_of("a", spec, ALL)) == []
