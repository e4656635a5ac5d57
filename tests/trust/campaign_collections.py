"""``python campaign_collections.py ROLE NUMBER FOLDER PLACE``: one process of a campaign in a collection.

A worker has :data:`SLOTS` keys of its own, which it creates, fills in parts, changes, queries and deletes, and a column
of the array of all. Each cell tells its array, its write and the rows of that write, and its column, so that a reader
knows of each read whether it is right: all cells are of that array, and no write shows in a part of its rows. ``PLACE``
is JSON: ``url``, ``storage`` options, ``lease`` in seconds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from campaigns import Campaign, Journal, State, read, work
from collection_schemas import DIMENSIONS, NAME, WORKERS, client, key, opened

from hyperslab.database import Array, Collection
from hyperslab.errors import Conflict, HyperslabError, NodeNotFound, StorageError, TilesFailed
from hyperslab.stores import leases

SLOTS = 4
"""Keys of each worker; the first one is never deleted."""
ROWS, COLUMNS = (dimension.size for dimension in DIMENSIONS)
SHARED = "shared"
EMPTY = [-1] * ROWS
PATIENCE = 30
"""Seconds for which a place that fails is asked again."""
FAILURES = (StorageError, Conflict, TilesFailed)
"""What is said where nobody knows what became of a change, or a read came to no end."""

# -- cells that tell what they are -------------------------------------------------------------------------------------


def make_token(slot: int, number: int, start: int, stop: int) -> int:
    """Return what the cells of one write have in common."""
    return ((slot << 24 | number) << 3 | start) << 3 | (stop - 1)


def parse_token(token: int) -> tuple[int, int, int, int]:
    """Return the array, the number of the write, and its rows."""
    return token >> 30, token >> 6 & (1 << 24) - 1, token >> 3 & 7, (token & 7) + 1


def cells_of(tokens: list[int]) -> np.ndarray[Any, Any]:
    """Return the cells of rows; -1 for one without data."""
    column = np.array(tokens, "i8")[:, None]
    return np.where(column < 0, -1, column * COLUMNS + np.arange(COLUMNS))


def tokens_of(slot: int, cells: np.ndarray[Any, Any]) -> list[int]:
    """Return the tokens of rows that were read. AssertionError for a cell that is wrong, and for a torn write."""
    tokens = [int(first) // COLUMNS if first >= 0 else -1 for first in cells[:, 0]]
    np.testing.assert_array_equal(cells, cells_of(tokens), f"torn cells of {slot}")
    numbers = [parse_token(token)[1] if token >= 0 else -1 for token in tokens]
    for token in set(tokens) - {-1}:
        whose, number, start, stop = parse_token(token)
        assert whose == slot, f"cells of {whose} in {slot}"
        assert min(numbers[start:stop]) >= number, f"a part of a write: {tokens} of {slot}"
    return tokens


def look_at(array: Array) -> dict[str, Any]:
    """Return what there is of one array that comes and goes: its rows, and the number of its note."""
    tokens = tokens_of(array.primary_attributes["slot"], array[:].read())
    return {"rows": tokens, "note": number_of(array)}


def number_of(array: Array) -> int:
    """Return the number that both attributes of one array tell."""
    slot = array.primary_attributes["slot"]
    number = array.custom_attributes[f"w{slot // SLOTS}"]
    assert array.primary_attributes == key(slot)
    assert array.custom_attributes["note"] == f"n{number}"
    return int(number)


def look_at_shared(shared: Array) -> dict[int, dict[str, Any]]:
    """Return by worker what it has written into the array of all: its cells, and its attribute."""
    cells, found = shared[:].read(), {}
    attributes = shared.read_meta()["custom_attributes"]
    for number in range(WORKERS):
        own = cells[:, number::WORKERS]
        assert ((own == -1) | (own >> 24 == number)).all(), f"cells of others in the column of {number}: {own}"
        found[number] = {"cells": own.tolist(), "mark": attributes[f"w{number}"]}
    return found


# -- workers and readers -----------------------------------------------------------------------------------------------


class Worker:
    """One worker: what it has acknowledged is in its journal before the next deed."""

    def __init__(self, collection: Collection, journal: Journal, number: int) -> None:
        self.collection, self.journal, self.number = collection, journal, number
        self.random = random.Random(number * 10_000_019 + journal.counter)
        self.shared: Any = patiently(lambda: collection.get(slot=-1, station="all"))
        self.slots = range(number * SLOTS, (number + 1) * SLOTS)
        if journal.open:
            self.settle()

    @property
    def state(self) -> State:
        """What was acknowledged."""
        return self.journal.state

    def settle(self) -> None:
        """Find out what became of a deed that was cut short: all of it, or nothing."""
        assert self.journal.open is not None
        kind, states = self.journal.open
        found = {name: patiently(lambda name=name: self.look(name)) for name in states[0]}  # type: ignore[misc]
        before = {name: self.shared_state() if name == SHARED else self.state.get(name) for name in found}
        assert found in [before, *states], f"{kind} is neither done nor not begun: {found}, of {before}, {states}"
        self.journal.settle(found)

    def look(self, name: str) -> Any:
        """Return what there is under a name; None where nothing is."""
        if name == SHARED:
            return look_at_shared(self.shared)[self.number]
        array = self.collection.get(**key(int(name)))
        return None if array is None else look_at(array)

    def deed(self) -> None:
        """Do one thing; where the place fails find out whether it is done."""
        deeds: list[Callable[[], None]] = [
            *[self.create] * 3, *[self.write] * 5, *[self.change] * 2, *[self.delete] * 2, *[self.set_cell] * 4,
            self.create_many, self.erase, self.mark, self.query, self.expire,
        ]  # fmt: skip
        chosen = self.random.choice(deeds)
        try:
            chosen()
        except FAILURES:
            if self.journal.open is not None:
                self.settle()
            else:
                self.journal.count("failed")

    def do(self, kind: str, after: State, deed: Callable[[], object]) -> None:
        """Do what makes ``after`` of some names, and acknowledge it."""
        self.journal.begin(kind, after)
        deed()
        self.journal.acknowledge(kind, after)

    def some(self) -> int | None:
        """Return the slot of one of its arrays."""
        names = [int(name) for name in self.state if name != SHARED]
        return self.random.choice(names) if names else None

    def array(self, slot: int) -> Array:
        """Return one of its arrays, which is there."""
        found = self.collection.get(**key(slot))
        assert found is not None, f"{slot} is lost"
        return found

    def new(self, slots: list[int]) -> tuple[State, list[tuple[dict[str, Any], dict[str, Any]]]]:
        """Return what new arrays are, and their attributes."""
        number = self.journal.next_number()
        custom = {"note": f"n{number}", f"w{self.number}": number}
        state = {str(slot): {"rows": EMPTY, "note": number} for slot in slots}
        return state, [(key(slot), custom) for slot in slots]

    def expire(self) -> None:
        """Remove older versions whose time is over: none that anybody acknowledged as kept."""
        self.collection.expire()
        self.journal.count("expire")

    def create(self) -> None:
        free = [slot for slot in self.slots if str(slot) not in self.state]
        if free:
            state, [(primary, custom)] = self.new(free[:1])
            self.do("create", state, lambda: self.collection.create(primary, custom))

    def create_many(self) -> None:
        free = [slot for slot in self.slots if str(slot) not in self.state]
        if free:
            state, attributes = self.new(free)
            self.do("create_many", state, lambda: self.collection.create_many(attributes))

    def write(self) -> None:
        if (slot := self.some()) is not None:
            start, stop = sorted(self.random.sample(range(ROWS + 1), 2))
            token = make_token(slot, self.journal.next_number(), start, stop)
            old, array = self.state[str(slot)], self.array(slot)
            rows = [*old["rows"][:start], *[token] * (stop - start), *old["rows"][stop:]]
            cells = cells_of(rows[start:stop])
            self.do("write", {str(slot): {**old, "rows": rows}}, lambda: array[start:stop].update(cells))

    def erase(self) -> None:
        if (slot := self.some()) is not None:
            array = self.array(slot)
            self.do("erase", {str(slot): {**self.state[str(slot)], "rows": EMPTY}}, lambda: array[:].clear())

    def change(self) -> None:
        if (slot := self.some()) is not None:
            array, number = self.array(slot), self.journal.next_number()
            custom = {"note": f"n{number}", f"w{self.number}": number}
            after = {str(slot): {**self.state[str(slot)], "note": number}}
            self.do("change", after, lambda: array.update_custom_attributes(custom))

    def delete(self) -> None:
        slot = self.some()
        if slot is not None and slot != self.slots[0]:
            array = self.array(slot)
            self.do("delete", {str(slot): None}, array.delete)

    def set_cell(self) -> None:
        row, column = self.random.randrange(ROWS), self.random.randrange(COLUMNS // WORKERS)
        value = self.number << 24 | self.journal.next_number()
        now = self.shared_state()
        cells = [list(each) for each in now["cells"]]
        cells[row][column] = value
        place = row, self.number + WORKERS * column
        self.do("set_cell", {SHARED: {**now, "cells": cells}}, lambda: self.shared[place].update(value))

    def mark(self) -> None:
        number = self.journal.next_number()
        after = {SHARED: {**self.shared_state(), "mark": number}}
        self.do("mark", after, lambda: self.shared.update_custom_attributes({f"w{self.number}": number}))

    def shared_state(self) -> dict[str, Any]:
        """Return what it has written into the array of all."""
        new = {"cells": [[-1] * (COLUMNS // WORKERS)] * ROWS, "mark": None}
        found: dict[str, Any] = self.state.get(SHARED, new)
        return found

    def query(self) -> None:
        """All of its arrays, as they are, by each way to find them."""
        own = {name: state for name, state in self.state.items() if name != SHARED}
        found = list(self.collection.query(slot=(self.slots[0], self.slots[-1]), order="-slot"))
        assert [str(array.primary_attributes["slot"]) for array in found] == sorted(own, key=int, reverse=True)
        assert {str(array.primary_attributes["slot"]): look_at(array) for array in found} == own
        for name, state in own.items():
            notes = self.collection.query(note=f"n{state['note']}", slot=int(name))
            assert [number_of(array) for array in notes] == [state["note"]]
        self.journal.count("query")


class Reader:
    """One reader: it knows nothing of the others but what cells may be."""

    def __init__(self, place: dict[str, Any]) -> None:
        self.place, self.random = place, random.Random()
        self.collection = opened_at(place, mode="r")
        self.stays: set[int] = set()

    def deed(self) -> int:
        """Read some arrays in one of several ways; how many were verified."""
        if self.random.random() < 0.1:
            self.collection = opened_at(self.place, mode="r")
        try:
            return self.random.choice([self.all, self.one, self.some, self.common])()
        except FAILURES:
            return 0

    def verify(self, arrays: Any) -> int:
        """Verify arrays that may be deleted meanwhile; those that are never deleted are there once they were seen."""
        count = 0
        for array in arrays:
            slot = array.primary_attributes["slot"]
            if slot < 0:
                continue
            try:
                look_at(array)
                count += 1
            except NodeNotFound:
                assert slot % SLOTS, f"{slot} is lost"
            if not slot % SLOTS:
                self.stays.add(slot)
        return count

    def all(self) -> int:
        before = set(self.stays)
        arrays = list(self.collection)
        slots = [array.primary_attributes["slot"] for array in arrays]
        assert len(slots) == len(set(slots)), f"two arrays of one key: {sorted(slots)}"
        assert before <= set(slots), f"lost: {before - set(slots)}"
        return self.verify(self.random.sample(arrays, min(4, len(arrays))))

    def one(self) -> int:
        slot = self.random.randrange(WORKERS * SLOTS)
        array = self.collection.get(**key(slot))
        assert array is not None or slot not in self.stays, f"{slot} is lost"
        return 0 if array is None else self.verify([array])

    def some(self) -> int:
        slot = self.random.randrange(WORKERS * SLOTS)
        found = list(self.collection.query(slot=(slot, slot + 3)))
        assert all(slot <= array.primary_attributes["slot"] <= slot + 3 for array in found)
        return self.verify(found)

    def common(self) -> int:
        shared = self.collection.get(slot=-1, station="all")
        assert shared is not None
        look_at_shared(shared)
        return 1


def storage_of(place: dict[str, Any]) -> dict[str, Any] | None:
    """Return the storage options; of a bucket those of one whose faults pass soon."""
    if place["storage"] is None:
        return None
    backoff = {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=100), "base": 2}
    return {**place["storage"], "retry_config": {"max_retries": 10, "backoff": backoff}}


def opened_at(place: dict[str, Any], **options: Any) -> Collection:
    """Return the collection by a client of its own."""
    return opened(place["url"], storage_options=storage_of(place), **options)


def patiently(look: Callable[[], Any]) -> Any:
    """Look; again where the place fails."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return look()
        except FAILURES:
            if time.monotonic() > until:
                raise


