"""The documents of the golden stores again, and those that nobody should have written: problems, no other errors."""

from __future__ import annotations

import contextlib
import copy
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.errors import FormatError, HyperslabError, UnsafePickle
from hyperslab.formats.documents import read_document
from hyperslab.formats.hdmf.cell_types import check_fill_value
from hyperslab.formats.hdmf.profile import HdmfOptions
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec

GOLDEN = Path(__file__).parents[2] / "golden" / "hdmf"
ARCHIVES = ("hdmf_zarr_v2_old_060", "hdmf_zarr_v2_0130", "hdmf_zarr_v3_0140", "hostile")
NAMES = (".zarray", ".zgroup", ".zattrs", "zarr.json")


@cache
def stores():
    """The documents of each node of each golden store, consolidated metadata left out."""
    found = {}
    for archive in ARCHIVES:
        with zipfile.ZipFile(GOLDEN / f"{archive}.zip") as stored:
            for key in stored.namelist():
                store, _, place = key.partition("/")
                node, _, name = place.rpartition("/")
                if name in NAMES:
                    doc = read_document(stored.read(key), key)
                    doc.pop("consolidated_metadata", None)
                    found.setdefault(store, {}).setdefault(node, {})[name] = doc
    whole = {store: dict(sorted(nodes.items())) for store, nodes in found.items()}
    return {s: {n: docs for n, docs in nodes.items() if set(docs) != {".zattrs"}} for s, nodes in whole.items()}


def profile_of(docs):
    """The spelling of a store by the documents of a node."""
    return HdmfV3() if "zarr.json" in docs else HdmfV2()


def as_written(docs):
    """The documents with what is added to them on purpose: ``.zattrs`` and the ids of links of profile v2."""
    if "zarr.json" in docs:
        return docs
    docs = {".zattrs": {}} | copy.deepcopy(docs)
    for link in docs[".zattrs"].get("zarr_link", []):
        link |= {key: link.get(key) for key in ("object_id", "source_object_id")}
    return docs


def test_there_are_stores():
    assert len(stores()) == 21
    assert sum(map(len, stores().values())) > 700


@pytest.mark.parametrize("store", sorted(stores()))
def test_each_document_is_written_as_it_was(store):
    nodes = stores()[store]
    spelling = profile_of(next(iter(nodes.values())))
    for node, docs in nodes.items():
        spec = spelling.parse(docs, node)
        again = spelling.render(spec)
        assert again == as_written(docs), node
        assert spelling.render(spelling.parse(again, node)) == again
        if not store.startswith("evil"):
            assert spelling.problems(docs, node) == []
            assert getattr(spec, "problem", None) is None
            if isinstance(spec, ArraySpec):
                check_fill_value(spec)


def test_what_is_evil_is_known_where_it_stands():
    spelling = HdmfV2()
    found = {
        (store, node): spelling.parse(docs, node).problem
        for store, nodes in stores().items()
        if store.startswith("evil")
        for node, docs in nodes.items()
        if spelling.is_array(docs) and spelling.parse(docs, node).problem
    }
    assert set(found) == {
        ("evil_second_filter.zarr", "dtypes/text"),
        ("evil_spec.zarr", "specifications/core/2.0.0/namespace"),
    }


def test_a_poisoned_fill_value_is_met_when_its_cells_are_touched():
    nodes = stores()["evil_fill_value.zarr"]
    spec = HdmfV2().parse(nodes["refs/compound_ref"], "refs/compound_ref")
    assert spec.problem is None
    assert spec.fill_cell()[()].item() == (0, "", None)
    with pytest.raises(UnsafePickle):
        check_fill_value(spec)
    others = [HdmfV2().parse(docs, node) for node, docs in nodes.items() if node != "refs/compound_ref"]
    assert [check_fill_value(spec) for spec in others if isinstance(spec, ArraySpec)]


def test_links_that_lead_nowhere_are_links():
    found = HdmfV2().parse(stores()["evil_link_escape.zarr"]["refs"], "refs").layout["hdmf"]["links"]
    assert found["up"] == Link("/", "../../../../../../etc")
    assert found["dots"] == Link("/../../secret")
    assert found["abs"] == Link("/passwd", "/etc")
    assert list(found) == ["link_to_i2", "link_to_g1", "up", "dots", "loop", "abs", "dangling"]


