"""Arrays and tiles equal NumPy whatever is read and written; tiles that are not touched are left alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deker_arrays import KEY, QUICK, START, TILED, count_of, file_of, kinds, make, new, read, reopen, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.chunks.settings import Settings
from hyperslab.errors import Conflict, NodeNotFound, ReadOnly, TilesFailed, Unsupported
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.deker import data_file
from hyperslab.formats.collections.deker.file_writer import count_fill
from hyperslab.formats.collections.deker.folder import tile_folder
from hyperslab.formats.collections.deker.locks import lock_file
from hyperslab.formats.collections.deker.store import LAYOUT
from hyperslab.model.schemas import ArraySchema, DimensionSchema, HDF5CompressionOpts, HDF5Options, VArraySchema
from hyperslab.stores.location import Location
from programs import forking

SHAPE = (6, 8, 9)
DIMENSIONS = [DimensionSchema(name, size) for name, size in zip("zyx", SHAPE, strict=True)]
OPTIONS = [
    None,
    HDF5Options((2, 3, 4), HDF5CompressionOpts("gzip", 2)),
    HDF5Options((2, 3, 4), HDF5CompressionOpts("lzf")),
    HDF5Options((1, 2, 3)),
]


def _slices(length: int) -> st.SearchStrategy[slice]:
    bounds = st.integers(0, length)
    return st.builds(
        lambda a, b, step: slice(min(a, b), max(a, b) + 1, step), bounds, bounds, st.sampled_from([1, 1, 2, 3])
    )


_keys = st.tuples(*map(_slices, SHAPE))


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("options", OPTIONS, ids=lambda value: str(value and value.as_dict["compression"]))
@pytest.mark.parametrize("tiled", [False, True])
@settings(max_examples=12)
@given(turns=st.lists(st.tuples(_keys, st.booleans()), min_size=1, max_size=5))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, tiled: bool, options: Any, turns: list[tuple[Any, bool]]
) -> None:
    root = tmp_path_factory.mktemp("store")
    fill = np.int16(-7)
    schema: ArraySchema = (
        VArraySchema(DIMENSIONS, np.int16, [KEY], fill, vgrid=(2, 1, 3))
        if tiled
        else ArraySchema(DIMENSIONS, np.int16, [KEY], fill)
    )
    chunked = options is None or not tiled
    holding = make(root, schema, options=options if chunked else HDF5Options((2, 3, 3), options.compression_opts))
    id = new(holding, {"k": 1})
    truth = np.full(SHAPE, fill)
    for turn, (key, clears) in enumerate(turns):
        part = truth[key]
        cells = np.full(part.shape, fill) if clears else values(part.shape, np.int16, turn)
        truth[key] = cells
        write(holding, id, cells, *key)
        assert np.array_equal(read(holding, id, *key), cells)
    assert np.array_equal(read(reopen(root), id), truth)
    paths = list(Path(holding.folder.path, "array_data").rglob("*.hdf5"))
    if not tiled:
        assert count_of(paths[0]) == np.count_nonzero(truth == fill)
    else:
        assert sum(75 - 3 - count_of(path) for path in paths) == np.count_nonzero(truth != fill)
    assert kinds(holding, deep=True) == []


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "F", "D", "i1", "u8"])
def test_every_kind_of_cell_is_written_and_counted(tmp_path: Path, dtype: str) -> None:
    holding = make(tmp_path, ArraySchema(DIMENSIONS, np.dtype(dtype).type, [KEY]))
    id = new(holding, {"k": 1})
    cells = values((2, 8, 9), dtype)
    write(holding, id, cells, slice(1, 3))
    fill = holding.spec(id).fill_cell()
    assert np.array_equal(read(holding, id, slice(1, 3)), cells)
    assert count_fill(read(holding, id), fill) == count_of(file_of(holding, id)) == 4 * 72


def test_parts_of_a_large_array_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "DEKER_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(data_file, "DEKER_READ_GAP", 64)
    shape = (40, 30, 20)
    schema = ArraySchema([DimensionSchema(name, n) for name, n in zip("zyx", shape, strict=True)], np.float32, [KEY])
    holding = make(tmp_path, schema)
    id = new(holding, {"k": 1})
    truth = values(shape, np.float32)
    write(holding, id, truth)
    read_bytes: list[int] = []
    plain = data_file.pread

    def counting(descriptor: int, size: int, offset: int) -> bytearray:
        read_bytes.append(size)
        return plain(descriptor, size, offset)

    monkeypatch.setattr(data_file, "pread", counting)
    for key in ((slice(3, 9), slice(5, 6), slice(7, 8)), (slice(0, 40, 3), slice(29, 30)), (slice(39, 40),)):
        read_bytes.clear()
        assert np.array_equal(read(holding, id, *key), truth[key])
        assert sum(read_bytes) <= max(2 * truth[key].nbytes, 64 * len(read_bytes))
    write(holding, id, np.nan, slice(3, 9), slice(5, 6))
    truth[3:9, 5:6] = np.nan
    assert np.array_equal(read(holding, id), truth, equal_nan=True)
    assert count_of(file_of(holding, id)) == 120
    write(holding, id, np.nan)
    assert count_of(file_of(holding, id)) == truth.size
    assert file_of(holding, id).stat().st_size < 2500


def test_only_tiles_that_are_touched_are_read_or_made(tmp_path: Path) -> None:
    cube = VArraySchema([DimensionSchema(name, 4) for name in "zyx"], float, [KEY], vgrid=(2, 2, 2))
    holding = make(tmp_path, cube)
    id = new(holding, {"k": 1})
    folder = Path(holding.folder.path, tile_folder(id))
    assert not folder.exists()
    assert np.isnan(read(holding, id, slice(1, 2))).all()
    write(holding, id, 5.0, slice(0, 1))
    assert sorted(path.name for path in folder.iterdir()) == ["0-0-0", "0-0-1", "0-1-0", "0-1-1"]
    stamps = {path: path.stat().st_ino for path in Path(holding.folder.path, "array_data").rglob("*.hdf5")}
    write(holding, id, 6.0, slice(1, 3), slice(0, 2), slice(0, 2))
    new_stamps = {path: path.stat().st_ino for path in Path(holding.folder.path, "array_data").rglob("*.hdf5")}
    assert sum(new_stamps[path] != inode for path, inode in stamps.items()) == 1
    assert len(new_stamps) == 5
    (link,) = (folder / "0-1-1").iterdir()
    file_of(holding, link.stem).write_bytes(b"damaged")
    os.utime(file_of(holding, link.stem), (1e9, 1e9))
    assert (read(holding, id, slice(0, 1), slice(0, 2)) == 5).all()


def test_a_cleared_tile_has_no_file(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, 4)
    write(holding, id, -1, slice(1, 5))
    left = sorted(path.name for path in Path(holding.folder.path, tile_folder(id)).iterdir())
    assert left == ["0-0", "0-1", "2-0", "2-1", "3-0", "3-1"]
    assert sum(1 for _ in Path(holding.folder.path, "array_data").rglob("*.hdf5")) == 6
    truth = np.full((8, 6), 4)
    truth[1:5] = -1
    assert np.array_equal(read(holding, id), truth)
    assert kinds(holding, deep=True) == []


def _fill_rows(root: str, id: str, first: int) -> None:
    holding = reopen(Path(root), settings=Settings(durable=False, lock_timeout=60))
    for turn in range(20):
        write(holding, id, 100 * first + turn, slice(first, 8, 4))


@pytest.mark.parametrize("tiled", [False, True])
def test_writers_of_other_cells_lose_none(tmp_path: Path, tiled: bool) -> None:
    schema = TILED if tiled else ArraySchema(TILED.dimensions, np.int32, TILED.attributes, -1)
    holding = make(tmp_path, schema, settings=Settings(durable=False, lock_timeout=60))
    id = new(holding, {"dt": START})
    processes = [forking().Process(target=_fill_rows, args=(str(tmp_path), id, first)) for first in range(2)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda first: _fill_rows(str(tmp_path), id, first), (2, 3)))
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert np.array_equal(read(holding, id)[:, 0], [100 * (row % 4) + 19 for row in range(8)])
    assert kinds(holding, deep=True) == []


def test_readers_see_the_old_or_the_new_cells(tmp_path: Path) -> None:
    holding = make(tmp_path, options=HDF5Options((2, 2), HDF5CompressionOpts("gzip", 1)))
    id = new(holding, {"k": 1})
    write(holding, id, 0.0)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: [write(holding, id, float(turn)) for turn in range(60)])
        while not done.done():
            assert len(np.unique(read(holding, id))) == 1
        done.result()


def test_a_removed_array_is_not_found(tmp_path: Path) -> None:
    for schema, primary in ((TILED, {"dt": START}), (ArraySchema(DIMENSIONS, float, [KEY]), {"k": 1})):
        holding = make(tmp_path, schema, type(schema).__name__)
        id = new(holding, primary)
        source = holding.chunks(id, holding.spec(id))
        write(holding, id, 1)
        holding.remove(id)
        with pytest.raises(NodeNotFound):
            holding.spec(id)
        with pytest.raises(NodeNotFound):
            source.write((0,) * len(source.grid.counts), np.zeros(source.grid.fixed or (), schema.dtype))
        assert holding.stamp(id) is None
        assert list(holding.records([id])) == []


def test_a_writer_that_holds_a_tile_is_waited_for(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED, settings=Settings(durable=False, lock_timeout=0.2))
    id = new(holding, {"dt": START})
    write(holding, id, 1)
    (link,) = Path(holding.folder.path, tile_folder(id, (2, 1))).iterdir()
    with lock_file(lambda: str(file_of(holding, link.stem)), 1), pytest.raises((Conflict, TilesFailed)):
        write(holding, id, 2)
    write(holding, id, 3)
    assert (read(holding, id) == 3).all()


def test_nothing_is_written_when_opened_for_reading(tmp_path: Path) -> None:
    for schema, primary in ((TILED, {"dt": START}), (ArraySchema(DIMENSIONS, float, [KEY]), {"k": 1})):
        name = type(schema).__name__
        id = new(make(tmp_path, schema, name), primary)
        holding = reopen(tmp_path, name, writable=False)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ReadOnly):
            write(holding, id, 1)
        for change in (holding.clear, holding.drop, holding.relink, partial(holding.remove, id)):
            with pytest.raises(ReadOnly):
                change()
        assert sorted(tmp_path.rglob("*")) == before


def test_elsewhere_than_on_a_file_system_there_is_no_such_layout() -> None:
    where = Location.of("memory://deker-elsewhere")
    assert LAYOUT.names(where) == []
    assert LAYOUT.open(where, "c", QUICK, writable=True) is None
    with pytest.raises(Unsupported, match="hyperslab"):
        LAYOUT.create(where, CollectionDocument("c", TILED, layout="deker"), QUICK)


def test_durable_writes_read_back(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED, settings=Settings(durable=True))
    id = new(holding, {"dt": START})
    write(holding, id, 9)
    holding.update(id, lambda record: record)
    assert (read(holding, id) == 9).all()
