"""CDL, the text that ncdump prints and ncgen reads (netCDF User's Guide, "CDL Syntax"): a dataset, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice, starmap
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.netcdf.data_model import to_netcdf_dims
from hyperslab.group import Group
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Extension,
    NumpyDType,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    tag_of,
)
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import outward
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec

# -- Names, types and values in CDL: the letters behind numbers, the point in floats, quoted text ----------------------


_TYPES = {"i1": "byte", "i2": "short", "i4": "int", "i8": "int64"}
_TYPES |= {"u1": "ubyte", "u2": "ushort", "u4": "uint", "u8": "uint64", "f4": "float", "f8": "double"}
_TYPES["b1"] = "bool_t"
_BOOLS = "byte enum bool_t {FALSE = 0, TRUE = 1} ;"
"""CDL has no booleans: each group that has some declares the enum that h5py stores them as."""
_LETTERS = {"i1": "b", "i2": "s", "i8": "LL", "u1": "UB", "u2": "US", "u4": "U", "u8": "ULL", "f4": "f"}
_SPECIAL = re.compile(r"[\s!\"#$%&'()*,:;<=>?\[\]\\^`{|}~]")
_CONTROLS = {chr(code): f"\\{code:03o}" for code in (*range(32), 127)}
_ESCAPES = _CONTROLS | {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_ESCAPES |= {chr(0xDC00 + code): f"\\{code:03o}" for code in range(128, 256)}  # bytes that are no UTF-8
del _ESCAPES["\n"]
# Names that begin a section for ncgen where a colon is next to them; ncdump writes a space between.
_SECTIONS = ("types", "dimensions", "variables", "data", "group")
_BREAK = '\\n",\n\t\t\t"'


def name_text(name: str) -> str:
    """Return a name with a backslash before each special character, and before a leading digit."""
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), name)
    return f"\\{text}" if text[:1].isdigit() else text


def type_name(dtype: DataType) -> str:
    """Return the CDL name of a type; NumPy's where CDL has none."""
    match dtype:
        case VlenString() | ObjectRef() | RegionRef():  # those are shown as paths
            return "string"
        case Char():
            return "char"
        case Enum(name=name) | Opaque(name=name) | VlenArray(name=name) | Compound(name=name):
            return name_text(name) or "opaque"
        case np.dtype() if (kind := tag_of(dtype)) is not None:
            return type_name(kind)
        case np.dtype(names=names) if names is not None:
            return f"compound {{{' '.join(f'{type_name(dtype[name])} {name_text(name)};' for name in names)}}}"
        case VlenBytes():  # shown as text
            return "string"
        case np.dtype():
            return _TYPES.get(dtype.str[1:], "char" if dtype.str[1:] == "S1" else str(dtype))
        case _:
            return str(dtype)


def number_text(value: object, *, letter: bool) -> str:
    """Return a number as ncdump prints it: 7 digits of a float, 15 of a double, more where these are another number."""
    cell = np.asarray(value)
    if cell.dtype.kind == "f":
        single = cell.dtype.itemsize <= 4
        text = f"{float(cell):.7g}" if single else f"{float(cell):.15g}"
        with np.errstate(over="ignore"):
            if np.isfinite(cell) and cell.dtype.type(text) != cell:
                text = f"{float(cell):.9g}" if single else f"{float(cell):.17g}"
        if not np.isfinite(cell):
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
            return f"{text}f" if single and letter else text
        if "." not in text and (letter or text == "-0"):
            mantissa, exponent, rest = text.partition("e")
            text = f"{mantissa}.{exponent}{rest}"
        return f"{text}f" if single and letter else text
    return f"{value}{_LETTERS.get(cell.dtype.str[1:], '') if letter else ''}"


def quoted(text: str, *, breaks: bool = False) -> str:
    """Return text between double quotes; ``breaks`` starts a new line after each newline but the last."""
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in text)
    last = escaped.endswith("\n")
    body = escaped[:-1] if last else escaped
    body = body.replace("\n", _BREAK if breaks else "\\n") + ("\\n" if last else "")
    return f'"{body}"'


