"""One open dataset, as its groups and arrays share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound, ReadOnly, Unsupported
from hyperslab.formats.base import Feature, Format, LocksNodes, Reader, Refreshes, Writer
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec


@dataclass(frozen=True, slots=True)
class Session:
    """A reader with the settings that its arrays are read and written by."""

    reader: Reader
    format: Format
    url: str
    writable: bool
    settings: Settings
    cache: BlockCache | None

    def writer(self) -> Writer:
        """The reader as a writer; ReadOnly before anything is touched."""
        if not self.writable:
            raise ReadOnly("the dataset is open read-only", url=self.url, remedy="open it with mode='r+'")
        if not isinstance(self.reader, Writer):
            raise Unsupported(f"format {self.format.name} cannot be written", url=self.url)
        return self.reader

    def array(self, path: str) -> ArraySpec:
        """The spec of the array at ``path``, as the reader has it now; NodeNotFound when it is none any more."""
        spec = self.reader.node(path)
        if not isinstance(spec, ArraySpec):
            raise NodeNotFound("the array is gone", url=self.url, node=path)
        return spec

    def arrays(self, group: str) -> Iterator[tuple[str, ArraySpec]]:
        """Name and spec of the arrays right below a group; damage in one never keeps the others from being read."""
        for name in self.reader.children(group):
            try:
                spec = self.reader.node(child(group, name))
            except (FormatError, NodeNotFound, Unsupported):
                continue
            if isinstance(spec, ArraySpec):
                yield name, spec

    def locked(self, path: str) -> AbstractContextManager[None]:
        """Hold a node's documents, where the format can."""
        return self.reader.lock_node(path) if isinstance(self.reader, LocksNodes) else nullcontext()

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node's documents, where the format remembers."""
        if isinstance(self.reader, Refreshes):
            self.reader.refresh(path)

    def require(self, feature: Feature, what: str) -> None:
        """Unsupported unless the format holds ``feature``."""
        if feature not in self.format.features:
            raise Unsupported(f"format {self.format.name} has no {feature.value}: {what}", url=self.url)

    def locate(self, error: HyperslabError, node: str) -> HyperslabError:
        """The error with this dataset's place."""
        return error.locate(url=self.url, node=node)
