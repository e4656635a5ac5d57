"""The documents of a dataset that is being written: one array, and its coordinates with their cells. Pure.

Which array is the one that the others belong to follows from all of them; while the first ones are made it may be open.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Self

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.errors import Invalid, NodeNotFound
from hyperslab.formats.in_memory import resized
from hyperslab.formats.one_array import Labelled, StoredCoordinate, main_array, no_text
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import VlenString, describe
from hyperslab.model.spec import ArraySpec, GroupSpec

SMALL = 64 << 20
"""Bytes that the cells of a coordinate may take: they stand in the metadata."""

Values = np.ndarray[Any, Any]


@dataclass
class BloscpackDraft:
    """``main``: the array whose cells are chunks of the file; ``cells``: those of all others."""

    main: str | None = None
    group: GroupSpec = field(default_factory=GroupSpec)
    specs: dict[str, ArraySpec] = field(default_factory=dict)
    cells: dict[str, Values] = field(default_factory=dict)

    @classmethod
    def of(cls, labelled: Labelled) -> Self:
        """The documents of a dataset that is there."""
        specs = {labelled.name: labelled.spec} | {name: each.spec for name, each in labelled.coords.items()}
        cells = {name: each.cells for name, each in labelled.coords.items()}
        return cls(labelled.name, labelled.group, specs, cells)

    def copy(self) -> Self:
        """The same, to come back to; cells are never changed in place."""
        return replace(self, specs=dict(self.specs), cells=dict(self.cells))

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """What lies at ``path``; NodeNotFound."""
        if not path:
            return replace(self.group, dims=self._dims())
        if path not in self.specs:
            raise NodeNotFound(f"there is no /{path}", node=path)
        return self.specs[path]

    def _dims(self) -> tuple[Dimension, ...]:
        """Declared dimensions, as long as the array is."""
        spec = self.specs.get(self.main or "")
        if spec is None:
            return self.group.dims
        lengths: dict[str | None, int] = dict(zip(spec.dims, spec.shape, strict=True))
        return tuple(replace(dim, size=lengths.get(dim.name, dim.size)) for dim in self.group.dims)

    def grows(self, axis: int) -> bool:
        """Return whether the array is to get longer along ``axis``: its dimension is unlimited."""
        spec = self.specs.get(self.main or "")
        name = spec.dims[axis] if spec is not None and spec.dims else None
        return any(dim.name == name and dim.unlimited for dim in self.group.dims)

    def labelled_so_far(self) -> Labelled:
        """What is known of the main array by now."""
        path = self.main or ""
        coords = {name: StoredCoordinate(self.specs[name], cells) for name, cells in self.cells.items()}
        return Labelled(path, self.specs[path], coords, GroupSpec(attrs=self.group.attrs, dims=self._dims()))

    def labelled(self, main: str | None = None) -> Labelled:
        """The whole dataset; Invalid lists the arrays when there are several, Unsupported for one of text.

        ``main``: the one that it is, where that is known.
        """
        name = main or main_array(self.specs)
        spec = self.specs[name]
        if isinstance(spec.dtype, VlenString):
            raise no_text("bloscpack", name)
        coords = {path: StoredCoordinate(each, self.cells[path]) for path, each in self.specs.items() if path != name}
        unlimited = tuple(dim for dim in self._dims() if dim.unlimited and dim.name in spec.dims)
        return Labelled(name, spec, coords, GroupSpec(attrs=self.group.attrs, dims=unlimited))

    def put_coordinate(self, path: str, spec: ArraySpec) -> None:
        """Make or change an array whose cells are in memory; those that it had stay, as far as they fit."""
        check_small(spec, path)
        old = self.cells.get(path)
        cells = spec.filled()
        if old is not None and old.dtype == cells.dtype and old.ndim == cells.ndim:
            cells = resized(old, spec)
        self.specs[path] = spec.evolve(chunks=whole_chunks(spec.shape), codecs=())
        self.cells[path] = cells

    def drop(self, path: str) -> None:
        """Forget an array."""
        self.node(path)
        del self.specs[path]
        self.cells.pop(path, None)
        if path == self.main:
            self.main = None


def check_small(spec: ArraySpec, path: str) -> None:
    """Invalid for an array that is too large to be a coordinate."""
    nbytes = prod(spec.shape) * max(spec.numpy_dtype.itemsize, 1)
    if nbytes > SMALL:
        message = f"{spec.shape} cells of {describe(spec.dtype)} beside another array: this format holds one array"
        remedy = "coordinates may take 64 MiB; choose one array (path=), or use a .zarr folder"
        raise Invalid(message, node=path, remedy=remedy)
