"""Campaigns: processes that work side by side until they are told to stop, killed at random (SIGKILL), started again.

A worker keeps a journal, a file that outlives it: before each deed what there may be afterwards, after each deed what
was acknowledged. Whoever takes its place reads the journal, and looks what became of the deed that was cut short.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from programs import Program

State = dict[str, Any]
"""What there is by name, as JSON values; what is not there has no name in it."""


class Journal:
    """The deeds of one worker: the ``state`` that was acknowledged, and ``open`` while a deed is: its kind, and the
    states of the names in question of which one is there afterwards, None for what is gone. ``until``: as it was at a
    moment. ``moments``: when each was written."""

    def __init__(self, path: Path, until: float = inf) -> None:
        self._path = path
        self.state: State = {}
        self.open: tuple[str, list[State]] | None = None
        self.counter = 0
        self.done: Counter[str] = Counter()
        self.moments: list[float] = []
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if line.endswith(b"\n"):
                moment, *told = json.loads(line)
                if moment > until:
                    break
                self.moments.append(moment)
                self._take(*told)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _take(self, word: str, kind: str, counter: int, states: list[State]) -> None:
        self.counter = counter
        if word == "begin":
            self.open = kind, states
            return
        self.done[kind] += word == "done"
        self.open = None
        for name, value in states[0].items():
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def _write(self, word: str, kind: str, states: list[State]) -> None:
        os.write(self._file, f"{json.dumps([time.time(), word, kind, self.counter, states])}\n".encode())
        self._take(word, kind, self.counter, states)

    def next_number(self) -> int:
        """Return a number that this worker has not had before, whoever it was."""
        self.counter += 1
        return self.counter

    def begin(self, kind: str, *states: State) -> None:
        """Write what one deed may make of some names."""
        self._write("begin", kind, list(states))

    def acknowledge(self, kind: str, state: State) -> None:
        """Write what it has made of them."""
        self._write("done", kind, [state])

    def settle(self, state: State) -> None:
        """Write what was found of a deed that was cut short."""
        assert self.open is not None
        self._write("settled", self.open[0], [state])

    def count(self, kind: str) -> None:
        """Write that something was done that changes nothing."""
        self._write("done", kind, [{}])


@dataclass
class Campaign:
    """``python PROGRAM ROLE NUMBER FOLDER PLACE``, so many times as a worker and so many times as a reader.

    ``folder`` holds journals, by role and number, and ``stop`` in the end. ``pause``: the seconds between two kills at
    most; ``rest``: those after which another process takes the place of a killed one, longer than requests that it has
    sent are under way.
    """

    program: Path
    folder: Path
    place: Any
    workers: int = 8
    readers: int = 2
    pause: float = 0.6
    rest: float = 0.0
    kills: int = 0
    _running: dict[tuple[str, int], Program] = field(default_factory=dict)

    def run(self, seconds: float, deeds: int) -> list[Journal]:
        """Let them work for so long, and until so many deeds were done and a tenth as many were killed. Return the
        journals of the workers; AssertionError with what one of them says who ended by itself."""
        self.folder.mkdir()
        chance, until, waiting = random.Random(seconds), time.monotonic() + seconds, list[tuple[float, Any]]()
        with self._all_ended():
            for who in self._everybody():
                self._start(who)
            while time.monotonic() < until or self.kills < deeds / 10 or self._done() < deeds:
                time.sleep(chance.uniform(0, self.pause))
                for moment, who in waiting[:]:
                    if moment < time.monotonic():
                        waiting.remove((moment, who))
                        self._start(who)
                if self._running:
                    who = chance.choice([*self._running])
                    self._kill(who)
                    waiting.append((time.monotonic() + self.rest, who))
            time.sleep(self.rest)
            for _, who in waiting:
                self._start(who)
            (self.folder / "stop").touch()
            for who in [*self._running]:
                self._end(who)
        return self.journals()

    def journals(self, until: float = inf) -> list[Journal]:
        """Return those of the workers, as they were at a moment."""
        return [Journal(self._journal(("worker", number)), until) for number in range(self.workers)]

    def reads(self) -> int:
        """Return how many arrays were read and found as they should be."""
        journals = (Journal(self._journal(("reader", number))) for number in range(self.readers))
        return sum(journal.done["read"] for journal in journals) * READS_NOTED

    def _done(self) -> int:
        """Return how many deeds were acknowledged."""
        journals = (self._journal(("worker", number)) for number in range(self.workers))
        return sum(path.read_bytes().count(b', "done", "') for path in journals if path.exists())

    def _everybody(self) -> Iterator[tuple[str, int]]:
        yield from (("worker", number) for number in range(self.workers))
        yield from (("reader", number) for number in range(self.readers))

    def _journal(self, who: tuple[str, int]) -> Path:
        return self.folder / "-".join(map(str, who))

    def _start(self, who: tuple[str, int]) -> None:
        self._running[who] = Program(self.program, *who, self.folder, json.dumps(self.place))

    def _kill(self, who: tuple[str, int]) -> None:
        program = self._running.pop(who)
        program.kill()
        errors = program.communicate()[1]
        assert program.wait() == -9, f"{who} ended by itself: {errors[-5000:]}"
        self.kills += 1

    def _end(self, who: tuple[str, int]) -> None:
        program = self._running.pop(who)
        errors = program.communicate()[1]
        assert program.wait() == 0, f"{who} failed: {errors[-5000:]}"

    @contextmanager
    def _all_ended(self) -> Iterator[None]:
        try:
            yield
        finally:
            for program in self._running.values():
                program.kill()
                program.communicate()


READS_NOTED = 5
"""A reader notes so many reads at a time."""


def work(folder: Path, deed: Callable[[], object]) -> None:
    """Do one deed after the other until the campaign is over."""
    while not (folder / "stop").exists():
        deed()


def read(folder: Path, journal: Journal, deed: Callable[[], int]) -> None:
    """Read until the campaign is over; ``deed`` returns how much it has verified."""
    left = 0
    while not (folder / "stop").exists():
        left += deed()
        while left >= READS_NOTED:
            journal.count("read")
            left -= READS_NOTED
