"""``python -m benchmarks.old_tools [WORD ...] [--folder FOLDER] [--finer 12] [--python PYTHON]``: every task of
the page "Coming from nco and cdo" on large files, by nco, cdo and ours, in seconds of the processor and memory.

Called by hand. The commands are those of the page, on files of the same contents with cells ``1 / finer`` as wide: with
12, air.nc has 1.1 GB, not compressed. Each command runs once unmeasured, which brings the files into memory, then
``--times``; the medians are printed. The column "start" is ours on the small files of the tests, which is nearly all
import; the last column leaves it out. ``--python``: that of an environment with hyperslab and what the page says, and
no more; dask imports numba and pint where they are.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.climate_tasks import Cost, run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "making"))


def measure(command: str, start: str, files: Path, python: str, times: int) -> Cost:
    """Return the median cost of a command of the page, in a new folder with links to the files."""
    ours = re.sub("^hyperslab ", f"{python} -m hyperslab ", command)
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
    from old_tool_tasks import TASKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "old_tools")
    parser.add_argument("--finer", type=int, default=12)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    small, large = (make(options.folder, finer) for finer in (1, options.finer))
    print("| task | hyperslab | start | nco | cdo | ours / faster | without the start |\n|---|---|---|---|---|---|---|")
    ratios = []
    for task in TASKS:
        if options.words and not any(word in task.title for word in options.words):
            continue
        commands = {"ours": task.ours, "nco": task.nco, "cdo": task.cdo}
        costs = {
            name: measure(text, task.start, large, options.python, options.times)
            for name, text in commands.items()
            if text
        }
        start = measure(task.ours, task.start, small, options.python, options.times).processor
        fastest = min(cost.processor for name, cost in costs.items() if name != "ours")
        ours = costs["ours"].processor
        ratios.append((ours / fastest, max(ours - start, 0.0) / fastest))
        ran = [
            f"{costs[name].processor:.2f} s, {costs[name].megabytes:.0f} MB" if name in costs else ""
            for name in commands
        ]
        ran.insert(1, f"{start:.2f} s")
        print(f"| {task.title} | {' | '.join(ran)} | {ratios[-1][0]:.2f} | {ratios[-1][1]:.2f} |", flush=True)
    for title, within in zip(("within 1.5", "without the start"), zip(*ratios, strict=True), strict=True):
        print(f"{sum(ratio <= 1.5 for ratio in within)} of {len(within)} {title}")


def make(folder: Path, finer: int) -> Path:
    """Make the files in a process of its own, whose memory is not taken for that of a command; return their folder."""
    files = folder / str(finer)
    if not files.exists():
        unfinished = files.with_suffix(".new")
        unfinished.mkdir(parents=True)
        code = f"from old_tool_files import *; make_files(Path({str(unfinished)!r}), {finer})"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "tests" / "interop")
        unfinished.rename(files)
    return files


if __name__ == "__main__":
    main()
