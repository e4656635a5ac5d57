"""xarray: open a dataset and compute, through our engine and through xarray's own engine ``zarr``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from benchmarks.harness import OURS, Contender, Row, Target
from benchmarks.layouts import field

TITLE = "xarray: open and compute"
_BOUND = "xarray itself, which is the same for both: it opens the dataset, makes coordinates, and computes the mean."
_CHUNKS = ((1024, 1024), (128, 256), (64, 64))


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per chunk size: loaded, and by dask threads over the stored chunks (not the smallest: too many tasks)."""
    for chunks in _CHUNKS:
        size = min(side, 2048 if chunks[0] < 128 else side)
        place = folder / f"{chunks[0]}.zarr"
        _write(place, size, chunks)
        kibibytes = chunks[0] * chunks[1] * 4 // 1024
        title = f"{size * size * 4 >> 20} MiB, blosc-lz4, chunks of {kibibytes} KiB"
        targets = [Target("engine zarr", 2.0 if kibibytes < 1024 else 1.0, _BOUND)]
        yield _row(f"mean over x, loaded, {title}", place, None, targets)
        if chunks[0] >= 128:
            yield _row(f"mean over x, dask threads, {title}", place, {"y": 1024, "x": 1024}, targets)
        yield _row(f"one row, {title}", place, None, targets, {"y": size // 2})


def _write(place: Path, size: int, chunks: tuple[int, int]) -> None:
    cells = field((size, size))
    dataset = xr.Dataset({"t": (("y", "x"), cells)}, {"y": np.arange(size), "x": np.arange(size)})
    dataset["t"].encoding["chunks"] = chunks
    dataset.to_zarr(place, zarr_format=2)


def _row(title: str, place: Path, chunks: Any, targets: list[Target], at: Any = None) -> Row:
    def contender(name: str, engine: str, **options: Any) -> Contender:
        return Contender(name, _computing(place, engine, chunks, at, options))

    contenders = [
        contender(OURS, "hyperslab", cache_bytes=0),
        contender("engine zarr", "zarr", consolidated=True),
    ]
    reference = contenders[1].run()
    return Row(title, contenders, lambda _, got: np.array_equal(got, reference), targets)


def _computing(place: Path, engine: str, chunks: Any, at: Any, options: Any) -> Callable[[], Any]:
    def compute() -> Any:
        with xr.open_dataset(place, engine=engine, chunks=chunks, **options) as dataset:
            part = dataset["t"].isel(at or {})
            return part.mean("x").values

    return compute
