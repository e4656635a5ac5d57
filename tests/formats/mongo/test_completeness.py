"""What is missing of objects and what is wrong with them: the damaged golden ones exactly, and any other damage."""

from __future__ import annotations

from typing import Any

import golden_documents as golden
import pytest
from bson import ObjectId
from pymongo.database import Database

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo import chunk_queries
from hyperslab.formats.mongo.completeness import MISSING_SEGMENT, ObjectSurvey, find_missing, is_complete
from hyperslab.formats.mongo.document import load_meta
from hyperslab.formats.mongo.errors import DocumentNotFoundError

pytestmark = pytest.mark.sampled(2)

CASES = [*golden.cases(golden.REAL), *golden.cases(golden.SPECIFIED)]
D = "__DataArray__"
MISSING = {
    "BAD_never_computed": [(D, (0,)), (D, (1,))],
    "BAD_missing_chunk": [(D, (1,))],
    "BAD_missing_segment": [(D, (0,))],
}
WRONG = {"DUP_future_computed_twice": [((D, (0,)), "duplicate-documents"), ((D, (1,)), "duplicate-documents")]}


def pair(db: Database[Any]) -> tuple[Any, Any]:
    return db["xarray.meta"], db["xarray.chunks"]


def flaws(db: Database[Any], id: ObjectId) -> list[tuple[Any, str]]:
    meta, chunks = pair(db)
    found = ObjectSurvey(load_meta(meta, id), chunks).flaws()
    return sorted(((flaw.key, flaw.kind) for flaw in found if flaw.kind != MISSING_SEGMENT), key=repr)


def test_golden_objects(full: Database[Any]) -> None:
    for case in CASES:
        assert find_missing(*pair(full), case._id) == MISSING.get(case.case, []), case
        assert flaws(full, case._id) == WRONG.get(case.case, []), case
        assert is_complete(*pair(full), case._id) == (not case.case.startswith("BAD")), case


def readable(db: Database[Any], id: ObjectId) -> bool:
    """Whether every chunk that there must be can be joined: what completeness is measured against."""
    meta = load_meta(db["xarray.meta"], id)
    try:
        for name, variable in meta.variables.items():
            for chunk in variable.keys if variable.problem is None else ():
                chunk_queries.read_chunk(db["xarray.chunks"], id, (name, chunk))
    except HyperslabError:
        return False
    return not any(variable.problem for variable in meta.variables.values())


@pytest.mark.sampled(15)
@pytest.mark.parametrize("case", [case for case in CASES if case.chunks], ids=repr)
def test_every_document_is_needed(full: Database[Any], case: golden.Case) -> None:
    chunks = full["xarray.chunks"]
    assert readable(full, case._id) == is_complete(*pair(full), case._id)
    for doc in case.chunks:
        chunks.delete_one({"_id": doc["_id"]})
        key = (doc["name"], None if doc["chunk"] is None else tuple(int(i) for i in doc["chunk"]))
        if not case.case.startswith("DUP"):
            assert key in find_missing(*pair(full), case._id)
        assert readable(full, case._id) == is_complete(*pair(full), case._id) == case.case.startswith("DUP")
        chunks.insert_one(doc)


BASE = {"name": "d", "chunk": [0], "n": 0, "dtype": "<i4", "shape": [2], "type": "ndarray", "data": b"12345678"}
SPARSE = {"type": "COO", "nnz": 1, "fill_value": b"0000", "sparse_data": b"1234", "sparse_coords": b"\1", "data": None}
VARIABLE = {"dims": ["x"], "dtype": "<i4", "shape": [4], "chunks": [[2, 2]], "type": "ndarray"}


