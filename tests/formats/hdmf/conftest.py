"""The stores that three releases of hdmf-zarr wrote, the hostile ones, and what is never to happen meanwhile."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every store of the peers and its truth; nobody changes them."""
    from golden_hdmf import ARCHIVES, unpacked

    return unpacked(tmp_path_factory.mktemp("peers"), *ARCHIVES)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every hostile store."""
    from golden_hdmf import unpacked

    return unpacked(tmp_path_factory.mktemp("hostile"), "hostile")


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    """No test may execute what a store holds."""
    yield
    assert not hasattr(builtins, "HDMF_PWNED")
