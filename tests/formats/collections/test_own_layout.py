"""Our own layout of collections: in a folder, in memory and in a bucket alike."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_store import SETTINGS, START, ids, key_of, kinds, made, opened, record, schema, tiled

import hyperslab as hs
from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound, ReadOnly, SchemaError
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.deker.store import LAYOUT as DEKER
from hyperslab.formats.collections.own.layout import LAYOUT
from hyperslab.model.schemas import ArraySchema, AttributeSchema, Record
from hyperslab.model.schemas.arrays import new_id
from hyperslab.stores import MemoryStore
from hyperslab.stores.location import Location
from servers.s3 import S3

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(params=["folder", "memory", "bucket"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    if request.param == "folder":
        yield Location.of(tmp_path / "root")
    elif request.param == "memory":
        name = uuid.uuid4().hex
        yield Location.of(f"memory://{name}")
        MemoryStore.forget(name)
    else:
        s3: S3 = request.getfixturevalue("s3")
        yield Location.of(f"s3://{s3.bucket()}/root", s3.options)


def test_collections_are_made_listed_opened_and_dropped(where: Location) -> None:
    assert list(LAYOUT.names(where)) == []
    assert LAYOUT.open(where, "b", SETTINGS, writable=False) is None
    made(where, name="b")
    holding = made(where, tiled(), name="a é")
    assert list(LAYOUT.names(where)) == ["a é", "b"]
    assert opened(where, "a é").document == holding.document
    assert opened(where, "a é").document.schema == tiled()
    assert holding.exists()
    with pytest.raises(AlreadyExists, match="the collection 'b' exists"):
        made(where, tiled(), name="b")
    holding.create([record(1)])
    holding.drop()
    holding.drop()
    assert not holding.exists()
    assert list(LAYOUT.names(where)) == ["b"]
    again = made(where, name="a é")
    assert not holding.exists()
    assert again.exists()
    assert ids(again) == set()
    assert list(LAYOUT.find_damage(where)) == []


def test_a_collection_that_was_not_removed_to_the_end(where: Location) -> None:
    holding = made(where)
    made(where, name="other")
    holding.create([record(number) for number in range(3)])
    holding.store.delete(holding.keys.document)
    assert list(LAYOUT.names(where)) == ["other"]
    (remedy,) = LAYOUT.find_damage(where)
    assert (remedy.problem.kind, remedy.problem.node) == ("leftover", "weather")
    assert list(DEKER.find_damage(where)) == []
    made(where).create([record(1)])
    assert remedy.act is not None
    remedy.act()
    assert len(ids(opened(where))) == 1
    holding.store.delete(holding.keys.document)
    (remedy,) = LAYOUT.find_damage(where)
    assert remedy.act is not None
    remedy.act()
    assert list(LAYOUT.find_damage(where)) == []
    assert list(holding.store.list(holding.keys.base)) == []


def test_an_empty_database_stays_one(tmp_path: Path) -> None:
    """Also when the last collection is removed; at no moment is it no database."""
    with hs.create(tmp_path / "db", format="collections"):
        pass
    for name in ("a", "b"):
        made(Location.of(tmp_path / "db"), name=name)
    folder = os.stat(tmp_path / "db/collections")
    for name in ("a", "b"):
        opened(Location.of(tmp_path / "db"), name).drop()
    assert os.path.samestat(folder, os.stat(tmp_path / "db/collections"))
    with hs.open(tmp_path / "db") as root:
        assert list(root) == []


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "/abs", "../../x", "a\0b", "x" * 300, "a\\b", "x.lock"])
def test_names_lead_nowhere_else(where: Location, name: str) -> None:
    with pytest.raises(SchemaError):
        made(where, name=name)
    assert LAYOUT.open(where, name, SETTINGS, writable=False) is None


def test_arrays_are_made_found_changed_and_removed(where: Location) -> None:
    holding = made(where)
    first, second = record(1, note="é", level=1.5), record(1, "../../x\0'\"😀/abs")
    holding.create([first])
    holding.create([second])
    other = opened(where)
    assert (other.record(first.id), other.record(second.id)) == (first, second)
    assert (other.id_of(key_of(first)), other.id_of(key_of(second))) == (first.id, second.id)
    assert other.id_of((START, "none")) is None
    assert ids(other) == {first.id, second.id}
    changed = other.update(first.id, lambda now: replace(now, custom={**now.custom, "note": "new"}))
    assert changed == holding.record(first.id)
    assert changed.custom == {"note": "new", "level": 1.5}
    assert list(holding.unsettled_ids()) == []
    holding.remove(first.id)
    holding.remove(first.id)
    with pytest.raises(NodeNotFound, match=first.id):
        other.record(first.id)
    with pytest.raises(NodeNotFound):
        other.update(first.id, lambda now: now)
    assert other.id_of(key_of(first)) is None
    holding.create([replace(first, id=new_id())])
    other.clear()
    assert ids(holding) == set()
    assert holding.id_of(key_of(second)) is None
    assert kinds(holding, deep=True) == []
    assert [key for key in holding.store.list("") if "generations" not in key and "/index." not in key] == [
        "collections/weather/collection.json"
    ]


@pytest.mark.covering
@pytest.mark.parametrize("id", ["", "..", "x" * 36, "../" * 12, "0" * 36, "00000000-0000-0000-0000-00000000000/"])
def test_what_is_no_id_is_no_array(where: Location, id: str) -> None:
    holding = made(where)
    for ask in (holding.record, holding.spec):
        with pytest.raises(NodeNotFound):
            ask(id)
    assert holding.stamp(id) is None
    assert list(holding.records([id])) == []
    holding.remove(id)


def test_a_key_and_an_id_are_taken_once(where: Location) -> None:
    holding = made(where)
    first = record(1, id="0A" + new_id()[2:].upper())
    holding.create([first])
    assert holding.record(first.id).id == first.id
    with pytest.raises(AlreadyExists, match="primary attributes"):
        holding.create([record(1)])
    with pytest.raises(AlreadyExists, match=first.id):
        holding.create([record(2, id=first.id)])
    with pytest.raises(AlreadyExists):
        holding.create([first])
    for batch in ([record(3), record(3)], [record(3), record(4, id=first.id)], [record(3), record(4), record(1)]):
        with pytest.raises(AlreadyExists):
            holding.create(batch)
    assert ids(holding) == {first.id}
    assert holding.record(first.id) == first
    assert kinds(holding) == []
    holding.create([record(3), record(4)])
    assert len(ids(holding)) == 3


def test_many_are_made_at_once_all_or_none(where: Location) -> None:
    many = [record(number) for number in range(40 if where.scheme == "s3" else 150)]
    holding = made(where, settings=replace(SETTINGS, durable=True))
    holding.create([many[7]])
    with pytest.raises(AlreadyExists):
        holding.create([record(number) for number in range(len(many))])
    assert ids(holding) == {many[7].id}
    holding.create([found for number, found in enumerate(many) if number != 7])
    assert ids(holding) == {found.id for found in many}
    assert [holding.id_of(key_of(found)) for found in many] == [found.id for found in many]
    assert {found.id: found for found in holding.records(ids(holding))} == {found.id: found for found in many}
    assert kinds(holding) == []


def test_without_primary_attributes(where: Location) -> None:
    bare = schema(attributes=(AttributeSchema("dt", type(START), False), AttributeSchema("n", int, False)))
    holding = made(where, bare)
    first = Record(new_id(), {}, {"dt": START, "n": None})
    holding.create([first, replace(first, id=new_id())])
    with pytest.raises(AlreadyExists, match="with the id"):
        holding.create([first])
    assert holding.record(first.id) == first
    assert len(ids(holding)) == 2
    assert holding.id_of(()) is None
    holding.update(first.id, lambda now: replace(now, custom={**now.custom, "n": 7}))
    assert holding.record(first.id).custom["n"] == 7
    assert list(holding.unsettled_ids()) == []
    assert kinds(holding) == []
    holding.remove(first.id)
    assert len(ids(holding)) == 1


def test_generations_and_listings_follow_each_change(where: Location) -> None:
    """Each change changes the generation of its part alone."""
    holding = made(where)
    assert dict(holding.generations()) == {}
    first, other = record(1, id="aa" + new_id()[2:]), record(2, id="bb" + new_id()[2:])
    holding.create([first, other])
    seen = []

    def look() -> None:
        seen.append((dict(holding.generations()), dict(holding.list_part("aa"))))
        assert all(holding.stamp(id) == stamp for id, stamp in seen[-1][1].items())

    look()
    holding.update(first.id, lambda now: replace(now, custom={**now.custom, "note": "x"}))
    look()
    holding.create([record(3, id="aa" + new_id()[2:])])
    look()
    holding.remove(first.id)
    look()
    assert [set(generations) for generations, _ in seen] == [{"aa", "bb"}] * 4
    assert len({generations["aa"] for generations, _ in seen}) == 4
    assert len({generations["bb"] for generations, _ in seen}) == 1
    assert [len(listing) for _, listing in seen] == [1, 1, 2, 1]
    assert seen[0][1][first.id] != seen[1][1][first.id]
    assert dict(holding.list_part("cc")) == {}


def test_a_document_without_its_key_is_no_array(where: Location) -> None:
    """It is listed, for it may be in the making, but it is not committed, not found, not changed and not removed."""
    holding = made(where)
    done, begun = record(1), record(2)
    holding.create([done])
    holding.store.put(holding.keys.array_document(begun.id), holding.documents.new_document(begun))
    assert begun.id in holding.list_part(begun.id[:2])
    assert list(holding.filter_committed([begun, done])) == [done]
    assert list(holding.records([begun.id])) == [begun]
    for ask in (holding.record, lambda id: holding.update(id, lambda now: now)):
        with pytest.raises(NodeNotFound):
            ask(begun.id)
    holding.remove(begun.id)
    assert holding.spec(begun.id).shape == (4, 6, 2)


def test_an_update_goes_by_what_is_stored(where: Location) -> None:
    """And not by what this one remembers; a spec that is put takes back no other one's change."""
    holding, other = made(where), opened(where)
    first = record(1, note="a", level=1.0)
    holding.create([first])
    spec = holding.spec(first.id)
    other.update(first.id, lambda now: replace(now, custom={**now.custom, "level": 2.0}))
    holding.update(first.id, lambda now: replace(now, custom={**now.custom, "note": "b"}))
    assert holding.record(first.id).custom == {"note": "b", "level": 2.0}
    stale = spec.evolve(attrs={**spec.attrs, "custom_attributes": {"note": "c", "level": 1.0}})
    holding.put_spec(first.id, stale)
    assert other.record(first.id).custom == {"note": "c", "level": 2.0}
    with pytest.raises(Invalid, match="never change"):
        holding.put_spec(first.id, spec.evolve(attrs={**spec.attrs, "primary_attributes": {"dt": "x"}}))
    with pytest.raises(Invalid, match="only unlimited dimensions"):
        holding.put_spec(first.id, spec.evolve(shape=(5, 6, 2)))
    with pytest.raises(ZeroDivisionError):
        holding.update(first.id, lambda now: 1 // 0)  # type: ignore[arg-type,return-value]
    assert list(holding.unsettled_ids()) == []


@pytest.mark.covering
@pytest.mark.parametrize("what", [schema(), tiled()], ids=["array", "varray"])
def test_cells(where: Location, what: ArraySchema) -> None:
    holding = made(where, what)
    first = record(1)
    holding.create([first])
    spec = holding.spec(first.id)
    assert spec.dims == ("hour", "y", "what")
    assert set(spec.indexes) == {"hour", "y", "what"}
    source = holding.chunks(first.id, spec)
    assert source.read((0, 0, 0)) is None
    before = holding.nbytes_stored()
    block = source.grid.chunk_shape((0, 0, 0))
    cells = np.arange(np.prod(block)).reshape(block).astype(spec.dtype)
    source.write((0, 0, 0), cells)
    again = opened(where).chunks(first.id, opened(where).spec(first.id))
    np.testing.assert_array_equal(again.read((0, 0, 0)), cells)
    assert holding.nbytes_stored() > before
    assert kinds(holding, deep=True) == []
    holding.remove(first.id)
    with pytest.raises(NodeNotFound):
        holding.spec(first.id)


def test_read_only(where: Location) -> None:
    made(where).create([record(1)])
    holding = opened(where, writable=False)
    before = {key: holding.store.get(key) for key in holding.store.list("")}
    (id,) = ids(holding)
    assert kinds(holding, deep=True) == []
    for change in (
        lambda: holding.create([record(2)]),
        lambda: holding.update(id, lambda now: now),
        lambda: holding.put_spec(id, holding.spec(id)),
        lambda: holding.remove(id),
        holding.clear,
        holding.drop,
    ):
        with pytest.raises(ReadOnly):
            change()
    assert {key: holding.store.get(key) for key in holding.store.list("")} == before


def test_a_damaged_document_is_told_and_hides_no_other(where: Location) -> None:
    holding = made(where)
    first, second = record(1), record(2)
    holding.create([first, second])
    for damage in (b"", b"{", b"[]", b'{"attributes": {}}', holding.documents.new_document(second)):
        holding.store.put(holding.keys.array_document(first.id), damage)
        with pytest.raises(FormatError) as caught:
            holding.record(first.id)
        assert first.id in str(caught.value)
        assert list(holding.records([first.id, second.id])) == [second]
        assert kinds(holding)
    holding.remove(first.id)
    assert kinds(holding) == []
    assert holding.id_of(key_of(first)) is None


def test_a_damaged_collection(where: Location) -> None:
    holding = made(where)
    for damage in (b"", b"{", b"[]", b"{}"):
        holding.store.put(holding.keys.document, damage)
        with pytest.raises(FormatError) as caught:
            opened(where)
        assert "collections/weather/collection.json" in str(caught.value)
        assert not holding.exists()
        assert list(LAYOUT.names(where)) == ["weather"]
    with pytest.raises(AlreadyExists):
        LAYOUT.create(where, CollectionDocument("weather", schema()), SETTINGS)
