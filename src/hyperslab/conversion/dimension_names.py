"""Names of dimensions for a target that declares them, where arrays of the source mean several lengths by one name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hyperslab.conversion.walking import Planned
from hyperslab.formats.base import Format, SharesDimensions
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec

Lengths = dict[tuple[str, str], int]
"""By group and name, how long the dimensions are that were declared so far."""


def disambiguate(planned: Sequence[Planned], format: Format) -> Iterator[Planned]:
    """The nodes as they are to be put: of one name the first length keeps it, others are called ``<name>@<length>``
    (which the format shows by the plain name)."""
    if not isinstance(format, SharesDimensions):
        yield from planned
        return
    known = {(p.item.path, dim.name): dim.size for p in planned if isinstance(p.node, GroupSpec) for dim in p.node.dims}
    flat = format.dimension_scope == "dataset"
    if flat:
        known = {("", name): size for (_, name), size in known.items()}
    for plan in planned:
        if isinstance(plan.node, ArraySpec):
            group = "" if flat else split(plan.item.path)[0]
            axes = zip(plan.node.dims, plan.node.shape, strict=True)
            dims = tuple(name and _declared(known, group, name, size) for name, size in axes)
            plan = plan if dims == plan.node.dims else replace(plan, node=plan.node.evolve(dims=dims))
        yield plan


def _declared(known: Lengths, group: str, name: str, size: int) -> str:
    """What the dimension is called in this group, where it is declared unless it can be seen from there. None hides
    another: netCDF4-python would take the one for the other."""
    for above in outward(group):
        length = known.get((above, name))
        if length is not None:
            return name if length == size else _declared(known, group, add_suffix(name, size), size)
    known[group, name] = size
    return name
