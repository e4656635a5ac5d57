"""``python -m benchmarks.old_tools [WORD ...] [--folder FOLDER] [--finer 12]``: every task of the page "Coming from nco
and cdo" on large files, by nco, cdo and hyperslab, in seconds of the processor and memory; called by hand.

The commands are those of the page, on files of the same contents with cells ``1 / finer`` as wide: with 12, air.nc has
1.1 GB. Each command runs once unmeasured, which brings the files into memory, then ``--times``; the medians are
printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.climate_tasks import Cost, run

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs" / "making"), str(ROOT / "tests" / "interop")]


def measure(command: str, start: str, files: Path, times: int) -> Cost:
    """Return the median cost of a command of the page, in a new folder with links to the files."""
    ours = re.sub("^hyperslab ", f"{sys.executable} -m hyperslab ", command)
    line = re.sub("^cdo ", "cdo -L ", ours)  # as the tests have it: HDF5 of Debian is read by one thread
    costs = []
    for turn in range(times + 1):
        with tempfile.TemporaryDirectory(dir=files.parent) as name:
            for path in files.iterdir():
                (Path(name) / path.name).symlink_to(path)
            if start:
                shutil.copyfile(files / start, Path(name) / "out.nc")
            # an end with 1 says that files differ
            cost = run(["bash", "-c", f"cd {name} && {{ {line}; }} || [ $? = 1 ]"])
            if turn:
                costs.append(cost)
    return Cost(*(median(getattr(each, word) for each in costs) for word in ("processor", "seconds", "megabytes")))


def main() -> None:
    """Measure the tasks whose titles hold one of the words that are given; print the table in Markdown."""
    from old_tool_files import make_files
    from old_tool_tasks import TASKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "old_tools")
    parser.add_argument("--finer", type=int, default=12)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    files = options.folder / str(options.finer)
    if not files.exists():
        unfinished = files.with_suffix(".new")
        unfinished.mkdir(parents=True)
        make_files(unfinished, options.finer)
        unfinished.rename(files)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    print("| task | hyperslab | nco | cdo | ours / faster |\n|---|---|---|---|---|")
    ratios = []
    for task in TASKS:
        if options.words and not any(word in task.title for word in options.words):
            continue
        commands = {"ours": task.ours, "nco": task.nco, "cdo": task.cdo}
        costs = {name: measure(text, task.start, files, options.times) for name, text in commands.items() if text}
        ratios.append(costs["ours"].processor / min(cost.processor for name, cost in costs.items() if name != "ours"))
        cells = [
            f"{costs[name].processor:.2f} s, {costs[name].megabytes:.0f} MB" if name in costs else ""
            for name in commands
        ]
        print(f"| {task.title} | {' | '.join(cells)} | {ratios[-1]:.2f} |", flush=True)
    print(f"{sum(ratio <= 1.5 for ratio in ratios)} of {len(ratios)} within 1.5")


if __name__ == "__main__":
    main()
