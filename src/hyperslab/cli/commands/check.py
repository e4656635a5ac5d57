"""``hyperslab check``: every problem of a dataset."""

from __future__ import annotations

from typing import Any

import click

from hyperslab.checks import check
from hyperslab.checks.report import as_line
from hyperslab.cli.opening import url_argument
from hyperslab.cli.output import is_quiet, json_option, print_json, remark, say
from hyperslab.cli.storage import allow_option, storage_option


@click.command("check", epilog="Example: hyperslab check air.zarr --deep")
@url_argument
@click.option("--deep", is_flag=True, help="Decode every chunk; else names, lengths, documents and shard indexes.")
@click.option("--format", help="The format, where it is not to be found out.")
@storage_option()
@allow_option()
@json_option
def command(
    url: str,
    deep: bool,
    format: str | None,
    storage_option: dict[str, Any] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> int:
    """Every problem of the dataset at URL with its place, one a line; nothing when it is sound. Nothing is changed.

    The exit code is 1 when there are problems. What may well be meant (chunks that are not stored) is said with -v,
    what the dataset holds and is not shown always, on stderr.
    """
    report = check(
        url,
        deep=deep,
        format=format,
        storage_options=storage_option,
        allow_external=allow_external,
        progress=not as_json and not is_quiet(),
    )
    if as_json:
        problems, notes = (
            [{"node": p.node, "kind": p.kind, "message": p.message} for p in some] for some in (report, report.notes)
        )
        print_json("check", url=report.url, deep=deep, sound=not report, problems=problems, notes=notes)
        return int(bool(report))
    for note in report.notes:
        (say if note.kind == "not-shown" else remark)(as_line(note))
    for problem in report:
        click.echo(as_line(problem))
    return int(bool(report))
