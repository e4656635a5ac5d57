"""``diff``: two datasets of any formats; NumPy says which cells differ."""

from __future__ import annotations

import json
import pickle
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import CASES, LAYOUTS, Dataset, sound

import hyperslab as hs
from hyperslab.errors import Invalid, StorageError
from hyperslab.integrity.comparison import CellsDiffer, unequal
from hyperslab.stores.memory import MemoryStore


def made(cells: Any, chunks: Any = None, **options: Any) -> MemoryStore:
    store = MemoryStore()
    with hs.create(store) as root:
        root.create_array("a", data=cells, **({"chunks": chunks} if chunks else {}), **options)
    return store


@pytest.mark.covering
@pytest.mark.parametrize("a", LAYOUTS)
@pytest.mark.parametrize("b", LAYOUTS)
def test_layouts_mean_nothing(a: str, b: str, tmp_path: Path) -> None:
    one, other = sound(tmp_path / "a", a), sound(tmp_path / "b", b)
    found = hs.diff(one, other)
    assert (list(found), found.arrays, found.cells) == ([], 5, 8 + 12 + 96 + 96 + 5)


@pytest.mark.parametrize("target", ["zarr2", "zarr3", "netcdf"])
def test_a_conversion_is_equal_both_ways(target: str, tmp_path: Path) -> None:
    place = sound(tmp_path, "zarr3")
    hs.convert(place, tmp_path / "y", format=target)
    assert (list(hs.diff(place, tmp_path / "y")), list(hs.diff(tmp_path / "y", place))) == ([], [])


CHANGES: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "attribute": (lambda root: root["t2m"].attrs.update(units="C"), [("t2m", "attribute")]),
    "attribute type": (lambda root: root["t2m"].attrs.update(n=np.float32(1)), [("t2m", "attribute")]),
    "attribute gone": (lambda root: root["t2m"].attrs.pop("units"), [("t2m", "attribute")]),
    "group attribute": (lambda root: root.attrs.update(title="x"), [("", "attribute")]),
    "cell": (lambda root: root["t2m"].__setitem__((5, 7), -1), [("t2m", "cells")]),
    "node gone": (lambda root: root.__delitem__("g"), [("g", "missing-node")]),
    "new node": (lambda root: root.create_group("h"), [("h", "new-node")]),
    "shape": (lambda root: root["t2m"].resize((9, 12)), [("t2m", "shape")]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_difference_is_told(name: str, tmp_path: Path) -> None:
    place = sound(tmp_path, "zarr3")
    shutil.copytree(place, tmp_path / "y")
    change, expected = CHANGES[name]
    with hs.open_group(tmp_path / "y", "r+") as root:
        change(root)
    assert [(problem.node, problem.kind) for problem in hs.diff(place, tmp_path / "y")] == expected
    assert hs.diff(tmp_path / "y", place)


def test_types_dims_fill_values_and_kinds(tmp_path: Path) -> None:
    a, b = MemoryStore(), MemoryStore()
    for store, dtype, dims, fill in ((a, "f4", ("x",), 1.0), (b, "f8", ("y",), 1.0)):
        with hs.create(store) as root:
            root.create_array("t", data=np.arange(3, dtype=dtype), dims=("x",))
            root.create_array("d", data=np.arange(3), dims=dims)
            root.create_array("f", shape=(3,), dtype="f4", fill_value=fill if store is a else 2.0)[:] = 5
    with hs.open_group(a, "r+") as root:
        root.create_group("k")
    with hs.open_group(b, "r+") as root:
        root.create_array("k", data=np.arange(2))
    found = {(problem.node, problem.kind) for problem in hs.diff(a, b)}
    assert found == {("t", "type"), ("d", "dimensions"), ("f", "fill-value"), ("k", "kind")}


@pytest.mark.parametrize(("chosen", "found"), [(None, []), (5.0, ["fill-value"])])
def test_fill_values_that_nobody_chose_are_alike(tmp_path: Path, chosen: float | None, found: list[str]) -> None:
    """netCDF fills with 9.97e36 and Zarr with zero where nobody said otherwise."""
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("x", data=np.arange(3.0), dims=("x",))
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.arange(3.0), dims=("x",), fill_value=chosen)
    assert [problem.kind for problem in hs.diff(tmp_path / "a.nc", tmp_path / "a.zarr")] == found


