"""xarray's own tests of its backends pass over hyperslab, but for those that do not apply (``xarray_suite``).

Its wheel brings them along, the same files as the source distribution of that version; the version is pinned by the
environment, the only one in which they run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop
ENVIRONMENT = "xarray-suite"
FLAT, TREES = "test_backends.py", "test_backends_datatree.py"
WRITE_EMPTY = ("test_default_zarr_fill_value", "test_write_empty", "test_avoid_excess_metadata_calls")
"""The tests of its own; those that it inherits are TestZarrDirectoryStore's once more, over the same places."""
CLASSES = {
    "zarr": {
        FLAT: (
            "TestZarrDirectoryStore",
            "TestZarrDictStore",
            *(f"TestZarrWriteEmpty::{name}" for name in WRITE_EMPTY),
            "TestZarrRegionAuto",
            "TestDataArrayToZarr",
        ),
        TREES: ("TestZarrDatatreeIO",),
    },
    "netcdf": {
        FLAT: ("TestNetCDF4Data", "TestNetCDF4ViaDaskData", "TestDask", "TestDataArrayToNetCDF"),
        TREES: ("TestNetCDF4DataTree", "TestNetCDF4DatatreeIO"),
    },
    "nczarr": {FLAT: ("TestNetCDF4Data",), TREES: ("TestNetCDF4DatatreeIO",)},
}
"""By the format that is stored the classes of tests that are run; ``zarr`` is both versions.

Not run: TestInstrumentedZarrStore (it counts calls of the peer's stores), TestZarrNoConsolidatedMetadataSupport (the
same tests again, over a wrapped store), TestNetCDF4AlreadyOpen (it opens datasets of netCDF4's own), and those of
engines and files in memory that ``save`` has no part in.
"""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: on a disk the tests take three times as long, waiting for it."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.skipif(Path(sys.prefix).name != ENVIRONMENT, reason=f"runs in the environment {ENVIRONMENT} alone")
@pytest.mark.parametrize("format", CLASSES)
def test_xarray_s_own_tests_pass(format: str, memory: Path) -> None:
    import xarray

    folder, suite = Path(xarray.__file__).parent / "tests", Path(__file__).parent / "xarray_suite"
    chosen = [f"{folder / file}::{name}" for file, names in CLASSES[format].items() for name in names]
    options = ["-p", "shim", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), "-n", "2", "-q"]
    options += ["--import-mode=importlib", "-o", "asyncio_mode=auto", "-W", "ignore", "--tb=short", "-rfE"]
    environment = os.environ | {"PYTHONPATH": str(suite), "HYPERSLAB_SUITE": format, "TMPDIR": str(memory)}
    command = [sys.executable, "-m", "pytest", *options, *chosen]
    done = subprocess.run(command, cwd=memory, env=environment, capture_output=True, text=True, timeout=1000)
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout + done.stderr
