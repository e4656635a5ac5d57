"""Seeded random keys and grids, quick enough for campaigns of hundreds of thousands; and NumPy's way through a region.

``rng`` is a ``numpy.random.Generator``: the same seed gives the same keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.model.cells import Values
from hyperslab.model.spec import Chunks
from hyperslab.selection.region import PositionList, Region

Shape = tuple[int, ...]
Random = np.random.Generator


def random_shape(rng: Random, max_dims: int = 5, max_side: int = 9) -> Shape:
    """Return a shape of 0 to ``max_dims`` dimensions; one in thirty has none, about one in 100 axes has no cell."""
    ndim = 0 if rng.random() < 1 / 30 else int(rng.integers(min(max_dims, 1), max_dims + 1))
    sides = rng.integers(max(1, max_side // 3), max_side + 1, ndim)
    return tuple(
        0 if draw < 0.01 else 1 if draw < 0.05 else int(side)
        for side, draw in zip(sides, rng.random(ndim), strict=True)
    )


def random_grid(rng: Random, shape: Shape) -> Chunks:
    """Return chunk lengths for this shape: fixed per axis, or now and then varying; both may reach past the edge."""
    return tuple(_random_cut(rng, length) for length in shape)


def random_key(rng: Random, shape: Shape, invalid: float = 0.02) -> object:
    """Return a key in NumPy's whole dialect; at least every third has an array or a mask.

    With the probability ``invalid`` it is one that NumPy refuses (out of bounds, a float, too many indices ...).
    """
    if rng.random() < invalid:
        return _random_invalid(rng, shape)
    fancy = 0.45 if rng.random() < 0.6 else 0.0
    common = tuple(int(side) for side in rng.integers(rng.random() > 0.02, 5, rng.integers(0, 3)))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        if rng.random() < 0.06:
            items.append(None)
        if fancy and rng.random() < 0.12:
            wide = int(rng.integers(1, min(3, len(shape) - axis) + 1))
            items.append(_random_mask(rng, shape[axis : axis + wide], common))
            axis += wide
        else:
            items.append(_random_item(rng, shape[axis], fancy, common))
            axis += 1
    return _dressed(rng, items, shape)


def random_orthogonal_key(rng: Random, shape: Shape) -> object:
    """Return a key of ints, slices, 1-D integer arrays and 1-D masks, for ``oindex``."""
    return tuple(
        rng.random(length) < 0.5
        if rng.random() < 0.15
        else _random_item(rng, length, 0.5, (int(rng.integers(1, 5)),), flat=True)
        for length in shape
    )


def canonical_index(region: Region, shape: Shape) -> tuple[Values, ...]:
    """Return NumPy index arrays that take a region's canonical array from an array of this shape: ``base[index]``."""
    ndim = len(region.shape)
    others = [axis for axis in range(len(shape)) if axis not in region.coupled]
    index = []
    for axis, what in enumerate(region.axes):
        place = 0 if axis in region.coupled else others.index(axis) + bool(region.coupled)
        positions = what.positions if isinstance(what, PositionList) else what.start + what.step * np.arange(what.count)
        index.append(positions.reshape([-1 if dim == place else 1 for dim in range(ndim)]))
    return tuple(index)


def take(base: Values, region: Region) -> Values:
    """Return the canonical array of a region of ``base``, straight by NumPy: the planner's oracle."""
    if 0 in region.shape:
        return np.empty(region.shape, base.dtype)
    taken: Values = base[canonical_index(region, base.shape)]
    return np.asarray(taken).reshape(region.shape)


def _random_cut(rng: Random, length: int) -> int | tuple[int, ...]:
    if rng.random() < 0.6 or not length:
        return int(rng.integers(1, (length + 2 if rng.random() < 0.1 else max(length // 2, 1)) + 1))
    sizes: list[int] = []
    while sum(sizes) < length:
        sizes.append(int(rng.integers(1, max(2 * length // 3, 1) + 1)))
    return tuple(sizes)


def _random_item(rng: Random, length: int, fancy: float, common: Shape, *, flat: bool = False) -> object:
    draw = rng.random()
    if draw < fancy and (length or 0 in common):
        return _random_positions(rng, length, common, flat=flat)
    if draw < fancy + (1 - fancy) * 0.2 and length:
        position = int(rng.integers(-length, length))
        return np.int64(position) if rng.random() < 0.1 else position
    return _random_slice(rng, length)


def _random_slice(rng: Random, length: int) -> slice:
    """Return a slice: three in four take most of the axis, forwards or backwards; the others have any bounds and are
    often empty."""
    draw = rng.random()
    if draw < 0.2:
        return slice(None)
    step = int(rng.choice([1, 1, 1, 2, 3, -1, -1, -2]))
    stride = None if step == 1 else step
    if draw < 0.97:
        low, high = int(rng.integers(-1, length // 3 + 1)), int(rng.integers(2 * length // 3, length + 2))
        if step > 0:
            return slice(low if low > 0 else None, high - length if 0 < high < length and draw < 0.5 else high, stride)
        return slice(high - 1, low - 1 if low > 0 else None, stride)
    start, stop = (int(bound) for bound in rng.integers(-length - 2, length + 3, 2))
    return slice(start, stop, stride)


def _random_positions(rng: Random, length: int, common: Shape, *, flat: bool) -> object:
    shape = common if flat else tuple(1 if rng.random() < 0.15 else side for side in common)
    if not flat and rng.random() < 0.2:
        shape = shape[1:]
    if not length and 0 not in shape:
        shape = (*shape[:-1], 0)
    positions = rng.integers(-length, length, shape) if length else np.zeros(shape, np.int64)
    draw = rng.random()
    if draw < 0.2:
        return np.asarray(positions).tolist()
    return np.asarray(positions, np.int16) if draw < 0.3 else positions


def _random_mask(rng: Random, shape: Shape, common: Shape) -> Values:
    """Return a mask, mostly of as many cells as the other arrays of the key have, so that they broadcast."""
    mask = np.zeros(shape, bool)
    wanted = common[-1] if common and rng.random() < 0.8 else 1
    if wanted <= mask.size:
        mask.reshape(-1)[rng.choice(mask.size, wanted, replace=False)] = True
    return mask


def _dressed(rng: Random, items: list[Any], shape: Shape) -> object:
    draw = rng.random()
    if draw < 0.15 and items:
        start, stop = sorted(int(place) for place in rng.integers(0, len(items) + 1, 2))
        whole = all(item is None or isinstance(item, slice) for item in items[start:stop])
        items[start : stop if whole else start] = [Ellipsis]
    elif draw < 0.25:
        while items and isinstance(items[-1], slice):
            items.pop()
    elif draw < 0.28:
        items.insert(int(rng.integers(0, len(items) + 1)), bool(rng.random() < 0.8))
    elif draw < 0.31:
        return rng.random(shape) < 0.4
    return items[0] if len(items) == 1 and rng.random() < 0.7 else tuple(items)


def _random_invalid(rng: Random, shape: Shape) -> object:
    length = shape[0] if shape else 0
    wrong: list[object] = [
        length,
        -length - 1,
        [0, length],
        1.0,
        "a",
        [0.5],
        (0,) * (len(shape) + 1),
        (..., ...),
        slice(None, None, 0),
        slice("a", None),
        np.ones(length + 1, bool),
        np.ones((*shape, 1), bool),
        ([0, 0], [0, 0, 0]),
        [[0], [0, 0]],
        np.zeros(0),
        object(),
        1j,
        (slice(None), {}),
    ]
    return wrong[int(rng.integers(len(wrong)))]
