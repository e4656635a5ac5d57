"""The index of a collection in a bucket: as fresh as its writers publish it, and for any doubt older, never wrong.

What a full scan of the collection finds is the oracle.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from obstore.store import MemoryStore
from own_store import ids, made, opened, record, schema

import hyperslab as hs
from hyperslab.database import Client, Like
from hyperslab.database.conditions import parse
from hyperslab.database.index import AttributeIndex
from hyperslab.database.queries import hits
from hyperslab.errors import FormatError
from hyperslab.formats.collections import manifest_index, manifests
from hyperslab.formats.collections.index_database import stamp_digest
from hyperslab.formats.collections.manifest_index import ManifestIndex
from hyperslab.formats.collections.own.layout import OwnCollectionStore
from hyperslab.model.schemas import AttributeSchema, Record
from hyperslab.stores.location import Location
from servers.faults import Proxy, faulty
from servers.s3 import S3

HERE = Path(__file__).parent
NOTES = ["", "a", "ab", "b"]


def check(holding: OwnCollectionStore, index: AttributeIndex | None = None) -> None:
    """What the index finds is what a full scan does."""
    index = index or AttributeIndex(holding)
    every = {each.id: each for each in holding.records(ids(holding))}
    assert index.count() == len(every)
    assert {each.id for each in hits(index, parse(holding.document.schema, None, {}))} == set(every)
    for note in [*NOTES, None]:
        asked = parse(holding.document.schema, None, {"note": note}, "level")
        want = sorted(id for id, each in every.items() if each.custom["note"] == note)
        assert sorted(index.ids(asked)) == want


def some(count: int, first: int = 0) -> list[Record]:
    return [record(number, note=NOTES[number % 4], level=number / 2) for number in range(first, first + count)]


def index_of(holding: OwnCollectionStore) -> ManifestIndex:
    assert holding.manifests is not None
    return holding.manifests


def is_fresh(holding: OwnCollectionStore) -> bool:
    """Whoever opens the collection next lists nothing."""
    head = stored_head(holding)
    return head.stamps == {part: stamp_digest(stamp) for part, stamp in holding.generations().items()}


def stored_head(holding: OwnCollectionStore) -> manifests.Head:
    data = holding.store.get(f"{holding.keys.base}/manifests/current")
    index = index_of(holding)
    objects = index._objects
    return (
        manifests.Head(objects.form, "") if data is None else manifests.parse_head(data, objects.form, objects.defaults)
    )


def names(holding: OwnCollectionStore) -> set[str]:
    return set(holding.store.list_dir(f"{holding.keys.base}/manifests")[0])


def without_index(holding: OwnCollectionStore) -> OwnCollectionStore:
    """A writer that knows of no index, as older versions and other programs are."""
    holding.__dict__["index_database"] = None
    return holding


@pytest.fixture
def where(s3: S3) -> Location:
    place = Location.of(f"s3://{s3.bucket()}/root", s3.options)
    made(place)
    return place


@pytest.fixture
def memory() -> Location:
    """A bucket of obstore's in memory, for what takes many requests."""
    place = Location.of(MemoryStore())
    made(place)
    return place


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that few arrays reach."""
    monkeypatch.setattr(manifests, "_TAIL_ROWS", 4)
    monkeypatch.setattr(manifests, "_SPLIT_BYTES", 600)
    monkeypatch.setattr(manifest_index, "_MANY", 3)


# -- fresh --------------------------------------------------------------------------------------------------------


def test_every_change_of_a_writer_is_published(memory: Location) -> None:
    holding, records = opened(memory), some(60)
    for each in records[:20]:
        holding.create([each])
    holding.create(records[20:])
    holding.update(records[3].id, lambda now: replace(now, custom={**now.custom, "note": "b"}))
    holding.remove(records[5].id)
    holding.close()
    assert is_fresh(holding)
    check(opened(memory, writable=False))
    other = opened(memory)
    other.create(some(1, 100))
    check(holding)
    check(other)
    holding.clear()
    holding.close()
    other.close()
    assert is_fresh(other)
    check(other)


def test_a_cold_query_takes_few_requests(where: Location) -> None:
    holding = opened(where)
    holding.create(some(300))
    for each in some(20, 300):
        holding.create([each])
    holding.close()
    for writable in (False, True):
        with hs.trace() as cost:
            index = AttributeIndex(opened(where, writable=writable))
            assert len(index.ids(parse(schema(), None, {"level": (10, 20)}))) == 21
        assert cost.requests <= 8
        with hs.trace() as cost:
            assert index.count() == 320
        assert cost.requests <= 2


def test_what_changed_is_listed_by_requests_at_once(where: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each listing waits until the other one is under way."""
    holding = opened(where)
    holding.create(some(3))
    expected = holding.generations(), holding.unsettled_ids()
    meeting = threading.Barrier(2, timeout=60)

    def together(listing: Callable[[], Any]) -> Any:
        meeting.wait()
        return listing()

    for name in ("generations", "unsettled_ids"):
        monkeypatch.setattr(holding, name, partial(together, getattr(holding, name)))
    generations, unsettled = holding.list_changes()
    assert (generations, set(unsettled)) == expected


