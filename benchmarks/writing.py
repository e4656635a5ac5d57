"""Write 256 MiB whole: durable against tensorstore's fsync, ``durable=False`` against the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Row, Target
from benchmarks.layouts import CODECS, Layout, field
from benchmarks.peers import OURS, PEERS, TENSORSTORE, Peer
from benchmarks.reading import CHUNKS

TITLE = "Write whole"
_FASTEST = {"blosc-lz4": 1.15, "uncompressed": 1.0}


def writes(
    title: str, layout: Layout, folder: Path, peers: Sequence[Peer], durable: bool, targets: list[Target]
) -> Row:
    """A row in which everybody writes the layout into a new place; what was there is removed outside the clock."""
    values = field(layout.shape)

    def contender(peer: Peer) -> Contender:
        path = folder / f"{peer.name.replace(' ', '')}{peer.suffix}"

        def remove() -> None:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

        return Contender(peer.name, lambda: peer.write(path, layout, values, durable), before=remove)

    def check(name: str, _: Any) -> bool:
        (peer,) = [each for each in peers if each.name == name]
        with peer.opened(folder / f"{name.replace(' ', '')}{peer.suffix}", layout) as array:
            return np.array_equal(array[...], values)

    return Row(title, [contender(peer) for peer in peers], check, targets, repeats=5)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per codec and chunk size: the row without fsync, then the durable one."""
    for codec in CODECS:
        for chunks in CHUNKS:
            layout = Layout((side, side), chunks, codec)
            targets = [Target("zarr-python", 2.0)]
            targets += [Target("fastest", _FASTEST[codec.name])] if codec.name in _FASTEST else []
            yield writes(f"{layout.title}, durable=False", layout, folder, PEERS, False, targets)
            if layout.zarr_format == 2:
                continue  # tensorstore, the only peer that makes its writes durable, cannot write it
            yield writes(
                f"{layout.title}, durable", layout, folder, (OURS, TENSORSTORE), True, [Target("tensorstore", 1.3)]
            )
