"""Writers that are killed before one of the system calls that change files; for programs that scripts of tests run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

Opened = TypeVar("Opened")
CALLS = ("open", "write", "replace", "rename", "link", "mkdir", "rmdir", "unlink", "utime")


def killed_at(number: int, opened: Callable[[], Opened], change: Callable[[Opened], object], *more: str) -> bool:
    """Change what ``opened`` gives in a child that dies before its n-th call, amid a write; whether it died.

    Calls by other names of ``os`` than :data:`CALLS` count if they are given.
    """
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            return True
        if status:
            sys.exit(f"the change failed by itself at {number}: {status}")
        return False
    status = 1
    try:
        place = opened()
        _guard(number, (*CALLS, *more))
        change(place)
        status = 0
    finally:
        os._exit(status)


def _guard(left: int, calls: tuple[str, ...]) -> None:
    """From here on this process lives for so many calls."""
    system = {name: getattr(os, name) for name in calls}

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if real is not system["open"] or arguments[1] & os.O_CREAT:
                left -= 1
                if not left:
                    if real is system["write"]:
                        real(arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name, real in system.items():
        setattr(os, name, guarded(real))
