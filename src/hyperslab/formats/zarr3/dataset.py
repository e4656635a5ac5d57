"""Where the documents of Zarr v3 lie: one ``zarr.json`` per node; consolidated metadata inside that of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.formats.format_errors import Problems
from hyperslab.formats.keys import KeyOf
from hyperslab.formats.metadata_dialect import Copy, Docs, Parses
from hyperslab.formats.zarr3 import document
from hyperslab.formats.zarr3.creation import new_array
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.keys import is_key

_EMPTY = {"kind": "inline", "must_understand": False, "metadata": {}}


class Zarr3(Parses):
    """The :class:`~hyperslab.formats.metadata_dialect.MetadataDialect` of Zarr v3."""

    format = "zarr3"
    nodes = (document.NAME,)
    extras = ()
    copy_name = document.NAME

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """The spec of a node; what is wrong goes to ``problems``."""
        return document.read(docs[document.NAME], problems)

    def render(self, spec: GroupSpec | ArraySpec) -> Docs:
        """The document of a node."""
        return document.render(spec)

    def is_array(self, docs: Docs) -> bool:
        """Return whether its ``node_type`` is ``array``."""
        return docs[document.NAME].get("node_type") == "array"

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """``c/0/1``, or as the document says."""
        return document.key_of(spec)

    def new_array(self, wish: ArraySpec) -> ArraySpec:
        """A user's wish in this format's spelling."""
        return new_array(wish)

    def read_copy(self, doc: Mapping[str, Any]) -> Copy | None:
        """The inline ``consolidated_metadata`` of a group; None when damaged. Paths of no node are passed over."""
        said = doc.get(document.COPY)
        entries = said.get("metadata") if isinstance(said, dict) and said.get("kind", "inline") == "inline" else None
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            return None
        found = {path.strip("/"): {document.NAME: entry} for path, entry in entries.items()}
        return {path: docs for path, docs in found.items() if is_key(path)}

    def write_copy(self, holder: Docs, copy: Copy) -> dict[str, Any]:
        """The holder's document with its copy. Groups in it get an empty one, or zarr-python lists the store."""
        entries = {path: _entry(docs[document.NAME]) for path, docs in copy.items() if path}
        own = holder.get(document.NAME, {"zarr_format": 3, "node_type": "group", "attributes": {}})
        return {**own, document.COPY: _EMPTY | {"metadata": entries}}

    def without_copy(self, doc: Mapping[str, Any]) -> dict[str, Any] | None:
        """The holder's own document."""
        return {key: value for key, value in doc.items() if key != document.COPY}


def _entry(doc: dict[str, Any]) -> dict[str, Any]:
    return {**doc, document.COPY: _EMPTY} if doc.get("node_type") == "group" else doc
