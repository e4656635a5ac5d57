"""References and regions as JSON, and as the text of a cell (``reference_text``).

HDMF's documents and ``json2`` chunks spell references ``{"source", "path", "object_id", …[, "region"]}``. What the keys
mean is told in :mod:`~hyperslab.model.refs`; other keys of a reference are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from hyperslab.codecs.base import ArrayToArray, ChunkLayout
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import CorruptChunk, FormatError, Invalid, SelectionError
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenString, describe
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Steps
from hyperslab.selection.region_bounds import checked

# -- regions, as documents of HDMF spell them: {"type": "slices", "shape": [5, 8], "axes": [...]}, profile 1 -----------
#
# What is read must say itself in full: every number a whole one within the shape that stands beside it.


_LARGEST = 2**63 - 1
_KINDS = ("all", "none", "slices", "orthogonal", "points", "blocks")


def region_of(document: object) -> Region:
    """Return the region that a document spells; FormatError for any other document."""
    if not isinstance(document, dict):
        raise FormatError(f"a region is an object, not {type(document).__name__}")
    try:
        return checked(_unchecked_region(document))
    except SelectionError as error:
        raise FormatError(f"a region that is not within its own shape: {error.said}") from None


def _unchecked_region(document: dict[str, object]) -> Region:
    match kind := document.get("type"):
        case "all":
            return Everything(_shape(document) if "shape" in document else None)
        case "none":
            return Nothing()
        case "slices" | "orthogonal":
            axes = _items(document, "axes")
            if kind == "slices" and any(isinstance(axis, dict) and "index" in axis for axis in axes):
                raise FormatError("a region of slices with a list of positions", remedy="its type is orthogonal")
            return Product(tuple(map(_axis, axes)), _shape(document))
        case "points":
            return Points(tuple(_numbers(point, "point") for point in _items(document, "points")), _shape(document))
        case "blocks":
            blocks = []
            for block in _items(document, "blocks"):
                if not isinstance(block, list) or len(block) != 2:
                    raise FormatError("a block of a region that is not [start, stop]")
                blocks.append((_numbers(block[0], "start of a block"), _numbers(block[1], "stop of a block")))
            return Blocks(tuple(blocks), _shape(document))
    shown = repr(kind[:40]) if isinstance(kind, str) else type(kind).__name__
    raise FormatError(f"a region of an unknown type ({shown})", remedy=f"known are {', '.join(_KINDS)}")


def spelled_region(region: Region, *, scalar_as_one: bool = False) -> dict[str, object]:
    """Return what :func:`region_of` reads. ``scalar_as_one``: an array without dimensions has the shape ``[1]`` there.

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


def _spelled_axis(axis: Steps | tuple[int, ...]) -> dict[str, object]:
    if isinstance(axis, Steps):
        return {"start": axis.start, "stop": axis.stop, "step": axis.step}
    return {"index": list(axis)}


def _shape(document: dict[str, object]) -> tuple[int, ...]:
    return _numbers(document.get("shape"), "shape")


def _items(document: dict[str, object], name: str) -> list[object]:
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
"""The keys of a reference to a whole node."""
_ALL = frozenset(KEYS)


def reference_of(document: object) -> ObjectReference | RegionReference:
    """Return the reference that an object spells: to a region where it has one. FormatError for anything else."""
    if not isinstance(document, Mapping):
        raise FormatError(f"a reference is an object, not {type(document).__name__}")
    path = document.get("path")
    if not isinstance(path, str) or not path:
        raise FormatError(f"a reference with the path {str(path)[:40]!r}")
    path = path if path.startswith("/") else f"/{path}"
    source = _text(document, "source") or "."
    ids = _text(document, "object_id"), _text(document, "source_object_id")
    region = document.get("region")
    if region is None:
        return ObjectReference(path, source, *ids)
    return RegionReference(path, region_of(region), source, *ids)


def _text(document: Mapping[object, object], key: str) -> str | None:
    value = document.get(key)
    if not (value is None or isinstance(value, str)):
        raise FormatError(f"a reference whose {key} is {type(value).__name__}, not text")
    return value


