"""Everything that a source holds, in order, with the selection's meaning for each array; and what it is to become."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.array.missing import FILL, with_missing
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.losses import Features, Loss, Node, held_cells, hidden_losses, left_out, losses_of
from hyperslab.conversion.parts import SourcePart
from hyperslab.conversion.selecting import Picked, Select, check_dimensions, pick
from hyperslab.conversion.translate import Cutting, new_array, new_group
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Feature, Format, Reader, omitted_at
from hyperslab.model.cells import as_type
from hyperslab.model.paths import child, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec

_log = logging.getLogger("hyperslab")


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A node of the source at ``origin``, and its ``path`` in the target; ``picked`` tells an array's chosen cells,
    ``whole`` whether all that is in it is converted."""

    path: str
    origin: str
    node: Node
    picked: Picked | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A node of the target to be. ``settled``: the spec is in the target's own words already."""

    item: Item
    node: Node
    settled: bool = True


def walk(session: OpenDataset, parts: Sequence[SourcePart], select: Select, cutting: Cutting) -> list[Item]:
    """Every part with the cells that are chosen of it; a selection that leaves none is warned of."""
    known = {dim for part in parts if isinstance(part.node, ArraySpec) for dim in part.node.dims}
    check_dimensions((*select.dims, *cutting.dims), known)
    items = []
    for part in parts:
        picked = pick(session, part.origin, part.node, select) if isinstance(part.node, ArraySpec) else None
        items.append(Item(part.path, part.origin, part.node, picked, part.whole))
    for dim in select.dims:
        lengths = set(_lengths(items, dim))
        if any(before for before, _ in lengths) and not any(left for _, left in lengths):
            _log.warning("what is selected along %s is an empty range: no cell of it is converted", dim)
    return items


def with_markers(session: OpenDataset, items: list[Item], format: Format) -> list[Item]:
    """Return the items with ``_FillValue`` where the source keeps in the fill value alone what means missing.

    The target of the same format keeps it there too.
    """
    if session.format == format:
        return items
    return [replace(item, node=_with_marker(session, item.node, format.features)) for item in items]


def _with_marker(session: OpenDataset, spec: Node, features: Features) -> Node:
    if not isinstance(spec, ArraySpec):
        return spec
    attrs, cells = with_missing(session, spec), held_cells(spec, features)
    if attrs is spec.attrs or not isinstance(cells, np.dtype) or cells.kind not in "iufc":
        return spec
    marker = as_type(spec.fill_cell(), cells)[()]
    return spec.evolve(attrs={name: marker if name == FILL else value for name, value in attrs.items()})


def _lengths(items: list[Item], dim: str) -> Iterator[tuple[int, int]]:
    """The length of a dimension in each array, and what is picked of it."""
    for item in items:
        if isinstance(item.node, ArraySpec) and item.picked is not None and dim in item.node.dims:
            axis, kept = item.node.dims.index(dim), item.picked.kept
            yield item.node.shape[axis], item.picked.shape[kept.index(axis)] if axis in kept else 1


def find_losses(items: list[Item], features: Features, *, as_it_is: bool = False) -> tuple[Loss, ...]:
    """All that the target cannot hold. ``as_it_is``: documents stay those of the same format."""
    losses = [loss for item in items for loss in losses_of(item.path, item.node, features)]
    if Feature.LABELS not in features:
        losses += _label_losses(items)
    if not as_it_is:
        losses += [loss for item in items for loss in hidden_losses(item.path, item.node)]
    return tuple(losses)


def _label_losses(items: list[Item]) -> Iterator[Loss]:
    """Labels that arrays have themselves, and that no coordinate array among the items holds too."""
    shapes = {item.path: (item.node.dims, item.node.shape) for item in items if isinstance(item.node, ArraySpec)}
    for item in items:
        if not isinstance(item.node, ArraySpec):
            continue
        sizes = dict(zip(item.node.dims, item.node.shape, strict=True))
        groups = list(outward(split(item.path)[0]))
        held = {
            dim
            for dim in item.node.indexes
            if any(shapes.get(child(g, dim)) == ((dim,), (sizes[dim],)) for g in groups)
        }
        if lost := [dim for dim in item.node.indexes if dim not in held]:
            names = ", ".join(map(repr, lost))
            message = f"the labels of {names} are left out (to_xarray() makes coordinates of them)"
            yield Loss(item.path, Feature.LABELS, message)


