"""What hyperslab promises of any writable format holds for this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hyperslab_npy import FORMAT

from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestNpy(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.npys")
