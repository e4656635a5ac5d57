"""NCZarr to readers of plain Zarr: zarr-python and xarray open both dialects without a warning, and what they change
we read."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenString
from hyperslab.model.spec import GroupSpec

pytestmark = pytest.mark.interop

NUMBERS = [
    "i1",
    "u1",
    *(f"{order}{code}" for code in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8") for order in "<>"),
]
CODECS = ["none", "default", "zlib:1", "zstd:3", "bz2:1", "shuffle+zlib:1", "blosc:zstd:3"]
PAIR = Compound(np.dtype([("a", "<i4"), ("b", "<f8")]), "pair")
E_T = Enum(np.dtype("u1"), (("A", 0), ("B", 3)), "letters")
DIALECTS = ["current", "draft"]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_way = pytest.mark.parametrize(
    ("dialect", "consolidated"),
    [("current", False), ("current", True), ("draft", True)],  # the draft always has consolidated metadata
)
ATTRIBUTES: dict[str, Any] = {
    "title": "hé ☃",
    "empty": "",
    "json": "[0.,0.,1.]",
    "pi": np.float64(np.pi),
    "none": np.float32("nan"),
    "bytes": np.array([1, 2], "i1"),
    "words": np.array(["a", "hé"], np.dtypes.StringDType()),
}


def cells(dtype: Any, shape: tuple[int, ...] = (3, 5)) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)


VALUES: dict[str, tuple[tuple[str, ...], Any, np.ndarray[Any, Any]]] = {
    **{f"v{at}": (("t", "x"), dtype, cells(dtype)) for at, dtype in enumerate(NUMBERS)},
    "t": (("t",), "f8", np.arange(3.0)),
    "char": (("x",), Char(), np.frombuffer(b"abcde", "S1")),
    "string": (("x",), VlenString(), np.array(["a", "hé ☃", "", "dd", "e"])),
    "scalar": ((), "f4", np.array(2.5, "f4")),
    "inner/v": (("t", "x"), "i2", cells("i2", (3, 2))),
    "inner/deep/w": (("x",), "f8", np.arange(2.0)),
}
OF_DRAFT: dict[str, tuple[tuple[str, ...], Any, np.ndarray[Any, Any]]] = {
    "pairs": (("x",), PAIR, np.array([(n, n / 2) for n in range(5)], PAIR.base)),
    "raw": (("t",), Opaque(10, "blob"), np.frombuffer(bytes(range(30)), "V10")),
    "letters": (("x",), E_T, np.array([0, 3, 0, 3, 0], "u1")),
}


def values_of(dialect: str) -> dict[str, tuple[tuple[str, ...], Any, np.ndarray[Any, Any]]]:
    return VALUES | (OF_DRAFT if dialect == "draft" else {})


def declare(group: hs.Group, *dims: Dimension) -> None:
    group._session.writer().put(group.path, GroupSpec(attrs=dict(group.attrs), dims=dims))


def write(place: Path, dialect: str, *, consolidated: bool = True) -> None:
    """Every plain type over an unlimited dimension and one that a group shadows; codecs in turn."""
    options = {} if dialect == "draft" else {"char_encoding": "zarr", "consolidated": consolidated}
    with hs.create(place, format="nczarr", dialect=dialect, **options) as root, root.batch():
        root.attrs.update(ATTRIBUTES)
        declare(root, Dimension("t", 3, True), Dimension("x", 5))
        declare(root.create_group("inner", {"note": "in a group"}), Dimension("x", 2))
        for at, (name, (dims, dtype, values)) in enumerate(values_of(dialect).items()):
            more: dict[str, Any] = {"codec": CODECS[at % len(CODECS)], "attrs": ATTRIBUTES}
            more |= {"chunks": tuple(2 for _ in values.shape)}
            root.create_array(name, values.shape, dtype, dims=dims, **more)[...] = values
        root.create_array("unwritten", (3, 5), "f8", dims=("t", "x"), fill_value=-1 / 3, attrs={"_FillValue": -1 / 3})


def as_bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Text as a reader of plain Zarr sees it."""
    if values.dtype.kind not in "TU":
        return values
    return np.array([str(text).encode() for text in values.ravel()]).reshape(values.shape)


def same(found: Any, values: np.ndarray[Any, Any]) -> None:
    """Equal, type included, but for the width of text."""
    found, wanted = np.asarray(found), as_bytes(values)
    assert found.dtype == wanted.dtype or (found.dtype.kind, wanted.dtype.kind) == ("S", "S")
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def ours(found: Any, values: np.ndarray[Any, Any]) -> None:
    """Equal as hyperslab reads it: text is text."""
    if values.dtype.kind != "U":
        return same(found, values)
    assert found.tolist() == values.tolist()
    return None


# -- zarr-python ------------------------------------------------------------------------------------------------------


def opened(zarr: ModuleType, place: Path, *, consolidated: bool, mode: str = "r") -> Any:
    """The dataset as zarr-python has it, found by its consolidated metadata or by the documents."""
    if zarr.__version__.startswith("2."):
        return zarr.open_consolidated(str(place), mode=mode) if consolidated else zarr.open_group(str(place), mode=mode)
    return zarr.open_group(str(place), mode=mode, zarr_format=2, use_consolidated=consolidated)


