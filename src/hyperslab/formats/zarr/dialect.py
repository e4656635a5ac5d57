"""What tells one Zarr-like format from another: the names of its documents, how they read, where they are
consolidated.

A *node's documents* are a mapping of names (``.zarray``, ``zarr.json``) to JSON objects. *Consolidated metadata* has
the documents of every node below its holder, by path relative to it. :class:`Consolidated` is it as it is read, with
the tree that it makes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

from hyperslab.errors import FormatError, Problem
from hyperslab.formats.documents import JsonMapping, JsonObject, LargeConsolidated, large_consolidated
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.keys import is_key

Docs = dict[str, JsonObject]
ConsolidatedDocs = dict[str, Docs]


class MetadataDialect(ABC):
    """One format's documents, for :class:`~hyperslab.formats.zarr.reader.ZarrReader` and its writer."""

    format: str
    """The format's name, for messages."""
    nodes: ClassVar[tuple[str, ...]]
    """The documents that make a node, the first that is there counts."""

    @property
    @abstractmethod
    def extras(self) -> tuple[str, ...]:
        """Return documents that a node may have besides."""

    @property
    @abstractmethod
    def consolidated_name(self) -> str:
        """Return the document that consolidated metadata stands in."""

    def parse(self, docs: Docs, node: str = "") -> GroupSpec | ArraySpec:
        """Return the spec; FormatError lists every problem."""
        problems = Problems(node)
        spec = self.read(docs, node, problems)
        if problems:
            problems.raise_if_fatal()
        return spec

    def problems(self, docs: Docs, node: str) -> list[Problem]:
        """Return every defect of the documents, also those that a reader survives."""
        problems = Problems(node)
        self.read(docs, node, problems)
        return problems

    @abstractmethod
    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """Return the spec; what is wrong goes to ``problems``."""

    @abstractmethod
    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """Return the documents; Unsupported names what the format cannot hold."""

    @abstractmethod
    def is_array(self, docs: Docs) -> bool:
        """Return True for the documents of an array, whatever else is wrong with them."""

    @staticmethod
    @abstractmethod
    def is_array_document(data: bytes) -> bool:
        """Return True for the bytes of the first of ``nodes`` where they make an array; nothing more is decoded."""

    @abstractmethod
    def key_of(self, spec: ArraySpec) -> KeyOf:
        """Return the key of a chunk, relative to the array's folder."""

    @abstractmethod
    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """Return a user's wish in this format's spelling."""

    @abstractmethod
    def read_consolidated(self, doc: JsonMapping) -> ConsolidatedDocs | None:
        """Return the consolidated metadata that this document holds, the holder under ``""`` where it is in it; None
        without any."""

    @abstractmethod
    def write_consolidated(self, holder: Docs, consolidated: ConsolidatedDocs) -> JsonObject:
        """Return the document ``consolidated_name`` with consolidated metadata."""

    @abstractmethod
    def without_consolidated(self, doc: JsonMapping) -> JsonObject | None:
        """Return the document ``consolidated_name`` without consolidated metadata; None when nothing is left of it."""


def strip_consolidated(dialect: MetadataDialect, name: str, doc: JsonObject) -> JsonObject:
    """Return a document of a node without the consolidated metadata that it may hold; as it is where it holds nothing
    else."""
    own = dialect.without_consolidated(doc) if name == dialect.consolidated_name else doc
    return doc if own is None else own


# -- consolidated metadata as it is read ------------------------------------------------------------------------------


class Consolidated:
    """``docs``: the documents by path, seen from the group that holds the consolidated metadata."""

    def __init__(self, docs: Mapping[str, Docs]) -> None:
        self.docs = docs

    @cached_property
    def below(self) -> Mapping[str, Mapping[str, None]]:
        """Return the names right below each group, in the order in which they stand; groups without documents of their
        own too."""
        tree: dict[str, dict[str, None]] = {}
        for path in self.docs:
            while path:
                group, _, name = path.rpartition("/")
                names = tree.setdefault(group, {})
                if name in names:
                    break
                names[name] = None
                path = group
        return tree

    def names(self, group: str) -> list[str] | None:
        """Return the names right below ``group``; None when nothing is known of it."""
        names = self.below.get(group)
        return list(names or ()) if names or not group or group in self.docs else None


def read_consolidated(dialect: MetadataDialect, doc: JsonMapping) -> Mapping[str, Docs] | None:
    """Return the consolidated metadata that a document holds, however much; None without any, and where it is
    damaged."""
    entries = large_consolidated(doc)
    return dialect.read_consolidated(doc) if entries is None else _LazyConsolidated(dialect, entries)


class _LazyConsolidated(Mapping[str, Docs]):
    """Consolidated metadata of which the documents of each node are decoded when they are asked for."""

    def __init__(self, dialect: MetadataDialect, entries: LargeConsolidated) -> None:
        self._dialect = dialect
        self._entries = entries
        self._is_inline = dialect.consolidated_name in dialect.nodes
        self._keys: dict[str, list[str]] = {}
        made = set()
        for key in filter(is_key, entries.keys()):
            path, _, name = (key, "", "") if self._is_inline else key.rpartition("/")
            self._keys.setdefault(path, []).append(key)
            if self._is_inline or name in dialect.nodes:
                made.add(path)
        if len(made) < len(self._keys):
            self._keys = {path: keys for path, keys in self._keys.items() if path in made}

    def __getitem__(self, path: str) -> Docs:
        entries = {"metadata": {key: self._entries.read(key) for key in self._keys[path]}}
        found = self._dialect.read_consolidated({"consolidated_metadata": entries} if self._is_inline else entries)
        if found is None or path not in found:
            raise FormatError("what consolidated metadata says of the node makes no sense", node=path)
        return found[path]

    def __contains__(self, path: object) -> bool:
        return path in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
