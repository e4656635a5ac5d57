"""Virtual datasets of many monthly files beside kerchunk, VirtualiZarr and fsspec; called by hand.

``python -m benchmarks.virtual FOLDER [COUNT]`` writes COUNT files of netCDF-4 (2,000), one a month, and a million
chunks of four cells, then has fresh processes make references to them, open them and read them, in turns, ``ROUNDS``
times each, and prints the median seconds and the most memory as a table of Markdown. Peers stand in
``.venvs/virtual`` (``python .ci/peers.py --make virtual``).
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

PEERS = Path(__file__).parents[1] / ".venvs" / "virtual" / "bin" / "python"
ROOT = Path(__file__).parents[1]
ROUNDS = 3
LAT, LON = 45, 90
MILLION = 10**6
STEPS = {
    "make: {count} files as JSON": ("make_json", "make_kerchunk", "make_virtualizarr"),
    "make: {count} files as Parquet": ("make_parquet", "make_kerchunk_parquet", "make_virtualizarr_parquet"),
    "make: {count} files in a repository of icechunk": ("make_icechunk", "make_virtualizarr_icechunk"),
    "open a million references in JSON, read a chunk": ("open_json", "open_fsspec_json"),
    "open a million references in Parquet, read a chunk": ("open_parquet", "open_fsspec_parquet"),
    "read {chunks} chunks, 16 KiB each, by JSON": ("read_json", "read_fsspec_json"),
    "read {chunks} chunks, 16 KiB each, by Parquet": ("read_parquet", "read_fsspec_parquet"),
}


def write_month(place: tuple[str, int]) -> None:
    """Write the file of a month, whose times are counted from its first day."""
    import netCDF4
    import numpy as np

    folder, number = place
    year, month = 1800 + number // 12, number % 12 + 1
    start, end = datetime.date(year, month, 1), datetime.date(year + month // 12, month % 12 + 1, 1)
    days, rng = (end - start).days, np.random.default_rng(number)
    with netCDF4.Dataset(f"{folder}/{year}-{month:02d}.nc", "w") as file:
        for name, size in (("time", None), ("lat", LAT), ("lon", LON)):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar, time[:] = f"days since {start}", "standard", np.arange(days)
        for name, values in (("lat", np.linspace(-90, 90, LAT)), ("lon", np.linspace(0, 356, LON))):
            file.createVariable(name, "f4", (name,))[:] = values
        for name in ("t2m", "pr"):
            how = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": (1, LAT, LON)}
            array = file.createVariable(name, "f4", ("time", "lat", "lon"), **how)
            array.units = "K"
            array[:] = rng.integers(0, 50, (days, LAT, LON)).astype("f4") / 4


def write_million(folder: Path) -> None:
    """Write a million chunks into one file, and references to them."""
    import numpy as np

    from hyperslab.chunks.locations import ChunkLocations
    from hyperslab.conversion.reference_files import ArrayReferences, References, write_json, write_parquet
    from hyperslab.stores.stored_file import StoredFile

    cells = np.arange(4 * MILLION, dtype="<f4")
    if not (folder / "cells.bin").exists():
        (folder / "cells.bin").write_bytes(cells.tobytes())
    file = StoredFile.of_path(str(folder / "cells.bin"), os.stat(folder / "cells.bin"))
    found = ChunkLocations.of_cells(file, (1, 4), cells.dtype, np.arange(MILLION) * 16)
    array = {"zarr_format": 2, "shape": [MILLION, 4], "chunks": [1, 4], "dtype": "<f4", "fill_value": None}
    array |= {"order": "C", "filters": None, "compressor": None}
    documents = {".zgroup": {"zarr_format": 2}, "a/.zarray": array, "a/.zattrs": {"_ARRAY_DIMENSIONS": ["t", "x"]}}
    values = {key: json.dumps(value).encode() for key, value in documents.items()}
    values[".zmetadata"] = json.dumps({"metadata": documents, "zarr_consolidated_format": 1}).encode()
    references = References(values, [ArrayReferences("a", (MILLION, 1), found)])
    for name, write in (("million.json", write_json), ("million.parquet", write_parquet)):
        if not (folder / name).exists():
            write(str(folder / name), str(folder / name), references, relative=False)


def ask(step: str, folder: Path) -> dict[str, float]:
    """Run a step in a fresh process of its environment."""
    ours = "kerchunk" not in step and "fsspec" not in step and "virtualizarr" not in step
    paths = [str(ROOT), *(os.environ.get("PYTHONPATH", "").split(os.pathsep) if ours else ())]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable if ours else str(PEERS), "-m", "benchmarks.virtual_child", step, str(folder)]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, cwd=folder, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(steps: Sequence[str], folder: Path) -> list[str]:
    """Return the cells of a row: for each step the median seconds, by the clock and of the processor, how many times as
    many as the first takes, and the memory."""
    runs: dict[str, list[dict[str, float]]] = {step: [] for step in steps}
    for _ in range(ROUNDS):
        for step in steps:
            runs[step].append(ask(step, folder))
    values = {run["value"] for each in runs.values() for run in each}
    assert len(values) == 1, f"they read other cells: {runs}"
    seconds = {step: median(run["seconds"] for run in each) for step, each in runs.items()}
    busy = {step: median(run["processor"] for run in each) for step, each in runs.items()}
    return [
        f"{step.split('_', 1)[1]} {seconds[step]:.2f} s ({seconds[step] / seconds[steps[0]]:.1f}), "
        f"processor {busy[step]:.2f} s ({busy[step] / busy[steps[0]]:.1f}), "
        f"{max(run['megabytes'] for run in runs[step]):.0f} MB"
        for step in steps
    ]


def main(folder: Path, count: int) -> None:
    """Write what is missing, measure, print the table."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    missing = count - len(list((folder / "files").glob("*.nc")))
    if missing > 0:
        with ProcessPoolExecutor() as pool:
            list(pool.map(write_month, [(str(folder / "files"), n) for n in range(count)], chunksize=16))
    write_million(folder)
    print("| work | hyperslab | peers |\n|---|---|---|")
    for title, steps in STEPS.items():
        cells = measure(steps, folder)
        chunks = 30 * count
        print(
            f"| {title.format(count=f'{count:,}', chunks=f'about {chunks:,}')} | {cells[0]} | {'; '.join(cells[1:])} |"
        )
        sys.stdout.flush()
    size = sum(path.stat().st_size for path in (folder / "parquet.parquet").rglob("*.parq"))
    print(f"\n{size / (2 * 30.44 * count):.1f} bytes a reference in Parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
