"""What a forked process makes anew: locks, threads, clients and caches that belong to the process that made them."""

from __future__ import annotations

import os
from collections.abc import Callable


def call_after_fork(function: Callable[[], object]) -> None:
    """Have ``function`` called in each process that is forked from this one; nothing where the system does not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
