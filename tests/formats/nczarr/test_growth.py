"""Dimensions that arrays share: found, declared, and grown, also by many processes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.formats.nczarr import FORMAT
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location
from hyperslab.stores.memory import MemoryStore
from programs import Program

DIALECTS = ("current", "draft")
APPENDER = Path(__file__).with_name("appender.py")


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def writer_of(root: Any) -> Any:
    return root._session.reader


def made(place: Any, dialect: str, *dims: Dimension, **more: Any) -> Any:
    """A new dataset whose root declares these dimensions."""
    root = hs.create(place, "nczarr", dialect=dialect, **more)
    writer_of(root).put("", GroupSpec(dims=dims))
    return root


def names(root: Any, path: str) -> list[str]:
    return list(writer_of(root).node(path).layout["dimensions"])


def no_cells() -> np.ndarray[Any, Any]:
    raise ZeroDivisionError


# -- which dimension an array is on ---------------------------------------------------------------------------------


def test_the_nearest_group_outward_counts(tmp_path: Path, dialect: str) -> None:
    """A name is looked for outward; one of another length is hidden by a new one, which is declared at the array."""
    root = made(tmp_path / "x.nczarr", dialect, Dimension("x", 3), Dimension("y", 4))
    root.create_array("g/h/a", shape=(3, 5), dtype="f4", dims=("x", "y"))
    root.create_array("g/h/b", shape=(5, 3), dtype="f4", dims=("y", "x"))
    root.create_array("g/c", shape=(4,), dtype="f4", dims=("y",))
    for again in (root, hs.open(tmp_path / "x.nczarr")):
        assert names(again, "g/h/a") == ["/x", "/g/h/y"]
        assert names(again, "g/h/b") == ["/g/h/y", "/x"]
        assert names(again, "g/c") == ["/y"]
        assert [dim.name for dim in again._session.reader.node("g").dims] == []


def test_any_qualified_name_and_one_dimension_twice(tmp_path: Path, dialect: str) -> None:
    """Also of a group that is not above; ``dims`` then has the last part."""
    root = hs.create(tmp_path / "x.nczarr", dialect=dialect)
    root.create_array("g/a", shape=(3,), dtype="f4", dims=("x",))
    root.create_array("other/b", shape=(3, 3), dtype="f4", dims=("/g/x", "/g/x"))
    again = hs.open(tmp_path / "x.nczarr")
    assert names(again, "other/b") == ["/g/x", "/g/x"]
    assert again["other/b"].dims == ("x", "x")
    with pytest.raises(Invalid, match="there is no dimension"):
        root.create_array("c", shape=(3,), dtype="f4", dims=("/g/nothing",))


def test_another_length_names_both(tmp_path: Path, dialect: str) -> None:
    root = hs.create(tmp_path / "x.nczarr", dialect=dialect)
    root.create_array("a", shape=(3,), dtype="f4", dims=("x",))
    with pytest.raises(Invalid, match="length 3 here, not 5"):
        root.create_array("b", shape=(5,), dtype="f4", dims=("x",))
    assert list(hs.open(tmp_path / "x.nczarr")) == ["a"]
    with pytest.raises(Invalid, match="lengths 3 and 4"):
        root.create_array("g/c", shape=(3, 4), dtype="f4", dims=("z", "z"))


def test_what_nobody_uses_takes_another_length(tmp_path: Path, dialect: str) -> None:
    root = hs.create(tmp_path / "x.nczarr", dialect=dialect)
    root.create_array("a", shape=(3,), dtype="f4", dims=("x",))
    del root["a"]
    root.create_array("b", shape=(5,), dtype="f4", dims=("x",))
    root["b"].append(np.zeros(2, "f4"))
    assert hs.open(tmp_path / "x.nczarr").dims["x"] == Dimension("x", 7)


def test_axes_without_names(tmp_path: Path, dialect: str) -> None:
    """They get a dimension of the root that tells its length, and another one when they grow."""
    root = hs.create(tmp_path / "x.nczarr", dialect=dialect)
    root.create_array("g/a", shape=(3, 4), dtype="f4")
    name = "_anonymous{}" if dialect == "draft" else "_Anonymous_Dim_{}"
    assert names(root, "g/a") == ["/" + name.format(3), "/" + name.format(4)]
    root["g/a"].append(np.zeros((2, 4), "f4"))
    assert names(root, "g/a") == ["/" + name.format(5), "/" + name.format(4)]
    assert hs.open(tmp_path / "x.nczarr")["g/a"].shape == (5, 4)


# -- growing --------------------------------------------------------------------------------------------------------


def test_all_arrays_grow(tmp_path: Path, dialect: str) -> None:
    """Each reads as its fill value behind what it was given, and goes on there."""
    place = tmp_path / "x.nczarr"
    root = made(place, dialect, Dimension("t", 0, unlimited=True), Dimension("x", 2))
    root.create_array("a", shape=(0, 2), dtype="f8", dims=("t", "x"), chunks=(3, 2), fill_value=-1)
    root.create_array("g/b", shape=(0,), dtype="i4", dims=("t",), chunks=(4,), fill_value=-2)
    root["a"].append(np.ones((5, 2)))
    again = hs.open(place)
    assert (again["a"].shape, again["g/b"].shape) == ((5, 2), (5,))
    assert again["g/b"][:].tolist() == [-2] * 5
    root["g/b"].append(np.arange(3, dtype="i4"))
    assert hs.open(place)["g/b"][:].tolist() == [0, 1, 2, -2, -2]
    hs.open(place, "r+")["g/b"].append(np.arange(3, 9, dtype="i4"))
    again = hs.open(place)
    assert again["g/b"][:].tolist() == list(range(9))
    assert again.dims["t"] == Dimension("t", 9, unlimited=True)
    assert again["g"].dims["t"].unlimited
    assert (again["a"][:5] == 1).all()
    assert (again["a"][5:] == -1).all()


def test_single_writes_count_as_given(tmp_path: Path, dialect: str) -> None:
    """Rows written where the dimension reaches already are not written over by appending."""
    root = made(tmp_path / "x.nczarr", dialect, Dimension("t", 0, unlimited=True))
    root.create_array("t", shape=(0,), dtype="i8", dims=("t",), chunks=(4,))
    root.create_array("v", shape=(0,), dtype="f4", dims=("t",), chunks=(4,), fill_value=np.nan)
    root["t"].append(np.arange(6))
    root["v"].refresh()
    root["v"][:3] = [1, 2, 3]
    root["v"].append(np.array([4, 5, 6, 7], "f4"))
    assert root["v"][:].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert hs.open(tmp_path / "x.nczarr")["t"].shape == (7,)


def test_several_unlimited_dimensions(tmp_path: Path, dialect: str) -> None:
    place = tmp_path / "x.nczarr"
    root = made(place, dialect, Dimension("t", 2, unlimited=True), Dimension("u", 3, unlimited=True))
    cells = np.arange(6.0).reshape(2, 3)
    root.create_array("a", data=cells, dims=("t", "u"), chunks=(2, 2), fill_value=-1)
    root.create_array("b", data=np.arange(3.0), dims=("u",), fill_value=-1)
    root.create_array("square", data=np.zeros((3, 3)), dims=("u", "u"), fill_value=-1)
    root["a"].append(cells + 10, dim="t")
    root["a"].append(np.full((4, 2), 7.0), dim="u")
    root.create_array("late", data=np.arange(6.0), dims=("u",), fill_value=-1)
    again = hs.open(place)
    assert np.array_equal(again["a"][:, :3], np.concatenate([cells, cells + 10]))
    assert (again["a"][:4, 3:5] == 7).all()
    assert (again["a"][:, 5] == -1).all()
    assert again["b"][:].tolist() == [0, 1, 2, -1, -1, -1]
    assert again["square"].shape == (6, 6)
    assert (again["square"][3:] == -1).all()
    assert again["late"][:].tolist() == [0, 1, 2, 3, 4, 5]


def test_shrinking_gives_rows_up(tmp_path: Path, dialect: str) -> None:
    """The dimension is as long as any of its arrays was given cells."""
    place = tmp_path / "x.nczarr"
    root = made(place, dialect, Dimension("t", 4, unlimited=True))
    for name in "ab":
        root.create_array(name, data=np.arange(1.0, 5), dims=("t",), fill_value=0, chunks=(3,))
    root["a"].resize((2,))
    assert hs.open(place)["a"][:].tolist() == [1, 2, 0, 0]
    root["b"].resize((1,))
    assert hs.open(place)["a"][:].tolist() == [1, 2]
    assert hs.open(place)["b"][:].tolist() == [1, 0]
    root["b"].append(np.array([9.0, 8, 7]))
    assert hs.open(place)["b"][:].tolist() == [1, 9, 8, 7]
    assert hs.open(place)["a"][:].tolist() == [1, 2, 0, 0]


def test_a_failed_append_of_several_leaves_none(tmp_path: Path, dialect: str) -> None:
    """xarray's variables get their rows, or none."""
    place = str(tmp_path / "x.nczarr")
    data = xr.Dataset({"a": ("t", np.arange(3.0)), "b": ("t", np.arange(3))}, {"t": np.arange(3)})
    data.encoding["unlimited_dims"] = {"t"}
    data.hyperslab.save(place, dialect=dialect)
    bad = xr.Dataset(
        {"a": ("t", np.arange(2.0)), "b": ("t", da.from_delayed(dask.delayed(no_cells)(), (2,), np.int64))},
        {"t": np.arange(3, 5)},
    )
    with pytest.raises(ZeroDivisionError):
        bad.hyperslab.save(place, append_dim="t")
    with xr.open_dataset(place, engine="hyperslab") as back:
        xr.testing.assert_equal(back, data)


