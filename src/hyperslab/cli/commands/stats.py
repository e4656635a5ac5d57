"""``hyperslab stats``: numbers about the arrays of a dataset, in one pass over the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hyperslab.array import Array
from hyperslab.array.periods import Groups, group_times, is_time
from hyperslab.array.plain_values import cell_text
from hyperslab.cli.arguments import (
    SelectionOptions,
    change_units,
    describe_empty_ranges,
    find_array,
    find_cells,
    find_dimensions,
    open_dataset,
    parse_range,
    parse_selections,
)
from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    memory_option,
    packing_option,
    period_options,
    scheduler_option,
    selection_options,
    storage_option,
    units_option,
    url_argument,
    workers_option,
)
from hyperslab.cli.output import format_columns, json_option, print_json, print_remark
from hyperslab.conversion.labelled_part import read_axis
from hyperslab.conversion.selection import Selector
from hyperslab.conversion.statistics import Statistics, measure, why_not_measured
from hyperslab.errors import Invalid
from hyperslab.group import Group
from hyperslab.group.cf_variables import AxisSearch
from hyperslab.group.choice import Choice, choose_of
from hyperslab.group.walk import arrays_of
from hyperslab.model.dims import axis_names
from hyperslab.model.guessing import meant
from hyperslab.selection.positional import outer
from hyperslab.selection.region import Axis

_HEADS = ("cells", "missing", "min", "mean", "max", "std", "units")
# Width of the longest bar of a histogram.
_BAR = 40
# Arrays that a remark names; it counts the others.
_NAMED = 3


@click.command("stats", epilog="Example: hyperslab stats air.nc t2m --every month -s lat=40.0..50.0")
@url_argument
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@choice_options()
@selection_options
@units_option
@click.option("--per", metavar="DIM", help="A row for each position along DIM, such as each level.")
@period_options
@click.option("--histogram", "bins", type=click.IntRange(1), metavar="N", help="Count the cells in N bins, too.")
@click.option("--range", "span", metavar="LOW..HIGH", help="The ends of the histogram, so that one pass is enough.")
@memory_option
@workers_option
@scheduler_option
@packing_option
@at_option()
@storage_option()
@allow_option()
@json_option
def stats_command(
    url: str,
    paths: tuple[str, ...],
    choice: Choice,
    selections: tuple[str, ...],
    manner: SelectionOptions,
    units: dict[str, str],
    per: str | None,
    by: str | None,
    every: str | None,
    bins: int | None,
    span: str | None,
    memory: int,
    packing: str,
    at: str | None,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Least, mean and largest cell, standard deviation, and how many cells are missing: of every array of numbers or
    times, or of those at PATH.

    The cells are decoded (scale, offset, missing values) and read once; for a histogram twice, unless --range or the
    attribute valid_range says between which numbers. The deviation is that of the cells themselves (divided by N).
    """
    if sum(each is not None for each in (per, by, every)) > 1:
        raise Invalid("--per, --by and --every exclude each other", remedy="give one of them")
    ends = _find_ends(span, bins)
    root = open_dataset(url, storage_option, allow=allow_external, at=at, packing=packing)
    found = _find_arrays(root, paths, choice)
    root, found = change_units(root, found, units, options.get("scheduler"))
    if per and found and not find_dimensions(found, per):
        known = {dim for array in found for dim in axis_names(array.dims)}
        raise Invalid(f"no dimension {per!r}", url=url, remedy=meant(per, sorted(known)))
    selector = find_cells(found, parse_selections(selections), manner)
    remarks: dict[str, None] = {}  # in order, each once
    left_out: dict[str, list[str]] = {}  # by reason
    results = []
    for array in found:
        reason = why_not_measured(array)
        if reason is not None:
            left_out.setdefault(reason, []).append(array.path)
            continue
        axes = _choose(array, selector)
        groups = _groups(array, axes, selector, per, by, every)
        if groups is None and (per or by or every):
            if not paths:
                continue
            message = f"/{array.path} has no dimension with times" if per is None else f"/{array.path} has no {per!r}"
            raise Invalid(message, url=url, remedy=f"its dimensions are {', '.join(axis_names(array.dims))}")
        remarks |= dict.fromkeys(describe_empty_ranges(array, selector.key(array), selections))
        results.append(measure(array, axes, groups=groups, bins=bins or 0, span=ends, memory=memory, **options))
    for remark in [*(describe_left_out(*each) for each in left_out.items()), *remarks]:
        print_remark(remark)
    if as_json:
        print_json("stats", url=url, arrays=[as_json_value(each) for each in results])
        return
    _print_tables(results)


def _find_ends(span: str | None, bins: int | None) -> tuple[float, float] | None:
    """Return the ends of the histogram, None where they are to be found. Invalid without a histogram."""
    if span is not None and bins is None:
        raise Invalid("--range is of a histogram", remedy="give --histogram, such as --histogram 10")
    return None if span is None else parse_range(span)


