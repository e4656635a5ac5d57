"""What several processes lose that write single cells of chunks that they share: counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.summary import LOSING

_ROOT = Path(__file__).parents[1]
_DEKER = _ROOT / ".venvs" / "deker" / "bin" / "python"
TITLE = LOSING
_TOLD = """\
{workers} processes each write every {workers}th cell of an array of {cells}, one call for each cell, four chunks in
all; without fsync, but for tensorstore, which makes it by default. Counts differ from run to run.

"""
PYTHONS = {name: Path(sys.executable) for name in ("hyperslab", "tensorstore", "zarr-python")} | {"DEKER": _DEKER}
WORKERS, CELLS = 4, 400


@dataclass(frozen=True)
class Count:
    """How many writes raised, and of the others how many cells do not hold what was written."""

    refused: int
    lost: int


def counted(library: str) -> Count:
    """Let the processes write, then read the array by one that is opened anew."""
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/a"
        _child(library, place, "make").communicate()
        writers = [_child(library, place, str(worker)) for worker in range(WORKERS)]
        _wait(place, writers)
        Path(f"{place}.go").touch()
        refused = {cell for writer in writers for cell in json.loads(writer.communicate()[0])}
        found = json.loads(_child(library, place, "read").communicate()[0])
    lost = [cell for cell in range(CELLS) if cell not in refused and found[cell] != cell + 1]
    return Count(len(refused), len(lost))


def _wait(place: str, writers: list[subprocess.Popen[str]]) -> None:
    """Until all stand ready, or one has ended before."""
    ready = [Path(f"{place}.{worker}") for worker in range(WORKERS)]
    while not all(path.exists() for path in ready) and all(writer.poll() is None for writer in writers):
        time.sleep(0.01)


def _child(library: str, place: str, what: str) -> subprocess.Popen[str]:
    command = [str(PYTHONS[library]), "-W", "ignore", "-m", "benchmarks.losing_child", library, place, what]
    return subprocess.Popen(
        [*command, str(WORKERS), str(CELLS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=_ROOT
    )


def table() -> str:
    """The counts of every library whose Python is there, as they stand on the page."""
    lines = ["| library | refused with an error | acknowledged, and lost |", "|---|---|---|"]
    for library, python in PYTHONS.items():
        if python.exists():
            count = counted(library)
            lines.append(f"| {library} | {count.refused} | {count.lost} |")
    return _TOLD.format(workers=WORKERS, cells=CELLS) + "\n".join(lines) + "\n"
