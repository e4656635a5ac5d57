"""Writes, opens and reads NWB files by one backend, told by lines of JSON what to do: ``[name, arguments...]``.

Runs in the Python of the backend, which need not have hyperslab. Each answer is a line of JSON.
"""

from __future__ import annotations

import gc
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from benchmarks.answering import answer

SERIES, SAMPLES, TRIALS, CHANNELS = 200, 50, 20, 64


def opened(backend: str, path: str, mode: str) -> Any:
    """The file by that backend."""
    if backend == "HDF5IO":
        return NWBHDF5IO(path, mode)
    if backend == "hdmf-zarr":
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(path, mode)
    from hyperslab.hdmf import HyperslabIO

    return HyperslabIO(path, mode, durable=False)


def empty() -> NWBFile:
    """A file of nothing yet."""
    return NWBFile("benchmark", "benchmark", datetime(2020, 1, 1, tzinfo=UTC))


def many() -> NWBFile:
    """A file of many small datasets, and trials that refer to one."""
    nwb = empty()
    times = np.arange(SAMPLES) / 10
    for number in range(SERIES):
        data = np.arange(float(SAMPLES)) + number
        nwb.add_acquisition(TimeSeries(name=f"ts{number:03d}", data=data, timestamps=times.copy(), unit="V"))
    for number in range(TRIALS):
        series = [nwb.acquisition["ts000"]]
        nwb.add_trial(start_time=float(number), stop_time=number + 1.0, timeseries=series)
    return nwb


def recording(rows: int) -> np.ndarray[Any, Any]:
    """What electrodes give: waves plus noise."""
    found = np.random.default_rng(7).integers(-40, 40, (rows, CHANNELS), dtype="i2")
    found += (np.sin(np.arange(rows) / 300) * 2000).astype("i2")[:, None]
    return found


class Child:
    """What is asked for, by name; the file that is open stays open until it is closed."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._nwb: Any = None
        self._io: Any = None
        self._file: Any = None
        self._cells: Any = None

    def make_many(self) -> None:
        """Have a file of small datasets to write."""
        self._nwb = many()

    def make_one(self, rows: int) -> None:
        """Have a file of one large dataset to write."""
        self._nwb = empty()
        self._cells = recording(rows) if self._cells is None else self._cells
        self._nwb.add_acquisition(TimeSeries(name="one", data=self._cells, rate=30000.0, unit="V"))

    def write(self, path: str) -> None:
        """Write it."""
        with opened(self._backend, path, "w") as io:
            io.write(self._nwb)

    def open(self, path: str) -> int:
        """Open a file; how many series it has."""
        self._io = opened(self._backend, path, "r")
        self._file = self._io.read()
        return len(self._file.acquisition)

    def read_many(self) -> float:
        """The data of each series, one after the other; the sum of their last cells."""
        return float(sum(self._file.acquisition[f"ts{number:03d}"].data[:][-1] for number in range(SERIES)))

    def read_one(self) -> list[int]:
        """All of the large dataset; its shape and last row."""
        cells = self._file.acquisition["one"].data[:]
        return [*cells.shape, *map(int, cells[-1])]

    def read_channel(self, rows: int) -> list[int]:
        """So many rows of one channel; the last cells."""
        return [int(cell) for cell in self._file.acquisition["one"].data[:rows, 5][-10:]]

    def expected(self, rows: int) -> list[list[int]]:
        """What the two give."""
        cells = self._cells
        return [[*cells.shape, *map(int, cells[-1])], [int(cell) for cell in cells[:rows, 5][-10:]]]

    def collect(self) -> None:
        """Collect garbage, outside of what is timed."""
        gc.collect()

    def close(self) -> None:
        """Close what is open, and forget what there is to write."""
        if self._io is not None:
            self._io.close()
        self._io = self._file = self._nwb = None
        self.collect()


if __name__ == "__main__":
    answer(Child(sys.argv[1]))
