"""The peers at their best documented setting: each one's way to write a layout, and to open what was written."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import netCDF4
import numcodecs
import tensorstore
import zarr
import zarr.codecs
import zarrs

import hyperslab as hs
from benchmarks import harness
from benchmarks.layouts import Layout, Values
from hyperslab.chunks import engine

assert zarrs.ZarrsCodecPipeline  # imported for its registration
_CACHE = 64 << 20


@dataclass(frozen=True)
class Peer:
    """One library: how it writes a layout (durably or not), and how it opens one: a context with what ``[]`` takes."""

    name: str
    suffix: str
    write: Callable[[Path, Layout, Values, bool], None]
    opened: Callable[[Path, Layout], contextlib.AbstractContextManager[Any]]


def _ours_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    with hs.create(path, format=f"zarr{layout.zarr_format}", durable=durable) as root:
        array = root.create_array(
            "a",
            shape=layout.shape,
            dtype="f4",
            chunks=layout.chunks,
            shards=layout.shards,
            codec=layout.codec.ours,
            fill_value=0.0,
            **({"checksum": False} if layout.zarr_format == 3 else {}),
        )
        array[...] = values


@contextlib.contextmanager
def _ours_open(path: Path, layout: Layout) -> Iterator[Any]:
    yield hs.open(path / "a", cache_bytes=0)


@contextlib.contextmanager
def _without_engine() -> Iterator[None]:
    engine.turned_off = True
    try:
        yield
    finally:
        engine.turned_off = False


def _python_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    with _without_engine():
        _ours_write(path, layout, values, durable)


@contextlib.contextmanager
def _python_open(path: Path, layout: Layout) -> Iterator[Any]:
    with _without_engine(), _ours_open(path, layout) as array:
        yield array


def _zarr_codecs(layout: Layout) -> dict[str, Any]:
    if layout.zarr_format == 2:
        return {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib(1)}
    known = {"blosc": zarr.codecs.BloscCodec, "zstd": zarr.codecs.ZstdCodec}
    return {"compressors": [known[each["name"]].from_dict(each) for each in layout.codec.v3 or ()]}


def _zarr_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            store=path,
            name="a",
            shape=layout.shape,
            dtype="float32",
            chunks=layout.chunks,
            shards=layout.shards,
            zarr_format=layout.zarr_format,
            fill_value=0.0,
            **_zarr_codecs(layout),
        )
    array[...] = values


@contextlib.contextmanager
def _zarr_open(path: Path, layout: Layout) -> Iterator[Any]:
    yield zarr.open_array(path / "a", mode="r", zarr_format=layout.zarr_format)


_ZARRS = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}


def _zarrs_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    with zarr.config.set(_ZARRS):
        _zarr_write(path, layout, values, durable)


@contextlib.contextmanager
def _zarrs_open(path: Path, layout: Layout) -> Iterator[Any]:
    with zarr.config.set(_ZARRS), warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns when it falls back to zarr-python's pipeline
        yield zarr.open_array(path / "a", mode="r", zarr_format=layout.zarr_format)


def _tensorstore_spec(path: Path, layout: Layout, durable: bool = True) -> dict[str, Any]:
    if layout.zarr_format == 2:
        raise NotImplementedError("its Zarr v2 driver takes no filters")
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path / "a"), "file_io_sync": durable},
    }


def _tensorstore_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    spec = {**_tensorstore_spec(path, layout, durable), "metadata": layout.document}
    array = tensorstore.open(spec, create=True, context=tensorstore.Context()).result()
    array.write(values).result()


class _Resolved:
    """tensorstore behind ``[]``: the index, read and waited for."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype.numpy_dtype

    def __getitem__(self, key: Any) -> Any:
        return self._array[key].read().result()


@contextlib.contextmanager
def _tensorstore_open(path: Path, layout: Layout) -> Iterator[Any]:
    spec = _tensorstore_spec(path, layout)
    yield _Resolved(tensorstore.open(spec, open=True, read=True, context=tensorstore.Context()).result())


def _netcdf_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    with netCDF4.Dataset(path, "w") as root:
        for name, length in zip("yx", layout.shape, strict=True):
            root.createDimension(name, length)
        array = root.createVariable(
            "a", "f4", ("y", "x"), chunksizes=layout.chunks, fill_value=False, **layout.codec.netcdf
        )
        array.set_var_chunk_cache(_CACHE)
        array[...] = values


@contextlib.contextmanager
def _netcdf_open(path: Path, layout: Layout) -> Iterator[Any]:
    with netCDF4.Dataset(path) as root:
        root.set_auto_maskandscale(False)
        array = root["a"]
        array.set_var_chunk_cache(_CACHE)
        yield array


def _hdf5_write(path: Path, layout: Layout, values: Values, durable: bool) -> None:
    filters: dict[str, Any] = {
        "none": {},
        "blosc": hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE),
        "zstd": hdf5plugin.Zstd(clevel=3),
        "zlib+shuffle": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
    }
    with h5py.File(path, "w", rdcc_nbytes=_CACHE, libver="latest") as root:
        root.create_dataset(
            "a", shape=layout.shape, dtype="f4", chunks=layout.chunks, **dict(filters[layout.codec.hdf5])
        )[...] = values


@contextlib.contextmanager
def _hdf5_open(path: Path, layout: Layout) -> Iterator[Any]:
    with h5py.File(path, rdcc_nbytes=_CACHE, libver="latest") as root:
        yield root["a"]


OURS = Peer("hyperslab", ".zarr", _ours_write, _ours_open)
IN_PYTHON = Peer(harness.IN_PYTHON, ".zarr", _python_write, _python_open)
ZARR = Peer("zarr-python", ".zarr", _zarr_write, _zarr_open)
ZARRS = Peer("zarr + zarrs", ".zarr", _zarrs_write, _zarrs_open)
TENSORSTORE = Peer("tensorstore", ".zarr", _tensorstore_write, _tensorstore_open)
NETCDF = Peer("netCDF4", ".nc", _netcdf_write, _netcdf_open)
HDF5 = Peer("h5py", ".h5", _hdf5_write, _hdf5_open)
PEERS = (OURS, IN_PYTHON, ZARR, ZARRS, TENSORSTORE, NETCDF, HDF5)
