"""``SourceTests``: what every ``ChunkSource`` must do, whatever its traits say. Subclass it, give a source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.chunks import execute
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Conflict
from hyperslab.model.dtypes import NumpyDType
from hyperslab.selection.positional import select


class SourceTests:
    """Subclass and give the fixture ``source``: an empty, writable source of at least two chunks.

    ``dtype`` is the dtype of its cells and ``fill`` what unwritten cells read as.
    """

    dtype: NumpyDType = np.dtype("<f8")
    fill: Any = 0

    @pytest.fixture
    def source(self) -> ChunkSource:
        """Return the source under test."""
        raise NotImplementedError("give a fixture `source`")

    def block(self, source: ChunkSource, coords: Coords, seed: int = 0) -> Block:
        """Return some cells for a chunk."""
        shape = source.grid.chunk_shape(coords)
        cells: Block = np.random.default_rng(seed).integers(1, 100, shape).astype(self.dtype)
        return cells

    def first(self, source: ChunkSource) -> Coords:
        """Return the coordinates of the first chunk."""
        return next(iter(source.grid))

    def is_blank(self, block: Block | None) -> bool:
        """Return True if a chunk holds nothing: None, or the fill value in every cell."""
        return block is None or bool((block == self.fill).all())

    def test_a_chunk_never_written_is_blank(self, source: ChunkSource) -> None:
        """Every chunk of an empty source, of which there are several."""
        assert len(blank := [self.is_blank(source.read(coords)) for coords in source.grid]) > 1
        assert all(blank)

    def test_a_written_chunk_reads_back(self, source: ChunkSource) -> None:
        """Each chunk holds what was written to it and nothing else."""
        blocks = {coords: self.block(source, coords, seed) for seed, coords in enumerate(source.grid)}
        for coords, block in blocks.items():
            source.write(coords, block)
        for coords, block in blocks.items():
            np.testing.assert_array_equal(source.read(coords), block)

    def test_the_last_write_counts(self, source: ChunkSource) -> None:
        """A chunk is replaced as a whole."""
        coords = self.first(source)
        source.write(coords, self.block(source, coords, 1))
        source.write(coords, self.block(source, coords, 2))
        np.testing.assert_array_equal(source.read(coords), self.block(source, coords, 2))

    def test_an_erased_chunk_is_blank(self, source: ChunkSource) -> None:
        """Erasing forgets one chunk, also twice, and no other."""
        coords, other = list(source.grid)[:2]
        source.write(coords, self.block(source, coords))
        source.write(other, self.block(source, other, 1))
        source.erase(coords)
        source.erase(coords)
        assert self.is_blank(source.read(coords))
        np.testing.assert_array_equal(source.read(other), self.block(source, other, 1))

    def test_every_way_agrees_with_read(self, source: ChunkSource) -> None:
        """``read_into``, ``read_part``, ``fetch`` and ``write_batch`` give the cells of ``read`` and ``write``."""
        coords = self.first(source)
        block = self.block(source, coords)
        source.write_batch([(coords, block)], durable=True)
        np.testing.assert_array_equal(source.read(coords), block)
        within = tuple(slice(0, -(-size // 2)) for size in block.shape)
        for way in (source, source.fetch([coords]), source.fetch_parts([(coords, None)])):
            out = np.empty(block.shape, block.dtype)
            assert way.read_into(coords, out)
            np.testing.assert_array_equal(out, block)
        for way in (source, source.fetch([coords]), source.fetch_parts([(coords, within)])):
            part = np.empty(block[within].shape, block.dtype)
            assert way.read_part(coords, within, part)
            np.testing.assert_array_equal(part, block[within])

    def test_a_stamp_changes_with_the_chunk(self, source: ChunkSource) -> None:
        """A stamp is the same while nothing is written, and another after a write."""
        coords = self.first(source)
        source.write(coords, self.block(source, coords, 1))
        _need(source, "stamped")
        before = source.stamp(coords)
        if before is None:
            pytest.skip(f"{type(source).__name__} is not to be remembered")
        assert source.stamp(coords) == before
        source.write(coords, self.block(source, coords, 2))
        assert source.stamp(coords) != before

    def test_stored_lists_what_was_written(self, source: ChunkSource) -> None:
        """``stored_coords`` gives the coordinates of written chunks; others, of the same file, are blank."""
        _need(source, "lists_chunks")
        wanted = list(source.grid)[::2]
        for coords in wanted:
            source.write(coords, self.block(source, coords))
        found = list(source.stored_coords())
        assert len(found) == len(set(found))
        assert set(found) >= set(wanted)
        assert all(self.is_blank(source.read(coords)) for coords in set(found) - set(wanted))

    def test_of_two_swaps_of_one_version_one_is_a_conflict(self, source: ChunkSource) -> None:
        """Replace the version that was read, unless another was faster."""
        _need(source, "swaps")
        coords = self.first(source)
        source.write(coords, self.block(source, coords, 1))
        (block,), stamp = source.read_stamped([coords])
        np.testing.assert_array_equal(block, self.block(source, coords, 1))
        source.swap([(coords, self.block(source, coords, 2))], stamp)
        with pytest.raises(Conflict):
            source.swap([(coords, self.block(source, coords, 3))], stamp)
        np.testing.assert_array_equal(source.read(coords), self.block(source, coords, 2))

    def test_the_engine_reads_what_it_writes(self, source: ChunkSource) -> None:
        """Through plan and executor: a strided write over an empty array equals NumPy's."""
        shape = source.grid.shape
        expected = np.full(shape, self.fill, self.dtype)
        fill = np.asarray(self.fill, self.dtype)
        key = tuple(slice(None, None, 2) for _ in shape)
        cells = np.random.default_rng(7).integers(1, 100, expected[key].shape).astype(self.dtype)
        expected[key] = cells
        settings = Settings(workers=2)
        execute.write(source, make_plan(select(key, shape).region, source.grid), cells, fill, settings)
        out = np.empty(shape, self.dtype)
        execute.read(source, make_plan(select((), shape).region, source.grid), out, fill, settings)
        np.testing.assert_array_equal(out, expected)


def _need(source: ChunkSource, trait: str) -> None:
    """Skip the test unless the source has the trait."""
    if not getattr(source.traits, trait):
        pytest.skip(f"{type(source).__name__} does not claim {trait}")
