"""User types of the draft dialect (compound, enum, opaque): ``.ztypedefs`` of a group, and attributes of such types.

::

    {"c_t": {"class": "compound", "fields": [["a", "<i4"], ["b", "/other_t"], ["c", "<f4", [2]]]},
     "o_t": {"class": "opaque", "size": 10}, "e_t": {"class": "enum", "base": "|u1", "members": {"A": 0}}}

The type of a field is a NumPy type, a list of fields, or the qualified name of a type of the same group or one above.
Structures are packed. A field of text, ``|Sn``, has its length in the attribute ``type.field`` of the group too.
Two types are the same when they have the same qualified name.

Attribute values: enums are their whole numbers (their names are read too), opaque cells base64, compounds objects of
their fields (a list of them is read too).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.formats.documents import JsonMapping, JsonObject, as_list
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import bytes_to_base64, cell_from_json, cell_to_json
from hyperslab.formats.metadata_json.dtypes import LARGEST, dtype_from_json, dtype_to_json, field_shape
from hyperslab.formats.nczarr.dimensions import qualified, split_qualified
from hyperslab.formats.nczarr.generation import Context
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    Enum,
    Extension,
    NumpyDType,
    Opaque,
    describe,
    numpy_dtype,
    tag_of,
    tagged,
)
from hyperslab.model.paths import outward

# bounds against documents that would exhaust memory or the stack
MOST_FIELDS = 10_000
DEEPEST = 32
_TEXT = re.compile(r"[<>|=]?S(\d+)")
_BITS = re.compile(r"([<>|=]?)([iuf])(16|32|64)")


def dtype_in_bytes(name: object) -> object:
    """Return a dtype whose size is counted in bits, as the draft's table has them, in NumPy's spelling."""
    bits = _BITS.fullmatch(name) if isinstance(name, str) else None
    return f"{bits[1]}{bits[2]}{int(bits[3]) // 8}" if bits else name


def unnamed_opaque(size: int) -> Opaque:
    """Return the type of ``|Vn`` where none is named."""
    return Opaque(size, f"_opaque{size}")


def same_type(a: DataType, b: DataType) -> bool:
    """Return True for two types of one name that are alike in all but byte order."""
    match a, b:
        case Enum(), Enum():
            return a.members == b.members and same_type(a.base, b.base)
        case Compound(), Compound():
            return same_type(a.base, b.base)
        case Opaque(), Opaque():
            return a.size == b.size
        case np.dtype(), np.dtype():
            return a.newbyteorder("=") == b.newbyteorder("=")
    return False


@dataclass(frozen=True)
class Scope:
    """The types that are seen from a group: ``own`` (else those that it is stored with), and those of groups above."""

    group: str
    context: Context
    own: Mapping[str, Extension] | None = None

    def find(self, fqn: str) -> Extension | None:
        """Return the type of a qualified name, declared here or above; None where there is none."""
        group, name = split_qualified(fqn)
        return self._types(group).get(name) if group in outward(self.group) else None

    def name_of(self, kind: Extension) -> str | None:
        """Return the qualified name under which this type is declared, the nearest one; None where it is not."""
        name = getattr(kind, "name", "")
        for group in outward(self.group):
            known = self._types(group).get(name)
            if known is not None and same_type(known, kind):
                return qualified(group, name)
        return None

    def structure(self, dtype: NumpyDType) -> str | None:
        """Return the qualified name of a declared compound with just these fields."""
        for group in outward(self.group):
            for name, known in self._types(group).items():
                if isinstance(known, Compound) and known.base == dtype:
                    return qualified(group, name)
        return None

    def _types(self, group: str) -> Mapping[str, Extension]:
        if group == self.group and self.own is not None:
            return self.own
        spec = self.context.group(group)
        return {} if spec is None else spec.types


def read_types(
    doc: JsonMapping, stored: JsonMapping, outer: Scope, problems: Problems
) -> tuple[dict[str, Extension], JsonObject]:
    """Return the types of a group's document, and the entries of it that make none: those are noted.

    ``stored``: the group's attributes. ``outer``: what is seen from the group; its own types are not asked for.
    """
    reading = _TypeReader(doc, stored, outer, problems)
    for name in doc:
        reading.type(name)
    known = {name: kind for name in doc if (kind := reading.known[name]) is not None}
    return known, {name: value for name, value in doc.items() if name not in known}


@dataclass
class _TypeReader:
    """The types read so far; None while one is being read, so that a circle is found, and for those that are none."""

    doc: JsonMapping
    stored: JsonMapping
    outer: Scope
    problems: Problems
    known: dict[str, Extension | None] = field(default_factory=dict)
    depth: int = 0

    def type(self, name: str) -> Extension | None:
        """Return the type of this name in the document."""
        if name not in self.known:
            # while it is being read: a type that holds itself finds nothing here
            self.known[name] = None
            try:
                self.known[name] = self._read(name, self.doc[name])
            except (TypeError, ValueError, OverflowError) as error:  # the last two of types that are too large
                self.problems.warn("typedef", f"type {name!r}: {error}")
        return self.known[name]

    def _read(self, name: str, value: object) -> Extension:
        if not name or "/" in name:
            raise TypeError("no name of a type")
        match value:
            case {"class": "opaque", "size": int() as size} if type(size) is int and 0 < size <= LARGEST:
                return Opaque(size, name)
            case {"class": "enum", "base": str() as base, "members": dict() as members}:
                dtype = dtype_from_json(dtype_in_bytes(base))
                if dtype.kind not in "iu":
                    raise TypeError(f"an enum of {dtype}; it counts in whole numbers")
                bounds = np.iinfo(dtype)
                for word, number in members.items():
                    if type(number) is not int or not bounds.min <= number <= bounds.max:
                        raise TypeError(f"member {word!r} is {shorten(number)}, no {dtype.name}")
                return Enum(dtype, tuple(members.items()), name)
            case {"class": "compound", "fields": list() as fields} if fields:
                for place, length in text_lengths({name: value}).items():
                    if self.stored.get(place) != length:
                        found = f"is {shorten(self.stored[place])}" if place in self.stored else "is missing"
                        raise TypeError(
                            f"text of {length} bytes needs the attribute {place!r} of its group, which {found}"
                        )
                return Compound(self._structure(fields), name)
        raise TypeError(f"{shorten(value)} is no compound, enum or opaque type")

    def _structure(self, fields: list[object]) -> NumpyDType:
        parts: list[Any] = []
        for item in fields:
            if not isinstance(item, list) or len(item) not in (2, 3) or not isinstance(item[0], str) or not item[0]:
                raise TypeError(f"{shorten(item)} is no field: [name, type] or [name, type, shape]")
            parts.append((item[0], self._field(item[1]), *map(field_shape, item[2:])))
        if len({part[0] for part in parts}) < len(parts):
            raise TypeError("two fields have the same name")
        dtype = np.dtype(parts)
        if dtype.itemsize > LARGEST:
            raise TypeError(f"a cell of {dtype.itemsize} bytes, {LARGEST} are possible")
        levels = list(islice(_levels(dtype), MOST_FIELDS + 1))
        if len(levels) > MOST_FIELDS or max(levels) > DEEPEST:
            raise TypeError(f"more than {MOST_FIELDS} fields, or more than {DEEPEST} structures in one another")
        return dtype

    def _field(self, value: object) -> NumpyDType:
        if isinstance(value, list) and value:
            return self._structure(value)
        if not isinstance(value, str) or not value.startswith("/"):
            return dtype_from_json(dtype_in_bytes(value))
        group, name = split_qualified(value)
        kind = None
        if group != self.outer.group:
            kind = self.outer.find(value)
        elif name in self.doc and self.depth < DEEPEST:  # of the same document
            self.depth += 1
            kind = self.type(name)
            self.depth -= 1
        if kind is None:
            raise TypeError(f"there is no type {value} here or above, or it holds itself")
        return tagged(kind.base if isinstance(kind, Compound) else numpy_dtype(kind), kind)


def _levels(dtype: NumpyDType, level: int = 0) -> Iterator[int]:
    """Yield, for each field that has none of its own, how many structures it lies in."""
    if dtype.base.fields is None:
        yield level
        return
    for part, *_ in dtype.base.fields.values():
        yield from _levels(part, level + 1)


def text_lengths(doc: JsonMapping) -> dict[str, int]:
    """Return the lengths of the fields of text, by ``type.field``, as the group's attributes say them."""
    result: dict[str, int] = {}
    for name, value in doc.items():
        if isinstance(value, dict) and value.get("class") == "compound":
            result |= _lengths(name, value.get("fields"))
    return result


