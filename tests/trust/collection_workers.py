"""``python collection_workers.py URL LAYOUT FLAVOUR SECONDS WITNESSES``: eight processes at work in one collection.

Each creates, updates, reads, queries and deletes until the time is over, and asserts what must hold for whoever looks.
What must be found in the end is printed as JSON. ``python collection_workers.py URL RACERS KEYS``: processes that race
for keys; which ones each has won is printed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from collection_forks import all_at_once
from collection_schemas import WORKERS, key, opened, pieces

from hyperslab.database import Array
from hyperslab.errors import AlreadyExists, NodeNotFound

SLOTS = 24


class Worker:
    """One process. ``cells`` and ``counter``: what it stored last in the array of all; ``mine``: arrays it has."""

    def __init__(self, url: str, layout: str, flavour: str, number: int, witnesses: str) -> None:
        self.collection = opened(url)
        self.layout, self.flavour, self.number, self.witnesses = layout, flavour, number, witnesses
        self.random = random.Random(number)
        self.cells: dict[str, int] = {}
        self.counter = 0
        self.mine: dict[int, tuple[Array, int, str]] = {}
        self.done: dict[str, int] = {}
        self.all = self.collection.get(slot=-1, station="all")

    def run(self, seconds: float) -> dict[str, Any]:
        """Work for so long; what is to be found then."""
        deeds: list[Callable[[], None]] = [
            *[self.set_cell] * 3, self.set_attribute, self.create, self.create, self.write, self.delete,
            self.change, self.look, self.query, self.find, self.count,
        ]  # fmt: skip
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            deed = self.random.choice(deeds)
            deed()
            self.done[deed.__name__] = self.done.get(deed.__name__, 0) + 1
        mine = {slot: [array.id, value, note] for slot, (array, value, note) in self.mine.items()}
        return {"cells": self.cells, "counter": self.counter, "mine": mine, "done": self.done}

    def set_cell(self) -> None:
        """A cell of the array of all; those of the others lie beside it in the same chunk."""
        place = (self.random.randrange(8), self.number + WORKERS * self.random.randrange(2))
        value = self.random.randrange(1 << 40)
        self.all[place].update(value)
        self.cells[f"{place[0]},{place[1]}"] = value
        assert self.all[place].read() == value

    def set_attribute(self) -> None:
        self.counter += 1
        self.all.update_custom_attributes({f"w{self.number}": self.counter})
        assert self.all.custom_attributes[f"w{self.number}"] == self.counter

    def create(self) -> None:
        """A key that others want too; who has it, has its witness."""
        slot = self.random.randrange(SLOTS)
        try:
            array = self.collection.create(key(slot), {"note": "new"})
        except AlreadyExists:
            return
        os.close(os.open(f"{self.witnesses}/{slot}", os.O_CREAT | os.O_EXCL))
        self.mine[slot] = (array, -1, "new")

    def some(self) -> int | None:
        return self.random.choice(list(self.mine)) if self.mine else None

    def write(self) -> None:
        if (slot := self.some()) is not None:
            array, _, note = self.mine[slot]
            value = self.random.randrange(1 << 40)
            array[:].update(np.full((8, 16), value))
            self.mine[slot] = (array, value, note)
            assert (array[:].read() == value).all()

    def change(self) -> None:
        if (slot := self.some()) is not None:
            array, value, _ = self.mine[slot]
            note = f"of {self.number}"
            array.update_custom_attributes({"note": note})
            self.mine[slot] = (array, value, note)

    def delete(self) -> None:
        if (slot := self.some()) is not None:
            array, _, _ = self.mine.pop(slot)
            os.unlink(f"{self.witnesses}/{slot}")
            array.delete()
            assert array.id not in self.collection

    def check(self, array: Array) -> None:
        """An array that may be another's, and may be gone by now."""
        if array.primary_attributes["slot"] < 0:
            return
        try:
            cells = array[:].read()
        except NodeNotFound:
            return
        for part in pieces(cells, self.layout, self.flavour):
            assert (part == part.flat[0]).all(), cells

    def look(self) -> None:
        """All arrays; those that this process has are among them."""
        found = {array.id: array for array in self.collection}
        assert {array.id for array, _, _ in self.mine.values()} | {self.all.id} <= found.keys()
        self.check(self.random.choice(list(found.values())))

    def query(self) -> None:
        note = f"of {self.number}"
        found = list(self.collection.query(note=note, slot=(0, SLOTS)))
        assert {array.id for array in found} == {array.id for array, _, said in self.mine.values() if said == note}

    def find(self) -> None:
        slot = self.random.randrange(SLOTS)
        array = self.collection.get(**key(slot))
        assert array is None or array.primary_attributes == key(slot)
        if slot in self.mine:
            assert array is not None
            assert array.id == self.mine[slot][0].id
        if array is not None:
            self.check(array)

    def count(self) -> None:
        assert 1 + len(self.mine) <= len(self.collection) <= 1 + SLOTS + WORKERS


def race(url: str, keys: int) -> Callable[[], list[tuple[int, str]]]:
    """Create as many of the keys as others have not; those that were won, with the ids."""
    collection = opened(url)

    def run() -> list[tuple[int, str]]:
        won = []
        for slot in range(keys):
            with suppress(AlreadyExists):
                won.append((slot, collection.create(key(slot)).id))
        return won

    return run


def main(arguments: list[str]) -> list[Any]:
    """What is said of either."""
    if len(arguments) == 3:
        url, racers, keys = arguments
        return all_at_once(lambda _: race(url, int(keys)), int(racers))
    url, layout, flavour, seconds, witnesses = arguments

    def prepare(number: int) -> Callable[[], Any]:
        return partial(Worker(url, layout, flavour, number, witnesses).run, float(seconds))

    return all_at_once(prepare, WORKERS)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
