"""The format of a root of collections: how it is recognised and opened, one way for all layouts.

A root is known by ``collections/<name>/collection.json`` (our own layout), ``collections/<name>/<name>.json`` (DEKER's)
or ``collections.json``; an empty folder ``collections`` is an empty database. A collection's own folder opens as well.
Recognising a dataset of Zarr costs no request more by it.
"""

from __future__ import annotations

import os
import posixpath
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import FormatError, HyperslabError, StorageError, Unsupported
from hyperslab.formats.base import Feature, Format, FormatTraits, Mode
from hyperslab.formats.collections.base import Layout
from hyperslab.formats.collections.tree import KEY, Tree, render_tree
from hyperslab.formats.opening import nothing_at, replace_folder
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store
from hyperslab.stores.building import already_exists
from hyperslab.stores.location import Location, Probe

if TYPE_CHECKING:
    from hyperslab.formats.collections.tree import CollectionTreeReader
    from hyperslab.formats.collections.tree_writer import CollectionTreeWriter

FOLDER = "collections"


FEATURES = frozenset(
    {
        Feature.GROUPS,
        Feature.ARRAYS,
        Feature.DIMENSIONS,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.STRINGS,
        Feature.STRUCTURED,
        Feature.SUBARRAYS,
        Feature.COMPLEX,
        Feature.BOOLEAN,
        Feature.DATETIME,
        Feature.FLOAT16,
        Feature.UNICODE,
        Feature.FIXED_BYTES,
        Feature.SCALARS,
        Feature.CHUNKS,
        Feature.UNITS,
        Feature.LABELS,
    }
)
"""What every layout can hold."""


OF_ZARR = ("zarr.json", ".zmetadata", ".zgroup", ".zarray")
"""Documents that tell a dataset of Zarr."""


_OVER_HTTP = (
    "a Client needs a folder or a bucket; what hyperslab serves is opened without one: "
    "hyperslab.open(URL)['COLLECTION'] has its arrays by id, with their attributes, ['COLLECTION/ID'] is one"
)


# Collections that are looked at to find out how a root is laid out.
_FEW = 8


class CollectionTreeFormat(Format):
    """A format of roots of collections. ``only``: the layout that all collections of a root have; None for several."""

    only: str | None = None

    @abstractmethod
    def layouts(self) -> Sequence[Layout]:
        """Return the layouts that it opens; what is new gets the first."""

    def sniff(self, probe: Probe) -> bool:
        """Return True if the place is a root of collections, or a collection's folder."""
        if probe.is_file or probe.has_any(OF_ZARR):
            return False
        inner = collection_at(probe.where, probe.get)
        kinds = _layout_names(probe) if inner is None else inner[2]
        if kinds is None:
            return False
        # A root of DEKER's collections alone is of its format; any other is of the one that has both layouts.
        return set(kinds) != {"deker"} if self.only is None else {self.only}.issuperset(kinds)

    traits = FormatTraits(
        has_collections=True, keeps_versions=True, label_rules="scales, words and regular times", finds_damage=True
    )

    def placed(self, where: Location) -> None:
        """Make links of collections that were made elsewhere lead to where their files are."""
        for layout in self.layouts():
            for name in layout.names(where) if where.scheme == "file" else ():
                found = layout.open(where, name, DEFAULTS, writable=True)
                if found is not None:
                    found.relink()

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish as a collection of one array holds it, or Unsupported."""
        from hyperslab.formats.collections.single_array import new_array

        return new_array(spec, self.name)

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
    ) -> CollectionTreeReader:
        """Open or make a root of collections. NotFound, FormatError, AlreadyExists."""
        from hyperslab.formats.collections.tree import CollectionTreeReader

        root, base = _root_of(where) if mode in ("r", "r+") else (where, "")
        if mode == "r":
            return _checked_reader(CollectionTreeReader(root, self.layouts(), settings, base), where)

        def make(path: str) -> None:
            self.open(Location.of(path), "x", settings=settings).close()

        if mode == "w" and replace_folder(where, make, durable=settings.durable):
            mode = "r+"
        if mode == "r+":
            return _checked_reader(self._writer(root, settings, base), where)
        return self._create(where, mode, settings)

    def _writer(self, where: Location, settings: Settings, base: str = "") -> CollectionTreeWriter:
        from hyperslab.formats.collections.tree_writer import CollectionTreeWriter

        return CollectionTreeWriter(where, self.layouts(), settings, base, format=self.name)

    def _create(self, where: Location, mode: Literal["w", "x"], settings: Settings) -> CollectionTreeWriter:
        """Make a new root."""
        writer = self._writer(where, settings)
        store = writer.store
        if mode == "w":
            store.delete_prefix("")
        elif any(map(len, _list_root(store))):
            writer.close()
            raise already_exists(where.url)
        if where.scheme == "file":
            os.makedirs(os.path.join(where.target, FOLDER), exist_ok=True)
        else:
            store.put(KEY, render_tree(Tree()), durable=settings.durable)
        return writer


def _checked_reader(reader: CollectionTreeReader, where: Location) -> CollectionTreeReader:
    """Return the reader of a place that holds collections. NotFound, FormatError, Unsupported where nothing lists."""
    names, folders = _list_root(reader.store)
    if FOLDER not in folders and KEY not in names:
        reader.close()
        if not names and not folders and where.scheme != "file":
            raise nothing_at(where)
        remedy = "name a root of collections, or make one with mode='x'"
        raise FormatError(f"this holds no collections: no folder {FOLDER!r}", url=where.url, remedy=remedy)
    return reader


def _list_root(store: Store) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the keys and folders right in a root. Unsupported where the server lists nothing: it says how
    collections are read over HTTP."""
    try:
        return store.list_dir("")
    except Unsupported as error:
        error.remedy = _OVER_HTTP
        raise


