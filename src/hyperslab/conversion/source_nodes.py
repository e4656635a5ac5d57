"""Which nodes and cells of a source are converted, and which of them cannot be read.

A source is walked from a group down, or one array is taken with its coordinates; a selection then says which cells of
each array are copied. What is damaged is an error that lists all of it, or is left out where the caller asks for that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

import numpy as np

from hyperslab.array import Array
from hyperslab.array.attributes import with_missing
from hyperslab.array.series import COMPANIONS, find_clock, find_sample_times, is_series_data
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.sparse_io import read_through
from hyperslab.conversion.labelled_part import empty_ranges
from hyperslab.conversion.losses import Features, target_cell_type
from hyperslab.conversion.rechunk import Encoding
from hyperslab.conversion.selection import ArraySelection, Select, Selector, ShiftedSelection
from hyperslab.errors import (
    DAMAGE,
    FormatError,
    HyperslabError,
    Invalid,
    NodeNotFound,
    Problem,
    Unsupported,
)
from hyperslab.formats.base import Feature, Format
from hyperslab.formats.frame_description import ATTRIBUTE as FRAME
from hyperslab.formats.frame_description import UNREADABLE, choose_columns, choose_rows, read_description, row_parts
from hyperslab.formats.single_array.document import DEFAULT
from hyperslab.formats.single_array.draft import main_arrays
from hyperslab.group.cf_variables import companions_of, global_attributes, name_coordinates, names_in_attribute
from hyperslab.group.choice import EVERYTHING, Choice
from hyperslab.group.links import follow_within
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.cells import as_type
from hyperslab.model.dims import Dimension, axis_names
from hyperslab.model.guessing import meant
from hyperslab.model.paths import child, is_within, join, normalize, outward, relative, split
from hyperslab.model.series import DATA, sample_rate
from hyperslab.model.spec import ArraySpec, GroupSpec, Node
from hyperslab.selection.region import Range

_log = logging.getLogger("hyperslab")


@dataclass(frozen=True, slots=True, eq=False)
class SourceNode:
    """A node of the source at ``origin``, and its ``path`` in the target; of an array its ``picked`` cells.

    ``whole``: all that is in a group is converted too. ``is_companion``: of a variable that comes along with others,
    which were chosen. ``keeps_codecs``: False of cells of another type than those that the source's codecs are for.
    """

    path: str
    origin: str
    node: Node
    whole: bool = True
    picked: ArraySelection | None = None
    is_companion: bool = False
    keeps_codecs: bool = True


def find_source_nodes(
    session: OpenDataset,
    path: str,
    features: Features,
    damage: SourceDamage | None = None,
    choice: Choice = EVERYTHING,
) -> list[SourceNode]:
    """Return the nodes that are converted, parents before what is in them.

    ``path``: a group, or an array; empty for everything. ``choice``: the variables of it. What belongs to them by CF
    (:func:`.companions_of`) comes along unless the choice is of them alone, from groups above into that of the target.
    A target without groups takes one array with its coordinates: Invalid lists the arrays where there are several.
    ``damage`` collects the errors of nodes that cannot be read; without it they are raised.
    """
    has_groups = bool(features & {Feature.GROUPS, Feature.ARRAYS})
    place, spec = follow_within(session, normalize(path)) if path else ("", None)
    if spec is not None and spec.is_array:
        if choice:
            remedy = "leave out the path, or the choice of variables"
            raise Invalid("variables are chosen of a group, this is an array", node=place, remedy=remedy)
        others = {} if choice.alone else _find_companions(session, {place: spec}, damage)
        return _gather_in_group(session, place, spec, others if has_groups else _only_coordinates(place, spec, others))
    if choice:
        parts = _find_chosen_nodes(session, place, damage, choice)
    else:
        parts = [SourceNode(relative(name, place), name, node) for name, node in walk_nodes(session, place, damage)]
        if place and not choice.alone:
            parts += _find_companions_above(session, place, parts, damage)
    if not has_groups:
        return _find_only_array(session, {part.origin: part.node for part in parts})
    if spec is not None and parts[0].node.is_group:
        parts[0] = replace(parts[0], node=parts[0].node.evolve(attrs=global_attributes(session, place)))
    return parts


def _find_companions_above(
    session: OpenDataset, place: str, parts: Sequence[SourceNode], damage: SourceDamage | None
) -> list[SourceNode]:
    """Return the arrays outside of a group that belong to those in it, as arrays of the target's root; none whose name
    is taken there."""
    specs = {part.origin: part.node for part in parts if part.node.is_array}
    taken = {part.path for part in parts}
    found: dict[str, SourceNode] = {}
    for origin, spec in _find_companions(session, specs, damage).items():
        name = split(origin)[1]
        if not is_within(origin, place) and name not in taken:
            found.setdefault(name, SourceNode(name, origin, spec, is_companion=True))
    return list(found.values())


def _find_chosen_nodes(
    session: OpenDataset, place: str, damage: SourceDamage | None, choice: Choice
) -> list[SourceNode]:
    """Return the groups and variables below ``place`` that a choice leaves: groups that hold one, each with the
    dimensions that its variables have. Links stay where nothing but what is left out is named."""
    unread = SourceDamage(kinds=(*DAMAGE, Unsupported))
    nodes = {relative(origin, place): (origin, node) for origin, node in walk_nodes(session, place, unread)}
    for origin, error in unread.errors.items():
        if choice.may_choose(relative(origin, place)):
            if damage is None or not isinstance(error, damage.kinds):
                raise error
            damage.errors[origin] = error
    arrays = {path: node for path, (_, node) in nodes.items() if node.is_array}
    try:
        chosen = dict.fromkeys(choice.choose({path: node.attrs for path, node in arrays.items()}))
    except NodeNotFound as error:
        if damage:  # what is damaged may be what is meant
            damage.raise_error()
        raise error.locate(url=session.url, node=place or None) from None
    specs = {} if choice.alone else {join(place, path): arrays[path] for path in chosen}
    linked = {} if choice.alone else _find_linked_companions(session, place, chosen, nodes)
    moved = {origin for origin, _ in linked.values() if not specs.keys() & {child(split(origin)[0], DATA)}}
    others = [
        relative(path, place)
        for path in _find_companions(session, specs, SourceDamage())
        if is_within(path, place) and path not in moved
    ]
    kept = chosen | dict.fromkeys(path for path in others if path in arrays and not choice.excludes(path))
    found = []
    for path, (origin, node) in nodes.items():
        if node.is_array and path in kept:
            found.append(SourceNode(path, origin, node, is_companion=path not in chosen))
        elif node.is_group and (not path or any(is_within(other, path) for other in kept)):
            used = {dim for other in kept if is_within(other, path) for dim in arrays[other].dims}
            dims = tuple(dim for dim in node.dims if dim.name in used)
            found.append(SourceNode(path, origin, node.evolve(dims=dims), whole=False))
        elif path in linked and not choice.excludes(path):
            found.append(SourceNode(path, *linked[path], is_companion=True))
        elif node.is_link and not choice.variables and not choice.where and not choice.excludes(path):
            found.append(SourceNode(path, origin, node))
    above = [] if choice.alone else _find_companions_above(session, place, found, SourceDamage())
    return found + [part for part in above if not choice.excludes(part.path)]


def _find_linked_companions(
    session: OpenDataset, place: str, chosen: Iterable[str], nodes: Mapping[str, tuple[str, Node]]
) -> dict[str, tuple[str, ArraySpec]]:
    """Return by path the links beside chosen data of series of NWB to what tells their seconds, and the arrays of this
    dataset that stand in their place where not all series are converted."""
    found: dict[str, tuple[str, ArraySpec]] = {}
    for path in chosen:
        if is_series_data(session, join(place, path)):
            for link in (child(split(path)[0], name) for name in COMPANIONS):
                if link in nodes and nodes[link][1].is_link:
                    with suppress(HyperslabError):  # one that leads nowhere, or out of the dataset, is left out
                        origin, spec = follow_within(session, nodes[link][0])
                        found |= {link: (origin, spec)} if spec.is_array else {}
    return found


def walk_nodes(session: OpenDataset, path: str, damage: SourceDamage | None = None) -> Iterator[tuple[str, Node]]:
    """Yield the path and spec of every node at and below ``path``, parents first.

    ``damage`` collects the errors of those below that cannot be read. Unsupported for cells that cannot be decoded.
    """
    waiting = [path]
    while waiting:
        place = waiting.pop()
        try:
            node = session.reader.node(place)
            names = list(session.reader.children(place)) if node.is_group else []
        except (*DAMAGE, Unsupported) as error:
            if damage is None or not isinstance(error, damage.kinds) or place == path:
                raise
            damage.errors[place] = error.locate(url=session.url, node=place)
            continue
        if node.is_array and node.problem is not None:
            unreadable = Unsupported(f"the cells cannot be decoded: {node.problem}", url=session.url, node=place)
            if damage is None or not isinstance(unreadable, damage.kinds):
                raise unreadable
            damage.errors[place] = unreadable
            continue
        yield place, node
        waiting += [child(place, name) for name in reversed(names)]


def _find_only_array(session: OpenDataset, nodes: Mapping[str, Node]) -> list[SourceNode]:
    """Return the only array that is no coordinate of another, with all arrays that lie beside it."""
    arrays = {path: node for path, node in nodes.items() if node.is_array}
    folders = dict.fromkeys(split(path)[0] for path in arrays)
    beside = {folder: {split(p)[1]: spec for p, spec in arrays.items() if split(p)[0] == folder} for folder in folders}
    mains = [join(folder, name) for folder, specs in beside.items() for name in main_arrays(specs)]
    if not arrays:
        raise Invalid("there is no array to convert", url=session.url)
    if len(mains) != 1:
        names = ", ".join(mains or arrays)
        message = f"the target holds one array with its coordinates, here are {len(mains or arrays)}: {names}"
        raise Invalid(message, url=session.url, remedy="choose one by path= (--path)")
    folder = split(mains[0])[0]
    others = {join(folder, name): spec for name, spec in beside[folder].items()}
    # links, and groups with attributes, have no place in the target, and are told as losses
    lost = [
        SourceNode(path, path, node)
        for path, node in nodes.items()
        if path not in ("", folder) and (node.is_link or (node.is_group and node.attrs))
    ]
    parts = _gather_in_group(session, mains[0], arrays[mains[0]], others)
    return [replace(part, is_companion=False) for part in parts] + lost


def _gather_in_group(
    session: OpenDataset, path: str, spec: ArraySpec, others: Mapping[str, ArraySpec]
) -> list[SourceNode]:
    """Return a group of the attributes and unlimited dimensions that apply to an array, the array, then the others."""
    folder, name = split(path)
    used = {dim for each in (spec, *others.values()) for dim in each.dims}
    dims: dict[str, Dimension] = {}
    for above in [*outward(folder)][::-1]:  # what the nearest group declares is put last, and wins
        group = session.reader.node(above)
        if group.is_group:
            dims |= {dim.name: dim for dim in group.dims if dim.name in used}
    group = GroupSpec(attrs=global_attributes(session, folder), dims=tuple(dims.values()))
    parts = {name: SourceNode(name or DEFAULT, path, spec)}
    for other, found in others.items():
        if other != path:
            parts.setdefault(split(other)[1], SourceNode(split(other)[1], other, found, is_companion=True))
    return [SourceNode("", folder, group, whole=False), *parts.values()]


def _find_companions(
    session: OpenDataset, specs: Mapping[str, ArraySpec], damage: SourceDamage | None = None
) -> dict[str, ArraySpec]:
    """Return by path the arrays without which some arrays lose their meaning, as :func:`.companions_of` has them."""
    arrays = [Array(session, path, spec) for path, spec in specs.items()]
    return {other.path: other.spec for other in companions_of(arrays, None if damage is None else damage.errors)}


def _only_coordinates(path: str, spec: ArraySpec, others: Mapping[str, ArraySpec]) -> dict[str, ArraySpec]:
    """Return the companions that a dataset of one array has a place for: its coordinates and their bounds."""
    named = {split(other)[1]: found for other, found in others.items()}
    mains = main_arrays({**named, split(path)[1]: spec})
    return {other: found for other, found in others.items() if split(other)[1] not in mains}


def _check_dimensions(wanted: Iterable[str], known: Iterable[str | None]) -> None:
    """Raise Invalid for a dimension that no array has."""
    names = sorted({name for name in known if name is not None})
    for dim in wanted:
        if dim not in names:
            raise Invalid(f"no dimension {dim!r}", remedy=meant(dim, names))


def select_nodes(
    session: OpenDataset, parts: Sequence[SourceNode], select: Select, encoding: Encoding
) -> list[SourceNode]:
    """Return the nodes with the cells that are selected of each array; warn of a selection that leaves none.

    Invalid for a dimension, named by ``select`` or ``encoding``, that no array has.
    """
    known = {dim for part in parts if part.node.is_array for dim in part.node.dims}
    places = (place for part in parts if part.node.is_array for place in axis_names(part.node.dims))
    with session.add_place_to_errors():
        _check_dimensions(encoding.dims, {*known, *places})
        arrays = [Array(session, part.origin, part.node) for part in parts if part.node.is_array]
        selector = Selector(arrays, select)
        selector.check_tolerance()
        picked = iter([selector.pick(array) for array in arrays])
    items = _name_points([replace(part, picked=next(picked)) if part.node.is_array else part for part in parts])
    items = _describe_frames(_move_starts(session, items))
    _warn_of_meshes(items)
    for note in selector.notes:
        _log.warning("%s", note)
    others = _warn_of_empty_series(session, items)
    for dim in sorted(filter(None, known)):  # a word of CF in the selection may mean any
        before, left = 0, 0  # the largest length of the dimension in an array, and that which is selected
        for item in others:
            if item.node.is_array and item.picked is not None and dim in item.node.dims:
                axis, kept = item.node.dims.index(dim), item.picked.kept
                before = max(before, item.node.shape[axis])
                left = max(left, item.picked.shape[kept.index(axis)] if axis in kept else 1)
        if before and not left:
            by_label = {dim} - select.isel.keys()
            courses = (empty_ranges(array, selector.key(array), by_label).get(dim) for array in arrays)
            course = next((f" ({text})" for text in courses if text), "")
            _log.warning("what is selected along %s is an empty range%s: no cell of it is converted", dim, course)
    return items


def _warn_of_empty_series(session: OpenDataset, items: Sequence[SourceNode]) -> list[SourceNode]:
    """Warn of series of NWB of which no sample is selected, each by its path and its seconds; return the nodes that are
    no part of one of them."""
    empty: dict[str, str] = {}
    for item in items:
        node, picked = item.node, item.picked
        if not node.is_array or picked is None or not node.shape or 0 in node.shape[:1] or 0 not in picked.kept:
            continue
        if picked.shape[0] == 0 and is_series_data(session, item.origin):
            empty[item.origin] = f"/{item.path}"
            with suppress(HyperslabError):  # of its timestamps, which are an error where they are copied
                if (times := find_sample_times(session, item.origin, node)) is not None:
                    empty[item.origin] += f" ({times.first:.9g} to {times.last:.9g} s)"
    if empty:
        _log.warning("the selection leaves no sample of %s", ", ".join(empty.values()))
    folders = {split(path)[0] for path in empty}
    return [item for item in items if item.node.is_group or split(item.origin)[0] not in folders]


def _move_starts(session: OpenDataset, items: list[SourceNode]) -> list[SourceNode]:
    """Return the nodes where the starting_time and the rate of a series of NWB are those of the samples that are
    chosen; warn where no rate says them."""
    chosen: dict[str, set[tuple[int, int] | None]] = {}
    rates: dict[str, float] = {}
    for item in items:
        if not item.node.is_array or item.picked is None or not item.picked.axes:
            continue
        with suppress(HyperslabError):  # of a link, which is an error where its target is copied
            clock = find_clock(session, item.origin, item.node)
            if clock is None or clock[2].shape or clock[0] is not session:
                continue
            axis = item.picked.axes[0]
            steps = (axis.start, axis.step) if isinstance(axis, Range) and axis.step > 0 else None
            chosen.setdefault(clock[1], set()).add(steps if clock[2].numpy_dtype.kind == "f" else None)
            rates[clock[1]] = sample_rate(clock[2])
    moved = []
    for item in items:
        samples = chosen.get(item.origin, {(0, 1)})
        first, stride = next(iter(samples)) or (0, 1)
        if len(samples) > 1 or None in samples:
            _log.warning("/%s and its rate stay as they are, and do not tell when the chosen samples are", item.path)
        elif item.node.is_array and (first, stride) != (0, 1):
            added = np.array(first / rates[item.origin])
            rate = np.asarray(item.node.attrs["rate"])
            attrs = {**item.node.attrs, "rate": (rate / stride).astype(np.result_type(rate, "f4"))[()]}
            item = replace(item, node=item.node.evolve(attrs=attrs), picked=ShiftedSelection((), (), (), added))
        moved.append(item)
    return moved


def _describe_frames(items: list[SourceNode]) -> list[SourceNode]:
    """Return the nodes where data frames are described with the rows and columns that are chosen; without a description
    where they are no frame any more."""
    arrays = {item.origin: (item.picked, item.node.shape) for item in items if item.node.is_array}
    found = []
    for item in items:
        if item.node.is_group and FRAME in item.node.attrs:
            with suppress(FormatError, *UNREADABLE):  # what is damaged stays as it is
                known = {split(path)[1] for path in arrays if split(path)[0] == item.origin}
                description = choose_columns(read_description(item.node.attrs) or {}, known)
                names = [] if description is None else [part["variable"] for part in row_parts(description)]
                chosen, shape = next((arrays[child(item.origin, name)] for name in names), (None, ()))
                if description is not None and chosen is not None and not chosen.is_all(shape):
                    description = choose_rows(description, chosen.axes[0]) if 0 in chosen.kept else None
                attrs = {name: value for name, value in item.node.attrs.items() if name != FRAME}
                attrs |= {} if description is None else {FRAME: json.dumps(description)}
                item = replace(item, node=item.node.evolve(attrs=attrs))
        found.append(item)
    return found


def _warn_of_meshes(items: Sequence[SourceNode]) -> None:
    """Warn of numbers of nodes, edges or faces of a mesh of which a part is left (UGRID 1.0): they stay as they are."""
    arrays = {split(item.path)[1]: item for item in items if item.node.is_array and item.picked is not None}
    for topology in arrays.values():
        node = topology.node
        if not node.is_array or node.attrs.get("cf_role") != "mesh_topology":
            continue
        attrs = node.attrs
        elements = {"node": str(attrs.get("node_coordinates", "")).split()[:1]}
        numbers: list[tuple[str, SourceNode]] = []
        for name, value in attrs.items():
            kind, _, target = name.removesuffix("_connectivity").partition("_")
            if name.endswith("_connectivity") and str(value) in arrays:
                elements.setdefault(kind, []).append(str(value))
                numbers.append((target, arrays[str(value)]))
        found = [
            (item, arrays[name]) for target, item in numbers for name in elements.get(target, ()) if name in arrays
        ]
        for path in dict.fromkeys(item.path for item, other in found if _is_cut(other)):
            _log.warning("/%s has numbers as of the whole mesh, of which a part is chosen", path)


def _is_cut(item: SourceNode) -> bool:
    """Return True where not all positions of the first dimension of an array are selected."""
    if item.picked is None or not item.node.is_array:
        return False
    return 0 not in item.picked.kept or item.picked.shape[:1] != item.node.shape[:1]


def _name_points(items: list[SourceNode]) -> list[SourceNode]:
    """Return the nodes where arrays of which one point along a dimension is left name its coordinate, a scalar then, in
    ``coordinates`` (CF 1.11, 5.7); coordinates themselves and their bounds do not."""
    arrays = {item.path: item.node for item in items if item.node.is_array}
    no_data = {
        name
        for spec in arrays.values()
        for link in ("coordinates", "bounds", "climatology")
        for name in names_in_attribute(link, spec.attrs.get(link), spec.attrs)
    }
    named = []
    for item in items:
        if item.node.is_array and item.picked is not None and len(item.picked.kept) < len(item.node.shape):
            folder, name = split(item.path)
            gone = [dim for axis, dim in enumerate(item.node.dims) if dim is not None and axis not in item.picked.kept]
            sizes = dict(zip(item.node.dims, item.node.shape, strict=True))
            points = [dim for dim in gone if dim != name and has_coordinate(arrays, folder, dim, sizes[dim])]
            if points and name not in no_data:
                attrs = name_coordinates(item.node.attrs, points)
                item = replace(item, node=item.node.evolve(attrs=attrs))
        named.append(item)
    return named


def has_coordinate(arrays: Mapping[str, ArraySpec], folder: str, dim: str, size: int) -> bool:
    """Return True if the nearest array of this name, as seen from a group, has the labels of the dimension."""
    found = next((arrays[path] for group in outward(folder) if (path := child(group, dim)) in arrays), None)
    return found is not None and found.dims == (dim,) and found.shape == (size,)


def add_missing_markers(session: OpenDataset, items: list[SourceNode], format: Format) -> list[SourceNode]:
    """Return the nodes with ``_FillValue`` where the source marks missing cells by the fill value alone.

    A target of the same format keeps the marker there too, so nothing is added.
    """
    if session.format == format:
        return items
    marked = []
    for item in items:
        spec = item.node
        if spec.is_array:
            attrs, cells = with_missing(session, spec), target_cell_type(spec, format.features)
            if attrs is not spec.attrs and isinstance(cells, np.dtype) and cells.kind in "iufc":
                marker = as_type(spec.fill_cell(), cells)[()]
                item = replace(item, node=spec.evolve(attrs={**attrs, FILL_VALUE: marker}))
        marked.append(item)
    return marked


# -- damage ------------------------------------------------------------------------------------------------------------


_REMEDY = "skip_damaged=True (--skip-damaged) copies the rest"
_SETTINGS = Settings(cache_bytes=0)  # every chunk is read once
_NOTHING = "without what is damaged there is no array to copy"


@dataclass
class SourceDamage:
    """The first error of each node of a source that cannot be read, by its path.

    ``kinds``: of the errors that are collected; any other is raised at once, as of arrays of unknown codecs.
    """

    errors: dict[str, HyperslabError] = field(default_factory=dict)
    kinds: tuple[type[HyperslabError], ...] = DAMAGE

    def __bool__(self) -> bool:
        return bool(self.errors)

    def covers(self, path: str) -> bool:
        """Return True if a node, or a group that it is in, cannot be read."""
        return any(f"{path}/".startswith(f"{top}/") for top in self.errors)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return one problem per damaged node, sorted by path."""
        return tuple(
            Problem(path, "damaged", error.said if error.key is None else f"{error.said} [key={error.key}]")
            for path, error in sorted(self.errors.items())
        )

    def raise_error(self, *, rest: bool = True) -> NoReturn:
        """Raise the one error, or a FormatError that lists them all.

        ``rest``: whether something could be copied without the damaged nodes; the remedy says so.
        """
        found = list(self.errors.items())
        if len(found) == 1:
            path, error = found[0]
            more = _REMEDY if rest else _NOTHING
            error.remedy = f"{error.remedy}; {more}" if error.remedy else more
            raise error.locate(node=path) from error.__cause__
        shown = "\n".join(f"  {problem}" for problem in self.problems)
        message = f"{len(found)} nodes of the source are damaged:\n{shown}\n"
        remedy = f"repair it, or {_REMEDY}" if rest else f"repair it; {_NOTHING}"
        raise FormatError(message, problems=self.problems, url=found[0][1].url, remedy=remedy) from found[0][1]


