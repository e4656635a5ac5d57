"""Documents to contents and back, and how the stream is cut into rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.bloscpack.document import Content, cut, parse_document, read_text, render_document, write_text
from hyperslab.formats.single_array.document import LabelledArray, StoredCoordinate
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec

PLAIN: dict[str, Any] = {"dtype": "'<f8'", "shape": [4, 3], "order": "C", "container": "numpy"}
STRING = np.dtypes.StringDType()


def test_a_plain_array_is_what_bloscpack_writes() -> None:
    content = parse_document(PLAIN, nbytes=96, chunk_size=96)
    assert write_text(render_document(content)) == b'{"dtype":"\'<f8\'","shape":[4,3],"order":"C","container":"numpy"}'


def test_labels_stand_behind_it() -> None:
    spec = ArraySpec(
        shape=(4, 3),
        dtype=np.dtype("<f8"),
        chunks=(4, 3),
        dims=("time", None),
        attrs={"by": None, "units": "K", "scale": np.float32(0.1)},
        fill_value=-1.0,
    )
    time = ArraySpec(shape=(4,), dtype=np.dtype("<i4"), chunks=(4,), dims=("time",), attrs={"units": "days"})
    place = ArraySpec(shape=(), dtype=VlenString(), chunks=())
    labelled = LabelledArray(
        "air",
        spec,
        {
            "time": StoredCoordinate(time, np.arange(4, dtype="<i4")),
            "place": StoredCoordinate(place, np.array("Zürich", STRING)),
        },
        GroupSpec(attrs={"title": "t"}, dims=(Dimension("time", 4, unlimited=True),)),
    )
    doc = render_document(Content(labelled=labelled, stored=np.dtype("<f8"), outer=("by",), extra={"others": []}))
    assert list(doc) == [*PLAIN, "name", "dims", "attrs", "types", "fill_value", "coords", "group", "by", "others"]
    again = parse_document(read_text(write_text(doc)), nbytes=96, chunk_size=96)
    assert (again.labelled.name, again.spec) == ("air", spec)
    assert (again.outer, again.extra) == (("by",), {"others": []})
    assert again.labelled.group == labelled.group
    for name, coordinate in labelled.coords.items():
        assert again.labelled.coords[name].spec == coordinate.spec
        np.testing.assert_array_equal(again.labelled.coords[name].cells, coordinate.cells)
    assert render_document(again) == doc


@pytest.mark.parametrize(
    ("doc", "says"),
    [
        (PLAIN | {"shape": [5, 3]}, "hold 96 bytes"),
        (PLAIN | {"shape": [4, -3]}, "no shape"),
        (PLAIN | {"shape": 4}, "no shape"),
        (PLAIN | {"shape": [4.0, 3]}, "no shape"),
        (PLAIN | {"shape": [True, 3]}, "no shape"),
        (PLAIN | {"shape": [2**40, 2**40, 0]}, "cells"),
        (PLAIN | {"shape": [1] * 65}, "65 axes"),
        (PLAIN | {"order": "K"}, "order 'K'"),
        (PLAIN | {"order": []}, "order []"),
        (PLAIN | {"dtype": "i4,i4"}, "i4,i4"),
        (PLAIN | {"dims": ["a"]}, "dims"),
        (PLAIN | {"name": "a/b"}, "a/b"),
        (PLAIN | {"name": ".."}, ".."),
        (PLAIN | {"coords": {"x": {}}}, "labels"),
        (PLAIN | {"coords": {"data": {"dtype": "<i4", "shape": [], "cells": [1]}}}, "as the array is"),
        (PLAIN | {"coords": {"x": {"dtype": "<i4", "shape": [2**40], "cells": [1]}}}, "cells"),
        (PLAIN | {"attrs": {}, "types": {}, "dims": [1, 2]}, "no names"),
        (PLAIN | {"fill_value": "x"}, "labels"),
    ],
)
def test_what_makes_no_sense(doc: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse_document(doc, nbytes=96, chunk_size=96)
    assert says in str(raised.value)


def test_objects() -> None:
    with pytest.raises(Unsupported, match="pickles"):
        parse_document(PLAIN | {"dtype": "'|O'"}, nbytes=96, chunk_size=96)


@pytest.mark.parametrize(
    "doc", [{"dtype": "float64", "shape": [13]}, {"dtype": "O", "shape": []}, {"shape": [12]}, None]
)
def test_a_user_s_own_metadata(doc: dict[str, Any] | None) -> None:
    content = parse_document(doc, nbytes=96, chunk_size=50, loose=True)
    assert (content.plain, content.spec.shape, content.spec.attrs) == (True, (96,), doc or {})
    assert render_document(content) == (doc or {})


def test_metadata_that_fit_by_chance_or_not() -> None:
    content = parse_document({"dtype": "float64", "shape": [12], "others": []}, nbytes=96, chunk_size=50, loose=True)
    assert (content.plain, content.spec.shape, content.extra) == (False, (12,), {"others": []})


def test_bytes_have_plain_attributes() -> None:
    content = parse_document({"a": 1}, nbytes=4, chunk_size=4)
    labelled = LabelledArray("data", content.spec.evolve(attrs={"a": np.float32(1)}))
    with pytest.raises(Unsupported, match="'a'"):
        render_document(content.evolve(labelled=labelled))


@given(
    st.lists(st.integers(0, 50), max_size=4).map(tuple),
    st.sampled_from(["u1", "<f8", "S300"]),
    st.sampled_from("CF"),
    st.integers(-1, 4000),
)
def test_cuts(shape: tuple[int, ...], dtype: str, order: str, chunk_size: int) -> None:
    """Whole rows of the slowest axis; those of the stored chunks where these hold whole rows."""
    stored = np.dtype(dtype)
    chunks = cut(shape, stored, order, chunk_size)
    assert len(chunks) == len(shape)
    axis = 0 if order == "C" else len(shape) - 1
    for k, (length, size) in enumerate(zip(shape, chunks, strict=True)):
        assert 1 <= size <= max(1, length)
        assert k == axis or size == max(1, length)
    if shape and 0 not in shape and chunk_size > 0:
        row = stored.itemsize * int(np.prod(shape)) // shape[axis]
        if chunk_size % row == 0:
            assert chunks[axis] == min(shape[axis], chunk_size // row)
        else:
            assert chunks[axis] * row >= min(chunk_size, row * shape[axis])