def test_counts_and_first_places() -> None:
    cells = np.arange(60.0).reshape(6, 10)
    other = cells.copy()
    other[[4, 1, 5], [3, 9, 0]] = [-1, np.nan, -2]
    (problem,) = hs.diff(made(cells, (2, 3)), made(other, (5, 4)))
    assert isinstance(problem, CellsDiffer)
    assert (problem.differing, problem.compared) == (3, 60)
    assert [place for place, _, _ in problem.first] == [(1, 9), (4, 3), (5, 0)]
    assert "[4, 3] 43.0 -> -1.0" in problem.message


@settings(max_examples=min(settings.default.max_examples, 60))
@given(data=st.data())
def test_numpy_agrees(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    cuts = [tuple(data.draw(st.integers(1, n)) for n in shape) for _ in range(2)]
    cells = np.random.default_rng(0).integers(0, 3, shape).astype(data.draw(st.sampled_from(["f4", "i2", "<U3", "?"])))
    other = cells.copy()
    places = data.draw(st.lists(st.integers(0, cells.size - 1), max_size=5))
    other.reshape(-1)[places] = np.random.default_rng(1).integers(0, 3, len(places)).astype(cells.dtype)
    memory = data.draw(st.sampled_from([64, 1 << 20]))
    found = hs.diff(made(cells, cuts[0]), made(other, cuts[1]), memory=memory)
    assert sum(problem.differing for problem in found) == (cells != other).sum()  # type: ignore[attr-defined]
    for problem in found:
        for place, a, b in problem.first:  # type: ignore[attr-defined]
            assert (a, b) == (cells[place], other[place])


def test_bits_count_where_types_are_the_same() -> None:
    zeros, nans = np.zeros(2, "f4"), np.full(2, np.nan, "f4")
    assert not unequal(nans, nans.copy()).any()
    assert unequal(zeros, -zeros).all()
    payload = nans.copy()
    payload.view("u4")[0] ^= 1
    assert unequal(nans, payload).tolist() == [True, False]
    assert not unequal(zeros, zeros.astype(">f4")).any()
    assert not unequal(nans, nans.astype("f8")).any()
    assert unequal(np.array([1, 2]), np.array([1.0, 2.5])).tolist() == [False, True]


def test_structures_text_and_objects() -> None:
    pair = np.dtype([("a", "i2"), ("b", "f4", (2,))])
    a, b = np.zeros(3, pair), np.zeros(3, pair)
    b["b"][1, 1] = 1
    assert unequal(a, b).tolist() == [False, True, False]
    padded = np.zeros(3, np.dtype([("a", "i2"), ("b", "f4", (2,))], align=True))
    assert not unequal(a, padded).any()
    words = np.array(["x", "yy"], np.dtypes.StringDType())
    assert unequal(words, np.array(["x", "y"], np.dtypes.StringDType())).tolist() == [False, True]
    ragged = np.array([np.arange(2), np.arange(3)], object)
    assert unequal(ragged, np.array([np.arange(2), np.arange(4)], object)).tolist() == [False, True]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_cannot_be_read_ends_nothing(layout: str, tmp_path: Path) -> None:
    data = Dataset(sound(tmp_path, layout), layout)
    shutil.copytree(data.root, tmp_path / "y")
    CASES["chunk empty"].plant(data)
    with hs.open_group(tmp_path / "y", "r+") as root:
        root["t2m"][7, 11] = -5
        root["raw"][0, 0] = -5
    found = hs.diff(data.root, tmp_path / "y")
    assert repr(found) == f"<Differences of {found.url}: 3 problems, 0 notes>"
    assert {(problem.node, problem.kind) for problem in found} == {
        ("t2m", "unreadable-cells"),
        ("t2m", "cells"),
        ("raw", "cells"),
    }


class Unlisted(MemoryStore):
    """A medium that fails, once it is ``worn``, where group ``g`` is listed."""

    worn = False

    def list_dir(self, prefix: str = "") -> Any:
        if self.worn and prefix == "g":
            raise StorageError("the medium fails", url=self.url, key=prefix)
        return super().list_dir(prefix)


def test_a_group_that_cannot_be_listed_ends_nothing() -> None:
    stores = MemoryStore(), Unlisted()
    for number, store in enumerate(stores):
        with hs.create(store, "zarr2") as root:
            root.create_group("g").attrs["n"] = number
            root.create_array("z", data=np.full(3, number))
    stores[1].worn = True
    for a, b, letter in ((*stores, "B"), (*reversed(stores), "A")):
        found = hs.diff(a, b)
        assert [(one.node, one.kind) for one in found] == [
            ("g", "attribute"),
            ("g", "unreadable-node"),
            ("z", "cells"),
        ]
        assert found[1].message == f"what lies below cannot be listed in {letter}: the medium fails"


def test_each_side_has_options_of_its_own(tmp_path: Path) -> None:
    """A pair is for A and for B; one mapping is for the sides that are not of this machine."""
    (tmp_path / "cells.bin").write_bytes(bytes(range(8)))
    places = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        array = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "compressor": None} | {
            "filters": None,
            "order": "C",
            "fill_value": 0,
        }
        refs = {".zgroup": {"zarr_format": 2}, "x/.zarray": array, "x/0": [str(tmp_path / "cells.bin")]}
        places.append(tmp_path / name / "refs.json")
        places[-1].write_text(json.dumps({"version": 1, "refs": refs}))
    allowed = {"allow_external": [str(tmp_path)]}
    assert not hs.diff(*places, storage_options=allowed)
    assert not hs.diff(*places, storage_options=(allowed, allowed))
    (only,) = hs.diff(*places, storage_options=(allowed, None))
    assert only.kind == "unreadable-cells" and "in B" in only.message
    (only,) = hs.diff(*places, storage_options=(None, allowed))
    assert only.kind == "unreadable-cells" and "in A" in only.message
    hs.convert(places[0], tmp_path / "y.zarr", storage_options=(allowed, None))
    assert not hs.diff(places[1], tmp_path / "y.zarr", storage_options=allowed)
    with pytest.raises(Invalid, match="pair"):
        hs.diff(*places, storage_options=[allowed, allowed])  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="option"):
        hs.diff(places[1], tmp_path / "y.zarr", storage_options=(allowed, allowed))


