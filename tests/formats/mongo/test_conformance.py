"""The suite of formats, upon a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hyperslab.formats.mongo import FORMAT
from hyperslab.stores.location import Location
from hyperslab.testing.formats import FormatTests

if TYPE_CHECKING:
    from servers.mongo import Mongo


class TestMongo(FormatTests):
    format = FORMAT

    @pytest.fixture
    def place(self, mongo: Mongo) -> Location:
        return Location.of(f"{mongo.url}/{mongo.database()}#new")
