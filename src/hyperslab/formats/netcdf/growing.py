"""Unlimited dimensions get longer by writing: netCDF then fills every variable that runs along them.

Where the library would fill with something else than the array's fill value, the cells are written here.
"""

from __future__ import annotations

from dataclasses import replace

from hyperslab.chunks.grid import Grid
from hyperslab.errors import Unsupported
from hyperslab.formats.netcdf import defining
from hyperslab.formats.netcdf.contents import Contents
from hyperslab.formats.netcdf.document import is_hidden
from hyperslab.formats.netcdf.source import write_cells
from hyperslab.formats.netcdf.working import WorkingCopy
from hyperslab.model.spec import ArraySpec

Shape = tuple[int, ...]


def grow(work: WorkingCopy, contents: Contents, path: str, shape: Shape, *, new: bool) -> None:
    """Make the array at ``path`` as long as ``shape`` says; ``new`` when none of its cells exist yet.

    A length of 0 along an unlimited dimension of a new array means: as long as the dimension is.
    """
    known = contents.array(path)
    places = contents.places[path]
    if new:
        contents.given[path] = shape
        shape = tuple(size or old for size, old in zip(shape, known.shape, strict=True))
        _fill(work, path, known, (0,) * len(shape), known.shape, contents)
    if known.shape == shape:
        return
    for place, old, size in zip(places, known.shape, shape, strict=True):
        if size != old:
            _check(contents.dims.items[place].unlimited, place[1], old, size)
    _remember(contents, path, known.shape, shape)
    before = {other: contents.array(other).shape for other in contents.places}
    for place, size in zip(places, shape, strict=True):
        contents.dims.items[place] = replace(contents.dims.items[place], size=size)
    _write_last_cell(work, path, contents.array(path))
    for other, old_shape in before.items():
        now = contents.array(other)
        if now.shape != old_shape:
            contents.given.setdefault(other, old_shape)
            _fill(work, other, now, old_shape, now.shape, contents)


def _remember(contents: Contents, path: str, old: Shape, new: Shape) -> None:
    """An array that is made longer itself counts as given up to there."""
    given = contents.given.get(path, old)
    contents.given[path] = tuple(
        size if size != before else known for known, before, size in zip(given, old, new, strict=True)
    )


def _check(unlimited: bool, name: str, old: int, new: int) -> None:
    if new < old:
        raise Unsupported("an array of a netCDF file cannot shrink", remedy="convert a part of it to a new file")
    if not unlimited:
        raise Unsupported(
            f"dimension {name!r} is not unlimited and cannot grow",
            remedy="convert to a new file; a dimension that begins with length 0 is made unlimited",
        )


def _write_last_cell(work: WorkingCopy, path: str, spec: ArraySpec) -> None:
    if 0 in spec.shape:
        return
    variable = defining.find_cells(work, path, spec)
    if is_hidden(spec.dtype):
        variable.resize(spec.shape)
        return
    last = tuple(slice(length - 1, length) for length in spec.shape)
    write_cells(variable, last, spec.filled((1,) * len(last)), spec)


def _fill(work: WorkingCopy, path: str, spec: ArraySpec, old: Shape, new: Shape, contents: Contents) -> None:
    """Write the fill value into the cells inside ``new`` and outside ``old``, unless the library does."""
    if is_hidden(spec.dtype) and old != new:
        variable = defining.find_cells(work, path, spec)
        if variable.shape != new:
            variable.resize(new)
    if defining.fills_itself(spec, str(work.model)):
        return
    variable = defining.find_cells(work, path, spec)
    for extent in _outside(spec, old):
        shape = tuple(part.stop - part.start for part in extent)
        write_cells(variable, extent, spec.filled(shape), spec)


def _outside(spec: ArraySpec, old: Shape) -> list[tuple[slice, ...]]:
    """Parts of chunks that cover the cells outside ``old``."""
    if not spec.shape:
        return [()]
    parts = []
    grid = Grid.of(spec.shape, spec.chunks)
    for coords in grid:
        extent = grid.extent(coords)
        for axis, part in enumerate(extent):
            start = max(part.start, old[axis])
            if start < part.stop:
                parts.append((*extent[:axis], slice(start, part.stop), *extent[axis + 1 :]))
            if start == part.start:
                break
    return parts
