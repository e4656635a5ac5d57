"""Python that the tour shows and runs: the very text of these functions. The present folder is the tour's."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable


def write_nwb() -> None:
    """The temperature as the one recording of an NWB file."""
    from datetime import UTC, datetime

    from pynwb import NWBFile, TimeSeries

    import hyperslab as hs
    from hyperslab.hdmf import HyperslabIO

    air = hs.open_array("america.nc", path="air_temperature")
    time = hs.open_array("america.nc", path="time").decoded()
    series = TimeSeries(
        name="air_temperature",
        data=air[:],
        unit="K",
        timestamps=[float(when.year) for when in time[:]],
    )
    recording = NWBFile(
        session_description="air over North America",
        identifier="america",
        session_start_time=datetime(1860, 6, 1, tzinfo=UTC),
    )
    recording.add_acquisition(series)
    with HyperslabIO("america.nwb.zarr", "w") as io:
        io.write(recording)


def fill_a_collection() -> None:
    """A collection of decades, declared and filled."""
    from datetime import UTC, datetime

    import numpy as np

    import hyperslab as hs
    from hyperslab import database as db

    decade = db.ArraySchema(
        dimensions=[
            db.DimensionSchema("year", 10),
            db.DimensionSchema("latitude", 37, scale=db.Scale(15.0, 1.25)),
            db.DimensionSchema("longitude", 49, scale=db.Scale(225.0, 1.875)),
        ],
        dtype=np.float32,
        attributes=[db.AttributeSchema("dt", datetime, primary=True)],
    )
    air = hs.open_array("america.nc", path="air_temperature")
    time = hs.open_array("america.nc", path="time").decoded()
    with db.Client("weather.db") as client:
        decades = client.create_collection("temperature", decade)
        for start in range(0, len(time), 10):
            dt = datetime(time[start].year, 1, 1, tzinfo=UTC)
            decades.create({"dt": dt})[:].update(air[start : start + 10])


def damage_a_chunk() -> None:
    """A copy of the Zarr with one bit of one chunk flipped."""
    import shutil
    from pathlib import Path

    shutil.copytree("america.zarr", "damaged.zarr")
    chunk = Path("damaged.zarr/air_temperature/c/0/0/0")
    cells = bytearray(chunk.read_bytes())
    cells[1000] ^= 1
    chunk.write_bytes(cells)


def text_of(program: Callable[[], None]) -> str:
    """What stands in the function, without its head and docstring."""
    body = inspect.getsource(program).partition('"""\n')[2]
    return textwrap.dedent(body).strip("\n")
