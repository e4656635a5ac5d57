"""Sharded Zarr v3: inner chunks of 64 KiB in shards of 4 MiB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Row, Target
from benchmarks.layouts import LZ4, Layout, field
from benchmarks.peers import IN_PYTHON, OURS, TENSORSTORE, ZARR, ZARRS
from benchmarks.reading import reader
from benchmarks.writing import writes

TITLE = "Sharded Zarr v3"
_PEERS = (OURS, IN_PYTHON, ZARR, ZARRS, TENSORSTORE)
_WHOLE = (
    "the kernel clears fresh pages for the result and copies out of its cache, the decoder takes 10 us for an inner "
    "chunk of 64 KiB, the encoder 20; nothing of Python's is left between chunks."
)
_PART = (
    "of the least time for an inner chunk, 0.39 ms (tensorstore's was 0.37), opening takes 0.18, the codecs and the "
    "grid of the shards 0.06, the one call of the engine that reads the index and the chunk 0.025, and the plan in "
    "Python the rest; tensorstore does all of it in C++."
)
_KEYS: dict[str, tuple[Any, Target]] = {
    "read whole": (..., Target("fastest", 1.2, _WHOLE)),
    "read a column 100 wide": ((slice(None), slice(200, 300)), Target("tensorstore", 1.0, _PART)),
    "read one inner chunk": ((slice(128, 256), slice(128, 256)), Target("tensorstore", 1.0, _PART)),
}


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Read whole, read a column of shards' inner chunks, read one inner chunk, write."""
    layout = Layout((side, side), (128, 128), LZ4, shards=(1024, 1024))
    path = folder / "sharded.zarr"
    ZARR.write(path, layout, field(layout.shape), False)
    for title, (key, target) in _KEYS.items():
        expected = field(layout.shape)[key]
        contenders = [
            Contender(peer.name, reader(peer, path, layout, key), times=1 if key is ... else 5) for peer in _PEERS
        ]
        yield Row(f"{title}, {layout.title}", contenders, _equals(expected), (target,))
    targets = [Target("fastest", 1.0, _WHOLE)]
    yield writes(f"write, {layout.title}, durable=False", layout, folder, _PEERS, False, targets)


def _equals(expected: Any) -> Any:
    return lambda _, result: np.array_equal(result, expected)
