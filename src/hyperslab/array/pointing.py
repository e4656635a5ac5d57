"""What an array has to do with references: one to itself, those to regions of it, and the cells of a region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from hyperslab.array.cells import CellAccess
from hyperslab.array.references import reference_to, region_to
from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Region
from hyperslab.model.spec import ArraySpec


class RegionReferences:
    """``array.regionref[key]``: a reference to the cells of ``array[key]``, as in h5py."""

    def __init__(self, make: Callable[[Any], RegionReference]) -> None:
        self._make = make

    def __getitem__(self, key: Any) -> RegionReference:
        return self._make(key)


class Pointed(Protocol):
    """What is used of an array."""

    _session: OpenDataset

    @property
    def path(self) -> str: ...
    @property
    def spec(self) -> ArraySpec: ...
    @property
    def _cells(self) -> CellAccess: ...
    def _positions(self, key: Any) -> Any: ...


class PointsAt:
    """The part of an array that references use."""

    @property
    def ref(self: Pointed) -> ObjectReference:
        """A reference to the array: a value of attributes and cells where the format has such."""
        return reference_to(self._session, self.path, self.spec)

    @property
    def regionref(self: Pointed) -> RegionReferences:
        """``a.regionref[key]`` refers to the cells of ``a[key]``, labels as in ``[]``; growth does not move them.

        SelectionError for a key that no region says, such as a slice that runs backwards.
        """
        from hyperslab.selection.regions import region_of_key

        def make(key: Any) -> RegionReference:
            region = region_of_key(self._positions(key), self.spec.shape)
            return region_to(self._session, self.path, self.spec, region)

        return RegionReferences(make)

    def read_region(self: Pointed, region: Region) -> np.ndarray[Any, Any]:
        """The cells of a region: an array of as many dimensions for slices and orthogonal ones, else of one.

        Only the chunks that hold them are decoded. RegionOutOfBounds when the array has become too small for it.
        """
        from hyperslab.array.region_reading import read_region

        return read_region(self._cells, region)

    def isel_of(self: Pointed, region: Region) -> Mapping[str | int, Any]:
        """What ``isel`` takes for the same cells: a slice or a list of positions for each dimension, by its name or by
        its number where it has none. Invalid for a region that is no product of axes, RegionOutOfBounds as above."""
        from hyperslab.selection.region_bounds import isel_of, require_fits

        try:
            require_fits(region, self.spec.shape)
            return isel_of(region, self.spec.dims)
        except HyperslabError as error:
            raise error.locate(node=self.path, url=self._session.url) from None