def collection_at(where: Location, get: Callable[[str], bytes | None]) -> tuple[Location, str, list[str]] | None:
    """Return the root, the name and the layouts of the collection whose folder a place is, whose keys ``get`` reads;
    None for any other place."""
    name = _name_at(where)
    if name is None:
        return None
    found = [layout for layout, key in _document_names(name) if get(key) is not None]
    root = where.at("../..") if found else None
    return None if root is None else (replace(root, moment=where.moment), name, found)


def _name_at(where: Location) -> str | None:
    """Return the name of a place in a folder that is called as that of all collections."""
    place = str(where.target) if where.scheme == "file" else where.url.rstrip("/")
    above, name = posixpath.split(place.replace(os.sep, "/"))
    return name if name and posixpath.basename(above) == FOLDER and where.at("../..") is not None else None


def _root_of(where: Location) -> tuple[Location, str]:
    """Return the root that a place is, or is a collection of; and its name then, else nothing."""
    if _name_at(where) is None:
        return where, ""
    store = where.store(read_only=True)
    try:
        inner = collection_at(where, store.get)
    finally:
        store.close()
    return (where, "") if inner is None else inner[:2]


def _document_names(name: str) -> tuple[tuple[str, str], ...]:
    """Return by layout what the document of a collection is called in its folder."""
    return ("hyperslab", "collection.json"), ("deker", f"{name}.json")


def _has_document(probe: Probe, key: str) -> bool:
    """Return True if the document of a collection is there; one that cannot be read keeps nobody from the others."""
    try:
        return probe.get(key) is not None
    except FormatError:
        return True
    except StorageError:
        if probe.where.scheme != "file":
            raise
        return False


def _layout_names(probe: Probe) -> list[str] | None:
    """Return the layouts of the first collections of a root; None when the place is no root of collections."""
    try:
        names, folders = probe.list_dir()
        if FOLDER not in folders:
            return [] if KEY in names else None
        locks, inner = probe.list_dir(FOLDER)
    except HyperslabError:  # a web server that lists nothing
        return None
    found = [
        layout
        for name in sorted(inner)[:_FEW]
        for layout, key in _document_names(name)
        if _has_document(probe, f"{FOLDER}/{name}/{key}")
    ]
    return found if found or KEY in names or not (inner or locks) else None


# -- notes of the features --------------------------------------------------------------------------------------------


_BESIDE = "in `collections.json` beside the collections, at most 16 MiB an array"


NOTES = {
    Feature.GROUPS: "collections are groups of arrays; any others stand in `collections.json`",
    Feature.TYPED_ATTRIBUTES: "of an array of its own; one of a collection has the attributes of its schema",
    **dict.fromkeys((Feature.STRINGS, Feature.STRUCTURED, Feature.SUBARRAYS, Feature.BOOLEAN), _BESIDE),
    **dict.fromkeys((Feature.DATETIME, Feature.UNICODE, Feature.FIXED_BYTES, Feature.SCALARS), _BESIDE),
    Feature.VLEN: "a schema says numbers of one size",
    Feature.BIG_ENDIAN: "a schema says types without a byte order",
    Feature.VARYING_CHUNKS: "a schema has one tile length per dimension",
    Feature.SHARDS: "each tile is one already, nobody chooses",
    Feature.LABELS: "scales, words and regular times of the schema",
}
"""How features are held or lacking in every layout."""
