"""``hyperslab formats``: what is spoken."""

from __future__ import annotations

from typing import Any

import click

from hyperslab import api
from hyperslab.cli.output import columns, json_option, print_json
from hyperslab.formats.base import Feature, FormatInfo, Variant


@click.command("formats", epilog="Example: hyperslab formats --json")
@json_option
def command(as_json: bool) -> None:
    """Each format: what it holds, how it is recognised, whether it can be written."""
    infos = api.list_formats()
    if as_json:
        print_json(
            "formats",
            formats=[
                {
                    "name": name,
                    "holds": info.holds,
                    "recognised_by": info.recognised_by,
                    "writable": info.writable,
                    "features": sorted(feature.value for feature in info.variants[0].features),
                    "variants": [_variant(each) for each in info.variants],
                }
                for name, info in infos.items()
            ],
        )
        return
    rows = [("format", "variants", "access", "holds", "recognised by")]
    rows += [
        (n, _options(i), "read, write" if i.writable else "read", i.holds, i.recognised_by) for n, i in infos.items()
    ]
    click.echo(columns(rows))


def _variant(variant: Variant) -> dict[str, Any]:
    features = {feature.value: feature in variant.features for feature in Feature}
    notes = {feature.value: note for feature, note in variant.notes.items()}
    return {"name": variant.name, "options": dict(variant.options), "features": features, "notes": notes}


def _options(info: FormatInfo) -> str:
    """How each variant is asked for; nothing where there is one."""
    return ", ".join(f"{key}={value}" for variant in info.variants for key, value in variant.options.items())
