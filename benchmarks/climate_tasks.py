"""``python -m benchmarks.climate_tasks [TASK ...] [--folder FOLDER] [--times N]``: tasks of a climate scientist, by
commands alone: hyperslab beside NCO and CDO, in seconds of the processor, seconds, and memory.

A task is a row of ``TASKS``; another module adds its own by ``TASKS.append``. Each command runs once unmeasured, which
warms the page cache, and then in turns with the others; the row has the medians. Peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

import hyperslab as hs

_OURS = (sys.executable, "-m", "hyperslab", "--quiet")
# Of cells of float32: 1.08 GB.
_SHAPE = (1460, 361, 512)
_CHUNKS = (20, 181, 256)


@dataclass(frozen=True)
class Task:
    """What is done, by whose command. ``{nc}`` and ``{zarr}`` stand for the sources, ``{out}`` for a new name; a
    program that cannot do it has no command."""

    name: str
    ours: Sequence[str]
    nco: Sequence[str] = ()
    cdo: Sequence[str] = ()


TASKS = [
    Task("stats, netCDF-4", ("stats", "{nc}", "t"), cdo=("infon", "{nc}")),
    Task("stats, Zarr", ("stats", "{zarr}", "t")),
    Task(
        "mean of each field",
        ("aggregate", "{nc}", "{out}.nc", "--how", "mean", "--over", "lat,lon", "--weighted"),
        nco=("ncwa", "-O", "-y", "avg", "-w", "weight", "-a", "lat,lon", "{nc}", "{out}.nc"),
        cdo=("fldmean", "{nc}", "{out}.nc"),
    ),
    Task(
        "mean of each field, Zarr",
        ("aggregate", "{zarr}", "{out}.zarr", "--how", "mean", "--over", "lat,lon", "--weighted"),
    ),
    Task(
        "mean over time",
        ("aggregate", "{nc}", "{out}.nc", "--how", "mean", "--over", "time"),
        nco=("ncra", "-O", "-y", "avg", "{nc}", "{out}.nc"),
        cdo=("timmean", "{nc}", "{out}.nc"),
    ),
    Task(
        "mean of each month",
        ("aggregate", "{nc}", "{out}.nc", "--how", "mean", "--every", "month"),
        cdo=("monmean", "{nc}", "{out}.nc"),
    ),
    Task("mean of each month, Zarr", ("aggregate", "{zarr}", "{out}.zarr", "--how", "mean", "--every", "month")),
]
_BOX = ("-s", "time=2001-03..2001-05", "-s", "lat=60.0..30.0")
TASKS += [
    Task(
        "three months of a zone",
        ("convert", "{nc}", "{out}.nc", *_BOX),
        nco=("ncks", "-O", "-d", "time,2001-03-01,2001-05-31T18", "-d", "lat,30.,60.", "{nc}", "{out}.nc"),
        cdo=("-sellonlatbox,0,360,30,60", "-seldate,2001-03-01,2001-05-31", "{nc}", "{out}.nc"),
    ),
    Task("three months of a zone, Zarr", ("convert", "{zarr}", "{out}.zarr", *_BOX)),
    Task(
        "one place over time",
        ("convert", "{nc}", "{out}.nc", "-s", "lat=45.0", "-s", "lon=90.0"),
        nco=("ncks", "-O", "-d", "lat,45.", "-d", "lon,90.", "{nc}", "{out}.nc"),
        cdo=("remapnn,lon=90_lat=45", "-selname,t", "{nc}", "{out}.nc"),
    ),
    Task(
        "every tenth time",
        ("convert", "{nc}", "{out}.nc", "-s", "time=0..1460..10"),
        nco=("ncks", "-O", "-d", "time,0,,10", "{nc}", "{out}.nc"),
        cdo=("seltimestep,1/1460/10", "{nc}", "{out}.nc"),
    ),
    Task(
        "a copy",
        ("convert", "{nc}", "{out}.nc"),
        nco=("ncks", "-O", "{nc}", "{out}.nc"),
        cdo=("-z", "zip_1", "copy", "{nc}", "{out}.nc"),
    ),
    Task(
        "a copy in other chunks",
        ("convert", "{nc}", "{out}.nc", "--chunks", "time=100,lat=100,lon=100"),
        nco=(
            "ncks",
            "-O",
            *(word for dim in ("time", "lat", "lon") for word in ("--cnk_dmn", f"{dim},100")),
            "{nc}",
            "{out}.nc",
        ),
    ),
    Task(
        "an attribute",
        ("edit", "{nc}", "--set", "t:note=seen"),
        nco=("ncatted", "-O", "-h", "-a", "note,t,o,c,seen", "{nc}", "{out}.nc"),
        cdo=("-z", "zip_1", "setattribute,t@note=seen", "{nc}", "{out}.nc"),
    ),
    Task(
        "packed into 16 bits",
        ("repack", "{nc}", "{out}.nc"),
        nco=("ncpdq", "-O", "-P", "all_new", "{nc}", "{out}.nc"),
        cdo=("-z", "zip_1", "pack", "{nc}", "{out}.nc"),
    ),
    Task("packed into 16 bits, Zarr", ("repack", "{zarr}", "{out}.zarr")),
]
_PROGRAMS = {"cdo": ("cdo", "-s", "-O")}


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor (user and system), seconds, and MB at the peak of one run."""

    processor: float
    seconds: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.processor:6.2f} {self.seconds:6.2f} {self.megabytes:6.0f}"


