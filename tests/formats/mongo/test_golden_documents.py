"""The golden documents are whole, and say what MongoDB's own page of the format says: read here with ``bson`` alone."""

from __future__ import annotations

import math
from typing import Any

import bson
import numpy as np
import pytest
from golden_documents import FOLDER, REAL, SPECIFIED, Case, case, cases, coo, documents

DENSE = [each for each in cases(REAL) if each.arrays and "error" not in each.said]
WORDS = [each for each in cases(SPECIFIED) if "coo" in each.said]


def dense_bytes(each: Case, name: str, variable: dict[str, Any]) -> bytes:
    """The cells of a variable that is no dask array."""
    if "data" in variable:
        return variable["data"]
    parts = sorted((chunk for chunk in each.chunks if chunk["name"] == name), key=lambda chunk: chunk["n"])
    return b"".join(chunk["data"] for chunk in parts)


def test_all_are_there() -> None:
    real, specified = cases(REAL), cases(SPECIFIED)
    assert (len(real), len(specified)) == (47, 20)
    assert sum(len(each.chunks) for each in real) == 70
    assert sum(len(each.chunks) for each in specified) == 52
    assert sum(len(each.arrays) for each in real) == 55
    assert sum(len(each.arrays) for each in specified) + len(WORDS) == 20
    assert len({each.case for each in real + specified}) == 67


@pytest.mark.parametrize("each", DENSE, ids=repr)
def test_variables_that_are_no_dask_arrays(each: Case) -> None:
    for group in ("coords", "data_vars"):
        for name, variable in each.meta[group].items():
            told = each.said[group][name]
            assert {key: variable[key] for key in ("dims", "dtype")} == {key: told[key] for key in ("dims", "dtype")}
            assert variable.get("units") == told["units"]
            if variable["chunks"] is None:
                expected = each.arrays[name]
                assert expected.dtype.str == variable["dtype"]
                assert list(expected.shape) == variable["shape"] == told["shape"]
                assert dense_bytes(each, name, variable) == expected.tobytes()


@pytest.mark.parametrize("each", WORDS, ids=repr)
def test_sparse_arrays_that_are_told_by_coordinates(each: Case) -> None:
    shape, coordinates, data, word = coo(each)
    (chunk,) = each.chunks
    assert (tuple(chunk["shape"]), chunk["nnz"]) == (shape, 2)
    assert (chunk["sparse_data"], chunk["sparse_coords"]) == (data.tobytes(), coordinates.astype(word).tobytes())


@pytest.mark.parametrize("collection", ["meta", "chunks"])
@pytest.mark.parametrize("folder", [REAL, SPECIFIED])
def test_documents_are_encoded_as_they_were_found(folder: str, collection: str) -> None:
    written = (FOLDER / folder / f"xarray.{collection}.bson").read_bytes()
    assert b"".join(map(bson.encode, documents(folder, collection))) == written


def test_a_case_by_its_name() -> None:
    unknown = case("nan_chunks").meta["data_vars"]["__DataArray__"]
    assert math.isnan(unknown["shape"][0])
    np.testing.assert_array_equal(case("seed_example_sparse").arrays["x"], [[0, 1.1, 0], [0, 0, 2.2]])
    assert case("BAD_never_computed").chunks == []
    assert str(case("ds_basic")._id) == case("ds_basic").said["_id"]
