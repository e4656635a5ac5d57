"""Bloscpack: one array in one file, a series of Blosc chunks behind a header.

Specification: bloscpack's header (``RFC.rst`` and ``header.rst`` of bloscpack 0.16), and the monolithic format of Blaze
(``docs/source/format.rst`` of 2012-12) that it came from. An example, of 1500 float64 with the labels of a dimension::

    0      blpk, version 3, options, checksum, size of a cell; bytes of a chunk and of the last one; chunks; reserve
    32     JSON: {"dtype":"'<f8'","shape":[1500],"order":"C","container":"numpy","dims":["time"]}
    708    offsets of the chunks, and room for more
    1236   a Blosc chunk, its digest
    3039   a Blosc chunk, its digest …

Read: ``file`` (bytes at places, past a journal), ``preamble`` (header, metadata, offsets), ``document`` (what the
metadata say), ``chunk_table`` (where the chunks are), ``source`` (cells), ``dataset`` (the reader; problems). Written:
``encoding`` (options; cells to stored chunks), ``pending_chunks`` (chunks as they will be), ``state`` (documents and
chunks together), then ``creator`` for a new file, or ``writer`` and ``commit`` for changes: in place under one undo
record, or by a new file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Unsupported
from hyperslab.formats.base import Format, FormatInfo, FormatTraits, Mode, Reader, Variant
from hyperslab.formats.bloscpack.creator import BloscpackCreator
from hyperslab.formats.bloscpack.dataset import BloscpackReader
from hyperslab.formats.bloscpack.encoding import BloscpackOptions
from hyperslab.formats.bloscpack.file import FileBytes, LocalFile, ServedFile
from hyperslab.formats.bloscpack.preamble import MAGIC
from hyperslab.formats.bloscpack.writer import BloscpackWriter
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.single_array.document import FEATURES, NOTES
from hyperslab.stores.location import REMOTE, Location, Probe


@dataclass(frozen=True, slots=True)
class BloscpackFormat(Format):
    """Format ``bloscpack``.

    Options: ``layout`` (``v3``, or ``blaze``: the specification's own), ``checksum`` (adler32, or another of the nine),
    ``offsets``, ``slack`` (room in each chunk for changes in place: bytes, a fraction of its stored size, ``"full"``),
    ``metadata_codec`` (zlib, none), ``order`` (C, F), ``chunk_bytes`` (1 MiB).
    """

    name = "bloscpack"
    features = FEATURES
    traits = FormatTraits(finds_damage=True)
    info = FormatInfo(
        "bloscpack",
        "one array with its coordinates in one file of Blosc chunks",
        "the first bytes: blpk",
        True,
        tuple(Variant(name, FEATURES, {"layout": name}, NOTES) for name in ("v3", "blaze")),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return True if the place is one file that begins with ``blpk``."""
        return probe.head(len(MAGIC)) == MAGIC

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options of a new file."""
        return tuple(field.name for field in fields(BloscpackOptions))

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        **options: Any,
    ) -> Reader:
        """Open or make a file of the local file system, or read one on a server by byte ranges.

        NotFound, FormatError, AlreadyExists, Unsupported.
        """
        chosen = BloscpackOptions(**options)
        if mode == "r":
            return BloscpackReader(_file(where))
        if where.scheme != "file" or where.path is None:
            remedy = "write it in the local file system and copy it there, or use zarr3"
            raise Unsupported("bloscpack files are written in the local file system", url=where.url, remedy=remedy)
        if mode == "r+":
            return BloscpackWriter(where.path, where.url, settings, chosen)
        return BloscpackCreator(where.path, where.url, mode, settings, chosen)


def _file(where: Location) -> FileBytes:
    if where.scheme == "file" and where.path is not None:
        return LocalFile(where.path, where.url)
    if where.scheme not in REMOTE:
        remedy = "copy the file to this machine"
        raise Unsupported("bloscpack files are read from files and servers", url=where.url, remedy=remedy)
    remote = where.remote_file()
    if remote is None:
        raise file_not_found(where.url)
    return ServedFile(remote)


FORMAT = BloscpackFormat()