# -- documents of wrong types -----------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "|O",
        "object",
        "region",
        "scalar",
        "str",
        "<i4",
        "json2",
        "pickle",
        "vlen-utf8",
        "string",
        "object_reference",
        "/a",
        ".",
    ]
)
ZEROS = st.sampled_from(["WzAsIjxpOCIsW11d", "gAVLAC4=", "gASVRAAAAA=="])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2**65), st.floats(), WORDS, ZEROS, st.text(max_size=3))
KEYS = st.sampled_from(
    ["id", "name", "dtype", "path", "source", "value", "zarr_dtype", "region", "_REFERENCE", "fields", "configuration"]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
ATTRIBUTES = st.sampled_from(
    [
        "zarr_dtype",
        "zarr_link",
        ".specloc",
        "_LINKS",
        "_DTYPE",
        "_REFERENCE_FIELDS",
        "_REGION_FIELDS",
        "_ARRAY_DIMENSIONS",
        "_FillValue",
        "_hyperslab",
        "a",
    ]
)
BASES = [
    ("hz0130_builders_pickle.zarr", "refs/compound_ref"),
    ("hz0130_builders_json.zarr", "refs/objrefs"),
    ("hz0130_builders_json.zarr", "dtypes/scalar_text"),
    ("hz0130_builders_json.zarr", "refs"),
    ("hz0140_builders_v3.zarr", "refs/compound_ref"),
    ("hz0140_builders_v3.zarr", "refs/objrefs"),
    ("hz0140_builders_v3.zarr", "refs"),
]


@st.composite
def spoilt(draw):
    """The documents of a golden node with some of their values replaced."""
    store, node = draw(st.sampled_from(BASES))
    docs = as_written(copy.deepcopy(stores()[store][node]))
    for _ in range(draw(st.integers(1, 3))):
        doc = docs[draw(st.sampled_from(sorted(docs)))]
        is_attributes = ".zattrs" in docs and doc is docs[".zattrs"]
        if "attributes" in doc and isinstance(doc["attributes"], dict) and draw(st.booleans()):
            doc, is_attributes = doc["attributes"], True
        names = ATTRIBUTES if is_attributes or not doc else ATTRIBUTES | st.sampled_from(sorted(doc))
        doc[draw(names)] = draw(JSON)
    return docs


@given(spoilt(), st.sampled_from(["", "a", "specifications/a/1/b"]))
@settings(max_examples=min(settings.default.max_examples, 600))
def test_no_document_does_harm(docs, node):
    spelling = profile_of(docs)
    given_docs = repr(docs)
    spelling.problems(docs, node)
    try:
        spec = spelling.parse(docs, node)
    except FormatError as error:
        assert error.problems
        return
    assert repr(docs) == given_docs
    if isinstance(spec, ArraySpec):
        spec.fill_cell()
        with contextlib.suppress(FormatError):
            check_fill_value(spec)
    try:
        again = spelling.render(spec)
    except HyperslabError:
        return  # a document that another kept in a shape which is not written
    assert repr(spelling.render(spelling.parse(again, node))) == repr(again)


@given(JSON, st.sampled_from(["zarr_link", "zarr_dtype", ".specloc", "table", "_hyperslab"]))
def test_attributes_of_any_kind_are_kept(value, name):
    docs = {".zgroup": {"zarr_format": 2}, ".zattrs": {name: value}}
    again = HdmfV2().render(HdmfV2().parse(docs, "g"))
    assert repr(HdmfV2().render(HdmfV2().parse(again, "g"))) == repr(again)


def test_options_do_not_change_what_is_read():
    docs = stores()["hz0130_builders_pickle.zarr"]["refs/objrefs"]
    spellings = [HdmfV2(), HdmfV2(HdmfOptions(object_codec="pickle", region_attributes=True))]
    first, second = (spelling.parse(docs, "refs/objrefs") for spelling in spellings)
    assert first == second
    assert np.dtype(object) == first.numpy_dtype
