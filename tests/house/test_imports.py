"""What ``import hyperslab`` loads: NumPy and our own rooms; everything heavy is imported on use."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tree import modules

import hyperslab
from format_variants import VARIANTS, Places
from hyperslab.formats import FORMATS
from servers.mongo import Mongo

ON_USE = {
    "blosc2",
    "bson",
    "cftime",
    "click",
    "dask",
    "distributed",
    "gridfs",
    "h5py",
    "hdf5plugin",
    "hdmf",
    "icechunk",
    "iris_sample_data",
    "matplotlib",
    "ml_dtypes",
    "motor",
    "netCDF4",
    "numba",
    "obstore",
    "pandas",
    "pcodec",
    "pint",
    "pymongo",
    "pynwb",
    "rich",
    "sparse",
    "starlette",
    "uvicorn",
    "xarray",
    "zarr",
    "zfpy",
}
MOST_MODULES = 120
NEEDED = {
    "b2nd": {"blosc2", "click", "numba", "rich"},
    "deker": {"h5py", "hdf5plugin"},
    "mongo": {"bson", "gridfs", "pymongo"},
    "netcdf": {"cftime", "h5py", "hdf5plugin", "netCDF4"},
}
"""What formats load of libraries when they are read, with what those import themselves; the others load none."""


def loaded_by(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter holds after the statement."""
    program = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(answer.stdout))


def test_import_is_light() -> None:
    assert len(loaded_by("import hyperslab")) <= MOST_MODULES


def test_the_whole_face_is_light() -> None:
    loaded = loaded_by("import hyperslab\nfor name in hyperslab.__all__:\n    getattr(hyperslab, name)")
    assert {name.split(".")[0] for name in loaded} & ON_USE == set()


def test_making_a_dataset_is_light() -> None:
    statement = (
        "import hyperslab\nhyperslab.create('memory://light', 'zarr3').create_array('a', shape=(2,), dtype='i4')"
    )
    assert {name.split(".")[0] for name in loaded_by(statement)} & ON_USE == set()


def test_reading_a_format_loads_what_it_needs(mongo: Mongo, tmp_path: Path) -> None:
    places = Places(tmp_path, f"{mongo.url}/{mongo.database()}")
    urls = {name: places.new(name) for name in VARIANTS}
    for name, url in urls.items():
        with hyperslab.create(url, durable=False, **VARIANTS[name].options) as root:
            root.create_array("a", data=np.arange(3), dims=("x",))
    core = [url for name, url in urls.items() if name not in NEEDED]
    assert read_by(core) == set()
    for name, libraries in NEEDED.items():
        assert read_by([urls[name]]) <= libraries


def read_by(urls: list[str]) -> set[str]:
    """The libraries of extras that a fresh interpreter holds after it has read these datasets."""
    reading = f"import hyperslab\nfor url in {urls!r}:\n    hyperslab.open_group(url)['a'][...]"
    return {name.split(".")[0] for name in loaded_by(reading)} & ON_USE


def test_version_on_the_command_line_is_light() -> None:
    statement = "from hyperslab.cli import main\ntry:\n    main(['--version'])\nexcept SystemExit:\n    pass"
    program = f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n{_indented(statement)}"
    assert {name.split(".")[0] for name in loaded_by(program)} & (ON_USE - {"click"}) == set()


def loaded_by_command(*arguments: str) -> set[str]:
    """Names of all modules that a fresh interpreter holds after a command."""
    statement = f"from hyperslab.cli import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass"
    return loaded_by(f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n{_indented(statement)}")


def test_help_on_the_command_line_loads_nothing_of_ours_but_the_command_line() -> None:
    loaded = loaded_by_command("--help")
    ours = {name for name in loaded if name.partition(".")[0] == "hyperslab"}
    assert ours == {
        "hyperslab",
        "hyperslab.cli",
        "hyperslab.cli.exit_codes",
        "hyperslab.cli.start",
        "hyperslab.errors",
    }
    assert loaded & {"numpy", "msgspec", "numcodecs", "asyncio", "importlib.metadata"} == set()


def test_info_loads_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    hyperslab.create(tmp_path / "a.zarr", "zarr3").create_array("a", data=np.arange(3), dims=("x",))
    loaded = loaded_by_command("info", str(tmp_path / "a.zarr"))
    assert {name.partition(".")[0] for name in loaded} & (ON_USE - {"click"}) == set()
    assert loaded & {"asyncio", "http.client", "hyperslab.conversion", "hyperslab.database", "hyperslab.web"} == set()


NETCDF = {"click", *NEEDED["netcdf"]}
WITH_DASK = {"numba", "pint", "sparse"}
"""What dask and xarray import by themselves where it is installed."""
COMPUTES = WITH_DASK | {"asyncio", "dask", "pandas", "xarray"}
HEAVY = ON_USE | {"asyncio", "flox", "hyperslab.database", "hyperslab.web"}
COPIES = {"hyperslab.conversion.copy", "hyperslab.formats.netcdf.writer"}
"""Modules that commands need which write cells."""
COMMANDS = {
    "info {file}": NETCDF,
    "dump {file}": NETCDF,
    "get {file} t -s lat=0": NETCDF,
    "stats {file} t": NETCDF,
    "diff {file} {file}": NETCDF,
    "edit {file} --set t:units=K": NETCDF | {"hyperslab.formats.netcdf.writer"},
    "convert {file} {new} -v t": NETCDF | COPIES,
    "repack {file} {new}": NETCDF | COPIES,
    "aggregate {file} {new} --how mean --over lat": NETCDF
    | WITH_DASK
    | {"asyncio", "dask", "hyperslab.formats.netcdf.writer", "pandas", "xarray"},
}
"""What a command on a netCDF file loads of what takes long: libraries, rooms and files of ours."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_netcdf_loads_what_it_needs(tmp_path: Path, command: str) -> None:
    file, new = tmp_path / "a.nc", tmp_path / "b.nc"
    with hyperslab.create(file) as root:
        root.create_array("lat", data=np.arange(3.0), dims=("lat",), units="degrees_north")
        root.create_array("t", data=np.arange(3.0), dims=("lat",))
    loaded = loaded_by_command(*(word.format(file=file, new=new) for word in command.split()))
    assert new.exists() == ("{new}" in command)
    found = {name.partition(".")[0] for name in loaded} & HEAVY | loaded & (HEAVY | COPIES)
    assert found - WITH_DASK == COMMANDS[command] - WITH_DASK
    assert found & WITH_DASK <= COMMANDS[command]
    formats = {name.split(".")[2] for name in loaded if name.startswith("hyperslab.formats.")}
    assert formats & FORMATS.keys() == {"netcdf"}
    assert not loaded & {"hyperslab.integrity.mender", "hyperslab.integrity.survey", "hyperslab.formats.zarr.opening"}


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_a_completion_of_the_module_shows_public_names_alone() -> None:
    importlib.import_module("hyperslab.web")
    assert {name for name in dir(hyperslab) if not name.startswith("__")} == set(hyperslab.__all__)


def test_no_room_bears_the_name_of_a_public_function() -> None:
    face = {name: getattr(hyperslab, name) for name in hyperslab.__all__}
    public = {name: value for name, value in face.items() if not isinstance(value, ModuleType)}
    assert {name for name in public if f"hyperslab.{name}" in {module.name for module in modules()}} == set()
    for module in modules():
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert {name for name, value in public.items() if getattr(hyperslab, name) is not value} == set()
