"""Sparse arrays into arrays of any format and out of them, against NumPy."""

from __future__ import annotations

from random import Random

import dask.array as da
import numpy as np
import pint
import pytest
import sparse

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Invalid, MemoryLimit, SelectionError, Unsupported
from hyperslab.stores import MemoryStore


def scattered(shape, seed=0, fill=0.0):
    """A few cells among many."""
    rng = np.random.default_rng(seed)
    cells = np.full(shape, fill)
    cells.reshape(-1)[rng.integers(0, cells.size, cells.size // 10)] = rng.normal(size=cells.size // 10)
    return sparse.COO.from_numpy(cells, fill_value=fill)


@pytest.fixture
def root():
    with hs.create(MemoryStore()) as made:
        yield made


KEYS = [(), 3, (slice(2, 17, 3), slice(None)), (slice(None, None, -2), -1), (slice(5, 5),), (..., None, slice(1, 4))]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("fill", [0.0, np.nan, 2.5])
def test_to_sparse_is_what_reading_gives(root, key, fill):
    cells = scattered((20, 13), fill=fill)
    a = root.create_array("a", data=cells.todense(), chunks=(6, 5), fill_value=fill)
    found = a.to_sparse(key)
    assert isinstance(found, sparse.COO)
    assert np.array_equal(found.fill_value, fill, equal_nan=True)
    assert found.todense().tobytes() == np.ascontiguousarray(cells.todense()[key]).tobytes()
    assert found.nnz == (sparse.COO.from_numpy(cells.todense()[key], fill_value=fill).nnz if found.ndim else found.nnz)


def test_chunks_that_were_never_written_list_nothing(root):
    a = root.create_array("a", shape=(1 << 20, 1 << 12), dtype="f8", chunks=(1 << 16, 1 << 12), fill_value=np.nan)
    found = a.to_sparse()
    assert (found.shape, found.nnz) == (a.shape, 0)
    assert np.isnan(found.fill_value)


def test_to_sparse_by_labels(root):
    root.create_array("x", data=np.arange(20.0) / 2, dims="x")
    a = root.create_array("a", data=scattered((20,)).todense(), dims="x")
    assert a.to_sparse(slice(2.0, 5.0)).todense().tolist() == a[4:10].tolist()


def test_to_sparse_says_what_it_does_not_take(root):
    a = root.create_array("a", data=np.arange(20))
    with pytest.raises(Unsupported, match="points"):
        a.to_sparse([1, 2])
    with pytest.raises(SelectionError):
        a.to_sparse(20)
    with pytest.raises(Unsupported, match="sparse array of"):
        root.create_array("words", data=["a", "b"], dtype=str).to_sparse()


def test_a_sparse_array_into_any_selection(root):
    rng = Random(7)
    for number in range(60):
        shape = tuple(rng.randint(1, 12) for _ in range(rng.randint(1, 3)))
        expected = np.random.default_rng(number).normal(size=shape)
        a = root.create_array(f"a{number}", data=expected, chunks=tuple(rng.randint(1, 6) for _ in shape))
        starts = [rng.randint(0, size - 1) for size in shape]
        key = tuple(
            start if rng.random() < 0.2 else slice(start, rng.randint(start, size), rng.choice([1, 1, 1, 2, -1]))
            for start, size in zip(starts, shape, strict=True)
        )
        part = scattered(expected[key].shape or (1,), number, fill=rng.choice([0.0, 1.5]))
        part = part if expected[key].shape else part[0]
        a[key] = part
        expected[key] = part.todense() if isinstance(part, sparse.COO) else part
        assert np.array_equal(a[...], expected)


def test_broadcast(root):
    a = root.create_array("a", shape=(4, 6), chunks=(2, 4), dtype="f8")
    row = scattered((6,))
    a[...] = row
    assert np.array_equal(a[...], np.broadcast_to(row.todense(), (4, 6)))
    with pytest.raises(Invalid, match="does not broadcast"):
        a[...] = scattered((5,))
    a.append(scattered((3, 6), 2))
    assert np.array_equal(a[4:], scattered((3, 6), 2).todense())


def test_a_large_one_is_written_slab_by_slab(tmp_path):
    """The array takes eight times the memory that is allowed."""
    with hs.create(tmp_path / "a.zarr", memory_limit=100 << 20) as root:
        a = root.create_array("a", shape=(100 << 20,), dtype="f8", chunks=(1 << 20,))
        places = np.array([[5, (100 << 20) - 1, 50 << 20]])
        cells = sparse.COO(places, np.array([1.0, 2.0, 3.0]), shape=a.shape)
        a[...] = cells
        assert a.to_sparse().coords.tolist() == cells.coords.tolist()
        assert a[-1] == 2.0
        with pytest.raises(MemoryLimit):
            a[...]
        b = root.create_array("b", shape=a.shape, dtype="f8", chunks=a.shape)
        with pytest.raises(MemoryLimit):
            b[...] = cells


def test_formats_without_sparse_arrays_are_asked_for_dense_ones(root):
    cells = scattered((20, 13))
    with pytest.raises(Unsupported, match=r"format zarr3 has no sparse arrays.*densify=True"):
        root.create_array("a", data=cells)
    with pytest.raises(Unsupported, match="sparse arrays"):
        root.create_array("a", shape=(3,), sparse=True)
    assert list(root) == []
    a = root.create_array("a", data=cells, densify=True, chunks=(4, 4))
    assert a.spec.sparse is None
    assert np.array_equal(a[...], cells.todense())
    blocks = da.from_array(cells, chunks=(10, 13))
    b = root.create_array("b", data=blocks, densify=True)
    assert np.array_equal(b[...], cells.todense())
    b.append(blocks)
    assert np.array_equal(b[20:], cells.todense())
    with pytest.raises(AlreadyExists):
        root.create_array("b", data=cells, densify=True)


def test_a_quantity_keeps_its_units(root):
    speed = pint.Quantity(np.arange(3.0), "m/s")
    a = root.create_array("a", data=speed)
    assert (a.units, a[...].tolist()) == ("meter / second", [0.0, 1.0, 2.0])
    same = root.create_array("b", data=speed, units="meter / second", attrs={"long_name": "speed"})
    assert dict(same.attrs) == {"long_name": "speed", "units": "meter / second"}
    with pytest.raises(Invalid, match=r"units 'km' for a Quantity of 'meter / second'"):
        root.create_array("c", data=speed, attrs={"units": "km"})
    blocks = pint.Quantity(da.arange(6, chunks=2), "K")
    assert root.create_array("d", data=blocks)[...].tolist() == list(range(6))
    lists = pint.Quantity(scattered((20, 3)), "kelvin")
    d = root.create_array("e", data=lists, densify=True)
    assert d.units == "kelvin"
    assert np.array_equal(d[...], lists.magnitude.todense())


def test_a_quantity_saved(tmp_path):
    hs.save(tmp_path / "a.zarr", pint.Quantity(np.arange(3.0), "kelvin"))
    a = hs.open(tmp_path / "a.zarr")["data"]
    assert (a.units, a[1]) == ("kelvin", 1.0)
    hs.save(tmp_path / "b.zarr", scattered((20, 3)), densify=True)
    assert np.array_equal(hs.open(tmp_path / "b.zarr")["data"][...], scattered((20, 3)).todense())
    with pytest.raises(Unsupported, match="densify=True"):
        hs.save(tmp_path / "c.zarr", scattered((20, 3)))
    assert not (tmp_path / "c.zarr").exists()
