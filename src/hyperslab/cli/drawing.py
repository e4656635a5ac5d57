"""Pictures of parts by matplotlib, imported here on use: a line over one axis, an image over two.

Text comes from files that anyone may have written: it is never read as TeX or mathtext, and control characters are
replaced. The same part gives the same file, byte for byte.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from textwrap import wrap
from typing import Any

import numpy as np

from hyperslab.cli.axes import Axis
from hyperslab.cli.date_ticks import date_text, date_ticks
from hyperslab.errors import Invalid, MissingLibrary

Values = np.ndarray[Any, Any]

SUFFIXES = (".png", ".svg", ".pdf")
DOTS = 150
"""Dots per inch of a PNG, and of the cells inside an SVG or PDF."""
WIDTH = 8.0
MOST_WORDS = 14
LINE = 42
"""Letters that fit beside an axis."""
FEW = 60
"""Lines of no more cells show each as a dot."""
_MANNER = {
    "text.usetex": False,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "hyperslab",
    "font.size": 10.0,
}
_UNDATED = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn: cells (masked where missing) over one or two ``axes``, in the order of their dimensions."""

    cells: Any
    axes: tuple[Axis, ...]
    title: str
    subtitle: str
    label: str


def save(picture: Picture, path: str, suffix: str, cmap: str) -> None:
    """Draw into a file of the kind that ``suffix`` names; Invalid for an unknown colour map."""
    matplotlib = load()
    with matplotlib.rc_context(_MANNER), _without_glyph_warnings():
        figure = draw(picture, cmap)
        margins: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.12}  # a map leaves room above and below
        figure.savefig(path, format=suffix[1:], dpi=DOTS, metadata=_UNDATED[suffix], **margins)


