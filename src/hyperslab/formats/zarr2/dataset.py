"""Where the documents of Zarr v2 lie: ``.zarray`` or ``.zgroup`` and ``.zattrs`` per node, a ``.zmetadata`` of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.formats.format_errors import Problems
from hyperslab.formats.keys import KeyOf
from hyperslab.formats.metadata_dialect import Copy, Docs, Parses
from hyperslab.formats.zarr2 import document
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.keys import is_key

COPY = ".zmetadata"
_NAMES = (document.ARRAY, document.GROUP, document.ATTRIBUTES)


class Zarr2(Parses):
    """The :class:`~hyperslab.formats.metadata_dialect.MetadataDialect` of Zarr v2."""

    format = "zarr2"
    nodes = (document.ARRAY, document.GROUP)
    extras = (document.ATTRIBUTES,)
    copy_name = COPY

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """The spec of a node; what is wrong goes to ``problems``."""
        return document.read(docs, problems)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """The documents of a node."""
        return document.render(spec)

    def is_array(self, docs: Docs) -> bool:
        """Return whether there is a ``.zarray``."""
        return document.ARRAY in docs

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """``0.1`` or ``0/1``."""
        return document.chunk_keys(spec)

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """A user's wish in this format's spelling."""
        return document.new_array(wish)

    def read_copy(self, doc: Mapping[str, Any]) -> Copy | None:
        """``{"metadata": {key: document}}``; None when damaged. Keys that are none of a node's are passed over."""
        entries = doc.get("metadata")
        if not isinstance(entries, dict):
            return None
        copy: Copy = {}
        for place, said in entries.items():
            path, _, name = place.rpartition("/")
            if name not in _NAMES or not is_key(place):
                continue
            if not isinstance(said, dict):
                return None
            copy.setdefault(path, {})[name] = said
        return {path: docs for path, docs in copy.items() if not docs.keys().isdisjoint(self.nodes)}

    def write_copy(self, holder: Docs, copy: Copy) -> dict[str, Any]:
        """The document ``.zmetadata``; the holder's own documents stand in it too."""
        entries = {
            f"{path}/{name}" if path else name: docs[name]
            for path, docs in ({"": holder} | {path: docs for path, docs in copy.items() if path}).items()
            for name in _NAMES
            if name in docs
        }
        return {"metadata": entries, "zarr_consolidated_format": 1}

    def without_copy(self, doc: Mapping[str, Any]) -> dict[str, Any] | None:
        """Nothing is left of ``.zmetadata``."""
        return None
