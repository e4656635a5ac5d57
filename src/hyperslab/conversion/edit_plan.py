"""The nodes of a dataset after an edit: new names of variables and dimensions, changed attributes, and the
attributes that name what was renamed, which follow (CF 1.11, appendix A).

Worked out on specs alone, before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from hyperslab.errors import AlreadyExists, Invalid, NodeNotFound, NotFound
from hyperslab.group.cf_variables import names_in_attribute
from hyperslab.group.choice import is_match
from hyperslab.model.attrs import FILL_VALUE, Attrs, equal
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names, find_axis
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.guessing import meant
from hyperslab.model.paths import check_name, child, is_within, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec, Node

Spec = GroupSpec | ArraySpec


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of an edit. Variables and dimensions by their paths; attributes as ``path:name``, where the path may
    be a pattern, as of :mod:`hyperslab.group.choice`, that of a group, or empty for the root. A variable that is
    renamed by the same edit goes by either name."""

    rename_variables: Mapping[str, str] = field(default_factory=dict)
    rename_dimensions: Mapping[str, str] = field(default_factory=dict)
    rename_attributes: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, object] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    append: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DimensionRename:
    """A dimension that a group declares, or that the arrays in and below it run along, and its new name."""

    group: str
    old: str
    new: str


@dataclass(eq=False)
class EditPlan:
    """Steps, in this order: ``dims`` get new names, nodes by their old paths new ``attrs``, arrays new paths.

    ``lines``: each change in words. ``axes``: the new dimensions of each array that runs along a renamed one, or whose
    dimension gets the first name that it has (``is_naming``).
    """

    lines: list[str] = field(default_factory=list)
    dims: list[DimensionRename] = field(default_factory=list)
    axes: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    is_naming: bool = False
    attrs: dict[str, Attrs] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)

    @property
    def touched(self) -> int:
        """Return the number of nodes that are written or moved."""
        return len({*self.axes, *self.attrs, *self.moves, *(rename.group for rename in self.dims)})


def plan_edit(nodes: Mapping[str, Node], changes: Changes) -> EditPlan:
    """Return what the changes make of the nodes of a dataset, by their paths.

    NodeNotFound, NotFound for what is not there, with a suggestion; AlreadyExists for a name that is taken; Invalid.
    """
    specs: dict[str, Spec] = {path: node for path, node in nodes.items() if not node.is_link}
    plan = EditPlan()
    _plan_dimensions(plan, specs, changes.rename_dimensions)
    _plan_variables(plan, specs, set(nodes), changes.rename_variables)
    _plan_attributes(plan, specs, changes)
    _follow(plan, specs)
    return plan


# -- attributes --------------------------------------------------------------------------------------------------------


def _plan_attributes(plan: EditPlan, specs: Mapping[str, Spec], changes: Changes) -> None:
    for place, new in changes.rename_attributes.items():
        for path, name in _attributes_at(plan, specs, place):
            attrs = _attrs_of(plan, specs, path)
            if name == new:
                continue
            if new in attrs:
                raise AlreadyExists(f"there is an attribute {new!r}", node=path, remedy="delete it first")
            plan.attrs[path] = {new if each == name else each: value for each, value in attrs.items()}
            plan.lines.append(f"{_shown(path, name)} is called {new} now")
    for place in changes.delete:
        for path, name in _attributes_at(plan, specs, place):
            attrs = _attrs_of(plan, specs, path)
            plan.attrs[path] = {each: value for each, value in attrs.items() if each != name}
            plan.lines.append(f"{_shown(path, name)} is deleted: it was {_text(attrs[name])}")
    for place, value in changes.set.items():
        _put_each(plan, specs, place, value, appends=False)
    for place, value in changes.append.items():
        _put_each(plan, specs, place, value, appends=True)


def _put_each(plan: EditPlan, specs: Mapping[str, Spec], place: str, value: object, *, appends: bool) -> None:
    """Set an attribute of each node that a place stands for, or put a value behind what it is."""
    paths, name = _split_place(plan, specs, place)
    for path in paths:
        attrs = _attrs_of(plan, specs, path)
        old = attrs.get(name)
        if appends:
            new = _appended(specs[path], name, old, value)
        else:
            new = _as_floats(old, fit_value(specs[path], name, value))
        if name in attrs and equal(old, new):
            continue
        plan.attrs[path] = {**attrs, name: new}
        before = f"is {_text(new)}" if name not in attrs else f"is {_text(new)}, it was {_text(old)}"
        plan.lines.append(f"{_shown(path, name)} {before}")
        if name in attrs and _kind(old) != _kind(new):
            plan.lines.append(f"note: {_shown(path, name)} changes from {_kind(old)} to {_kind(new)}")


