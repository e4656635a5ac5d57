"""Makes ``own_store`` importable; the stores that tiles are tested in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import obstore.store
import pytest

from hyperslab.stores.buckets import wrapped
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.memory import MemoryStore

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["memory", "directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty one: of one process, of many, and one that has no locks and swaps values."""
    if request.param == "bucket":
        return wrapped(obstore.store.MemoryStore())
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "x")
