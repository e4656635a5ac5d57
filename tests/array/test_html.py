"""Notebook pages: what they say, that hostile names and values stay text, and that no cell is read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from html_pages import PAYLOADS, Page, check
from hyperslab.array import html
from hyperslab.array.html import cells_html
from hyperslab.errors import CorruptChunk
from hyperslab.group.html import MOST_NODES
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores import MemoryStore


@pytest.fixture
def root() -> Any:
    """Two arrays, one of them a coordinate, and a group with a large one."""
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_array("time", data=np.arange(6), dims=("time",), attrs={"units": "hours since 2000-01-01"})
    attrs = {"units": "K", "long_name": "air temperature", "valid_range": np.array([150, 350], "f4")}
    root.create_array("t", data=np.ones((6, 5)), dims=("time", "x"), chunks=(4, 2), attrs=attrs)
    root.create_group("forecast", attrs={"model": "none"})
    root.create_array("forecast/rain", shape=(10**6, 10**6), dtype="f4", chunks=(1000, 1000))
    return root


def test_the_page_of_an_array(root: Any) -> None:
    text = check(root["t"]._repr_html_()).text
    for word in (
        "/t",
        "time: 6, x: 5",
        "float64",
        "240 bytes",
        "64 bytes",
        "(4, 2)",
        "6 chunks",
        "air temperature",
        "[150.0, 350.0]",
    ):
        assert word in text
    assert "Stored" in text
    assert root["t"]._repr_html_().count("<svg") == 1


def test_the_page_of_a_group(root: Any) -> None:
    page = check(root._repr_html_())
    for word in ("Coordinates (1)", "Arrays (1)", "Groups (1)", "forecast/", "rain", "air temperature [K]", "time : 6"):
        assert word in re.sub(r"\s+", " ", page.text)
    assert page.tags.count("svg") == 3


def test_pages_read_no_cell(root: Any) -> None:
    before = root._repr_html_(), root["t"]._repr_html_()
    chunks = [key for key in root.store.list() if not key.endswith("zarr.json")]
    assert chunks
    for key in chunks:
        root.store.put(key, b"\xff" * root.store.size(key))
    fresh = hs.open(root.store)
    assert (fresh._repr_html_(), fresh["t"]._repr_html_()) == before
    with pytest.raises(CorruptChunk):
        fresh["t"][...]


def test_the_stored_size_of_many_chunks_is_not_asked_for(root: Any) -> None:
    assert "Stored" not in root["forecast/rain"]._repr_html_()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_attributes_stay_text(root: Any, payload: str) -> None:
    values = {payload: "x", "y": payload, "z": [payload, {payload: payload}], "units": payload, "long_name": payload}
    root.attrs.update(values)
    root["t"].attrs.update(values)
    for page in (root._repr_html_(), root["t"]._repr_html_()):
        read = check(page)
        assert "alert(1)" not in payload or "alert(1)" in read.text


@pytest.mark.parametrize("payload", [text for text in PAYLOADS if "/" not in text and "\x00" not in text])
def test_hostile_names_stay_text(payload: str) -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_group(payload)
    root.create_array(f"{payload}/{payload}", data=np.arange(3), dims=(payload,))
    root.create_array("a", data=np.arange(3), dims=(payload,), fill_value=1)
    for page in (root._repr_html_(), root[payload]._repr_html_(), root[payload][payload]._repr_html_()):
        check(page)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_safe_text(value: str) -> None:
    escaped = html.text(value)
    escaped.encode()
    assert not set(escaped) & set("<>\"'\x00\x1b\u202e")
    read = Page(f'<span class="{escaped}">{escaped}</span>')
    assert read.tags == ["span"]
    assert read.attributes == {"class"}


def test_long_values_are_cut() -> None:
    assert len(html.text("x" * 10**6)) < 600
    assert html.value_text(np.arange(1000)) == html.text(f"{[*range(20)]}"[:-1] + ", … 1,000 in all]")
    assert html.value_text(np.float32(1.5)) == "1.5"
    assert len(html.value_text([["y" * 10**5]] * 30)) < 600


def test_many_attributes_are_counted() -> None:
    page = html.attributes({f"a{i}": i for i in range(1000)})
    assert Page(page).tags.count("dt") == html.MOST_ATTRIBUTES + 1
    assert "800 more" in page
    assert "<details>" in page


def test_groups_with_many_nodes_are_bounded() -> None:
    root = hs.create(MemoryStore(), format="zarr3")
    with root.batch():
        for i in range(MOST_NODES + 50):
            root.create_group(f"g{i:03}/below")
    page = check(root._repr_html_())
    assert "… and 50 more" in page.text
    assert page.text.count("/") < MOST_NODES + 10


def test_absurd_and_damaged_specs_have_a_page() -> None:
    absurd = ArraySpec(shape=(2**62,) * 60, dtype=np.dtype("f8"), chunks=(1,) * 60)
    assert "2^" in check(cells_html(absurd)).text
    scalar = ArraySpec(shape=(), dtype=np.dtype("i2"), chunks=(), fill_value=np.int16(3))
    assert "<svg" not in cells_html(scalar)
    unknown = scalar.evolve(codecs=(Codec("<b>"),), problem="codec '<b>' is unknown")
    assert "codec '<b>' is unknown" in check(cells_html(unknown)).text


def test_shards_stand_beside_chunks(root: Any) -> None:
    root.create_array("s", shape=(100, 100), dtype="i2", chunks=(10, 10), shards=(50, 50))
    text = check(root["s"]._repr_html_()).text
    assert "(10, 10)" in text
    assert "(50, 50), 4 in all" in text