_OF_CELLS = frozenset(
    {FILL_VALUE, "missing_value", "valid_min", "valid_max", "valid_range", "flag_values", "flag_masks", "actual_range"}
)
"""Attributes whose values are of the type of the cells (CF 1.11, appendix A), those of packed cells included."""


def fit_value(spec: Spec, name: str, value: object) -> object:
    """Return the value of an attribute as it is stored: numbers without a type of one that is to have the type of the
    cells get that. Invalid where they do not fit."""
    if not _is_untyped(value) or not spec.is_array or name not in _OF_CELLS or spec.numpy_dtype.kind not in "iuf":
        return value
    cells = np.asarray(value)
    fitted = _cast(cells, spec.numpy_dtype) if cells.dtype.kind in "iuf" else cells
    if fitted is None:
        raise Invalid(f"{name} of {value} is no {spec.numpy_dtype}", remedy="give a value of the type of the cells")
    return fitted if fitted.ndim else fitted[()]


def _is_untyped(value: object) -> bool:
    return not isinstance(value, np.ndarray | np.generic | str | bytes | dict | bool)


def _as_floats(old: object, value: object) -> object:
    """Return whole numbers without a type as floats where the attribute has floats, as assignments to NumPy's cells do,
    unless they round there; all else as it is."""
    if not _is_untyped(value) or _kind(old) != "floats" or _kind(value) != "integers":
        return value
    numbers, dtype = np.asarray(value), np.asarray(old).dtype
    floats = _cast(numbers, dtype)
    if floats is None or not np.array_equal(floats, numbers):
        return value
    is_typed = isinstance(old, np.ndarray | np.generic)
    return floats.tolist() if not is_typed else floats if floats.ndim else floats[()]


_KINDS = {
    **dict.fromkeys("iu", "integers"),
    **dict.fromkeys("USTO", "text"),
    "b": "booleans",
    "f": "floats",
    "c": "complex numbers",
}


def _kind(value: object) -> str:
    """Return in a word what values an attribute has."""
    if isinstance(value, str | bytes):
        return "text"
    try:
        cells = np.asarray(value)
    except ValueError:  # lists of several lengths
        return "JSON"
    is_plain = cells.dtype.kind != "O" or all(isinstance(cell, str) for cell in cells.flat)
    return _KINDS.get(cells.dtype.kind, "JSON") if is_plain else "JSON"


