"""Conversion into and out of Blaze directories, wherever they lie: labels too, which change while cells are written."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid, Unsupported
from hyperslab.stores import MemoryStore
from servers.s3 import S3

AIR = np.random.default_rng(1).random((60, 5, 4))


@pytest.fixture
def zarr(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        said = {"coordinates": "land name", "units": "K"}
        root.create_array("air", data=AIR, chunks=(7, 5, 2), dims=("t", "y", "x"), attrs=said, fill_value=-1)
        root.create_array("t", data=np.arange(60) * 6, dims=("t",), attrs={"units": "hours since 2000-01-01"})
        root.create_array("land", data=AIR[0] > 0.5, dims=("y", "x"))
        root.create_array("name", data=np.array(list("abcde"), object), dtype=str, dims=("y",))
        root.attrs["title"] = "all"
    return tmp_path / "a.zarr"


@pytest.mark.covering
@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("place", ["folder", "zip", "memory", "bucket"])
@pytest.mark.parametrize("layout", ["blaze", "bcolz"])
def test_there_and_back(zarr: Path, tmp_path: Path, s3: S3, place: str, layout: str, verify: bool) -> None:
    targets = {"folder": tmp_path / "b.blaze", "zip": tmp_path / "b.blaze.zip", "memory": MemoryStore()}
    target: Any = targets.get(place) or f"s3://{s3.bucket()}/b.blaze"
    options = {"storage_options": s3.options} if place == "bucket" else {}
    hs.convert(zarr, target, format="blaze", layout=layout, verify=verify, **options)
    root = hs.open_group(target, **options)
    assert sorted(root) == ["air", "land", "name", "t"]
    np.testing.assert_array_equal(root["t"][...], np.arange(60) * 6)
    assert root["name"][...].tolist() == list("abcde")
    assert not hs.check(target, deep=True, **options)
    hs.convert(target, tmp_path / "c.zarr", verify=verify, **options)
    assert not hs.diff(zarr, tmp_path / "c.zarr")
    root.close()


def test_one_of_several(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=AIR)
        root.create_array("b", data=AIR + 1, chunks=(9, 5, 4), shards=(18, 5, 4))
    with pytest.raises(Invalid, match="a, b"):
        hs.convert(tmp_path / "a.zarr", tmp_path / "b.blaze")
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.blaze", path="b", shards={})
    np.testing.assert_array_equal(hs.open_array(tmp_path / "b.blaze")[...], AIR + 1)


def unpack(folder: Path) -> None:
    """Put the golden directories of bcolz into a folder."""
    zipfile.ZipFile(Path(__file__).parents[2] / "golden" / "bcolz" / "bcolz-1.2.1.zip").extractall(folder)


def test_a_table_becomes_a_group(tmp_path: Path) -> None:
    unpack(tmp_path)
    hs.convert(tmp_path / "bcolz/ctable", tmp_path / "c.zarr", verify=True)
    wanted = np.load(tmp_path / "bcolz/ctable.npy")
    root = hs.open(tmp_path / "c.zarr")
    for name in wanted.dtype.names:
        np.testing.assert_array_equal(root[name][...], wanted[name])
    hs.convert(tmp_path / "bcolz/i8_dflt_resize", tmp_path / "d.blaze", verify=True)
    assert hs.open(tmp_path / "d.blaze").fill_value == -7


def test_a_column_of_a_table_does_not_grow(tmp_path: Path) -> None:
    unpack(tmp_path)
    column = hs.open(tmp_path / "bcolz/ctable", "r+", path="a")
    for change in (lambda: column.append(column[:2]), lambda: column.resize((3,))):
        with pytest.raises(Unsupported, match="keep their length"):
            change()
