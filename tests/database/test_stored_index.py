"""An index that is kept in the collection: read instead of documents, and passed over for any doubt."""

from __future__ import annotations

import json
import sys
import uuid
import zlib
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab.database.conditions import Query, parse
from hyperslab.database.index import AttributeIndex
from hyperslab.database.queries import hits
from hyperslab.errors import ReadOnly
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, Record

sys.path.insert(0, str(Path(__file__).parent))
from shelf import Shelf

KINDS = {"i": int, "f": float, "c": complex, "s": str, "t": tuple, "d": datetime}
SCHEMA = ArraySchema(
    [DimensionSchema("x", 2)],
    float,
    [AttributeSchema("key", int, True), *(AttributeSchema(name, kind, False) for name, kind in KINDS.items())],
)
COUNT = 300
VALUES = {
    "i": [None, -1, 2**70],
    "f": [None, float("nan"), float("inf"), 0.1],
    "c": [None, 1j, complex(0.1, float("nan"))],
    "s": [None, "é\0", ""],
    "t": [None, (), (1, ("a", 1.5))],
    "d": [None, datetime(2023, 1, 1, 0, 0, 0, 5, UTC)],
}


class Keeping(Shelf):
    """A shelf with a place for an index."""

    stored: bytes | None = None
    stores_index = True
    is_read_only = False
    kept = 0

    def read_index(self) -> bytes | None:
        return self.stored

    def write_index(self, data: bytes) -> None:
        if self.is_read_only:
            raise ReadOnly("it takes no writes")
        self.kept += 1
        self.stored = data


def record(number: int) -> Record:
    custom = {name: each[number % len(each)] for name, each in VALUES.items()}
    return Record(str(uuid.UUID(int=(number % 256 << 120) + number)), {"key": number}, custom)


@pytest.fixture
def shelf() -> Keeping:
    shelf = Keeping(SCHEMA, letters=2)
    shelf.create(map(record, range(COUNT)))
    return shelf


def everything(shelf: Shelf) -> list[str]:
    return [found.id for found in hits(AttributeIndex(shelf), Query(order="s"))]


def test_whoever_opens_next_reads_no_documents(shelf):
    AttributeIndex(shelf).count()
    assert shelf.kept == 1
    shelf.asked.clear()
    index = AttributeIndex(shelf)
    assert index.count() == COUNT and shelf.asked == {"generations": 1}
    for name, values in VALUES.items():
        for value in values:
            want = [number for number in range(COUNT) if record(number).custom[name] is value]
            assert [found.primary["key"] for found in hits(index, parse(SCHEMA, {name: value}, {}))] == want
    changed = record(7)
    shelf.change(Record(changed.id, changed.primary, changed.custom | {"i": 99}))
    shelf.asked.clear()
    assert [found.id for found in hits(AttributeIndex(shelf), parse(SCHEMA, None, {"i": 99}))] == [changed.id]
    assert shelf.asked == {"generations": 1, "list_part": 1, "records": 2}


def test_it_is_stored_again_when_enough_has_changed(shelf):
    index = AttributeIndex(shelf)
    index.count()
    shelf.create(map(record, range(COUNT, COUNT + 200)))
    index.count()
    assert shelf.kept == 1
    shelf.create(map(record, range(COUNT + 200, 2 * COUNT)))
    index.count()
    assert shelf.kept == 2


def test_what_is_not_sure_is_not_in_it(shelf):
    slow, damaged = record(COUNT + 1), record(5)
    shelf.begin(slow)
    shelf.damaged.add(damaged.id)
    AttributeIndex(shelf).count()
    shelf.damaged.clear()
    shelf.commit(slow.id)
    assert AttributeIndex(shelf).count() == COUNT + 1


def test_who_may_not_write_reads_on(shelf):
    shelf.is_read_only = True
    assert AttributeIndex(shelf).count() == COUNT and shelf.stored is None
    shelf.stores_index, shelf.is_read_only = False, False
    assert AttributeIndex(shelf).count() == COUNT and shelf.stored is None


@given(st.data())
@settings(
    max_examples=min(settings.default.max_examples, 60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damage_never_matters(shelf, data):
    if shelf.stored is None:
        AttributeIndex(shelf).count()
        shelf.sound, shelf.want = shelf.stored, everything(shelf)
    place = data.draw(st.integers(0, len(shelf.sound) - 1))
    flipped = bytearray(shelf.sound)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    shelf.stored = data.draw(st.sampled_from([bytes(flipped), shelf.sound[:place], shelf.sound + b"x", b""]))
    assert everything(shelf) == shelf.want


def signed(said: object) -> bytes:
    """What another writer may have stored, with a digest that is right."""
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    body = zlib.compress(text)
    return b"hyperslab index 1 " + blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def said_by(shelf: Keeping) -> dict:
    return json.loads(zlib.decompress(shelf.stored.partition(b"\n")[2]))


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": []},
        {"parts": []},
        {"parts": {"00": 3}},
        {"parts": {"00": ["1", {}]}},
        {"rows": {}},
        {"rows": []},
        {"rows": {"../../x": [1]}},
        {"parts": None},
    ],
)
def test_what_another_wrote_is_passed_over_where_it_is_none(shelf, changes):
    AttributeIndex(shelf).count()
    want = everything(shelf)
    shelf.stored = signed(said_by(shelf) | changes)
    assert everything(shelf) == want


@pytest.mark.parametrize("text", [b"", b"[" * 10**5, b"null", b"\xff", b"1" * 10**5])
def test_what_is_no_index_at_all_is_passed_over(shelf, text):
    shelf.stored = signed(text)
    assert len(everything(shelf)) == COUNT


def test_false_values_find_nothing_that_does_not_fit(shelf):
    AttributeIndex(shelf).count()
    said = said_by(shelf)
    for number in range(10):
        said["rows"][record(number).id] = [number, -7, *[None] * 5]
    shelf.stored = signed(said)
    assert list(hits(AttributeIndex(shelf), parse(SCHEMA, None, {"i": -7}))) == []
