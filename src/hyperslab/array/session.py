"""One open dataset, as its groups and arrays share it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError, ReadOnly, Unsupported
from hyperslab.formats.base import Feature, Format, Reader, Writer


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
        reader: Any = self.reader
        if not hasattr(reader, "put"):
            raise Unsupported(f"format {self.format.name} cannot be written", url=self.url)
        writer: Writer = reader
        return writer

    def locked(self, path: str) -> AbstractContextManager[None]:
        """Hold a node's documents, where the format can."""
        lock = getattr(self.reader, "lock_node", None)
        guard: AbstractContextManager[None] = lock(path) if lock else nullcontext()
        return guard

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node's documents, where the format remembers."""
        refresh = getattr(self.reader, "refresh", None)
        if refresh:
            refresh(path)

    def require(self, feature: Feature, what: str) -> None:
        """Unsupported unless the format holds ``feature``."""
        if feature not in self.format.features:
            raise Unsupported(f"format {self.format.name} has no {feature.value}: {what}", url=self.url)

    def locate(self, error: HyperslabError, node: str) -> HyperslabError:
        """The error with this dataset's place."""
        return error.locate(url=self.url, node=node)
