"""``hyperslab tree``: the names in a dataset."""

from __future__ import annotations

from typing import Any

import click

from hyperslab.cli.describing import nodes_of
from hyperslab.cli.opening import open_dataset, url_argument
from hyperslab.cli.output import json_option, print_json
from hyperslab.cli.storage import storage_option
from hyperslab.group import Group
from hyperslab.group.tree import array_text
from hyperslab.stores.location import Location


@click.command("tree", epilog="Example: hyperslab tree air.zarr")
@url_argument
@storage_option()
@json_option
def command(url: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """The tree of groups, arrays and links of the dataset at URL."""
    root = open_dataset(url, storage_option)
    if as_json:
        print_json("tree", url=url, nodes=list(nodes_of(root)))
    elif isinstance(root, Group):
        click.echo(root.tree())
    else:
        click.echo(f"{Location.of(url).name}{array_text(root.spec)}")
