"""``hyperslab convert`` and ``append``: a dataset into another one, whatever their formats."""

from __future__ import annotations

from dataclasses import asdict, replace
from inspect import signature
from typing import Any

import click
import numpy as np

from hyperslab.array.row_labels import CHOICES, Repeated
from hyperslab.chunks.auto import SHARD_WORDS
from hyperslab.cli.arguments import (
    SelectionOptions,
    parse_lengths,
    parse_options,
    parse_selections,
    suggest_path_on_error,
)
from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    complete_place,
    memory_option,
    packing_option,
    scheduler_option,
    selection_options,
    side_options,
    storage_option,
    target_options,
    units_option,
)
from hyperslab.cli.output import json_option, print_json, print_remark, shows_progress
from hyperslab.conversion.append import append_cells, append_dataset
from hyperslab.conversion.packing import Units
from hyperslab.conversion.pipeline import convert
from hyperslab.conversion.rechunk import CHUNK_WORDS
from hyperslab.errors import FormatError, Invalid, NotFound
from hyperslab.group.choice import Choice
from hyperslab.model.amounts import counted
from hyperslab.model.cells import Values
from hyperslab.stores.credentials import redact


@click.command("convert", epilog="Example: hyperslab convert air.nc air.zarr --chunks time=100,lat=50 --verify")
@click.argument("src", shell_complete=complete_place)
@click.argument("dst", shell_complete=complete_place)
@target_options
@click.option("--path", default="", metavar="PATH", help="Only this group or array, with what belongs to it by CF.")
@click.option(
    "--chunks", metavar="DIM=N,…", help="Chunk lengths by dimension (-1: whole), auto, or same: the source's."
)
@click.option(
    "--shards",
    metavar="DIM=N,…",
    help="Shard lengths by dimension (-1: whole), auto, many or none. Zarr v3 gets many small chunks in shards; none: "
    "never.",
)
@click.option("--codec", help="For instance zstd:5, blosc:lz4:5, gzip, default or none; else as the source has it.")
@selection_options
@choice_options(companions=True)
@units_option
@click.option("--along", multiple=True, metavar="DIM", help="Join the datasets that SRC matches ('*.nc') along DIM.")
@packing_option
@click.option("--verify", is_flag=True, help="Read the target anew and compare every cell and attribute.")
@click.option("--allow-loss", is_flag=True, help="Convert what the target can hold, leave out the rest.")
@click.option("--skip-damaged", is_flag=True, help="Copy what can be read, and list the rest; exit code 1 then.")
@click.option("--resume", is_flag=True, help="Keep what is done when interrupted, and go on from there.")
@click.option("--dry-run", is_flag=True, help="Write nothing; say what is read how often, written, lost, and how long.")
@memory_option
@scheduler_option
@click.option(
    "--option",
    "layout",
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda context, parameter, texts: parse_options(texts, "an option"),
    help="An option of the target's format, such as layout=bcolz or superchunk:=4; repeatable.",
)
@side_options
@allow_option("SRC")
@at_option("SRC")
@json_option
def convert_command(
    src: str,
    dst: str,
    chunks: str | None,
    shards: str | None,
    selections: tuple[str, ...],
    manner: SelectionOptions,
    choice: Choice,
    units: dict[str, str],
    at: str | None,
    along: tuple[str, ...],
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    layout: dict[str, Any] | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Copy the dataset SRC to DST; what DST cannot hold is said first. The format follows from DST's name."""
    own = {name for name, one in signature(convert).parameters.items() if one.kind is not one.VAR_KEYWORD}
    for name in layout or {}:
        if name in own:
            raise Invalid(f"no format has an option {name!r}", remedy="hyperslab convert --help lists what has its own")
    with suggest_path_on_error(options["path"], src, src_option, at):
        report = convert(
            src,
            dst,
            select=manner.select(parse_selections(selections)),
            variables=choice.variables,
            exclude=choice.exclude,
            where=choice.where,
            alone=choice.alone,
            recode=[Units(units)] if units else (),
            chunks=parse_lengths(chunks, "--chunks", CHUNK_WORDS),
            shards=parse_lengths(shards, "--shards", SHARD_WORDS),
            progress=shows_progress(as_json),
            at=at,
            along=along or None,
            storage_options=(src_option, dst_option),
            **options,
            **(layout or {}),
        )
    if as_json:
        print_json("convert", **asdict(report))
    else:
        print_remark(str(replace(report, losses=(), damaged=(), foreign=())))
    return 1 if report.damaged else 0


# -- hyperslab append: rows of a file or dataset behind those of another -----------------------------------------------


_NPY = ".npy"


@click.command("append", epilog="Example: hyperslab append station.zarr today.nc --dim time")
@click.argument("target", shell_complete=complete_place)
@click.argument("source", shell_complete=complete_place)
@click.option(
    "--dim",
    "--along",
    "dim",
    metavar="NAME",
    help="The dimension that gets longer; else the unlimited one, or the first.",
)
@click.option("--path", default="", metavar="PATH", help="Only this array of TARGET, with its coordinate.")
@click.option(
    "--repeated",
    type=click.Choice(CHOICES),
    default="error",
    show_default=True,
    help="What becomes of rows of a dataset whose labels TARGET has.",
)
@storage_option("--src-option", "SOURCE")
@storage_option("--dst-option", "TARGET")
@json_option
def append_command(
    target: str,
    source: str,
    dim: str | None,
    path: str,
    repeated: Repeated,
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Put the rows of SOURCE, an .npy file or a dataset, behind those of TARGET.

    Every array along the dimension gets its rows, or none does.
    """
    with suggest_path_on_error(path, target, dst_option):
        if source.endswith(_NPY):
            done = append_cells(target, _load(source), path, dim, storage_options=dst_option)
        else:
            sides = {"source_options": src_option, "storage_options": dst_option}
            done = append_dataset(target, source, path, dim, repeated=repeated, **sides)
    if as_json:
        print_json("append", target=target, **asdict(done))
        return
    names = ", ".join(f"/{name}" for name in done.arrays)
    along = done.dimension or "the first axis"
    print_remark(f"{redact(source)} -> {redact(target)}: {counted(done.rows, 'row')} along {along} to {names}")
    for name in done.shorter:
        print_remark(f"the coordinate /{name} got none: append it to the dataset by --path {name}")
    if done.left_out:
        left = ", ".join(f"/{name}" for name in done.left_out)
        print_remark(f"left out, since {redact(target)} has no such arrays: {left}")


def _load(path: str) -> Values:
    """Map the array of an .npy file; FormatError when it is none."""
    try:
        found: Values = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise NotFound("there is no such file", url=path) from None
    except (ValueError, EOFError, OSError) as error:
        remedy = "write it by numpy.save, with cells of a plain type"
        raise FormatError(f"this is no .npy file of plain cells: {error}", url=path, remedy=remedy) from None
    return found
