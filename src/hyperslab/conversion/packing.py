"""Other numbers for the cells of a conversion: packed into whole numbers and unpacked (CF 1.11, 8.1), quantized as
netCDF-C does it, in other units.

A recoder says of each array what it becomes (:class:`CellChange`), before anything is written; what a conversion then
reads of the source are the changed cells, chunk by chunk.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from hyperslab.api import Target
from hyperslab.array import Array, cf
from hyperslab.array.session import OpenDataset
from hyperslab.bridges import pint
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, SourceTraits
from hyperslab.conversion.copy import SETTINGS, ArrayCopy, Check
from hyperslab.conversion.opening import dataset_session
from hyperslab.conversion.rechunk import Encoding, refit_chunks
from hyperslab.conversion.recoding import CellChange, Recoding, add_recoding
from hyperslab.conversion.rounding import round_bits, round_digits
from hyperslab.conversion.selection import Select
from hyperslab.conversion.source_nodes import SourceNode, select_nodes, walk_nodes
from hyperslab.errors import Invalid, NodeNotFound
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.group import Group
from hyperslab.group.cf_variables import companions_of, find_named, names_in_attribute
from hyperslab.group.choice import is_match
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import Values
from hyperslab.model.guessing import meant
from hyperslab.model.paths import child, outward, relative, split
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.endpoints import Options

# Bytes of cells in flight while extremes are looked for, as of a conversion.
MEMORY = 256 << 20
SCALE, OFFSET = "scale_factor", "add_offset"
_MISSING = (FILL_VALUE, "missing_value")
_LIMITS = (*cf.LIMITS, "actual_range")


class Recoder(ABC):
    """A change of the numbers of cells. Where no patterns choose variables, coordinates and what other variables name,
    such as areas, are left as they are; not so where ``_spares_helpers`` is False."""

    _spares_helpers: ClassVar[bool] = True

    @property
    @abstractmethod
    def patterns(self) -> tuple[str, ...]:
        """Return patterns of the arrays concerned; none: all that suit."""

    @abstractmethod
    def change(self, item: SourceNode, spec: ArraySpec, source: OpenDataset, memory: int) -> CellChange | None:
        """Return what becomes of an array; None where it is let be."""

    def plan(self, source: OpenDataset, items: Sequence[SourceNode], memory: int) -> dict[str, CellChange]:
        """Return what becomes of the arrays; NodeNotFound for a pattern that stands for none."""
        arrays = {item.path: item for item in items if item.node.is_array}
        for pattern in self.patterns:
            if not any(is_match(path, pattern) for path in arrays):
                raise NodeNotFound(f"no variable is named {pattern!r}", url=source.url, remedy=meant(pattern, arrays))
        helpers = _helpers(arrays.values()) if self._spares_helpers and not self.patterns else set()
        found = {}
        for path, item in arrays.items():
            spec = item.node
            is_meant = any(is_match(path, pattern) for pattern in self.patterns) or not self.patterns
            if is_meant and spec.is_array and split(path)[1] not in helpers:
                with source.add_place_to_errors(item.origin):
                    change = self.change(item, spec, source, memory)
                if change is not None:
                    found[item.origin] = change
        return found


def _helpers(items: Iterable[SourceNode]) -> set[str]:
    """Return the names of variables that stand for dimensions or that others name: coordinates, bounds, areas."""
    nodes = [item.node for item in items if item.node.is_array]
    dims = {dim for node in nodes for dim in node.dims if dim is not None}
    return dims | find_named((node.attrs for node in nodes), without=("ancillary_variables",))


def physical(spec: ArraySpec) -> cf.Decoding:
    """Return how cells become the numbers that they mean, NaN where they are missing; times stay numbers."""
    kept = {name: value for name, value in spec.attrs.items() if name in (*cf.PACKING, *_MISSING)}
    return cf.decoding(spec.numpy_dtype, kept)


def _missing_numbers(spec: ArraySpec) -> Values:
    """Return the numbers of the cells' type that mark missing ones."""
    with np.errstate(over="ignore"):
        return np.array(physical(spec).fills, spec.numpy_dtype)


