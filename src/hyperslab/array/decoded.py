"""``array.decoded()``: the array with the CF conventions applied when it is read, and what NWB says of its series;
what is stored never changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from hyperslab.array import cf, times
from hyperslab.array.attributes import with_missing
from hyperslab.array.cells import open_cells
from hyperslab.array.series import find_series_meaning, name_dims
from hyperslab.array.session import OpenDataset
from hyperslab.array.view import Lazy, View
from hyperslab.errors import FormatError, HyperslabError, Invalid
from hyperslab.model.amounts import shape_text
from hyperslab.model.attrs import Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names, find_axis, values_of_axes
from hyperslab.model.dtypes import Char, NumpyDType, VlenBytes
from hyperslab.model.guessing import meant
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import outer, select

# -- what other arrays tell about one ----------------------------------------------------------------------------------
# That its characters are texts, and which clock its bounds keep.


def is_text(session: OpenDataset, path: str, spec: ArraySpec) -> bool:
    """Return True if cells are chars, as netCDF has them, that are texts along the last dimension.

    They are when nothing else uses that dimension than bytes that end in it, and it has no coordinate.
    """
    if not isinstance(spec.dtype, Char) or not spec.shape or spec.dims[-1] is None:
        return False
    last = spec.dims[-1]
    for name, other in session.arrays(split(path)[0]):
        if name == last:
            return False
        if last in other.dims and (other.numpy_dtype.kind != "S" or other.dims[-1] != last):
            return False
    return True


def with_clock(session: OpenDataset, path: str, spec: ArraySpec) -> Attrs:
    """Return the attributes with what means missing.

    Bounds of a time coordinate take its units and calendar where they have none (CF 1.11, 7.1).
    """
    attrs = with_missing(session, spec)
    if "units" in attrs or len(spec.shape) < 2 or spec.shape[-1] != 2:
        return attrs
    name = split(path)[1]
    for _, other in session.arrays(split(path)[0]):
        if str(other.attrs.get("bounds")).rstrip("\0") == name and times.clock(other.attrs) is not None:
            clock = {key: other.attrs[key] for key in ("units", "calendar") if key in other.attrs}
            return {**clock, **attrs}
    return attrs


class StoredArray(ABC):
    """An array that can be decoded: its spec, its place, and its cells as stored."""

    _session: OpenDataset

    @property
    @abstractmethod
    def path(self) -> str: ...
    @property
    @abstractmethod
    def spec(self) -> ArraySpec: ...
    @property
    @abstractmethod
    def lazy(self) -> Lazy: ...
    @abstractmethod
    def __getitem__(self, key: Any) -> Any: ...
    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...
    @abstractmethod
    def sel(
        self,
        indexers: Mapping[str, object] | None = None,
        *,
        method: Literal["nearest"] | None = None,
        tolerance: object = None,
        **labels: Any,
    ) -> Any: ...
    @abstractmethod
    def isel(self, indexers: Mapping[str, object] | None = None, **positions: Any) -> Any: ...
    @abstractmethod
    def sel_key(
        self, labels: Mapping[str, object], method: Literal["nearest"] | None = None, tolerance: object = None
    ) -> tuple[Any, ...]: ...


def is_packed(array: StoredArray) -> bool:
    """Return True if the attributes ask for scale, offset or another sign; attributes that make no sense ask for
    nothing."""
    try:
        return Decoded(array).is_packed
    except FormatError:
        return False


def value_units(array: StoredArray) -> tuple[str | None, str | None]:
    """Return the units of decoded numbers, and those of stored ones: none of packed numbers, since the attributes
    speak of decoded ones."""
    try:
        view = Decoded(array)
    except FormatError:  # attributes that make no sense pack nothing
        return array.spec.units, array.spec.units
    return view.units, None if view.is_packed else view.units


class Decoded:
    """Missing cells, scale, offset, unsigned integers, times and text, as :mod:`hyperslab.array.cf` says; the numbers
    of a series of NWB in its unit, as :mod:`hyperslab.array.series` says.

    Characters that are texts along their last dimension are joined: ``shape`` and ``dims`` are without it. Keys and
    labels mean what they mean for the array. ``dates=False``: times stay numbers of their unit.
    """

    def __init__(self, array: StoredArray, *, dates: bool = True) -> None:
        self._array = array
        spec, session = array.spec, array._session
        self._series = series = find_series_meaning(session, array.path, spec)
        try:
            attrs = with_clock(session, array.path, spec)
            if series is not None:
                attrs = series.packing(attrs)
            if not dates:
                attrs = {name: value for name, value in attrs.items() if name not in ("units", "calendar")}
            if np.dtype(object) == spec.numpy_dtype and not isinstance(spec.dtype, VlenBytes):
                self._how = cf.Decoding(dtype=spec.numpy_dtype, attrs=attrs)
            else:
                self._how = cf.decoding(spec.numpy_dtype, attrs, join=is_text(session, array.path, spec))
        except HyperslabError as error:
            raise session.add_place(error, array.path) from error.__cause__
        self._dtype: NumpyDType | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension."""
        shape = self._array.spec.shape
        return shape[:-1] if self._how.join else shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Cells in all."""
        return prod(self.shape)

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The name of each dimension; None for an anonymous one."""
        dims = self._array.spec.dims
        return dims[:-1] if self._how.join else dims

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that decoding did not use up; the ``unit`` of a series of NWB as ``units``, too."""
        units = {"units": self.units} if self._series is not None and self.units is not None else {}
        return {**self._how.attrs, **units}

    @property
    def units(self) -> str | None:
        """The units of decoded numbers: the attribute ``units``, of a series of NWB its ``unit``."""
        return self._array.spec.units if self._series is None else self._series.units

    @property
    def is_packed(self) -> bool:
        """Return True if stored numbers are others than those that the units speak of: scaled, shifted or unsigned
        ones.
        """
        how = self._how
        is_number = how.clock is None and how.duration is None
        return is_number and (how.scaled is not None or how.viewed is not None or self.has_channels)

    @property
    def has_channels(self) -> bool:
        """Return True for a series of NWB in which each position of the second dimension has a factor of its own."""
        return self._series is not None and self._series.channels is not None

    @property
    def dtype(self) -> NumpyDType:
        """The dtype of the cells.

        Times are ``datetime64[ns]`` or objects by what the cells are: the first and the last one are read.
        """
        if self._dtype is None:
            how, shape = self._how, self._array.spec.shape
            if how.clock is not None and how.clock.is_real and 0 not in shape:
                ends = [np.asarray(self._array[(place,) * len(shape)]) for place in (0, -1)]
                self._dtype = self._apply(np.stack(ends)).dtype
            else:
                self._dtype = self._apply(np.zeros((0, *shape[-1:]), how.dtype)).dtype
                if self.has_channels:
                    self._dtype = np.result_type(self._dtype, "f8")
        return self._dtype

    def __getitem__(self, key: Any) -> Any:
        if self.has_channels:
            return self._decode_channels(self._array.lazy[key])
        return self._decode(self._array[self._whole_texts(key)])

    def sel(
        self,
        indexers: Mapping[str, object] | None = None,
        *,
        method: Literal["nearest"] | None = None,
        tolerance: object = None,
        **labels: Any,
    ) -> Any:
        """Return the cells by label, as :meth:`Array.sel`."""
        wanted = {**(indexers or {}), **labels}
        dims = self._dims_of(wanted)
        unknown = [name for name in wanted if name not in dims]
        if unknown:
            raise self._no_dimension(unknown[0], dims)
        if self.has_channels:
            key = self._array.sel_key(wanted, method, tolerance)
            return self._decode_channels(self._array.lazy[...].compose(key, outer))
        return self._decode(self._array.sel(wanted, method=method, tolerance=tolerance))

    def isel(self, indexers: Mapping[str, object] | None = None, **positions: Any) -> Any:
        """Return the cells by position along dimensions, as :meth:`Array.isel`."""
        wanted = {**(indexers or {}), **positions}
        dims = self._dims_of(wanted)
        unknown = [name for name in wanted if find_axis(dims, name) is None]
        if unknown:
            raise self._no_dimension(unknown[0], axis_names(dims))
        if self.has_channels:
            key = tuple(values_of_axes(wanted, dims, slice(None)))
            return self._decode_channels(self._array.lazy[...].compose(key, outer))
        return self._decode(self._array.isel(wanted))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("an array in a dataset cannot be viewed without a copy")
        return np.asarray(self[...], dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Iterate along the first axis, reading a whole row of chunks at a time."""
        if not self.shape:
            raise TypeError("iteration over an array without dimensions")
        for stored in self._array:
            cells = self._decode(stored)
            yield self._scale(cells, _along(self._factors, 0, np.ndim(stored))) if self.has_channels else cells

    def __repr__(self) -> str:
        dims = shape_text(self.dims, self.shape)
        return f"<hyperslab Decoded /{self._array.path} ({dims}) stored as {self._how.dtype}>"

    def decode_cells(self, stored: Values) -> Values:
        """Return stored cells of any shape decoded, but for the factors of channels."""
        return self._apply(stored)

    def _whole_texts(self, key: object) -> object:
        """Return the key of the stored array: texts are taken whole."""
        if not self._how.join:
            return key
        items = key if isinstance(key, tuple) else (key,)
        return (*items, slice(None)) if any(item is Ellipsis for item in items) else (*items, Ellipsis, slice(None))

    def _dims_of(self, words: Iterable[str]) -> tuple[str | None, ...]:
        """Return the names of the dimensions in a selection by these words."""
        return name_dims(self._array._session, self._array.path, self._array.spec, words)[: self.ndim]

    def _no_dimension(self, name: str, known: Sequence[str | None]) -> Invalid:
        return Invalid(f"no dimension {name!r}", node=self._array.path, remedy=meant(name, known))

    def _decode(self, stored: Any) -> object:
        if self._how.dtype.kind == "V":
            return stored
        if isinstance(stored, np.ndarray):
            result = self._apply(stored)
            return result[()] if self._how.join and not result.ndim else result
        cell = np.empty((), self._how.dtype)
        cell[()] = stored
        return self._apply(cell)[()]

    def _apply(self, values: Values) -> Values:
        try:
            return cf.apply(self._how, values)
        except HyperslabError as error:
            raise self._array._session.add_place(error, self._array.path) from error.__cause__

    # -- channels of a series of NWB -----------------------------------------------------------------------------------

    @cached_property
    def _factors(self) -> Values:
        """The factor of each channel."""
        assert self._series is not None and self._series.channels is not None
        session, path = self._array._session, self._series.channels
        spec = session.array(path)
        return np.asarray(open_cells(session, path, spec).read(select((), spec.shape)), "f8")

    def _decode_channels(self, view: View) -> Any:
        """Return the cells of a view of the whole array, each multiplied by the factor of its channel."""
        cells = self._decode(view.read())  # before the selection is looked at: another one where the array was replaced
        region = view.selection.region
        place = 1
        if region.coupled:  # axes that run together are the first of the canonical array
            others = [axis for axis in range(len(region.axes)) if axis not in region.coupled]
            place = 0 if 1 in region.coupled else 1 + others.index(1)
        factors = _along(self._factors[region.axes[1].positions], place, len(region.shape))
        return self._scale(cells, view.selection.finish(np.broadcast_to(factors, region.shape)))

    def _scale(self, cells: object, factors: Values) -> Any:
        """Return numbers in the units of the series; ``factors`` are those of their channels."""
        assert self._series is not None
        return np.asarray(cells) * factors + self._series.offset


def _along(numbers: Values, axis: int, ndim: int) -> Values:
    """Return numbers as an array of ``ndim`` dimensions that runs along one axis."""
    return numbers.reshape([-1 if each == axis else 1 for each in range(ndim)])
