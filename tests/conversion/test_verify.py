"""Verification finds what differs: a bit of a cell, a type, a dimension, an attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copy import ArrayCopy, CopyProgress
from hyperslab.conversion.selection import Select, Selector
from hyperslab.conversion.verify import compare_cells, compare_specs
from hyperslab.errors import CorruptChunk, FormatError
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.memory import MemoryStore


def _copy(cells: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> ArrayCopy:
    sides = []
    for values in (cells, other):
        store = MemoryStore()
        with hs.create(store) as root:
            root.create_array("a", data=values, dims=("x",), chunks=(4,))
        session = hs.open_group(store)._session
        spec = session.reader.node("a")
        assert isinstance(spec, ArraySpec)
        sides.append((session, session.reader.chunks("a"), spec))
    session, source, spec = sides[0]
    array = hs.Array(session, "a", spec)
    picked = Selector([array], Select({}, {})).pick(array)
    return ArrayCopy("a", picked, source, spec, sides[1][1], sides[1][2], 1 << 20, "a")


def test_one_bit_is_found() -> None:
    cells = np.arange(10.0)
    copy = _copy(cells, cells)
    tally = CopyProgress([copy], lambda now: None)
    compare_cells(copy, Settings(), tally)
    assert (tally.current.done_bytes, tally.current.done_chunks) == (80, 3)
    other = cells.copy()
    other.view("u8")[5] ^= 1
    with pytest.raises(CorruptChunk, match=r"\[4:8\]") as caught:
        compare_cells(_copy(cells, other), Settings(), tally)
    assert caught.value.node == "a"


ATTRS: dict[str, Any] = {"n": 1, "t": np.float32(2), "s": "a"}
BASE = ArraySpec(shape=(2,), dtype=np.dtype("f4"), chunks=(2,), dims=("x",), attrs=ATTRS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": (3,)}, r"shape \(3,\)"),
        ({"dtype": np.dtype("f8")}, "float64"),
        ({"dims": ("y",)}, "'y'"),
        ({"attrs": {"n": 1, "t": np.float64(2), "s": "a"}}, "attribute 't'"),
        ({"attrs": {"n": 2, "t": np.float32(2), "s": "a"}}, "attribute 'n'"),
        ({"attrs": {"n": 1, "t": np.float32(2)}}, "no attribute 's'"),
        ({"attrs": {**ATTRS, "new": 1}}, "new attribute 'new'"),
    ],
)
def test_documents(changes: dict[str, Any], said: str) -> None:
    assert compare_specs("a", BASE, BASE, True) == 3
    with pytest.raises(FormatError, match=said) as caught:
        compare_specs("a", BASE, BASE.evolve(**changes), True)
    assert len(caught.value.problems) == 1
    assert caught.value.remedy == "convert again"


def test_what_a_format_may_add() -> None:
    typed = BASE.evolve(attrs={"n": np.int64(1), "t": np.float32(2), "s": "a"}, dims=("dim_2",))
    assert compare_specs("a", BASE.evolve(dims=(None,)), typed, True) == 3


def test_a_dimension_that_grows_and_the_kind_of_node() -> None:
    group = GroupSpec(dims=(Dimension("t", 2, True),))
    with pytest.raises(FormatError, match="unlimited"):
        compare_specs("g", group, GroupSpec(), True)
    with pytest.raises(FormatError, match="GroupSpec"):
        compare_specs("a", BASE, group, True)
