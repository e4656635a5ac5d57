"""What reading and writing asks of the server: few documents for a point, one key for a chunk, and always ``meta_id``.

Counted by the commands that are sent, and by what the server tells of these very queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient, monitoring

import hyperslab as hs
from hyperslab.formats.mongo.chunk_documents import DerivedIds, SaltedIds, make_documents
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

LAYOUTS = ("compatible", "extended")


class Commands(monitoring.CommandListener):
    """The commands that were sent, and the documents of chunks that came."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.sent: list[Mapping[str, Any]] = []
        self.documents: list[Mapping[str, Any]] = []

    def started(self, event: Any) -> None:
        """A command was sent."""
        self.sent.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        """Its answer has come."""
        cursor = event.reply.get("cursor", {})
        if str(cursor.get("ns", "")).endswith(".chunks"):
            self.documents += cursor.get("firstBatch", cursor.get("nextBatch", []))

    def failed(self, event: Any) -> None:
        """Not of interest."""

    @property
    def bytes(self) -> int:
        """Of cells, that came."""
        return sum(len(document.get("data", b"")) for document in self.documents)


@contextmanager
def watched(mongo: Mongo, layout: Any, **options: Any) -> Iterator[tuple[XarrayMongoDB, Commands]]:
    """Objects in a database of their own, and what is sent for them."""
    commands = Commands()
    with MongoClient[Any](mongo.url, event_listeners=[commands]) as client:
        yield XarrayMongoDB(client[mongo.database()], layout=layout, **options), commands
        client.drop_database(commands.sent[0]["$db"])


# -- a point of a large chunk -----------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_point_of_64_mebibytes(mongo: Mongo, layout: Any) -> None:
    """At most two documents of a chunk, by both faces."""
    cells = np.arange(1 << 23, dtype="f8").reshape(2048, 4096)
    with watched(mongo, layout) as (xdb, commands):
        key, future = xdb.put(xr.Dataset({"v": (("y", "x"), da.from_array(cells, chunks=-1))}), name="v")
        future.compute(scheduler="sync")
        lazy = xdb.get(key, load=False)["v"]
        options = {"event_listeners": [commands]}
        url = f"{mongo.url}/{xdb.meta.database.name}#v"
        array = hs.open_group(url, storage_options=options)["v"]
        engine = xr.open_dataset(url, engine="hyperslab", storage_options=options)["v"]
        points = {
            "face": lambda y, x: array[y, x],
            "engine": lambda y, x: engine[y, x].load(),
            "lazy": lambda y, x: lazy[y, x].compute(scheduler="sync"),
        }
        for name, point in points.items():
            for place in ((0, 0), (1000, 1234), (2047, 4095)):
                commands.clear()
                assert float(point(*place)) == cells[place]
                most = 2 * xdb.chunk_size_bytes
                assert (name, len(commands.documents) <= 2, commands.bytes <= most) == (name, True, True)


# -- one chunk of many ------------------------------------------------------------------------------------------------


