"""Dtypes that bear the user type of their cells: attributes of an enum are not bare integers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from hyperslab.model.attrs import equal, untagged
from hyperslab.model.differences import differences
from hyperslab.model.dtypes import Compound, Enum, Opaque, packed, tag_of, tagged, tagged_fields, without_tag
from hyperslab.model.spec import GroupSpec

BYTE = np.dtype("i1")
STATE = Enum(BYTE, (("off", 0), ("on", 1)), "state_t")
OTHER = Enum(BYTE, (("no", 0), ("yes", 1)), "state_t")
KEY = Opaque(2, "key_t")
PAIR = Compound(np.dtype([("a", "i4"), ("s", tagged(BYTE, STATE)), ("t", tagged(BYTE, STATE), (2,))]), "pair_t")

VALUES: dict[str, Any] = {
    "enum": np.array(1, tagged(BYTE, STATE)),
    "enums": np.array([1, 0], tagged(BYTE, STATE)),
    "opaque": np.array(b"ab", tagged(np.dtype("V2"), KEY)),
    "compound": np.zeros((), tagged(PAIR.base, PAIR))[()],
    "compounds": np.zeros(2, tagged(PAIR.base, PAIR)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_tag_goes_with_copies_and_pickles(name: str) -> None:
    value = VALUES[name]
    kind = tag_of(value.dtype)
    assert kind in (STATE, KEY, PAIR)
    for other in (value.copy(), pickle.loads(pickle.dumps(value))):
        assert tag_of(other.dtype) == kind
        assert equal(value, other)


@pytest.mark.parametrize("name", VALUES)
def test_values_of_another_type_are_not_equal(name: str) -> None:
    value = VALUES[name]
    assert not equal(value, untagged(value))
    assert tag_of(np.asarray(untagged(value)).dtype) is None
    assert np.array_equal(np.asarray(untagged(value)), np.asarray(value))


def test_enums_with_other_names_are_not_equal() -> None:
    assert not equal(VALUES["enum"], np.array(1, tagged(BYTE, OTHER)))


def test_a_difference_of_type_is_seen_but_for_a_type_that_had_no_name() -> None:
    value = VALUES["opaque"]
    plain = untagged(value)
    assert not differences("", GroupSpec(attrs={"a": plain}), GroupSpec(attrs={"a": value}))
    assert differences("", GroupSpec(attrs={"a": value}), GroupSpec(attrs={"a": plain}))


def test_fields_keep_their_tags_when_packed() -> None:
    base = packed(np.dtype([(name, PAIR.base[name]) for name in "sta"], align=True))
    assert dict(tagged_fields(base)) == {"s": STATE, "t": STATE}
    assert dict(tagged_fields(without_tag(tagged(base, PAIR)))) == {"s": STATE, "t": STATE}
    assert tag_of(packed(tagged(base, PAIR))) == PAIR


def test_a_difference_of_named_types_is_seen() -> None:
    spec = GroupSpec(types={"state_t": STATE, "pair_t": PAIR})
    assert not differences("", spec, GroupSpec(types={"pair_t": PAIR, "state_t": STATE, "more_t": KEY}))
    found = differences("", spec, GroupSpec(types={"state_t": OTHER}))
    assert [problem.message for problem in found] == [
        "the type 'state_t' is enum<int8> state_t, not enum<int8> state_t",
        "no type 'pair_t'",
    ]
