"""The entries of a zip archive, read by position and checked before anything is inflated (PKWARE APPNOTE 6.3.10)."""

from __future__ import annotations

import os
import struct
import threading
import zlib
from dataclasses import dataclass
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from hyperslab.errors import CorruptChunk, FormatError, MemoryLimit, Problem, Unsupported
from hyperslab.stores.files import read_error
from hyperslab.stores.keys import is_key

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_MOST_RATIO = 1032
"""Deflate cannot shrink anything further (zlib's FAQ, "technical details": 1032:1)."""
_MOST_DOCUMENT = 64 << 20
"""No reader of documents takes a longer one; deflated, 64 KiB of an archive could hold it."""
_BROKEN = (BadZipFile, struct.error, ValueError, OverflowError, EOFError, UnicodeError, KeyError, IndexError)


def read_directory(url: str, file: IO[bytes]) -> dict[str, ZipInfo]:
    """The entries by key, the last of each name; folders and names that are no keys are left out."""
    try:
        with ZipFile(file) as archive:
            infos = archive.infolist()
    except NotImplementedError as error:
        raise Unsupported(f"this zip archive cannot be read: {error}", url=url) from error
    except _BROKEN as error:
        raise FormatError(f"this is no sound zip archive: {error}", url=url, remedy="get a whole copy of it") from error
    return {info.orig_filename: info for info in infos if is_key(info.orig_filename)}


@dataclass
class Entries:
    """An open archive. ``limit`` is the most bytes that one entry may inflate to."""

    url: str
    file: IO[bytes]
    limit: int

    def __post_init__(self) -> None:
        self._turn = threading.Lock()

    def read(self, key: str, info: ZipInfo) -> bytes:
        """The whole entry: its sizes are checked before it is read, its checksum afterwards."""
        self._check(key, info)
        data = self._pread(key, self._start(key, info), info.compress_size)
        if info.compress_type == ZIP_DEFLATED:
            data = self._inflate(key, data, info.file_size)
        found = zlib.crc32(data)
        if found != info.CRC:
            expected = f"{info.CRC:08x}"
            raise CorruptChunk("wrong CRC-32", expected=expected, found=f"{found:08x}", url=self.url, key=key)
        return data

    def read_part(self, key: str, info: ZipInfo, first: int, last: int) -> bytes:
        """Some bytes of an entry that is stored as it is; without its checksum, which is that of the whole."""
        self._check(key, info)
        return self._pread(key, self._start(key, info) + first, last - first)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _check(self, key: str, info: ZipInfo) -> None:
        if info.flag_bits & 0x41:
            raise Unsupported("an encrypted zip entry", url=self.url, key=key, remedy="decrypt the archive first")
        if info.compress_type == ZIP_STORED:
            sound = info.compress_size == info.file_size
        elif info.compress_type == ZIP_DEFLATED:
            sound = info.file_size <= info.compress_size * _MOST_RATIO
        else:
            remedy = "pack it again with 'store' or 'deflate'"
            message = f"zip entries of compression method {info.compress_type}"
            raise Unsupported(message, url=self.url, key=key, remedy=remedy)
        if not sound or info.compress_size > os.fstat(self.file.fileno()).st_size:
            raise FormatError("the sizes of a zip entry contradict one another", url=self.url, key=key)
        if info.compress_type == ZIP_DEFLATED:
            self._check_inflated(key, info)

    def _check_inflated(self, key: str, info: ZipInfo) -> None:
        if info.file_size > _MOST_DOCUMENT and _is_document(key):
            message = f"a document of {info.file_size} bytes, {_MOST_DOCUMENT} are allowed"
            raise FormatError(message, url=self.url, key=key, problems=(Problem("", "json-size", message),))
        if info.file_size > self.limit:
            message = f"a zip entry inflates to {info.file_size} bytes"
            raise MemoryLimit(
                message, url=self.url, key=key, remedy="give ZipStore a larger limit, or unpack the archive"
            )

    def _start(self, key: str, info: ZipInfo) -> int:
        header = self._pread(key, info.header_offset, _LOCAL_HEADER.size)
        magic, name, extra = _LOCAL_HEADER.unpack(header)
        if magic != b"PK\3\4":
            raise FormatError("a zip entry is not where the directory says", url=self.url, key=key)
        return int(info.header_offset + _LOCAL_HEADER.size + name + extra)

    def _pread(self, key: str, start: int, size: int) -> bytes:
        if start < 0:
            raise FormatError("a zip entry is not where the directory says", url=self.url, key=key)
        parts = []
        try:
            while size:
                part = self._read_at(start, size)
                if not part:
                    raise FormatError("the zip archive ends within an entry", url=self.url, key=key)
                parts.append(part)
                start, size = start + len(part), size - len(part)
        except OSError as error:
            raise read_error(error, self.url, key) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_at(self, start: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.file.fileno(), size, start)
        with self._turn:
            self.file.seek(start)
            return self.file.read(size)

    def _inflate(self, key: str, data: bytes, size: int) -> bytes:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            out = stream.decompress(data, size + 1)
        except zlib.error as error:
            raise CorruptChunk(f"a zip entry cannot be inflated: {error}", url=self.url, key=key) from error
        if len(out) != size or not stream.eof:
            found = len(out) if len(out) <= size else f"more than {size}"
            raise CorruptChunk("a zip entry of another size", expected=size, found=found, url=self.url, key=key)
        return out


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name.endswith(".json") or name.startswith(".z")
