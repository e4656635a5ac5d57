"""Formats whose dataset is one array: its name, dimensions, attributes and coordinates as one JSON document. Pure.

The array and its coordinates (1-D arrays called as the dimension that they run along, scalars, and what the attributes
``coordinates`` and ``bounds`` name, CF 1.11 sections 5 and 7) look like the arrays of one group. Coordinates are small:
their cells stand in the document. Only what there is to say is in it::

    {"name": "air", "dims": ["time", null], "attrs": {"units": "K"}, "types": {}, "fill_value": -1.0,
     "coords": {"time": {"dtype": "<f8", "shape": [2], "dims": ["time"], "cells": [0.0, 6.0], "attrs": {…}}},
     "group": {"attrs": {"title": "…"}, "unlimited": ["time"]}}

Cells of more than 1,000 numbers, and structured ones, are base64 of their little-endian bytes under ``base64``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.formats.metadata_json.cells import base64_to_bytes, bytes_to_base64, cell_from_json, cell_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.formats.metadata_json.nodes import (
    array_from_json,
    array_to_json,
    attrs_from_json,
    attrs_to_json,
    get_object,
)
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import DataType, NumpyDType, VlenString, describe, numpy_dtype
from hyperslab.model.paths import check_name
from hyperslab.model.spec import ArraySpec, GroupSpec

DEFAULT = "data"
"""The name of an array that has none."""
KEYS = ("name", "dims", "attrs", "types", "fill_value", "coords", "group")
"""All that the document may hold."""
FEATURES = frozenset(Feature) - {
    Feature.GROUPS,
    Feature.ARRAYS,
    Feature.LINKS,
    Feature.REFERENCES,
    Feature.VLEN,
    Feature.USER_TYPES,
    Feature.CHAR,
    Feature.VARYING_CHUNKS,
    Feature.SHARDS,
    Feature.SPARSE,
    Feature.LABELS,
}
"""The features of such a format, unless it says otherwise; variable-length text is held in coordinates alone."""
NOTES = {
    Feature.GROUPS: "one array with its coordinates, and the attributes of their group",
    Feature.ARRAYS: "one array; its coordinates stand beside it",
    Feature.STRINGS: "in coordinates alone",
    Feature.LABELS: "coordinates say the same",
    Feature.UNLIMITED: "beside the array, with the names of dimensions",
}
"""Notes on features that such a format has in part, or lacks."""
STRING = "string"
# Numbers that stand as text in a document; more are base64, which is shorter and faster to read.
_MANY = 1000

Doc = dict[str, Any]
"""A JSON object that is made, or was parsed."""
Document = Mapping[str, Any]
"""A JSON object that is only read."""


@dataclass(frozen=True)
class StoredCoordinate:
    """A small array that stands in the document: its spec and all its cells."""

    spec: ArraySpec
    cells: Values


@dataclass(frozen=True)
class LabelledArray:
    """One array with its coordinates: ``group`` holds what is said of all of them."""

    name: str
    spec: ArraySpec
    coords: Mapping[str, StoredCoordinate] = field(default_factory=dict)
    group: GroupSpec = field(default_factory=GroupSpec)

    @property
    def names(self) -> list[str]:
        """The array, then its coordinates."""
        return [self.name, *self.coords]

    def node(self, path: str) -> GroupSpec | ArraySpec | None:
        """Return the group of all (``""``), the array, or a coordinate; None for anything else."""
        if not path:
            return self.group
        if path == self.name:
            return self.spec
        return self.coords[path].spec if path in self.coords else None


def text_not_main(format: str, node: str) -> Unsupported:
    """Return the error for text of any length that is the main array."""
    remedy = "make it a coordinate, or give text of a fixed length, such as dtype='U20'"
    return Unsupported(f"format {format} holds text of any length in coordinates alone", node=node, remedy=remedy)


# -- to JSON ------------------------------------------------------------------------------------------------------


def labels_to_json(labelled: LabelledArray) -> Doc:
    """Return the document, without what goes without saying; Unsupported for cells that JSON cannot hold."""
    spec = labelled.spec
    doc: Doc = {} if labelled.name == DEFAULT else {"name": labelled.name}
    doc |= array_to_json(spec)
    coords: Doc = {}
    for name, coordinate in labelled.coords.items():
        spec = coordinate.spec
        try:
            dtype = STRING if isinstance(spec.dtype, VlenString) else dtype_to_json(spec.numpy_dtype)
        except TypeError as error:
            raise Unsupported(f"coordinate {name!r}: {error}") from None
        coords[name] = {"dtype": dtype, "shape": list(spec.shape)} | array_to_json(spec)
        coords[name] |= cells_to_json(coordinate.cells)
    if coords:
        doc["coords"] = coords
    group = attrs_to_json(labelled.group.attrs)
    unlimited = [dim.name for dim in labelled.group.dims if dim.unlimited]
    if unlimited:
        group["unlimited"] = unlimited
    if group:
        doc["group"] = group
    return doc


def cells_to_json(cells: Values) -> Doc:
    """Return the cells of a coordinate as they stand in the document."""
    if cells.dtype.kind in "OT":
        return {"cells": [str(cell) for cell in cells.flat]}
    if cells.size > _MANY or cells.dtype.kind == "V":
        return {"base64": bytes_to_base64(np.ascontiguousarray(cells, _little(cells.dtype)).tobytes())}
    return {"cells": [cell_to_json(cell) for cell in cells.reshape(-1)]}


def _little(dtype: NumpyDType) -> NumpyDType:
    return dtype.newbyteorder("<") if dtype.names is None else dtype


# -- from JSON ----------------------------------------------------------------------------------------------------


def is_label(key: str, value: object) -> bool:
    """Return True if a key of ours has the kind of value that we write; one of another kind is a user's own word."""
    match key:
        case "name":
            return isinstance(value, str)
        case "dims":
            return isinstance(value, list)
        case "coords":
            return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
        case "attrs" | "types" | "group":
            return isinstance(value, dict)
    return key in KEYS


