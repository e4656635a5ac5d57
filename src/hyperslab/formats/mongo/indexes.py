"""The indexes of a collection of chunks: the one that every driver makes (R50), and the positional one (reference 4.4).

``chunk`` is a list, and an index on it finds every chunk that has one of the indices anywhere. An index on ``chunk.0``,
``chunk.1``, … finds a chunk by one key. A unique one that covers fewer positions than a chunk has would take two of its
neighbours for one, so that it is replaced by a wider one before such chunks are written.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from hyperslab.formats.mongo.segments import Key, show
from hyperslab.formats.mongo.stored import INDEX, positional_index

if TYPE_CHECKING:
    from pymongo.collection import Collection

POSITIONS = 8
"""Positions of a chunk that a positional index covers, unless an object has more."""
MOST_POSITIONS = 29
"""An index has at most 32 fields; ``meta_id``, ``name`` and ``n`` are three of them."""
_UNAUTHORIZED, _DUPLICATE, _NO_INDEX = 13, 11000, 27
_POSITION = re.compile(r"chunk\.(\d+)")
_SHOWN = 5


def ensure_index(chunks: Collection[Any], *, best_effort: bool = False) -> bool:
    """Make the index by chunk, not unique; whether it is there. ``best_effort``: a user who may not make it does
    without."""
    from pymongo.errors import OperationFailure

    try:
        chunks.create_index(INDEX, background=True)
    except OperationFailure as error:
        if best_effort and error.code == _UNAUTHORIZED:
            return False
        raise
    return True


def ensure_positional(chunks: Collection[Any], positions: int = POSITIONS, *, unique: bool = False) -> bool:
    """Make a positional index that covers at least so many positions; whether it is unique.

    One that cannot be unique (documents that are there twice, or more positions than an index has fields) is made
    otherwise, with a warning. One of ours that is narrower is replaced.
    """
    positions = max(positions, POSITIONS)
    if positions > MOST_POSITIONS:
        if unique:
            _warn(f"an index covers {MOST_POSITIONS} dimensions, not {positions}")
        positions, unique = MOST_POSITIONS, False
    present = _positional(chunks)
    if not any(covers >= positions and is_unique >= unique for covers, is_unique, _ in present):
        unique = unique and _make(chunks, positions, unique=True)
        if not unique:
            _make(chunks, positions, unique=False)
    _drop_narrower(chunks, present, positions)
    return any(is_unique for _, is_unique, _ in _positional(chunks))


def duplicates(chunks: Collection[Any], limit: int | None = None) -> list[tuple[Any, Key, Any]]:
    """Object, chunk and n of documents that are there more than once (R49 says that none are)."""
    key = {"meta_id": "$meta_id", "name": "$name", "chunk": "$chunk", "n": "$n"}
    pipeline: list[dict[str, Any]] = [
        {"$group": {"_id": key, "count": {"$sum": 1}}},
        {"$match": {"count": {"$gt": 1}}},
        *([{"$limit": limit}] if limit else []),
    ]
    rows = (row["_id"] for row in chunks.aggregate(pipeline, allowDiskUse=True))
    return [(row.get("meta_id"), _key(row), row.get("n")) for row in rows]


def _key(row: dict[str, Any]) -> Key:
    chunk = row.get("chunk")
    return str(row.get("name")), tuple(chunk) if isinstance(chunk, list) else None


def _positional(chunks: Collection[Any]) -> list[tuple[int, bool, str]]:
    """How many positions each positional index covers, whether it is unique, and its name; the widest first."""
    found = []
    for name, index in chunks.index_information().items():
        fields = [field for field, _ in index["key"]]
        positions = sum(bool(_POSITION.fullmatch(field)) for field in fields)
        if positions and fields == [field for field, _ in positional_index(positions)]:
            found.append((positions, bool(index.get("unique")), name))
    return sorted(found, reverse=True)


def _name(positions: int, unique: bool) -> str:
    return f"hyperslab_{positions}_positions{'_unique' if unique else ''}"


def _make(chunks: Collection[Any], positions: int, *, unique: bool) -> bool:
    """Make the index; False where documents stand in the way of a unique one."""
    from pymongo.errors import OperationFailure

    try:
        name = _name(positions, unique)
        chunks.create_index(positional_index(positions), name=name, background=True, unique=unique)
    except OperationFailure as error:
        if error.code != _DUPLICATE:
            raise
        _warn(f"documents are stored more than once: {_shown(chunks)}")
        return False
    return True


def _shown(chunks: Collection[Any]) -> str:
    found = duplicates(chunks, _SHOWN + 1)
    named = [f"{meta_id} {show(key)} n={n}" for meta_id, key, n in found[:_SHOWN]]
    return ", ".join(named) + (" and more" if len(found) > _SHOWN else "")


def _drop_narrower(chunks: Collection[Any], present: list[tuple[int, bool, str]], positions: int) -> None:
    from pymongo.errors import OperationFailure

    for covers, unique, name in present:
        if covers < positions and name == _name(covers, unique):
            try:
                chunks.drop_index(name)
            except OperationFailure as error:
                if error.code != _NO_INDEX:
                    raise


def _warn(why: str) -> None:
    message = f"the positional index is not unique: {why}; hyperslab check finds them, repair removes copies"
    warnings.warn(message, UserWarning, stacklevel=4)
