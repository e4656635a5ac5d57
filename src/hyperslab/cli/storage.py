"""Storage options as they are typed: ``NAME=TEXT``, or ``NAME:=JSON`` for what is no text; each side has its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from hyperslab.errors import Invalid

ANY = "any"
"""What stands for every place."""


def parse_options(texts: Iterable[str], what: str = "a storage option") -> dict[str, Any] | None:
    """Several texts as one mapping, None when there is none; a name that is repeated has a list of texts."""
    options: dict[str, Any] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        as_json = name.endswith(":")
        name = name.removesuffix(":").strip()
        if not mark or not name:
            raise Invalid(f"{what} without name or value", remedy="write NAME=TEXT or NAME:=JSON")
        found = _json(name, value, what) if as_json else value
        if name not in options:
            options[name] = found
        else:
            before = options[name]
            options[name] = [*(before if isinstance(before, list) else [before]), found]
    return options or None


def _json(name: str, text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # what it says may quote a secret
        remedy = f"write {name}=TEXT for text"
        raise Invalid(f"{what} that is no JSON: {name}", remedy=remedy) from None


def allow_option(whose: str = "the dataset") -> Callable[[Any], Any]:
    """The places besides that links may lead to: a tuple of them, or True for all."""
    return click.option(
        "--allow-external",
        multiple=True,
        metavar="PLACE",
        callback=lambda context, parameter, texts: True if ANY in texts else texts,
        help=f"A folder or URL that links of {whose} may lead to, or {ANY}; repeatable.",
    )


def storage_option(flag: str = "--storage-option", whose: str = "the place") -> Callable[[Any], Any]:
    """An option of a command that opens something; its value is a mapping or None."""
    return click.option(
        flag,
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, parameter, texts: parse_options(texts),
        help=f"A storage option of {whose}, such as region=eu-west-1 or allow_external=FOLDER; repeatable.",
    )
