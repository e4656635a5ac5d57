"""What is said of groups and arrays in JSON comes back; what makes no sense is an error of ours."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hyperslab.errors import FormatError
from hyperslab.formats.metadata_json.nodes import node_from_json, node_to_json
from hyperslab.model.attrs import equal_attrs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec

ATTRS = {"title": "air", "f4": np.float32(0.1), "many": np.array([1, 2], "i2"), "nan": float("nan")}


def array(**more: Any) -> ArraySpec:
    given: dict[str, Any] = {"shape": (2, 3), "dtype": np.dtype("f4"), "chunks": (2, 3)} | more
    return ArraySpec(**given)


@pytest.mark.parametrize(
    "spec",
    [
        GroupSpec(),
        GroupSpec(attrs=ATTRS, dims=(Dimension("t", 5, unlimited=True), Dimension("x", 2))),
        array(),
        array(dims=("t", None), attrs=ATTRS, fill_value=np.float32("nan")),
        array(dtype=np.dtype("M8[s]"), fill_value=np.datetime64("NaT", "s")),
        array(dtype=VlenString(), fill_value="none"),
    ],
)
def test_there_and_back(spec: GroupSpec | ArraySpec) -> None:
    said = json.loads(json.dumps(node_to_json(spec)))
    bare = None if isinstance(spec, GroupSpec) else spec.evolve(dims=(None, None), attrs={}, fill_value=None)
    found = node_from_json(said, bare)
    assert equal_attrs(found.attrs, spec.attrs) and found.dims == spec.dims
    if isinstance(spec, ArraySpec) and isinstance(found, ArraySpec):
        assert np.array_equal(found.fill_cell(), spec.fill_cell(), equal_nan=spec.numpy_dtype.kind in "fM")


def test_what_goes_without_saying_is_not_said() -> None:
    assert node_to_json(GroupSpec()) == node_to_json(array()) == {}


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"attrs": []},
        {"attrs": {"a": 1}, "types": 5},
        {"dims": {"t": {"size": -1}}},
        {"dims": {"t": {}}},
        {"dims": {"t": 5}},
        {"dims": ["t"]},
    ],
)
def test_nonsense_of_a_group(said: Any) -> None:
    with pytest.raises(FormatError, match="make"):
        node_from_json(said, None)


@pytest.mark.parametrize(
    "said",
    [[], {"dims": ["t"]}, {"dims": [1, 2]}, {"dims": "ab"}, {"fill_value": {}}, {"fill_value": "x"}, {"attrs": 1}],
)
def test_nonsense_of_an_array(said: Any) -> None:
    with pytest.raises(FormatError, match="make"):
        node_from_json(said, array())


def test_a_fill_value_that_is_no_text() -> None:
    with pytest.raises(FormatError, match="no text"):
        node_from_json({"fill_value": 5}, array(dtype=VlenString()))
