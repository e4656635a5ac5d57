"""``hyperslab plot``: a picture of a labelled part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import click
import numpy as np

from hyperslab.array import Array, cf
from hyperslab.array.missing import with_missing
from hyperslab.cli import drawing, labelled
from hyperslab.cli.axes import Axis, axis_of, title_of
from hyperslab.cli.commands.get import is_packed
from hyperslab.cli.curved import curved_axes, without_torn
from hyperslab.cli.naming import named_dims
from hyperslab.cli.opening import find_array, open_dataset, path_argument, selection_key, selection_option, url_argument
from hyperslab.cli.output import json_option, print_json, say
from hyperslab.cli.selection import parse_selections
from hyperslab.cli.storage import allow_option, storage_option
from hyperslab.errors import AlreadyExists, FormatError, Invalid
from hyperslab.group import Group
from hyperslab.stores.building import building

MOST = {1: 20_000, 2: 1_500}
"""Cells along each axis that are drawn, at most: of more, every second, third … is read."""

Values = np.ndarray[Any, Any]


@click.command("plot", epilog="Example: hyperslab plot air.zarr t2m -s time=2013-01-01 -o t2m.png")
@url_argument
@path_argument
@selection_option
@click.option("-o", "--output", required=True, help="The picture: .png, .svg or .pdf.")
@click.option("--cmap", default="viridis", show_default=True, help="The colours of an image, by matplotlib's names.")
@click.option(
    "--decoded/--stored",
    default=None,
    help="Draw physical values (the default where scale or offset ask for them) or the stored numbers.",
)
@click.option("--nearest", is_flag=True, help="Take the neighbour of a label that no cell has.")
@click.option("--overwrite", is_flag=True, help="Replace the picture.")
@storage_option()
@allow_option()
@json_option
def command(
    url: str,
    path: str,
    selections: tuple[str, ...],
    output: str,
    cmap: str,
    decoded: bool | None,
    nearest: bool,
    overwrite: bool,
    storage_option: dict[str, Any] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """A picture of a part of the array PATH: a line where one dimension is left, an image where two are.

    Choose one of each other dimension with -s. Coordinates and units stand on the axes; missing cells are left out.
    """
    suffix = os.path.splitext(output)[1].lower()
    if suffix not in drawing.SUFFIXES:
        raise Invalid(
            f"{output!r} has no ending that says what to draw", remedy=f"end it with {', '.join(drawing.SUFFIXES)}"
        )
    drawing.known_map(cmap)
    root = open_dataset(url, storage_option, allow=allow_external)
    array = find_array(root, path)
    _refuse_undrawable(array, array.dtype)
    chosen = _Chosen.of(array, selection_key(array, parse_selections(selections), nearest))
    picture = compose(root, array, chosen, decoded=decoded)
    try:
        with building(output, overwrite=overwrite) as temporary:
            drawing.save(picture, temporary, suffix, cmap)
    except AlreadyExists as error:
        error.remedy = "choose another name, or --overwrite"
        raise
    dims = {axis.dim: int(size) for axis, size in zip(picture.axes, picture.cells.shape, strict=True)}
    say(f"{' x '.join(map(str, dims.values()))} cells of /{array.path} in {output}{chosen.note}")
    if as_json:
        print_json("plot", url=url, path=array.path, output=output, dims=dims, every=chosen.every)


@dataclass(frozen=True)
class _Chosen:
    """The key of what is drawn, with ints for dimensions of one cell; ``every`` n-th cell of a dimension is taken."""

    key: tuple[Any, ...]
    every: dict[str, int]

    @classmethod
    def of(cls, array: Array, key: tuple[Any, ...]) -> _Chosen:
        """Thin the key; Invalid unless one or two dimensions with several cells are left."""
        counts = [len(_places(item, size)) for item, size in zip(key, array.shape, strict=True)]
        if 0 in counts:
            raise Invalid("the selection holds no cell", url=array.url, node=array.path, remedy="widen it")
        names = named_dims(array.dims)
        left = [(name, count) for name, count in zip(names, counts, strict=True) if count > 1]
        if len(left) not in MOST:
            raise _wrong_number(array, left)
        most = MOST[len(left)]
        every = {name: ceil(count / most) for name, count in left if count > most}
        thinned = (
            _thin(item, size, every.get(name, 1)) for item, size, name in zip(key, array.shape, names, strict=True)
        )
        return cls(tuple(thinned), every)

    @property
    def note(self) -> str:
        """What is said of the cells that are left out."""
        told = (f"every {step}{_ordinal(step)} of {dim}" for dim, step in self.every.items())
        return f" ({', '.join(told)}: choose a part with -s to see more)" if self.every else ""


def _places(item: Any, size: int) -> range | Values:
    """The positions that one entry of a key means, without listing them."""
    if isinstance(item, slice):
        return range(*item.indices(size))
    if isinstance(item, np.ndarray):
        return item
    return range(int(item) % size, int(item) % size + 1)


def _thin(item: Any, size: int, step: int) -> Any:
    """One entry of a key with every ``step``-th of its positions; an int for one position."""
    places = _places(item, size)
    if len(places) == 1:
        return int(places[0])
    places = places[::step]
    if isinstance(places, range):
        return slice(places.start, places.stop if places.stop >= 0 else None, places.step)
    return places


def _wrong_number(array: Array, left: list[tuple[str, int]]) -> Invalid:
    if not left:
        return Invalid(
            "the selection is one cell, there is nothing to draw",
            url=array.url,
            node=array.path,
            remedy="hyperslab get prints it",
        )
    told = ", ".join(f"{name} ({count})" for name, count in left)
    names = [name for name, _ in left]
    return Invalid(
        f"{len(left)} dimensions are left: {told}; a picture has one or two",
        url=array.url,
        node=array.path,
        remedy=f"choose one of {'=…, '.join(names)}=… with -s, such as -s {names[0]}=0",
    )


def _ordinal(number: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")


def _refuse_undrawable(array: Array, dtype: np.dtype[Any]) -> None:
    if dtype.kind in "biuf" or (dtype.kind == "V" and dtype.type is not np.void):  # the small floats of ml_dtypes
        return
    remedy = "draw them as stored, without --decoded" if array.dtype.kind in "iuf" else "hyperslab get prints them"
    raise Invalid(f"cells of type {dtype} are no numbers", url=array.url, node=array.path, remedy=remedy)


def compose(root: Group | Array, array: Array, chosen: _Chosen, *, decoded: bool | None = None) -> drawing.Picture:
    """Read the part and place it on its axes; ``decoded`` None: as physical values where the cells are packed."""
    packed = is_packed(array)
    decoded = packed if decoded is None else decoded
    part = labelled.take(root, array, chosen.key, decoded=decoded)
    _refuse_undrawable(array, part.values.dtype)
    cells = masked(array, part.values, decoded=decoded)
    if not cells.count():
        raise Invalid("every cell of the selection is missing", url=array.url, node=array.path, remedy="choose others")
    cells, axes = _placed(root, array, part, chosen.key, cells)
    units = "" if array.units in (None, "1") else f" ({array.units})"
    units = " (as stored)" if packed and not decoded else units
    title = title_of(array, "cells")
    fixed = ", ".join(_fixed_texts(array, part, chosen.key))
    return drawing.Picture(cells, axes, title, fixed, f"{title}{units}")


def _placed(
    root: Group | Array, array: Array, part: labelled.LabelledPart, key: tuple[Any, ...], cells: Any
) -> tuple[Any, tuple[Axis, ...]]:
    """The cells in the order of their axes, and those."""
    kept = [(item, size) for item, size in zip(key, array.shape, strict=False) if not isinstance(item, int)]
    names = [dim for dim, item in zip(array.dims, key, strict=False) if not isinstance(item, int)]
    if len(set(names)) == 2 and None not in names and not set(names) & set(part.coordinates):
        curved = curved_axes(root, array, {str(dim): item for dim, (item, _) in zip(names, kept, strict=True)})
        if curved is not None:
            return without_torn(cells, curved[1]), curved
    axes = []
    for number, (item, size) in enumerate(kept):
        positions = np.asarray(_places(item, size))
        axis, order = _arranged(axis_of(root, part, number, item, positions), positions, len(kept))
        cells = cells.take(order, axis=number)
        axes.append(axis)
    return cells, tuple(axes)


def masked(array: Array, values: Values, *, decoded: bool) -> Any:
    """The values as a masked array: without NaN, infinities and what the attributes say is missing."""
    missing = np.zeros(values.shape, bool)
    for fill in () if decoded else _fills(array, values.dtype):
        missing |= np.asarray(values == fill)
    if values.dtype.kind not in "biu" and values.dtype != np.dtype("f8"):
        values = values.astype("f4" if values.dtype.itemsize <= 4 else "f8")
    return np.ma.masked_invalid(np.ma.MaskedArray(values.astype("u1") if values.dtype.kind == "b" else values, missing))


def _fills(array: Array, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """What the attributes say is missing; attributes that make no sense say nothing about stored values."""
    try:
        return cf.decoding(dtype, with_missing(array._session, array.spec)).fills
    except FormatError:
        return ()


def _arranged(axis: Axis, positions: Values, ndim: int) -> tuple[Axis, Values]:
    """An axis that goes one way, and the order of its cells; a line follows its coordinate wherever that goes."""
    if ndim == 1 and not axis.circle and np.isfinite(axis.at).any():
        return axis, np.arange(positions.size)
    found = axis.arranged()
    if found is None:
        say(f"the coordinate {axis.dim} has missing or equal labels: drawn by position")
        return axis.by_position(positions), np.arange(positions.size)
    return found


def _fixed_texts(array: Array, part: labelled.LabelledPart, key: tuple[Any, ...]) -> Iterator[str]:
    """``time = 2000-06-01`` for each dimension of which one cell was chosen."""
    for dim, item, size in zip(array.dims, key, array.shape, strict=True):
        if isinstance(item, int) and dim in part.coordinates:
            yield f"{dim} = {_fixed_text(part.coordinates[dim])}"
        elif isinstance(item, int) and dim and size > 1:
            yield f"{dim} = {item}"


def _fixed_text(found: labelled.LabelledAxis) -> str:
    """The one label of a dimension that was chosen; of a time no more of the clock than says something."""
    label, units = found.labels[()], str(found.array.units or "")
    text = labelled.cell_text(label)
    if isinstance(label, np.datetime64) or " since " in units:
        return text.replace("T", " ").removesuffix(" 00:00:00").removesuffix(":00")
    return f"{text} {units}" if found.cells.dtype.kind in "iuf" and units not in ("", "1") else text
