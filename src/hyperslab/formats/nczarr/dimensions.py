"""Dimensions of NCZarr: their names, those that a group declares, those that an array is on.

A qualified name (``/g1/x``) says in which group a dimension or type is declared. An array names its dimensions by
references, by ``_ARRAY_DIMENSIONS``, or not at all: then they are anonymous. In the draft, ``.zdims`` of a group is
``{"x": 3, "t": {"size": 5, "unlimited": 1}}`` and ``dimensions`` of a ``.zarray`` a list of qualified names.
Where that is lost, ``_ARRAY_DIMENSIONS`` counts, then names that nobody gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from operator import methodcaller
from typing import Any

from hyperslab.errors import Invalid
from hyperslab.formats.dimension_suffix import strip_suffix
from hyperslab.formats.documents import JsonMapping, JsonObject, is_text_list, object_or_empty
from hyperslab.formats.format_errors import LONGEST, Problems, shorten
from hyperslab.formats.nczarr.generation import Context
from hyperslab.formats.zarr2.document import DIMENSIONS
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import GroupSpec

_OF_NETCDF = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]([^\x00-\x1f\x7f/]*[^\x00-\x20\x7f/])?")
# NC_MAX_NAME of netcdf-c
_LONGEST = 256  # bytes
# how the generations name the dimensions that nobody named
_ANONYMOUS = re.compile(r"(?:_anonymous|Anonymous|_Anonymous_Dim_|_zdim_|\.zdim_)(\d+)")


def qualified(group: str, name: str) -> str:
    """Return the qualified name of something declared in a group: the root's is ``/x``."""
    if not name or "/" in name:
        raise Invalid(f"{name!r} is no name of a dimension or type", remedy="a name is not empty and holds no slash")
    return f"/{group}/{name}" if group else f"/{name}"


def require_netcdf_name(name: str, node: str) -> None:
    """Raise Invalid for the name of a node or dimension that netcdf-c cannot open a dataset for."""
    if not _OF_NETCDF.fullmatch(name) or len(name.encode()) > _LONGEST:
        remedy = "begin with a letter, digit or _, without control characters or a space at the end; or use zarr2"
        raise Invalid(f"{name!r} is no name in netCDF", node=node, remedy=remedy)


@lru_cache(1024)  # the same few names for all arrays
def split_qualified(fqn: str) -> tuple[str, str]:
    """Return the path of the group, and the name, of a qualified name; a leading slash may be missing."""
    group, _, name = fqn.lstrip("/").rpartition("/")
    return group, name


def anonymous_name(size: int, *, draft: bool) -> str:
    """Return the name of the dimension, declared in the root, of axes of this length without a name."""
    return f"_anonymous{size}" if draft else f"_Anonymous_Dim_{size}"


def is_anonymous(name: str, size: int) -> bool:
    """Return True for a name that some generation made up for an axis of this length."""
    found = _ANONYMOUS.fullmatch(name)
    return found is not None and int(found[1]) == size


XARRAY = DIMENSIONS
SCALAR = "_scalar_"


# -- dimensions of an array -------------------------------------------------------------------------------------------


def read_array_dimensions(
    references: Any, names: Any, shape: Sequence[int], node: str, context: Context, problems: Problems
) -> tuple[str, ...]:
    """Return the qualified name of each axis' dimension: the first of the three that can be used."""
    ndim = len(shape)
    if references is not None and are_names(references, ndim):
        root = context.group("")
        return tuple(
            [
                name if _is_clear(name, size, root) else _resolve(name, size, node, context, problems)
                for name, size in zip(references, shape, strict=True)
            ]
        )
    if references is not None:
        problems.warn("dimensions", f"the dimensions {shorten(references)} name no {ndim} dimensions; ignored")
    if names is not None and not are_names(names, ndim):
        if shape or names != [SCALAR]:
            problems.warn("dimensions", f"{XARRAY} is {shorten(names)}, which names no {ndim} dimensions; ignored")
        names = None
    axes = zip(names or [None] * ndim, shape, strict=True)
    return tuple(_by_name(name, size, node, context, problems) for name, size in axes)


def _by_name(name: str | None, size: int, node: str, context: Context, problems: Problems) -> str:
    """Return the dimension of this name that can be seen, else a new one of the own group; anonymous where neither
    fits."""
    if name is not None and "/" not in name:
        group = split(node)[0]
        own = qualified(group, name)
        if (seen := nearest_dimension(name, size, group, context)) or find_dimension(own, context) is None:
            return seen or own
        problems.warn("dimension-size", f"dimension {own} is not {size} long, as the array is; {XARRAY} is ignored")
    return f"/{anonymous_name(size, draft=False)}"


