"""Regions as JSON: the spelling of the specification's page, and that nothing else is taken."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hyperslab.codecs.references import region_of, spelled_region
from hyperslab.errors import FormatError, SelectionError
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Steps
from hyperslab.selection.regions import region_of_key
from hyperslab.testing.datasets import outer_keys, shapes

SHAPE = (5, 8)
PAGE = [
    (
        '{"axes":[{"start":1,"step":1,"stop":4},{"start":0,"step":2,"stop":8}],"shape":[5,8],"type":"slices"}',
        Product((Steps(1, 4), Steps(0, 8, 2)), SHAPE),
    ),
    (
        '{"axes":[{"start":0,"step":1,"stop":5},{"index":[1,5]}],"shape":[5,8],"type":"orthogonal"}',
        Product((Steps(0, 5), (1, 5)), SHAPE),
    ),
    ('{"points":[[0,1],[3,3]],"shape":[5,8],"type":"points"}', Points(((0, 1), (3, 3)), SHAPE)),
    (
        '{"blocks":[[[0,0],[2,3]],[[4,0],[5,8]]],"shape":[5,8],"type":"blocks"}',
        Blocks((((0, 0), (2, 3)), ((4, 0), (5, 8))), SHAPE),
    ),
    ('{"shape":[5,8],"type":"all"}', Everything(SHAPE)),
    ('{"shape":[],"type":"all"}', Everything(())),
    ('{"type":"all"}', Everything()),
    ('{"type":"none"}', Nothing()),
    ('{"points":[],"shape":[5,8],"type":"points"}', Points((), SHAPE)),
]


@pytest.mark.parametrize(("text", "region"), PAGE)
def test_the_spelling_of_the_page(text: str, region: Region) -> None:
    assert region_of(json.loads(text)) == region
    assert json.dumps(spelled_region(region), sort_keys=True, separators=(",", ":")) == text


@given(st.data())
def test_what_is_spelled_is_read_again(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    key = data.draw(st.one_of(outer_keys(shape), npst.arrays(bool, shape)))
    try:
        region = region_of_key(key, shape)
    except SelectionError:
        return
    assert region_of(json.loads(json.dumps(spelled_region(region)))) == region


def test_a_scalar_has_one_cell_along_one_axis_where_there_are_no_others() -> None:
    assert spelled_region(Everything(()), scalar_as_one=True) == {"type": "all", "shape": [1]}
    assert spelled_region(Everything(()), scalar_as_one=False) == {"type": "all", "shape": []}
    assert spelled_region(Everything((3,)), scalar_as_one=True) == {"type": "all", "shape": [3]}


def test_numbers_of_numpy_are_not_spelled() -> None:
    spelled = spelled_region(region_of_key((np.int64(3), np.array([0, 1, 5])), SHAPE))
    assert json.loads(json.dumps(spelled)) == spelled


def slices(**axis: Any) -> dict[str, Any]:
    axes = [{"start": 0, "stop": 5, "step": 1}, {"start": 0, "stop": 8, "step": 1, **axis}]
    return {"type": "slices", "shape": [5, 8], "axes": axes}


def orthogonal(index: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "orthogonal",
        "shape": [5, 8],
        "axes": [{"start": 0, "stop": 5, "step": 1}, {"index": index, **more}],
    }


def points(*points: Any) -> dict[str, Any]:
    return {"type": "points", "shape": [5, 8], "points": list(points)}


def blocks(*blocks: Any) -> dict[str, Any]:
    return {"type": "blocks", "shape": [5, 8], "blocks": list(blocks)}


@pytest.mark.parametrize(
    "document",
    [
        None,
        "all",
        [],
        {},
        {"type": None},
        {"type": ["all"]},
        {"type": "everything"},
        {"type": "all", "shape": None},
        {"type": "all", "shape": [-1]},
        {"type": "all", "shape": [2**63]},
        {"type": "all", "shape": [10**5000]},
        {"type": "all", "shape": [True]},
        {"type": "all", "shape": [5.0]},
        {"type": "all", "shape": {"0": 5}},
        {"type": "slices", "shape": [], "axes": []},
        {"type": "slices", "shape": [5, 8]},
        {"type": "slices", "shape": [5, 8], "axes": {}},
        {"type": "slices", "axes": []},
        {**slices(), "axes": slices()["axes"][:1]},
        {**slices(), "axes": [*slices()["axes"], {"start": 0, "stop": 1, "step": 1}]},
        {**slices(), "axes": [[0, 5, 1], [0, 8, 1]]},
        {**orthogonal([0, 1]), "type": "slices"},
        slices(stop=9),
        slices(step=0),
        slices(step=-1),
        slices(start=-1),
        slices(start=8, stop=7),
        slices(start="0"),
        slices(step=None),
        slices(stop=float("nan")),
        {**slices(), "axes": [{"start": 0, "stop": 5}, {"start": 0, "stop": 8}]},
        orthogonal([0, 8]),
        orthogonal([-1, 0]),
        orthogonal([3, 1]),
        orthogonal([1, 1]),
        orthogonal([True]),
        orthogonal(3),
        orthogonal([0], start=0),
        points([0]),
        points([0, 1, 2]),
        points([0, 8]),
        points([0, -1]),
        points(3),
        points([0, 1.0]),
        {**points(), "points": "[0,1]"},
        {"type": "points", "shape": [], "points": [[]]},
        blocks([[0, 0]]),
        blocks([[0, 0], [5, 8], [1, 1]]),
        blocks([[0, 0], [6, 8]]),
        blocks([[2, 0], [1, 8]]),
        blocks([[0], [5]]),
        blocks([[0, 0], [5]]),
        blocks([0, 0]),
        blocks(0),
        blocks([[0, None], [5, 8]]),
    ],
)
def test_nonsense_is_refused(document: object) -> None:
    with pytest.raises(FormatError, match="region"):
        region_of(document)


@pytest.mark.parametrize(
    "region",
    [
        Product((Steps(0, 6), Steps(0, 8)), SHAPE),
        Product((Steps(0, 5),), SHAPE),
        Product((Steps(0, 5), (3, 1)), SHAPE),
        Product((), ()),
        Points(((0, -1),), SHAPE),
        Points(((0,),), SHAPE),
        Blocks((((0, 0), (6, 8)),), SHAPE),
        Blocks((((0,), (6,)),), SHAPE),
        Everything((-1,)),
    ],
)
def test_what_could_not_be_read_again_is_not_spelled(region: Region) -> None:
    with pytest.raises(SelectionError):
        spelled_region(region)