def _lengths(place: str, fields: object) -> Iterator[tuple[str, int]]:
    for item in fields if isinstance(fields, list) else []:
        if not isinstance(item, list) or len(item) < 2:
            continue
        if isinstance(item[1], list):
            yield from _lengths(f"{place}.{item[0]}", item[1])
        elif isinstance(item[1], str) and (text := _TEXT.fullmatch(item[1])) and text[1] != "1":
            yield f"{place}.{item[0]}", int(text[1])


def write_types(types: Mapping[str, Extension], scope: Scope) -> JsonObject:
    """Return the document of these types; Unsupported names one that the draft has not."""
    doc: JsonObject = {}
    for name, kind in types.items():
        qualified(scope.group, name)
        match kind:
            case Opaque(size=size):
                doc[name] = {"class": "opaque", "size": size}
            case Enum(base=base, members=members):
                doc[name] = {"class": "enum", "base": _plain(base, name), "members": dict(members)}
            case Compound(base=base):
                doc[name] = {"class": "compound", "fields": _write_fields(base, name, scope)}
            case _:
                message = f"the draft of NCZarr has no type such as {name!r}: {describe(kind)}"
                raise Unsupported(message, remedy="it has compound, enum and opaque types")
    return doc


def _write_fields(dtype: NumpyDType, name: str, scope: Scope) -> list[list[object]]:
    fields: list[list[Any]] = []
    parts: JsonMapping = dtype.fields or {}
    for part in dtype.names or ():
        cells, shape = parts[part][0].subdtype or (parts[part][0], ())
        # by name where it is a declared type of its own, else as it is
        kind = tag_of(cells)
        field_type: object = None if kind is None else scope.name_of(kind)
        if field_type is None and cells.names is not None:
            field_type = scope.structure(cells)
        if field_type is None or field_type == qualified(scope.group, name):
            field_type = _plain(cells, name) if cells.names is None else _write_fields(cells, name, scope)
        fields.append([part, field_type, *([list(shape)] if shape else [])])
    return fields


