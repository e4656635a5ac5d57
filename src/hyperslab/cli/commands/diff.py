"""``hyperslab diff``: what differs between two datasets, whatever their formats."""

from __future__ import annotations

from dataclasses import asdict

import click

from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    complete_place,
    memory_option,
    storage_option,
)
from hyperslab.cli.output import json_option, print_json
from hyperslab.errors import Invalid
from hyperslab.group.choice import Choice
from hyperslab.integrity.comparison import diff
from hyperslab.integrity.report import as_line


@click.command("diff", epilog="Example: hyperslab diff air.nc air.zarr")
@click.argument("a", shell_complete=complete_place)
@click.argument("b", shell_complete=complete_place)
@click.option("--no-cells", is_flag=True, help="Compare documents alone: attributes, types, dimensions, fill values.")
@choice_options()
@memory_option
@at_option("A")
@click.option("--a-at", metavar="VERSION", help="The same as --at.")
@click.option("--b-at", metavar="VERSION", help="The version of B that is compared.")
@storage_option("--a-option", "A")
@storage_option("--b-option", "B")
@allow_option("A and B")
@json_option
def diff_command(
    a: str,
    b: str,
    no_cells: bool,
    choice: Choice,
    memory: int,
    at: str | None,
    a_at: str | None,
    b_at: str | None,
    a_option: dict[str, object] | None,
    b_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> int:
    """List how dataset B differs from dataset A, whatever their formats, one a line; nothing when they are equal.

    Attributes, types, dimensions, shapes, fill values and every cell are compared; how arrays are cut and encoded means
    nothing. The exit code is 1 when something differs.
    """
    if at is not None and a_at is not None:
        raise Invalid("--at and --a-at are one option", url=a, remedy="leave one of them out")
    sides, versions = (a_option, b_option), (at or a_at, b_at)
    found = diff(
        a,
        b,
        cells=not no_cells,
        variables=choice.variables,
        exclude=choice.exclude,
        where=choice.where,
        memory=memory,
        storage_options=sides,
        at=versions,
        allow_external=allow_external,
    )
    if as_json:
        differences = [asdict(problem) for problem in found]
        print_json("diff", a=a, b=b, equal=not found, arrays=found.arrays, cells=found.cells, differences=differences)
    else:
        for problem in found:
            click.echo(as_line(problem))
    return int(bool(found))