# -- packing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pack(Recoder):
    """Floats, and whole numbers that are too wide, as whole numbers of ``dtype`` with scale and offset, chosen from the
    data: the whole range of the type but for one number, which marks missing cells (as ncpdq does)."""

    dtype: Literal["i1", "u1", "i2", "u2", "i4", "u4"] = "i2"
    variables: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.variables

    def change(self, item: SourceNode, spec: ArraySpec, source: OpenDataset, memory: int) -> CellChange | None:
        """Return the packed array; None for cells that are no numbers, or as narrow already."""
        target = np.dtype(self.dtype)
        if spec.numpy_dtype.kind not in "iuf" or spec.sparse is not None:
            return None
        if spec.numpy_dtype.kind in "iu" and spec.numpy_dtype.itemsize <= target.itemsize:
            return None
        how = physical(spec)
        limits = cf.valid_limits(how, spec.attrs)
        found = find_extremes(item, spec, source, lambda cells: _within(cf.apply(how, cells), limits), memory)
        if found.infinite:
            remedy = "mend them, or leave the array out (-v)"
            raise Invalid(f"{found.infinite} cells are infinite: nothing packs them", node=item.path, remedy=remedy)
        packed = choose_packing(found, target, how.scaled or how.masked or spec.numpy_dtype)
        if packed is None:
            remedy = "take a wider type, or leave the array out (-v)"
            raise Invalid(f"the span from {found.low} to {found.high} has no scale", node=item.path, remedy=remedy)
        attrs = {name: value for name, value in spec.attrs.items() if name not in (*cf.PACKING, *_MISSING, *_LIMITS)}
        attrs |= {FILL_VALUE: packed.fill, **packed.attrs}
        for name in _LIMITS:
            if name in spec.attrs:  # an actual range is of unpacked numbers (CF 1.11, 2.5.1)
                limit = spec.attrs[name]
                attrs[name] = packed.encode(cf.decode_limit(how, limit)) if name in cf.LIMITS else limit

        def apply(cells: Values) -> Values:
            return np.asarray(packed.encode(_within(cf.apply(how, cells), limits)))

        lost = f", {found.invalid} cells outside their valid range are missing now" if found.invalid else ""
        line = f"/{item.path}: {spec.numpy_dtype} as {target}, {packed.text}{lost}"
        return CellChange(_recoded(spec, target, attrs, apply), apply, line, keeps_type=False)


@dataclass(frozen=True, eq=False)
class ScaleAndOffset:
    """Scale and offset, None where numbers stay as they are; ``fill`` marks missing cells. ``bound``: the largest error
    of a cell."""

    dtype: np.dtype[Any]
    scale: Any
    offset: Any
    fill: Any
    bound: float

    @property
    def attrs(self) -> Attrs:
        """The attributes by which readers unpack."""
        return {} if self.scale is None else {SCALE: self.scale, OFFSET: self.offset}

    @property
    def text(self) -> str:
        """Scale, offset and the largest error in words."""
        if self.scale is None:
            return "exact"
        return f"scale {self.scale:.6g}, offset {self.offset:.6g}, error at most {self.bound:.3g}"

    def encode(self, values: Values) -> Any:
        """Return the packed numbers, the fill value where cells are NaN."""
        cells = np.asarray(values)
        if self.scale is None and cells.dtype.kind in "iu":
            return cells.astype(self.dtype)
        cells = cells.astype("f8")
        missing = np.isnan(cells)
        scale, offset = (1.0, 0.0) if self.scale is None else (float(self.scale), float(self.offset))
        with np.errstate(over="ignore", invalid="ignore"):
            # halves first: the difference of two numbers of a float's whole range is none
            codes = np.rint((np.where(missing, offset, cells) / 2 - offset / 2) / scale * 2)
        low, high = code_range(self.dtype)
        return np.where(missing, self.fill, np.clip(codes, low, high).astype(self.dtype)).astype(self.dtype)[()]


