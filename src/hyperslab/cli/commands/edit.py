"""``hyperslab edit``: other names of variables, dimensions and attributes; attributes set, deleted, lengthened."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import click
import numpy as np

from hyperslab.cli.arguments import parse_names
from hyperslab.cli.options import storage_option, url_argument
from hyperslab.cli.output import json_option, print_json, print_remark
from hyperslab.conversion.edit import edit
from hyperslab.errors import Invalid

_TYPED = re.compile(r"(.*):([iu][1248]|f[48])", re.DOTALL)
_SYNTAX = "write PATH:NAME=TEXT, PATH:NAME:i2=1,2 (i1, u1, i2, … f4, f8) or PATH:NAME:=JSON; :NAME is of the dataset"


@click.command("edit", epilog="Example: hyperslab edit air.nc --rename-variable t2m=t --set 't:units=K' --dry-run")
@url_argument
@click.option("--rename-variable", "variables", multiple=True, metavar="OLD=NEW", help="Another name; repeatable.")
@click.option("--rename-dimension", "dimensions", multiple=True, metavar="OLD=NEW", help="Another name; repeatable.")
@click.option(
    "--rename-attribute",
    "attributes",
    multiple=True,
    metavar="PATH:OLD=NEW",
    help="Another name of an attribute; repeatable.",
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="PATH:NAME=TEXT",
    help="Set an attribute: text, numbers of a type (PATH:NAME:i2=3) or JSON (PATH:NAME:=3); repeatable.",
)
@click.option("--delete", multiple=True, metavar="PATH:NAME", help="Delete an attribute; repeatable.")
@click.option(
    "--append",
    "behind",
    multiple=True,
    metavar="PATH:NAME=TEXT",
    help="Put text, or numbers as with --set, behind what an attribute is; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be changed, and touch nothing.")
@storage_option()
@json_option
def edit_command(
    url: str,
    variables: tuple[str, ...],
    dimensions: tuple[str, ...],
    attributes: tuple[str, ...],
    values: tuple[str, ...],
    delete: tuple[str, ...],
    behind: tuple[str, ...],
    dry_run: bool,
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Change names and attributes of the dataset at URL, all of it or nothing.

    PATH is that of a variable, a pattern of such (t*, ocean/**), that of a group, or empty: then the attribute is of
    the whole dataset. Of a variable that is renamed at the same time it is the old or the new one. Attributes by which
    variables name others follow them.
    """
    if not any((variables, dimensions, attributes, values, delete, behind)):
        raise Invalid("there is nothing to change", url=url, remedy="hyperslab edit --help lists what can be")
    report = edit(
        url,
        rename_variables=parse_names(variables, "--rename-variable"),
        rename_dimensions=parse_names(dimensions, "--rename-dimension"),
        rename_attributes=parse_names(attributes, "--rename-attribute"),
        set=dict(parse_assignment(text) for text in values),
        delete=delete,
        append=dict(parse_assignment(text) for text in behind),
        dry_run=dry_run,
        storage_options=storage_option,
    )
    if as_json:
        print_json("edit", **asdict(report))
        return
    for line in report.changes:
        click.echo(line)
    if not report.changes:
        print_remark("nothing to change: it is so already")
    elif dry_run:
        print_remark("nothing was changed")


def parse_assignment(text: str) -> tuple[str, object]:
    """Parse ``PATH:NAME=TEXT``, ``PATH:NAME:i2=1,2`` or ``PATH:NAME:=JSON`` as place and value; Invalid."""
    left, mark, right = text.partition("=")
    if not mark or ":" not in left:
        raise Invalid(f"{text!r} sets no attribute", remedy=_SYNTAX)
    if left.endswith(":"):
        try:
            return left[:-1], json.loads(right)
        except ValueError:
            raise Invalid(f"{right!r} is no JSON", remedy=f"write {left[:-1]}=TEXT for text") from None
    if (typed := _TYPED.fullmatch(left)) and ":" in typed[1]:
        return typed[1], _numbers(right, np.dtype(typed[2]))
    return left, right


def _numbers(text: str, dtype: np.dtype[np.generic]) -> object:
    """Return one number, or several between commas, of a type; Invalid where they are none."""
    try:
        if dtype.kind == "f":
            cells = np.array([float(part) for part in text.split(",")], dtype)
        else:
            cells = np.array([int(part) for part in text.split(",")], dtype)
    except (ValueError, OverflowError):
        raise Invalid(f"{text!r} is no {dtype}", remedy=_SYNTAX) from None
    return cells if len(cells) > 1 else cells[0]
