"""The shipped suite of formats, for roots whose collections have DEKER's layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.formats.collections.deker import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestFolder(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "store")
