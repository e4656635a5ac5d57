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

from hyperslab.formats.base import Feature
from hyperslab.group import Group
from hyperslab.model.dtypes import DataType, VlenString, numpy_dtype
from hyperslab.model.refs import ObjectReference
from hyperslab.testing.samples import PLAIN, TYPED, TYPES, cells
from hyperslab.testing.strategies import Array, Shape, Strategy, arrays

Features = frozenset[Feature]


@dataclass(frozen=True, eq=False)
class SampleArray:
    """An array: all its ``cells``, of which only the first ``written`` rows (None: all) are stored."""

    cells: Array
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
            said = f"{one.dtype} {one.dims} {one.cells.shape} chunks {one.chunks} fill {one.fill_value!r}"
            lines.append(f"array /{path} {said} written {one.written} {dict(one.attrs)} {one.cells.tolist()}")
        lines += [f"link /{path} -> /{target}" for path, target in self.links.items()]
        return "\n".join([*lines, f"unlimited {sorted(self.unlimited)}"])


PLAIN_ATTRIBUTES: tuple[Any, ...] = (*PLAIN.values(), 2**40, True, None, float("nan"), [1, 2], ["a", "bé"], {"k": [1]})
"""Values of attributes that JSON knows."""

TYPED_ATTRIBUTES: tuple[Any, ...] = (
    *TYPED.values(),
    np.int8(-5),
    np.int64(2**62),
    np.array([2**63], "u8"),
    np.array([], "f4"),
    np.array([-1.5e300, np.nan]),
    np.array([3, -4], ">i4"),
)
"""Values of attributes with a NumPy type."""

NUMBERS: tuple[np.dtype[Any], ...] = tuple(np.dtype(n) for n in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
REALS: tuple[np.dtype[Any], ...] = (np.dtype("f4"), np.dtype("f8"))
NAMES = ("a", "B", "t_2m", "a.b", "t 1", "ü")
DIMS = ("x", "y", "t")


def attributes(most: int = 3) -> Strategy[dict[str, Any]]:
    """Attributes of many types, under names of all kinds."""
    names = st.sampled_from(["n", "long_name", "units", "ü", "two words", "_x"])
    return st.dictionaries(names, st.sampled_from(PLAIN_ATTRIBUTES + TYPED_ATTRIBUTES), max_size=most).map(_with_text)


def _with_text(attrs: dict[str, Any]) -> dict[str, Any]:
    """``units`` are text, whatever was drawn for them."""
    return {name: "K" if name == "units" else value for name, value in attrs.items()}


def held_types(features: Features) -> list[DataType]:
    """The types of cells that formats with these features hold, numbers more often than others."""
    more = [kind for kind, need in TYPES if need is None or need in features]
    return [*NUMBERS, *REALS, *more]


@st.composite
def datasets(draw: st.DrawFn, features: Features) -> SampleTree:
    """A small tree with coordinates, dimensions that are shared, fill values, attributes, links and references."""
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
def _cells_of(draw: st.DrawFn, dtype: DataType, shape: Shape) -> Array:
    if isinstance(dtype, np.dtype) and dtype.kind in "iufcb":
        return draw(arrays(dtype, shape))
    count = int(np.prod(shape))
    return cells(dtype, count).reshape(shape)


@st.composite
def _coordinates(draw: st.DrawFn, dim: str, size: int) -> SampleArray:
    """A coordinate: regular or irregular numbers, times, or words."""
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
    """Links to nodes and attributes that refer to them."""
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


def _settled(value: Any, node: Callable[[str], Any]) -> Any:
    return node(value.path.lstrip("/")).ref if isinstance(value, ObjectReference) else value
