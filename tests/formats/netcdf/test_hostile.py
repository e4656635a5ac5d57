"""Damaged and foreign files: an error of ours that names the place, no crash, no hang, bounded memory, no wrong cells.

What may bring the library down runs in another process with a limit on its memory.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netcdf_files import REAL, raw, read_all

from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, NotFound, StorageError
from hyperslab.formats.netcdf import FORMAT, classic
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.stores.location import Location, Probe
from programs import ran

OPENER = """
import resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from hyperslab.errors import HyperslabError
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.model.spec import ArraySpec
def walk(reader, path):
    spec = reader.node(path)
    if isinstance(spec, ArraySpec):
        if spec.numpy_dtype.itemsize * max(spec.shape, default=1) < 2**24:
            source = reader.chunks(path)
            for number, coords in enumerate(source.grid):
                if number < 50:
                    source.read(coords)
        return
    for name in reader.children(path):
        walk(reader, f"{path}/{name}" if path else name)
for name in sys.stdin.read().split("\\n"):
    try:
        reader = NetcdfReader(name, name)
        try:
            walk(reader, "")
        finally:
            reader.close()
        print("fine")
    except (HyperslabError, MemoryError) as error:
        assert isinstance(error, MemoryError) or error.url == name, error
        print(type(error).__name__)
    sys.stdout.flush()
"""


def open_in_another_process(paths: list[Path], limit: int = 2 << 30) -> list[str]:
    """What became of each file: ``fine``, the name of our error, or ``died`` where the library ended its process."""
    outcome: list[str] = []
    while len(outcome) < len(paths):
        done = ran(OPENER, limit, given="\n".join(map(str, paths[len(outcome) :])).encode())
        outcome += done.stdout.split()
        if done.returncode < 0 and len(outcome) < len(paths):
            outcome.append("died")
        else:
            assert done.returncode == 0 or len(outcome) == len(paths), (done.returncode, done.stderr[-2000:])
    return outcome


@pytest.fixture
def classic_file(tmp_path: Path) -> Path:
    path = tmp_path / "classic.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as dataset:
        dataset.createDimension("t", None)
        dataset.createDimension("x", 5)
        dataset.title = "abc"
        dataset.createVariable("fixed", "i2", ("x",))[:] = np.arange(5)
        dataset.createVariable("text", "S1", ("x",))[:] = np.array([b"a"] * 5)
        dataset.createVariable("records", "f8", ("t", "x"))[0:3] = np.arange(15).reshape(3, 5)
        dataset.createVariable("bytes", "i1", ("t",))[0:3] = [1, 2, 3]
    return path


@pytest.fixture
def hdf5_file(tmp_path: Path) -> Path:
    path = tmp_path / "four.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 64)
        packed = dataset.createVariable("packed", "i4", ("x",), compression="zlib", fletcher32=True, chunksizes=(16,))
        packed[:] = np.arange(64)
        dataset.createVariable("plain", "f8", ("x",))[:] = np.arange(64)
        dataset.createVariable("text", str, ("x",))[:] = np.array(["word"] * 64, object)
        dataset.createGroup("g").createVariable("y", "f4", ("x",))[:] = 1
    return path


def cut(path: Path, length: int) -> Path:
    target = path.with_name(f"cut_{length}_{path.name}")
    target.write_bytes(path.read_bytes()[:length])
    return target


def test_a_classic_file_cut_at_any_length_is_refused(classic_file: Path) -> None:
    needed = classic.parse_header(classic_file.read_bytes()).size
    assert classic_file.stat().st_size - needed < 4  # padding, which nobody misses
    for length in range(needed):
        target = cut(classic_file, length)
        with pytest.raises(FormatError) as caught:
            NetcdfReader(str(target), str(target))
        assert caught.value.url == str(target)
        target.unlink()


def test_the_library_alone_reads_zeros_from_a_cut_classic_file(classic_file: Path) -> None:
    """Why the header is parsed here: if this fails the library has learned to look."""
    target = cut(classic_file, classic_file.stat().st_size - 60)
    with raw(target) as dataset:
        assert not np.array_equal(dataset["records"][:], np.arange(15).reshape(3, 5))


def test_an_hdf5_file_cut_at_many_lengths_is_refused(hdf5_file: Path) -> None:
    size = hdf5_file.stat().st_size
    lengths = sorted({*range(0, 64, 7), *range(64, size, size // 40), size - 1})
    outcome = open_in_another_process([cut(hdf5_file, length) for length in lengths])
    assert set(outcome) <= {"FormatError", "StorageError"}
    assert len(outcome) == len(lengths)


def flips(path: Path, count: int) -> list[Path]:
    """Copies of a file with all bits of one byte turned, at ``count`` places."""
    data, chosen = path.read_bytes(), []
    for place in range(0, len(data), max(1, len(data) // count)):
        target = path.with_name(f"flip_{place}_{path.name}")
        target.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        chosen.append(target)
    return chosen


KNOWN = {"fine", "FormatError", "StorageError", "CorruptChunk", "Invalid", "Unsupported", "MemoryLimit", "NodeNotFound"}


def test_flipped_bytes_of_a_classic_file(classic_file: Path) -> None:
    assert set(open_in_another_process(flips(classic_file, 300))) <= KNOWN


def test_flipped_bytes_of_an_hdf5_file(hdf5_file: Path) -> None:
    """HDF5's own code may die of damaged metadata, and then nothing in its process helps; never an error of others."""
    outcome = open_in_another_process(flips(hdf5_file, 150))
    assert set(outcome) <= {*KNOWN, "died"}
    assert outcome.count("died") <= 3


