"""The peers as fixtures: a test is skipped in an environment that lacks its peer, or holds one that is too old.

The folder and that of the children become importable for the tests of the matrix.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

for _folder in (Path(__file__).parent, Path(__file__).parent / "children"):
    sys.path.insert(0, str(_folder))


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