def _cast(numbers: Values, dtype: NumpyDType) -> Values | None:
    """Return numbers as another type; None for what it does not hold: fractions in whole numbers, overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = numbers.astype(dtype)
    is_exact = dtype.kind not in "iu" or np.array_equal(found, numbers)
    return found if is_exact and np.array_equal(np.isfinite(found), np.isfinite(numbers)) else None


def _appended(spec: Spec, name: str, old: object, value: object) -> object:
    """Return an attribute with text, or further numbers, behind what it was."""
    if old is None:
        return fit_value(spec, name, value)
    if isinstance(old, str) or isinstance(value, str):
        if not isinstance(old, str) or not isinstance(value, str):
            raise Invalid(f"{name}: text and numbers do not join", remedy="set the whole attribute")
        return old + value
    before = np.atleast_1d(np.asarray(old))
    after = np.atleast_1d(np.asarray(value))
    if before.dtype.kind not in "iufc" or after.dtype.kind not in "iufc":
        raise Invalid(f"{name}: nothing is appended to such a value", remedy="set the whole attribute")
    cast = _cast(after, before.dtype)
    if cast is None:
        raise Invalid(f"{name} holds {before.dtype}, {value} does not fit", remedy="set the whole attribute")
    return np.concatenate([before, cast])


def _attributes_at(plan: EditPlan, specs: Mapping[str, Spec], place: str) -> list[tuple[str, str]]:
    """Return path and name of each attribute that is there by now; NotFound without any. The name may be a pattern."""
    paths, pattern = _split_place(plan, specs, place)
    names = {path: list(_attrs_of(plan, specs, path)) for path in paths}
    found = [(path, name) for path in paths for name in names[path] if fnmatchcase(name, pattern)]
    if not found:
        known = dict.fromkeys(name for path in paths for name in names[path])
        raise NotFound(f"no attribute {place!r}", node=paths[0], remedy=meant(pattern, known))
    return found


def _split_place(plan: EditPlan, specs: Mapping[str, Spec], place: str) -> tuple[list[str], str]:
    """Return the paths of the nodes that ``path:name`` stands for, and the name. Of variables that are renamed the new
    path stands where no variable had it before."""
    pattern, mark, name = place.rpartition(":")
    if not mark or not name:
        raise Invalid(f"{place!r} names no attribute", remedy="write PATH:NAME, or :NAME for one of the whole dataset")
    bare = pattern.strip("/")
    if bare in specs and specs[bare].is_group:
        return [bare], name
    arrays = [path for path, spec in specs.items() if spec.is_array]
    found = [path for path in arrays if is_match(path, pattern)]
    found = found or [path for path, new in plan.moves.items() if is_match(new, pattern)]
    if not found:
        known = [*arrays, *plan.moves.values()]
        raise NodeNotFound(f"no variable is named {pattern!r}", remedy=meant(pattern, known))
    return found, name


def _attrs_of(plan: EditPlan, specs: Mapping[str, Spec], path: str) -> Attrs:
    return plan.attrs.get(path, specs[path].attrs)


# -- dimensions --------------------------------------------------------------------------------------------------------


def _plan_dimensions(plan: EditPlan, specs: Mapping[str, Spec], renames: Mapping[str, str]) -> None:
    new_names: dict[tuple[str, str], str] = {}  # by the group that a dimension belongs to, and its old name
    first_names: dict[str, dict[int, str]] = {}  # by array and axis
    for place, new in renames.items():
        scope, old = split(place.rstrip("/"))
        if not new or "/" in new:
            raise Invalid(f"{new!r} is no name of a dimension", remedy="write OLD=NEW, with a plain new name")
        owners = {_owner(specs, path, old) for path, spec in _arrays(specs) if old in spec.dims}
        owners |= {path for path, spec in specs.items() if spec.is_group and any(d.name == old for d in spec.dims)}
        if "/" in place:
            owners = {owner for owner in owners if owner == scope.strip("/")}
        unnamed = [] if owners else _find_unnamed(specs, old, scope.strip("/") if "/" in place else None)
        for path, axis in unnamed:
            first_names.setdefault(path, {})[axis] = new
        if unnamed:
            plan.is_naming = True
            count = f"{len(unnamed)} array{'s' if len(unnamed) > 1 else ''}"
            plan.lines.append(f"dimension {place}, which has no name in {count}, is called {new} now")
        elif not owners:
            known = {dim for _, spec in _arrays(specs) for dim in axis_names(spec.dims)}
            raise NotFound(f"no dimension {place!r}", remedy=meant(old, sorted(known)))
        new_names |= {(owner, old): new for owner in owners}
    for (owner, old), new in new_names.items():
        if old != new:
            plan.dims.append(DimensionRename(owner, old, new))
            plan.lines.append(f"dimension {child(owner, old)} is called {new} now")
    for path, spec in _arrays(specs):
        first = first_names.get(path, {})
        dims = tuple(
            first.get(axis) if dim is None else new_names.get((_owner(specs, path, dim), dim), dim)
            for axis, dim in enumerate(spec.dims)
        )
        if dims != spec.dims:
            plan.axes[path] = dims
        _refuse_merged(path, [dim or axis_names(spec.dims)[axis] for axis, dim in enumerate(spec.dims)], dims)
    for group, above in specs.items():
        if above.is_group:
            declared = [dim.name for dim in above.dims]
            _refuse_merged(group, declared, [new_names.get((group, name), name) for name in declared])
    _refuse_taken_dimensions(plan, specs, new_names)


def _find_unnamed(specs: Mapping[str, Spec], word: str, group: str | None) -> list[tuple[str, int]]:
    """Return the arrays, and their axes, of which ``word`` is the place of a dimension without a name, such as
    ``dim_0``; ``group``: of those in it alone."""
    arrays = [(path, spec) for path, spec in _arrays(specs) if group in (None, split(path)[0])]
    axes = [(path, spec, find_axis(spec.dims, word)) for path, spec in arrays]
    return [(path, axis) for path, spec, axis in axes if axis is not None and spec.dims[axis] is None]


def _refuse_merged(path: str, old: Iterable[str | None], new: Iterable[str | None]) -> None:
    """Raise AlreadyExists where two names become one."""
    seen: dict[str | None, str | None] = {}
    for was, name in zip(old, new, strict=True):
        if name is not None and seen.setdefault(name, was) != was:
            raise AlreadyExists(f"there is a dimension {name!r}", node=path, remedy="rename that as well")


def _refuse_taken_dimensions(
    plan: EditPlan, specs: Mapping[str, Spec], new_names: Mapping[tuple[str, str], str]
) -> None:
    """Raise AlreadyExists where arrays that see a renamed dimension run along another one of the new name."""
    for rename in plan.dims:
        for path, spec in _arrays(specs):
            kept = [dim for dim in spec.dims if dim is not None and (_owner(specs, path, dim), dim) not in new_names]
            if rename.new in kept and is_within(path, rename.group):
                message = f"/{path} runs along a dimension {rename.new!r} already"
                raise AlreadyExists(message, node=path, remedy="rename that as well, or choose another name")


def _owner(specs: Mapping[str, Spec], path: str, dim: str) -> str:
    """Return the group that declares a dimension of an array; where none does, the outermost whose arrays have it."""
    for group in outward(split(path)[0]):
        spec = specs.get(group)
        if spec is not None and spec.is_group and any(each.name == dim for each in spec.dims):
            return group
    return ""


def _arrays(specs: Mapping[str, Spec]) -> Iterator[tuple[str, ArraySpec]]:
    for path, spec in specs.items():
        if spec.is_array:
            yield path, spec


# -- variables ---------------------------------------------------------------------------------------------------------


def _plan_variables(plan: EditPlan, specs: Mapping[str, Spec], taken: set[str], renames: Mapping[str, str]) -> None:
    for place, name in renames.items():
        path = place.strip("/")
        if path not in specs or not specs[path].is_array:
            known = [each for each, _ in _arrays(specs)]
            raise NodeNotFound(f"no variable is named {place!r}", remedy=meant(path, known))
        new = child(split(path)[0], check_name(name))
        if new != path:
            plan.moves[path] = new
            plan.lines.append(f"/{path} is called {name} now")
    left = taken - plan.moves.keys()
    for path, new in plan.moves.items():
        if new in left or list(plan.moves.values()).count(new) > 1:
            remedy = "choose another name, or rename that as well"
            raise AlreadyExists(f"/{new} exists", node=path, remedy=remedy)


# -- what names them ---------------------------------------------------------------------------------------------------

_KEYS_NAME = frozenset({"grid_mapping", "cell_methods", "coordinate_interpolation"})
"""Those of which words with a colon name variables too: in ``cell_measures`` and ``formula_terms`` they are keys."""
_DIMENSIONS = frozenset(
    {
        *("compress", "sample_dimension", "instance_dimension", "cell_methods", "node_dimension", "face_dimension"),
        *("edge_dimension", "volume_dimension", "node_dimensions", "face_dimensions"),
    }
)
"""Attributes whose words name dimensions."""
_WORD = re.compile(r"([^\s:()]+)(:?)")


def _follow(plan: EditPlan, specs: Mapping[str, Spec]) -> None:
    """Change the attributes that name what got another name; say which coordinates are none any more."""
    for path in specs:
        attrs = dict(_attrs_of(plan, specs, path))
        for name, value in attrs.items():
            named = names_in_attribute(name, value, attrs)
            if isinstance(value, str) and (named or name in _DIMENSIONS):
                new = _renamed_words(plan, specs, path, name, value, named)
                if new != value:
                    attrs[name] = new
                    plan.lines.append(f"{_shown(path, name)} follows: {_text(new)}, it was {_text(value)}")
                    plan.attrs[path] = attrs
    for path, spec in _arrays(specs):
        if spec.dims == (split(path)[1],):
            dims, called = plan.axes.get(path, spec.dims), split(plan.moves.get(path, path))[1]
            if dims != (called,):
                remedy = f"rename the {'variable' if path not in plan.moves else 'dimension'} as well to keep it"
                plan.lines.append(f"note: {called} is the coordinate of {dims[0]} no more; {remedy}")


def _renamed_words(
    plan: EditPlan, specs: Mapping[str, Spec], path: str, name: str, text: str, named: Collection[str]
) -> str:
    """Return the text of an attribute with the new names of the variables in it, which are among those ``named``, and
    of dimensions."""
    folder = path if specs[path].is_group else split(path)[0]
    dims = {rename.old: rename for rename in plan.dims if is_within(folder, rename.group)}
    spec = specs[path]
    axes = spec.dims if isinstance(spec, ArraySpec) and name in _DIMENSIONS else ()

    def renamed(match: re.Match[str]) -> str:
        word, colon = match[1], match[2]
        # a method is of a dimension where there is one of the name, else of a coordinate without one
        is_name = word in named or name == "cell_methods"
        if is_name and word not in axes and not (colon and name not in _KEYS_NAME):
            for group in [""] if word.startswith("/") else outward(folder):
                place = child(group, word.strip("/"))
                if place in specs:
                    new = plan.moves.get(place)
                    if new is not None:
                        kept = word[: len(word) - len(split(place)[1])]
                        return f"{kept}{split(new)[1]}{colon}"
                    break
        if name in _DIMENSIONS and word in dims:
            return f"{dims[word].new}{colon}"
        return match[0]

    return _WORD.sub(renamed, text)


# -- words -------------------------------------------------------------------------------------------------------------


def _shown(path: str, name: str) -> str:
    return f"{'/' + path if path else ''}:{name}"


# Letters of a value that a line shows.
_LONGEST = 60


def _text(value: Any) -> str:
    """Return a value as a line shows it."""
    if isinstance(value, np.ndarray | np.generic):
        text = f"{np.asarray(value).tolist()} ({np.asarray(value).dtype})"
    else:
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
