"""``hyperslab plan``: what a selection costs, before it runs."""

from __future__ import annotations

from typing import Any

import click

from hyperslab.cli.opening import find_array, open_dataset, path_argument, selection_key, selection_option, url_argument
from hyperslab.cli.output import json_option, print_json
from hyperslab.cli.selection import parse_selections
from hyperslab.cli.storage import allow_option, storage_option


@click.command("plan", epilog="Example: hyperslab plan air.zarr t2m -s time=2013-01..2013-03 -s lat=50.0")
@url_argument
@path_argument
@selection_option
@click.option("--nearest", is_flag=True, help="Take the neighbour of a label that no cell has.")
@storage_option()
@allow_option()
@json_option
def command(
    url: str,
    path: str,
    selections: tuple[str, ...],
    nearest: bool,
    storage_option: dict[str, Any] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """Which chunks, bytes and requests a selection of the array PATH costs; no cell is read."""
    array = find_array(open_dataset(url, storage_option, allow=allow_external), path)
    price = array.plan(selection_key(array, parse_selections(selections), nearest))
    if as_json:
        print_json("plan", url=url, path=array.path, **price.as_json())
    else:
        click.echo(str(price))
