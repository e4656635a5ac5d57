"""What a region is of its array: its shape, its bounds, whether an array still has its cells."""

from __future__ import annotations

from collections.abc import Mapping
from operator import lt
from typing import Any

from hyperslab.errors import Invalid, RegionOutOfBounds, SelectionError
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection.spans import Box, count, spans_of_boxes

Taken = Steps | tuple[int, ...]
_MADE_ANEW = "make the region anew: the array has changed since"


def positions_of(taken: Taken) -> range | tuple[int, ...]:
    """Return the positions that are taken along one axis."""
    return range(taken.start, taken.stop, taken.step) if isinstance(taken, Steps) else taken


def region_shape(region: Region, shape: Shape) -> Shape:
    """Return the shape of the region's cells, when they are read from an array of this shape."""
    match region:
        case Everything():
            return shape if region.shape is None or not shape else region.shape
        case Nothing():
            return (0,)
        case Product():
            return tuple(len(positions_of(taken)) for taken in region.axes)
        case Points():
            return (len(region.points),)
        case Blocks():
            return (count(spans_of_boxes(region.blocks)),)


def checked(region: Region) -> Region:
    """Return the region; SelectionError when it contradicts the shape that it was made for."""
    if isinstance(region, Nothing) or (isinstance(region, Everything) and region.shape is None):
        return region
    shape = region.shape or ()
    if any(length < 0 for length in shape):
        raise SelectionError(f"a region of an array of shape {shape}")
    if isinstance(region, Everything):
        return region
    if not shape:
        raise SelectionError("of an array without dimensions there is everything or nothing")
    match region:
        case Product():
            _check_axes(region.axes, shape)
        case Points():
            _check_points(region.points, shape)
        case Blocks():
            _check_blocks(region.blocks, shape)
    return region


def _other_rank(found: int, shape: Shape) -> SelectionError:
    return SelectionError(f"a region of {found} axes of an array of {len(shape)}")


def _check_axes(axes: tuple[Taken, ...], shape: Shape) -> None:
    if len(axes) != len(shape):
        raise _other_rank(len(axes), shape)
    for axis, (taken, length) in enumerate(zip(axes, shape, strict=True)):
        match taken:
            case Steps(start=start, stop=stop, step=step):
                if step < 1 or not 0 <= start <= stop <= length:
                    cells = f"start {start}, stop {stop}, step {step}"
                    raise SelectionError(f"{cells} along axis {axis} of length {length}")
            case [first, *_, last] | [first as last]:
                if first < 0 or last >= length or not all(map(lt, taken, taken[1:])):
                    raise SelectionError(f"positions along axis {axis} that do not rise within its length {length}")


def _check_points(points: tuple[tuple[int, ...], ...], shape: Shape) -> None:
    for point in points:
        if len(point) != len(shape):
            raise _other_rank(len(point), shape)
        if not all(0 <= place < length for place, length in zip(point, shape, strict=True)):
            raise SelectionError(f"the point {point} of an array of shape {shape}")


def _check_blocks(blocks: tuple[Box, ...], shape: Shape) -> None:
    for starts, stops in blocks:
        if len(starts) != len(shape) or len(stops) != len(shape):
            raise _other_rank(len(starts), shape)
        if not all(0 <= low <= high <= length for low, high, length in zip(starts, stops, shape, strict=True)):
            raise SelectionError(f"the block {starts} to {stops} of an array of shape {shape}")


def is_of_scalar(region: Region, shape: Shape) -> bool:
    """Return True if it is a region of one cell along one axis, of an array that has no axis: some documents have
    only that form of a scalar.
    """
    return not shape and not isinstance(region, Nothing) and region.shape == (1,)


def require_fits(region: Region, shape: Shape) -> None:
    """Raise RegionOutOfBounds when an array of this shape has not all cells of the region, or has another rank."""
    if isinstance(region, Nothing) or region.shape is None or is_of_scalar(region, shape):
        return
    if len(region.shape) != len(shape):
        raise RegionOutOfBounds(
            f"a region of an array of {len(region.shape)} dimensions, which has {len(shape)}", remedy=_MADE_ANEW
        )
    needed = _needed(region)
    if any(need > length for need, length in zip(needed, shape, strict=True)):
        raise RegionOutOfBounds(
            f"a region that needs the shape {needed} of an array of shape {shape}", remedy=_MADE_ANEW
        )


def _needed(region: Everything | Product | Points | Blocks) -> Shape:
    """Return the smallest shape in which the region has the cells, and the shape, that it has in its own."""
    shape = region.shape or ()
    nothing = (0,) * len(shape)
    match region:
        case Everything():
            return shape
        case Product():
            taken = [positions_of(taken) for taken in region.axes]
            return tuple(places[-1] + 1 if places else 0 for places in taken)
        case Points():
            return tuple(max(row) + 1 for row in zip(*region.points, strict=True)) or nothing
        case Blocks():
            full = [stops for starts, stops in region.blocks if all(map(lt, starts, stops))]
            return tuple(map(max, zip(*full, strict=True))) or nothing


def isel_of(region: Region, dims: tuple[str | None, ...]) -> Mapping[str | int, Any]:
    """Return what ``isel`` takes for the same cells: a slice or a list of positions for the name of each dimension, or
    for the number of the axis where it has none. Invalid for points, blocks and nothing, which are no product of
    axes."""
    match region:
        case Everything():
            known = region.shape is not None and len(region.shape) == len(dims)
            taken: list[Any] = (
                [slice(0, length, 1) for length in region.shape or ()] if known else [slice(None)] * len(dims)
            )
        case Product() if len(region.axes) == len(dims):
            taken = [
                slice(part.start, part.stop, part.step) if isinstance(part, Steps) else list(part)
                for part in region.axes
            ]
        case _:
            raise Invalid("the region is no product of what is taken along each axis", remedy="read it: .read()")
    return {axis if dim is None else dim: part for axis, (dim, part) in enumerate(zip(dims, taken, strict=True))}
