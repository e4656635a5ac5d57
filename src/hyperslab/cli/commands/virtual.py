"""``hyperslab virtual``: references to the chunks of datasets, in place of copies."""

from __future__ import annotations

from dataclasses import asdict, replace

import click

from hyperslab.cli.options import allow_option, complete_place, storage_option
from hyperslab.cli.output import json_option, print_json, print_remark, shows_progress
from hyperslab.conversion.virtual_dataset import virtual


@click.command("virtual", epilog="Example: hyperslab virtual '*.nc' archive.json --along time")
@click.argument("pieces", nargs=-1, required=True, shell_complete=complete_place)
@click.argument("target", shell_complete=complete_place)
@click.option("--along", multiple=True, metavar="DIM", help="Join the pieces along DIM; else it is found out.")
@click.option("--format", help="The form of the references, where the name of TARGET does not say it.")
@click.option("--absolute", is_flag=True, help="Name files by their whole path, also those below TARGET's folder.")
@click.option("--overwrite", is_flag=True, help="Replace what is at TARGET.")
@click.option("--allow-loss", is_flag=True, help="Leave out what Zarr has no form for.")
@storage_option(whose="the pieces")
@allow_option("PIECES")
@json_option
def virtual_command(
    pieces: tuple[str, ...],
    target: str,
    along: tuple[str, ...],
    format: str | None,
    absolute: bool,
    overwrite: bool,
    allow_loss: bool,
    storage_option: dict[str, object] | None,
    allow_external: object,
    as_json: bool,
) -> None:
    """Write references to the chunks of PIECES (datasets, or a pattern such as '*.nc'), which open as one dataset."""
    more = {"allow_external": allow_external} if allow_external else {}
    report = virtual(
        pieces[0] if len(pieces) == 1 else pieces,
        target,
        along or None,
        format=format,
        relative=not absolute,
        overwrite=overwrite,
        allow_loss=allow_loss,
        progress=shows_progress(as_json),
        storage_options=storage_option,
        **more,
    )
    if as_json:
        print_json("virtual", **asdict(report))
    else:
        print_remark(str(replace(report, losses=())))
