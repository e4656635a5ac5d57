"""Which nodes of a source are converted: all, those below a group, or one array with its coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.conversion.damage import DAMAGE, SourceDamage
from hyperslab.conversion.losses import Features, Node
from hyperslab.errors import Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.formats.single_array.document import DEFAULT
from hyperslab.formats.single_array.draft import main_arrays, names_in
from hyperslab.group.links import follow_within
from hyperslab.model.paths import child, join, normalize, outward, split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec


@dataclass(frozen=True, slots=True, eq=False)
class SourcePart:
    """A node of the source at ``origin``, and the ``path`` that the target gives it. ``whole``: with all that is in
    it, though it be a group."""

    path: str
    origin: str
    node: Node
    whole: bool = True


def parts_of(
    session: OpenDataset, path: str, features: Features, damage: SourceDamage | None = None
) -> list[SourcePart]:
    """What is converted, parents first. ``path``: a group, or an array with its coordinates; empty for everything.

    A target without groups takes one array with its coordinates: Invalid lists the arrays where there are several.
    ``damage``: where nodes are noted that cannot be read; without it they are errors.
    """
    if path:
        place, spec = follow_within(session, normalize(path))
        if isinstance(spec, ArraySpec):
            return one_array(session, place, spec, damage)
        nodes = {name[len(place) :].strip("/"): (name, node) for name, node in below(session, place, damage)}
    else:
        nodes = {name: (name, node) for name, node in below(session, "", damage)}
    if features & {Feature.GROUPS, Feature.ARRAYS}:
        return [SourcePart(name, origin, node) for name, (origin, node) in nodes.items()]
    return _the_one(session, dict(nodes.values()))


def below(session: OpenDataset, path: str, damage: SourceDamage | None = None) -> Iterator[tuple[str, Node]]:
    """Every node at and below ``path``; Unsupported for cells that cannot be decoded. ``damage`` notes those below that
    cannot be read."""
    waiting = [path]
    while waiting:
        place = waiting.pop()
        try:
            node = session.reader.node(place)
            names = list(session.reader.children(place)) if isinstance(node, GroupSpec) else []
        except DAMAGE as error:
            if damage is None or place == path:
                raise
            damage.errors[place] = error.locate(url=session.url, node=place)
            continue
        if isinstance(node, ArraySpec) and node.problem is not None:
            raise Unsupported(f"the cells cannot be decoded: {node.problem}", url=session.url, node=place)
        yield place, node
        waiting += [child(place, name) for name in reversed(names)]


def _the_one(session: OpenDataset, nodes: Mapping[str, Node]) -> list[SourcePart]:
    """The only array that is no coordinate of another, with all that lie beside it."""
    arrays = {path: node for path, node in nodes.items() if isinstance(node, ArraySpec)}
    folders = dict.fromkeys(split(path)[0] for path in arrays)
    beside = {folder: {split(p)[1]: spec for p, spec in arrays.items() if split(p)[0] == folder} for folder in folders}
    mains = [join(folder, name) for folder, specs in beside.items() for name in main_arrays(specs)]
    if not arrays:
        raise Invalid("there is no array to convert", url=session.url)
    if len(mains) != 1:
        listed = ", ".join(mains or arrays)
        message = f"the target holds one array with its coordinates, here are {len(mains or arrays)}: {listed}"
        raise Invalid(message, url=session.url, remedy="choose one by path= (--path)")
    folder = split(mains[0])[0]
    others = {join(folder, name): spec for name, spec in beside[folder].items()}
    said = [SourcePart(path, path, node) for path, node in nodes.items() if path not in ("", folder) and _says(node)]
    return _beside(session, mains[0], arrays[mains[0]], others) + said


def _says(node: Node) -> bool:
    """Return whether something is lost without a node that is no array."""
    return isinstance(node, Link) or (isinstance(node, GroupSpec) and bool(node.attrs))


def one_array(session: OpenDataset, path: str, spec: ArraySpec, damage: SourceDamage | None = None) -> list[SourcePart]:
    """An array and its coordinates, which may stand in groups above it, as the arrays of one group."""
    return _beside(session, path, spec, coordinates_of(session, path, spec, damage))


def _beside(session: OpenDataset, path: str, spec: ArraySpec, others: Mapping[str, ArraySpec]) -> list[SourcePart]:
    """The array first, then the others, in a group of the attributes and unlimited dimensions that count for it."""
    folder, name = split(path)
    group = session.reader.node(folder)
    attrs = group.attrs if isinstance(group, GroupSpec) else {}
    declared = {dim.name: dim for above in [*outward(folder)][::-1] for dim in _dims(session, above)}
    kept = tuple(dim for name, dim in declared.items() if name in spec.dims)
    parts = [
        SourcePart("", folder, GroupSpec(attrs=attrs, dims=kept), whole=False),
        SourcePart(name or DEFAULT, path, spec),
    ]
    return parts + [SourcePart(split(other)[1], other, found) for other, found in others.items() if other != path]


def _dims(session: OpenDataset, group: str) -> tuple[Any, ...]:
    node = session.reader.node(group)
    return node.dims if isinstance(node, GroupSpec) else ()


def coordinates_of(
    session: OpenDataset, path: str, spec: ArraySpec, damage: SourceDamage | None = None
) -> dict[str, ArraySpec]:
    """By path: the arrays called as its dimensions, and those that ``coordinates`` names, with their bounds."""
    found: dict[str, ArraySpec] = {}
    wanted = [dim for dim in spec.dims if dim is not None] + names_in(spec, "coordinates", "grid_mapping")
    for name in wanted:
        place, other = _near(session, split(path)[0], name, damage)
        if other is None or place == path or (len(other.shape) > 1 and name in spec.dims):
            continue
        found[place] = other
        for bounds in names_in(other, "bounds"):
            place, other = _near(session, split(place)[0], bounds, damage)
            if other is not None and place != path:
                found[place] = other
    return found


def _near(session: OpenDataset, folder: str, name: str, damage: SourceDamage | None) -> tuple[str, ArraySpec | None]:
    """The array of this name in the nearest group upwards."""
    for group in outward(folder):
        place = child(group, name)
        try:
            node = session.reader.node(place)
        except NodeNotFound:
            continue
        except DAMAGE as error:
            if damage is None:
                raise
            damage.errors[place] = error.locate(url=session.url, node=place)
            break
        if isinstance(node, ArraySpec):
            return place, node
    return "", None
