"""Nothing of a collection leaves its root: links that lead out are refused, names and values are text and no paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collection_cases import HIT, made
from collection_schemas import key, schema

from hyperslab.database import Client
from hyperslab.errors import HyperslabError

PAYLOADS = (
    "../../x",
    "/abs",
    "..",
    ".",
    "a/b",
    "a\\b",
    "nul\0",
    "x" * 300,
    "\U0001f600" * 80,
    "~",
    "C:x",
    "\U0001f600",
)
DEEDS: dict[str, Callable[[Any], Any]] = {
    "read": lambda bad: bad[HIT][0, 0].read(),
    "write": lambda bad: bad[HIT][:].update(7),
    "change": lambda bad: bad[HIT].update_custom_attributes({"note": "new"}),
    "delete": lambda bad: bad[HIT].delete(),
    "create": lambda bad: bad.create(key(5), id_="aa445678-1234-4234-8234-123456789abc"),
    "clear": lambda bad: bad.clear(),
}


def told(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder."""
    found = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


@pytest.mark.parametrize("place", ["array_data", "array_data/a", "array_symlinks", "array_symlinks/0"])
def test_a_folder_that_leads_out(tmp_path: Path, place: str) -> None:
    """What it leads to is neither read nor changed."""
    root, outside = tmp_path / "store", tmp_path / "outside"
    made(root, "deker", "array")
    moved = root / "collections" / "bad" / place
    shutil.move(moved, outside)
    os.symlink(outside, moved)
    before = told(outside)
    for name, deed in DEEDS.items():
        bad = Client(root, durable=False).get_collection("bad")
        if place.startswith("array_symlinks") and name in ("read", "write", "change", "delete"):
            continue  # which need no link
        if name == "clear":
            deed(bad)
            continue
        if name == "create" and place == "array_symlinks/0":
            continue
        with pytest.raises(HyperslabError, match="leads out of the root"):
            deed(bad)
    assert told(outside) == before


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_names_and_values_are_no_paths(tmp_path: Path, layout: Any) -> None:
    """They are refused, or found again as they were; nothing appears elsewhere."""
    root = tmp_path / "a" / "store"
    made(root, layout, "array")
    client = Client(root, durable=False)
    good: Any = client.get_collection("good")
    for text in PAYLOADS:
        try:
            client.create_collection(text, schema("array"), layout=layout)
            assert client.get_collection(text) is not None
        except HyperslabError:
            assert client.get_collection(text) is None
        try:
            array = good.create({"slot": 9, "station": text}, {"note": text})
        except HyperslabError:
            assert good.get(slot=9, station=text) is None
            continue
        found = good.get(slot=9, station=text)
        assert (found.id, found.custom_attributes["note"]) == (array.id, text)
        with pytest.raises(HyperslabError):
            good.create({"slot": 10, "station": "s"}, id_=text)
    assert sorted(os.listdir(tmp_path)) == ["a"]
    assert os.listdir(tmp_path / "a") == ["store"]
    assert os.listdir(root) == ["collections"]
    assert client.check_integrity(4, stop_on_error=False) == []


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_moved_and_copied(tmp_path: Path, layout: Any) -> None:
    """A copy is a store of its own: what is removed there stays in the other."""
    made(tmp_path / "one", layout, "varray")
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    shutil.move(tmp_path / "one", tmp_path / "three")
    two: Any = Client(tmp_path / "two").get_collection("bad")
    two.get(**key(0)).delete()
    assert len(two) == 1
    three: Any = Client(tmp_path / "three").get_collection("bad")
    assert len(three) == 2
    assert three.get(**key(0))[0, 5].read() == 5


@pytest.mark.parametrize("layout", ["hyperslab", "deker"])
def test_a_collection_that_is_replaced_meanwhile(tmp_path: Path, layout: Any) -> None:
    """Whoever has it open sees what is there now, or hears that it is gone."""
    made(tmp_path, layout, "array")
    client = Client(tmp_path, durable=False)
    old: Any = client.get_collection("bad")
    array = old.get(**key(0))
    shutil.rmtree(tmp_path / "collections" / "bad")
    for deed in (lambda: len(old), lambda: old.create(key(3)), lambda: array[:].read(), lambda: array[:].update(1)):
        with pytest.raises(HyperslabError):
            deed()
    assert [collection.name for collection in client] == ["good"]
