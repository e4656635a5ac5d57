"""Consolidated metadata: read by few requests, followed by every change, never stale, not even after a crash."""

from __future__ import annotations

import json

import numpy as np
import pytest
from counting import CountingStore

from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound, StorageError
from hyperslab.formats import zarr2, zarr3
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe
from hyperslab.stores.memory import MemoryStore

FORMATS = {"zarr2": zarr2.FORMAT, "zarr3": zarr3.FORMAT}
COPY = {"zarr2": ".zmetadata", "zarr3": "zarr.json"}


@pytest.fixture(params=FORMATS)
def name(request):
    return request.param


@pytest.fixture
def store():
    return CountingStore()


def opened(name, store, mode="r+", **options):
    return FORMATS[name].open(Location.of(store), mode, **options)


def made(name, store, **options):
    """A tree: ``a`` (array), ``g/b`` (array), ``g/h`` (group)."""
    writer = opened(name, store, "x", **options)
    with writer.batch():
        writer.put("", GroupSpec(attrs={"title": "t"}))
        writer.put("a", array(writer))
        writer.put("g/b", array(writer))
        writer.put("g/h", GroupSpec())
    return writer


def array(writer, **more):
    given = {"shape": (4,), "dtype": np.dtype("i4"), "chunks": (2,), "dims": ("x",)} | more
    return writer.new_array(ArraySpec(**given))


def copy_of(name, store, holder=""):
    """The paths and documents in the consolidated metadata that is stored, None without."""
    data = store.get(f"{holder}/{COPY[name]}".lstrip("/"))
    doc = json.loads(data) if data else {}
    if name == "zarr3":
        said = doc.get("consolidated_metadata")
        return None if said is None else said["metadata"]
    return doc.get("metadata")


def sound(name, store, holder=""):
    """Whether the copy says exactly what the documents say."""
    copy = copy_of(name, store, holder)
    wanted = {}
    for key in store.list(holder):
        path, _, document = key.removeprefix(f"{holder}/" if holder else "").rpartition("/")
        doc = json.loads(store.get(key)) if document in (".zarray", ".zgroup", ".zattrs", "zarr.json") else None
        if name == "zarr2" and doc is not None:
            wanted[f"{path}/{document}".lstrip("/")] = doc
        elif doc is not None and path:
            doc.pop("consolidated_metadata", None)
            wanted[path] = doc
    found = {key: {k: v for k, v in doc.items() if k != "consolidated_metadata"} for key, doc in (copy or {}).items()}
    return found == wanted


def walked(reader, path=""):
    spec = reader.node(path)
    below = (
        {}
        if isinstance(spec, ArraySpec)
        else {n: walked(reader, f"{path}/{n}".lstrip("/")) for n in reader.children(path)}
    )
    return type(spec).__name__, below


TREE = ("GroupSpec", {"a": ("ArraySpec", {}), "g": ("GroupSpec", {"b": ("ArraySpec", {}), "h": ("GroupSpec", {})})})


def test_none_is_written_unasked(name, store):
    made(name, store).close()
    assert copy_of(name, store) is None
    assert walked(opened(name, store, "r")) == TREE


def test_asked_for_it_is_written_and_followed(name, store):
    made(name, store, consolidated=True).close()
    assert sound(name, store)
    writer = opened(name, store)
    writer.put("g/new", array(writer))
    assert sound(name, store)
    spec = writer.node("a")
    writer.put("a", spec.evolve(attrs={"units": "m"}, shape=(6,)))
    assert sound(name, store)
    writer.put("", GroupSpec(attrs={"title": "other"}))
    assert sound(name, store)
    writer.move("g", "moved/here")
    assert sound(name, store)
    writer.drop("moved/here/h")
    assert sound(name, store)
    writer.drop("a")
    assert sound(name, store)
    assert opened(name, store, "r").node("moved/here/b").shape == (4,)


def test_known_and_opened_by_two_requests(name, store):
    made(name, store, consolidated=True).close()
    store.calls.clear()
    probe = Probe(Location.of(store))
    assert not (name == "zarr2" and zarr3.FORMAT.sniff(probe))
    assert FORMATS[name].sniff(probe)
    reader = opened(name, store, "r", remembered=probe)
    assert walked(reader) == TREE
    assert len(store.calls) <= 2


def test_opening_reads_the_root_alone(name, store):
    made(name, store).close()
    store.calls.clear()
    opened(name, store, "r")
    assert all("/" not in key for _, key in store.calls)
    assert len(store.calls) <= {"zarr2": 4, "zarr3": 1}[name]


def test_a_batch_writes_each_document_once(name, store):
    writer = made(name, store, consolidated=True)
    store.calls.clear()
    with writer.batch():
        for step in range(5):
            for path in ("a", "g/b", "g/h"):
                writer.put(path, writer.node(path).evolve(attrs={"step": step}))
    own = [key for key in store.puts() if key.rpartition("/")[0]]
    assert len(own) == len(set(own)) == {"zarr2": 6, "zarr3": 3}[name]
    assert store.puts().count(COPY[name]) == {"zarr2": 1, "zarr3": 2}[name]
    assert sound(name, store)


def test_batches_within_batches_end_with_the_outermost(name, store):
    writer = made(name, store)
    with writer.batch():
        with writer.batch():
            writer.put("new", GroupSpec())
        assert not any(key.startswith("new") for key in store.list())
    assert any(key.startswith("new") for key in store.list())


