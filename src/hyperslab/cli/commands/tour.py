"""``hyperslab tour``: real data through every format, told as it goes."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import click
from rich.console import Console

from hyperslab.cli import main
from hyperslab.cli.output import json_option, print_json
from hyperslab.cli.tour.report import PICTURE, TourPrinter, bars, draw
from hyperslab.cli.tour.runner import StepResult, run_tour, sample_file
from hyperslab.cli.tour.steps import ARRAY, SLICE, STEPS, Step


@click.command("tour", epilog="Example: hyperslab tour --dir /data/tour")
@click.option("--dir", "folder", default=".tour", show_default=True, help="Where the datasets are written.")
@click.option("--short", is_flag=True, help="Ten years of the data instead of 240.")
@json_option
def tour_command(folder: str, short: bool, as_json: bool) -> None:
    """Walk real climate data (air temperature over North America, 1860 to 2099) through the formats.

    Each step shows what is typed, what then lies on disk, and what it took; all cells, and a slice that is chosen by
    labels, must be those of the source. At the end stands a chart of size and speed.
    """
    # Standard output has no style where it is no terminal or NO_COLOR is set.
    plain: dict[str, Any] = {}
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        plain["color_system"] = None
    console = Console(file=cast(IO[str], _Stdout()), quiet=as_json, markup=False, emoji=False, **plain)
    facts = tour(folder, console, STEPS, short=short)
    if as_json:
        print_json("tour", **facts)


def tour(folder: str, console: Console, steps: Sequence[Step], *, short: bool) -> dict[str, object]:
    """Take the steps and tell of them; what was done, as plain values."""
    started = time.perf_counter()
    sample_file()
    guide = TourPrinter(console)
    guide.show_opening(folder)
    taken = run_tour(folder, main.within, guide, short=short, steps=steps)
    picture = os.path.join(folder, PICTURE)
    drawn = draw(taken, picture)
    seconds = time.perf_counter() - started
    guide.show_chart(bars(taken, guide.width))
    guide.show_closing(seconds, picture if drawn else None)
    return {
        "array": ARRAY,
        "selection": SLICE,
        "steps": [_step_facts(folder, one) for one in taken],
        "chart": os.path.abspath(picture) if drawn else None,
        "seconds": seconds,
    }


class _Stdout(io.TextIOBase):
    """Standard output as click writes to it, whatever its encoding."""

    def write(self, text: str) -> int:
        """Print a part of a line, or lines."""
        click.echo(text, nl=False)
        return len(text)

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        return sys.stdout.isatty()


def _step_facts(folder: str, taken: StepResult) -> dict[str, object]:
    """Return a step as plain values."""
    facts: dict[str, object] = {
        "step": taken.step.name,
        "title": taken.step.title,
        "left_out": taken.install,
        "commands": [{"typed": one.typed, "output": one.output, "seconds": one.seconds} for one in taken.answers],
    }
    found = taken.found
    if found is None:
        return facts
    local = "://" not in found.place
    return facts | {
        "place": os.path.abspath(Path(folder, found.place)) if local else found.place,
        "nbytes_stored": found.nbytes,
        "files": found.files,
        "documents": found.documents,
        "seconds": taken.seconds,
        "read_seconds": found.read_seconds,
        "slice_seconds": found.slice_seconds,
        "verified_cells": found.whole.size,
        "cells": found.part.size,
        "mean": float(found.part.mean()),
        "equal": True,
    }
