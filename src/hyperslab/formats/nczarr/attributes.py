"""Attribute values with their netCDF types: as JSON with a type code beside it, and back.

The codes are NumPy's in ``_nczarr_attr`` (``<f8``, ``>S1`` for char, ``|S128`` for string, ``|J0`` for JSON) and
netCDF's names in the draft (``double``, ``char``, ``string``, the qualified name of a user type); both are read
everywhere. Text of type char is ``str``, a netCDF string ``np.str_``, several are an array of ``StringDType``.

netcdf-c writes text that looks like JSON without quotes: :func:`source_texts` gives each value as it is spelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.base import PROVENANCE
from hyperslab.formats.documents import JsonMapping, JsonObject, as_list, check_limits, is_text_list, text_or_none
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json.cells import cell_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_from_json
from hyperslab.formats.nczarr.user_types import dtype_in_bytes, read_number, read_user_value, write_user_cell
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Enum, Extension, NumpyDType, Opaque, describe, tag_of

MAXIMUM_TEXT = 128
"""How many bytes netcdf-c gives a string unless it is told otherwise."""
HIDDEN = frozenset(
    {"_ARRAY_DIMENSIONS", PROVENANCE, "CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST"}
    | {"_Netcdf4Coordinates", "_Netcdf4Dimid"}
)
"""Attributes that users do not see, together with those whose names begin with ``_nczarr_``."""
_NUMBERS = {
    "byte": "i1",
    "ubyte": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "int64": "i8",
    "uint64": "u8",
    "float": "f4",
    "double": "f8",
}
NUMBERS = {code: name for name, code in _NUMBERS.items()}
"""netCDF's names of its numbers, by NumPy's."""
_CHAR = frozenset({"char", ">S1", "<S1", "<U1", ">U1", "|U1", "|J0"})
_PLAIN_TEXT = (None, "char", ">S1")
_STRING = re.compile(r"string|[|<>=]?S\d+")
TypeOf = Callable[[str], Extension | None]


@lru_cache(1024)
def is_hidden(name: str) -> bool:
    """Return True for the name of an attribute that users do not see."""
    return name in HIDDEN or name.lower().startswith("_nczarr_")


def split_hidden(
    stored: JsonMapping, codes: JsonMapping, *, but: Collection[str] = ()
) -> tuple[JsonObject, dict[str, tuple[Any, Any]]]:
    """Return the attributes that users see, and the hidden ones, but for some names: value and type code by name."""
    visible = {name: value for name, value in stored.items() if not is_hidden(name)}
    hidden = {name: (stored[name], codes.get(name)) for name in stored if name not in visible and name not in but}
    return visible, hidden


def no_types(name: str) -> Extension | None:
    """Return the user types of a dialect that has none."""
    return None


def read_attributes(
    stored: JsonMapping,
    codes: JsonMapping,
    texts: Callable[[], Mapping[str, str]],
    problems: Problems,
    type_of: TypeOf = no_types,
) -> JsonObject:
    """Return the typed values by name; one that does not fit its code is read as if it had none, and noted.

    ``texts``: how the values are spelled, asked for only if some value needs it.
    """
    result = {}
    known: list[Mapping[str, str]] = []

    def spelled(name: str) -> str | None:
        # the spelling of a document is looked for once, and only if an attribute needs it
        if not known:
            known.append(texts())
        return known[0].get(name)

    for name, value in stored.items():
        code = codes.get(name)
        if isinstance(value, str) and code in _PLAIN_TEXT:
            result[name] = value
            continue
        text = spelled(name) if _is_bare(value, code) else None
        try:
            result[name] = read_value(value, code, text, type_of)
        except (TypeError, ValueError, OverflowError, HyperslabError) as error:
            problems.warn("attribute", f"attribute {name!r} is not of its type {code!r}: {error}; its type is guessed")
            text = spelled(name) if _is_bare(value, None) else None
            result[name] = read_value(value, None, text, type_of)
    return result


def _is_bare(value: object, code: object) -> bool:
    """Return True for text that stands in the document without quotes: then its spelling matters."""
    if isinstance(value, str):
        return False
    if code is None:
        return _is_json(as_list(value))
    return isinstance(code, str) and code in _CHAR


def _is_json(values: list[object]) -> bool:
    """Return True for values without a type that are neither numbers nor texts."""
    return _widest(values) is None and not (values and is_text_list(values))


def read_value(value: object, code: object, text: str | None, type_of: TypeOf = no_types) -> Any:
    """Return the value of an attribute with a type code, None for none; ``text`` is how the value is spelled, if known.

    TypeError, ValueError or OverflowError where the value is not of that type.
    """
    match code:
        case None if isinstance(value, str):
            return value
        case None:  # numbers by their size, anything else as JSON text
            several = as_list(value)
            widest = _widest(several)
            if _is_json(several):
                return _as_text(value, text)
            return _strings(several) if widest is None else _numbers(value, widest)
        case str() if code in _CHAR:
            return value if isinstance(value, str) else _as_text(value, text)
        case str() if _STRING.fullmatch(code):
            return _strings(value)
        case str() if (kind := type_of(code)) is not None:
            return read_user_value(value, kind)
    return _numbers(value, _number_type(code) if isinstance(code, str) else _parse_number_type(code))


def _parse_number_type(code: object) -> NumpyDType:
    number = _NUMBERS.get(text_or_none(code) or "")
    dtype = dtype_from_json(dtype_in_bytes(code) if number is None else number)
    if dtype.kind not in "iuf":
        raise TypeError(f"no attribute is of type {code!r}")
    return dtype.newbyteorder("=")


_number_type = lru_cache(64)(_parse_number_type)


def _as_text(value: object, text: str | None) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if text is None else text


def _strings(value: object) -> Any:
    """Return one netCDF string, or several."""
    several = as_list(value)
    texts = [item if isinstance(item, str) else _as_text(item, None) for item in several]
    return np.str_(texts[0]) if len(texts) == 1 else np.array(texts, np.dtypes.StringDType())


def _numbers(value: object, dtype: NumpyDType) -> Any:
    cells = [read_number(item, dtype) for item in as_list(value)]
    return cells[0] if len(cells) == 1 else np.array(cells, dtype)


def _widest(values: list[Any]) -> NumpyDType | None:
    """Return the narrowest type that holds all these numbers; None where one is no number, or of more than 64 bits."""
    if not values or not all(isinstance(item, bool | int | float) for item in values):
        return None
    if any(isinstance(item, float) for item in values):
        return np.dtype("f8")
    # the first of int, uint, int64, uint64 that holds them
    kinds = ("u1",) if all(isinstance(item, bool) for item in values) else ("i4", "u4", "i8", "u8")
    bounds = {kind: np.iinfo(kind) for kind in kinds}
    low, high = min(values), max(values)
    return next((np.dtype(kind) for kind, of in bounds.items() if of.min <= low and high <= of.max), None)


def write_value(value: object, *, draft: bool, type_name: Callable[[Extension], str] | None = None) -> tuple[Any, str]:
    """Return an attribute's value as JSON, and its type code; Unsupported where netCDF has no such attribute.

    An empty list, and a list or object of other things than numbers or text, becomes JSON text: netcdf-c does not
    survive them. ``type_name``: the qualified name of a user type, in the draft.
    """
    match normalize_value(value):
        case np.str_() as text:
            return str(text), "string" if draft else _text_code([text])
        case str() as text:
            return text, "char" if draft else ">S1"
        case np.ndarray() | np.generic() as cells if cells.dtype.kind == "T":
            texts = [str(text) for text in np.ravel(cells)]
            return texts, "string" if draft else _text_code(texts)
        case cells:
            pass
    kind = tag_of(cells.dtype)
    if kind is not None:
        if type_name is None:
            message = f"the current dialect of NCZarr has no attributes of type {describe(kind)}"
            raise Unsupported(message, remedy="use dialect='draft', or write plain numbers")
        try:
            return _plain(cells, write_user_cell), type_name(kind)
        except UnicodeDecodeError as error:
            raise _unsupported(f"{describe(kind)} with text that is no UTF-8 ({error})") from None
    code = cells.dtype.newbyteorder("=").str[1:]
    return _plain(cells, cell_to_json), NUMBERS[code] if draft else f"<{code}"


def write_attributes(
    attrs: JsonMapping, *, draft: bool, type_name: Callable[[Extension], str] | None = None
) -> tuple[JsonObject, dict[str, str]]:
    """Return the values by name as JSON, and their type codes; errors name the attribute."""
    values, codes = {}, {}
    for name, value in attrs.items():
        if not name:
            raise Invalid("an attribute without a name", remedy="give it one: netCDF reads no other")
        with _name_attribute_in_errors(name):
            values[name], codes[name] = write_value(value, draft=draft, type_name=type_name)
    return values, codes


@contextmanager
def _name_attribute_in_errors(name: str) -> Iterator[None]:
    try:
        yield
    except Unsupported as error:
        raise Unsupported(f"attribute {name!r}: {error.message}", remedy=error.remedy) from None


def _text_code(texts: list[Any]) -> str:
    return f"|S{max(MAXIMUM_TEXT, *(len(str(text).encode()) for text in texts))}"


def _plain(cells: Any, cell: Callable[[Any], Any]) -> Any:
    return [cell(item) for item in cells] if np.ndim(cells) else cell(cells[()])


def normalize_attributes(attrs: JsonMapping) -> JsonObject:
    """Return the values as they will be read back; errors name the attribute."""
    result = {}
    for name, value in attrs.items():
        with _name_attribute_in_errors(name):
            result[name] = normalize_value(value)
    return result


def normalize_value(value: object) -> Any:
    """Return the value as it will be read back: text, ``np.str_``, a typed number, a 1-D array of them.

    Unsupported where netCDF has no such attribute.
    """
    match value:
        case str():
            return value
        case np.ndarray() | np.generic():
            return _regular_cells(np.asarray(value))
        case bool() | bytes() | complex():
            pass
        case int() | float():
            return _guess_number([value])
        case list() | tuple() if value and is_text_list([*value]):
            return _strings(list(map(str, value)))
        case list() | tuple() if value and all(_is_number(item) for item in value):
            return _guess_number([item.item() if isinstance(item, np.generic) else item for item in value])
        case None | list() | tuple() | dict():
            try:
                return json.dumps(value, ensure_ascii=False)
            except (TypeError, ValueError):
                raise _unsupported(f"{type(value).__name__} of other things than JSON values") from None
    raise _unsupported(type(value).__name__)


def _is_number(item: object) -> bool:
    return isinstance(item, int | float | np.integer | np.floating) and not isinstance(item, bool)


def _guess_number(values: list[object]) -> Any:
    dtype = _widest(values)
    if dtype is None:
        raise _unsupported("whole number of more than 64 bits")
    cells = np.array(values, dtype)
    return cells[0] if len(cells) == 1 else cells


def _regular_cells(cells: Values) -> Any:
    dtype = cells.dtype
    is_text = dtype.kind in "TU" or (dtype.kind == "O" and is_text_list([*cells.flat]))
    if cells.ndim > 1:
        raise _unsupported(f"array of {cells.ndim} dimensions")
    if is_text:
        texts = [str(item) for item in cells.reshape(-1)]
        return _strings(texts) if texts else "[]"
    if tag_of(dtype) is None and (dtype.kind not in "iuf" or dtype.newbyteorder("=").str[1:] not in NUMBERS):
        raise _unsupported(f"value of type {dtype}")
    if not cells.size:
        return "[]"
    cells = cells if tag_of(dtype) is not None else cells.astype(dtype.newbyteorder("="))
    if cells.size > 1:
        return cells
    return cells.reshape(()) if isinstance(tag_of(dtype), Enum | Opaque) else cells.reshape(-1)[0]


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"netCDF has no attribute for a {what}", remedy="give text, numbers or 1-D arrays of them")


# possessive quantifiers: no text makes the pattern go back, so that a hostile document costs one pass
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)


def source_texts(data: bytes) -> dict[str, str]:
    """Return the raw text of each member of the object in ``data``; of a damaged document as many as can be told.

    Takes what :func:`~hyperslab.formats.documents.mend_json` takes. Of a name that occurs twice the last
    counts.
    """
    check_limits(data)
    text = data.decode("utf-8-sig", "replace")
    result: dict[str, str] = {}
    depth, name, start, end, before = 0, None, -1, 0, ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if depth == 1 and token in (",", "}"):
            if name is not None and start >= 0:
                result[name] = text[start:end]
            name, start = None, -1
        elif depth == 1 and name is None and token == ":":
            name = _name(before)
        elif depth == 1 and name is not None and start < 0:
            start = match.start()
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        end, before = match.end(), token
        if depth == 0:
            break
    return result


def _name(token: str) -> str | None:
    try:
        name = json.loads(token)
    except ValueError:
        return None
    return text_or_none(name)
