"""Hypothesis profiles: ``ci`` (the default) gives the same examples on every run, ``soak`` looks for new ones. Servers,
one of a kind for each process, started by the first test that asks for one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))
if TYPE_CHECKING:
    from servers.mongo import Mongo

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("ci", deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW)
settings.register_profile("soak", deadline=None, max_examples=5_000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def as_talkative_as_before() -> Iterator[None]:
    """The command line sets how much is logged, for the whole process."""
    level = logging.getLogger("hyperslab").level
    yield
    logging.getLogger("hyperslab").setLevel(level)


@pytest.fixture(scope="session")
def mongo() -> Iterator[Mongo]:
    """A real MongoDB server, standing alone."""
    from servers.mongo import running_mongod

    with running_mongod() as server:
        yield server


@pytest.fixture(scope="session")
def mongo_replica() -> Iterator[Mongo]:
    """A real MongoDB server, the one member of its replica set."""
    from servers.mongo import running_mongod

    with running_mongod(replica_set=True) as server:
        yield server
