"""Rows and complex numbers where a target has neither: a group of their fields' arrays, every value the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import Compound, VlenString, tagged

if TYPE_CHECKING:
    from servers.mongo import Mongo

ROW = np.dtype([("n", "i4"), ("at", [("x", "f8"), ("on", "?")]), ("m", "f4", (2, 3)), ("c", "c8"), ("a/b", "S3")])
CELLS = np.zeros((5, 2), ROW)
CELLS["n"] = np.arange(10).reshape(5, 2)
CELLS["at"]["x"] = CELLS["n"] / 7
CELLS["at"]["on"][3] = True
CELLS["m"] = np.arange(60, dtype="f4").reshape(5, 2, 2, 3)
CELLS["c"] = CELLS["n"] * (1 - 2j)
CELLS["a/b"] = b"abc"
PAIRS = {"n": CELLS["n"], "at/x": CELLS["at"]["x"], "at/on": CELLS["at"]["on"], "m": CELLS["m"]}
NUMBERS = np.array([1 - 0.0j, complex(np.nan, 2), np.inf], "c16")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Rows, complex numbers, one without dimensions, and a coordinate."""
    there = tmp_path / "source.zarr"
    with hs.create(there, "zarr2") as root:
        root.create_array("x", data=np.arange(5) / 2, dims=("x",), attrs={"units": "m"})
        more: dict[str, Any] = {"chunks": (2, 2), "attrs": {"units": "K", "long_name": "rows"}}
        rows = root.create_array("rows", shape=(5, 2), dtype=ROW, dims=("x", "y"), **more)
        rows[:4] = CELLS[:4]  # the last chunk is never written
        root.create_array("g/numbers", data=NUMBERS, dims=("z",), attrs={"flag": np.uint8(3)})
        root.create_array("g/one", data=np.complex64(1 - 2j))
    return there


