"""What documents cannot hold: refused by name with nothing left in the database, or stored right; by both faces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from pymongo.database import Database

import hyperslab as hs
from hyperslab.errors import HyperslabError, NotFound, Unsupported
from hyperslab.mongo import XarrayMongoDB

pytestmark = pytest.mark.sampled(2)

if TYPE_CHECKING:
    from servers.mongo import Mongo

LAYOUTS = ("compatible", "extended")
LONG = 17 << 20
MANY = 1_500_000


def with_data(values: Any, **attrs: Any) -> Callable[[], xr.Dataset]:
    return lambda: xr.Dataset({"bad": ("x", values() if callable(values) else values, attrs)})


def with_attribute(value: Any) -> Callable[[], xr.Dataset]:
    return with_data([1], bad=value)


def of_index() -> xr.Dataset:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["one", "two"])
    return xr.Dataset(coords=xr.Coordinates.from_pandas_multiindex(index, "bad"))


def within_itself() -> list[Any]:
    one: list[Any] = []
    one += [one, one]
    return one


CELLS: dict[str, Callable[[], xr.Dataset]] = {
    "objects": with_data(lambda: np.array([{}, None], object)),
    "mixed objects": with_data(lambda: np.array(["a", 1], object)),
    "dask objects": with_data(lambda: da.from_array(np.array(["a", {}], object), chunks=1)),
    "multi-index": of_index,
    "fields": with_data(lambda: np.zeros(2, [("a", "i4"), ("b", "f8")])),
    "categories with gaps": with_data(lambda: pd.Categorical(["a", None])),
    "categories that are dates": with_data(lambda: pd.Categorical([date(2020, 1, 1), date(2020, 1, 2)])),
    "texts with gaps": with_data(lambda: np.array(["a", None], object)),
    "texts of pandas with gaps": with_data(lambda: pd.array(["a", None], dtype="string")),
    "periods": with_data(lambda: pd.period_range("2020", periods=2)),
    "integers with gaps": with_data(lambda: pd.array([1, None], dtype="Int64")),
}
TEXTS: dict[str, Callable[[], xr.Dataset]] = {
    "texts as objects": with_data(lambda: np.array(["a", "bcd"], object)),
    "texts of pandas": with_data(lambda: pd.array(["a", "bcd"], dtype="string")),
    "texts of NumPy": with_data(lambda: np.array(["a", "bcd"], np.dtypes.StringDType())),
    "an index of texts": lambda: xr.Dataset(coords={"bad": pd.Index(["a", "bcd"])}),
    "dask of texts": with_data(lambda: da.from_array(np.array(["a", "bcd"], object), chunks=1)),
}
ATTRIBUTES: dict[str, Callable[[], xr.Dataset]] = {
    "complex": with_attribute(1j),
    "large": with_attribute(1 << 63),
    "objects": with_attribute(np.array([{}], object)),
    "two dimensions": with_attribute(np.zeros((2, 2))),
    "set": with_attribute({1, 2}),
    "function": with_attribute(len),
    "date of nanoseconds": with_attribute(np.datetime64("2020-01-01T00:00:00.000000001", "ns")),
    "key that is no text": lambda: xr.Dataset({"bad": ("x", [1], {5: 1})}),
    "surrogate": with_attribute("\ud800"),
    "too long": with_attribute("x" * LONG),
    "nested deeply": with_attribute(reduce(lambda inner, _: {"a": inner}, range(200), 1)),
    "nested more deeply than Python calls": with_attribute(reduce(lambda inner, _: [inner], range(20_000), 1)),
    "within itself": with_attribute(within_itself()),
    "key with NUL": lambda: xr.Dataset({"bad": ("x", [1], {"a\0b": 5})}),
    "inner key with NUL": with_attribute({"a\0b": 5}),
    "key that is a surrogate": lambda: xr.Dataset({"bad": ("x", [1], {"\ud800": 5})}),
}
NAMES: dict[str, Any] = {
    "dots": "a.b",
    "dollar": "$c",
    "operator": "$where",
    "empty": "",
    "accents": "é✓",
    "slash": "a/b",
    "of attributes": "attrs",
    "number": 5,
    "pair": ("a", 1),
    "null": "a\0b",
    "surrogate": "\ud800",
    "dot": ".",
    "up": "..",
    "long": "n" * 5000,
}


@pytest.fixture
def url(mongo: Mongo, database: Database[Any]) -> str:
    return f"{mongo.url}/{database.name}#bad-one"


def check_nothing_left(database: Database[Any]) -> None:
    assert {name: database[name].count_documents({}) for name in ("xarray.meta", "xarray.chunks")} == {
        "xarray.meta": 0,
        "xarray.chunks": 0,
    }


def put(database: Database[Any], x: Any, layout: Any) -> Any:
    """Put and got again."""
    xdb = XarrayMongoDB(database, layout=layout, embed_threshold_bytes=0)
    key, future = xdb.put(x)
    if future is not None:
        future.compute(scheduler="sync")
    return xdb.get(key, load=True)


def saved(url: str, x: Any, **how: Any) -> Any:
    """Saved under the one face and read again."""
    hs.save(url, x, **how)
    with xr.open_dataset(url, engine="hyperslab") as read:
        return read.load()


def beside_good(x: xr.Dataset) -> xr.Dataset:
    """Large good variables before it and after it."""
    good = xr.Dataset({"good": ("q", np.arange(1000)), "later": ("q", da.arange(1000, chunks=100))})
    return x.assign(good)


@pytest.mark.parametrize("attribute", [date(2020, 1, 2), [date(2020, 1, 2)], time(12), timedelta(1)])
def test_dates_without_a_time_are_told_how_to_be_stored(database: Database[Any], attribute: Any) -> None:
    with pytest.raises(Unsupported, match=r"'bad'.*isoformat\(\).*datetime\.datetime at its midnight"):
        put(database, xr.Dataset(attrs={"bad": attribute}), "compatible")
    moment = xr.Dataset(attrs={"good": datetime(2020, 1, 2)})
    assert put(database, moment, "compatible").attrs == moment.attrs


@pytest.mark.covering
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", [*CELLS.values(), *ATTRIBUTES.values()], ids=[*CELLS, *ATTRIBUTES])
def test_put_refuses_by_name(database: Database[Any], make: Any, layout: Any) -> None:
    with pytest.raises(HyperslabError, match=r"bad|document of the object"):
        put(database, beside_good(make()), layout)
    check_nothing_left(database)


@pytest.mark.parametrize("make", [*CELLS.values(), *ATTRIBUTES.values()], ids=[*CELLS, *ATTRIBUTES])
def test_save_refuses_by_name_or_stores(database: Database[Any], url: str, make: Any) -> None:
    wanted = beside_good(make())
    try:
        found = saved(url, wanted)
    except HyperslabError as error:
        assert "bad" in str(error).replace("bad-one", "") or "document" in str(error), error
        check_nothing_left(database)
        with pytest.raises(NotFound):
            hs.open(url)
    else:
        xr.testing.assert_identical(found, wanted.compute())


@pytest.mark.covering
@pytest.mark.parametrize("face", ["put", "save"])
@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_texts_are_stored_or_refused(database: Database[Any], url: str, make: Any, face: str) -> None:
    wanted = beside_good(make())
    try:
        found = put(database, wanted, "compatible") if face == "put" else saved(url, wanted)
    except HyperslabError as error:
        assert "bad" in str(error).replace("bad-one", "")
        check_nothing_left(database)
    else:
        assert found["bad"].to_numpy().tolist() == ["a", "bcd"]
        np.testing.assert_array_equal(found["later"], np.arange(1000))


REFUSED = {
    ("put", "dimension"): {"pair", "surrogate"},
    ("put", "variable"): {"number", "pair", "null", "surrogate"},
    ("save", "dimension"): {"number", "pair", "surrogate"},
    ("save", "variable"): {"number", "pair", "null", "surrogate", "empty", "slash", "dot", "up"},
}


@pytest.mark.covering
@pytest.mark.parametrize("face", ["put", "save"])
@pytest.mark.parametrize("place", ["variable", "dimension", "coordinate"])
@pytest.mark.parametrize("kind", NAMES)
def test_names_are_kept_or_refused(database: Database[Any], url: str, kind: str, place: str, face: str) -> None:
    name = NAMES[kind]
    make = {
        "variable": lambda: xr.Dataset({name: ("x", np.arange(5))}),
        "dimension": lambda: xr.Dataset({"v": ((name,), np.arange(5))}),
        "coordinate": lambda: xr.Dataset({"v": ("x", np.arange(5))}, {name: ("x", np.arange(5.0))}),
    }
    wanted = make[place]()

    def there_and_back() -> Any:
        return put(database, wanted, "compatible") if face == "put" else saved(url, wanted)

    if kind in REFUSED[face, "dimension" if place == "dimension" else "variable"]:
        with pytest.raises(HyperslabError):
            there_and_back()
        check_nothing_left(database)
    else:
        xr.testing.assert_identical(there_and_back(), wanted)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("face", ["put", "save"])
def test_more_chunks_than_a_document_lists(database: Database[Any], url: str, face: str) -> None:
    with pytest.raises(Unsupported, match="16777216"):
        if face == "put":
            put(database, xr.Dataset({"v": ("x", da.zeros(MANY, chunks=1, dtype="i1"))}), "compatible")
        else:
            hs.save(url, xr.Dataset({"v": ("x", np.zeros(MANY, "i1"))}), chunks={"x": 1})
    check_nothing_left(database)


@pytest.mark.parametrize("face", ["put", "save"])
@pytest.mark.parametrize("nested", [True, False])
def test_trees(database: Database[Any], url: str, face: str, nested: bool) -> None:
    """The one face keeps groups within an object, xarray_mongodb's refuses them; one without is a Dataset."""
    x = xr.Dataset({"v": ("x", np.arange(5))})
    tree = xr.DataTree.from_dict({"/": x, "/inner": x} if nested else {"/": x})
    try:
        found = put(database, tree, "compatible") if face == "put" else saved(url, tree)
    except (HyperslabError, TypeError):
        check_nothing_left(database)
    else:
        assert face == "save"
        xr.testing.assert_identical(found, x)
        with xr.open_datatree(url, engine="hyperslab") as back:
            xr.testing.assert_identical(back.load(), tree)


