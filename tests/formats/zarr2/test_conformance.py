"""The shipped suite of formats over a folder, over memory, and over a folder with consolidated metadata."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hyperslab.formats.base import Writer
from hyperslab.formats.zarr2 import FORMAT
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.formats import FormatTests


class TestFolder(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path):
        return Location.of(tmp_path / "new.zarr")


class TestMemory(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self):
        return Location.of(MemoryStore())


class TestConsolidated(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path):
        return Location.of(tmp_path / "new.zarr")

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, FORMAT.open(place, mode, consolidated=mode == "x"))
