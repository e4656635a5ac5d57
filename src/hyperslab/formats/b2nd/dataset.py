"""The Reader of one b2nd file or sparse directory: the array, and its coordinates from the metalayers beside it."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.b2nd.source import StoredSlices
from hyperslab.formats.format_errors import dataset_closed, names_below, node_not_found, require_array
from hyperslab.formats.in_memory import CellsInMemory
from hyperslab.formats.one_array import Labelled, is_label
from hyperslab.model.spec import ArraySpec, GroupSpec


class B2ndReader:
    """One version of an array, read-only."""

    def __init__(self, path: str, url: str, settings: Settings) -> None:
        self._url = url
        self._path = path
        self._settings = settings
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """What is known of the version that lies there now."""
        path, url = self._path, self._url
        self.frame = library.check(path, url)
        self.version = library.version(path)
        self._sparse = os.path.isdir(path)
        self.handle = library.Handle(library.open_file(path, self._settings.threads), url)
        with self.handle.using() as array:
            self.labelled, self.foreign = described(self.frame, array, url)

    def refresh(self, path: str) -> None:
        """Read the version that lies there now; what was taken from the old one goes on reading that."""
        if library.version(self._path) != self.version:
            self._begin()

    @property
    def main(self) -> str | None:
        """The array's name."""
        return self.labelled.name

    def children(self, path: str) -> list[str]:
        """The array, then its coordinates."""
        return names_below(self.node(path), self.labelled.names)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """The group of all, the array, or a coordinate."""
        if self._closed:
            raise dataset_closed(self._url)
        found = self.labelled.node(path)
        if found is None:
            raise node_not_found(path, self._url)
        return found

    def chunks(self, path: str) -> ChunkSource:
        """The chunks of the array, or of a coordinate."""
        spec = require_array(path, self.node(path), self._url)
        if path == self.labelled.name:
            handle = self.handle
            return StoredSlices(
                spec, partial(self._opened, handle), (self._url, path), handle.chunk_sizes, handle.stored
            )
        return CellsInMemory(self.labelled.coords[path].cells)

    def storage(self, path: str) -> dict[str, Any]:
        """The form of the dataset, codec and filters, the blocks that chunks are cut in, what all chunks take."""
        if path != self.labelled.name:
            return {}
        said = self.labelled.spec.layout
        return {
            "form": "sparse directory" if self._sparse else "file",
            "blocks": " x ".join(map(str, said["blocks"])) or "1",
            "codec": said["codec"],
            "filters": ", ".join(said["filters"]).lower() or "none",
            "chunk_bytes": self.frame.cbytes,
        }

    def stamp(self, path: str) -> tuple[int, int, int]:
        """What identifies the version of the file that is open here."""
        return self.version

    def _opened(self, handle: library.Handle) -> library.Handle:
        if self._closed:
            raise dataset_closed(self._url)
        return handle

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        self._closed = True
        self.handle.close()


def described(found: Any, array: Any, url: str) -> tuple[Labelled, frozenset[str]]:
    """The array with its labels, and the keys of metalayers that are none of ours."""
    vlmeta = library.metadata(array, url)
    params = array.schunk.cparams
    compression = {
        "codec": getattr(params.codec, "name", str(params.codec)),
        "clevel": int(params.clevel),
        "filters": [name for step in params.filters if (name := getattr(step, "name", str(step))) != "NOFILTER"],
    }
    try:
        return document.parse(found, compression, vlmeta), frozenset(
            key for key, value in vlmeta.items() if not is_label(key, value)
        )
    except HyperslabError as error:
        raise error.locate(url=url) from error.__cause__
