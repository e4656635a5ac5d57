"""Damage of NCZarr datasets: what netcdf-c and others wrote otherwise than they meant, and what mends it.

Dimensions have a file of their own (``dimension_damage``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import prod
from typing import Any, Protocol

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import build_chain
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.documents import JsonMapping, JsonObject, mend_json
from hyperslab.formats.format_errors import shorten
from hyperslab.formats.nczarr.cells import FILL, FILL_DOUBLE, SIX_DIGITS, with_item_size
from hyperslab.formats.nczarr.dialect import NczarrDialect
from hyperslab.formats.nczarr.dimensions import (
    SCALAR,
    XARRAY,
    dimensions_by_name,
    find_dimension,
    short_names,
    write_group_dimensions,
)
from hyperslab.formats.nczarr.generation import (
    ARRAY,
    GROUP,
    SUPERBLOCK,
    TYPES,
    Context,
    Generation,
    to_current_documents,
)
from hyperslab.formats.nczarr.user_types import dtype_in_bytes
from hyperslab.formats.zarr.commit import DocumentChange
from hyperslab.formats.zarr.damage import NodeDamage
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS, ZGROUP, number_of_text
from hyperslab.model.dims import Dimension
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Size, Store

# -- NCZarr's own metadata in the documents of each generation --------------------------------------------------------
# Read as netcdf-c spells it today; what is changed stays where it stood, under the names of its generation.


_DRAFT_WORDS = {"dimension_references": (ZARRAY, "dimensions"), "written": (ZARRAY, "written")}
_OLDER_NAMES = {"dimensions": "dims", "arrays": "vars", "dimension_references": "dimrefs"}
_OLDER_PLACES = {GROUP: ZGROUP, ARRAY: ZARRAY, TYPES: ZATTRS}
_V1_PLACES = {GROUP: ".nczgroup", ARRAY: ".nczarray", TYPES: ".nczattr"}
_TEXT = frozenset({"char", ">S1", "<S1", "<U1", ">U1", "|U1"})


def own_metadata(docs: Docs, generation: Generation, kind: str) -> JsonObject | None:
    """Return the object ``kind`` (``_nczarr_group`` …) in today's words; None where there is none."""
    if generation is Generation.DRAFT:
        return {word: docs[name][key] for word, (name, key) in _DRAFT_WORDS.items() if key in docs.get(name, {})}
    said = to_current_documents(docs).get(ZATTRS, {}).get(kind)
    return said if isinstance(said, dict) else None


def with_own_metadata(docs: Docs, generation: Generation, kind: str, changes: JsonMapping) -> Docs:
    """Return the documents with members of the object ``kind`` changed; one that becomes None goes."""
    if generation is Generation.DRAFT:
        doc = _changed(docs[ZARRAY], {_DRAFT_WORDS[word][1]: value for word, value in changes.items()})
        return docs | {ZARRAY: doc}
    if not generation.is_older:
        attributes = docs.get(ZATTRS, {})
        return docs | {ZATTRS: {**attributes, kind: _changed(attributes.get(kind), changes)}}
    named = {_OLDER_NAMES.get(word, word): value for word, value in changes.items()}
    if generation is Generation.V1:
        return docs | {_V1_PLACES[kind]: _changed(docs.get(_V1_PLACES[kind]), named)}
    doc = docs.get(_OLDER_PLACES[kind], {})
    usual = kind.upper() if generation is Generation.V2A else kind
    key = next((key for key in doc if key.lower() == kind), usual)
    return docs | {_OLDER_PLACES[kind]: {**doc, key: _changed(doc.get(key), named)}}


def _changed(said: object, changes: JsonMapping) -> JsonObject:
    whole = {**(said if isinstance(said, dict) else {}), **changes}
    return {name: value for name, value in whole.items() if value is not None}


def read_references(docs: Docs, generation: Generation) -> Any:
    """Return the qualified names of an array's dimensions as they are stored; None where nothing is."""
    return (own_metadata(docs, generation, ARRAY) or {}).get("dimension_references")


def with_references(docs: Docs, generation: Generation, names: Sequence[str]) -> Docs:
    """Return the array on these dimensions, for readers of Zarr too."""
    plain: list[str] = list(short_names(names))
    if not names and docs.get(ZARRAY, {}).get("shape") == [1]:
        plain = [SCALAR]
    changed = with_own_metadata(docs, generation, ARRAY, {"dimension_references": list(names)})
    if XARRAY not in docs.get(ZATTRS, {}) and generation.is_older:
        return changed
    return changed | {ZATTRS: {**changed.get(ZATTRS, {}), XARRAY: plain}}


