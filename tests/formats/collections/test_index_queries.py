"""Queries of the database of an index: what sorting and filtering by ranks in Python gives, as it did before SQLite."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab.database.conditions import Like, Not, Prefix, Query, parse
from hyperslab.formats.collections.index_database import IndexDatabase, PartNews
from hyperslab.formats.collections.index_queries import ColumnTest
from hyperslab.formats.collections.ranks import encode_rank, ranker
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record

VALUES: dict[str, tuple[type, list[Any]]] = {
    "text": (str, ["", "a", "a\0", "ab", "é", "\U0010ffff", "\ue000"]),
    "number": (float, [math.nan, -0.0, 0.0, 1.5, -math.inf, math.inf]),
    "whole": (int, [None, 0, -1, 255, 256, -256, 2**70, -(2**70)]),
    "moment": (datetime, [None, *(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at) for at in (-1, 0, 1))]),
    "pair": (complex, [None, 1j, complex(0.0, -0.0), complex(1, math.nan)]),
    "several": (tuple, [None, (), (1, "a"), (1.0, "a")]),
    "small": (np.int8, [None, -128, 127, 0]),
    "level": (np.float32, [None, 0.5, math.nan]),
    "more": (int, [None, 1, 2]),  # the last two have no index
    "rest": (str, [None, "x", "y"]),
}
KEY = ("text", "number")
SCHEMA = ArraySchema(
    [DimensionSchema("x", 2)], float, [AttributeSchema(name, kind, name in KEY) for name, (kind, _) in VALUES.items()]
)
RANKS = {each.name: ranker(each) for each in SCHEMA.attributes}
ORDERED = [name for name in VALUES if name not in ("pair", "several")]
ROWS = st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in VALUES.items()})


PATTERNS = ["*", "a*", "?", "*b", "[!a]", "[a-z]*", "", "[", "a[", "*\0"]


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name in draw(st.sets(st.sampled_from(list(VALUES)), max_size=3)):
        values = [value for value in VALUES[name][1] if value is not None]
        one = st.sampled_from(VALUES[name][1])
        choices = [one, st.lists(one, max_size=3)]
        if VALUES[name][0] is int:
            choices.append(st.integers(-300, 300).map(lambda first: [*range(first, first + 100)]))
        if name in ORDERED:
            end = st.none() | st.sampled_from([value for value in values if value == value])
            choices.append(st.tuples(end, end))
        if name == "text":
            choices.append(one.map(Prefix) | st.sampled_from(PATTERNS).map(Like))
        wanted = draw(st.one_of(choices))
        asked[name] = Not(wanted) if draw(st.booleans()) else wanted
    return asked


@st.composite
def queries(draw: st.DrawFn) -> Query:
    asked = draw(conditions() | st.lists(conditions(), min_size=1, max_size=3))
    order = draw(st.none() | st.sampled_from([*ORDERED, *(f"-{name}" for name in ORDERED)]))
    limit = draw(st.none() | st.integers(0, 6))
    found = parse(SCHEMA, asked, {}, order, limit)
    return found if order else Query(found.alternatives, None, draw(st.booleans()), limit)


def expected(records: list[Record], query: Query) -> list[str]:
    """Sorted lists of rows, as an index in memory had them."""

    def sort_key(name: str | None) -> Any:
        names = [*([] if name is None else [name]), *KEY]
        return lambda record: (*[RANKS[each](record.values[each]) for each in names], record.id)

    rows = [record for record in records if query.holds(record)]
    rows.sort(key=sort_key(query.order))
    if query.backwards:
        known = [
            record for record in rows if query.order is None or RANKS[query.order](record.values[query.order]) < (1,)
        ]
        rows = known[::-1] + rows[len(known) :]
    return [record.id for record in rows][: query.limit]


def asked(database: IndexDatabase, query: Query) -> list[str]:
    tests = [
        {
            each.attribute.name: ColumnTest(
                [(encode_rank(span.low), encode_rank(span.high), span.closed) for span in each.spans],
                each.pattern,
                each.negated,
            )
            for each in some
        }
        for some in query.alternatives
    ]
    return database.ids(tests, query.order, backwards=query.backwards, limit=query.limit)


def record_of(number: int, values: dict[str, Any]) -> Record:
    id = str(uuid.UUID(int=(number * 2**121 * 37) % 2**128 + number))
    return Record(id, {name: values[name] for name in KEY}, {name: values[name] for name in VALUES if name not in KEY})


def tell(database: IndexDatabase, records: list[Record], stamp: int, pending: set[str] = frozenset()) -> None:
    """Have a database know these as all that there are."""
    known, parts = database.stamps(), {}
    for part in map("{:x}".format, range(16)):
        marks = {each.id: stamp for each in records if each.id.startswith(part)}
        parts[part] = PartNews(known.get(part), stamp, marks)
    rows = {each.id: database.row(each, stamp) for each in records}
    assert database.refresh(parts, rows, pending, ())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index")


@pytest.mark.parametrize("kind", ["memory", "file", "reader"])
@given(
    rows=st.lists(ROWS, max_size=12),
    others=st.lists(ROWS, max_size=4),
    asking=st.lists(queries(), min_size=1, max_size=4),
    hidden=st.integers(0, 2),
)
@settings(suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture])
def test_queries_give_what_sorted_lists_gave(
    place: Path, kind: str, rows: list[Any], others: list[Any], asking: list[Query], hidden: int
) -> None:
    path = None if kind == "memory" else str(place / "index.sqlite")
    database = IndexDatabase(SCHEMA.attributes, path)
    records = [record_of(number, values) for number, values in enumerate(rows)]
    tell(database, records, 1)
    if kind == "reader":  # some changed, some are gone, and some are new; in memory
        database.close()
        database = IndexDatabase(SCHEMA.attributes, path, writable=False)
        changed = [record_of(number + 9, values) for number, values in enumerate(others)]
        again = {each.id for each in changed}
        records = [each for each in records[2:] if each.id not in again] + changed
        tell(database, records, 2)
    pending = {each.id for each in records[:hidden]}
    if kind != "file":
        tell(database, records, 3, pending)
        records = records[hidden:]
    assert database.count() == len(records)
    for query in asking:
        assert asked(database, query) == expected(records, query)
    database.close()


def test_many_members_of_a_condition() -> None:
    database = IndexDatabase(SCHEMA.attributes)
    base = dict.fromkeys(VALUES) | {"text": "", "number": 0.0}
    records = [record_of(number, base | {"whole": number}) for number in range(300)]
    tell(database, records, 1)
    query = parse(SCHEMA, {"whole": range(100, 250), "more": [None, 1]}, {}, "-whole")
    assert asked(database, query) == expected(records, query) and len(expected(records, query)) == 150
