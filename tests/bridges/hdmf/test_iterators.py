"""Data that arrive piece by piece: of known and unknown length, in turns, with progress; how datasets are stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.data_utils import DataChunk, DataChunkIterator, GenericDataChunkIterator
from nwb_files import small_file
from pynwb import H5DataIO, TimeSeries

import hyperslab as hs
from hyperslab.hdmf import HyperslabDataIO, HyperslabIO


def write(path: Path, data: Any, *, progress: Any = None, **options: Any) -> None:
    nwb = small_file()
    nwb.add_acquisition(TimeSeries(name="new", data=data, rate=1.0, unit="m"))
    with HyperslabIO(path, "w", progress=progress) as io:
        io.write(nwb, **options)


def stored(path: Path) -> np.ndarray[Any, Any]:
    with hs.open_group(path) as root:
        return np.asarray(root["acquisition/new/data"])


class InBoxes(GenericDataChunkIterator):
    """An array in boxes."""

    def __init__(self, array: np.ndarray[Any, Any], **options: Any) -> None:
        self.array = array
        super().__init__(**options)

    def _get_data(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        return self.array[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return self.array.shape

    def _get_dtype(self) -> np.dtype[Any]:
        return self.array.dtype


class Odd(DataChunkIterator):
    """Rows that come in another order, with gaps."""

    def __init__(self, pieces: list[tuple[Any, Any]], maxshape: tuple[int | None, ...]) -> None:
        super().__init__(data=iter(()), maxshape=maxshape, dtype=np.dtype("i4"))
        self.pieces = iter(pieces)

    def __next__(self) -> DataChunk:
        selection, data = next(self.pieces)
        return DataChunk(np.asarray(data, "i4"), selection)


@pytest.mark.parametrize("buffer_size", [1, 7, 100])
def test_of_unknown_length(tmp_path: Path, buffer_size: int) -> None:
    rows = np.arange(300, dtype="i2").reshape(100, 3)
    data = DataChunkIterator(data=(row for row in rows), buffer_size=buffer_size)
    assert data.maxshape == (None, 3)
    write(tmp_path / "a.nwb.zarr", data)
    assert np.array_equal(stored(tmp_path / "a.nwb.zarr"), rows)
    assert stored(tmp_path / "a.nwb.zarr").dtype == rows.dtype


def test_boxes(tmp_path: Path) -> None:
    array = np.arange(60 * 50).reshape(60, 50)
    write(tmp_path / "a.nwb.zarr", InBoxes(array, buffer_shape=(20, 20), chunk_shape=(10, 20)))
    assert np.array_equal(stored(tmp_path / "a.nwb.zarr"), array)
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        assert root["acquisition/new/data"].chunks == (10, 20)


def test_pieces_in_any_order(tmp_path: Path) -> None:
    pieces = [
        ((slice(4, 6), slice(0, 2)), np.full((2, 2), 1)),
        ((slice(0, 2), slice(0, 2)), np.full((2, 2), 2)),
        ((7, slice(0, 3)), np.full(3, 3)),
    ]
    write(tmp_path / "a.nwb.zarr", Odd(pieces, (None, None)))
    wanted = np.zeros((8, 3), "i4")
    wanted[4:6, :2], wanted[:2, :2], wanted[7] = 1, 2, 3
    assert np.array_equal(stored(tmp_path / "a.nwb.zarr"), wanted)


def test_in_turns_from_one_feed(tmp_path: Path) -> None:
    taken: list[str] = []

    def feed(name: str) -> Iterator[np.ndarray[Any, Any]]:
        for number in range(3):
            taken.append(name)
            yield np.full(2, number)

    nwb = small_file()
    for name in ("a", "b"):
        data = DataChunkIterator(data=feed(name), buffer_size=1)
        nwb.add_acquisition(TimeSeries(name=name, data=data, rate=1.0, unit="m"))
    with HyperslabIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(nwb, exhaust_dci=False)
    assert sorted(taken) == ["a", "a", "a", "b", "b", "b"]
    assert taken != sorted(taken)
    with HyperslabIO(tmp_path / "a.nwb.zarr") as io:
        assert io.read().acquisition["b"].data[:].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_an_iterator_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def feed() -> Iterator[int]:
        yield 1
        raise RuntimeError("the camera is gone")

    with pytest.raises(RuntimeError, match="camera"):
        write(tmp_path / "a.nwb.zarr", DataChunkIterator(data=feed(), buffer_size=1))
    assert list(tmp_path.iterdir()) == []


def test_progress(tmp_path: Path) -> None:
    seen: list[hs.Progress] = []
    rows = np.arange(4000, dtype="f8").reshape(1000, 4)
    data = DataChunkIterator(data=rows, buffer_size=100)
    write(tmp_path / "a.nwb.zarr", data, progress=seen.append)
    last = seen[-1]
    assert last.total_bytes <= last.done_bytes
    assert rows.nbytes <= last.done_bytes
    assert last.done_chunks <= last.total_chunks


def test_chunks_and_codec_of_one_dataset(tmp_path: Path) -> None:
    array = np.arange(1000, dtype="i4").reshape(100, 10)
    write(tmp_path / "a.nwb.zarr", HyperslabDataIO(array, chunks=(20, 5), codec="zstd:7"))
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        made = root["acquisition/new/data"]
        assert made.chunks == (20, 5)
        assert made.codec[-1].name == "zstd"
        assert np.array_equal(made, array)


def test_shards_of_one_dataset(tmp_path: Path) -> None:
    nwb = small_file()
    wrapped = HyperslabDataIO(np.arange(100), chunks=(10,), shards=(50,))
    nwb.add_acquisition(TimeSeries(name="new", data=wrapped, rate=1.0, unit="m"))
    with HyperslabIO(tmp_path / "a.nwb.zarr", "w", profile="v3") as io:
        io.write(nwb)
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        assert root["acquisition/new/data"].shards == (50,)
        assert root["acquisition/new/data"].chunks == (10,)


def test_one_shard_of_one_dataset(tmp_path: Path) -> None:
    nwb = small_file()
    wrapped = HyperslabDataIO(np.arange(100), chunks=(10,), shards=(100,))
    nwb.add_acquisition(TimeSeries(name="new", data=wrapped, rate=1.0, unit="m"))
    with HyperslabIO(tmp_path / "a.nwb.zarr", "w", profile="v3") as io:
        io.write(nwb)
    assert np.array_equal(stored(tmp_path / "a.nwb.zarr"), np.arange(100))


@pytest.mark.parametrize("name", ["recorded.zarr", "recorded.hdmf.zarr"])
def test_arrays_of_other_datasets(tmp_path: Path, name: str) -> None:
    """Those of HDMF are linked unless a copy is asked for; to those of other formats no link leads."""
    with hs.create(tmp_path / name) as root:
        root.create_array("raw", data=np.arange(60).reshape(20, 3))
    with hs.open(tmp_path / name) as root:
        write(tmp_path / "a.nwb.zarr", HyperslabDataIO(root["raw"]))
        write(tmp_path / "b.nwb.zarr", HyperslabDataIO(root["raw"], link_data=False, codec="zstd:3", chunks=(5, 3)))
    assert np.array_equal(stored(tmp_path / "a.nwb.zarr"), np.arange(60).reshape(20, 3))
    assert np.array_equal(stored(tmp_path / "b.nwb.zarr"), np.arange(60).reshape(20, 3))
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        assert dict(root["acquisition/new"].links()).keys() == ({"data"} if "hdmf" in name else set())
    with hs.open_group(tmp_path / "b.nwb.zarr") as root:
        assert root["acquisition/new/data"].chunks == (5, 3)
        assert not dict(root["acquisition/new"].links())


def test_wrapped_iterator_with_chunks(tmp_path: Path) -> None:
    data = DataChunkIterator(data=(np.full(4, row) for row in range(30)), buffer_size=4)
    write(tmp_path / "a.nwb.zarr", HyperslabDataIO(data, chunks=(8, 2)))
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        assert root["acquisition/new/data"].chunks == (8, 2)
        assert root["acquisition/new/data"][:, 1].tolist() == list(range(30))


def test_the_wrapper_of_hdf5_gives_its_chunks(tmp_path: Path) -> None:
    write(tmp_path / "a.nwb.zarr", H5DataIO(np.arange(100), chunks=(10,), compression="gzip", maxshape=(None,)))
    with hs.open_group(tmp_path / "a.nwb.zarr") as root:
        assert root["acquisition/new/data"].chunks == (10,)
        assert root["acquisition/new/data"][42] == 42


def test_filled_after_the_file_is_written(tmp_path: Path) -> None:
    nwb = small_file()
    wrapped = HyperslabDataIO(shape=(10, 2), dtype=np.dtype("f4"), fill_value=-1.0)
    nwb.add_acquisition(TimeSeries(name="new", data=wrapped, rate=1.0, unit="m"))
    with HyperslabIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(nwb)
        wrapped.dataset[:5] = 7
    assert stored(tmp_path / "a.nwb.zarr").tolist() == [[7.0, 7.0]] * 5 + [[-1.0, -1.0]] * 5
