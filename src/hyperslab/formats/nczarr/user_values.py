"""Attribute values of user types (enum, opaque, compound) as JSON: only the draft has them.

Enums are their whole numbers (their names are read too), opaque cells base64, compounds objects of their fields (a list
of them is read too).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.formats.metadata_json.cells import base64_to_bytes, bytes_to_base64, cell_from_json, cell_to_json
from hyperslab.model.dtypes import Compound, Enum, Extension, Opaque, describe, tagged

_SPECIAL = re.compile(r"([+-]?)(?:(nan)|inf(?:inity)?)f?", re.IGNORECASE)


def number(item: Any, dtype: np.dtype[Any]) -> Any:
    """The number of a JSON value: NaN and infinities in any spelling of netcdf-c's, truth values as 0 and 1.

    TypeError or OverflowError where it is not of the type.
    """
    if isinstance(item, bool):
        item = int(item)
    if dtype.kind == "f" and isinstance(item, str) and (found := _SPECIAL.fullmatch(item)):
        item = float("nan") if found[2] else float(f"{found[1]}inf")
    return cell_from_json(item, dtype)


def read_user(value: Any, kind: Extension) -> Any:
    """One value or several of a user type, their dtype tagged with it, which a bare number could not say.

    TypeError, ValueError or OverflowError where it is not of that type.
    """
    match kind:
        case Enum(base=base, members=members):
            names: dict[Any, int] = dict(members)
            base = base.newbyteorder("=")
            cells = np.array([number(names.get(item, item), base) for item in _several(value)], base)
        case Opaque(size=size):
            cells = np.array([_opaque(item, size) for item in _several(value)], np.dtype((np.void, size)))
        case Compound(base=base):
            try:
                made = [_structure(value, base)]
            except (TypeError, ValueError):
                made = [_structure(item, base) for item in _several(value)]
            cells = np.array(made, base)
        case _:
            raise TypeError(f"no attribute is of type {describe(kind)}")
    cells = cells.view(tagged(cells.dtype, kind))
    if len(cells) != 1:
        return cells
    return cells[0] if isinstance(kind, Compound) else cells.reshape(())


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _opaque(value: Any, size: int) -> np.void:
    raw = base64_to_bytes(value)
    if len(raw) != size:
        raise TypeError(f"{len(raw)} bytes, not {size}")
    return np.void(raw)


def _structure(value: Any, dtype: np.dtype[Any]) -> Any:
    """One cell of a compound."""
    cell = np.zeros((), dtype)
    fields: Mapping[str, Any] = dtype.fields or {}
    parts = dict(zip(fields, value, strict=True)) if isinstance(value, list) else value
    if not isinstance(parts, dict) or set(parts) != set(fields):
        raise TypeError(f"not the fields {', '.join(fields)}")
    for name, part in parts.items():
        cell[name] = _field(part, fields[name][0])
    return cell[()]


def _field(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.array([_field(item, base) for item in _several(value)], base).reshape(shape)
    if dtype.names is not None:
        return _structure(value, dtype)
    if dtype.kind != "S":
        return number(value, dtype)
    if not isinstance(value, str) or len(raw := value.encode(_encoding(dtype))) > dtype.itemsize:
        raise TypeError(f"{value!r} is no text of at most {dtype.itemsize} bytes")
    return np.bytes_(raw)


def _encoding(dtype: np.dtype[Any]) -> str:
    """Single bytes are chars, of any code; longer ones text."""
    return "latin-1" if dtype.itemsize == 1 else "utf-8"


def write_user_cell(cell: Any) -> Any:
    """One cell of a user type as JSON; UnicodeDecodeError where a text field holds no text."""
    if isinstance(cell, np.ndarray) and cell.shape:
        return [write_user_cell(item) for item in cell.reshape(-1)]
    if cell.dtype.names is not None:
        return {name: write_user_cell(cell[name]) for name in cell.dtype.names}
    if cell.dtype.kind == "S":
        return cell.decode(_encoding(cell.dtype))
    return cell_to_json(cell) if cell.dtype.kind in "iuf" else bytes_to_base64(cell.tobytes())
