"""Documents that make no sense: an error of ours or cells, nothing else, and the other arrays stay readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
import golden_documents as golden
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

_VALUES = st.sampled_from(
    [None, 0, -1, 3, 1 << 40, 2.5, float("nan"), "", "x", "<f8", "|O", b"", b"\1" * 7, [], {}, [1], [[1]], [[]], True,
     {"$gt": ""}, {"a": 1}, [None], ["t"], bson.ObjectId("0" * 24)]
)  # fmt: skip
_OURS = ("version", "status", "replaces", "unlimited", "attr_types", "variables", "coordinates", "chunk_ids", "lease")
_TOP = ("coords", "data_vars", "chunkSize", "attrs", "name", "hyperslab")
_VARIABLE = ("dims", "dtype", "shape", "chunks", "type", "attrs", "units", "data", "fill_value", "nnz", "sparse_data")
_ENTRY = ("fill", "fill_value", "chunks", "attr_types", "coordinates")
_CHUNK = ("name", "chunk", "n", "dtype", "shape", "type", "data", "nnz", "fill_value", "sparse_data", "sparse_coords")


def _read_all(url: str) -> None:
    """Every node, every cell; what refuses does so by an error of ours."""
    try:
        root = hs.open_group(url, memory_limit=1 << 24)
        dict(root.attrs)
        names = list(root)
    except HyperslabError:
        return
    for name in names:
        try:
            array: Any = root[name]
            dict(array.attrs)
            np.asarray(array[...])
            array[tuple(slice(0, 1) for _ in array.shape)]
        except HyperslabError:
            continue


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", ["ds_basic", "coo_dask_grid", "override_type_nan_shape", "da_dask_2d", "pint_dask"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_no_document_breaks_the_reader(mongo: Mongo, db: Database[Any], case: str, data: st.DataObject) -> None:
    """One field of any document is something else."""
    found = golden.case(case)
    meta, chunks = bson.decode(bson.encode(found.meta)), [bson.decode(bson.encode(doc)) for doc in found.chunks]
    meta["hyperslab"] = {"version": 1, "variables": {name: {"fill": b"\0" * 8} for name in meta["data_vars"]}}
    variables = [*meta["coords"].values(), *meta["data_vars"].values()]
    places: list[tuple[Any, tuple[str, ...]]] = [(meta, _TOP), (meta["hyperslab"], _OURS)]
    places += [(each, _VARIABLE) for each in variables] + [(each, _CHUNK) for each in chunks]
    places += [(each, _ENTRY) for each in meta["hyperslab"]["variables"].values()]
    for _ in range(data.draw(st.integers(1, 2))):
        place, fields = data.draw(st.sampled_from(places))
        place[data.draw(st.sampled_from(fields))] = data.draw(_VALUES)
    for kind, documents in (("meta", [meta]), ("chunks", chunks)):
        db[f"xarray.{kind}"].delete_many({})
        db[f"xarray.{kind}"].insert_many(documents) if documents else None
    _read_all(f"{mongo.url}/{db.name}#{meta['_id']}")
    hs.open_group(f"{mongo.url}/{db.name}").tree()


def test_one_broken_variable_leaves_the_others(mongo: Mongo, db: Database[Any]) -> None:
    """The variable is told by name, and so is what is wrong with it."""
    with hs.create(f"{mongo.url}/{db.name}#x") as root:
        for name in ("good", "bad", "torn"):
            root.create_array(name, data=np.arange(10), chunks=(5,), dims=("t",))
    db["xarray.meta"].update_one({}, {"$set": {"data_vars.bad.shape": "ten"}})
    db["xarray.chunks"].update_one({"name": "torn", "chunk": [1]}, {"$set": {"data": b"\0" * 48}})
    with hs.open_group(f"{mongo.url}/{db.name}#x") as found:
        np.testing.assert_array_equal(found["good"][...], np.arange(10))
        with pytest.raises(FormatError, match="shape of 'bad'"):
            found["bad"]
        with pytest.raises(CorruptChunk, match="too many bytes"):
            found["torn"][...]
        kinds = {problem.kind for problem in hs.check(f"{mongo.url}/{db.name}#x")}
    assert kinds == {"document", "excess-bytes"}
