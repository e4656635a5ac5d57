"""``python -m benchmarks [family ...] [--side CELLS] [--out PAGE]``: measure, print each row, write the page.

A run of all families also brings the figures of the page "Why hyperslab" up to date.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import mean

from benchmarks import (
    buckets,
    collections,
    ecosystem,
    hdmf,
    losing,
    mongo,
    nczarr,
    packed,
    reading,
    serving,
    sharded,
    small,
    trees,
    writing,
)
from benchmarks.harness import OURS, Outcome, measure
from benchmarks.report import Family, amount, page
from benchmarks.summary import PAGE, WHY, brought_up_to_date

FAMILIES = {
    "reading": reading,
    "writing": writing,
    "small": small,
    "trees": trees,
    "sharded": sharded,
    "ecosystem": ecosystem,
    "buckets": buckets,
    "serving": serving,
    "packed": packed,
    "mongo": mongo,
    "nczarr": nczarr,
    "hdmf": hdmf,
    "collections": collections,
}


def _family(name: str, side: int, loads: list[float]) -> Family:
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    outcomes = []
    start = time.perf_counter()
    try:
        for row in FAMILIES[name].rows(folder, side):
            outcomes.append(measure(row))
            _show(outcomes[-1])
            loads.append(os.getloadavg()[0])
    finally:
        shutil.rmtree(folder)
    return Family(FAMILIES[name].TITLE, outcomes, time.perf_counter() - start)


def _show(outcome: Outcome) -> None:
    print(f"\n{outcome.title}")
    for name, seconds in sorted(outcome.seconds.items(), key=lambda item: item[1]):
        print(f"  {name:14} {amount(seconds):>10}  x{seconds / outcome.seconds[OURS]:.2f}")
    for name, reason in outcome.missing.items():
        print(f"  {name:14} cannot: {reason}")
    for each in outcome.verdicts:
        told = "met" if each.met else f"MISSED; {each.target.bound}"
        print(f"  {each.ratio:.2f} times {each.peer} (target {each.target.factor:.2f}): {told}", flush=True)


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
    families = []
    for number, name in enumerate(names, start=1):
        print(f"\n=== {number} of {len(names)}: {FAMILIES[name].TITLE}", flush=True)
        families.append(_family(name, chosen.side, loads))
        print(f"\n({len(families[-1].outcomes)} rows in {families[-1].seconds:.0f} s)", flush=True)
    out = chosen.out or (PAGE if not chosen.families else None)
    if out:
        out.write_text(page(families, losing.table(), ratio, mean(loads)), encoding="utf-8")
    if out == PAGE:
        why = brought_up_to_date(WHY.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8"))
        WHY.write_text(why, encoding="utf-8")


if __name__ == "__main__":
    main()
