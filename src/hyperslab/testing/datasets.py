"""Hypothesis strategies of whole datasets: small trees of what a set of features can hold, and their writing.

A dataset is drawn as plain values (:class:`SampleTree`), so that what is read later can be compared with what was
drawn, not with what was read before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hyperslab.formats.base import Feature
from hyperslab.group import Group
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import DataType, NumpyDType, VlenString, numpy_dtype
from hyperslab.model.refs import ObjectReference
from hyperslab.model.spec import Chunks
from hyperslab.testing.samples import PLAIN, TYPED, TYPES, cells

# -- Hypothesis strategies ---------------------------------------------------------------------------------------------
# Shapes, chunk lengths, keys in each dialect, data types and values of them.
#
# For campaigns of hundreds of thousands use the seeded generators of ``testing.selections``: they are much quicker.


Shape = tuple[int, ...]
Strategy = st.SearchStrategy


def shapes(max_dims: int = 5, max_side: int = 8, min_dims: int = 0, min_side: int = 0) -> Strategy[Shape]:
    """Draw array shapes, axes without cells among them."""
    return st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def chunk_grids(draw: st.DrawFn, shape: Shape, varying: bool = True) -> Chunks:
    """Draw chunk lengths for a shape: an int per axis or, where ``varying``, a tuple of sizes; both may pass the
    edge."""
    cuts: list[int | tuple[int, ...]] = []
    for length in shape:
        several = varying and length > 0 and draw(st.booleans())
        cuts.append(draw(varying_sizes(length)) if several else draw(st.integers(1, length + 2)))
    return tuple(cuts)


@st.composite
def varying_sizes(draw: st.DrawFn, length: int) -> tuple[int, ...]:
    """Draw sizes of at least 1 that cover ``length`` cells (at least one)."""
    sizes: list[int] = []
    while sum(sizes) < length:
        sizes.append(draw(st.integers(1, length)))
    return tuple(sizes)


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    """Draw slices of an axis, with bounds inside and outside, open ones, and any step but zero."""
    bound = st.none() | st.integers(-length - 2, length + 2)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(-4, 4).filter(bool)))


def positions(length: int) -> Strategy[int]:
    """Draw valid positions along an axis that has cells, negative ones too."""
    return st.integers(-length, length - 1)


@st.composite
def basic_keys(draw: st.DrawFn, shape: Shape) -> object:
    """Draw ints, slices, ``...`` and new axes; sometimes fewer items than dimensions, sometimes no tuple."""
    items: list[Any] = [_basic_item(draw, length) for length in shape]
    return _dressed(draw, items)


@st.composite
def advanced_keys(draw: st.DrawFn, shape: Shape) -> object:
    """Draw keys with arrays: integer arrays and lists that broadcast, masks of one or more axes, mixed with all the
    rest."""
    common = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        kind = draw(st.sampled_from(["basic", "array", "array", "mask"]))
        if kind == "mask":
            wide = draw(st.integers(1, min(2, len(shape) - axis)))
            items.append(_mask(draw, shape[axis : axis + wide], common))
            axis += wide
            continue
        items.append(_index_array(draw, shape[axis], common) if kind == "array" else _basic_item(draw, shape[axis]))
        axis += 1
    if draw(st.integers(0, 9)) == 0:
        items.insert(draw(st.integers(0, len(items))), draw(st.booleans()))
    return _dressed(draw, items)


def numpy_keys(shape: Shape) -> Strategy[object]:
    """Return the keys of NumPy's whole dialect that fit, and about one in ten that NumPy refuses."""
    fitting = st.one_of(basic_keys(shape), advanced_keys(shape))
    return st.integers(0, 9).flatmap(lambda draw: fitting if draw else wrong_keys(shape))


def wrong_keys(shape: Shape) -> Strategy[object]:
    """Return the keys that NumPy refuses for every shape of at least one dimension, each in its own way."""
    length = shape[0] if shape else 0
    return st.sampled_from(
        [
            length,
            -length - 1,
            [length],
            1.5,
            "name",
            [0.5],
            1j,
            object(),
            slice(0, 1, 0),
            slice("a", None),
            (..., ...),
            (0,) * (len(shape) + 1),
            np.ones(length + 1, bool),
            np.zeros(0),
            ([0, 0], [0, 0, 0]),
            [[0], [0, 0]],
        ]
    )


