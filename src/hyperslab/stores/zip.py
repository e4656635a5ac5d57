"""A store that is one zip archive: read in place, and written whole under a temporary name until it is closed."""

from __future__ import annotations

import os
import shutil
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedRandom, FileIO
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from hyperslab.errors import Conflict, CorruptChunk, FormatError, Invalid, MemoryLimit, NotFound, Problem, Unsupported
from hyperslab.stores import counting
from hyperslab.stores.base import Buffer, Stamp, Store, StoreTraits
from hyperslab.stores.files import discard, open_folder, read_error, sync_folder, write_error
from hyperslab.stores.keys import below, check_key, check_prefix, is_key, temporary_name
from hyperslab.stores.locks import hold_folder
from hyperslab.stores.ranges import span
from hyperslab.stores.system import pread, replace_file
from hyperslab.stores.unclosed import Unclosed
from hyperslab.stores.unexpected_files import remove_leftovers

# -- entries of an archive ---------------------------------------------------------------------------------------------
# They are read by position and checked before anything is inflated (PKWARE APPNOTE 6.3.10).


_LOCAL_HEADER = struct.Struct("<4s22xHH")
# Deflate cannot shrink anything further (zlib's FAQ, "technical details": 1032:1).
_MOST_RATIO = 1032
# No reader of documents takes a longer one; deflated, 64 KiB of an archive could hold it.
_MOST_DOCUMENT = 64 << 20
_BROKEN = (BadZipFile, struct.error, ValueError, OverflowError, EOFError, UnicodeError, KeyError, IndexError)


def read_directory(url: str, file: IO[bytes]) -> dict[str, ZipInfo]:
    """Return the entries by key, the last of each name; folders and names that are no keys are left out."""
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
        """Return the whole entry: its sizes are checked before it is read, its checksum afterwards."""
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
        """Return some bytes of an entry that is stored as it is; without its checksum, which is that of the whole."""
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
        if info.compress_type != ZIP_DEFLATED:
            return
        name = key.rpartition("/")[2]
        if info.file_size > _MOST_DOCUMENT and (name.endswith(".json") or name.startswith(".z")):
            message = f"a document of {info.file_size} bytes, {_MOST_DOCUMENT} are allowed"
            raise FormatError(message, url=self.url, key=key, problems=(Problem("", "json-size", message),))
        if info.file_size > self.limit:
            message = f"a zip entry inflates to {info.file_size} bytes"
            remedy = "give ZipStore a larger limit, or unpack the archive"
            raise MemoryLimit(message, url=self.url, key=key, remedy=remedy)

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
                part: bytes = pread(self.file.fileno(), size, start)
                if not part:
                    raise FormatError("the zip archive ends within an entry", url=self.url, key=key)
                parts.append(part)
                start, size = start + len(part), size - len(part)
        except OSError as error:
            raise read_error(error, self.url, key) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

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


Version = tuple[int, int, int, int]

