"""Region references of HDF5 and ours: h5py alone reads the same cells in the same order, in both directions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import hyperslab as hs
from hyperslab.array.region_reading import read_region
from hyperslab.bridges.hdmf.hdf5_regions import from_h5py, to_h5py
from hyperslab.errors import BrokenLink, RegionOutOfBounds
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection.regions import blocks_region, region_of_key
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.datasets import shapes

Array = np.ndarray[Any, Any]
SHAPE = (5, 8)
VALUES = np.arange(40).reshape(SHAPE)
MASK = VALUES % 7 == 1


def in_memory(values: Array) -> Any:
    file = h5py.File.in_memory()
    return file.create_dataset("g/d", data=values, chunks=True if values.shape else None)


@pytest.fixture
def dataset() -> Iterator[Any]:
    found = in_memory(VALUES)
    yield found
    found.file.close()


def ours(region: Region, values: Array) -> Array:
    root = hs.create(MemoryStore(), format="zarr3")
    array = root.create_array("a", shape=values.shape, dtype=values.dtype)
    array[...] = values
    return read_region(array.lazy[()].cells, region)


@pytest.mark.parametrize(
    ("key", "region"),
    [
        (np.s_[...], Everything()),
        (np.s_[0:5, 0:8], Everything(SHAPE)),
        (np.s_[1:4, 0:8:2], Product((Steps(1, 4), Steps(0, 8, 2)), SHAPE)),
        (np.s_[:, [1, 5]], Product((Steps(0, 5), Steps(1, 8, 4)), SHAPE)),
        (np.s_[:, [1, 5, 6]], Product((Steps(0, 5), (1, 5, 6)), SHAPE)),
        (np.s_[2], Product((Steps(2, 3), Steps(0, 8)), SHAPE)),
        (np.s_[3:3, :], Nothing()),
        (MASK, Points(tuple(map(tuple, np.argwhere(MASK).tolist())), SHAPE)),
    ],
)
def test_h5pys_own_references(dataset: Any, key: Any, region: Region) -> None:
    reference = dataset.regionref[key]
    found = from_h5py(reference, dataset.file)
    assert found is not None
    assert found.path == "/g/d"
    assert found.region == region
    np.testing.assert_array_equal(ours(found.region, VALUES).reshape(-1), dataset[reference].reshape(-1))
    again = from_h5py(to_h5py(found.region, dataset), dataset)
    assert again == found


def test_unions_that_h5py_makes(dataset: Any) -> None:
    space = h5py.h5s.create_simple(SHAPE)
    space.select_hyperslab((0, 0), (2, 3))
    space.select_hyperslab((4, 0), (1, 8), op=h5py.h5s.SELECT_OR)
    reference = h5py.h5r.create(dataset.id, b".", h5py.h5r.DATASET_REGION, space)
    found = from_h5py(reference, dataset)
    assert found is not None
    assert found.region == Blocks((((0, 0), (2, 3)), ((4, 0), (5, 8))), SHAPE)
    np.testing.assert_array_equal(ours(found.region, VALUES), dataset[reference])


@st.composite
def regions(draw: st.DrawFn, shape: Shape) -> Region:
    """Of each kind, as keys, masks, lists of points and boxes make them."""
    kind = draw(st.sampled_from(["lists", "slices", "mask", "points", "boxes"]))
    if kind == "mask":
        return region_of_key(draw(npst.arrays(bool, shape)), shape)
    if kind == "points":
        cells = st.tuples(*(st.integers(0, side - 1) for side in shape))
        return Points(tuple(draw(st.lists(cells, min_size=1, max_size=8))), shape)
    if kind == "boxes":
        boxes = []
        for _ in range(draw(st.integers(0, 5))):
            sides = [sorted((draw(st.integers(0, side)), draw(st.integers(0, side)))) for side in shape]
            boxes.append(tuple(zip(*sides, strict=True)))
        return draw(st.sampled_from([Blocks(tuple(boxes), shape), blocks_region(boxes, shape)]))
    if kind == "slices":
        return region_of_key(
            tuple(slice(draw(st.integers(0, n)), draw(st.integers(0, n)), draw(st.integers(1, 3))) for n in shape),
            shape,
        )
    lists = [sorted(draw(st.sets(st.integers(0, side - 1), min_size=1))) for side in shape]
    return region_of_key(np.ix_(*lists), shape)


@given(st.data())
def test_every_region_goes_to_h5py_and_back(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    region = data.draw(regions(shape))
    values = np.arange(np.prod(shape)).reshape(shape)
    dataset = in_memory(values)
    with dataset.file:
        reference = to_h5py(region, dataset)
        expected = ours(region, values).reshape(-1)
        assert dataset[reference].reshape(-1).tolist() == expected.tolist()
        found = from_h5py(reference, dataset)
        assert found is not None
        assert ours(found.region, values).reshape(-1).tolist() == expected.tolist()
        again = from_h5py(to_h5py(found.region, dataset), dataset)
        assert again == found
        canonical = isinstance(region, Product | Points) or region == blocks_region(
            getattr(region, "blocks", ()), shape
        )
        if canonical and expected.size:
            assert found.region == region


def test_a_selection_of_all_grows_with_its_dataset_and_a_region_of_a_shape_does_not() -> None:
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("d", data=VALUES, maxshape=(None, None))
        all_of_it, as_it_was = to_h5py(Everything(), dataset), to_h5py(Everything(SHAPE), dataset)
        dataset.resize((7, 8))
        found = from_h5py(all_of_it, file), from_h5py(as_it_was, file)
        assert [one.region for one in found if one] == [Everything(), Product((Steps(0, 5), Steps(0, 8)), (7, 8))]
        assert dataset[all_of_it].shape == (7, 8)
        assert dataset[as_it_was].shape == SHAPE


def test_scalars() -> None:
    dataset = in_memory(np.array(7))
    with dataset.file:
        for everything in (Everything(), Everything(()), Everything((1,)), Product((Steps(0, 1),), (1,))):
            reference = to_h5py(everything, dataset)
            found = from_h5py(reference, dataset)
            assert found is not None
            assert found.region == Everything()
        nothing = from_h5py(to_h5py(Nothing(), dataset), dataset)
        assert nothing is not None
        assert nothing.region == Nothing()


def test_references_to_nothing_and_to_what_is_gone(dataset: Any) -> None:
    file = dataset.file
    refs = file.create_dataset("refs", (2,), h5py.regionref_dtype)
    assert from_h5py(refs[0], file) is None
    refs[1] = dataset.regionref[1:2]
    del file["g/d"]
    del dataset
    with pytest.raises(BrokenLink):
        from_h5py(refs[1], file)


def test_a_dataset_that_is_too_small(dataset: Any) -> None:
    with pytest.raises(RegionOutOfBounds):
        to_h5py(Product((Steps(0, 6), Steps(0, 8)), (6, 8)), dataset)
    with pytest.raises(RegionOutOfBounds):
        to_h5py(Everything((8,)), dataset)


def test_long_lists(dataset: Any) -> None:
    """Unions by halves, each run once."""
    long = dataset.file.create_dataset("long", data=np.arange(6_000))
    places = tuple(np.cumsum(np.arange(1000) % 5 + 2).tolist())
    reference = to_h5py(Product((places,), (6_000,)), long)
    assert long[reference].tolist() == list(places)
    found = from_h5py(reference, long)
    assert found is not None
    assert found.region == Product((places,), (6_000,))


def test_the_bytes_in_the_file(tmp_path: Path) -> None:
    """Type 2, version 1, length 0x48, rank 2, 4 blocks with inclusive ends."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("d", data=VALUES)
        refs = file.create_dataset("refs", (1,), h5py.regionref_dtype)
        refs[0] = to_h5py(region_of_key(np.s_[1:4, 0:8:2], SHAPE), dataset)
    blocks = [number for column in (0, 2, 4, 6) for number in (1, column, 3, column)]
    assert struct.pack("<6I16I", 2, 1, 0, 0x48, 2, 4, *blocks) in path.read_bytes()
    with h5py.File(path) as file:
        found = from_h5py(file["refs"][0], file)
        assert found is not None
        assert found.region == region_of_key(np.s_[1:4, 0:8:2], SHAPE)