def tree(zarr: ModuleType, group: Any) -> set[str]:
    """The paths of all that is in a group."""
    if zarr.__version__.startswith("2."):
        found: set[str] = set()
        group.visit(found.add)
        return found
    return {path for path, _ in group.members(max_depth=None)}


@each_way
def test_zarr_reads_every_plain_variable(zarr: ModuleType, tmp_path: Path, dialect: str, consolidated: bool) -> None:
    write(tmp_path / "a", dialect, consolidated=consolidated)
    group = opened(zarr, tmp_path / "a", consolidated=consolidated)
    assert tree(zarr, group) == {"inner", "inner/deep", "unwritten", *values_of(dialect)}
    for name, (dims, dtype, values) in values_of(dialect).items():
        if isinstance(dtype, Char) and dialect == "draft":
            values = values.view("u1")
        same(group[name][...], values)
        assert list(group[name].attrs["_ARRAY_DIMENSIONS"]) == list(dims or ("_scalar_",)[: group[name].ndim])
    np.testing.assert_array_equal(group["unwritten"][...], np.full((3, 5), -1 / 3))
    for attrs in (group.attrs, group["v0"].attrs):
        assert (attrs["title"], attrs["json"], attrs["pi"]) == ("hé ☃", "[0.,0.,1.]", np.pi)
        assert (attrs["bytes"], attrs["words"], attrs["empty"]) == ([1, 2], ["a", "hé"], "")


@each_dialect
def test_zarr_opens_what_the_default_makes(zarr: ModuleType, tmp_path: Path, dialect: str) -> None:
    """``zarr.open`` of the place alone; without char variables the default options do for both dialects."""
    with hs.create(tmp_path / "a", format="nczarr", dialect=dialect) as root:
        root.create_array("v", data=cells("f4"), dims=("y", "x"))
    same(zarr.open(str(tmp_path / "a"), mode="r")["v"][...], cells("f4"))
    same(zarr.open(str(tmp_path / "a/v"), mode="r")[...], cells("f4"))


# -- xarray -----------------------------------------------------------------------------------------------------------


STORED = {"mask_and_scale": False, "decode_times": False, "concat_characters": False}


@each_way
def test_xarray_reads_every_plain_variable(
    xarray: ModuleType, tmp_path: Path, dialect: str, consolidated: bool
) -> None:
    write(tmp_path / "a", dialect, consolidated=consolidated)
    groups = {
        path: xarray.open_dataset(tmp_path / "a", engine="zarr", group=path, consolidated=consolidated, **STORED)
        for path in ("", "inner", "inner/deep")
    }  # a tree of them, xarray says, must not have dimensions that shadow others
    for name, (dims, dtype, values) in values_of(dialect).items():
        above, _, last = name.rpartition("/")
        variable = groups[above][last]
        if isinstance(dtype, Char) and dialect == "draft":
            values = values.view("u1")
        same(variable.values.astype(values.dtype) if values.dtype.kind in "iuf" else variable.values, values)
        assert variable.dims == dims or variable.dims == ("_scalar_",)
        assert (variable.attrs["title"], variable.attrs["pi"]) == ("hé ☃", np.pi)
        assert not [key for key in variable.attrs if key.startswith(("_ARRAY", "_nc"))]
    decoded = xarray.open_dataset(tmp_path / "a", engine="zarr", consolidated=consolidated).load()
    assert np.isnan(decoded["unwritten"].values).all()
    np.testing.assert_array_equal(decoded["v9"].values, cells(NUMBERS[9]))