# -- documents of others ----------------------------------------------------------------------------------------------


def damages() -> dict[str, Callable[[Database[Any]], Any]]:
    """What may have happened to the chunks of ``v``, which are [0] to [3], of two documents each."""

    def change(field: str, value: Any, n: int = 0) -> Callable[[Database[Any]], Any]:
        return lambda db: db["xarray.chunks"].update_one({"name": "v", "chunk": [1], "n": n}, {"$set": {field: value}})

    def again(**other: Any) -> Callable[[Database[Any]], Any]:
        def insert(db: Database[Any]) -> None:
            found = db["xarray.chunks"].find_one({"name": "v", "chunk": [1], "n": 1}) or {}
            del found["_id"]
            db["xarray.chunks"].insert_one({**found, **other})

        return insert

    return {
        "a chunk is missing": lambda db: db["xarray.chunks"].delete_many({"name": "v", "chunk": [1]}),
        "the first segment is missing": lambda db: db["xarray.chunks"].delete_one({"name": "v", "chunk": [1], "n": 0}),
        "the last segment is missing": lambda db: db["xarray.chunks"].delete_one({"name": "v", "chunk": [1], "n": 1}),
        "all are missing": lambda db: db["xarray.chunks"].delete_many({}),
        "copies that differ": again(data=b"\1" * 40),
        "a segment too many": again(n=2),
        "a gap in n": change("n", 5, 1),
        "n below zero": change("n", -1, 1),
        "n is text": change("n", "one", 1),
        "n is huge": change("n", 1 << 62, 1),
        "another dtype": change("dtype", "<i2"),
        "dtype of objects": change("dtype", "|O"),
        "no dtype": change("dtype", None),
        "another shape": change("shape", [7]),
        "a hostile shape": change("shape", [1 << 62]),
        "a shape below zero": change("shape", [-10]),
        "more dimensions": change("shape", [5, 2]),
        "another type": change("type", "COO"),
        "bytes too few": change("data", b"\0" * 8),
        "bytes too many": change("data", b"\0" * 400),
        "data is text": change("data", "text"),
        "no data": lambda db: db["xarray.chunks"].update_one({"name": "v", "chunk": [1]}, {"$unset": {"data": 1}}),
    }


