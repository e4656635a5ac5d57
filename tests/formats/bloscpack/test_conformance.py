"""What every format promises, of bloscpack files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.formats.bloscpack import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestBloscpack(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.blp")
