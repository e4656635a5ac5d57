"""The peers as fixtures: a test is skipped in an environment that lacks its peer, or holds one that is too old."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture
def zarr() -> ModuleType:
    """zarr-python, whichever version this environment holds."""
    module: ModuleType = pytest.importorskip("zarr")
    return module


@pytest.fixture
def tensorstore() -> ModuleType:
    """tensorstore."""
    module: ModuleType = pytest.importorskip("tensorstore")
    return module
