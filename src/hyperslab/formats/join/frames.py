"""Data frames of pandas in joined pieces: the frames must be alike, and the joined one is described with all rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.formats.frame_description import (
    UNREADABLE,
    Part,
    damaged_description,
    read_description,
    row_parts,
    word_parts,
)
from hyperslab.model.cells import Values, equal_labels
from hyperslab.model.paths import child

REMEDY = "read_frame() each piece, and join them by pandas.concat()"
"""What is left to do with frames whose arrays do not fit."""

_NUMBER = re.compile(r"u?int\d+|float\d+|[<>][iuf]\d+")


@dataclass(frozen=True)
class PieceFrame:
    """The data frame that a group of a piece is: its description, and by variable the cells that say what others mean,
    such as categories."""

    description: Part
    words: Mapping[str, Values]


@dataclass(frozen=True)
class FrameRows:
    """The rows of a frame in a piece; ``first`` and ``step`` of an index that only counts them."""

    count: int
    first: int | None
    step: int | None


def read_frame(attrs: Mapping[str, object], read: Callable[[str], Values | None]) -> PieceFrame | None:
    """Return the frame that a group with these attributes is, None for none; ``read`` returns the cells of a variable
    that is there. FormatError."""
    description = read_description(attrs)
    if description is None:
        return None
    try:
        _check_entries(description)
        names = [part["variable"] for part in word_parts(description)]
    except UNREADABLE as error:
        raise damaged_description(error) from error
    cells = {name: read(name) for name in names}
    return PieceFrame(description, {name: values for name, values in cells.items() if values is not None})


def _check_entries(description: Part) -> None:
    """Raise one of UNREADABLE for a description that lacks what is asked of it here."""
    parts, index = [*row_parts(description), *word_parts(description)], description["index"]
    texts = [part[key] for part in parts for key in ("variable", "dtype")]
    numbers = [description["rows"], *(index[key] for key in ("start", "step") if "start" in index)]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError("names are text, and numbers of rows are numbers")
    for part in _parts_by_column(description).values():
        _without_sizes(part)


def count_rows(frame: PieceFrame, lengths: Mapping[str, int], path: str, url: str) -> FrameRows:
    """Return the rows of the frame in the group at ``path``; ``lengths``: those of the arrays that are there, by path.
    Invalid for arrays with cells behind the last row."""
    description = frame.description
    rows, index = int(description["rows"]), description["index"]
    for part in row_parts(description):
        node = child(path, part["variable"])
        length = lengths.get(node, rows)
        if length > rows:
            remedy = "read_frame() what it has, and write it with mode='w'"
            if "append" in description:
                remedy = "open it when nobody appends; after a killed append, append_frame() again"
            message = f"{length} cells in a column of a data frame of {rows} rows"
            raise Invalid(message, url=url, node=node, remedy=remedy)
        rows = min(rows, length)
    return FrameRows(rows, index.get("start"), index.get("step"))


def check_frame(frame: PieceFrame, first: PieceFrame, path: str, url: str) -> None:
    """Raise Invalid where the frame of a piece has other columns than that of the first piece, or where its cells mean
    something else."""
    mine, theirs = frame.description, first.description
    if mine["index"]["names"] != theirs["index"]["names"]:
        message = f"the index is called {mine['index']['names']}, and {theirs['index']['names']} in the first piece"
        raise Invalid(message, url=url, node=path, remedy="rename_axis() it in one of them")
    columns = [_parts_by_column(each) for each in (mine, theirs)]
    for name in (*columns[0], *columns[1]):
        pair = columns[0].get(name), columns[1].get(name)
        if not _is_alike(*pair):
            shown = ["no such column" if each is None else _spell(each) for each in pair]
            message = f"{name} is {shown[0]}, and {shown[1]} in the first piece"
            remedy = f"write the frames with the same columns and dtypes, or {REMEDY}"
            raise Invalid(message, url=url, node=path, remedy=remedy)
    for name in frame.words.keys() & first.words.keys():
        here, there = frame.words[name], first.words[name]
        if not equal_labels(here, there):
            message = f"the labels are {_shorten(here)}, and {_shorten(there)} in the first piece"
            remedy = "give the frames the same categories, set_categories(), and columns, and write them anew"
            raise Invalid(message, url=url, node=child(path, name), remedy=remedy)


def join_descriptions(
    first: PieceFrame, rows: Sequence[FrameRows], dtypes: Mapping[str, str], urls: Sequence[str]
) -> Part:
    """Return the description of the frame that pieces with these ``rows`` make, in this order. ``dtypes``: by variable
    those of numbers that the pieces have in several types. Invalid for rows that are not counted on."""
    found = deepcopy(first.description)
    found["rows"] = sum(each.count for each in rows)
    found.pop("append", None)
    index = found["index"]
    index.pop("freq", None)  # the pieces need not follow one another without a gap
    if rows[0].first is not None and rows[0].step is not None:
        start, step, before = rows[0].first, rows[0].step, 0
        for each, url in zip(rows, urls, strict=True):
            if (each.first, each.step) not in ((start + before * step, step), (0, 1)):
                message = f"the rows are counted from {each.first}, and those before it end at {start + before * step}"
                raise Invalid(message, url=url, remedy="reset_index(drop=True) counts on; or name the files in order")
            before += each.count
        index |= {"start": start, "stop": start + before * step}
    for part in row_parts(found):
        if _NUMBER.fullmatch(part["dtype"]):
            part["dtype"] = dtypes.get(part["variable"], part["dtype"])
    return found


def _parts_by_column(description: Part) -> dict[str, Part]:
    """Return the parts of the index and of the columns by what they are called in messages."""
    index, columns = description["index"], description["columns"]
    found = {f"the index {name!r}": part for name, part in zip(index["names"], index.get("levels", ()), strict=False)}
    words, cells = columns.get("words"), description["cells"]
    if words is None or len(set(words)) < len(words):
        return found | {f"column {number}": part for number, part in enumerate(cells)} | {"the names": columns}
    return found | {f"the column {word!r}": part for word, part in zip(words, cells, strict=False)}


def _is_alike(part: Part | None, other: Part | None) -> bool:
    """Return True where cells of two columns are of one dtype, or get a common one: numbers, times of any unit, and
    text of any type of pandas."""
    return part is not None and other is not None and _without_sizes(part) == _without_sizes(other)


def _without_sizes(part: Part) -> Part:
    """Return a part without what a join makes alike."""
    if part.get("objects") == "text":
        return {name: part.get(name) for name in ("variable", "objects", "missing")}
    dtype = str(part.get("dtype"))
    if dtype.startswith(("datetime64[", "timedelta64[")):
        dtype = dtype[: dtype.index("[")] + dtype.partition(",")[2]
    found = {**part, "dtype": "number" if _NUMBER.fullmatch(dtype) else dtype}
    if "categories" in part:
        found["categories"] = _without_sizes(part["categories"])
    if "ends" in part:
        found["ends"] = [_without_sizes(end) for end in part["ends"]]
    return found


def _spell(part: Part) -> str:
    """Return what tells a column from another one."""
    found = f"{part.get('dtype', 'counted')} in {part.get('variable')!r}"
    found += " with missing cells" if "missing" in part else ""
    return f"{found}, ordered={part['ordered']}" if "ordered" in part else found


def _shorten(words: Values) -> str:
    """Return the first few labels as text."""
    return np.array2string(words, separator=", ", threshold=6, edgeitems=3)
