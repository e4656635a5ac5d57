"""``hyperslab tour``: real data through every format, sliced by label on the way."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from hyperslab import api
from hyperslab.array import Array
from hyperslab.cli.opening import arrays_of, selection_key
from hyperslab.cli.output import columns, json_option, print_json, say, size_text
from hyperslab.cli.selection import Selection, parse_selections
from hyperslab.conversion import convert
from hyperslab.errors import CorruptChunk, Unsupported

SAMPLE = "A1B_north_america.nc"
ARRAY = "air_temperature"
SLICE = ("latitude=50.0", "longitude=260.625", "time=1900-01..1910-12")
# name, target, options of convert
STEPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Zarr v2", "a1b.v2.zarr", {"format": "zarr2"}),
    ("Zarr v3", "a1b.zarr", {"format": "zarr3", "chunks": {"time": 60}}),
    ("Zarr v3, sharded", "a1b.sharded.zarr", {"format": "zarr3", "chunks": {"time": 30}, "shards": {"time": 120}}),
    ("netCDF-4 again", "a1b.nc", {"format": "netcdf"}),
)


@click.command("tour", epilog="Example: hyperslab tour --dir /data/tour")
@click.option("--dir", "folder", default=".tour", show_default=True, help="Where the datasets are written.")
@json_option
def command(folder: str, as_json: bool) -> None:
    """Walk real climate data (air temperature over North America, 1860 to 2099) through the formats.

    Each step converts the one before, is verified cell by cell, and is then sliced by label: the same numbers must
    come out of every format.
    """
    source = sample(SAMPLE)
    os.makedirs(folder, exist_ok=True)
    first = look("netCDF-4 source", str(source))
    steps = [first]
    if not as_json:
        click.echo(f"{source.name}: {ARRAY} at {', '.join(SLICE)}")
    previous = str(source)
    for name, target, options in STEPS:
        place = os.path.join(folder, target)
        say(f"{name}: {previous} -> {place}")
        report = convert(previous, place, overwrite=True, verify=True, **options)
        step = look(name, place) | {
            "seconds": report.seconds,
            "verified_cells": report.verified and report.verified.cells,
        }
        if not np.array_equal(step["values"], first["values"]):
            raise CorruptChunk("the slice differs from the source", url=place, node=ARRAY)
        steps.append(step)
        previous = place
    tell(steps, as_json)


def sample(name: str) -> Path:
    """A file of the package iris-sample-data; Unsupported when that is not installed."""
    spec = find_spec("iris_sample_data")
    if spec is None or spec.origin is None:
        raise Unsupported("the tour needs the package iris-sample-data", remedy="pip install 'hyperslab[tour]'")
    return Path(spec.origin).parent / "sample_data" / name


def look(name: str, place: str) -> dict[str, Any]:
    """Open a dataset, slice it by label, and say what that took."""
    started = time.perf_counter()
    root = api.open(place)
    array = dict(arrays_of(root))[ARRAY]
    values = take(array, parse_selections(SLICE))
    seconds = time.perf_counter() - started
    return {
        "step": name,
        "place": os.path.abspath(place),
        "chunks": array.chunks,
        "nbytes_stored": stored(Path(place)),
        "slice_seconds": seconds,
        "cells": values.size,
        "mean": float(values.mean()),
        "values": values,
    }


def take(array: Array, selection: Selection) -> np.ndarray[Any, Any]:
    """The labelled slice as stored."""
    return np.asarray(array.oindex[selection_key(array, selection)])


def stored(place: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def tell(steps: list[dict[str, Any]], as_json: bool) -> None:
    """A line per step: sizes, times, where the files lie."""
    if as_json:
        print_json("tour", selection=SLICE, array=ARRAY, steps=steps)
        return
    rows = [("step", "stored", "chunks", "converted in", "sliced in", "cells", "mean", "where")]
    for step in steps:
        made = f"{step['seconds']:.2f} s" if "seconds" in step else "-"
        chunks = " x ".join(map(str, step["chunks"]))
        sliced = f"{1000 * step['slice_seconds']:.1f} ms"
        size = size_text(step["nbytes_stored"])
        rows.append(
            (step["step"], size, chunks, made, sliced, str(step["cells"]), f"{step['mean']:.4f} K", step["place"])
        )
    click.echo(columns(rows))
    click.echo("Every step was verified cell by cell, and every slice is the same.")
