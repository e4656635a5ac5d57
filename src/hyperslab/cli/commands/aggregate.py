"""``hyperslab aggregate``: means, sums and extremes over dimensions or for periods of time, as a new dataset."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any
from uuid import uuid4

import click
import numpy as np

from hyperslab.array import Array
from hyperslab.bridges.cluster import client_of
from hyperslab.bridges.extras import library
from hyperslab.chunks.memory import largest_chunk
from hyperslab.chunks.settings import Settings
from hyperslab.cli.arguments import (
    SelectionOptions,
    TypedSelection,
    change_units,
    find_cells,
    find_dimensions,
    open_dataset,
    parse_selections,
    split_commas,
)
from hyperslab.cli.options import (
    allow_option,
    at_option,
    choice_options,
    complete_place,
    memory_option,
    packing_option,
    period_options,
    scheduler_option,
    selection_options,
    side_options,
    target_options,
    units_option,
    workers_option,
)
from hyperslab.cli.output import format_columns, json_option, print_json, print_remark, shows_progress
from hyperslab.cli.start import importing
from hyperslab.conversion.memory_objects import save
from hyperslab.conversion.selection import ShiftedSelection
from hyperslab.errors import AlreadyExists, HyperslabError, Invalid, Unsupported
from hyperslab.formats import format_for_new
from hyperslab.formats.codec_kinds import is_compressed
from hyperslab.formats.opening import is_occupied
from hyperslab.group import Group
from hyperslab.group.cf_variables import companions_of, global_attributes
from hyperslab.group.choice import Choice, choose_of
from hyperslab.group.walk import arrays_of
from hyperslab.model.amounts import counted, size_text
from hyperslab.model.paths import outward, split
from hyperslab.stores.location import Location

_HOW = ("mean", "sum", "min", "max", "std", "count")
# Of the memory that is given, a thread works on this part at a time: beside a block of cells there are its copy as
# double, where it is missing, and the sums that wait for one another.
_SHARE = 8
# Of the memory that is given, the part that keeps decoded chunks, of which several blocks are cut: without it each
# would be decoded once for each of them.
_CACHE = 4
# Bytes of a stored chunk from which it is a task of its own: dask has its own work with each.
_LEAST = 1 << 20
# Groups that a remark names.
_LISTED = 10
# Bytes of the blocks that are cut otherwise.
_USUAL = 4 << 20


@click.command(
    "aggregate",
    epilog="Example: hyperslab aggregate air.nc months.nc --how mean --every month; --over lat,lon --weighted",
)
@click.argument("src", shell_complete=complete_place)
@click.argument("dst", shell_complete=complete_place)
@click.option("--how", type=click.Choice(_HOW), required=True, help="What is computed.")
@click.option("--over", multiple=True, metavar="DIM,…", help="The dimensions that vanish, or give periods.")
@period_options
@click.option("--weighted", is_flag=True, help="Weigh cells by their area.")
@click.option("--path", default="", metavar="PATH", help="The group whose arrays are aggregated, else the root.")
@choice_options()
@selection_options
@units_option
@target_options
@click.option("--dry-run", is_flag=True, help="Say what would be read and written, and write nothing.")
@memory_option
@workers_option
@scheduler_option
@packing_option
@at_option("SRC")
@side_options
@allow_option("SRC")
@json_option
def aggregate_command(
    src: str,
    dst: str,
    how: str,
    over: tuple[str, ...],
    by: str | None,
    every: str | None,
    weighted: bool,
    path: str,
    choice: Choice,
    selections: tuple[str, ...],
    manner: SelectionOptions,
    units: dict[str, str],
    format: str | None,
    overwrite: bool,
    dry_run: bool,
    memory: int,
    workers: int | None,
    scheduler: str | None,
    packing: str,
    at: str | None,
    src_option: dict[str, object] | None,
    dst_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> None:
    """Aggregate the arrays of SRC, and write the result to DST, a new dataset of any format: means, sums, least or
    largest cells, deviations or counts over dimensions, or for periods of time (--by, --every).

    xarray and flox compute it, block by block by dask. Missing cells weigh nothing.
    """
    with importing():
        from hyperslab.bridges.xarray.aggregation import Aggregation, aggregate, find_lengths

    format = _check_target(dst, dst_option, format, overwrite=overwrite)
    cache = min(memory // _CACHE, Settings().cache_bytes)
    root = open_dataset(src, src_option, allow=allow_external, at=at, cache_bytes=cache, packing=packing)
    group = _find_group(root, path, units, scheduler)
    dims = _parse_over(group, over)
    threads = Settings(workers=workers).threads
    most = max((memory - cache) // (_SHARE * threads), 1)
    with _computing(scheduler, threads):
        with group._session.add_place_to_errors(group.path or None):
            source = _open(group, choice, parse_selections(selections), manner, most)
            result, left_out = aggregate(source, Aggregation(how, find_lengths(source, dims), by, every, weighted))
        facts = _facts(source, result, left_out)
        if not dry_run:
            places: dict[str, Any] = {} if dst_option is None else {"storage_options": dst_option}
            show, codec = shows_progress(as_json) or None, _codec(group, format)
            save(dst, result, format=format, mode="w" if overwrite else "x", codec=codec, progress=show, **places)
    if as_json:
        print_json("aggregate", source=src, target=dst, format=format, dry_run=dry_run, **facts)
        return
    _print_left_out(left_out, group, how)
    if dry_run:
        click.echo(_as_text(facts["arrays"]))
    verb = "would become" if dry_run else "became"
    cells = f"{size_text(facts['nbytes_read'])} of cells"
    print_remark(f"{cells} {verb} {size_text(facts['nbytes'])} in {counted(len(facts['arrays']), 'array')} of {dst}")


def _print_left_out(reasons: Mapping[str, str], group: Group, how: str) -> None:
    """Say which variables and groups are not aggregated."""
    for name, reason in reasons.items():
        print_remark(f"/{name} is left out: it has no {how}: {reason}")
    if below := [name for name, _ in group.groups()]:
        print_remark(f"groups below are left out: {', '.join(below[:_LISTED])}; --path takes one")


def _find_group(root: Group | Array, path: str, units: Mapping[str, str], scheduler: str | None) -> Group:
    """Return the group at a path, with some of its arrays in other units; Invalid for an array."""
    group = root[path] if path.strip("/") and isinstance(root, Group) else root
    if isinstance(group, Group):
        group, _ = change_units(group, [array for _, array in group.arrays()], units, scheduler)
    if not isinstance(group, Group):
        raise Invalid("this is an array", url=root.url, node=path.strip("/"), remedy="name its group, and it by -v")
    return group


def _parse_over(group: Group, over: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dimensions that are named, those of words of CF among them; a name of none stays, to be refused."""
    arrays = [array for _, array in arrays_of(group)]
    return tuple(dict.fromkeys(dim for name in split_commas(over) for dim in find_dimensions(arrays, name) or [name]))


