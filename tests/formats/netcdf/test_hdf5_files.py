"""Files that h5py made, of types, filters and links that the netCDF library misreads, or opens no file with.

Reading them by that library ends the process, so what they hold is read in another one, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import MissingLibrary, Unsupported
from old_peers import needs
from programs import COMMAND, ran

ROWS = np.array([(b"CA1", 1), (b"abcde", 2)], dtype=[("region", "S5"), ("n", "i4")])
READ = """
import sys
import hyperslab as hs
with hs.open(sys.argv[1]) as root:
    print(root["x"].dtype, root["x"][...].tolist())
"""


def made(path: Path, fill: Callable[[h5py.File], object]) -> Path:
    """An HDF5 file that ``fill`` gives its contents."""
    with h5py.File(path, "w", track_order=True) as file:
        fill(file)
    return path


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (np.array([0.5, 1.5, -2.0], "f2"), {}),
        (np.array([0.5, 1.5, -2.0], ">f2"), {}),
        (np.arange(100, dtype="f2"), {"chunks": (30,), "compression": "gzip", "shuffle": True}),
        (ROWS, {}),
        (np.arange(1000.0), {"compression": "lzf"}),
    ],
    ids=["float16", "big-endian", "deflated", "rows with text", "lzf"],
)
def test_cells_that_the_netcdf_library_misreads_are_read(tmp_path: Path, cells: Any, options: dict[str, Any]) -> None:
    path = made(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=cells, **options))
    done = ran(READ, path)
    assert done.returncode == 0
    assert done.stdout.strip() == f"{cells.dtype} {cells.tolist()}"
    hs.convert(path, tmp_path / "a.zarr", verify=True)
    assert np.array_equal(hs.open(tmp_path / "a.zarr")["x"][...], cells)
    assert not hs.check(path, deep=True)


def test_cells_that_the_netcdf_library_misreads_are_not_written(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file.create_dataset("half", data=np.zeros(3, "f2"))
        file.create_dataset("single", data=np.zeros(3, "f4"))

    path = made(tmp_path / "a.h5", fill)
    with hs.open_group(path, "r+") as root:
        root["single"][...] = [1, 2, 3]
        with pytest.raises(Unsupported, match="takes its cells for those of another type"):
            root["half"][...] = [1, 2, 3]
    with hs.open_group(path) as root:
        assert root["single"][...].tolist() == [1, 2, 3]
        assert root["half"][...].tolist() == [0, 0, 0]


def test_long_doubles_are_left_out(tmp_path: Path) -> None:
    path = made(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.arange(3, dtype="g")))
    with hs.open_group(path) as root:
        assert list(root) == []
    assert ["float128" in note.message for note in hs.check(path).notes] == [True]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (lambda file: file.__setitem__("odd", h5py.SoftLink("/nowhere")), "leads nowhere"),
        pytest.param(
            lambda file: file.create_dataset("odd", data=h5py.Empty("f4")),
            "null dataspace",
            marks=needs("netCDF4", (1, 7, 5), "opens them, and fails at the cells"),
        ),
    ],
    ids=["a link to nowhere", "no cells"],
)
def test_files_that_the_netcdf_library_does_not_open_are_read(
    tmp_path: Path, odd: Callable[[h5py.File], object], words: str
) -> None:
    def fill(file: h5py.File) -> None:
        odd(file)
        file.create_dataset("below/x", data=[1.5, 2.5])
        file.create_dataset("below/truth", data=[True, False])
        file.create_dataset("below/complex", data=[1 + 2j])

    path = made(tmp_path / "a.h5", fill)
    with hs.open_group(path) as root:
        assert root["below/x"][...].tolist() == [1.5, 2.5]
        assert root["below/truth"][...].tolist() == [1, 0]
        assert root["below/complex"][...].tolist() == [(1.0, 2.0)]
    assert words in ran(COMMAND, "info", path).stdout
    with pytest.raises(Unsupported, match=words):
        hs.open_group(path, "r+")


def test_a_filter_that_is_not_here_is_no_damage(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((3,))
        plist.set_filter(32765, h5py.h5z.FLAG_OPTIONAL)  # a number that nobody has registered
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, plist).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(3, "f4")
        )

    path = made(tmp_path / "a.h5", fill)
    with hs.open_group(path) as root, pytest.raises(Unsupported, match="filter 32765") as caught:
        root["x"][...]
    assert "repair" not in str(caught.value)
    assert isinstance(caught.value, MissingLibrary) or "beside h5py" in str(caught.value)