def test_xarray_and_we_see_the_same(xarray: ModuleType, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a", format="nczarr", consolidated=True) as root:
        root.create_array("t", data=np.arange(4), dims=("t",), attrs={"units": "days since 2026-01-01"})
        said = {"_FillValue": np.int16(-1), "scale_factor": 0.5, "add_offset": 10.0}
        root.create_array("air", data=np.array([[1, -1], [2, 3], [4, 5], [6, 7]], "i2"), dims=("t", "x"), attrs=said)
    theirs = xarray.open_dataset(tmp_path / "a", engine="zarr").load()
    with hs.open(tmp_path / "a") as root:
        xarray.testing.assert_identical(theirs, root.to_xarray().load())


def test_we_read_what_xarray_writes_as_netcdf(xarray: ModuleType, tmp_path: Path) -> None:
    """A plain store is only read in format nczarr, until it is adopted."""
    made = xarray.Dataset({"v": (("y", "x"), cells("f4"), {"units": "K"})}, {"x": np.arange(5)}, {"title": "theirs"})
    made.to_zarr(tmp_path / "a", zarr_format=2, consolidated=True)
    root = hs.open(tmp_path / "a", format="nczarr")
    assert (root["v"].dims, root["v"].units, dict(root.attrs)) == (("y", "x"), "K", {"title": "theirs"})
    same(root["v"][...], cells("f4"))
    root.close()
    hs.adopt(tmp_path / "a")
    with hs.open(tmp_path / "a", "r+") as root:
        assert root.format == "nczarr"
        root["v"].attrs["units"] = "degC"
    again = xarray.open_dataset(tmp_path / "a", engine="zarr")
    same(again["v"].values, cells("f4"))
    assert again["v"].attrs["units"] == "degC"


# -- what zarr-python changes -----------------------------------------------------------------------------------------


def forget_copy(place: Path) -> None:
    """Consolidated metadata, which zarr-python does not keep up to date."""
    (place / ".zmetadata").unlink()


def lengthen(array: Any, length: int) -> None:
    array.resize((length, *array.shape[1:]))


@each_dialect
def test_arrays_that_zarr_resized(zarr: ModuleType, tmp_path: Path, dialect: str) -> None:
    """An array is as long as it says itself; nothing else changes."""
    write(tmp_path / "a", dialect)
    group = opened(zarr, tmp_path / "a", consolidated=False, mode="r+")
    lengthen(group["v9"], 6)
    group["v9"][3:] = 7
    lengthen(group["char"], 3)
    forget_copy(tmp_path / "a")
    root = hs.open(tmp_path / "a")
    assert root["v9"].shape == (6, 5)
    assert root["v9"][...].tolist() == [*cells("i4").tolist(), *[[7] * 5] * 3]
    assert root["char"][...].tobytes() == b"abc"
    for name in ("v8", "string", "inner/v"):
        ours(root[name][...], VALUES[name][2])
    assert {problem.node for problem in hs.check(tmp_path / "a")} <= {"", "v9", "char"}


@each_dialect
def test_attributes_that_zarr_changed(zarr: ModuleType, tmp_path: Path, dialect: str) -> None:
    """What it did not change keeps its type; dimensions and types of cells stay, though zarr-python 3 drops keys."""
    write(tmp_path / "a", dialect)
    group = opened(zarr, tmp_path / "a", consolidated=False, mode="r+")
    group["v9"].attrs.update({"units": "K", "count": 3})
    if dialect == "current":
        group["char"].attrs["units"] = "letters"
    group.attrs["title"] = "theirs"
    forget_copy(tmp_path / "a")
    root = hs.open(tmp_path / "a")
    assert (root["v9"].attrs["units"], root["v9"].attrs["count"], root.attrs["title"]) == ("K", 3, "theirs")
    assert root["v9"].dims == ("t", "x")
    assert (root["v9"].attrs["bytes"].dtype, root["v9"].attrs["none"].dtype) == (np.dtype("i1"), np.dtype("f4"))
    assert root["char"].spec.dtype == Char()
    assert root.dims["t"].unlimited
    for name, (_, _, values) in values_of(dialect).items():
        ours(root[name][...], values)


@each_dialect
def test_arrays_and_groups_that_zarr_made(zarr: ModuleType, tmp_path: Path, dialect: str) -> None:
    """They are seen, though nobody lists them, with the dimensions that xarray's convention names."""
    write(tmp_path / "a", dialect)
    group = opened(zarr, tmp_path / "a", consolidated=False, mode="r+")
    made = group.require_group("theirs") if zarr.__version__.startswith("2.") else group.create_group("theirs")
    for place, name in ((group, "new"), (made, "v")):
        make = place.create_dataset if zarr.__version__.startswith("2.") else place.create_array
        array = make(name, shape=(3, 5), chunks=(2, 2), dtype="i4")
        array[...] = cells("i4")
        array.attrs["_ARRAY_DIMENSIONS"] = ["t", "x"]
    forget_copy(tmp_path / "a")
    root = hs.open(tmp_path / "a")
    assert {"new", "theirs"} <= set(root) and set(root) >= set(VALUES) - {"inner/v", "inner/deep/w"}
    assert root["new"].dims == root["theirs/v"].dims == ("t", "x")
    assert root["new"][...].tolist() == root["theirs/v"][...].tolist() == cells("i4").tolist()
    root.close()
    with hs.open(tmp_path / "a", "r+") as root:
        root["new"].attrs["units"] = "m"
    document = json.loads((tmp_path / "a/new/.zattrs").read_text())
    assert document["units"] == "m"
    assert hs.open(tmp_path / "a")["new"][...].tolist() == cells("i4").tolist()


@each_dialect
def test_what_zarr_consolidates(zarr: ModuleType, tmp_path: Path, dialect: str) -> None:
    """zarr-python drops what NCZarr has beside the documents of Zarr from consolidated metadata."""
    write(tmp_path / "a", dialect)
    if zarr.__version__.startswith("2."):
        zarr.consolidate_metadata(str(tmp_path / "a"))
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="Object at .* is not recognized as a component of a Zarr hierarchy"
            )
            zarr.consolidate_metadata(tmp_path / "a", zarr_format=2)
    root = hs.open(tmp_path / "a")
    assert root.format == "nczarr"
    assert root.dims["t"] == Dimension("t", 3, True)
    for name, (dims, dtype, values) in values_of(dialect).items():
        assert root[name].dims == dims
        if not isinstance(dtype, str):
            assert root[name].spec.dtype == dtype
        ours(root[name][...], values)
