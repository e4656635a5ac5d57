"""``zarr.json`` by cases; the same words again when nothing changes; no document does harm."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.zarr3.document import Zarr3, key_of, new_array, parse, render
from hyperslab.model.dtypes import ObjectRef, VlenArray, describe
from hyperslab.model.schemas.attributes import reads_extended
from hyperslab.model.spec import ArraySpec, Codec

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BASE = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 4],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [LITTLE],
    "attributes": {},
}


def document(case):
    doc = {key: value for key, value in BASE.items() if key not in case["drop"]}
    return doc | case["change"]


def cuts(chunks):
    return [cut if isinstance(cut, int) else list(cut) for cut in chunks]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    docs = {"zarr.json": document(case)}
    kinds = [problem.kind for problem in Zarr3().problems(docs, "a/b")]
    if "refused" in case:
        with pytest.raises(FormatError) as caught:
            parse(docs, "a/b")
        assert set(case["refused"]) <= {problem.kind for problem in caught.value.problems} == set(kinds)
        assert all(problem.node == "a/b" for problem in caught.value.problems)
        return
    spec = parse(docs)
    if "problem" in case:
        assert case["problem"] in spec.problem
        assert spec.shape == (4, 4)
    else:
        assert (spec.problem, kinds) == (None, case.get("notes", []))
    if "codecs" in case:
        assert [[codec.name, dict(codec.config)] for codec in spec.codecs] == case["codecs"]
    for part, found in {
        "type": describe(spec.dtype),
        "fill": repr(spec.fill_value),
        "dims": list(spec.dims),
        "chunks": cuts(spec.chunks),
        "inner": cuts(spec.inner_chunks or ()),
    }.items():
        assert found == case.get(part, found)
    if "key" in case:
        assert key_of(spec)((1, 0)) == case["key"]
    filled = {"chunk_key_encoding": BASE["chunk_key_encoding"]} | document(case)
    assert render(spec)["zarr.json"] == filled


@pytest.mark.parametrize(
    "extra", [{"x.y": {"must_understand": False}}, {"attributes": {}}, {"consolidated_metadata": None}]
)
def test_group(extra):
    doc = {"zarr_format": 3, "node_type": "group"} | extra
    kept = {key: value for key, value in doc.items() if key != "consolidated_metadata"}
    assert render(parse({"zarr.json": doc}))["zarr.json"] == {"attributes": {}} | kept


@pytest.mark.parametrize("doc", [{}, {"zarr_format": 3}, {"zarr_format": 3, "node_type": "group", "x.y": 1}])
def test_no_group(doc):
    with pytest.raises(FormatError):
        parse({"zarr.json": doc})


def test_what_changes_is_rewritten_and_nothing_else():
    doc = BASE | {
        "chunk_key_encoding": "v2",
        "data_type": {"name": "int32"},
        "x.y": {"must_understand": False},
        "fill_value": 5.0,
    }
    spec = parse({"zarr.json": doc})
    assert render(spec.evolve(shape=(9, 4), attrs={"a": 1}))["zarr.json"] == doc | {
        "shape": [9, 4],
        "attributes": {"a": 1},
    }
    assert render(spec.evolve(fill_value=np.int32(6)))["zarr.json"] == doc | {"fill_value": 6}
    assert render(spec.evolve(dims=("y", None)))["zarr.json"] == doc | {"dimension_names": ["y", None]}


def test_runs_that_no_longer_reach_are_rewritten():
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[2, 2]], 4]}}
    spec = parse({"zarr.json": BASE | {"chunk_grid": grid}})
    grown = render(spec.evolve(shape=(5, 4)))
    assert parse(grown).shape == (5, 4)
    assert render(spec)["zarr.json"]["chunk_grid"] == grid


def test_attributes_change_where_the_cells_cannot_be_read():
    doc = BASE | {"data_type": "x.y", "codecs": [LITTLE, "x.y"]}
    assert render(parse({"zarr.json": doc}).evolve(attrs={"n": 1}))["zarr.json"] == doc | {"attributes": {"n": 1}}


def wish(dtype="f4", **more):
    return ArraySpec(**({"shape": (4, 4), "dtype": np.dtype(dtype), "chunks": (2, 4), "dims": ("y", "x")} | more))


def test_a_new_array():
    # filters: cells are stored little-endian, since zarr-python reads them so whatever the codec says
    spec = new_array(wish(">f4", codecs=(Codec("bitround", {"keepbits": 3}), Codec("zstd", {"level": 3}))))
    assert (spec.dtype, spec.fill_value) == (np.dtype("f4"), np.float32(0))
    assert render(spec)["zarr.json"] == BASE | {
        "data_type": "float32",
        "fill_value": 0.0,
        "codecs": [
            {"name": "numcodecs.bitround", "configuration": {"keepbits": 3}},
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
            {"name": "crc32c"},
        ],
        "dimension_names": ["y", "x"],
    }


@pytest.mark.parametrize(
    ("codecs", "layout", "names"),
    [
        ((), {}, ["bytes", "crc32c"]),
        ((), {"checksum": False}, ["bytes"]),
        ((Codec("crc32c"),), {}, ["bytes", "crc32c"]),
        ((Codec("shuffle"), Codec("zlib")), {}, ["bytes", "shuffle", "zlib", "crc32c"]),
        ((Codec("zfpy", {"mode": 4, "tolerance": 0.1}),), {"checksum": False}, ["zfpy"]),
    ],
)
def test_checksums(codecs, layout, names):
    assert [codec.name for codec in new_array(wish(codecs=codecs, layout=layout)).codecs] == names


def test_shards_are_checksummed_chunk_by_chunk():
    spec = new_array(wish(layout={"shards": (4, 4)}, chunks=(1, 2), codecs=(Codec("zstd"),)))
    (shard,) = spec.codecs
    assert (spec.chunks, spec.inner_chunks) == ((4, 4), (1, 2))
    assert [codec.name for codec in shard.config["codecs"]] == ["bytes", "zstd", "crc32c"]
    assert [codec.name for codec in shard.config["index_codecs"]] == ["bytes", "crc32c"]


@pytest.mark.parametrize(
    "given", [{"layout": {"shards": (3, 4)}}, {"layout": {"shards": (4,)}}, {"codecs": (Codec("zstd", {"level": 99}),)}]
)
def test_wishes_that_make_no_sense(given):
    with pytest.raises(Invalid):
        new_array(wish(**given))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (wish(dtype=object), "object"),
        (wish().evolve(dtype=ObjectRef()), "reference"),
        (wish([("a", "f4", (2,))]), "'a'"),
        (wish(codecs=(Codec("categorize", {"labels": ["a"]}),)), "categorize"),
    ],
)
def test_what_the_format_lacks(given, named):
    with pytest.raises(Unsupported, match=f"zarr3.*({named})"):
        new_array(given)


def test_rows_are_bytes_for_others():
    spec = new_array(wish().evolve(dtype=VlenArray(np.dtype("i4"), "row"), codecs=(Codec("zstd"),)))
    doc = render(spec)["zarr.json"]
    assert doc["data_type"] == "variable_length_bytes"
    assert [codec["name"] for codec in doc["codecs"]] == ["vlen-bytes", "zstd", "crc32c"]
    assert doc["attributes"]["_hyperslab"]["dtype"] == {"type": "vlen", "base": "<i4", "name": "row"}
    assert describe(parse({"zarr.json": doc}).dtype) == "vlen<int32> row"
    del doc["attributes"]["_hyperslab"]
    assert describe(parse({"zarr.json": doc}).dtype) == "bytes"


def test_small_floats_need_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    spec = parse({"zarr.json": BASE | {"data_type": "bfloat16"}})
    assert "hyperslab[dtypes]" in spec.problem
    assert spec.shape == (4, 4)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "bytes", "string"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "configuration", "chunk_shape", "codecs", "endian", "fields"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from([*BASE, "dimension_names", "storage_transformers", "x"]), json_values), json_values
)
def test_no_document_does_harm(change, missing):
    docs = {"zarr.json": BASE | {"attributes": {"_FillValue": missing, "_hyperslab": missing}} | change}
    found = Zarr3().problems(docs, "")
    try:
        spec = parse(docs)
    except FormatError as error:
        assert list(error.problems) == found != []
    else:
        if isinstance(spec, ArraySpec):
            spec.fill_cell()
        render(spec)


@pytest.mark.skipif(not reads_extended(), reason="no floats of 80 bits here")
@pytest.mark.parametrize("code", ["g", "G"])
def test_floats_of_80_bits_are_bytes_for_others(code):
    """The mark tells what they are; a fill value keeps every bit."""
    third = np.ones((), code)[()] / 3
    spec = new_array(wish(code).evolve(fill_value=third))
    doc = render(spec)["zarr.json"]
    length = np.dtype(code).itemsize
    assert doc["data_type"] == {"name": "raw_bytes", "configuration": {"length_bytes": length}}
    assert doc["attributes"]["_hyperslab"]["dtype"] == {"g": "float128", "G": "complex256"}[code]
    assert spec.dtype == np.dtype(code)
    assert parse({"zarr.json": doc}).fill_value == third
    unmarked = parse({"zarr.json": {**doc, "attributes": {}}})
    assert unmarked.dtype == np.dtype((np.void, length))
    assert render(spec.evolve(shape=(7,) * len(spec.shape)))["zarr.json"]["fill_value"] == doc["fill_value"]
