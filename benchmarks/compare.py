"""``python -m benchmarks.compare FOLDER [--bound 1.10] [family ...]``: compare this tree with the one in FOLDER.

Each tree has a process of its own that makes the rows of a family and times hyperslab alone in them. The two take
turns, round by round, so that whatever else the machine does meets both. A row is slower when its median is above
that of the other tree by more than the bound, and by more than the other tree's own scatter. Exits with 1 when one is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TextIO

HERE = Path(__file__).parents[1]
_ROUNDS = 9
_BOUND = 1.10
"""What counts as slower: the bound that a change of the code must keep, whatever it is for."""


def time_rows(family: str, side: int, turns: TextIO, answers: TextIO) -> None:
    """Make the rows of a family with the modules of the tree that this process runs in; time one round per line read.

    Answers in JSON: the row's title once it is made and was run once, then the seconds of each round.
    """
    from importlib import import_module

    from benchmarks.harness import OURS, _time

    def answer(document: object) -> None:
        print(json.dumps(document), file=answers, flush=True)

    with tempfile.TemporaryDirectory(prefix="hyperslab-bench-") as folder:
        for row in import_module(f"benchmarks.{family}").rows(Path(folder), side):
            ours = next((each for each in row.contenders if each.name == OURS), None)
            if ours is None:
                continue
            ours.before()
            if not row.check(OURS, ours.run()):
                raise AssertionError(f"{row.title}: a wrong result")
            answer(row.title)
            while turns.readline().strip() == "round":
                answer(_time(ours))
    answer(None)


class Timer:
    """The process of one tree, at work on one family."""

    def __init__(self, tree: Path, family: str, side: int) -> None:
        environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
        environment.pop("HDF5_PLUGIN_PATH", None)  # netCDF4 sets it as it is imported, to filters of another library
        command = [sys.executable, "-P", str(Path(__file__)), "--rows", family, "--side", str(side)]
        self._process = subprocess.Popen(
            command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> Any:
        """Return the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of rows ended with {self._process.wait()}")
        return json.loads(line)

    def say(self, word: str) -> None:
        """Ask for a round, or for the next row."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def compare(family: str, base: Path, side: int) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield each row's title, and the seconds of every round in both trees."""
    old, new = Timer(base, family, side), Timer(HERE, family, side)
    try:
        while (title := old.read()) == new.read() and title is not None:
            timings: tuple[list[float], list[float]] = ([], [])
            for turn in range(_ROUNDS):
                both = list(zip((old, new), timings, strict=True))
                for timer, seconds in both if turn % 2 else reversed(both):
                    timer.say("round")
                    seconds.append(timer.read())
            old.say("next")
            new.say("next")
            yield title, *timings
        if title is not None:
            raise SystemExit(f"the trees differ in their rows: {title}")
    finally:
        old.close()
        new.close()


def main() -> int:
    """Print each row's medians and their ratio; 1 when one is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", nargs="?", type=Path, help="a checkout of the tree to compare with")
    parser.add_argument("families", nargs="*", help="which rows; all when none is named")
    parser.add_argument("--side", type=int, default=8192, help="cells along each side of the array")
    parser.add_argument("--bound", type=float, default=_BOUND, help="how many times as long counts as slower")
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rows:
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a row prints is no answer
        time_rows(arguments.rows, arguments.side, sys.stdin, answers)
        return 0
    from benchmarks.__main__ import FAMILIES

    slower = 0
    for family in arguments.families or FAMILIES:
        for title, old, new in compare(family, arguments.base.resolve(), arguments.side):
            lower, _, upper = quantiles(old, n=4)
            ratio = median(new) / median(old)
            is_slower = ratio > arguments.bound and median(new) > upper + (upper - lower)
            slower += is_slower
            mark = "SLOWER" if is_slower else "      "
            times = f"{median(old):.4g} s, {median(new):.4g} s"
            print(f"{ratio:6.2f} {mark} {times}  {family}: {title}", flush=True)
    print(f"{slower} rows take more than {arguments.bound:g} times as long, beyond the scatter")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
