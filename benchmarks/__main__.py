"""``python -m benchmarks [family ...] [--side CELLS] [--out PAGE]``: measure, print each row, write the page."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from statistics import mean

from benchmarks import (
    buckets,
    collections,
    ecosystem,
    hdmf,
    mongo,
    nczarr,
    packed,
    reading,
    sharded,
    small,
    trees,
    writing,
)
from benchmarks.harness import OURS, Outcome, measure
from benchmarks.report import amount, page

FAMILIES = {
    "reading": reading,
    "writing": writing,
    "small": small,
    "trees": trees,
    "sharded": sharded,
    "ecosystem": ecosystem,
    "buckets": buckets,
    "packed": packed,
    "mongo": mongo,
    "nczarr": nczarr,
    "hdmf": hdmf,
    "collections": collections,
}
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def _family(name: str, side: int, loads: list[float]) -> list[Outcome]:
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    outcomes = []
    try:
        for row in FAMILIES[name].rows(folder, side):
            outcomes.append(measure(row))
            _show(outcomes[-1])
            loads.append(os.getloadavg()[0])
    finally:
        shutil.rmtree(folder)
    return outcomes


def _show(outcome: Outcome) -> None:
    print(f"\n{outcome.title}")
    for name, seconds in sorted(outcome.seconds.items(), key=lambda item: item[1]):
        print(f"  {name:14} {amount(seconds):>10}  x{seconds / outcome.seconds[OURS]:.2f}")
    for name, reason in outcome.missing.items():
        print(f"  {name:14} cannot: {reason}")
    for target, peer, ratio in outcome.verdicts:
        print(
            f"  {ratio:.2f} times {peer} (target {target.factor:.2f}): {'met' if ratio >= target.factor else 'MISSED'}"
        )


def main() -> None:
    """Measure the named families (all without names); the page is written when all were measured, or with ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="which rows; all when none is named")
    parser.add_argument("--side", type=int, default=8192, help="cells along each side of the array (8192: 256 MiB)")
    parser.add_argument("--out", type=Path, default=None, help="where to write the page")
    chosen = parser.parse_args()
    names = chosen.families or list(FAMILIES)
    with tempfile.TemporaryDirectory() as folder:
        ratio = reading.ratio(Path(folder), 2048)
    print(f"the data's ratio under blosc-lz4: {ratio:.2f}")
    loads: list[float] = []
    families = {FAMILIES[name].TITLE: _family(name, chosen.side, loads) for name in names}
    out = chosen.out or (PAGE if not chosen.families else None)
    if out:
        out.write_text(page(families, ratio, mean(loads)), encoding="utf-8")


if __name__ == "__main__":
    main()
