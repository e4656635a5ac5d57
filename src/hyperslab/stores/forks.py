"""Hooks for forks: a child makes anew the locks, threads, clients and caches that belong to its parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def call_after_fork(function: Callable[[], object]) -> None:
    """Have ``function`` called in each process that is forked from this one; nothing where the system does not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def call_around_fork(
    before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]
) -> None:
    """Have functions called before each fork, and after it in either process; nothing where the system does not fork.
    Who was registered last is called first before a fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


class ThreadedLibrary:
    """A library whose threads do not follow into a forked child, where it would never answer: ``used`` by this process,
    or ``orphaned``, since the process that it was forked from had used it."""

    def __init__(self) -> None:
        self.used = False
        self.orphaned = False
        call_after_fork(self._note_fork)

    def _note_fork(self) -> None:
        self.orphaned = self.used
