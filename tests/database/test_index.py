"""The index over a holding whose writers may die half-way; what a plain filter gives is the oracle."""

from __future__ import annotations

import shutil
import sys
import threading
import tracemalloc
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import starmap
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hyperslab.database import Client
from hyperslab.database.conditions import Query, parse
from hyperslab.database.index import AttributeIndex
from hyperslab.database.queries import hits, walk
from hyperslab.errors import StorageError
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record
from hyperslab.stores.base import Unversioned

sys.path.insert(0, str(Path(__file__).parent))
from asking import CUSTOM, SCHEMA, START, VALUES, check_order, conditions, filtered, in_key_order
from shelf import Shelf

from programs import ran

KEYLESS = ArraySchema([DimensionSchema("x", 2)], float, [AttributeSchema("run", int, False)])


def made(station: str, day: int, *, run=None, tm=None, spot=None, id: str | None = None) -> Record:
    primary = {"station": station, "dt": START + timedelta(days=day)}
    return Record(id or str(uuid.uuid4()), primary, {"run": run, "tm": tm, "spot": spot})


def many(count: int, seed: int = 0) -> list[Record]:
    """Records of ten stations, one per day."""
    chance = Random(seed)
    ids = (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count))
    return [
        made(f"S{number % 10}", number // 10, run=number, tm=chance.random(), id=id) for number, id in enumerate(ids)
    ]


def asked(index: AttributeIndex, where=None, /, order=None, limit=None, **conditions) -> list[Record]:
    return list(hits(index, parse(index.store.document.schema, where, conditions, order, limit)))


# -- against a plain filter ---------------------------------------------------------------------------------------


class TwoClients(RuleBasedStateMachine):
    """One shelf, two indexes of it; writers come, go, and die half-way."""

    @initialize()
    def begin(self) -> None:
        self.shelf = Shelf(SCHEMA)
        self.indexes = [AttributeIndex(self.shelf), AttributeIndex(self.shelf)]
        self.count = 0

    def _new_id(self) -> str:
        self.count += 1
        return str(uuid.UUID(int=Random(self.count).getrandbits(128), version=4))

    def _any(self, data) -> Record | None:
        living = sorted(self.shelf.living, key=lambda record: record.id)
        return data.draw(st.sampled_from(living)) if living else None

    @rule(
        values=st.fixed_dictionaries({"station": VALUES["station"], "dt": VALUES["dt"]}),
        rest=CUSTOM,
        dies=st.booleans(),
    )
    def create(self, values, rest, dies) -> None:
        if tuple(values.values()) not in self.shelf.keys:
            record = Record(self._new_id(), values, rest)
            self.shelf.begin(record)
            if not dies:
                self.shelf.commit(record.id)

    @rule(data=st.data())
    def finish(self, data) -> None:
        """A creation that was only slow."""
        for id, (_, record) in self.shelf.documents.items():
            if tuple(record.primary.values()) not in self.shelf.keys:
                self.shelf.commit(id)
                return

    @rule(data=st.data(), rest=CUSTOM, dies=st.booleans())
    def update(self, data, rest, dies) -> None:
        if record := self._any(data):
            self.shelf.change(Record(record.id, record.primary, rest), dies=dies)

    @rule(data=st.data(), dies=st.booleans())
    def remove(self, data, dies) -> None:
        if record := self._any(data):
            self.shelf.remove(record.id, dies=dies)

    @rule(data=st.data())
    def damage(self, data) -> None:
        """A document that cannot be read any more is out of the collection until it is mended."""
        if record := self._any(data):
            self.shelf.damaged.add(record.id)
            self.shelf._generation(record.id)

    @rule()
    def mend(self) -> None:
        for id in sorted(self.shelf.damaged):
            if id in self.shelf.documents:
                self.shelf.change(self.shelf.documents[id][1])
        self.shelf.damaged.clear()

    @rule(which=st.integers(0, 1))
    def fail(self, which) -> None:
        self.shelf.broken = True
        with pytest.raises(StorageError):
            self.indexes[which].count()
        self.shelf.broken = False

    @rule(
        which=st.integers(0, 1),
        wanted=conditions(),
        order=st.sampled_from([None, "dt", "-dt", "station", "-run", "tm", "-tm"]),
        limit=st.none() | st.integers(0, 5),
    )
    def query(self, which, wanted, order, limit) -> None:
        living = [record for record in self.shelf.living if record.id not in self.shelf.damaged]
        want = filtered(living, wanted)
        have = asked(self.indexes[which], {name: given for name, (given, _) in wanted.items()}, order, limit)
        every = asked(self.indexes[which], {name: given for name, (given, _) in wanted.items()}, order)
        assert {record.id for record in every} == {record.id for record in want}
        assert have == every[:limit] and len(every) == len(want)
        if order is None:
            assert every == want
        else:
            name = order.removeprefix("-")
            check_order([record.values[name] for record in every], order.startswith("-"))

    @rule(which=st.integers(0, 1))
    def walk(self, which) -> None:
        want = [record for record in self.shelf.living if record.id not in self.shelf.damaged]
        want.sort(key=in_key_order)
        assert list(walk(self.indexes[which])) == want
        assert [*hits(self.indexes[which], Query(backwards=True))] == want[::-1]


TestTwoClients = TwoClients.TestCase
TestTwoClients.settings = settings(settings.default, max_examples=min(settings.default.max_examples, 1000))


# -- what it costs ------------------------------------------------------------------------------------------------


def test_what_did_not_change_is_not_asked_for_again():
    shelf = Shelf(SCHEMA, letters=2)
    shelf.create(many(2000))
    index = AttributeIndex(shelf)
    assert index.count() == 2000
    assert shelf.asked == {"generations": 2, "list_part": 256, "records": 2000}  # have others come meanwhile?
    shelf.asked.clear()
    assert len(asked(index, run=(100, 199))) == 100
    assert shelf.asked == {"generations": 1, "records": 100}
    shelf.asked.clear()
    changed = shelf.living[7]
    shelf.change(Record(changed.id, changed.primary, changed.custom | {"run": -5}))
    assert [record.id for record in asked(index, run=-5)] == [changed.id]
    assert shelf.asked == {"generations": 1, "list_part": 1, "records": 2}


@pytest.mark.parametrize("many_more", [5, pytest.param(100, marks=pytest.mark.soak)])
def test_a_range_costs_the_same_among_many_times_as_many(many_more):
    counts = []
    for count in (1000, 1000 * many_more):
        shelf = Shelf(SCHEMA, letters=2)
        shelf.create(many(count))
        index = AttributeIndex(shelf)
        index.count()
        shelf.asked.clear()
        found = asked(index, dt=(START + timedelta(days=50), START + timedelta(days=59)), order="-dt")
        assert len(found) == 100
        counts.append(dict(shelf.asked))
    assert counts[0] == counts[1] == {"generations": 1, "records": 100}


def test_a_whole_key_needs_no_index():
    shelf = Shelf(SCHEMA)
    shelf.create(many(50))
    index = AttributeIndex(shelf)
    (found,) = asked(index, station="S3", dt=START)
    assert found.custom["run"] == 3
    assert asked(index, station="S3", dt=START, run=4) == [] and asked(index, station="S3", dt="1999-01-01") == []
    assert shelf.asked == {"id_of": 3, "records": 2}


def test_what_is_asked_for_is_read_and_no_more():
    shelf = Shelf(SCHEMA)
    shelf.create(many(1000))
    index = AttributeIndex(shelf)
    index.count()
    shelf.asked.clear()
    found = hits(index, Query())
    assert found and found[0].primary == {"station": "S0", "dt": START}
    assert found[:5] == found[0:5] and shelf.asked["records"] == 16
    assert len(asked(index, limit=3)) == 3 and shelf.asked["records"] == 19
    assert hits(index, Query(backwards=True, limit=1))[0].primary["station"] == "S9" and shelf.asked["records"] == 20
    assert found[-1].primary["station"] == "S9" and shelf.asked["records"] == 21
    assert len(found[-3:]) == 3 and found[-3:-1] == found[-3:][:2] and shelf.asked["records"] == 23
    assert len(found) == 1000 and shelf.asked["records"] == 1004
    assert found[-3:-1] == [*found][-3:-1] and found[::400] == [*found][::400] and shelf.asked["records"] == 1004
    with pytest.raises(IndexError):
        found[1000]


PARTS = [(first, last, step) for first in (None, 0, 2, -2, -7) for last in (None, 3, -1, -30) for step in (None, 2, -1)]


@pytest.mark.parametrize("limit", [None, 0, 5, 12, 40])
def test_found_from_either_end_it_is_the_same_list(limit):
    shelf = Shelf(SCHEMA)
    records = many(20)
    shelf.create(records)
    index = AttributeIndex(shelf)
    query = parse(SCHEMA, None, {}, None, limit)
    before = hits(index, query)
    for record in (records[0], records[7], records[19]):
        shelf.remove(record.id)
    everything = sorted(shelf.living, key=in_key_order)[: None if limit is None else limit]
    for part in starmap(slice, PARTS):
        for found in (before, hits(index, query)):
            assert found[part] == everything[part]
    for first in range(-len(everything), len(everything)):
        found = hits(index, query)
        assert (found[first], found[~first]) == (everything[first], everything[~first])
        assert list(found) == everything and len(found) == len(everything)
    for place in (len(everything), -len(everything) - 1):
        with pytest.raises(IndexError):
            hits(index, query)[place]


def test_who_was_removed_after_the_query_is_left_out():
    shelf = Shelf(SCHEMA)
    records = many(40)
    shelf.create(records)
    found = hits(AttributeIndex(shelf), parse(SCHEMA, None, {"run": (20, 39)}))
    shelf.remove(records[25].id)
    changed = records[30]
    shelf.change(Record(changed.id, changed.primary, changed.custom | {"run": 0}))
    assert [record.custom["run"] for record in found] == [
        run for run in sorted(range(20, 40), key=lambda run: in_key_order(records[run])) if run not in (25, 30)
    ]
    assert len(found) == 18


def test_without_primary_attributes_ids_are_the_order():
    shelf = Shelf(KEYLESS)
    shelf.create(Record(str(uuid.uuid4()), {}, {"run": number % 3}) for number in range(30))
    found = asked(AttributeIndex(shelf), run=[0, 2])
    assert [record.id for record in found] == sorted(record.id for record in shelf.living if record.custom["run"] != 1)


def test_a_part_without_a_stamp_of_its_own_is_listed_anew():
    class Unstamped(Shelf):
        def generations(self):
            return {part: Unversioned() for part in super().generations()}

        def listing(self, part):
            return {id: Unversioned() if stamp % 2 else stamp for id, stamp in super().listing(part).items()}

    shelf = Unstamped(SCHEMA)
    records = many(30)
    shelf.create(records)
    index = AttributeIndex(shelf)
    assert index.count() == 30
    shelf.documents[records[3].id] = (
        9**9,
        Record(records[3].id, records[3].primary, {"run": 99, "tm": 0.0, "spot": ()}),
    )
    assert len(asked(index, run=99, spot=())) == 1


@pytest.mark.parametrize("count", [1400, pytest.param(3000, marks=pytest.mark.soak)])
def test_threads_may_ask_at_once(count):
    shelf = Shelf(SCHEMA, letters=2)
    records = many(count)
    shelf.create(records[:1000])
    index = AttributeIndex(shelf)
    barrier = threading.Barrier(4)

    def ask(seed: int) -> None:
        barrier.wait()
        for record in records[1000 + seed :: 4]:
            shelf.create([record])
            assert asked(index, run=record.custom["run"]) == [record]
            assert len(asked(index, station=record.primary["station"], run=(0, 9))) == 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert index.count() == count


@pytest.mark.parametrize("count", [4_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_it_is_compact(count):
    records = many(count)
    shelf = Shelf(SCHEMA, letters=2)
    shelf.create(records)
    index = AttributeIndex(shelf)
    tracemalloc.start()
    try:
        index.count()
        asked(index, dt=(START, START), run=(0, 5), order="tm")
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < count * 400, "ids and values are those of the records, which a real holding reads anew"


LOOKS = """
import os, sys
folder = sys.argv[1]
os.environ["XDG_CACHE_HOME"] = f"{folder}/caches"
from hyperslab.database import Client

seen = set()
sys.addaudithook(lambda event, given: event == "open" and "array_data" in str(given[0]) and seen.add(given[0]))
with Client(f"{folder}/copy", mode="r") as client:
    assert len(client.get_collection("days").query(n=(3, 9))) == 7
print(len(seen))
"""


def test_who_only_reads_a_copy_in_dekers_layout_reads_its_files_once(tmp_path: Path) -> None:
    """Its index is among the caches of the user, which who only reads fills too."""
    schema = ArraySchema([DimensionSchema("x", 8)], float, [AttributeSchema("n", int, True)])
    with Client(tmp_path / "root") as client:
        days = client.create_collection("days", schema, layout="deker", index="stored")
        for n in range(30):
            days.create({"n": n})
    shutil.copytree(tmp_path / "root", tmp_path / "copy", symlinks=True)
    assert [int(ran(LOOKS, tmp_path).stdout) for _ in range(3)] == [30, 7, 7]
