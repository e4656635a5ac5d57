"""What is written reads back: any array and group that the current dialect can hold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json.cells import SPECIAL, fill_values_equal
from hyperslab.formats.nczarr import current
from hyperslab.formats.nczarr.attributes import is_hidden, normalize_value
from hyperslab.formats.nczarr.generation import Context, Generation, NCZarrOptions
from hyperslab.model.attrs import equal_attrs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, VlenString
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

NUMBERS = [f"{order}{code}" for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8") for order in "<>"]
NAMES = st.text(min_size=1).filter(lambda name: "/" not in name and not is_hidden(name) and name != "_FillValue")
CONTEXTS = [
    Context(generation=Generation.V2C, options=NCZarrOptions(char_encoding=encoding, truncate=truncate))
    for encoding in ("netcdf", "zarr")
    for truncate in (False, True)
]


def numbers(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    if dtype.kind == "f":
        return st.floats(width=8 * dtype.itemsize).map(dtype.type)
    bounds = np.iinfo(dtype)
    return st.integers(int(bounds.min), int(bounds.max)).map(dtype.type)


def vectors(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    return st.lists(numbers(dtype), max_size=3).map(lambda cells: np.array(cells, dtype))


VALUES = st.one_of(
    st.text(),
    st.text().map(np.str_),
    st.lists(st.text(), max_size=3),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.none(),
    st.dictionaries(st.text(), st.integers()),
    *(numbers(np.dtype(code)) for code in NUMBERS),
    *(vectors(np.dtype(code)) for code in NUMBERS),
)
ATTRS = st.dictionaries(NAMES, VALUES, max_size=4)


@st.composite
def wishes(draw: st.DrawFn) -> ArraySpec:
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    dtype: Any = draw(st.sampled_from([*map(np.dtype, NUMBERS), Char(), VlenString()]))
    chars = st.characters(min_codepoint=32, max_codepoint=126)
    match dtype:
        case Char():
            fill: Any = st.text(chars, max_size=1)
        case VlenString():
            fill = st.text(chars, max_size=8)
        case _:
            fill = numbers(dtype.newbyteorder("="))
    attrs = draw(ATTRS)
    if draw(st.booleans()):
        attrs["_FillValue"] = draw(fill)
    if isinstance(dtype, VlenString) and draw(st.booleans()):
        attrs["_nczarr_maxstrlen"] = draw(st.integers(8, 99))
    codecs = draw(st.sampled_from([(), (Codec("zlib", {"level": 1}),), (Codec("zstd", {"level": 3}),)]))
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        chunks=tuple(draw(st.integers(1, 9)) for _ in shape),
        dims=tuple(draw(st.none() | NAMES) for _ in shape),
        codecs=codecs,
        fill_value=draw(st.none() | fill),
        attrs=attrs,
    )


def read(docs: Any, node: str, context: Context) -> Any:
    """The spec of documents that went through JSON."""
    problems = Problems(node)
    stored = json.loads(json.dumps(docs, allow_nan=False))
    spec = current.parse(stored, node, context, problems)
    assert problems == []
    return spec


def same(a: Any, b: Any) -> bool:
    fills = fill_values_equal(getattr(a, "fill_value", None), getattr(b, "fill_value", None))
    plain = [spec.evolve(attrs={}, **({"fill_value": None} if isinstance(spec, ArraySpec) else {})) for spec in (a, b)]
    return fills and equal_attrs(a.attrs, b.attrs) and plain[0] == plain[1]


@given(wishes(), st.sampled_from(["a", "g/h/a"]), st.sampled_from(CONTEXTS))
def test_arrays(wish, node, context):
    made = current.new_array(wish, node, context)
    docs = current.render(made, node, context)
    found = read(docs, node, context)
    resolved = {key: value for key, value in found.layout.items() if key != "dimensions"}
    assert same(found.evolve(dims=made.dims, layout={}), made.evolve(layout={}))
    assert (resolved.keys(), resolved["hidden"]) == (made.layout.keys(), made.layout["hidden"])
    assert (made.shape, made.chunks, made.dims) == (wish.shape, wish.chunks, wish.dims)
    visible = {name: normalize_value(value) for name, value in wish.attrs.items() if not is_hidden(name)}
    assert list(made.attrs) == list(visible)
    assert equal_attrs(*[{n: v for n, v in attrs.items() if n != "_FillValue"} for attrs in (made.attrs, visible)])
    assert current.render(found, node, context) == docs


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    dims = [Dimension(name, draw(st.integers(0, 2**63 - 1)), draw(st.booleans())) for name in names]
    lists = [tuple(draw(st.lists(NAMES, unique=True, max_size=3))) for _ in range(2)]
    return GroupSpec(attrs=draw(ATTRS), dims=tuple(dims), layout={"arrays": lists[0], "groups": lists[1]})


@given(groups(), st.sampled_from(["", "g", "g/h"]), st.sampled_from(CONTEXTS))
def test_groups(spec, node, context):
    docs = current.render(spec, node, context)
    found = read(docs, node, context)
    assert found.dims == spec.dims
    assert (found.layout["arrays"], found.layout["groups"]) == (spec.layout["arrays"], spec.layout["groups"])
    assert equal_attrs(found.attrs, {name: normalize_value(value) for name, value in spec.attrs.items()})
    assert list(found.attrs) == list(spec.attrs)
    assert current.render(found, node, context) == docs
    assert same(read(current.render(found, node, context), node, context), found)


def lists_in(value: Any) -> list[list[Any]]:
    inside = [found for item in (value if isinstance(value, list) else []) for found in lists_in(item)]
    return [value, *inside] if isinstance(value, list) else inside


@given(groups())
def test_4_2_netcdf_c_survives_every_attribute(spec):
    attributes = current.render(spec, "g", CONTEXTS[0])[".zattrs"]
    for name in spec.attrs:
        for items in lists_in(attributes[name]):
            numbers_of = [item for item in items if not isinstance(item, str) or item in SPECIAL]
            assert items
            assert len(numbers_of) in (0, len(items)) or all(isinstance(item, str) for item in items)
        assert not isinstance(attributes[name], dict | bool)