@st.composite
def outer_keys(draw: st.DrawFn, shape: Shape) -> tuple[object, ...]:
    """Draw keys of ``oindex``: per axis an int, a slice, a 1-D integer array or a 1-D mask."""
    items = []
    for length in shape:
        kind = draw(st.sampled_from(["basic", "array", "mask"]))
        if kind == "mask":
            items.append(draw(npst.arrays(bool, length)))
        elif kind == "array":
            items.append(_index_array(draw, length, (draw(st.integers(0, 4)),), flat=True))
        else:
            items.append(_basic_item(draw, length))
    return tuple(items)


@st.composite
def vectorised_keys(draw: st.DrawFn, shape: Shape) -> tuple[object, ...]:
    """Draw keys of ``vindex``: per axis an integer array, an int or a slice; the arrays broadcast."""
    common = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    pick = st.booleans()
    return tuple(_index_array(draw, n, common) if draw(pick) else _basic_item(draw, n) for n in shape)


def scalar_dtypes() -> Strategy[NumpyDType]:
    """Return every fixed-size NumPy kind without fields, in either byte order."""
    names = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3", "V4"]
    times = [f"{kind}[{unit}]" for kind in ("M8", "m8") for unit in ("D", "h", "s", "ms", "ns", "25s")]
    return st.builds(lambda name, order: np.dtype(order + name), st.sampled_from(names + times), st.sampled_from("<>"))


@st.composite
def dtypes(draw: st.DrawFn, depth: int = 2) -> NumpyDType:
    """Draw scalar types, and packed structured ones with nested fields and sub-arrays."""
    if not depth or draw(st.integers(0, 3)):
        return draw(scalar_dtypes())
    names = draw(st.lists(st.sampled_from(["x", "y", "lat", "t 1", "ü"]), min_size=1, max_size=3, unique=True))
    fields: list[Any] = []
    for name in names:
        shape = draw(st.sampled_from([(), (), (2,), (2, 3)]))
        fields.append((name, draw(dtypes(depth - 1)), shape))
    return np.dtype(fields)


@st.composite
def arrays(draw: st.DrawFn, dtype: NumpyDType, shape: Shape) -> Values:
    """Draw cells of a type: any bit pattern that is a value, NaN and NaT included."""
    result = np.zeros(shape, dtype)
    _fill(draw, result)
    return result


def _fill(draw: st.DrawFn, array: Values) -> None:
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _fill(draw, array[name])
        return
    if array.dtype.kind == "U":
        words = draw(st.lists(st.sampled_from(["", "a", "ab ", "äöü", "日本"]), min_size=1, max_size=3))
        array[...] = np.resize(np.array(words), array.shape)
        return
    count = array.size * array.itemsize
    pattern = draw(st.binary(min_size=min(count, 1), max_size=min(count, 64)))
    raw = np.resize(np.frombuffer(pattern, np.uint8), count) if count else np.zeros(0, np.uint8)
    cells = (raw & 1).astype(bool) if array.dtype.kind == "b" else raw.view(array.dtype)
    array[...] = cells.reshape(array.shape)


def _basic_item(draw: st.DrawFn, length: int) -> Any:
    if length and draw(st.integers(0, 2)) == 0:
        position: int = draw(positions(length))
        return np.int32(position) if draw(st.integers(0, 4)) == 0 else position
    return draw(slices(length))


def _index_array(draw: st.DrawFn, length: int, common: Shape, *, flat: bool = False) -> Any:
    kept = common if flat else common[draw(st.integers(0, len(common))) :]
    shape = kept if flat else tuple(1 if draw(st.integers(0, 4)) == 0 else side for side in kept)
    if not length and 0 not in shape:
        shape = (*shape[:-1], 0)
    count = int(np.prod(shape))
    flattened = draw(st.lists(positions(length), min_size=count, max_size=count)) if count else []
    array = np.array(flattened, np.int64).reshape(shape)
    return array.tolist() if draw(st.booleans()) else array


def _mask(draw: st.DrawFn, shape: Shape, common: Shape) -> object:
    """Return a mask with as many cells as the arrays beside it, so that they broadcast, or with one."""
    mask = np.zeros(shape, bool)
    alike: int = draw(st.integers(0, 4))
    wanted = min(common[-1] if common and alike else 1, mask.size)
    order: list[int] = draw(st.permutations(range(mask.size)))
    mask.reshape(-1)[order[:wanted]] = True
    return mask.tolist() if draw(st.booleans()) and mask.size else mask


