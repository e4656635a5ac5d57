"""DEKER's layout of collections: HDF5 files in sharded folders, links from primary attributes to them.

Specification: the on-disk layout of DEKER 1.1 (metadata version 0.2), as its files and its behaviour show it ::

    store/
    └── collections/
        ├── weather.lock
        └── weather/
            ├── weather.json                                   the schema
            ├── array_data/3/5/2/f/d/d/6/8/dcb5-…/352fdd68-dcb5-….hdf5
            └── array_symlinks/2023-01-01T00:00:00+00:00/352fdd68-dcb5-….hdf5 -> the file

An array that is cut into tiles has a JSON document in ``varray_data``, links to it in ``varray_symlinks``, and one HDF5
file per tile. ``weather.json`` is the document of a collection; ``<id>.hdf5`` has the datasets ``meta`` (JSON text),
``empty_cells`` and, once a cell is written, ``data``.

Files: ``folder`` (where things lie, files that are replaced whole), ``links`` and ``locks``; ``data_file`` (an HDF5
file, open for reading), ``hdf5_parser`` (the same without the library, 7 to 16 times faster), ``file_writer`` (new
files); ``arrays`` (records and cells by id and key), ``array_cells`` and ``tiles`` (chunk sources); ``store``
(collections and their arrays made, changed, removed), ``rules`` (what a check finds, and what mends it).
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.formats.base import Feature, FormatInfo, Variant
from hyperslab.formats.collections.base import Layout
from hyperslab.formats.collections.format import FEATURES, NOTES, CollectionTreeFormat

_HOLDS = FEATURES | {Feature.CODECS}
_NOTES = NOTES | {
    Feature.UNLIMITED: "every array of a collection has the shape of its schema, and DEKER refuses any other",
    Feature.CODECS: "the HDF5 filters that a collection's options name",
    Feature.CHECKSUMS: "DEKER's options name no checksum",
    Feature.STRINGS: f"{NOTES[Feature.STRINGS]}, where DEKER does not look: its arrays hold numbers alone",
    Feature.SCALARS: f"{NOTES[Feature.SCALARS]}, where DEKER does not look: its arrays have dimensions",
}


class DekerFormat(CollectionTreeFormat):
    """Format ``deker``: all collections have DEKER's layout."""

    name = "deker"
    features = _HOLDS
    info = FormatInfo(
        "deker",
        "collections of arrays in HDF5 files, as DEKER stores them",
        "collections/<name>/<name>.json",
        True,
        (Variant("deker", _HOLDS, notes=_NOTES),),
    )
    only = "deker"

    def layouts(self) -> Sequence[Layout]:
        """Return DEKER's."""
        from hyperslab.formats.collections.deker.store import LAYOUT

        return (LAYOUT,)


FORMAT = DekerFormat()
