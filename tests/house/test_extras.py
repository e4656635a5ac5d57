"""Without any extra everything of the core works; what needs one says which, in Python and on the command line.

The children play such an installation by a finder that finds none of the extras' packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tree import ROOT

import hyperslab as hs

CHILD = Path(__file__).with_name("bare_install.py")
PACKAGES = {
    "netcdf": {"netCDF4", "h5py", "cftime"},
    "hdf5": {"h5py", "hdf5plugin"},
    "xarray": {"xarray", "pandas"},
    "dask": {"dask", "distributed"},
    "mongo": {"pymongo", "bson", "gridfs"},
    "sparse": {"sparse", "numba"},
    "pint": {"pint"},
    "hdmf": {"hdmf", "pynwb"},
    "cloud": {"obstore"},
    "icechunk": {"icechunk"},
    "plot": {"matplotlib"},
    "dtypes": {"ml_dtypes"},
    "b2nd": {"blosc2"},
    "codecs": {"pcodec", "zfpy"},
    "web": {"starlette", "uvicorn"},
    "tour": {"iris_sample_data"},
}
FASTER = {"fast"}
"""Nothing needs it: without it the same is done by numcodecs."""
FOR_WORK = {"all", "bench", "check", "docs", "interop", "peers", "test"}
UNSUPPORTED = 8


def tried(folder: Path, blocked: set[str], table: str) -> dict[str, Any]:
    """What a child without these packages made of a table of calls."""
    arguments = [str(folder), ",".join(sorted(blocked)), table]
    done = subprocess.run([sys.executable, str(CHILD), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert blocked.isdisjoint(told["loaded"])
    return dict(told["results"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with files that only an extra can read."""
    (tmp_path / "there.nc").write_bytes(b"CDF\x01" + bytes(64))
    (tmp_path / "there.b2nd").write_bytes(b"\x9e\xa8b2frame\x00" + bytes(64))
    with hs.create(tmp_path / "small.zarr") as root:
        root.create_array("a", data=np.zeros(2), dtype="bfloat16")
    return tmp_path


def test_the_core_needs_none(place: Path) -> None:
    results = tried(place, set().union(*PACKAGES.values()), "core")
    row = [4.0, 5.0, 6.0, 7.0]
    wanted = {"open": row, "write": 99.0, "diff": False, "list_formats": True, "html": True}
    wanted |= {name: row for name in results if name.startswith("convert ")}
    assert results == {name: wanted.get(name, 0) for name in results}


def test_what_is_missing_is_named(place: Path) -> None:
    results = tried(place, set().union(*PACKAGES.values()), "missing")
    assert_named(results)
    assert {name.partition(":")[0] for name in results} == PACKAGES.keys()


def test_dask_and_sparse_beside_xarray(place: Path) -> None:
    assert_named(tried(place, PACKAGES["dask"] | PACKAGES["sparse"], "beside"))


def assert_named(results: dict[str, Any]) -> None:
    wrong = {name: found for name, found in results.items() if not is_named(name, *found)}
    assert wrong == {}


def is_named(name: str, kind: Any, said: str) -> bool:
    """Whether the error tells of the extra before the colon: Unsupported in Python, a line and a code elsewhere."""
    extra, _, done = name.partition(": ")
    as_it_should = kind == UNSUPPORTED if done.startswith("hyperslab ") else "Unsupported" in kind
    return as_it_should and f"pip install 'hyperslab[{extra}]'" in said


def test_every_extra_is_known_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert PACKAGES.keys() | FASTER | FOR_WORK == set(project["optional-dependencies"])
