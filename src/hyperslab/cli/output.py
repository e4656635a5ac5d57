"""Print one JSON document, text in columns, or a remark on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import click

from hyperslab.array.plain_values import to_json_value

# Rows of a table that are printed together, so that the first stand there before all are found; the columns of a table
# are as wide as the rows of each piece ask for.
_AT_ONCE = 1000

json_option: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def print_json(schema: str, **document: Any) -> None:
    """Print one JSON document on stdout, its ``schema`` first."""
    click.echo(json_text(schema, **document))


def json_text(schema: str, **document: Any) -> str:
    """Return the document as text."""
    content = {"schema": f"hyperslab.{schema}/1", **to_json_value(document)}
    return escape_surrogates(json.dumps(content, indent=2, ensure_ascii=False))


def is_quiet() -> bool:
    """Return True if the command runs with ``--quiet``."""
    return _is_flag_set("quiet")


def shows_progress(as_json: bool) -> bool:
    """Return True if a bar of progress may stand on stderr."""
    return not as_json and not is_quiet()


def _is_flag_set(manner: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(getattr(context.obj, manner, False))


def print_remark(text: str) -> None:
    """Print a remark on stderr, unless ``--quiet``."""
    if not is_quiet():
        click.echo(text, err=True)


def print_verbose(text: str) -> None:
    """Print a remark on stderr with ``--verbose`` alone."""
    if _is_flag_set("verbose"):
        click.echo(text, err=True)


def escape_surrogates(text: str) -> str:
    """Return the text with an escape, as JSON has them too, for each half of a surrogate pair, which no encoding can
    write."""
    return text.encode("utf-8", "backslashreplace").decode()


def format_columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Return the rows with their cells below one another."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return escape_surrogates("\n".join(f"{indent}{line.rstrip()}" for line in lines))


def echo_rows(found: Iterable[object], rows: Callable[..., Sequence[Sequence[str]]], nothing: str) -> None:
    """Print what is found as a table, piece by piece; a remark where there is nothing.

    ``rows`` makes text of some of it, below the head where that is asked for: ``rows(some, head=True)``.
    """
    left, head = iter(found), True
    while some := list(islice(left, _AT_ONCE)):
        click.echo(format_columns(rows(some, head=head)))
        head = False
    if head:
        print_remark(nothing)
