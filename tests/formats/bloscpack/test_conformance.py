"""What every format promises, of bloscpack files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hyperslab.formats.base import Writer
from hyperslab.formats.bloscpack import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests


class TestBloscpack(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, tmp_path: Path) -> Location:
        return Location.of(tmp_path / "new.blp")


class TestSpecification(TestBloscpack):
    """The layout of the specification, without offsets or checksums."""

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, self.format.open(place, mode, layout="blaze", offsets=False, checksum="none"))


class TestFortran(TestBloscpack):
    """Cut along the last axis, with room in every chunk."""

    def opened(self, place: Location, mode: Any) -> Writer:
        return cast(Writer, self.format.open(place, mode, order="F", slack="full", metadata_codec="none"))
