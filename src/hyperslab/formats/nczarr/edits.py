"""What one change of a dataset makes of its other nodes: lists, dimensions and types of groups, lengths of arrays.

A change is worked out on specs, whole, before anything is written. An array is as long as its dimensions. Along an
unlimited one it grows with all others, and ``layout["written"]`` says how far each was given cells; the dimension
becomes shorter when none was given that much any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperslab.errors import AlreadyExists, Invalid
from hyperslab.formats.nczarr.dimensions import (
    anonymous_name,
    is_anonymous,
    qualified,
    require_netcdf_name,
    split_qualified,
)
from hyperslab.formats.nczarr.user_types import same_type, unnamed_opaque
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Enum, Opaque, tag_of, tagged_fields
from hyperslab.model.paths import is_within, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec

Spec = GroupSpec | ArraySpec
_LISTS = ("arrays", "groups")
_UNSEEN = ("hidden", "kept")


@dataclass
class Edits:
    """One change of a dataset, worked out on specs: ``changed`` is what becomes of which node.

    ``find_node`` returns what is at a path (None: nothing), ``walk_arrays`` every array of the dataset,
    ``written_length`` how far an array was given cells along an axis, be it by single writes.
    """

    find_node: Callable[[str], Spec | None]
    walk_arrays: Callable[[], Iterable[tuple[str, ArraySpec]]]
    written_length: Callable[[str, int], int]
    draft: bool
    changed: dict[str, Spec] = field(default_factory=dict)

    def node(self, path: str) -> Spec | None:
        """Return what will be at ``path``."""
        return self.changed[path] if path in self.changed else self.find_node(path)

    def group(self, path: str) -> GroupSpec:
        """Return the group at ``path``, as it will be; Invalid for an array."""
        spec = self.node(path)
        if spec is not None and spec.is_array:
            raise Invalid("an array holds no other nodes", node=path)
        return spec or _new_group(draft=self.draft)

    def arrays(self) -> list[tuple[str, ArraySpec]]:
        """Return every array of the dataset, as it will be."""
        found = dict(self.walk_arrays()) | self.changed
        return [(path, spec) for path, spec in found.items() if spec.is_array]

    # -- nodes ------------------------------------------------------------------------------------------------------

    def put_group(self, path: str, wish: GroupSpec) -> None:
        """Set the attributes of a group, and declare dimensions and types beside those that it has."""
        before = self.node(path)
        if before is not None and before.is_array:
            raise Invalid("an array cannot become a group", node=path, remedy="delete it first")
        known = before or _new_group(draft=self.draft)
        layout = {**known.layout, **{name: wish.layout[name] for name in _UNSEEN if name in wish.layout}}
        self._ensure_listed(path, "groups")
        self.changed[path] = replace(known, attrs=wish.attrs, types={**known.types, **wish.types}, layout=layout)
        self._declare_types(path, wish)
        for dim in wish.dims:
            self._declare(path, dim)

    def put_array(self, path: str, wish: ArraySpec) -> None:
        """Put an array, and declare the dimensions and types of it that are not there."""
        if not path:
            message = "the root of a netCDF dataset is a group, no array can stand in its place"
            raise Invalid(message, node=path, remedy="give the array a name")
        before = self.node(path)
        if before is not None and before.is_group:
            raise Invalid("a group cannot become an array", node=path, remedy="delete it first")
        self._ensure_listed(path, "arrays")
        group = split(path)[0]
        self._declare_types(group, wish)
        names, sizes = [], []
        for axis in range(len(wish.shape)):
            name, known = self._axis(path, group, wish, before, axis)
            names.append(name)
            sizes.append(known)
        # axes on one dimension have one length; of an array that grows one may be ahead of the other
        lengths: dict[str, int] = {}
        for name, size in zip(names, wish.shape, strict=True):
            if before is None and lengths.setdefault(name, size) != size:
                message = f"dimension {split_qualified(name)[1]!r} has the lengths {lengths[name]} and {size}"
                raise Invalid(message, node=path)
        layout = {**wish.layout, "dimensions": tuple(names), "typedef": self._typedef(group, wish)}
        spec = wish.evolve(dims=tuple(split_qualified(name)[1] for name in names), layout=layout)
        self.changed[path] = self._with_rows(spec, _written_after_put(wish.shape, before), wish.shape)
        self._resize_dimensions(path, wish, sizes)
        # stored behind those that it makes grow: who dies between leaves work for whoever repeats it
        self.changed[path] = self.changed.pop(path)

    def _axis(
        self, path: str, group: str, wish: ArraySpec, before: ArraySpec | None, axis: int
    ) -> tuple[str, Dimension]:
        """Return the qualified name and the dimension of an axis; the dimension is declared now where it is new."""
        size, name = wish.shape[axis], wish.dims[axis]
        was = None  # the length of the same axis before
        if before is not None and axis < len(before.dims) and before.dims[axis] == name:
            was, fqns = before.shape[axis], before.layout.get("dimensions") or ()
            fqn = fqns[axis] if axis < len(fqns) else ""
            kept = self._declared(fqn) if fqn else None
            # a made-up name says a length: with another one the axis is on another dimension
            if kept is not None and (was == size or not is_anonymous(kept.name, was)):
                return fqn, kept
        if name is None or is_anonymous(name, size) or (was is not None and is_anonymous(name, was)):
            unnamed = name if name is not None and is_anonymous(name, size) else anonymous_name(size, draft=self.draft)
            return qualified("", unnamed), self._declare("", Dimension(unnamed, size), anew=False)
        if "/" in name:
            found = self._declared(name)
            if found is None:
                raise Invalid(f"there is no dimension {name}", node=path, remedy="declare it, or name another")
            return qualified(*split_qualified(name)), found
        return self._named_axis(path, group, wish, before, axis, name)

    def _named_axis(
        self, path: str, group: str, wish: ArraySpec, before: ArraySpec | None, axis: int, name: str
    ) -> tuple[str, Dimension]:
        """Return the nearest dimension of this name if the axis can be on it, else a new one of the group."""
        size, fqns = wish.shape[axis], wish.layout.get("dimensions") or ()
        for above in outward(group):
            found = self._declared(qualified(above, name))
            if found is None:
                continue
            # a longer array makes an unlimited dimension grow, one of length 0 is as long as it is
            if found.size == size or (found.unlimited and (found.size < size or not size)):
                return qualified(above, name), found
            break
        if before is None and axis < len(fqns) and split_qualified(fqns[axis])[1] == name:
            found = self._declared(fqns[axis])
            if found is not None and found.size == size:
                return fqns[axis], found
        return qualified(group, name), self._declare(group, Dimension(name, size, not size), path=path)

    def _typedef(self, group: str, wish: ArraySpec) -> str | None:
        """Return the qualified name of the cells' type, declared in the group where no group has it; None for plain
        cells."""
        if not self.draft or not isinstance(wish.dtype, Compound | Enum | Opaque) or not wish.dtype.name:
            return None
        if isinstance(wish.dtype, Opaque) and wish.dtype == unnamed_opaque(wish.dtype.size):
            return None
        return self._declared_type(group, wish.dtype)

    def _declare_types(self, group: str, wish: Spec) -> None:
        """Declare the types of attributes in the group where no group above has them."""
        values = (value for value in wish.attrs.values() if isinstance(value, np.ndarray | np.generic))
        for kind in (tag_of(value.dtype) for value in values):
            if self.draft and kind is not None:
                self._declared_type(group, kind)

    def _declared_type(self, group: str, kind: Any) -> str:
        for above in outward(group):
            known = self.group(above).types.get(kind.name)
            if known is not None and same_type(known, kind):
                return qualified(above, kind.name)
        spec = self.group(group)
        if kind.name in spec.types:
            remedy = "give the type another name"
            raise Invalid(f"the group has another type named {kind.name!r}", node=group, remedy=remedy)
        for _, inner in tagged_fields(kind.base) if isinstance(kind, Compound) else ():
            self._declared_type(group, inner)
        spec = self.group(group)
        self.changed[group] = replace(spec, types={**spec.types, kind.name: kind})
        return qualified(group, kind.name)

    # -- lists ------------------------------------------------------------------------------------------------------

    def _ensure_listed(self, path: str, kind: str) -> None:
        """Put the node into the list of its group, which is made where it is missing."""
        if not path:
            return
        above, name = split(path)
        if self.node(above) is None:
            self._ensure_listed(above, "groups")
        spec = self.group(above)
        known = spec.layout.get(kind)
        if not self.draft and name not in (known or ()):
            require_netcdf_name(name, path)
            spec = replace(spec, layout={**spec.layout, kind: (*(known or ()), name)})
        if spec is not self.node(above):
            self.changed[above] = spec

    def unlist(self, path: str) -> None:
        """Take the node out of the lists of its group."""
        above, name = split(path)
        spec = self.node(above)
        if not path or self.draft or not isinstance(spec, GroupSpec):
            return
        lists = {
            kind: tuple(other for other in spec.layout[kind] if other != name)
            for kind in _LISTS
            if name in (spec.layout.get(kind) or ())
        }
        if lists:
            self.changed[above] = replace(spec, layout={**spec.layout, **lists})

    def drop(self, path: str) -> None:
        """Remove a node: what stays and used its dimensions declares them itself."""
        self.unlist(path)
        for other, spec in self.arrays():
            fqns = spec.layout.get("dimensions") or ()
            if is_within(other, path) or not any(is_within(split_qualified(fqn)[0], path) for fqn in fqns):
                continue
            group = split(other)[0]
            names = list(fqns)
            for axis, fqn in enumerate(fqns):
                above, name = split_qualified(fqn)
                if is_within(above, path):
                    self._declare(group, self._declared(fqn) or Dimension(name, spec.shape[axis]), path=group)
                    names[axis] = qualified(group, name)
            self.changed[other] = spec.evolve(layout={**spec.layout, "dimensions": tuple(names)})

    def move(self, source: str, target: str) -> None:
        """Rename a node: its group's lists, and qualified names that lead into it. What moves is given at its new
        place where it changes."""
        spec = self.node(source)
        self.unlist(source)
        self._ensure_listed(target, "arrays" if spec is not None and spec.is_array else "groups")
        for other, array in self.arrays():
            fqns = array.layout.get("dimensions") or ()
            names = tuple(moved_name(fqn, source, target) for fqn in fqns)
            typedef = array.layout.get("typedef")
            typedef = typedef and moved_name(typedef, source, target)
            if names != tuple(fqns) or typedef != array.layout.get("typedef"):
                place = moved_path(other, source, target)
                self.changed.pop(other, None)
                self.changed[place] = array.evolve(layout={**array.layout, "dimensions": names, "typedef": typedef})

    # -- dimensions -------------------------------------------------------------------------------------------------

    def rename_dimension(self, group: str, old: str, new: str) -> None:
        """Give a dimension of a group another name, also in the arrays along it; AlreadyExists, Invalid."""
        spec, fqn = self.group(group), qualified(group, old)
        if self._declared(fqn) is None:
            raise Invalid(f"the group declares no dimension {old!r}", node=group)
        if self._declared(qualified(group, new)) is not None:
            raise AlreadyExists(f"there is a dimension {new!r}", node=group, remedy="rename that first")
        if not self.draft:
            require_netcdf_name(new, group)
        dims = tuple(replace(dim, name=new) if dim.name == old else dim for dim in spec.dims)
        self.changed[group] = replace(spec, dims=dims)
        for path, array in self.arrays():
            fqns = tuple(array.layout.get("dimensions") or ())
            if fqn in fqns:
                names = tuple(qualified(group, new) if name == fqn else name for name in fqns)
                along = tuple(new if name == fqn else dim for dim, name in zip(array.dims, fqns, strict=True))
                self.changed[path] = array.evolve(dims=along, layout={**array.layout, "dimensions": names})

    def _declared(self, fqn: str) -> Dimension | None:
        group, name = split_qualified(fqn)
        spec = self.node(group)
        dims = spec.dims if spec is not None and spec.is_group else ()
        return next((dim for dim in dims if dim.name == name), None)

    def _declare(self, group: str, dim: Dimension, *, anew: bool = True, path: str = "") -> Dimension:
        """Declare a dimension of a group, or change the one that it has."""
        spec = self.group(group)
        fqn = qualified(group, dim.name)
        known = next((other for other in spec.dims if other.name == dim.name), None)
        if known is None:
            if not self.draft:
                require_netcdf_name(dim.name, path or group)
            self.changed[group] = replace(spec, dims=(*spec.dims, dim))
            return dim
        if not anew or known == dim:
            return known
        if known.size != dim.size and (not known.unlimited or path) and self._users(fqn):
            raise _other_size(known, dim.size, path or group)
        self._set(fqn, replace(known, unlimited=known.unlimited or dim.unlimited))
        if known.size < dim.size or not known.unlimited:
            self._lengthen(fqn, dim.size)
        return self._declared(fqn) or dim

    def _users(self, fqn: str, besides: str | None = None) -> list[str]:
        return [
            path for path, spec in self.arrays() if path != besides and fqn in (spec.layout.get("dimensions") or ())
        ]

    def _set(self, fqn: str, dim: Dimension) -> None:
        group, name = split_qualified(fqn)
        spec = self.group(group)
        self.changed[group] = replace(spec, dims=tuple(dim if each.name == name else each for each in spec.dims))

    def _resize_dimensions(self, path: str, wish: ArraySpec, dims: list[Dimension]) -> None:
        """Make dimensions as long as the array that was put wants them, and all arrays as long as their dimensions."""
        spec = self.changed[path]
        before = self.find_node(path)
        for axis, (size, fqn) in enumerate(zip(wish.shape, spec.layout["dimensions"], strict=True)):
            dim = self._declared(fqn) or dims[axis]
            had = before.shape if before is not None and before.is_array else ()
            old = had[axis] if len(had) == len(wish.shape) else None
            if size == dim.size or (size == old and not dim.unlimited):
                continue
            if not dim.unlimited:
                if self._users(fqn, besides=path) or spec.layout["dimensions"].count(fqn) > 1:
                    raise _other_size(dim, size, path)
                self._set(fqn, replace(dim, size=size))
            elif size > dim.size:
                self._lengthen(fqn, size)
            elif old is not None and size < old:
                # the array gives rows up; the dimension becomes as long as any array was given cells
                self._lengthen(fqn, max(size, *self._given(fqn, path)))
            else:
                self._lengthen(fqn, dim.size)

    def _given(self, fqn: str, path: str) -> Iterator[int]:
        """Yield how far each array on a dimension was given cells along it; the one at ``path`` by what it says."""
        for other, spec in self.arrays():
            rows = written_lengths(spec) or ()
            for axis, name in enumerate(spec.layout.get("dimensions") or ()):
                if name == fqn:
                    yield rows[axis] if other == path else self.written_length(other, axis)

    def _lengthen(self, fqn: str, size: int) -> None:
        """Give a dimension another length, and with it every array that runs along it."""
        for path, spec in self.arrays():
            fqns = spec.layout.get("dimensions") or ()
            if fqn in fqns:
                shape = tuple(size if name == fqn else old for name, old in zip(fqns, spec.shape, strict=True))
                self.changed[path] = self._with_rows(spec, written_lengths(spec) or (), shape)
        dim = self._declared(fqn)
        if dim is not None:
            self._set(fqn, replace(dim, size=size))

    @staticmethod
    def _with_rows(spec: ArraySpec, lengths: tuple[int, ...], shape: tuple[int, ...]) -> ArraySpec:
        """Return the array with another shape, which was given cells so far."""
        rows = tuple(map(min, lengths, shape))
        return spec.evolve(shape=shape, layout={**spec.layout, "written": None if rows == shape else rows})


def written_lengths(spec: ArraySpec | None) -> tuple[int, ...] | None:
    """Return how far an array was given cells along each axis."""
    if spec is None:
        return None
    return tuple(spec.layout.get("written") or spec.shape)


def _written_after_put(shape: tuple[int, ...], before: ArraySpec | None) -> tuple[int, ...]:
    """Return how far an array was given cells when it is put with this shape: axes that change are given whole."""
    rows = written_lengths(before)
    if before is None or rows is None or len(rows) != len(shape):
        return shape
    return tuple(old if size == was else size for size, was, old in zip(shape, before.shape, rows, strict=True))


def moved_path(path: str, source: str, target: str) -> str:
    """Return where a node is once ``source`` is called ``target``."""
    return f"{target}{path[len(source) :]}" if is_within(path, source) else path


def moved_name(fqn: str, source: str, target: str) -> str:
    """Return the qualified name of something once the group ``source`` is called ``target``."""
    group, name = split_qualified(fqn)
    return qualified(moved_path(group, source, target), name)


def _new_group(*, draft: bool) -> GroupSpec:
    return GroupSpec(layout={"arrays": None, "groups": None} if draft else {"arrays": (), "groups": ()})


def _other_size(dim: Dimension, size: int, path: str) -> Invalid:
    return Invalid(
        f"dimension {dim.name!r} has length {dim.size} here, not {size}",
        node=path,
        remedy="arrays of a netCDF dataset share their dimensions: give it another name, or make it unlimited",
    )
