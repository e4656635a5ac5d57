"""Random damage of small datasets of every family, and the process that opens what it made of them.

``python mutations.py FAMILY FOLDER FIRST LAST`` damages the sound dataset of a family anew for each number, does with
it what users do, and prints a line of JSON before and after each mutant: what ended in an error that is none of ours.
A process that takes too much time or memory dies of it; whoever started it goes on with the next number.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.cli import main
from hyperslab.errors import HyperslabError

MEMORY = 1 << 30
"""Bytes of address space on top of what the process has after its imports."""
HANG = 10
"""Seconds of the processor after which a mutant is said to hang."""
WAIT = 45
"""Seconds of the clock after which a step is said to wait for what never comes; locks are waited for a minute."""
MAX_CELLS = 1_000_000
"""Of an array whose cells are all read; of larger ones only the first and the last."""
GOLDEN = Path(__file__).parents[1] / "golden"

AIR = np.arange(60, dtype="<f4").reshape(5, 4, 3)
ROWS = np.array([(1, 2.5, b"ab"), (2, -1.0, b"c")], dtype=[("n", "<i4"), ("x", "<f8"), ("s", "S2")])

WEIRD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "a",
    "\x00",
    "../x",
    "a/b",
    "é" * 300,
    [],
    {},
    [[]],
    [0],
    [-1, -1],
    [1, 2, 3, 4, 5],
    [None],
    ["a", 1],
    {"": ""},
    {"a": {"b": [1]}},
    {"name": "x"},
    {"name": 5, "configuration": []},
    "<i4",
    "|O",
    "<M8[25s]",
    "base64:AAAA",
)


# -- the sound datasets -----------------------------------------------------------------------------------------------


def write_tree(place: Path | str, format: str, **options: Any) -> None:
    """Write a tree with dimensions, text, rows, a scalar and a group, as far as the format holds them."""
    has_text, has_rows = options.pop("has_text", True), options.pop("has_rows", True)
    shards: Any = {"shards": (4, 4, 3)} if options.pop("sharded", False) else {}
    with hs.create(str(place), format, durable=False, **options) as root:
        root.attrs["title"] = "sound"
        root.create_array("time", data=np.arange(5.0), dims=("time",), attrs={"units": "days since 2000-01-01"})
        root.create_array("lat", data=np.linspace(50.0, 20.0, 4), dims=("lat",))
        names = ("time", "lat", "lon")
        root.create_array(
            "air", data=AIR, dims=names, chunks=(2, 2, 3), attrs={"units": "K", "f": [1.5, 2.5]}, **shards
        )
        root.create_array("g/n", data=np.arange(6, dtype="<i2"), chunks=(4,))
        root.create_array("scalar", data=np.array(7, dtype="<i8"))
        if has_text:
            root.create_array("text", data=np.array(["a", "", "ü☃"], dtype=np.dtypes.StringDType()), chunks=(2,))
        if has_rows:
            root.create_array("rows", data=ROWS)


def write_one(place: Path, format: str, **options: Any) -> None:
    """Write one array with coordinates."""
    with hs.create(str(place), format, durable=False, **options) as root:
        root.create_array("air", data=AIR, dims=("time", "lat", "lon"), chunks=(2, 4, 3), attrs={"units": "K"})


def write_collections(place: Path, format: str) -> None:
    """Write a collection of arrays and one of tiled arrays, with attributes of every type."""
    from datetime import UTC, datetime, timedelta

    from hyperslab.database import (
        ArraySchema,
        AttributeSchema,
        Client,
        DimensionSchema,
        Scale,
        TimeDimensionSchema,
        VArraySchema,
    )

    start = datetime(2023, 1, 1, tzinfo=UTC)
    attributes = [
        AttributeSchema("dt", datetime, True),
        AttributeSchema("name", str, False),
        AttributeSchema("x", float, False),
    ]
    lat = DimensionSchema("lat", 4, scale=Scale(60.0, -2.5))
    letters = DimensionSchema("letter", 3, labels=["a", "b", "c"])
    time = TimeDimensionSchema("t", 4, start_value=start, step=timedelta(hours=1))
    layout: Any = "deker" if format == "deker" else "hyperslab"
    with Client(str(place)) as client:
        plain = client.create_collection("plain", ArraySchema([lat, letters], float, attributes), layout=layout)
        for day in range(3):
            made = plain.create({"dt": start.replace(day=1 + day)}, {"name": "é", "x": 1.5})
            made[:].update(np.arange(12.0).reshape(4, 3) + day)
        schema = VArraySchema([time, lat], int, attributes, vgrid=[2, 2])
        tiled = client.create_collection("tiled", schema, layout=layout)
        tiled.create({"dt": start})[:].update(np.arange(16).reshape(4, 4))


def write_references(place: Path) -> None:
    """Copy references that kerchunk wrote, beside the file that they lead into."""
    import iris_sample_data

    place.mkdir()
    shutil.copy(GOLDEN / "kerchunk" / "hybrid_height.nc.json", place / "refs.json")
    shutil.copy(Path(iris_sample_data.path) / "hybrid_height.nc", place)


def write_classic(place: Path) -> None:
    """Write a file of netCDF-3 with a record dimension."""
    import netCDF4

    with netCDF4.Dataset(place, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.title = "sound"
        file.createDimension("time", None)
        file.createDimension("x", 3)
        air = file.createVariable("air", "f4", ("time", "x"))
        air.units = "K"
        air[:] = np.arange(12.0).reshape(4, 3)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(4.0)


def write_old(place: Path) -> None:
    """Write a file in the oldest form of HDF5, which has no checksums over its structures, as h5py does by default."""
    import h5py

    text = h5py.string_dtype()
    with h5py.File(place, "w", libver="earliest", track_order=True) as file:
        file.attrs.update(title="sound", list=["a", "bc"])
        time = file.create_dataset("time", data=np.arange(5.0), maxshape=(None,), chunks=(2,))
        lat = file.create_dataset("lat", data=np.arange(4.0))
        more: Any = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        air = file.create_dataset("air", data=AIR[:, :, 0], maxshape=(None, 4), chunks=(2, 2), **more)
        air.attrs.update(units="K", f=[1.5, 2.5])
        words = file.create_dataset(
            "text", data=["a", "", "b" * 40, "c", "d"], dtype=text, maxshape=(None,), chunks=(2,)
        )
        rows = file.create_group("g", track_order=True).create_dataset("rows", data=ROWS[[0, 1, 0, 1]])
        for name, scale in (("time", time), ("lat", lat)):
            scale.make_scale(name)
        for dataset, scale in ((air, time), (words, time), (rows, lat)):
            dataset.dims[0].attach_scale(scale)
        air.dims[1].attach_scale(lat)


def write_types(place: Path) -> None:
    """Write a netCDF-4 file with variables and attributes of types of its own, and many of either."""
    import netCDF4

    with netCDF4.Dataset(place, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 40)
        for number in range(30):
            file.setncattr(f"a{number}", "v" * number)
        enum = file.createEnumType("u1", "e", {"a": 0, "b": 1})
        row = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f8", (2,)), ("s", "S1", (4,))]), "c")
        vlen = file.createVLType("i4", "v")
        file.createVariable("enum", enum, ("x",))[:] = np.arange(40) % 2
        file.createVariable("rows", row, ("t",))[:] = np.zeros(5, row.dtype)
        cells = np.empty(40, object)
        cells[:] = [np.arange(length % 5, dtype="i4") for length in range(40)]
        file.createVariable("vlen", vlen, ("x",))[:] = cells
        many = file.createVariable("many", "f4", ("t", "x"), chunksizes=(1, 4), zlib=True)
        many[:] = np.arange(200).reshape(5, 40)
        many.setncattr_string("list", ["a", "b"])
        file.createVariable("text", str, ("t",))[:] = np.array(list("abcde"), object)


class Files:
    """A family whose dataset is a file or a folder called ``name``; ``opened`` is what of it is opened."""

    def __init__(self, name: str, write: Callable[[Path], None], opened: str = "") -> None:
        self._name, self._write, self._opened = name, write, opened

    def make(self, folder: Path) -> str:
        """Write the sound dataset, unless it is there; return its URL."""
        if not (folder / "sound").exists():
            (folder / "sound").mkdir(parents=True)
            self._write(folder / "sound" / self._name)
        return str(folder / "sound" / self._name / self._opened)

    def mutate(self, folder: Path, dice: random.Random) -> tuple[str, str]:
        """Damage a copy; return its URL and what was done."""
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "sound", work)
        what = damage(work / self._name, dice)
        return str(work / self._name / self._opened), what


class Documents:
    """The family of MongoDB: an object in a database of the server that the environment names."""

    def make(self, folder: Path) -> str:
        """Write the sound object, unless it is there; return its URL."""
        from pymongo import MongoClient

        self._client = MongoClient[Any](os.environ["MUTATED_SERVER"])
        self._sound, self._work = f"sound-{folder.name}"[:60], f"work-{folder.name}"[:60]
        url = f"{os.environ['MUTATED_SERVER']}/{self._sound}#x"
        if self._sound not in self._client.list_database_names():
            write_tree(url, "mongo", has_rows=False, has_text=False)
        return url

    def mutate(self, folder: Path, dice: random.Random) -> tuple[str, str]:
        """Damage a copy of all documents; return its URL and what was done."""
        from pymongo.errors import WriteError

        self._client.drop_database(self._work)
        sound, work = self._client[self._sound], self._client[self._work]
        documents = [
            (name, document) for name in sorted(sound.list_collection_names()) for document in sound[name].find()
        ]
        name, document = dice.choice(documents)
        if dice.random() < 0.1:
            documents = [each for each in documents if each[1] is not document]
            what = f"a document of {name} is missing"
        else:
            what = (
                f"{name}: {_edit_document(document, dice, (*WEIRD[:5], *(each for each in WEIRD if _fits_bson(each))))}"
            )
        for collection, each in documents:
            with suppress(WriteError):  # such as of an _id that is a list: the server has no such documents
                work[collection].insert_one(each)
        return f"{os.environ['MUTATED_SERVER']}/{self._work}#x", what


def _fits_bson(value: Any) -> bool:
    return not isinstance(value, int) or abs(value) < 2**63


FAMILIES: dict[str, Files | Documents] = {
    "zarr2": Files("x.zarr", lambda place: write_tree(place, "zarr2")),
    "zarr3": Files("x.zarr", lambda place: write_tree(place, "zarr3")),
    "shards": Files("x.zarr", lambda place: write_tree(place, "zarr3", sharded=True)),
    "nczarr": Files("x.nczarr", lambda place: write_tree(place, "nczarr", has_rows=False)),
    "draft": Files("x.nczarr", lambda place: write_tree(place, "nczarr", dialect="draft", has_text=False)),
    "hdmf2": Files("x.hdmf.zarr", lambda place: write_tree(place, "hdmf", profile="v2")),
    "hdmf3": Files("x.hdmf.zarr", lambda place: write_tree(place, "hdmf", profile="v3")),
    "netcdf": Files("x.nc", lambda place: write_tree(place, "netcdf")),
    "netcdf3": Files("x.nc", write_classic),
    "hdf5": Files("x.nc", write_old),
    "types": Files("x.nc", write_types),
    "zip": Files("x.zarr.zip", lambda place: write_tree(place, "zarr3")),
    "bloscpack": Files("x.blp", lambda place: write_one(place, "bloscpack")),
    "blaze": Files("x.blaze", lambda place: write_one(place, "blaze")),
    "bcolz": Files("x.blaze", lambda place: write_one(place, "blaze", layout="bcolz")),
    "b2nd": Files("x.b2nd", lambda place: write_one(place, "b2nd")),
    "collections": Files("x.db", lambda place: write_collections(place, "collections")),
    "deker": Files("x.db", lambda place: write_collections(place, "deker")),
    "references": Files("x", write_references, "refs.json"),
    "mongo": Documents(),
}


# -- damage -----------------------------------------------------------------------------------------------------------


def damage(place: Path, dice: random.Random) -> str:
    """Damage one or two files of the dataset; return in words what was done."""
    return ", ".join(_damage_one(place, dice) for _ in range(dice.choice((1, 1, 2))))


def _damage_one(place: Path, dice: random.Random) -> str:
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    if not files:
        return "nothing is left"
    documents = [path for path in files if _parse(path) is not None]
    path = dice.choice(documents if documents and dice.random() < 0.6 else files)
    name = path.name if path == place else str(path.relative_to(place))
    if path in documents and dice.random() < 0.85:
        return f"{name}: {_edit_file(path, dice)}"
    if len(files) > 1 and dice.random() < 0.15:
        return f"{name}: {_move_file(path, files, dice)}"
    data = bytearray(path.read_bytes())
    how = dice.choice((_flip, _flip, _set_number, _set_number, _cut, _insert, _blank, _extend))
    path.write_bytes(how(data, dice))
    return f"{name}: {how.__name__}"


def _parse(path: Path) -> Any:
    if path.stat().st_size > 1 << 20:
        return None
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def _edit_file(path: Path, dice: random.Random) -> str:
    document = [_parse(path)]
    said = _edit_document(document, dice, WEIRD)
    path.write_text(json.dumps(document[0]))
    return said


def _edit_document(document: Any, dice: random.Random, values: tuple[Any, ...]) -> str:
    """Change, remove or swap one member anywhere in a document; return what was done."""
    holder = dice.choice(list(_containers(document)))
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if not keys:
        (holder.update(x=dice.choice(values)) if isinstance(holder, dict) else holder.append(dice.choice(values)))
        return "one more member"
    key, other, what = dice.choice(keys), dice.choice(keys), dice.random()
    if what < 0.7 or len(keys) == 1:
        holder[key] = dice.choice(values)
        return f"{key} = {holder[key]!r:.60}"
    if what < 0.85:
        del holder[key]
        return f"{key} is missing"
    holder[key], holder[other] = holder[other], holder[key]
    return f"{key} and {other} change places"


def _containers(value: Any) -> Iterator[Any]:
    """Yield every dict and list of a document, the outermost first."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def _move_file(path: Path, files: list[Path], dice: random.Random) -> str:
    other = dice.choice(files)
    what = dice.choice(("removed", "a folder", "the bytes of another"))
    if what == "the bytes of another":
        path.write_bytes(other.read_bytes())
        return f"the bytes of {other.name}"
    path.unlink()
    if what == "a folder":
        path.mkdir()
    return what


