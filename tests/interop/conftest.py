"""The peers as fixtures: a test is skipped in an environment that lacks its peer, or holds one that is too old.

The folder and that of the children become importable, and those with files of HDMF. pynwb leaves
no cache in the user's folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
_HERE = Path(__file__).parent
_BESIDE = (_HERE.parent / "formats" / "hdmf", _HERE.parent / "bridges" / "hdmf")
for _folder in (*_BESIDE, _HERE, _HERE / "children"):
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


@pytest.fixture
def xarray() -> ModuleType:
    """xarray, whose own engine reads both versions of Zarr."""
    pytest.importorskip("zarr", minversion="3")
    module: ModuleType = pytest.importorskip("xarray")
    return module