def with_dimensions(docs: Docs, generation: Generation, dims: Iterable[Dimension]) -> Docs:
    """Return the group with these dimensions declared, in place of those of the same names."""
    entries = write_group_dimensions(dims)
    if generation is Generation.DRAFT:
        return docs | {".zdims": {**docs.get(".zdims", {}), **entries}}
    said = dimensions_by_name((own_metadata(docs, generation, GROUP) or {}).get("dimensions"))
    return with_own_metadata(
        docs, generation, GROUP, {"dimensions": {**(said if isinstance(said, dict) else {}), **entries}}
    )


def with_shape(docs: Docs, generation: Generation, shape: Sequence[int], rows: Sequence[int]) -> Docs:
    """Return the array of another shape, which was given cells as far as ``rows``."""
    changed = docs | {ZARRAY: {**docs[ZARRAY], "shape": list(shape)}}
    if generation.is_older:
        return changed
    return with_own_metadata(changed, generation, ARRAY, {"written": None if list(rows) == list(shape) else list(rows)})


def with_quoted_text(docs: Docs, generation: Generation, texts: Callable[[], Mapping[str, str]]) -> Docs:
    """Return the documents as they can be written: characters that stand without quotes (rule 3.8) get them as
    ``texts`` spells them, numbers that JSON lacks are text."""
    if ZATTRS not in docs:
        return docs
    codes = docs.get(".zattr_type", {}) if generation is Generation.DRAFT else _types(docs, generation)
    attributes = {}
    for name, value in docs[ZATTRS].items():
        code = codes.get(name)
        bare = isinstance(code, str) and code in _TEXT and not isinstance(value, str)
        text = texts().get(name) if bare else None
        attributes[name] = _finite(value) if text is None else text
    return docs | {ZATTRS: attributes}


def _types(docs: Docs, generation: Generation) -> JsonMapping:
    types = (own_metadata(docs, generation, TYPES) or {}).get("types")
    return types if isinstance(types, dict) else {}


def _finite(value: object) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {name: _finite(item) for name, item in value.items()}
    return value


# -- a survey of one dataset ------------------------------------------------------------------------------------------


DEEPEST = 100


class SurveyedDataset(Protocol):
    """What is asked of a dataset that is looked at."""

    @property
    def store(self) -> Store: ...
    @property
    def dialect(self) -> NczarrDialect: ...
    def node(self, path: str) -> GroupSpec | ArraySpec: ...
    def children(self, path: str) -> Iterable[str]: ...
    def writable_documents(self, path: str) -> Docs | None: ...
    def list_mismatches(self, path: str) -> list[Problem]: ...
    def refresh(self, path: str) -> None: ...


__all__ = ["Examiner", "NCZarrSurvey", "NodeDamage", "SurveyedDataset"]

Examiner = Callable[["NCZarrSurvey"], Iterable[NodeDamage]]


