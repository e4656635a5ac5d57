"""The key-value map against a dict, and its ten calls by the rules of the NCZarr draft of 2018."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hyperslab.errors import Invalid, NotFound, ReadOnly, SelectionError
from hyperslab.stores import DirectoryStore, KeyValueMap, MemoryStore, ZipStore
from hyperslab.stores.base import Store


@pytest.fixture(params=["directory", "memory", "zip"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueMap]:
    kinds: dict[str, Store] = {
        "directory": DirectoryStore(tmp_path / "x"),
        "memory": MemoryStore(),
        "zip": ZipStore(tmp_path / "x.zip"),
    }
    yield KeyValueMap(kinds[request.param])
    for store in kinds.values():
        store.close()


def test_is_a_mutable_mapping(made: KeyValueMap) -> None:
    """With all that Python gives one."""
    assert isinstance(made, MutableMapping)
    made["b"] = b"2"
    made.update({"a": b"1"}, c=b"3")
    assert dict(made) == {"a": b"1", "b": b"2", "c": b"3"}
    assert made == {"a": b"1", "b": b"2", "c": b"3"}
    assert made.pop("c") == b"3"
    assert made.pop("c", None) is None
    assert made.setdefault("d", b"4") == b"4"
    assert list(made.items()) == [("a", b"1"), ("b", b"2"), ("d", b"4")]
    assert list(made.values()) == [b"1", b"2", b"4"]
    assert len(made) == 3
    del made["a"]
    assert made.popitem() == ("b", b"2")
    with pytest.raises(KeyError):
        del made["a"]
    with pytest.raises(KeyError):
        made["a"]


def test_the_ten_calls(made: KeyValueMap) -> None:
    """By their own names."""
    assert made.len() == 0
    made.set("k/b", b"1")
    made.set("k/b", bytearray(b"2"))
    made.set("k/a", memoryview(b"0"))
    assert made.len() == 2
    assert made.keys() == ["k/a", "k/b"]
    assert made.contains("k/a")
    assert not made.contains("k")
    assert not made.contains("../k")
    assert not made.contains(5)
    assert made.get("k/b") == b"2"
    assert made.get("k/c") is None
    assert made.get("k/c", b"x") == b"x"
    assert made.ith(0) == ("k/a", b"0")
    assert made.remove("k/a") == b"0"
    with pytest.raises(NotFound):
        made.remove("k/a")
    assert made.ith(0) == ("k/b", b"2")
    made.clear()
    assert made.keys() == []


def test_ith_while_the_map_changes(made: KeyValueMap) -> None:
    """Places are those of the sorted keys at the time of the call; behind the end is an IndexError."""
    for name in "abcd":
        made.set(name, name.encode())
    assert made.ith(3) == ("d", b"d")
    made.remove("a")
    with pytest.raises(IndexError):
        made.ith(3)
    assert made.ith(2) == ("d", b"d")
    made.set("0", b"first")
    assert made.ith(0) == ("0", b"first")
    for i in (-1, 4, 10**9):
        with pytest.raises(SelectionError, match=f"pair {i} of a map of 4"):
            made.ith(i)


def test_ith_beside_another_writer(tmp_path: Path) -> None:
    """What another map removed is not given."""
    one, two = (KeyValueMap(DirectoryStore(tmp_path)) for _ in range(2))
    for name in "abc":
        one.set(name, name.encode())
    assert one.ith(0) == ("a", b"a")
    two.remove("a")
    assert one.ith(0) == ("b", b"b")
    two.clear()
    with pytest.raises(IndexError):
        one.ith(0)


def test_freemap(made: KeyValueMap) -> None:
    """The map refuses use, its store and the values handed out live on."""
    made.set("a", b"1")
    value = made.get("a")
    store = made._store
    made.freemap()
    made.freemap()
    for call in (lambda: made.get("a"), lambda: made.keys(), lambda: made.contains("a"), lambda: made.set("a", b"2")):
        with pytest.raises(Invalid, match="freed"):
            call()
    assert value == b"1"
    assert store is not None
    assert store.get("a") == b"1"
    assert "freed" in repr(made)


def test_newmap(tmp_path: Path) -> None:
    """Over a fresh memory, a path, an archive, a store."""
    assert KeyValueMap.newmap().keys() == []
    for target in (tmp_path / "x", tmp_path / "x.zip"):
        made = KeyValueMap.newmap(target)
        made.set("a/b", b"1")
        made.freemap()
        assert KeyValueMap.newmap(str(target)).get("a/b") == b"1"
    store = MemoryStore()
    KeyValueMap.newmap(store).set("a", b"1")
    assert store.get("a") == b"1"
    with pytest.raises(ReadOnly):
        KeyValueMap.newmap(DirectoryStore(tmp_path, read_only=True))


def test_ascii_only() -> None:
    """Other keys are refused, and those that the store holds are not shown; else any text is a key."""
    store = MemoryStore()
    KeyValueMap(store)["ü"] = b"1"
    made = KeyValueMap.newmap(store, ascii_only=True)
    made["a"] = b"2"
    assert dict(made) == {"a": b"2"}
    assert "ü" not in made
    for call in (lambda: made.set("ü", b"1"), lambda: made.get("ü"), lambda: made.remove("ü")):
        with pytest.raises(Invalid, match="US-ASCII"):
            call()


@pytest.mark.parametrize("value", ["text", 5, None, [1]])
def test_values_are_bytes(value: object) -> None:
    """Anything else is refused and not converted."""
    made = KeyValueMap.newmap()
    with pytest.raises(Invalid, match="values are bytes"):
        made.set("a", value)  # type: ignore[arg-type]
    assert made.keys() == []


class MapMachine(RuleBasedStateMachine):
    """A map and a dict do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.map = KeyValueMap.newmap()
        self.model: dict[str, bytes] = {}

    @rule(key=st.sampled_from("abcd"), value=st.binary(max_size=3))
    def set(self, key: str, value: bytes) -> None:
        self.map.set(key, value)
        self.model[key] = value

    @rule(key=st.sampled_from("abcd"))
    def remove(self, key: str) -> None:
        if key in self.model:
            assert self.map.remove(key) == self.model.pop(key)
        else:
            with pytest.raises(KeyError):
                self.map.remove(key)

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.model.clear()

    @rule(i=st.integers(-1, 5))
    def ith(self, i: int) -> None:
        if 0 <= i < len(self.model):
            assert self.map.ith(i) == sorted(self.model.items())[i]
        else:
            with pytest.raises(IndexError):
                self.map.ith(i)

    @invariant()
    def same(self) -> None:
        assert dict(self.map) == self.model
        assert self.map.len() == len(self.model)


TestMapMachine = MapMachine.TestCase
