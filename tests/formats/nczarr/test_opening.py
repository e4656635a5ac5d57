"""How a dataset is recognised, what it holds by its dialect, and what it costs those that are none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid, ReadOnly, Unsupported
from hyperslab.formats import format_for_new
from hyperslab.formats.base import Feature
from hyperslab.formats.nczarr import FORMAT
from hyperslab.model.dtypes import Enum
from hyperslab.stores.memory import MemoryStore


def test_the_name_promises_it(tmp_path: Path) -> None:
    assert format_for_new("x.nczarr") == format_for_new("s3://b/x.nczarr.zip") == "nczarr"
    assert hs.create(tmp_path / "x.nczarr").format == "nczarr"


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_what_a_dialect_holds(tmp_path: Path, dialect: str) -> None:
    """Known of the dataset itself, also after it travelled to another process."""
    hs.create(tmp_path / "x.nczarr", dialect=dialect).create_array("a", data=np.arange(3.0), dims=("x",))
    for root in (hs.open(tmp_path / "x.nczarr"), pickle.loads(pickle.dumps(hs.open(tmp_path / "x.nczarr")))):
        assert root["a"][:].tolist() == [0, 1, 2]
        assert (Feature.USER_TYPES in root._session.format.features) == (dialect == "draft")
    assert FORMAT.variant({"dialect": dialect}).features == root._session.format.features


@pytest.mark.parametrize("how", ["x", "w", "a"])
def test_modes_that_make_one(tmp_path: Path, how: str) -> None:
    """``a`` keeps what is there, ``w`` replaces it."""
    place = tmp_path / "x.nczarr"
    if how != "x":
        hs.create(place, dialect="draft").create_array("a", data=np.arange(3.0), dims=("x",))
    root = hs.open(place, how, dialect="draft")
    assert list(root) == (["a"] if how == "a" else [])
    root.create_array("b", data=np.arange(2.0), dims=("y",))
    assert hs.open(place)["b"].dims == ("y",)
    assert (place / ".zdataset").exists()


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="choose one of 'current', 'draft'"):
        hs.create(tmp_path / "x.nczarr", dialect="other")
    with pytest.raises(Invalid, match=r"no option 'flavour'.*there are dialect, .* and consolidated"):
        hs.create(tmp_path / "x.nczarr", flavour="other")
    for name in ("consolidated", "truncate", "native"):  # as text, which the command line makes of name=no
        with pytest.raises(Invalid, match=f"{name}='no'.*true or false"):
            hs.create(tmp_path / "x.nczarr", **{name: "no"})
    assert not (tmp_path / "x.nczarr").exists() or not list((tmp_path / "x.nczarr").iterdir())


def test_what_is_no_zarr_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "readme.txt").write_text("hello")
    with pytest.raises(FormatError):
        hs.open(tmp_path / "x", format="nczarr")


def test_user_types_need_the_draft(tmp_path: Path) -> None:
    cells = np.zeros(3, [("a", "i4"), ("b", "f8")])
    with pytest.raises(Unsupported, match="dialect current"):
        hs.create(tmp_path / "x.nczarr").create_array("a", data=cells)


@pytest.mark.parametrize(("format", "requests"), [("zarr2", 2), ("nczarr", 2), ("zarr3", 1)])
def test_consolidated_ones_of_others_cost_no_more(format: str, requests: int) -> None:
    """NCZarr looks into what zarr2 reads anyway."""
    store = MemoryStore()
    hs.create(store, format, consolidated=True).create_array("g/a", data=np.arange(3.0), dims=("x",))
    with hs.trace() as cost:
        assert hs.open(store)["g/a"].dims == ("x",)
    assert cost.requests == requests


def test_types_are_declared_where_they_are_needed(tmp_path: Path) -> None:
    """An array of a user type that no group has declares it in its own, once."""
    letters = Enum(np.dtype("u1"), (("A", 0), ("B", 7)), "letters")
    root = hs.create(tmp_path / "x.nczarr", dialect="draft")
    for name in ("g/a", "g/h/b"):
        root.create_array(name, shape=(2,), dtype=letters, dims=("x",))
    again = hs.open(tmp_path / "x.nczarr")
    assert dict(again["g"].types) == {"letters": letters}
    assert not again["g/h"].types
    assert again["g/h/b"].spec.layout["typedef"] == "/g/letters"
    other = Enum(np.dtype("u1"), (("C", 1),), "letters")
    with pytest.raises(Invalid, match="another type named"):
        root.create_array("g/c", shape=(2,), dtype=other, dims=("x",))


@pytest.mark.parametrize("name", [" a", "a ", ".a", "-a", "a\tb", "a\x7fb", "a\n", "é" * 129])
def test_names_that_no_reader_of_netcdf_survives_are_refused(name: str, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr") as root:
        for make in (
            lambda: root.create_group(name),
            lambda: root.create_array(name, data=np.arange(2), dims=["x"]),
            lambda: root.create_array("y", data=np.arange(2), dims=[name]),
        ):
            with pytest.raises(Invalid, match="no name in netCDF"):
                make()
        assert not list(root)
        root.create_array("é 1.b-c:d"[:7], data=np.arange(2), dims=["_é 1.b-c:d"])
    with hs.create(tmp_path / "b.zarr", format="zarr2") as root:
        root.create_array("y", data=np.arange(2), dims=[name])
    with pytest.raises(Unsupported, match="no name in netCDF"):
        hs.adopt(tmp_path / "b.zarr")


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_text_of_numpy_is_answered_with_the_type_to_give(dialect: str, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr", dialect=dialect) as root:
        for dtype in ("<U3", "S3"):
            with pytest.raises(Unsupported, match="give dtype=str"):
                root.create_array("a", data=np.array(["a", "bcd"], dtype), dims=["x"])


@pytest.mark.parametrize("part", ["time", "g"])
def test_a_part_of_a_dataset_is_not_changed_alone(tmp_path: Path, part: str) -> None:
    """An array that grew alone would be longer than its dimension: it is one of the dataset, as a group is not."""
    with hs.create(tmp_path / "a.nczarr") as root:
        root.create_array("time", shape=(0,), dtype="f8", dims=["time"]).append(np.ones(3))
        root.create_group("g").create_array("v", data=np.arange(3), dims=["time"])
    read: Any = hs.open(tmp_path / "a.nczarr" / part)
    assert read.attrs == {}
    cells = read if part == "time" else read["v"]
    assert cells.dims == ("time",)
    assert cells[1] == 1
    if part == "time":
        with hs.open_array(tmp_path / "a.nczarr" / part, "r+") as array:
            array.append(np.ones(2))
        assert hs.open_group(tmp_path / "a.nczarr").dims["time"].size == 5
        assert not hs.check(tmp_path / "a.nczarr")
        return
    with pytest.raises(ReadOnly, match="name the part by path="):
        hs.open(tmp_path / "a.nczarr" / part, "r+")
    with hs.open(tmp_path / "a.nczarr", "r+", path=part) as whole:
        assert whole.format == "nczarr"


def test_attributes_have_names(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nczarr") as root, pytest.raises(Invalid, match="without a name"):
        root.attrs[""] = 1
