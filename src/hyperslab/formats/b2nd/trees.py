"""The Reader of a TreeStore of blosc2 (``.b2d``: a folder, ``.b2z``: a zip of it): groups of arrays, read-only."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError
from hyperslab.formats.b2nd import document, frame, library
from hyperslab.formats.b2nd.dataset import described
from hyperslab.formats.b2nd.source import SlicedChunks
from hyperslab.formats.format_errors import dataset_closed, node_not_found, require_array
from hyperslab.model.spec import ArraySpec, GroupSpec

EMBEDDED = "embed.b2e"
"""The member that every TreeStore has."""


class TreeReader:
    """A tree of arrays. Members that are no arrays (tables, plain bytes) are left out."""

    def __init__(self, path: str, url: str, settings: Settings) -> None:
        self._path = path
        self._url = url
        self._closed = False
        self._lock = threading.RLock()
        self._store: tuple[int, Any] = (0, None)
        self._handles: dict[str, library.Handle] = {}
        self._nodes: dict[str, GroupSpec | ArraySpec] = {"": GroupSpec(attrs=self._attributes("/"))}
        for key in sorted(self._keys()):
            self._add(key)

    def _tree(self) -> Any:
        """The store of blosc2, opened anew in a forked child."""
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

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except library.FAILURES as error:
            raise FormatError(f"blosc2 cannot read this tree: {error}", url=self._url) from error

    def _keys(self) -> list[str]:
        found: list[str] = self._guarded(lambda: list(map(str, self._tree().keys())))
        return found

    def _attributes(self, key: str) -> dict[str, Any]:
        tree = self._tree()
        group = tree if key == "/" else self._guarded(lambda: tree[key])
        found = self._guarded(lambda: dict(group.vlmeta))
        return {str(name): value for name, value in found.items() if document.is_plain(value)}

    def _add(self, key: str) -> None:
        module, path = library.blosc2(), key.strip("/")
        found = self._guarded(lambda: self._tree()[key])
        if isinstance(found, module.TreeStore):
            self._nodes[path] = GroupSpec(attrs=self._attributes(key))
        elif isinstance(found, module.NDArray):
            handle = library.Handle(lambda: self._tree()[key], self._url)
            header = frame.Frame(
                tuple(found.shape), tuple(found.chunks), tuple(found.blocks), found.dtype, found.schunk.cbytes
            )
            if found.dtype.hasobject:
                return
            self._nodes[path] = described(header, found, self._url)[0].spec
            self._handles[path] = handle

    def children(self, path: str) -> list[str]:
        """The names right below a group."""
        self.node(path)
        above = f"{path}/" if path else ""
        return [
            name[len(above) :]
            for name in self._nodes
            if name and name.startswith(above) and "/" not in name[len(above) :]
        ]

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """A group or an array."""
        if path not in self._nodes:
            raise node_not_found(path, self._url)
        return self._nodes[path]

    def chunks(self, path: str) -> ChunkSource:
        """The chunks of an array."""
        spec = require_array(path, self.node(path), self._url)
        handle = self._handles[path]
        return SlicedChunks(spec, lambda: handle, (self._url, path))

    def close(self) -> None:
        """Let go of the store; closing twice is fine."""
        with self._lock:
            self._closed, self._store = True, (0, None)
        for handle in self._handles.values():
            handle.close()