def attribute_type(value: object) -> str:
    """Return the type that stands before an attribute's name where its values alone do not tell it."""
    match value:
        case np.ndarray() | np.generic():
            if isinstance(value, np.str_) or value.dtype.kind == "T":
                return "string "
            kind = tag_of(value.dtype)
            return f"{type_name(kind or value.dtype)} " if kind is not None or value.dtype.kind == "b" else ""
        case bool():
            return f"{_TYPES['b1']} "
        case [bool(), *others] if all(isinstance(item, bool) for item in others):
            return f"{_TYPES['b1']} "
        case ObjectReference() | RegionReference():
            return "string "
        case [str(), *others] if all(isinstance(item, str) for item in others):
            return "string "
    return ""


def attribute_text(value: object) -> str:
    """Return an attribute's value: quoted text, numbers with their letters, JSON where CDL has no word for it."""
    match value:
        case np.ndarray() | np.generic() if (kind := tag_of(value.dtype)) is not None:
            return ", ".join(_user_text(cell, kind) for cell in np.atleast_1d(np.asarray(value)))
        case str():
            return quoted(str(value), breaks=True)
        case ObjectReference() | RegionReference():
            return quoted(str(value))
        case bytes():
            return _quoted_bytes(value)
        case None | dict():
            return quoted(json.dumps(value, default=str))
        case int() if not -(2**31) <= value < 2**31:
            value = np.int64(value)
    values = list(value) if isinstance(value, np.ndarray | list | tuple) and np.ndim(value) else [value]
    if any(isinstance(item, list | dict | None.__class__) for item in values):
        return quoted(json.dumps(value, default=str))
    return ", ".join(_item_text(item) for item in values)


def _item_text(item: object) -> str:
    match item:
        case str():
            return quoted(item)
        case bytes():
            return _quoted_bytes(item)
        case bool() | np.bool_():
            return str(bool(item)).upper()
        case int():
            return str(item)
        case np.void():
            return _user_text(item, item.dtype)
    return number_text(item, letter=True)


def _quoted_bytes(data: bytes) -> str:
    return quoted(data.decode("utf-8", "surrogateescape"))


def cell_texts(row: Any, spec: ArraySpec) -> Iterator[str]:
    """Return the cells of one row; a row of ``char`` is one string. Cells equal to ``_FillValue`` are ``_``."""
    missing = spec.attrs.get(FILL_VALUE)
    if isinstance(spec.dtype, Char):
        text = row.tobytes()
        yield _quoted_bytes(text if missing is not None else text.rstrip(b"\0"))
        return
    if is_plain_number(spec):
        yield from number_texts(row, spec)
        return
    kind = spec.numpy_dtype if isinstance(spec.dtype, VlenString) else spec.dtype
    for cell in row:
        yield "_" if missing is not None and _equal(cell, missing) else _user_text(cell, kind)


def is_plain_number(spec: ArraySpec) -> bool:
    """Return True if cells are whole numbers, or floats of 4 or 8 bytes, and no user's type."""
    dtype = spec.dtype
    return isinstance(dtype, np.dtype) and (dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8)))


def number_texts(cells: Values, spec: ArraySpec) -> list[str]:
    """Return many numbers as :func:`number_text` prints each, by one format for all; where ``_FillValue`` is, ``_``."""
    missing = spec.attrs.get(FILL_VALUE)
    texts = _float_texts(cells) if cells.dtype.kind == "f" else list(map(str, cells.tolist()))
    if missing is not None:
        is_missing = np.array([_equal(cell, missing) for cell in cells]) if np.ndim(missing) else cells == missing
        if cells.dtype.kind == "f" and not np.ndim(missing) and missing != missing:
            is_missing = np.isnan(cells)
        for place in np.flatnonzero(is_missing):
            texts[place] = "_"
    return texts


