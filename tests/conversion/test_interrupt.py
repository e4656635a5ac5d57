"""Ctrl-C during a conversion: the target's name holds what it held before, and nothing else is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs

_CHUNKS = 30_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """So many chunks to be written that the signal comes in time."""
    path = tmp_path / "source.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(_CHUNKS, dtype="f8"), dims=("x",), chunks=(_CHUNKS,))
    return path


def _interrupted(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hyperslab", "convert", "source.zarr", "target.zarr", "--chunks", "x=1", *more]
    running = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(folder.glob(".partial-*/a/c/*")) and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    return subprocess.CompletedProcess(command, running.returncode, out, err)


@pytest.mark.sampled(0)
def test_a_new_target_is_not_there(tmp_path: Path, source: Path) -> None:
    done = _interrupted(tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "error: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


@pytest.mark.sampled(0)
def test_an_old_target_is_as_it_was(tmp_path: Path, source: Path) -> None:
    with hs.create(tmp_path / "target.zarr") as root:
        root.create_array("b", data=np.arange(3))
    done = _interrupted(tmp_path, "--overwrite")
    assert done.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.zarr", "target.zarr"]
    with hs.open(tmp_path / "target.zarr") as root:
        assert root["b"][...].tolist() == [0, 1, 2]