def describe_left_out(reason: str, paths: Sequence[str]) -> str:
    """Return a remark on arrays that are not measured, all for one reason: a session of NWB has dozens of texts."""
    shown = ", ".join(f"/{path}" for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{shown}{more} {'is' if len(paths) == 1 else 'are'} left out: {reason}"


def _print_tables(results: Sequence[Statistics]) -> None:
    if not results:
        print_remark("no array of numbers or times has such cells")
        return
    click.echo(as_text(results))
    for each in results:
        if each.edges is not None:
            click.echo(f"\n/{each.path}")
            click.echo(_histogram_text(each))


def _find_arrays(root: Group | Array, paths: Sequence[str], choice: Choice) -> list[Array]:
    """Return the arrays that are named or chosen, else all."""
    if paths and choice:
        raise Invalid("paths with -v, -x or --where", url=root.url, remedy="name the arrays in one way")
    if paths:
        return [find_array(root, path) for path in paths]
    found = list(arrays_of(root))
    return [array for _, array in (choose_of(root, found, choice) if choice else found)]


def _choose(array: Array, selector: Selector) -> tuple[Axis, ...]:
    """Return the chosen positions along each axis; a single one stays an axis."""
    key = selector.key(array)
    kept = [slice(item, item + 1 or None) if isinstance(item, int | np.integer) else item for item in key]
    return array.lazy[...].compose(tuple(kept), outer).selection.region.axes


def _groups(
    array: Array, axes: tuple[Axis, ...], selector: Selector, per: str | None, by: str | None, every: str | None
) -> Groups | None:
    """Return the rows of an array; None where it has no such dimension."""
    if per is not None:
        return _group_positions(array, axes, selector, per)
    if by is None and every is None:
        return None
    for axis, cut in enumerate(axes):
        times = read_axis(array, axis, np.asarray(cut.positions))
        if times is not None and is_time(times.labels):
            return group_times(times.labels, axis, by, every)
    return None


def _group_positions(array: Array, axes: tuple[Axis, ...], selector: Selector, per: str) -> Groups | None:
    """Return a row for each chosen position along the dimension that a word means, with its label: that of the
    coordinate of the word, such as a station's name, else that of the dimension. None without such a dimension."""
    found = find_dimensions([array], per)
    if not found:
        return None
    axis = array.dims.index(found[0]) if found[0] in array.dims else axis_names(array.dims).index(found[0])
    positions = np.asarray(axes[axis].positions)
    named = None if per in (*array.dims, *axis_names(array.dims)) else AxisSearch().find_axis(array, per)
    if named is not None and named.coordinate.name != named.dim and named.dim in named.coordinate.dims:
        labels = np.asarray(named.coordinate.decoded().isel({named.dim: positions}))
    else:
        found_labels = read_axis(array, axis, positions)
        labels = positions if found_labels is None else found_labels.labels
    shifted = selector.shifts(array).get(found[0])
    if shifted is not None:
        labels = labels + shifted
    return Groups(axis, per, list(labels), np.arange(len(positions)))


def as_json_value(found: Statistics) -> dict[str, object]:
    """Return the numbers of one array for a machine."""
    moments = found.moments
    rows = []
    for row in range(found.rows):
        numbers: dict[str, object] = {} if found.head is None else {found.head: found.labels[row]}
        numbers |= {"cells": int(moments.cells[row]), "missing": int(moments.missing[row])}
        deviation = float(moments.deviation[row])
        numbers |= {"min": found.low[row], "mean": found.mean[row], "max": found.high[row]}
        numbers["std"] = None if np.isnan(deviation) else deviation
        if moments.counts is not None:
            numbers["histogram"] = moments.counts[row].tolist()
        rows.append(numbers)
    edges = None if found.edges is None else found.edges.tolist()
    return {"path": found.path, "dtype": str(found.dtype), "units": found.units, "edges": edges, "rows": rows}


def as_text(results: Sequence[Statistics]) -> str:
    """Return a table with a line for each array, or for each group of it; numbers stand below one another."""
    heads = {each.head for each in results} - {None}
    lines: list[tuple[str, ...]] = [("array", *sorted(filter(None, heads))[:1], *_HEADS)]
    for found in results:
        moments = found.moments
        for row in range(found.rows):
            label = [cell_text(found.labels[row]) if found.head is not None else ""] if heads else []
            ends = [_number_text(each[row]) for each in (found.low, found.mean, found.high)]
            deviation = "" if np.isnan(moments.deviation[row]) else _number_text(moments.deviation[row])
            counts = (f"{moments.cells[row]:,}", f"{moments.missing[row]:,}")
            lines.append((f"/{found.path}", *label, *counts, *ends, deviation, found.units or ""))
    first = 2 if heads else 1
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    aligned = [
        [cell.rjust(widths[i]) if first <= i < len(line) - 1 else cell for i, cell in enumerate(line)] for line in lines
    ]
    return format_columns(aligned)


def _number_text(value: object) -> str:
    """Return a number in seven digits, a whole one in full, a time as it is."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{float(value):.7g}"
    return cell_text(value)


def _histogram_text(found: Statistics) -> str:
    """Return a bar for each bin, of all groups together."""
    assert found.edges is not None and found.moments.counts is not None
    counts = found.moments.counts.sum(0)
    most = max(int(counts.max(initial=0)), 1)
    rows = []
    for low, high, count in zip(found.edges, found.edges[1:], counts, strict=False):
        bar = "#" * round(_BAR * int(count) / most)
        rows.append((f"{float(low):.6g}", f"{float(high):.6g}", f"{count:,}", bar))
    outside = int(found.moments.known.sum() - counts.sum())
    text = format_columns([("from", "to", "cells", ""), *rows])
    return text if not outside else f"{text}\n{outside:,} cells lie outside"
