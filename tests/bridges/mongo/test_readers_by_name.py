"""Readers by name while objects are replaced: each reads the old one or the new one, whole.

The object is replaced right before each of the commands that a read sends, one read for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.monitoring import CommandListener

import hyperslab as hs
from hyperslab.errors import Conflict
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

READS = {"find", "aggregate"}


class Before(CommandListener):
    """Does ``act`` right before the reading command of this number."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.left: int | None = None

    def started(self, event: Any) -> None:
        if event.command_name in READS and self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                self.act()

    def succeeded(self, event: Any) -> None:
        """Nothing is done."""

    def failed(self, event: Any) -> None:
        """Nothing is done."""


def dataset(value: int, rows: int) -> xr.Dataset:
    """One in chunks, one whole, one small; all of them of one value."""
    ds = xr.Dataset({name: ("x", np.full(rows, float(value))) for name in ("t", "w", "small")})
    return ds.assign(t=ds["t"].chunk({"x": 2})).assign_attrs(value=value)


class Replaced:
    """An object ``o`` that is replaced by one of another value, and of another length if ``grows``."""

    def __init__(self, database: Database[Any], layout: Any, face: str, grows: bool, url: str) -> None:
        self.xdb = XarrayMongoDB(database, layout=layout, chunk_size_bytes=16, embed_threshold_bytes=48)
        self.face = face
        self.url = url
        self.grows = grows
        self.value = 0
        self.again()

    def again(self) -> None:
        self.value += 1
        new = dataset(self.value, 6 + self.value if self.grows else 6)
        if self.face == "save":  # chunks of the fill value are not stored, and read as it
            hs.save(self.url, new, mode="w", chunks={"x": 2}, embed_threshold_bytes=0)
        else:
            self.xdb.replace("o", new)[1].compute(scheduler="sync")


@pytest.fixture
def counted(mongo: Mongo, database: Database[Any]) -> Iterator[tuple[Before, Database[Any]]]:
    """The database by a client that is listened to."""
    before = Before(lambda: None)
    with MongoClient[Any](mongo.url, event_listeners=[before]) as client:
        yield before, client[database.name]


def check(found: Any, old: int, new: int) -> None:
    cells = np.asarray(found)
    assert set(cells.tolist()) in ({old}, {new})


@pytest.mark.covering
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("writer", ["replace", "save"])
def test_get_by_name(
    mongo: Mongo, database: Database[Any], counted: tuple[Before, Database[Any]], layout: Any, writer: str, grows: bool
) -> None:
    before, reader = counted
    replaced = Replaced(database, layout, writer, grows, f"{mongo.url}/{database.name}#o")
    xdb = XarrayMongoDB(reader, layout=layout)
    before.act, number = replaced.again, 0
    while True:
        old, before.left = replaced.value, number
        found = xdb.get("o", load=True)
        assert found.attrs["value"] in (old, replaced.value)
        for name in ("t", "w", "small"):
            check(found[name], found.attrs["value"], found.attrs["value"])
        if before.left is not None:
            break
        number += 1
    assert number > 1


@pytest.mark.covering
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("writer", ["replace", "save"])
@pytest.mark.parametrize("name", ["t", "w"])
@pytest.mark.parametrize("place", ["#o", ""])
def test_an_array_by_name(
    mongo: Mongo, database: Database[Any], writer: str, name: str, grows: bool, place: str
) -> None:
    url = f"{mongo.url}/{database.name}"
    replaced = Replaced(database, "compatible", writer, grows, f"{url}#o")
    before, number = Before(replaced.again), 0
    while True:
        old, before.left = replaced.value, number
        root = hs.open_group(f"{url}{place}", storage_options={"event_listeners": [before]})
        array = root[name if place else f"o/{name}"]
        check(array[:], old, replaced.value)
        check(array, replaced.value, replaced.value) if before.left is None else None
        if before.left is not None:
            break
        number += 1
    assert number > 1


