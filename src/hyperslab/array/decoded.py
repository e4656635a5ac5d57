"""``array.decoded()``: the array with the CF conventions applied when it is read; what is stored never changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Literal

import numpy as np

from hyperslab.array import cf, times
from hyperslab.array.attributes import with_missing
from hyperslab.array.session import OpenDataset
from hyperslab.errors import FormatError, HyperslabError, Invalid
from hyperslab.model.amounts import shape_text
from hyperslab.model.attrs import Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Char, NumpyDType, VlenBytes
from hyperslab.model.guessing import meant
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec

# -- what other arrays tell about one ----------------------------------------------------------------------------------
# Whether its characters are texts, which clock its bounds keep.


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
    """What decoding needs of an :class:`~hyperslab.array.Array`: its spec, its place, and its cells as stored."""

    _session: OpenDataset

    @property
    @abstractmethod
    def path(self) -> str: ...
    @property
    @abstractmethod
    def spec(self) -> ArraySpec: ...
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


def is_packed(array: StoredArray) -> bool:
    """Return True if the attributes ask for scale, offset or another sign; attributes that make no sense ask for
    nothing."""
    try:
        return Decoded(array).is_packed
    except FormatError:
        return False


class Decoded:
    """Missing cells, scale, offset, unsigned integers, times and text, as :mod:`hyperslab.array.cf` says.

    Characters that are texts along their last dimension are joined: ``shape`` and ``dims`` are without it. Keys and
    labels mean what they mean for the array.
    """

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        spec, session = array.spec, array._session
        try:
            attrs = with_clock(session, array.path, spec)
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
        """The attributes that decoding did not use up."""
        return dict(self._how.attrs)

    @property
    def is_packed(self) -> bool:
        """Return True if stored numbers are others than those that the units speak of: scaled, shifted or unsigned
        ones.
        """
        how = self._how
        return how.clock is None and how.duration is None and (how.scaled is not None or how.viewed is not None)

    @property
    def dtype(self) -> NumpyDType:
        """The dtype of the cells.

        Whether times are ``datetime64[ns]`` or objects depends on the cells: the first and the last one are read.
        """
        if self._dtype is None:
            how, shape = self._how, self._array.spec.shape
            if how.clock is not None and how.clock.is_real and 0 not in shape:
                ends = [np.asarray(self._array[(place,) * len(shape)]) for place in (0, -1)]
                self._dtype = self._apply(np.stack(ends)).dtype
            else:
                self._dtype = self._apply(np.zeros((0, *shape[-1:]), how.dtype)).dtype
        return self._dtype

    def __getitem__(self, key: Any) -> Any:
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
        wanted = self._known({**(indexers or {}), **labels})
        return self._decode(self._array.sel(wanted, method=method, tolerance=tolerance))

    def isel(self, indexers: Mapping[str, object] | None = None, **positions: Any) -> Any:
        """Return the cells by position along named dimensions, as :meth:`Array.isel`."""
        return self._decode(self._array.isel(self._known({**(indexers or {}), **positions})))

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
        return map(self._decode, self._array)

    def __repr__(self) -> str:
        dims = shape_text(self.dims, self.shape)
        return f"<hyperslab Decoded /{self._array.path} ({dims}) stored as {self._how.dtype}>"

    def _whole_texts(self, key: object) -> object:
        """Return the key of the stored array: texts are taken whole."""
        if not self._how.join:
            return key
        items = key if isinstance(key, tuple) else (key,)
        return (*items, slice(None)) if any(item is Ellipsis for item in items) else (*items, Ellipsis, slice(None))

    def _known(self, wanted: Mapping[str, object]) -> Mapping[str, object]:
        unknown = [name for name in wanted if name not in self.dims]
        if unknown:
            raise Invalid(f"no dimension {unknown[0]!r}", node=self._array.path, remedy=meant(unknown[0], self.dims))
        return wanted

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
