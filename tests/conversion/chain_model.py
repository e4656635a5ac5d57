"""What a drawn dataset has to be after a conversion: all of it, but for the losses that were announced.

Nothing here asks hyperslab what is equal: cells are NumPy's, compared with those that were drawn, attributes by value
and dtype.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.formats.base import Feature
from hyperslab.model.dtypes import Compound, Extension, describe, tag_of
from hyperslab.model.refs import ObjectReference
from hyperslab.testing.datasets import NUMBERS, REALS, SampleArray, SampleTree

_ATTRIBUTE = re.compile(r"the attribute '([^']*)'")
_BECOMES = re.compile(r"cells of type (.*) become (.*)$")
_COLUMNS = re.compile(r"its fields become arrays of a group: (.*)$")
_UNNAMED = re.compile(r"_Anonymous_Dim_\d+|_anonymous\d+")  # how the dialects of NCZarr call a dimension without a name
_LIMITED = re.compile(r"dimension '([^']*)' becomes limited")


@dataclass
class Told:
    """What a conversion announced: nodes that are gone, cells of another type, attributes that change, and so on."""

    gone: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    attrs: dict[tuple[str, str], str] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, losses: Iterable[Any]) -> Told:
        """Each loss must be one that is understood."""
        told = cls()
        for loss in losses:
            if loss.message.startswith("the type "):  # which no array has to be of
                continue
            if found := _ATTRIBUTE.search(loss.message):
                told.attrs[loss.node, found[1]] = loss.message
            elif found := _LIMITED.search(loss.message):
                told.limited.add(found[1])
            elif found := _COLUMNS.search(loss.message):
                told.columns[loss.node] = found[1].split(", ")
            elif found := _BECOMES.search(loss.message):
                told.types[loss.node] = found[2]
            elif loss.message.endswith("is left out"):
                told.gone.add(loss.node)
            else:
                assert loss.feature in (Feature.LABELS, Feature.SPARSE), f"an unknown loss: {loss}"
        return told

    def is_gone(self, path: str) -> bool:
        """Whether a node, or a group that it is in, is left out."""
        return any(f"{path}/".startswith(f"{top}/") for top in self.gone)


def assert_allowed(losses: Iterable[Any], features: frozenset[Feature], tree: SampleTree) -> None:
    """Only what the target lacks is lost, and numbers, dimensions and attributes never."""
    for loss in losses:
        array = tree.arrays.get(loss.node)
        if found := _ATTRIBUTE.search(loss.message):
            value = _attrs(tree, loss.node)[found[1]]
            assert "left out" not in loss.message or isinstance(value, ObjectReference), f"never: {loss}"
            continue
        assert loss.feature not in features, f"the format holds that: {loss}"
        assert loss.feature != Feature.DIMENSIONS, f"never: {loss}"
        numeric = array is not None and array.dtype in (*NUMBERS, *REALS) and array.cells.shape
        assert not numeric or loss.feature in (Feature.LABELS, Feature.SPARSE), f"never: {loss}"


def _attrs(tree: SampleTree, path: str) -> Mapping[str, Any]:
    return tree.arrays[path].attrs if path in tree.arrays else tree.groups[path]


def alone(tree: SampleTree, path: str) -> SampleTree:
    """One array with its coordinates, as a dataset: what ``path=`` of an array asks for."""
    folder, _, name = path.rpartition("/")
    main = tree.arrays[path]
    found = {name: main}
    for dim in main.dims:
        beside = [f"{top}/{dim}".lstrip("/") for top in _upwards(folder)]
        place = next((place for place in beside if place in tree.arrays), None)
        if place is not None and place != path:
            found[str(dim)] = tree.arrays[place]
    return SampleTree({"": tree.groups[folder]}, found, {}, tree.unlimited & set(main.dims))


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def mains(tree: SampleTree) -> list[str]:
    """The arrays that are no coordinates."""
    return [path for path, one in tree.arrays.items() if one.dims != (path.rpartition("/")[2],)]


# -- what is found ----------------------------------------------------------------------------------------------------


def settled(tree: SampleTree, told: Told, root: hs.Group) -> SampleTree:
    """The drawn dataset as it is found, once all that is found was seen to be as it was drawn or announced."""
    tree = _with_columns(tree, told)
    arrays = {path: one for path, one in tree.arrays.items() if not told.is_gone(path)}
    groups = {path: attrs for path, attrs in tree.groups.items() if not path or not told.is_gone(path)}
    links = {path: target for path, target in tree.links.items() if not told.is_gone(path)}
    found = dict(_walk(root, ""))
    expected = [*arrays, *(path for path in groups if path)]
    assert sorted(found) == sorted(expected), f"nodes {sorted(found)} for {sorted(expected)}"
    assert {name: link.target.lstrip("/") for name, link in root.links()} == links
    unlimited = tree.unlimited - told.limited
    assert unlimited <= {name for name, dim in root.dims.items() if dim.unlimited}, "unlimited dimensions"
    return SampleTree(
        {path: _attributes(path, attrs, found[path] if path else root, told) for path, attrs in groups.items()},
        {path: _array(path, one, found[path], told) for path, one in arrays.items()},
        links,
        unlimited,
    )


def _with_columns(tree: SampleTree, told: Told) -> SampleTree:
    """The dataset with groups of arrays for the rows and complex numbers of which that was announced."""
    groups, arrays = dict(tree.groups), dict(tree.arrays)
    for path, names in told.columns.items():
        one = arrays.pop(path)
        assert one.dtype not in (*NUMBERS, *REALS), f"never: {path}"
        groups[path] = one.attrs
        for name in names:
            cells: Any = one.cells
            for part in name.split("/"):
                cells = cells[part] if cells.dtype.names else {"r": cells.real, "i": cells.imag}[part]
            dims = (*one.dims, *[None] * (cells.ndim - len(one.dims)))
            arrays[f"{path}/{name}"] = SampleArray(np.ascontiguousarray(cells).reshape(cells.shape), cells.dtype, dims)
            groups.update({f"{path}/{inner}": {} for inner in _upwards(name.rpartition("/")[0]) if inner})
    return replace(tree, groups=groups, arrays=arrays)


def _walk(group: hs.Group, path: str) -> Iterator[tuple[str, Any]]:
    links = dict(group.links())
    for name, array in group.arrays():
        if name not in links:
            yield f"{path}{name}", array
    for name, inner in group.groups():
        if name not in links:
            yield f"{path}{name}", inner
            yield from _walk(inner, f"{path}{name}/")


def _array(path: str, one: SampleArray, found: Any, told: Told) -> SampleArray:
    assert isinstance(found, hs.Array), path
    assert found.shape == one.cells.shape, path
    names = [None if dim is None or _UNNAMED.fullmatch(dim) else dim for dim in one.dims]
    assert all(dim in (None, new) for dim, new in zip(names, found.dims, strict=True)), f"{path}: {found.dims}"
    values = np.asarray(found[...])
    if path in told.types:
        assert isinstance(found.spec.dtype, Compound) or describe(found.spec.dtype) == told.types[path], path
        same = _as_drawn(one.cells, values)
    else:
        same = values
        is_text = one.cells.dtype.kind == "U" and values.dtype.kind == "T"  # of any length: nothing is lost
        if isinstance(one.dtype, np.dtype) and one.cells.dtype.kind != "S" and not is_text:
            assert values.dtype.newbyteorder("=") == one.cells.dtype.newbyteorder("="), path
        if isinstance(one.dtype, Extension):
            assert type(found.spec.dtype) is type(one.dtype), path
    _assert_same(path, one.cells, same)
    if one.fill_value is not None:
        assert found.fill_value is not None and found.fill_value == one.fill_value, f"{path}: {found.fill_value!r}"
    expected = dict(one.attrs)
    if "_FillValue" in found.attrs:  # of Zarr v2, whose fill value means missing
        expected.setdefault("_FillValue", one.fill_value)
        if path in told.types:  # of the type of the cells, as netCDF has it
            expected["_FillValue"] = values.dtype.type(expected["_FillValue"])
    attrs = _attributes(path, expected, found, told)
    fill = None if one.fill_value is None else values.dtype.type(one.fill_value)
    return replace(one, cells=values, dtype=found.spec.dtype, dims=found.dims, attrs=attrs, fill_value=fill)


def _as_drawn(expected: Any, found: Any) -> Any:
    """Cells of the type that was announced, as the one that was drawn."""
    cells = found.ravel().tolist() if found.dtype.kind in "TSUO" else found
    if expected.dtype.kind in "OS" and found.dtype.kind in "TU":
        cells = [text.encode() for text in cells]
    elif expected.dtype.kind == "T" and found.dtype.kind in "SO":
        cells = [text.decode() for text in cells]
    if found.dtype.names is not None and expected.dtype.kind == "c":  # a pair of numbers
        pairs = np.ascontiguousarray(found).view(found.dtype[0].str.replace("f4", "c8").replace("f8", "c16"))
        return pairs.reshape(found.shape)
    if found.dtype.kind not in "TSUO":
        return found.astype(expected.dtype)
    made = np.empty(found.shape, expected.dtype)
    for place, cell in zip(np.ndindex(found.shape), cells, strict=True):
        made[place] = cell
    return made


def _assert_same(path: str, expected: Any, found: Any) -> None:
    """The same bits; text and objects by value."""
    assert expected.shape == found.shape
    if expected.dtype.kind in "OTU":
        pairs = list(zip(expected.flat, found.flat, strict=True))
        assert all(np.array_equal(a, b) for a, b in pairs), f"{path}: {found.tolist()} for {expected.tolist()}"
    else:
        same = found.astype(expected.dtype).tobytes() == expected.tobytes()
        assert same, f"{path}: {found.tolist()} for {expected.tolist()}"


def _attributes(path: str, expected: Mapping[str, Any], node: Any, told: Told) -> dict[str, Any]:
    """The attributes as they are found, each of which is the expected one."""
    found = dict(node.attrs)
    dropped = {name for name in expected if "left out" in told.attrs.get((path, name), "")}
    assert set(found) == set(expected) - dropped, f"{path}: {found} for {expected}"
    for name, value in found.items():
        how = told.attrs.get((path, name))
        same = is_same(expected[name], value) if how is None else _is_poorer(expected[name], value)
        assert same, f"{path}: {name} is {value!r}, not {expected[name]!r} ({how})"
    return found


def is_same(expected: Any, found: Any) -> bool:
    """The same value and dtype; numbers of Python's, which have none, may have got one."""
    if isinstance(expected, ObjectReference):
        return isinstance(found, ObjectReference) and found.path.strip("/") == expected.path.strip("/")
    if isinstance(expected, np.ndarray | np.generic):
        return _is_same_array(expected, found)
    if isinstance(expected, str) or expected is None or isinstance(expected, bool | dict):
        return bool(type(found) in (type(expected), np.str_, np.bool_) and found == expected)
    values = found.tolist() if isinstance(found, np.ndarray | np.generic) else found
    return values == expected or (isinstance(expected, float) and np.isnan(expected) and np.isnan(values))


def _is_same_array(expected: Any, found: Any) -> bool:
    """The model of netCDF does not tell one number from an array of one."""
    if not isinstance(found, np.ndarray | np.generic):
        return False
    a, b = np.ravel(expected), np.ravel(found)
    if a.dtype.kind in "TU":
        return bool(b.dtype.kind in "TU" and a.tolist() == b.tolist())
    if tag_of(a.dtype) != tag_of(b.dtype) or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        return False
    return bool(a.astype(b.dtype).tobytes() == b.tobytes())


def _is_poorer(expected: Any, found: Any) -> bool:
    """What an announced loss may leave of an attribute: its value as JSON text, or without its type."""
    if isinstance(expected, ObjectReference):
        return isinstance(found, str)
    plain = expected.tolist() if isinstance(expected, np.ndarray | np.generic) else expected
    if isinstance(found, str) and not isinstance(plain, str):
        found = json.loads(found)
    found = found.tolist() if isinstance(found, np.ndarray | np.generic) else found
    return bool(np.array_equal(np.asarray(plain, object), np.asarray(found, object))) or str(plain) == str(found)