def test_appending_with_xarray(tmp_path: Path, dialect: str) -> None:
    place = str(tmp_path / "x.nczarr")
    times = np.arange("2000-01-01", "2000-01-11", dtype="M8[D]").astype("M8[ns]")
    whole = xr.Dataset(
        {"v": (("time", "x"), np.random.default_rng(1).random((10, 3))), "n": ("time", np.arange(10))},
        {"time": times, "x": [10.0, 20.0, 30.0]},
        {"title": "é☃"},
    )
    first = whole.isel(time=slice(0, 4))
    first.encoding["unlimited_dims"] = {"time"}
    first.hyperslab.save(place, dialect=dialect)
    for start in (4, 6, 8):
        whole.isel(time=slice(start, start + 2)).hyperslab.save(place, append_dim="time")
    with xr.open_dataset(place, engine="hyperslab") as back:
        xr.testing.assert_identical(back.load(), whole)
        assert back.encoding["unlimited_dims"] == {"time"}


# -- many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("at_once", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_ten_processes_append(tmp_path: Path, dialect: str, times: int, at_once: int) -> None:
    """Rows of all are there, those of one batch beside each other, and a reader beside finds no row without cells."""
    place = tmp_path / "x.nczarr"
    root = made(place, dialect, Dimension("t", 0, unlimited=True), Dimension("k", 0, unlimited=True))
    root.create_array("a", shape=(0, 4), dtype="f8", dims=("t", "x"), chunks=(4, 4), fill_value=-1)
    root.create_array("t", shape=(0,), dtype="i8", dims=("t",), chunks=(16,), fill_value=-1)
    root.create_array("deep/b", shape=(2, 0), dtype="f4", dims=("y", "t"), chunks=(2, 4), fill_value=-1)
    root.create_array("lone", shape=(0,), dtype="i8", dims=("k",), chunks=(3,), fill_value=-1)
    waiting = [(APPENDER, place, n, times) for n in range(10)]
    workers: list[Program] = []
    while waiting or any(worker.poll() is None for worker in workers):
        if waiting and sum(worker.poll() is None for worker in workers) < at_once:
            workers.append(Program(*waiting.pop(0)))
        lone = hs.open_array(place, path="lone")
        assert (lone[:] >= 0).all()
        assert (hs.open_array(place, path="a")[:] >= 0).all()
    assert [(worker.wait(), worker.communicate()) for worker in workers] == [(0, ("", ""))] * 10
    marks = sorted(number * 1000 + step for number in range(10) for step in range(times))
    again = hs.open_group(place)
    found = again["t"][:]
    assert sorted(found.tolist()) == marks
    assert np.array_equal(again["a"][:], np.repeat(found[:, None], 4, axis=1).astype("f8"))
    assert np.array_equal(again["deep/b"][:], np.repeat(found[None], 2, axis=0).astype("f4"))
    assert sorted(again["lone"][:].tolist()) == sorted(marks * 2)
    assert again.dims["t"] == Dimension("t", 10 * times, unlimited=True)


