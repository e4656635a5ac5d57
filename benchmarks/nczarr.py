"""NCZarr beside netcdf-c, which invented it: 128 MiB of cells written and read, and a store of 300 variables opened."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hdf5plugin
import netCDF4
import numpy as np

import hyperslab as hs
from benchmarks.harness import OURS, Contender, Row, Target

assert hdf5plugin.version  # imported before netCDF4, whose plugins h5py would take otherwise
TITLE = "NCZarr"
_PEER = "netCDF4"
_DIMS = ("time", "y", "x")
_CODECS: dict[str, tuple[Any, dict[str, Any]]] = {
    "uncompressed": ("none", {}),
    "zlib-1 and shuffle": (
        [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
        {"zlib": True, "complevel": 1},
    ),
    "zstd-3": ("zstd:3", {"compression": "zstd", "complevel": 3}),
    "blosc-lz4-5": ("blosc:lz4:5", {"compression": "blosc_lz4", "complevel": 5}),
}
_VARIABLES = 300
_CELLS = (
    "both decode and encode by the same libraries, hyperslab on two threads and netcdf-c on one: where the codec, or "
    "copying, is all the work, two cores give no more than 2."
)
_PLANE = "16 files are found and opened for 1 MiB of cells, and 16 chunks are decoded whole, by both."
_DOCUMENTS = "two files for each variable, for both; else Python, which takes three JSON objects apart in about 50 us."


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per codec: write, read, one plane; then opening."""
    values = _field((128, side // 16, side // 16))
    chunks = (16, side // 64, side // 64)
    for codec in _CODECS:
        title = (
            f"{values.nbytes >> 20} MiB float32, chunks of {chunks[0] * chunks[1] * chunks[2] * 4 >> 10} KiB, {codec}"
        )
        yield _writing(folder / codec, values, chunks, codec, f"write {title}")
        yield from _reading(folder / codec, values, chunks, codec, title)
    yield _opening(folder / "many")


def _field(shape: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """A smooth field plus noise."""
    t, y, x = (np.linspace(0, 9, length, dtype="f4") for length in shape)
    smooth = np.sin(t)[:, None, None] * 8 + np.cos(y)[:, None] * 4 + x
    noise = np.random.default_rng(6).standard_normal(shape, dtype="f4")
    return np.round(280 + smooth + noise, 2).astype("f4")


def _url(path: Path) -> str:
    return f"file://{path}#mode=nczarr,file"


def _ours(path: Path, values: Any, chunks: tuple[int, ...], codec: str) -> None:
    with hs.create(path, "nczarr", durable=False) as root:
        array = root.create_array("v", values.shape, "f4", dims=_DIMS, chunks=chunks, codec=_CODECS[codec][0])
        array[...] = values


def _theirs(path: Path, values: Any, chunks: tuple[int, ...], codec: str) -> None:
    with netCDF4.Dataset(_url(path), "w") as root:
        for dim, length in zip(_DIMS, values.shape, strict=True):
            root.createDimension(dim, length)
        root.createVariable("v", "f4", _DIMS, chunksizes=chunks, **_CODECS[codec][1])[...] = values


def _read_ours(path: Path, key: Any) -> Any:
    return hs.open_array(path, path="v", cache_bytes=0)[key]


def _read_theirs(path: Path, key: Any) -> Any:
    with netCDF4.Dataset(_url(path)) as root:
        root.set_auto_maskandscale(False)
        return root["v"][key]


def _writing(folder: Path, values: Any, chunks: tuple[int, ...], codec: str, title: str) -> Row:
    folder.mkdir()
    writers = {OURS: _ours, _PEER: _theirs}

    def contender(name: str, write: Callable[..., None]) -> Contender:
        path = folder / name
        clear = partial(shutil.rmtree, path, ignore_errors=True)
        return Contender(name, partial(write, path, values, chunks, codec), before=clear)

    contenders = [contender(name, write) for name, write in writers.items()]
    return Row(
        title,
        contenders,
        lambda name, _: np.array_equal(_read_ours(folder / name, ...), values),
        (Target(_PEER, 2.0, _CELLS),),
    )


def _reading(folder: Path, values: Any, chunks: tuple[int, ...], codec: str, title: str) -> Iterator[Row]:
    """Everybody reads what netcdf-c wrote."""
    shutil.rmtree(folder)
    folder.mkdir()
    path = folder / "a"
    _theirs(path, values, chunks, codec)
    for what, key, bound in (("read", ..., _CELLS), ("one plane of", 7, _PLANE)):
        readers = {OURS: partial(_read_ours, path, key), _PEER: partial(_read_theirs, path, key)}
        contenders = [Contender(name, read) for name, read in readers.items()]
        expected = values[key]
        targets = (Target(_PEER, 2.0, bound),)
        yield Row(f"{what} {title}", contenders, lambda _, got, e=expected: np.array_equal(got, e), targets)


def _opening(folder: Path) -> Row:
    """Shape, dtype, dimensions and all attributes of variables that netcdf-c wrote."""
    with netCDF4.Dataset(_url(folder), "w") as root:
        for dim, length in (("y", 8), ("x", 9)):
            root.createDimension(dim, length)
        for number in range(_VARIABLES):
            variable = root.createVariable(f"v{number}", "f4", ("y", "x"), fill_value=False)
            variable.setncatts({"units": "K", "long_name": f"variable {number}", "valid_min": np.float64(1.5)})

    def ours() -> Any:
        root: Any = hs.open(folder)
        return {name: (a.shape, str(a.dtype), a.dims, dict(a.attrs)) for name, a in root.arrays()}

    def theirs() -> Any:
        with netCDF4.Dataset(_url(folder)) as root:
            return {
                name: (a.shape, str(a.dtype), a.dimensions, {each: a.getncattr(each) for each in a.ncattrs()})
                for name, a in root.variables.items()
            }

    def check(_: str, seen: Any) -> bool:
        attrs = {"units": "K", "long_name": "variable 7", "valid_min": 1.5}
        shown = seen["v7"][:3], {name: value for name, value in seen["v7"][3].items() if not name.startswith("_")}
        return len(seen) == _VARIABLES and shown == (((8, 9), "float32", ("y", "x")), attrs)

    contenders = [Contender(OURS, ours), Contender(_PEER, theirs)]
    title = f"open {_VARIABLES} variables: shape, dtype, dimensions, attributes"
    return Row(title, contenders, check, (Target(_PEER, 1 / 0.6, _DOCUMENTS),))
