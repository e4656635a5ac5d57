"""The document of a root of collections: what is written is read again, and what makes no sense is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hyperslab.errors import FormatError
from hyperslab.formats.collections.tree import ArrayEntry, Tree, parse_tree, render_tree
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec

EMPTY = ArraySpec(shape=(0, 3), dtype=np.dtype("f4"), chunks=(1, 3), dims=("n", None), fill_value=np.float32(np.nan))


def test_what_is_written_is_read_again() -> None:
    tree = (
        Tree()
        .with_group("", GroupSpec(attrs={"title": "é"}, dims=(Dimension("t", 4, unlimited=True),)))
        .with_array(
            "a/b/v",
            ArrayEntry(("t", None), {"scale": np.float32(0.5)}, "a.b.v", "6f0c2d5e-0d51-4c3e-9d5e-2f3a8d1f7b11"),
        )
        .with_array("a/empty", ArrayEntry(("n", None), {}, inline_spec=EMPTY))
    )
    again = parse_tree(render_tree(tree))
    assert list(again.groups) == ["", "a", "a/b"]
    assert again.groups[""].attrs == {"title": "é"}
    assert again.is_unlimited("a/b/v", "t")
    kept = again.arrays["a/b/v"]
    assert (kept.dims, kept.collection) == (("t", None), "a.b.v")
    assert type(kept.attrs["scale"]) is np.float32
    found = again.arrays["a/empty"].inline_spec
    assert found is not None
    assert (found.shape, found.dtype, found.chunks, found.dims) == (EMPTY.shape, EMPTY.dtype, EMPTY.chunks, EMPTY.dims)
    assert np.isnan(found.fill_value)
    assert render_tree(again) == render_tree(tree)


def test_what_is_below_and_without() -> None:
    tree = Tree().with_array("a/b/v", ArrayEntry(("x",), {}, "a.b.v", "i")).with_group("ab", GroupSpec())
    assert (tree.names_below(""), tree.names_below("a"), tree.names_below("a/b")) == (["a", "ab"], ["b"], ["v"])
    assert tree.without_node("a").names_below("") == ["ab"]
    assert [kept.collection for kept in tree.entries_within("a")] == ["a.b.v"]
    assert tree.without_node("").names_below("") == []


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        "null",
        {"version": 2},
        {"version": 1, "groups": []},
        {"version": 1, "arrays": {"v": {"dims": ["x"]}}},
        {"version": 1, "arrays": {"v": {"dims": [1], "collection": "v", "id": "i"}}},
        {"version": 1, "arrays": {"v": {"dims": ["x"], "collection": 5, "id": "i"}}},
        {"version": 1, "arrays": {"../v": {"dims": ["x"], "collection": "v", "id": "i"}}},
        {"version": 1, "arrays": {"v": {"dims": ["x"], "shape": [-1], "chunks": [1], "dtype": "<f4", "fill_value": 0}}},
        {"version": 1, "arrays": {"v": {"dims": ["x"], "shape": [0], "chunks": [1], "dtype": "?!", "fill_value": 0}}},
        {"version": 1, "groups": {"g": {"dims": {"x": {"size": "many"}}}}},
        "[" * 100_000,
    ],
)
def test_documents_that_make_no_sense(said: Any) -> None:
    data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
    with pytest.raises(FormatError, match="makes no sense"):
        parse_tree(data)
