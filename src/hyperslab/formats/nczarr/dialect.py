"""Where the documents of NCZarr lie, and which dialect reads them: what the generation of the dataset says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType

from hyperslab.errors import ReadOnly
from hyperslab.formats.base import Format
from hyperslab.formats.documents import JsonMapping, JsonObject, list_or_empty, object_or_empty
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr import current, draft, plain_zarr
from hyperslab.formats.nczarr.generation import (
    ARRAY,
    GROUP,
    Context,
    Generation,
    NCZarrOptions,
    find_generation,
    read_provenance,
)
from hyperslab.formats.zarr.chunks import KeyOf
from hyperslab.formats.zarr.dialect import ConsolidatedDocs, Docs, MetadataDialect
from hyperslab.formats.zarr2 import document
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.keys import is_key

CONSOLIDATED = document.CONSOLIDATED
DRAFT_KEY = "nczarr"
"""The second top-level key of ``.zmetadata``, where the documents stand that plain readers of Zarr do not know."""
DECIDING = (".nczarr", ".zdataset")
"""Documents of the root that tell a generation which the documents of Zarr do not tell."""
DRAFT_GROUP = (draft.DIMS, draft.TYPES)
_PLAIN = (document.ZARRAY, document.ZGROUP, document.ZATTRS)
_V1 = (document.ZATTRS, ".nczarr", ".nczgroup", ".nczarray", ".nczattr")
_ALL = tuple(dict.fromkeys((*draft.EXTRAS, *_V1)))
_EXTRAS = {None: _ALL, Generation.DRAFT: draft.EXTRAS, Generation.V1: _V1}
_WRITTEN = (None, Generation.DRAFT, Generation.V2C)


class NczarrDialect(MetadataDialect):
    """The :class:`~hyperslab.formats.zarr.dialect.MetadataDialect` of one NCZarr dataset.

    It learns its generation from the documents of the root.
    """

    format = "nczarr"
    nodes = (document.ZARRAY, document.ZGROUP)
    consolidated_name = CONSOLIDATED

    def __init__(self, options: NCZarrOptions | None = None, family: Format | None = None) -> None:
        self.options = options or NCZarrOptions()
        self._family = family
        self._context: Context | None = None
        self._is_part = False
        self._is_stored = False
        self._bound: JsonObject = {}
        self.order: dict[str, list[str]] = {}
        """The names in each group in the order of their definition, where a copy is made that does not have it."""

    @property
    def generation(self) -> Generation | None:
        """Return who wrote the dataset; None before its root is known."""
        return None if self._context is None else self._context.generation

    @property
    def context(self) -> Context:
        """Return what documents depend on; of a dataset that is not known yet, as it is made with these options."""
        if self._context is not None:
            return self._context
        made = Generation.DRAFT if self.options.dialect == "draft" else Generation.V2C
        return Context(generation=made, options=self.options, **self._bound)

    def bind_lookups(
        self,
        group: Callable[[str], GroupSpec | None],
        texts: Callable[[str], Mapping[str, str]],
        structured: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Set where documents of other nodes are looked up."""
        self._bound = {"group": group, "texts": texts, "structured": structured}
        if self._context is not None:
            self._context = replace(self._context, **self._bound)

    def learn_generation(self, root: Docs | None) -> None:
        """Take the generation from the documents of the root; None: of a dataset that is being made."""
        if root is None:
            self._context = self.context
            return
        provenance = read_provenance(draft.stored_attributes(root))
        found = find_generation(root)
        self._is_stored = True
        self._is_part = found is Generation.PURE and not {GROUP, ARRAY}.isdisjoint(root.get(document.ZATTRS, {}))
        self._context = Context(generation=found, options=self.options, provenance=provenance, **self._bound)

    @property
    def variant(self) -> Format:
        """Return the format with the features of the dataset's dialect."""
        if self._family is None:
            raise TypeError("a spelling without a format")
        return self._family.variant({"dialect": "draft" if self.generation is Generation.DRAFT else "current"})

    def raise_if_only_read(self, url: str) -> None:
        """Raise ReadOnly for a dataset of a generation that is read, not changed."""
        if self.generation is Generation.DRAFT and self.context.provenance == {} and self._is_stored:
            message = "a dataset of the draft without _NCProperties, which netCDF did not write, is only read"
            raise ReadOnly(message, url=url, remedy="convert it to format nczarr")
        if self.generation not in _WRITTEN:
            what = "plain Zarr" if self.generation is Generation.PURE else f"NCZarr of {self.generation}"
            remedy = "convert it to format nczarr"
            if self._is_part:
                what, remedy = "a part of an NCZarr dataset", "open the dataset, and name the part by path="
            elif self.generation is Generation.PURE:
                remedy = "open it as zarr2, or make it NCZarr with hyperslab.adopt"
            raise ReadOnly(f"{what} is only read in format nczarr", url=url, remedy=remedy)

    @property
    def extras(self) -> tuple[str, ...]:
        """Return documents that a node may have besides; all that any generation knows before the dataset is known."""
        return _EXTRAS.get(self.generation, (document.ZATTRS,))

    @property
    def _module(self) -> ModuleType:
        generation = self.context.generation
        if generation is Generation.DRAFT:
            return draft
        return plain_zarr if generation is Generation.PURE else current

    def read(self, docs: Docs, node: str, problems: Problems) -> GroupSpec | ArraySpec:
        """Return the spec, by the dialect of the dataset; what is wrong goes to ``problems``."""
        if not node and self._context is None:
            self.learn_generation(docs)
        spec: GroupSpec | ArraySpec = self._module.parse(docs, node, self.context, problems)
        return spec

    def render(self, spec: GroupSpec | ArraySpec, node: str = "") -> Docs:
        docs: Docs = self._module.render(spec, node, self.context)
        return docs

    def is_array(self, docs: Docs) -> bool:
        """Return True where there is a ``.zarray``."""
        return document.ZARRAY in docs

    @staticmethod
    def is_array_document(data: bytes) -> bool:
        """Return True: a ``.zarray`` makes an array."""
        return True

    def key_of(self, spec: ArraySpec) -> KeyOf:
        """Return ``0.1`` or ``0/1``; of a scalar ``0``."""
        return document.chunk_keys(spec)

    def new_array(self, wish: ArraySpec, node: str = "") -> ArraySpec:
        """Return a user's wish in this format's spelling. Dimensions may have qualified names, which begin with a
        slash."""
        names = tuple(name.rpartition("/")[2] if name and name.startswith("/") else name for name in wish.dims)
        spec: ArraySpec = self._module.new_array(wish.evolve(dims=names), node, self.context)
        pairs = zip(spec.dims, wish.dims, strict=True)
        return spec.evolve(dims=tuple(value if value and value.startswith("/") else name for name, value in pairs))

    # -- consolidated metadata --------------------------------------------------------------------------------------

    def read_consolidated(self, doc: JsonMapping) -> ConsolidatedDocs | None:
        """Return documents by node: those of Zarr, and in the draft those that stand beside them, in the order that is
        said. None when damaged."""
        entries, side = doc.get("metadata"), doc.get(DRAFT_KEY, {})
        if not isinstance(entries, dict) or not isinstance(side, dict):
            return None
        copy: ConsolidatedDocs = {}
        for place, content in (*entries.items(), *object_or_empty(side.get("documents")).items()):
            path, _, name = place.rpartition("/")
            if (name not in _PLAIN and name not in _ALL) or not is_key(place):
                continue
            if not isinstance(content, dict):
                return None
            if name == document.ZGROUP:  # zarr-python 3 puts a copy into those within .zmetadata
                content = {key: value for key, value in content.items() if key != "consolidated_metadata"}
            copy.setdefault(path, {})[name] = content
        whole = {path: docs for path, docs in copy.items() if not docs.keys().isdisjoint(self.nodes)}
        return sort_nodes(whole, side.get("order"))

    def write_consolidated(self, holder: Docs, consolidated: ConsolidatedDocs) -> JsonObject:
        """Return the document ``.zmetadata``; the holder's own documents stand in it too."""
        whole = {"": holder} | {path: docs for path, docs in consolidated.items() if path}
        placed = {child(path, name): doc for path, docs in whole.items() for name, doc in docs.items()}
        # zarr-python 3 refuses a copy with a dtype that it does not know: such arrays stand aside, in our own part
        aside = {path for path, docs in whole.items() if has_subarrays(docs.get(document.ZARRAY, {}).get("dtype"))}
        names = {place: place.rpartition("/") for place in placed}
        entries = {
            place: placed[place] for place, (path, _, name) in names.items() if name in _PLAIN and path not in aside
        }
        value: JsonObject = {"metadata": entries, "zarr_consolidated_format": 1}
        if self.context.generation is Generation.DRAFT:
            beside = {place: doc for place, doc in placed.items() if place not in entries}
            value[DRAFT_KEY] = {"documents": beside, "order": names_by_group(sort_nodes(whole, self.order))}
        return value

    def without_consolidated(self, doc: JsonMapping) -> JsonObject | None:
        """Return None: nothing is left of ``.zmetadata``."""
        return None