def overlooked(reader: Reader, items: list[Item]) -> tuple[Loss, ...]:
    """What the source's place holds and its format does not show."""
    found = (problem for item in items if item.whole for problem in omitted_at(reader, item.origin))
    return tuple(Loss(problem.node, problem.kind, problem.message) for problem in found)


def plan_nodes(items: list[Item], cutting: Cutting, features: Features, *, same_format: bool) -> Iterator[Planned]:
    """What each node becomes; those that the target has no place for are passed over, with all below them."""
    sizes, longest = _selected_sizes(items), _longest(items)
    gone: list[str] = []
    for item in items:
        if left_out(item.path, item.node, features) or any(f"{item.path}/".startswith(f"{top}/") for top in gone):
            gone.append(item.path)
            continue
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            try:
                cut = _cutting_of(item.path, item.node, cutting)
                spec, settled = new_array(item.node, item.picked, cut, features, same_format=same_format)
            except HyperslabError as error:
                raise error.locate(node=item.path) from error.__cause__
            yield Planned(item, spec, settled)
        elif isinstance(item.node, GroupSpec):
            node = _with_lengths(item.node, _scope(longest, item.path))
            yield Planned(item, new_group(node, _scope(sizes, item.path), features, same_format=same_format))
        else:
            yield Planned(item, item.node)


def _cutting_of(path: str, spec: ArraySpec, cutting: Cutting) -> Cutting:
    """Return how an array is cut: chunk lengths by dimension are meant for cells, so coordinates stay whole."""
    if spec.dims != (split(path)[1],) or not isinstance(cutting.chunks, Mapping):
        return cutting
    return replace(cutting, chunks="auto", shards=None)


def _selected_sizes(items: list[Item]) -> dict[tuple[str, str], int | None]:
    """Return the lengths left where cells are selected, by group and dimension; None for a dimension that is gone."""
    sizes: dict[tuple[str, str], int | None] = {}
    for item in items:
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            folder = split(item.path)[0]
            lengths = dict(zip(item.picked.kept, item.picked.shape, strict=True))
            for axis, dim in enumerate(item.node.dims):
                if dim is not None and lengths.get(axis) != item.node.shape[axis]:
                    sizes[folder, dim] = lengths.get(axis)
    return sizes


def _longest(items: list[Item]) -> dict[tuple[str, str], int]:
    """Return by group and dimension name how long the longest array of the group is."""
    longest: dict[tuple[str, str], int] = {}
    for item in items:
        if isinstance(item.node, ArraySpec):
            folder = split(item.path)[0]
            for dim, size in zip(item.node.dims, item.node.shape, strict=True):
                if dim is not None:
                    longest[folder, dim] = max(size, longest.get((folder, dim), 0))
    return longest


def _with_lengths(spec: GroupSpec, longest: Mapping[str, int | None]) -> GroupSpec:
    """Return a group whose unlimited dimensions are as long as its arrays: Zarr's documents do not say the length."""
    return spec.evolve(
        dims=tuple(
            replace(dim, size=max(dim.size, longest.get(dim.name) or 0)) if dim.unlimited else dim for dim in spec.dims
        )
    )


def _scope(sizes: Mapping[tuple[str, str], int | None], group: str) -> dict[str, int | None]:
    """The sizes of dimensions as arrays in or below a group use them; arrays nearer to the group count."""
    below = [entry for entry in sizes if not group or entry[0] == group or entry[0].startswith(f"{group}/")]
    below.sort(key=lambda entry: -len(entry[0]))
    return {dim: sizes[folder, dim] for folder, dim in below}
