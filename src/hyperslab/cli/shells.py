"""Completions for bash and fish, where click's own lines for them lose something."""

from __future__ import annotations

import os
import re

from click.shell_completion import BashComplete, CompletionItem, FishComplete, add_completion_class

_ADDED = "COMPREPLY+=($value)"
"""The line of click's script for bash that adds a completion."""


class BashLines(BashComplete):
    """Names with spaces stay one word, and no space follows the ``=`` of a dimension."""

    source_template = BashComplete.source_template.replace(
        _ADDED, f"{_ADDED}\n            [[ $value == *= ]] && compopt -o nospace"
    )

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line of an item; what bash would split or expand has a backslash, unless a quote is open."""
        line = super().format_completion(item)
        words = os.environ["COMP_WORDS"].split("\n")
        if words[-1][:1] in ("'", '"') or item.type != "plain":
            return line
        return re.sub(r"([^\w./:=@%+,*-])", r"\\\\\1", line)  # `read` of the script takes one of the two away


class FishLines(FishComplete):
    """Help is shown to its end: click's script takes what is behind a comma for another field."""

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line of an item, with semicolons in its help."""
        help = item.help.replace(",", ";") if item.help else None
        return super().format_completion(CompletionItem(item.value, item.type, help))


def add_shells() -> None:
    """Have click write these lines."""
    add_completion_class(BashLines)
    add_completion_class(FishLines)
