"""``.zarray`` and ``.zattrs`` by cases; the same words again when nothing changes; no document does harm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.zarr2.document import Zarr2, chunk_keys, new_array, parse, render
from hyperslab.model.dtypes import ObjectRef, VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
BASE = {
    "zarr_format": 2,
    "shape": [4, 4],
    "chunks": [2, 4],
    "dtype": "<i4",
    "fill_value": 0,
    "order": "C",
    "filters": None,
    "compressor": None,
}


def document(case):
    doc = {key: value for key, value in BASE.items() if key not in case["drop"]}
    return doc | case["change"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    docs = {".zarray": document(case)}
    kinds = [problem.kind for problem in Zarr2().problems(docs, "a/b")]
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
        assert [[codec.name, dict(codec.config)] for codec in spec.codecs] == case["codecs"]
        assert (spec.problem, kinds) == (None, case.get("notes", []))
    if "type" in case:
        assert describe(spec.dtype) == case["type"]
    if "fill" in case:
        assert repr(spec.fill_value) == case["fill"]
    assert render(spec)[".zarray"] == {"zarr_format": 2} | document(case)


@pytest.mark.parametrize(
    ("names", "dims", "left"),
    [
        (["y", "x"], ("y", "x"), False),
        ([None, "x"], (None, "x"), False),
        (["x", "x"], ("x", "x"), False),
        (["y"], (None, None), True),
        ("yx", (None, None), True),
        ([1, 2], (None, None), True),
    ],
)
def test_dimension_names(names, dims, left):
    docs = {".zarray": BASE, ".zattrs": {"_ARRAY_DIMENSIONS": names, "units": "m"}}
    spec = parse(docs)
    assert spec.dims == dims
    assert ("_ARRAY_DIMENSIONS" in spec.attrs) == left
    assert render(spec)[".zattrs"] == docs[".zattrs"]
    assert [problem.kind for problem in Zarr2().problems(docs, "")] == (["dimensions"] if left else [])


def test_unknown_keys_are_kept():
    doc = BASE | {"nc_type": "char", "dimensions": ["/y", "/x"]}
    spec = parse({".zarray": doc})
    assert render(spec.evolve(shape=(8, 4), fill_value=np.int32(5)))[".zarray"] == doc | {
        "shape": [8, 4],
        "fill_value": 5,
    }
    group = parse({".zgroup": {"zarr_format": 2, "_NCZARR_GROUP": {}}})
    assert render(group)[".zgroup"] == {"zarr_format": 2, "_NCZARR_GROUP": {}}


def test_attributes_change_where_the_cells_cannot_be_read():
    spec = parse({".zarray": BASE | {"dtype": "<q9", "compressor": {"id": "x.y"}}})
    docs = render(spec.evolve(attrs={"n": 1}))
    assert docs[".zarray"]["dtype"] == "<q9"
    assert docs[".zarray"]["compressor"] == {"id": "x.y"}
    assert docs[".zattrs"] == {"n": 1}


@pytest.mark.parametrize(
    ("separator", "shape", "key"), [(".", 2, "1.0"), ("/", 2, "1/0"), (None, 2, "1.0"), ("/", 0, "0")]
)
def test_keys(separator, shape, key):
    doc = (
        BASE | {"shape": [4] * shape, "chunks": [2] * shape} | ({"dimension_separator": separator} if separator else {})
    )
    assert chunk_keys(parse({".zarray": doc}))((1, 0)[:shape]) == key


def wish(dtype="f4", **more):
    return ArraySpec(**({"shape": (4, 4), "dtype": np.dtype(dtype), "chunks": (2, 4), "dims": ("y", "x")} | more))


def test_a_new_array():
    spec = new_array(
        wish(">f4", codecs=(Codec("bitround", {"keepbits": 3}), Codec("blosc", {"typesize": 4, "shuffle": "shuffle"})))
    )
    assert (spec.dtype, spec.fill_value) == (np.dtype(">f4"), None)
    assert render(spec) == {
        ".zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]},
        ".zarray": {
            "zarr_format": 2,
            "shape": [4, 4],
            "chunks": [2, 4],
            "dtype": ">f4",
            "fill_value": None,
            "order": "C",
            "filters": [{"id": "bitround", "keepbits": 3}],
            "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "blocksize": 0, "shuffle": 1},
            "dimension_separator": ".",
        },
    }


@pytest.mark.parametrize(("dtype", "fill"), [("M8[s]", "NaT"), ("m8[s]", "NaT"), ("f4", "None"), ("U2", "None")])
def test_fill_values_that_nobody_chose(dtype, fill):
    assert fill in repr(new_array(wish(dtype)).fill_value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (wish(dtype=object), "object"),
        (wish().evolve(dtype=ObjectRef()), "reference"),
        (wish(chunks=((1, 3), 4)), "varying size"),
        (wish(codecs=(Codec("transpose", {"order": [0, 1]}),)), "axis order"),
        (wish(codecs=(Codec("packbits"),)), "packbits"),
        (wish("g"), "float128|longdouble"),
    ],
)
def test_what_the_format_lacks(given, named):
    with pytest.raises(Unsupported, match=f"zarr2.*({named})"):
        new_array(given)


def test_fortran_order_and_text():
    spec = new_array(
        wish().evolve(dtype=VlenString(), codecs=(Codec("transpose", {"order": [1, 0]}), Codec("zstd", {"level": 1})))
    )
    doc = render(spec)[".zarray"]
    assert (doc["order"], doc["dtype"], doc["filters"]) == ("F", "|O", [{"id": "vlen-utf8"}])
    assert [codec.name for codec in spec.codecs] == ["transpose", "vlen-utf8", "zstd"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["<f4", "|O", "C", "F"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "level", "dtype"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*BASE, "dimension_separator"]), json_values), json_values)
def test_no_document_does_harm(change, names):
    docs = {".zarray": BASE | change, ".zattrs": {"_ARRAY_DIMENSIONS": names, "_FillValue": names}}
    found = Zarr2().problems(docs, "")
    try:
        spec = parse(docs)
    except FormatError as error:
        assert list(error.problems) == found != []
    else:
        spec.fill_cell()
        render(spec)


def test_a_document_that_arrays_share_is_read_once_if_it_is_sound() -> None:
    """What is wrong is told of each array; values that compare equal are told apart, attributes are nobody else's."""
    doc = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": 0, "filters": None}
    doc |= {"order": "C", "compressor": {"id": "zlib", "level": 1}}
    dialect = Zarr2()
    found = [dialect.parse({".zarray": dict(doc), ".zattrs": {"units": unit}}, unit) for unit in ("K", "m")]
    assert [spec.attrs for spec in found] == [{"units": "K"}, {"units": "m"}]
    assert found[0].evolve(attrs={}) == found[1].evolve(attrs={}) == Zarr2().parse({".zarray": doc}, "")
    with pytest.raises(FormatError):
        dialect.parse({".zarray": doc | {"shape": [4.0]}}, "c")
    wrong = {name: value for name, value in doc.items() if name != "zarr_format"}
    for node in ("a", "b"):
        assert [(each.node, each.kind) for each in dialect.problems({".zarray": wrong}, node)] == [
            (node, "zarr_format")
        ]