def test_flips_in_checked_chunks_are_never_wrong_numbers(hdf5_file: Path) -> None:
    reader = NetcdfReader(str(hdf5_file), str(hdf5_file))
    source: Any = reader.chunks("packed")
    table = source.table()
    reader.close()
    data = hdf5_file.read_bytes()
    target = hdf5_file.with_name("flipped.nc")
    for offset, size, _ in table.values():
        for place in range(offset, offset + size, 5):
            target.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
            for fast in (True, False):
                damaged = NetcdfReader(str(target), str(target), fast=fast)
                with pytest.raises(CorruptChunk) as caught:
                    read_all(damaged, "packed")
                assert "packed" in str(caught.value)
                np.testing.assert_array_equal(read_all(damaged, "plain"), np.arange(64))
                damaged.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"C",
        b"CDF",
        b"CDF\x03" + bytes(40),
        b"CDF\x01",
        b"CDF\x01" + bytes(3),
        b"\x89HDF\r\n\x1a\n",
        b"\x89HDF\r\n\x1a\n" + bytes(600),
        b"PK\x03\x04" + bytes(600),
        b"{}",
        bytes(10_000),
    ],
    ids=repr,
)
def test_what_is_no_netcdf_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.nc"
    path.write_bytes(data)
    with pytest.raises((FormatError, StorageError)) as caught:
        NetcdfReader(str(path), str(path))
    assert caught.value.url == str(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        NetcdfReader(str(tmp_path / "none.nc"), "none.nc")
    with pytest.raises(HyperslabError):
        NetcdfReader(str(tmp_path), "folder")


def test_recognition_is_by_content(tmp_path: Path, classic_file: Path, hdf5_file: Path) -> None:
    for path in (classic_file, hdf5_file, REAL[0]):
        assert FORMAT.sniff(Probe(Location.of(path)))
    behind = tmp_path / "behind.h5"
    behind.write_bytes(bytes(1024) + hdf5_file.read_bytes())
    other = tmp_path / "other.nc"
    other.write_bytes(b"CDF\x07" + bytes(8000))
    (tmp_path / "folder.nc").mkdir()
    assert FORMAT.sniff(Probe(Location.of(behind)))
    assert not FORMAT.sniff(Probe(Location.of(other)))
    assert not FORMAT.sniff(Probe(Location.of(tmp_path / "folder.nc")))


def name(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text + bytes(-len(text) % 4)


HUGE = 2**31 - 1
HEADERS = {
    "dimensions": b"CDF\x01" + struct.pack(">III", 0, 0x0A, HUGE),
    "name": b"CDF\x01" + struct.pack(">III", 0, 0x0A, 1) + struct.pack(">I", HUGE),
    "attributes": b"CDF\x01" + struct.pack(">IIIII", 0, 0, 0, 0x0C, HUGE),
    "attribute": b"CDF\x01" + struct.pack(">IIIII", 0, 0, 0, 0x0C, 1) + name(b"a") + struct.pack(">II", 6, HUGE),
    "type": b"CDF\x01" + struct.pack(">IIIII", 0, 0, 0, 0x0C, 1) + name(b"a") + struct.pack(">II", 77, 1),
    "variables": b"CDF\x01" + struct.pack(">IIIIIII", 0, 0, 0, 0, 0, 0x0B, HUGE),
    "rank": b"CDF\x01" + struct.pack(">IIIIIII", 0, 0, 0, 0, 0, 0x0B, 1) + name(b"v") + struct.pack(">I", HUGE),
    "tag": b"CDF\x01" + struct.pack(">III", 0, 0x0B, 1),
    "records": b"CDF\x05" + struct.pack(">QIQIQIQ", 2**62, 0x0A, 1, 0, 0, 0, 0),
    "dimension number": b"CDF\x01"
    + struct.pack(">IIIIIII", 0, 0, 0, 0, 0, 0x0B, 1)
    + name(b"v")
    + struct.pack(">IIIIIII", 1, 9, 0, 0, 4, 4, 100),
}


@pytest.mark.parametrize("data", HEADERS.values(), ids=HEADERS.keys())
def test_headers_that_claim_too_much(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.nc"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        NetcdfReader(str(path), str(path))


@given(st.binary(max_size=200), st.sampled_from([1, 2, 5]))
def test_no_header_breaks_the_parser(tail: bytes, version: int) -> None:
    data = b"CDF" + bytes([version]) + tail
    try:
        header = classic.parse_header(data)
    except FormatError:
        return
    assert header.size >= 4


@pytest.mark.parametrize("path", [path for path in REAL if path.read_bytes()[:3] == b"CDF"], ids=lambda path: path.name)
def test_the_header_of_real_files(path: Path) -> None:
    header = classic.parse_header(path.read_bytes())
    with raw(path) as dataset:
        assert [variable.name for variable in header.variables] == list(dataset.variables)
        sizes = [variable[...].size * variable.dtype.itemsize for variable in dataset.variables.values()]
        assert [variable.nbytes for variable in header.variables] == sizes
    assert header.size <= path.stat().st_size < header.size + 4


EDITOR = """
import sys
import hyperslab as hs
from hyperslab.errors import CorruptChunk, HyperslabError
name, url = sys.argv[1:]
def said(step):
    try:
        step()
    except CorruptChunk as error:
        return error.url, error.node
with hs.open(url, "r+") as root:
    array, row = root[name], root["sound"][:2]
    print(said(lambda: array[:]), said(lambda: array.__setitem__(slice(0, 1), array.fill_value)))
    print(said(lambda: root.move(name, "other")), said(lambda: root.attrs.update(title="changed")))
    root["sound"][:2] = row + 1
with hs.open(url, "r+") as root:
    del root[name]
with hs.open(url) as root:
    print(dict(root.attrs), root["sound"][:2].tolist(), list(root))
"""


@pytest.mark.covering
@pytest.mark.parametrize("name", ["numbers", "rows"])
@pytest.mark.parametrize("length", [0, 3])
def test_a_chunk_shorter_than_its_checksum_ends_no_process(tmp_path: Path, name: str, length: int) -> None:
    """HDF5 2.2.0 reads beyond its buffer there; rows are read by the library also where nothing is written."""
    path = tmp_path / "old.nc"
    with h5py.File(path, "w", libver="earliest", track_order=True) as file:
        for each, cells in (("numbers", np.arange(8)), ("rows", np.ones(8, [("a", "<i4")])), ("sound", np.arange(8))):
            dataset = file.create_dataset(each, data=cells, chunks=(4,), fletcher32=True)
            if each == name:
                info = dataset.id.get_chunk_info(1)
    data = path.read_bytes()
    key = struct.pack("<IIQ", info.size, 0, info.chunk_offset[0])
    at = data.rindex(key, 0, data.index(struct.pack("<Q", info.byte_offset)))
    path.write_bytes(data[:at] + struct.pack("<I", length) + data[at + 4 :])
    assert open_in_another_process([path]) == ["CorruptChunk"]
    done = ran(EDITOR, name, path)
    kept = ["numbers", "rows", "sound"]
    kept.remove(name)
    where = (str(path), name)
    expected = f"{where} {where}\n{where} None\n{{'title': 'changed'}} [1, 2] {kept}\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr[-3000:]
