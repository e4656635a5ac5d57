"""Rows of one dataset behind those of another: every array along the dimension, all of them or none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from hyperslab import api
from hyperslab.array import Array, times
from hyperslab.array.attributes import with_missing
from hyperslab.array.decoded import is_packed
from hyperslab.array.row_labels import Repeated, check_order, check_other_labels, find_repeated, repeated_runs
from hyperslab.array.series import find_sample_times, find_timestamps
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.labelled_part import read_axis
from hyperslab.conversion.opening import tree_session
from hyperslab.conversion.source_nodes import walk_nodes
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.group.cf_variables import AxisSearch
from hyperslab.group.frame_columns import refuse_frame
from hyperslab.group.links import follow_within
from hyperslab.model.attrs import FILL_VALUE, equal
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names, find_axis
from hyperslab.model.guessing import meant
from hyperslab.model.paths import child, normalize, split
from hyperslab.model.spec import ArraySpec
from hyperslab.model.time_units import TimeUnits
from hyperslab.stores.endpoints import Options

LOGGER = logging.getLogger("hyperslab.conversion")

# Bytes of cells that are appended at a time: a long source needs no more memory than this and a chunk.
_SLAB = 64 << 20
_MEANING_ATTRIBUTES = ("units", "calendar", "scale_factor", "add_offset", FILL_VALUE)
Cells = Array | Values


@dataclass(frozen=True)
class AppendReport:
    """A finished append: ``rows`` along ``dimension`` to ``arrays``; ``shorter``: coordinates that got none;
    ``left_out``: arrays that the source alone has."""

    dimension: str | None
    rows: int
    arrays: tuple[str, ...]
    shorter: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Growth:
    """An array, the rows that come behind it from number ``first`` on, and along which axis."""

    array: Array
    rows: Cells
    axis: int
    first: int = 0

    @property
    def count(self) -> int:
        return int(self.rows.shape[self.axis]) - self.first

    def key(self, rows: slice) -> tuple[slice, ...]:
        """Return the key of some rows."""
        return (*(slice(None),) * self.axis, rows)


def append_cells(
    target: api.Target,
    cells: Values,
    path: str = "",
    dim: str | None = None,
    *,
    storage_options: Options = None,
) -> AppendReport:
    """Put ``cells`` behind the last ones of ``dim`` in an array.

    ``dim``: without it the unlimited dimension, or the first. ``path``: which array, where the dataset holds several
    and ``target`` is not the array's own place. Invalid for other lengths; ``storage_options`` as in ``open``.
    """
    with tree_session(target, "r+", storage_options=storage_options) as (session, place):
        arrays = _arrays(session)
        chosen = _choose_array(session, arrays, _below(place, path))
        name, axis = _choose_axis(session, arrays, chosen, dim)
        growth = _Growth(chosen, cells, axis)
        _check_all(session, [growth])
        _append_all(session, [growth])
        shorter = [place for place in arrays if name and _is_coordinate(place, arrays[place].spec, name)]
        return AppendReport(name, cells.shape[axis], (chosen.path,), tuple(shorter))


def append_dataset(
    target: api.Target,
    source: api.Target,
    path: str = "",
    dim: str | None = None,
    *,
    repeated: Repeated = "error",
    source_options: Options = None,
    storage_options: Options = None,
) -> AppendReport:
    """Put the rows of the dataset ``source`` behind those of ``target``: of every array along ``dim``, or of the one
    at ``path`` (or ``target``, or ``source``, if it is an array's own place) and the coordinate. ``source_options`` and
    ``storage_options``: of the source and of the target.

    Times that are counted from another epoch, or stored as ``datetime64`` where these are counted or the other way
    round, are stored as those that are there. ``repeated``: what becomes of rows whose labels are there; with
    ``overwrite`` these stand before the others, and are written first. Invalid, before anything is written, for missing
    arrays, other lengths, attributes of another meaning, other labels and coordinates along the dimensions that do not
    grow, labels that are there and labels that would no longer be in order.
    """
    with (
        tree_session(source, storage_options=source_options) as (addition, added),
        tree_session(target, "r+", storage_options=storage_options) as (session, place),
    ):
        arrays, added_arrays = _arrays(session), _arrays(addition)
        path = _below(place, path)
        is_chosen = bool(path or added)
        if added and not path:
            path = next((name for name in (added, split(added)[1]) if name in arrays), "")
        if addition.url == session.url and added in ("", path):
            raise Invalid("a dataset cannot be appended to itself", url=addition.url, remedy="copy it first")
        chosen = _choose_array(session, arrays, path) if added or path or len(_main_arrays(arrays)) == 1 else None
        main = None if chosen is None else chosen.path
        name, axis = _choose_axis(session, arrays, chosen or _single_array(session, arrays), dim)
        if main is not None:
            places = [main, *(p for p, each in arrays.items() if name and _is_coordinate(p, each.spec, name))]
            places = list(dict.fromkeys(places))
        else:
            places = [place for place, each in arrays.items() if name and find_axis(each.dims, name) is not None]
        if not places:
            known = sorted({dim for each in arrays.values() for dim in axis_names(each.dims)})
            raise Invalid(f"no array has a dimension {name!r}", url=session.url, remedy=meant(str(name), known))
        found = {p: _counterpart(addition, added_arrays, p, added, alone=p == main) for p in places}
        pairs = []
        for place, other in found.items():
            _check_attributes(session, arrays[place], other, but=("units", "calendar"))
            rows = _count_times(other, added_arrays, arrays[place], arrays)
            own_axis = None if name is None else find_axis(arrays[place].dims, name)
            pairs.append(_Growth(arrays[place], rows, axis if own_axis is None else own_axis))
        sides = list(zip(pairs, found.values(), strict=True))
        _check_other_dims(session, sides)
        _check_auxiliary(session, sides)
        _check_seconds(session, sides)
        runs, pairs = _place_rows(session, pairs, repeated)
        _check_all(session, pairs, is_ordered=repeated != "allow")
        for pair in pairs:
            _write_over(pair, runs)
        _append_all(session, pairs)
        left = () if is_chosen else _left_out(arrays, added_arrays, found.values())
        return AppendReport(name, pairs[0].count + pairs[0].first, tuple(places), left_out=left)


def _left_out(arrays: Mapping[str, Array], added: Mapping[str, Array], used: Iterable[Array]) -> tuple[str, ...]:
    """Return the arrays of the source that are not ``used``, and of whose path or name the target has none."""
    known = {*arrays, *(split(path)[1] for path in arrays), *(array.path for array in used)}
    return tuple(path for path in added if path not in known and split(path)[1] not in known)


def _place_rows(
    session: OpenDataset, pairs: list[_Growth], repeated: Repeated
) -> tuple[list[tuple[slice, slice]], list[_Growth]]:
    """Return which rows go over those of the same labels, and where, with what is left to be appended. Invalid for
    labels that are there, if that is an error, and for such behind new ones."""
    for pair in pairs:
        if pair.array.dims != (pair.array.name,) or pair.array.dims != (pair.array.dims[pair.axis],):
            continue
        with session.add_place_to_errors(pair.array.path):
            name, labels = str(pair.array.name), np.asarray(pair.rows)
            places = find_repeated(name, pair.array[...], labels, repeated, partial(_label_text, pair.array))
            first = int((places >= 0).sum())
            if repeated != "overwrite" or not first:
                continue
            if (places[:first] < 0).any():
                remedy = "sort the rows, or write over those that are there first"
                raise Invalid("rows that are there already come behind new ones", remedy=remedy)
        return list(repeated_runs(places)), [replace(each, first=first) for each in pairs]
    return [], pairs


def _write_over(pair: _Growth, runs: Sequence[tuple[slice, slice]]) -> None:
    """Write rows of runs in the places of those that have their labels."""
    for mine, theirs in runs:
        ahead = theirs.start - mine.start
        for rows in _row_slabs(pair, mine.start, mine.stop):
            pair.array[pair.key(slice(rows.start + ahead, rows.stop + ahead))] = np.asarray(pair.rows[pair.key(rows)])


def _below(place: str, path: str) -> str:
    """Return the path of the array in its tree; ``place``: where in the tree the user opened it."""
    return child(place, normalize(path)) if place and path else place or path


def _arrays(session: OpenDataset) -> dict[str, Array]:
    return {path: Array(session, path, node) for path, node in walk_nodes(session, "") if node.is_array}


def _main_arrays(arrays: Mapping[str, Array]) -> list[str]:
    """Return the arrays that are no coordinates of a dimension."""
    return [path for path, array in arrays.items() if array.dims != (split(path)[1],)] or list(arrays)


def _choose_array(session: OpenDataset, arrays: Mapping[str, Array], path: str) -> Array:
    if path:
        place = follow_within(session, normalize(path))[0]
    else:
        only = _single_array(session, arrays)
        mains = _main_arrays(arrays) if only is None else [only.path]
        if len(mains) != 1:
            names = ", ".join(mains) or "none"
            raise Invalid(f"there are several arrays: {names}", url=session.url, remedy="choose one by --path")
        place = mains[0]
    if place not in arrays:
        raise Invalid("this is a group", url=session.url, node=place, remedy="name one of its arrays")
    return arrays[place]


def _single_array(session: OpenDataset, arrays: Mapping[str, Array]) -> Array | None:
    """Return the array that stands for the dataset, where the format holds one."""
    main = session.reader.main
    return None if main is None else arrays[main]


def _choose_axis(
    session: OpenDataset, arrays: Mapping[str, Array], array: Array | None, dim: str | None
) -> tuple[str | None, int]:
    """Return the dimension that gets longer, and its axis in the array; of several ``arrays`` without one."""
    root = session.reader.node("")
    unlimited = [each.name for each in root.dims if each.unlimited] if root.is_group else []
    if array is None:
        name = dim or (unlimited[0] if len(unlimited) == 1 else None)
        if name is None:
            known = dict.fromkeys(dim for each in arrays.values() for dim in axis_names(each.dims))
            remedy = f"name it by --dim: there are {', '.join(known) or 'none'}"
            raise Invalid("which dimension gets longer is not known", url=session.url, remedy=remedy)
        return name, 0
    if dim is None:
        growing = [name for name in array.dims if name in unlimited]
        axis = array.dims.index(growing[0]) if len(growing) == 1 else 0
        if not array.ndim:
            remedy = "name an array that has some by --path"
            raise Invalid("an array without dimensions cannot grow", url=session.url, node=array.path, remedy=remedy)
        return array.dims[axis], axis
    found = find_axis(array.dims, dim)
    if found is None:
        names = ", ".join(axis_names(array.dims)) or "none"
        raise Invalid(f"no dimension {dim!r}", url=session.url, node=array.path, remedy=f"there are {names}")
    return dim, found


def _is_coordinate(path: str, spec: ArraySpec, dim: str) -> bool:
    return split(path)[1] == dim and spec.dims == (dim,)


def _counterpart(addition: OpenDataset, arrays: Mapping[str, Array], place: str, added: str, *, alone: bool) -> Array:
    """Return the array of the source under the same path or name; beside ``added``, the array that the user named.

    ``alone``: that array; where none is named the only one that is no coordinate.
    """
    if alone and added:
        return arrays[added]
    name = split(place)[1]
    beside = arrays.get(child(split(added)[0], name)) if added else None
    found = beside or arrays.get(place) or arrays.get(name)
    mains = _main_arrays(arrays)
    if found is None and alone and len(mains) == 1:
        found = arrays[mains[0]]
    if found is None:
        names = ", ".join(arrays) or "none"
        raise Invalid(f"there is no array for /{place} to append", url=addition.url, remedy=f"there are {names}")
    return found


def _time_units(arrays: Mapping[str, Array], array: Array) -> TimeUnits | None:
    """Return the units of an array's times: its own, or those of the coordinate whose bounds it holds; None where it
    holds no times."""
    name = split(array.path)[1]
    bounded = (each for each in arrays.values() if each.attrs.get("bounds") == name)
    holder = array if "units" in array.attrs else next(bounded, array)
    try:
        return TimeUnits(holder.attrs.get("units"), holder.attrs.get("calendar"))
    except Invalid:
        return None


def _count_times(rows: Array, added: Mapping[str, Array], array: Array, arrays: Mapping[str, Array]) -> Array | Values:
    """Return rows as they are, or times as the array has them: counted in its units, or ``datetime64``. ``added`` and
    ``arrays``: all of both sides. Invalid."""
    theirs, ours = _time_units(added, rows), _time_units(arrays, array)
    are_datetimes = rows.dtype.kind == "M", array.dtype.kind == "M"
    if all(are_datetimes):
        return rows
    missing = [_missing_numbers(each) for each in (rows, array)]
    try:
        if are_datetimes[0]:
            marks = [*missing[1], *([np.nan] if array.dtype.kind == "f" else [])]
            return _require_units(ours).from_datetimes(rows[...], array.dtype, marks)
        if are_datetimes[1]:
            return _require_units(theirs).to_datetimes(rows[...], array.dtype, missing[0])
        if theirs is None or ours is None or (theirs.text, theirs.calendar) == (ours.text, ours.calendar):
            return rows
        return ours.rebase(rows[...], theirs, missing[0])
    except Invalid as error:
        raise error.locate(url=rows.url, node=rows.path) from None


def _require_units(units: TimeUnits | None) -> TimeUnits:
    """Return the units of numbers that meet ``datetime64``. Invalid where they are none of time."""
    if units is None:
        remedy = "give the numbers an attribute units, such as 'hours since 2020-01-01', or store both as numbers"
        raise Invalid("numbers without units of time do not go with times", remedy=remedy)
    return units


def _missing_numbers(array: Array) -> list[object]:
    """Return the values that mean missing by the attributes of an array."""
    return [value for name in (FILL_VALUE, "missing_value") if (value := array.attrs.get(name)) is not None]


def _append_all(session: OpenDataset, pairs: list[_Growth]) -> None:
    """Append to all arrays, or to none: coordinates last, so that who finds a new label finds its cells."""
    pairs = sorted(pairs, key=lambda pair: pair.array.dims == (pair.array.name,))
    before = [pair.array.shape for pair in pairs]
    rows = dict.fromkeys(range(len(pairs)), 0)
    # A format of one array keeps all in one file, which is changed once.
    writer = session.writer()
    with writer.one_commit(), writer.batch() if session.reader.is_single_array else nullcontext():
        try:
            for number, pair in enumerate(pairs):
                for slab in _row_slabs(pair, pair.first, pair.first + pair.count):
                    pair.array.append(np.asarray(pair.rows[pair.key(slab)]), pair.axis)
                    rows[number] += slab.stop - slab.start
        except BaseException:
            # Cut off what has been appended: readers find all arrays of one length again. Rows that another writer has
            # put behind them meanwhile stay, and these with them.
            for pair, shape in zip(pairs, before, strict=True):
                if not session.reader.is_single_array:
                    pair.array.refresh()
                if pair.array.shape[pair.axis] > shape[pair.axis] + max(rows.values()):
                    LOGGER.warning("rows of an append that failed stay in %s: others follow them", pair.array.path)
                elif pair.array.shape != shape:
                    pair.array.resize(shape)
            raise


def _check_all(session: OpenDataset, pairs: list[_Growth], *, is_ordered: bool = True) -> None:
    """Raise Invalid for rows that do not fit behind an array, and for different numbers of rows. ``is_ordered``: also
    for labels that would lose their order."""
    for above in {split(pair.array.path)[0] for pair in pairs}:
        node = session.reader.node(above)
        if node.is_group:
            refuse_frame(node.attrs, session.url)
    for pair in pairs:
        if _other_lengths(pair.array, pair.axis) != _other_lengths(pair.rows, pair.axis):
            new, old = tuple(pair.rows.shape), pair.array.shape
            message = f"rows of shape {new} do not fit behind {old} along axis {pair.axis}"
            raise Invalid(message, url=session.url, node=pair.array.path, remedy="every other length must be the same")
        if isinstance(pair.rows, Array):
            _check_attributes(session, pair.array, pair.rows)
        if is_ordered and pair.array.dims == (pair.array.name,):
            _check_order(session, pair)
    if len({pair.count for pair in pairs}) > 1:
        counts = ", ".join(f"/{pair.array.path}: {pair.count}" for pair in pairs)
        remedy = "give as many rows for each of them"
        raise Invalid(f"the arrays have different numbers of rows: {counts}", url=session.url, remedy=remedy)
    _check_timestamps(session, pairs)


def _check_timestamps(session: OpenDataset, pairs: Sequence[_Growth]) -> None:
    """Raise Invalid for samples of a series of NWB without as many timestamps, behind which none would have seconds."""
    grown = {pair.array.path: pair.array.shape[0] + pair.count for pair in pairs if pair.axis == 0}
    for array in (pair.array for pair in pairs if pair.axis == 0):
        with session.add_place_to_errors(array.path):
            stamps, samples = find_timestamps(session, array.path, array.spec), grown[array.path]
            if stamps is None:
                continue
            owner, place, spec = stamps
            length = grown.get(place, *spec.shape[:1]) if owner is session else spec.shape[0]
            if length != samples:
                message = f"{samples} samples, and {length} timestamps in /{place}: none would have a second"
                remedy = f"append to /{place} first, or rows of a dataset that has both"
                raise Invalid(message, remedy=remedy)


def _other_lengths(cells: Cells, axis: int) -> tuple[int, ...]:
    return (*cells.shape[:axis], *cells.shape[axis + 1 :])


def _check_attributes(session: OpenDataset, array: Array, rows: Array, but: Sequence[str] = ()) -> None:
    """Raise Invalid where the cells of the rows have another meaning than those of the array, by other attributes than
    those in ``but``."""
    here, there = with_missing(session, array.spec), with_missing(rows._session, rows.spec)
    unpacks, packs = is_packed(rows) and not is_packed(array), is_packed(array) and not is_packed(rows)
    remedy = "convert the values first"
    if unpacks:
        remedy = "hyperslab unpack writes a copy of packed cells as floats: append that"
    elif packs:
        remedy = "open the rows in xarray: dataset.hyperslab.save(target, append_dim=...) packs them"
    for name in (name for name in _MEANING_ATTRIBUTES if name not in but):
        mine, their = here.get(name), there.get(name)
        if mine is not None and their is not None and not equal(mine, their):
            plain = [each.tolist() if isinstance(each, np.generic | np.ndarray) else each for each in (mine, their)]
            message = f"{name} is {plain[0]!r} here and {plain[1]!r} there"
            is_unit = name in ("units", "calendar")
            way = "convert the values first" if is_unit else remedy
            raise Invalid(message, url=session.url, node=array.path, remedy=way)
    # Numbers of the same kind without any attributes are stored ones, of a format that has none.
    if (unpacks or packs) and (rows.dtype.kind != array.dtype.kind or (here and there)):
        sides = ("not packed here, and packed there", "packed here, and not there")
        raise Invalid(f"cells are {sides[packs]}", url=session.url, node=array.path, remedy=remedy)


def _check_order(session: OpenDataset, pair: _Growth) -> None:
    """Raise Invalid where numbers or times of a coordinate would not go on in order."""
    array = pair.array
    if array.dtype.kind in "iufmM" and pair.rows.dtype.kind in "iufmM":
        are_times = array.dtype.kind == "M" or times.clock(array.attrs) is not None
        rows = np.asarray(pair.rows)[pair.first :]
        with session.add_place_to_errors(array.path):
            check_order(array.name, array[...], rows, are_times=are_times, show=partial(_label_text, array))


def _check_other_dims(session: OpenDataset, pairs: Sequence[tuple[_Growth, Array]]) -> None:
    """Raise Invalid where rows have other labels than those that are stored along a dimension that does not grow."""
    checked: set[tuple[str, ...]] = set()
    for pair, rows in pairs:
        array = pair.array
        for axis, dim in enumerate(array.dims):
            if axis == pair.axis or rows.shape[axis : axis + 1] != array.shape[axis : axis + 1]:
                continue  # other lengths are another error
            # Arrays of one group share the coordinate of a dimension: it is read once.
            is_shared = dim is not None and dim not in array.spec.indexes.keys() | rows.spec.indexes.keys()
            places = [split(each.path)[0] if is_shared else each.path for each in (array, rows)]
            if (key := (*places, str(dim), str(rows.dims[axis]))) in checked:
                continue
            checked.add(key)
            stored, labels = (read_axis(each, axis, slice(None)) for each in (array, rows))
            if stored is not None and labels is not None:
                with session.add_place_to_errors(array.path):
                    check_other_labels(stored.name, stored.labels, labels.labels, [stored.name])


def _check_auxiliary(session: OpenDataset, pairs: Sequence[tuple[_Growth, Array]]) -> None:
    """Raise Invalid where rows have other coordinates along the dimensions that do not grow than those that are stored,
    such as the longitudes and latitudes of a curved grid. Each is read once, and only where both sides have it."""
    search = AxisSearch()
    checked: set[tuple[str, str]] = set()
    for pair, rows in pairs:
        growing = pair.array.dims[pair.axis]
        if growing is None or _other_lengths(rows, pair.axis) != _other_lengths(pair.array, pair.axis):
            continue  # other lengths are another error
        theirs = _auxiliary_coordinates(rows, search)
        for name, stored in _auxiliary_coordinates(pair.array, search).items():
            other = theirs.get(name)
            if other is None or growing in stored.dims or (stored.path, other.path) in checked:
                continue
            checked.add((stored.path, other.path))
            with session.add_place_to_errors(stored.path):
                check_other_labels(name, _decode_cells(stored), _decode_cells(other), axis_names(stored.dims))


def _check_seconds(session: OpenDataset, pairs: Sequence[tuple[_Growth, Array]]) -> None:
    """Raise Invalid for samples of a series of NWB that do not follow those that are there: its starting_time and rate
    would tell other seconds, or its timestamps fall back."""
    for pair, rows in pairs:
        if pair.axis == 0:
            with session.add_place_to_errors(pair.array.path):
                stored, added = (find_sample_times(each._session, each.path, each.spec) for each in (pair.array, rows))
                if stored is not None and added is not None:
                    stored.extend(added)


def _auxiliary_coordinates(array: Array, search: AxisSearch) -> dict[str, Array]:
    """Return by name the coordinates of an array that are no labels of one dimension: those that its attributes name,
    and what says by its role in CF where cells lie."""
    places = search.find_places(array)
    named = search.find_auxiliary_coordinates(array)
    found = [*named, *(() if places is None else (places.longitude, places.latitude))]
    return {split(each.path)[1]: each for each in found}


def _decode_cells(array: Array) -> Values:
    """Return all cells, as stored where they cannot be decoded."""
    try:
        return np.asarray(array.decoded()[...])
    except HyperslabError:
        return np.asarray(array[...])


def _label_text(array: Array, label: object) -> str:
    """Return a label of a coordinate as messages show it: a time as a date, another number with its units."""
    clock = times.clock(array.attrs)
    if clock is not None:
        with suppress(HyperslabError):
            found = times.decode_times(np.asarray([label]), clock)
            return str(found.astype("M8[s]")[0] if found.dtype.kind == "M" else found[0])
    return f"{label} {array.units}" if array.units else str(label)


def _row_slabs(pair: _Growth, first: int, stop: int) -> Iterator[slice]:
    """Yield which rows go together within bounded memory, in whole chunks of the source where it has such."""
    rows, axis = pair.rows, pair.axis
    row = prod(rows.shape[:axis] + rows.shape[axis + 1 :]) * max(rows.dtype.itemsize, 1)
    most = max(1, _SLAB // max(row, 1))
    if isinstance(rows, Array):
        # Whole chunks of the source: each is read and decoded once.
        cut = rows.grid.axes[axis]
        size = cut.size_of(0) if cut.count else 1
        most = max(size, most // size * size)
    yield from (slice(start, min(start + most, stop)) for start in range(first, stop, most))
