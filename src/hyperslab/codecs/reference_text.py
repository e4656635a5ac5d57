"""``reference_text``: references as text, as HDMF on Zarr v3 stores them: a path, or compact JSON where it is not all.

``/g1/i2`` points into the dataset itself; ``{"path":"/a","source":"../x.zarr"}`` into another one, and so do references
to regions, which say their region beside these. No reference is the empty text.
"""

from __future__ import annotations

import json

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.codecs.reference_json import reference_of, spelled
from hyperslab.errors import CorruptChunk, FormatError, Invalid
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenString, describe
from hyperslab.model.refs import ObjectReference, RegionReference

Reference = ObjectReference | RegionReference
_CLASSES: dict[type, type[Reference]] = {ObjectRef: ObjectReference, RegionRef: RegionReference}


class ReferenceText:
    """Cells that are references over stored ones that are text."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("reference_text", config)
        if not isinstance(cells.dtype, ObjectRef | RegionRef):
            raise unfit("reference_text", "references", cells.dtype)
        self._kind: ObjectRef | RegionRef = cells.dtype
        self._cells = ChunkLayout(VlenString(), cells.shape, "")

    @property
    def cells(self) -> ChunkLayout:
        """Text."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """The text of each reference; Invalid for a cell that is none."""
        texts = [text_of(cell, self._kind) for cell in array.reshape(-1).tolist()]
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """The references; CorruptChunk for text that spells none."""
        texts = array.reshape(-1).tolist()
        return np.fromiter((of_text(text, self._kind) for text in texts), object, len(texts)).reshape(array.shape)


def text_of(cell: Reference | None, kind: ObjectRef | RegionRef) -> str:
    """A reference, or None, as text; Invalid for anything else."""
    if cell is None:
        return ""
    if not isinstance(cell, _CLASSES[type(kind)]):
        raise Invalid(
            f"{type(cell).__name__} does not fit cells of type {describe(kind)}", remedy="a reference, or None"
        )
    if isinstance(cell, ObjectReference) and cell.source == ".":
        return cell.path
    said = spelled(cell)
    kept = {"path", "source"} if isinstance(cell, ObjectReference) else set(said)
    said = {key: said[key] for key in kept if said[key] is not None}
    return json.dumps(said, separators=(",", ":"), sort_keys=True)


def of_text(text: str, kind: ObjectRef | RegionRef) -> Reference | None:
    """The reference that a text spells, None for the empty one; CorruptChunk for any other text."""
    if not text:
        return None
    try:
        found = reference_of(json.loads(text) if text.startswith("{") else {"path": text})
    except FormatError as error:
        raise _corrupt(error.said, text, kind) from None
    except (ValueError, RecursionError) as error:
        raise _corrupt(str(error), text, kind) from None
    if type(found) is not _CLASSES[type(kind)]:
        raise _corrupt(f"a cell is {type(found).__name__}", text, kind)
    return found


def _corrupt(said: str, text: str, kind: ObjectRef | RegionRef) -> CorruptChunk:
    return CorruptChunk(f"reference_text: {said}", expected=f"text of a {describe(kind)}", found=repr(text[:60]))
