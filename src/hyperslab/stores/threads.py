"""Threads that wait for a medium or a server."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def threads(count: int, name: str) -> ThreadPoolExecutor:
    """Up to ``count`` of them, the same for the same name; a forked child makes its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, thread_name_prefix=f"hyperslab-{name}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.cache_clear)
