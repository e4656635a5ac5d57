"""Filters of plug-ins: those that our codecs know are read without hdf5plugin, and beside netCDF4's HDF5 library."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import golden_deker
import numpy as np
import pytest

_WITHOUT = "sys.modules['hdf5plugin'] = None"
_TOO_LATE = "import netCDF4, h5py"
_READ = """
    import numpy as np
    import hyperslab as hs
    from hyperslab.errors import Unsupported

    root = hs.open(sys.argv[1])
    for path in sys.argv[2:]:
        try:
            print(np.ascontiguousarray(root[path][...]).tobytes().hex())
        except Unsupported as error:
            print(error)
"""
_CREATE = """
    from hyperslab.database import ArraySchema, Client, DimensionSchema, HDF5CompressionOpts, HDF5Options
    from hyperslab.errors import Unsupported

    options = HDF5Options((4,), HDF5CompressionOpts(32001, (0, 0, 0, 0, 5, 1, 1)))
    schema = ArraySchema([DimensionSchema("x", 8)], float)
    with Client(sys.argv[1]) as client:
        try:
            client.create_collection("c", schema, options, layout="deker")
        except Unsupported as error:
            print(error)
        print([collection.name for collection in client])
"""


def _child(before: str, program: str, *arguments: object) -> list[str]:
    text = f"import sys\n{before}\n{textwrap.dedent(program)}"
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _path(name: str) -> str:
    return f"{name}/{golden_deker.arrays(name)[0]['id']}"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("before", [_WITHOUT, _TOO_LATE])
def test_filters_that_our_codecs_know_are_read(tmp_path: Path, before: str) -> None:
    root = golden_deker.unpack(tmp_path, relink=True)
    names = ("comp_32001", "comp_32015")
    for name, cells in zip(names, _child(before, _READ, root, *map(_path, names)), strict=True):
        truth = golden_deker.truth(golden_deker.arrays(name)[0])
        assert np.array_equal(np.frombuffer(bytes.fromhex(cells), truth.dtype).reshape(truth.shape), truth)


def test_a_filter_that_none_knows_names_the_extra(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path, relink=True)
    (said,) = _child(_WITHOUT, _READ, root, _path("comp_32004"))
    assert "pip install 'hyperslab[hdf5]'" in said


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("before", "remedy"),
    [(_WITHOUT, "pip install 'hyperslab[hdf5]'"), (_TOO_LATE, "import hdf5plugin before netCDF4")],
)
def test_what_cannot_be_made_is_refused_before_anything_is_stored(tmp_path: Path, before: str, remedy: str) -> None:
    error, names = _child(before, _CREATE, tmp_path / "db")
    assert remedy in error
    assert names == "[]"
