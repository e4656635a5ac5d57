"""``hyperslab plot``: a picture of a labelled part, a line over one axis or an image over two."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import ceil
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import click
import numpy as np

from hyperslab.array import Array, cf
from hyperslab.array.attributes import with_missing
from hyperslab.array.decoded import is_packed, value_units
from hyperslab.array.plain_values import cell_text
from hyperslab.array.series import is_series_data
from hyperslab.cli.arguments import (
    SelectionOptions,
    find_array,
    find_cells,
    open_dataset,
    parse_range,
    parse_selections,
)
from hyperslab.cli.options import (
    allow_option,
    packing_option,
    path_argument,
    selection_options,
    storage_option,
    url_argument,
)
from hyperslab.cli.output import json_option, print_json, print_remark
from hyperslab.cli.plot_axes import (
    Axis,
    auxiliary_axis,
    axis_of,
    curved_axes,
    date_text,
    date_ticks,
    is_turned,
    mask_torn_cells,
    point_axes,
    title_of,
)
from hyperslab.conversion import labelled_part
from hyperslab.errors import AlreadyExists, FormatError, Invalid, MissingLibrary
from hyperslab.group import Group
from hyperslab.group.cf_variables import find_places
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.paths import split
from hyperslab.stores.building import building

# -- Pictures of parts by matplotlib, imported here on use: a line over one axis, an image over two --------------------
# Text comes from files that anyone may have written: it is never read as TeX or mathtext, and control characters are
# replaced. The same part gives the same file, byte for byte.


SUFFIXES = (".png", ".svg", ".pdf")
# Dots per inch of a PNG, and of the cells inside an SVG or PDF.
DOTS = 150
# Inches.
WIDTH = 8.0
# Of more words along an axis only some are shown, since they would run into one another.
MOST_WORDS = 14
# Letters that fit beside an axis.
LINE = 42
# Lines of no more cells show each as a dot.
FEW = 60
_MANNER = {
    "text.usetex": False,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "hyperslab",
    "font.size": 10.0,
}
_UNDATED = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_NONE: Mapping[str, Values] = MappingProxyType({})
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, eq=False)
class Picture:
    """Cells (masked where missing) over one or two ``axes``, in the order of their dimensions, with words for them.

    ``span``: the ends of the colours or of the line's axis, else those of the cells.
    ``points``: the cells stand at places in the shape of theirs, latitudes and longitudes, which are the axes.
    """

    cells: Any
    axes: tuple[Axis, ...]
    title: str
    subtitle: str
    label: str
    points: bool = False
    span: tuple[float, float] | None = None

    @property
    def colors(self) -> dict[str, float]:
        """The ends of the colours, as matplotlib calls them; none where those of the cells are."""
        return {} if self.span is None else dict(zip(("vmin", "vmax"), self.span, strict=True))


def save(picture: Picture, path: str, suffix: str, cmap: str) -> None:
    """Draw into a file of the kind that ``suffix`` names, an image in the colours of the map ``cmap``."""
    matplotlib = load()
    with matplotlib.rc_context(_MANNER), warnings.catch_warnings():
        # letters that the font lacks are drawn as boxes, which says enough
        warnings.filterwarnings("ignore", message="Glyph")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure = draw(picture, cmap)
        margins: dict[str, object] = {"bbox_inches": "tight", "pad_inches": 0.12}  # a map leaves room above and below
        figure.savefig(path, format=suffix[1:], dpi=DOTS, metadata=_UNDATED[suffix], **margins)


def load() -> Any:
    """Import matplotlib; Unsupported names the extra."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingLibrary(f"pictures need matplotlib ({error})", remedy="pip install 'hyperslab[plot]'") from None
    return matplotlib


