"""Which groups are tables, and their columns: a ``DynamicTable`` of HDMF, and a data frame of :func:`.write_frame`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound
from hyperslab.formats.frame_description import read_description
from hyperslab.group.frame_columns import FrameTable
from hyperslab.group.links import follow
from hyperslab.group.table_columns import ArrayColumn, TableColumn
from hyperslab.model.dynamic_tables import describe_lengths, iter_index_names, read_column_names
from hyperslab.model.paths import child, is_name
from hyperslab.model.spec import ArraySpec, GroupSpec


def find_columns(session: OpenDataset, path: str) -> dict[str, TableColumn] | None:
    """Return the columns of the table at a path by name, those that it names and has; None for a group that is none.

    FormatError, BrokenLink … where an array of a column is there and cannot be opened: without its index a ragged
    column would have other rows. FormatError for columns that differ in length: rows would be put together wrongly."""
    found = open_columns(session, path)
    if found is None:
        return None
    columns: dict[str, TableColumn] = {}
    for name, column in found[0].items():
        if isinstance(column, HyperslabError):
            raise column
        columns[name] = column
    differ = describe_lengths({name: column.length for name, column in columns.items()})
    if differ:
        raise FormatError(differ, url=session.url, node=path, remedy="remove, or append, rows of single columns")
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
    names = read_column_names(table.attrs)
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


def _find_hdmf_column(session: OpenDataset, table: str, name: str) -> TableColumn | None:
    """Return a column of the table at a path with its indexes; None where that has no array of the name. FormatError,
    BrokenLink … where one of these arrays is there and cannot be opened: without its index a ragged column would have
    other rows."""
    data = _array_in(session, table, name)
    if data is None:
        return None
    indexes: list[Array] = []
    for index_name in iter_index_names(name):
        index = _array_in(session, table, index_name)
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
