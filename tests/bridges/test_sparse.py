"""Arrays of the sparse package as plain lists of cells and back: the same cells to the bit, and never a dense array."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
import sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.array.lazy_cells import is_any_sparse, is_sparse, is_sparse_in_blocks
from hyperslab.bridges.sparse import (
    densified,
    fill_of,
    from_coo,
    meta,
    to_coo,
)
from hyperslab.model.coo import Coo

DTYPES = ["b1", "i1", "i2", "u4", "u8", "f2", "f4", "f8", "f16", "c8", "c16", "M8[ns]", "m8[s]", "U3", "S3", "V3", "i8"]


@st.composite
def cells(draw):
    """Cells of any kind, many of which are the fill value."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    raw = draw(st.randoms(use_true_random=False))
    values = np.array([raw.randrange(3) for _ in range(int(np.prod(shape)) + 1)], "u1")
    if dtype.kind == "V":
        made = np.array([bytes([value] * 3) for value in values], dtype)
    else:
        made = values.astype(dtype)
        if dtype.kind in "fc":
            made[values == 2] = np.nan
    return made[1:].reshape(shape), made[0]


def bits(values):
    """The bytes that mean something: a number of 80 bits takes 16 bytes."""
    raw = np.ascontiguousarray(values).reshape(-1).view("u1").reshape(-1, values.dtype.itemsize)
    return raw[:, :10].tobytes() if values.dtype == np.longdouble else raw.tobytes()


@given(cells())
def test_there_and_back(given_cells):
    dense, fill = given_cells
    coo = Coo.of_dense(dense, fill)
    made = from_coo(coo)
    assert isinstance(made, sparse.COO)
    assert (made.shape, made.dtype, made.nnz) == (dense.shape, dense.dtype, coo.canonical().nnz)
    assert bits(np.asarray(made.todense())) == bits(dense)
    again = to_coo(made)
    out = np.empty(again.shape, again.dtype)
    again.put_into(out)
    assert bits(out) == bits(dense)
    assert bits(again.fill) == bits(coo.fill)


def test_every_layout_is_known():
    matrix = np.eye(3)
    for kind in (sparse.COO(matrix), sparse.GCXS(matrix), sparse.DOK.from_numpy(matrix)):
        assert is_sparse(kind)
        assert from_coo(to_coo(kind)).todense().tolist() == matrix.tolist()
    assert not is_sparse(matrix)
    assert not is_sparse(None)


def test_large_shapes_cost_nothing():
    for shape in [(1 << 32,), (1 << 40, 1 << 40, 1 << 40)]:
        places = np.array([[size - 1, 3] for size in shape])
        made = from_coo(Coo(shape, places, np.array([1.5, 2.5]), np.zeros(())))
        assert made.shape == shape
        assert made.coords.tolist() == [[3, size - 1] for size in shape]
        assert made.data.tolist() == [2.5, 1.5]
        assert to_coo(made).nnz == 2


def test_a_lone_cell():
    assert from_coo(Coo((), np.empty((0, 0), int), np.empty(0), np.array(4.5))).todense() == 4.5
    assert from_coo(Coo((), np.empty((0, 1), int), np.array([3.0]), np.array(4.5))).todense() == 3.0


@pytest.mark.parametrize("fill", [0.0, np.nan, 7.5])
def test_dask_of_coo(fill):
    dense = np.full((4, 6), fill)
    dense[1, 2] = 1.25
    blocks = da.from_array(sparse.COO.from_numpy(dense, fill_value=fill), chunks=(2, 3))
    assert is_sparse_in_blocks(blocks)
    assert is_any_sparse(blocks)
    assert not is_sparse(blocks)
    assert np.array_equal(fill_of(blocks), fill, equal_nan=True)
    plain = densified(blocks)
    assert not is_any_sparse(plain)
    assert np.array_equal(plain.compute(), dense, equal_nan=True)
    empty = meta(2, np.dtype("f8"), fill)
    assert (empty.shape, empty.dtype) == ((0, 0), np.dtype("f8"))
    assert np.array_equal(empty.fill_value, fill, equal_nan=True)


def test_sparse_is_not_imported_to_find_out():
    code = """
import sys
from hyperslab.array.lazy_cells import is_any_sparse
from hyperslab.bridges.pint import is_quantity
assert not is_any_sparse(object()) and not is_quantity(1.0)
assert not {"sparse", "pint", "dask"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