def code_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest number that stand for cells: all of a type but the one that marks missing ones,
    the least of signed types and the greatest of others."""
    info = np.iinfo(dtype)
    return (int(info.min) + 1, int(info.max)) if dtype.kind == "i" else (0, int(info.max) - 1)


def choose_packing(found: Extremes, dtype: np.dtype[Any], unpacked: np.dtype[Any]) -> ScaleAndOffset | None:
    """Return scale and offset for cells from the least to the greatest, which ``unpacked`` numbers they mean; None
    where they have no scale."""
    least, most = code_range(dtype)
    fill = dtype.type(least - 1 if dtype.kind == "i" else most + 1)
    kind = np.float32 if unpacked == np.dtype("f4") else np.float64
    if found.low is None or found.high is None:
        return ScaleAndOffset(dtype, kind(1), kind(0), fill, 0.0)
    low, high = float(found.low), float(found.high)
    if unpacked.kind in "iu" and least <= found.low and found.high <= most:
        return ScaleAndOffset(dtype, None, None, fill, 0.0)
    eps = float(np.finfo(kind).eps)
    magnitude = max(abs(low), abs(high))
    if low == high:
        return ScaleAndOffset(dtype, kind(1), kind(low), fill, 0.0 if float(kind(low)) == low else eps * magnitude)
    steps = most - least
    with np.errstate(over="ignore", under="ignore"):
        scale = kind(high / steps - low / steps)
        offset = kind(low / 2 + high / 2) if dtype.kind == "i" else kind(low)
    if not np.isfinite(scale) or not np.isfinite(offset) or scale < np.finfo(kind).tiny:
        return None
    # half a step, what scale and offset are rounded by over all steps, and what unpacking rounds
    return ScaleAndOffset(
        dtype, scale, offset, fill, float(scale) / 2 + 4 * eps * magnitude + steps * eps * float(scale)
    )


@dataclass(eq=False)
class Extremes:
    """The least and the greatest cell that is there, None without any; how many are infinite, or not valid."""

    low: Any = None
    high: Any = None
    infinite: int = 0
    invalid: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, cells: Values, invalid: int) -> None:
        """Take cells into account, NaN where they are missing."""
        infinite = 0
        if cells.dtype.kind == "f":
            infinite = int(np.isinf(cells).sum())
            cells = cells[np.isfinite(cells)]
        with self.lock:
            self.infinite += infinite
            self.invalid += invalid
            if cells.size:
                low, high = cells.min(), cells.max()
                self.low = low if self.low is None else min(self.low, low)
                self.high = high if self.high is None else max(self.high, high)


def find_extremes(
    item: SourceNode, spec: ArraySpec, source: OpenDataset, meaning: Callable[[Values], Values], memory: int
) -> Extremes:
    """Read the selected cells of an array once, box by box within ``memory``; ``meaning`` makes the numbers of them
    that are compared."""
    found = Extremes()
    picked = item.picked
    if picked is None:
        return found
    lengths = refit_chunks(spec, picked)
    chunks = tuple(lengths[axis] for axis in picked.kept)
    target = spec.evolve(shape=picked.shape, chunks=chunks, dims=tuple(spec.dims[axis] for axis in picked.kept))
    how = physical(spec)
    boxes = _OnlyGrid(Grid.of(picked.shape, chunks))
    copy = ArrayCopy(item.path, picked, source.reader.chunks(item.origin), spec, boxes, target, memory, item.origin)

    def work(number: int, box: Box, check: Check) -> None:
        cells = copy.read_source(box, SETTINGS, check)
        values = meaning(cells)
        invalid = 0
        if values.dtype.kind == "f":
            invalid = int(np.isnan(values).sum() - np.isnan(cf.apply(how, cells)).sum())
        found.add(values, invalid)

    copy.run(work, SETTINGS)
    return found


class _OnlyGrid(ReadOnlyChunks):
    """Chunks that are never read or written: how a scan is cut."""

    traits = SourceTraits(joins_writes=True)

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def read(self, coords: Coords) -> Block | None:
        """Return nothing."""
        return None


def _within(values: Values, limits: tuple[float, float]) -> Values:
    """Return numbers with NaN where they are not valid."""
    low, high = limits
    if (low, high) == (-np.inf, np.inf):
        return values
    outside = (values < low) | (values > high)
    if not outside.any():
        return values
    return np.where(outside, np.nan, values.astype("f8") if values.dtype.kind in "iu" else values)


def _recoded(spec: ArraySpec, dtype: np.dtype[Any], attrs: Attrs, apply: Callable[[Values], Values]) -> ArraySpec:
    """Return an array of other cells: unwritten ones read as what becomes of its fill value."""
    fill = apply(np.asarray(spec.fill_cell()).reshape(1))[0]
    return spec.evolve(dtype=dtype, attrs=attrs, fill_value=fill)


# -- unpacking ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unpack(Recoder):
    """Packed cells as the floats that they mean."""

    _spares_helpers: ClassVar[bool] = False
    variables: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.variables

    def change(self, item: SourceNode, spec: ArraySpec, source: OpenDataset, memory: int) -> CellChange | None:
        """Return the unpacked array; None for one that is not packed."""
        if not any(name in spec.attrs for name in cf.PACKING) or spec.numpy_dtype.kind not in "iuf":
            return None
        how = physical(spec)
        dtype = how.scaled or how.masked or how.viewed or spec.numpy_dtype
        attrs = {name: value for name, value in spec.attrs.items() if name not in (*cf.PACKING, *_MISSING)}
        attrs |= {name: cf.decode_limit(how, attrs[name]).astype(dtype)[()] for name in cf.LIMITS if name in attrs}
        if how.fills and dtype.kind == "f":
            attrs[FILL_VALUE] = dtype.type(np.nan)

        def apply(cells: Values) -> Values:
            return cf.apply(how, cells).astype(dtype, copy=False)

        line = f"/{item.path}: {spec.numpy_dtype} unpacked as {dtype}"
        return CellChange(_recoded(spec, dtype, attrs, apply), apply, line, keeps_type=dtype == spec.dtype)


# -- quantizing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round(Recoder):
    """Floats of which only so much stays that they compress better: ``digits`` significant ones (as GranularBitRound of
    netCDF-C chooses bits), or ``bits`` of the mantissa (as its BitRound)."""

    digits: int | None = None
    bits: int | None = None
    variables: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.variables

    def change(self, item: SourceNode, spec: ArraySpec, source: OpenDataset, memory: int) -> CellChange | None:
        """Return the quantized array; None for cells that are no floats of 4 or 8 bytes. Invalid for more digits, or
        bits, than they have."""
        dtype = spec.numpy_dtype
        if dtype.kind != "f" or dtype.itemsize not in (4, 8):
            return None
        most_digits, most_bits = (6, 23) if dtype.itemsize == 4 else (15, 52)
        wanted, most = (self.digits, most_digits) if self.digits is not None else (self.bits, most_bits)
        if wanted is None or (self.digits is not None and self.bits is not None):
            raise Invalid("digits or bits: one of the two", remedy="write --digits N or --bits N")
        if not 1 <= wanted <= most:
            what = "digits" if self.digits is not None else "bits"
            raise Invalid(f"{dtype} has 1 to {most} {what}", node=item.path, remedy=f"take fewer than {wanted}")
        name, said = (
            ("_QuantizeGranularBitRoundNumberOfSignificantDigits", f"{wanted} significant digits")
            if self.digits is not None
            else ("_QuantizeBitRoundNumberOfSignificantBits", f"{wanted} bits of {most}, error at most 2^-{wanted + 1}")
        )
        kept = _missing_numbers(spec)

        def apply(cells: Values) -> Values:
            native = cells.astype(dtype.newbyteorder("="), copy=False)
            rounded = round_digits(native, wanted) if self.digits is not None else round_bits(native, wanted)
            np.copyto(rounded, native, where=~np.isfinite(native))
            if kept.size:
                np.copyto(rounded, native, where=np.isin(native, kept))
            return rounded.astype(dtype, copy=False)

        attrs = {**spec.attrs, name: np.int32(wanted)}
        return CellChange(spec.evolve(attrs=attrs), apply, f"/{item.path}: {said}")


# -- units -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units(Recoder):
    """Arrays in other units, by ``units`` for each path or pattern: packed cells stay and get another scale and offset,
    unpacked whole numbers get such; floats are computed anew."""

    units: Mapping[str, str]

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that have units."""
        return tuple(self.units)

    def plan(self, source: OpenDataset, items: Sequence[SourceNode], memory: int) -> dict[str, CellChange]:
        """Return what becomes of the arrays, and of their bounds, which are in the same units (CF 1.11, 7.1)."""
        changed = super().plan(source, items, memory)
        found = dict(changed)
        arrays = {item.path: (item.origin, item.node) for item in items if item.node.is_array}
        for path, (origin, owner) in arrays.items():
            words = names_in_attribute("bounds", owner.attrs.get("bounds"), {}) if origin in changed else []
            for word in words:
                near = (child(group, word) for group in outward(split(path)[0]))
                place = next((each for each in near if each in arrays), None)
                into, bounds = arrays.get(place or "", (origin, owner))
                if into not in found and bounds.numpy_dtype.kind in "iuf" and bounds.units in (None, owner.units):
                    found[into] = _in_units(str(place), bounds, owner, str(changed[origin].spec.units))
        return found

    def change(self, item: SourceNode, spec: ArraySpec, source: OpenDataset, memory: int) -> CellChange | None:
        """Return the array in its new units. Invalid without units, Unsupported for units without a factor."""
        wanted = next(unit for pattern, unit in self.units.items() if is_match(item.path, pattern))
        if spec.units is None or spec.numpy_dtype.kind not in "iuf":
            raise Invalid("the array has no units", node=item.path, remedy="set them first: hyperslab edit --set")
        return None if spec.units == wanted else _in_units(item.path, spec, spec, wanted)


