"""The start of a command: no threads that nothing needs, and no collecting while modules are imported."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.cli.start import importing

THREADS = Path("/proc/self/task")
PROGRAM = """
import gc, os, sys
from hyperslab.cli import main
try:
    main(["info", sys.argv[1]])
except SystemExit:
    pass
assert gc.isenabled()
print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.skipif(not THREADS.is_dir(), reason="no list of threads here")
@pytest.mark.parametrize("said", [None, "2"])
def test_numpy_starts_no_threads_that_nobody_asked_for(tmp_path: Path, said: str | None) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(3.0))
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if said is None else {"OPENBLAS_NUM_THREADS": said}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.zarr")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    threads, setting = answer.stdout.split()[-2:]
    assert (threads, setting) == ("1", "1") if said is None else setting == said


def test_what_fails_to_be_imported_leaves_the_collector_as_it_was() -> None:
    usual = gc.get_threshold()
    with pytest.raises(ImportError), importing():
        assert gc.get_threshold()[0] == 0
        raise ImportError("x")
    assert gc.get_threshold() == usual


def test_the_collector_stays_enabled_when_dask_slices() -> None:
    """What dask notes while it is imported, each slice puts back."""
    program = """
import gc
from hyperslab.cli.start import importing
with importing():
    import dask.array
dask.array.ones(10, chunks=5)[2:7].compute()
print(gc.isenabled())
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.split() == ["True"]