def explained(xdb: XarrayMongoDB, command: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the server examines for a query that was sent."""
    query = {name: command[name] for name in ("find", "filter", "hint", "projection") if name in command}
    answer = xdb.meta.database.command("explain", query, verbosity="executionStats")
    found: Mapping[str, Any] = answer["executionStats"]
    return found


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("layout", "keys"), [("compatible", 129), ("extended", 1)])
def test_one_chunk_of_a_large_grid(mongo: Mongo, layout: Any, keys: int) -> None:
    """In the extended layout one key, where the index of xarray_mongodb has those of a row and of a column."""
    cells = np.arange(64 * 64 * 4.0).reshape(128, 128)
    with watched(mongo, layout, commit="meta_first") as (xdb, commands):
        lazy = xr.DataArray(da.zeros((128, 128), chunks=2), dims=("y", "x")).to_dataset(name="v")
        key, _ = xdb.put(lazy, name="v")
        ids = DerivedIds(key) if layout == "extended" else SaltedIds()
        for row in range(64):  # many documents at a time, for thousands of tasks take long
            blocks = np.split(cells[2 * row : 2 * row + 2], 64, axis=1)
            each = (make_documents(ids, key, ("v", (row, column)), block, 1000) for column, block in enumerate(blocks))
            xdb.chunks.insert_many(chain.from_iterable(each))
        read = xdb.get(key)["v"]
        options = {"event_listeners": [commands]}
        array = hs.open_group(f"{mongo.url}/{xdb.meta.database.name}#v", storage_options=options)["v"]
        assert array[0, 0] == 0  # by which it learns how the object was written
        for point in (lambda y, x: read[y, x].compute(scheduler="sync").item(), lambda y, x: array[y, x]):
            commands.clear()
            assert point(66, 30) == cells[66, 30]
            queries = [command for command in commands.sent if command.get("find") == "xarray.chunks"]
            assert len(queries) == 1
            stats = explained(xdb, queries[0])
            assert stats["nReturned"] == 1
            assert stats["totalKeysExamined"] <= keys
            assert stats["totalDocsExamined"] <= keys


# -- sharding ---------------------------------------------------------------------------------------------------------

WHERE = {"find": "filter", "count": "query", "distinct": "query", "findAndModify": "query"}


def conditions(command: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Each condition on chunks in a command: of queries, of changes, of removals, of pipelines within others."""
    for name, field in WHERE.items():
        if name in command:
            yield command.get(field, {})
    for name in ("updates", "deletes"):
        for change in command.get(name, ()):
            yield change["q"]
    if "documents" in command:
        yield from command["documents"]
    if "aggregate" in command:
        yield from in_pipeline(command["pipeline"])


def in_pipeline(pipeline: Any) -> Iterator[Mapping[str, Any]]:
    """The condition that a pipeline begins with, and those of pipelines within it."""
    yield pipeline[0].get("$match", {}) if pipeline else {}
    for stage in pipeline:
        for inner in stage.values():
            if isinstance(inner, Mapping) and "pipeline" in inner:
                yield from in_pipeline(inner["pipeline"])


def names_meta_id(condition: Mapping[str, Any]) -> bool:
    """Whether it is about one object, or some."""
    if "meta_id" in condition:
        return True
    parts = [*condition.get("$and", ()), *condition.get("$or", ())]
    return bool(parts) and (
        any(map(names_meta_id, condition.get("$and", ()))) or (all(map(names_meta_id, condition.get("$or", ((),)))))
    )


def check_all_name_meta_id(commands: Commands) -> int:
    """How many commands on chunks there were, all of which a shard key that begins with meta_id serves."""
    seen = 0
    for command in commands.sent:
        if not str(next(iter(command.values()))).endswith(".chunks") or "createIndexes" in command:
            continue
        found = list(conditions(command))
        assert (found or "listIndexes" in command) and all(map(names_meta_id, found)), command
        seen += 1
    return seen


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_query_of_chunks_names_meta_id(mongo: Mongo, layout: Any) -> None:
    """Put, get, append, update, resume, replace, rename, copy, completeness, delete."""
    cells = np.arange(600.0).reshape(20, 30)
    x = xr.Dataset({"v": (("y", "x"), cells), "w": ("x", np.arange(30))}, {"x": np.arange(30)})
    lazy = x.chunk({"y": 5, "x": 10})
    with watched(mongo, layout) as (xdb, commands):
        xdb.chunk_size_bytes, xdb.embed_threshold_bytes = 150, 0
        key, future = xdb.put(lazy, name="one")
        future.compute(scheduler="sync")
        future.compute(scheduler="sync")
        for load in (True, False, None):
            xr.testing.assert_identical(xdb.get(key, load=load).compute(scheduler="sync"), x)
        assert float(xdb.get(key)["v"][3, 4].compute(scheduler="sync")) == cells[3, 4]
        xdb.append(key, x.isel(y=slice(0, 7)).drop_vars(["w", "x"]), "y")
        xdb.update(
            key,
            (x.isel(y=slice(0, 3), x=slice(0, 12)) + 1).drop_vars(["w", "x"]),
            {"y": slice(0, 3), "x": slice(0, 12)},
        )
        other, future = xdb.put(lazy)
        if layout == "compatible":
            assert not xdb.is_complete(other)
        xdb.resume(other, lazy).compute(scheduler="sync")
        assert xdb.chunks.delete_one({"meta_id": other, "name": "v", "chunk": [0, 0], "n": 1}).deleted_count
        xdb.resume(other, lazy).compute(scheduler="sync")
        assert xdb.is_complete(other)
        _, future = xdb.replace("one", lazy)
        future.compute(scheduler="sync")
        xdb.rename("one", "two")
        xdb.delete(xdb.copy("two", name="three"))
        xdb.delete("two")
        assert check_all_name_meta_id(commands) > 40


def test_every_query_of_chunks_names_meta_id_under_the_one_face(mongo: Mongo) -> None:
    cells = np.arange(600.0).reshape(20, 30)
    x = xr.Dataset({"v": (("y", "x"), cells), "w": ("x", np.arange(30))}, {"x": np.arange(30)})
    commands = Commands()
    options: Any = {"storage_options": {"event_listeners": [commands]}}
    url = f"{mongo.url}/{mongo.database()}#one"
    how: Any = {"chunk_size_bytes": 150, "embed_threshold_bytes": 0}
    hs.save(url, x, chunks={"y": 5, "x": 10}, **how, **options)
    root = hs.open_group(url, "r+", **options)
    root["v"][3:9, ::2] = 0.0
    cells[3:9, ::2] = 0.0
    root["v"].resize((25, 30))
    root["v"].resize((20, 30))
    np.testing.assert_array_equal(root["v"][...], cells)
    assert root["v"].nbytes_stored > 0
    assert list(hs.check(url, deep=True, **options)) == []
    with xr.open_dataset(url, engine="hyperslab", chunks={}, **options) as read:
        np.testing.assert_array_equal(read["v"].compute(scheduler="sync"), cells)
    hs.save(url, x, mode="w", **options)
    del hs.open_group(url, "r+", **options)["v"]
    assert check_all_name_meta_id(commands) > 20
