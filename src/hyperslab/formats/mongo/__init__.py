"""MongoDB: labelled objects in two collections, as xarray_mongodb stores them.

Specification: "Database Reference" of xarray_mongodb (Apache-2.0; the specification is in the public domain). An object
is one document of ``<collection>.meta`` and documents of ``<collection>.chunks`` with the bytes of its arrays::

    {"_id": ObjectId("…"), "name": "air",
     "coords": {"lat": {"dims": ["lat"], "dtype": "<f4", "shape": [25], "chunks": null, "type": "ndarray", "data": …}},
     "data_vars": {"t2m": {"dims": ["time", "lat"], "dtype": "<f4", "shape": [240, 25], "chunks": [[120, 120], [25]],
                           "type": "ndarray", "attrs": {"units": "K"}}},
     "chunkSize": 2097152, "attrs": {"title": "…"}, "hyperslab": {"version": 7, …}}
    {"_id": …, "meta_id": ObjectId("…"), "name": "t2m", "chunk": [1, 0], "n": 0, "dtype": "<f4", "shape": [120, 25],
     "type": "ndarray", "data": …}

``mongodb://host/database?collection=xarray#name`` is one object, by its name or id; with ``at=`` behind ``?`` it is the
version of it that was the present one at a moment; without ``#`` it is the collection, a group of objects. A new object
is found once it is whole. What is ours beyond the specification stands in one field of the first document, which others
pass over.

Documents, pure or nearly so:

- ``bson_values``: what a document can say (sizes, dtypes, attributes, limits); ``errors``. Called by all others.
- ``document``: the document of an object, and the fields that are ours in it.
- ``chunk_documents``: cells as chunk documents and back.
- ``to_spec``, ``edit_document``: an object as a hyperslab dataset (``reader``), and changes it (``writer``).

In the collections:

- ``chunk_queries``: chunk documents found and put. ``indexes``: those of both collections.
- ``chunk_writes``: chunks changed so that readers see the old one or the new one. Called by ``chunk_source`` and
  ``variables``.
- ``object_changes``: one change of an object at a time: lease, compare-and-swap of its document, signs of life.
- ``objects``: names, replacing, copying, deleting. Both of them are how either face changes objects.
- ``search``: objects by what they are. Called by ``reader``, the commands and the second face.
- ``retention``: objects removed by age and number.
- ``completeness``, ``rules``: what is missing, wrong or left over, for check, repair and garbage collection.

Faces:

- ``server``: what a URL names, clients of this process, errors. ``reader``, ``writer``: objects and collections under
  ``hyperslab.open``; ``chunk_source``, ``embedded``: the chunks of an array there.
- ``variables``: whole variables read and changed, for the second face (:mod:`hyperslab.bridges.mongo`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Invalid
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Reader, Variant
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location, Probe

if TYPE_CHECKING:
    from hyperslab.formats.mongo.indexes import SearchIndex

SCHEMES = ("mongodb", "mongodb+srv")
FEATURES = frozenset(
    {
        Feature.GROUPS,
        Feature.ARRAYS,
        Feature.DIMENSIONS,
        Feature.UNLIMITED,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.COMPLEX,
        Feature.BOOLEAN,
        Feature.DATETIME,
        Feature.FLOAT16,
        Feature.UNICODE,
        Feature.FIXED_BYTES,
        Feature.SCALARS,
        Feature.CHUNKS,
        Feature.VARYING_CHUNKS,
        Feature.SPARSE,
        Feature.UNITS,
    }
)
_FIELD = "in the field `hyperslab` of the object's document, which other readers pass over"
_NOTES = {
    Feature.GROUPS: f"arrays are variables called by their paths; what groups say stands {_FIELD}",
    Feature.DIMENSIONS: "shared by all arrays of an object; a second length of one name is stored as `name@length`",
    Feature.UNLIMITED: _FIELD,
    Feature.TYPED_ATTRIBUTES: _FIELD,
    Feature.STRINGS: "cells have one length: `<U…`",
    Feature.VLEN: "cells have one length: `|S…`",
    Feature.STRUCTURED: "the name of a dtype in a document says no fields",
    Feature.BIG_ENDIAN: "bytes are little-endian",
    Feature.CODECS: "compression is the server's",
    Feature.CHECKSUMS: "left to the server",
    Feature.UNITS: "the field `units`, or the attribute",
    Feature.LABELS: "coordinates say the same",
}
# xarray_mongodb embeds as many bytes.
_EMBEDDED = 255 << 10
# The server takes and gives documents of 1 to 2 MiB quickest, as measured.
_SEGMENT = 2 << 20


@dataclass(frozen=True, slots=True)
class MongoFormat(Format):
    """Format ``mongo``; options ``chunk_size_bytes`` (of cells in one document of a new object; 2 MiB) and
    ``embed_threshold_bytes`` (of arrays in the document of the object itself, the smallest first; 255 KiB),
    ``search_index`` (True: whoever makes an object makes the indexes by which objects are found; names of attributes:
    by these, too; False)."""

    name = "mongo"
    features = FEATURES
    info = FormatInfo(
        "mongo",
        "labelled arrays with units, dense and sparse, as objects of a database",
        "the URL: mongodb://host/database#name",
        True,
        (Variant("mongo", FEATURES, notes=_NOTES),),
    )
    traits = FormatTraits(
        in_database=True, keeps_versions=True, dimension_scope="dataset", native_kinds="mMb", finds_damage=True
    )

    def sniff(self, probe: Probe) -> bool:
        """Return True if the place is a database; no request is sent to it."""
        return probe.where.scheme in SCHEMES

    def is_taken(self, where: Location) -> bool:
        """Return True if the object is there; a collection is never in the way, for nothing takes its place."""
        from hyperslab.formats.mongo.server import ServerPlace, import_pymongo

        import_pymongo()
        from hyperslab.formats.mongo.reader import CollectionPair

        place = ServerPlace.of(where)
        if place.object is None:
            return False
        return CollectionPair.of(place, DEFAULTS).find_id(place.object) is not None

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of a new array as documents hold it, or Unsupported; no request is sent."""
        from hyperslab.formats.mongo.server import import_pymongo

        import_pymongo()
        from hyperslab.formats.mongo.edit_document import new_array

        return new_array(spec)

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        chunk_size_bytes: int = _SEGMENT,
        embed_threshold_bytes: int = _EMBEDDED,
        search_index: SearchIndex = True,
    ) -> Reader:
        """Open an object or a collection, or make an object. NotFound, AlreadyExists, ReadOnly,
        WrongCredentials, StorageError.

        Invalid for a name that several objects have, and for a new object without a name.
        """
        from hyperslab.formats.mongo.server import import_pymongo

        if where.scheme not in SCHEMES:
            remedy = "name one: mongodb://host/database#name"
            raise Invalid("format mongo is that of databases", url=where.url, remedy=remedy)
        import_pymongo()
        from hyperslab.formats.mongo.bson_values import parse_byte_options
        from hyperslab.formats.mongo.indexes import parse_search_index
        from hyperslab.formats.mongo.writer import WriteOptions, open_place

        sizes = parse_byte_options(chunk_size_bytes, embed_threshold_bytes)
        return open_place(where, mode, settings, WriteOptions(*sizes, parse_search_index(search_index)))


FORMAT = MongoFormat()
