"""Reading an HDMF dataset: nodes, the links beside them, object ids, and the schemas that it keeps.

Nothing is followed or resolved here. A group and a link of one name cannot both be had: the link counts, since it is
what the writers of the format put there last. Schemas are ``/specifications/<namespace>/<version>/<source>``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, Invalid, NodeNotFound, UnsafePickle
from hyperslab.formats.base import Format, Reader
from hyperslab.formats.documents import read_json
from hyperslab.formats.hdmf.attributes import LAYOUT, LINKS, SPECIFICATIONS, SPECLOC_PATH
from hyperslab.formats.hdmf.cell_types import PICKLE, check_fill_value
from hyperslab.formats.hdmf.link_sources import find_dataset
from hyperslab.formats.hdmf.profile import HdmfOptions
from hyperslab.formats.hdmf.reference_ids import map_object_ids, read_object_id
from hyperslab.formats.zarr.reader import ZarrReader
from hyperslab.model.paths import child, is_within, normalize, split
from hyperslab.model.refs import Link, Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.location import Location

# -- specifications ----------------------------------------------------------------------------------------------------

_LEVELS = 3
# At most 18 digits a number, which fit 64 bits: Python refuses to read one of thousands.
_PARTS = re.compile(r"\d{1,18}|[A-Za-z]+")


def specifications_path(root: GroupSpec | ArraySpec | None) -> str | None:
    """Return the path that the root gives to the specifications; None where it gives none, or one that is no path."""
    path = None if root is None else root.layout.get(LAYOUT, {}).get(SPECLOC_PATH)
    try:
        return normalize(path or "") or None
    except Invalid:
        return None


def is_specification(path: str, place: str) -> bool:
    """Return True if a path is that of a source's schema, below the place of the specifications."""
    return path != place and is_within(path, place) and path.count("/") == place.count("/") + _LEVELS


def version_key(version: str) -> tuple[object, ...]:
    """Return a key that sorts versions, the newest last: by numbers, with a suffix (``2.0-alpha``) before without."""
    parts = _PARTS.findall(version)
    if not version[:1].isdigit():
        return (0,)
    numbers = [int(part) if part.isdigit() else -1 for part in parts]
    return 1, [*numbers, 0] if -1 not in numbers else numbers, version


