"""``SourceTests``: what every ``ChunkSource`` must do, whatever abilities it has on top. Subclass it, give a source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.chunks import execute
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.selection.positional import select


class SourceTests:
    """Subclass and give the fixture ``source``: an empty, writable source of at least two chunks.

    ``dtype`` is the dtype of its cells and ``fill`` what unwritten cells read as.
    """

    dtype: np.dtype[Any] = np.dtype("<f8")
    fill: Any = 0

    @pytest.fixture
    def source(self) -> Any:
        """The source under test."""
        raise NotImplementedError("give a fixture `source`")

    def block(self, source: Any, coords: Coords, seed: int = 0) -> Block:
        """Some cells for a chunk."""
        shape = source.grid.chunk_shape(coords)
        cells: Block = np.random.default_rng(seed).integers(1, 100, shape).astype(self.dtype)
        return cells

    def first(self, source: Any) -> Coords:
        """The coordinates of the first chunk."""
        return next(iter(source.grid))

    def test_a_chunk_never_written_is_none(self, source: Any) -> None:
        """Every chunk of an empty source reads as None."""
        assert all(source.read(coords) is None for coords in source.grid)

    def test_a_written_chunk_reads_back(self, source: Any) -> None:
        """Each chunk holds what was written to it and nothing else."""
        blocks = {coords: self.block(source, coords, seed) for seed, coords in enumerate(source.grid)}
        for coords, block in blocks.items():
            source.write(coords, block)
        for coords, block in blocks.items():
            np.testing.assert_array_equal(source.read(coords), block)

    def test_the_last_write_counts(self, source: Any) -> None:
        """A chunk is replaced as a whole."""
        coords = self.first(source)
        source.write(coords, self.block(source, coords, 1))
        source.write(coords, self.block(source, coords, 2))
        np.testing.assert_array_equal(source.read(coords), self.block(source, coords, 2))

    def test_an_erased_chunk_is_none(self, source: Any) -> None:
        """Erasing forgets one chunk, also twice."""
        coords = self.first(source)
        source.write(coords, self.block(source, coords))
        source.erase(coords)
        source.erase(coords)
        assert source.read(coords) is None

    def test_abilities_agree_with_read(self, source: Any) -> None:
        """``read_into``, ``fetch`` and ``write_many`` give the same cells as ``read`` and ``write``."""
        coords = self.first(source)
        block = self.block(source, coords)
        if hasattr(source, "write_many"):
            source.write_many([(coords, block)], durable=True)
        else:
            source.write(coords, block)
        for into in [source] * hasattr(source, "read_into") + [source.fetch([coords])] * hasattr(source, "fetch"):
            out = np.empty(block.shape, block.dtype)
            assert into.read_into(coords, out)
            np.testing.assert_array_equal(out, block)

    def test_a_stamp_changes_with_the_chunk(self, source: Any) -> None:
        """A stamp is the same while nothing is written, and another after a write."""
        if not hasattr(source, "stamp"):
            return
        coords = self.first(source)
        source.write(coords, self.block(source, coords, 1))
        before = source.stamp(coords)
        assert before is not None
        assert source.stamp(coords) == before
        source.write(coords, self.block(source, coords, 2))
        assert source.stamp(coords) != before

    def test_stored_lists_what_was_written(self, source: Any) -> None:
        """``stored`` gives the coordinates of written chunks."""
        if not hasattr(source, "stored"):
            return
        wanted = list(source.grid)[::2]
        for coords in wanted:
            source.write(coords, self.block(source, coords))
        assert sorted(source.stored()) == sorted(wanted)

    def test_the_engine_reads_what_it_writes(self, source: Any) -> None:
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