def _in_units(path: str, spec: ArraySpec, owner: ArraySpec, wanted: str) -> CellChange:
    """Return an array in other units; those that it has are those of its ``owner``, itself or whose bounds it holds."""
    units, dtype = str(owner.units), spec.numpy_dtype
    factor, shift = pint.affine(units, wanted, is_difference=_is_difference(owner.attrs))
    keeps_cells = dtype.kind in "iu" or any(name in spec.attrs for name in (SCALE, OFFSET))
    attrs = {**spec.attrs, "units": wanted} if "units" in spec.attrs else dict(spec.attrs)
    for name in _LIMITS:
        limit = np.asarray(attrs.get(name, ()))
        is_stored = keeps_cells and name in cf.LIMITS and limit.dtype.kind in "iu"  # as the cells are
        if limit.size and limit.dtype.kind in "iuf" and not is_stored:
            computed = limit.astype("f8") * factor + shift
            attrs[name] = computed.astype(limit.dtype if limit.dtype.kind == "f" else "f8")[()]
    line = f"/{path}: {units} -> {wanted}"
    if keeps_cells:
        scale, offset = attrs.get(SCALE, np.float64(1)), attrs.get(OFFSET, np.float64(0))
        kind = np.float32 if np.asarray(scale).dtype == np.dtype("f4") else np.float64
        attrs |= {SCALE: kind(float(scale) * factor), OFFSET: kind(float(offset) * factor + shift)}
        return CellChange(spec.evolve(attrs=attrs), lambda cells: cells, f"{line}; cells stay, their scale changes")
    missing = _missing_numbers(spec)

    def apply(cells: Values) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):
            computed = (cells.astype("f8") * factor + shift).astype(dtype)
        return np.where(np.isin(cells, missing), cells, computed).astype(dtype, copy=False)

    return CellChange(_recoded(spec, dtype, attrs, apply), apply, line)


