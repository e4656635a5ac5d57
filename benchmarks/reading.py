"""Read 256 MiB whole: each codec, two chunk sizes; the Zarr libraries read one dataset, others a file of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Row, Target
from benchmarks.layouts import CODECS, LZ4, Layout, field
from benchmarks.peers import HDF5, NETCDF, PEERS, ZARR, Peer

TITLE = "Read whole"
CHUNKS = ((1024, 1024), (128, 256))
_TARGETS = (Target("zarr-python", 2.0), Target("fastest", 1.3))


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
    """A row in which everybody opens the layout and takes ``key``."""
    paths = written(folder, layout)
    expected = field(layout.shape)[key]
    contenders = [Contender(peer.name, reader(peer, paths[peer.suffix], layout, key), times=times) for peer in PEERS]
    return Row(title, contenders, lambda _, result: np.array_equal(result, expected), targets)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """One row per codec and chunk size."""
    for codec in CODECS:
        for chunks in CHUNKS:
            layout = Layout((side, side), chunks, codec)
            place = folder / f"{codec.name}-{chunks[0]}"
            place.mkdir()
            yield reads(layout.title, layout, place, ..., _TARGETS)


def ratio(folder: Path, side: int) -> float:
    """How many times Blosc-lz4 compresses the data."""
    layout = Layout((side, side), CHUNKS[0], LZ4)
    path = folder / "ratio.zarr"
    ZARR.write(path, layout, field(layout.shape), False)
    stored = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return float(field(layout.shape).nbytes) / stored