def put(db: Database[Any], *docs: dict[str, Any], ours: Any = None, **variable: Any) -> ObjectId:
    """An object with one variable of two chunks, the second of which is sound, and these documents."""
    meta = {"coords": {}, "data_vars": {"d": {**VARIABLE, **variable}}, "chunkSize": 100}
    meta |= {"hyperslab": ours} if ours else {}
    id: ObjectId = db["xarray.meta"].insert_one(meta).inserted_id
    chunks = [{**BASE, "meta_id": id, **doc} for doc in ({"chunk": [1]}, *docs)]
    db["xarray.chunks"].insert_many(
        [{field: value for field, value in doc.items() if value is not None or field == "chunk"} for doc in chunks]
    )
    return id


HALF = b"1234"
FLAWED: list[tuple[str, list[dict[str, Any]]]] = [
    ("missing-segment", [{"data": HALF}]),
    ("missing-segment", [{"n": 1}]),
    ("missing-segment", [{"data": HALF}, {"data": HALF, "n": 2}]),
    ("missing-segment", [{"n": -1}]),
    ("missing-segment", [{"shape": [2**62]}]),
    ("missing-segment", [{"shape": [2**62] * 9}]),
    ("missing-segment", [{**SPARSE, "sparse_coords": b""}]),
    ("excess-bytes", [{"data": b"123456789"}]),
    ("excess-bytes", [{"data": HALF}, {"data": HALF, "n": 1}, {"data": b"1", "n": 2}]),
    ("excess-bytes", [{**SPARSE, "sparse_coords": b"\1\1"}]),
    ("contradicting-documents", [{}, {"data": b"87654321"}]),
    ("contradicting-documents", [{}, {"data": HALF}]),
    ("contradicting-documents", [{}, {"dtype": "<u4"}]),
    ("contradicting-documents", [{"data": HALF}, {"data": HALF, "n": 1, "shape": [1]}]),
    ("contradicting-documents", [SPARSE, {**SPARSE, "fill_value": b"1111"}]),
    ("contradicting-documents", [SPARSE, {**SPARSE, "sparse_coords": b"\0"}]),
    ("duplicate-documents", [{}, {}, {"n": 0.0}]),
    ("duplicate-documents", [SPARSE, SPARSE]),
    ("chunk-shape", [{"shape": [1], "data": HALF}]),
    ("chunk-shape", [{"shape": [2, 1]}]),
    ("chunk-document", [{"n": "0"}]),
    ("chunk-document", [{"n": 0.5}]),
    ("chunk-document", [{"n": float("nan")}]),
    ("chunk-document", [{"n": [0]}]),
    ("chunk-document", [{"dtype": "|O"}]),
    ("chunk-document", [{"dtype": 5}]),
    ("chunk-document", [{"shape": [-2]}]),
    ("chunk-document", [{"shape": [float("nan")]}]),
    ("chunk-document", [{"shape": "2"}]),
    ("chunk-document", [{"data": "12345678"}]),
    ("chunk-document", [{"data": None}]),
    ("chunk-document", [{"type": "CSR"}]),
    ("chunk-document", [{**SPARSE, "nnz": -1}]),
    ("chunk-document", [{**SPARSE, "fill_value": b"0"}]),
    ("chunk-document", [{**SPARSE, "sparse_data": b"12345", "sparse_coords": b""}]),
    ("stray-documents", [{}, {"chunk": [2]}]),
    ("stray-documents", [{}, {"chunk": [0, 0]}]),
    ("stray-documents", [{}, {"chunk": []}]),
    ("stray-documents", [{}, {"chunk": None}]),
    ("stray-documents", [{}, {"name": "other"}]),
    ("stray-documents", [{}, {"name": "$d"}]),
    ("chunk-document", [{}, {"chunk": "0"}]),
    ("chunk-document", [{}, {"chunk": [-1]}]),
    ("chunk-document", [{}, {"name": 5}]),
    ("chunk-document", [{}, {"chunk": {"0": 1}}]),
]


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("kind", "docs"), FLAWED)
def test_flaws(db: Database[Any], kind: str, docs: list[dict[str, Any]]) -> None:
    id = put(db, *docs)
    found = flaws(db, id)
    assert [each for _, each in found] == ([] if kind == "missing-segment" else [kind])
    assert find_missing(*pair(db), id) == ([("d", (0,))] if kind == "missing-segment" else [])
    assert is_complete(*pair(db), id) == (kind in ("duplicate-documents", "stray-documents"))


