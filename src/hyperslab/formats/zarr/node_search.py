"""The search for nodes below folders that have no document of their own, given up early where there are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hyperslab.errors import StorageError, Unsupported
from hyperslab.model.paths import child
from hyperslab.stores.base import Store
from hyperslab.stores.keys import UNFINISHED

# So many folders without a document make no dataset; on a server each of them is a request.
MOST_FOLDERS = 1000


@dataclass
class NodeSearch:
    """A search below folders of a store for ``documents`` (their names), of which the first one ends it.

    ``left``: folders that are still looked at in vain, in all that is searched; ``looked``: those that were looked at.
    """

    store: Store
    documents: frozenset[str]
    left: int = MOST_FOLDERS
    looked: int = 0

    @classmethod
    def of(cls, store: Store, documents: Iterable[str]) -> NodeSearch:
        """Return a search that has looked at nothing yet."""
        return cls(store, frozenset(documents))

    def holds_nodes(self, path: str) -> bool:
        """Return True for a folder that is no node and has one below; False also once too many were looked at in vain.

        Never looks into another file system, such as ``/proc``: what is mounted below a folder is none of its nodes.
        """
        folders, most, seen = [path], self.left, 0
        while folders and seen < most:
            folder = folders.pop()
            try:
                if folder and self.store.is_mount(folder):
                    continue
                names, inner = self.store.list_dir(folder)
            except Unsupported:  # a web server that lists nothing
                return False
            except StorageError:  # below a place that is no dataset of ours: links in a circle, folders of others
                if folder == path:
                    raise
                continue
            seen += bool(names or inner)
            if folder != path and not self.documents.isdisjoint(names):
                self.looked += seen
                # those on the way to the node, and the node itself, were not looked at in vain
                self.left -= max(seen - folder[len(path) :].strip("/").count("/") - 2, 0)
                return True
            if not folder and UNFINISHED in inner:  # half a dataset
                break
            # depth first, and the first name next: a node is found soon where there are any
            folders += [child(folder, name) for name in reversed(inner)]
        self.looked += seen
        self.left -= seen
        return False
