"""b2nd: the N-dimensional arrays of Blosc2, one array in a ``.b2nd`` file or a sparse directory, through blosc2.

Specification: README_B2ND_METALAYER.rst and README_CFRAME_FORMAT.rst of C-Blosc2. A dataset holds one array; its
name, dimensions, attributes and coordinates stand in the variable-length metalayers of the file (``vlmeta``), as
:mod:`hyperslab.formats.single_array.document` spells them. An example::

    air.b2nd    frame header: 14 msgpack fields, then the metalayer b2nd = [0, 3, shape, chunks, blocks, 0, "<f4"]
                chunks, index of chunks
                trailer: vlmeta {"name": "air", "dims": ["time", "lat", "lon"], "attrs": {"units": "K"},
                                 "coords": {"lat": {"dtype": "<f4", "shape": [25], "cells": […]}, …}}

Other keys of ``vlmeta`` are attributes. TreeStores (``.b2z``, ``.b2d``) are read as groups of arrays.

``document`` (header of a frame and metalayers to specs, and back), ``library`` (blosc2, one call at a time; chunks as
slices), ``dataset`` (the readers), ``writer``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Unsupported
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.b2nd.dataset import EMBEDDED, B2ndReader, TreeReader
from hyperslab.formats.b2nd.writer import B2ndWriter
from hyperslab.formats.base import Feature, Format, FormatInfo, Mode, Reader, Variant
from hyperslab.formats.single_array.document import FEATURES, NOTES
from hyperslab.stores.location import Location, Probe

_ZIP = b"PK"
_HOLDS = FEATURES - {Feature.CHECKSUMS}
_NOTES = {Feature.CHECKSUMS: "a frame of Blosc2 has none", Feature.ATTRIBUTES: "variable-length metalayers (`vlmeta`)"}


@dataclass(frozen=True, slots=True)
class B2ndFormat(Format):
    """Format ``b2nd``: arrays of Blosc2."""

    name = "b2nd"
    features = _HOLDS
    info = FormatInfo(
        "b2nd",
        "one array of Blosc2 with dimensions, attributes and coordinates, in one file",
        "the first bytes: \\x9e\\xa8b2frame; a folder with chunks.b2frame; .b2z, .b2d",
        True,
        (Variant("b2nd", _HOLDS, notes=NOTES | _NOTES),),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return True if the place is a frame, a sparse directory or a TreeStore of the local file system."""
        where = probe.where
        if probe.head(len(document.MAGIC)) == document.MAGIC:
            return True
        if where.scheme != "file" or where.is_file():
            return where.suffix == ".b2z" and probe.head(2) == _ZIP
        return probe.get(document.SPARSE) is not None or probe.get(EMBEDDED) is not None

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
    ) -> Reader:
        """Open or make an array of the local file system. NotFound, FormatError, AlreadyExists, Unsupported."""
        library.blosc2()
        if where.scheme != "file" or where.path is None:
            remedy = "copy the file to this machine, or convert it to zarr3"
            raise Unsupported("format b2nd reads and writes the local file system", url=where.url, remedy=remedy)
        if mode in ("r", "r+") and _is_tree(where):
            if mode == "r+":
                raise Unsupported("a TreeStore of Blosc2 is only read", url=where.url, remedy="convert it to zarr3")
            return TreeReader(where.path, where.url, settings)
        if mode == "r":
            return B2ndReader(where.path, where.url, settings)
        if where.suffix in (".b2z", ".b2d") and mode in ("x", "w"):
            raise Unsupported("no TreeStore of Blosc2 is made", url=where.url, remedy="end the name with .b2nd")
        return B2ndWriter(where.path, where.url, mode, settings)


def _is_tree(where: Location) -> bool:
    probe = Probe(where)
    if where.is_file():
        return probe.head(2) == _ZIP
    return where.exists() and probe.get(EMBEDDED) is not None


FORMAT = B2ndFormat()