def _float_texts(cells: Values) -> list[str]:
    """Return finite numbers by few digits, those that these do not tell by more, the special ones by their names."""
    few, many = ("%.7g", "%.9g") if cells.dtype.itemsize == 4 else ("%.15g", "%.17g")
    finite = np.isfinite(cells)
    plain = np.where(finite, cells, 0)
    texts = _formatted(plain, few)
    with np.errstate(over="ignore"):
        read_back = np.array(list(map(float, texts))).astype(cells.dtype.newbyteorder("="))
    wrong = np.flatnonzero(read_back != plain)
    for place, text in zip(wrong.tolist(), _formatted(plain[wrong], many), strict=True):
        texts[place] = text
    special = ~finite | ((cells == 0) & np.signbit(cells))
    for place in np.flatnonzero(special).tolist():
        texts[place] = number_text(cells[place], letter=False)
    return texts


def _formatted(cells: Values, form: str) -> list[str]:
    return (f"{form} " * cells.size % tuple(cells.tolist())).split()


def _equal(cell: object, missing: object) -> bool:
    if isinstance(cell, str | bytes):  # ncgen takes no _ for text
        return False
    try:
        return bool(cell == missing) or bool(cell != cell and missing != missing)
    except (TypeError, ValueError):
        return False


def _user_text(cell: Any, kind: Any) -> str:
    """Return a cell of any type; ``kind`` is ours or NumPy's, whose fields may be tagged."""
    match kind:
        case Enum(members=members):
            names = {number: name for name, number in members}
            return name_text(names[int(cell)]) if int(cell) in names else str(int(cell))
        case Compound(base=base):
            return _row_text(cell, base)
        case VlenArray(base=base):
            return "{" + ", ".join(_user_text(item, tag_of(base) or base) for item in np.atleast_1d(cell)) + "}"
    match cell:
        case np.void():
            return _row_text(cell, cell.dtype) if cell.dtype.names else f"0X{cell.tobytes().hex().upper()}"
        case np.integer() | np.floating():
            return number_text(cell, letter=False)
        case np.bool_():
            return str(cell).upper()
        case bytes():
            return _quoted_bytes(cell or b"\0")
        case np.ndarray():
            return "{" + ", ".join(_user_text(item, cell.dtype) for item in cell.reshape(-1)) + "}"
    return quoted("" if cell is None else str(cell))


def _row_text(cell: Any, base: NumpyDType) -> str:
    """Return the fields of a row; an array of chars is a string per row of it."""
    texts = []
    for name in base.names or ():
        value, dtype = cell[name], base[name]
        kind: DataType = tag_of(dtype.base) or dtype.base
        if not dtype.shape:
            texts.append(_user_text(value, kind))
            continue
        if dtype.base == np.dtype("S1"):
            rows = np.ascontiguousarray(value).reshape(-1, dtype.shape[-1])
            items = [_quoted_bytes(row.tobytes().rstrip(b"\0")) for row in rows]
        else:
            items = [_user_text(item, kind) for item in value.reshape(-1)]
        texts.append("{" + ", ".join(items) + "}")
    return "{" + ", ".join(texts) + "}"


# Lines of cells are wrapped before the 80th column.
_WIDTH = 79
_TAB = "\t"


