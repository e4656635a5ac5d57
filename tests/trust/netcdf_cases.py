"""netCDF files that are cut, lie, lead elsewhere, or hold chunks that are damaged or bombs."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
from corpus import GOOD, A, Case, opened, whole
from media import NOISE, WRITES, _filled, _mounts, _small_disk
from places import _told

import hyperslab as hs
from permissions import read_only

BROKEN = ("FormatError", "StorageError")
CORRUPT = ("CorruptChunk",)
OUT = ("Unsupported", "FormatError", "StorageError", "NodeNotFound", "Invalid", "CorruptChunk", "ExternalLinkRefused")


def sound(path: Path, format: str = "NETCDF4") -> None:
    """``a`` in compressed chunks, ``good``, ``other`` and a group with an array."""
    with netCDF4.Dataset(path, "w", format=format) as file:
        for name, size in {"y": 8, "x": 8, "n": 6}.items():
            file.createDimension(name, size)
        options: dict[str, Any] = {"zlib": True, "shuffle": False, "chunksizes": (4, 4)} if format == "NETCDF4" else {}
        file.createVariable("a", "i4", ("y", "x"), **options)[:] = A
        file.createVariable("good", "f8", ("n",))[:] = GOOD
        file.createVariable("other", "i4", ("n", "n"))[:] = 1
        if format == "NETCDF4":
            group = file.createGroup("g")
            group.createDimension("five", 5)
            group.createVariable("b", "i8", ("five",))[:] = np.arange(5)


def change(how: Callable[[h5py.File], Any]) -> Callable[[Path], None]:
    """Change a sound file through h5py."""

    def make(path: Path) -> None:
        sound(path)
        with h5py.File(path, "r+") as file:
            how(file)

    return make


def as_bytes(how: Callable[[bytes], bytes], format: str = "NETCDF4") -> Callable[[Path], None]:
    """Change a sound file as bytes."""

    def make(path: Path) -> None:
        sound(path, format)
        path.write_bytes(how(path.read_bytes()))

    return make


def _chunk(data: bytes, mask: int = 0) -> Callable[[h5py.File], Any]:
    return lambda file: file["a"].id.write_direct_chunk((0, 0), data, mask)


COMMON: dict[str, Any] = {"layout": None, "target": "x.nc"}


def netcdf() -> Iterator[Case]:
    """All of them."""
    yield from _cut_files()
    yield from _chunks()
    yield from _links()
    yield from _headers()
    yield from _writes()


def _cut_files() -> Iterator[Case]:
    for format in ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"):
        yield Case(
            f"{format}: sound",
            as_bytes(bytes, format),
            (),
            steps=(whole,),
            value=A,
            sibling=format == "NETCDF4",
            **COMMON,
        )
        for part in (1, 4, 30, 50, 70, 99):

            def cut(data: bytes, part: int = part) -> bytes:
                return data[: len(data) * part // 100]

            yield Case(
                f"{format}: {part} %",
                as_bytes(cut, format),
                BROKEN,
                steps=(opened, whole),
                where=(),
                sibling=False,
                **COMMON,
            )


def _chunks() -> Iterator[Case]:
    inflated = zlib.compress(bytes(1 << 26), 1)
    chunks = {
        "a bomb": inflated,
        "a bomb within a bomb": zlib.compress(inflated),
        "noise": bytes(range(64)),
        "a cut one": zlib.compress(A[:4, :4].tobytes())[:-6],
        "too little": zlib.compress(bytes(10)),
        "too much": zlib.compress(bytes(100)),
    }
    for name, data in chunks.items():
        yield Case(f"a chunk of {name}", change(_chunk(data)), CORRUPT, **COMMON)
    for name, data in {"little": bytes(10), "much": bytes(10_000)}.items():
        yield Case(f"an uncompressed chunk of too {name}", change(_chunk(data, 1)), CORRUPT, **COMMON)
    yield Case("checksums that do not match", _checksums, CORRUPT, **COMMON)
    yield Case("a filter that nobody knows", change(_unknown_filter), ("Unsupported", "CorruptChunk"), **COMMON)
    huge = change(lambda file: _replace(file, "huge"))
    yield Case("2^60 cells, read whole", huge, ("MemoryLimit",), steps=(whole,), **COMMON)
    yield Case("2^60 cells, read one", huge, (), steps=(lambda url: hs.open(url)["a"][5],), value=0, **COMMON)


def _links() -> Iterator[Case]:
    links: dict[str, Callable[[h5py.File], Any]] = {
        "a link to nowhere": lambda file: _replace(file, h5py.SoftLink("/nowhere")),
        "a link to itself": lambda file: _replace(file, h5py.SoftLink("/a")),
        "a link to another file": lambda file: _replace(file, h5py.ExternalLink("outside.nc", "/good")),
        "a link to a system file": lambda file: _replace(file, h5py.ExternalLink("/etc/passwd", "/")),
        "cells in another file": lambda file: _replace(file, "external"),
        "cells of another dataset": lambda file: _replace(file, "virtual"),
    }
    for name, how in links.items():
        yield Case(
            name,
            _beside(how),
            OUT,
            steps=(whole, lambda url: hs.open(url)["a"][0]),
            where=("node=/a", "netCDF library cannot open"),
            **COMMON,
        )
    circles: dict[str, Callable[[h5py.File], Any]] = {
        "a group within itself": lambda file: file["g"].__setitem__("self", file["g"]),
        "the root within a group": lambda file: file["g"].__setitem__("root", file["/"]),
        "two groups within each other": lambda file: (
            file.create_group("h").__setitem__("g", file["g"]),
            file["g"].__setitem__("h", file["h"]),
        ),
        "a link upwards": lambda file: file["g"].__setitem__("up", h5py.SoftLink("/")),
    }
    for name, how in circles.items():
        where = ("node=/g", "node=/h")
        yield Case(name, change(how), ("FormatError",), steps=(opened,), where=where, sibling=False, **COMMON)


def _headers() -> Iterator[Case]:
    for name, header in {
        "2^31 dimensions": struct.pack(">III", 0, 0x0A, 2**31 - 1),
        "a name of 2^31 bytes": struct.pack(">IIII", 0, 0x0A, 1, 2**31 - 1),
        "2^31 variables": struct.pack(">IIIIIII", 0, 0, 0, 0, 0, 0x0B, 2**31 - 1),
        "2^31 attributes": struct.pack(">IIIII", 0, 0, 0, 0x0C, 2**31 - 1),
        "a wrong tag": struct.pack(">III", 0, 0x99, 1),
    }.items():
        make = lambda path, header=header: path.write_bytes(b"CDF\x01" + header)  # noqa: E731
        yield Case(f"a header of {name}", make, BROKEN, steps=(opened,), where=(), sibling=False, **COMMON)
    anything: tuple[Any, ...] = (None, *OUT, "MemoryLimit")
    for place in range(40, 4000, 90):

        def flip(data: bytes, place: int = place) -> bytes:
            return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]

        yield Case(
            f"byte {place} is another",
            as_bytes(flip),
            anything,
            steps=(whole, _told),
            where=(),
            sibling=False,
            **COMMON,
        )


def _replace(file: h5py.File, new: Any) -> None:
    del file["a"]
    if new == "external":
        file.create_dataset("a", (8,), "u1", external=[("../canary", 0, 8)])
    elif new == "virtual":
        layout = h5py.VirtualLayout((6,), "f8")
        layout[:] = h5py.VirtualSource("outside.nc", "good", (6,))
        file.create_virtual_dataset("a", layout)
    elif new == "huge":
        file.create_dataset("a", (2**60,), "i4", chunks=(64,))
    else:
        file["a"] = new


def _beside(how: Callable[[h5py.File], Any]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        sound(path.with_name("outside.nc"))
        change(how)(path)

    return make


def _checksums(path: Path) -> None:
    sound(path)
    with h5py.File(path, "r+") as file:
        del file["a"]
        file.create_dataset("a", data=A, chunks=(4, 4), fletcher32=True)
        info = file["a"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[info.byte_offset + 5] ^= 1
    path.write_bytes(data)


def _unknown_filter(file: h5py.File) -> None:
    del file["a"]
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((4, 4))
    properties.set_filter(32_999, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    space = h5py.h5s.create_simple((8, 8))
    made = h5py.h5d.create(file.id, b"a", h5py.h5t.STD_I32LE, space, properties)
    for place in ((0, 0), (0, 4), (4, 0), (4, 4)):
        made.write_direct_chunk(place, bytes(64), 0)


def _writes() -> Iterator[Case]:
    """Changes without permission, and on a full disk."""
    simple = {name: WRITES[name] for name in ("all cells", "one cell", "an attribute", "an array")}
    small = _mounts()
    closing = {name: _closed(name) for name in simple}
    for name, write in closing.items():
        yield Case(f"{name}, no permission", sound, ("ReadOnly",), steps=(write,), where=(), around=read_only, **COMMON)
        if small:
            yield Case(
                f"{name}, full disk", sound, ("StorageError",), steps=(write,), where=(), around=_full,
                medium=_small_disk, afterwards=write, **COMMON,
            )  # fmt: skip


def _closed(name: str) -> Callable[[str], Any]:
    def write(url: str) -> None:
        with hs.open(url, "r+") as root:
            if name == "all cells":
                root["a"][...] = NOISE
            elif name == "one cell":
                root["a"][0, 0] = 77
            elif name == "an attribute":
                root.attrs["note"] = "x" * 5000
            else:
                root.create_array("new", data=NOISE)

    return write


def _full(path: Path) -> Any:
    return _filled(0)(path.parent / "x")
