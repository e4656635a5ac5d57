"""Clients of stores in either layout, and the array of section 12's table in either flavour."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hyperslab.database import Client

LAYOUTS = ("hyperslab", "deker")


@pytest.fixture(params=LAYOUTS)
def layout(request) -> str:
    """Each layout in turn."""
    return request.param


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client of an empty store."""
    with Client(f"file://{tmp_path}/store", durable=False) as opened:
        yield opened
