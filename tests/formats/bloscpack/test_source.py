"""Cells out of streams of every kind: chunks that end within rows, both orders, unfinished files, parts of chunks."""

from __future__ import annotations

import logging
import os
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numcodecs.blosc
import numpy as np
import pytest
from blp_files import blp, chunk, file_of, golden, section, text_of, truth, write
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, Invalid, MissingChunks, NotFound, ReadOnly, Unsupported
from hyperslab.testing.datasets import basic_keys

CELLS = np.random.default_rng(0).integers(0, 50, (40, 7, 5)).astype("<f4")


@pytest.mark.covering
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [64, 100, 140, 141, 280, 700, 1000, 5600, 10_000])
@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_chunks_of_any_size(tmp_path: Path, order: Any, size: int, cache: int) -> None:
    """A row of C order has 140 bytes, one of F order 1120: most sizes end within rows."""
    cells = np.asarray(CELLS, order=order)
    array: Any = hs.open(write(tmp_path, file_of(cells, size)), cache_bytes=cache)
    assert_array_equal(array[...], CELLS)
    for key in [np.s_[3], np.s_[-1, 2:5], np.s_[::-3, 1], np.s_[5:9, :, 2], np.s_[:, 3:4], ([1, 39, 7], slice(2), 0)]:
        assert_array_equal(array[key], CELLS[key])