@pytest.mark.parametrize("layout", ["compatible", "extended"])
@pytest.mark.parametrize("face", ["name", "id", "array"])
def test_an_object_that_grows(
    mongo: Mongo, database: Database[Any], counted: tuple[Before, Database[Any]], layout: Any, face: str
) -> None:
    """What was stored in one piece is in chunks afterwards: whoever has read the document of before reads it again."""
    before, reader = counted
    writer = XarrayMongoDB(database, layout=layout, chunk_size_bytes=16, embed_threshold_bytes=48)
    xdb, number = XarrayMongoDB(reader, layout=layout), 0
    before.act = lambda: writer.append("o", dataset(1, 3), "x")
    while True:
        id, future = writer.put(dataset(1, 6), name="o", replace=True)
        future.compute(scheduler="sync")
        before.left = number
        if face == "array":
            url = f"{mongo.url}/{database.name}#o"
            array = hs.open_group(url, storage_options={"event_listeners": [before]})["w"]
            found = array[:].tolist()
        else:
            found = xdb.get("o" if face == "name" else id, load=True)["w"].values.tolist()
        assert found in ([1.0] * 6, [1.0] * 9)
        if before.left is not None:
            break
        number += 1
    assert number > 1


@pytest.mark.parametrize("writer", ["replace", "save"])
def test_variables_of_two_objects_are_never_mixed(mongo: Mongo, database: Database[Any], writer: str) -> None:
    url = f"{mongo.url}/{database.name}#o"
    replaced = Replaced(database, "compatible", writer, False, url)
    with xr.open_dataset(url, engine="hyperslab") as opened:
        replaced.again()
        with pytest.raises(Conflict, match="open it again"):
            opened.load()
    assert xr.load_dataset(url, engine="hyperslab").attrs["value"] == replaced.value


def test_an_array_that_was_removed_is_no_fill_value(mongo: Mongo, database: Database[Any]) -> None:
    url = f"{mongo.url}/{database.name}#o"
    with hs.create(url) as root:
        root.create_array("t", (6,), "f8", chunks=(2,), fill_value=7)[0:2] = 1
    array, xdb = hs.open_group(url)["t"], XarrayMongoDB(database)
    lazy = xdb.get("o")["t"]
    assert array[:].tolist() == lazy.compute(scheduler="sync").values.tolist() == [1, 1, 7, 7, 7, 7]
    xdb.delete("o")
    with pytest.raises(KeyError):
        array[:]
    with pytest.raises(KeyError):
        lazy.compute(scheduler="sync")


READERS: dict[str, Callable[[hs.Array], Callable[[], Any]]] = {
    "[]": lambda array: lambda: array[1:5],
    "sel": lambda array: lambda: array.sel(x=slice(1, 5)),
    "isel": lambda array: lambda: array.isel(x=slice(1, 5)),
    "lazy": lambda array: array.lazy[1:5].read,
    "composed": lambda array: array.lazy[1:].oindex[:4].read,
}


@pytest.mark.parametrize("name", READERS)
def test_every_read_of_an_array_that_was_replaced_gives_the_new_one(
    mongo: Mongo, database: Database[Any], name: str
) -> None:
    url = f"{mongo.url}/{database.name}#o"
    replaced = Replaced(database, "compatible", "replace", False, url)
    array = hs.open_group(url)["t"]
    read = READERS[name](array)
    assert read().tolist() == [1.0] * 4
    replaced.again()
    assert read().tolist() == [2.0] * 4


def test_a_lazy_view_that_would_have_another_shape_says_that_the_array_was_replaced(
    mongo: Mongo, database: Database[Any]
) -> None:
    url = f"{mongo.url}/{database.name}#o"
    replaced = Replaced(database, "compatible", "replace", True, url)
    array = hs.open_group(url)["t"]
    whole, one_of_many = array.lazy[:], array.lazy[1:5].in_one_thread()
    replaced.again()
    with pytest.raises(hs.errors.Replaced, match="open it again"):
        whole.read()
    with pytest.raises(hs.errors.Replaced):
        one_of_many.read()
    assert array[:].tolist() == [2.0] * 8