def draw(picture: Picture, cmap: str) -> Any:
    """Return the picture as a matplotlib Figure that no window knows."""
    from matplotlib.figure import Figure

    if picture.points:
        figure = Figure(figsize=(WIDTH, 5.0), layout="compressed")
        _points(figure, figure.add_subplot(), picture, cmap)
    elif len(picture.axes) == 1:
        figure = Figure(figsize=(WIDTH, 4.5), layout="constrained")
        _line(figure.add_subplot(), picture)
    else:
        aspect = _aspect(*picture.axes)
        height = 5.0 if aspect is None else min(max(0.8 * WIDTH * aspect + 1.6, 2.8), 9.0)
        figure = Figure(figsize=(WIDTH, height), layout="compressed" if aspect else "constrained")
        _image(figure, figure.add_subplot(), picture, cmap, aspect)
    return figure


def _line(plot: Any, picture: Picture) -> None:
    axis, cells = picture.axes[0], picture.cells
    # a cell between missing ones is shown by no line
    there = np.concatenate([[False], ~np.ma.getmaskarray(cells), [False]])
    is_alone = bool((there[1:-1] & ~there[:-2] & ~there[2:]).any())
    dots = "." if cells.size <= FEW or is_alone else ""
    # samples of several profiles, one behind the other, are no line
    is_scattered = bool(axis.words) or _turns_back(axis.at)
    style = {
        "marker": "o" if is_scattered else dots,
        "linestyle": "" if is_scattered else "-",
        "linewidth": 1.2,
        "markersize": 5,
    }
    if axis.vertical:  # a profile: the depth or height goes down or up
        plot.plot(cells, axis.at, **style)
        _label(plot.yaxis, axis, axis.at)
        plot.set_xlabel(wrapped(picture.label), parse_math=False)
        if axis.down:
            plot.invert_yaxis()
        plot.set_xlim(picture.span)
    else:
        plot.plot(axis.at, cells, **style)
        _label(plot.xaxis, axis, axis.at)
        plot.set_ylabel(wrapped(picture.label), parse_math=False)
        plot.margins(x=0.02)
        plot.set_ylim(picture.span)
    plot.grid(alpha=0.3, linewidth=0.6)
    _head(plot, picture)


def _turns_back(at: Values) -> bool:
    """Return True if places go to and fro, as those of several profiles do."""
    steps = np.diff(at[np.isfinite(at)])
    return bool((steps < 0).any() and (steps > 0).any())


def _points(figure: Any, plot: Any, picture: Picture, cmap: str) -> None:
    """Draw cells that form no grid as points in their colours."""
    (rows, columns), cells = picture.axes, picture.cells
    x, y = columns.at.ravel(), rows.at.ravel()
    colors = cells.ravel()
    size = float(np.clip(20_000 / max(colors.size, 1), 4, 60))
    found = plot.scatter(
        x, y, c=colors, cmap=cmap, s=size, plotnonfinite=False, rasterized=True, linewidths=0, **picture.colors
    )
    spread = [max(float(np.nanmax(at) - np.nanmin(at)), 1e-9) for at in (x, y)]
    if 0.2 <= spread[1] / spread[0] <= 5:
        plot.set_aspect("equal")
    _label(plot.xaxis, columns, x)
    _label(plot.yaxis, rows, y)
    plot.grid(alpha=0.3, linewidth=0.6)
    bar = figure.colorbar(found, ax=plot, aspect=25)
    bar.set_label(wrapped(picture.label), parse_math=False)
    bar.outline.set_visible(False)
    _head(plot, picture)


def _image(figure: Any, plot: Any, picture: Picture, cmap: str, aspect: float | None) -> None:
    (rows, columns), cells = picture.axes, picture.cells
    if columns.vertical and not rows.vertical:
        rows, columns, cells = columns, rows, cells.T
    x, y = columns.edges(), rows.edges()
    mesh = plot.pcolormesh(x, y, cells, cmap=cmap, shading="flat", rasterized=True, **picture.colors)
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
    """Return height by width where a step means the same on both axes, as degrees or metres do on a map, and positions
    in an image."""
    kinds = {"degrees" if axis.units.startswith("degree") else axis.units for axis in (rows, columns)}
    is_image = not (rows.has_labels or columns.has_labels)
    if len(kinds) > 1 or (kinds == {""} and not is_image) or rows.vertical or columns.vertical:
        return None
    width = min(np.ptp(columns.edges()), 360.0 if columns.circle else np.inf)
    ratio = float(np.ptp(rows.edges()) / width)
    return ratio if 0.1 <= ratio <= 5 else None


