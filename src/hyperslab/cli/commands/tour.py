"""``hyperslab tour``: real data through every format, told as it goes."""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast

import click
from rich.console import Console
from rich.text import Text

from hyperslab.cli import main
from hyperslab.cli.output import escape_surrogates, format_columns, json_option, print_json
from hyperslab.cli.tour.runner import Answer, Measurement, StepResult, run_tour, sample_file
from hyperslab.cli.tour.steps import ARRAY, SLICE, STEPS, Step, text_of
from hyperslab.model.amounts import size_text


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


# -- what the tour prints ----------------------------------------------------------------------------------------------
# Text as wide as the terminal, coloured where that is wanted, bars of size and speed, a picture.


_WIDEST = 100
_INDENT = "   "
_LABEL = 10
_SIZES = 24
_OPENING = (
    "hyperslab opens large labelled arrays, whatever format they are stored in. This tour takes one real dataset "
    "through all of them: the air temperature over North America, 1860 to 2099, from a climate model.",
    "Each step shows what you would type, what then lies on disk, how long it took, and whether the numbers are still "
    "the same: all of them, bit by bit, and a slice that is chosen by its labels.",
)
_CHART = (
    "The best of some times on this machine, opening included: of so little data that is the larger part. Short bars "
    "are good bars."
)
_CLOSING = (
    "hyperslab info FILE           what a file of yours holds",
    "hyperslab convert FILE NEW    any format into any other",
    "hyperslab formats             all formats, and how they are recognised",
    "hyperslab --help              all commands",
)


