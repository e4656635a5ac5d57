"""Blaze directories: the shipped suite over several kinds of store and layouts, and what stands where on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hyperslab.formats.base import Writer
from hyperslab.formats.blaze import FORMAT
from hyperslab.stores import MemoryStore
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestBlaze(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.blaze")


class TestSmallSuperchunks(TestBlaze):
    """Each superchunk of two chunks."""

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, FORMAT.open(place, mode, superchunk=2, checksum="sha256"))


class TestInMemory(TestBlaze):
    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())


class TestZip(TestBlaze):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.blaze.zip")

    @pytest.mark.skip("a zip file has one writer")
    def test_locked_changes_are_not_lost(self, place: Location) -> None:
        """It knows no locks."""
