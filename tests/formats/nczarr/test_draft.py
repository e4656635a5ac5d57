"""The draft's documents by themselves: the same again when nothing changes, and no document does harm."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import draft, plain_zarr
from hyperslab.formats.nczarr.generation import Context, Generation, NCZarrOptions
from hyperslab.model.attrs import equal_attrs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenString, tagged
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

LEVEL = Enum(np.dtype("u1"), (("low", 0), ("high", 9)), "level")
PAIR = Compound(np.dtype([("a", "<i4"), ("s", "S3")]), "pair")
BLOB = Opaque(5, "blob")
ROOT = GroupSpec(
    attrs={"title": "x", "n": np.int16(3), "level": np.array([0, 9], tagged(LEVEL.base, LEVEL))},
    dims=(Dimension("x", 3), Dimension("t", 4, True)),
    types={"level": LEVEL, "pair": PAIR, "blob": BLOB},
)
TYPES = ["<i2", ">i4", "<f8", "|u1", [("a", "<i4"), ("b", "<f4", (2,))], Char(), VlenString(), LEVEL, PAIR, BLOB]


def context(**options):
    return Context(
        generation=Generation.DRAFT, options=NCZarrOptions(**options), group={"": ROOT, "g": GroupSpec()}.get
    )


def parsed(docs, node, **options):
    """The spec of the documents once they went through JSON, and the kinds of what was noted."""
    problems = Problems(node)
    spec = draft.parse(json.loads(json.dumps(docs, allow_nan=False)), node, context(**options), problems)
    problems.raise_if_fatal()
    return spec, [problem.kind for problem in problems]


def wish(dtype, **more):
    said = {"shape": (3, 4), "dtype": np.dtype(dtype) if isinstance(dtype, str | list) else dtype, "chunks": (2, 4)}
    return ArraySpec(**said | {"dims": ("x", "t"), "attrs": {"units": "m"}} | more)


def test_a_group_comes_back():
    spec, said = parsed(draft.render(ROOT, "", context()), "")
    assert (said, spec.dims, spec.types) == ([], ROOT.dims, ROOT.types)
    assert equal_attrs(spec.attrs, ROOT.attrs)
    assert draft.render(spec, "", context()) == draft.render(ROOT, "", context())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("node", ["v", "g/v"])
@pytest.mark.parametrize("codec", [Codec("zlib", {"level": 1}), None])
def test_an_array_comes_back(dtype, node, codec):
    made = draft.new_array(wish(dtype, codecs=(codec,) if codec else ()), node, context())
    spec, said = parsed(draft.render(made, node, context()), node)
    assert said == []
    for part in ("shape", "dtype", "chunks", "dims", "codecs", "fill_value", "attrs", "problem"):
        assert getattr(spec, part) == getattr(made, part), part
    assert spec.layout["dimensions"] == ("/x", "/t")
    assert draft.render(spec, node, context()) == draft.render(made, node, context())


@pytest.mark.parametrize(
    ("dtype", "fill", "stored"),
    [
        ("<i2", -7, -7),
        ("<f4", np.nan, "NaN"),
        (Char(), "A", 65),
        (Char(), "", 0),
        (VlenString(), "no", "bm8A"),
        (LEVEL, 9, 9),
        (PAIR, (1, b"ab"), "AQAAAGFiAA=="),
    ],
    ids=str,
)
def test_fill_values(dtype, fill, stored):
    more = {"attrs": {"_nczarr_maxstrlen": 3}} if isinstance(dtype, VlenString) else {}
    made = draft.new_array(wish(dtype, fill_value=fill, **more), "v", context())
    docs = draft.render(made, "v", context())
    assert docs[".zarray"]["fill_value"] == stored
    spec, _ = parsed(docs, "v")
    assert np.array_equal(spec.fill_cell(), made.fill_cell(), equal_nan=dtype == "<f4")


def test_order_and_filters_are_kept():
    codecs = (Codec("transpose", {"order": [1, 0]}), Codec("delta", {"dtype": "<i4"}), Codec("zstd", {"level": 3}))
    docs = draft.render(draft.new_array(wish("<i4", codecs=codecs), "v", context()), "v", context())
    assert docs[".zarray"]["order"] == "F"
    assert [said["id"] for said in docs[".zarray"]["filters"]] == ["delta"]


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"dtype": np.dtype("M8[s]")}, Unsupported, "has no cells of type datetime64"),
        ({"dtype": np.dtype([("a", "?")])}, Unsupported, "has no cells of type"),
        ({"dtype": Enum(np.dtype("u1"), ())}, Unsupported, "has no cells of type enum"),
        ({"dtype": VlenString(), "attrs": {"_nczarr_maxstrlen": 0}}, Invalid, "_nczarr_maxstrlen=0"),
        ({"codecs": (Codec("scale_offset"),)}, Unsupported, "has no codec 'scale_offset'"),
        ({"codecs": (Codec("zlib", {"level": 99}),)}, Invalid, "level"),
        ({"attrs": {"c": 1j}}, Unsupported, "attribute 'c': netCDF has no attribute"),
        ({"attrs": {"_nczarr_c": 1j}}, Unsupported, "attribute '_nczarr_c': netCDF has no attribute"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wishes_that_cannot_be(more, error, said):
    with pytest.raises(error, match=said):
        draft.new_array(wish(**{"dtype": "<i4"} | more), "v", context())


def test_rows_that_are_still_to_come_are_remembered():
    made = draft.new_array(wish("<i4"), "v", context())
    docs = draft.render(made.evolve(layout={**made.layout, "written": (3, 2)}), "v", context())
    assert docs[".zarray"]["written"] == [3, 2]
    assert parsed(docs, "v")[0].layout["written"] == (3, 2)
    for said, found, noted in (
        ([2, 9], (2, 4), ["written"]),
        ([3, 9], None, ["written"]),
        ([3], None, ["written"]),
        ("x", None, ["written"]),
        ([3, 4], None, []),
    ):
        docs[".zarray"]["written"] = said
        spec, kinds = parsed(docs, "v")
        assert (spec.layout["written"], kinds) == (found, noted)


def test_a_group_names_the_attribute_that_cannot_be():
    with pytest.raises(Unsupported, match="attribute 'c': netCDF has no attribute"):
        draft.render(GroupSpec(attrs={"c": 1j}), "g", context())


def test_truncate_goes_into_the_chain():
    docs = draft.render(draft.new_array(wish(VlenString()), "v", context()), "v", context())
    assert parsed(docs, "v", truncate=True)[0].codecs[0].config == {"length": 128, "truncate": True}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["/x", "x", "<i4", "char", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "class", "size", ".zattrs"]), inner)
    ),
    max_leaves=6,
)
ARRAY = {"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<i4", "compressor": None, "fill_value": 0}
ARRAY |= {"order": "C", "filters": None, "dimensions": ["/x"], "typedef": "/blob", "nc_type": "char", "written": [1]}
SIDES = [".zattrs", ".zattr_type", ".zattr", ".zattrs_type", ".zdims", ".ztypedefs", ".zdataset"]


def changed(document):
    """The document with some of its values replaced."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(document, JSON)).map(lambda new: document | new)


@given(
    changed(ARRAY) | changed({"zarr_format": 2, ".zattrs": {}}),
    st.fixed_dictionaries({}, optional={name: st.dictionaries(st.sampled_from(["x", "y"]), JSON) for name in SIDES}),
    st.sampled_from(["", "g", "g/v"]),
    st.sampled_from([draft, plain_zarr]),
)
def test_no_document_does_harm(document, sides, node, dialect):
    docs = {".zarray" if "shape" in document else ".zgroup": document, **sides}
    problems = Problems(node)
    spec = dialect.parse(docs, node, context(native=False), problems)
    assert isinstance(spec, ArraySpec | GroupSpec)
    if problems.is_fatal or (isinstance(spec, ArraySpec) and spec.problem) or dialect is plain_zarr:
        return
    try:
        again = dialect.render(spec, node, context())
    except HyperslabError:
        return
    problems = Problems(node)
    back = dialect.parse(again, node, context(native=False), problems)
    assert not problems.is_fatal
    assert equal_attrs(back.attrs, spec.attrs)
