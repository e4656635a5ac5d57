"""Errors of queries, filters and changes name the database and the collection or array, and what helps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    Collection,
    DimensionSchema,
    Prefix,
    TimeDimensionSchema,
)
from hyperslab.errors import HyperslabError, SchemaError

ASKED: dict[str, Callable[[Collection], Any]] = {
    "an unknown attribute": lambda c: c.query(nope=1),
    "a value of another type": lambda c: c.query(k="x"),
    "no mapping": lambda c: c.query("k>1"),
    "two conditions": lambda c: c.query({"k": 1}, k=2),
    "an unknown order": lambda c: c.query(order="nope"),
    "a limit below 0": lambda c: c.query(limit=-1),
    "a tuple of three": lambda c: c.query(k=(1, 2, 3)),
    "a step": lambda c: c.query(k=slice(1, 2, 3)),
    "no key": lambda c: c.query(k=None),
    "a prefix of a number": lambda c: c.query(k=Prefix("a")),
    "a table of values": lambda c: c.query(k=np.zeros((2, 2))),
    "a filter of nothing known": lambda c: c.filter({"nope": 1}),
    "a filter within a filter": lambda c: c.filter({"k": 1}).filter({"k": 2}),
    "an unknown id": lambda c: c["aa345678-1234-4234-8234-123456789abc"],
    "a taken key": lambda c: c.create({"k": 1}),
    "nothing to stack": lambda c: c.query(k=99).to_xarray(),
    "an unknown stack": lambda c: c.query(k=1).to_xarray("nope"),
    "tiles of arrays": lambda c: c.varrays,
}
OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "an unknown label": lambda array: array["zz"],
    "data of another shape": lambda array: array[:].update([1, 2]),
    "a primary attribute": lambda array: array.update_custom_attributes({"k": 3}),
    "a custom attribute of another type": lambda array: array.update_custom_attributes({"tag": 3}),
    "no attribute": lambda array: array.update_custom_attributes({}),
    "an unknown dimension": lambda array: array.append([1], "y"),
    "a dimension that does not grow": lambda array: array.append([1], "x"),
}


@pytest.fixture
def collection(client: Client, layout: Any) -> Collection:
    attributes = [AttributeSchema("k", int, True), AttributeSchema("tag", str, False)]
    made = client.create_collection(
        "c", ArraySchema([DimensionSchema("x", 4, labels=list("abcd"))], int, attributes), layout=layout
    )
    made.create({"k": 1})
    return made


def check(error: HyperslabError, node: str, tmp_path: Path) -> None:
    assert (str(tmp_path) in (error.url or ""), error.node) == (True, node), str(error)
    assert error.remedy and error.remedy in str(error)


@pytest.mark.covering
@pytest.mark.parametrize("case", ASKED)
def test_of_collections(collection: Collection, case: str, tmp_path: Path) -> None:
    with pytest.raises(HyperslabError) as raised:
        ASKED[case](collection)
    error = raised.value
    check(error, "c/aa345678-1234-4234-8234-123456789abc" if case == "an unknown id" else "c", tmp_path)


@pytest.mark.covering
@pytest.mark.parametrize("case", OF_ARRAYS)
def test_of_arrays(collection: Collection, case: str, tmp_path: Path) -> None:
    array = collection.get(k=1)
    assert array is not None
    with pytest.raises(HyperslabError) as raised:
        OF_ARRAYS[case](array)
    check(raised.value, f"c/{array.id}", tmp_path)


def test_of_what_is_gone_and_of_a_closed_client(client: Client, collection: Collection, tmp_path: Path) -> None:
    array, asked = collection.get(k=1), collection.filter({"k": 1})
    assert array is not None
    array.delete()
    for act in (array.read_meta, array[:].read, lambda: array.update_custom_attributes({"tag": "x"})):
        with pytest.raises(HyperslabError) as raised:
            act()
        check(raised.value, f"c/{array.id}", tmp_path)
    collection.delete()
    with pytest.raises(HyperslabError) as raised:
        collection.query(k=1)
    check(raised.value, "c", tmp_path)
    client.close()
    for act in (asked.first, lambda: collection.query(k=1), lambda: len(collection)):
        with pytest.raises(HyperslabError) as raised:
            act()
        check(raised.value, "c", tmp_path)


@pytest.mark.covering
@pytest.mark.parametrize(
    "wrong", [{"name": "a/b"}, {"layout": "other"}, {"keep_versions": "30d"}, {"index": "other"}], ids=str
)
def test_of_a_collection_that_cannot_be(client: Client, wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(HyperslabError) as raised:
        client.create_collection(**{"name": "n", "schema": ArraySchema([DimensionSchema("x", 4)], int), **wrong})
    assert str(tmp_path) in (raised.value.url or "") and raised.value.remedy


def test_of_a_state_that_is_kept_no_longer(client: Client, tmp_path: Path) -> None:
    schema = ArraySchema([DimensionSchema("x", 4)], int, [AttributeSchema("k", int, True)])
    kept = client.create_collection("kept", schema, keep_versions=0)
    array = kept.create({"k": 1})
    before = array.changes()[0]
    for act in (
        lambda: client.get_collection("kept", at=before),
        lambda: client.get_collection("kept", at="2020-01-01"),
    ):
        with pytest.raises(HyperslabError) as raised:
            act()
        check(raised.value, "kept", tmp_path)


def test_of_a_start_that_is_no_time() -> None:
    with pytest.raises(SchemaError, match=r"dimension 't': 'dt' is no time; .*\"\$dt\" for the attribute"):
        TimeDimensionSchema("t", 4, "dt", timedelta(hours=1))
