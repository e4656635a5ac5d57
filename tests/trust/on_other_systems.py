"""A program that tries hyperslab as another system shows it (``other_system``), with NumPy as oracle, and prints what
each try came to as JSON: true, or what went wrong.

Usage: python on_other_systems.py SYSTEM FOLDER
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parents[1]))
import other_system

other_system.install(sys.argv[1])

import numpy as np  # noqa: E402

import hyperslab as hs  # noqa: E402
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema  # noqa: E402
from hyperslab.errors import AlreadyExists, Invalid, Unsupported  # noqa: E402

CELLS = np.arange(60.0).reshape(6, 10)
NAMES = {
    "zarr2": "a.zarr2",
    "zarr3": "a.zarr3",
    "sharded": "a.zarr",
    "nczarr": "a.nczarr",
    "hdmf": "a.hdmf",
    "netcdf": "a.nc",
    "collections": "a.db",
    "b2nd": "a.b2nd",
    "bloscpack": "a.blp",
    "blaze": "a.blaze",
    "zip": "a.zip",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "sharded": {"format": "zarr3"},
    "zip": {"format": "zarr3"},
    **{name: {"format": name} for name in ("zarr2", "zarr3", "nczarr", "hdmf", "collections", "bloscpack", "blaze")},
}


def made(name: str, place: str) -> None:
    """Make a dataset of one array with labels, chunks and what the format has of shards."""
    shards = {"shards": (4, 10)} if name == "sharded" else {}
    with hs.create(place, **OPTIONS.get(name, {})) as root:
        root.create_array("t", data=CELLS, dims=("x", "y"), chunks=(2, 5), **shards)
        root.create_array("y", data=np.arange(10.0) * 2, dims=("y",))


def wrote_and_read(name: str) -> Callable[[], Any]:
    """Make, read by labels, change some cells of two chunks, replace all, read what another opening sees."""

    def run() -> Any:
        place, want = NAMES[name], CELLS.copy()
        made(name, place)
        assert np.array_equal(hs.open_group(place)["t"].sel(y=slice(4.0, 8.0)), CELLS[:, 2:5])
        with hs.open_group(place, "r+") as root:
            root["t"][1:3, 4:7] = want[1:3, 4:7] = -1
        assert np.array_equal(hs.open_group(place)["t"][...], want)
        with hs.open_group(place, "r+") as root:
            root["t"][...] = want = want * 2
        assert np.array_equal(hs.open_group(place)["t"][::-1, 1::3], want[::-1, 1::3])
        assert not hs.check(place, deep=True), list(hs.check(place, deep=True))

    return run


def converted(name: str) -> Callable[[], Any]:
    """Convert from and to the format, over a target that is there."""

    def run() -> Any:
        target = f"to-{NAMES[name]}"
        options = OPTIONS.get(name, {})
        for overwrite in (False, True):
            hs.convert("source.zarr", target, verify=True, overwrite=overwrite, **options)
        assert np.array_equal(hs.open_group(target)["t"][...], CELLS)
        try:
            hs.convert("source.zarr", target, **options)
        except AlreadyExists:
            return
        raise AssertionError("the target was replaced")

    return run


def appended(name: str) -> Callable[[], Any]:
    """Append rows, twice."""

    def run() -> Any:
        place = f"longer-{NAMES[name]}"
        made(name, place)
        with hs.open_group(place, "r+") as root:
            root["t"].append(CELLS[:3])
            root["t"].append(CELLS[3:])
        assert np.array_equal(hs.open_group(place)["t"][...], np.concatenate([CELLS, CELLS]))

    return run


def repaired() -> None:
    """Damage a chunk, find it, and mend the dataset."""
    made("zarr3", "damaged.zarr")
    chunk = Path("damaged.zarr/t/c/1/0")
    chunk.write_bytes(b"\0" + chunk.read_bytes()[1:])
    assert [finding.kind for finding in hs.check("damaged.zarr", deep=True)] == ["corrupt-chunk"]
    hs.repair("damaged.zarr", deep=True, dry_run=False)
    assert not hs.check("damaged.zarr", deep=True)
    assert np.array_equal(hs.open("damaged.zarr")["t"][:2], CELLS[:2])


def removed() -> None:
    """Remove an array and a group."""
    made("zarr3", "less.zarr")
    with hs.open_group("less.zarr", "r+") as root:
        root.create_group("g").create_array("a", data=CELLS)
        del root["g"]
        del root["t"]
    assert list(hs.open_group("less.zarr")) == ["y"]


def collected() -> None:
    """Make, change, find, remove arrays of a collection."""
    schema = ArraySchema([DimensionSchema("x", 6), DimensionSchema("y", 10)], float, [AttributeSchema("k", int, True)])
    with Client("weather") as client:
        days = client.create_collection("temperature", schema)
        for k in range(3):
            days.create({"k": k})[:].update(CELLS + k)
        assert [float(day[1, 1].read()) for day in days.query(k=(1, None))] == [12.0, 13.0]
        next(iter(days.query(k=1))).delete()
    assert len(list(Client("weather").get_collection("temperature"))) == 2
    assert not hs.check("weather")


def in_deker() -> None:
    """A collection in DEKER's layout needs links: it is made, or refused by what says so."""
    schema = ArraySchema([DimensionSchema("x", 3)], float, [AttributeSchema("k", int, True)])
    try:
        with Client("dk") as client:
            client.create_collection("c", schema, layout="deker").create({"k": 1})[:].update(np.arange(3.0))
    except Unsupported as error:
        assert "symbolic links" in str(error) and sys.argv[1] == "windows", error
    else:
        assert sys.argv[1] != "windows"


