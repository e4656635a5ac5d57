"""docs/coming-from/nco-and-cdo.md, of the tasks in `old_tool_tasks.py`. ``python docs/making/old_tools.py`` writes it
anew."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from old_tool_tasks import GROUPS, TASKS, Task

PAGE = Path(__file__).parents[1] / "coming-from" / "nco-and-cdo.md"
_INTRODUCTION = """\
# Coming from nco and cdo

{count} tasks from the manuals of nco and cdo, each with the command that you know and ours. The tests run both on the
same files, real and made, and compare what comes out: cells bit for bit where none is computed, and to a millionth of
the largest where floats are summed. What stands here for netCDF holds of Zarr and of every
[format](../formats/matrix.md) that is spoken, in a bucket too.

It needs `pip install 'hyperslab[netcdf,xarray,dask]'`. Both sides of each task, and what is compared, stand in one file
(`docs/making/old_tool_tasks.py`), of which this page is made.

## What behaves otherwise

- **Whole numbers are positions, counted from 0; floats, dates and words are labels.** A range of positions excludes
  its stop, a range of labels includes it: `-s time=0..10` takes ten times, `-s lat=30.0..60.0` both ends. `@850` makes
  a label of a whole number.
- **A label that is not there is an error** that names its neighbours, where `ncks -d lat,49.` takes the nearest;
  `--nearest` asks for that.
- **What belongs to a variable comes along**, as with `ncks`: coordinates, bounds, cell measures, grid mappings, terms
  of vertical coordinates. `--alone` is `-C`.
- **A target is whole or absent.** A command that is killed leaves no half of a file, `hyperslab edit` changes a file at
  one stroke, and nothing is overwritten without `--overwrite` (`-O`).
- **Attributes stay as they are**: nothing is added to `history`.
- **Cells keep their type and packing.** Selecting and joining move stored cells; cdo unpacks and packs them again.
- **A dimension of which one position is taken is gone**, as with `ncwa`; `-s time=3..4` keeps it.
"""
_CLOSING = """\
## What it costs

Seconds of the processor, and MB at the peak, of a field of 1.08 GB (1460 times, 361 latitudes, 512 longitudes;
netCDF-4, deflated) on two cores; `python -m benchmarks.climate_tasks` measures them anew. What a command of ours
takes to begin is nearly all that an attribute costs: the file is copied for it, as `ncatted` does for a new name.

| compressed file | hyperslab | nco 5.1 | cdo 2.1 |
|---|---|---|---|
| three months of a zone | 1.18 s, 143 MB | 1.43 s, 100 MB | 1.06 s, 118 MB |
| one place over time | 0.88 s, 98 MB | 0.84 s, 51 MB | 3.67 s, 119 MB |
| every tenth time | 3.86 s, 125 MB | 5.79 s, 173 MB | 3.42 s, 130 MB |
| a copy | 14.2 s, 130 MB | 23.3 s, 1119 MB | 14.6 s, 131 MB |
| a copy in other chunks | 18.3 s, 192 MB | 24.6 s, 1132 MB | |
| an attribute | 0.28 s, 80 MB | 0.22 s, 28 MB | 13.7 s, 133 MB |
| packed into 16 bits | 20.6 s, 148 MB | 18.0 s, 1634 MB | 16.2 s, 1163 MB |
| least, mean and largest cell | 2.96 s, 140 MB | | 3.46 s, 112 MB |
| mean of each field, by area | 4.6 s, 293 MB | 21.7 s, 12702 MB | 3.6 s, 135 MB |
| mean over time | 4.8 s, 268 MB | 3.4 s, 59 MB | 3.2 s, 88 MB |
| mean of each month | 5.2 s, 290 MB | | 3.6 s, 115 MB |

To begin, a command takes this much of the processor, on a netCDF file of 50 KB, where what this page needs is
installed and no more. Python, NumPy and the libraries are the floor.

| to begin | seconds of the processor |
|---|---|
| `import numpy, h5py, netCDF4` | 0.12 |
| `info`, `get`, `dump` | 0.24 |
| `edit`, `convert` | 0.25 to 0.42 |
| `import xarray, dask.array, h5py, netCDF4` | 0.7 |
| `aggregate` | 0.9 to 1.1 |

Where nothing is compressed, little is left to do, and that counts. Of all 74 tasks on files of 1.1 GB that are not
compressed, the faster tool does 22 in less than two thirds of 0.12 s, the floor; 6 tasks take at most 1.5 times its
processor time, start and all. Without the start 55 do, among them all 27 that select variables and cells, packing,
significant digits, joining files, other chunks, and `diff`. Slower even so are, in seconds without the start (one run,
28 November 2026, on a machine that did little else):

| not compressed | hyperslab | nco or cdo | what it takes |
|---|---|---|---|
| every day of the year | 4.6 | 1.4 | a quarter is the plan of dask for its blocks, the most of the rest as below |
| deviations | 2.0 | 0.6 | xarray copies each block to leave out what is missing, and counts it: 2 to 8 ns a cell |
| mean of each field, by area | 1.6 | 0.5 | likewise, and the cells that count are counted for their areas |
| mean over time, of months, seasons, years | 0.7 to 1.2 | 0.4 to 0.5 | likewise, 0.9 ns a cell |
| names and attributes | 0.34 | 0.01 | a copy of all bytes, so that a crash leaves the old or the new |

On XFS, where the copy shares the bytes of the file, names and attributes take no more than the start of the command.
In netCDF-4, a name that a dimension has is changed by writing the file anew, cell by cell. Peak memory was at most 308
MB (nco: 6.4 GB). `python -m benchmarks.old_tools` prints the table.

## What is not here

Regridding, interpolation, arithmetic on fields, correlations, trends, spectra, months [weighted by their
days](../how-to/stats.md#in-python): `cdo remapbil`, `cdo expr`, `cdo yearmonmean`, `ncap2` and their kind have no
counterpart, for xarray has all of it, and reads and writes every format here. Of a file such as

```python
import numpy as np

import hyperslab as hs

with hs.create("air.nc") as root:
    for name, labels in (("lat", np.arange(30.0, 61.0, 10.0)), ("lon", np.arange(0.0, 41.0, 10.0))):
        root.create_array(name, data=labels, dims=[name])
    root.create_array("t", data=np.full((4, 5), 280.0), dims=["lat", "lon"], units="K")
```

two lines make another, lazily and chunk by chunk:

```python
import xarray as xr

air = xr.open_dataset("air.nc", engine="hyperslab", chunks={})
air.assign(anomaly=air.t - air.t.mean("lon")).coarsen(lat=2).mean().hyperslab.save("coarse.zarr")
```
"""


def render() -> str:
    """Return the page."""
    parts = [_INTRODUCTION.format(count=len(TASKS))]
    for title, tasks in GROUPS.items():
        parts += [f"## {title}\n", "| | nco, cdo | hyperslab |", "|---|---|---|", *map(_row, tasks), ""]
    return "\n".join([*parts, _CLOSING])


def _row(task: Task) -> str:
    old = "<br>".join(_code(command) for command in (task.nco, task.cdo) if command)
    note = f"<br>{task.note}" if task.note else ""
    return f"| {task.title} | {old} | {_code(task.ours)}{note} |"


def _code(command: str) -> str:
    """Return a command as it may stand in a table, where a bar ends a cell."""
    return f"`{command}`".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
