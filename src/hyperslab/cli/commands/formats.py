"""``hyperslab formats``: what is spoken."""

from __future__ import annotations

import click

from hyperslab import api
from hyperslab.cli.output import columns, json_option, print_json
from hyperslab.formats import get_format


@click.command("formats", epilog="Example: hyperslab formats --json")
@json_option
def command(as_json: bool) -> None:
    """Each format: what it holds, how it is recognised, whether it can be written."""
    infos = api.list_formats()
    if as_json:
        features = {name: sorted(feature.value for feature in get_format(name).features) for name in infos}
        print_json(
            "formats",
            formats=[
                {
                    "name": name,
                    "holds": info.holds,
                    "recognised_by": info.recognised_by,
                    "writable": info.writable,
                    "features": features[name],
                }
                for name, info in infos.items()
            ],
        )
        return
    rows = [("format", "access", "holds", "recognised by")]
    rows += [(n, "read, write" if i.writable else "read", i.holds, i.recognised_by) for n, i in infos.items()]
    click.echo(columns(rows))