def _plain(dtype: NumpyDType, name: str) -> object:
    try:
        return dtype_to_json(dtype)
    except TypeError as error:
        raise Unsupported(f"type {name!r}: {error}", remedy="fields are of fixed size") from None


_SPECIAL = re.compile(r"([+-]?)(?:(nan)|inf(?:inity)?)f?", re.IGNORECASE)


def read_number(item: object, dtype: NumpyDType) -> object:
    """Return the number of a JSON value: NaN and infinities in any spelling of netcdf-c's, truth values as 0 and 1.

    TypeError or OverflowError where it is not of the type.
    """
    if isinstance(item, bool):
        item = int(item)
    if dtype.kind == "f" and isinstance(item, str) and (found := _SPECIAL.fullmatch(item)):
        item = float("nan") if found[2] else float(f"{found[1]}inf")
    return cell_from_json(item, dtype)


def _encoding(dtype: NumpyDType) -> str:
    """Return the encoding of a field of text: single bytes are chars, of any code; longer ones text."""
    return "latin-1" if dtype.itemsize == 1 else "utf-8"


def read_user_value(value: object, kind: Extension) -> object:
    """Return one value or several of a user type, their dtype tagged with it, which a bare number could not say.

    TypeError, ValueError or OverflowError where it is not of that type.
    """
    match kind:
        case Enum(base=base, members=members):
            names: dict[Any, int] = dict(members)
            base = base.newbyteorder("=")
            cells = np.array([read_number(names.get(item, item), base) for item in as_list(value)], base)
        case Opaque(size=size):
            void = np.dtype((np.void, size))
            cells = np.array([cell_from_json(item, void) for item in as_list(value)], void)
        case Compound(base=base):
            try:
                made = [_structure(value, base)]
            except (TypeError, ValueError):
                made = [_structure(item, base) for item in as_list(value)]
            cells = np.array(made, base)
        case _:
            raise TypeError(f"no attribute is of type {describe(kind)}")
    cells = cells.view(tagged(cells.dtype, kind))
    if len(cells) != 1:
        return cells
    return cells[0] if isinstance(kind, Compound) else cells.reshape(())


def _structure(value: object, dtype: NumpyDType) -> object:
    """Return one cell of a compound."""
    cell = np.zeros((), dtype)
    fields: JsonMapping = dtype.fields or {}
    parts = dict(zip(fields, value, strict=True)) if isinstance(value, list) else value
    if not isinstance(parts, dict) or set(parts) != set(fields):
        raise TypeError(f"not the fields {', '.join(fields)}")
    for name, part in parts.items():
        cell[name] = _field(part, fields[name][0])
    return cell[()]


def _field(value: object, dtype: NumpyDType) -> object:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.array([_field(item, base) for item in as_list(value)], base).reshape(shape)
    if dtype.names is not None:
        return _structure(value, dtype)
    if dtype.kind != "S":
        return read_number(value, dtype)
    if not isinstance(value, str) or len(raw := value.encode(_encoding(dtype))) > dtype.itemsize:
        raise TypeError(f"{value!r} is no text of at most {dtype.itemsize} bytes")
    return np.bytes_(raw)


def write_user_cell(cell: Any) -> object:
    """Return one cell of a user type as JSON; UnicodeDecodeError where a text field holds no text."""
    if isinstance(cell, np.ndarray) and cell.shape:
        return [write_user_cell(item) for item in cell.reshape(-1)]
    if cell.dtype.names is not None:
        return {name: write_user_cell(cell[name]) for name in cell.dtype.names}
    if cell.dtype.kind == "S":
        return cell.decode(_encoding(cell.dtype))
    return cell_to_json(cell) if cell.dtype.kind in "iuf" else bytes_to_base64(cell.tobytes())