def labels_from_json(doc: Document, spec: ArraySpec) -> LabelledArray:
    """Return the array with all that the document says of it; ``spec`` holds what the format itself knows.

    FormatError for what makes no sense.
    """
    try:
        name = doc.get("name", DEFAULT)
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name of an array")
        group = get_object(doc, "group")
        coords = {
            each: _coordinate_from_json(get_object(coords, each))
            for coords in [get_object(doc, "coords")]
            for each in coords
        }
        # Names come from a file that anyone may have made: those that could be no node are refused.
        if check_name(name) in map(check_name, coords):
            raise TypeError(f"a coordinate is called {name!r}, as the array is")
        main = array_from_json(doc, spec)
        names = [dim for dim in main.dims if dim is not None]
        unlimited = group.get("unlimited", [])
        dims = tuple(
            Dimension(dim, main.shape[main.dims.index(dim)], unlimited=True) for dim in names if dim in unlimited
        )
        return LabelledArray(name, main, coords, GroupSpec(attrs=attrs_from_json(group), dims=dims))
    except FormatError as error:
        raise FormatError(f"the labels make no sense: {error.message}") from error
    except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
        raise FormatError(f"the labels make no sense: {error}") from error


def _coordinate_from_json(doc: Document) -> StoredCoordinate:
    dtype: DataType = VlenString() if doc["dtype"] == STRING else dtype_from_json(doc["dtype"])
    shape = tuple(doc["shape"])
    if any(type(length) is not int or length < 0 for length in shape):
        raise TypeError(f"{shape} is no shape")
    spec = ArraySpec(shape=shape, dtype=dtype, chunks=whole_chunks(shape))
    cells = cells_from_json(doc, spec)
    return StoredCoordinate(array_from_json(doc, spec), cells)


def cells_from_json(doc: Document, spec: ArraySpec) -> Values:
    """Return all cells; there must be as many as the shape says before any memory is taken."""
    dtype, size = spec.numpy_dtype, prod(spec.shape)
    if "base64" in doc:
        raw = base64_to_bytes(doc["base64"])
        if len(raw) != size * dtype.itemsize:
            raise TypeError(f"{len(raw)} bytes for {size} cells of {describe(spec.dtype)}")
        return np.frombuffer(raw, _little(dtype)).astype(dtype).reshape(spec.shape)
    values = doc["cells"]
    if not isinstance(values, list) or len(values) != size:
        raise TypeError(f"there are not {size} cells")
    cells = np.empty(size, numpy_dtype(spec.dtype))
    if isinstance(spec.dtype, VlenString):
        if not all(isinstance(cell, str) for cell in values):
            raise TypeError("cells that are no text")
        cells[:] = values
    else:
        for i, cell in enumerate(values):
            cells[i] = cell_from_json(cell, dtype)
    return cells.reshape(spec.shape)
