"""The groups and dimensions of a netCDF-4 file that netCDF4 does not open, as h5py sees them.

HDF5 attaches the axes of a dataset to dimension scales, wherever these lie. netCDF4 looks for the dimensions of a
variable in its group and further out alone, and fails where one lies elsewhere. Here such a dimension is one of the
variable's own group, too: by its name, or by ``<name>_<length>`` where another of this name can be seen from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

NON_COORDINATE = "_nc4_non_coord_"
"""What the stored name of a variable begins with that is called like a dimension and does not run along it."""


class ScaleDimension:
    """A dimension, with the methods of netCDF4's own."""

    def __init__(self, group: ScaleGroup, name: str, size: int, *, unlimited: bool) -> None:
        self.name = name
        self.size = size
        self._group = group
        self._unlimited = unlimited

    def __len__(self) -> int:
        return self.size

    def isunlimited(self) -> bool:
        """Return whether the dimension grows."""
        return self._unlimited

    def group(self) -> ScaleGroup:
        """Return the group that declares the dimension."""
        return self._group


class ScaleGroup:
    """A group, with the members of netCDF4's own; it has no variables and no types, which h5py reads."""

    data_model = "NETCDF4"
    variables: Mapping[str, Any] = {}
    cmptypes: Mapping[str, Any] = {}
    enumtypes: Mapping[str, Any] = {}
    vltypes: Mapping[str, Any] = {}

    def __init__(self, parent: ScaleGroup | None = None) -> None:
        self.parent = parent
        self.groups: dict[str, ScaleGroup] = {}
        self.dimensions: dict[str, ScaleDimension] = {}

    def outward(self) -> Iterator[ScaleGroup]:
        """Yield the group and those around it, the nearest first."""
        group: ScaleGroup | None = self
        while group is not None:
            yield group
            group = group.parent

    def close(self) -> None:
        """Do nothing: the h5py file has an owner of its own."""


Axes = list[ScaleDimension | None]


class ScaleTree(ScaleGroup):
    """The root of a file. ``axes``: by the path of a dataset, the dimension of each axis, None for a nameless one."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._by_object: dict[int, ScaleDimension] = {}
        self._by_number: dict[int, ScaleDimension] = {}
        datasets = list(self._read_group(self, file))
        axes = {dataset.name: (group, self._axes_of(dataset)) for group, dataset in datasets}
        for _, dataset in datasets:
            _lengthen(axes[dataset.name][1], dataset.shape)
        self.axes: dict[str, Axes] = {
            path: [dim and _seen_from(group, dim) for dim in dims] for path, (group, dims) in axes.items()
        }

    def _read_group(self, group: ScaleGroup, stored: Any) -> Iterator[tuple[ScaleGroup, Any]]:
        """Yield the datasets below a group of h5py, each with its group."""
        from h5py import Dataset, Group

        for name in stored:
            node = stored.get(name)
            if isinstance(node, Dataset) and node.shape is not None:
                if node.is_scale and node.ndim:
                    self._declare(group, name.removeprefix(NON_COORDINATE), node)
                yield group, node
            elif isinstance(node, Group):
                group.groups[name] = ScaleGroup(group)
                yield from self._read_group(group.groups[name], node)

    def _declare(self, group: ScaleGroup, name: str, scale: Any) -> None:
        dim = ScaleDimension(group, name, scale.shape[0], unlimited=scale.maxshape[0] is None)
        group.dimensions[name] = self._by_object[hash(scale.id)] = dim
        if "_Netcdf4Dimid" in scale.attrs:
            self._by_number[int(scale.attrs["_Netcdf4Dimid"])] = dim

    def _axes_of(self, dataset: Any) -> Axes:
        """Return the dimensions of a dataset. A scale is attached to none: it is its own dimension, and where it has
        several, netCDF keeps their numbers."""
        if not dataset.is_scale:
            scales = (dataset.dims[axis].values() for axis in range(dataset.ndim))
            return [self._by_object.get(hash(found[0].id)) if found else None for found in scales]
        if dataset.ndim > 1 and "_Netcdf4Coordinates" in dataset.attrs:
            return [self._by_number.get(int(number)) for number in dataset.attrs["_Netcdf4Coordinates"]]
        own: Axes = [self._by_object.get(hash(dataset.id))]
        return [*own, *[None] * (dataset.ndim - 1)][: dataset.ndim]


def _lengthen(axes: Axes, shape: tuple[int, ...]) -> None:
    """Make unlimited dimensions as long as the longest dataset along them."""
    for dim, size in zip(axes, shape, strict=True):
        if dim is not None and dim.isunlimited():
            dim.size = max(dim.size, size)


def _seen_from(group: ScaleGroup, dim: ScaleDimension) -> ScaleDimension:
    """Return the dimension itself, or what stands for it in a group from which it cannot be seen."""
    if any(above is dim.group() for above in group.outward()):
        return dim
    for name in _names(dim):
        seen = next((above.dimensions[name] for above in group.outward() if name in above.dimensions), None)
        if seen is None:
            seen = group.dimensions[name] = ScaleDimension(group, name, dim.size, unlimited=dim.isunlimited())
        if seen.size == dim.size:
            return seen
    raise AssertionError


def _names(dim: ScaleDimension) -> Iterator[str]:
    """Yield the name of a dimension, then others that it may get."""
    yield from (dim.name, f"{dim.name}_{dim.size}")
    yield from (f"{dim.name}_{dim.size}_{number}" for number in count(2))
