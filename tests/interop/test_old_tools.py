"""Each task of the page "Coming from nco and cdo" by the old tools and by ours: equal cells, labels and attributes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "making"))

from old_tool_tasks import TASKS, Task

# Peers whose tests are run in environments of their own have none: these tasks are done once, beside hyperslab.
pytest.importorskip("iris_sample_data", reason="real files are missing: pip install iris-sample-data")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        shutil.which("ncks") is None or shutil.which("cdo") is None,
        reason="nco and cdo are missing: apt-get install nco cdo",
    ),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files that tasks are about."""
    from old_tool_files import make_files

    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def run(command: str, task: Task, files: Path, folder: Path) -> str:
    """Run a command as it stands on the page, in a new folder with links to the files; return what it prints."""
    folder.mkdir()
    for path in files.iterdir():
        (folder / path.name).symlink_to(path)
    if task.start:
        shutil.copyfile(files / task.start, folder / "out.nc")
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # cdo reads by several threads what HDF5 of Debian reads by one: -L of all versions, for which the page has no room
    ours = command.replace("hyperslab ", f"{sys.executable} -m hyperslab ", 1)
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", ours.replace("cdo ", "cdo -L ", 1) if command.startswith("cdo ") else ours],
        cwd=folder,
        env=os.environ | {"PATH": places, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == task.status, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def cells(path: Path, name: str) -> Any:
    """Return the decoded cells of an array, without dimensions of one cell, which some tools keep.

    Times of other arrays are left alone: of a climatology cdo writes some before Christ.
    """
    with xarray.open_dataset(path, decode_times=name == "time", decode_timedelta=False) as dataset:
        array = dataset[name].squeeze(drop=True).load()
    return array.values if array.dtype.kind not in "fiu" else array.values.astype("f8")


def largest_difference(ours: Any, theirs: Any) -> float:
    """Return how much two arrays of numbers differ, in parts of the largest one; cells must be missing in both."""
    assert np.array_equal(np.isnan(ours), np.isnan(theirs)), "other cells are missing"
    if not np.isfinite(theirs).any():
        return 0.0
    return float(np.nanmax(np.abs(ours - theirs)) / np.nanmax(np.abs(theirs)))


def compare(task: Task, ours: Path, theirs: Path, tool: str) -> None:
    """Compare what a task asks for of two files."""
    for name in (*task.cells, *task.labels):
        own, old = cells(ours, name), cells(theirs, name)
        assert own.shape == old.shape, f"{name} of {tool}"
        if old.dtype.kind not in "fiu" or (not task.rounding or name in task.labels):
            assert np.array_equal(own, old, equal_nan=old.dtype.kind in "fM"), f"{name} of {tool}"
        else:
            assert largest_difference(own, old) <= task.rounding, f"{name} of {tool}"
    with netCDF4.Dataset(ours) as own, netCDF4.Dataset(theirs) as old:
        for text in task.attributes:
            name, _, key = text.rpartition("@")
            own_value, old_value = ((file[name] if name else file).getncattr(key) for file in (own, old))
            assert own_value == old_value and type(own_value) is type(old_value), f"{text} of {tool}"
        for name in task.chunks:
            assert own[name].chunking() == old[name].chunking(), f"{name} of {tool}"


def words(task: Task, printed: str) -> list[str]:
    """Return what a task asks for of a text, each once: words without spaces, numbers to four digits."""
    found = ["".join(word.split()) for word in re.findall(task.words, printed)]
    return sorted({f"{float(word):.4g}" if re.fullmatch(r"[\d.]+", word) else word for word in found})


def assert_absent(task: Task, path: Path) -> None:
    """Assert that arrays and attributes that the task removes are not there."""
    with netCDF4.Dataset(path) as file:
        for text in task.absent:
            name, _, key = text.partition("@")
            there = key in file[name].ncattrs() if key else name in file.variables
            assert not there, f"{text} is still there"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_old_tools_and_ours_do_the_same(task: Task, files: Path, tmp_path: Path) -> None:
    tools = {"nco": task.nco, "cdo": task.cdo}
    printed = {name: run(text, task, files, tmp_path / name) for name, text in tools.items() if text}
    ours = run(task.ours, task, files, tmp_path / "ours")
    for tool, text in printed.items():
        if task.words:
            assert words(task, ours) == words(task, text) != [], tool
        elif not task.status:
            compare(task, tmp_path / "ours" / "out.nc", tmp_path / tool / "out.nc", tool)
    if task.absent:
        assert_absent(task, tmp_path / "ours" / "out.nc")
