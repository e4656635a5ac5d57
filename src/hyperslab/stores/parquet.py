"""Tables of references in Parquet, as kerchunk stores them: columns of 64-bit numbers, text and bytes.

What a general library brings besides (nested types, filters, a data frame) is not needed here, and its import takes
longer than to read a table. Format: Apache Parquet, ``parquet.thrift`` and "Encodings" (plain, dictionary, run
lengths), Thrift's compact protocol. No more is read than kerchunk, fastparquet, pyarrow and this module write.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.errors import FormatError, Unsupported

Numbers = np.ndarray[Any, np.dtype[np.int64]]

MAGIC = b"PAR1"
# A page that claims to be larger is damaged: a table of references has ten thousand rows of some twenty bytes each, and
# small values.
_MOST_PAGE = 64 << 20
# All pages of a table: a page of one value repeated comes out of a few bytes, so their sum is bounded by the file that
# they come out of. Offsets and sizes of a million chunks take 16 MiB.
_MOST_PAGES = 32 << 20
_MOST_RATIO = 16
# Columns of a table, whose pages may be the same ones: kerchunk has four.
_MOST_COLUMNS = 16
_DEPTH = 16
_INT32, _INT64, _BYTES = 1, 2, 6
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_GZIP = 2
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_UTF8 = 0  # ConvertedType
# Pages are written with gzip, which Python has itself: to import numcodecs for Zstandard takes 15 ms, ten times as long
# as to open a million references and read a chunk. Offsets take 2.8 bytes in place of 2.2; higher levels save 0.1 more.
_LEVEL = 1


@dataclass(frozen=True, eq=False)
class ParquetColumn:
    """The values of a column that are not null, and their rows. Of numbers ``values`` are int64; of text and bytes
    ``codes`` (int64) lead into the list ``values``."""

    rows: Numbers
    values: Numbers | list[bytes]
    codes: Numbers | None = None


# -- Thrift's compact protocol -----------------------------------------------------------------------------------------


class _ThriftReader:
    """Reads structs as mappings of the numbers of their fields to values."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEPTH:
            raise ValueError("structs in structs, without an end")
        found: dict[int, Any] = {}
        field = 0
        while header := self.byte():
            field = field + (header >> 4) if header >> 4 else self.number()
            found[field] = self.value(header & 15, depth)
        return found

    def value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.number()
            case 7:
                self.at += 8
                return None
            case 8:
                size = self.varint()
                start, self.at = self.at, self.at + size
                if self.at > len(self.data):
                    raise ValueError("text behind the end")
                return self.data[start : self.at]
            case 9 | 10:
                header = self.byte()
                size = header >> 4 if header >> 4 < 15 else self.varint()
                if size > len(self.data):
                    raise ValueError("a list longer than the file")
                inner = header & 15
                # in lists truth values take a byte each
                return [self.byte() == 1 if inner in (1, 2) else self.value(inner, depth + 1) for _ in range(size)]
            case 12:
                return self.struct(depth + 1)
        raise ValueError(f"a value of kind {kind}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else ~(value << 1))


def _text(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + _varint(size)
    return head + b"".join(items)


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """Return a struct of fields: number, kind, value."""
    out, last = bytearray(), 0
    for number, kind, value in fields:
        out.append(number - last << 4 | kind)
        out += value
        last = number
    return bytes(out + b"\0")


# -- numbers in few bits -----------------------------------------------------------------------------------------------


def _unpack(data: Any, width: int, count: int) -> Numbers:
    """Return ``count`` numbers of the hybrid of run lengths and packed bits."""
    if width > 32:
        raise ValueError(f"numbers of {width} bits")
    reader, found, left = _ThriftReader(bytes(data)), [], count
    size = -(-width // 8)
    while left > 0:
        header = reader.varint()
        if header & 1:
            groups = min(header >> 1, -(-left // 8))  # of eight numbers
            stop = reader.at + groups * width
            bits = np.unpackbits(np.frombuffer(reader.data[reader.at : stop], np.uint8), bitorder="little")
            rows = bits[: len(bits) - len(bits) % width if width else 0].reshape(-1, max(width, 1))
            run = np.zeros(len(rows) if width else groups * 8, np.int64)
            for bit in range(width):
                run |= rows[:, bit].astype(np.int64) << bit
        else:
            stop = reader.at + size
            value = int.from_bytes(reader.data[reader.at : stop], "little")
            run = np.full(min(header >> 1, left), value, np.int64)
        if not len(run):
            raise ValueError("an empty run")
        reader.at = stop
        found.append(run[:left])
        left -= len(run)
    return np.concatenate([np.zeros(0, np.int64), *found])


def _pack(values: Numbers, width: int) -> bytes:
    """Return numbers as one run of packed bits."""
    padded = np.zeros(-(-len(values) // 8) * 8, np.int64)
    padded[: len(values)] = values
    bits = (padded[:, None] >> np.arange(width)) & 1
    return (
        _varint(len(padded) // 8 << 1 | 1) + np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def read_table(data: bytes, url: str, most: int) -> tuple[int, dict[str, ParquetColumn]]:
    """Return the number of rows, and the columns of a table by their names. FormatError, also for more than ``most``
    rows; Unsupported."""
    try:
        return _read(data, most)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, RuntimeError, zlib.error) as error:
        raise FormatError(f"this is no sound table of Parquet: {error}", url=url) from error


def _read(data: bytes, most: int) -> tuple[int, dict[str, ParquetColumn]]:
    if data[:4] != MAGIC or data[-4:] != MAGIC or len(data) < 12:
        raise ValueError("it does not begin and end with PAR1")
    size = int.from_bytes(data[-8:-4], "little")
    if size > len(data) - 12:
        raise ValueError("its metadata are longer than it")
    meta = _ThriftReader(data, len(data) - 8 - size).struct()
    is_optional = {each[4]: each.get(3, 0) == 1 for each in meta[2][1:]}
    if len(is_optional) > _MOST_COLUMNS:
        raise ValueError(f"{len(is_optional)} columns")
    budget = _Budget(_MOST_PAGES + _MOST_RATIO * len(data))
    parts: dict[str, list[tuple[int, ParquetColumn]]] = {}
    start = 0
    for group in meta[4]:
        if not 0 <= group[3] <= most - start:
            raise ValueError(f"{start + group[3]} rows, where there are {most} at the most")
        names = [name for chunk in group[1] for name in chunk[3][3]]
        if len(set(names)) < len(group[1]):
            raise ValueError("two columns of one name")
        if not group[3]:
            continue
        for name, chunk in zip(names, group[1], strict=True):
            found = _read_column(data, chunk[3], group[3], budget, is_optional=is_optional[name])
            parts.setdefault(name.decode(), []).append((start, found))
        start += group[3]
    return start, {name: _join(columns) for name, columns in parts.items()}


def _join(parts: Sequence[tuple[int, ParquetColumn]]) -> ParquetColumn:
    """Return the columns of several groups of rows as one."""
    if len(parts) == 1:
        return parts[0][1]
    rows = np.concatenate([column.rows + start for start, column in parts])
    if parts[0][1].codes is None:
        return ParquetColumn(rows, np.concatenate([column.values for _, column in parts]))
    values: list[bytes] = []
    codes = []
    for _, column in parts:
        assert column.codes is not None  # all are of one type
        codes.append(column.codes + len(values))
        values += column.values
    return ParquetColumn(rows, values, np.concatenate(codes))


class _Budget:
    """The bytes that all pages of a table may yet have, as stored and when they are decompressed."""

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes

    def take(self, nbytes: int) -> int:
        """Return the bytes of a page. ValueError for more than there may be."""
        if not 0 <= nbytes <= min(self._left, _MOST_PAGE):
            raise ValueError(f"a page of {nbytes} bytes")
        self._left -= nbytes
        return nbytes


def _read_column(
    data: bytes, meta: Mapping[int, Any], count: int, budget: _Budget, *, is_optional: bool
) -> ParquetColumn:
    kind, codec = meta[1], meta[4]
    at = min(meta[9], meta.get(11) or meta[9])
    dictionary: Numbers | list[bytes] | None = None
    rows, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    texts: list[bytes] = []
    done = 0
    while done < meta[5]:
        reader = _ThriftReader(data, at)
        header = reader.struct()
        at = reader.at + budget.take(header[3])
        page = data[reader.at : at]
        if header[1] == _DICTIONARY_PAGE:
            if dictionary is not None or not 0 <= header[7][1] <= count:
                raise ValueError("a second dictionary, or one of more values than there are rows")
            dictionary = _plain(_decompress(page, codec, budget.take(header[2])), kind, header[7][1])
            texts = [*dictionary] if isinstance(dictionary, list) else texts
        elif header[1] in (_DATA_PAGE, _DATA_PAGE_V2):
            number, encoding, present, page = _open_page(
                page, header, codec, count - done, budget, is_optional=is_optional
            )
            found = _decode_page(page, kind, encoding, len(present), dictionary)
            if isinstance(found, list):
                start = len(texts)
                texts += found
                found = np.arange(start, len(texts))
            rows.append(present + done)
            numbers.append(found)
            done += number
        else:
            raise ValueError(f"a page of kind {header[1]}")
    every, values = np.concatenate(rows), np.concatenate(numbers)
    return ParquetColumn(every, texts, values) if kind == _BYTES else ParquetColumn(every, values)


def _open_page(
    page: bytes, header: Mapping[int, Any], codec: int, most: int, budget: _Budget, *, is_optional: bool
) -> tuple[int, int, Numbers, bytes]:
    """Return the number of rows of a page, its encoding, the rows with a value, and the encoded values. ValueError for
    none, or more than ``most`` rows."""
    size = budget.take(header[2])
    number = header[5 if header[1] == _DATA_PAGE else 8][1]
    if not 0 < number <= most:
        raise ValueError("a page without rows, or with more than there are")
    if header[1] == _DATA_PAGE:
        page = _decompress(page, codec, size)
        encoding = header[5][2]
        if not is_optional:
            return number, encoding, np.arange(number), page
        size = int.from_bytes(page[:4], "little")
        return number, encoding, np.flatnonzero(_unpack(page[4 : 4 + size], 1, number)), page[4 + size :]
    about = header[8]
    levels = about.get(5, 0) + about.get(6, 0)
    present = np.flatnonzero(_unpack(page[:levels], 1, number)) if levels else np.arange(number)
    values = page[levels:]
    return number, about[4], present, _decompress(values, codec, size - levels) if about.get(7, True) else values


def _decode_page(
    page: bytes, kind: int, encoding: int, count: int, dictionary: Numbers | list[bytes] | None
) -> Numbers | list[bytes]:
    """Return the values of a page; of text in a dictionary the places there."""
    if encoding == _PLAIN:
        return _plain(page, kind, count)
    if encoding not in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
        raise Unsupported(f"references in Parquet with the encoding {encoding}", remedy="write them anew")
    if dictionary is None:
        raise ValueError("a dictionary is missing")
    picked = _unpack(page[1:], page[0], count) if count else np.zeros(0, np.int64)
    if len(picked) and picked.max() >= len(dictionary):
        raise ValueError("a value behind the end of the dictionary")
    return picked if isinstance(dictionary, list) else dictionary[picked]


def _plain(page: bytes, kind: int, count: int) -> Numbers | list[bytes]:
    if kind in (_INT32, _INT64):
        return np.frombuffer(page, "<i4" if kind == _INT32 else "<i8", count).astype(np.int64)
    if kind != _BYTES:
        raise Unsupported(f"references in Parquet with columns of type {kind}", remedy="write them anew")
    found, at = [], 0
    for _ in range(count):
        size = int.from_bytes(page[at : at + 4], "little")
        at += 4 + size
        if at > len(page):
            raise ValueError("text behind the end")
        found.append(page[at - size : at])
    return found


def _decompress(data: bytes, codec: int, size: int) -> bytes:
    if size < 0:
        raise ValueError(f"a page of {size} bytes")
    match codec:
        case 0:  # none
            return data
        case 2:  # gzip
            found = zlib.decompressobj(31).decompress(data, size + 1)
        case 6:  # Zstandard
            from numcodecs.zstd import Zstd

            out = np.empty(size, np.uint8)
            found = bytes(Zstd().decode(data, out)) if size else b""
        case _:
            raise Unsupported(
                f"references in Parquet with the compression {codec}", remedy="write them with zstd or gzip"
            )
    if len(found) != size:
        raise ValueError("a page of another length than it says")
    return found


# -- writing -----------------------------------------------------------------------------------------------------------


def write_table(rows: int, columns: Mapping[str, ParquetColumn]) -> bytes:
    """Return a table of one group of rows. Numbers have a value in each row; text is UTF-8 unless it is ``raw``."""
    out = bytearray(MAGIC)
    chunks, schema = [], [_struct((4, 8, _text(b"schema")), (5, 5, _number(len(columns))))]
    for name, column in columns.items():
        codes = column.codes
        is_text = codes is not None
        kind = _BYTES if is_text else _INT64
        head = [(1, 5, _number(kind)), (3, 5, _number(int(is_text))), (4, 8, _text(name.encode()))]
        schema.append(_struct(*head, *([(6, 5, _number(_UTF8))] if is_text and name != "raw" else [])))
        start, dictionary_at = len(out), None
        total = 0
        if codes is None:
            page = np.asarray(column.values, "<i8").tobytes()
        else:
            words = b"".join(len(value).to_bytes(4, "little") + value for value in map(bytes, column.values))
            dictionary_at = start
            total += _add_page(out, words, _DICTIONARY_PAGE, len(column.values))
            if len(column.rows) == rows:
                packed = _varint(rows << 1) + b"\1"
            else:
                packed = _pack(np.isin(np.arange(rows), column.rows).astype(np.int64), 1)
            width = max(1, (len(column.values) - 1).bit_length())
            page = len(packed).to_bytes(4, "little") + packed + bytes([width]) + _pack(codes, width)
        data_at = len(out)
        total += _add_page(out, page, _DATA_PAGE, rows, _RLE_DICTIONARY if is_text else _PLAIN)
        encodings = [_number(each) for each in (_PLAIN, _RLE, *((_RLE_DICTIONARY,) if is_text else ()))]
        fields = [
            (1, 5, _number(kind)),
            (2, 9, _list(5, encodings)),
            (3, 9, _list(8, [_text(name.encode())])),
            (4, 5, _number(_GZIP)),
            (5, 6, _number(rows)),
            (6, 6, _number(total)),
            (7, 6, _number(len(out) - start)),
            (9, 6, _number(data_at)),
        ]
        if dictionary_at is not None:
            fields.append((11, 6, _number(dictionary_at)))
        # Without the number of nulls fastparquet makes floats of whole numbers.
        fields.append((12, 12, _struct((3, 6, _number(rows - len(column.rows))))))
        chunks.append(_struct((2, 6, _number(start)), (3, 12, _struct(*fields))))
    size = len(out) - len(MAGIC)
    group = _struct((1, 9, _list(12, chunks)), (2, 6, _number(size)), (3, 6, _number(rows)))
    meta = _struct(
        (1, 5, _number(1)),
        (2, 9, _list(12, schema)),
        (3, 6, _number(rows)),
        (4, 9, _list(12, [group])),
        (6, 8, _text(b"hyperslab")),
    )
    return bytes(out) + meta + len(meta).to_bytes(4, "little") + MAGIC


def _add_page(out: bytearray, page: bytes, kind: int, count: int, encoding: int = _PLAIN) -> int:
    """Append a page with its header; return its bytes before they are compressed."""
    packer = zlib.compressobj(_LEVEL, wbits=31)
    data = packer.compress(page) + packer.flush()
    sizes = [(1, 5, _number(kind)), (2, 5, _number(len(page))), (3, 5, _number(len(data)))]
    if kind == _DICTIONARY_PAGE:
        about = (7, 12, _struct((1, 5, _number(count)), (2, 5, _number(_PLAIN))))
    else:
        levels = [(3, 5, _number(_RLE)), (4, 5, _number(_RLE))]
        about = (5, 12, _struct((1, 5, _number(count)), (2, 5, _number(encoding)), *levels))
    header = _struct(*sizes, about)
    out += header + data
    return len(header) + len(page)
