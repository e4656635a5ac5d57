"""Makes ``own_store`` importable; an S3 server for the tests of collections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from servers.s3 import S3, running_s3


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A real S3 server over HTTP."""
    with running_s3() as server:
        yield server