def _check_target(dst: str, options: Mapping[str, object] | None, format: str | None, *, overwrite: bool) -> str:
    """Return the format of the target, before anything is read; AlreadyExists where something is in the way."""
    target = Location.of(dst, options)
    if not overwrite and is_occupied(target):
        raise AlreadyExists("something is there", url=target.url, remedy="--overwrite replaces it")
    return format or format_for_new(target.url)


def _codec(group: Group, format: str) -> str | None:
    """Return the codec of a target: none where the source, of the same format, is not compressed."""
    is_stored_so = format == group._session.stored_format.name
    is_plain = is_stored_so and not any(is_compressed(array.codec) for _, array in group.arrays())
    return "none" if is_plain else None


@contextmanager
def _computing(scheduler: str | None, threads: int) -> Iterator[None]:
    """Have dask compute by so many threads, or the workers of a cluster."""
    dask = library("dask")
    with ExitStack() as stack, warnings.catch_warnings():
        # Where all cells are missing the result is: NumPy's warnings of empty means say no more.
        warnings.simplefilter("ignore", RuntimeWarning)
        # They are named by their places, before anything else is done with them.
        warnings.filterwarnings("ignore", "Duplicate dimension names", UserWarning)
        # A stored chunk that is larger than the memory for a block has to be cut.
        warnings.filterwarnings("ignore", "The specified chunks separate", UserWarning)
        if scheduler is None:
            # As a function, not as the word "threads", for which dask imports distributed: 0.2 s.
            stack.enter_context(dask.config.set(scheduler=library("dask.threaded").get, num_workers=threads))
        else:
            stack.enter_context(stack.enter_context(client_of(scheduler)).as_current())
        yield