def _dressed(draw: st.DrawFn, items: list[Any]) -> object:
    """Leave whole slices out or stand ``...`` for them, put in new axes, take off the tuple."""
    form = draw(st.sampled_from(["as is", "ellipsis", "short"]))
    if form == "short":
        while items and isinstance(items[-1], slice):
            items.pop()
    elif form == "ellipsis":
        place = draw(st.integers(0, len(items)))
        items[place : place + (place < len(items) and isinstance(items[place], slice))] = [Ellipsis]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        items.insert(draw(st.integers(0, len(items))), None)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


Features = frozenset[Feature]


@dataclass(frozen=True, eq=False)
class SampleArray:
    """An array: all its ``cells``, of which only the first ``written`` rows (None: all) are stored."""

    cells: Values
    dtype: DataType
    dims: tuple[str | None, ...] = ()
    chunks: Shape = ()
    fill_value: Any = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    written: int | None = None


@dataclass(frozen=True, eq=False)
class SampleTree:
    """Groups with their attributes (``""`` is the root), arrays, links and references by path; dimensions that grow."""

    groups: Mapping[str, Mapping[str, Any]]
    arrays: Mapping[str, SampleArray]
    links: Mapping[str, str] = field(default_factory=dict)
    unlimited: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        lines = [f"group /{path} {dict(attrs)}" for path, attrs in self.groups.items()]
        for path, one in self.arrays.items():
            message = f"{one.dtype} {one.dims} {one.cells.shape} chunks {one.chunks} fill {one.fill_value!r}"
            lines.append(f"array /{path} {message} written {one.written} {dict(one.attrs)} {one.cells.tolist()}")
        lines += [f"link /{path} -> /{target}" for path, target in self.links.items()]
        return "\n".join([*lines, f"unlimited {sorted(self.unlimited)}"])


PLAIN_ATTRIBUTES: tuple[object, ...] = (
    *PLAIN.values(),
    2**40,
    True,
    None,
    float("nan"),
    [1, 2],
    ["a", "bé"],
    {"k": [1]},
)
"""Values of attributes that JSON knows."""

TYPED_ATTRIBUTES: tuple[object, ...] = (
    *TYPED.values(),
    np.int8(-5),
    np.int64(2**62),
    np.array([2**63], "u8"),
    np.array([], "f4"),
    np.array([-1.5e300, np.nan]),
    np.array([3, -4], ">i4"),
)
"""Values of attributes with a NumPy type."""

NUMBERS: tuple[NumpyDType, ...] = tuple(np.dtype(n) for n in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
REALS: tuple[NumpyDType, ...] = (np.dtype("f4"), np.dtype("f8"))
NAMES = ("a", "B", "t_2m", "a.b", "t 1", "ü")
DIMS = ("x", "y", "t")


def attributes(most: int = 3) -> Strategy[dict[str, Any]]:
    """Return attributes of many types, under names of all kinds."""
    names = st.sampled_from(["n", "long_name", "units", "ü", "two words", "_x"])
    return st.dictionaries(names, st.sampled_from(PLAIN_ATTRIBUTES + TYPED_ATTRIBUTES), max_size=most).map(_with_text)


def _with_text(attrs: dict[str, Any]) -> dict[str, object]:
    """Make ``units`` text, whatever was drawn for them."""
    return {name: "K" if name == "units" else value for name, value in attrs.items()}


def held_types(features: Features) -> list[DataType]:
    """Return the types of cells that formats with these features hold, numbers more often than others."""
    more = [kind for kind, need in TYPES if need is None or need in features]
    return [*NUMBERS, *REALS, *more]


@st.composite
def datasets(draw: st.DrawFn, features: Features) -> SampleTree:
    """Draw a small tree with coordinates, dimensions that are shared, fill values, attributes, links and references."""
    sizes = {dim: draw(st.integers(1, 4)) for dim in DIMS}
    if draw(st.integers(0, 3)) == 0:
        sizes["t"] = 0
    one = not features & {Feature.GROUPS, Feature.ARRAYS}
    folders = [""] if one else draw(st.sampled_from([[""], ["", "g"], ["", "g", "g/h"]]))
    groups = {folder: draw(attributes()) for folder in folders}
    found: dict[str, SampleArray] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=1 if one else 3, unique=True)):
        folder = draw(st.sampled_from(folders))
        found[f"{folder}/{name}".lstrip("/")] = draw(_sample_arrays(features, sizes))
    used = {dim for each in found.values() for dim in each.dims if dim is not None}
    for dim in draw(st.lists(st.sampled_from(DIMS), max_size=2, unique=True)):
        if dim in used:
            found[dim] = draw(_coordinates(dim, sizes[dim]))
    grows = Feature.UNLIMITED in features and "t" in used and draw(st.booleans())
    tree = SampleTree(groups, found, {}, frozenset({"t"} if grows else ()))
    return draw(_with_pointers(tree)) if Feature.REFERENCES in features else tree