def _label(side: Any, axis: Axis, spread: Values) -> None:
    """Set name, units and ticks of one side of the picture."""
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
        plot.yaxis.set_offset_position("right")  # a factor of the ticks, such as 1e-5, stands above the axis
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
    """Return a label beside an axis: in two or three lines where one would be longer than the axis."""
    return "\n".join(wrap(clean(text, 3 * LINE - 10), LINE))


def clean(text: str, longest: int = 70) -> str:
    """Return text of a file as it may stand in a picture: one line, cut."""
    plain = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return f"{plain[: longest - 1]}…" if len(plain) > longest else plain


# Cells along each axis of a line, and of an image, that are drawn: of more, every second, third … is read. A picture of
# 8 inches at 150 dots has 1,200 dots along an axis, and shows no more.
MOST = {1: 20_000, 2: 1_500}


@click.command("plot", epilog="Example: hyperslab plot air.zarr t2m -s time=2013-01-01 -o t2m.png")
@url_argument
@path_argument
@selection_options
@click.option("-o", "--output", required=True, help="The picture: .png, .svg or .pdf.")
@click.option("--cmap", default="viridis", show_default=True, help="The colours of an image, by matplotlib's names.")
@click.option(
    "--decoded/--stored",
    default=None,
    help="Draw physical values (the default where scale or offset ask for them) or the stored numbers.",
)
@click.option("--range", "span", metavar="LOW..HIGH", help="The ends of the colours, or of a line's axis.")
@click.option("--overwrite", is_flag=True, help="Replace the picture.")
@packing_option
@storage_option()
@allow_option()
@json_option
def plot_command(
    url: str,
    path: str,
    selections: tuple[str, ...],
    output: str,
    cmap: str,
    decoded: bool | None,
    span: str | None,
    manner: SelectionOptions,
    overwrite: bool,
    packing: str,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """A picture of a part of the array PATH: a line where one dimension is left, an image where two are.

    Choose one of each other dimension with -s. Coordinates and units stand on the axes; missing cells are left out.
    Rows without labels begin at the top, and cells are square where neither axis has labels.
    """
    suffix = os.path.splitext(output)[1].lower()
    if suffix not in SUFFIXES:
        raise Invalid(f"{output!r} has no ending that says what to draw", remedy=f"end it with {', '.join(SUFFIXES)}")
    maps = list(load().colormaps)
    if cmap not in maps:
        near = get_close_matches(cmap, maps, 3)
        remedy = f"did you mean {' or '.join(near)}?" if near else "there are viridis, magma, cividis, RdBu_r …"
        raise Invalid(f"no colour map {cmap!r}", remedy=remedy)
    root = open_dataset(url, storage_option, allow=allow_external, packing=packing)
    array = find_array(root, path)
    _refuse_undrawable(array, array.dtype)
    selector = find_cells([array], parse_selections(selections), manner)
    key, steps = thin_key(array, selector.key(array))
    shifted = {dim: shifts[:: steps.get(dim, 1)] for dim, shifts in selector.shifts(array).items()}
    picture = compose(root, array, key, decoded=decoded, shifted=shifted)
    picture = picture if span is None else replace(picture, span=parse_range(span))
    try:
        with building(output, overwrite=overwrite) as temporary:
            save(picture, temporary, suffix, cmap)
    except AlreadyExists as error:
        error.remedy = "choose another name, or --overwrite"
        raise
    names = [dim for dim, item in zip(axis_names(array.dims), key, strict=True) if not isinstance(item, int)]
    dims = dict(zip(names, map(int, picture.cells.shape), strict=True))
    print_remark(f"{' x '.join(map(str, dims.values()))} cells of /{array.path} in {output}{thinning_note(steps)}")
    if as_json:
        print_json("plot", url=url, path=array.path, output=output, dims=dims, every=steps)


def thinning_note(steps: dict[str, int]) -> str:
    """Return what is printed of the cells that are left out, given the step along each dimension that is thinned."""
    texts = []
    for dim, step in steps.items():
        ending = {1: "st", 2: "nd", 3: "rd"}.get(step % 10 if step % 100 not in (11, 12, 13) else 0, "th")
        texts.append(f"every {step}{ending} of {dim}")
    return f" ({', '.join(texts)}: choose a part with -s to see more)" if texts else ""


def thin_key(array: Array, key: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, int]]:
    """Return the key of what is drawn, with ints for dimensions of one cell, and the step of those that are thinned.

    Invalid unless one or two dimensions with several cells are left.
    """
    places = [_places(item, size) for item, size in zip(key, array.shape, strict=True)]
    if not all(map(len, places)):
        raise Invalid("the selection holds no cell", url=array.url, node=array.path, remedy="widen it")
    names = axis_names(array.dims)
    left = [(name, len(some)) for name, some in zip(names, places, strict=True) if len(some) > 1]
    if not left:
        message = "the selection is one cell, there is nothing to draw"
        raise Invalid(message, url=array.url, node=array.path, remedy="hyperslab get prints it")
    if len(left) not in MOST:
        shown = ", ".join(f"{name} ({count})" for name, count in left)
        raise Invalid(
            f"{len(left)} dimensions are left: {shown}; a picture has one or two",
            url=array.url,
            node=array.path,
            remedy=f"choose one of {'=…, '.join(name for name, _ in left)}=… with -s, such as -s {left[0][0]}=0",
        )
    most = MOST[len(left)]
    steps = {name: ceil(count / most) for name, count in left if count > most}
    thinned: list[Any] = []
    for name, some in zip(names, places, strict=True):
        taken = some[:: steps.get(name, 1)]
        if len(taken) == 1:
            thinned.append(int(taken[0]))
        elif isinstance(taken, range):
            thinned.append(slice(taken.start, taken.stop if taken.stop >= 0 else None, taken.step))
        else:
            thinned.append(taken)
    return tuple(thinned), steps