# -- lists, moves, removals -----------------------------------------------------------------------------------------


def test_definition_order_is_kept(tmp_path: Path, dialect: str) -> None:
    """Arrays before groups, each in the order in which they were made; also in a batch."""
    place = tmp_path / "x.nczarr"
    root = hs.create(place, dialect=dialect)
    for name in ("z", "b"):
        root.create_array(name, data=np.zeros(3), dims=("x",))
    with root.batch():
        for name in ("y", "a"):
            root.create_array(name, data=np.zeros(3), dims=("x",))
        root.create_group("last")
        root.create_group("first")
    assert list(root) == list(hs.open(place)) == ["z", "b", "y", "a", "last", "first"]
    root.attrs["n"] = 1
    del root["y"]
    assert list(root) == list(hs.open(place)) == ["z", "b", "a", "last", "first"]


def test_moving_takes_dimensions_along(tmp_path: Path, dialect: str) -> None:
    place = tmp_path / "x.nczarr"
    root = hs.create(place, dialect=dialect)
    root.create_array("g/a", data=np.arange(3.0), dims=("x",))
    root.create_array("other/b", data=np.arange(3.0), dims=("/g/x",))
    root.move("g", "k/l")
    again = hs.open(place)
    assert (list(again), list(again["k"]), list(again["k/l"])) == (["other", "k"], ["l"], ["a"])
    assert names(again, "k/l/a") == names(again, "other/b") == ["/k/l/x"]
    assert again["k/l/a"][:].tolist() == again["other/b"][:].tolist() == [0, 1, 2]


