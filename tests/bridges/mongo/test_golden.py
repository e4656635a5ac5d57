"""Objects of other writers read as what they are, in every way of loading; what we put of some of them is theirs."""

from __future__ import annotations

from typing import Any

import golden_documents as golden
import numpy as np
import pytest
import sparse
import xarray as xr

from hyperslab.errors import Unsupported
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

ALL = [case for folder in (golden.REAL, golden.SPECIFIED) for case in golden.cases(folder)]
GOOD = [case for case in ALL if not case.case.startswith("BAD_")]
LOADS = pytest.mark.parametrize("load", [None, True, False], ids=str)


def store(xdb: XarrayMongoDB, case: golden.Case) -> Any:
    xdb.meta.insert_one(dict(case.meta))
    if case.chunks:
        xdb.chunks.insert_many([dict(chunk) for chunk in case.chunks])
    return case._id


def cells_of(data: Any) -> Any:
    data = getattr(data, "magnitude", data)
    return data.compute(scheduler="sync") if hasattr(data, "compute") else data


def dense(data: Any) -> np.ndarray[Any, Any]:
    found = cells_of(data)
    return np.asarray(found.todense() if isinstance(found, sparse.SparseArray) else found)


def variables_of(x: Any) -> dict[str, xr.Variable]:
    if isinstance(x, xr.Dataset):
        return {str(name): variable for name, variable in x.variables.items()}
    return {**{str(name): coord.variable for name, coord in x.coords.items()}, "__DataArray__": x.variable}


@pytest.mark.covering
@LOADS
@pytest.mark.parametrize("case", GOOD, ids=repr)
def test_objects_of_others_read_as_what_they_are(xdb: XarrayMongoDB, case: golden.Case, load: bool | None) -> None:
    read = xdb.get(store(xdb, case), load=load)
    variables = variables_of(read)
    assert set(variables) == {*case.meta["coords"], *case.meta["data_vars"]}
    assert list(read.coords) == [*case.meta["coords"]]
    assert dict(read.attrs) == case.meta.get("attrs", {})
    if isinstance(read, xr.DataArray):
        assert read.name == case.meta.get("name")
    for name, truth in case.arrays.items():
        found = dense(variables[name].data)
        assert found.shape == truth.shape
        if truth.dtype.str[:2] != ">M":  # of which xarray makes its own
            assert found.dtype == truth.dtype
        assert found.astype(truth.dtype).tobytes() == truth.tobytes()
    if "coo" in case.said:
        shape, coords, data, _ = golden.coo(case)
        (name,) = case.meta["data_vars"]
        found = cells_of(variables[name].data)
        assert found.shape == shape
        assert found.coords.tolist() == coords.tolist()
        assert found.data.tolist() == data.tolist()


@pytest.mark.covering
@LOADS
@pytest.mark.parametrize(
    ("name", "chunks"),
    [("BAD_never_computed", [(0,), (1,)]), ("BAD_missing_chunk", [(1,)]), ("BAD_missing_segment", [(0,)])],
)
def test_what_is_missing_is_named(xdb: XarrayMongoDB, name: str, chunks: Any, load: bool | None) -> None:
    case = golden.case(name)
    key = store(xdb, case)
    (variable,) = case.meta["data_vars"]
    with pytest.raises(DocumentNotFoundError) as caught:
        xdb.get(key, load=load).compute(scheduler="sync")
    told = [str({"meta_id": key, "name": variable, "chunk": chunk}) for chunk in chunks]
    assert str(caught.value) in told


@LOADS
def test_pointers_are_refused(xdb: XarrayMongoDB, load: bool | None) -> None:
    with pytest.raises(Unsupported, match=r"\|O"):
        xdb.get(store(xdb, golden.case("BAD_object_pointers")), load=load)


def plain(documents: Any) -> list[dict[str, Any]]:
    own = [{field: value for field, value in one.items() if field not in ("_id", "meta_id")} for one in documents]
    return sorted(own, key=lambda one: (str(one.get("name")), str(one.get("chunk")), one.get("n", 0)))


REWRITTEN = [case for case in ALL if case.case.startswith(("seed_example_", "coo_"))]


@pytest.mark.parametrize("case", REWRITTEN, ids=repr)
def test_golden_documents_are_written_to_the_byte(xdb: XarrayMongoDB, case: golden.Case) -> None:
    key = store(xdb, case)
    read = xdb.get(key)
    embedded = any("sparse_data" in each or "data" in each for each in case.meta["data_vars"].values())
    xdb.chunk_size_bytes = case.meta["chunkSize"]
    xdb.embed_threshold_bytes = 1 << 20 if embedded else 0
    new, future = xdb.put(read)
    if future is not None:
        future.compute(scheduler="sync")
    assert plain([xdb.meta.find_one({"_id": new})]) == plain([case.meta])
    assert plain(xdb.chunks.find({"meta_id": new})) == plain(case.chunks)
