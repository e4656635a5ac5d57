"""All that it takes to write a format of your own, in one place: import it from here.

What a format is stands in :mod:`hyperslab.formats.base` as protocols, none of which has to be inherited. It is
registered by an entry point of the group ``hyperslab.formats`` and proved by ``hyperslab.testing.formats.FormatTests``.
A worked example is the page "A format of your own" of the documentation.
"""

from __future__ import annotations

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import CorruptChunk, FormatError, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature, Format, FormatInfo, Mode, Reader, Writer
from hyperslab.formats.documents import read_json, write_json
from hyperslab.formats.metadata_json.nodes import node_from_json, node_to_json
from hyperslab.formats.single_chunk import PLAIN, SingleChunkArray, whole_wish
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location, Probe

__all__ = [
    "DEFAULTS",
    "PLAIN",
    "ArraySpec",
    "Block",
    "ChunkSource",
    "Coords",
    "CorruptChunk",
    "Feature",
    "Format",
    "FormatError",
    "FormatInfo",
    "Grid",
    "GroupSpec",
    "Location",
    "Mode",
    "NodeNotFound",
    "Probe",
    "Reader",
    "Settings",
    "SingleChunkArray",
    "Unsupported",
    "Writer",
    "node_from_json",
    "node_to_json",
    "outward",
    "read_json",
    "split",
    "whole_chunks",
    "whole_wish",
    "write_json",
]
