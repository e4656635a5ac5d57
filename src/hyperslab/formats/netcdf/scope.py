"""Dimensions and types by the rule of netCDF-4: declared in a group, seen in it and below, the nearest one counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.hdf5.types import Place
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Enum, Extension, Opaque, VlenArray, numpy_dtype, tag_of
from hyperslab.model.paths import outward

T = TypeVar("T")


@dataclass
class DeclaredDimensions(Generic[T]):
    """What groups declare, in order."""

    items: dict[Place, T] = field(default_factory=dict)

    def find(self, group: str, name: str) -> Place | None:
        """Where ``name`` is declared, as seen from ``group``."""
        return next(((above, name) for above in outward(group) if (above, name) in self.items), None)

    def of(self, group: str) -> dict[str, T]:
        """What this group itself declares."""
        return {name: item for (owner, name), item in self.items.items() if owner == group}

    def forget(self, group: str) -> None:
        """Forget what this group declares."""
        self.items = {place: item for place, item in self.items.items() if place[0] != group}


class Dimensions(DeclaredDimensions[Dimension]):
    """The dimensions of a file; unlimited ones grow."""

    def find_of(self, group: str, name: str, size: int) -> Place | None:
        """Where the dimension of an array is declared, which may be called apart from others of its name."""
        plain, other = self._of_length(group, name, size), self.find(group, add_suffix(name, size))
        return plain if plain is None or other is None else other

    def _of_length(self, group: str, name: str, size: int) -> Place | None:
        """Return the nearest dimension of this name and length, else of this name."""
        named = [(above, name) for above in outward(group) if (above, name) in self.items]
        return next((place for place in named if self.items[place].size == size), named[0] if named else None)

    def place_of(self, group: str, name: str, size: int) -> tuple[Place, Dimension | None]:
        """Where an array in ``group`` finds its dimension, and the new one when it brings it along.

        An unlimited one takes a longer array (and grows) or one of length 0 (which is as long as it is). One of another
        length further out is hidden by a new one; in the same group that is Invalid.
        """
        place = self.find(group, name)
        if place is not None:
            known = self.items[place]
            if known.size == size or (known.unlimited and (known.size < size or not size)):
                return place, None
            if place[0] == group:
                raise Invalid(
                    f"dimension {name!r} has length {known.size} here, not {size}",
                    remedy="arrays of a netCDF file share their dimensions: give it another name",
                )
        return (group, name), Dimension(name, size)


class Types(DeclaredDimensions[Extension]):
    """The named types of a file."""

    def place_of(self, group: str, name: str, kind: Extension) -> tuple[Place, bool]:
        """Where an array in ``group`` finds its type, and whether it must be made there first."""
        for above in outward(group):
            for known, other in self.of(above).items():
                if other == kind:
                    return (above, known), False
        if (group, name) in self.items:
            raise Invalid(f"the group has another type named {name!r}", remedy="give the type another name")
        return (group, name), True

    def kind_of(self, group: str, dtype: np.dtype[Any]) -> Extension:
        """The type of an attribute's values: the one that they are tagged with; else one of such cells that is seen
        from the group; else a new one, ``attribute_<n>_t``."""
        kind = tag_of(dtype)
        if kind is not None and getattr(kind, "name", None) != "":
            return kind
        for above in outward(group):
            for known in self.of(above).values():
                if isinstance(known, Opaque | Compound) and numpy_dtype(known) == dtype:
                    return known
        number = 1
        while self.find(group, name := f"attribute_{number}_t") is not None:
            number += 1
        if isinstance(kind, Enum | Opaque | VlenArray | Compound):
            return replace(kind, name=name)
        return Opaque(dtype.itemsize, name) if dtype.names is None else Compound(dtype, name)
