"""The objects of other writers, read through the one face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import golden_documents as golden
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import HyperslabError, MissingChunks, Unsupported

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

CASES = [each for folder in (golden.REAL, golden.SPECIFIED) for each in golden.cases(folder)]
READABLE = [each for each in CASES if each.arrays]


@pytest.fixture
def url(mongo: Mongo, full: Database[Any]) -> str:
    """The database with all golden objects."""
    return f"{mongo.url}/{full.name}"


def _name(group: Any, variable: str) -> str:
    """What a variable is called under the face."""
    names = dict(zip([*_variables(group)], group, strict=True))
    return names[variable]


def _variables(group: Any) -> list[str]:
    return [*group._session.reader._names.values()]


@pytest.mark.parametrize("case", READABLE, ids=repr)
def test_cells_are_those_of_the_writer(url: str, case: golden.Case) -> None:
    """Every array whole, and parts of it, by dtype, shape and bytes."""
    with hs.open_group(f"{url}#{case._id}") as group:
        for variable, expected in case.arrays.items():
            array: Any = group[_name(group, variable)]
            assert array.shape == expected.shape
            found = np.asarray(array[...])
            assert found.dtype == expected.dtype
            assert found.tobytes() == expected.tobytes()
            if expected.ndim and 0 not in expected.shape:
                key = tuple(slice(None, None, -2) for _ in expected.shape)
                np.testing.assert_array_equal(array[key], expected[key])
                last = tuple(length - 1 for length in expected.shape)
                np.testing.assert_array_equal(array[last], expected[last])


@pytest.mark.parametrize(
    ("case", "variable", "error"),
    [
        ("BAD_object_pointers", None, Unsupported),
        ("BAD_never_computed", None, MissingChunks),
        ("BAD_missing_chunk", None, MissingChunks),
        ("BAD_missing_segment", None, MissingChunks),
    ],
)
def test_what_is_damaged_is_told(url: str, case: str, variable: str | None, error: type[HyperslabError]) -> None:
    """Chunks that were never computed, or lost, and pointers in the place of objects; nothing is made up."""
    with hs.open_group(f"{url}#{golden.case(case)._id}") as group, pytest.raises(error) as told:
        for name in group:
            np.asarray(group[name])
    assert golden.case(case)._id.binary.hex() in str(told.value) or "cells of type" in str(told.value)


def test_a_collection_is_a_group_of_objects_by_id(url: str, full: Database[Any]) -> None:
    """A name that one object has leads to it too."""
    root = hs.open_group(url)
    assert list(root) == sorted(str(each._id) for each in CASES)
    doc: Any = full["xarray.meta"].find_one({"name": "foo"})
    np.testing.assert_array_equal(root["foo/foo"][...], root[f"{doc['_id']}/foo"][...])


def test_reading_makes_no_index_and_writes_nothing(url: str, full: Database[Any]) -> None:
    """Not even the index that xarray_mongodb makes when it reads."""
    before = [full[f"xarray.{kind}"].count_documents({}) for kind in ("meta", "chunks")]
    hs.open_group(f"{url}#{golden.case('ds_basic')._id}").to_xarray().load()
    assert list(full["xarray.chunks"].index_information()) == ["_id_"]
    assert [full[f"xarray.{kind}"].count_documents({}) for kind in ("meta", "chunks")] == before