def main(role: str, number: int, folder: Path, place: dict[str, Any]) -> None:
    """Take part until the campaign is over."""
    leases.LEASE, leases.BEAT = place["lease"], place["lease"] / 4
    journal = Journal(folder / f"{role}-{number}")
    if role == "worker":
        work(folder, patiently(lambda: Worker(opened_at(place), journal, number)).deed)
    else:
        read(folder, journal, patiently(lambda: Reader(place)).deed)


# -- what must be there in the end -------------------------------------------------------------------------------------


def check_end(place: dict[str, Any], journals: list[Journal]) -> None:
    """All that was acknowledged is there and nothing else, by each way to find it."""
    collection = opened_at(place, mode="r")
    wanted = {int(name): state for journal in journals for name, state in journal.state.items() if name != SHARED}
    arrays = list(collection)
    shared = [array for array in arrays if array.primary_attributes["slot"] == -1]
    slots = [array.primary_attributes["slot"] for array in arrays if array.primary_attributes["slot"] >= 0]
    assert (sorted(slots), len(shared)) == (sorted(wanted), 1)
    assert len(collection) == len(wanted) + 1
    assert {array.primary_attributes["slot"]: look_at(array) for array in arrays if array not in shared} == wanted
    for slot in range(WORKERS * SLOTS):
        array = collection.get(**key(slot))
        assert (array is not None) == (slot in wanted)
    for slot, state in wanted.items():
        notes = collection.query(note=f"n{state['note']}", slot=slot)
        assert [array.primary_attributes["slot"] for array in notes] == [slot]
    found = look_at_shared(shared[0])
    for number, journal in enumerate(journals):
        assert journal.open is None
        if SHARED in journal.state:
            assert found[number] == journal.state[SHARED]