_TEXT = frozenset({str})
_IS_GROUP = methodcaller("endswith", "/")


def are_names(names: object, ndim: int) -> bool:
    """Return True for a list with a name for each axis."""
    if not isinstance(names, list) or len(names) != ndim or not _TEXT.issuperset(map(type, names)):
        return False
    return "" not in names and not any(map(_IS_GROUP, names))


def _is_clear(name: str, size: int, root: GroupSpec | None) -> bool:
    """Return True for a qualified name of a dimension of the root, as nearly all are; for any where there is none."""
    if not name.startswith("/"):
        return False
    if root is None:
        return True
    group, short = split_qualified(name)
    return not group and any(dim.name == short and dim.size == size for dim in root.dims)


def _resolve(name: str, size: int, node: str, context: Context, problems: Problems) -> str:
    """Return a reference as it stands, or the dimension of this name that can be seen from the array."""
    is_qualified = name.startswith("/")
    dimension = find_dimension(name, context) if is_qualified else None
    if dimension is not None:
        if dimension.size != size:
            problems.warn("dimension-size", f"dimension {name} has the size {dimension.size}, the array is {size} long")
        return name
    if is_qualified:
        problems.warn("dimensions", f"no group declares the dimension {name!r}")
    short, group = split_qualified(name)[1], split(node)[0]
    return nearest_dimension(short, size, group, context) or (name if is_qualified else qualified(group, short))


def find_dimension(fqn: str, context: Context) -> Dimension | None:
    """Return the dimension of a qualified name, None where its group does not declare it."""
    group, name = split_qualified(fqn)
    spec = context.group(group)
    if spec is None:
        return None
    for dim in spec.dims:
        if dim.name == name:
            return dim
    return None


def nearest_dimension(name: str, size: int, group: str, context: Context) -> str | None:
    """Return the dimension of this name that an axis of this length can be on, in the group or the nearest one
    outward."""
    for above in outward(group):
        dimension = find_dimension(qualified(above, name), context)
        if dimension is not None and (dimension.size == size or dimension.unlimited):
            return qualified(above, name)
    return None


# -- dimensions that a group declares ---------------------------------------------------------------------------------


def read_group_dimensions(value: object, problems: Problems) -> tuple[Dimension, ...]:
    """Return the dimensions that a group declares: sizes by name, or objects of size and ``unlimited``."""
    value = dimensions_by_name(value)
    if not isinstance(value, dict):
        problems.warn("dimensions", f"the dimensions of the group are {shorten(value)}, not an object; ignored")
        return ()
    found = []
    for name, entry in value.items():
        if (dimension := read_dimension(name, entry)) is None:
            problems.warn("dimensions", f"{shorten(name)}: {shorten(entry)} is no dimension; ignored")
        else:
            found.append(dimension)
    return tuple(found)


def dimensions_by_name(value: object) -> object:
    """Return dimensions that a group declares as a list, as some older ones do, by name; anything else as it is."""
    if not isinstance(value, list):
        return value
    named = (entry for entry in value if isinstance(entry, dict))
    return {entry["name"]: entry for entry in named if isinstance(entry.get("name"), str)}


def read_dimension(name: str, value: object) -> Dimension | None:
    """Return what is said under a name: a size, or an object of size and ``unlimited``; None where that is no
    dimension."""
    whole: JsonMapping = value if isinstance(value, dict) else {"size": value}
    size = whole.get("size")
    if not name or "/" in name or type(size) is not int or not 0 <= size <= LONGEST:
        return None
    return Dimension(name, size, bool(whole.get("unlimited")))


def write_group_dimensions(dims: Iterable[Dimension]) -> JsonObject:
    """Return the dimensions of a group as netcdf-c writes them; Invalid for a name with a slash."""
    dims = list(dims)
    for dim in dims:
        qualified("", dim.name)
    return {dim.name: {"size": dim.size, "unlimited": 1} if dim.unlimited else dim.size for dim in dims}


# -- names to show ----------------------------------------------------------------------------------------------------


def short_names(fqns: Sequence[str]) -> tuple[str, ...]:
    """Return the names without their groups."""
    return tuple(split_qualified(fqn)[1] for fqn in fqns)


