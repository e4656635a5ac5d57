"""The shipped strategies give what they say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.testing import datasets
from hyperslab.testing.selections import random_grid, random_key, random_shape


@given(st.data())
def test_grids_cover_their_shape(data: st.DataObject) -> None:
    shape = data.draw(datasets.shapes())
    grid = Grid.of(shape, data.draw(datasets.chunk_grids(shape)))
    assert grid.shape == shape


@given(st.data())
def test_values_have_their_type_and_shape(data: st.DataObject) -> None:
    dtype = data.draw(datasets.dtypes())
    shape = data.draw(datasets.shapes(max_dims=3, max_side=4))
    values = data.draw(datasets.arrays(dtype, shape))
    assert values.shape == shape + (dtype.shape if dtype.subdtype else ())
    assert values.dtype == dtype


def test_the_same_seed_gives_the_same_keys() -> None:
    def run(seed: int) -> str:
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(50):
            shape = random_shape(rng)
            found.append(repr((shape, random_grid(rng, shape), random_key(rng, shape, invalid=0))))
        return "\n".join(found)

    assert run(4) == run(4)
    assert run(4) != run(5)


def test_random_shapes_have_up_to_five_dimensions_and_empty_axes() -> None:
    rng = np.random.default_rng(0)
    shapes = [random_shape(rng) for _ in range(500)]
    assert {len(shape) for shape in shapes} == set(range(6))
    assert any(0 in shape for shape in shapes)


def test_random_grids_cover_their_shape() -> None:
    rng = np.random.default_rng(0)
    varying = 0
    for _ in range(300):
        shape = random_shape(rng)
        cuts = random_grid(rng, shape)
        assert Grid.of(shape, cuts).shape == shape
        varying += any(isinstance(cut, tuple) for cut in cuts)
    assert varying > 50