@pytest.fixture(params=["current", "mongo", "hdmf-v3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Where to, and the options: of the targets that have groups and not these rows."""
    if request.param == "mongo":
        mongo: Mongo = request.getfixturevalue("mongo")
        yield f"{mongo.url}/{mongo.database()}#x", {"format": "mongo"}
        return
    name = request.param.split("-")[0]
    how = {"format": "nczarr", "dialect": "current"} if name == "current" else {"format": "hdmf", "profile": "v3"}
    yield tmp_path / "target.zarr", how


def test_rows_become_a_group_of_arrays(source: Path, target: tuple[Any, dict[str, Any]]) -> None:
    there, how = target
    with pytest.raises(Unsupported, match="its fields become arrays of a group: n, at/x, at/on, m, c"):
        hs.convert(source, there, **how)
    report = hs.convert(source, there, allow_loss=True, verify=True, **how)
    assert report.verified is not None
    with hs.open_group(there) as root:
        rows = root["rows"]
        assert dict(rows.attrs) == {"units": "K", "long_name": "rows"}
        for name, expected in PAIRS.items():
            found = rows[name]
            np.testing.assert_array_equal(found[:4], expected[:4])
            assert not np.any(found[4:])
            assert found.dims[:2] == ("x", "y") and found.shape == expected.shape
        complex_ = rows["c"][...] if isinstance(rows["c"], hs.Array) else rows["c/r"][...] + 1j * rows["c/i"][...]
        np.testing.assert_array_equal(complex_[:4], CELLS["c"][:4])
        assert [str(cell).strip("b'") for cell in rows["field4"][3]] == ["abc", "abc"]
        assert root["rows"]["n"].sel(x=1.5).tolist() == [6, 7]


def test_complex_numbers_become_a_group_of_two_arrays(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "target.zarr"
    asked: dict[str, Any] = {"dialect": "current", "path": "g", "allow_loss": True, "verify": True}
    report = hs.convert(source, there, "nczarr", **asked)
    said = [(loss.node, loss.feature) for loss in report.losses]
    assert said == [("numbers", "complex numbers"), ("one", "complex numbers")]
    with hs.open_group(there) as root:
        assert dict(root["numbers"].attrs) == {"flag": np.uint8(3)}
        for name, part in (("r", NUMBERS.real), ("i", NUMBERS.imag)):
            found = root["numbers"][name]
            assert (found.dims, found.dtype) == (("z",), np.dtype("f8"))
            assert np.asarray(found[...]).tobytes() == np.ascontiguousarray(part).tobytes()
        assert (root["one/r"][()], root["one/i"][()]) == (1.0, -2.0)


@pytest.mark.parametrize("way", [("netcdf", {}), ("nczarr", {"dialect": "draft"})], ids=["netcdf", "draft"])
def test_complex_numbers_that_became_rows_are_followed(source: Path, tmp_path: Path, way: tuple[str, Any]) -> None:
    name, options = way
    half, end = tmp_path / "half", tmp_path / "end.zarr"
    hs.convert(source, half, name, path="g", allow_loss=True, **options)
    hs.convert(half, tmp_path / "zarr.zarr", "zarr3", allow_loss=True, verify=True)
    pairs = np.asarray(hs.open(tmp_path / "zarr.zarr")["numbers"][...])
    assert np.ascontiguousarray(pairs).tobytes() == NUMBERS.tobytes()
    hs.convert(half, end, "nczarr", dialect="current", allow_loss=True, verify=True)
    with hs.open_group(end) as root:
        np.testing.assert_array_equal(root["numbers/r"][...], NUMBERS.real)
        np.testing.assert_array_equal(root["numbers/i"][...], NUMBERS.imag)
        assert dict(root["numbers"].attrs) == {"flag": np.uint8(3)}


def test_one_array_of_rows_has_its_coordinates_and_chosen_cells(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "target.zarr"
    how: dict[str, Any] = {"dialect": "current", "allow_loss": True, "verify": True, "resume": True}
    hs.convert(source, there, "nczarr", path="rows", select={"x": slice(1, 4), "y": 1}, chunks={"x": 1}, **how)
    with hs.open_group(there) as root:
        assert sorted(root) == ["rows", "x"]
        assert root["x"][...].tolist() == [0.5, 1.0, 1.5]
        np.testing.assert_array_equal(root["rows/m"][...], CELLS["m"][1:4, 1])
        assert root["rows/n"].chunks == (1,)


def test_named_rows_with_text(tmp_path: Path, mongo: Mongo) -> None:
    old, new = tmp_path / "a.zarr", f"{mongo.url}/{mongo.database()}#x"
    row = Compound(np.dtype([("n", "i2"), ("t", tagged(np.dtype(object), VlenString()))]), "named")
    with hs.create(old, "hdmf") as root:
        root.create_array("rows", shape=(3,), dtype=row)[...] = [(1, "a"), (2, "é"), (3, "")]
    hs.convert(old, new, "mongo", allow_loss=True, verify=True)
    with hs.open_group(new) as root:
        assert root["rows/n"][...].tolist() == [1, 2, 3]
        assert root["rows/t"][...].tolist() == ["a", "é", ""]


# -- the one array of a target that holds no other --------------------------------------------------------------------

ONES: dict[str, dict[str, Any]] = {
    "bloscpack": {"format": "bloscpack"},
    "blaze": {"format": "blaze"},
    "bcolz": {"format": "blaze", "layout": "bcolz"},
    "b2nd": {"format": "b2nd"},
}
MAINS: dict[str, tuple[Any, Any]] = {
    "text": (VlenString(), ["a", "bé"]),
    "nul": (VlenString(), ["a", "b\0"]),
    "scalar": (np.dtype("f4"), 2.5),
    "rows": (np.dtype([("a", "i4")]), [(1,), (2,)]),
}
BECOMES = {
    **{(way, "text"): "lost: /text: cells of type string become <U2" for way in ONES},
    **{(way, "nul"): "no place for this one: a text in it ends with NUL" for way in ONES},
    ("bcolz", "scalar"): "no place for this one: it is 0-d",
    ("bcolz", "rows"): "no place for this one: cells of type ..'a', '<i4'",
}
"""What is said of it before anything starts; nothing of what is held as it is."""


@pytest.mark.covering
@pytest.mark.parametrize("name", MAINS)
@pytest.mark.parametrize("way", ONES)
def test_the_one_array_is_held_or_listed_or_refused_before_anything_starts(tmp_path: Path, way: str, name: str) -> None:
    old, new = tmp_path / "a.zarr", tmp_path / "b"
    dtype, cells = MAINS[name]
    with hs.create(old) as root:
        made = root.create_array(name, shape=np.shape(cells) if name != "rows" else (2,), dtype=dtype, dims=None)
        made[...] = np.array(cells, made.dtype)
    said = BECOMES.get((way, name), "")
    if said.startswith("lost: "):
        with pytest.raises(Unsupported, match=said.removeprefix("lost: ")):
            hs.convert(old, new, **ONES[way])
    elif said:
        for allow_loss in (False, True):
            with pytest.raises(Unsupported, match=said):
                hs.convert(old, new, allow_loss=allow_loss, **ONES[way])
        assert not new.exists()
        return
    hs.convert(old, new, allow_loss=bool(said), verify=True, **ONES[way])
    assert np.asarray(hs.open(new)[...]).tolist() == np.array(cells, made.dtype).tolist()


@pytest.mark.parametrize(("format", "options"), [("netcdf", {}), ("nczarr", {"dialect": "draft"})])
def test_text_of_one_width_in_rows_becomes_bytes_where_rows_have_no_other(
    tmp_path: Path, format: str, options: dict[str, str]
) -> None:
    rows = np.array([(1, "é"), (2, "日本")], [("id", "i4"), ("word", "U4")])
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("rows", data=rows, dims=["n"])
    report = hs.convert(tmp_path / "a.zarr", tmp_path / "b", format, allow_loss=True, verify=True, **options)
    assert [loss.node for loss in report.losses] == ["rows"]
    with hs.open_group(tmp_path / "b") as root:
        cells = root["rows"][...]
        words = np.ascontiguousarray(cells["word"]).view("S6").reshape(2)
        assert (cells["id"].tolist(), [word.decode() for word in words]) == ([1, 2], ["é", "日本"])
