"""What docstrings say in reStructuredText, in Markdown, as griffe reads them."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?\.?([^`]+)`")
_LITERAL = re.compile(r"::$(?=\n\n +\S)", re.M)
_BARE_LITERAL = re.compile(r"^::\n\n(?= +\S)", re.M)


def markdown(text: str) -> str:
    """Roles become code, ``::`` a colon: what is indented below it is code in both languages."""
    return _LITERAL.sub(":", _BARE_LITERAL.sub("", _ROLE.sub(r"`\1`", text)))


class Roles(griffe.Extension):
    """Every docstring as Markdown, before it is rendered."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
