"""Tables of HDMF (``DynamicTable`` of hdmf-common 1.8): the words by which their columns are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hyperslab.model.dims import show_sizes

# Indexes of indexes: HDMF has two of them.
MOST_INDEXES = 4


def read_column_names(attrs: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the columns of a table with these attributes, in its order; None for a group that is none."""
    names = attrs.get("colnames")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple | np.ndarray):
        return None
    return ["id", *map(str, names)]


def iter_index_names(column: str) -> Iterator[str]:
    """Yield the names of the arrays in which the rows of a ragged column end, from the innermost one outwards."""
    for _ in range(MOST_INDEXES):
        column = f"{column}_index"
        yield column


def describe_lengths(lengths: Mapping[str, int]) -> str:
    """Return in words how many rows columns have that differ in that, by their names; "" where they do not differ."""
    by_length: dict[int, list[str]] = {}
    for name, length in lengths.items():
        by_length.setdefault(length, []).append(name)
    return f"the columns differ in length: {show_sizes(by_length)}" if len(by_length) > 1 else ""
