"""What we put xarray_mongodb gets, and what it puts we get: every dtype, blocks, names, attributes and units."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bson import ObjectId
from mongo_objects import cells, describe, objects
from mongo_peer import Found, Load, TheirCollection
from pymongo import MongoClient

from servers.mongo import Mongo

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("xarray_mongodb") is None, reason="make interop gives it an environment of its own"),
]

OPTIONS: list[dict[str, int]] = [
    {},
    {"embed_threshold_bytes": 0},
    {"chunk_size_bytes": 5, "embed_threshold_bytes": 24},
]
LOADS: list[Load] = [None, True, False, ["t", "a", "__DataArray__"]]
LONG = ("several documents", "several documents each", "index in documents")


@pytest.fixture(params=OPTIONS, ids=json.dumps)
def options(request: pytest.FixtureRequest) -> dict[str, int]:
    found: dict[str, int] = request.param
    return found


@pytest.fixture
def names(options: dict[str, int]) -> list[str]:
    """The objects to speak of: those of many documents only where a document is not a few bytes."""
    return [name for name in objects() if name not in LONG or "chunk_size_bytes" not in options]


@pytest.fixture
def theirs(mongo: Mongo) -> TheirCollection:
    return TheirCollection(mongo.url, mongo.database())


def native(said: Any) -> Any:
    """Without byte orders: we write little-endian."""
    if isinstance(said, dict):
        return {
            key: np.dtype(each).newbyteorder("=").str if key == "dtype" else native(each) for key, each in said.items()
        }
    return said


def assert_same_cells(found: dict[str, np.ndarray[Any, Any]], name: str) -> None:
    expected = cells(objects()[name])
    assert list(found) == list(expected), name
    for variable, array in expected.items():
        np.testing.assert_array_equal(found[variable], array, err_msg=f"{name}: {variable}")


def read_back(theirs: TheirCollection, ids: dict[str, Any], folder: Path, load: Load) -> dict[str, Found]:
    """By name, what they read; the cells are right."""
    found = theirs.read(ids.values(), folder, load)
    by_name = {name: found[str(key)] for name, key in ids.items()}
    assert {name: each.error for name, each in by_name.items() if each.error} == {}
    for name, each in by_name.items():
        assert_same_cells(each.cells, name.rpartition(": ")[2])
    return by_name


def test_they_read_what_they_write(
    theirs: TheirCollection, tmp_path: Path, options: dict[str, int], names: list[str]
) -> None:
    found = read_back(theirs, theirs.write(*names, **options), tmp_path, None)
    assert list(found) == names
    for name, each in found.items():
        assert native(each.said) == native(describe(objects()[name])), name


def test_both_read_what_either_wrote(
    theirs: TheirCollection, tmp_path: Path, options: dict[str, int], names: list[str]
) -> None:
    from hyperslab.mongo import XarrayMongoDB

    with MongoClient[Any](theirs.url) as client:
        ours = XarrayMongoDB(client[theirs.database], **options)
        of_them, of_us = theirs.write(*names, **options), {}
        for name in names:
            of_us[name], future = ours.put(objects()[name])
            if future is not None:
                assert future.compute() is None
        either = {f"of them: {name}": key for name, key in of_them.items()}
        either |= {f"of us: {name}": key for name, key in of_us.items()}
        for load in LOADS:
            they_read = read_back(theirs, either, tmp_path, load)
            for title, key in either.items():
                name = title.rpartition(": ")[2]
                expected = native(they_read[f"of them: {name}"].said)
                assert native(they_read[title].said) == expected, (title, load)
                found = ours.get(ObjectId(str(key)), load)
                assert native(describe(found)) == expected, (title, load)
                assert_same_cells(cells(found), name)
