"""Collections: arrays that follow one schema, found by their attributes. Two layouts, one tree, two formats.

``base``: documents of collections, and the abstract classes of what a layout gives to the floors above;
``stored_attributes``: the names that documents of arrays have, where those of the schema were changed.
``tree`` and ``tree_writer``: a root of collections as groups and arrays, which is what ``open``, ``convert`` and
``check`` see. ``single_array``: what a collection of one array makes of an array of any dataset. ``format``: how a root
is recognised and opened. ``own`` and ``deker``: the layouts.

A root may hold collections in the layout of DEKER besides our own, read and written as they are. A dataset of any kind
becomes a root of collections of one array each; ``collections.json`` tells what a collection cannot say of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.formats.base import Feature, FormatInfo, Variant
from hyperslab.formats.collections.base import Layout
from hyperslab.formats.collections.format import FEATURES, NOTES, CollectionTreeFormat

_HOLDS = FEATURES | {Feature.UNLIMITED, Feature.CHECKSUMS, Feature.CODECS}


class CollectionsFormat(CollectionTreeFormat):
    """Format ``collections``: new collections get our own layout."""

    name = "collections"
    features = _HOLDS
    info = FormatInfo(
        "collections",
        "collections of arrays with schemas, labels and attributes",
        "collections/<name>/collection.json, or an empty folder collections",
        True,
        (Variant("collections", _HOLDS, notes=NOTES),),
    )

    def layouts(self) -> Sequence[Layout]:
        from hyperslab.formats.collections.deker.store import LAYOUT as DEKER
        from hyperslab.formats.collections.own.layout import LAYOUT

        return LAYOUT, DEKER


FORMAT = CollectionsFormat()
