"""``hyperslab repack`` and ``unpack``: cells as packed whole numbers, as what these mean, or with fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click

from hyperslab.cli.arguments import parse_lengths, split_commas
from hyperslab.cli.options import apply_options, complete_place, memory_option, side_options, target_options
from hyperslab.cli.output import json_option, print_json, print_remark, shows_progress
from hyperslab.conversion.packing import Pack, Recoder, Round, Unpack, plan_recoding
from hyperslab.conversion.pipeline import convert
from hyperslab.conversion.rechunk import CHUNK_WORDS
from hyperslab.errors import Invalid

_OPTIONS = (
    click.argument("src", shell_complete=complete_place),
    click.argument("dst", shell_complete=complete_place),
    click.option("-v", "--variables", multiple=True, metavar="NAME,…", help="These alone are changed; repeatable."),
    target_options,
    click.option("--chunks", metavar="DIM=N,…", help="Chunk lengths by dimension, auto, or same: the source's."),
    click.option("--codec", help="As of convert; where the type of cells changes default, else as in the source."),
    click.option("--verify", is_flag=True, help="Read the target anew and compare every cell with what was made."),
    memory_option,
    click.option("--dry-run", is_flag=True, help="Say what would become of each array, and write nothing."),
    side_options,
    json_option,
)


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    return apply_options(command, *_OPTIONS)


@click.command(
    "repack", epilog="Example: hyperslab repack air.nc small.nc --type i2; hyperslab repack a.nc b.nc --digits 4"
)
@_shared
@click.option(
    "--type",
    "dtype",
    type=click.Choice(["i1", "u1", "i2", "u2", "i4", "u4"]),
    help="Whole numbers with scale and offset, chosen from the data; i2 without --digits and --bits.",
)
@click.option("--digits", type=int, metavar="N", help="Floats of N significant digits, which compress better.")
@click.option("--bits", type=int, metavar="N", help="Floats of N bits of the mantissa, rounded.")
def repack_command(
    dtype: Any, digits: int | None, bits: int | None, variables: tuple[str, ...], **options: Any
) -> None:
    """Copy SRC to DST with cells that take less: packed whole numbers, or floats that compress better.

    Coordinates, and what variables name as bounds, areas or mappings, stay as they are unless -v names them.
    """
    if dtype is not None and (digits is not None or bits is not None):
        raise Invalid("--type and --digits or --bits", remedy="pack, or quantize: one of the two")
    names = tuple(split_commas(variables))
    packs = digits is None and bits is None
    _run("repack", Pack(dtype or "i2", names) if packs else Round(digits, bits, names), **options)


@click.command("unpack", epilog="Example: hyperslab unpack small.nc air.nc")
@_shared
def unpack_command(variables: tuple[str, ...], **options: Any) -> None:
    """Copy SRC to DST with packed cells as the floats that they mean, NaN where they are missing."""
    _run("unpack", Unpack(tuple(split_commas(variables))), **options)


def _run(
    name: str,
    recoder: Recoder,
    *,
    src: str,
    dst: str,
    chunks: str | None,
    memory: int,
    dry_run: bool,
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    as_json: bool,
    **options: Any,
) -> None:
    if dry_run:
        lines: Sequence[str] = plan_recoding(src, [recoder], memory=memory, storage_options=src_option)
        if as_json:
            print_json(name, source=src, target=dst, dry_run=True, recoded=lines)
            return
        for line in lines:
            click.echo(line)
        print_remark("nothing was written" if lines else "no array suits: all would be copied as they are")
        return
    report = convert(
        src,
        dst,
        chunks=parse_lengths(chunks, "--chunks", CHUNK_WORDS),
        progress=shows_progress(as_json),
        memory=memory,
        recode=[recoder],
        storage_options=(src_option, dst_option),
        **options,
    )
    if as_json:
        print_json(name, **asdict(report))
    else:
        print_remark(str(report))
