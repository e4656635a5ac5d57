"""What docs/benchmarks.md comes to, peer by peer, for the page "Why hyperslab"; read from that page, and held to it.

Imports no peer: a test does it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

OURS = "hyperslab"
LOSING = "Cells that several processes lose"
_DOCS = Path(__file__).parents[1] / "docs"
PAGE, WHY = _DOCS / "benchmarks.md", _DOCS / "explanation" / "why.md"
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.M)
_YARDSTICKS = re.compile(r"json\.loads|among .*|without engine|bare files|bare decoder")
"""Columns that are no library that does our work."""


@dataclass(frozen=True)
class Figure:
    """One piece of work done by one peer, and how many times as long as ours that took."""

    family: str
    work: str
    peer: str
    ratio: float


def figures(page: str) -> Iterator[Figure]:
    """Every figure of a peer in the tables of the page."""
    for family, text in _SECTION.findall(page):
        lines = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"
        ]
        if not lines or lines[0][0] != "work":
            continue
        head, _, *rows = lines
        for row in rows:
            taken = {name: _seconds(cell) for name, cell in zip(head[1:-1], row[1:-1], strict=True) if cell != "-"}
            for peer, seconds in taken.items():
                if peer != OURS and not _YARDSTICKS.fullmatch(peer):
                    yield Figure(family, row[0], peer, seconds / taken[OURS])


def _seconds(cell: str) -> float:
    number, unit = cell.split()
    return float(number) * _UNITS[unit]


def summary(page: str) -> str:
    """A table of the ratios by work and peer, and every row in which a peer was faster."""
    made = re.search(r"Made by `make bench` on (.+?\d)\.\s", page)
    groups: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures(page):
        groups.setdefault((figure.family, figure.peer), []).append(figure)
    lines = [f"Measured on {made[1]}.\n" if made else ""]
    lines += ["| work | peer | rows | hyperslab is faster in | median | from | to |", "|---|---|---|---|---|---|---|"]
    lines += [_line(family, peer, found) for (family, peer), found in groups.items()]
    slower = [_slower(family, peer, found) for (family, peer), found in groups.items()]
    return "\n".join([*lines, "\nWhere a peer was faster:\n", *filter(None, slower)]) + "\n"


def _line(family: str, peer: str, found: list[Figure]) -> str:
    ratios = [figure.ratio for figure in found]
    faster = sum(ratio >= 1 for ratio in ratios)
    spread = " | ".join(_shown(ratio) for ratio in (median(ratios), min(ratios), max(ratios)))
    return f"| {family} | {peer} | {len(ratios)} | {faster} | {spread} |"


def _shown(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def _slower(family: str, peer: str, found: list[Figure]) -> str:
    rows = [f"{figure.work} ({figure.ratio:.2f})" for figure in found if figure.ratio < 1]
    return f"- {family}, {peer}: {'; '.join(rows)}" if rows else ""


def brought_up_to_date(why: str, page: str) -> str:
    """The page "Why hyperslab" with the figures and counts of the other one."""
    counts = dict(_SECTION.findall(page)).get(LOSING, "").strip()
    return _between(_between(why, "figures", summary(page)), "losses", f"{counts}\n")


def _between(text: str, name: str, new: str) -> str:
    begin, end = f"<!-- {name}: made by make bench -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{new}\n{end}{after}"
