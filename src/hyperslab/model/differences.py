"""What differs between two nodes, as problems of the second one: kind, shape, type, dimensions, attributes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hyperslab.errors import Problem
from hyperslab.model.attrs import Attrs, equal, untagged
from hyperslab.model.cells import same_type
from hyperslab.model.dims import is_made_up
from hyperslab.model.dtypes import describe
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec, Node


def differences(
    path: str, expected: Node, found: Node, *, dims: bool = True, either: bool = False, texts: bool = True
) -> list[Problem]:
    """Return how ``found`` differs from ``expected``; ``dims``: whether dimensions have names in both.

    A value of JSON, which has no type, and one of a type without a name may have got one in ``found``, and with
    ``either`` lost it there. ``texts``: whether text of netCDF's type ``string`` differs from that of ``char``.
    """
    if not isinstance(found, type(expected)):
        return [Problem(path, "kind", f"{type(found).__name__} in place of {type(expected).__name__}")]
    problems: list[Problem] = []
    if expected.is_array and found.is_array:
        problems += _attribute_differences(path, expected.attrs, found.attrs, either, texts)
        problems += _array_differences(path, expected, found, dims)
    elif expected.is_group and found.is_group:
        problems += _attribute_differences(path, expected.attrs, found.attrs, either, texts)
        problems += _type_differences(path, expected, found)
        unlimited = {dim.name for dim in expected.dims if dim.unlimited} - {
            dim.name for dim in found.dims if dim.unlimited
        }
        unlimited = {name for name in unlimited if not is_made_up(name)}
        if dims:
            problems += [Problem(path, "dimensions", f"{name!r} is no longer unlimited") for name in sorted(unlimited)]
    return problems


def _array_differences(path: str, expected: ArraySpec, found: ArraySpec, dims: bool) -> Iterator[Problem]:
    if expected.shape != found.shape:
        yield Problem(path, "shape", f"shape {found.shape}, not {expected.shape}")
    if not same_type(expected.dtype, found.dtype):
        yield Problem(path, "type", f"cells of type {describe(found.dtype)}, not {describe(expected.dtype)}")
    names = zip(expected.dims, found.dims, strict=False)
    if dims and any(not _same_dimension(name, new) for name, new in names):
        yield Problem(path, "dimensions", f"dimensions {found.dims}, not {expected.dims}")


def _same_dimension(name: str | None, new: str | None) -> bool:
    """Return True for equal names, and where one was none or made up."""
    return name in (None, new) or (is_made_up(name) and (new is None or is_made_up(new)))


def _type_differences(path: str, expected: GroupSpec, found: GroupSpec) -> Iterator[Problem]:
    for name, kind in expected.types.items():
        other = found.types.get(name)
        if other is None:
            yield Problem(path, "type", f"no type {name!r}")
        elif not same_type(kind, other):
            yield Problem(path, "type", f"the type {name!r} is {describe(other)}, not {describe(kind)}")


def _attribute_differences(path: str, expected: Attrs, found: Attrs, either: bool, texts: bool) -> list[Problem]:
    """Return attributes that are gone, new, or of another type or value."""
    problems = [Problem(path, "attribute", f"no attribute {name!r}") for name in expected if name not in found]
    problems += [Problem(path, "attribute", f"new attribute {name!r}") for name in found if name not in expected]
    shared = ((name, expected[name], found[name]) for name in expected if name in found)
    changed = [
        name
        for name, a, b in shared
        if not (_same_attribute(a, b) or (either and _same_attribute(b, a)) or (not texts and _same_text(a, b)))
    ]
    return problems + [
        Problem(path, "attribute", f"attribute {name!r} is {_shown(found[name])}, not {_shown(expected[name])}")
        for name in changed
    ]


def _same_text(expected: object, found: object) -> bool:
    """Return True for equal text of netCDF's types ``string`` (``np.str_``) and ``char``."""
    return isinstance(expected, str) and isinstance(found, str) and str(expected) == str(found)


def _shown(value: object) -> str:
    return f"-> {value}" if isinstance(value, ObjectReference | RegionReference) else repr(value)


def _same_attribute(expected: object, found: object) -> bool:
    """Return True for attributes that are equal in type and value, as far as formats tell types of attributes apart.

    A value without a type (a number of JSON), or without a named one, may have got one; a list of one number may have
    become that number, text of a fixed length text of any, and a boolean of NumPy one of Python.
    """
    expected, found = (bool(value) if isinstance(value, np.bool_) else value for value in (expected, found))
    if equal(expected, found) or equal(expected, untagged(found)):
        return True
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray | np.generic):
        if expected.dtype.kind in "UT" and found.dtype.kind in "UT" and expected.shape in (found.shape, (1,)):
            return expected.reshape(-1).tolist() == np.asarray(found).reshape(-1).tolist()
        is_number = expected.shape == (1,) and found.shape == () and expected.dtype.kind in "biufc"
        return is_number and equal(expected[0], np.asarray(found)[()])
    if isinstance(expected, np.ndarray | np.generic | str) or not isinstance(found, np.ndarray | np.generic):
        return False
    values = list(expected) if isinstance(expected, list | tuple) else [expected]
    return equal(values, np.asarray(found).reshape(-1).tolist())
