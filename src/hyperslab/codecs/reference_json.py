"""References as HDMF's documents and ``json2`` chunks spell them: ``{"source", "path", "object_id", …[, "region"]}``.

What the keys mean is told in :mod:`~hyperslab.model.refs`; other keys of a reference are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from hyperslab.errors import FormatError, SelectionError
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Steps
from hyperslab.selection.region_bounds import checked

# -- ------------------------------------------------------------------------------------------------------------------
# Regions as documents of HDMF spell them: ``{"type": "slices", "shape": [5, 8], "axes": [...]}``, region profile 1.
#
# What is read must say itself in full: every number a whole one within the shape that stands beside it.


_LARGEST = 2**63 - 1


def region_of(document: object) -> Region:
    """The region that a document spells; FormatError for any other document."""
    if not isinstance(document, dict):
        raise FormatError(f"a region is an object, not {type(document).__name__}")
    kind = document.get("type")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        said = repr(kind[:40]) if isinstance(kind, str) else type(kind).__name__
        raise FormatError(f"a region of an unknown type ({said})", remedy=f"known are {', '.join(_KINDS)}")
    try:
        return checked(read(document))
    except SelectionError as error:
        raise FormatError(f"a region that is not within its own shape: {error.said}") from None


def spelled_region(region: Region, *, scalar_as_one: bool = False) -> dict[str, Any]:
    """What :func:`region_of` reads. ``scalar_as_one``: an array without dimensions has the shape ``[1]`` there.

    SelectionError when the region contradicts its shape.
    """
    checked(region)
    if isinstance(region, Nothing):
        return {"type": "none"}
    if region.shape is None:
        return {"type": "all"}
    shape = list(region.shape) if region.shape or not scalar_as_one else [1]
    match region:
        case Everything():
            return {"type": "all", "shape": shape}
        case Product(axes):
            kind = "slices" if all(isinstance(axis, Steps) for axis in axes) else "orthogonal"
            return {"type": kind, "shape": shape, "axes": [_spelled_axis(axis) for axis in axes]}
        case Points(points):
            return {"type": "points", "shape": shape, "points": [list(point) for point in points]}
        case Blocks(blocks):
            return {"type": "blocks", "shape": shape, "blocks": [[list(a), list(b)] for a, b in blocks]}


def _spelled_axis(axis: Steps | tuple[int, ...]) -> dict[str, Any]:
    if isinstance(axis, Steps):
        return {"start": axis.start, "stop": axis.stop, "step": axis.step}
    return {"index": list(axis)}


def _all(document: dict[str, Any]) -> Region:
    return Everything(_numbers(document["shape"], "shape") if "shape" in document else None)


def _none(document: dict[str, Any]) -> Region:
    return Nothing()


def _slices(document: dict[str, Any]) -> Region:
    axes = _items(document, "axes")
    if any(isinstance(axis, dict) and "index" in axis for axis in axes):
        raise FormatError("a region of slices with a list of positions", remedy="its type is orthogonal")
    return Product(tuple(_axis(axis) for axis in axes), _shape(document))


def _orthogonal(document: dict[str, Any]) -> Region:
    return Product(tuple(_axis(axis) for axis in _items(document, "axes")), _shape(document))


def _points(document: dict[str, Any]) -> Region:
    return Points(tuple(_numbers(point, "point") for point in _items(document, "points")), _shape(document))


def _blocks(document: dict[str, Any]) -> Region:
    blocks = []
    for block in _items(document, "blocks"):
        if not isinstance(block, list) or len(block) != 2:
            raise FormatError("a block of a region that is not [start, stop]")
        blocks.append((_numbers(block[0], "start of a block"), _numbers(block[1], "stop of a block")))
    return Blocks(tuple(blocks), _shape(document))


_KINDS: dict[str, Callable[[dict[str, Any]], Region]] = {
    "all": _all,
    "none": _none,
    "slices": _slices,
    "orthogonal": _orthogonal,
    "points": _points,
    "blocks": _blocks,
}


def _shape(document: dict[str, Any]) -> tuple[int, ...]:
    return _numbers(document.get("shape"), "shape")


def _items(document: dict[str, Any], name: str) -> list[Any]:
    items = document.get(name)
    if not isinstance(items, list):
        raise FormatError(f"a region of type {document['type']} without a list of {name}")
    return items


def _axis(axis: object) -> Steps | tuple[int, ...]:
    if isinstance(axis, dict) and "index" in axis:
        if axis.keys() & {"start", "stop", "step"}:
            raise FormatError("an axis of a region with both a slice and a list of positions")
        return _numbers(axis["index"], "index")
    if not isinstance(axis, dict) or not axis.keys() >= {"start", "stop", "step"}:
        raise FormatError("an axis of a region has start, stop and step, or index")
    return Steps(*_numbers([axis["start"], axis["stop"], axis["step"]], "slice"))


def _numbers(numbers: object, name: str) -> tuple[int, ...]:
    if not isinstance(numbers, list):
        raise FormatError(f"the {name} of a region is no list of numbers")
    for number in numbers:
        if type(number) is not int or not 0 <= number <= _LARGEST:
            raise FormatError(f"the {name} of a region holds what is no whole number from 0 to 2^63 - 1")
    return tuple(numbers)


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
