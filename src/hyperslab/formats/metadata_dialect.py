"""What tells one Zarr-like format from another: the names of its documents, how they read, where a copy of all stands.

A *node's documents* are a mapping of names (``.zarray``, ``zarr.json``) to JSON objects. A *copy* is consolidated
metadata: the documents of every node below its holder, by path relative to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from hyperslab.errors import Problem
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.keys import KeyOf
from hyperslab.model.spec import ArraySpec, GroupSpec

Docs = dict[str, dict[str, Any]]
Copy = dict[str, Docs]


class MetadataDialect(Protocol):
    """One format's documents, for :class:`~hyperslab.formats.keyed_dataset.KeyedReader` and its writer."""

    @property
    def format(self) -> str:
        """The format's name, for messages."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """The documents that make a node, the first that is there counts."""
        ...

    @property
    def extras(self) -> tuple[str, ...]:
        """Documents that a node may have besides."""
        ...

    @property
    def copy_name(self) -> str:
        """The document that a copy stands in."""
        ...

    def parse(self, docs: Docs, node: str) -> GroupSpec | ArraySpec:
        """The spec; FormatError lists every problem."""
        ...

    def problems(self, docs: Docs, node: str) -> list[Problem]:
        """Every defect of the documents, also those that a reader survives."""
        ...

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """The documents; Unsupported names what the format cannot hold."""
        ...

    def is_array(self, docs: Docs) -> bool:
        """Return whether the documents are those of an array, whatever else is wrong with them."""
        ...

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """The key of a chunk, relative to the array's folder."""
        ...

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """A user's wish in this format's spelling."""
        ...

    def read_copy(self, doc: Mapping[str, Any]) -> Copy | None:
        """The copy that this document holds, the holder under ``""`` where it is in it; None without a copy."""
        ...

    def write_copy(self, holder: Docs, copy: Copy) -> dict[str, Any]:
        """The document ``copy_name`` with a copy."""
        ...

    def without_copy(self, doc: Mapping[str, Any]) -> dict[str, Any] | None:
        """The document ``copy_name`` without its copy; None when nothing is left of it."""
        ...


def own_document(spelling: MetadataDialect, name: str, doc: dict[str, Any]) -> dict[str, Any]:
    """A document of a node without the copy of others that it may hold; as it is where it holds nothing else."""
    own = spelling.without_copy(doc) if name == spelling.copy_name else doc
    return doc if own is None else own


@runtime_checkable
class KeyedFormat(Protocol):
    """A format of documents and chunks under keys: its datasets can be checked and mended key by key."""

    @property
    def spelling(self) -> MetadataDialect:
        """What its documents are called and how they read."""
        ...


# -- ------------------------------------------------------------------------------------------------------------------
# Reading a node's documents for two ends: a spec, or else every problem; or the problems alone.


class Parses(ABC):
    """The part of a :class:`~hyperslab.formats.metadata_dialect.MetadataDialect` that reading documents gives."""

    @abstractmethod
    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """The spec; what is wrong goes to ``problems``."""

    def parse(self, docs: Docs, node: str) -> GroupSpec | ArraySpec:
        """The spec; FormatError lists every problem."""
        problems = Problems(node)
        spec = self.read(docs, node, problems)
        problems.raise_if_fatal()
        return spec

    def problems(self, docs: Docs, node: str) -> list[Problem]:
        """Every defect of the documents, also those that a reader survives."""
        problems = Problems(node)
        self.read(docs, node, problems)
        return problems
