"""Progress: rate and time left of this run, not of the one that was interrupted; the bar on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.progress import Progress, bar, rate_text, reporting


def test_nothing_is_known_at_first() -> None:
    begun = Progress(0, 1000, 0, 10)
    assert (begun.rate, begun.seconds_left, rate_text(begun)) == (0.0, None, "")
    assert Progress(0, 0, 0, 0).seconds_left == 0.0


def test_rate_and_time_left() -> None:
    now = Progress(0, 10_000_000, 0, 10).advanced(2_000_000, 2, 4.0)
    assert (now.done_bytes, now.done_chunks, now.total_chunks) == (2_000_000, 2, 10)
    assert (now.rate, now.seconds_left) == (500_000.0, 16.0)
    assert rate_text(now) == "0.5 MB/s, 0:00:16 left"


def test_what_was_there_before_is_no_rate() -> None:
    resumed = Progress(6_000_000, 10_000_000, 6, 10, resumed_bytes=6_000_000)
    assert (resumed.rate, resumed.seconds_left) == (0.0, None)
    now = resumed.advanced(1_000_000, 1, 2.0)
    assert (now.rate, now.seconds_left) == (500_000.0, 6.0)


def test_the_callers_function_and_silence(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    with reporting(seen.append, "x") as report:
        report(Progress(1, 2, 3, 4))
    for progress in (True, False, None):
        with reporting(progress, "x") as report:
            report(Progress(1, 2, 3, 4))
    with bar(True, "x") as report:
        report(Progress(1, 2, 3, 4))
    assert seen == [Progress(1, 2, 3, 4)]
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_on_a_terminal(tmp_path: Path) -> None:
    with hs.create(tmp_path / "source.zarr") as root:
        root.create_array("a", data=np.zeros(200_000), dims=("x",), chunks=(1000,))
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "hyperslab", "convert", "source.zarr", "target.zarr", "--chunks", "x=500"]
    command += ["--memory", "64KiB", "--verify"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    running = subprocess.Popen(command, cwd=tmp_path, stderr=theirs, stdout=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert running.wait(60) == 0
    text = shown.decode()
    assert "converting" in text and "verifying" in text
    assert "MB/s" in text and "left" in text
