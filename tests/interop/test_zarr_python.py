"""What we write zarr-python reads, without a warning, and the other way round; Zarr v2 and v3."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs

pytestmark = pytest.mark.interop

DTYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"]
CODECS = ["default", "none", "blosc:lz4:5", "blosc:zstd:3", "zstd:3", "gzip:1"]
FORMATS = ["zarr2", "zarr3"]
each_format = pytest.mark.parametrize("format", FORMATS)


def cells(dtype: str, shape: tuple[int, ...] = (7, 11)) -> np.ndarray[Any, Any]:
    """Cells of every bit pattern that is no NaN."""
    numbers = np.random.default_rng(3).integers(-100, 100, shape)
    return numbers.astype(dtype)


def can(zarr: ModuleType, format: str) -> None:
    """Skip what this zarr-python is too old for."""
    if format == "zarr3" and int(zarr.__version__.split(".")[0]) < 3:
        pytest.skip(f"zarr-python {zarr.__version__} knows no Zarr v3")


def written_by_us(path: Path, format: str, values: np.ndarray[Any, Any], **options: Any) -> None:
    """A group ``g`` with an array ``a``: dimension names, attributes, ragged chunks at the edges."""
    with hs.create(path, format=format) as root:
        root.attrs["title"] = "ours"
        array = root.create_group("g").create_array(
            "a", shape=values.shape, dtype=values.dtype, chunks=(3, 4), dims=("y", "x"), attrs={"n": 1}, **options
        )
        array[...] = values


def written_by_zarr(zarr: ModuleType, path: Path, format: str, values: np.ndarray[Any, Any], **options: Any) -> None:
    """The same from zarr-python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = int(format[-1])
        if hasattr(zarr, "create_array"):
            root = zarr.create_group(str(path), zarr_format=version)
            array = root.create_group("g").create_array(
                "a", shape=values.shape, dtype=values.dtype, chunks=(3, 4), **options
            )
        else:
            root = zarr.open_group(str(path), mode="w")
            array = root.create_group("g").create_dataset(
                "a", shape=values.shape, dtype=values.dtype, chunks=(3, 4), **options
            )
        root.attrs["title"] = "theirs"
        array.attrs["n"] = 1
        array[...] = values


@each_format
@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_reads_our_dtypes(zarr: ModuleType, tmp_path: Path, format: str, dtype: str) -> None:
    can(zarr, format)
    values = cells(dtype)
    written_by_us(tmp_path / "a.zarr", format, values)
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    array = root["g/a"]
    assert array.dtype == values.dtype and array.chunks == (3, 4)
    np.testing.assert_array_equal(array[...], values)
    assert root.attrs["title"] == "ours" and array.attrs["n"] == 1


@each_format
@pytest.mark.parametrize("codec", CODECS)
def test_zarr_reads_our_codecs(zarr: ModuleType, tmp_path: Path, format: str, codec: str) -> None:
    can(zarr, format)
    values = cells("<f8")
    written_by_us(tmp_path / "a.zarr", format, values, codec=codec)
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["g/a"][...], values)


@each_format
@pytest.mark.parametrize("dtype", DTYPES)
def test_we_read_their_dtypes(zarr: ModuleType, tmp_path: Path, format: str, dtype: str) -> None:
    can(zarr, format)
    values = cells(dtype)
    written_by_zarr(zarr, tmp_path / "a.zarr", format, values)
    root = hs.open(tmp_path / "a.zarr")
    assert root.format == format and root.attrs["title"] == "theirs"
    array = root["g/a"]
    assert array.dtype == values.dtype and array.attrs["n"] == 1
    np.testing.assert_array_equal(array[...], values)


@each_format
def test_fill_value_of_what_was_never_written(zarr: ModuleType, tmp_path: Path, format: str) -> None:
    can(zarr, format)
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        root.create_array("a", shape=(8,), dtype="f8", chunks=(4,), fill_value=np.nan)[:4] = 1.0
        root.create_array("b", shape=(8,), dtype="i4", chunks=(4,), fill_value=-7)[:4] = 1
    theirs = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    np.testing.assert_array_equal(theirs["a"][...], [1, 1, 1, 1, *[np.nan] * 4])
    np.testing.assert_array_equal(theirs["b"][...], [1, 1, 1, 1, -7, -7, -7, -7])


@each_format
def test_zarr_changes_what_we_wrote(zarr: ModuleType, tmp_path: Path, format: str) -> None:
    can(zarr, format)
    values = cells("<i4")
    written_by_us(tmp_path / "a.zarr", format, values)
    theirs = zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")["g/a"]
    theirs[2:5, 3] = 1000
    values[2:5, 3] = 1000
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["g/a"][...], values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("filters", [(), ("Shuffle",), ("Delta", "Shuffle")])
def test_we_read_their_v2_filters(zarr: ModuleType, tmp_path: Path, order: str, filters: tuple[str, ...]) -> None:
    import numcodecs

    made = {"Shuffle": numcodecs.Shuffle(4), "Delta": numcodecs.Delta("<i4")}
    options: dict[str, Any] = {"filters": [made[name] for name in filters] or None, "order": order}
    options |= {"compressors" if hasattr(zarr, "create_array") else "compressor": numcodecs.Zlib(1)}
    values = cells("<i4")
    written_by_zarr(zarr, tmp_path / "a.zarr", "zarr2", values, **options)
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["g/a"][...], values)


def test_many_small_chunks(zarr: ModuleType, tmp_path: Path) -> None:
    can(zarr, "zarr3")
    values = np.arange(150.0 * 170).reshape(150, 170)
    hs.save(tmp_path / "a.zarr", values, chunks=(3, 4))
    theirs = zarr.open_array(tmp_path / "a.zarr" / "data", mode="r+")
    assert theirs.shards is not None
    np.testing.assert_array_equal(theirs[...], values)
    theirs[2:9, 4] = values[2:9, 4] = -1
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["data"][...], values)


def test_shards_both_ways(zarr: ModuleType, tmp_path: Path) -> None:
    can(zarr, "zarr3")
    values = cells("<f4", (13, 17))
    written_by_us(tmp_path / "a.zarr", "zarr3", values, shards=(6, 8))
    theirs = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["g/a"]
    assert theirs.shards == (6, 8)
    np.testing.assert_array_equal(theirs[...], values)
    written_by_zarr(zarr, tmp_path / "b.zarr", "zarr3", values, shards=(6, 8))
    ours = hs.open(tmp_path / "b.zarr")["g/a"]
    assert ours.shards == (6, 8)
    np.testing.assert_array_equal(ours[...], values)


@each_format
def test_dimension_names_are_where_xarray_looks(zarr: ModuleType, tmp_path: Path, format: str) -> None:
    can(zarr, format)
    written_by_us(tmp_path / "a.zarr", format, cells("<i4"))
    theirs = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["g/a"]
    names = theirs.metadata.dimension_names if format == "zarr3" else theirs.attrs["_ARRAY_DIMENSIONS"]
    assert list(names) == ["y", "x"]
