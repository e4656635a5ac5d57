"""Hypothesis profiles: ``ci`` (the default) gives the same examples on every run, ``soak`` looks for new ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

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
