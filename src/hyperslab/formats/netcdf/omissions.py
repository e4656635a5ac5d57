"""What an HDF5 file holds and is not shown: references, which netCDF has no type for, and rows with long fields.

Files of NWB are full of references: in cells, in fields of rows and in attributes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hyperslab.errors import Problem
from hyperslab.formats.base import NAME_PROBLEM, Feature
from hyperslab.formats.hdf5.types import describe_hdf5_type, holds_references
from hyperslab.formats.netcdf import parsing
from hyperslab.formats.netcdf.opened import OpenedFile
from hyperslab.formats.netcdf.scale_tree import NON_COORDINATE
from hyperslab.model.paths import child, is_name
from hyperslab.model.spec import ArraySpec, GroupSpec


def omitted(opened: OpenedFile, path: str, spec: GroupSpec | ArraySpec) -> Iterator[Problem]:
    """Return the attributes and types of a node that ``spec`` lacks, and the datasets right below it that are no
    variables."""
    is_group = isinstance(spec, GroupSpec)
    if is_group:
        yield from _badly_named(opened, path)
    stored = opened.hdf5_group(path) if is_group else opened.hdf5_dataset(path)
    if stored is None:
        return
    group = path if is_group else path.rpartition("/")[0]
    for name in stored.attrs:
        if name not in spec.attrs and name not in parsing.HIDDEN:
            yield _left_out(opened, path, group, f"the attribute {name!r}", stored.attrs.get_id(name).get_type())
    if not isinstance(spec, GroupSpec):
        return
    for name, handle in _datasets(stored):
        shown = name.removeprefix(NON_COORDINATE)
        if opened.variable(child(path, shown)) is None and shown not in parsing.children(opened, path):
            yield _left_out(opened, child(path, shown), group, "the array", handle.get_type())
    for name, handle in opened.types.unread(path).items():
        if name not in spec.types:
            message = f"the type {name!r}, {describe_hdf5_type(handle)}, which is not read here, is left out"
            yield Problem(path, Feature.USER_TYPES, message)


def _badly_named(opened: OpenedFile, path: str) -> Iterator[Problem]:
    """Return variables and groups whose names lead to no node: netCDF-3 takes any text for one, the empty one too."""
    group = opened.group(path)
    for what, names in (("variable", group.variables), ("group", group.groups)):
        for name in itertools.filterfalse(is_name, names):
            message = (
                f"the {what} {name!r} is left out: a name is not empty, '.' or '..', and holds no slash or backslash"
            )
            yield Problem(path, NAME_PROBLEM, message)


def _left_out(opened: OpenedFile, node: str, group: str, what: str, kind: Any) -> Problem:
    text = opened.types.describe(group, kind)
    if holds_references(kind):
        words = f"of HDF5 references, which netCDF does not know, is left out ({text})"
        return Problem(node, Feature.REFERENCES, f"{what} {words}")
    return Problem(node, Feature.USER_TYPES, f"{what} of a type that is not read here is left out ({text})")


def _datasets(group: Any) -> Iterator[tuple[str, Any]]:
    """Name and handle of each dataset in an h5py group that is more than the name of a dimension."""
    from h5py import Dataset

    for name, node in group.items():
        if isinstance(node, Dataset) and not parsing.is_bare_dimension(node):
            yield name, node.id