def test_a_create_takes_few_requests_more(where: Location) -> None:
    counts = []
    for holding in (opened(where), without_index(opened(where))):
        with hs.trace() as cost:
            for number, each in enumerate(some(40, 1000 * len(counts))):
                holding.create([replace(each, primary={**each.primary, "station": f"S{number}"})])
            holding.close()
        counts.append(cost.requests)
    assert counts[0] <= counts[1] + 40 * 0.3


def test_without_keys_documents_are_the_commit(s3: S3) -> None:
    place = Location.of(f"s3://{s3.bucket()}/root", s3.options)
    holding = made(place, schema(attributes=schema().attributes[2:], dimensions=schema().dimensions[1:]))
    for number in range(30):
        holding.create([Record(record(0).id, {}, {"note": NOTES[number % 4], "level": None})])
    holding.close()
    check(opened(place, writable=False))
    assert AttributeIndex(opened(place, writable=False)).count() == 30


def test_writers_of_one_part_are_put_in_order(where: Location) -> None:
    """Each publishes what it did, the later one first; the changes of a part follow one another all the same."""
    first, second = opened(where), opened(where)
    id = f"ab{record(0).id[2:]}"
    first.create([record(0, id=id, note="a")])
    second.update(id, lambda now: replace(now, custom={**now.custom, "note": "b"}))
    second.create([record(1, id=f"ab{record(0).id[2:]}", note="ab")])
    second.close()
    assert stored_head(second).waiting and not stored_head(second).stamps
    first.close()
    assert is_fresh(first) and not stored_head(first).waiting
    reader = opened(where, writable=False)
    with hs.trace() as cost:
        assert AttributeIndex(reader).ids(parse(schema(), None, {"note": "b"})) == [id]
    assert cost.requests <= 6
    check(reader)


def test_what_a_looker_finds_it_publishes(where: Location) -> None:
    without_index(opened(where)).create(some(50))
    reader = opened(where, writable=False)
    check(reader)
    reader.close()
    assert not names(reader)
    looker = opened(where)
    check(looker)
    looker.close()
    assert is_fresh(looker)


def test_what_is_published_already_is_passed_over(memory: Location) -> None:
    without_index(opened(memory)).create(some(1))
    holding = opened(memory)
    index = AttributeIndex(holding)
    check(holding, index)
    holding.create(some(1, 10))
    for _ in range(2):
        index_of(holding).publish()
    assert index_of(holding)._loaded(index_of(holding)._open())[1] == stored_head(holding).number == 1
    holding.clear()
    check(holding, index)
    holding.create(some(3, 20))
    check(holding, index)
    holding.close()
    check(opened(memory, writable=False))


