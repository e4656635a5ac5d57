"""Many selections through the whole engine (in the soak a hundred thousand): what NumPy gives, or its exception.

Each example is one array (fixed, varying or sharded grid) in a memory store, with a hundred keys: read, written, and
composed as views. The shares of what was met are printed and asserted at the end.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.chunks.plan import make_plan
from hyperslab.selection.positional import select
from hyperslab.stores import MemoryStore
from hyperslab.testing.selections import random_grid, random_key, random_orthogonal_key, random_shape

KEYS = 100
met: Counter[str] = Counter()


def make_array(rng, kind):
    """An array of the kind of grid asked for, and the NumPy array that it must equal."""
    while True:
        shape = random_shape(rng, max_side=7)
        if (kind != "sharded" or shape) and (shape or rng.random() < 0.2):
            break
    cells = rng.integers(0, 1 << 30, shape).astype(rng.choice(["<i4", "<i8", "<f4"]))
    root = hs.create(MemoryStore(), "zarr3", workers=int(rng.integers(1, 3)), cache_bytes=int(rng.choice([0, 1 << 20])))
    if kind == "sharded":
        chunks = tuple(int(n) for n in rng.integers(1, 4, len(shape)))
        shards = tuple(int(a * b) for a, b in zip(chunks, rng.integers(1, 4, len(shape)), strict=True))
        array = root.create_array("a", shape, cells.dtype, chunks=chunks, shards=shards, codec="none", fill_value=7)
    else:
        chunks = random_grid(rng, shape) if kind == "varying" else tuple(int(n) for n in rng.integers(1, 4, len(shape)))
        array = root.create_array("a", shape, cells.dtype, chunks=chunks, codec="none", fill_value=7)
    if rng.random() < 0.8:
        array[...] = cells
    else:
        cells[...] = 7
    return array, cells


def outcome(work):
    """What it gives, or the exception that it raises."""
    try:
        return work()
    except Exception as error:
        return error


def check_same(got, want, about):
    """The same values, shape and dtype, or an exception of the same type."""
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), (about, repr(got), repr(want))
        met["refused"] += 1
        return
    assert not isinstance(got, Exception), (about, repr(got))
    assert np.shape(got) == np.shape(want), about
    assert np.asarray(got).dtype == np.asarray(want).dtype, about
    np.testing.assert_array_equal(got, want, err_msg=str(about))


def is_advanced(key):
    """Whether a key has an array, list or mask in it."""
    items = key if isinstance(key, tuple) else (key,)
    return any(isinstance(item, np.ndarray | list | bool | np.bool_) for item in items)


def chunks_touched(array, key):
    """How many chunks a key touches; 0 when NumPy refuses it."""
    plan = outcome(lambda: make_plan(select(key, array.shape).region, array.grid))
    return 0 if isinstance(plan, Exception) else plan.count


def draw_key(rng, array, draw=random_key):
    """A key, mostly one that touches two chunks or more, counted by what it is."""
    for _ in range(1 if rng.random() < 0.3 else 2):
        key = draw(rng, array.shape)
        touched = chunks_touched(array, key)
        if touched >= 2:
            break
    met["selections"] += 1
    met["advanced"] += is_advanced(key)
    met["two chunks or more"] += touched >= 2
    return key


def one_read(rng, array, cells):
    key = draw_key(rng, array)
    check_same(outcome(lambda: array[key]), outcome(lambda: cells[key]), key)


def one_write(rng, array, cells):
    key = draw_key(rng, array)
    want = outcome(lambda: cells[key])
    if isinstance(want, Exception):
        check_same(outcome(lambda: array.__setitem__(key, 1)), want, key)
        return
    value = rng.integers(0, 1 << 30, np.shape(want)).astype(cells.dtype)
    cells[key] = value
    array[key] = value
    met["written"] += 1
    if met["written"] % 4 == 0:  # all of it now and then: nothing else may have changed
        assert np.array_equal(array[...], cells), key


def one_view(rng, array, cells):
    key = draw_key(rng, array)
    first = outcome(lambda: cells[key])
    if isinstance(first, Exception):
        return
    view = array.lazy[key]
    second = random_key(rng, np.shape(first))
    check_same(outcome(lambda: view[second].read()), outcome(lambda: np.asarray(first)[second]), (key, second))
    met["composed"] += 1


def one_orthogonal(rng, array, cells):
    key = draw_key(rng, array, random_orthogonal_key)
    check_same(outcome(lambda: array.oindex[key]), outcome(lambda: orthogonally(cells, key)), key)


def orthogonally(cells, key):
    """``oindex`` by NumPy: one axis after another, from the last."""
    for axis in range(cells.ndim - 1, -1, -1):
        cells = cells[(slice(None),) * axis + (key[axis],)]
    return cells


def run_example(seed, kind):
    rng = np.random.default_rng(seed)
    array, cells = make_array(rng, kind)
    met[kind] += KEYS
    for work in rng.choice([one_read, one_read, one_read, one_write, one_view, one_orthogonal], KEYS):
        work(rng, array, cells)


@pytest.mark.parametrize("least", [1_500, pytest.param(100_000, marks=pytest.mark.soak)])
def test_selections_equal_numpy(capsys: pytest.CaptureFixture[str], least: int):
    met.clear()
    examples = least * 21 // (20 * KEYS)  # a few more than asked for
    drawn = given(seed=st.integers(0, 2**63), kind=st.sampled_from(["fixed", "fixed", "varying", "sharded"]))
    few = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    few(drawn(run_example))()
    total = met["selections"]
    shares = {name: f"{count / total:.1%}" for name, count in met.items()}
    with capsys.disabled():
        print(f"\n{total} selections: {shares}")
    assert total >= least
    assert met["two chunks or more"] >= 0.6 * total
    assert met["advanced"] >= 0.3 * total
    assert min(met[kind] for kind in ("fixed", "varying", "sharded", "written", "composed", "refused")) > least // 200