@settings(max_examples=min(settings.default.max_examples, 60), deadline=None)
@given(st.data())
def test_selections(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is selected, by whichever way parts are read."""
    order: Any = data.draw(st.sampled_from("CF"))
    size = data.draw(st.integers(30, 6000))
    path = write(tmp_path_factory.mktemp("blp"), file_of(np.asarray(CELLS, order=order), size, offsets=size % 2 == 0))
    array: Any = hs.open(path, cache_bytes=data.draw(st.sampled_from([0, 1 << 20])))
    for _ in range(5):
        key = data.draw(basic_keys(CELLS.shape))
        assert_array_equal(array[key], CELLS[key])


DTYPES = ["?", "i1", ">i2", "<u8", "f2", "<c16", "S3", "<U2", "<M8[s]", "V3", "S300", "<U100"]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (50,), (5, 10)])
def test_types_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    raw = np.random.default_rng(1).integers(0, 2, np.prod(shape, dtype=int) * np.dtype(dtype).itemsize)
    cells = raw.astype("u1").view(dtype).reshape(shape) if raw.size else np.zeros(shape, dtype)
    size = max(1, 256 // cells.itemsize) * cells.itemsize
    array = hs.open(write(tmp_path, file_of(cells, size)))
    assert (array.dtype, array.shape) == (cells.dtype, shape)
    assert array[...].tobytes() == cells.tobytes()


STRUCTURES = [
    np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True),
    np.dtype([("a", "i1"), ("b", [("x", "<u2"), ("y", ">f4", (2, 3))])]),
    np.dtype({"names": ["p", "q"], "formats": ["<i4", "S3"], "offsets": [4, 20], "itemsize": 32}),
]


@pytest.mark.parametrize("dtype", STRUCTURES, ids=["aligned", "nested", "holes"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_structures(tmp_path: Path, dtype: np.dtype[Any], order: Any) -> None:
    cells = np.zeros((30, 4), dtype)
    raw = cells.reshape(-1).view(np.uint8).reshape(120, dtype.itemsize)
    raw[...] = np.random.default_rng(2).integers(0, 60, raw.shape)
    cells = np.asarray(cells, order=order)
    array: Any = hs.open(write(tmp_path, file_of(cells, 16 * dtype.itemsize)), cache_bytes=0)
    assert array.dtype.itemsize == sum(array.dtype[name].itemsize for name in array.dtype.names)
    for name in dtype.names or ():
        assert_array_equal(array[name][...] if name == "b" else array[...][name], cells[name])
        assert_array_equal(array[3:9:2, 1][name], cells[3:9:2, 1][name])


# -- files that do not say everything -----------------------------------------------------------------------------

LINE = np.arange(1000, dtype="<f8")
PARTS = [LINE[i : i + 256].tobytes() for i in range(0, 1000, 256)]
CHUNKS = [chunk(part) for part in PARTS]
TEXT = section(text_of(LINE))
SIZES = [(2048, 1856), (2048, -1), (-1, -1)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("nchunks", [4, -1])
@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_sizes_that_are_not_said(
    tmp_path: Path, sizes: tuple[int, int], nchunks: int, offsets: bool, known: bool
) -> None:
    data = blp(CHUNKS, TEXT if known else b"", sizes=sizes, nchunks=nchunks, offsets=offsets)
    array: Any = hs.open(write(tmp_path, data), cache_bytes=0)
    assert_array_equal(array[...].view("<f8"), LINE)
    assert_array_equal(array[-16:].view("<f8"), LINE[-16 if known else -2 :])
    assert not hs.check(write(tmp_path, data), deep=True) or (offsets and nchunks == -1)


@pytest.mark.parametrize("known", [True, False])
def test_sizes_that_differ(tmp_path: Path, known: bool) -> None:
    parts = [LINE[:10].tobytes(), LINE[10:700].tobytes()[:-3], LINE[10:700].tobytes()[-3:], LINE[700:].tobytes()]
    data = blp([chunk(part, 1) for part in parts], TEXT if known else b"", sizes=(-1, -1), offsets=known)
    array: Any = hs.open(write(tmp_path, data), cache_bytes=0)
    assert_array_equal(array[...].view("<f8"), LINE)
    assert_array_equal(array[608:808].view("<f8"), LINE[608:808] if known else LINE[76:101])


@pytest.mark.parametrize("places", [[-1] * 4, [1, -1, -1, -1]])
def test_places_that_are_not_said(tmp_path: Path, places: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """The file of a writer that was interrupted right before it filled in the offsets."""
    data = blp(CHUNKS, TEXT, places=places, spare=3)
    path = write(tmp_path, data)
    assert_array_equal(hs.open(path)[...], LINE)


@pytest.mark.parametrize("nchunks", [4, -1])
@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_file_is_read_up_to_its_last_whole_chunk(
    tmp_path: Path, nchunks: int, first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets are -1, but where the number of chunks is open the first may say how many there are."""
    start = 32 + len(TEXT) + 4 * 8
    data = blp(CHUNKS, TEXT, places=[start if first else -1, -1, -1, -1], nchunks=nchunks)
    cut = start + sum(map(len, CHUNKS[:2])) + 8
    for end in [*range(cut, cut + 3), cut + 20, cut + len(CHUNKS[2]), cut + len(CHUNKS[2]) + 3]:
        path = write(tmp_path, data[:end])
        array: Any = hs.open(path, cache_bytes=0)
        assert array.shape == LINE.shape
        assert_array_equal(array[:512], LINE[:512])
        with pytest.raises(MissingChunks, match=r"chunk 2 is not there, the last whole one is 1.*chunk 2") as raised:
            array[500:520]
        assert path in str(raised.value)
        problems = {problem.kind: str(problem) for problem in hs.check(path)}
        assert problems.keys() == {"unfinished", "missing-chunk"}
        assert "chunks 2 to 3 are not there" in problems["missing-chunk"]


def test_an_interrupted_stream_of_bytes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = blp(CHUNKS, nchunks=-1, sizes=(2048, -1), offsets=False)
    with caplog.at_level(logging.WARNING, "hyperslab"):
        array: Any = hs.open(write(tmp_path, data[:-1]))
    assert "ends within chunk 3" in caplog.text
    assert_array_equal(array[...].view("<f8"), LINE[:768])
    assert [problem.kind for problem in hs.check(array.url)] == ["unfinished"]


def test_chunks_missing_at_the_end(tmp_path: Path) -> None:
    """A file without offsets that is cut short: what is there is read."""
    data = blp(CHUNKS, TEXT, offsets=False)
    array: Any = hs.open(write(tmp_path, data[: -len(CHUNKS[-1]) - 4]))
    assert_array_equal(array[:768], LINE[:768])
    with pytest.raises(MissingChunks, match="chunk 3 is not there"):
        array[-1]


def test_v1_and_its_open_number(tmp_path: Path) -> None:
    for nchunks in (4, -1):
        data = b"blpk\1\0\0\0" + nchunks.to_bytes(8, "little", signed=True) + b"".join(CHUNKS)
        assert_array_equal(hs.open(write(tmp_path, data))[...].view("<f8"), LINE)


def test_the_appendix_of_blaze(tmp_path: Path) -> None:
    name = "old/blaze_8800417a_v2_list_metaappendix.blp"
    assert_array_equal(hs.open(write(tmp_path, golden(name)))[...], truth(name))
    for tail, attrs in [(b"{no JSON", {}), (b"\0" * 99, {}), (b'{"by": "me"}', {"by": "me"})]:
        array: Any = hs.open(write(tmp_path, blp(CHUNKS, version=2, tail=tail)))
        assert (array.shape, dict(array.attrs)) == ((8000,), attrs)


def test_bytes_behind_the_end_mean_nothing(tmp_path: Path) -> None:
    for offsets in (True, False):
        path = write(tmp_path, blp(CHUNKS, TEXT, offsets=offsets, tail=b"anything" * 999))
        assert_array_equal(hs.open(path)[...], LINE)
        assert not hs.check(path, deep=True)


def test_room_between_chunks_and_within(tmp_path: Path) -> None:
    """Reserve behind the digest (the specification read literally), and inside of what the chunk counts as its own."""
    for header in ({}, {"nchunks": -1}, {"nchunks": -1, "sizes": (-1, -1)}):
        path = write(tmp_path, blp(CHUNKS, TEXT, gap=40, **header))
        assert_array_equal(hs.open(path)[...], LINE)
        assert not hs.check(path, deep=True)
    slack = [stored[:12] + (len(stored) + 9).to_bytes(4, "little") + stored[16:] + b"\xee" * 9 for stored in CHUNKS]
    assert_array_equal(hs.open(write(tmp_path, blp(slack, TEXT)))[...], LINE)


def test_chunks_that_differ_in_their_codec(tmp_path: Path) -> None:
    kinds = [("lz4", 1, 8), ("zstd", 2, 4), ("zlib", 0, 1), ("blosclz", 1, 2)]
    stored = [chunk(part, size, name, shuffle) for part, (name, shuffle, size) in zip(PARTS, kinds, strict=True)]
    assert_array_equal(hs.open(write(tmp_path, blp(stored, TEXT)))[...], LINE)


# -- large chunks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cname", ["lz4", "zstd"])
def test_parts_of_large_chunks(tmp_path: Path, cname: str) -> None:
    cells = np.random.default_rng(3).integers(0, 9, (700, 1001)).astype("<i8")
    path = write(tmp_path, file_of(cells, 1 << 20, cname=cname, blocksize=1 << 14))
    array: Any = hs.open(path, cache_bytes=0)
    assert array.chunks == (-(-(4 << 20) // 8008), 1001)
    assert_array_equal(array[...], cells)
    for key in [np.s_[5], np.s_[130:132, 7], np.s_[131, ::3], np.s_[::50], np.s_[699, 1000]]:
        assert_array_equal(array[key], cells[key])


def test_threads(tmp_path: Path) -> None:
    cells = np.random.default_rng(4).integers(0, 9, 1 << 20).astype("<i8")
    path = write(tmp_path, file_of(cells, 1 << 16))
    for workers in (1, 4):
        array: Any = hs.open(path, workers=workers)
        assert_array_equal(array[...], cells)
        assert_array_equal(array[7::1000], cells[7::1000])


# -- the file as a dataset ----------------------------------------------------------------------------------------


def test_what_is_stored(tmp_path: Path) -> None:
    array: Any = hs.open(write(tmp_path, blp(CHUNKS, TEXT)))
    assert array.nbytes_stored == sum(map(len, CHUNKS)) + 16
    assert array.plan(np.s_[250:260]).chunks == 2


def test_a_file_that_is_replaced_stays_what_it_was_opened_as(tmp_path: Path) -> None:
    path = write(tmp_path, blp(CHUNKS, TEXT))
    array: Any = hs.open(path, cache_bytes=0)
    assert array[0] == 0
    os.replace(write(tmp_path, file_of(LINE + 1, 2048), "b.blp"), path)
    assert_array_equal(array[...], LINE)
    assert hs.open(path)[0] == 1


def test_a_file_that_is_changed_in_place(tmp_path: Path) -> None:
    """Its offsets are read again when a chunk is not what they say, and what is cached is not served."""
    path = write(tmp_path, blp(CHUNKS, TEXT, gap=8))
    array: Any = hs.open(path)
    assert array[300] == 300
    Path(path).write_bytes(blp([chunk((LINE[i : i + 256] * 2).tobytes()) for i in range(0, 1000, 256)], TEXT))
    os.utime(path, ns=(1, 1))
    assert array[300] == 600
    assert_array_equal(array[...], LINE * 2)


def test_closed(tmp_path: Path) -> None:
    root: Any = hs.open_group(write(tmp_path, blp(CHUNKS, TEXT)))
    array = root["data"]
    root.close()
    root.close()
    with pytest.raises(Invalid, match="closed"):
        array[...]


def test_only_reading(tmp_path: Path) -> None:
    path = write(tmp_path, blp(CHUNKS, TEXT))
    with pytest.raises(ReadOnly):
        hs.open(path)[0] = 1
    with pytest.raises(Invalid, match="no option 'fast'"):
        hs.open(path, fast=True)
    with pytest.raises(NotFound):
        hs.open(str(tmp_path / "b.blp"))
    with pytest.raises(FormatError, match="begins with"):
        hs.open(write(tmp_path, b"text", "c.blp"), format="bloscpack")
    hs.create("memory://b.blp", "zarr3")
    with pytest.raises(Unsupported, match="files and servers"):
        hs.open("memory://b.blp", format="bloscpack")


def test_numcodecs_reads_the_same(tmp_path: Path) -> None:
    """The chunks that the tests are made of are Blosc's own."""
    assert b"".join(numcodecs.blosc.decompress(stored) for stored in CHUNKS) == LINE.tobytes()


def test_a_damaged_chunk_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    data = bytearray(blp(CHUNKS, TEXT))
    place = len(data) - len(CHUNKS[3]) - 4 - len(CHUNKS[2])
    data[place] ^= 1
    array: Any = hs.open(write(tmp_path, bytes(data)))
    assert_array_equal(array[:512], LINE[:512])
    assert_array_equal(array[768:], LINE[768:])
    with pytest.raises(CorruptChunk, match=r"adler32: wrong checksum \(expected .*, found .*\).*chunk 2 at byte"):
        array[600]


@pytest.mark.parametrize("cells", [LINE, np.array(3.5), np.zeros((0, 4))], ids=["line", "scalar", "empty"])
def test_order_f_where_it_means_nothing(tmp_path: Path, cells: np.ndarray[Any, Any]) -> None:
    text = text_of(cells).replace(b'"C"', b'"F"')
    data = cells.tobytes()
    stored = [chunk(data[i : i + 1000]) for i in range(0, len(data), 1000)] or [chunk(b"")]
    array: Any = hs.open(write(tmp_path, blp(stored, section(text))), cache_bytes=0)
    assert_array_equal(array[...], cells)
    assert_array_equal(array[3:50:7] if cells.size > 1 else array[...], cells[3:50:7] if cells.size > 1 else cells)


@pytest.mark.parametrize("cells", [np.arange(1 << 21).astype("<f8"), np.arange(3 << 19).reshape(-1, 3).astype("<f8")])
def test_a_whole_read_takes_the_result_and_a_chunk(tmp_path: Path, cells: np.ndarray[Any, Any]) -> None:
    """Chunks decode straight into the result, also where they end within rows; what is read goes to one scratch."""
    array: Any = hs.open(write(tmp_path, file_of(cells, 1 << 18)), workers=1)
    array[:10]
    tracemalloc.start()
    try:
        found = array[...]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_array_equal(found, cells)
    assert cells.nbytes <= peak < cells.nbytes + 3 * (1 << 18)


def test_a_few_cells_of_a_file_cost_few_calls_of_the_system(tmp_path: Path) -> None:
    """The file is one version throughout; header and metadata come by one call, offsets and the chunk by one each."""
    path = tmp_path / "a.blp"
    hs.save(path, np.arange(100_000.0), codec="blosc:lz4:5")
    calls: Counter[str] = Counter()

    def count(frame: object, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__module__", "") == "posix":
            calls[function.__name__] += 1

    def read() -> Any:
        return hs.open_array(path, cache_bytes=0)[1000:2000]

    assert_array_equal(read(), np.arange(1000.0, 2000.0))
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read()
    finally:
        sys.setprofile(before)
    assert calls["preadv"] == 1
    assert 0 < calls["pread"] <= 4
    assert 0 < calls["fstat"] <= 7


@pytest.mark.parametrize("padding", [0, 3000, 4000, 4060, 9000])
def test_metadata_may_reach_beyond_the_first_page(tmp_path: Path, padding: int) -> None:
    path = tmp_path / "a.blp"
    hs.save(path, np.arange(100.0), metadata_codec="none")
    with hs.open_array(path, "r+") as array:
        array.attrs["long"] = "x" * padding
    array = hs.open_array(path)
    assert array.attrs["long"] == "x" * padding
    assert_array_equal(array[...], np.arange(100.0))
