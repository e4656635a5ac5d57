"""Hostile stores in processes that could run what is in them: nothing runs, nothing but errors of ours is raised."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import programs

CHILD = Path(__file__).parent / "hostile_child.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and /proc")


def ran(cause: str, stores: Path, folder: Path, *share: str) -> dict[str, list[str]]:
    """What was raised by what, in a process of its own."""
    done = programs.ran(CHILD, cause, stores, folder, *share)
    assert done.returncode == 0, done.stderr[-3000:]
    said: Any = json.loads(done.stdout.splitlines()[-1])
    assert said["wrong"] == []
    return dict(said["raised"])


@pytest.fixture
def stores(peers: Path, hostile: Path, tmp_path: Path) -> Path:
    """All golden stores in one folder."""
    for source in (*peers.glob("*.zarr"), *hostile.glob("*.zarr")):
        shutil.copytree(source, tmp_path / "stores" / source.name)
    (tmp_path / "work").mkdir()
    return tmp_path / "stores"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("targets", ["1", pytest.param("3", marks=pytest.mark.soak)])
def test_every_hostile_store_through_every_door(stores: Path, tmp_path: Path, targets: str) -> None:
    """The poisoned part alone raises, and what it is said to."""
    raised = ran("stores", stores, tmp_path / "work", targets)
    own = {name: set(errors) for name, errors in raised.items() if " convert" not in name}
    poison = {"UnsafePickle"}
    assert own.pop("evil_chunk_element refs/objrefs") == poison
    assert own.pop("evil_chunk_toplevel refs/objrefs") == poison
    assert own.pop("evil_fill_value refs/compound_ref") == poison
    assert own.pop("evil_second_filter dtypes/text") == {"Unsupported"}
    assert own.pop("evil_spec specifications/core/2.0.0/namespace") <= {"UnsafePickle", "Unsupported"}
    for name in ("up", "dots", "abs"):
        assert own.pop(f"evil_link_escape refs/{name}") == {"ExternalLinkRefused"}
    assert own.pop("evil_link_escape refs/dangling") == {"BrokenLink"}
    assert set(own) <= {"evil_spec schemas"}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("share", ["120", pytest.param("1", marks=pytest.mark.soak)])
@pytest.mark.parametrize("cause", ["truncated", "mutated"])
def test_damage_of_any_kind(cause: str, share: str, stores: Path, tmp_path: Path) -> None:
    """Documents and chunks that are cut, documents with other values."""
    raised = ran(cause, stores, tmp_path / "work", share)
    assert raised
    assert {error for errors in raised.values() for error in errors} <= {
        "FormatError", "Unsupported", "CorruptChunk", "NodeNotFound", "BrokenLink", "ExternalLinkRefused",
        "UnsafePickle", "MemoryLimit", "NotFound", "StorageError", "Invalid", "RegionOutOfBounds",
    }  # fmt: skip


@pytest.mark.soak
def test_pickles_in_every_position(stores: Path, tmp_path: Path) -> None:
    raised = ran("pickles", stores, tmp_path / "work")
    assert {error for name, errors in raised.items() if "objrefs" in name for error in errors} == {"UnsafePickle"}
