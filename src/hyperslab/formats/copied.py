"""A copy of the documents below one group (consolidated metadata), with the tree that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hyperslab.formats.spelling import Copy


class Copied:
    """``docs``: the documents by path, seen from the group that holds the copy."""

    def __init__(self, docs: Copy) -> None:
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
