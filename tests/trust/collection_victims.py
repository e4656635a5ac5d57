"""``python collection_victims.py URL LAYOUT FLAVOUR KILLS SEED``: children at work in a collection are killed.

A child tells each deed before it begins and when it is done. After each kill whoever comes next finds all that was
done, the deed that was cut short as done or as not begun, nothing half-done, and is kept waiting by nobody. At times
what the dead left is looked for and mended. Prints how many deeds of each kind were cut short.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from collection_forks import fork
from collection_schemas import NAME, client, key, opened, pieces

import hyperslab as hs

SLOTS = 4
KINDS = ("create", "create_many", "write", "change", "erase", "delete", "read", "query", "clear", "other")
OFTEN = (4, 4, 8, 4, 2, 4, 1, 1, 2, 2)
WAIT = 5
"""Seconds that a writer waits for others at the most; the dead hold nothing, so that nobody ever does."""
MENDED_EVERY = 10
LEFT = {
    "orphan", "unsettled", "leftover", "dangling-key", "missing-generation", "unfinished-write", "unfinished-switch",
    "temporary", "dangling-link", "missing-link", "orphan-tile", "stray-lock", "missing-document", "foreign",
}  # fmt: skip
"""What a dead writer may leave."""
State = dict[int, Any]
"""Of each array the values of its parts and its note."""


class Victim:
    """A child: deeds one after the other, each told before and after."""

    def __init__(self, url: str, parts: int, pipe: int, seed: int, state: State) -> None:
        self.client = client(url, write_lock_timeout=WAIT)
        self.collection: Any = self.client.get_collection(NAME)
        self.parts, self.pipe, self.state = parts, pipe, state
        self.random = random.Random(seed)

    def run(self) -> None:
        os.write(self.pipe, b"\n")
        while True:
            (kind,) = self.random.choices(KINDS, OFTEN)
            free = [slot for slot in range(SLOTS) if slot not in self.state]
            wanted = free if kind.startswith("create") else list(self.state)
            if wanted:
                self.random.shuffle(wanted)
                many = kind in ("create_many", "clear")
                self.deed(kind, wanted if many else wanted[:1], self.random.randrange(1 << 40))

    def deed(self, kind: str, slots: list[int], value: int) -> None:
        after = {**self.state}
        for slot in slots:
            after[slot] = self.after(kind, after.get(slot), value)
        after = {slot: note for slot, note in after.items() if note}
        self.tell("begins", kind, after)
        getattr(self, kind)(slots, value)
        self.state = after
        self.tell("done", kind, after)

    def tell(self, *words: Any) -> None:
        os.write(self.pipe, json.dumps(words).encode() + b"\n")

    def after(self, kind: str, now: Any, value: int) -> Any:
        """What an array is after a deed; None when it is gone."""
        match kind:
            case "create" | "create_many":
                return [[-1] * self.parts, "new"]
            case "write" | "erase":
                return [[value if kind == "write" else -1] * self.parts, now[1]]
            case "change":
                return [now[0], str(value)]
            case "delete" | "clear":
                return None
            case _:
                return now

    def of(self, slots: list[int]) -> Any:
        return self.collection.get(**key(slots[0]))

    def create(self, slots: list[int], value: int) -> None:
        self.collection.create(key(slots[0]), {"note": "new"})

    def create_many(self, slots: list[int], value: int) -> None:
        self.collection.create_many([(key(slot), {"note": "new"}) for slot in slots])

    def write(self, slots: list[int], value: int) -> None:
        self.of(slots)[:].update(np.full((8, 16), value))

    def change(self, slots: list[int], value: int) -> None:
        self.of(slots).update_custom_attributes({"note": str(value)})

    def erase(self, slots: list[int], value: int) -> None:
        self.of(slots)[:].clear()

    def delete(self, slots: list[int], value: int) -> None:
        self.of(slots).delete()

    def read(self, slots: list[int], value: int) -> None:
        self.of(slots)[:].read()

    def query(self, slots: list[int], value: int) -> None:
        assert len(self.collection.query(slot=(0, None))) == len(self.state)

    def clear(self, slots: list[int], value: int) -> None:
        self.collection.clear()

    def other(self, slots: list[int], value: int) -> None:
        """A collection of its own, with an array, that comes and goes."""
        other = self.client.get_collection("other")
        if other is None:
            other = self.client.create_collection("other", self.collection.schema, layout=self.collection.layout)
            other.create(key(0))
        other.delete()


class Driver:
    """The parent: kills, looks, mends."""

    def __init__(self, url: str, layout: str, flavour: str, seed: int) -> None:
        self.url, self.layout, self.flavour = url, layout, flavour
        self.parts = len(pieces(np.zeros((8, 16)), layout, flavour))
        self.random = random.Random(seed)
        self.state: State = {}
        self.cut: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def run(self, kills: int) -> dict[str, Any]:
        """Kill so many children."""
        for number in range(1, kills + 1):
            done, last, kind = self.outcome(self.killed())
            self.state = self.settled(self.look(), done, last, kind)
            self.cut[kind or "between"] += 1
            self.next_one()
            if not number % MENDED_EVERY or number == kills:
                self.mend()
        return {"cut": self.cut, "left": self.left}

    def killed(self) -> list[Any]:
        """What a child told before it was killed."""
        reading, writing = os.pipe()
        seed = self.random.randrange(1 << 30)
        pid = fork(lambda: Victim(self.url, self.parts, writing, seed, self.state).run())
        os.close(writing)
        with os.fdopen(reading, "rb", 0) as pipe:
            assert pipe.read(1) == b"\n"
            time.sleep(self.random.uniform(0, 0.1))
            os.kill(pid, signal.SIGKILL)
            lines = pipe.readall().splitlines(keepends=True)
        if not os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            sys.exit("the child failed by itself")
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def outcome(self, told: list[Any]) -> tuple[State, State, str]:
        """What is there without the last deed, what is there if it was done, and its kind if it was not."""
        done, last, kind = self.state, self.state, ""
        for word, what, after in told:
            last, kind = {int(slot): note for slot, note in after.items()}, what
            if word == "done":
                done, kind = last, ""
        return done, last, kind

    def look(self) -> State:
        """All arrays, by each way to find them."""
        collection = opened(self.url, mode="r")
        found: State = {}
        for array in collection:
            slot = array.primary_attributes["slot"]
            assert slot not in found, f"two arrays of the key {slot}"
            by_key = collection.get(**key(slot))
            assert by_key is not None
            assert (by_key.id, array.id in collection) == (array.id, True)
            parts = pieces(array[:].read(), self.layout, self.flavour)
            assert all((part == part.flat[0]).all() for part in parts), f"torn: {parts}"
            found[slot] = [[int(part.flat[0]) for part in parts], array.custom_attributes["note"]]
        assert len(found) == len(collection)
        assert {array.primary_attributes["slot"] for array in collection.query(slot=(0, None))} == found.keys()
        for slot in set(range(SLOTS)) - found.keys():
            assert collection.get(**key(slot)) is None, f"{slot} is found by its key alone"
        return found

    def settled(self, now: State, done: State, last: State, kind: str) -> State:
        """Each array, and each part of it, is as before the deed or as after it."""
        for slot in now.keys() | done.keys() | last.keys():
            known = [state[slot] for state in (done, last) if slot in state]
            if slot not in now:
                assert len(known) < 2, f"{kind}: {slot} is lost"
                continue
            assert known, f"{kind}: {slot} is there again"
            assert now[slot][1] in [note for _, note in known], (kind, now[slot], known)
            for place, value in enumerate(now[slot][0]):
                assert value in [parts[place] for parts, _ in known], (kind, now[slot], known)
        return now

    def next_one(self) -> None:
        """Whoever comes next creates, changes, writes and removes, and is kept waiting by nobody."""
        collection = opened(self.url, write_lock_timeout=WAIT)
        for slot in range(SLOTS):
            array = collection.get(**key(slot))
            if array is None and self.random.random() < 0.5:
                collection.create(key(slot), {"note": "new"})
                self.state[slot] = [[-1] * self.parts, "new"]
            elif array is not None:
                value = self.random.randrange(1 << 40)
                array[:].update(np.full((8, 16), value))
                array.update_custom_attributes({"note": str(value)})
                self.state[slot] = [[value] * self.parts, str(value)]
        assert self.look() == self.state

    def mend(self) -> None:
        """All that is found is what a dead writer may leave; it is mended, and nothing else is touched."""
        age(self.url)
        found = client(self.url, mode="r").check_integrity(4, stop_on_error=False)
        self.left.update(problem.kind for problem in found)
        assert {problem.kind for problem in found} <= LEFT, list(found)
        hs.repair(self.url)
        assert self.look() == self.state
        age(self.url)
        for _ in range(2):
            hs.repair(self.url, dry_run=False)
        assert client(self.url, mode="r").check_integrity(4, stop_on_error=False) == []
        assert self.look() == self.state


def age(folder: str) -> None:
    """Make what has a temporary name as old as what a dead writer has left."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if name.endswith(".tmp"):
                os.utime(os.path.join(place, name), (0, 0), follow_symlinks=False)


if __name__ == "__main__":
    place, layout, flavour, kills, seed = sys.argv[1:]
    print(json.dumps(Driver(place, layout, flavour, int(seed)).run(int(kills))))
