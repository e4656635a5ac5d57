"""A copy of the documents below one group (consolidated metadata), with the tree that they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from hyperslab.errors import FormatError
from hyperslab.formats.documents import LargeCopy, large_copy
from hyperslab.formats.metadata_dialect import Docs, MetadataDialect
from hyperslab.stores.keys import is_key


class Consolidated:
    """``docs``: the documents by path, seen from the group that holds the copy."""

    def __init__(self, docs: Mapping[str, Docs]) -> None:
        self.docs = docs

    @cached_property
    def below(self) -> Mapping[str, Mapping[str, None]]:
        """The names right below each group, in the order of the copy; groups without documents of their own too."""
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
        """The names right below ``group``; None when the copy knows nothing of it."""
        names = self.below.get(group)
        return list(names or ()) if names or not group or group in self.docs else None


def read_copy(spelling: MetadataDialect, doc: Mapping[str, Any]) -> Mapping[str, Docs] | None:
    """Return the copy that a document holds, whatever it holds; None without one, and for a damaged one."""
    entries = large_copy(doc)
    return spelling.read_copy(doc) if entries is None else _Lazy(spelling, entries)


class _Lazy(Mapping[str, Docs]):
    """A copy of which the documents of each node are decoded when they are asked for."""

    def __init__(self, spelling: MetadataDialect, entries: LargeCopy) -> None:
        self._spelling = spelling
        self._entries = entries
        self._is_inline = spelling.copy_name in spelling.nodes
        self._keys: dict[str, list[str]] = {}
        made = set()
        for key in filter(is_key, entries.keys()):
            path, _, name = (key, "", "") if self._is_inline else key.rpartition("/")
            self._keys.setdefault(path, []).append(key)
            if self._is_inline or name in spelling.nodes:
                made.add(path)
        if len(made) < len(self._keys):
            self._keys = {path: keys for path, keys in self._keys.items() if path in made}

    def __getitem__(self, path: str) -> Docs:
        entries = {"metadata": {key: self._entries.read(key) for key in self._keys[path]}}
        found = self._spelling.read_copy({"consolidated_metadata": entries} if self._is_inline else entries)
        if found is None or path not in found:
            raise FormatError("what consolidated metadata says of the node makes no sense", node=path)
        return found[path]

    def __contains__(self, path: object) -> bool:
        return path in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
