"""``hyperslab dump``: CDL text."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import click

from hyperslab.array import Array
from hyperslab.chunks.pool import batched
from hyperslab.cli.cdl import dump
from hyperslab.cli.opening import find_array, open_dataset, url_argument
from hyperslab.cli.output import json_option, print_json
from hyperslab.cli.storage import storage_option
from hyperslab.errors import Invalid
from hyperslab.group import Group

_AT_ONCE = 1000  # lines that are written together: each write is flushed


@click.command("dump", epilog="Example: hyperslab dump air.zarr -h; hyperslab dump air.zarr --array t2m")
@url_argument
@click.option("-h", "--header", is_flag=True, help="The header alone, no cells.")
@click.option("--array", "arrays", multiple=True, metavar="PATH", help="Cells of this array only; repeatable.")
@storage_option()
@json_option
def command(
    url: str, header: bool, arrays: tuple[str, ...], storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """The dataset at URL as CDL text, as ncdump prints it."""
    root = open_dataset(url, storage_option)
    name = PurePosixPath(url.rstrip("/")).name
    name = name.rsplit(".", 1)[0] or name
    only = frozenset(_own_path(root, path) for path in arrays) if arrays else None
    if isinstance(root, Array):
        only = None
    lines = dump(root, name, header=header, only=only)
    if as_json:
        print_json("dump", url=url, cdl="\n".join(lines))
        return
    for some in batched(lines, _AT_ONCE):
        click.echo("\n".join(some))


def _own_path(root: Group | Array, path: str) -> str:
    """Where an array of this dataset is; a link to one of another dataset is shown as a link alone."""
    array = find_array(root, path)
    if array.url != root.url:
        raise Invalid(
            f"/{path.strip('/')} leads to another dataset", url=array.url, node=array.path, remedy="dump that"
        )
    return array.path
