"""The reader that formats of one array share: the array, its coordinates and their group as a tree of nodes."""

from __future__ import annotations

from abc import abstractmethod

from hyperslab.chunks.source import ChunkSource
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import names_below, node_not_found, require_array
from hyperslab.formats.single_array.coordinates import CoordinateCells
from hyperslab.formats.single_array.document import LabelledArray
from hyperslab.model.spec import ArraySpec, GroupSpec


class SingleArrayReader(Reader):
    """A dataset that is one array. A format gives its labels and its chunks; coordinates are served from memory."""

    is_single_array = True

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the dataset, for errors."""

    @property
    @abstractmethod
    def labelled(self) -> LabelledArray:
        """The array with its coordinates; FormatError for documents that make no sense."""

    @abstractmethod
    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of the array."""

    def coordinate_chunks(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of a coordinate."""
        return CoordinateCells(self.labelled.coords[path].cells)

    def field(self, path: str) -> tuple[ArraySpec, ChunkSource]:
        """Return the field of the array that is stored on its own at ``path``, and its chunks; NodeNotFound."""
        raise node_not_found(path, self.url)

    @property
    def main(self) -> str | None:
        return self.labelled.name

    def children(self, path: str) -> list[str]:
        """Return the array, then its coordinates."""
        return names_below(self.node(path), self.labelled.names)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the group of all, the array, a coordinate, or a field of the array that is stored on its own."""
        return self.labelled.node(path) or self.field(path)[0]

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of the array, of a coordinate or of a field."""
        spec, labelled = require_array(path, self.node(path), self.url), self.labelled
        if path == labelled.name:
            return self.array_chunks(spec)
        if path in labelled.coords:
            return self.coordinate_chunks(path, spec)
        return self.field(path)[1]