def _places(item: Any, size: int) -> range | Values:
    """Return the positions that one entry of a key means, without listing them."""
    match item:
        case slice():
            return range(*item.indices(size))
        case np.ndarray():
            return item
    return range(int(item) % size, int(item) % size + 1)


def _refuse_undrawable(array: Array, dtype: NumpyDType) -> None:
    if dtype.kind in "biuf" or (dtype.kind == "V" and dtype.type is not np.void):  # the small floats of ml_dtypes
        return
    remedy = "draw them as stored, without --decoded" if array.dtype.kind in "iuf" else "hyperslab get prints them"
    raise Invalid(f"cells of type {dtype} are no numbers", url=array.url, node=array.path, remedy=remedy)


def compose(
    root: Group | Array,
    array: Array,
    key: tuple[Any, ...],
    *,
    decoded: bool | None = None,
    shifted: Mapping[str, Values] = _NONE,
) -> Picture:
    """Read the part and place it on its axes; ``decoded`` None: as physical values where the cells are packed.
    ``shifted``: what is added to the labels of a dimension."""
    packed = is_packed(array)
    decoded = packed if decoded is None else decoded
    part = labelled_part.open_part(root, array, key, decoded=decoded, shifted=shifted)
    _refuse_undrawable(array, part.values.dtype)
    cells = mask_missing(array, part.values, decoded=decoded)
    if not cells.count():
        raise Invalid("every cell of the selection is missing", url=array.url, node=array.path, remedy="choose others")
    points = _point_axes(root, array, part, key)
    cells, axes = _place_on_axes(root, array, part, key, cells) if points is None else (cells, points)
    known = value_units(array)[0]
    units = "" if known in (None, "1") else f" ({known})"
    units = " (as stored)" if packed and not decoded else units
    folder, _ = split(array.path)
    is_series = folder and is_series_data(array._session, array.path)  # each is called "data": its group has the name
    title = split(folder)[1] if is_series else title_of(array, "cells")
    fixed = []  # `time = 2000-06-01` for each dimension of which one cell was chosen
    for dim, item, size in zip(array.dims, key, array.shape, strict=True):
        match item:
            case int() if dim in part.coordinates:
                fixed.append(f"{dim} = {_label_text(part.coordinates[dim])}")
            case int() if dim and size > 1:
                fixed.append(f"{dim} = {item}")
    return Picture(cells, axes, title, ", ".join(fixed), f"{title}{units}", points is not None)


