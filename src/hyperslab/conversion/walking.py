"""Everything that a source holds, in order, with the selection's meaning for each array; and what it is to become."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyperslab.array.session import Session
from hyperslab.conversion.losses import Features, Loss, Node, hidden_losses, left_out, losses_of
from hyperslab.conversion.parts import Part
from hyperslab.conversion.selecting import Picked, Select, check_dimensions, pick
from hyperslab.conversion.translate import Cutting, new_array, new_group
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Feature, Omits, Reader
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


def walk(session: Session, parts: Sequence[Part], select: Select, cutting: Cutting) -> list[Item]:
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
    if not isinstance(reader, Omits):
        return ()
    found = (problem for item in items if item.whole for problem in reader.omitted(item.origin))
    return tuple(Loss(problem.node, problem.kind, problem.message) for problem in found)


def plan_nodes(items: list[Item], cutting: Cutting, features: Features, *, same_format: bool) -> Iterator[Planned]:
    """What each node becomes; those that the target has no place for are passed over, with all below them."""
    sizes = _selected_sizes(items)
    gone: list[str] = []
    for item in items:
        if left_out(item.path, item.node, features) or any(f"{item.path}/".startswith(f"{top}/") for top in gone):
            gone.append(item.path)
            continue
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            try:
                spec, settled = new_array(item.node, item.picked, cutting, features, same_format=same_format)
            except HyperslabError as error:
                raise error.locate(node=item.path) from error.__cause__
            yield Planned(item, spec, settled)
        elif isinstance(item.node, GroupSpec):
            yield Planned(item, new_group(item.node, _scope(sizes, item.path), features, same_format=same_format))
        else:
            yield Planned(item, item.node)


def _selected_sizes(items: list[Item]) -> dict[tuple[str, str], int | None]:
    """By group and dimension name: the length that is left, None when the dimension is gone."""
    sizes: dict[tuple[str, str], int | None] = {}
    for item in items:
        if isinstance(item.node, ArraySpec) and item.picked is not None:
            folder = split(item.path)[0]
            lengths = dict(zip(item.picked.kept, item.picked.shape, strict=True))
            for axis, dim in enumerate(item.node.dims):
                if dim is not None:
                    sizes[folder, dim] = lengths.get(axis)
    return sizes


def _scope(sizes: Mapping[tuple[str, str], int | None], group: str) -> dict[str, int | None]:
    """The sizes of dimensions as arrays in or below a group use them; arrays nearer to the group count."""
    below = [entry for entry in sizes if not group or entry[0] == group or entry[0].startswith(f"{group}/")]
    below.sort(key=lambda entry: -len(entry[0]))
    return {dim: sizes[folder, dim] for folder, dim in below}
