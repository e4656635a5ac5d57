"""``hyperslab diff``: what differs between two datasets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hyperslab.checks import diff
from hyperslab.checks.report import as_line
from hyperslab.cli.output import json_option, print_json
from hyperslab.cli.storage import storage_option
from hyperslab.model.amounts import parse_size


@click.command("diff", epilog="Example: hyperslab diff air.nc air.zarr")
@click.argument("a")
@click.argument("b")
@click.option("--no-cells", is_flag=True, help="Compare documents alone: attributes, types, dimensions, fill values.")
@click.option("--memory", default="256MiB", show_default=True, metavar="SIZE", help="Memory for cells in flight.")
@storage_option("--a-option", "A")
@storage_option("--b-option", "B")
@json_option
def command(
    a: str,
    b: str,
    no_cells: bool,
    memory: str,
    a_option: dict[str, Any] | None,
    b_option: dict[str, Any] | None,
    as_json: bool,
) -> int:
    """How dataset B differs from dataset A, whatever their formats, one difference a line; nothing when they are equal.

    Attributes, types, dimensions, shapes, fill values and every cell are compared; how arrays are cut and encoded means
    nothing. The exit code is 1 when something differs.
    """
    found = diff(a, b, cells=not no_cells, memory=parse_size(memory, "--memory"), storage_options=(a_option, b_option))
    if as_json:
        differences = [asdict(problem) for problem in found]
        print_json("diff", a=a, b=b, equal=not found, arrays=found.arrays, cells=found.cells, differences=differences)
    else:
        for problem in found:
            click.echo(as_line(problem))
    return int(bool(found))
