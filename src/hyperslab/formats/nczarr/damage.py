"""Damage that the documents of one node tell of: what netcdf-c and others wrote otherwise than they meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from math import prod
from typing import Any

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import build_chain
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.documents import mend_json
from hyperslab.formats.format_errors import brief
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.metadata_dialect import Docs
from hyperslab.formats.nczarr.cells import with_item_size
from hyperslab.formats.nczarr.dimension_names import SCALAR, XARRAY, declared, last_names
from hyperslab.formats.nczarr.generation import Generation
from hyperslab.formats.nczarr.mending import FILL, FILL_DOUBLE, SIX_DIGITS
from hyperslab.formats.nczarr.names import in_bytes
from hyperslab.formats.nczarr.own_objects import ZARRAY, ZATTRS, references, with_references
from hyperslab.formats.nczarr.survey import NCZarrSurvey, NodeDamage
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Size

_ELSEWHERE = frozenset({"dimensions", "dimension-size"})
_BITS = {"<i8": "|i1", ">i8": "|i1", "<u8": "|u1", ">u8": "|u1"}
"""Types of the draft's table, which counts bits, that NumPy knows as others (R28)."""
_CHUNK_KINDS = frozenset({"truncated-chunk", "other-cells"})
_MOST_UNPACKED = 16
Patch = Callable[[dict[str, Any]], dict[str, Any]]