def _flip(data: bytearray, dice: random.Random) -> bytes:
    for _ in range(dice.choice((1, 1, 2, 8)) if data else 0):
        data[_place(data, dice)] ^= 1 << dice.randrange(8)
    return bytes(data)


def _place(data: bytearray, dice: random.Random) -> int:
    """Return a position, of the first bytes as often as of all others: headers are there."""
    return dice.randrange(min(len(data), 128) if dice.random() < 0.5 else len(data))


def _set_number(data: bytearray, dice: random.Random) -> bytes:
    width = dice.choice((1, 2, 4, 8))
    value = dice.choice((0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1)))
    at = _place(data, dice) if data else 0
    data[at : at + width] = value.to_bytes(width, "little")
    return bytes(data)


def _cut(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[: dice.randrange(len(data) + 1)])


def _insert(data: bytearray, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return bytes(data[:at]) + dice.randbytes(dice.choice((1, 4, 64))) + bytes(data[at:])


def _blank(data: bytearray, dice: random.Random) -> bytes:
    at, length = dice.randrange(len(data) + 1), dice.choice((8, 64, 512))
    data[at : at + length] = bytes(len(data[at : at + length]))
    return bytes(data)


def _extend(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data) + dice.randbytes(dice.choice((1, 16, 4096)))


# -- what users do ----------------------------------------------------------------------------------------------------


def read_all(url: str) -> None:
    """Open the dataset, and read what there is of every node, each whatever became of the others."""
    node = hs.open(url)
    for each in _nodes(node, 0):
        attempt(lambda each=each: dict(each.attrs))
        if isinstance(each, hs.Array):
            _read_array(each)


def _nodes(group: Any, depth: int) -> Iterator[Any]:
    yield group
    if isinstance(group, hs.Array):
        return
    for name in (attempt(lambda: list(group)) or [])[:50]:
        if isinstance(node := attempt(lambda name=name: group[name]), hs.Group) and depth < 5:
            yield from _nodes(node, depth + 1)
        elif node is not None:
            yield node


def _read_array(array: Any) -> None:
    attempt(lambda: (array.shape, array.dtype, array.chunks, array.codec, array.fill_value, array.dims, repr(array)))
    attempt(lambda: array.plan(...))
    attempt(lambda: array[...] if array.size <= MAX_CELLS else (array[(0,) * array.ndim], array[(-1,) * array.ndim]))
    attempt(lambda: array.oindex[tuple([0] if size else [] for size in array.shape)])
    attempt(lambda: array.decoded())


def write_some(url: str) -> None:
    """Change an attribute, a cell and the length of each array, and remove one."""
    with hs.open_group(url, mode="r+") as root:
        attempt(lambda: root.attrs.update(x=1))
        names = attempt(lambda: list(root)) or []
        for name in names[:6]:
            attempt(lambda name=name: _change(root[name]))
        if names:
            attempt(lambda: root.__delitem__(names[-1]))


def _change(node: Any) -> None:
    if isinstance(node, hs.Array) and node.ndim and node.size:
        row = node[:1]
        attempt(lambda: node.__setitem__(slice(0, 1), row))
        attempt(lambda: node.append(row))


def convert(url: str) -> None:
    """Copy what can be copied into Zarr; of many cells that are declared, a copy takes the time that they need."""
    node = hs.open(url)
    if sum(each.size for each in _nodes(node, 0) if isinstance(each, hs.Array)) > MAX_CELLS:
        return
    target = f"{sys.argv[2]}/copy.zarr" if "://" in url else f"{url}.copy.zarr"
    hs.convert(url, target, format="zarr3", allow_loss=True, skip_damaged=True, durable=False, overwrite=True)


def command(*words: str) -> Callable[[str], None]:
    """Return what runs one command of the command line."""

    def run(url: str) -> None:
        main.main([words[0], url, *words[1:]], standalone_mode=False)

    return run


STEPS: dict[str, Callable[[str], None]] = {
    "read": read_all,
    "info": command("info", "--json"),
    "tree": command("tree"),
    "dump": command("dump"),
    "check": lambda url: [str(problem) for problem in hs.check(url, deep=True)] and None,
    "convert": convert,
    "rehearse": lambda url: hs.repair(url, dry_run=True) and None,
    "write": write_some,
    "repair": lambda url: hs.repair(url, dry_run=False) and None,
}

_defects: list[str] = []


def attempt(step: Callable[[], object]) -> Any:
    """Do one thing and return what it gives; an error that is none of ours is a defect."""
    try:
        return step()
    except (HyperslabError, SystemExit):
        pass
    except BaseException as error:
        if type(error).__module__.startswith("click."):
            return None
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "hyperslab" in frame.filename]
        path = " < ".join(f"{Path(frame.filename).name}:{frame.name}:{frame.lineno}" for frame in reversed(frames[-4:]))
        _defects.append(f"{type(error).__name__}: {error!s:.120} at {path}")
    return None


def say(**line: Any) -> None:
    """Print a line for the process that waits."""
    os.write(_OUT, json.dumps(line).encode() + b"\n")


def try_mutant(family: str, folder: Path, number: int) -> None:
    """Damage a copy of the sound dataset, and do every step with it."""
    url, what = FAMILIES[family].mutate(folder, random.Random(f"{family} {number}"))
    say(number=number, what=what)
    for step, run in STEPS.items():
        _defects.clear()
        before = sum(os.times()[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(before) + HANG + 1, resource.RLIM_INFINITY))
        say(step=step)
        signal.alarm(WAIT)
        attempt(lambda run=run: run(url))
        for defect in dict.fromkeys(_defects):
            say(defect=f"{step}: {defect}")
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    family, folder, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    _OUT = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    read_all(FAMILIES[family].make(folder))
    if _defects:
        say(number=-1, what="the sound dataset", defect=_defects[0])
    _limit_memory()
    for number in range(first, last):
        try_mutant(family, folder, number)
    say(done=True)
