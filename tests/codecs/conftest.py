"""Makes ``chains`` importable for the tests of codecs, and runs tests over each library that decodes chunks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.codecs import libblosc2, zstd

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", params=["libblosc2", "numcodecs"])
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Blosc, LZ4 and Zstandard are decoded by the library of blosc2, and as if that were not installed."""
    if request.param == "libblosc2":
        if libblosc2.load_library() is None:
            pytest.skip("blosc2 is not installed")
        yield "libblosc2"
        return
    if not zstd._decodes_undeclared():
        pytest.skip("numcodecs before 0.16.2 decodes less of Zstandard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libblosc2, "load_library", lambda: None)
        yield "numcodecs"
