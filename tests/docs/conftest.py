"""Makes ``pages`` importable for the tests of the documentation, and installs the package that one of them makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab import formats

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def npy_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example package is installed, here and in processes that are started."""
    from plugins import EXAMPLE, install

    site = tmp_path_factory.mktemp("site")
    install(EXAMPLE, site)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
    formats._foreign.cache_clear()
    yield
    formats._foreign.cache_clear()
    sys.modules.pop("hyperslab_npy", None)
