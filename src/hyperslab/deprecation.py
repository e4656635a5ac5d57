"""Mark what a later release removes: the policy of GOVERNANCE.md, which tests/house/test_public_face.py enforces."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A public ``name`` that warns ``since`` a release and is gone with release ``removal``; use ``instead``."""

    name: str
    since: str
    removal: str
    instead: str

    @property
    def message(self) -> str:
        """The text of the warning."""
        return f"{self.name} is deprecated since {self.since} and will be removed in {self.removal}: {self.instead}"


DEPRECATIONS: dict[str, Deprecation] = {}
"""All marks of the modules that were imported, by name."""


def deprecated(
    since: str, removal: str, instead: str
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Mark a function or method: each call warns its caller (DeprecationWarning), and then works as before.

    Args:
        since: The release that brings the mark, such as ``0.3``.
        removal: The release that no longer has it: two minor releases later or more.
        instead: What the caller does in its place, as a sentence: ``use hs.open``.
    """

    def mark(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        found = Deprecation(f"{function.__module__}.{function.__qualname__}", since, removal, instead)
        DEPRECATIONS[found.name] = found

        @functools.wraps(function)
        def warn_and_call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            warnings.warn(found.message, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        warn_and_call.__doc__ = f"{inspect.getdoc(function) or ''}\n\nDeprecated since {since}: {instead}".strip()
        return warn_and_call

    return mark