@pytest.mark.covering
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("what", damages())
def test_what_is_damaged_is_never_read_as_whole(database: Database[Any], url: str, what: str, layout: Any) -> None:
    """By each way of reading: an error of ours, or the right cells; the other variables stay readable."""
    wanted = np.arange(40.0)
    xdb = XarrayMongoDB(database, layout=layout, positional_index=False, verify=False, chunk_size_bytes=40)
    lazy = xr.Dataset({"v": ("x", da.from_array(wanted, chunks=10)), "w": ("z", np.arange(3))})
    key, future = xdb.put(lazy, name="bad-one")
    future.compute(scheduler="sync")
    damages()[what](database)
    ways: dict[str, Callable[[], Any]] = {
        "now": lambda: xdb.get(key, load=True)["v"],
        "named": lambda: xdb.get(key, load=["v"])["v"],
        "later": lambda: xdb.get(key, load=False)["v"].compute(scheduler="sync"),
        "as stored": lambda: xdb.get(key)["v"].compute(scheduler="sync"),
        "face": lambda: hs.open_group(url)["v"][...],
        "engine": lambda: xr.open_dataset(url, engine="hyperslab")["v"].load(),
    }
    refused = []
    for name, read in ways.items():
        try:
            cells = np.asarray(read())
        except HyperslabError as error:
            refused.append(name)
            assert len(str(error)) > 10
        else:
            np.testing.assert_array_equal(cells, wanted, name)
    assert len(refused) in (0, len(ways)), refused
    assert bool(refused) == (not xdb.is_complete(key)), refused
    np.testing.assert_array_equal(xdb.get(key)["w"], np.arange(3))
    np.testing.assert_array_equal(hs.open_group(url)["w"][...], np.arange(3))


@pytest.mark.parametrize(
    "criteria",
    [
        {"order": "nope"},
        {"attrs": {"a": slice(1, 2, 3)}},
        {"attrs": 3},
        {"dims": 3.5},
        {"name": slice(1, 2, 3)},
        {"since": "soon"},
    ],
)
def test_what_cannot_be_found_names_the_database(database: Database[Any], mongo: Mongo, criteria: Any) -> None:
    with pytest.raises(HyperslabError) as raised:
        list(XarrayMongoDB(database).find(**{"attrs": None, **criteria}))
    error = raised.value
    assert (error.url, error.node) == (f"{mongo.url}/{database.name}", ""), str(error)
    assert error.remedy and error.remedy in str(error)