class Specifications(Mapping[str, Mapping[str, Any]]):
    """The namespaces below a group, their versions, their sources: nothing is read before it is taken out.

    ``level``: how many mappings lie in one another from here on; at the last the values are schemas.
    """

    def __init__(self, documents: ZarrReader, path: str, level: int = _LEVELS) -> None:
        self._documents = documents
        self._path = path
        self._level = level

    def __iter__(self) -> Iterator[str]:
        try:
            names = list(self._documents.children(self._path))
        except NodeNotFound:
            return iter(())
        return iter(sorted(names, key=version_key) if self._level == _LEVELS - 1 else names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        path = child(self._path, name)
        if self._level == 1:
            return read_schema(self._documents, path)
        return Specifications(self._documents, path, self._level - 1)

    def __repr__(self) -> str:
        return f"<{', '.join(self) or 'nothing'}>"


def read_schema(documents: ZarrReader, path: str) -> object:
    """Return one source's schema as a JSON value; UnsafePickle for one stored as a pickle, FormatError for no JSON."""
    try:
        source = documents.chunks(path)
        spec = documents.node(path)
        if not spec.is_array or len(spec.shape) > 1 or spec.shape == (0,):
            raise FormatError("a specification is one text")
        if any(codec.name == PICKLE for codec in spec.codecs):
            raise UnsafePickle("a specification is stored as a pickle", remedy="write it anew as JSON")
        block = source.read((0,) * len(spec.shape))
        match [] if block is None else block.reshape(-1).tolist():
            case [str(text), *_]:
                return read_json(text.encode())
            case [bytes(text), *_]:
                return read_json(text)
        raise FormatError("a specification is no text")
    except HyperslabError as error:
        raise error.locate(url=documents.store.url, node=path) from error.__cause__


def links_of(spec: GroupSpec | ArraySpec) -> Mapping[str, Link]:
    """Return the links of a group by name."""
    links: Mapping[str, Link] = spec.layout.get(LAYOUT, {}).get(LINKS, {})
    return links


class HdmfReader(Reader):
    """A dataset open for reading. ``documents`` reads what lies under keys, ``variant`` is the format of its kind."""

    may_shrink = True

    def __init__(self, documents: ZarrReader, where: Location, options: HdmfOptions, variant: Format) -> None:
        self._documents = documents
        self.store: Store = documents.store
        self._where = where
        self._options = options
        self._variant = variant
        self._ids: Mapping[str, list[str]] | None = None
        self._place: tuple[str | None] | None = None

    @property
    def variant(self) -> Format:
        """Return the format with the features of the dataset's profile."""
        return self._variant

    def close(self) -> None:
        """Close the store."""
        self._documents.close()

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node, and of its group, whose document has the links."""
        self._ids = self._place = None
        self._documents.refresh(path)
        group, name = split(path)
        if name and self._link(path) is not None:
            self._documents.refresh(group)

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a node's own document, of a link that of its group."""
        return self._documents.stamp(path if self._link(path) is None else split(path)[0])

    def watch(self, path: str) -> Callable[[], Stamp | None]:
        return self._documents.watch(path if self._link(path) is None else split(path)[0])

    # -- the tree ---------------------------------------------------------------------------------------------------

    def node(self, path: str) -> GroupSpec | ArraySpec | Link:
        """Return the node at `path`, or the link itself. NodeNotFound, or FormatError with every problem."""
        link = self._link(path)
        return self._documents.node(path) if link is None else link

    def _link(self, path: str) -> Link | None:
        """Return the link at `path` from its group, which need not be whole for others to be read; None where there is
        none."""
        group, _, name = path.rpartition("/")
        if not name:
            return None
        try:
            layout = self._documents.node(group).layout.get(LAYOUT)
            return layout[LINKS].get(name) if layout and LINKS in layout else None
        except HyperslabError:
            return None

    def children(self, path: str) -> Iterable[str]:
        """Return the names of the nodes right below a group, then those of its links."""
        spec = self.node(path)
        if not spec.is_group:
            return []
        names = list(self._documents.children(path))
        if not path and (place := self._specifications_group()) is not None:
            names.append(place.partition("/")[0])
        return list(dict.fromkeys([*names, *links_of(spec)]))

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of an array by its stored documents, whatever consolidated metadata says."""
        if self._link(path) is not None:
            raise NodeNotFound("this is a link, not an array", url=self.store.url, node=path)
        source = self._documents.chunks(path)
        self._check(path, self._documents.node(path))
        return source

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the chunks of an array as `spec` describes them, whatever the documents say."""
        self._check(path, spec)
        return self._documents.chunks_as(path, spec)

    def _check(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        """Check the fill value of rows before any cell is read, since it may be a pickle."""
        if not spec.is_array or (isinstance(spec.dtype, np.dtype) and not spec.dtype.hasobject):
            return
        try:
            check_fill_value(spec)
        except HyperslabError as error:
            raise error.locate(url=self.store.url, node=path) from error.__cause__

    # -- what leads elsewhere ---------------------------------------------------------------------------------------

    def place_of(self, pointer: Pointer) -> Location | None:
        """Return where the dataset is that a pointer leads to, None for this one; BrokenLink or ExternalLinkRefused.

        A warning tells where it is not the place that ``source`` names, at which nothing is.
        """
        root = self._node_or_none("")
        root_id = None if root is None else read_object_id(root)
        found = find_dataset(self._where, pointer, root_id=root_id, allow=self._options.allow_external)
        if found.explanation:
            warnings.warn(f"{self.store.url}: {found.explanation}", UserWarning, stacklevel=2)
        return found.place

    def object_ids(self) -> Mapping[str, str]:
        """Return the path of each node that has an ``object_id``, by that; of two the first counts."""
        return {object_id: paths[0] for object_id, paths in self._paths_by_id().items()}

    def paths_of(self, object_id: str) -> Sequence[str]:
        return self._paths_by_id().get(object_id, ())

    def _paths_by_id(self) -> Mapping[str, list[str]]:
        ids = self._ids  # another thread may forget them
        if ids is None:
            ids = self._ids = map_object_ids(self._documents, self._specifications_group())
        return ids

    # -- specifications ---------------------------------------------------------------------------------------------

    def specifications(self) -> Mapping[str, Mapping[str, Mapping[str, object]]]:
        """Return namespaces, in each versions (the newest last), in each sources: a schema as JSON is read when it is
        taken out."""
        place = self._specifications_group()
        return {} if place is None else Specifications(self._documents, place)

    def _specifications_group(self) -> str | None:
        """Return the group of the specifications; None where there are none."""
        place = self._place  # another thread may forget it
        if place is None:
            place = self._place = (self._find_specifications(),)
        return place[0]

    def _find_specifications(self) -> str | None:
        root = self._node_or_none("")
        place = specifications_path(root)
        if root is None:
            return None
        if place is None and SPECIFICATIONS not in self._documents.children(""):
            if "neurodata_type" not in root.attrs:  # then it has a schema
                return None
            # Consolidated metadata of hdmf-zarr 0.6 has neither the group nor its name in the root. Only then, and
            # once, the stored root is read as well.
            with suppress(HyperslabError):
                place = specifications_path(self._documents.stored_node(""))
        place = place or SPECIFICATIONS
        return place if isinstance(self._node_or_none(place), GroupSpec) else None

    def _node_or_none(self, path: str) -> GroupSpec | ArraySpec | None:
        try:
            return self._documents.node(path)
        except HyperslabError:
            return None
