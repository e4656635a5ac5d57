"""Reading an NCZarr dataset of any generation: what its root tells of all others, and which children a group has.

The remedies of a dataset are everything that is known to go wrong in NCZarr, looked for here. Documents are changed
where they are wrong and left alone otherwise, in the words of their generation: also those of older ones, which are not
written else. A mend looks again, under the lock of the root.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress

from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError, Problem, Unsupported
from hyperslab.formats.base import PROVENANCE, Format, Reader
from hyperslab.formats.documents import LIMITS, JsonObject
from hyperslab.formats.nczarr.attributes import source_texts
from hyperslab.formats.nczarr.dialect import CONSOLIDATED, DECIDING, DRAFT_GROUP, NczarrDialect
from hyperslab.formats.nczarr.document_survey import NCZarrSurvey, SurveyedDataset
from hyperslab.formats.nczarr.generation import Generation, find_generation
from hyperslab.formats.nczarr.own_metadata import with_quoted_text
from hyperslab.formats.nczarr.rules import RULES
from hyperslab.formats.rules import Finding
from hyperslab.formats.zarr.dialect import Consolidated, Docs
from hyperslab.formats.zarr.reader import ThreadPaths
from hyperslab.formats.zarr.rules import make_findings
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


class _ThreadDocuments(threading.local):
    """Documents as the calling thread read them, until it has parsed them; other threads have their own."""

    def __init__(self) -> None:
        self.by_path: dict[str, bytes] = {}


class NczarrReader(SurveyedDataset):
    """A dataset open for reading."""

    may_shrink = False  # lengths belong to dimensions, which all arrays share
    _dialect: NczarrDialect

    def __init__(
        self,
        store: Store,
        dialect: NczarrDialect,
        settings: Settings,
        remembered: Mapping[str, bytes | None] | None = None,
    ) -> None:
        super().__init__(store, dialect, settings, remembered)
        self._raw = _ThreadDocuments()
        self._raw_copy: bytes | None = None
        self._copy_texts: Mapping[str, str] | None = None
        self._draft_order: Consolidated | None = None
        self._being_read = ThreadPaths()  # a group that asks for itself meanwhile finds nothing
        self._structured_arrays: list[str] | None = None
        dialect.bind_lookups(self._declared, self._texts, self._structured)

    @property
    def generation(self) -> Generation:
        """Return who wrote the dataset."""
        return self._dialect.context.generation

    @property
    def variant(self) -> Format:
        """Return the format with the features that its dialect has."""
        return self._dialect.variant

    @property
    def dialect(self) -> NczarrDialect:
        return self._dialect

    def refresh(self, path: str) -> None:
        """Forget what is remembered of all nodes, for their documents depend on one another."""
        with self._mutex:
            with self._spec_lock:
                self._changes += 1
                self._specs.clear()
            self._known_documents.clear()
            self._dialect.context.parsed.clear()
            self._prefetched.clear()
            self._remembered.clear()
            self._consolidated.clear()
            self._in_consolidated.clear()
            self._raw.by_path.clear()
            self._raw_copy = self._copy_texts = self._draft_order = self._structured_arrays = None
            self._looked_for_consolidated = True

    # -- what other documents say -----------------------------------------------------------------------------------

    def _declared(self, path: str) -> GroupSpec | None:
        """Return the group at ``path``; None where there is none, and while it is being read itself."""
        if path in self._being_read.paths:
            return None
        try:
            spec = self.node(path)
        except HyperslabError:
            return None
        return spec if spec.is_group else None

    def _parse(self, path: str, docs: Docs) -> GroupSpec | ArraySpec:
        reading = self._being_read.paths
        reading.add(path)
        try:
            return super()._parse(path, docs)
        finally:
            reading.discard(path)
            self._raw.by_path.pop(path, None)

    def _texts(self, path: str) -> Mapping[str, str]:
        """Return how the values of a node's ``.zattrs`` are spelled, in the copy where they are read from there."""
        if (raw := self._raw.by_path.get(path)) is not None:
            return source_texts(raw)
        copied, texts = self._raw_copy, self._copy_texts  # another thread may forget them
        if path not in self._in_consolidated or copied is None:
            return {}
        if texts is None:
            texts = self._copy_texts = source_texts(source_texts(copied).get("metadata", "{}").encode())
        return source_texts(texts.get(child(path, ZATTRS), "{}").encode())

    def _structured(self) -> list[str]:
        """Return the arrays whose cells have fields, in order; asked for of plain Zarr alone, whose structures get
        names."""
        if (known := self._structured_arrays) is None:  # another thread may forget it
            found: dict[str, JsonObject | None] = {}
            if (root := self._consolidated.get("")) is not None:
                found = {path: docs.get(ZARRAY) for path, docs in root.docs.items()}
            else:
                for place in self.store.list(""):
                    path, _, name = place.rpartition("/")
                    with suppress(FormatError):
                        found |= {path: self._stored(path, name)} if name == ZARRAY else {}
            arrays = {path: doc for path, doc in found.items() if doc is not None}
            known = sorted(path for path, doc in arrays.items() if isinstance(doc.get("dtype"), list))
            self._structured_arrays = known
        return known

    # -- documents --------------------------------------------------------------------------------------------------

    def _docs(self, path: str) -> Docs | None:
        if self._dialect.generation is None:
            self._learn()
        return super()._docs(path)

    def _learn(self) -> None:
        """Find out the generation. What is read of the root for that is not read again."""
        again: dict[str, bytes | None] = {}
        self._look_for_consolidated()
        root = self._consolidated_docs("")
        from_copy = root is not None
        if root is None:
            for name in self._dialect.nodes:
                if (doc := self._read(name, again)) is not None:
                    attributes = self._read(ZATTRS, again)
                    root = {name: doc} if attributes is None else {name: doc, ZATTRS: attributes}
                    break
        if root is None:
            self._dialect.learn_generation(self._without_root())
            return
        # documents of Zarr alone do not tell the draft and 4.8.0: their own are asked for, by as few requests as can be
        has_provenance = PROVENANCE in root.get(ZATTRS, {})
        if find_generation(root) is Generation.PURE and (not from_copy or has_provenance):
            more = (*DECIDING, *DRAFT_GROUP, ".zattr_type") if has_provenance else DECIDING
            root |= {name: doc for name in more if (doc := self._read(name, again)) is not None}
            if from_copy and find_generation(root) is not Generation.PURE:  # rewritten by others, who drop what is ours
                self._consolidated.clear()
        self._dialect.learn_generation(root)
        self._remembered |= again

    def _without_root(self) -> Docs | None:
        """Return the documents that tell the generation of a dataset whose root has none."""
        return {}

    def _read(self, name: str, again: dict[str, bytes | None]) -> JsonObject | None:
        again[name] = self._value("", name)
        self._remembered[name] = again[name]
        return self._stored("", name)

    def _value(self, path: str, name: str) -> bytes | None:
        """Return the bytes of a document; how attributes are spelled is kept until they are parsed."""
        data = super()._value(path, name)
        # kept as it is spelled: attributes that look like JSON are text, which only the bytes tell
        if name == CONSOLIDATED and not path:
            self._raw_copy = data if data is not None and len(data) <= LIMITS.size else None
        if name == ZATTRS and data is not None:
            self._raw.by_path[path] = data
        return data

    def _stored_docs(self, path: str) -> Docs | None:
        """Return the documents of a node as they are stored; those that only groups, or the root, have are not asked
        for."""
        for name in self._dialect.nodes:
            doc = self._stored(path, name)
            if doc is not None:
                docs = {name: doc}
                passed = (*(DRAFT_GROUP if name == ZARRAY else ()), *(DECIDING if path else ()))
                for extra in self._dialect.extras:
                    if extra not in passed and (more := self._stored(path, extra)) is not None:
                        docs[extra] = more
                return docs
        return None

    def writable_documents(self, path: str) -> Docs | None:
        """Return the documents of a node as they are stored, with quotes around text that has none, so that they can be
        written again."""
        docs = self._stored_docs(path)
        result = None if docs is None else with_quoted_text(docs, self.generation, lambda: self._texts(path))
        self._raw.by_path.pop(path, None)
        return result

    # -- the tree ---------------------------------------------------------------------------------------------------

    def children(self, path: str) -> Iterable[str]:
        """Return names of the nodes right below a group in the order of their definition, unlisted ones behind."""
        spec = self.node(path)
        if spec.is_array:
            return []
        own_names, there = listed_names(spec), self._stored_names(path)
        if there is None:
            return own_names
        known = set(there)
        first = [name for name in own_names or self._draft_order_of(path) if name in known]
        return list(dict.fromkeys((*first, *there)))

    # The order is that of definition, which no folder tells.
    children_after = Reader.children_after

    def _stored_names(self, path: str) -> list[str] | None:
        """Return the nodes right below a group that have documents; None where nothing can be listed."""
        copied = self._consolidated_names(path)
        if copied is not None:
            return copied
        try:
            names = self.store.list_dir(path)[1]
        except Unsupported:  # a web server that lists nothing
            return None
        return [name for name in names if self._is_node(child(path, name))]

    def _draft_order_of(self, path: str) -> list[str]:
        """Return the order of a group that has no lists, which in the draft stands beside consolidated metadata."""
        if self.generation is not Generation.DRAFT or self._consolidated_names(path) is not None:
            return []
        order = self._draft_order  # another thread may forget it
        if order is None:
            try:
                doc = self._stored("", CONSOLIDATED)
            except HyperslabError:
                doc = None
            order = self._draft_order = Consolidated((doc and self._dialect.read_consolidated(doc)) or {})
        return order.names(path) or []

    def list_mismatches(self, path: str) -> list[Problem]:
        """Return what a group holds and does not list, which netCDF does not see, and what it lists and does not
        hold."""
        spec = self.node(path)
        there = self._stored_names(path)
        if not spec.is_group or spec.layout.get("arrays") is None or there is None:
            return []
        own_names = dict.fromkeys(listed_names(spec))
        known = set(there)
        unlisted = [name for name in there if name not in own_names]
        missing = [name for name in own_names if name not in known]
        return [
            *(Problem(child(path, name), "unlisted", f"/{path} does not list {name!r}") for name in unlisted),
            *(Problem(child(path, name), "missing", f"/{path} lists {name!r}, which is not there") for name in missing),
        ]

    # -- damage -----------------------------------------------------------------------------------------------------

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield what is wrong with the documents, but for what each key tells alone, where the root can be read."""
        try:
            survey = NCZarrSurvey(self)
        except HyperslabError:  # said where documents are looked at one by one
            return
        yield from make_findings(self, survey, lambda: nullcontext(NCZarrSurvey(self)), RULES, survey.specs, deep=deep)


def listed_names(spec: GroupSpec) -> list[str]:
    """Return the arrays and then the groups that a group says to have."""
    return [*(spec.layout.get("arrays") or ()), *(spec.layout.get("groups") or ())]