def _is_difference(attrs: Attrs) -> bool:
    """Return True for differences of temperatures, which have no zero of a scale (CF 1.11, 3.1.2)."""
    methods = str(attrs.get("cell_methods", ""))
    return (
        str(attrs.get("units_metadata", "")).startswith("temperature: difference")
        or str(attrs.get("standard_name", "")).endswith("_anomaly")
        or "standard_deviation" in methods
        or "range" in methods
    )


def recode(
    source: OpenDataset, items: Sequence[SourceNode], recoders: Iterable[Recoder], memory: int
) -> tuple[OpenDataset, list[SourceNode], list[Recoding]]:
    """Return the source and the nodes of a conversion as recoders make them, one after the other, and what each does.

    The cells of arrays that are packed are read once for it.
    """
    done: list[Recoding] = []
    changed = list(items)
    for recoder in recoders:
        recoding = recoder.plan(source, changed, memory)
        source = add_recoding(source, recoding)
        changed = [_recoded_node(item, recoding.get(item.origin)) for item in changed]
        done.append(recoding)
    return source, changed, done


def _recoded_node(item: SourceNode, change: CellChange | None) -> SourceNode:
    if change is None:
        return item
    return replace(item, node=change.spec, keeps_codecs=item.keeps_codecs and change.keeps_type)