def _point_axes(
    root: Group | Array, array: Array, part: labelled_part.LabelledPart, key: tuple[Any, ...]
) -> tuple[Axis, Axis] | None:
    """Return latitudes and longitudes of cells that form no grid; None where a line or an image shows more: along a
    dimension with labels, unless it is the way of a trajectory."""
    if isinstance(root, Array) or None in array.dims or not set(array.dims) <= set(part.array.dims):
        return None
    places = find_places(array)
    if places is None or (set(part.dims) & set(part.coordinates) and places.feature != "trajectory"):
        return None
    return point_axes(array, dict(zip(map(str, array.dims), key, strict=True)))


def _place_on_axes(
    root: Group | Array, array: Array, part: labelled_part.LabelledPart, key: tuple[Any, ...], cells: Any
) -> tuple[Any, tuple[Axis, ...]]:
    """Return the cells in the order of their axes, and the axes.

    The cells of an axis go one way, unless it is that of a line, which follows its coordinate both ways.
    """
    kept = [(item, size) for item, size in zip(key, array.shape, strict=False) if not isinstance(item, int)]
    names = [dim for dim, item in zip(array.dims, key, strict=False) if not isinstance(item, int)]
    is_labelled = bool(set(names) & set(part.coordinates)) and not is_turned(part, part.dims)
    if len(set(names)) == 2 and None not in names and not is_labelled:
        curved = curved_axes(root, array, {str(dim): item for dim, (item, _) in zip(names, kept, strict=True)})
        if curved is not None:
            return mask_torn_cells(cells, curved[1]), curved
    axes = []
    for number, (item, size) in enumerate(kept):
        positions = np.asarray(_places(item, size))
        axis = None
        if len(kept) == 1 and not part.coordinates.keys() & set(part.dims) and None not in array.dims:
            axis = auxiliary_axis(array, dict(zip(map(str, array.dims), key, strict=True)), part.dims[0])
        axis = axis or axis_of(root, part, number, item, positions)
        if len(kept) > 1 or axis.circle or not np.isfinite(axis.at).any():
            ordered = axis.sorted()
            if ordered is None:
                print_remark(f"the coordinate {axis.dim} has missing or equal labels: drawn by position")
                axis = axis.by_position(positions)
            else:
                axis, order = ordered
                cells = cells.take(order, axis=number)
        axes.append(axis)
    return cells, tuple(axes)


def mask_missing(array: Array, values: Values, *, decoded: bool) -> Any:
    """Return the values as a masked array: without NaN, infinities and what the attributes say is missing."""
    missing = np.zeros(values.shape, bool)
    if not decoded:
        with suppress(FormatError):  # attributes that make no sense say nothing about stored values
            for fill in cf.decoding(values.dtype, with_missing(array._session, array.spec)).fills:
                missing |= np.asarray(values == fill)
    if values.dtype.kind not in "biu" and values.dtype != np.dtype("f8"):
        values = values.astype("f4" if values.dtype.itemsize <= 4 else "f8")
    cells = np.ma.masked_invalid(
        np.ma.MaskedArray(values.astype("u1") if values.dtype.kind == "b" else values, missing)
    )
    cells.data[np.ma.getmaskarray(cells)] = 0  # matplotlib scales what the mask hides, too: 9.97e36 overflows
    return cells


def _label_text(found: labelled_part.LabelledAxis) -> str:
    """Return the one label of a dimension that was chosen; of a time no more of the clock than says something."""
    label, units = found.labels[()], str(found.array.units or "")
    text = cell_text(label)
    if isinstance(label, np.datetime64) or " since " in units:
        return text.replace("T", " ").removesuffix(" 00:00:00").removesuffix(":00")
    return f"{text} {units}" if found.cells.dtype.kind in "iuf" and units not in ("", "1") else text
