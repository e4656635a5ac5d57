"""Changes that are stored when what holds them is closed, and that are lost when it never is: that is said."""

from __future__ import annotations

import logging
import os
import warnings
import weakref
from typing import Any

_log = logging.getLogger("hyperslab")


class Unclosed:
    """True if ``owner`` holds changes that its close stores. Where it is collected with some, or the program ends, the
    log says so, and a ResourceWarning."""

    def __init__(self, owner: Any, url: str) -> None:
        self._state = [False]
        weakref.finalize(owner, _tell, self._state, url, os.getpid())

    @property
    def changed(self) -> bool:
        """Return True if there are such changes."""
        return self._state[0]

    @changed.setter
    def changed(self, changed: bool) -> None:
        self._state[0] = changed


def _tell(state: list[bool], url: str, owner: int) -> None:
    if state[0] and os.getpid() == owner:
        message = f"{url}: changes were lost, for the dataset was never closed; use `with`, or call close()"
        _log.warning(message)
        warnings.warn(message, ResourceWarning, stacklevel=2)