SOUND: list[list[dict[str, Any]]] = [
    [{}],
    [{"n": 0.0, "shape": [2.0], "chunk": [0.0]}],
    [{"type": None}],
    [{"data": HALF, "n": 1}, {"data": b"", "n": 2}, {"data": HALF}],
    [{"dtype": "<i2", "data": HALF}],
    [SPARSE],
    [{**SPARSE, "sparse_data": None, "data": HALF, "sparse_coords": None, "coords": b"\1"}],
    [{**SPARSE, "nnz": 0, "sparse_data": b"", "sparse_coords": b""}],
    [{**SPARSE, "sparse_coords": b""}, {**SPARSE, "n": 1, "sparse_data": b""}],
]


@pytest.mark.parametrize("docs", SOUND)
def test_sound(db: Database[Any], docs: list[dict[str, Any]]) -> None:
    id = put(db, *docs)
    assert (flaws(db, id), find_missing(*pair(db), id), is_complete(*pair(db), id)) == ([], [], True)
    assert readable(db, id)


def test_chunks_of_unknown_sizes(db: Database[Any]) -> None:
    id = put(db, {"shape": [1], "data": HALF}, shape=[float("nan")], chunks=[[float("nan")] * 3])
    assert find_missing(*pair(db), id) == [("d", (2,))]
    assert flaws(db, id) == []


def test_cells_that_stand_in_the_object_and_beside_it(db: Database[Any]) -> None:
    id = put(db, {"chunk": None}, chunks=None, shape=[2], data=b"12345678")
    assert flaws(db, id) == [(("d", (1,)), "embedded-and-stored"), (("d", None), "embedded-and-stored")]
    assert not is_complete(*pair(db), id)


def test_chunks_that_read_as_a_fill_value_need_not_be_there(db: Database[Any]) -> None:
    id = put(db, ours={"variables": {"d": {"fill": b"0000"}}})
    assert (find_missing(*pair(db), id), is_complete(*pair(db), id)) == ([], True)
    id = put(db, {"data": HALF}, ours={"variables": {"d": {"fill": b"0000"}}})
    assert find_missing(*pair(db), id) == [("d", (0,))]


def test_what_is_being_made_is_not_complete(db: Database[Any]) -> None:
    assert not is_complete(*pair(db), put(db, {}, ours={"status": "writing"}))


def test_objects_that_are_not_there(db: Database[Any]) -> None:
    for ask in (find_missing, is_complete):
        with pytest.raises(DocumentNotFoundError):
            ask(*pair(db), ObjectId())


def test_any_number_of_declared_chunks(db: Database[Any]) -> None:
    """3.6e9 chunks in a document of 1 MiB: only those that are stored cost anything."""
    many = [[1] * 60_000] * 2
    id = put(db, dims=["x", "y"], shape=[60_000] * 2, chunks=many)
    chunks = db["xarray.chunks"]
    chunks.delete_many({})
    chunks.insert_many(
        [{**BASE, "meta_id": id, "chunk": [0, k], "shape": [1, 1], "data": HALF} for k in range(0, 99, 2)]
    )
    assert find_missing(*pair(db), id, limit=3) == [("d", (0, 1)), ("d", (0, 3)), ("d", (0, 5))]
    assert not is_complete(*pair(db), id)


@pytest.mark.sampled(0)
def test_a_chunk_of_very_many_documents(db: Database[Any]) -> None:
    id = put(db, shape=[100_002], chunks=[[100_000, 2]])
    docs = [{**BASE, "meta_id": id, "shape": [100_000], "n": n, "data": b"1234" * 2} for n in range(50_000)]
    db["xarray.chunks"].insert_many(docs[:-1])
    assert find_missing(*pair(db), id) == [("d", (0,))]
    db["xarray.chunks"].insert_one(docs[-1])
    assert is_complete(*pair(db), id)
