"""What conditions mean, by type of attribute, and what is refused; Python's own comparisons are the oracle."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.database.conditions import Like, Not, Prefix, Query, parse
from hyperslab.errors import SchemaError
from hyperslab.formats.collections.ranks import ranker
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record

KINDS = {
    "i": int,
    "f": float,
    "c": complex,
    "s": str,
    "t": tuple,
    "d": datetime,
    "i8": np.int8,
    "f4": np.float32,
    "c8": np.complex64,
}
SCHEMA = ArraySchema(
    [DimensionSchema("x", 2)],
    float,
    [AttributeSchema("key", int, True), *(AttributeSchema(name, kind, False) for name, kind in KINDS.items())],
)
DAY = datetime(2023, 1, 5, tzinfo=UTC)
NAN = float("nan")


def fits(value, wanted, name) -> bool:
    record = Record("", {"key": 1}, {**dict.fromkeys(KINDS), name: value})
    found = parse(SCHEMA, {name: wanted}, {}).holds(record)
    assert parse(SCHEMA, {name: Not(wanted)}, {}).holds(record) is not found
    assert parse(SCHEMA, [{"key": 2}, {name: wanted}], {}).holds(record) is found
    assert parse(SCHEMA, [{"key": 1}, {name: wanted}], {}).holds(record)
    return found


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("i", 3, 3),
        ("i", 3, np.uint8(3)),
        ("i", 3, (1, 3)),
        ("i", 3, (3, None)),
        ("i", 3, slice(None, 3)),
        ("i", 3, [1, np.int64(3)]),
        ("i", 3, {3}),
        ("i", 3, range(2, 5)),
        ("i", 3, np.array([3, 4])),
        ("i", 2**80, (2**70, None)),
        ("i", None, None),
        ("i", None, [1, None]),
        ("i", 3, (None, None)),
        ("f", 3.0, 3),
        ("f", 3.5, np.float32(3.5)),
        ("f", -0.0, 0.0),
        ("f", NAN, NAN),
        ("f", NAN, [1.0, NAN]),
        ("f", 1.0, (0, math.inf)),
        ("f4", float(np.float32(0.1)), 0.1),
        ("f4", float(np.float32(0.2)), (0.1, 0.2)),
        ("i8", 5, (0, 1000)),
        ("c", 2 - 1j, 2 - 1j),
        ("c", complex(NAN, 0), complex(NAN, 0)),
        ("c8", 1 + 2j, [np.complex64(1 + 2j)]),
        ("s", "Ulm", "Ulm"),
        ("s", "Ulm", Prefix("U")),
        ("s", "Ulm", Prefix("")),
        ("s", "Ulm", Like("U*")),
        ("s", "Ulm", Like("[T-V]?m")),
        ("s", "[x", Like("[x")),
        ("s", "Ulm", ("Ul", "Um")),
        ("s", "x\U0010ffffy", Prefix("x\U0010ffff")),
        ("t", (1, "a"), (1, "a")),
        ("t", (1, 2), (1, 2)),
        ("t", (1, (2j, DAY)), (1, ("2j", DAY.isoformat()))),
        ("t", (1,), [(2,), (1,)]),
        ("d", DAY, DAY.replace(tzinfo=None)),
        ("d", DAY, DAY.astimezone(timezone(timedelta(hours=3)))),
        ("d", DAY, "2023-01-05"),
        ("d", DAY, "2023-01-05T02:00:00+02:00"),
        ("d", DAY, np.datetime64("2023-01-05T00", "ns")),
        ("d", DAY, pd.Timestamp("2023-01-05")),
        ("d", DAY, date(2023, 1, 5)),
        ("d", DAY, ("2023-01-01", DAY)),
        ("d", DAY, slice(np.datetime64("2023-01-05"), None)),
        ("d", DAY, np.array(["2023-01-05"], "M8[D]")),
    ],
)
def test_what_fits(name, value, wanted):
    assert fits(value, wanted, name)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("i", 3, (4, None)),
        ("i", 3, (3, 2)),
        ("i", 3, []),
        ("i", None, (None, None)),
        ("i", None, 0),
        ("f", NAN, (None, None)),
        ("f", None, NAN),
        ("s", "ulm", Prefix("U")),
        ("s", "V", Prefix("U")),
        ("s", None, Prefix("")),
        ("s", "x\U0010fffe", Prefix("x\U0010ffff")),
        ("t", (1.0,), (1,)),
        ("t", (1, 3), (1, 5)),
        ("d", DAY, (None, "2023-01-04T23:59:59.999999")),
    ],
)
def test_what_does_not_fit(name, value, wanted):
    assert not fits(value, wanted, name)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"i": "3"}, r"attribute 'i'.*takes int, not '3'"),
        ({"i": True}, r"'i'.*True"),
        ({"i": 3.0}, r"'i'.*3\.0"),
        ({"i": (0, math.inf)}, r"'i'.*inf"),
        ({"i8": 300}, r"'i8'.*300"),
        ({"f": "1.0"}, r"'f'"),
        ({"f": 2**53 + 1}, r"'f'"),
        ({"f": (NAN, 1.0)}, r"'f'.*NaN.*None for no end"),
        ({"f": (0.0, 1.0, 2.0)}, r"'f'.*tuple of 3.*\(low, high\)"),
        ({"f": slice(0.0, 1.0, 0.5)}, r"'f'.*step"),
        ({"c": 2}, r"attribute 'c' takes complex, not 2"),
        ({"c": (1j, 2j)}, r"'c'.*range.*no order"),
        ({"t": slice((1,), (2,))}, r"'t'.*range"),
        ({"t": (1, [2])}, r"'t'"),
        ({"s": 3}, r"'s'.*3"),
        ({"i": Prefix("3")}, r"'i'.*prefix"),
        ({"i": np.array([[1]])}, r"'i'.*2 dimensions"),
        ({"d": "yesterday"}, r"'d'.*'yesterday' is no time.*ISO 8601"),
        ({"d": 3.0}, r"'d'.*3\.0"),
        ({"d": np.datetime64("NaT", "s")}, r"'d'.*NaT"),
        ({"d": np.datetime64(1, "ns")}, r"'d'.*microsecond"),
        ({"d": np.datetime64("20000-01-01")}, r"'d'.*9999"),
        ({"key": None}, r"'key'.*never unset"),
        ({"kye": 1}, r"no attribute 'kye'.*'key'"),
        ({"s": {"a": 1}}, r"'s'"),
        (["i"], r"a query for \['i'\].*mapping"),
    ],
)
def test_what_is_refused_says_where_and_what_to_do(wanted, says):
    with pytest.raises(SchemaError, match=says):
        parse(SCHEMA, wanted, {})


def test_order_and_limit():
    assert parse(SCHEMA, None, {}) == Query()
    assert parse(SCHEMA, None, {}, "-d", np.int64(3)) == Query((), "d", True, 3)
    minus = ArraySchema([DimensionSchema("x", 2)], float, [AttributeSchema("-d", int, True)])
    assert parse(minus, None, {}, "-d") == Query((), "-d") and parse(minus, None, {}, "--d").backwards
    for order, says in [("e", "no attribute 'e'"), (3, "order=3"), ("t", "'t'.*no order"), ("-c", "'c'.*no order")]:
        with pytest.raises(SchemaError, match=says):
            parse(SCHEMA, None, {}, order)
    for limit in (-1, True, 1.0, "2"):
        with pytest.raises(SchemaError, match=r"limit=.*whole number"):
            parse(SCHEMA, None, {}, None, limit)
    with pytest.raises(SchemaError, match="two conditions for attribute 'i'"):
        parse(SCHEMA, {"i": 1}, {"i": 2})
    with pytest.raises(SchemaError, match="prefix of 3"):
        Prefix(3)


def test_the_key_is_known_when_all_of_it_is_asked_to_be_equal():
    assert parse(SCHEMA, {"key": 3, "i": 2}, {}).key(SCHEMA) == (3,)
    assert parse(SCHEMA, {"key": [3]}, {}).key(SCHEMA) is None and parse(SCHEMA, {"i": 3}, {}).key(SCHEMA) is None
    keyless = ArraySchema([DimensionSchema("x", 2)], float)
    assert parse(keyless, None, {}).key(keyless) is None


@given(st.lists(st.floats() | st.none()))
def test_ranks_of_floats_sort(values):
    rank = ranker(AttributeSchema("f", float, False))
    ranked = sorted(values, key=rank)
    known = [value for value in ranked if value is not None and value == value]
    assert known == sorted(known)
    rest = ranked[len(known) :]
    assert all(value is None or value != value for value in rest)
    assert [value is None for value in rest] == sorted(value is None for value in rest)


@given(st.text(), st.text())
def test_prefixes(text, prefix):
    assert fits(text, Prefix(prefix), "s") == text.startswith(prefix)
    assert fits(prefix + text, Prefix(prefix), "s")
