"""Collections: arrays that follow one schema, found by their attributes, on any store.

Specification: section "Our own layout" of the page on this format; documents of collections are those of DEKER 1.1 ::

    weather/                                                   a root
    └── collections/
        └── temperature/
            ├── collection.json                                the schema
            ├── arrays/6f/6f0c2d5e-…/zarr.json, c/0/0          an array of Zarr v3: one shard, or one per tile
            ├── keys/5d1f…                                     the id of the array with these primary attributes
            ├── batches/0c9a…                                  whether arrays that were made together count
            └── generations/6f                                 changes with each change below arrays/6f

``collection.json``::

    {"name": "temperature", "type": "array", "schema": {"dimensions": [{"name": "lat", "size": 181, "labels": null,
     "scale": {"start_value": 90.0, "step": -1.0, "name": null}, "type": "generic"}], "dtype": "numpy.float64",
     "attributes": [{"name": "dt", "primary": true, "dtype": "datetime"}], "fill_value": null}, "options": null,
     "storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2", "layout": "hyperslab"}

A root may hold collections in the layout of DEKER besides, read and written as they are. A dataset of any kind
becomes a root of collections of one array each; ``collections.json`` tells what a collection cannot say of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.formats.base import Feature, FormatInfo, Variant
from hyperslab.formats.collection_notes import NOTES
from hyperslab.formats.collection_stores import Layout
from hyperslab.formats.collection_tree_format import FEATURES, CollectionTreeFormat


def _layouts() -> Sequence[Layout]:
    from hyperslab.formats.collections.layout import LAYOUT
    from hyperslab.formats.deker.layout import LAYOUT as DEKER

    return LAYOUT, DEKER


_HOLDS = FEATURES | {Feature.UNLIMITED, Feature.CHECKSUMS, Feature.CODECS}
FORMAT = CollectionTreeFormat(
    "collections",
    _HOLDS,
    FormatInfo(
        "collections",
        "collections of arrays with schemas, labels and attributes",
        "collections/<name>/collection.json, or an empty folder collections",
        True,
        (Variant("collections", _HOLDS, notes=NOTES),),
    ),
    _layouts,
)
