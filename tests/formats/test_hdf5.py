"""The pread path of HDF5 files gives what h5py gives, or refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import CorruptChunk, ReadOnly
from hyperslab.formats.hdf5.cells import ContiguousCells, Hdf5Chunks, open_chunk_source
from hyperslab.formats.hdf5.filters import codec_from_filter, read_filters
from hyperslab.model.dtypes import Char, Enum
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.files import pread, pread_into

SHAPE = (7, 10)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[h5py.File]:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        yield made


def opened(dataset: Any, **changes: Any) -> tuple[Any, ArraySpec]:
    """The source of a dataset that h5py has flushed, and its spec."""
    dataset.file.flush()
    spec = ArraySpec(
        shape=dataset.shape,
        dtype=dataset.dtype,
        chunks=dataset.chunks or dataset.shape,
        codecs=read_filters(dataset),
        fill_value=dataset.fillvalue,
    ).evolve(**changes)
    descriptor = os.open(dataset.file.filename, os.O_RDONLY)
    return open_chunk_source(dataset, descriptor, spec, dataset.file.filename, (ContiguousCells, Hdf5Chunks)), spec


def cells(source: Any, spec: ArraySpec) -> np.ndarray[Any, Any]:
    out = np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            out[(*extent, ...)] = block[(*(slice(0, part.stop - part.start) for part in extent), ...)]
    return out


FILTERS: list[dict[str, Any]] = [
    {},
    {"compression": "gzip", "compression_opts": 9},
    {"shuffle": True},
    {"fletcher32": True},
    {"shuffle": True, "compression": "gzip", "fletcher32": True},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("dtype", ["<i2", ">i2", "u1", "<f4", ">f8", "<u8"])
def test_filters_and_types(file: h5py.File, dtype: str, filters: dict[str, Any]) -> None:
    values = np.arange(70).reshape(SHAPE).astype(dtype)
    dataset = file.create_dataset("a", data=values, chunks=(3, 4), **filters)
    source, spec = opened(dataset)
    assert isinstance(source, Hdf5Chunks)
    np.testing.assert_array_equal(cells(source, spec), dataset[...])
    assert source.nbytes_stored() == dataset.id.get_storage_size()
    assert len(list(source.stored_coords())) == dataset.id.get_num_chunks()


def test_chunks_that_were_never_written(file: h5py.File) -> None:
    dataset = file.create_dataset("a", SHAPE, "f4", chunks=(3, 4), fillvalue=5)
    dataset[0, 0] = 1
    source, spec = opened(dataset)
    assert source.read((2, 2)) is None
    np.testing.assert_array_equal(cells(source, spec), dataset[...])


def test_a_chunk_that_left_a_filter_out(file: h5py.File) -> None:
    dataset = file.create_dataset("a", (8,), "<i4", chunks=(4,), shuffle=True, compression="gzip")
    dataset[:] = np.arange(8)
    dataset.id.write_direct_chunk((4,), np.arange(4, 8, dtype="<i4").tobytes(), filter_mask=3)
    source, spec = opened(dataset)
    np.testing.assert_array_equal(cells(source, spec), np.arange(8))


@pytest.mark.parametrize("chunks", [(7, 10), (1, 10), (2, 10), (1, 3), (3, 4)])
def test_cells_in_one_piece_under_any_grid(file: h5py.File, chunks: tuple[int, int]) -> None:
    dataset = file.create_dataset("a", data=np.arange(70, dtype=">i4").reshape(SHAPE))
    source, spec = opened(dataset, chunks=chunks)
    assert isinstance(source, ContiguousCells)
    np.testing.assert_array_equal(cells(source, spec), dataset[...])


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7)), max_size=4),
    st.sampled_from(["<i2", ">f8"]),
)
def test_contiguous_grids(tmp_path_factory: Any, axes: list[tuple[int, int]], stored: str) -> None:
    shape, chunks = tuple(a for a, _ in axes), tuple(b for _, b in axes)
    values = np.arange(int(np.prod(shape)), dtype=stored).reshape(shape)
    path = tmp_path_factory.mktemp("contiguous") / "cells"
    path.write_bytes(b"head" + values.tobytes())
    spec = ArraySpec(shape=shape, dtype=values.dtype.newbyteorder("="), chunks=chunks, fill_value=-1)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        source = ContiguousCells(descriptor, 4, spec, values.dtype, str(path))
        np.testing.assert_array_equal(cells(source, spec), values)
    finally:
        os.close(descriptor)


def test_nothing_written_at_all(file: h5py.File) -> None:
    dataset = file.create_dataset("a", SHAPE, "f4", fillvalue=3)
    source, spec = opened(dataset)
    assert source.read((0, 0)) is None
    np.testing.assert_array_equal(cells(source, spec), 3)


def test_enum_and_char(file: h5py.File) -> None:
    names = {"a": 0, "b": 1}
    dataset = file.create_dataset("e", (4,), h5py.enum_dtype(names, "u1"), chunks=(2,))
    dataset[:] = [0, 1, 1, 0]
    source, spec = opened(dataset, dtype=Enum(np.dtype("u1"), tuple(names.items())))
    np.testing.assert_array_equal(cells(source, spec), [0, 1, 1, 0])
    dataset = file.create_dataset("c", data=np.array([b"a", b"b", b"c"], "S1"), chunks=(2,))
    source, spec = opened(dataset, dtype=Char(), fill_value=b"")
    np.testing.assert_array_equal(cells(source, spec), [b"a", b"b", b"c"])


def test_what_it_does_not_know_is_refused(file: h5py.File, tmp_path: Path) -> None:
    kind = h5py.h5t.STD_I16LE.copy()
    kind.set_precision(12)
    space = h5py.h5s.create_simple((4,))
    h5py.h5d.create(file.id, b"narrow", kind, space)
    refused = {
        "lzf": file.create_dataset("lzf", (4,), "i4", chunks=(2,), compression="lzf"),
        "offset": file.create_dataset("offset", (4,), "i4", chunks=(2,), scaleoffset=3),
        "text": file.create_dataset("text", (4,), h5py.string_dtype()),
        "compound": file.create_dataset("compound", (4,), np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        "external": file.create_dataset("external", (4,), "i4", external=[(str(tmp_path / "x.raw"), 0, 16)]),
        "narrow": file["narrow"],
    }
    for name, dataset in refused.items():
        assert opened(dataset, fill_value=None)[0] is None, name
    dataset = file.create_dataset("other grid", (4,), "i4", chunks=(2,))
    assert opened(dataset, chunks=(4,))[0] is None
    assert opened(dataset, shape=(6,))[0] is None


def test_a_user_block_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w", userblock_size=512) as file:
        assert opened(file.create_dataset("a", data=np.arange(4)))[0] is None


def test_damage_names_the_chunk(file: h5py.File) -> None:
    dataset = file.create_dataset("a", data=np.arange(100), chunks=(50,), compression="gzip")
    source, _ = opened(dataset)
    offset, size, _ = source.table()[(1,)]
    with open(file.filename, "r+b") as damaged:
        damaged.seek(offset)
        damaged.write(bytes(size))
    with pytest.raises(CorruptChunk, match=rf"/a chunk \(1,\) at byte {offset}"):
        source.read((1,))
    assert source.read((0,)) is not None


def test_a_chunk_behind_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    assert bytes(pread(descriptor, 2, 1)) == b"23"
    with pytest.raises(CorruptChunk, match="ends within"):
        pread(descriptor, 2**40, 2)


def test_writes_are_refused(file: h5py.File) -> None:
    for more in ({}, {"chunks": (4,)}):
        source, _ = opened(file.create_dataset(f"a{len(more)}", data=np.arange(4), **more))
        with pytest.raises(ReadOnly):
            source.write((0,), np.arange(4))
        with pytest.raises(ReadOnly):
            source.erase((0,))


@pytest.mark.parametrize(
    ("number", "values", "codec"),
    [
        (1, (6,), Codec("zlib", {"level": 6})),
        (2, (8,), Codec("shuffle", {"elementsize": 8})),
        (3, (), Codec("fletcher32")),
        (307, (9,), Codec("bz2", {"level": 9})),
        (32015, (3,), Codec("zstd", {"level": 3})),
        (32001, (2, 2, 4, 400, 5, 1, 1), Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})),
        (32001, (2, 2), Codec("hdf5_filter", {"number": 32001, "values": [2, 2]})),
        (32004, (), Codec("hdf5_filter", {"number": 32004, "values": []})),
    ],
)
def test_filters_by_number(number: int, values: tuple[int, ...], codec: Codec) -> None:
    assert codec_from_filter(number, values) == codec


@pytest.mark.parametrize("offset", [100, 2**62, 2**63, 2**64 - 4])
def test_cells_that_are_said_to_lie_beyond_the_end(tmp_path: Path, offset: int) -> None:
    (tmp_path / "a").write_bytes(bytes(50))
    with open(tmp_path / "a", "rb") as file:
        for read in (
            lambda: pread(file.fileno(), 8, offset),
            lambda: pread_into(file.fileno(), memoryview(bytearray(8)), offset),
        ):
            with pytest.raises(CorruptChunk, match="ends within"):
                read()
