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

It needs `pip install 'hyperslab[netcdf,xarray]'`. Both sides of each task, and what is compared, stand in one file
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
## What is not here

Regridding, interpolation, arithmetic on fields, correlations, trends, spectra: `cdo remapbil`, `cdo expr`, `ncap2` and
their kind have no counterpart, for xarray has all of it, and reads and writes every format here. Of a file such as

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
