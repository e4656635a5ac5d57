"""Consolidated metadata: of netcdf-c, of the draft with what stands beside it, and where nothing can be listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_stores import unpack

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.formats.documents import read_document
from hyperslab.stores.memory import MemoryStore


class Unlisted(MemoryStore):
    """A server that lists nothing."""

    def list_dir(self, prefix: str = "") -> Any:
        raise Unsupported("listing")


def copy_of(store: MemoryStore) -> dict[str, Any]:
    return read_document(store.get(".zmetadata") or b"{}", ".zmetadata")


@pytest.mark.parametrize("store", ["attrs_jsonlike", "attrs_badjson"])
def test_text_without_quotes_in_a_copy(tmp_path: Path, store: str) -> None:
    """Attributes that netcdf-c wrote without quotes are the same text when they are read from a copy."""
    place = unpack("4.10.1", tmp_path) / store
    before = hs.open(place)
    expected = {name: dict(before[name].attrs) for name in before} | {"": dict(before.attrs)}
    keys = [path.relative_to(place).as_posix() for path in place.rglob(".z*")]
    entries = ", ".join(f"{json.dumps(key)}: {(place / key).read_text()}" for key in keys)
    (place / ".zmetadata").write_text(f'{{"metadata": {{{entries}}}, "zarr_consolidated_format": 1}}')
    with hs.trace() as cost:
        after = hs.open(place)
        found = {name: dict(after[name].attrs) for name in after} | {"": dict(after.attrs)}
    assert cost.requests <= 2
    assert {path: list(attrs) for path, attrs in found.items()} == {
        path: list(attrs) for path, attrs in expected.items()
    }
    assert str(found) == str(expected)


def test_two_requests_open_a_draft() -> None:
    store = MemoryStore()
    root = hs.create(store, "nczarr", dialect="draft")
    for name in ("z", "g/b", "g/a"):
        root.create_array(name, data=np.arange(3.0), dims=("x",), attrs={"units": "K"})
    with hs.trace() as cost:
        again = hs.open(store)
        assert (list(again), list(again["g"])) == (["z", "g"], ["b", "a"])
        assert again["g/b"].dims == ("x",)
        assert again["g/b"].attrs["units"] == "K"
    assert (again.format, cost.requests) == ("nczarr", 2)


def test_order_of_the_draft_outlives_changes() -> None:
    """Through moves, new copies, and a copy that others wrote without it."""
    store = MemoryStore()
    root = hs.create(store, "nczarr", dialect="draft")
    for name in ("z", "y", "x", "g/b", "g/a"):
        root.create_array(name, data=np.arange(3.0), dims=("n",))
    root.move("g", "h")
    root._session.reader.consolidate()
    root.move("y", "last")
    for again in (root, hs.open(store)):
        assert list(again) == ["z", "x", "h", "last"]
        assert list(again["h"]) == ["b", "a"]
    copy = copy_of(store)
    store.put(".zmetadata", json.dumps({key: copy[key] for key in ("metadata", "zarr_consolidated_format")}).encode())
    again = hs.open(store)
    assert again.format == "nczarr"
    assert list(again) == ["z", "x", "h", "last"]
    assert again["h/b"].dims == ("n",)
    assert again["h/b"].spec.layout["dimensions"] == ("/n",)


def test_a_copy_that_is_lost_is_made_again() -> None:
    """The draft always has one, since plain readers warn of documents that it does not name."""
    store = MemoryStore()
    hs.create(store, "nczarr", dialect="draft").create_array("a", data=np.arange(3.0), dims=("n",))
    store.delete(".zmetadata")
    hs.open(store, "r+").attrs["n"] = 1
    assert set(copy_of(store)["nczarr"]["documents"]) >= {".zdataset", ".zdims", ".zattr_type"}
    assert set(copy_of(store)["metadata"]) == {".zgroup", ".zattrs", "a/.zarray", "a/.zattrs"}


def test_where_nothing_is_listed() -> None:
    """Groups of the present dialect say what they hold."""
    store = MemoryStore()
    root = hs.create(store, "nczarr")
    root.create_array("g/a", data=np.arange(3.0), dims=("x",))
    root.create_array("b", data=np.arange(3.0), dims=("x",))
    server = Unlisted()
    server._shelf = store._shelf
    again = hs.open(server)
    assert again.format == "nczarr"
    assert (list(again), list(again["g"])) == (["b", "g"], ["a"])
    assert again["g/a"][::-1].tolist() == [2, 1, 0]