class NCZarrSurvey:
    """Documents and specs by path, read when they are asked for. Nodes that cannot be parsed are left out."""

    def __init__(self, dataset: SurveyedDataset) -> None:
        self.dataset = dataset
        dataset.refresh("")
        dataset.node("")
        self._docs: dict[str, Docs] = {}
        self._understood: dict[str, tuple[Docs | None, set[str]]] = {}
        self._specs: dict[str, GroupSpec | ArraySpec] | None = None

    @property
    def generation(self) -> Generation:
        """Return who wrote the dataset."""
        return self.context.generation

    @property
    def context(self) -> Context:
        """Return what the meaning of documents depends on."""
        return self.dataset.dialect.context

    @property
    def store(self) -> Store:
        """Return the store that the dataset lies in."""
        return self.dataset.store

    def spec(self, path: str) -> GroupSpec | ArraySpec | None:
        """Return one node, for which the others are not looked at; None where it cannot be read."""
        try:
            return self.dataset.node(path)
        except HyperslabError:
            return None

    @property
    def specs(self) -> Mapping[str, GroupSpec | ArraySpec]:
        """Return all nodes by path, groups before what is in them."""
        if self._specs is None:
            self._specs = dict(self._walk("", 0))
        return self._specs

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, GroupSpec | ArraySpec]]:
        try:
            spec = self.dataset.node(path)
            names = list(self.dataset.children(path)) if depth < DEEPEST else []
        except HyperslabError:  # said where documents are looked at one by one
            return
        yield path, spec
        for name in names:
            yield from self._walk(child(path, name), depth + 1)

    @property
    def arrays(self) -> Iterator[tuple[str, ArraySpec]]:
        """Return the arrays by path."""
        return ((path, spec) for path, spec in self.specs.items() if isinstance(spec, ArraySpec))

    def docs(self, path: str) -> Docs:
        """Return the documents of a node, as they can be written again."""
        if path not in self._docs:
            self._docs[path] = self.dataset.writable_documents(path) or {}
        return self._docs[path]

    def problems(self, path: str) -> list[Problem]:
        """Return what is noted when a node is parsed."""
        return self.dataset.dialect.problems(self.docs(path), path)

    def as_understood(self, path: str) -> tuple[Docs | None, set[str]]:
        """Return the documents of a node as they are understood, and the kinds of problems that they have even so."""
        if path not in self._understood:
            docs = self.rendered(path, self.spec(path))
            left = [] if docs is None else self.dataset.dialect.problems(docs, path)
            self._understood[path] = docs, {problem.kind for problem in left}
        return self._understood[path]

    def lists(self, path: str) -> dict[str, list[str]]:
        """Return the arrays and groups that lie in a group."""
        below = {name: self.specs.get(child(path, name)) for name in self.dataset.children(path)}
        return {
            "arrays": [name for name, spec in below.items() if isinstance(spec, ArraySpec)],
            "groups": [name for name, spec in below.items() if isinstance(spec, GroupSpec)],
        }

    def rendered(self, path: str, spec: Any) -> Docs | None:
        """Return the documents of a node as it is understood; None where this cannot be written."""
        if self.generation not in (Generation.V2C, Generation.DRAFT):
            return None
        if isinstance(spec, GroupSpec) and self.generation is Generation.V2C:
            lists = {name: names for name, names in self.lists(path).items() if spec.layout.get(name) is None}
            spec = spec.evolve(layout={**spec.layout, **lists})
        try:
            return self.dataset.dialect.render(spec, path)
        except HyperslabError:
            return None


_ELSEWHERE = frozenset({"dimensions", "dimension-size"})
_BITS = {"<i8": "|i1", ">i8": "|i1", "<u8": "|u1", ">u8": "|u1"}
"""Types of the draft's table, which counts bits, that NumPy knows as others (R28)."""
_CHUNK_KINDS = frozenset({"truncated-chunk", "other-cells"})
_MOST_UNPACKED = 16
Patch = Callable[[JsonObject], JsonObject]


