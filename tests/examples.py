"""How many examples Hypothesis gives a slow test."""

from __future__ import annotations

import os

from hypothesis import settings


def at_most(in_suite: int, in_soak: int | None = None) -> int:
    """Return how many examples a test is given: in the soak as many as any other, where no number is named."""
    if os.environ.get("HYPOTHESIS_PROFILE") != "soak":
        return in_suite
    return settings.default.max_examples if in_soak is None else in_soak
