"""What a group and an array are, as plain frozen values: the one thing that every format's documents are parsed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hyperslab.model.attrs import Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension, Index, fitted
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    Extension,
    NumpyDType,
    VlenArray,
    VlenBytes,
    VlenString,
    numpy_dtype,
    tagged_fields,
)
from hyperslab.model.refs import Link

Chunks = tuple[int | tuple[int, ...], ...]


def _empty(cells: Values, dtype: DataType) -> None:
    """Make objects what unwritten cells of a type read as."""
    for place in range(len(cells)):
        match dtype:
            case VlenString():
                cells[place] = ""
            case VlenBytes():
                cells[place] = b""
            case VlenArray(base=base):
                cells[place] = np.empty(0, base)
            case _:
                cells[place] = None


@dataclass(frozen=True, slots=True)
class Codec:
    """One step of a codec chain: a name of ``codecs.registry.CODECS`` and its configuration (JSON values)."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group: its attributes, the dimensions and named types declared in it.

    ``dims`` holds declared dimensions in order (unlimited ones, and those that no array uses); the sizes of the
    others follow from the arrays. ``layout`` is the format's own (unknown keys to keep); other formats ignore it.
    """

    attrs: Attrs = field(default_factory=dict)
    dims: tuple[Dimension, ...] = ()
    types: Mapping[str, Extension] = field(default_factory=dict)
    layout: Mapping[str, Any] = field(default_factory=dict)
    is_array: ClassVar[Literal[False]] = False
    is_group: ClassVar[Literal[True]] = True
    is_link: ClassVar[Literal[False]] = False

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """An array: shape, type, dimension names, how it is cut and encoded, what unwritten cells read as.

    ``chunks`` is the grid of stored objects: an int per axis (fixed size; the last one may reach past the edge) or a
    tuple of sizes (varying). In a sharded array that is the shard; the inner chunk stands in the codec
    ``sharding_indexed`` (see :attr:`inner_chunks`). ``codecs`` run in order when writing. ``dims`` has a name or None
    per axis. ``indexes`` holds labels that the format stores with the array itself. ``problem`` says why the cells
    cannot be decoded (an unknown codec, say): the spec is still readable. ``is_fill_plain``: the fill value is what
    unwritten cells read as and no more, also to readers of a format that take it for the mark of missing cells (Zarr
    v2). ``layout`` belongs to the format alone.
    """

    shape: tuple[int, ...]
    dtype: DataType
    chunks: Chunks
    dims: tuple[str | None, ...] = ()
    codecs: tuple[Codec, ...] = ()
    fill_value: Any = None
    attrs: Attrs = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)
    sparse: str | None = None
    problem: str | None = None
    is_fill_plain: bool = False
    layout: Mapping[str, Any] = field(default_factory=dict)
    is_array: ClassVar[Literal[True]] = True
    is_group: ClassVar[Literal[False]] = False
    is_link: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        if not self.dims and self.shape:
            object.__setattr__(self, "dims", (None,) * len(self.shape))

    @property
    def numpy_dtype(self) -> NumpyDType:
        """The dtype of the cells in memory."""
        dtype = self.dtype
        return dtype if isinstance(dtype, np.dtype) else numpy_dtype(dtype)

    def fill_cell(self) -> Values:
        """Return what unwritten cells read as, as a 0-d array: the fill value, or the type's zero when there is
        none."""
        cell = np.zeros((), self.numpy_dtype)
        if self.fill_value is not None:
            cell[()] = self.fill_value
        elif cell.dtype.names is not None:
            fields = self.dtype.base if isinstance(self.dtype, Compound) else cell.dtype
            for name, kind in tagged_fields(fields):
                if cell.dtype[name].hasobject:
                    _empty(cell[name].reshape(-1), kind)
        elif cell.dtype.hasobject and not isinstance(self.dtype, VlenString):
            _empty(cell.reshape(-1), self.dtype)
        return cell

    def filled(self, shape: tuple[int, ...] | None = None) -> Values:
        """Return the cells that were never written, in an array of this shape (that of the whole)."""
        return np.full(self.shape if shape is None else shape, self.fill_cell(), self.numpy_dtype)

    @property
    def units(self) -> str | None:
        """The attribute ``units``, when it is text."""
        units = self.attrs.get("units")
        return str(units).rstrip("\0") if isinstance(units, str) else None  # the end of a text of C

    @property
    def inner_chunks(self) -> Chunks | None:
        """The chunks inside a shard in the array's own axis order; None when the array is not sharded."""
        axes = list(range(len(self.shape)))
        for codec in self.codecs:
            if codec.name == "transpose":
                axes = [axes[axis] for axis in codec.config["order"]]
            if codec.name == "sharding_indexed":
                inner = [0] * len(axes)
                for axis, size in zip(axes, codec.config["chunk_shape"], strict=True):
                    inner[axis] = size
                return tuple(inner)
        return None

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Labels follow a new shape, and go where they cannot."""
        if self.indexes and "shape" in changes and "indexes" not in changes:
            sizes = {name: size for name, size in zip(self.dims, changes["shape"], strict=False) if name is not None}
            cut = {name: fitted(index, sizes[name]) for name, index in self.indexes.items() if name in sizes}
            changes["indexes"] = {name: index for name, index in cut.items() if index is not None}
        # as dataclasses.replace does, which takes twice the time: each array of a dataset that is opened is changed so
        return type(self)(**{**dict(zip(_FIELDS, _values_of(self), strict=True)), **changes})


_FIELDS = tuple(each.name for each in fields(ArraySpec))
_values_of = attrgetter(*_FIELDS)


Node = GroupSpec | ArraySpec | Link
"""What has a path in a dataset; ``is_group``, ``is_array`` and ``is_link`` tell them apart."""
