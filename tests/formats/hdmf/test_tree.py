"""Nodes and links of a dataset that is written: what they are, what changes them, what ids they get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden_hdmf import opened

from hyperslab.errors import AlreadyExists, Invalid, NodeNotFound
from hyperslab.model.dtypes import ObjectRef, tagged
from hyperslab.model.refs import Link, ObjectReference
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.memory import MemoryStore

INT = np.dtype("i4")
ROOT, ONE, TWO = "id-of-the-root", "id-of-one", "id-of-two"


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def writer(store: MemoryStore, profile: str) -> Any:
    """A root with an id, a group ``g`` with array ``g/a``, a group ``links``."""
    made = opened(store, "x", profile=profile)
    made.put("", GroupSpec(attrs={"object_id": ROOT}))
    made.put("g", GroupSpec(attrs={"object_id": ONE}))
    made.put("g/a", array(made, attrs={"object_id": TWO}))
    made.put("links", GroupSpec())
    return made


def array(writer: Any, dtype: Any = INT, **more: Any) -> ArraySpec:
    given: dict[str, Any] = {"shape": (4,), "chunks": (2,), "dims": ("x",)} | more
    spec: ArraySpec = writer.new_array(ArraySpec(dtype=dtype, **given))
    return spec


def ids(pointer: Any) -> tuple[Any, Any]:
    return pointer.object_id, pointer.source_object_id


def test_a_link_is_a_node_that_nobody_follows(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g/a"))
    for reader in (writer, opened(store)):
        assert reader.node("links/l") == Link("/g/a")
        assert list(reader.children("links")) == ["l"]
        assert list(reader.children("links/l")) == []
        with pytest.raises(NodeNotFound, match="link"):
            reader.chunks("links/l")
        with pytest.raises(NodeNotFound):
            reader.node("links/l/below")


def test_links_stand_behind_real_nodes(writer: Any, store: MemoryStore) -> None:
    writer.put("links/z", Link("/g"))
    writer.put("links/a", Link("/g"))
    writer.put("links/real", GroupSpec())
    assert list(opened(store).children("links")) == ["real", "z", "a"]


def test_a_link_in_the_root(writer: Any, store: MemoryStore) -> None:
    writer.put("l", Link("/g"))
    reader = opened(store)
    assert reader.node("l") == Link("/g")
    assert reader.node("").attrs == {"object_id": ROOT}
    assert list(reader.children("")) == ["g", "links", "l"]


def test_ids_are_completed(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g/a"))
    writer.put("links/nowhere", Link("/nope"))
    writer.put("links/other", Link("/x", source="../b.zarr"))
    reader = opened(store)
    assert ids(reader.node("links/l")) == (TWO, ROOT)
    assert ids(reader.node("links/nowhere")) == (None, ROOT)
    assert ids(reader.node("links/other")) == (None, None)


def test_what_a_link_knows_is_kept(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g", object_id="said", layout={"more": 1}))
    writer.put("links/other", Link("/x", "../b.zarr", "a", "b"))
    reader = opened(store)
    assert ids(reader.node("links/l")) == ("said", ROOT)
    assert reader.node("links/l").layout == {"more": 1}
    assert ids(reader.node("links/other")) == ("a", "b")


def test_ids_of_what_a_batch_makes_later(writer: Any, store: MemoryStore) -> None:
    """A link may be written before its target, in whatever order a tree is copied."""
    with writer.batch():
        writer.put("links/l", Link("/late"))
        writer.put("early", GroupSpec(attrs={"table": ObjectReference("/late")}))
        writer.put("late", GroupSpec(attrs={"object_id": "late-id"}))
    reader = opened(store)
    assert ids(reader.node("links/l")) == ("late-id", ROOT)
    assert ids(reader.node("early").attrs["table"]) == ("late-id", ROOT)


def test_ids_of_reference_attributes(writer: Any, store: MemoryStore) -> None:
    writer.put("g/a", writer.node("g/a").evolve(attrs={"table": ObjectReference("/g"), "object_id": TWO}))
    found = opened(store).node("g/a").attrs["table"]
    assert found == ObjectReference("/g")
    assert ids(found) == (ONE, ROOT)


def test_ids_of_reference_cells(store: MemoryStore) -> None:
    """Profile v2 has them in each cell; v3 has no place for them."""
    made = opened(store, "x")
    made.put("", GroupSpec(attrs={"object_id": ROOT}))
    made.put("g", GroupSpec(attrs={"object_id": ONE}))
    made.put("r", array(made, ObjectRef(), shape=(3,), chunks=(3,)))
    block = np.empty(3, object)
    block[:2] = [ObjectReference("/g"), ObjectReference("/x", "../b.zarr")]
    made.chunks("r").write((0,), block)
    assert block[0].object_id is None
    found = opened(store).chunks("r").read((0,))
    assert found.tolist() == block.tolist()
    assert [ids(cell) for cell in found[:2]] == [(ONE, ROOT), (None, None)]


def test_attributes_leave_links_alone(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g"))
    writer.put("links", GroupSpec(attrs={"n": 1}))
    reader = opened(store)
    assert reader.node("links").attrs == {"n": 1}
    assert list(reader.children("links")) == ["l"]


def test_links_of_another_group_are_not_taken_with_its_layout(writer: Any, store: MemoryStore) -> None:
    """A group that is copied brings its links one by one, for they may have to be told anew where they lead."""
    writer.put("links/l", Link("/g"))
    writer.put("copy", writer.node("links"))
    assert list(opened(store).children("copy")) == []


def test_a_link_is_replaced(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g"))
    writer.put("links/l", Link("/g/a"))
    assert opened(store).node("links/l") == Link("/g/a")
    writer.put("links/l", array(writer))
    reader = opened(store)
    assert isinstance(reader.node("links/l"), ArraySpec)
    assert list(reader.children("links")) == ["l"]


def test_a_link_goes(writer: Any, store: MemoryStore) -> None:
    for name in ("l", "m"):
        writer.put(f"links/{name}", Link("/g"))
    writer.drop("links/l")
    for reader in (writer, opened(store)):
        assert list(reader.children("links")) == ["m"]
        with pytest.raises(NodeNotFound):
            reader.node("links/l")
        assert isinstance(reader.node("g"), GroupSpec)
    writer.drop("links")
    with pytest.raises(NodeNotFound):
        opened(store).node("links/m")


def test_a_link_moves(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g", layout={"more": 1}))
    writer.move("links/l", "g/new")
    reader = opened(store)
    assert reader.node("g/new").layout == {"more": 1}
    assert list(reader.children("links")) == []
    writer.move("links", "g/links")
    writer.move("g/new", "g/renamed")
    assert list(opened(store).children("g")) == ["a", "links", "renamed"]


def test_what_is_refused(writer: Any) -> None:
    writer.put("links/l", Link("/g"))
    with pytest.raises(AlreadyExists, match="this name"):
        writer.put("g/a", Link("/g"))
    with pytest.raises(AlreadyExists):
        writer.move("g", "links/l")
    with pytest.raises(AlreadyExists):
        writer.move("links/l", "g/a")
    with pytest.raises(Invalid, match="no other nodes"):
        writer.put("g/a/l", Link("/g"))
    with pytest.raises(Invalid, match="holds no nodes"):
        writer.put("links/l/below", GroupSpec())
    with pytest.raises(Invalid, match="root"):
        writer.put("", Link("/g"))
    assert writer.node("links/l") == Link("/g")


def test_changes_of_others_are_seen_after_refresh(writer: Any, store: MemoryStore) -> None:
    writer.put("links/l", Link("/g"))
    second = opened(store, "r+")
    assert second.node("links/l") == Link("/g")
    writer.put("links/l", Link("/g/a"))
    second.refresh("links/l")
    assert second.node("links/l") == Link("/g/a")
    with second.lock_node("links"):
        second.put("links/m", Link("/g"))
    writer.put("links/n", Link("/g"))
    assert list(opened(store).children("links")) == ["l", "m", "n"]


def test_a_new_root_is_known(store: MemoryStore, profile: str) -> None:
    """By an empty list of links, until something else tells what it is."""
    writer = opened(store, "x", profile=profile)
    name, key = (".zattrs", b"zarr_link") if profile == "v2" else ("zarr.json", b"_LINKS")
    assert key in store.get(name)
    assert writer.node("").attrs == {}
    writer.put("", GroupSpec(attrs={"neurodata_type": "Root"}))
    assert key not in store.get(name)


def test_ids_in_a_store_that_swaps() -> None:
    """A bucket takes a chunk only in place of the version that was read; ids are completed there too."""
    place = pytest.importorskip("obstore.store").MemoryStore()
    made = opened(place, "x")
    made.put("", GroupSpec(attrs={"object_id": ROOT}))
    fields = [("n", "i4"), ("ref", tagged(np.dtype(object), ObjectRef()))]
    made.put("r", array(made, ObjectRef(), shape=(2,)))
    made.put("rows", array(made, np.dtype(fields), shape=(2,)))
    cell = np.empty(2, object)
    cell[0] = ObjectReference("/")
    made.chunks("r").swap([((0,), cell)], None)
    rows = np.zeros(2, fields)
    rows["ref"] = [ObjectReference("/r"), None]
    made.chunks("rows").write((0,), rows)
    reader = opened(place)
    assert ids(reader.chunks("r").read((0,))[0]) == (ROOT, ROOT)
    assert ids(reader.chunks("rows").read((0,))["ref"][0]) == (None, ROOT)
    assert rows["ref"][0].source_object_id is None


def test_ids_that_come_later_change_nothing_that_another_writer_put_there(writer: Any, store: MemoryStore) -> None:
    other = opened(store, "r+")
    writer.put("links/l", Link("/later"))
    other.put("links/more", Link("/g"))
    other.put("links", other.node("links").evolve(attrs={"by": "another"}))
    writer.put("later", GroupSpec(attrs={"object_id": "late"}))
    with writer.batch():
        writer.put("one", GroupSpec())
    links = opened(store)
    assert ids(links.node("links/l")) == ("late", ROOT) and ids(links.node("links/more")) == (ONE, ROOT)
    assert links.node("links").attrs == {"by": "another"}


def test_a_root_that_names_its_specifications_keeps_what_another_writer_said(writer: Any, store: MemoryStore) -> None:
    other = opened(store, "r+")
    for number, change in enumerate(
        [
            lambda: writer.put("specifications/core", GroupSpec()),
            lambda: writer.move("specifications", "schemas"),
            lambda: writer.drop("schemas"),
        ]
    ):
        other.refresh("")
        other.put("", other.node("").evolve(attrs={"object_id": ROOT, "number": number}))
        change()
        assert opened(store).node("").attrs["number"] == number


def test_a_node_in_place_of_a_link_takes_none_of_the_links_of_another_writer(writer: Any, store: MemoryStore) -> None:
    other = opened(store, "r+")
    writer.put("links/l", Link("/g"))
    other.put("links/more", Link("/g"))
    writer.put("links/l", GroupSpec())
    assert list(opened(store).children("links")) == ["l", "more"]
    assert isinstance(opened(store).node("links/l"), GroupSpec)
