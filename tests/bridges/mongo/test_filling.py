"""An array put together while its documents come in, in whatever order they do."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient, monitoring
from pymongo.database import Database

from hyperslab.formats.mongo.chunk_documents import DerivedIds, Segment, make_documents, parse_segment
from hyperslab.formats.mongo.document import Variable
from hyperslab.formats.mongo.variables import StreamedArray
from hyperslab.mongo import XarrayMongoDB

CUTS = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)


def in_documents(cells: Any, chunks: Any, size: int) -> list[Segment]:
    """All documents of an array in these chunks."""
    key = ObjectId()
    if chunks is None:
        return [parse_segment(doc) for doc in make_documents(DerivedIds(key), key, ("v", None), cells, size)]
    found = []
    for chunk in product(*(range(len(cuts)) for cuts in chunks)):
        starts = [sum(cuts[:index]) for cuts, index in zip(chunks, chunk, strict=True)]
        place = tuple(slice(a, a + cuts[i]) for a, cuts, i in zip(starts, chunks, chunk, strict=True))
        found += [
            parse_segment(doc) for doc in make_documents(DerivedIds(key), key, ("v", chunk), cells[(*place, ...)], size)
        ]
    return found


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Any, Any, int]:
    """Cells, their chunks, and the bytes of a document."""
    cuts = draw(st.lists(CUTS, max_size=3).map(tuple))
    shape = tuple(map(sum, cuts))
    dtype = draw(st.sampled_from(["<f8", "<i2", "|S3", "<M8[s]", ">f4"]))
    cells = np.asarray(np.random.default_rng(0).integers(0, 100, shape), dtype)
    return cells, draw(st.sampled_from([cuts, None])), draw(st.integers(1, 64))


def variable(cells: Any, chunks: Any) -> Variable:
    """The variable of these cells."""
    dims = tuple("abcdef"[: cells.ndim])
    return Variable(dims=dims, dtype=cells.dtype.newbyteorder("<"), shape=cells.shape, chunks=chunks)


@given(arrays(), st.randoms(use_true_random=False))
def test_the_order_is_of_no_matter(array: Any, random: Any) -> None:
    cells, chunks, size = array
    segments = in_documents(cells, chunks, size)
    random.shuffle(segments)
    filling = StreamedArray(variable(cells, chunks), size)
    for segment in segments:
        assert not filling.is_whole
        filling.take(segment)
    assert filling.is_whole
    assert filling.cells.dtype == cells.dtype.newbyteorder("<")
    assert filling.cells.shape == cells.shape
    assert np.array_equal(filling.cells, cells)


@given(arrays(), st.data())
def test_what_is_odd_is_not_whole(array: Any, data: st.DataObject) -> None:
    cells, chunks, size = array
    segments = in_documents(cells, chunks, size)
    at = data.draw(st.integers(0, len(segments) - 1))
    match data.draw(st.sampled_from(["missing", "twice", "other type"])):
        case "missing":
            del segments[at]
        case "twice":
            segments.append(segments[at])
        case "other type":
            found = segments[at]
            segments[at] = Segment(found.key, found.n, np.dtype("V1"), found.shape, found.data)
    filling = StreamedArray(variable(cells, chunks), size)
    for segment in segments:
        filling.take(segment)
    assert not filling.is_whole


@pytest.mark.parametrize("chunk", [(7, 0), (0,), None])
def test_chunks_that_the_object_has_not(chunk: Any) -> None:
    cells = np.zeros((2, 2))
    filling = StreamedArray(variable(cells, ((2,), (2,))), 64)
    filling.take(Segment(("v", chunk), 0, cells.dtype, cells.shape, cells.tobytes()))
    assert not filling.is_whole


def test_one_query_for_what_is_as_it_should_be(database: Database[Any]) -> None:
    queries: list[str] = []

    class Listener(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            if event.command_name in ("find", "aggregate"):
                queries.append(event.command[event.command_name])

        def succeeded(self, event: Any) -> None: ...
        def failed(self, event: Any) -> None: ...

    x = xr.Dataset({"a": ("x", np.arange(10_000.0)), "b": ("x", np.arange(10_000))}).chunk(x=1000)
    host, port = database.client.address or ("", 0)
    with MongoClient[Any](host, port, event_listeners=[Listener()]) as client:
        mongo = XarrayMongoDB(client[database.name], chunk_size_bytes=1000)
        _id, future = mongo.put(x)
        future.compute()
        queries.clear()
        xr.testing.assert_identical(mongo.get(_id, load=True), x.compute())
    assert queries == ["xarray.meta", "xarray.chunks"]
