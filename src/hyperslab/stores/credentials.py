"""``credentials="module:function"`` in storage options: secrets that each process gets for itself.

The name of the function travels with a pickled dataset, what it gives never does. It is called without arguments when
a store is opened and gives a mapping of storage options, which take the place of those that were given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hyperslab.errors import Invalid

OPTION = "credentials"

_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_REMEDY = "give the name of an importable function, as credentials='module:function'"


def named(options: Mapping[str, Any]) -> dict[str, str]:
    """The option alone when it has the form of a function's name, else nothing."""
    name = options.get(OPTION)
    return {OPTION: name} if isinstance(name, str) and _NAME.fullmatch(name) else {}


def resolve(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with what the named function gives in place of its name; Invalid, without any value in the message.

    What the function raises itself is raised as it is.
    """
    if OPTION not in options:
        return dict(options)
    match = _NAME.fullmatch(options[OPTION]) if isinstance(options[OPTION], str) else None
    if match is None:
        raise Invalid("the storage option credentials is no name of a function", remedy=_REMEDY)
    try:
        function = getattr(import_module(match[1]), match[2], None)
    except ImportError:
        function = None
    if not callable(function):
        raise Invalid("the storage option credentials names no function of this process", remedy=_REMEDY)
    given = function()
    if not isinstance(given, Mapping):
        raise Invalid(
            f"credentials: {match[0]} gives a {type(given).__name__}",
            remedy="it must give a mapping of storage options",
        )
    return {**{name: value for name, value in options.items() if name != OPTION}, **given}
