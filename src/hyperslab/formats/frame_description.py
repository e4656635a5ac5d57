"""The description of a data frame of pandas, an attribute of its group that ``conversion.frames`` writes: of which
variables the frame is made, and what their cells mean."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hyperslab.errors import FormatError
from hyperslab.selection.region import Axis, Range

ATTRIBUTE = "pandas_frame"
VERSION = 1

Part = dict[str, Any]
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What a description without the entries that it must have raises."""


def read_description(attrs: Mapping[str, Any]) -> Part | None:
    """Return the description of the frame that a group with these attributes is; None for a group that is none.
    FormatError for a damaged one, and one of a later version."""
    text = attrs.get(ATTRIBUTE)
    if text is None:
        return None
    try:
        description: Part = json.loads(str(text))
        version = description["version"]
    except UNREADABLE as error:
        raise FormatError(
            "the description of the data frame is damaged", remedy="read its arrays one by one"
        ) from error
    if version != VERSION:
        raise FormatError(f"a data frame of version {version}", remedy="read it by a newer hyperslab")
    return description


def damaged_description(error: Exception) -> FormatError:
    """Return the error for a description that lacks what it must have."""
    return FormatError(f"the description of the data frame is damaged: {error!r}", remedy="read its arrays one by one")


def choose_rows(description: Part, rows: Axis) -> Part | None:
    """Return the description of the frame that these rows of another one are; None where its index counted them, and
    they are no range of numbers."""
    found = deepcopy(description)
    index, known = found["index"], int(found["rows"])
    found["rows"] = int((rows.positions < known).sum())
    if not isinstance(rows, Range) or rows.step != 1:
        index.pop("freq", None)
    if "start" in index:
        if not isinstance(rows, Range):
            return None
        start, step = index["start"] + rows.start * index["step"], rows.step * index["step"]
        index |= {"start": start, "stop": start + found["rows"] * step, "step": step}
    return found


def choose_columns(description: Part, known: Collection[str]) -> Part | None:
    """Return the description of the frame that the columns with ``known`` variables are; None where the index is not
    among them, or columns are named by cells of a variable."""
    cells = [set(variables_of(part)) <= set(known) for part in description["cells"]]
    levels = [name for part in description["index"].get("levels", ()) for name in variables_of(part)]
    if all(cells) and set(levels) <= set(known):
        return description
    words = description["columns"].get("words")
    if words is None or not set(levels) <= set(known):
        return None
    kept = [
        [each for each, is_known in zip(row, cells, strict=True) if is_known] for row in (words, description["cells"])
    ]
    return {**description, "columns": {**description["columns"], "words": kept[0]}, "cells": kept[1]}


def variables_of(part: Part) -> list[str]:
    """Return the variables that a part needs: its own, marks of missing cells, categories."""
    found = [] if "ends" in part else [part["variable"]]
    found += [part["missing"]] if "missing" in part else []
    inner = [*part.get("ends", ()), *([part["categories"]] if "categories" in part else ())]
    return found + [name for each in inner for name in variables_of(each)]


def variables_with(attrs: Mapping[str, Any], name: str) -> list[str]:
    """Return the variables that a column of the variable ``name`` needs, in the group with these attributes; none where
    that is no frame, and of a damaged description."""
    if ATTRIBUTE not in attrs:
        return []
    with suppress(FormatError, *UNREADABLE):
        description = read_description(attrs) or {}
        for part in (*description["index"].get("levels", ()), *description["cells"]):
            if name in [each["variable"] for each in _stored_parts(part)]:
                return [str(other) for other in variables_of(part)]
    return []


def row_parts(description: Part) -> Iterator[Part]:
    """Yield the parts that have a variable along the rows: of the index, then of the columns."""
    for part in (*description["index"].get("levels", ()), *description["cells"]):
        yield from _stored_parts(part)


def word_parts(description: Part) -> Iterator[Part]:
    """Yield the parts whose variables say what others mean: names of columns, categories."""
    names = [each for part in description["columns"].get("levels", ()) for each in _stored_parts(part)]
    yield from names
    for part in (*names, *row_parts(description)):
        if "categories" in part:
            yield from _stored_parts(part["categories"])


def _stored_parts(part: Part) -> Iterator[Part]:
    """Yield the parts of a column that have a variable each: of intervals those of both ends."""
    for end in part.get("ends", ()):
        yield from _stored_parts(end)
    if "ends" not in part:
        yield part
