"""What reading moves: few queries, and of large chunks only the documents that hold what is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import monitoring

import hyperslab as hs
from hyperslab.formats.mongo.chunk_documents import CellSpan, SaltedIds, Segment, make_documents
from hyperslab.formats.mongo.document import parse_object, render_object

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

CELLS = np.arange(64 * 96 * 8, dtype="<f8").reshape(64, 96, 8)


class Listener(monitoring.CommandListener):
    """Counts queries of chunks, and the documents that they gave."""

    def __init__(self) -> None:
        self.queries = self.documents = 0
        self.active = False

    def started(self, event: Any) -> None:
        """A command was sent."""
        if self.active and str(event.command.get("find", "")).endswith(".chunks"):
            self.queries += 1

    def succeeded(self, event: Any) -> None:
        """Its answer has come."""
        cursor = event.reply.get("cursor", {}) if self.active else {}
        if str(cursor.get("ns", "")).endswith(".chunks"):
            self.documents += len(cursor.get("firstBatch", cursor.get("nextBatch", ())))

    def failed(self, event: Any) -> None:
        """Not counted."""

    @contextmanager
    def counting(self) -> Iterator[Listener]:
        """Count in the block."""
        self.queries = self.documents = 0
        self.active = True
        yield self
        self.active = False


@pytest.fixture
def listener() -> Listener:
    """To be given to a client."""
    return Listener()


def _opened(url: str, listener: Listener) -> Any:
    return hs.open_group(url, storage_options={"event_listeners": [listener]})


@pytest.mark.parametrize("derived", [True, False])
def test_a_point_of_a_large_chunk_moves_two_documents_at_most(
    mongo: Mongo, listener: Listener, db: Database[Any], derived: bool
) -> None:
    """The first one tells how long they are, once; of an object that says so wrongly it takes one more."""
    url = f"{mongo.url}/{db.name}#parts"
    with hs.create(url, chunk_size_bytes=1000) as root:
        root.create_array("x", data=CELLS, chunks=(64, 96, 8))
    if not derived:
        _write_as_others_do(db)
    array = _opened(url, listener)["x"]
    for place, most in (((3, 50, 2), 2 if derived else 3), ((3, 50, 3), 1), ((40, 1, 1), 1), ((63, 95, 7), 1)):
        with listener.counting() as counted:
            assert array[place] == CELLS[place]
        assert (counted.queries <= 2, counted.documents <= most) == (True, True)
    with listener.counting() as counted:
        np.testing.assert_array_equal(array[10:20, 5, ::3], CELLS[10:20, 5, ::3])
    assert counted.documents < 70
    with listener.counting() as counted:
        np.testing.assert_array_equal(array[...], CELLS)
    assert counted.documents == -(-CELLS.nbytes // (1000 if derived else 900))


def _write_as_others_do(db: Database[Any]) -> None:
    """The object as xarray_mongodb writes it, and cut otherwise than its document says."""
    meta = parse_object(db["xarray.meta"].find_one({}) or {})
    db["xarray.meta"].replace_one(
        {}, {name: value for name, value in render_object(meta).items() if name != "hyperslab"}
    )
    db["xarray.chunks"].delete_many({})
    db["xarray.chunks"].insert_many(list(make_documents(SaltedIds(), meta.id, ("x", (0, 0, 0)), CELLS, 900)))


def test_many_chunks_are_one_query(mongo: Mongo, listener: Listener) -> None:
    """Where they are few bytes together."""
    url = f"{mongo.url}/{mongo.database()}#many"
    with hs.create(url) as root:
        root.create_array("x", data=CELLS, chunks=(8, 12, 8))
    array = _opened(url, listener)["x"]
    with listener.counting() as counted:
        np.testing.assert_array_equal(array[3:5, 1:90], CELLS[3:5, 1:90])
    assert (counted.queries, counted.documents) == (1, 8)


def test_an_object_is_opened_by_one_query_for_all_its_variables(mongo: Mongo, listener: Listener) -> None:
    """None of the chunks where the object says how it was made."""
    url = f"{mongo.url}/{mongo.database()}#all"
    with hs.create(url) as root:
        for name in "abcdef":
            root.create_array(name, data=CELLS, chunks=(8, 12, 8), dims=("x", "y", "z"))
    with listener.counting() as counted:
        dataset = _opened(url, listener).to_xarray(chunks={})
        assert list(dataset) == list("abcdef")
    assert counted.queries == 0


@settings(max_examples=min(settings.default.max_examples, 200))
@given(st.data())
def test_spans_are_what_numpy_selects(data: st.DataObject) -> None:
    """Any forward slices, any length of documents."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    cells = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    within = []
    for length in shape:
        start = data.draw(st.integers(0, length - 1))
        within.append(slice(start, data.draw(st.integers(start + 1, length)), data.draw(st.integers(1, 3))))
    size = data.draw(st.integers(1, 40))
    raw = cells.tobytes()
    span = CellSpan.of(shape, within, cells.dtype)
    first = Segment(("v", None), 0, cells.dtype, shape, b"")
    held = {n: replace(first, n=n, data=raw[n * size : (n + 1) * size]) for n in span.numbers(size)}
    found = span.take(held, size)
    assert found is not None
    np.testing.assert_array_equal(found, cells[tuple(within)])
    if raw[size:]:
        held[0] = replace(first, data=raw[: size + 1])
        assert span.take(held, size) is None
