"""The dimensions that a group knows: declared ones, and those of its arrays."""

from __future__ import annotations

from hyperslab.array.session import Session
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import split
from hyperslab.model.spec import GroupSpec


def dimensions_of(session: Session, path: str) -> dict[str, Dimension]:
    """Declared dimensions first, in order, then those of the arrays; a size is the longest among its arrays.

    A dimension that is declared further out is as unlimited as it is there: the nearest group outward counts.
    """
    found = _declared(session, path)
    sizes: dict[str, int] = {}
    for _, array in session.arrays(path):
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim:
                sizes[dim] = max(size, sizes.get(dim, 0))
    outer = _outward(session, path) if sizes.keys() - found.keys() else {}
    for dim, size in sizes.items():
        known = found.get(dim, outer.get(dim))
        found[dim] = Dimension(dim, size, known is not None and known.unlimited)
    return found


def _declared(session: Session, path: str) -> dict[str, Dimension]:
    spec = session.reader.node(path)
    return {dim.name: dim for dim in spec.dims} if isinstance(spec, GroupSpec) else {}


def _outward(session: Session, path: str) -> dict[str, Dimension]:
    """What the groups around this one declare, the nearest of each name."""
    found: dict[str, Dimension] = {}
    while path:
        path, _ = split(path)
        found = _declared(session, path) | found
    return found
