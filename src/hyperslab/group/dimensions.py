"""The dimensions that a group knows: declared ones, and those of its arrays."""

from __future__ import annotations

from hyperslab.array.session import Session
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import GroupSpec


def dimensions_of(session: Session, path: str) -> dict[str, Dimension]:
    """Declared dimensions first, in order, then those of the arrays; a size is the longest among its arrays."""
    spec = session.reader.node(path)
    found = {dim.name: dim for dim in spec.dims} if isinstance(spec, GroupSpec) else {}
    sizes: dict[str, int] = {}
    for _, array in session.arrays(path):
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim:
                sizes[dim] = max(size, sizes.get(dim, 0))
    for dim, size in sizes.items():
        found[dim] = Dimension(dim, size, dim in found and found[dim].unlimited)
    return found