def make_sources(folder: Path) -> dict[str, str]:
    """Write the sources that are not there yet: a smooth field with noise, as netCDF-4 (deflate, shuffle) and as Zarr
    (zstd), with weights by latitude for NCO."""
    nc, zarr = folder / "field.nc", folder / "field.zarr"
    if not nc.exists():
        random = np.random.default_rng(7)
        lat, lon = np.linspace(90, -90, _SHAPE[1]), np.arange(_SHAPE[2]) * 360 / _SHAPE[2]
        with hs.create(nc) as root:
            attrs = {"units": "hours since 2001-01-01", "calendar": "standard", "standard_name": "time"}
            root.create_dimension("time")
            root.create_array("time", data=np.arange(_SHAPE[0]) * 6.0, dims=("time",), attrs=attrs)
            root.create_array("lat", data=lat, dims=("lat",), attrs={"units": "degrees_north"})
            root.create_array("lon", data=lon, dims=("lon",), attrs={"units": "degrees_east"})
            root.create_array("weight", data=np.cos(np.radians(lat)), dims=("lat",))
            options = {"dims": ("time", "lat", "lon"), "chunks": _CHUNKS, "codec": "gzip:1"}
            field = root.create_array("t", shape=_SHAPE, dtype="f4", attrs={"units": "K"}, **options)
            smooth = 288 - 40 * np.sin(np.radians(lat))[:, None] ** 2 + 3 * np.cos(np.radians(lon))
            for start in range(0, _SHAPE[0], _CHUNKS[0]):
                noise = random.standard_normal((_CHUNKS[0], *_SHAPE[1:]), "f4")
                field[start : start + _CHUNKS[0]] = np.round(smooth + noise, 2)
    if not zarr.exists():
        hs.convert(nc, zarr, codec="zstd:3")
    return {"nc": str(nc), "zarr": str(zarr)}


def run(command: Sequence[str]) -> Cost:
    """Run a command; RuntimeError with what it said where it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        # modules are compiled once, as they are for a user: compiling them anew takes 0.24 s
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {said.read().decode(errors='replace').strip()}")
    return Cost(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1000)


def commands(task: Task, sources: dict[str, str], folder: Path) -> dict[str, list[str]]:
    """Return the command of each program that can do the task and is there."""
    found = {}
    for name, words in (("ours", task.ours), ("nco", task.nco), ("cdo", task.cdo)):
        head = _OURS if name == "ours" else _PROGRAMS.get(name, ())
        line = [*head, *(word.format(out=folder / f"out-{name}", **sources) for word in words)]
        if words and shutil.which(line[0]):
            found[name] = line
    return found


def measure(task: Task, sources: dict[str, str], times: int) -> dict[str, Cost]:
    """Return the median cost of each program."""
    costs: dict[str, list[Cost]] = {}
    for turn in range(times + 1):
        with tempfile.TemporaryDirectory(dir=Path(sources["nc"]).parent) as folder:
            for name, line in commands(task, sources, Path(folder)).items():
                cost = run(line)
                if turn:
                    costs.setdefault(name, []).append(cost)
    return {
        name: Cost(*(median(getattr(each, word) for each in some) for word in ("processor", "seconds", "megabytes")))
        for name, some in costs.items()
    }


def main() -> None:
    """Measure the tasks whose names hold one of the words that are given; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "climate_tasks")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    sources = make_sources(given.folder)
    print(f"{'seconds of processor, seconds, MB':34}{'ours':>22}{'nco':>22}{'cdo':>22}  ours / faster")
    for task in TASKS:
        if given.words and not any(word in task.name for word in given.words):
            continue
        costs = measure(task, sources, given.times)
        peers = [cost.processor for name, cost in costs.items() if name != "ours"]
        ratio = f"{costs['ours'].processor / min(peers):.2f}" if peers else "-"
        columns = "".join(f"{costs.get(name, '-')!s:>22}" for name in ("ours", "nco", "cdo"))
        print(f"{task.name:34}{columns}  {ratio}", flush=True)


if __name__ == "__main__":
    main()
