"""Objects read: their document, and the cells of variables that are wanted at once, by one query for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hyperslab.bridges.mongo.assembling import assembled
from hyperslab.bridges.mongo.filling import Filling
from hyperslab.bridges.mongo.origin import Collections
from hyperslab.bridges.mongo.pandas_cells import said_of
from hyperslab.errors import MissingChunks, WrongType
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.completeness import missing
from hyperslab.formats.mongo.document import Meta, parse
from hyperslab.formats.mongo.faults import CorruptDocument, DocumentNotFoundError
from hyperslab.formats.mongo.segments import AssembledChunk, Key, Segment, join, parse_segment
from hyperslab.formats.mongo.to_spec import fill_of, ours_of
from hyperslab.formats.mongo.undo import UndoView, entries
from hyperslab.model.coo import Coo, Numbers

Load = bool | Collection[str] | None


class Loaded(NamedTuple):
    """The cells of a variable, a dask array where they are read later, and their units."""

    cells: Any
    units: str | None


def find(here: Collections, meta_id: Any) -> Meta:
    """The object of an id. DocumentNotFoundError; what its document says of a variable that makes no sense."""
    document = here.meta.find_one({"_id": {"$eq": meta_id}})
    if document is None:
        raise DocumentNotFoundError(meta_id)
    meta = parse(document)
    for variable in meta.variables.values():
        if variable.problem is not None:
            raise variable.problem
    return meta


def eager_names(meta: Meta, load: Load) -> list[str]:
    """The variables that are read at once. WrongType for what ``load`` cannot be."""
    if not isinstance(load, bool | np.bool_ | None) and (
        isinstance(load, str | bytes) or not isinstance(load, Collection)
    ):
        raise WrongType(f"load={load!r}", remedy="give None, True, False, or a list of names")
    return [name for name in meta.variables if _is_eager(meta, name, load)]


def _is_eager(meta: Meta, name: str, load: Load) -> bool:
    variable = meta.variables[name]
    if variable.embedded is not None or variable.dims == (name,):
        return True
    if said_of(meta, name):  # dask has none of pandas' types
        return True
    if load is None:
        return variable.chunks is None
    return bool(load) if isinstance(load, bool | np.bool_) else name in load


def read(here: Collections, meta: Meta, names: Sequence[str]) -> dict[str, Loaded]:
    """The cells of these variables. DocumentNotFoundError, CorruptDocument."""
    filled = {name: Filling(meta.variables[name], meta.chunk_size) for name in names if _is_plain(meta, name)}
    found = _segments(here, meta, names, filled)
    loaded = {}
    for name in names:
        own = filled.pop(name, None)
        if own is None:
            loaded[name] = _loaded(meta, name, found.pop(name, {}))
        elif own.is_whole:
            loaded[name] = Loaded(own.cells, meta.variables[name].units or own.units)
        else:
            del own
            loaded[name] = _loaded(meta, name, _segments(here, meta, [name], {}).get(name, {}))
    if any(background_of(meta, name) is not None for name in names):
        check_there(here, meta.id)
    return loaded


def check_there(here: Collections, meta_id: Any) -> None:
    """Raise DocumentNotFoundError where the object is gone: chunks that are not there are no fill values then."""
    if here.meta.find_one({"_id": {"$eq": meta_id}}, {"_id": 1}) is None:
        raise DocumentNotFoundError(meta_id)


def _is_plain(meta: Meta, name: str) -> bool:
    return Filling.suits(meta.variables[name]) and background_of(meta, name) is None


def _loaded(meta: Meta, name: str, segments: Mapping[Key, list[Segment]]) -> Loaded:
    chunks = _chunks(meta, name, segments)
    units = meta.variables[name].units or next((each.first.units for each in chunks.values()), None)
    cells = assembled(name, meta.variables[name], chunks, background_of(meta, name), padding_of(meta, name))
    return Loaded(cells, units)


def _segments(
    here: Collections, meta: Meta, names: Sequence[str], filled: Mapping[str, Filling]
) -> dict[str, dict[Key, list[Segment]]]:
    """The chunk documents of all these variables, but for those that are ``filled`` as they arrive.

    Those of chunks that there are not are passed over.
    """
    found: dict[str, dict[Key, list[Segment]]] = {}
    if not names:
        return found
    embedded = {name for name in names if meta.variables[name].embedded is not None}
    old = _past(here, meta, names)
    wanted = {"meta_id": meta.id, "name": {"$in": list(names)}}
    segments = (parse_segment(document) for document in here.chunks.find(wanted))
    for segment in (one for one in segments if one.key not in old):
        name = segment.key[0]
        if name in filled:
            filled[name].take(segment)
        elif name in embedded and meta.ours and segment.key[1] is not None:
            continue  # of a change of ours that cuts it into chunks, and is not made yet
        elif name in embedded:
            message = "a variable that stands in the document of its object has chunks too"
            raise CorruptDocument(message, expected=0, found=len(segment.data), key=name)
        else:
            found.setdefault(name, {}).setdefault(segment.key, []).append(segment)
    _add(found, old, filled)
    return found


def _add(
    found: dict[str, dict[Key, list[Segment]]], old: Mapping[Key, list[Segment]], filled: Mapping[str, Filling]
) -> None:
    for key, segments in old.items():
        if key[0] in filled:
            for segment in segments:
                filled[key[0]].take(segment)
        elif segments:
            found.setdefault(key[0], {})[key] = segments


def _past(here: Collections, meta: Meta, names: Sequence[str]) -> dict[Key, list[Segment]]:
    """The chunks that somebody changes, as they were; those whose change is done by now as they are."""
    known = entries(meta.ours)
    past, found = UndoView(here.meta, meta.id, known), {}
    for name, chunk in (key for key in known if key[0] in names and past.holds(key)):
        old = past.fetch(here.chunks, name, [chunk]) or stored.fetch(here.chunks, meta.id, name, [chunk])
        found[name, chunk] = old.get(chunk, [])
    return found


def _chunks(meta: Meta, name: str, found: Mapping[Key, list[Segment]]) -> dict[tuple[int, ...] | None, AssembledChunk]:
    variable = meta.variables[name]
    if variable.embedded is not None:
        return {None: variable.embedded}
    lenient = background_of(meta, name) is not None
    return {
        chunk: joined(meta.id, (name, chunk), found.get((name, chunk), []))
        for chunk in variable.keys
        if not lenient or (name, chunk) in found
    }


def background_of(meta: Meta, name: str) -> Any:
    """What chunks read as that are not stored, of an array that was made so (through the one face); else None."""
    ours = ours_of(meta, name)
    return fill_of(ours, meta.variables[name]) if "fill" in ours else None


def padding_of(meta: Meta, name: str) -> Any:
    """What chunks that are too short are filled up with, of an array that was made through the one face; else None."""
    ours, variable = ours_of(meta, name), meta.variables[name]
    found = fill_of(ours, variable)
    return (np.zeros((), variable.dtype)[()] if found is None else found) if ours else None


def joined(meta_id: Any, key: Key, segments: Sequence[Segment]) -> AssembledChunk:
    """One chunk. DocumentNotFoundError where documents of it are missing, CorruptDocument."""
    try:
        return join(key, segments)
    except MissingChunks:
        raise not_found(meta_id, key) from None


def not_found(meta_id: Any, key: Key) -> DocumentNotFoundError:
    """The error of a chunk that is not there, or not all of it."""
    return DocumentNotFoundError({"meta_id": meta_id, "name": key[0], "chunk": key[1]})


def check_complete(here: Collections, meta_id: Any) -> None:
    """DocumentNotFoundError names the first chunk that is not there, or not all of it; no cells are moved."""
    for key in missing(here.meta, here.chunks, meta_id, 1):
        raise not_found(meta_id, key)


def cells_of(here: Collections, meta: Meta, name: str) -> Numbers | Coo:
    """All cells of one variable."""
    cells: Numbers | Coo = read(here, meta, [name])[name].cells
    return cells
