"""The shipped suite of formats, for both profiles, over a folder and over memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.formats.hdmf import FORMAT
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.formats import FormatTests

V3 = FORMAT.variant({"profile": "v3"})


class TestV2(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nwb.zarr")


class TestV2InMemory(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())


class TestV3(FormatTests):
    format = V3

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.nwb.zarr")


class TestV3InMemory(FormatTests):
    format = V3

    @pytest.fixture
    def place(self) -> Location:
        return Location.of(MemoryStore())
