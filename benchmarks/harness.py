"""A row of the table: contenders that do the same work, timed in turns, and the ratios that were aimed at.

Each timing opens anew. One unmeasured round comes first: it warms the page cache, and its results are compared outside
the clock. A contender that cannot do the work is left out with its reason. What bounds our time is declared beside each
target, and shown where that is missed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

OURS = "hyperslab"
# hyperslab too, without its engine in C
IN_PYTHON = "without engine"
# what bounds every library (benchmarks.bare): the same bytes by system calls alone, and by the codec alone
BARE = "bare files"
BARE_DECODER = "bare decoder"
NO_PEERS = frozenset({OURS, IN_PYTHON, BARE, BARE_DECODER})
_MOST, _LEAST = 7, 5
_LONG = 1.0
"""Seconds: a round that takes longer is repeated as seldom as a median allows."""


@dataclass(frozen=True)
class Contender:
    """One library doing the row's work: ``run`` is timed, ``times`` repetitions a timing; ``before`` is not timed."""

    name: str
    run: Callable[[], Any]
    before: Callable[[], None] = lambda: None
    times: int = 1


@dataclass(frozen=True)
class Target:
    """How many times faster than ``peer`` (``fastest``: the best of all peers) we aim to be; below 1 we may be slower.

    ``bound``: what our time goes into, told on the page where the target is missed.
    """

    peer: str
    factor: float
    bound: str


@dataclass(frozen=True)
class Verdict:
    """A target, the peer that it was held against, and how many times faster we were."""

    target: Target
    peer: str
    ratio: float

    @property
    def met(self) -> bool:
        """Whether we were as fast as we aimed to be."""
        return self.ratio >= self.target.factor


@dataclass(frozen=True)
class Row:
    """Work, who does it, whether a result is right, and what was aimed at."""

    title: str
    contenders: Sequence[Contender]
    check: Callable[[str, Any], bool]
    targets: Sequence[Target]


@dataclass
class Outcome:
    """Median seconds per contender, why others are missing, and each target with its ratio."""

    title: str
    seconds: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)


def measure(row: Row) -> Outcome:
    """Run the row: one round to warm and check, then rounds in turns."""
    outcome = Outcome(row.title)
    able = [contender for contender in row.contenders if _is_able(contender, row, outcome)]
    timings: dict[str, list[float]] = {contender.name: [] for contender in able}
    repeats = _LEAST if sum(outcome.seconds.values()) > _LONG else _MOST
    for turn in range(repeats):
        for contender in able[turn % len(able) :] + able[: turn % len(able)]:
            timings[contender.name].append(_time(contender))
    outcome.seconds = {name: median(values) for name, values in timings.items()}
    outcome.verdicts = [verdict for target in row.targets if (verdict := _judge(target, outcome.seconds))]
    return outcome


def _is_able(contender: Contender, row: Row, outcome: Outcome) -> bool:
    try:
        contender.before()
        start = time.perf_counter()
        result = contender.run()
        outcome.seconds[contender.name] = (time.perf_counter() - start) * contender.times
        right = row.check(contender.name, result)
    except Exception as error:
        if contender.name == OURS:
            raise
        outcome.seconds.pop(contender.name, None)
        outcome.missing[contender.name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        return False
    if not right:
        raise AssertionError(f"{row.title}: {contender.name} gave a wrong result")
    return True


def _time(contender: Contender) -> float:
    contender.before()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(contender.times):
            result = contender.run()
        elapsed = time.perf_counter() - start
    finally:
        gc.enable()
    del result
    return elapsed / contender.times


def _judge(target: Target, seconds: dict[str, float]) -> Verdict | None:
    peers = {name: value for name, value in seconds.items() if name not in NO_PEERS}
    peer = min(peers, key=lambda name: peers[name]) if target.peer == "fastest" and peers else target.peer
    return Verdict(target, peer, seconds[peer] / seconds[OURS]) if peer in seconds else None