def of_node(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the documents of one node, but for names of dimensions."""
    spec = survey.spec(path)
    if spec is None:
        return
    yield from _no_json(survey, path)
    told = survey.generation is not Generation.PURE
    for number, problem in enumerate(survey.problems(path)):
        if not (told and problem.kind in _ELSEWHERE):
            yield _noted(survey, path, problem, str(number))
    if isinstance(spec, ArraySpec):
        yield from _texts_for_numbers(survey, path)
        yield from _plain_names(survey, path)
        if survey.generation is Generation.DRAFT:
            yield from _bits_for_bytes(survey, path, spec)


def _patched(survey: NCZarrSurvey, path: str, patch: Patch, name: str = ZARRAY) -> Callable[[], Change]:
    def change() -> Change:
        docs = survey.docs(path)
        return Change({path: docs | {name: patch(docs[name])}})

    return change


def _noted(survey: NCZarrSurvey, path: str, problem: Problem, about: str) -> NodeDamage:
    """Something that is survived while reading, and what would have been right."""
    doc, kind = survey.docs(path).get(ZARRAY, {}), problem.kind
    if kind == "elementsize":
        size = _item_size(survey, path)
        change = _patched(survey, path, partial(with_item_size, size=size))
        return NodeDamage(problem, kind, f"write the elementsize {size}", change)
    if kind == "byte-order":
        right = f"<{str(doc['dtype'])[1:]}"
        action = f"write the dtype {right}, which the cells have"
        return NodeDamage(problem, kind, action, _patched(survey, path, lambda doc: {**doc, "dtype": right}))
    if kind == "bit-count dtype":
        said = in_bytes(doc["dtype"])
        return NodeDamage(
            problem, kind, f"write the dtype {said}", _patched(survey, path, lambda doc: {**doc, "dtype": said})
        )
    fill = _meant_fill(doc, survey.docs(path)) if kind == "fill_value" else None
    if fill is not None:
        action = f"write the fill value {fill}"
        return NodeDamage(problem, kind, action, _patched(survey, path, lambda doc: {**doc, "fill_value": fill}))
    if kind == "dimensions" and XARRAY in survey.docs(path).get(ZATTRS, {}):
        without = _patched(survey, path, lambda doc: {name: doc[name] for name in doc if name != XARRAY}, ZATTRS)
        return NodeDamage(problem, kind, f"remove {XARRAY}", without)
    return _understood(survey, path, problem, about)


def _item_size(survey: NCZarrSurvey, path: str) -> int:
    spec = survey.spec(path)
    codecs = spec.codecs if isinstance(spec, ArraySpec) else ()
    return next(int(codec.config["elementsize"]) for codec in codecs if "elementsize" in codec.config)


def _meant_fill(doc: Mapping[str, Any], docs: Docs) -> Any:
    if doc.get("fill_value") == SIX_DIGITS:
        return FILL_DOUBLE
    return docs.get(ZATTRS, {}).get(FILL) if doc.get("fill_value") is None else None


def _understood(survey: NCZarrSurvey, path: str, problem: Problem, about: str) -> NodeDamage:
    """The documents as they are understood, where that says it."""
    docs, left = survey.understood(path)
    if docs is None or problem.kind in left:
        return NodeDamage(problem, about)
    return NodeDamage(problem, about, "write the documents as they are understood", lambda: Change({path: docs}))


def _no_json(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Attributes that are no JSON, with the text of characters as it is spelled (rule 3.8)."""
    place = child(path, ZATTRS)
    data = survey.store.get(place)
    _, mended = (None, []) if data is None else mend_json(data)
    if mended:
        problem = Problem(path, "json-mended", f"the document is no JSON: {', '.join(mended)} [key={place}]")
        yield NodeDamage(
            problem,
            "",
            "write it as JSON",
            lambda: Change({path: survey.docs(path)}),
            at=place,
            settles=frozenset({"json-mended"}),
        )


def _texts_for_numbers(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """Numbers of codecs that are text, as netcdf-c 4.9.3 writes them; readers of Zarr refuse them."""
    doc = survey.docs(path)[ZARRAY]
    if with_numbers(doc) != doc:
        problem = Problem(path, "codec-text", "numbers of codecs are stored as text")
        yield NodeDamage(problem, "", "write them as numbers", _patched(survey, path, with_numbers))


def with_numbers(doc: dict[str, Any]) -> dict[str, Any]:
    """The ``.zarray`` with numbers of codecs that are numbers."""
    filters = doc.get("filters")
    several = [_numbers(item) for item in filters] if isinstance(filters, list) else filters
    changed = {"filters": several, "compressor": _numbers(doc.get("compressor"))}
    return {name: changed.get(name, value) for name, value in doc.items()}


def _numbers(said: Any) -> Any:
    if not isinstance(said, dict):
        return said
    return {name: value if name == "id" else _number(value) for name, value in said.items()}


def _number(value: Any) -> Any:
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
    return int(value) if is_number else value


def _plain_names(survey: NCZarrSurvey, path: str) -> Iterator[NodeDamage]:
    """``_ARRAY_DIMENSIONS``, which readers of Zarr go by, against the references."""
    docs, spec = survey.docs(path), survey.spec(path)
    said, names = docs.get(ZATTRS, {}).get(XARRAY), references(docs, survey.generation)
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if said is None or not fits or not isinstance(spec, ArraySpec) or len(names) != len(spec.shape):
        return
    if any(declared(name, survey.context) is None for name in names):
        return
    if said != list(last_names(names)) and not (not names and said in ([], [SCALAR])):
        message = f"{XARRAY} is {brief(said)}, the dimensions are {brief(names)}"
        yield NodeDamage(
            Problem(path, "xarray-dimensions", message),
            "",
            f"write the names of the dimensions as {XARRAY}",
            lambda: Change({path: with_references(docs, survey.generation, names)}),
        )


def _bits_for_bytes(survey: NCZarrSurvey, path: str, spec: ArraySpec) -> Iterator[NodeDamage]:
    """``<i8`` that counts bits: chunks that hold as many bytes as they have cells (R28)."""
    doc = survey.docs(path)[ZARRAY]
    dtype, cut = doc.get("dtype"), doc.get("chunks")
    if not isinstance(dtype, str) or dtype not in _BITS or not isinstance(cut, list):
        return
    if _content_sizes(survey, path, spec) == {prod(cut)}:
        right = _BITS[dtype]
        message = f"dtype {dtype!r} counts bits, for chunks of {prod(cut)} cells have as many bytes; {right!r} is meant"
        problem = Problem(path, "bit-count dtype", message)
        change = _patched(survey, path, lambda doc: {**doc, "dtype": right})
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
    """The keys of an array's folder that are no documents."""
    prefix = child(path, "")
    return (place for place in survey.store.list(path) if not place[len(prefix) :].startswith("."))
