"""Options that the commands of ``hyperslab db`` share, and the question before something is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from hyperslab.cli.exit_codes import verbosity_options
from hyperslab.cli.options import storage_option
from hyperslab.cli.output import json_option
from hyperslab.errors import Invalid
from hyperslab.formats.conditions import join_conditions


def _attributes(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> list[str]:
    """Return conditions upon attributes of objects, those of all texts, with ``or`` between some of one text. Invalid
    where several texts have alternatives."""
    return join_conditions(texts)


def _dimensions(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, int | None]:
    """Parse ``NAME`` as a dimension of any size, ``NAME=SIZE`` as one of that size."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, mark, size = text.partition("=")
        if mark and not size.isdecimal():
            raise Invalid(f"--dim {text!r}", remedy="write --dim time, or --dim time=120")
        found[name] = int(size) if mark else None
    return found


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def parse_age(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return the seconds that a text such as ``90d``, ``12h``, ``30m`` or ``45s`` says; 0 needs no unit. Invalid."""
    if text is None or text == "0":
        return None if text is None else 0.0
    number = text.rstrip("smhdw")
    try:
        seconds = float(number) * _SECONDS[text[len(number) :]]
    except (ValueError, KeyError):
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise Invalid(f"{parameter.opts[0]} {text!r} is no age", remedy="write 2w, 90d, 12h, 30m or 45s")
    return seconds


attribute_option: Callable[[Any], Any] = click.option(
    "--attr",
    "attrs",
    multiple=True,
    metavar="CONDITION",
    callback=_attributes,
    help="Only objects whose attributes meet this, as db query has it: NAME=VALUE, NAME>=VALUE, …; repeatable.",
)


dimension_option: Callable[[Any], Any] = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME[=SIZE]",
    callback=_dimensions,
    help="Only objects with this dimension; repeatable.",
)


def verb(name: str, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of ``hyperslab db``, with the options that all of them take."""

    def decorate(function: Callable[..., object]) -> click.Command:
        made: click.Command = click.command(name, epilog=f"Example: hyperslab db {name} {example}")(
            storage_option()(json_option(function))
        )
        made.params.extend(verbosity_options())
        return made

    return decorate


def is_confirmed(question: str, url: str) -> bool:
    """Ask, and return the answer. Invalid where nobody can answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            raise Invalid("nobody answers: nothing was removed", url=url, remedy="say --yes") from None
        raise