def has_subarrays(dtype: object) -> bool:
    """Return True for a dtype with arrays as fields: zarr-python 3 refuses a whole copy that has one."""
    for field in list_or_empty(dtype):
        match field:
            case [_, _, _, *_]:
                return True
            case [_, inner] if has_subarrays(inner):
                return True
    return False


def names_by_group(copy: ConsolidatedDocs) -> dict[str, list[str]]:
    """Return the names right below each group that has any, in the order of the copy."""
    below: dict[str, list[str]] = {}
    for path in filter(None, copy):
        group, _, name = path.rpartition("/")
        below.setdefault(group, []).append(name)
    return below


def sort_nodes(copy: ConsolidatedDocs, order: object) -> ConsolidatedDocs:
    """Return the copy with the nodes of each group in this order, others behind; as it is where that says nothing."""
    if not isinstance(order, dict):
        return copy
    below = names_by_group(copy)
    result: ConsolidatedDocs = {"": copy[""]} if "" in copy else {}

    def add(group: str) -> None:
        names = below.get(group, ())
        first = [name for name in list_or_empty(order.get(group)) if name in names]
        for name in dict.fromkeys((*first, *names)):
            path = f"{group}/{name}" if group else name
            result[path] = copy[path]
            add(path)

    add("")
    return result | copy
