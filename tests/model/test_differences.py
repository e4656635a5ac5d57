"""What differs between two nodes: everything is told, untyped values may have got types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.model.differences import differences
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec

BASE = ArraySpec(shape=(2, 3), dtype=np.dtype("f4"), chunks=(2, 3), dims=("y", "x"), attrs={"n": 1, "s": "a"})


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, []),
        ({"chunks": (1, 1)}, []),
        ({"shape": (2, 4)}, ["shape"]),
        ({"dtype": np.dtype("f8")}, ["type"]),
        ({"dims": ("y", "z")}, ["dimensions"]),
        ({"attrs": {"s": "b", "m": 2}}, ["attribute"] * 3),
        ({"shape": (2, 4), "dtype": np.dtype("i4"), "attrs": {"n": 1, "s": "b"}}, ["attribute", "shape", "type"]),
    ],
)
def test_each_is_told(changes: dict[str, Any], kinds: list[str]) -> None:
    assert [problem.kind for problem in differences("a", BASE, BASE.evolve(**changes))] == kinds


def test_a_value_without_type() -> None:
    typed = BASE.evolve(attrs={"n": np.int32(1), "s": "a"})
    assert not differences("a", BASE, typed)
    assert differences("a", typed, BASE)
    assert not differences("a", typed, BASE, either=True)


def test_text_of_two_types_may_be_the_same() -> None:
    string = BASE.evolve(attrs={"n": 1, "s": np.str_("a")})
    assert differences("a", BASE, string)
    assert not differences("a", BASE, string, texts=False)
    assert differences("a", BASE, string.evolve(attrs={"n": 1, "s": np.str_("b")}), texts=False)


def test_groups_and_kinds() -> None:
    unlimited = GroupSpec(dims=(Dimension("t", 2, True),))
    assert [problem.kind for problem in differences("", unlimited, GroupSpec())] == ["dimensions"]
    assert not differences("", unlimited, GroupSpec(), dims=False)
    assert [problem.kind for problem in differences("", GroupSpec(), BASE)] == ["kind"]


def test_a_list_of_one_text_without_type_may_get_the_type_string() -> None:
    words = BASE.evolve(attrs={"n": 1, "s": ["a"]})
    string = BASE.evolve(attrs={"n": 1, "s": np.str_("a")})
    assert differences("a", words, string, texts=False) == differences("a", words, string) == []
