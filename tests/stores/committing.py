"""A process that commits to a repository, and says each commit once it is acknowledged:
``python committing.py HOW PLACE WHICH COUNT``.

``HOW``: ``commit`` changes a part of its own, by ``hs.commit``; ``write`` changes cells in chunks that others change
too, by single writes; ``clash`` does so by ``hs.commit``, and again where another was faster; ``generations`` gives all
cells of two arrays the next number, for ever.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any

import hyperslab as hs
from hyperslab.errors import Conflict

PART = 10
"""Cells of one process."""


def say(**acknowledged: Any) -> None:
    """Print one acknowledged commit."""
    print(json.dumps(acknowledged), flush=True)


def main(how: str, place: str, which: str, number: str) -> None:
    """Commit so many times."""
    where, me, times = json.loads(place), int(which), int(number)
    if how == "generations":
        for generation in count(1):
            with hs.commit(**where, message=str(generation)) as root:
                root["a"][...] = generation
                root["b"][...] = generation
            say(generation=generation)
    if how == "write":
        array = hs.open(**where, mode="r+")["a"]
        for k in range(times):
            array[k % PART * PART + me] = k + 1
            say(cell=k % PART * PART + me, value=k + 1)
        return
    for k in range(times):
        message, cell = f"{me}.{k}", (me * PART + k % PART if how == "commit" else k % PART * PART + me)
        while True:
            try:
                with hs.commit(**where, message=message) as root:
                    root["a"][cell] = k + 1
                    root["b"][cell] = k + 1
                say(cell=cell, value=k + 1, message=message)
                break
            except Conflict as error:
                assert "/a" in error.message, error


if __name__ == "__main__":
    main(*sys.argv[1:])