def dump(root: Group | Array, name: str, *, header: bool, only: frozenset[str] | None = None) -> Iterator[str]:
    """Return the lines of the dataset; ``header`` leaves the cells out, ``only`` names the arrays whose cells are
    wanted."""
    yield f"netcdf {name_text(name)} {{"
    if isinstance(root, Array):
        if _has_bools(root.data_type, root.attrs):
            yield from ("types:", f"  {_BOOLS}")
        if root.dims:
            yield "dimensions:"
        sizes = zip(to_netcdf_dims(root.spec), root.shape, strict=True)
        yield from (f"{_TAB}{name_text(dim)} = {size} ;" for dim, size in dict(sizes).items())
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
    nodes: list[Group | Array] = [group, *(array for _, array in arrays)]
    for node in nodes:
        hidden = node._session.reader.omitted(node.path)
        yield from (f"{indent}// not shown: /{problem.node}: {problem.message}" for problem in hidden)
    types: list[tuple[DataType | None, Attrs]] = [(None, group.attrs), *((kind, {}) for kind in group.types.values())]
    has_bools = any(starmap(_has_bools, [*types, *((array.data_type, array.attrs) for _, array in arrays)]))
    if group.types or has_bools:
        yield f"{indent}types:"
    if has_bools:
        yield f"{indent}  {_BOOLS}"
    for name, kind in group.types.items():
        yield from (f"{indent}  {line}" for line in _type(name, kind))
    yield from _dimensions(group, indent)
    if arrays:
        yield from _variables(arrays, indent, group)
    if attrs := dict(group.attrs):
        yield ""
        yield f"{indent}// {'group' if group.path else 'global'} attributes:"
        yield from _attributes(attrs, "", indent)
    shown = [] if header else [(name, array) for name, array in arrays if only is None or array.path in only]
    if shown:
        yield f"{indent}data:"
    for name, array in shown:
        yield ""
        if only is None and _is_hardly_written(array):
            yield _note_of(array, indent)
            continue
        # cells along an unlimited dimension, except the first, stand in braces
        dims = group.dims
        unlimited = [axis for axis, dim in enumerate(array.dims) if axis and dim is not None and dims[dim].unlimited]
        yield from _cells(name, array, indent, unlimited)
    for name, child in group.groups():
        yield ""
        yield f"{indent}group: {name_text(name)} {{"
        yield _group(child, indent + "  ", header, only)
        yield f"{indent}  }} // group {name_text(name)}"


def _has_bools(kind: DataType | None, attrs: Attrs) -> bool:
    """Return True if cells of this type, their fields or an attribute are booleans."""
    if any(attribute_type(value) == f"{_TYPES['b1']} " for value in attrs.values()):
        return True
    base = kind.base if isinstance(kind, Compound) else kind
    if not isinstance(base, np.dtype):
        return False
    fields = [base[name].base for name in base.names or ()]
    return base.kind == "b" or any(_has_bools(tag_of(field) or field, {}) for field in fields)


def _type(name: str, kind: Extension) -> Iterator[str]:
    """Yield the lines that declare a user's type."""
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


def _field(base: NumpyDType, name: str) -> str:
    kind = base[name]
    if kind.subdtype is None:
        return f"{type_name(kind)} {name_text(name)}"
    inner, shape = kind.subdtype
    return f"{type_name(inner)} {name_text(name)}({', '.join(map(str, shape))})"


def _dimensions(group: Group, indent: str) -> Iterator[str]:
    """Yield the dimensions that a group declares, and those of its arrays that no group above declares of this size;
    other sizes of one name, and those without a name, by the name that they have in netCDF (:func:`.add_suffix`,
    :func:`.to_netcdf_dims`)."""
    spec = group._session.reader.node(group.path)
    declared = {dim.name for dim in spec.dims} if spec.is_group else set()
    above = [Group(group._session, path).dims for path in islice(outward(group.path), 1, None)]
    dims = [dim for dim in group.dims.values() if dim.name in declared or not _is_among(above, dim.name, dim.size)]
    others: dict[str, int] = {}
    for _, array in group.arrays():
        for name, size in zip(to_netcdf_dims(array.spec), array.shape, strict=True):
            if not _is_among([group.dims, *above], name, size):
                others[add_suffix(name, size) if any(name in dims for dims in (group.dims, *above)) else name] = size
    dims += [Dimension(name, size) for name, size in others.items() if name not in group.dims]
    if not dims:
        return
    yield f"{indent}dimensions:"
    for dim in dims:
        length = f"UNLIMITED ; // ({dim.size} currently)" if dim.unlimited else f"{dim.size} ;"
        yield f"{indent}{_TAB}{name_text(dim.name)} = {length}"


def _is_among(groups: Iterable[Mapping[str, Dimension]], name: str, size: int) -> bool:
    """Return True if one of these groups has a dimension of this name and size."""
    return any(name in dims and dims[name].size == size for dims in groups)


