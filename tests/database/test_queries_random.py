"""Two clients of one store, random changes by both, random queries: what a plain filter gives; in both layouts."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab.database import Client, Collection
from hyperslab.errors import AlreadyExists
from hyperslab.model.schemas import Record

sys.path.insert(0, str(Path(__file__).parent))
from asking import CUSTOM, SCHEMA, VALUES, check_order, conditions, filtered

KEYS = st.fixed_dictionaries({"station": VALUES["station"], "dt": VALUES["dt"]})
CHANGES = st.one_of(
    st.tuples(st.just("create"), st.lists(st.tuples(KEYS, CUSTOM), min_size=1, max_size=4)),
    st.tuples(st.just("update"), CUSTOM),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("clear"), st.integers(0, 9)),
)
ORDERS = st.sampled_from([None, "dt", "-dt", "station", "-run", "tm", "-tm"])
STEPS = st.tuples(st.integers(0, 1), CHANGES, st.integers(0, 1), conditions(), ORDERS)


def change(collection: Collection, known: dict[str, Record], what: str, given: object, chance: Random) -> None:
    """Change a collection, and what is known of it."""
    some = chance.choice(sorted(known)) if known else None
    match what, given:
        case "create", list():
            try:
                made = collection.create_many(given)
            except AlreadyExists:
                keys = [(key["station"], key["dt"]) for key, _ in given]
                taken = {tuple(record.primary.values()) for record in known.values()}
                assert len(set(keys)) < len(keys) or taken & set(keys)
                return
            for array in made:
                known[array.id] = Record(array.id, array.primary_attributes, array.custom_attributes)
        case "update", dict() if some:
            collection[some].update_custom_attributes(given)
            known[some] = Record(some, known[some].primary, known[some].custom | given)
        case "delete", _ if some:
            collection[some].delete()
            del known[some]
        case "clear", 0:
            collection.clear()
            known.clear()


@given(st.lists(STEPS, min_size=6, max_size=12), st.integers(0, 99))
@settings(
    max_examples=min(max(1, settings.default.max_examples // 16), 200),
    suppress_health_check=[HealthCheck.function_scoped_fixture, *settings.default.suppress_health_check],
)
def test_random_changes_and_queries(tmp_path_factory, layout, steps, seed):
    folder, chance = tmp_path_factory.mktemp("random"), Random(seed)
    with Client(f"file://{folder}", durable=False) as one, Client(f"file://{folder}", durable=False) as two:
        both = [one.create_collection("records", SCHEMA, layout=layout), two.get_collection("records")]
        known: dict[str, Record] = {}
        for writer, (what, given), reader, wanted, order in steps:
            change(both[writer], known, what, given, chance)
            asked = {name: sought for name, (sought, _) in wanted.items()}
            want = [record.id for record in filtered(list(known.values()), wanted)]
            have = list(both[reader].query(asked, order=order))
            if order is None:
                assert [array.id for array in have] == want
            else:
                name = order.removeprefix("-")
                assert {array.id for array in have} == set(want)
                check_order([known[array.id].values[name] for array in have], order.startswith("-"))
            assert len(both[reader]) == len(known)
