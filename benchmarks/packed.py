"""One compressed file: packing, unpacking, and a small part of it; checksums are on where the format has them."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import blosc2
import numpy as np

import hyperslab as hs
from benchmarks import bare
from benchmarks.harness import BARE_DECODER, OURS, Contender, Row, Target

collections.MutableMapping = collections.abc.MutableMapping  # type: ignore[attr-defined]  # bloscpack wants it there
import bloscpack  # noqa: E402 - its last release is older than Python 3.10
import bloscpack.file_io  # noqa: E402

TITLE = "One compressed file"
_CODECS = {"lz4": 5, "zstd": 1}
_PACKING = (
    "half is the encoder, a third the kernel taking 200 MB into new pages of its cache, as for `np.save`, which writes "
    "no less; the rest checksums."
)
_UNPACKING = "the decoder, which both run on two threads: with zstd it is all but a few milliseconds of the time."
_STORED = "the same file read and its chunks decoded, without a look at their checksums: the rest is these, and Python."
_CELLS = (
    "a chunk is read whole for its checksum, which blosc2's frames do not have (0.16 ms of CPU; of its cells only "
    "those blocks are decoded that are wanted), and opening checks the header, the metadata and every offset in "
    "Python: 670 calls, 0.4 ms, where blosc2 takes 0.24 ms for all. A .b2nd file takes as long: blosc2 opens it (0.13 "
    "ms), but only once its header was checked, and its labels are read."
)
_PART = slice(1_000_000, 1_001_000)


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per codec: pack, unpack; then 1,000 cells."""
    values = _walk(side * side // 2)
    for cname, level in _CODECS.items():
        title = f"{values.nbytes >> 20} MiB float64, {cname}-{level}, adler32, chunks of 1 MiB"
        yield _packing(folder / cname, values, cname, level, title)
        yield _unpacking(folder / cname, values, cname, level, title)
    yield _part(folder / "part", values)


def _walk(size: int) -> np.ndarray[Any, Any]:
    """A random walk of three digits: compresses about 1.3 times under lz4."""
    return np.cumsum(np.random.default_rng(4).standard_normal(size)).round(3)


def _peers(folder: Path, cname: str, level: int) -> dict[str, tuple[Callable[[Any], None], Callable[[], Any]]]:
    """How each writes an array, and reads it back."""
    ours, theirs, plain = folder / "ours.blp", folder / "theirs.blp", folder / "a.npy"
    arguments = bloscpack.BloscArgs(typesize=8, clevel=level, shuffle=True, cname=cname)

    def save(values: Any) -> None:
        hs.save(ours, values, codec=f"blosc:{cname}:{level}", durable=False)

    def pack(values: Any) -> None:
        bloscpack.pack_ndarray_to_file(values, str(theirs), chunk_size="1M", blosc_args=arguments)

    return {
        OURS: (save, lambda: hs.open_array(ours, cache_bytes=0)[...]),
        "bloscpack": (pack, lambda: bloscpack.unpack_ndarray_from_file(str(theirs))),
        "np.save": (lambda values: np.save(plain, values), lambda: np.load(plain)),
    }


def _packing(folder: Path, values: Any, cname: str, level: int, title: str) -> Row:
    folder.mkdir()
    peers = _peers(folder, cname, level)

    def packer(name: str) -> Callable[[], Any]:
        write, read = peers[name]

        def run() -> Any:
            write(values)
            return read

        return run

    contenders = [Contender(name, packer(name), before=partial(_clear, folder)) for name in peers]
    return Row(
        f"pack {title}",
        contenders,
        lambda _, read: np.array_equal(read(), values),
        (Target("bloscpack", 2.0, _PACKING),),
    )


def _clear(folder: Path) -> None:
    """Replacing a file makes a file system flush it; here all write new ones."""
    for file in folder.iterdir():
        file.unlink()


def _unpacking(folder: Path, values: Any, cname: str, level: int, title: str) -> Row:
    contenders = []
    _clear(folder)
    for name, (write, read) in _peers(folder, cname, level).items():
        write(values)
        contenders.append(Contender(name, read))
    path = folder / "ours.blp"
    contenders.append(bare.decoding(path, _chunks(path)))
    targets = (Target("bloscpack", 2.0, _UNPACKING), Target(BARE_DECODER, 0.8, _STORED))

    def check(name: str, got: Any) -> bool:
        return bool(got == values.nbytes) if name == BARE_DECODER else np.array_equal(got, values)

    return Row(f"unpack {title}", contenders, check, targets)


def _chunks(path: Path) -> list[tuple[int, int]]:
    """Where each chunk lies in a file of bloscpack, and how long it is."""
    with path.open("rb") as file:
        _, _, _, offsets = bloscpack.file_io._read_beginning(file)
        places = []
        for start in offsets:
            file.seek(start + 12)  # of its Blosc header
            places.append((start, int.from_bytes(file.read(4), "little")))
    return places


def _part(folder: Path, values: Any) -> Row:
    folder.mkdir()
    hs.save(folder / "a.blp", values, codec="blosc:lz4:5")
    blosc2.asarray(values, urlpath=str(folder / "a.b2nd"), cparams={"codec": blosc2.Codec.LZ4, "clevel": 5})

    def ours() -> Any:
        return hs.open_array(folder / "a.blp", cache_bytes=0)[_PART]

    def theirs() -> Any:
        return blosc2.open(str(folder / "a.b2nd"))[_PART]

    contenders = [Contender(OURS, ours, times=20), Contender("blosc2 .b2nd", theirs, times=20)]
    title = "1,000 cells of the same, lz4-5, chunks as each cuts them"
    return Row(
        title, contenders, lambda _, got: np.array_equal(got, values[_PART]), (Target("blosc2 .b2nd", 1.0, _CELLS),)
    )
