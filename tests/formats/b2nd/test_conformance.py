"""The shipped suite of formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.formats.b2nd import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestB2nd(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.b2nd")