def test_a_looker_loads_what_was_published_since(where: Location) -> None:
    writer, reader = opened(where), opened(where, writable=False)
    writer.create(some(50))
    index = AttributeIndex(reader)
    check(reader, index)
    writer.create(some(40, 100))
    index_of(writer).publish()
    with hs.trace() as cost:
        assert index.count() == 90
    assert cost.requests <= 7
    check(reader, index)


@pytest.mark.usefixtures("small")
def test_runs_are_merged_and_old_manifests_go(memory: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = opened(memory), opened(memory, writable=False)
    index = AttributeIndex(reader)
    records = some(90)
    for at in range(0, 60, 2):
        writer.create(records[at : at + 2])
        if at % 9 == 0:
            check(reader, index)
    for each in records[:55]:
        writer.remove(each.id)
    check(reader, index)
    head = stored_head(writer)
    assert len(head.runs) <= 4 and head.retired and head.names < names(writer)
    check(opened(memory, writable=False))
    monkeypatch.setattr(manifests, "RETIRED_SECONDS", -1.0)
    writer.create(records[60:])
    writer.close()
    head = stored_head(writer)
    assert names(writer) == {"current", *head.names, *(name for name, _ in head.retired)}
    check(reader, index)
    writer.clear()
    writer.close()
    check(reader, index)
    check(opened(memory, writable=False))


@pytest.mark.usefixtures("small")
def test_a_reader_of_an_old_head_finds_the_new_one(memory: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = opened(memory), opened(memory, writable=False)
    writer.create(some(40))
    writer.close()
    index_of(reader)._objects.read_head()  # and before it loads the manifests, these are gone
    monkeypatch.setattr(manifests, "RETIRED_SECONDS", -1.0)
    for each in some(60, 100):
        writer.create([each])
    writer.close()
    assert not stored_head(reader).names & index_of(reader)._objects.head.names
    monkeypatch.setattr(index_of(reader)._objects, "is_read", True)
    check(reader)


def test_runs_are_not_cut_into_more_and_more_manifests(memory: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_TAIL_ROWS", 4)
    writer = opened(memory)
    for number in range(20):
        writer.create(some(10, 10 * number))
        index_of(writer).publish()
    head = stored_head(writer)
    assert sum(run.rows for run in head.runs) == 200 and all(len(run.manifests) == 1 for run in head.runs)
    monkeypatch.setattr(manifests, "_SPLIT_BYTES", 2000)
    writer.create(some(100, 1000))
    writer.close()
    assert 10 < sum(len(run.manifests) for run in stored_head(writer).runs) < 40
    check(opened(memory, writable=False))


@pytest.mark.parametrize("left", [0, 1])
def test_who_knows_what_is_gone_now(memory: Location, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """The first run tells nothing of what is gone, and there is none where nothing is left."""
    monkeypatch.setattr(manifests, "_TAIL_ROWS", 4)
    writer, records = opened(memory), some(20)
    writer.create(records)
    index_of(writer).publish()
    reader = opened(memory, writable=False)
    index = AttributeIndex(reader)
    check(reader, index)
    for each in records[left:]:
        writer.remove(each.id)
    writer.close()
    head = stored_head(writer)
    assert [run.rows for run in head.runs] == [1] * left and not head.tail
    check(reader, index)
    check(opened(memory, writable=False))


# -- random writers -----------------------------------------------------------------------------------------------


class Writers(RuleBasedStateMachine):
    """Two writers with an index, one without, and a reader; each looks when it likes, and publishes when it likes."""

    @initialize()
    def begin(self) -> None:
        place = Location.of(MemoryStore())
        made(place)
        self.place = place
        self.writers = [opened(place), opened(place), without_index(opened(place))]
        self.lookers = [*self.writers[:2], opened(place, writable=False)]
        self.indexes = [AttributeIndex(each) for each in self.lookers]
        self.count = 0

    def _one(self, data: Any) -> str | None:
        known = sorted(ids(self.writers[2]))
        return data.draw(st.sampled_from(known)) if known else None

    @rule(which=st.integers(0, 2), many=st.integers(1, 3), note=st.sampled_from(NOTES))
    def create(self, which: int, many: int, note: str) -> None:
        # Few parts, so that writers meet in them.
        new = [f"{random.choice('ab')}0{record(0).id[2:]}" for _ in range(many)]
        self.writers[which].create([record(self.count + at, id=id, note=note) for at, id in enumerate(new)])
        self.count += many

    @rule(which=st.integers(0, 2), note=st.sampled_from(NOTES), data=st.data())
    def update(self, which: int, note: str, data: Any) -> None:
        if id := self._one(data):
            self.writers[which].update(id, lambda now: replace(now, custom={**now.custom, "note": note}))

    @rule(which=st.integers(0, 2), data=st.data())
    def remove(self, which: int, data: Any) -> None:
        if id := self._one(data):
            self.writers[which].remove(id)

    @rule(which=st.integers(0, 2))
    def clear(self, which: int) -> None:
        self.writers[which].clear()

    @rule(which=st.integers(0, 1))
    def publish(self, which: int) -> None:
        index_of(self.writers[which]).publish()

    @rule(which=st.integers(0, 1))
    def die(self, which: int) -> None:
        """A writer comes in its place that knows nothing of what it did not publish."""
        self.writers[which] = self.lookers[which] = opened(self.place)
        self.indexes[which] = AttributeIndex(self.lookers[which])

    @rule(which=st.integers(0, 2))
    def look(self, which: int) -> None:
        check(self.lookers[which], self.indexes[which])

    @rule(which=st.integers(0, 2))
    def look_anew(self, which: int) -> None:
        self.lookers[which].close()
        self.indexes[which] = AttributeIndex(self.lookers[which])
        check(self.lookers[which], self.indexes[which])

    @rule(which=st.integers(0, 7))
    def lose(self, which: int) -> None:
        """Lose the head, or a manifest, of which there may be more or fewer: writers publish by the clock."""
        if there := sorted(names(self.writers[2]), reverse=True):
            self.writers[2].store.delete(f"{self.writers[2].keys.base}/manifests/{there[which % len(there)]}")

    def teardown(self) -> None:
        if hasattr(self, "lookers"):
            check(self.lookers[0], self.indexes[0])
            last = opened(self.place)
            check(last)
            last.close()
            reader = opened(self.place, writable=False)
            check(reader)
            assert is_fresh(reader)


@pytest.mark.usefixtures("small")
class TestWriters(Writers.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        settings.default,
        max_examples=min(settings.default.max_examples, 300),
        stateful_step_count=40,
        suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.too_slow],
    )


def life(place: Location, mine: int, turns: int, lookers: list[AttributeIndex]) -> set[str]:
    """Create, change and remove at random, and look at each turn for what is one's own; return what is left."""
    chance, holding, left = random.Random(mine), opened(place), dict[str, str]()
    index = AttributeIndex(holding)
    for turn in range(turns):
        match chance.choice(["create", "create", "many", "update", "remove"]):
            case "update" if left:
                id, note = chance.choice(sorted(left)), chance.choice(NOTES)
                holding.update(id, lambda now, note=note: replace(now, custom={**now.custom, "note": note}))
                left[id] = note
            case "remove" if left:
                holding.remove(id := chance.choice(sorted(left)))
                del left[id]
            case what:
                new = [f"{chance.choice('abc')}0{record(0).id[2:]}" for _ in range(3 if what == "many" else 1)]
                note = chance.choice(NOTES)
                holding.create([record(10 * turn + at, f"W{mine}", id=id, note=note) for at, id in enumerate(new)])
                left.update(dict.fromkeys(new, note))
        for looker in [index, *lookers][:: 1 if turn % 3 == 0 else 2]:
            wanted = parse(schema(), None, {"station": f"W{mine}"}, None)
            assert set(looker.ids(wanted)) == left.keys()
            note = chance.choice(NOTES)
            found = looker.ids(parse(schema(), None, {"station": f"W{mine}", "note": note}, None))
            assert set(found) == {id for id, each in left.items() if each == note}
    holding.close()
    return set(left)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("turns", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_threads_of_two_clients_and_a_reader(where: Location, turns: int) -> None:
    reader, second = AttributeIndex(opened(where, writable=False)), AttributeIndex(opened(where))
    with ThreadPoolExecutor(4) as pool:
        left = set().union(*pool.map(lambda mine: life(where, mine, turns, [reader, second]), range(4)))
    assert ids(opened(where)) == left
    check(reader.store, reader)
    check(second.store, second)
    second.store.close()
    check(opened(where, writable=False))


# -- requests that fail -------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(s3: S3) -> Iterator[Proxy]:
    with faulty(s3.endpoint) as proxy:
        yield proxy


def through(proxy: Proxy, s3: S3, url: str) -> Location:
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=20), "base": 2}
    retries = {"max_retries": 10, "retry_timeout": timedelta(seconds=60), "backoff": backoff}
    return Location.of(url, {**s3.options, "endpoint": proxy.url, "retry_config": retries})


@pytest.mark.usefixtures("small")
def test_a_quarter_of_all_requests_fails(s3: S3, proxy: Proxy) -> None:
    url = f"s3://{s3.bucket()}/root"
    made(Location.of(url, s3.options))
    chance = random.Random(5)
    proxy.choose = lambda method, path: "503" if chance.random() < 0.25 else None
    place = through(proxy, s3, url)
    with ThreadPoolExecutor(2) as pool:
        left = set().union(*pool.map(lambda mine: life(place, mine, 10, []), range(2)))
    proxy.choose = lambda method, path: None
    assert ids(opened(place)) == left
    check(opened(place, writable=False))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fault", ["lost", "reset", "503", "403"])
def test_swaps_of_the_head_fail(s3: S3, proxy: Proxy, fault: str) -> None:
    """Also those that are made, and whose answer is lost: what is published by one is not published twice."""
    url = f"s3://{s3.bucket()}/root"
    made(Location.of(url, s3.options))
    place, turns = through(proxy, s3, url), iter(range(10**6))
    proxy.choose = lambda method, path: (
        fault if method == "PUT" and "manifests/" in path and next(turns) % 2 == 0 else None
    )
    holding = opened(place)
    index = AttributeIndex(holding)
    for each in some(9):
        holding.create([each])
    check(holding, index)
    holding.remove(sorted(ids(holding))[0])
    holding.close()
    proxy.choose = lambda method, path: None
    check(opened(place, writable=False))
    last = opened(place)
    check(last)
    last.close()
    assert is_fresh(last)


# -- damaged, foreign, killed -------------------------------------------------------------------------------------


def _bomb(begin: bytes, size: int) -> bytes:
    return begin + zlib.compress(bytes(size))


HEADS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[: len(data) // 2],
    "blank": lambda data: bytes(len(data)),
    "text": lambda data: b"no head" * 999,
    "bomb": lambda data: _bomb(b"hyperslab-index 1\n", manifests.HEAD_BYTES + 1),
    "long": lambda data: random.Random(1).randbytes(5 << 20),
    "newer": lambda data: data.replace(b"index 1", b"index 2", 1),
    "other": lambda data: b"hyperslab-index 1\n" + zlib.compress(msgspec.msgpack.encode({"form": 1})),
}


@pytest.mark.parametrize("damage", HEADS)
@pytest.mark.parametrize("writable", [False, True])
def test_a_damaged_head_is_left_out_and_made_anew(where: Location, damage: str, writable: bool) -> None:
    first = opened(where)
    first.create(some(40))
    first.close()
    key = f"{first.keys.base}/manifests/current"
    bad = HEADS[damage](first.store.get(key) or b"")
    first.store.put(key, bad)
    holding = opened(where, writable=writable)
    check(holding)
    if writable:
        holding.create(some(5, 1000))
        holding.close()
        assert is_fresh(holding)
        check(opened(where, writable=False))
    else:
        holding.close()
        assert holding.store.get(key) == bad


MANIFESTS: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "short": lambda data: data[: len(data) // 2],
    "bomb": lambda data: _bomb(b"hyperslab-manifest 1\n", manifests.MANIFEST_BYTES + 1),
    "foreign": lambda data: b"\x89PNG" + data[4:],
    "other": lambda data: (
        b"hyperslab-manifest 1\n" + zlib.compress(msgspec.msgpack.encode([["x"], [], [], [], [], []]))
    ),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", MANIFESTS)
@pytest.mark.parametrize("writable", [False, True])
def test_a_damaged_manifest_is_left_out_and_made_anew(memory: Location, damage: str, writable: bool) -> None:
    first = opened(memory)
    first.create(some(40))
    first.close()
    for ref in [ref for run in stored_head(first).runs for ref in run.manifests][:2]:
        key = f"{first.keys.base}/manifests/{ref.name}"
        bad = MANIFESTS[damage](first.store.get(key) or b"")
        first.store.delete(key) if bad is None else first.store.put(key, bad)
    holding = opened(memory, writable=writable)
    index = AttributeIndex(holding)
    check(holding, index)
    holding.close()
    if writable:
        for each in some(10, 1000):
            holding.create([each])
        check(holding, index)
        holding.close()
        assert is_fresh(holding)
        check(opened(memory, writable=False))


@pytest.mark.usefixtures("small")
def test_a_writer_that_only_writes_gives_up_a_damaged_index(memory: Location) -> None:
    first = opened(memory)
    first.create(some(40))
    first.close()
    for name in stored_head(first).names:
        first.store.delete(f"{first.keys.base}/manifests/{name}")
    writer = opened(memory)
    writer.create(some(30, 100))
    writer.close()
    check(opened(memory, writable=False))
    looker = opened(memory)
    check(looker)
    looker.close()
    assert is_fresh(looker)


def test_rows_that_nobody_could_have_stored_end_no_query(where: Location) -> None:
    holding = opened(where)
    holding.create(some(20))
    holding.close()
    head = stored_head(holding)
    rows = head.tail[0][1]
    head.tail[0] = (head.tail[0][0], msgspec.structs.replace(rows, columns=[[b"\x01\xff\xff"] * len(rows.ids)] * 4))
    holding.store.put(f"{holding.keys.base}/manifests/current", manifests.encode_head(head))

    reader = opened(where, writable=False)
    index = AttributeIndex(reader)
    found = hits(index, parse(schema(), None, {"note": Like("*a*")}))
    assert {each.custom["note"] for each in found} == {"a", "ab"}


@pytest.mark.parametrize(
    "change",
    [
        {"marks": [1 << 63]},
        {"ids": ["../../etc"]},
        {"columns": [[b""]]},
        {"columns": [[b"", b""], [b""], [b""], [b""]]},
        {"gone": ["x"]},
    ],
)
def test_rows_are_checked_before_they_are_taken(change: dict[str, Any]) -> None:
    rows: dict[str, Any] = {"ids": [record(0).id], "marks": [1], "columns": [[b""]] * 4}
    rows = {**rows, "pending": [], "gone": [], "settled": [], **change}
    data = b"hyperslab-manifest 1\n" + zlib.compress(msgspec.msgpack.encode(list(rows.values())))
    with pytest.raises(FormatError):
        manifests.parse_manifest(data, [None] * 4)


KILLED = """
import json, os, signal, sys
sys.path[:0] = sys.argv[1], sys.argv[1] + "/../.."
from test_manifest_index import manifest_index, manifests, opened, some
from hyperslab.stores.location import Location
from hyperslab.stores.object import ObjectStore

manifests._TAIL_ROWS, manifest_index._MANY = 4, 3
place, left = Location.of(sys.argv[2], json.loads(sys.argv[3])), [int(sys.argv[4])]
put = ObjectStore._put

def counted(self, key, value, mode):
    if "/manifests/" in key:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    return put(self, key, value, mode)

ObjectStore._put = counted
holding = opened(place)
for each in some(20, 100):
    holding.create([each])
holding.close()
"""


@pytest.mark.parametrize("number", [1, 2, 3, 4, pytest.param(6, marks=pytest.mark.soak)])
def test_a_writer_is_killed_before_it_stores_a_manifest_or_the_head(s3: S3, number: int) -> None:
    url = f"s3://{s3.bucket()}/root"
    place = Location.of(url, s3.options)
    made(place).create(some(20))
    command = [sys.executable, "-c", KILLED, str(HERE), url, json.dumps(s3.options), str(number)]
    assert subprocess.run(command, check=False).returncode == -9
    check(opened(place, writable=False))
    holding = opened(place)
    check(holding)
    holding.close()
    assert is_fresh(holding)
    orphans = names(holding) - stored_head(holding).names - {"current"}
    orphans -= {name for name, _ in stored_head(holding).retired}
    assert not hs.check(url, storage_options=s3.options)  # they may be those of one who is at work
    for name in orphans:
        data = holding.store.get(f"{holding.keys.base}/manifests/{name}") or b""
        holding.store.put(f"{holding.keys.base}/manifests/{0:012x}{name[12:]}", data)
    found = hs.check(url, storage_options=s3.options)
    assert [each.kind for each in found] == ["leftover"] * len(orphans)
    hs.repair(url, dry_run=False, storage_options=s3.options)
    assert not hs.check(url, storage_options=s3.options)
    check(opened(place, writable=False))


def test_what_was_removed_is_not_stored_again(where: Location) -> None:
    holding, other = opened(where), opened(where)
    holding.create(some(10))
    other.create(some(10, 100))
    holding.drop()
    other.close()
    holding.close()
    assert not list(other.store.list())
    again = made(where)
    check(again)
    again.create(some(3))
    again.close()
    check(opened(where, writable=False))


def test_a_copy_is_not_believed(where: Location, s3: S3) -> None:
    """Its ETags are those of the original, and it may be of two moments."""
    holding = opened(where)
    holding.create(some(30))
    holding.close()
    late = record(100, note="a", id=next(iter(ids(holding))).replace("-4", "-5", 1))
    copy = Location.of(where.url.replace("root", "copy"), s3.options)
    target, keys = copy.store(read_only=False), sorted(holding.store.list())
    for key in keys:
        target.put(key, holding.store.get(key) or b"")
    holding.create([late])
    for key in set(holding.store.list()).difference(keys):
        target.put(key, holding.store.get(key) or b"")
    check(opened(copy, writable=False))
    assert [each.kind for each in hs.check(copy.url, storage_options=s3.options)] == ["unusable-index"]
    writer = opened(copy)
    check(writer)
    writer.close()
    assert is_fresh(opened(copy)) and not hs.check(copy.url, storage_options=s3.options)


def test_who_changes_a_copy_lists_it_when_it_closes(where: Location, s3: S3) -> None:
    """Who may only read, and would list all in each process, has an index from then on."""
    holding = opened(where)
    holding.create(some(60))
    holding.close()
    copy = Location.of(where.url.replace("root", "copy"), s3.options)
    hs.copy(where.url, copy.url, storage_options=s3.options)
    key = f"{holding.keys.base}/manifests/current"
    with Client(copy.url, storage_options=s3.options) as client:
        list(client.get_collection("weather").schema.attributes)
    assert opened(copy).store.get(key) == holding.store.get(key)  # who changed nothing leaves it alone
    with Client(copy.url, storage_options=s3.options) as client:
        late = {"dt": datetime(2051, 1, 1, tzinfo=UTC), "station": "Z"}
        client.get_collection("weather").create(late)
    assert is_fresh(opened(copy))
    check(opened(copy, writable=False))
    with hs.trace() as cost:
        assert AttributeIndex(opened(copy, writable=False)).count() == 61
    assert cost.requests <= 8


def test_a_writer_that_leaves_nothing_behind_closes_as_fast_as_ever(where: Location, s3: S3) -> None:
    with Client(where.url, storage_options=s3.options) as client:
        client.get_collection("weather").create({"dt": datetime(2050, 1, 1, tzinfo=UTC), "station": "Z"})
        with hs.trace() as cost:
            client.close()
    assert cost.requests <= 3  # the head is looked at, that the collection is there, and the new head


def test_attributes_are_added(where: Location) -> None:
    """The rows that are there have the default of a new one; who knows the old schema alone publishes nothing."""
    holding, other = opened(where), opened(where)
    holding.create(some(200))
    other.create(some(1, 500))
    new = AttributeSchema("quality", int, False, 7)
    holding.add_attribute(new)
    other.close()
    now = opened(where)
    with hs.trace() as cost:
        index = AttributeIndex(opened(where, writable=False))
        assert len(index.ids(parse(now.document.schema, None, {"quality": 7}))) == 201
    assert cost.requests < 12
    now.create([Record(each.id, each.primary, {**each.custom, "quality": 8}) for each in some(200, 1000)])
    now.update(sorted(ids(now))[0], lambda one: replace(one, custom={**one.custom, "quality": 9}))
    now.close()
    reader = opened(where, writable=False)
    index = AttributeIndex(reader)
    counts = [len(index.ids(parse(now.document.schema, None, {"quality": value}))) for value in (7, 8, 9)]
    assert sum(counts) == 401 and counts[2] == 1 and counts[0] in (200, 201)
    check(reader, index)
    assert AttributeIndex(reader).state().stale == 1  # the part of what the other one made


def test_attributes_are_renamed_and_removed(where: Location) -> None:
    """The index stays as it is, for who has the old schema as well."""
    holding, other = opened(where), opened(where)
    holding.create(some(200))
    holding.close()
    holding.rename_attribute("note", "remark")
    opened(where).remove_attribute("level")
    with hs.trace() as cost:
        now = opened(where, writable=False)
        index = AttributeIndex(now)
        assert len(index.ids(parse(now.document.schema, None, {"remark": "ab"}))) == 50
        assert len(AttributeIndex(other).ids(parse(other.document.schema, None, {"note": "ab"}))) == 50
    assert cost.requests < 20
    id = sorted(ids(other))[0]
    other.update(id, lambda one: replace(one, custom={**one.custom, "note": "late"}))
    other.close()
    assert is_fresh(opened(where))
    now = opened(where, writable=False)
    assert AttributeIndex(now).ids(parse(now.document.schema, None, {"remark": "late"})) == [id]


def test_made_anew(where: Location) -> None:
    holding = opened(where)
    holding.create(some(30))
    holding.close()
    before = stored_head(holding)
    holding.store.put(f"{holding.keys.base}/manifests/{0:012x}-{0:032x}", b"")
    index = AttributeIndex(opened(where))
    assert index.make() == 30
    after = stored_head(holding)
    assert after.epoch != before.epoch and is_fresh(holding)
    assert f"{0:012x}-{0:032x}" not in names(holding)
    check(opened(where, writable=False))


def test_in_memory_nothing_is_stored(s3: S3) -> None:
    with Client(f"s3://{s3.bucket()}/root", storage_options=s3.options) as client:
        for kind in ("memory", "stored"):
            collection = client.create_collection(kind, schema(), index=kind)
            collection.create({"dt": "2023-01-01", "station": "A"})
            assert len(collection) == 1
        sizes = [client.calculate_storage_size(kind).bytes for kind in ("memory", "stored")]
    with Client(client.url, storage_options=s3.options) as client:
        store = client.get_collection("stored")._collection.store
        assert not list(store.store.list("collections/memory/manifests"))
        assert list(store.store.list("collections/stored/manifests")) == ["collections/stored/manifests/current"]
        assert client.calculate_storage_size("stored").bytes == sizes[1] == sizes[0] - len('"memory"') + len('"stored"')


def test_a_publication_that_takes_long_keeps_no_other_writer(where: Location) -> None:
    holding = opened(where)
    index = index_of(holding)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        assert index._head_lock.acquire()
        try:
            pool.submit(lambda: [holding.create([each]) for each in some(70)]).result(60)
        finally:
            index._head_lock.release()
    assert time.monotonic() - began < 60
    holding.close()
    assert is_fresh(holding)
