"""The readers of b2nd: one array with its coordinates from the metalayers beside it; trees of arrays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.b2nd.library import SlicedChunks, StoredSlices
from hyperslab.formats.base import Reader
from hyperslab.formats.format_errors import dataset_closed, node_not_found, require_array
from hyperslab.formats.single_array.document import Doc, LabelledArray, is_label
from hyperslab.formats.single_array.reader import SingleArrayReader
from hyperslab.model.spec import ArraySpec, GroupSpec


class B2ndReader(SingleArrayReader):
    """One version of an array, read-only."""

    def __init__(self, path: str, url: str, settings: Settings) -> None:
        self.url = url
        self._path = path
        self._settings = settings
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """Read the header and the metalayers of the version that lies there now."""
        path, url = self._path, self.url
        self.frame = library.read_frame_header(path, url)
        self.version = library.file_version(path)
        self.handle = library.ArrayHandle(library.file_opener(path, self._settings.threads), url)
        with self.handle.locked_array() as array:
            self._labelled, self.foreign = describe_array(self.frame, array, url)

    def refresh(self, path: str) -> None:
        """Read the version that lies there now; what was taken from the old one goes on reading that."""
        if library.file_version(self._path) != self.version:
            self._begin()

    @property
    def labelled(self) -> LabelledArray:
        return self._labelled

    def node(self, path: str) -> GroupSpec | ArraySpec:
        if self._closed:
            raise dataset_closed(self.url)
        return super().node(path)

    def array_chunks(self, spec: ArraySpec) -> ChunkSource:
        handle = self.handle

        def find() -> library.ArrayHandle:
            if self._closed:
                raise dataset_closed(self.url)
            return handle

        return StoredSlices(spec, find, (self.url, self._labelled.name), handle)

    def storage(self, path: str) -> Doc:
        """Return the form of the dataset, codec and filters, the blocks that chunks are cut in, what all chunks
        take."""
        if path != self.labelled.name:
            return {}
        layout = self.labelled.spec.layout
        return {
            "form": "sparse directory" if os.path.isdir(self._path) else "file",
            "blocks": " x ".join(map(str, layout["blocks"])) or "1",
            "codec": layout["codec"],
            "filters": ", ".join(layout["filters"]).lower() or "none",
            "chunk_bytes": self.frame.cbytes,
        }

    def stamp(self, path: str) -> tuple[int, int, int]:
        """Return what identifies the version of the file that is open here."""
        return self.version

    def close(self) -> None:
        self._closed = True
        self.handle.close()


def describe_array(frame: document.Frame, array: Any, url: str) -> tuple[LabelledArray, frozenset[str]]:
    """Return the array with its labels, and the keys of metalayers that are none of ours."""
    vlmeta = library.metadata(array, url)
    params = array.schunk.cparams
    compression = {
        "codec": getattr(params.codec, "name", str(params.codec)),
        "clevel": int(params.clevel),
        "filters": [name for step in params.filters if (name := getattr(step, "name", str(step))) != "NOFILTER"],
    }
    try:
        return document.parse_metalayers(frame, compression, vlmeta), frozenset(
            key for key, value in vlmeta.items() if not is_label(key, value)
        )
    except HyperslabError as error:
        raise error.locate(url=url) from error.__cause__


# -- TreeStores of blosc2 (`.b2d`: a folder, `.b2z`: a zip of it), read-only ----------------------------------------


EMBEDDED = "embed.b2e"
"""The member that every TreeStore has."""


class TreeReader(Reader):
    """A tree of arrays. Members that are no arrays (tables, plain bytes) are left out."""

    def __init__(self, path: str, url: str, settings: Settings) -> None:
        self._path = path
        self._url = url
        self._closed = False
        self._lock = threading.RLock()
        self._store: tuple[int, object] = (0, None)
        self._handles: dict[str, library.ArrayHandle] = {}
        self._nodes: dict[str, GroupSpec | ArraySpec] = {"": GroupSpec(attrs=self._attributes("/"))}
        keys: list[str] = self._guarded(lambda: list(map(str, self._tree().keys())))
        for key in sorted(keys):
            self._add(key)

    def _tree(self) -> Any:
        """Return the store of blosc2, opened anew in a forked child."""
        with self._lock:
            if self._closed:
                raise dataset_closed(self._url)
            process = os.getpid()
            if self._store[0] != process:
                module = library.blosc2()
                alone = module.DParams(nthreads=1)  # a forked child frees what has threads of its own never
                open_tree = partial(module.TreeStore, self._path, mode="r", dparams=alone)
                self._store = process, self._guarded(open_tree)
            return self._store[1]

    def _guarded(self, work: Callable[[], object]) -> Any:
        try:
            return work()
        except library.FAILURES as error:
            raise FormatError(f"blosc2 cannot read this tree: {error}", url=self._url) from error

    def _attributes(self, key: str) -> Doc:
        tree = self._tree()
        group = tree if key == "/" else self._guarded(lambda: tree[key])
        found = self._guarded(lambda: dict(group.vlmeta))
        return {str(name): value for name, value in found.items() if document.can_be_attribute(value)}

    def _add(self, key: str) -> None:
        module, path = library.blosc2(), key.strip("/")
        found = self._guarded(lambda: self._tree()[key])
        match found:
            case module.TreeStore():
                self._nodes[path] = GroupSpec(attrs=self._attributes(key))
            case module.NDArray():
                if found.dtype.hasobject:
                    return
                frame = document.Frame(
                    tuple(found.shape), tuple(found.chunks), tuple(found.blocks), found.dtype, found.schunk.cbytes
                )
                self._nodes[path] = describe_array(frame, found, self._url)[0].spec
                self._handles[path] = library.ArrayHandle(lambda: self._tree()[key], self._url)

    def children(self, path: str) -> list[str]:
        self.node(path)
        above = f"{path}/" if path else ""
        return [
            name[len(above) :]
            for name in list(self._nodes)  # another thread may make one
            if name and name.startswith(above) and "/" not in name[len(above) :]
        ]

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return a group or an array."""
        if path not in self._nodes:
            raise node_not_found(path, self._url)
        return self._nodes[path]

    def chunks(self, path: str) -> ChunkSource:
        spec = require_array(path, self.node(path), self._url)
        handle = self._handles[path]
        return SlicedChunks(spec, lambda: handle, (self._url, path))

    def close(self) -> None:
        with self._lock:
            self._closed, self._store = True, (0, None)
        for handle in self._handles.values():
            handle.close()