def drop_damaged(source: OpenDataset, items: Sequence[SourceNode], damage: SourceDamage) -> list[SourceNode]:
    """Return the nodes of which every selected cell can be read, in order, and log the others.

    Their errors are added to ``damage``; raised where no array is left, or not the first one of a target that holds
    one.
    """
    scan_damage(source, items, damage)
    if damage and not _can_copy_rest(items, damage):
        damage.raise_error(rest=False)
    for problem in damage.problems:
        _log.warning("left out, for it is damaged: %s", problem)
    return [item for item in items if not damage.covers(item.origin)]


def _can_copy_rest(items: Sequence[SourceNode], damage: SourceDamage) -> bool:
    """Return True if something can be copied without what is damaged."""
    arrays = [item for item in items if item.node.is_array]
    if all(damage.covers(item.origin) for item in arrays):
        return False
    one = len(items) > 1 and not items[0].whole and items[1].node.is_array
    return not (one and damage.covers(arrays[0].origin))


def scan_damage(source: OpenDataset, items: Sequence[SourceNode], damage: SourceDamage) -> None:
    """Read every selected cell of every array, and add the first error of each array that has one to ``damage``."""
    for item in items:
        spec, picked = item.node, item.picked
        if not spec.is_array or picked is None or 0 in picked.shape or damage.covers(item.origin):
            continue
        try:
            chunks = source.reader.chunks(item.origin)
            region = picked.region(tuple(slice(0, length) for length in picked.shape))
            coords = (piece.coords for piece in make_plan(region, chunks.grid))
            each_batch(partial(read_through, chunks, spec, settings=_SETTINGS), coords, _SETTINGS.threads)
        except DAMAGE as error:
            damage.errors[item.origin] = error.locate(url=source.url, node=item.origin)


@contextmanager
def report_all_damage(source: OpenDataset, items: Sequence[SourceNode]) -> Iterator[None]:
    """Scan the whole source when the block fails by damage, and raise an error that lists all of it."""
    try:
        yield
    except DAMAGE as error:
        _log.warning("stopped by damage; the whole source is read to list all of it: %s", error)
        damage = SourceDamage()
        scan_damage(source, items, damage)
        if damage:
            damage.raise_error(rest=_can_copy_rest(items, damage))
        raise
