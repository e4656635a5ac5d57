"""docs/coming-from/nco-and-cdo.md, of the tasks in `old_tool_tasks.py`. ``python docs/making/old_tools.py`` writes it
anew."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from old_tool_tasks import GROUPS, TASKS, Task

PAGE = Path(__file__).parents[1] / "coming-from" / "nco-and-cdo.md"
_INTRODUCTION = """\
# Migrate from nco and cdo

{count} tasks from the manuals of nco and cdo, each with the command that you know and ours. They work on Zarr and every
other [format](../formats/matrix.md) too, also in buckets. The tests run both on the same files and compare the results:
bit for bit, or to a millionth of the largest value where floats are summed. It needs `pip install
'hyperslab[netcdf,xarray,dask]'`.

## Differences

- **Whole numbers are positions, counted from 0; floats, dates and words are labels.** A range of positions excludes its
  stop, a range of labels includes it: `-s time=0..10` takes ten times, `-s lat=30.0..60.0` both ends. `@850` makes a
  label of a whole number.
- **An unknown label is an error** that names its neighbours, where `ncks -d lat,49.` takes the nearest; `--nearest`
  does that.
- **[Related variables](../how-to/cf.md#related-variables) come along**, as with `ncks`: coordinates, bounds, cell
  measures, grid mappings. `--alone` is `-C`.
- **A killed command leaves no partial file**, and nothing is overwritten without `--overwrite` (`-O`).
- **Nothing is added to `history`.**
- **Cells keep their type and packing** when selected and joined; cdo unpacks and packs them again.
- **Selecting one position drops the dimension**, as with `ncwa`; `-s time=3..4` keeps it.
"""
_CLOSING = """\
## Speed and memory

Processor seconds and peak memory for a field of 1.08 GB (1460 times, 361 latitudes, 512 longitudes; compressed
netCDF-4) on two cores (`python -m benchmarks.climate_tasks`). Changing an attribute copies the file, as `ncatted` does
for a new name.

| compressed file | hyperslab | nco 5.1 | cdo 2.1 |
|---|---|---|---|
| three months of a zone | 1.18 s, 143 MB | 1.43 s, 100 MB | 1.06 s, 118 MB |
| one place over time | 0.88 s, 98 MB | 0.84 s, 51 MB | 3.67 s, 119 MB |
| every tenth time | 3.86 s, 125 MB | 5.79 s, 173 MB | 3.42 s, 130 MB |
| a copy | 14.2 s, 130 MB | 23.3 s, 1119 MB | 14.6 s, 131 MB |
| a copy in other chunks | 18.3 s, 192 MB | 24.6 s, 1132 MB | |
| an attribute | 0.28 s, 80 MB | 0.22 s, 28 MB | 13.7 s, 133 MB |
| packed into 16 bits | 20.6 s, 148 MB | 18.0 s, 1634 MB | 16.2 s, 1163 MB |
| minimum, mean and maximum | 2.96 s, 140 MB | | 3.46 s, 112 MB |
| mean of each field, by area | 4.6 s, 293 MB | 21.7 s, 12702 MB | 3.6 s, 135 MB |
| mean over time | 4.8 s, 268 MB | 3.4 s, 59 MB | 3.2 s, 88 MB |
| mean of each month | 5.2 s, 290 MB | | 3.6 s, 115 MB |

Most of a short command is its start, on a netCDF file of 50 KB 0.24 s (`info`, `get`, `dump`), 0.25 to 0.42 s (`edit`,
`convert`) or 0.9 to 1.1 s (`aggregate`). Of these `import numpy, h5py, netCDF4` takes 0.12 s, with `xarray` and
`dask.array` 0.7 s.

On uncompressed files of 1.1 GB the start counts most: 22 of the 74 tasks take the faster tool less than 0.08 s. With
the start, hyperslab takes at most 1.5 times the processor time of the faster tool in 6 tasks; without it in 55, among
them all 27 that select variables and cells, packing, rounding, joining files, rechunking, and `diff`. Slower are, in
seconds without the start (one run, 28 November 2026; `python -m benchmarks.old_tools`):

| not compressed | hyperslab | nco or cdo |
|---|---|---|
| every day of the year | 4.6 | 1.4 |
| deviations | 2.0 | 0.6 |
| mean of each field, by area | 1.6 | 0.5 |
| mean over time, of months, seasons, years | 0.7 to 1.2 | 0.4 to 0.5 |
| names and attributes | 0.34 | 0.01 |

Means take longer because xarray copies each block to skip missing cells, and counts them; names and attributes because
all bytes are copied, so that a crash leaves the old or the new file (on XFS the copy shares the bytes, and costs
nothing). Renaming a dimension of a netCDF-4 file rewrites it cell by cell. Peak memory was at most 308 MB (nco: 6.4
GB).

## What nco and cdo do better

Regridding, interpolation, arithmetic on fields, correlations, trends, spectra, and months [weighted by their
days](../how-to/stats.md#in-python) (`cdo remapbil`, `cdo expr`, `cdo yearmonmean`, `ncap2`) have no counterpart: use
xarray, which reads and writes every format here. For a file such as

```python
import numpy as np

import hyperslab as hs

with hs.create("air.nc") as root:
    for name, labels in (("lat", np.arange(30.0, 61.0, 10.0)), ("lon", np.arange(0.0, 41.0, 10.0))):
        root.create_array(name, data=labels, dims=[name])
    root.create_array("t", data=np.full((4, 5), 280.0), dims=["lat", "lon"], units="K")
```

two lines write another, lazily and chunk by chunk:

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
