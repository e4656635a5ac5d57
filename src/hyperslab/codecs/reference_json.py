"""References as HDMF's documents and ``json2`` chunks spell them: ``{"source", "path", "object_id", …[, "region"]}``.

What the keys mean is told in :mod:`~hyperslab.model.refs`; other keys of a reference are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from hyperslab.codecs.region_json import region_of, spelled_region
from hyperslab.errors import FormatError
from hyperslab.model.refs import ObjectReference, RegionReference

KEYS = ("path", "source", "object_id", "source_object_id")
"""What is said of a reference to a whole node."""
_ALL = frozenset(KEYS)


def reference_of(said: object) -> ObjectReference | RegionReference:
    """The reference that an object spells: to a region where it has one. FormatError for anything else."""
    if not isinstance(said, Mapping):
        raise FormatError(f"a reference is an object, not {type(said).__name__}")
    path = said.get("path")
    if not isinstance(path, str) or not path:
        raise FormatError(f"a reference with the path {str(path)[:40]!r}")
    path = path if path.startswith("/") else f"/{path}"
    source = _text(said, "source") or "."
    ids = _text(said, "object_id"), _text(said, "source_object_id")
    region = said.get("region")
    if region is None:
        return ObjectReference(path, source, *ids)
    return RegionReference(path, region_of(region), source, *ids)


def _text(said: Mapping[Any, Any], key: str) -> str | None:
    value = said.get(key)
    if not (value is None or isinstance(value, str)):
        raise FormatError(f"a reference whose {key} is {type(value).__name__}, not text")
    return value


def references_of(objects: Sequence[object]) -> list[ObjectReference | RegionReference]:
    """:func:`reference_of` of each; faster for references to whole nodes, of which there may be very many."""
    plain = [said for said in objects if type(said) is dict and said.keys() == _ALL]
    if len(plain) < len(objects):
        return list(map(reference_of, objects))
    parts = [list(map(itemgetter(key), plain)) for key in KEYS]
    return list(map(ObjectReference, *parts) if all_sound(*parts) else map(reference_of, plain))


def all_sound(paths: list[Any], sources: list[Any], *ids: list[Any]) -> bool:
    """Return whether all references of which this is said by :data:`KEYS` can be made as they stand."""
    return (
        set(map(type, paths)) | set(map(type, sources)) <= {str}
        and all(set(map(type, each)) <= {str, type(None)} for each in ids)
        and "" not in sources
        and all(map(str.startswith, paths, repeat("/")))
    )


def spelled(reference: ObjectReference | RegionReference, *, scalar_as_one: bool = False) -> dict[str, Any]:
    """What :func:`reference_of` reads, with all keys; ids that are not known are None.

    ``scalar_as_one``: arrays without dimensions have the shape ``[1]`` in regions, as in all documents of Zarr v2.
    """
    said: dict[str, Any] = {
        "source": reference.source,
        "path": reference.path,
        "object_id": reference.object_id,
        "source_object_id": reference.source_object_id,
    }
    if isinstance(reference, RegionReference):
        said["region"] = spelled_region(reference.region, scalar_as_one=scalar_as_one)
    return said
