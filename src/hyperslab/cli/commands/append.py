"""``hyperslab append``: rows of a file or dataset behind those of another."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import numpy as np

from hyperslab.cli.opening import corrected
from hyperslab.cli.output import json_option, print_json, say
from hyperslab.cli.storage import storage_option
from hyperslab.conversion.append import append_cells, append_dataset
from hyperslab.errors import FormatError, NotFound
from hyperslab.model.amounts import counted

_NPY = ".npy"


@click.command("append", epilog="Example: hyperslab append station.zarr today.nc --dim time")
@click.argument("target")
@click.argument("source")
@click.option("--dim", metavar="NAME", help="The dimension that gets longer; else the unlimited one, or the first.")
@click.option("--path", default="", metavar="PATH", help="Only this array of TARGET, with its coordinate.")
@storage_option("--src-option", "SOURCE")
@storage_option("--dst-option", "TARGET")
@json_option
def command(
    target: str,
    source: str,
    dim: str | None,
    path: str,
    src_option: dict[str, Any] | None,
    dst_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Put the rows of SOURCE, an .npy file or a dataset, behind those of TARGET.

    Every array along the dimension gets its rows, or none does.
    """
    options = {"storage_options": dst_option}
    with corrected(path, target, dst_option):
        if source.endswith(_NPY):
            done = append_cells(target, _load(source), path, dim, **options)
        else:
            theirs = {"storage_options": src_option}
            done = append_dataset(target, source, path, dim, source_options=theirs, **options)
    if as_json:
        print_json("append", target=target, **asdict(done))
        return
    names = ", ".join(f"/{name}" for name in done.arrays)
    say(f"{counted(done.rows, 'row')} along {done.dimension or 'the first axis'} to {names}")
    for name in done.shorter:
        say(f"the coordinate /{name} got none: append it by --path {name}")


def _load(path: str) -> np.ndarray[Any, Any]:
    """The array of an .npy file, mapped; FormatError when it is none."""
    try:
        found: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise NotFound("there is no such file", url=path) from None
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(f"this is no .npy file of plain cells: {error}", url=path) from None
    return found
