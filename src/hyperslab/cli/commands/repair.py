"""``hyperslab repair``: what can be mended is mended, once it has been looked at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hyperslab.checks import Mend, repair
from hyperslab.checks.report import as_line
from hyperslab.cli.opening import url_argument
from hyperslab.cli.output import is_quiet, json_option, print_json, say
from hyperslab.cli.storage import allow_option, storage_option


@click.command("repair", epilog="Example: hyperslab repair air.zarr --apply")
@url_argument
@click.option("--apply", is_flag=True, help="Mend; without it only what would be done is shown.")
@click.option("--dry-run", is_flag=True, help="Show only, as without --apply.")
@click.option("--shallow", is_flag=True, help="Leave out chunks that are damaged inside: decode none.")
@click.option("--links", is_flag=True, help="Mend links and references alone, and complete what links say.")
@click.option("--drop-links", is_flag=True, help="Take out links that lead nowhere; else they are only shown.")
@click.option("--quarantine", metavar="FOLDER", help="Where what is taken out goes; else beside a local dataset.")
@click.option("--format", help="The format, where it is not to be found out.")
@storage_option()
@allow_option()
@json_option
def command(
    url: str,
    apply: bool,
    dry_run: bool,
    shallow: bool,
    links: bool,
    drop_links: bool,
    quarantine: str | None,
    format: str | None,
    storage_option: dict[str, Any] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> int:
    """Show how each problem of the dataset at URL would be mended; with --apply, mend it. Sound cells stay as they are.

    The exit code is 1 while there are problems: all of them without --apply, those that could not be mended with it.
    """
    dry_run = dry_run or not apply
    report = repair(
        url,
        dry_run=dry_run,
        deep=not shallow,
        links=links,
        drop_links=drop_links,
        quarantine=quarantine,
        format=format,
        storage_options=storage_option,
        allow_external=allow_external,
        progress=not as_json and not is_quiet(),
    )
    left = [mend for mend in report if not (isinstance(mend, Mend) and mend.done)]
    if as_json:
        mends = [{"action": None, "done": False, **asdict(mend)} for mend in report]
        print_json("repair", url=report.url, applied=not dry_run, mends=mends)
        return int(bool(left))
    for mend in report:
        click.echo(as_line(mend))
    if dry_run and any(isinstance(mend, Mend) and mend.action for mend in report):
        say("nothing was changed; --apply mends")
    return int(bool(left))
