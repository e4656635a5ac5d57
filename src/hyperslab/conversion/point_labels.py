"""The labels of points, of dimensions that an array labels itself: scalar coordinates beside the array (CF 1.11, 5.7).

Where a coordinate array has the labels, its own cell of the point is that scalar.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.conversion.recoding import DerivedArray, DerivedArrays, DerivedChunks
from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.source_nodes import SourceNode, has_coordinate
from hyperslab.formats.base import Reader
from hyperslab.group.cf_variables import name_coordinates
from hyperslab.model.cells import Values
from hyperslab.model.dims import index_cells
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import child, is_name, split
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range

_log = logging.getLogger("hyperslab")
_SCALAR = ArraySelection((), (), ())


@dataclass(frozen=True, eq=False)
class PointLabel(DerivedArray):
    """The label of one position of a dimension, as the array ``spec`` with the one cell ``label`` (0-d)."""

    spec: ArraySpec
    label: Values

    def open_chunks(self, reader: Reader) -> DerivedChunks:
        """Return the label as the only chunk."""
        return _LabelChunks(self.label)


class _LabelChunks(DerivedChunks):
    """One chunk of one cell."""

    def __init__(self, label: Values) -> None:
        self._label = label
        self.grid = Grid(())

    def read(self, coords: Coords) -> Block | None:
        """Return the label."""
        return self._label


def add_point_labels(items: Sequence[SourceNode]) -> tuple[list[SourceNode], DerivedArrays]:
    """Return the nodes with a scalar coordinate for each dimension of which one position is selected of an array that
    has the labels itself, named by the attribute ``coordinates`` of the array; and these coordinates by path.

    Where another node has the name, a warning says which label is left out.
    """
    arrays = {item.path: item.node for item in items if item.node.is_array}
    taken = {item.path for item in items}
    found: dict[str, PointLabel] = {}
    scalars: list[SourceNode] = []
    labelled = []
    for item in items:
        folder = split(item.path)[0]
        names = []
        for dim, label in _find_point_labels(item).items():
            size = dict(zip(item.node.dims, item.node.shape, strict=True))[dim] if item.node.is_array else 0
            if has_coordinate(arrays, folder, dim, size):
                continue
            place, origin = child(folder, dim), child(split(item.origin)[0], dim)
            if not is_name(dim) or place in taken or (origin in found and found[origin].label != label.label):
                text = "/%s: the label %s of %s is left out, for /%s is another"
                _log.warning(text, item.path, label.label, dim, place)
                continue
            if origin not in found:
                found[origin] = label
                scalar = SourceNode(place, origin, label.spec, picked=_SCALAR, is_companion=True, keeps_codecs=False)
                scalars.append(scalar)
            names.append(dim)
        if names and item.node.is_array:
            item = replace(item, node=item.node.evolve(attrs=name_coordinates(item.node.attrs, names)))
        labelled.append(item)
    return labelled + scalars, found


def _find_point_labels(item: SourceNode) -> dict[str, PointLabel]:
    """Return by dimension the labels that an array has itself of positions that are selected alone."""
    if not item.node.is_array or item.picked is None:
        return {}
    found = {}
    for axis, dim in enumerate(item.node.dims):
        place = item.picked.axes[axis]
        is_own = dim is not None and dim in item.node.indexes
        if dim is not None and is_own and axis not in item.picked.kept and isinstance(place, Range):
            cells, attrs = index_cells(item.node.indexes[dim], [place.start])
            dtype = VlenString() if isinstance(cells.dtype, np.dtypes.StringDType) else cells.dtype
            found[dim] = PointLabel(ArraySpec(shape=(), dtype=dtype, chunks=(), attrs=attrs), cells.reshape(()))
    return found
