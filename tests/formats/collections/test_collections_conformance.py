"""The shipped suite of formats, for roots of collections of our own layout: in a folder, in memory, in a zip file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.formats.collections import FORMAT
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.formats import FormatTests


class TestFolder(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "store")


class TestMemory(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())