def served() -> None:
    """Serve over HTTP, read it."""
    with hs.serve("source.zarr", token="") as server:
        (url,) = server.zarr_urls.values()
        with urlopen(f"{url}/t/zarr.json") as answer:
            assert json.load(answer)["shape"] == [6, 10]


def copied() -> None:
    """Copy a dataset byte by byte, and send what changed."""
    made("zarr3", "from.zarr")
    hs.copy("from.zarr", "copy.zarr")
    with hs.open_group("from.zarr", "r+") as root:
        root["t"][0, 0] = 99.0
    hs.sync("from.zarr", "copy.zarr")
    assert hs.open("copy.zarr")["t"][0, 0] == 99.0


def nested_locks() -> None:
    """Hold chunks of a folder, then others, then the folder itself and a file in it, in one thread."""
    from hyperslab.stores import locks

    os.mkdir("locks")
    folder = os.path.join(os.path.abspath("locks"), "")
    Path("locks/file").write_bytes(b"1")
    with (
        locks.hold_ranges(lambda: folder, [1, 7, 1 << 40], 1),
        locks.hold_ranges(lambda: folder, [3], 1),
        locks.hold_folder(lambda: folder, 1),
        locks.hold_file(lambda: f"{folder}file", 1),
    ):
        pass


def named() -> None:
    """Names that Windows gives no file are refused in a folder, and kept in an archive."""
    for name in ("aux", "NUL.txt", "ab:c", "ends.", "blank ", "what?"):
        with hs.create(f"names-{len(os.listdir())}.zarr", "zarr3") as root:
            try:
                root.create_array(name, data=CELLS)
            except Invalid as error:
                assert sys.argv[1] == "windows" and "Windows" in str(error), error
                assert list(root) == []
            else:
                assert sys.argv[1] != "windows", name
    with hs.create("names.zarr.zip", "zarr3") as root:
        root.create_array("aux", data=CELLS)
    assert np.array_equal(hs.open("names.zarr.zip")["aux"][...], CELLS)


def named_alike() -> None:
    """Two folders that the file system takes for one are not mixed: here a link plays such a file system."""
    from hyperslab.stores import DirectoryStore

    os.makedirs("case/t")
    os.symlink("t", "case/T")
    store = DirectoryStore("case")
    store.put("t/a", b"1")
    try:
        store.put("T/a", b"2")
    except Invalid as error:
        assert "differ in case only" in str(error)
    assert store.get("t/a") == b"1"


def placed() -> None:
    """Texts that name places."""
    from hyperslab.stores.location import Location

    for text in (r"C:\data\x.zarr", "C:/data/x.zarr", "c:x.zarr", r"\\server\share\x.zarr"):
        place = Location.of(text)
        assert (place.scheme, place.name) == ("file", "c:x.zarr" if text == "c:x.zarr" else "x.zarr"), place
    place = Location.of("file:///C:/data/x.zarr")
    assert place.path.endswith("C:/data/x.zarr") and (place.path == "/C:/data/x.zarr") == (sys.argv[1] != "windows")


def command(line: str) -> Callable[[], Any]:
    """Run ``hyperslab LINE``; true where it ends well."""

    def run() -> Any:
        from hyperslab.cli import main

        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main(line.split())
            except SystemExit as end:
                assert not end.code, said.getvalue()

    return run


LINES = (
    "--help",
    "info source.zarr",
    "tree source.zarr",
    "dump source.zarr",
    "get source.zarr t -s y=4.0",
    "get source.zarr t -o t.npy",
    "plan source.zarr t",
    "check source.zarr --deep",
    "repair source.zarr",
    "convert source.zarr by-command.nc",
    "append by-append.zarr source.zarr --dim x --repeated allow",
    "copy source.zarr by-copy.zarr",
    "sync source.zarr by-copy.zarr",
    "diff source.zarr by-copy.zarr",
    "virtual source.zarr by-virtual.json",
    "db list weather",
    "formats",
    "doctor",
    "doctor --json",
)
WAYS: dict[str, Callable[[], Any]] = {
    **{f"write and read {name}": wrote_and_read(name) for name in NAMES},
    **{f"convert {name}": converted(name) for name in NAMES},
    **{
        f"append {name}": appended(name)
        for name in ("zarr2", "zarr3", "sharded", "nczarr", "b2nd", "blaze", "bloscpack")
    },
    "repair": repaired,
    "remove": removed,
    "collections": collected,
    "deker": in_deker,
    "serve": served,
    "copy": copied,
    "locks": nested_locks,
    "names": named,
    "names in other case": named_alike,
    "places": placed,
    **{line: command(line) for line in LINES},
}


def main() -> None:
    """Try all, and print what each came to."""
    os.chdir(sys.argv[2])
    made("zarr3", "source.zarr")
    made("zarr3", "by-append.zarr")
    results: dict[str, Any] = {}
    for name, way in WAYS.items():
        try:
            way()
            results[name] = True
        except BaseException:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