def load() -> Any:
    """matplotlib, or Unsupported naming the extra."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingLibrary(f"pictures need matplotlib ({error})", remedy="pip install 'hyperslab[plot]'") from None
    return matplotlib


def known_map(name: str) -> str:
    """``name`` if matplotlib has a colour map of that name."""
    names = list(load().colormaps)
    if name not in names:
        near = get_close_matches(name, names, 3)
        raise Invalid(
            f"no colour map {name!r}",
            remedy=f"did you mean {' or '.join(near)}?" if near else "there are viridis, magma, cividis, RdBu_r …",
        )
    return name


def draw(picture: Picture, cmap: str) -> Any:
    """The picture as a matplotlib Figure that no window knows."""
    from matplotlib.figure import Figure

    if len(picture.axes) == 1:
        figure = Figure(figsize=(WIDTH, 4.5), layout="constrained")
        _line(figure.add_subplot(), picture)
    else:
        aspect = _aspect(*picture.axes)
        figure = Figure(figsize=(WIDTH, _height(aspect)), layout="compressed" if aspect else "constrained")
        _image(figure, figure.add_subplot(), picture, cmap, aspect)
    return figure


def _line(plot: Any, picture: Picture) -> None:
    axis, cells = picture.axes[0], picture.cells
    dots = "o" if axis.words else "." if cells.size <= FEW or _is_sparse(cells) else ""
    style = {"marker": dots, "linestyle": "" if axis.words else "-", "linewidth": 1.2, "markersize": 5}
    if axis.vertical:  # a profile: the depth or height goes down or up
        plot.plot(cells, axis.at, **style)
        _label(plot.yaxis, axis, axis.at)
        plot.set_xlabel(wrapped(picture.label), parse_math=False)
        if axis.down:
            plot.invert_yaxis()
    else:
        plot.plot(axis.at, cells, **style)
        _label(plot.xaxis, axis, axis.at)
        plot.set_ylabel(wrapped(picture.label), parse_math=False)
        plot.margins(x=0.02)
    plot.grid(alpha=0.3, linewidth=0.6)
    _head(plot, picture)


def _is_sparse(cells: Any) -> bool:
    """Return whether a cell stands between missing ones, where no line would show it."""
    there = np.concatenate([[False], ~np.ma.getmaskarray(cells), [False]])
    return bool((there[1:-1] & ~there[:-2] & ~there[2:]).any())


def _image(figure: Any, plot: Any, picture: Picture, cmap: str, aspect: float | None) -> None:
    (rows, columns), cells = picture.axes, picture.cells
    if columns.vertical and not rows.vertical:
        rows, columns, cells = columns, rows, cells.T
    x, y = columns.edges(), rows.edges()
    mesh = plot.pcolormesh(x, y, cells, cmap=cmap, shading="flat", rasterized=True)
    if x.ndim == 2 and columns.circle and np.ptp(x) >= 360.0:  # what goes on beyond 180 comes in on the other side
        for turn in (-360.0, 360.0):
            plot.pcolormesh(x + turn, y, cells, cmap=cmap, shading="flat", rasterized=True, norm=mesh.norm)
        plot.set_xlim(-180.0, 180.0)
    if aspect:
        plot.set_aspect("equal")
    _label(plot.xaxis, columns, x)
    _label(plot.yaxis, rows, y)
    if rows.down:
        plot.invert_yaxis()
    plot.set_facecolor("0.88")
    wide = aspect is not None and aspect < 0.4
    bar = figure.colorbar(mesh, ax=plot, orientation="horizontal" if wide else "vertical", aspect=40 if wide else 25)
    bar.set_label(wrapped(picture.label), parse_math=False)
    bar.outline.set_visible(False)
    _head(plot, picture)


def _aspect(rows: Axis, columns: Axis) -> float | None:
    """Height by width where a step means the same on both axes, as degrees or metres do on a map."""
    kinds = {"degrees" if axis.units.startswith("degree") else axis.units for axis in (rows, columns)}
    if len(kinds) > 1 or kinds == {""} or rows.vertical or columns.vertical:
        return None
    width = min(np.ptp(columns.edges()), 360.0 if columns.circle else np.inf)
    ratio = float(np.ptp(rows.edges()) / width)
    return ratio if 0.1 <= ratio <= 5 else None


def _height(aspect: float | None) -> float:
    if aspect is None:
        return 5.0
    return min(max(0.8 * WIDTH * aspect + 1.6, 2.8), 9.0)


def _label(side: Any, axis: Axis, spread: Values) -> None:
    """Name, units and ticks of one side of the picture."""
    side.set_label_text(wrapped(axis.label), parse_math=False)
    if axis.words:
        step = ceil(len(axis.words) / MOST_WORDS)
        shown = [clean(word, 24) for word in axis.words[::step]]
        steep = side.axis_name == "x" and max(map(len, shown)) * len(shown) > 80
        turn = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if steep else {}
        side.set_ticks(axis.at[::step], shown, parse_math=False, **turn)
    elif axis.calendar and np.isfinite(spread).any():
        first, last = float(np.nanmin(spread)), float(np.nanmax(spread))
        ticks = date_ticks(first, last, axis.calendar)
        if ticks:
            side.set_ticks([place for place, _ in ticks], [text for _, text in ticks])
        else:
            side.set_major_formatter(lambda place, _: f"{place - round(first):g} s")
            side.set_label_text(wrapped(f"{axis.title} since {date_text(first, axis.calendar)}"), parse_math=False)


def _head(plot: Any, picture: Picture) -> None:
    plot.set_title(
        clean(picture.title, 80), loc="left", fontsize=12, parse_math=False, pad=22 if picture.subtitle else 8
    )
    if picture.subtitle:
        plot.annotate(
            clean(picture.subtitle, 110),
            xy=(0, 1),
            xytext=(0, 7),
            xycoords="axes fraction",
            textcoords="offset points",
            color="0.35",
            fontsize=9.5,
            parse_math=False,
        )


def wrapped(text: str) -> str:
    """A label beside an axis: in two or three lines where one would be longer than the axis."""
    return "\n".join(wrap(clean(text, 3 * LINE - 10), LINE))


def clean(text: str, longest: int = 70) -> str:
    """Text of a file as it may stand in a picture: one line, cut."""
    plain = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return f"{plain[: longest - 1]}…" if len(plain) > longest else plain


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """A letter that the font lacks is drawn as a box, which says enough."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield
