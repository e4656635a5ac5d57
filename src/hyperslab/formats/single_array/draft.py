"""The arrays of a dataset that is being made or changed, and which of them the others are coordinates of. Pure.

The one array follows from all of them; while the first ones are made it may be open which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from hyperslab.chunks.auto import whole_chunks
from hyperslab.errors import Invalid, NodeNotFound
from hyperslab.formats.single_array.document import LabelledArray, StoredCoordinate, text_not_main
from hyperslab.formats.single_array.reader import MOST_COORDINATE_BYTES, coordinate_bytes, resize_cells
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import VlenString, describe
from hyperslab.model.spec import ArraySpec, GroupSpec


def main_array(specs: Mapping[str, ArraySpec]) -> str:
    """Return the array that the others are coordinates of; Invalid lists them when there are several."""
    others = main_arrays(specs)
    if len(others) == 1:
        return others[0]
    names = ", ".join(others or specs)
    raise Invalid(
        f"this format holds one array with its coordinates, here are {len(others or specs)}: {names}",
        remedy="choose one (path=, or save a DataArray)",
    )


def main_array_or_none(specs: Mapping[str, ArraySpec]) -> str | None:
    """Return that array; None while there is none, or several could be it."""
    others = main_arrays(specs)
    return others[0] if len(others) == 1 else None


def main_arrays(specs: Mapping[str, ArraySpec]) -> list[str]:
    """Return those of one group's arrays that are no coordinates of another."""
    if len(specs) == 1:
        return list(specs)
    return [name for name, spec in specs.items() if not _is_coordinate(name, spec, specs)]


def _is_coordinate(name: str, spec: ArraySpec, specs: Mapping[str, ArraySpec]) -> bool:
    others = [other for other_name, other in specs.items() if other_name != name]
    if spec.dims == (name,):
        return any(name in other.dims for other in others)
    return spec.shape == () or any(name in names_in(other, "coordinates", "bounds") for other in others)


def names_in(spec: ArraySpec, *attributes: str) -> list[str]:
    """Return the names of arrays in some of an array's attributes, which list them as text."""
    return [name for attribute in attributes for name in str(spec.attrs.get(attribute, "")).split()]


@dataclass
class SingleArrayDraft:
    """The arrays of a dataset that is being made or changed, and their group.

    ``main``: the array that the others are coordinates of, once that is decided; ``cells``: those of the others, where
    the format has them in memory.
    """

    main: str | None = None
    group: GroupSpec = field(default_factory=GroupSpec)
    specs: dict[str, ArraySpec] = field(default_factory=dict)
    cells: dict[str, Values] = field(default_factory=dict)

    @classmethod
    def of(cls, labelled: LabelledArray) -> Self:
        """Return the documents of a dataset that is there."""
        specs = {labelled.name: labelled.spec} | {name: each.spec for name, each in labelled.coords.items()}
        cells = {name: each.cells for name, each in labelled.coords.items()}
        return cls(labelled.name, labelled.group, specs, cells)

    def copy(self) -> Self:
        """Return the same draft, to come back to; cells are never changed in place."""
        return replace(self, specs=dict(self.specs), cells=dict(self.cells))

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the node at ``path``; NodeNotFound."""
        if not path:
            return replace(self.group, dims=self._dims())
        if path not in self.specs:
            raise NodeNotFound(f"there is no /{path}", node=path)
        return self.specs[path]

    def _dims(self) -> tuple[Dimension, ...]:
        """Return the declared dimensions, as long as the array is."""
        spec = self.specs.get(self.main or "")
        if spec is None:
            return self.group.dims
        lengths: dict[str | None, int] = dict(zip(spec.dims, spec.shape, strict=True))
        return tuple(replace(dim, size=lengths.get(dim.name, dim.size)) for dim in self.group.dims)

    def grows(self, axis: int) -> bool:
        """Return True if the array is to get longer along ``axis``: its dimension is unlimited."""
        spec = self.specs.get(self.main or "")
        name = spec.dims[axis] if spec is not None and spec.dims else None
        return any(dim.name == name and dim.unlimited for dim in self.group.dims)

    @property
    def coords(self) -> dict[str, StoredCoordinate]:
        """The arrays whose cells are in memory, in the order in which they were made."""
        return {name: self._coordinate(name) for name in self.specs if name in self.cells}

    def _coordinate(self, path: str) -> StoredCoordinate:
        spec = self.specs[path]
        return StoredCoordinate(spec.evolve(chunks=whole_chunks(spec.shape), codecs=()), self.cells[path])

    def labelled_so_far(self) -> LabelledArray:
        """Return what is known of the main array by now."""
        path = self.main or ""
        group = GroupSpec(attrs=self.group.attrs, dims=self._dims())
        return LabelledArray(path, self.specs[path], self.coords, group)

    def labelled(self, format: str, main: str | None = None) -> LabelledArray:
        """Return the whole dataset; Invalid lists the arrays when there are several, Unsupported for one of text.

        ``format``: its name, for the error. ``main``: the one that it is, where that is known.
        """
        name = main or main_array(self.specs)
        spec = self.specs[name]
        if isinstance(spec.dtype, VlenString):
            raise text_not_main(format, name)
        coords = {path: self._coordinate(path) for path in self.specs if path != name}
        unlimited = tuple(dim for dim in self._dims() if dim.unlimited and dim.name in spec.dims)
        return LabelledArray(name, spec, coords, GroupSpec(attrs=self.group.attrs, dims=unlimited))

    def put_coordinate(self, path: str, spec: ArraySpec, cells: Values | None = None) -> None:
        """Make or change an array whose cells are in memory: ``cells``, else those that it had, as far as they fit.

        Its spec keeps chunks and codecs: what is a coordinate now may turn out to be the one array.
        """
        old = self.cells.get(path) if cells is None else cells
        new = spec.filled()
        if old is not None and old.dtype == new.dtype and old.ndim == new.ndim:
            new = resize_cells(old, spec)
        self.specs[path] = spec
        self.cells[path] = new

    def rename(self, source: str, target: str) -> None:
        """Give an array another name; it keeps its place among the others."""
        self.node(source)
        self.specs = {target if name == source else name: spec for name, spec in self.specs.items()}
        if source in self.cells:
            self.cells[target] = self.cells.pop(source)
        if self.main == source:
            self.main = target

    def drop(self, path: str) -> None:
        """Forget an array."""
        self.node(path)
        del self.specs[path]
        self.cells.pop(path, None)
        if path == self.main:
            self.main = None


def check_small(spec: ArraySpec, path: str) -> None:
    """Raise Invalid for an array that is too large to be a coordinate."""
    if coordinate_bytes(spec) > MOST_COORDINATE_BYTES:
        message = f"{spec.shape} cells of {describe(spec.dtype)} beside another array: this format holds one array"
        remedy = "coordinates may take 64 MiB; choose one array (path=), or use a .zarr folder"
        raise Invalid(message, node=path, remedy=remedy)
