"""``hyperslab copy`` and ``sync``: a dataset's objects moved as bytes between folders, archives and buckets."""

from __future__ import annotations

from dataclasses import asdict

import click

from hyperslab.cli.arguments import storage_option
from hyperslab.cli.output import is_quiet, json_option, print_json, print_remark
from hyperslab.conversion.transfer import TransferReport, copy, sync


@click.command("copy", epilog="Example: hyperslab copy air.zarr s3://bucket/air.zarr")
@click.argument("src")
@click.argument("dst")
@click.option("--overwrite", is_flag=True, help="Replace the dataset at DST; what SRC does not have is removed.")
@storage_option("--src-option", "SRC")
@storage_option("--dst-option", "DST")
@json_option
def copy_command(
    src: str,
    dst: str,
    overwrite: bool,
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Copy the dataset SRC to DST byte by byte, in the same format; convert gives it another one."""
    progress = not as_json and not is_quiet()
    _print(
        "copy",
        copy(src, dst, overwrite=overwrite, progress=progress, storage_options=(src_option, dst_option)),
        as_json,
    )


@click.command("sync", epilog="Example: hyperslab sync air.zarr s3://bucket/air.zarr --dry-run")
@click.argument("src")
@click.argument("dst")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be sent and removed, and do nothing.")
@storage_option("--src-option", "SRC")
@storage_option("--dst-option", "DST")
@json_option
def sync_command(
    src: str,
    dst: str,
    dry_run: bool,
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Make DST the same as the dataset SRC: send what differs, remove what SRC does not have."""
    progress = not as_json and not is_quiet()
    _print(
        "sync", sync(src, dst, dry_run=dry_run, progress=progress, storage_options=(src_option, dst_option)), as_json
    )


def _print(schema: str, report: TransferReport, as_json: bool) -> None:
    if as_json:
        print_json(schema, **asdict(report))
    else:
        print_remark(str(report))