def _dimension_text(group: Group | None, name: str, size: int) -> str:
    """Return the name of an array's dimension, behind the path of its group where a nearer one of this name is
    another; of one that no group has by this name, that of its size."""
    if group is None:
        return name_text(name)
    around = [(path, Group(group._session, path).dims.get(name)) for path in outward(group.path)]
    named = [(path, dim) for path, dim in around if dim is not None]
    if not named or named[0][1].size == size:
        return name_text(name)
    place = next((path for path, dim in named if dim.size == size), None)
    if place is None:
        return name_text(add_suffix(name, size))
    return "/".join(map(name_text, [*f"/{place}".rstrip("/").split("/"), name]))


def _variables(arrays: Iterable[tuple[str, Array]], indent: str, group: Group | None = None) -> Iterator[str]:
    yield f"{indent}variables:"
    for name, array in arrays:
        names = zip(to_netcdf_dims(array.spec), array.shape, strict=True)
        dims = ", ".join(_dimension_text(group, dim, size) for dim, size in names)
        yield f"{indent}{_TAB}{type_name(array.data_type)} {name_text(name)}{f'({dims})' if dims else ''} ;"
        yield from _attributes(dict(array.attrs), name_text(name), indent)


def _attributes(attrs: Mapping[str, Any], owner: str, indent: str) -> Iterator[str]:
    """Yield a line for each attribute; strings and user types say so before the name."""
    for name, value in attrs.items():
        place = f"{attribute_type(value)}{owner}{' ' if owner in _SECTIONS else ''}:{name_text(name)}"
        yield f"{indent}{_TAB}{_TAB}{place} = {attribute_text(value)} ;"


# Cells, some seconds of printing: of arrays that have more it is asked how many of them were written.
_MANY = 10_000_000
# Chunks of the grid to a stored one; an array that somebody began to write has fewer.
_HARDLY = 1000


def _is_hardly_written(array: Array) -> bool:
    """Return True if an array declares many cells of which next to none was written, as damaged documents do."""
    source = array._cells.source
    if array.size <= _MANY or not source.traits.lists_chunks:
        return False
    least = array.grid.size // _HARDLY
    return sum(1 for _ in islice(source.stored_coords(), least)) < least


def _note_of(array: Array, indent: str) -> str:
    message = f"next to none of its {array.size} cells was written; --array prints them, get a part of them"
    return f"{indent}// not shown: /{array.path}: {message}"


def _cells(name: str, array: Array, indent: str, unlimited: list[int]) -> Iterator[str]:
    """Yield `` name = a, b, c ;`` wrapped at 80 columns; arrays of several dimensions start a line per row."""
    if not array.size:
        return
    start = f"{indent} {name_text(name)} = "
    rows = [start] if array.ndim <= 1 else [start.rstrip(), f"{indent}  "]
    line = rows.pop()
    yield from rows
    pending = ""
    rows_of_cells = _rows(array)
    for row in _in_braces(rows_of_cells, array.shape, unlimited) if unlimited else rows_of_cells:
        if pending:
            yield f"{line}{pending},".replace(_COMMA, ",")
            line, pending = f"{indent}  ", ""
        for texts in row:
            pending = _SEPARATOR.join(filter(None, (pending, _SEPARATOR.join(texts))))
            while len(line) + len(pending) + 1 > _WIDTH and _COMMA in pending:
                # as many cells as fit, one at least
                place = pending.rfind(_SEPARATOR, 0, _WIDTH - 1 - len(line) + len(_SEPARATOR))
                place = pending.find(_SEPARATOR) if place < 0 else place
                yield f"{line}{pending[:place]},".replace(_COMMA, ",")
                line, pending = f"{indent}    ", pending[place + len(_SEPARATOR) :]
    yield f"{line}{pending} ;".replace(_COMMA, ",")


_COMMA = "\0"  # between cells until a line is printed: no text of a cell has one, but many have commas
_SEPARATOR = f"{_COMMA} "
Row = Iterable[list[str]]
"""The texts of a row of cells, a part at a time."""


def _in_braces(rows: Iterator[Row], shape: tuple[int, ...], unlimited: list[int]) -> Iterator[Row]:
    """Return the rows, with braces round what lies along each of these axes."""
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