def node_damage(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Yield what is wrong with the documents of one node, but for names of dimensions."""
    spec = survey.spec(path)
    if spec is None:
        return
    yield from _invalid_json(survey, path)
    told = survey.generation is not Generation.PURE
    for number, problem in enumerate(survey.problems(path)):
        if not (told and problem.kind in _ELSEWHERE):
            yield _warning_damage(survey, path, problem, str(number))
    if isinstance(spec, ArraySpec):
        yield from _numbers_as_text(survey, path)
        yield from _array_dimensions_damage(survey, path)
        if survey.generation is Generation.DRAFT:
            yield from _bits_for_bytes(survey, path, spec)


def _patch_document(survey: NCZarrSurvey, path: str, patch: Patch, name: str = ZARRAY) -> Callable[[], DocumentChange]:
    def change() -> DocumentChange:
        docs = survey.docs(path)
        return DocumentChange({path: docs | {name: patch(docs[name])}})

    return change


def _warning_damage(survey: NCZarrSurvey, path: str, problem: Problem, about: str) -> NodeDamage:
    """Return a problem that is survived while reading, with the remedy that writes what was meant."""
    doc, kind = survey.docs(path).get(ZARRAY, {}), problem.kind
    if kind == "elementsize":
        size = _item_size(survey, path)
        change = _patch_document(survey, path, partial(with_item_size, size=size))
        return NodeDamage(problem, kind, f"write the elementsize {size}", change)
    if kind == "byte-order":
        right = f"<{str(doc['dtype'])[1:]}"
        action = f"write the dtype {right}, which the cells have"
        return NodeDamage(problem, kind, action, _patch_document(survey, path, lambda doc: {**doc, "dtype": right}))
    if kind == "bit-count dtype":
        said = dtype_in_bytes(doc["dtype"])
        return NodeDamage(
            problem, kind, f"write the dtype {said}", _patch_document(survey, path, lambda doc: {**doc, "dtype": said})
        )
    fill = _meant_fill(doc, survey.docs(path)) if kind == "fill_value" else None
    if fill is not None:
        action = f"write the fill value {fill}"
        return NodeDamage(problem, kind, action, _patch_document(survey, path, lambda doc: {**doc, "fill_value": fill}))
    if kind == "dimensions" and XARRAY in survey.docs(path).get(ZATTRS, {}):
        without = _patch_document(survey, path, lambda doc: {name: doc[name] for name in doc if name != XARRAY}, ZATTRS)
        return NodeDamage(problem, kind, f"remove {XARRAY}", without)
    return _understood(survey, path, problem, about)


def _item_size(survey: NCZarrSurvey, path: str) -> int:
    spec = survey.spec(path)
    codecs = spec.codecs if isinstance(spec, ArraySpec) else ()
    return next(int(codec.config["elementsize"]) for codec in codecs if "elementsize" in codec.config)


def _meant_fill(doc: JsonMapping, docs: Docs) -> Any:
    if doc.get("fill_value") == SIX_DIGITS:
        return FILL_DOUBLE
    return docs.get(ZATTRS, {}).get(FILL) if doc.get("fill_value") is None else None


def _understood(survey: NCZarrSurvey, path: str, problem: Problem, about: str) -> NodeDamage:
    """Return the documents as they are understood, where that says it."""
    docs, left = survey.as_understood(path)
    if docs is None or problem.kind in left:
        return NodeDamage(problem, about)
    return NodeDamage(
        problem, about, "write the documents as they are understood", lambda: DocumentChange({path: docs})
    )


def _invalid_json(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Yield attributes that are no JSON, with the text of characters as it is spelled (rule 3.8)."""
    place = child(path, ZATTRS)
    data = survey.store.get(place)
    _, mended = (None, []) if data is None else mend_json(data)
    if mended:
        problem = Problem(path, "json-mended", f"the document is no JSON: {', '.join(mended)} [key={place}]")
        yield NodeDamage(
            problem,
            "",
            "write it as JSON",
            lambda: DocumentChange({path: survey.docs(path)}),
            at=place,
            settles=frozenset({"json-mended"}),
        )


def _numbers_as_text(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Yield numbers of codecs that are text, as netcdf-c 4.9.3 writes them; readers of Zarr refuse them."""
    doc = survey.docs(path)[ZARRAY]
    if with_numbers(doc) != doc:
        problem = Problem(path, "codec-text", "numbers of codecs are stored as text")
        yield NodeDamage(problem, "", "write them as numbers", _patch_document(survey, path, with_numbers))


def with_numbers(doc: JsonObject) -> JsonObject:
    """Return the ``.zarray`` with numbers of codecs that are numbers."""
    filters = doc.get("filters")
    several = [_numbers(item) for item in filters] if isinstance(filters, list) else filters
    changed = {"filters": several, "compressor": _numbers(doc.get("compressor"))}
    return {name: changed.get(name, value) for name, value in doc.items()}


def _numbers(said: object) -> Any:
    if not isinstance(said, dict):
        return said
    return {name: value if name == "id" else number_of_text(value) for name, value in said.items()}


def _array_dimensions_damage(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Yield ``_ARRAY_DIMENSIONS``, which readers of Zarr go by, against the references."""
    docs, spec = survey.docs(path), survey.spec(path)
    said, names = docs.get(ZATTRS, {}).get(XARRAY), read_references(docs, survey.generation)
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if said is None or not fits or not isinstance(spec, ArraySpec) or len(names) != len(spec.shape):
        return
    if any(find_dimension(name, survey.context) is None for name in names):
        return
    if said != list(short_names(names)) and not (not names and said in ([], [SCALAR])):
        message = f"{XARRAY} is {shorten(said)}, the dimensions are {shorten(names)}"
        yield NodeDamage(
            Problem(path, "xarray-dimensions", message),
            "",
            f"write the names of the dimensions as {XARRAY}",
            lambda: DocumentChange({path: with_references(docs, survey.generation, names)}),
        )


def _bits_for_bytes(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> Iterator[NodeDamage]:
    """Yield ``<i8`` that counts bits: chunks that hold as many bytes as they have cells (R28)."""
    doc = survey.docs(path)[ZARRAY]
    dtype, cut = doc.get("dtype"), doc.get("chunks")
    if not isinstance(dtype, str) or dtype not in _BITS or not isinstance(cut, list):
        return
    if _content_sizes(survey, path, spec) == {prod(cut)}:
        right = _BITS[dtype]
        message = f"dtype {dtype!r} counts bits, for chunks of {prod(cut)} cells have as many bytes; {right!r} is meant"
        problem = Problem(path, "bit-count dtype", message)
        change = _patch_document(survey, path, lambda doc: {**doc, "dtype": right})
        yield NodeDamage(problem, "", f"write the dtype {right}", change, at=path, settles=_CHUNK_KINDS)


def _content_sizes(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> set[int | None]:
    """Return how many bytes stored chunks hold: of packed ones the first alone are unpacked; None where one cannot
    be."""
    store, keys = survey.store, chunk_keys(survey, path)
    if not spec.codecs:
        return {store.size(place) for place in keys} if isinstance(store, Size) else set()
    sizes: set[int | None] = set()
    for place in islice(keys, _MOST_UNPACKED):
        try:
            chain = build_chain(spec.codecs, ChunkLayout(spec.dtype, longest_chunk(spec.chunks), spec.fill_value))
            sizes.add(len(chain.unpack(store.get(place) or b"")))
        except HyperslabError:
            sizes.add(None)
    return sizes


def chunk_keys(survey: NCZarrSurvey, path: str) -> Iterator[str]:
    """Return the keys of an array's folder that are no documents."""
    prefix = child(path, "")
    return (place for place in survey.store.list(path) if not place[len(prefix) :].startswith("."))


# -- lists of groups, chunks that a rename left behind, marks of two generations --------------------------------------


_OWN = frozenset({SUPERBLOCK, GROUP, ARRAY, TYPES})
_MARKS = {Generation.V1: (".zdataset",), Generation.DRAFT: ()}
_LISTS = ("arrays", "groups")
_LISTED = frozenset({Generation.V1, Generation.V2A, Generation.V2B, Generation.V2C})


def mixed_generation_damage(survey: NCZarrSurvey) -> Iterator[NodeDamage]:
    """Yield marks of other generations than the one that counts (rule 3.1)."""
    generation = survey.generation
    if generation is Generation.PURE:
        return
    names = survey.store.list_dir("")[0]
    for name in _MARKS.get(generation, (".nczarr", ".zdataset")):
        if name in names:
            yield NodeDamage(_mixed_generations(survey, name), name, "take it out", at=name, take=name)
    group = survey.docs("").get(ZGROUP, {})
    if generation is Generation.V2C:
        strange = [name for name in group if name.lower() in _OWN]
    else:
        strange = [SUPERBLOCK.upper()] if generation is Generation.V2B and SUPERBLOCK.upper() in group else []
    if strange:
        left = {name: value for name, value in group.items() if name not in strange}
        yield NodeDamage(
            _mixed_generations(survey, ", ".join(strange)),
            ZGROUP,
            "take them out of .zgroup",
            lambda: DocumentChange({"": survey.docs("") | {ZGROUP: left}}),
        )


def _mixed_generations(survey: NCZarrSurvey, marks: str) -> Problem:
    return Problem("", "mixed-marks", f"{marks}: a mark of another generation than {survey.generation}, which counts")


def list_damage(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Yield what a group lists that is not there, and what is there that it does not list."""
    spec = survey.specs.get(path)
    if not isinstance(spec, GroupSpec) or survey.generation not in _LISTED:
        return
    said = own_metadata(survey.docs(path), survey.generation, GROUP) or {}
    if not all(_is_list(said.get(kind)) for kind in _LISTS):
        yield _without_lists(survey, path)
        return
    alike: dict[str, list[str]] | None = None
    for problem in survey.dataset.list_mismatches(path):
        name = split(problem.node)[1]
        if problem.kind == "missing":
            change = partial(_change_lists, survey, path, name, None)
            yield NodeDamage(problem, "", "take it out of the list", change)
            continue
        alike = _by_likeness(survey, path, said["arrays"]) if alike is None else alike
        orphan = _orphaned_chunks(survey, problem.node, alike)
        yield _unlisted(survey, path, problem) if orphan is None else orphan


def _is_list(said: object) -> bool:
    return isinstance(said, list) and all(isinstance(name, str) and name and "/" not in name for name in said)


def _without_lists(survey: NCZarrSurvey, path: str) -> NodeDamage:
    """Return a group that somebody made who does not know NCZarr."""
    problem = Problem(path, "unlisting-group", "the group does not list what is in it")

    def change() -> DocumentChange:
        spec, lists = survey.specs[path], survey.lists(path)
        docs = survey.rendered(path, spec.evolve(layout={**spec.layout, **lists}))
        known = (own_metadata(survey.docs(path), survey.generation, GROUP) or {}).get("dimensions", {})
        said = {"dimensions": known, **lists}
        return DocumentChange({path: docs or with_own_metadata(survey.docs(path), survey.generation, GROUP, said)})

    return NodeDamage(problem, "", "write the lists of what is in it", change)


def _unlisted(survey: NCZarrSurvey, path: str, problem: Problem) -> NodeDamage:
    name = split(problem.node)[1]
    kind = "arrays" if isinstance(survey.specs.get(problem.node), ArraySpec) else "groups"
    if problem.node not in survey.specs:
        return NodeDamage(problem)
    return NodeDamage(problem, "", "list it", partial(_change_lists, survey, path, name, kind))


def _change_lists(survey: NCZarrSurvey, path: str, name: str, kind: str | None) -> DocumentChange:
    """Return the group with the name in one list, or in none."""
    said = own_metadata(survey.docs(path), survey.generation, GROUP) or {}
    lists = {}
    for each in _LISTS:
        names = [other for other in said.get(each) or [] if other != name]
        lists[each] = [*names, name] if each == kind else names
    return DocumentChange({path: with_own_metadata(survey.docs(path), survey.generation, GROUP, lists)})


# -- renamed arrays ---------------------------------------------------------------------------------------------------


def _orphaned_chunks(survey: NCZarrSurvey, old: str, alike: Mapping[str, Sequence[str]]) -> NodeDamage | None:
    """Return the damage of an array that netcdf-c renamed, of which it left all but the documents behind."""
    likeness = _likeness(survey, old)
    left = list(chunk_keys(survey, old)) if likeness in alike else []
    heirs = [path for path in alike.get(likeness or "", ()) if left and _continues(survey, left, old, path)]
    if len(heirs) != 1:
        return None
    message = f"/{heirs[0]} was called so before; its chunks were left here, and it reads as its fill value"
    problem = Problem(old, "orphaned-chunks", message)
    return NodeDamage(problem, "", f"move the chunks to /{heirs[0]}", partial(_move_chunks, survey, old, heirs[0]))


def _by_likeness(survey: NCZarrSurvey, group: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the arrays that a group lists, those of like documents together."""
    found: dict[str, list[str]] = {}
    for path in (child(group, name) for name in dict.fromkeys(names)):
        if (likeness := _likeness(survey, path)) is not None:
            found.setdefault(likeness, []).append(path)
    return found


def _likeness(survey: NCZarrSurvey, path: str) -> str | None:
    """Return what an array of netcdf-c keeps when it is renamed; None for other nodes."""
    if not isinstance(survey.specs.get(path), ArraySpec):
        return None
    docs = survey.docs(path)
    known = own_metadata(docs, survey.generation, ARRAY)
    return None if known is None else json.dumps([known, docs.get(ZARRAY)], sort_keys=True)


def _continues(survey: NCZarrSurvey, left: Sequence[str], old: str, new: str) -> bool:
    """Return whether none of the chunks that ``old`` has is another one here."""
    return all(survey.store.get(new + place[len(old) :]) in (None, survey.store.get(place)) for place in left)


def _move_chunks(survey: NCZarrSurvey, old: str, new: str) -> DocumentChange:
    """Return the move of chunks, one by one: each lies in one place or the other, and a move cut short is taken up
    again."""
    store: Any = survey.store

    def act() -> None:
        for place in list(chunk_keys(survey, old)):
            store.put(new + place[len(old) :], store.get(place), durable=True)
            store.delete(place)
        store.delete_prefix(old)

    return DocumentChange({}, gone=(old,), act=act)
