"""CDL, the text that ncdump prints and ncgen reads (netCDF User's Guide, "CDL Syntax"): a dataset, line by line."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.chunks.source import ListsChunks
from hyperslab.cli.cdl_values import (
    attribute_text,
    attribute_type,
    cell_texts,
    is_plain_number,
    name_text,
    number_texts,
    quoted,
    type_name,
)
from hyperslab.cli.naming import named_dims
from hyperslab.formats.base import omitted_at
from hyperslab.group import Group
from hyperslab.model.dtypes import Compound, Enum, Extension, Opaque, VlenArray
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import outward
from hyperslab.model.spec import ArraySpec, GroupSpec

_WIDTH = 79
_TAB = "\t"


def dump(root: Group | Array, name: str, *, header: bool, only: frozenset[str] | None = None) -> Iterator[str]:
    """The lines of the dataset; ``header`` leaves the cells out, ``only`` names the arrays whose cells are wanted."""
    yield f"netcdf {name_text(name)} {{"
    if isinstance(root, Array):
        yield from _own_dimensions(root)
        yield from _variables([(name, root)], "")
        if not header:
            yield "data:"
            yield ""
            yield from [_note_of(root, "")] if _is_hardly_written(root) else _cells(name, root, "", [])
    else:
        yield from flattened(_group(root, "", header, only))
    yield "}"


def _group(group: Group, indent: str, header: bool, only: frozenset[str] | None) -> Generator[Any]:
    links = dict(group.links())
    arrays = [(name, array) for name, array in group.arrays() if name not in links]
    yield from (f"{indent}// link: {name_text(name)} -> {quoted(str(link))}" for name, link in links.items())
    hidden = omitted_at(group._session.reader, group.path)
    yield from (f"{indent}// not shown: /{problem.node}: {problem.message}" for problem in hidden)
    for _, array in arrays:
        hidden = omitted_at(array._session.reader, array.path)
        yield from (f"{indent}// not shown: /{problem.node}: {problem.message}" for problem in hidden)
    yield from _types(group, indent)
    yield from _dimensions(group, indent)
    if arrays:
        yield from _variables(arrays, indent, group)
    if attrs := dict(group.attrs):
        yield ""
        yield f"{indent}// {'group' if group.path else 'global'} attributes:"
        yield from _attributes(attrs, "", indent)
    if arrays and not header:
        yield from _data(group, arrays, indent, only)
    for name, child in group.groups():
        yield ""
        yield f"{indent}group: {name_text(name)} {{"
        yield _group(child, indent + "  ", header, only)
        yield f"{indent}  }} // group {name_text(name)}"


def _types(group: Group, indent: str) -> Iterator[str]:
    if not group.types:
        return
    yield f"{indent}types:"
    for name, kind in group.types.items():
        yield from (f"{indent}  {line}" for line in _type(name, kind))


def _type(name: str, kind: Extension) -> Iterator[str]:
    match kind:
        case Enum(base=base, members=members):
            listed = ", ".join(f"{name_text(member)} = {value}" for member, value in members)
            yield f"{type_name(base)} enum {name_text(name)} {{{listed}}} ;"
        case Opaque(size=size):
            yield f"opaque({size}) {name_text(name)} ;"
        case VlenArray(base=base):
            yield f"{type_name(base)}(*) {name_text(name)} ;"
        case Compound(base=base):
            yield f"compound {name_text(name)} {{"
            yield from (f"  {_field(base, field)} ;" for field in base.names or ())
            yield f"}}; // {name_text(name)}"
        case _:
            yield f"// {name_text(name)}: {kind}"


def _field(base: np.dtype[Any], name: str) -> str:
    kind = base[name]
    if kind.subdtype is None:
        return f"{type_name(kind)} {name_text(name)}"
    inner, shape = kind.subdtype
    return f"{type_name(inner)} {name_text(name)}({', '.join(map(str, shape))})"


def _dimensions(group: Group, indent: str) -> Iterator[str]:
    """Those that the group declares, and those that its arrays use and no group above declares."""
    spec = group._session.reader.node(group.path)
    declared = {dim.name for dim in spec.dims} if isinstance(spec, GroupSpec) else set()
    inherited = set(_dims_above(group)) - declared
    dims = [dim for dim in group.dims.values() if dim.name not in inherited]
    if not dims:
        return
    yield f"{indent}dimensions:"
    for dim in dims:
        size = f"UNLIMITED ; // ({dim.size} currently)" if dim.unlimited else f"{dim.size} ;"
        yield f"{indent}{_TAB}{name_text(dim.name)} = {size}"


def _own_dimensions(array: Array) -> Iterator[str]:
    """The dimensions of an array that is dumped by itself."""
    sizes = dict(zip(named_dims(array.dims), array.shape, strict=True))
    if sizes:
        yield "dimensions:"
    yield from (f"{_TAB}{name_text(dim)} = {size} ;" for dim, size in sizes.items())


def _dims_above(group: Group) -> Iterator[str]:
    for path in islice(outward(group.path), 1, None):
        yield from Group(group._session, path).dims


def _dimension_text(group: Group | None, name: str, size: int) -> str:
    """Return the name of an array's dimension, behind the path of its group where a nearer one of this name is
    another."""
    if group is None:
        return name_text(name)
    around = [(path, Group(group._session, path).dims.get(name)) for path in outward(group.path)]
    named = [(path, dim) for path, dim in around if dim is not None]
    if not named or named[0][1].size == size:
        return name_text(name)
    places = (path for path, dim in named if dim.size == size)
    return "/".join(map(name_text, [*f"/{next(places, group.path)}".rstrip("/").split("/"), name]))


def _variables(arrays: Iterable[tuple[str, Array]], indent: str, group: Group | None = None) -> Iterator[str]:
    yield f"{indent}variables:"
    for name, array in arrays:
        names = zip(named_dims(array.dims), array.shape, strict=True)
        dims = ", ".join(_dimension_text(group, dim, size) for dim, size in names)
        yield f"{indent}{_TAB}{type_name(array.data_type)} {name_text(name)}{f'({dims})' if dims else ''} ;"
        yield from _attributes(dict(array.attrs), name_text(name), indent)


def _attributes(attrs: Mapping[str, Any], owner: str, indent: str) -> Iterator[str]:
    """A line for each; strings and user types say so before the name."""
    for name, value in attrs.items():
        place = f"{attribute_type(value)}{owner}:{name_text(name)}"
        yield f"{indent}{_TAB}{_TAB}{place} = {attribute_text(value)} ;"


def _data(group: Group, arrays: Iterable[tuple[str, Array]], indent: str, only: frozenset[str] | None) -> Iterator[str]:
    wanted = [(name, array) for name, array in arrays if only is None or array.path in only]
    if wanted:
        yield f"{indent}data:"
    for name, array in wanted:
        yield ""
        if only is None and _is_hardly_written(array):
            yield _note_of(array, indent)
        else:
            yield from _cells(name, array, indent, _unlimited_axes(group, array))


_MANY = 10_000_000
"""Cells, some seconds of printing: of arrays that have more it is asked how many of them were written."""
_HARDLY = 1000
"""Chunks of the grid to a stored one; an array that somebody began to write has fewer."""


def _is_hardly_written(array: Array) -> bool:
    """Return whether an array declares many cells of which next to none was written, as damaged documents do."""
    source = array._cells.source
    if array.size <= _MANY or not isinstance(source, ListsChunks):
        return False
    least = array.grid.size // _HARDLY
    return sum(1 for _ in islice(source.stored(), least)) < least


def _note_of(array: Array, indent: str) -> str:
    message = f"next to none of its {array.size} cells was written; --array prints them, get a part of them"
    return f"{indent}// not shown: /{array.path}: {message}"


def _unlimited_axes(group: Group, array: Array) -> list[int]:
    """The axes but the first that run along an unlimited dimension, whose cells stand in braces."""
    dims = group.dims
    return [axis for axis, dim in enumerate(array.dims) if axis and dim is not None and dims[dim].unlimited]


def _cells(name: str, array: Array, indent: str, unlimited: list[int]) -> Iterator[str]:
    """`` name = a, b, c ;`` wrapped at 80 columns; arrays of several dimensions start a line per row."""
    if not array.size:
        return
    start = f"{indent} {name_text(name)} = "
    rows = [start] if array.ndim <= 1 else [start.rstrip(), f"{indent}  "]
    line = rows.pop()
    yield from rows
    pending = ""
    for row in _in_braces(_rows(array), array.shape, unlimited):
        if pending:
            yield f"{line}{pending},".replace(_COMMA, ",")
            line, pending = f"{indent}  ", ""
        for texts in row:
            pending = _SEPARATOR.join(filter(None, (pending, _SEPARATOR.join(texts))))
            while len(line) + len(pending) + 1 > _WIDTH and _COMMA in pending:
                pieces = _cut(pending, _WIDTH - 1 - len(line))
                yield f"{line}{pieces[0]},".replace(_COMMA, ",")
                line, pending = f"{indent}    ", pieces[1]
    yield f"{line}{pending} ;".replace(_COMMA, ",")


_COMMA = "\0"  # between cells until a line is printed: no text of a cell has one, but many have commas
_SEPARATOR = f"{_COMMA} "


def _cut(cells: str, room: int) -> tuple[str, str]:
    """Return as many cells as fit, one at least, and the rest."""
    place = cells.rfind(_SEPARATOR, 0, room + len(_SEPARATOR))
    place = cells.find(_SEPARATOR) if place < 0 else place
    return cells[:place], cells[place + len(_SEPARATOR) :]


Row = Iterable[list[str]]
"""The texts of a row of cells, a part at a time."""


def _in_braces(rows: Iterator[Row], shape: tuple[int, ...], unlimited: list[int]) -> Iterator[Row]:
    """The rows, with braces round what lies along each of these axes."""
    if not unlimited:
        yield from rows
        return
    spans = [prod(shape[axis:-1]) for axis in unlimited]
    for number, row in enumerate(rows):
        texts = [text for part in row for text in part]
        texts[0] = "{" * sum(number % span == 0 for span in spans) + texts[0]
        texts[-1] += "}" * sum(number % span == span - 1 for span in spans)
        yield [texts]


def _rows(array: Array) -> Iterator[Row]:
    """Return the texts of the cells, row by row of the last dimension; chunk rows of the first are read at a time."""
    spec: ArraySpec = array.spec
    if array.ndim == 0:
        cell = np.empty(1, array.dtype)
        cell[0] = array[()]
        yield [list(cell_texts(cell, spec))]
    elif array.ndim == 1:
        yield (list(cell_texts(block, spec)) for block in _blocks(array))
    elif is_plain_number(spec):
        for block in _blocks(array):
            texts, length = number_texts(block.reshape(-1), spec), block.shape[-1]
            yield from ([texts[start : start + length]] for start in range(0, len(texts), length))
    else:
        for block in _blocks(array):
            yield from ([list(cell_texts(row, spec))] for row in block.reshape(-1, block.shape[-1]))


def _blocks(array: Array) -> Iterator[Any]:
    cut = array.grid.axes[0]
    start = 0
    while start < array.shape[0]:
        index = cut.find(start)
        stop = cut.start(index) + cut.size_of(index)
        yield np.asarray(array[start:stop])
        start = stop
