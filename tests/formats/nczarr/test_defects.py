"""What crashes, hangs or corrupts real readers of NCZarr (section 6 of the reference): here it is an error or a warning
on that one variable, or nothing at all, and the rest opens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_stores import STORES, A, T, current, edit, write, zarray

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Invalid, Unsupported
from hyperslab.integrity.survey import check

ODD: dict[str, Any] = {
    "mixed": [1, "a"],
    "empty": [],
    "deep": [[1, [2]], {"a": []}],
    "dict": {"a": 1},
    "texts": ["a", "é"],
    "null": None,
    "true": True,
    "large": 2**64,
    "huge": 10**400,
    "escape": "\u00e9",
    "number": 1.5,
}


def rest_is_read(root: Path, *, a: bool = True) -> Any:
    """The dataset; all that is not damaged is as it was."""
    dataset = hs.open(root)
    assert {"a", "t", "g"} <= set(dataset)
    np.testing.assert_array_equal(dataset["t"][...], T)
    np.testing.assert_array_equal(dataset["g/b"][...], A[0])
    if a:
        np.testing.assert_array_equal(dataset["a"][...], A)
    assert "t" in dataset.tree() and repr(dataset)
    return dataset


@pytest.mark.parametrize("where", ["", "a/"])
def test_5_attributes_of_any_json(where: str, tmp_path: Path) -> None:
    """A mixed list ends the process of netcdf-c, an empty one its open; escapes and large numbers become others."""
    root = current(tmp_path / "x")
    edit(root, f"{where}.zattrs", lambda doc: doc.update(ODD))
    dataset = rest_is_read(root)
    attrs = (dataset["a"] if where else dataset).attrs
    assert attrs["escape"] == "é"
    assert attrs["number"] == 1.5
    assert attrs["true"] == 1 and np.asarray(attrs["true"]).dtype == "u1"
    assert list(attrs["texts"]) == ["a", "é"]
    for name in ("mixed", "empty", "deep", "dict", "null", "large", "huge"):
        assert isinstance(attrs[name], str), name
        assert json.loads(attrs[name]) == ODD[name]


@pytest.mark.parametrize("store", ["current", "4.9.0", "4.9.1", "draft"])
def test_6_order_f(store: str, tmp_path: Path) -> None:
    root = STORES[store](tmp_path / "x")
    edit(root, "a/.zarray", lambda doc: doc.update(order="F"))
    write(root, "a/0.0", A[:2].tobytes("F"))
    write(root, "a/1.0", np.concatenate([A[2:], A[:1] * 0 - 1]).tobytes("F"))
    rest_is_read(root)


FOREIGN: dict[str, tuple[Any, np.ndarray, Any]] = {
    "bool": ("|b1", np.array([True, False, True, False]), False),
    "complex": ("<c8", np.array([1, 2j, 3, 4], "c8"), None),
    "double complex": ("<c16", np.array([1, 2j, 3, 4], "c16"), None),
    "datetime": ("<M8[s]", np.array([1, 2, 3, 4], "M8[s]"), None),
    "timedelta": ("<m8[D]", np.array([1, 2, 3, 4], "m8[D]"), None),
    "unicode": ("<U5", np.array(["a", "b", "c", "d"], "U5"), ""),
    "half": ("<f2", np.array([1, 2, 3, 4], "f2"), 0),
    "void": ("|V3", np.array([b"abc"] * 4, "V3"), None),
    "structured": ([["p", "<i4"], ["q", "<f8"]], np.zeros(4, [("p", "<i4"), ("q", "<f8")]), None),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_7_a_variable_of_a_type_that_netcdf_has_not(name: str, tmp_path: Path) -> None:
    """One of them makes the whole dataset unopenable for netcdf-c."""
    root = current(tmp_path / "x")
    dtype, cells, fill = FOREIGN[name]
    write(root, "v/.zarray", zarray([4], dtype, [4], fill_value=fill))
    write(root, "v/.zattrs", {"_ARRAY_DIMENSIONS": ["x"]})
    write(root, "v/0", cells.tobytes())
    dataset = rest_is_read(root)
    np.testing.assert_array_equal(dataset["v"][...], cells)
    assert "v" in dataset.tree()


@pytest.mark.parametrize("dtype", ["|O", "<f16", "<i3", "x", None, 5, [["a", "<i4"], 3], ["a"], "|S0", {}])
def test_7_a_type_that_nobody_has(dtype: Any, tmp_path: Path) -> None:
    root = current(tmp_path / "x")
    edit(root, "a/.zarray", lambda doc: doc.update(dtype=dtype))
    dataset = rest_is_read(root, a=False)
    with pytest.raises((FormatError, Unsupported, Invalid, CorruptChunk), match="a"):
        dataset["a"][...]
    assert {problem.node for problem in check(root)} == {"a"}


@pytest.mark.covering
@pytest.mark.parametrize("names", [[], ["t"], ["t", "x", "y"], "t", [None, 1], [["t"], "x"], {"t": 1}, ["", "/"], 5])
@pytest.mark.parametrize("store", ["current", "4.9.0", "draft"])
def test_8_names_of_dimensions_that_fit_no_shape(store: str, names: Any, tmp_path: Path) -> None:
    """Netcdf-c reads behind the end of the list."""
    root = STORES[store](tmp_path / "x")
    edit(root, "a/.zattrs", lambda doc: doc.update(_ARRAY_DIMENSIONS=names))
    assert rest_is_read(root)["a"].dims == ("t", "x")
    assert [(problem.node, problem.kind) for problem in check(root)] == [("a", "xarray-dimensions")]


def test_8_names_of_dimensions_without_references(tmp_path: Path) -> None:
    root = current(tmp_path / "x")
    edit(root, "a/.zattrs", lambda doc: [doc.update(_ARRAY_DIMENSIONS=["t"]), doc.pop("_nczarr_array")])
    assert rest_is_read(root)["a"].dims == ("_Anonymous_Dim_3", "_Anonymous_Dim_4")
    assert {problem.node for problem in check(root)} == {"a"}


def test_8_one_name_of_two_sizes(tmp_path: Path) -> None:
    """Plain Zarr, read as netCDF: the later array gets a name that nobody gave."""
    root = tmp_path / "x"
    write(root, ".zgroup", {"zarr_format": 2})
    for name, size in (("a", 3), ("b", 4)):
        write(root, f"{name}/.zarray", zarray([size], "<i4", [size]))
        write(root, f"{name}/.zattrs", {"_ARRAY_DIMENSIONS": ["x"]})
        write(root, f"{name}/0", np.arange(size, dtype="<i4").tobytes())
    dataset = hs.open(root, format="nczarr")
    assert [dataset[name].shape for name in "ab"] == [(3,), (4,)]
    assert dataset["b"][...].tolist() == [0, 1, 2, 3]


def test_8_an_array_that_was_resized(tmp_path: Path) -> None:
    """The shape of the array is right, and a message names both sizes."""
    root = current(tmp_path / "x")
    edit(root, "g/b/.zarray", lambda doc: doc.update(shape=[3]))
    dataset = hs.open(root)
    np.testing.assert_array_equal(dataset["g/b"][...], A[0, :3])
    np.testing.assert_array_equal(dataset["a"][...], A)
    (problem,) = check(root)
    assert "3" in problem.message and "4" in problem.message and "/x" in problem.message


@pytest.mark.parametrize("key", ["a/.zattrs", ".zattrs", "g/.zattrs", "a/.zarray", ".zgroup"])
def test_9_bytes_behind_a_document(key: str, tmp_path: Path) -> None:
    root = current(tmp_path / "x")
    with open(root / key, "ab") as file:
        file.write(b'}}J0"}}}')
    rest_is_read(root)
    (problem,) = check(root)
    assert problem.kind == "json-mended" and "8 characters after the document" in problem.message


@pytest.mark.parametrize("store", ["4.9.0", "4.9.1"])
def test_15_old_stores(store: str, tmp_path: Path) -> None:
    """Dimensions in groups, scalars, and arrays without ``.zattrs``, which end other versions of netcdf-c."""
    root = STORES[store](tmp_path / "x")
    own = "_NCZARR_ARRAY" if store == "4.9.0" else "_nczarr_array"
    write(root, "s/.zarray", zarray([1], "<f8", [1], **{own: {"dimrefs": [], "storage": "scalar"}}))
    write(root, "s/0", np.float64(2.5).tobytes())
    char = "<U1" if store == "4.9.0" else ">S1"
    text = zarray([4], char, [4], **{"fill_value": "", own: {"dimrefs": ["/x"], "storage": "chunked"}})
    write(root, "g/c/.zarray", text)
    write(root, "g/c/0", b"abcd")
    dataset = rest_is_read(root)
    assert not (root / "g/b/.zattrs").exists()
    assert dataset["g/b"].dims == ("x",)
    assert dataset["s"].shape == () and dataset["s"][()] == 2.5
    assert dataset["g/c"][...].tolist() == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(("store", "swapped"), [("4.9.0", True), ("4.9.1", True), ("current", False)])
def test_20_big_endian_cells(store: str, swapped: bool, tmp_path: Path) -> None:
    root = STORES[store](tmp_path / "x")
    edit(root, "g/b/.zarray", lambda doc: doc.update(dtype=">f8"))
    write(root, "g/b/0", np.arange(4.0).astype("<f8" if swapped else ">f8").tobytes())
    assert hs.open(root)["g/b"][...].tolist() == [0, 1, 2, 3]
    assert {problem.kind for problem in check(root)} == ({"byte-order"} if swapped else set())
    other = hs.open(root, format="nczarr", byteorder="stored" if swapped else "swapped")
    assert other["g/b"][...].tolist() != [0, 1, 2, 3]


def test_20_a_store_that_was_never_finished(tmp_path: Path) -> None:
    root = STORES["4.9.0"](tmp_path / "x")
    shutil.rmtree(root / "a")
    dataset = hs.open(root)
    assert "a" not in dataset and dataset["t"][...].tolist() == T.tolist()
    assert [(problem.node, problem.kind) for problem in check(root)] == [("a", "missing")]


def test_text_that_is_too_long(tmp_path: Path) -> None:
    """It is cut where that is asked for, between characters; netcdf-c cuts it silently, and characters too."""
    root = tmp_path / "x.nczarr"
    with hs.create(str(root)) as dataset:
        array = dataset.create_array("s", shape=(2,), dtype=str, attrs={"_nczarr_maxstrlen": 4})
        array[0] = "abcd"
        with pytest.raises(Invalid, match="truncate"):
            array[1] = "abcé"
    assert hs.open(root)["s"][...].tolist() == ["abcd", ""]
    with hs.open(root, "r+", format="nczarr", truncate=True) as dataset:
        dataset["s"][1] = "abcé"
    assert hs.open(root)["s"][...].tolist() == ["abcd", "abc"]


BROKEN: dict[str, Callable[[Path], Any]] = {
    "a document that is empty": lambda root: write(root, "a/.zarray", b""),
    "a document that is cut": lambda root: write(root, "a/.zarray", b'{"zarr_format": 2, "shape": [3'),
    "attributes that are a list": lambda root: write(root, "a/.zattrs", []),
    "10^5 levels": lambda root: write(root, "a/.zattrs", b'{"a":' * 100_000),
    "a chunk that is cut": lambda root: write(root, "a/0.0", b"\0\0\0"),
    "an unknown codec": lambda root: edit(root, "a/.zarray", lambda doc: doc.update(compressor={"id": "szip"})),
    "a negative shape": lambda root: edit(root, "a/.zarray", lambda doc: doc.update(shape=[-3, 4])),
    "no shape": lambda root: edit(root, "a/.zarray", lambda doc: doc.pop("shape")),
}


@pytest.mark.covering
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", BROKEN)
def test_one_broken_variable(name: str, store: str, tmp_path: Path) -> None:
    root = STORES[store](tmp_path / "x")
    BROKEN[name](root)
    dataset = rest_is_read(root, a=False)
    with pytest.raises(HyperslabError, match="a"):
        dataset["a"][...]
    assert {problem.node for problem in check(root, deep=True)} == {"a"}