def test_documents_alone(tmp_path: Path) -> None:
    a, b = made(np.arange(3)), made(np.arange(3) + 1)
    assert not hs.diff(a, b, cells=False)
    assert hs.diff(a, b)


@pytest.mark.sampled(0)
def test_memory_is_bounded(tmp_path: Path) -> None:
    """Two arrays of 32 MiB, cut across one another, in 4 MiB."""
    cells = np.random.default_rng(0).random((2048, 2048))
    for name, chunks in (("a", (2048, 16)), ("b", (16, 2048))):
        with hs.create(tmp_path / name, "zarr3") as root:
            root.create_array("a", data=cells, chunks=chunks, codec="none")
    del cells
    assert not hs.diff(tmp_path / "a", tmp_path / "b", memory=4 << 20, workers=1)
    tracemalloc.start()
    try:
        assert not hs.diff(tmp_path / "a", tmp_path / "b", memory=4 << 20, workers=1)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_differences_travel() -> None:
    found = hs.diff(made(np.arange(3)), made(np.arange(3) * 2))
    again = pickle.loads(pickle.dumps(found))
    assert list(again) == list(found) and (again.arrays, again.cells) == (1, 3)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="this platform has no floats of 80 bits")
@pytest.mark.parametrize("dtype", ["g", "G"])
def test_what_pads_long_floats_is_no_difference(dtype: str) -> None:
    """Ten bytes hold the number; six behind them are whatever was in memory."""
    a = np.array([1, np.nan, 3], dtype)
    b = a.copy()
    b.view(np.uint8).reshape(-1, 16)[:, 10:] = 255
    assert not unequal(a, b).any()
    b[2] = 4
    assert unequal(a, b).tolist() == [False, False, True]
