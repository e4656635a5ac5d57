"""Run as a program, several at a time on one file: ``together.py write|append|note|read PATH NUMBER COUNT``.

A cell of row r is 0 until its writer has made it 1000 r + its column; rows that are appended hold their own number
throughout. Each program does ``COUNT`` things; the reader goes on until a file beside says that the others are done.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

import hyperslab as hs


def write(path: str, number: int, count: int) -> None:
    """Cells of one column, one after another."""
    array: Any = hs.open(path, "r+", durable=False, workers=1)
    for row in range(count):
        array[row, number] = 1000 * row + number


def append(path: str, number: int, count: int) -> None:
    array: Any = hs.open(path, "r+", durable=False, workers=1)
    for step in range(count):
        array.append(np.full((1 + step % 3, array.shape[1]), -(number * 10000 + step + 1.0)))


def note(path: str, number: int, count: int) -> None:
    array: Any = hs.open(path, "r+", durable=False, workers=1)
    for step in range(count):
        array.attrs[f"{number}-{step}"] = step


def read(path: str, number: int, count: int) -> None:
    rows = count
    expected = 1000.0 * np.arange(rows)[:, None] + np.arange(8)
    reads, seen = 0, 0
    kept: Any = hs.open(path, cache_bytes=0)
    while not os.path.exists(path + ".done"):
        for array in (kept, hs.open(path, cache_bytes=(reads % 2) << 20)):
            cells = array[...]
            first = cells[:rows]
            assert ((first == 0) | (first == expected)).all(), first
            tail = cells[rows:]
            assert (tail == tail[:, :1]).all(), tail
            assert (tail < 0).all(), tail
            seen = max(seen, len(tail))
            reads += 1
    print(reads, seen)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
