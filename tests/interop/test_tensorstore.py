"""What we write tensorstore reads, and the other way round; Zarr v2, v3 and shards."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs

pytestmark = pytest.mark.interop

DRIVERS = {"zarr2": "zarr", "zarr3": "zarr3"}
DTYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u8", "<f4", "<f8", "<c8"]
each_format = pytest.mark.parametrize("format", DRIVERS)


def cells(dtype: str, shape: tuple[int, ...] = (13, 17)) -> np.ndarray[Any, Any]:
    """Cells with few repetitions."""
    return np.random.default_rng(5).integers(-100, 100, shape).astype(dtype)


def opened(tensorstore: ModuleType, path: Path, format: str, **more: Any) -> Any:
    """tensorstore's handle on the array ``a`` of the dataset."""
    spec = {"driver": DRIVERS[format], "kvstore": {"driver": "file", "path": str(path / "a")}, **more}
    return tensorstore.open(spec, create=bool(more), open=not more, read=True, write=True).result()


@each_format
@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways(tensorstore: ModuleType, tmp_path: Path, format: str, dtype: str) -> None:
    values = cells(dtype)
    with hs.create(tmp_path / "a.zarr", format=format) as root:
        root.create_array("a", shape=values.shape, dtype=dtype, chunks=(5, 6), dims=("y", "x"))[...] = values
    theirs = opened(tensorstore, tmp_path / "a.zarr", format)
    np.testing.assert_array_equal(theirs.read().result(), values)
    theirs[2:9, 4].write(values[4:11, 5]).result()
    values[2:9, 4] = values[4:11, 5].copy()
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["a"][...], values)


@pytest.mark.parametrize("codec", ["default", "none", "blosc:lz4:5", "blosc:zstd:3", "zstd:3", "gzip:1"])
def test_shards(tensorstore: ModuleType, tmp_path: Path, codec: str) -> None:
    values = cells("<f4")
    with hs.create(tmp_path / "a.zarr", format="zarr3") as root:
        array = root.create_array("a", shape=values.shape, dtype="<f4", chunks=(3, 4), shards=(6, 8), codec=codec)
        array[...] = values
    np.testing.assert_array_equal(opened(tensorstore, tmp_path / "a.zarr", "zarr3").read().result(), values)


def test_many_small_chunks(tensorstore: ModuleType, tmp_path: Path) -> None:
    values = cells("<f4", (150, 170))
    hs.save(tmp_path / "a.zarr", values, chunks=(3, 4))
    assert hs.open(tmp_path / "a.zarr")["data"].shards is not None
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "a.zarr" / "data")}}
    theirs = tensorstore.open(spec, open=True, read=True, write=True).result()
    np.testing.assert_array_equal(theirs.read().result(), values)
    theirs[2:9, 4].write(values[4:11, 5]).result()
    values[2:9, 4] = values[4:11, 5].copy()
    np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["data"][...], values)


def test_we_read_their_shards(tensorstore: ModuleType, tmp_path: Path) -> None:
    values = cells("<f4")
    inner = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    sharding = {"chunk_shape": [3, 4], "codecs": inner, "index_codecs": index, "index_location": "start"}
    metadata = {
        "shape": list(values.shape),
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 8]}},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
    opened(tensorstore, tmp_path, "zarr3", metadata=metadata).write(values).result()
    ours = hs.open_array(tmp_path / "a")
    assert ours.chunks == (3, 4) and ours.shards == (6, 8)
    np.testing.assert_array_equal(ours[...], values)
