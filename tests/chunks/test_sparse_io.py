"""Sparse cells by plans, against NumPy: any grid, any slices, chunks that are lists, dense, or were never written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource, SourceTraits
from hyperslab.chunks.sparse_io import read, read_dense, slabs, takes, write
from hyperslab.errors import MemoryLimit, Unsupported
from hyperslab.model.coo import Coo
from hyperslab.selection.positional import outer, select


class Kept(ChunkSource):
    """Chunks in memory: lists of cells, or blocks."""

    traits = SourceTraits(lists_chunks=True)

    def __init__(self, grid):
        self.grid = grid
        self.chunks = {}

    def read(self, coords):
        kept = self.chunks.get(coords)
        if not isinstance(kept, Coo):
            return kept
        block = np.zeros(self.grid.chunk_shape(coords), kept.dtype)
        block[tuple(map(slice, kept.shape))] = kept.dense()
        return block

    def write(self, coords, block):
        self.chunks[coords] = block

    def erase(self, coords):
        self.chunks.pop(coords, None)

    def stored_coords(self):
        return iter(self.chunks)


class Listing(Kept):
    """One that takes lists."""

    traits = SourceTraits(lists_chunks=True, reads_sparse=True, writes_sparse=True)

    def read_coo(self, coords):
        kept = self.chunks.get(coords)
        return Coo.of_dense(kept, np.zeros((), kept.dtype)) if isinstance(kept, np.ndarray) else kept

    def write_coo(self, pairs, *, durable):
        self.chunks.update(pairs)


@st.composite
def cases(draw):
    """An array, its fill value, a grid, and slices."""
    random = draw(st.randoms(use_true_random=False))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    cuts = tuple(random.randint(1, 5) for _ in shape)
    fill = np.array(random.choice([0.0, -0.0, np.nan, 3.0]))
    values = np.array([random.choice([fill[()], fill[()], 1.0, 2.0, 0.0]) for _ in range(int(np.prod(shape)))])
    key = tuple(_key(random, size) for size in shape[: random.randint(0, len(shape))])
    return values.reshape(shape), fill, Grid.of(shape, cuts), key, random


def _key(random, size):
    if size and random.random() < 0.3:
        return random.randrange(-size, size)
    ends = [random.choice([None, random.randint(-size - 1, size + 1)]) for _ in range(2)]
    return slice(*ends, random.choice([None, 1, 2, 3, -1, -2]))


@given(cases(), st.booleans())
def test_what_is_written_is_read(case, lists):
    values, fill, grid, key, random = case
    source = (Listing if lists else Kept)(grid)
    box = tuple(slice(0, size) for size in values.shape)
    if lists:
        assert takes(source, box)
        write(source, box, Coo.of_dense(values, fill), fill)
        for coords in list(source.chunks):  # some are stored dense, some with another fill value
            extent = values[grid.extent(coords)]
            choice = random.randrange(4)
            if choice == 0:
                source.chunks[coords] = np.zeros(grid.chunk_shape(coords))
                source.chunks[coords][tuple(map(slice, extent.shape))] = extent
            elif choice == 1:
                source.chunks[coords] = Coo.of_dense(extent, 1.0)
            elif choice == 2 and (extent.tobytes() == np.full_like(extent, fill).tobytes()):
                del source.chunks[coords]
    else:
        for coords in grid:
            block = np.full(grid.chunk_shape(coords), 77.0)
            extent = values[grid.extent(coords)]
            block[tuple(map(slice, extent.shape))] = extent
            source.chunks[coords] = block
    selection = select(key, values.shape)
    found = read(source, make_plan(selection.region, grid), fill).reshaped(selection.shape)
    assert found.dense().tobytes() == np.ascontiguousarray(values[key]).tobytes()


@given(cases(), st.integers(1, 40))
def test_slabs_cover_a_box_once(case, most):
    values, _, grid, _, random = case
    box = tuple(slice(low, random.randint(low, size)) for size in values.shape for low in [random.randint(0, size)])
    seen = np.zeros(values.shape, int)
    for slab in slabs(grid, box, most):
        seen[slab] += 1
        alone = all(axis.find(cut.start) == axis.find(cut.stop - 1) for axis, cut in zip(grid.axes, slab, strict=True))
        assert alone or seen[slab].size <= most * max(grid.fixed or (1,))
    assert (seen[box] == 1).all()
    assert seen.sum() == seen[box].size


def test_a_large_array_of_few_cells():
    grid = Grid.of((1 << 32,), (1 << 20,))
    source, fill = Listing(grid), np.zeros(())
    cells = Coo((1 << 32,), np.array([[5, (1 << 32) - 1]]), np.array([1.0, 2.0]), fill)
    write(source, (slice(0, 1 << 32),), cells, fill)
    assert sorted(source.chunks) == [(0,), (4095,)]
    found = read(source, make_plan(select((), grid.shape).region, grid), fill)
    assert found.coords.tolist() == [[5, (1 << 32) - 1]]
    write(source, (slice(0, 1 << 32),), Coo((1 << 32,), np.empty((1, 0), int), np.empty(0), fill), fill)
    assert read(source, make_plan(select((), grid.shape).region, grid), fill).nnz == 0


def test_a_few_cells_of_a_large_chunk():
    grid = Grid.of((1 << 32,), (1 << 32,))
    source, fill = Listing(grid), np.zeros(())
    write(source, (slice(0, 1 << 32),), Coo((1 << 32,), np.array([[7]]), np.array([1.5]), fill), fill)
    out = np.empty(4)
    read_dense(source, make_plan(select(slice(5, 9), grid.shape).region, grid), out, fill)
    assert out.tolist() == [0.0, 0.0, 1.5, 0.0]


def test_another_fill_value_in_too_large_a_chunk():
    source, fill = Kept(Grid.of((1000, 1000), (1000, 1000))), np.zeros(())
    source.chunks[0, 0] = np.zeros((1000, 1000))
    with pytest.raises(MemoryLimit):
        read(source, make_plan(select((), (1000, 1000)).region, source.grid), fill, Settings(memory_limit=1000))


def test_points_are_for_the_array_in_memory():
    source = Listing(Grid.of((10,), (5,)))
    with pytest.raises(Unsupported, match="points"):
        read(source, make_plan(outer(([1, 3],), (10,)).region, source.grid), np.zeros(()))
