"""Uncompressed chunks in files are read by the bytes of a region: the same cells as NumPy, in slabs of any size."""

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk
from hyperslab.formats.zarr import chunks as zarr_chunks
from hyperslab.testing.selections import random_key, random_shape


@pytest.mark.parametrize("arrays", [7, pytest.param(600, marks=pytest.mark.soak)])
@pytest.mark.parametrize("slab", [1, 64, 1 << 18])
def test_the_cells_are_numpys(tmp_path, monkeypatch, slab, arrays):
    monkeypatch.setattr(zarr_chunks, "SLAB_BYTES", slab)
    rng = np.random.default_rng(slab)
    met = 0
    for number in range(arrays):
        shape = random_shape(rng, max_side=9)
        cells = rng.integers(0, 1 << 30, shape).astype("<i4")
        root = hs.create(tmp_path / f"{number}.zarr", "zarr2", durable=False, cache_bytes=0)
        chunks = tuple(int(n) for n in rng.integers(1, 6, len(shape)))
        array = root.create_array("a", data=cells, chunks=chunks, codec="none", fill_value=0)
        assert isinstance(array._cells.source, zarr_chunks.UncompressedChunks)
        for _ in range(40):
            key = random_key(rng, shape, invalid=0)
            try:
                wanted = cells[key]
            except (IndexError, ValueError):
                continue
            np.testing.assert_array_equal(array[key], wanted, err_msg=str(key))
            met += 1
    assert met > 25 * arrays


def test_a_chunk_of_the_wrong_length_names_its_key(tmp_path):
    root = hs.create(tmp_path / "a.zarr", "zarr2")
    array = root.create_array("a", data=np.arange(1, 9), chunks=4, codec="none")
    (tmp_path / "a.zarr" / "a" / "1").write_bytes(b"short")
    for key in ((), slice(5, 6)):
        with pytest.raises(CorruptChunk, match="a/1"):
            array[key]
    assert array[0] == 1
