"""Convert region references of HDF5 files: those of h5py become regions of ours, and ours become h5py's.

HDF5 stores no shape beside a selection: regions get the one that the dataset has now. A selection of all of it, which
HDF5 keeps as such, is everything that there is when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import BrokenLink
from hyperslab.model.refs import RegionReference
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection.region_bounds import is_of_scalar, region_shape, require_fits
from hyperslab.selection.regions import blocks_region, strided_region

if TYPE_CHECKING:
    import h5py


def from_h5py(reference: h5py.RegionReference, file: h5py.HLObject) -> RegionReference | None:
    """Return what a region reference in an open file (that file, or anything in it) points at; None: at nothing.

    The same cells, in the same order, as h5py reads for it. BrokenLink when the dataset is gone, or has no name.
    """
    from h5py import h5r

    if not reference:
        return None
    try:
        target = file.file[reference]
        space = h5r.get_region(reference, file.file.id)
    except (ValueError, KeyError, RuntimeError) as error:
        raise BrokenLink(f"the target of an HDF5 region reference is gone: {error}", url=file.file.filename) from None
    if target.name is None:
        raise BrokenLink("the target of an HDF5 region reference has no name", url=file.file.filename)
    return RegionReference(target.name, _region(space))


def _region(space: Any) -> Region:
    from h5py import h5s

    kind = space.get_select_type()
    if kind == h5s.SEL_ALL:
        return Everything()
    if kind == h5s.SEL_NONE:
        return Nothing()
    shape = tuple(map(int, space.shape))
    if kind == h5s.SEL_POINTS:
        return Points(tuple(map(tuple, space.get_select_elem_pointlist().tolist())), shape)
    if space.is_regular_hyperslab():
        starts, strides, counts, sizes = space.get_regular_hyperslab()
        return strided_region(zip(starts, strides, counts, sizes, strict=True), shape)
    corners = space.get_select_hyper_blocklist().tolist()
    return blocks_region(((tuple(start), tuple(last + 1 for last in end)) for start, end in corners), shape)


def to_h5py(region: Region, dataset: h5py.Dataset) -> h5py.RegionReference:
    """Return a region reference to these cells of a dataset of an open file.

    RegionOutOfBounds when the dataset has not all of them. Empty selections become HDF5's selection of nothing.
    """
    from h5py import h5r

    shape = tuple(dataset.shape or ())
    require_fits(region, shape)
    return h5r.create(dataset.id, b".", h5r.DATASET_REGION, _space(region, shape))


def _space(region: Region, shape: Shape) -> Any:
    from h5py import h5s

    space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
    is_empty = 0 in region_shape(region, shape)
    match region:
        case Everything(shape=None):
            space.select_all()
        case Nothing():
            space.select_none()
        case Points() | Blocks() | Product() if is_empty:
            space.select_none()
        case _ if not shape or is_of_scalar(region, shape):
            space.select_all()
        case Points(points=points):
            space.select_elements(np.array(points, np.uint64))
        case Blocks(blocks=blocks):
            sides = [list(zip(*block, strict=True)) for block in blocks]
            return _united([_box(shape, block) for block in sides if all(low < high for low, high in block)])
        case Product(axes=axes):
            return _product(axes, shape)
        case _:
            return _product(tuple(Steps(0, length) for length in region.shape or ()), shape)
    return space


def _product(axes: tuple[Steps | tuple[int, ...], ...], shape: Shape) -> Any:
    """Intersect one strided hyperslab with the positions of each axis that lists them."""
    from h5py import h5s

    space = h5s.create_simple(shape)
    steps = [axis if isinstance(axis, Steps) else Steps(0, length) for axis, length in zip(axes, shape, strict=True)]
    counts = tuple(len(range(axis.start, axis.stop, axis.step)) for axis in steps)
    space.select_hyperslab(tuple(axis.start for axis in steps), counts, tuple(axis.step for axis in steps))
    for place, axis in enumerate(axes):
        if not isinstance(axis, Steps):
            whole = [(0, length) for length in shape]
            positions = np.array(axis, np.int64)
            runs = []
            for part in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1):  # of neighbours each
                run = int(part[0]), int(part[-1]) + 1
                runs.append(_box(shape, [*whole[:place], run, *whole[place + 1 :]]))
            space = _combined(space, _united(runs), h5s.SELECT_AND)
    return space


def _box(shape: Shape, sides: Iterable[tuple[int, int]]) -> Any:
    from h5py import h5s

    starts, stops = zip(*sides, strict=True)
    space = h5s.create_simple(shape)
    space.select_hyperslab(starts, tuple(stop - start for start, stop in zip(starts, stops, strict=True)))
    return space


def _combined(left: Any, right: Any, by: int) -> Any:
    """Return the cells of both (``by`` h5py's ``SELECT_AND``), or of either (``SELECT_OR``); ``left`` may change."""
    from h5py import h5s

    if hasattr(left, "combine_select"):  # h5py before 3.16 combines a selection with one block at a time alone
        return left.combine_select(right, by)
    if by == h5s.SELECT_OR:
        return _with_blocks(left, right, by)
    others = _box(left.shape, [(0, length) for length in left.shape])
    return _with_blocks(left, _with_blocks(others, right, h5s.SELECT_NOTB), h5s.SELECT_NOTB)


def _with_blocks(space: Any, blocks: Any, by: int) -> Any:
    from h5py import h5s

    if blocks.get_select_type() == h5s.SEL_HYPERSLABS:
        for first, last in blocks.get_select_hyper_blocklist():
            space.select_hyperslab(tuple(first), tuple(last - first + 1), op=by)
    return space


def _united(spaces: list[Any]) -> Any:
    """Unite selections by halves: HDF5 copies both sides of each union."""
    from h5py import h5s

    while len(spaces) > 1:
        pairs = zip(spaces[::2], spaces[1::2], strict=False)
        odd = spaces[-1:] if len(spaces) % 2 else []
        spaces = [_combined(left, right, h5s.SELECT_OR) for left, right in pairs] + odd
    return spaces[0]