class TourPrinter:
    """Tells the tour while it goes on."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = min(console.width, _WIDEST)

    def show_opening(self, folder: str) -> None:
        """Print what the tour is, and where it happens."""
        for paragraph in _OPENING:
            self._prose(paragraph)
            self._line()
        self._prose("All of it happens in this folder; look around there afterwards:")
        self._command(f"cd {folder}")

    def show_step(self, number: int, step: Step) -> None:
        """Print the head of a step and its story."""
        self._head(f"{number} {step.title}")
        self._prose(step.story)

    def show_program(self, step: Step) -> None:
        """Print the Python of a step."""
        self._line()
        if step.program:
            for line in text_of(step.program).splitlines():
                self._line(Text(f"{_INDENT}{line}".rstrip(), "green"))

    def show_command(self, command: str) -> None:
        """Print a command behind its prompt."""
        self._line()
        self._command(command)

    def show_output(self, answer: Answer) -> None:
        """Print the output of a command."""
        for line in answer.output.splitlines():
            for part in self._wrapped(line, len(_INDENT)):
                self._line(Text(f"{_INDENT}{part}"))

    def show_result(self, taken: StepResult) -> None:
        """Print what lies there now, what it took, what is equal."""
        if taken.install:
            self._line()
            self._fact("left out", Text(taken.install, "yellow"))
        found = taken.found
        if found is None:
            return
        self._line()
        if found.tree:
            room = self.width - len(_INDENT) - _LABEL - _SIZES
            rows = [(line.text(room), size_text(line.nbytes)) for line in found.tree]
            if found.files != 1:
                rows[0] = (rows[0][0], f"{rows[0][1]} in {found.files} files")
            self._fact("on disk", *(Text(line) for line in format_columns(rows).splitlines()))
        if found.documents:
            counts = ", ".join(f"{count} of {kind}" for kind, count in found.documents.items())
            self._fact("documents", Text(f"{counts}; {size_text(found.nbytes)}"))
        made = f"{taken.seconds:.2f} s to make it; " if taken.step.name != "source" else ""
        read, part = f"{found.read_seconds * 1000:.1f} ms", f"{found.slice_seconds * 1000:.1f} ms"
        self._fact("time", Text(f"{made}all is read in {read}, the slice in {part}"))
        if taken.step.name != "source":
            same = f"all {found.whole.size:,} cells, and the {found.part.size} of the slice"
            self._fact("equal", Text(same, "bold green"))

    def show_closing(self, seconds: float, picture: str | None) -> None:
        """Print where the picture is, and what to do next."""
        self._line()
        if picture:
            self._prose(f"The same as a picture: {picture}")
        else:
            self._prose("There is no picture of it: pip install 'hyperslab[plot]' brings what draws one.")
        self._prose(f"The tour took {seconds:.0f} seconds. Your own data next:")
        self._line()
        for line in _CLOSING:
            self._line(Text(f"{_INDENT}{line}"))

    def show_chart(self, lines: Iterable[Text]) -> None:
        """Print the bars of all formats."""
        self._head("All of them side by side")
        self._prose(_CHART)
        self._line()
        for line in lines:
            self._line(line)

    def _head(self, title: str) -> None:
        self._line()
        rule = "─" * max(self.width - len(title) - 4, 0)
        self._line(Text.assemble(("── ", "dim"), (f"{title} ", "bold cyan"), (rule, "dim")))

    def _command(self, command: str) -> None:
        """Print a command, continued below with a backslash where it is too long."""
        lines = [""]
        for word in re.findall(r"-\S+ [^-\s]\S*|\S+", command):  # an option stays with its value
            if lines[-1] and len(lines[-1]) + 1 + len(word) + 2 > self.width - len(_INDENT) - 4:
                lines.append("")
            lines[-1] = f"{lines[-1]} {word}".lstrip()
        for number, line in enumerate(lines):
            prompt, more = "$ " if number == 0 else "    ", " \\" if number < len(lines) - 1 else ""
            self._line(Text(f"{_INDENT}{prompt}{line}{more}", "bold"))

    def _fact(self, label: str, *lines: Text) -> None:
        for number, line in enumerate(lines):
            head = label if number == 0 else ""
            self._line(Text.assemble(_INDENT, (head.ljust(_LABEL), "dim"), line))

    def _prose(self, text: str) -> None:
        for line in self._wrapped(text, len(_INDENT)):
            self._line(Text(f"{_INDENT}{line}"))

    def _wrapped(self, text: str, indent: int) -> list[str]:
        """Return the lines of a text; one that fits is left as it is."""
        room = self.width - indent
        if len(text) <= room:
            return [text]
        return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)

    def _line(self, text: Text | None = None) -> None:
        """Print one line; what is wider than the terminal ends with an ellipsis."""
        line = text or Text()
        line.plain = escape_surrogates(line.plain)
        if self.console.is_terminal:
            line.truncate(self.console.width, overflow="ellipsis")
        self.console.print(line, soft_wrap=True, highlight=False)


PICTURE = "tour.png"
_NUMBERS = 9
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLUMNS: tuple[tuple[str, str, Callable[[Measurement], float], Callable[[float], str]], ...] = (
    ("on disk", "MiB", lambda look: look.nbytes, lambda value: size_text(int(value))),
    ("read all", "ms", lambda look: look.read_seconds * 1000, lambda value: f"{value:.1f} ms"),
    ("a slice", "ms", lambda look: look.slice_seconds * 1000, lambda value: f"{value:.1f} ms"),
)
_STYLES = ("blue", "green", "magenta")


def rows_of(taken: Sequence[StepResult]) -> list[tuple[str, Measurement]]:
    """Return what is compared: the steps that made a dataset of the whole, by short names."""
    return [(one.step.name, one.found) for one in taken if one.found and one.step.name != "append"]


def bars(taken: Sequence[StepResult], width: int) -> list[Text]:
    """Return a line for each format with a bar of its size, of the time to read all, and of that for a slice."""
    rows = rows_of(taken)
    names = max(len(name) for name, _ in rows)
    room = max((width - 3 - names - len(_COLUMNS) * (_NUMBERS + 3)) // len(_COLUMNS), 4)
    head = Text("   " + " " * names)
    for title, *_ in _COLUMNS:
        head.append(f"  {title.ljust(room + 1 + _NUMBERS)}", "bold")
    head.rstrip()
    lines = [head]
    most = [max(value(look) for _, look in rows) for _, _, value, _ in _COLUMNS]
    for name, look in rows:
        line = Text(f"   {name.ljust(names)}")
        for (_, _, value, written), top, style in zip(_COLUMNS, most, _STYLES, strict=True):
            line.append(f"  {bar(value(look) / top, room)}", style)
            line.append(f" {written(value(look)).rjust(_NUMBERS)}")
        lines.append(line)
    return lines


def bar(share: float, room: int) -> str:
    """Return a bar that fills a share of the room, to an eighth of a cell; never nothing."""
    eighths = max(round(share * room * 8), 1)
    full, rest = divmod(eighths, 8)
    return (_EIGHTHS[-1] * full + (_EIGHTHS[rest] if rest else "")).ljust(room)


def draw(taken: Sequence[StepResult], path: str) -> bool:
    """Return the same as a picture; False when what draws is not installed."""
    if find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    rows = rows_of(taken)
    figure = Figure(figsize=(11, 0.8 + 0.34 * len(rows)), layout="constrained")
    panels: Any = figure.subplots(1, len(_COLUMNS), sharey=True)
    figure.suptitle("One dataset, the same numbers in every format: air temperature over North America")
    titles = ("size on disk (MiB)", "reading all of it (ms)", "a slice by labels (ms)")
    colours = ("#3b6ea5", "#4d9a6a", "#a0568c")
    for panel, title, (_, unit, value, written), colour in zip(panels, titles, _COLUMNS, colours, strict=True):
        values = [value(look) for _, look in rows]
        scaled = [one / 2**20 for one in values] if unit == "MiB" else values
        drawn = panel.barh([name for name, _ in rows], scaled, color=colour)
        labels = [written(one) for one in values]
        panel.bar_label(drawn, labels, padding=3, fontsize=8)
        panel.set_title(title, fontsize=10, loc="left")
        panel.margins(x=0.3, y=0.01)
        panel.tick_params(axis="y", length=0)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=150)
    return True