def references_of(objects: Sequence[object]) -> list[ObjectReference | RegionReference]:
    """Return :func:`reference_of` of each; faster for references to whole nodes, of which there may be very many."""
    plain = [said for said in objects if type(said) is dict and said.keys() == _ALL]
    if len(plain) < len(objects):
        return list(map(reference_of, objects))
    parts = [list(map(itemgetter(key), plain)) for key in KEYS]
    return list(map(ObjectReference, *parts) if all_sound(*parts) else map(reference_of, plain))


def all_sound(paths: list[Any], sources: list[Any], *ids: list[Any]) -> bool:
    """Return True if all references of which this is said by :data:`KEYS` can be made as they stand."""
    return (
        set(map(type, paths)) | set(map(type, sources)) <= {str}
        and all(set(map(type, each)) <= {str, type(None)} for each in ids)
        and "" not in sources
        and all(map(str.startswith, paths, repeat("/")))
    )


def spelled(reference: ObjectReference | RegionReference, *, scalar_as_one: bool = False) -> dict[str, object]:
    """Return what :func:`reference_of` reads, with all keys; ids that are not known are None.

    ``scalar_as_one``: arrays without dimensions have the shape ``[1]`` in regions, as in all documents of Zarr v2.
    """
    document: dict[str, object] = {
        "source": reference.source,
        "path": reference.path,
        "object_id": reference.object_id,
        "source_object_id": reference.source_object_id,
    }
    if isinstance(reference, RegionReference):
        document["region"] = spelled_region(reference.region, scalar_as_one=scalar_as_one)
    return document


# -- reference_text: a path, or compact JSON where a path is not all; HDMF on Zarr v3 ----------------------------------
# ``/g1/i2`` points into the dataset itself; ``{"path":"/a","source":"../x.zarr"}`` into another one, and so do
# references to regions, which say their region beside these. No reference is the empty text.


Reference = ObjectReference | RegionReference
REFERENCE_TYPES: dict[type, type[Reference]] = {ObjectRef: ObjectReference, RegionRef: RegionReference}


class ReferenceText(ArrayToArray):
    """Cells that are references over stored ones that are text."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("reference_text", config)
        if not isinstance(cells.dtype, ObjectRef | RegionRef):
            raise unfit("reference_text", "references", cells.dtype)
        self._kind: ObjectRef | RegionRef = cells.dtype
        self.cells = ChunkLayout(VlenString(), cells.shape, "")

    def encode(self, array: Values) -> Values:
        """Return the text of each reference; Invalid for a cell that is none."""
        texts = [text_of(cell, self._kind) for cell in array.reshape(-1).tolist()]
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """Return the references; CorruptChunk for text that spells none."""
        texts = array.reshape(-1).tolist()
        return np.fromiter((of_text(text, self._kind) for text in texts), object, len(texts)).reshape(array.shape)


def text_of(cell: Reference | None, kind: ObjectRef | RegionRef) -> str:
    """Return a reference, or None, as text; Invalid for anything else."""
    if cell is None:
        return ""
    if not isinstance(cell, REFERENCE_TYPES[type(kind)]):
        raise Invalid(
            f"{type(cell).__name__} does not fit cells of type {describe(kind)}", remedy="a reference, or None"
        )
    if isinstance(cell, ObjectReference) and cell.source == ".":
        return cell.path
    document = spelled(cell)
    kept = {"path", "source"} if isinstance(cell, ObjectReference) else set(document)
    document = {key: document[key] for key in kept if document[key] is not None}
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def of_text(text: str, kind: ObjectRef | RegionRef) -> Reference | None:
    """Return the reference that a text spells, None for the empty one; CorruptChunk for any other text."""
    if not text:
        return None
    try:
        found = reference_of(json.loads(text) if text.startswith("{") else {"path": text})
    except FormatError as error:
        raise _corrupt(error.said, text, kind) from None
    except (ValueError, RecursionError) as error:
        raise _corrupt(str(error), text, kind) from None
    if type(found) is not REFERENCE_TYPES[type(kind)]:
        raise _corrupt(f"a cell is {type(found).__name__}", text, kind)
    return found


def _corrupt(problem: str, text: str, kind: ObjectRef | RegionRef) -> CorruptChunk:
    return CorruptChunk(f"reference_text: {problem}", expected=f"text of a {describe(kind)}", found=repr(text[:60]))
