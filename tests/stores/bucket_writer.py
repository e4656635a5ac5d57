"""One of two processes that write interleaved cells: ``python bucket_writer.py URL OPTIONS WHICH``."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import hyperslab as hs


def write(url: str, options: str, which: int) -> None:
    """Every fourth cell, row by row, each one plus its number; and an attribute now and then."""
    array = hs.open(url, "r+", storage_options=json.loads(options))["a"]
    for row in range(array.shape[0]):
        array[row, which::4] = [row * array.shape[1] + column + 1 for column in range(which, array.shape[1], 4)]
        if row % 8 == which:
            array.attrs[f"{which} {row}"] = row


def main(url: str, options: str, which: str) -> None:
    """Two threads, each with a dataset of its own."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda i: write(url, options, i), (2 * int(which), 2 * int(which) + 1)))
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
