"""No document, however damaged, does more harm than being noted or refused; what is read can be written again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.generation import Context, Generation, NCZarrOptions
from hyperslab.model.spec import ArraySpec, GroupSpec

SMALL = st.sampled_from(
    [None, True, 0, 1, -1, 3, 2**64, 0.5, "", "x", "/x", "/", "a//b", "_scalar_", ">S1", "<f8", [], {}]
)
JSON = st.recursive(
    SMALL | st.text(max_size=3) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ZARRAY = {
    "zarr_format": 2,
    "shape": [3],
    "dtype": "<i4",
    "chunks": [3],
    "fill_value": 0,
    **dict.fromkeys(("compressor", "filters")),
    "order": "C",
}
OWN = {
    "_nczarr_group": ("dimensions", "arrays", "groups"),
    "_nczarr_superblock": ("version",),
    "_nczarr_array": ("dimension_references", "scalar", "storage", "nc_type", "written"),
    "_nczarr_attr": ("types",),
}
CONTEXTS = [
    Context(generation=generation, options=NCZarrOptions(truncate=truncate), provenance={"netcdf": "4.9.2"})
    for generation in Generation
    for truncate in (False, True)
    if generation is Generation.V2C or generation.is_older
]


def some(names: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))


ATTRIBUTES = st.builds(
    lambda plain, own: plain | own,
    some(["_FillValue", "units", "_ARRAY_DIMENSIONS", "_NCProperties", "_nczarr_maxstrlen", "CLASS"], JSON),
    st.fixed_dictionaries(
        {},
        optional={
            name: JSON | some(members, some(["units", "_FillValue", "x"], JSON) | JSON) for name, members in OWN.items()
        },
    ),
)


def survives(docs: dict[str, Any], context: Context) -> None:
    """The documents are refused, or read; what was read is written, and read again as the same."""
    problems = Problems("a")
    spec = current.parse(docs, "a", context, problems)
    assert isinstance(spec, GroupSpec | ArraySpec)
    if problems.is_fatal or context.generation.is_older:
        return
    try:
        written = current.render(spec, "a", context)
    except (Unsupported, Invalid):
        return
    stored = json.loads(json.dumps(written))
    again = current.parse(stored, "a", Context(generation=Generation.V2C, options=context.options), Problems("a"))
    assert set(again.attrs) == set(spec.attrs)
    if isinstance(spec, ArraySpec) and isinstance(again, ArraySpec):
        assert (again.shape, again.dims, again.dtype) == (spec.shape, spec.dims, spec.dtype)


@given(ATTRIBUTES, some(["zarr_format", "_nczarr_group", "_NCZARR_GROUP", "x"], JSON), st.sampled_from(CONTEXTS))
def test_groups(attributes, zgroup, context):
    survives({".zgroup": {"zarr_format": 2} | zgroup, ".zattrs": attributes}, context)


TYPES = ["<i4", ">f8", ">S1", "|S1", "|S7", "<U1", "|b1", "<M8[s]", "|V3", "|O", [["a", "<i4"]], "nonsense"]


@given(ATTRIBUTES, st.sampled_from(TYPES), JSON, some(ZARRAY, JSON), st.sampled_from(CONTEXTS))
def test_arrays(attributes, dtype, fill, changes, context):
    survives({".zarray": {**ZARRAY, "dtype": dtype, "fill_value": fill}, ".zattrs": attributes}, context)
    survives({".zarray": ZARRAY | changes, ".zattrs": attributes}, context)


@given(ATTRIBUTES)
def test_an_array_is_read_whatever_its_attributes_are(attributes):
    problems = Problems("a")
    spec = current.parse({".zarray": ZARRAY, ".zattrs": attributes}, "a", CONTEXTS[-1], problems)
    assert not problems.is_fatal
    assert (spec.dtype, spec.problem) == (np.dtype("i4"), None)