def check_past(place: dict[str, Any], campaign: Campaign) -> None:
    """As of any moment there is what was acknowledged then, but for what was under way."""
    moments = [moment for journal in campaign.journals() for moment in journal.moments]
    for moment in random.Random(len(moments)).sample(sorted(moments), 5):
        journals, at = campaign.journals(moment), datetime.fromtimestamp(moment, UTC)
        under_way = {name for journal in journals if journal.open for state in journal.open[1] for name in state}
        wanted = {name: state for journal in journals for name, state in journal.state.items() if name != SHARED}
        past = client(place["url"], mode="r").get_collection(NAME, at=at)
        assert past is not None
        found = {str(array.primary_attributes["slot"]): array for array in past.query(slot=(0, None))}
        assert found.keys() - under_way == wanted.keys() - under_way, f"as of {at}"
        for name in wanted.keys() - under_way:
            assert look_at(found[name]) == wanted[name], f"{name} as of {at}"


def rows_of(place: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return all arrays with their attributes, as queries find them."""
    found = opened_at(place, mode="r").query(slot=(-1, None))
    return [(each.id, each.primary_attributes, each.custom_attributes) for each in found]


def kinds_of_damage(place: dict[str, Any]) -> set[str]:
    """Return the kinds of problems that there are."""
    checking = client(place["url"], storage_options=storage_of(place), mode="r")
    return {problem.kind for problem in checking.check_integrity(4, stop_on_error=False)}


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
    except HyperslabError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
