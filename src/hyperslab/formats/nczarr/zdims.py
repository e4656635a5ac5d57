"""``.zdims`` and ``dimensions``: the dimensions that a group of the draft dialect declares, and those of an array.

``.zdims`` is ``{"x": 3, "t": {"size": 5, "unlimited": 1}}`` (R22, R26), ``dimensions`` of a ``.zarray`` a list of
qualified names (R27). Where that is lost, ``_ARRAY_DIMENSIONS`` counts, then names that nobody gave (R25).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.nczarr.context import Context
from hyperslab.formats.nczarr.dimension_names import declared, nearest, read_dimension
from hyperslab.formats.nczarr.names import anonymous, is_anonymous, place_of, qualified
from hyperslab.formats.zarr2.document import DIMENSIONS
from hyperslab.model.dims import Dimension


def read_dims(doc: Mapping[str, Any], problems: Problems) -> tuple[tuple[Dimension, ...], dict[str, Any]]:
    """The dimensions of a group's document, and what it says beyond them."""
    dims, kept = [], {}
    for name, said in doc.items():
        dim = read_dimension(name, said)
        if dim is None:
            problems.warn(
                "dimension", f"dimension {name!r} is {brief(said)}; it is a length, or a size and whether unlimited"
            )
            kept[name] = said
            continue
        dims.append(dim)
        entry = said if isinstance(said, dict) else {}
        if more := {key: value for key, value in entry.items() if key not in ("size", "unlimited")}:
            kept[name] = more
    return tuple(dims), kept


def write_dims(dims: Sequence[Dimension], kept: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The document of these dimensions, with what was kept of an old one; Invalid for a name with a slash."""
    doc = {name: said for name, said in kept.items() if name not in {dim.name for dim in dims}}
    for dim in dims:
        qualified(group, dim.name)
        more = kept.get(dim.name)
        said: dict[str, Any] = {"size": dim.size} | ({"unlimited": 1} if dim.unlimited else {})
        said |= more if isinstance(more, dict) else {}
        doc[dim.name] = said if len(said) > 1 else dim.size
    return doc


def new_name(name: str | None, size: int, group: str, context: Context) -> str:
    """The qualified name for an axis: of the nearest dimension that fits, else of one to be declared."""
    if name is None:
        return qualified("", anonymous(size, draft=True))
    return nearest(name, size, group, context) or qualified("" if is_anonymous(name, size) else group, name)


def dims_of(
    doc: Mapping[str, Any],
    stored: Mapping[str, Any],
    shape: tuple[int, ...],
    group: str,
    context: Context,
    problems: Problems,
) -> tuple[str, ...]:
    """The qualified names of an array's dimensions. Lengths that contradict them make the cells unreadable (R27)."""
    said = doc.get("dimensions")
    fits = isinstance(said, list) and len(said) == len(shape) and all(isinstance(name, str) for name in said)
    if said is not None and not fits:
        problems.undecodable(
            "dimensions", f"dimensions is {brief(said)}, the shape {list(shape)}: one name per length is needed"
        )
    elif said is None and shape:
        problems.warn("dimensions", "dimensions is missing; the names are taken from _ARRAY_DIMENSIONS, or made up")
    plain = plain_names(stored.get(DIMENSIONS), len(shape), problems)
    names = said if isinstance(said, list) and fits else [None] * len(shape)
    return tuple(_resolved(*axis, group, context, problems) for axis in zip(names, plain, shape, strict=True))


def plain_names(said: Any, ndim: int, problems: Problems) -> Sequence[str | None]:
    """The names of ``_ARRAY_DIMENSIONS``, None for those that are none."""
    if said is not None and (not isinstance(said, list) or len(said) != ndim):
        problems.warn("dimensions", f"{DIMENSIONS} is {brief(said)}, which names no {ndim} dimensions; ignored")
        said = None
    names = said or [None] * ndim
    return [name if isinstance(name, str) and name and "/" not in name else None for name in names]


def _resolved(fqn: str | None, plain: str | None, size: int, group: str, context: Context, problems: Problems) -> str:
    if fqn is None:
        return new_name(plain, size, group, context)
    dim = declared(fqn, context)
    if dim is None and context.group("") is None:
        return fqn  # a document that is looked at alone
    if dim is None:
        problems.warn(
            "dimensions", f"there is no dimension {fqn}; the name is taken from _ARRAY_DIMENSIONS, or made up"
        )
        return new_name(plain, size, group, context)
    if dim.size != size:
        said = f"an axis of {size} cells has the dimension {fqn} of size {dim.size}"
        (problems.warn if dim.unlimited else problems.undecodable)("dimension-size", said)
    return qualified(*place_of(fqn))
