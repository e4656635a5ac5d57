"""Which groups are tables, and their columns: a ``DynamicTable`` of HDMF, and a data frame of :func:`.write_frame`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.frame_description import read_description
from hyperslab.group.frame_columns import FrameTable
from hyperslab.group.links import follow
from hyperslab.group.table_columns import ArrayColumn, TableColumn
from hyperslab.model.paths import child, is_name
from hyperslab.model.spec import ArraySpec, GroupSpec

# Indexes of indexes: HDMF has two of them.
_MOST_LEVELS = 4


def find_columns(session: OpenDataset, path: str) -> dict[str, TableColumn] | None:
    """Return the columns of the table at a path by name, those that it names and has; None for a group that is none.

    FormatError, BrokenLink … where an array of a column is there and cannot be opened: without its index a ragged
    column would have other rows."""
    found = open_columns(session, path)
    if found is None:
        return None
    columns: dict[str, TableColumn] = {}
    for name, column in found[0].items():
        if isinstance(column, HyperslabError):
            raise column
        columns[name] = column
    return columns


def open_columns(
    session: OpenDataset, path: str, most: int | None = None
) -> tuple[dict[str, TableColumn | HyperslabError], int] | None:
    """Return the first ``most`` columns of the table at a path by their names, or for one that cannot be opened the
    error, and how many it names; None for a group that is none. FormatError for a damaged description of a frame."""
    table = session.reader.node(path)
    if not isinstance(table, GroupSpec):
        return None
    found: dict[str, TableColumn | HyperslabError] = {}
    description = read_description(table.attrs)
    if description is not None:
        frame = FrameTable(description, lambda name: _array_in(session, path, name))
        for name, column in islice(frame.columns(), most):
            found[_free_name(name, found)] = column
        return found, frame.width
    names = _hdmf_names(table.attrs)
    if names is None:
        return None
    for name in names[:most]:
        try:
            column_or_none = _find_hdmf_column(session, path, name)
        except HyperslabError as error:
            found[name] = error
            continue
        if column_or_none is not None:
            found[name] = column_or_none
    return found, len(names)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a column that no other column has: frames have columns of one name."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _hdmf_names(attrs: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the columns of a ``DynamicTable`` with these attributes, in its order; None for a group that
    is none."""
    names = attrs.get("colnames")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple | np.ndarray):
        return None
    return ["id", *map(str, names)]


def _find_hdmf_column(session: OpenDataset, table: str, name: str) -> TableColumn | None:
    """Return a column of the table at a path with its indexes; None where that has no array of the name. FormatError,
    BrokenLink … where one of these arrays is there and cannot be opened: without its index a ragged column would have
    other rows."""
    data = _array_in(session, table, name)
    if data is None:
        return None
    indexes: list[Array] = []
    place = name
    while len(indexes) < _MOST_LEVELS:
        place = f"{place}_index"
        index = _array_in(session, table, place)
        if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
            break
        indexes.insert(0, index)
    return ArrayColumn(name, data, tuple(indexes))


def _array_in(session: OpenDataset, table: str, name: str) -> Array | None:
    """Return the array of this name, or behind the link of this name; None where there is none."""
    if not is_name(name):
        return None
    try:
        home, path, spec = follow(session, child(table, name))
    except NodeNotFound:
        return None
    return Array(home, path, spec) if isinstance(spec, ArraySpec) and spec.shape else None
