"""Read 256 MiB whole: each codec, two chunk sizes; the Zarr libraries read one dataset, others a file of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import bare
from benchmarks.harness import BARE, Contender, Row, Target
from benchmarks.layouts import CODECS, LZ4, NONE, Layout, field
from benchmarks.peers import HDF5, NETCDF, PEERS, ZARR, Peer

TITLE = "Read whole"
CHUNKS = ((1024, 1024), (128, 256))
SMALL = (
    "about 25 us a chunk on one core: opening and closing a file 5, reading 7, decoding 10, copying to its rows the "
    "rest. netCDF4 and h5py read one file in place of 2,048."
)
_LARGE = (
    "a fifth of the time is the kernel's clearing of fresh pages for the result, about as much the copy out of its "
    "cache, and one strided copy per chunk is left, since a chunk's rows are apart in a 2-D result; the rest is the "
    "decoder. zarrs does the same in Rust, and zarr-python's decoders run on two threads as well."
)
_KERNEL = (
    "the kernel opens the files, clears fresh pages for the result and copies into them, as for bare files; a chunk's "
    "rows are apart in a 2-D result besides, so that each is copied once more, from the processor's cache."
)
_DECODER = (
    "the decoder, on two cores, which is the same library in every peer: of the processor's time it takes 0.37 s of "
    "0.46, by zarrs 0.37 of 0.48. A chunk takes 7 ms, for which one thread may wait for the other at the end."
)


def written(folder: Path, layout: Layout) -> dict[str, Path]:
    """The layout's data as every peer needs it; Zarr is written once, by zarr-python. Suffix -> path."""
    paths = {}
    for peer in (ZARR, NETCDF, HDF5):
        path = paths[peer.suffix] = folder / f"data{peer.suffix}"
        if not path.exists():
            peer.write(path, layout, field(layout.shape), False)
    return paths


def reader(peer: Peer, path: Path, layout: Layout, key: Any = ...) -> Callable[[], Any]:
    """Open anew and take ``key``."""

    def read() -> Any:
        with peer.opened(path, layout) as array:
            return array[key]

    return read


def reads(title: str, layout: Layout, folder: Path, key: Any, targets: tuple[Target, ...], times: int = 1) -> Row:
    """A row in which everybody opens the layout and takes ``key``; where the kernel bounds that, beside bare files."""
    paths = written(folder, layout)
    expected = field(layout.shape)[key]
    contenders = [Contender(peer.name, reader(peer, paths[peer.suffix], layout, key), times=times) for peer in PEERS]
    if any(target.peer == BARE for target in targets):
        contenders.append(bare.reading(paths[ZARR.suffix] / "a" / "c"))

    def check(name: str, result: Any) -> bool:
        return bool(result >= expected.nbytes) if name == BARE else np.array_equal(result, expected)

    return Row(title, contenders, check, targets)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """One row per codec and chunk size; what bounds large chunks is the codec where that is slow."""
    for codec in CODECS:
        for chunks in CHUNKS:
            layout = Layout((side, side), chunks, codec)
            place = folder / f"{codec.name}-{chunks[0]}"
            place.mkdir()
            bound = SMALL if chunks == CHUNKS[1] else _LARGE if codec in (LZ4, NONE) else _DECODER
            fastest = 1.15 if chunks == CHUNKS[0] and codec in (LZ4, NONE) else 1.3
            targets = (Target("zarr-python", 2.0, bound), Target("fastest", fastest, bound))
            if codec is NONE:
                targets += (Target(BARE, 0.8, _KERNEL),)
            yield reads(layout.title, layout, place, ..., targets)
            shutil.rmtree(place)


def ratio(folder: Path, side: int) -> float:
    """How many times Blosc-lz4 compresses the data."""
    layout = Layout((side, side), CHUNKS[0], LZ4)
    path = folder / "ratio.zarr"
    ZARR.write(path, layout, field(layout.shape), False)
    stored = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return float(field(layout.shape).nbytes) / stored
