"""Random records of a small world, random queries of them, and a plain filter that says what they mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from hyperslab.database.conditions import Prefix
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record

START = datetime(2023, 1, 1, tzinfo=UTC)
KINDS = {"station": str, "dt": datetime, "run": int, "tm": float, "spot": tuple}
SCHEMA = ArraySchema(
    [DimensionSchema("x", 2)],
    float,
    [AttributeSchema(name, kind, name in ("station", "dt")) for name, kind in KINDS.items()],
)
STATIONS = ["A", "Aa", "B", "é", "\U0010ffff"]
TMS = [None, float("nan"), -0.0, 0.0, 1.5, float("inf")]
RUNS = [None, -1, 0, 2**70]
SPOTS = [None, (), (1, "a"), (1.0, "a")]
VALUES = {
    "station": st.sampled_from(STATIONS),
    "dt": st.integers(0, 4).map(lambda day: START + timedelta(days=day)),
    "run": st.sampled_from(RUNS),
    "tm": st.sampled_from(TMS),
    "spot": st.sampled_from(SPOTS),
}
CUSTOM = st.fixed_dictionaries({name: VALUES[name] for name in ("run", "tm", "spot")})


def same(value: Any, wanted: Any) -> bool:
    """Equality as the database means it: NaN is NaN, a tuple has the types of another."""
    if value is None or wanted is None:
        return value is wanted
    if isinstance(value, tuple):
        return repr(value) == repr(wanted)
    return value == wanted or (value != value and wanted != wanted)


Fits = Callable[[Any], bool]


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, tuple[Any, Fits]]:
    """By name what is asked and a plain function of a value that says the same."""
    asked = {}
    for name in sorted(draw(st.sets(st.sampled_from(sorted(KINDS))))):
        value = VALUES[name].filter(lambda each, name=name: each is not None or name not in ("station", "dt"))
        choices = [value.map(lambda each: (each, lambda other: same(other, each)))]
        members = st.lists(value, max_size=3)
        choices.append(members.map(lambda each: (each, lambda other: any(same(other, one) for one in each))))
        if name != "spot":
            end = VALUES[name].filter(lambda each: each is None or each == each) | st.none()
            choices.append(st.tuples(end, end).map(lambda ends: (ends, lambda other: between(other, *ends))))
        if name == "station":
            start = st.sampled_from(["", "A", "\U0010ffff"])
            choices.append(start.map(lambda each: (Prefix(each), lambda other: other.startswith(each))))
        asked[name] = draw(st.one_of(choices))
    return asked


def between(value: Any, low: Any, high: Any) -> bool:
    """Within a range, both ends included; what is unset or NaN never is."""
    known = value is not None and value == value
    return known and (low is None or low <= value) and (high is None or value <= high)


def in_key_order(record: Record) -> tuple[str, datetime]:
    """What a collection is sorted by."""
    return record.primary["station"], record.primary["dt"]


def filtered(records: list[Record], wanted: dict[str, tuple[Any, Fits]]) -> list[Record]:
    """Those that fulfil all conditions, in the order of their keys."""
    found = [record for record in records if all(fits(record.values[name]) for name, (_, fits) in wanted.items())]
    return sorted(found, key=in_key_order)


def check_order(values: list[Any], backwards: bool) -> None:
    """Values that an order gave: the known ones sorted, then NaN and those that are unset."""
    known = [value for value in values if value is not None and value == value]
    assert known == sorted(known, reverse=backwards)
    assert values[: len(known)] == known, "what has no value comes last"
