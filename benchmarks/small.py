"""Little of a large array: one chunk, one element, a strided column, opening; and an element of a cached chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hyperslab as hs
from benchmarks.harness import Contender, Row, Target
from benchmarks.layouts import LZ4, Layout, field
from benchmarks.peers import PEERS, Peer
from benchmarks.reading import CHUNKS, reads, written

TITLE = "One chunk, one element, a column, open"
_TENSORSTORE = (
    Target(
        "tensorstore",
        1.0,
        "documents are read and checked in Python, and those of the group around the array for its labels; then the "
        "chunks are planned in Python and read by the engine in C. tensorstore does all of it in C++, without labels. "
        "The least times for little of a chunk of 128 KiB were 0.32 and 0.33 ms, of which opening took 0.18 each; a "
        "chunk of 4 MiB is read and decoded whole by both, which takes most of the time.",
    ),
)
_CACHED = "one index is taken apart, planned and looked up in Python; h5py does that in C."
_REPEATS = 1000


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Four rows per chunk size, each timing opening anew, and the cached one."""
    for chunks in CHUNKS:
        layout = Layout((side, side), chunks, LZ4)
        place = folder / str(chunks[0])
        place.mkdir()
        high, wide = chunks
        keys: dict[str, Any] = {
            "one chunk": (slice(high, 2 * high), slice(wide, 2 * wide)),
            "one element": (high + 3, wide + 5),
            "a column, every 16th row": (slice(None, None, 16), wide + 5),
        }
        for title, key in keys.items():
            yield reads(f"{title}, {layout.title}", layout, place, key, _TENSORSTORE, times=5)
        yield _opening(layout, place)
        yield _cached(layout, place)


def _opening(layout: Layout, place: Path) -> Row:
    paths = written(place, layout)

    def opener(peer: Peer) -> Callable[[], Any]:
        def look() -> Any:
            with peer.opened(paths[peer.suffix], layout) as array:
                return tuple(array.shape), np.dtype(array.dtype)

        return look

    contenders = [Contender(peer.name, opener(peer), times=10) for peer in PEERS]
    expected = (layout.shape, np.dtype("f4"))
    return Row(f"open, {layout.title}", contenders, lambda _, seen: seen == expected, _TENSORSTORE)


def _cached(layout: Layout, place: Path) -> Row:
    paths = written(place, layout)

    def repeater(peer: Peer) -> Callable[[], Any]:
        def repeat() -> Any:
            with peer.opened(paths[peer.suffix], layout) as array:
                return [array[7, column % 100] for column in range(_REPEATS)][-1]

        return repeat

    def ours() -> Any:
        array: Any = hs.open(paths[".zarr"] / "a")
        return [array[7, column % 100] for column in range(_REPEATS)][-1]

    others = [Contender(peer.name, repeater(peer)) for peer in PEERS if peer.name in ("h5py", "netCDF4")]
    expected = field(layout.shape)[7, (_REPEATS - 1) % 100]
    title = f"{_REPEATS} elements of one chunk, cached, {layout.title}"
    return Row(
        title,
        [Contender("hyperslab", ours), *others],
        lambda _, cell: cell == expected,
        (Target("h5py", 1 / 3, _CACHED),),
    )