def plan_recoding(
    src: Target, recoders: Sequence[Recoder], *, memory: int = MEMORY, storage_options: Options = None
) -> tuple[str, ...]:
    """Return what recoders would make of the arrays of a dataset, a line each; cells are read, and nothing is
    written."""
    with dataset_session(src, storage_options=storage_options) as session:
        nodes = [SourceNode(path, path, node) for path, node in walk_nodes(session, "")]
        _, done = _recode_nodes(session, nodes, recoders, memory)
        return tuple(change.line for recoding in done for change in recoding.values())


def recode_arrays(
    root: Group | Array, arrays: Sequence[Array], recoders: Sequence[Recoder]
) -> tuple[Group | Array, list[Array]]:
    """Return the root of a dataset and arrays of it as recoders make them and what belongs to them by CF; what these
    read of cells is read now. Arrays of other datasets stay as they are."""
    session = root._session
    own = [array for array in [*arrays, *companions_of(arrays, {})] if array._session is session]
    nodes = [SourceNode(relative(array.path, root.path), array.path, array.spec) for array in own]
    recoded, _ = _recode_nodes(session, nodes, recoders, MEMORY)
    found = [_array_at(recoded, array) if array._session is session else array for array in arrays]
    return (Group(recoded, root.path) if isinstance(root, Group) else _array_at(recoded, root)), found


def _array_at(session: OpenDataset, array: Array) -> Array:
    """Return the array as it is in another view of its dataset."""
    spec = session.reader.node(array.path)
    return Array(session, array.path, spec) if spec.is_array else array


def _recode_nodes(
    session: OpenDataset, nodes: Sequence[SourceNode], recoders: Sequence[Recoder], memory: int
) -> tuple[OpenDataset, list[Recoding]]:
    """Return the dataset as recoders make the whole of arrays, and what each does."""
    items = select_nodes(session, nodes, Select.of(None), Encoding())
    recoded, _, done = recode(session, items, recoders, memory)
    return recoded, done