@st.composite
def _sample_arrays(draw: st.DrawFn, features: Features, sizes: Mapping[str, int]) -> SampleArray:
    names = draw(st.lists(st.sampled_from(DIMS), max_size=3, unique=True))
    if not names and Feature.SCALARS not in features:
        names = ["x"]
    shape = tuple(sizes[name] for name in names)
    dtype = draw(st.sampled_from(held_types(features)))
    values = draw(_cells_of(dtype, shape))
    fill, written = None, None
    memory = numpy_dtype(dtype)
    if isinstance(dtype, np.dtype) and memory.kind in "iuf" and memory.itemsize > 1 and draw(st.booleans()):
        fill = memory.newbyteorder("=").type(draw(st.sampled_from([7, 99])))
        if shape and shape[0]:
            written = draw(st.none() | st.integers(0, shape[0]))
    if written is not None:
        values[written:] = fill
    dims: list[str | None] = [*names]
    if dims and not any(name == "t" for name in names) and draw(st.integers(0, 7)) == 0:
        dims[draw(st.integers(0, len(dims) - 1))] = None
    chunks = tuple(draw(st.integers(1, max(1, length))) for length in shape)
    return SampleArray(values, dtype, tuple(dims), chunks, fill, draw(attributes()), written)


@st.composite
def _cells_of(draw: st.DrawFn, dtype: DataType, shape: Shape) -> Values:
    if isinstance(dtype, np.dtype) and dtype.kind in "iufcb":
        return draw(arrays(dtype, shape))
    count = int(np.prod(shape))
    return cells(dtype, count).reshape(shape)


@st.composite
def _coordinates(draw: st.DrawFn, dim: str, size: int) -> SampleArray:
    """Draw a coordinate: regular or irregular numbers, times, or words."""
    kind = draw(st.sampled_from(["regular", "whole", "irregular", "times", "words"]))
    attrs = draw(attributes(2))
    if kind == "words":
        words = np.array([f"w{place}é" for place in range(size)], np.dtypes.StringDType())
        return SampleArray(words, VlenString(), (dim,), (max(size, 1),), None, attrs)
    steps = np.arange(size)
    values = {"regular": 50.0 - 2.5 * steps, "whole": steps * 3, "irregular": steps**2 * 0.3, "times": steps * 6}[kind]
    if kind == "times":
        attrs = {**attrs, "units": "hours since 2013-01-01"}
    dtype = np.dtype("f8") if values.dtype.kind == "f" else np.dtype("i4")
    return SampleArray(values.astype(dtype), dtype, (dim,), (max(size, 1),), None, attrs)


@st.composite
def _with_pointers(draw: st.DrawFn, tree: SampleTree) -> SampleTree:
    """Add links to nodes and attributes that refer to them."""
    places = [*tree.arrays, *(path for path in tree.groups if path)]
    target: Strategy[str] = st.sampled_from(places)
    links = {"link": draw(target)} if draw(st.booleans()) else {}
    groups = dict(tree.groups)
    if draw(st.booleans()):
        groups[""] = {**groups[""], "ref": ObjectReference(f"/{draw(target)}")}
    return replace(tree, links=links, groups=groups)


def write_tree(root: Group, tree: SampleTree) -> None:
    """Write what was drawn into an empty dataset."""
    for dim in sorted(tree.unlimited):
        root.create_dimension(dim, None)
    for path in tree.groups:
        if path:
            root.create_group(path)
    for path, one in tree.arrays.items():
        array = root.create_array(
            path,
            one.cells.shape,
            one.dtype,
            dims=one.dims,
            chunks=one.chunks,
            fill_value=one.fill_value,
            attrs=dict(one.attrs),
        )
        if one.cells.size:
            stored = one.cells if one.written is None else one.cells[: one.written]
            array[(slice(0, one.written),) if one.written is not None else ...] = stored
    for path, target in tree.links.items():
        root.create_link(path, root[target])
    for path, attrs in tree.groups.items():
        node = root[path] if path else root
        node.attrs.update({name: _settled(value, root.__getitem__) for name, value in attrs.items()})


def _settled(value: Any, node: Callable[[str], Any]) -> object:
    return node(value.path.lstrip("/")).ref if isinstance(value, ObjectReference) else value