# Seconds in which others who close an archive in the folder are waited for.
_PATIENCE = 30.0
_TRAITS = StoreTraits(stamped=True, ranges=True)
# The one date that entries get, so that equal contents make equal archives.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class ZipStore(Store):
    """The entries of the archive at ``path`` by their names; new ones are stored without compression.

    What is written becomes visible to others when the store is closed, all of it at one stroke and durably; a crash
    before that leaves the old archive. Of two writers the one that closes last gets a Conflict. An archive whose
    entries all lie in one folder is read as if that were its root; longer names work too. ``limit`` is the most bytes
    that one compressed entry may inflate to.
    """

    _new: ZipFile | None = None
    _entries: Entries | None = None
    _file: BufferedRandom | None = None
    _temporary = ""
    _before: Version | None = None

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False, limit: int = 1 << 30) -> None:
        self._turn = threading.RLock()
        self._path = os.path.abspath(os.fspath(path))
        super().__init__(f"zip://{self._path}", read_only=read_only)
        self._limit = limit
        self._held_back = Unclosed(self, self.url)
        self._infos: dict[str, ZipInfo] = {}
        if os.path.exists(self._path):
            if not os.path.isfile(self._path):
                raise Invalid("this is no file", url=self.url, remedy="name a zip archive")
            try:
                file = FileIO(self._path)
                self._before = _version(os.fstat(file.fileno()))
            except OSError as error:
                raise read_error(error, self.url, "") from error
            self._entries = Entries(self.url, file, self._limit)
            self._infos = read_directory(self.url, file)
        elif read_only:
            raise NotFound("there is no such file", url=self.url)
        self._listed = self._infos
        if read_only:
            self._enter_single_folder()

    def _enter_single_folder(self) -> None:
        tops = {key.partition("/")[0] for key in self._infos}
        if tops == {"collections"} and not any(key.count("/") == 1 for key in self._infos):
            return  # a root of collections, which has no other folder
        if len(tops) == 1 and tops.isdisjoint(self._infos):
            skip = len(tops.pop()) + 1
            self._listed = {key[skip:]: info for key, info in self._infos.items()}
            self._infos = self._infos | self._listed

    def __repr__(self) -> str:
        return f"ZipStore({self._path!r}{', read_only=True' if self._read_only else ''})"

    traits = _TRAITS
    """Versions and parts of entries are known by the archive's directory; it has one writer, and no locks."""

    def get(self, key: str) -> bytes | None:
        info = self._infos.get(check_key(key))
        if counting.traces:
            counting.count(1, read=0 if info is None else info.file_size)
        return None if info is None else self._source().read(key, info)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        info = self._infos.get(check_key(key))
        if info is None:
            return None
        source = self._source()
        spans = [span(start, stop, info.file_size) for start, stop in ranges]
        if counting.traces:
            counting.count(1, read=sum(last - first for first, last in spans))
        if info.compress_type:
            value = source.read(key, info)
            return [value[first:last] for first, last in spans]
        return [source.read_part(key, info, first, last) for first, last in spans]

    def size(self, key: str) -> int | None:
        """Return the bytes of the value, None when missing."""
        info = self._infos.get(check_key(key))
        return None if info is None else info.file_size

    def stamp(self, key: str) -> Stamp | None:
        """Return (size, CRC-32, place in the archive) of the entry, None when missing."""
        info = self._infos.get(check_key(key))
        return None if info is None else (info.file_size, info.CRC, info.header_offset)

    def list(self, prefix: str = "") -> Iterator[str]:
        start = below(check_prefix(prefix))
        yield from sorted(key for key in list(self._listed) if key.startswith(start))

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value; others see it, and it is durable, when the store was closed."""
        info = ZipInfo(check_key(key), _EPOCH)
        if counting.traces:
            counting.count(1, written=memoryview(value).nbytes)
        with self._turn:
            archive = self._change(key)
            archive.NameToInfo.pop(key, None)
            try:
                archive.writestr(info, memoryview(value).cast("B"))
                self._written().flush()
            except OSError as error:
                self.abandon()
                raise write_error(error, self.url, key) from error
            self._infos[key] = info

    def delete(self, key: str, *, durable: bool = False) -> None:
        check_key(key)
        with self._turn:
            self._change(key)
            self._infos.pop(key, None)

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        keys = list(self.list(prefix))
        with self._turn:
            self._change(prefix)
            for key in [prefix, *keys]:
                self._infos.pop(key, None)

    def close(self) -> None:
        """Make what was written the archive at ``path``; closing twice is fine."""
        self._held_back.changed = False
        with self._turn:
            try:
                if self._new is not None:
                    self._commit(self._new)
            except OSError as error:
                raise write_error(error, self.url, "") from error
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close without writing: the archive at ``path`` stays as it was."""
        self._held_back.changed = False
        self._let_go()

    def _let_go(self) -> None:
        with self._turn:
            is_unfinished = self._new is not None
            if self._new is not None:
                self._new.fp = None  # else it would write its directory when it is collected
            self._new = None
            self._close_files()
            if is_unfinished:
                discard(self._temporary)
            self._entries = None

    def _close_files(self) -> None:
        if self._entries is not None:
            self._entries.close()
        if self._file is not None:
            with suppress(OSError):  # what it has yet to write is not wanted
                self._file.close()
            self._file = None

    __del__ = _let_go

    def _commit(self, archive: ZipFile) -> None:
        archive.filelist[:] = self._infos.values()
        archive.comment = archive.comment  # marks it as changed, also when entries were only removed
        archive.close()
        file = self._written()
        file.flush()
        os.fsync(file.fileno())
        place = os.path.dirname(self._path)
        # The look at the old archive and the replacement are one step: others who close one here hold the same folder.
        with hold_folder(lambda: place, _PATIENCE), open_folder(place) as folder:
            self._refuse_others()
            self._close_files()  # Windows gives an open file no other name
            replace_file(self._temporary, self._path)
            sync_folder(folder)
        remove_leftovers(self._path)

    def _refuse_others(self) -> None:
        """Raise Conflict where another writer's archive lies at ``path``: what that wrote is not in this one."""
        try:
            now = _version(os.stat(self._path))
        except FileNotFoundError:
            now = None
        if now != self._before:
            remedy = "open it again and repeat the changes"
            raise Conflict("another writer changed the archive meanwhile", url=self.url, remedy=remedy)

    def _written(self) -> BufferedRandom:
        if self._file is None:
            raise Invalid("the store is closed", url=self.url, remedy="open it again")
        return self._file

    def _source(self) -> Entries:
        if self._entries is None:
            raise Invalid("the store is closed", url=self.url, remedy="open it again")
        return self._entries

    def _change(self, key: str) -> ZipFile:
        """Return the new archive, to be changed; at first it is a copy of the old one."""
        self._require_writable(key)
        self._held_back.changed = True
        if self._new is None:
            try:
                self._new = self._begin()
            except OSError as error:
                self.abandon()
                raise write_error(error, self.url, key) from error
        return self._new

    def _begin(self) -> ZipFile:
        folder, name = os.path.split(self._path)
        os.makedirs(folder, exist_ok=True)
        self._temporary = os.path.join(folder, temporary_name(name))
        self._file = file = BufferedRandom(FileIO(self._temporary, "x+"))
        old = self._entries
        try:
            # Read by a descriptor of its own: on some systems reading moves the position at which is written.
            self._entries = Entries(self.url, FileIO(self._temporary), self._limit)
            if old is not None:
                old.file.seek(0)
                shutil.copyfileobj(old.file, file, 1 << 20)
                old.close()
            return ZipFile(file, "a")
        except BaseException:
            discard(self._temporary)
            raise


def _version(found: os.stat_result) -> Version:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
