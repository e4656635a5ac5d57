"""Bloscpack: one array in one file, a series of Blosc chunks behind a header.

Specification: bloscpack's header (``RFC.rst`` and ``header.rst`` of bloscpack 0.16), and the monolithic format of Blaze
(``docs/source/format.rst`` of 2012-12) that it came from. An example, of 1500 float64 with the labels of a dimension::

    0      blpk, version 3, options, checksum, size of a cell; bytes of a chunk and of the last one; chunks; reserve
    32     JSON: {"dtype":"'<f8'","shape":[1500],"order":"C","container":"numpy","dims":["time"]}
    708    offsets of the chunks, and room for more
    1236   a Blosc chunk, its digest
    3039   a Blosc chunk, its digest …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Invalid, NotFound, Unsupported
from hyperslab.formats.base import Feature, FormatInfo, Mode, Reader
from hyperslab.formats.bloscpack.dataset import BloscpackReader
from hyperslab.formats.bloscpack.file import LocalFile, ServedFile
from hyperslab.formats.bloscpack.header import MAGIC
from hyperslab.stores.location import Location, Probe
from hyperslab.stores.places import REMOTE

FEATURES = frozenset(
    (
        Feature.DIMENSIONS,
        Feature.UNLIMITED,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.STRINGS,
        Feature.STRUCTURED,
        Feature.SUBARRAYS,
        Feature.COMPLEX,
        Feature.BOOLEAN,
        Feature.DATETIME,
        Feature.FLOAT16,
        Feature.UNICODE,
        Feature.FIXED_BYTES,
        Feature.BIG_ENDIAN,
        Feature.SCALARS,
        Feature.CHUNKS,
        Feature.CODECS,
        Feature.CHECKSUMS,
        Feature.UNITS,
    )
)


@dataclass(frozen=True, slots=True)
class BloscpackFormat:
    """Format ``bloscpack``."""

    name: str = "bloscpack"
    features: frozenset[Feature] = FEATURES

    @property
    def info(self) -> FormatInfo:
        """The line of ``list_formats``."""
        return FormatInfo(
            name=self.name,
            holds="one array with its coordinates in one file of Blosc chunks",
            recognised_by="the first bytes: blpk",
            writable=False,
        )

    def sniff(self, probe: Probe) -> bool:
        """Whether the place is one file that begins with ``blpk``."""
        return probe.head(len(MAGIC)) == MAGIC

    def open(self, where: Location, mode: Mode, *, settings: Settings = DEFAULTS, **options: Any) -> Reader:
        """Read a file of the local file system, or one on a server by byte ranges.

        NotFound, FormatError, Unsupported.
        """
        if options:
            raise Invalid(f"format bloscpack has no option {next(iter(options))!r}", remedy="leave it out")
        if mode != "r":
            raise Unsupported("bloscpack files are only read", url=where.url, remedy="write another format")
        return BloscpackReader(_file(where))


def _file(where: Location) -> LocalFile | ServedFile:
    if where.scheme == "file" and where.path is not None:
        return LocalFile(where.path, where.url)
    if where.scheme not in REMOTE:
        remedy = "copy the file to this machine"
        raise Unsupported("bloscpack files are read from files and servers", url=where.url, remedy=remedy)
    remote = where.remote_file()
    if remote is None:
        raise NotFound("there is no such file", url=where.url)
    return ServedFile(remote)


FORMAT = BloscpackFormat()