@pytest.mark.parametrize("act", ["put", "root", "drop", "move", "batch"])
def test_a_crash_leaves_no_stale_copy(name, store, act):
    """Whatever change is the last that reaches the store, the copy says what the documents say, or is gone."""
    made(name, store, consolidated=True).close()
    for left in range(12):
        trial = CountingStore()
        for key in store.list():
            trial.put(key, store.get(key))
        writer = opened(name, trial)
        trial.left = left
        try:
            change(writer, act)
            done = True
        except StorageError:
            done = False
        trial.left = None
        assert copy_of(name, trial) is None or sound(name, trial)
        assert not done or sound(name, trial)
        if done:
            break
    assert done


def change(writer, act):
    match act:
        case "put":
            writer.put("g/b", writer.node("g/b").evolve(attrs={"n": 1}))
        case "root":
            writer.put("", GroupSpec(attrs={"n": 1}))
        case "drop":
            writer.drop("g")
        case "move":
            writer.move("g", "x/y")
        case "batch":
            with writer.batch():
                writer.put("new", GroupSpec())
                writer.put("a", writer.node("a").evolve(attrs={"n": 1}))


def test_a_copy_in_a_subgroup_follows(name, store):
    """zarr-python consolidates any group; whoever opens it there must see our changes."""
    made(name, store).close()
    inner = Location.of(store)
    sub = MemoryStore()
    for key in store.list("g"):
        sub.put(key.removeprefix("g/"), store.get(key))
    FORMATS[name].open(Location.of(sub), "r+").consolidate()
    store.put(f"g/{COPY[name]}", sub.get(COPY[name]))
    assert sound(name, store, "g")
    writer = FORMATS[name].open(inner, "r+")
    writer.put("g/h/deep", GroupSpec(attrs={"n": 1}))
    assert sound(name, store, "g")
    writer.put("g", GroupSpec(attrs={"own": 1}))
    assert sound(name, store, "g")
    assert copy_of(name, store) is None


def test_changes_of_others_are_seen_after_refresh(name, store):
    first = made(name, store, consolidated=True)
    second = opened(name, store)
    assert first.node("a").shape == second.node("a").shape == (4,)
    first.put("a", first.node("a").evolve(shape=(9,)))
    second.refresh("a")
    assert second.node("a").shape == (9,)
    first.put("late", GroupSpec())
    second.refresh("")
    assert "late" in list(second.children(""))
    with second.lock_node("a"):
        second.put("a", second.node("a").evolve(attrs={"mine": 1}))
    first.refresh("a")
    assert first.node("a").shape == (9,)
    assert dict(first.node("a").attrs) == {"mine": 1}
    assert sound(name, store)


def test_a_damaged_copy_is_no_reason_to_read_nothing(store):
    made("zarr2", store, consolidated=True).close()
    store.put(".zmetadata", b'{"metadata": ')
    assert walked(opened("zarr2", store, "r")) == TREE
    store.put(".zmetadata", b'{"metadata": 5}')
    assert walked(opened("zarr2", store, "r")) == TREE


def test_consolidate_mends_a_stale_copy(name, store):
    writer = made(name, store, consolidated=True)
    store.delete_prefix("g/h")
    assert not sound(name, store)
    writer.consolidate()
    assert sound(name, store)
    assert [*writer.children("g")] == ["b"]


def test_an_unreadable_array_hides_no_other(name, store):
    made(name, store).close()
    document = {"zarr2": ".zarray", "zarr3": "zarr.json"}[name]
    store.put(f"a/{document}", b"{")
    reader = opened(name, store, "r")
    assert list(reader.children("")) == ["a", "g"]
    assert reader.node("g/b").shape == (4,)
    with pytest.raises(FormatError) as caught:
        reader.node("a")
    assert (caught.value.node, caught.value.key) == ("a", f"a/{document}")


@pytest.mark.sampled(20)
def test_what_a_writer_refuses(name, store):
    writer = made(name, store)
    with pytest.raises(Invalid, match="an array holds no other nodes"):
        writer.put("a/inside", GroupSpec())
    with pytest.raises(AlreadyExists):
        writer.move("a", "g/b")
    with pytest.raises(NodeNotFound):
        writer.move("nothing", "new")
    with pytest.raises(Invalid, match="too large"):
        writer.put("a", writer.node("a").evolve(attrs={"big": np.arange(1_000_001)}))
    with pytest.raises(AlreadyExists):
        opened(name, store, "x")
    with pytest.raises(FormatError, match=r"no .* dataset"):
        FORMATS[name].open(Location.of(_with("readme.txt")), "r")


def _with(key):
    store = MemoryStore()
    store.put(key, b"x")
    return store


def test_a_group_may_become_an_array(name, store):
    writer = made(name, store)
    writer.put("g/h", array(writer))
    assert isinstance(opened(name, store, "r").node("g/h"), ArraySpec)
    writer.put("g/h", GroupSpec())
    assert isinstance(opened(name, store, "r").node("g/h"), GroupSpec)


def test_folders_that_hold_no_nodes_are_no_groups(name, store):
    made(name, store).close()
    store.put("pictures/holiday/1.png", b"x")
    reader = opened(name, store, "r")
    assert list(reader.children("")) == ["a", "g"]
    with pytest.raises(NodeNotFound):
        reader.node("pictures")
    with pytest.raises(NodeNotFound):
        reader.node("a/c")