def test_removing_leaves_dimensions_to_their_users(tmp_path: Path, dialect: str) -> None:
    place = tmp_path / "x.nczarr"
    root = hs.create(place, dialect=dialect)
    root.create_array("g/a", data=np.arange(3.0), dims=("x",))
    root.create_array("other/b", data=np.arange(3.0), dims=("/g/x",))
    del root["g"]
    again = hs.open(place)
    assert list(again) == ["other"]
    assert names(again, "other/b") == ["/other/x"]
    assert again["other/b"].dims == ("x",)


def test_what_others_added_is_seen(tmp_path: Path) -> None:
    """An array that its group does not list, as zarr-python leaves it, comes last, and is told of."""
    place = tmp_path / "x.nczarr"
    root = hs.create(place)
    root.create_array("z", data=np.zeros(3), dims=("x",))
    other = hs.create(tmp_path / "plain", "zarr2")
    other.create_array("b", data=np.arange(3.0), dims=("x",))
    (tmp_path / "plain" / "b").rename(place / "b")
    (place / "z").rename(tmp_path / "gone")
    again = hs.open(place)
    assert list(again) == ["b"]
    assert [(problem.node, problem.kind) for problem in again._session.reader.list_mismatches("")] == [
        ("b", "unlisted"),
        ("z", "missing"),
    ]
    assert again["b"][:].tolist() == [0, 1, 2]
    assert names(again, "b") == ["/x"]


# -- elsewhere ------------------------------------------------------------------------------------------------------


def test_in_a_zip(tmp_path: Path, dialect: str) -> None:
    place = tmp_path / "x.nczarr.zip"
    with made(place, dialect, Dimension("t", 0, unlimited=True)) as root:
        root.create_array("a", shape=(0,), dtype="f8", dims=("t",), chunks=(2,))
        root.create_array("b", shape=(0,), dtype="f8", dims=("t",), chunks=(2,))
        root["a"].append(np.arange(5.0))
    again = hs.open(place)
    assert again.format == "nczarr"
    assert (again["a"][:].tolist(), again["b"].shape) == ([0, 1, 2, 3, 4], (5,))


def test_in_memory(dialect: str) -> None:
    store = MemoryStore()
    root = made(store, dialect, Dimension("t", 0, unlimited=True), consolidated=True)
    root.create_array("a", shape=(0,), dtype="f8", dims=("t",), chunks=(2,))
    root["a"].append(np.arange(5.0))
    assert hs.open(store)["a"][:].tolist() == [0, 1, 2, 3, 4]
    spec = FORMAT.open(Location.of(store), "r").node("a")
    assert isinstance(spec, ArraySpec)
    assert spec.shape == (5,)
