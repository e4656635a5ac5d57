"""Makes the files of these tests importable, and keeps pynwb from leaving its cache in the user's folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> str:
    """Both profiles."""
    return str(request.param)
