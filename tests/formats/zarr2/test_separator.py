"""The separator of chunk keys in Zarr v2, chosen by users and read by zarr-python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import hyperslab as hs
from command_line import run
from hyperslab.errors import Invalid

CELLS = np.arange(48.0).reshape(6, 8)


def keys_of(array: Path) -> set[str]:
    """Return the keys of the chunks of an array."""
    files = (path for path in array.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(array).as_posix() for path in files}


def require_keys(place: Path, separator: str) -> None:
    wanted = {f"{row}{separator}{column}" for row in range(2) for column in range(2)}
    assert keys_of(place / "g/a") == wanted
    found = zarr.open_group(place, mode="r")["g/a"]
    assert found.metadata.dimension_separator == separator
    assert np.array_equal(found[...], CELLS)
    with hs.open_group(place) as root:
        assert np.array_equal(root["g/a"][...], CELLS)
    assert not hs.check(place, deep=True)


@pytest.mark.parametrize("separator", [None, ".", "/"])
def test_of_new_arrays(tmp_path: Path, separator: str | None) -> None:
    chosen = {} if separator is None else {"dimension_separator": separator}
    with hs.create(tmp_path / "a.zarr", "zarr2", **chosen) as root:
        root.create_array("g/a", data=CELLS, dims=("y", "x"), chunks=(3, 4))
        root.create_array("one", data=np.float64(3))
    require_keys(tmp_path / "a.zarr", separator or ".")
    assert zarr.open_array(tmp_path / "a.zarr/one", mode="r")[()] == 3
    with hs.open_group(tmp_path / "a.zarr", "r+", dimension_separator="/") as root:
        root.create_array("b", data=CELLS, chunks=(3, 8))
        root["g/a"][0, 0] = 0.0
    assert keys_of(tmp_path / "a.zarr/b") == {"0/0", "1/0"}
    require_keys(tmp_path / "a.zarr", separator or ".")  # the others stay as they are


@pytest.mark.parametrize("source", ["zarr2", "zarr3"])
def test_of_conversions(tmp_path: Path, source: str) -> None:
    with hs.create(tmp_path / "a.zarr", source) as root:
        root.create_array("g/a", data=CELLS, dims=("y", "x"), chunks=(3, 4))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2", dimension_separator="/", verify=True)
    require_keys(tmp_path / "b.zarr", "/")
    hs.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", format="zarr2")  # a copy keeps it
    require_keys(tmp_path / "c.zarr", "/")
    done = run(
        "convert", tmp_path / "b.zarr", tmp_path / "d.zarr", "--format", "zarr2", "--option", "dimension_separator=."
    )
    assert done.exit_code == 0, done.stderr
    require_keys(tmp_path / "d.zarr", ".")


def test_of_xarray_objects(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": (("y", "x"), CELLS)})
    chunks = {"y": 3, "x": 4}
    hs.save(tmp_path / "a.zarr", dataset, format="zarr2", chunks=chunks, dimension_separator="/")
    assert keys_of(tmp_path / "a.zarr/a") == {"0/0", "0/1", "1/0", "1/1"}
    assert np.array_equal(zarr.open_array(tmp_path / "a.zarr/a", mode="r")[...], CELLS)


def test_no_other_separator(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"dimension_separator='-'.*choose one of '\.', '/'"):
        hs.create(tmp_path / "a.zarr", "zarr2", dimension_separator="-")
    assert not (tmp_path / "a.zarr").exists()
    with pytest.raises(Invalid, match="format zarr3 has no option 'dimension_separator'"):
        hs.create(tmp_path / "a.zarr", "zarr3", dimension_separator="/")