def shown_names(fqns: Sequence[str], shape: Sequence[int], context: Context) -> tuple[str, ...]:
    """Return the names without their groups, and without the suffixes that tell lengths of one name apart."""
    plain_names = short_names(fqns)
    if "@" not in "".join(plain_names):  # nearly always, and this is done for each array
        return plain_names

    def declares(group: str, plain: str) -> bool:
        return any(find_dimension(qualified(above, plain), context) for above in outward(group))

    names = []
    for fqn, size in zip(fqns, shape, strict=True):
        group, name = split_qualified(fqn)
        names.append(strip_suffix(name, size, partial(declares, group)) if "@" in name else name)
    return tuple(names)


# -- the draft: .zdims of a group, dimensions of an array -------------------------------------------------------------


def read_draft_dimensions(doc: JsonMapping, problems: Problems) -> tuple[tuple[Dimension, ...], JsonObject]:
    """Return the dimensions of a group's document, and what it says beyond them."""
    dims, kept = [], {}
    for name, content in doc.items():
        dim = read_dimension(name, content)
        if dim is None:
            problems.warn(
                "dimension",
                f"dimension {name!r} is {shorten(content)}; it is a length, or a size and whether unlimited",
            )
            kept[name] = content
            continue
        dims.append(dim)
        entry = object_or_empty(content)
        if more := {key: value for key, value in entry.items() if key not in ("size", "unlimited")}:
            kept[name] = more
    return tuple(dims), kept


def write_draft_dimensions(dims: Sequence[Dimension], kept: JsonMapping, group: str) -> JsonObject:
    """Return the document of these dimensions, with what was kept of an old one; Invalid for a name with a slash."""
    doc = {name: entry for name, entry in kept.items() if name not in {dim.name for dim in dims}}
    for dim in dims:
        qualified(group, dim.name)
        more = kept.get(dim.name)
        entry: JsonObject = {"size": dim.size} | ({"unlimited": 1} if dim.unlimited else {})
        entry |= object_or_empty(more)
        doc[dim.name] = entry if len(entry) > 1 else dim.size
    return doc


def new_qualified_name(name: str | None, size: int, group: str, context: Context) -> str:
    """Return the qualified name for an axis: of the nearest dimension that fits, else of one to be declared."""
    if name is None:
        return qualified("", anonymous_name(size, draft=True))
    return nearest_dimension(name, size, group, context) or qualified("" if is_anonymous(name, size) else group, name)


def read_draft_array_dimensions(
    doc: JsonMapping,
    stored: JsonMapping,
    shape: tuple[int, ...],
    group: str,
    context: Context,
    problems: Problems,
) -> tuple[str, ...]:
    """Return the qualified names of an array's dimensions. Lengths that contradict them make the cells
    unreadable."""
    value = doc.get("dimensions")
    names = value if is_text_list(value) and len(value) == len(shape) else [None] * len(shape)
    if value is not None and names is not value:
        problems.undecodable(
            "dimensions", f"dimensions is {shorten(value)}, the shape {list(shape)}: one name per length is needed"
        )
    elif value is None and shape:
        problems.warn("dimensions", "dimensions is missing; the names are taken from _ARRAY_DIMENSIONS, or made up")
    plain = read_plain_names(stored.get(DIMENSIONS), len(shape), problems)
    return tuple(_resolve_in_draft(*axis, group, context, problems) for axis in zip(names, plain, shape, strict=True))


def read_plain_names(value: object, ndim: int, problems: Problems) -> Sequence[str | None]:
    """Return the names of ``_ARRAY_DIMENSIONS``, None for those that are none."""
    if value is not None and (not isinstance(value, list) or len(value) != ndim):
        problems.warn("dimensions", f"{DIMENSIONS} is {shorten(value)}, which names no {ndim} dimensions; ignored")
        value = None
    names = value or [None] * ndim
    return [name if isinstance(name, str) and name and "/" not in name else None for name in names]


def _resolve_in_draft(
    fqn: str | None, plain: str | None, size: int, group: str, context: Context, problems: Problems
) -> str:
    if fqn is None:
        return new_qualified_name(plain, size, group, context)
    dim = find_dimension(fqn, context)
    if dim is None and context.group("") is None:
        return fqn  # a document that is looked at alone
    if dim is None:
        problems.warn(
            "dimensions", f"there is no dimension {fqn}; the name is taken from _ARRAY_DIMENSIONS, or made up"
        )
        return new_qualified_name(plain, size, group, context)
    if dim.size != size:
        message = f"an axis of {size} cells has the dimension {fqn} of size {dim.size}"
        (problems.warn if dim.unlimited else problems.undecodable)("dimension-size", message)
    return qualified(*split_qualified(fqn))
