"""Size and speed of each format side by side: bars of text, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from rich.text import Text

from hyperslab.cli.tour.looking import Look
from hyperslab.cli.tour.walking import Taken
from hyperslab.model.amounts import size_text

PICTURE = "tour.png"
_NUMBERS = 9
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLUMNS: tuple[tuple[str, str, Callable[[Look], float], Callable[[float], str]], ...] = (
    ("on disk", "MiB", lambda look: look.nbytes, lambda value: size_text(int(value))),
    ("read all", "ms", lambda look: look.read_seconds * 1000, lambda value: f"{value:.1f} ms"),
    ("a slice", "ms", lambda look: look.slice_seconds * 1000, lambda value: f"{value:.1f} ms"),
)
_STYLES = ("blue", "green", "magenta")


def rows_of(taken: Sequence[Taken]) -> list[tuple[str, Look]]:
    """What is compared: the steps that made a dataset of the whole, by short names."""
    return [(one.step.name, one.found) for one in taken if one.found and one.step.name != "append"]


def bars(taken: Sequence[Taken], width: int) -> list[Text]:
    """A line for each format with a bar of its size, of the time to read all, and of that for a slice."""
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
    """A bar that fills a share of the room, to an eighth of a cell; never nothing."""
    eighths = max(round(share * room * 8), 1)
    full, rest = divmod(eighths, 8)
    return (_EIGHTHS[-1] * full + (_EIGHTHS[rest] if rest else "")).ljust(room)


def draw(taken: Sequence[Taken], path: str) -> bool:
    """The same as a picture; False when what draws is not installed."""
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
