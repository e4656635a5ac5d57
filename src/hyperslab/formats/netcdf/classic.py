"""The header of a netCDF-3 file: where each variable's cells lie and how long the file must be.

The netCDF library reads zeros from a file that was cut off and opens a shorter header as an empty dataset, so the
header is parsed here too (grammar: NetCDF Classic Format Specification; version 1, 2 or 5 says how wide its numbers
are). Nothing is allocated by what the header claims before the bytes were seen.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from hyperslab.errors import FormatError
from hyperslab.formats.format_errors import document_error

MAGICS = {b"CDF\x01": 1, b"CDF\x02": 2, b"CDF\x05": 5}
# The tags of lists, the bytes of each type by its number (NC_BYTE ... NC_UINT64).
_TAGS = {"dimensions": 0x0A, "variables": 0x0B, "attributes": 0x0C}
_ITEMSIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
_CHAR = 2  # NC_CHAR
# The number of records that stands for "unknown" (STREAMING), by the width of numbers in bytes.
_STREAMING = {4: 2**32 - 1, 8: 2**64 - 1}
# No more of what a header claims is parsed, so that a damaged one takes neither time nor memory.
_MAX_ELEMENTS = 10**6
_MAX_RANK = 1024


@dataclass(frozen=True, slots=True)
class ClassicVariable:
    """A variable of the header: first byte, bytes of one record (or of all cells), whether it has records."""

    name: str
    begin: int
    nbytes: int
    record: bool


Texts = dict[str, tuple[int, bytes]]
"""Attributes of chars by their names: the first byte, and what stands there."""


@dataclass(frozen=True, slots=True)
class ClassicHeader:
    """The header of a netCDF-3 file: its variables, and the least number of bytes that hold their cells.

    ``texts``: by variable (None: of the file), the attributes of chars, which netCDF4 neither gives nor takes with all
    of their NULs.
    """

    variables: tuple[ClassicVariable, ...]
    size: int
    texts: Mapping[str | None, Texts]

    def find(self, name: str) -> ClassicVariable | None:
        """Return the variable of this name; None when there is none."""
        return next((variable for variable in self.variables if variable.name == name), None)


class _Cursor:
    """Reads numbers and names one after another from the mapped file."""

    def __init__(self, data: mmap.mmap | bytes, version: int) -> None:
        self.data = data
        self.place = 4
        self.width = 8 if version == 5 else 4
        self.wide = 4 if version == 1 else 8
        self.left = _MAX_ELEMENTS

    def number(self, width: int) -> int:
        start, self.place = self.place, self.place + width
        if self.place > len(self.data):
            raise _header_error("the file ends within the header")
        value: int = struct.unpack_from(">I" if width == 4 else ">Q", self.data, start)[0]
        return value

    def count(self) -> int:
        return self.number(self.width)

    def skip(self, size: int) -> int:
        """Skip ``size`` bytes padded to a multiple of four; return where they start."""
        start, self.place = self.place, self.place + size + -size % 4
        if self.place > len(self.data):
            raise _header_error("the file ends within the header")
        return start

    def name(self) -> str:
        size = self.count()
        start = self.skip(size)
        return self.data[start : start + size].decode("utf-8", "replace")

    def items(self, kind: str) -> range:
        """Return the elements of a list; an absent one has none."""
        tag, count = self.number(4), self.count()
        if tag != _TAGS[kind] and (tag or count):
            raise _header_error(f"the list of {kind} has the tag {tag}")
        self.left -= count
        if self.left < 0:
            raise _header_error(f"the header lists more than {_MAX_ELEMENTS} elements")
        return range(count)


def parse_header(data: mmap.mmap | bytes) -> ClassicHeader:
    """Return the header at the beginning of ``data`` (the whole file); FormatError when it breaks the grammar."""
    version = MAGICS.get(bytes(data[:4]))
    if version is None:
        raise _header_error("the file does not begin with the mark of netCDF-3")
    cursor = _Cursor(data, version)
    records = cursor.count()
    if records == _STREAMING[cursor.width]:
        records = 0
    lengths = []
    for _ in cursor.items("dimensions"):
        cursor.name()
        lengths.append(cursor.count())
    texts: dict[str | None, Texts] = {None: _texts(cursor)}
    variables = tuple(_variable(cursor, lengths, texts) for _ in cursor.items("variables"))
    if len({variable.name for variable in variables}) < len(variables):
        raise _header_error("two variables have the same name")
    recorded = [variable for variable in variables if variable.record]
    ends = [variable.begin + variable.nbytes for variable in variables if not variable.record]
    if recorded and records:
        stride = _stride(recorded)
        ends += [variable.begin + (records - 1) * stride + variable.nbytes for variable in recorded]
    return ClassicHeader(variables, max([cursor.place, *ends]), texts)


def _texts(cursor: _Cursor) -> Texts:
    """Return the attributes of chars in a list of attributes."""
    found = {}
    for _ in cursor.items("attributes"):
        name, kind = cursor.name(), cursor.number(4)
        size = cursor.count() * _itemsize(kind)
        start = cursor.skip(size)
        if kind == _CHAR:
            found[name] = start, bytes(cursor.data[start : start + size])
    return found


def _variable(cursor: _Cursor, lengths: list[int], texts: dict[str | None, Texts]) -> ClassicVariable:
    name = cursor.name()
    rank = cursor.count()
    if rank > _MAX_RANK:
        raise _header_error(f"the variable {name!r} claims {rank} dimensions")
    ids = [cursor.count() for _ in range(rank)]
    if any(i >= len(lengths) for i in ids):
        raise _header_error(f"the variable {name!r} names a dimension that does not exist")
    texts[name] = _texts(cursor)
    itemsize = _itemsize(cursor.number(4))
    cursor.count()  # vsize is redundant, and wrong where a variable is larger than 4 GiB
    begin = cursor.number(cursor.wide)
    shape = [lengths[i] for i in ids]
    record = bool(shape) and shape[0] == 0
    return ClassicVariable(name, begin, itemsize * prod(shape[1:] if record else shape), record)


def _itemsize(kind: int) -> int:
    if kind not in _ITEMSIZES:
        raise _header_error(f"there is no type number {kind}")
    return _ITEMSIZES[kind]


def cell_spans(header: ClassicHeader, name: str) -> list[tuple[int, int]]:
    """Return where the cells of a variable lie, one span per record."""
    found = header.find(name)
    if found is None:
        return []
    if not found.record:
        return [(found.begin, found.begin + found.nbytes)]
    recorded = [variable for variable in header.variables if variable.record]
    stride = _stride(recorded)
    starts = range(found.begin, header.size, stride) if stride else ()
    return [(start, min(start + found.nbytes, header.size)) for start in starts]


def _stride(recorded: list[ClassicVariable]) -> int:
    """Return the bytes from one record to the next; a single record variable is packed without padding."""
    return sum(v.nbytes + -v.nbytes % 4 for v in recorded) if len(recorded) > 1 else recorded[0].nbytes


def _header_error(message: str) -> FormatError:
    return document_error("netcdf3-header", message)
