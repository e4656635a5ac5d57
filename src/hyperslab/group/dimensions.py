"""The dimensions that a group knows: declared ones, and those of its arrays; declaring a new one."""

from __future__ import annotations

from hyperslab.array.session import OpenDataset
from hyperslab.errors import AlreadyExists, Invalid
from hyperslab.formats.base import Feature
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import check_name, outward, split


def dimensions_of(session: OpenDataset, path: str) -> dict[str, Dimension]:
    """Return declared dimensions first, in order, then those of the arrays; a size is the longest among its arrays,
    where these have several the declared one.

    A dimension that is declared further out is as unlimited as it is there: the nearest group outward counts.
    """
    found = _declared(session, path)
    lengths: dict[str, set[int]] = {}
    for _, array in session.arrays(path):
        for dim, size in zip(array.dims, array.shape, strict=True):
            if dim:
                lengths.setdefault(dim, set()).add(size)
    outer: dict[str, Dimension] = {}
    if lengths.keys() - found.keys():
        while path:
            path, _ = split(path)
            outer = _declared(session, path) | outer  # the nearest of each name
    for dim, several in lengths.items():
        declared = found.get(dim)
        fixed = declared is not None and not declared.unlimited and declared.size in several
        known = declared or outer.get(dim)
        size = declared.size if declared is not None and fixed else max(several)
        found[dim] = Dimension(dim, size, known is not None and known.unlimited)
    return found


def unlimited_dimensions(session: OpenDataset, path: str) -> set[str]:
    """Return the names that mean unlimited dimensions in a group, as it or the nearest one outward declares them."""
    found: dict[str, Dimension] = {}
    for group in outward(path):
        found = _declared(session, group) | found
    return {name for name, dim in found.items() if dim.unlimited}


def declare(session: OpenDataset, path: str, name: str, size: int | None) -> Dimension:
    """Declare a dimension in a group; without a size an unlimited one of length 0."""
    writer = session.writer()
    session.require(Feature.UNLIMITED if size is None else Feature.DIMENSIONS, f"no dimension {name!r} is declared")
    if size is not None and (type(size) is not int or size < 0):
        raise Invalid(f"a dimension of length {size!r}", remedy="give a whole number, or none for an unlimited one")
    made = Dimension(check_name(name), size or 0, size is None)
    with session.add_place_to_errors(path), session.lock_node(path):
        session.refresh(path)
        spec = session.reader.node(path)
        if not spec.is_group:
            raise Invalid("an array declares no dimensions", remedy="declare it in the group of the array")
        if any(dim.name == name for dim in spec.dims):
            raise AlreadyExists(f"the group has a dimension {name!r}", remedy="choose another name")
        writer.put(path, spec.evolve(dims=(*spec.dims, made)))
    return made


def _declared(session: OpenDataset, path: str) -> dict[str, Dimension]:
    spec = session.reader.node(path)
    return {dim.name: dim for dim in spec.dims} if spec.is_group else {}