def _cut(array: Array, most: int) -> tuple[tuple[int, ...], ...]:
    """Return how dask cuts an array: as it is stored, unless its chunks are small, or too large for the memory; then in
    multiples or parts of them. What is small itself is one block."""
    itemsize, grid = array.dtype.itemsize, array.grid.outer or array.grid
    if prod(array.shape) * itemsize <= _LEAST:
        return tuple((length,) for length in array.shape)
    stored = tuple(
        tuple(min(axis.size_of(index), axis.length - axis.start(index)) for index in range(axis.count))
        for axis in grid.axes
    )
    nbytes = largest_chunk(grid) * itemsize
    if _LEAST <= nbytes <= most:
        return stored
    limit = most if nbytes > most else min(most, _USUAL)
    normalize = library("dask.array.core").normalize_chunks
    cut: tuple[tuple[int, ...], ...] = normalize(
        "auto", array.shape, limit=limit, dtype=array.dtype, previous_chunks=stored
    )
    return cut


def _open(group: Group, choice: Choice, selection: TypedSelection, manner: SelectionOptions, most: int) -> Any:
    """Return the group as a Dataset of lazy blocks, with the variables and cells that are chosen."""
    arrays, beside = dict(group.arrays()), _companions_around(group)
    if choice:
        chosen = [array for _, array in choose_of(group, list(arrays_of(group)), choice)]
        if not any(split(array.path)[0] == group.path for array in chosen):
            remedy = f"name one group by --path, such as --path {split(chosen[0].path)[0]}"
            raise Invalid("what is chosen lies in groups below", url=group.url, node=group.path, remedy=remedy)
        kept = {array.name for array in (*chosen, *companions_of(chosen, {}))}
        arrays = {name: array for name, array in arrays.items() if name in kept}
        beside = [array for array in beside if array.name in kept]
    dataset = _open_dataset(group, arrays)
    for folder in outward(group.path):
        around = {array.name: array for array in beside if split(array.path)[0] == folder and array.name not in arrays}
        if around:
            more = _open_dataset(Group(group._session, folder), around)
            dataset = dataset.assign(more.data_vars).assign_coords(more.coords)
            arrays |= around
    dataset.attrs = {**global_attributes(group._session, group.path), **dataset.attrs}
    blocks: dict[str, Any] = {}
    for name, array in arrays.items():
        variable = dataset.variables.get(name)
        if variable is not None and name not in dataset.xindexes and 0 < array.ndim == variable.ndim:
            # each array in blocks of its own: those of a field of one level would be small where another has many
            cuts = dict(zip(variable.dims, _cut(array, most), strict=True))
            blocks[name] = variable.chunk(cuts, name=f"{name}-{uuid4().hex}")
    coords = {name: block for name, block in blocks.items() if name in dataset.coords}
    dataset = dataset.assign_coords(coords).assign({name: blocks[name] for name in blocks.keys() - coords.keys()})
    is_selected = selection or manner.box is not None or manner.tolerance
    there = {name: array for name, array in arrays.items() if name in dataset.variables}
    return _select(dataset, there, selection, manner) if is_selected else dataset


