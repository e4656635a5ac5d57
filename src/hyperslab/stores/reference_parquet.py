"""References in kerchunk's Parquet: a folder with all documents in ``.zmetadata``, and tables of chunks.

Each table ``<array>/refs.<number>.parq`` has so many chunks of an array, and is read when one of them is. The row of a
chunk is its number in C order. ``path`` with ``offset`` and ``size`` says where it lies (0 and 0: the whole file), else
it stands in ``raw``; where both are null it was never written. Reference: fsspec's ``LazyReferenceMapper``.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod

import numpy as np

from hyperslab.errors import FormatError, NotFound
from hyperslab.stores.files import read_error
from hyperslab.stores.keys import below, is_key
from hyperslab.stores.parquet import read_table
from hyperslab.stores.reference_table import (
    METADATA,
    VERSIONS,
    Entry,
    ReferenceTable,
    decode_object,
    is_remote,
    names_below,
    read_versions,
)

# Rows of tables that are kept: 64 tables of ten thousand rows each, which is what kerchunk writes, take some 15 MB.
_MOST_KEPT = 640_000
# Rows of one table: a few bytes may claim any number of them. VirtualiZarr writes a hundred thousand.
_MOST_ROWS = 1_000_000
_TABLE = re.compile(r"refs\.(0|[1-9][0-9]*)\.parq")


class _Record:
    """One table, by its rows, of which there are no more than ``most``."""

    def __init__(self, data: bytes, url: str, most: int) -> None:
        rows, columns = read_table(data, url, most)
        self.codes = np.full(rows, -1, np.int64)
        self.names: list[str] = []
        self.offsets = self.sizes = np.zeros(rows, np.int64)
        self.raw: dict[int, bytes] = {}
        for name, column in columns.items():
            values, codes = column.values, column.codes
            if name == "path" and codes is not None:
                self.codes[column.rows] = codes
                try:
                    self.names = [bytes(value).decode() for value in values]
                except UnicodeDecodeError as error:
                    raise FormatError(f"a path is no text: {error}", url=url) from None
            elif name == "raw" and codes is not None:
                self.raw = {
                    row: bytes(values[code]) for row, code in zip(column.rows.tolist(), codes.tolist(), strict=True)
                }
            elif name in ("offset", "size") and codes is None:
                full = np.zeros(rows, np.int64)
                full[column.rows] = values
                self.offsets, self.sizes = (full, self.sizes) if name == "offset" else (self.offsets, full)

    def find(self, row: int) -> Entry | None:
        """Return what stands in a row."""
        if row in self.raw:
            return self.raw[row]
        if row >= len(self.codes) or self.codes[row] < 0:
            return None
        name, offset, size = self.names[self.codes[row]], int(self.offsets[row]), int(self.sizes[row])
        return [name, offset, size] if offset or size else [name]

    def stored(self) -> Sequence[int]:
        """Return the rows in which something stands."""
        return sorted({*np.flatnonzero(self.codes >= 0).tolist(), *self.raw})


class ParquetReferences(ReferenceTable):
    """The references in a folder at a path; no file larger than ``limit`` bytes is read."""

    def __init__(self, path: str, url: str, limit: int) -> None:
        self._path = os.path.realpath(path)
        self._url = url
        self._limit = limit
        self._document = self._read(METADATA) or b""
        if not self._document:
            raise NotFound("there are no references", url=url, key=METADATA)
        document = decode_object(self._document, url, METADATA)
        metadata, rows = document.get("metadata"), document.get("record_size")
        if not isinstance(metadata, dict) or type(rows) is not int or rows < 1:
            raise FormatError("no documents, or no number of rows", url=url, key=METADATA)
        if rows > _MOST_ROWS:
            remedy = f"write them anew, with record_size={_MOST_ROWS} or less"
            raise FormatError(
                f"tables of {rows} rows, more than are read at once", url=url, key=METADATA, remedy=remedy
            )
        self._is_consolidated = "zarr_consolidated_format" in document
        self._documents: dict[str, Entry] = {key: each for key, each in metadata.items() if is_key(key)}
        self._rows = rows
        self._most_tables = max(1, _MOST_KEPT // rows)
        self.targets = {}
        self.versions = read_versions(document.get(VERSIONS), url)
        self._records: OrderedDict[tuple[str, int], _Record | None] = OrderedDict()
        self._counts: dict[str, tuple[int, ...] | None] = {}
        self._lock = threading.Lock()

    def _confined(self, name: str) -> str:
        """Return the real path of a file or folder below this one. FormatError for one that leads out of it."""
        place = os.path.realpath(os.path.join(self._path, name))
        if not place.startswith(os.path.join(self._path, "")):
            raise FormatError("a link leads out of the folder", url=self._url, key=name)
        return place

    def _read(self, name: str) -> bytes | None:
        """Return a file below the folder; None when it is missing. FormatError for one that is too large, or leads out
        of the folder."""
        place = self._confined(name)
        try:
            if os.path.getsize(place) > self._limit:
                remedy = "give storage_options={'limit': bytes} if you trust it"
                raise FormatError(f"it has more than {self._limit} bytes", url=self._url, key=name, remedy=remedy)
            with open(place, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise read_error(error, self._url, name) from error

    def find(self, key: str) -> Entry | None:
        found = self._documents.get(key)
        if found is not None:
            return found if isinstance(found, dict | str) else None
        if key == METADATA:
            return self._document if self._is_consolidated else None
        array, _, name = key.rpartition("/")
        counts = self._grid(array)
        number = None if counts is None else _number_of(name, counts)
        if number is None:
            return None
        record = self._record(array, number // self._rows)
        return None if record is None else record.find(number % self._rows)

    def _grid(self, array: str) -> tuple[int, ...] | None:
        """Return the chunks of an array along each axis; None where there is no array."""
        if array not in self._counts:
            document = self._documents.get(f"{array}/.zarray")
            shape, chunks = (
                (document.get(name) for name in ("shape", "chunks")) if isinstance(document, dict) else (0, 0)
            )
            counts = None
            if isinstance(shape, list) and isinstance(chunks, list) and len(shape) == len(chunks):
                numbers = [*shape, *chunks]
                if all(type(each) is int for each in numbers) and all(each > 0 for each in chunks):
                    counts = tuple(-(-length // size) for length, size in zip(shape, chunks, strict=True))
            self._counts[array] = counts
        return self._counts[array]

    def _record(self, array: str, number: int) -> _Record | None:
        """Return a table; None where it is missing."""
        place = array, number
        with self._lock:
            if place in self._records:
                self._records.move_to_end(place)
                return self._records[place]
        name = f"{array}/refs.{number}.parq"
        data = self._read(name)
        record = None if data is None else _Record(data, f"{self._url}/{name}", self._rows)
        with self._lock:
            self._records[place] = record
            if len(self._records) > self._most_tables:
                self._records.popitem(last=False)
        return record

    def _chunks(self, array: str) -> Iterator[str]:
        """Yield the names of the chunks of an array that are stored."""
        counts = self._grid(array)
        total = 0 if counts is None else prod(counts)
        if counts is None or not total:
            return
        # Numbers of more than 64 bits are Python's.
        kind = np.int64 if total < 2**63 else object
        for number in self._tables(array, -(-total // self._rows)):
            record = self._record(array, number)
            if record is None:
                continue
            numbers = np.array(record.stored(), kind) + number * self._rows
            numbers = numbers[numbers < total]
            if not counts:
                yield from ["0"] * len(numbers)
                continue
            axes = []
            for count in reversed(counts):
                axes.append(map(str, (numbers % count).tolist()))
                numbers = numbers // count
            yield from map(".".join, zip(*reversed(axes), strict=True))

    def _tables(self, array: str, most: int) -> list[int]:
        """Return the numbers of the tables that an array has, of which there can be so many."""
        try:
            names = os.listdir(self._confined(array))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise read_error(error, self._url, array) from error
        found = (int(match[1]) for match in map(_TABLE.fullmatch, names) if match)
        return sorted(number for number in found if number < most)

    def list(self, prefix: str) -> Iterator[str]:
        start = below(prefix)
        found = [key for key in self._documents if key.startswith(start)]
        arrays = [key.rpartition("/")[0] for key in self._documents if key.endswith("/.zarray")]
        found += [
            f"{array}/{name}" for array in arrays if f"{array}/".startswith(start) for name in self._chunks(array)
        ]
        yield from sorted(found + [METADATA] * (self._is_consolidated and not prefix))

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        names, folders = names_below(list(self._documents), prefix)
        return sorted({*names, *self._chunks(prefix)}), folders

    @cached_property
    def is_remote(self) -> bool:
        """Return True if a file lies on a server: of those whose versions are noted, else of those of a table."""
        if self.versions:
            return any(map(is_remote, self.versions))
        for key in self._documents:
            array, _, name = key.rpartition("/")
            record = self._record(array, 0) if name == ".zarray" and array else None
            if record is not None and record.names:
                return any(map(is_remote, record.names))
        return False


def _number_of(name: str, counts: tuple[int, ...]) -> int | None:
    """Return the number of a chunk in C order by its name; None for what is none of the grid."""
    parts = name.split(".") if counts else []
    if len(parts) != len(counts) or (not counts and name != "0"):
        return None
    number = 0
    for part, count in zip(parts, counts, strict=True):
        if not part.isascii() or not part.isdigit() or (part[0] == "0" and part != "0") or int(part) >= count:
            return None
        number = number * count + int(part)
    return number
