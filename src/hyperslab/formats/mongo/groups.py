"""Groups within an object. Pure.

The documents of xarray_mongodb know no groups. An array in one is a variable called by its whole path
(``surface/t2m``), which others read as any; the groups with their attributes stand by their paths in ``groups`` of the
field ``hyperslab``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.dimension_suffix import add_suffix, strip_suffix
from hyperslab.formats.mongo.attributes import decode_attrs, encode_attrs
from hyperslab.formats.mongo.document import Meta, Variable
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import GroupSpec

GROUPS = "groups"
_FORBIDDEN = "\\\0"


def groups_of(meta: Meta) -> Mapping[str, Any]:
    """By path, what is said of the groups below the root."""
    said = meta.ours.get(GROUPS)
    return said if isinstance(said, Mapping) else {}


def is_inside(name: str, groups: Mapping[str, Any]) -> bool:
    """Return whether a variable is an array of one of the groups."""
    above, last = split(name)
    return above in groups and last not in ("", ".", "..") and not any(c in last for c in _FORBIDDEN)


def below(path: str, groups: Iterable[str], arrays: Iterable[str]) -> Iterator[str]:
    """The names right below a group: arrays, then groups."""
    prefix = f"{path}/" if path else ""
    for name in (*arrays, *groups):
        if name.startswith(prefix) and name != path and "/" not in name[len(prefix) :]:
            yield name[len(prefix) :]


def group_at(meta: Meta, path: str) -> GroupSpec | None:
    """A group below the root; None where there is none."""
    said = groups_of(meta).get(path)
    if not isinstance(said, Mapping):
        return None
    raw, codes, free = (said.get(name) for name in ("attrs", "attr_types", "unlimited"))
    attrs = decode_attrs(raw if isinstance(raw, Mapping) else {}, codes if isinstance(codes, Mapping) else {})
    dims = [dim for dim in free if isinstance(dim, str)] if isinstance(free, list) else []
    return GroupSpec(attrs=attrs, dims=tuple(Dimension(dim, length_of(meta, dim, path), True) for dim in dims))


def length_of(meta: Meta, dim: str, path: str = "") -> int:
    """Return how long a dimension is: as the longest array along it, in the group where that is said or else below
    it."""
    inside = {name: each for name, each in meta.variables.items() if not path or f"{name}/".startswith(f"{path}/")}
    own = {name: each for name, each in inside.items() if split(name)[0] == path}
    for some in (own, inside):
        sizes = (zip(shown_dims(meta, each), each.shape, strict=True) for each in some.values() if not each.problem)
        if found := [size or 0 for pairs in sizes for name, size in pairs if name == dim]:
            return max(found)
    return 0


def with_inner_group(meta: Meta, path: str, spec: GroupSpec) -> Meta:
    """The object with a group below the root made or changed. Unsupported, Invalid."""
    meta = with_groups_above(meta, f"{path}/-")
    known = groups_of(meta)
    old = known[path] if isinstance(known[path], Mapping) else {}
    raw, codes = encode_attrs(spec.attrs, old.get("attrs") or {}, old.get("attr_types") or {})
    free = [dim.name for dim in spec.dims if dim.unlimited]
    parts = (("attrs", raw), ("attr_types", codes), ("unlimited", free))
    return _with(meta, {**known, path: {name: value for name, value in parts if value}})


def with_groups_above(meta: Meta, path: str) -> Meta:
    """The object with the groups that a node at ``path`` lies in."""
    wanted = [group for group in outward(split(path)[0]) if group]
    if wanted and meta.is_array:
        remedy = "save a Dataset under a name of its own"
        raise Unsupported("format mongo has no groups in a DataArray, which holds one array", remedy=remedy)
    known = groups_of(meta)
    if taken := [group for group in wanted if group not in known and group in meta.variables]:
        raise Invalid(f"/{taken[0]} is an array and holds no other nodes", remedy="give another name")
    missing: dict[str, Any] = {group: {} for group in reversed(wanted) if group not in known}
    return _with(meta, {**known, **missing}) if missing else meta


def without_group(meta: Meta, path: str) -> Meta:
    """The object without the groups at and below a path; their arrays are not looked at."""
    left = {group: said for group, said in groups_of(meta).items() if not f"{group}/".startswith(f"{path}/")}
    return _with(meta, left)


def _with(meta: Meta, groups: Mapping[str, Any]) -> Meta:
    rest = {name: value for name, value in meta.ours.items() if name != GROUPS}
    return replace(meta, ours={**rest, GROUPS: dict(groups)} if groups else rest)


def shown_dims(meta: Meta, variable: Variable) -> tuple[str, ...]:
    """The names of a variable's dimensions as they were given."""
    names = [dim if isinstance(dim, str) else str(dim) for dim in variable.dims]
    if not any("@" in name for name in names):
        return tuple(names)
    known = {dim for each in meta.variables.values() for dim in each.dims}
    return tuple(
        strip_suffix(name, size or 0, known.__contains__) for name, size in zip(names, variable.shape, strict=True)
    )


def with_dims_apart(before: Meta, meta: Meta, changed: str) -> Meta:
    """Return the object after an array was ``changed``, with each name of a dimension that has several lengths in it
    told apart: the plain name is that of the outermost array, coordinates first, others are ``name@length``."""
    if not groups_of(meta):
        return meta
    dims = {
        name: shown_dims(meta if name == changed or name not in before.variables else before, each)
        for name, each in meta.variables.items()
        if each.problem is None
    }
    plain: dict[str, int | None] = {}
    for name in sorted(dims, key=lambda name: (name.count("/"), dims[name] != (split(name)[1],))):
        for dim, size in zip(dims[name], meta.variables[name].shape, strict=True):
            plain.setdefault(dim, size)

    def stored(name: str, each: Variable) -> Variable:
        pairs = zip(dims.get(name, ()), each.shape, strict=True)
        told = tuple(dim if size in (None, plain[dim]) else add_suffix(dim, size or 0) for dim, size in pairs)
        return replace(each, dims=told)

    parts = ({name: stored(name, each) for name, each in part.items()} for part in (meta.coords, meta.data_vars))
    coords, data_vars = parts
    return replace(meta, coords=coords, data_vars=data_vars)