def _companions_around(group: Group) -> list[Array]:
    """Return the variables of the groups around one that belong to its arrays by CF, such as coordinates."""
    folders = list(outward(group.path))[1:]
    companions = companions_of([array for _, array in group.arrays()], {}) if folders else []
    return [array for array in companions if split(array.path)[0] in folders]


def _open_dataset(group: Group, arrays: Mapping[str, Array]) -> Any:
    """Return arrays of a group as a Dataset; Unsupported for one that xarray cannot decode."""
    from hyperslab.bridges.xarray import open_lazy
    from hyperslab.bridges.xarray.aggregation import name_dimensions
    from hyperslab.bridges.xarray.reading import refuse_several_sizes

    remedy = "choose arrays of one size: -v NAME takes one, -x NAME leaves one out"
    refuse_several_sizes(arrays, group.url, group.path, remedy)
    options: dict[str, Any] = {"decode_timedelta": False, "cache": False}
    try:
        dataset = open_lazy(group, **options, drop_variables=[name for name, _ in group.arrays() if name not in arrays])
    except HyperslabError:
        raise
    except ValueError as error:  # of xarray, which does not say where: times beyond all dates, unknown calendars
        for name, array in arrays.items():
            try:
                open_lazy(array, **options)
            except ValueError:
                remedy = f"leave it out: -x {name}"
                raise Unsupported(
                    str(error.__cause__ or error), url=array.url, node=array.path, remedy=remedy
                ) from error
        raise
    return name_dimensions(dataset, {name: (array.dims, array.shape) for name, array in arrays.items()})


def _select(dataset: Any, arrays: dict[str, Array], selection: TypedSelection, manner: SelectionOptions) -> Any:
    """Return the cells that are chosen of a Dataset; longitudes across the seam are made continuous."""
    from hyperslab.bridges.xarray.aggregation import coordinate_words

    selector = find_cells(list(arrays.values()), selection, manner)
    picked = {name: selector.pick(array) for name, array in arrays.items()}
    # by the names of xarray, which has one for each dimension, and none for that of the letters of texts
    items = [
        pair for name, array in arrays.items() for pair in zip(dataset[name].dims, selector.key(array), strict=False)
    ]
    chosen = {dim: item for dim, item in items if not (isinstance(item, slice) and item == slice(None))}
    points = {dim for dim, item in chosen.items() if isinstance(item, int | np.integer) and dim in dataset.coords}
    named = {name: [dim for dim in each.dims if dim in points] for name, each in dataset.data_vars.items()}
    dataset = dataset.isel(chosen)
    for name, dims in named.items():
        if dims:  # else xarray has every variable name the coordinate of the point
            words = " ".join([*coordinate_words(dataset[name]), *dims])
            dataset[name].encoding = {**dataset[name].encoding, "coordinates": words}
    for name, part in picked.items():
        if isinstance(part, ShiftedSelection):
            variable = dataset[name].variable
            moved = variable.copy(data=part.shift(variable.values, (slice(None),) * variable.ndim))
            add = dataset.assign_coords if name in dataset.coords else dataset.assign
            dataset = add({name: moved})
    return dataset


def _facts(source: Any, result: Any, left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return what is read and what is written, of two Datasets of xarray."""
    arrays = [
        {
            "path": str(name),
            "dtype": str(each.dtype),
            "dims": dict(zip(each.dims, each.shape, strict=True)),
            "nbytes": prod(each.shape) * each.dtype.itemsize,
        }
        for name, each in result.variables.items()
    ]
    read = sum(source[name].nbytes for name in result.data_vars if name in source.data_vars)
    return {"nbytes_read": read, "nbytes": result.nbytes, "arrays": arrays, "left_out": list(left_out)}


def _as_text(arrays: list[dict[str, Any]]) -> str:
    rows = [("array", "type", "dimensions", "cells")]
    for each in arrays:
        dims = ", ".join(f"{dim}: {size}" for dim, size in each["dims"].items()) or "(one cell)"
        rows.append((f"/{each['path']}", each["dtype"], dims, size_text(each["nbytes"])))
    return format_columns(rows)
