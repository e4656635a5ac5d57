"""Chunks that are cut, missing, of other chunks, or too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from corpus import LAYOUTS, MAIN, A, Case, cached, crc, edit, shard, whole

CORRUPT = ("CorruptChunk",)
MISSING = 2**64 - 1


def at(layout: str, array: str = "a") -> str:
    return f"{array}/{LAYOUTS[layout].chunk}"


def on_chunk(layout: str, how: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Do something to the file of the first chunk or shard of ``a``."""
    return lambda root: how(root / at(layout))


def change(layout: str, how: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change the bytes of the first chunk or shard of ``a``."""

    def make(root: Path) -> None:
        path = root / at(layout)
        path.write_bytes(how(path.read_bytes()))

    return make


def index_of(data: bytes) -> np.ndarray:
    """The index of a shard of 16 inner chunks."""
    return np.frombuffer(data[-260:-4], "<u8").reshape(16, 2).copy()


def with_index(data: bytes, how: Callable[[np.ndarray], None]) -> bytes:
    """The shard under another index, which is itself sound."""
    index = index_of(data)
    how(index)
    return data[:-260] + crc(index.tobytes())


def truncated() -> Iterator[Case]:
    """Chunks and shards cut at several lengths."""
    cuts: dict[str, Callable[[bytes], bytes]] = {
        "empty": lambda data: b"",
        "one byte": lambda data: data[:1],
        "half": lambda data: data[: len(data) // 2],
        "but one byte": lambda data: data[:-1],
        "but the first byte": lambda data: data[1:],
    }
    for layout in LAYOUTS:
        for name, cut in cuts.items():
            yield Case(f"{layout}: {name}", change(layout, cut), CORRUPT, layout)
    for layout in ("zarr3", "zarr3-gzip", "zarr3-raw"):
        yield Case(f"{layout}: cut, with a checksum that fits", change(layout, lambda d: crc(d[:5])), CORRUPT, layout)
    for layout in ("shards", "shards-gzip", "shards-raw"):

        def shorten(index: np.ndarray) -> None:
            index[:, 1] -= 1

        yield Case(
            f"{layout}: inner chunks cut",
            change(layout, lambda d: with_index(d, shorten)),
            CORRUPT,
            layout,
        )


def missing() -> Iterator[Case]:
    """Documents and chunks that are not there, and shards that speak of chunks which are not."""
    for layout in MAIN:
        document = LAYOUTS[layout].document
        yield Case(
            f"{layout}: the array's document", lambda r, d=document: (r / "a" / d).unlink(), ("NodeNotFound",), layout
        )
        filled = np.where(
            (np.arange(8) < (8 if layout == "shards" else 4))[:, None]
            & (np.arange(8) < (8 if layout == "shards" else 4)),
            0,
            A,
        )
        yield Case(f"{layout}: a chunk", on_chunk(layout, Path.unlink), (), layout, (whole,), filled)
        yield Case(f"{layout}: the array's folder", lambda r: _remove(r / "a"), ("NodeNotFound",), layout)
        yield Case(
            f"{layout}: a sub-group's document", lambda r, f=layout: _remove_group(r, f), (), layout, (whole,), A
        )
    yield Case("zarr2: the attributes", lambda r: (r / "a/.zattrs").unlink(), (), "zarr2", (whole,), A)
    for layout in ("zarr2", "zarr3"):
        yield Case(
            f"{layout}: gone, but consolidated metadata speaks of it", _consolidated_gone, ("NodeNotFound",), layout
        )
    entries: dict[str, Callable[[np.ndarray], None]] = {
        "behind the end": lambda index: index[:, 0].__iadd__(10**6),
        "longer than the shard": lambda index: index[:, 1].__imul__(1000),
        "at 2^63": lambda index: index.__setitem__((slice(None), 0), 2**63),
        "that wraps": lambda index: index.__setitem__(slice(None), (2**64 - 2, 4)),
        "of no offset": lambda index: index.__setitem__((slice(None), 0), MISSING),
        "of no length": lambda index: index.__setitem__((slice(None), 1), MISSING),
        "of length 0": lambda index: index.__setitem__((slice(None), 1), 0),
    }
    for name, how in entries.items():
        for layout in ("shards", "shards-raw"):
            yield Case(f"{layout}: an entry {name}", change(layout, lambda d, h=how: with_index(d, h)), CORRUPT, layout)
    for layout in ("shards", "shards-gzip", "shards-raw"):
        yield Case(f"{layout}: the index", change(layout, lambda d: d[:-260]), CORRUPT, layout)
        yield Case(f"{layout}: half of the index", change(layout, lambda d: d[-130:]), CORRUPT, layout)
        yield Case(
            f"{layout}: zeros in place of the index", change(layout, lambda d: d[:-260] + bytes(260)), CORRUPT, layout
        )


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def _remove_group(root: Path, layout: str) -> None:
    (root / "g" / (".zgroup" if layout == "zarr2" else "zarr.json")).unlink()


def _consolidated_gone(root: Path) -> None:
    import hyperslab as hs

    with hs.open(str(root), "r+", consolidated=True, durable=False) as dataset:
        dataset.attrs["note"] = "consolidated"
    _remove(root / "a")


def swapped() -> Iterator[Case]:
    """Chunks in the place of others."""
    for layout in LAYOUTS:

        def from_other(root: Path, layout: str = layout) -> None:
            (root / at(layout)).write_bytes((root / at(layout, "other")).read_bytes())

        yield Case(f"{layout}: a chunk of another array", from_other, CORRUPT, layout)
        if not layout.startswith("shards"):

            def from_good(root: Path, layout: str = layout) -> None:
                key = "good/c/0" if LAYOUTS[layout].document == "zarr.json" else "good/0"
                (root / at(layout)).write_bytes((root / key).read_bytes())

            yield Case(f"{layout}: a chunk of another type and size", from_good, CORRUPT, layout)
    for layout in ("zarr3", "zarr3-gzip", "zarr3-raw"):
        neighbour = "a/c/0/1"

        def checksums(root: Path, layout: str = layout, neighbour: str = neighbour) -> None:
            one, two = (root / at(layout)).read_bytes(), (root / neighbour).read_bytes()
            (root / at(layout)).write_bytes(one[:-4] + two[-4:])

        yield Case(f"{layout}: the checksum of a neighbour", checksums, CORRUPT, layout)
    for layout in ("shards", "shards-gzip", "shards-raw"):

        def mixed(root: Path, layout: str = layout) -> None:
            one, two = (root / at(layout)).read_bytes(), (root / at(layout, "other")).read_bytes()
            stored = index_of(one).tolist()
            inner = two[: len(two) - 68]
            parts = [one[start : start + size] for start, size in stored]
            (root / at(layout)).write_bytes(shard([inner[: len(inner) // 4], *parts[1:]]))

        yield Case(f"{layout}: an inner chunk of another array", mixed, CORRUPT, layout, (whole, cached, first_cell))

        def shifted(index: np.ndarray) -> None:
            index[:, 0] = np.roll(index[:, 0], 1) + 1
            index[0, 0] = 3

        yield Case(f"{layout}: shifted entries", change(layout, lambda d: with_index(d, shifted)), CORRUPT, layout)
    yield Case("a gzip chunk among blosc", change("zarr3", lambda d: crc(b"\x1f\x8b\x08" + d[3:-4])), CORRUPT)
    yield Case(
        "zarr2: a zlib chunk among blosc", change("zarr2-blosc", lambda d: b"\x78\x01" + d[2:]), CORRUPT, "zarr2-blosc"
    )


def first_cell(url: str) -> object:
    """One cell of the first chunk."""
    import hyperslab as hs

    return hs.open(url)["a"][0, 0]


def oversized() -> Iterator[Case]:
    """Chunks of more bytes than they should have."""
    for layout in LAYOUTS:
        if layout == "shards" or layout.startswith("shards-"):
            more: Callable[[bytes], bytes] = lambda d: d + bytes(100)  # noqa: E731
        else:
            more = lambda d: d + d  # noqa: E731
        yield Case(f"{layout}: twice", change(layout, more), CORRUPT, layout)
        yield Case(
            f"{layout}: a sparse file of 8 GiB",
            on_chunk(layout, _grow),
            CORRUPT,
            layout,
        )
    for layout in ("zarr3", "zarr3-gzip", "zarr3-raw"):
        yield Case(
            f"{layout}: twice, with a checksum that fits",
            change(layout, lambda d: crc(d[:-4] + d[:-4])),
            CORRUPT,
            layout,
        )
    for layout in ("shards", "shards-gzip", "shards-raw"):

        def joined(index: np.ndarray) -> None:
            index[:, 1] = index[:, 1] * 2 + 40
            index[8:, 0] = index[:8, 0]

        yield Case(
            f"{layout}: inner chunks that overlap", change(layout, lambda d: with_index(d, joined)), CORRUPT, layout
        )

    def larger(root: Path) -> None:
        edit(root / "a/zarr.json", lambda doc: doc.update(shape=[4, 4], chunk_grid=_regular([2, 2])))

    yield Case("zarr3: chunks of a smaller grid", larger, CORRUPT, "zarr3")
    yield Case("zarr3-raw: chunks of a smaller grid", larger, CORRUPT, "zarr3-raw")


def _regular(shape: list[int]) -> dict[str, object]:
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


def _grow(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(8 << 30)
