"""Write 256 MiB whole: durable against tensorstore's fsync, ``durable=False`` against the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import bare
from benchmarks.harness import BARE, Contender, Row, Target
from benchmarks.layouts import CODECS, LZ4, NONE, Codec, Layout, field
from benchmarks.peers import OURS, PEERS, TENSORSTORE, ZARRS, Peer
from benchmarks.reading import CHUNKS

TITLE = "Write whole"
_FASTEST = {"blosc-lz4": 1.15, "uncompressed": 1.0}
# Where the kernel bounds all: of the speed of the same files without any library; and no slower than this one.
_OF_BARE = 0.8
_NO_SLOWER = 1.0
FILES = (
    "the kernel: creating a file costs 150 to 400 us on ext4 (more when many were removed shortly before, as between "
    "the rounds here), which bare files cost as well; a file that appears at one stroke is renamed besides. HDF5 "
    "writes one file; shards, which so many small chunks get where their cells are there at once, are few."
)
_JOURNAL = (
    "the kernel: all wait for the file system's journal, bare files as well, which takes most of the time; what "
    "remains is as without it."
)
_ENCODER = "the encoder, on two cores: it is the same library in every peer."
_COPIES = (
    "one copy of each chunk, whose rows are apart in the array, and the kernel's copy into new pages of its cache; "
    "every writer does these two."
)


def _bound(codec: Codec, chunks: tuple[int, int]) -> str:
    """What the time of writing without fsync goes into."""
    if chunks == CHUNKS[1]:
        return FILES
    return _COPIES if codec in (LZ4, NONE) else _ENCODER


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

    def check(name: str, result: Any) -> bool:
        if name == BARE:
            return bool(result > values.nbytes // (layout.chunks[0] * layout.chunks[1] * values.itemsize))
        (peer,) = [each for each in peers if each.name == name]
        with peer.opened(folder / f"{name.replace(' ', '')}{peer.suffix}", layout) as array:
            return np.array_equal(array[...], values)

    contenders = [contender(peer) for peer in peers]
    if any(target.peer == BARE for target in targets):
        written = bare.Copy(folder / f"{OURS.name}{OURS.suffix}", folder / "bare", durable=durable)
        contenders.append(written.contender())
    return Row(title, contenders, check, targets)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per codec and chunk size: the row without fsync, then the durable one."""
    for codec in CODECS:
        for chunks in CHUNKS:
            layout = Layout((side, side), chunks, codec)
            bound = _bound(codec, chunks)
            targets = [Target("zarr-python", 2.0, bound)]
            if chunks == CHUNKS[1] and codec in (LZ4, NONE):
                targets += [Target(ZARRS.name, _NO_SLOWER, bound), Target(BARE, _OF_BARE, bound)]
            elif codec.name in _FASTEST:
                targets += [Target("fastest", _FASTEST[codec.name], bound)]
            yield writes(f"{layout.title}, durable=False", layout, folder, PEERS, False, targets)
            if layout.zarr_format == 2:
                continue  # tensorstore, the only peer that makes its writes durable, cannot write it
            durably = [Target(TENSORSTORE.name, 1.3, _ENCODER)]
            if codec in (LZ4, NONE):
                durably = [Target(TENSORSTORE.name, _NO_SLOWER, _JOURNAL), Target(BARE, _OF_BARE, _JOURNAL)]
            yield writes(f"{layout.title}, durable", layout, folder, (OURS, TENSORSTORE), True, durably)
