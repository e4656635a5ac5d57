"""Which dimensions an array is on: by references, by ``_ARRAY_DIMENSIONS``, or anonymous (rules 3.4 and 3.14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab.formats.dimension_suffix import strip_suffix
from hyperslab.formats.format_errors import LONGEST, Problems, brief
from hyperslab.formats.nczarr.context import Context
from hyperslab.formats.nczarr.names import anonymous, place_of, qualified
from hyperslab.formats.zarr2.document import DIMENSIONS
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import outward, split

XARRAY = DIMENSIONS
SCALAR = "_scalar_"


def read_dimensions(
    references: Any, names: Any, shape: Sequence[int], node: str, context: Context, problems: Problems
) -> tuple[str, ...]:
    """The qualified name of each axis' dimension: the first of the three that can be used."""
    if references is not None and not name_all(references, len(shape)):
        problems.warn("dimensions", f"the dimensions {brief(references)} name no {len(shape)} dimensions; ignored")
    elif references is not None:
        return tuple(
            _resolved(name, size, node, context, problems) for name, size in zip(references, shape, strict=True)
        )
    if names is not None and not name_all(names, len(shape)):
        if shape or names != [SCALAR]:
            problems.warn("dimensions", f"{XARRAY} is {brief(names)}, which names no {len(shape)} dimensions; ignored")
        names = None
    given = names or [None] * len(shape)
    return tuple(_by_name(name, size, node, context, problems) for name, size in zip(given, shape, strict=True))


def _by_name(name: str | None, size: int, node: str, context: Context, problems: Problems) -> str:
    """The dimension of this name that can be seen, else a new one of the own group; anonymous where neither fits."""
    if name is not None and "/" not in name:
        group = split(node)[0]
        own = qualified(group, name)
        if (seen := nearest(name, size, group, context)) or declared(own, context) is None:
            return seen or own
        problems.warn("dimension-size", f"dimension {own} is not {size} long, as the array is; {XARRAY} is ignored")
    return f"/{anonymous(size, draft=False)}"


def name_all(names: Any, ndim: int) -> bool:
    """Return whether this is a list with a name for each axis."""
    if not isinstance(names, list) or len(names) != ndim:
        return False
    return all(isinstance(name, str) and place_of(name)[1] for name in names)


def _resolved(name: str, size: int, node: str, context: Context, problems: Problems) -> str:
    """A reference as it stands, or the dimension of this name that can be seen from the array."""
    is_qualified = name.startswith("/")
    if is_qualified and context.group("") is None:
        return name
    dimension = declared(name, context) if is_qualified else None
    if dimension is not None:
        if dimension.size != size:
            problems.warn("dimension-size", f"dimension {name} has the size {dimension.size}, the array is {size} long")
        return name
    if is_qualified:
        problems.warn("dimensions", f"no group declares the dimension {name!r}")
    short, group = place_of(name)[1], split(node)[0]
    return nearest(short, size, group, context) or (name if is_qualified else qualified(group, short))


def declared(fqn: str, context: Context) -> Dimension | None:
    """The dimension of a qualified name, None where its group does not declare it."""
    group, name = place_of(fqn)
    spec = context.group(group)
    return None if spec is None else next((dim for dim in spec.dims if dim.name == name), None)


def nearest(name: str, size: int, group: str, context: Context) -> str | None:
    """The dimension of this name that an axis of this length can be on, in the group or the nearest one outward."""
    for above in outward(group):
        dimension = declared(qualified(above, name), context)
        if dimension is not None and (dimension.size == size or dimension.unlimited):
            return qualified(above, name)
    return None


def read_declared(said: Any, problems: Problems) -> tuple[Dimension, ...]:
    """The dimensions that a group declares: sizes by name, or objects of size and ``unlimited``."""
    said = by_name(said)
    if not isinstance(said, dict):
        problems.warn("dimensions", f"the dimensions of the group are {brief(said)}, not an object; ignored")
        return ()
    found = []
    for name, entry in said.items():
        if (dimension := read_dimension(name, entry)) is None:
            problems.warn("dimensions", f"{brief(name)}: {brief(entry)} is no dimension; ignored")
        else:
            found.append(dimension)
    return tuple(found)


def by_name(said: Any) -> Any:
    """Dimensions that a group declares as a list, as some older ones do, by name; anything else as it is."""
    if not isinstance(said, list):
        return said
    named = (entry for entry in said if isinstance(entry, dict))
    return {entry["name"]: entry for entry in named if isinstance(entry.get("name"), str)}


def read_dimension(name: str, said: Any) -> Dimension | None:
    """What is said under a name: a size, or an object of size and ``unlimited``; None where that is no dimension."""
    whole: Mapping[str, Any] = said if isinstance(said, dict) else {"size": said}
    size = whole.get("size")
    if not name or "/" in name or type(size) is not int or not 0 <= size <= LONGEST:
        return None
    return Dimension(name, size, bool(whole.get("unlimited")))


def write_declared(dims: Iterable[Dimension]) -> dict[str, Any]:
    """The dimensions of a group as netcdf-c writes them; Invalid for a name with a slash."""
    dims = list(dims)
    for dim in dims:
        qualified("", dim.name)
    return {dim.name: {"size": dim.size, "unlimited": 1} if dim.unlimited else dim.size for dim in dims}


def last_names(fqns: Sequence[str]) -> tuple[str, ...]:
    """The names without their groups."""
    return tuple(place_of(fqn)[1] for fqn in fqns)


def shown_names(fqns: Sequence[str], shape: Sequence[int], context: Context) -> tuple[str, ...]:
    """The names without their groups, of dimensions that were told apart as they were given."""
    return tuple(_shown(fqn, size, context) for fqn, size in zip(fqns, shape, strict=True))


def _shown(fqn: str, size: int, context: Context) -> str:
    group, name = place_of(fqn)
    return strip_suffix(name, size, lambda plain: any(declared(qualified(g, plain), context) for g in outward(group)))
