"""The outcomes as docs/benchmarks.md: the machine, the peers with their settings, one table per family of rows."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from benchmarks import losing
from benchmarks.harness import OURS, Outcome
from benchmarks.settings import SETTINGS

_INTRO = """\
# Benchmarks

Made by `make bench` on {day}: {cores} cores ({machine}), Python {python}. One run of {minutes} minutes, in which the
libraries take turns; each figure is a median of at least five timings, each of which opens the dataset anew; results
are compared outside the clock. The page cache is warm, hyperslab's cache of decoded chunks is off except where a row
says "cached". Data: a smooth field plus noise, which Blosc-lz4 compresses {ratio:.2f} times. Only ratios carry over to
other machines, and those of a busy machine scatter: the load average during this run was {load:.1f}, where the run
alone makes about 2.

The targets are what was aimed at, not what anybody has promised. Each row that missed one says what bounds it.

| library | version | setting |
|---|---|---|
"""
_ASKED = "A ratio says how many times faster hyperslab was; the target stands behind it."


@dataclass(frozen=True)
class Family:
    """The rows that were measured under one heading, and how long that took in all."""

    title: str
    outcomes: Sequence[Outcome]
    seconds: float


def page(families: Sequence[Family], lost: str, ratio: float, load: float) -> str:
    """The whole page; ``ratio`` of the data under Blosc-lz4, mean ``load`` of the machine during the run.

    ``lost``: what :func:`benchmarks.losing.table` has counted.
    """
    intro = _INTRO.format(
        day=date.today(),
        minutes=round(sum(family.seconds for family in families) / 60),
        cores=os.cpu_count(),
        machine=platform.machine(),
        python=platform.python_version(),
        ratio=ratio,
        load=load,
    )
    settings = "".join(f"| {name} | {_version(package)} | {text} |\n" for name, (package, text) in SETTINGS.items())
    verdicts = [verdict for family in families for outcome in family.outcomes for verdict in outcome.verdicts]
    met = sum(verdict.met for verdict in verdicts)
    told = f"**{met} of {len(verdicts)} targets met.** {_ASKED}\n"
    sections = "".join(map(section, families))
    return f"{intro}{settings}\n{told}{sections}\n## {losing.TITLE}\n\n{lost}"


def section(family: Family) -> str:
    """The heading of a family, its table, and what bounds the rows that missed a target."""
    return f"\n## {family.title}\n\n{_table(family.outcomes)}{_bounds(family.outcomes)}"


def _version(package: str) -> str:
    """That of a package of this environment, or the one that is asked for in another: ``name==version``."""
    name, _, fixed = package.partition("==")
    return fixed or version(name)


def _table(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(name for each in outcomes for name in (*each.seconds, *each.missing) if name != OURS))
    head = ["work", OURS, *names, "ratio to peer (target): met or missed"]
    lines = [head, ["---"] * len(head)]
    lines += [[each.title, *(_cell(each, name) for name in [OURS, *names]), _verdicts(each)] for each in outcomes]
    notes = [f"- {each.title}, {name}: {why}" for each in outcomes for name, why in each.missing.items()]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + ("\nNot possible:\n\n" + "\n".join(dict.fromkeys(notes)) + "\n" if notes else "")


def _cell(outcome: Outcome, name: str) -> str:
    return amount(outcome.seconds[name]) if name in outcome.seconds else "-"


def amount(seconds: float) -> str:
    """Seconds with three digits and a unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _verdicts(outcome: Outcome) -> str:
    return "; ".join(
        f"{each.peer} {each.ratio:.2f} ({each.target.factor:.2f}): {'met' if each.met else '**missed**'}"
        for each in outcome.verdicts
    )


def _bounds(outcomes: Sequence[Outcome]) -> str:
    """What our time goes into in the rows that missed a target; what holds of several is said once."""
    told: dict[str, list[str]] = {}
    for outcome in outcomes:
        for bound in dict.fromkeys(verdict.target.bound for verdict in outcome.verdicts if not verdict.met):
            told.setdefault(bound, []).append(f"*{outcome.title}*")
    lines = "".join(f"- {', '.join(titles)}: {bound}\n" for bound, titles in told.items())
    return f"\nWhat bounds the rows that missed a target:\n\n{lines}" if told else ""
