"""``hyperslab copy`` and ``sync``: a dataset's objects moved as bytes between folders, archives and buckets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import click

from hyperslab.cli.options import complete_place, side_options
from hyperslab.cli.output import json_option, print_json, print_remark, shows_progress
from hyperslab.conversion.transfer import TransferReport, copy, sync


def _command_of_transfer(
    name: str,
    text: str,
    example: str,
    option: Callable[[Callable[..., None]], Callable[..., None]],
    transfer: Callable[..., TransferReport],
) -> click.Command:
    """Return the command that moves a dataset SRC to DST by ``transfer``, which takes the flag of an ``option``
    besides; ``text`` is its help."""

    @click.command(name, help=text, epilog=f"Example: {example}")
    @click.argument("src", shell_complete=complete_place)
    @click.argument("dst", shell_complete=complete_place)
    @option
    @side_options
    @json_option
    def command(
        src: str,
        dst: str,
        src_option: dict[str, object] | None,
        dst_option: dict[str, object] | None,
        as_json: bool,
        **flags: bool,
    ) -> None:
        report = transfer(src, dst, progress=shows_progress(as_json), storage_options=(src_option, dst_option), **flags)
        if as_json:
            print_json(name, **asdict(report))
        else:
            print_remark(str(report))

    return command


copy_command = _command_of_transfer(
    "copy",
    "Copy the dataset SRC to DST byte by byte, in the same format; convert gives it another one.",
    "hyperslab copy air.zarr s3://bucket/air.zarr",
    click.option("--overwrite", is_flag=True, help="Replace the dataset at DST; what SRC does not have is removed."),
    copy,
)

sync_command = _command_of_transfer(
    "sync",
    "Make DST the same as the dataset SRC: send what differs, remove what SRC does not have.",
    "hyperslab sync air.zarr s3://bucket/air.zarr --dry-run",
    click.option("-n", "--dry-run", is_flag=True, help="Say what would be sent and removed, and do nothing."),
    sync,
)
