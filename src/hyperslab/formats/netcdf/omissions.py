"""What an HDF5 file holds that netCDF has no type for, so that no reader of netCDF sees it.

Files of NWB are full of it: references in cells, in fields of rows and in attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperslab.errors import Problem
from hyperslab.formats.base import Feature
from hyperslab.formats.netcdf import parsing
from hyperslab.formats.netcdf.named import holds_references
from hyperslab.formats.netcdf.opened import NON_COORDINATE, OpenedFile
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def omitted(opened: OpenedFile, path: str, spec: GroupSpec | ArraySpec) -> Iterator[Problem]:
    """The attributes of a node that ``spec`` lacks, and the datasets right below it that are no variables."""
    is_group = isinstance(spec, GroupSpec)
    stored = opened.hdf5_group(path) if is_group else opened.hdf5_dataset(path)
    if stored is None:
        return
    for name in stored.attrs:
        if name not in spec.attrs and name not in parsing.HIDDEN:
            kind = stored.attrs.get_id(name).get_type()
            yield Problem(path, _feature(kind), f"the attribute {name!r} {_WORDS[_feature(kind)]} is left out")
    for name, handle in _datasets(stored) if is_group else ():
        shown = name.removeprefix(NON_COORDINATE)
        if opened.variable(child(path, shown)) is None and shown not in parsing.children(opened, path):
            kind = handle.get_type()
            yield Problem(child(path, shown), _feature(kind), f"the array {_WORDS[_feature(kind)]} is left out")


_WORDS = {
    Feature.REFERENCES: "of HDF5 references, which netCDF does not know,",
    Feature.USER_TYPES: "of an HDF5 type that netCDF does not know",
}


def _feature(kind: Any) -> Feature:
    return Feature.REFERENCES if holds_references(kind) else Feature.USER_TYPES


def _datasets(group: Any) -> Iterator[tuple[str, Any]]:
    """Name and handle of each dataset in an h5py group that is more than the name of a dimension."""
    from h5py import Dataset

    for name, node in group.items():
        if isinstance(node, Dataset) and not bytes(node.attrs.get("NAME", b"")).startswith(_NO_VARIABLE):
            yield name, node.id
