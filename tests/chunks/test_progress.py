"""Progress: rate and time left of this run, not of the one that was interrupted; the bar on a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.chunks.progress import Progress, bar, rate_text, reporting, watching
from hyperslab.stores import counting
from programs import COMMAND, Program


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


COMMANDS = {
    "convert source.zarr target.zarr --chunks x=500 --memory 64KiB --verify": ("converting", "verifying"),
    "check source.zarr --deep": ("checking",),
    "repair source.zarr": ("repairing",),
}


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize("line", COMMANDS)
def test_on_a_terminal(tmp_path: Path, line: str) -> None:
    with hs.create(tmp_path / "source.zarr", durable=False) as root:
        root.create_array("a", data=np.zeros(200_000), dims=("x",), chunks=(1000,))
    ours, theirs = os.openpty()
    shows = "import os, sys\nos.dup2(os.open(sys.argv.pop(1), os.O_RDWR), 2)\n"
    shows += "os.environ.update(TERM='xterm', COLUMNS='120')\nprint('begun', flush=True)\n"
    running = Program(shows + COMMAND, os.ttyname(theirs), *line.split(), folder=tmp_path)
    assert running.stdout.readline() == "begun\n"
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
    running.communicate()
    assert running.wait() == 0
    text = shown.decode()
    for word in (*COMMANDS[line], "MB/s", "left"):
        assert word in text


def watched(total: tuple[int, int], *done: tuple[int, float]) -> list[tuple[int, int, int]]:
    """Bytes, chunks and all chunks that are told when so much is done."""
    seen: list[Progress] = []
    with watching(seen.append, "x", lambda: total):
        for chunks, nbytes in done:
            counting.done(chunks, nbytes)
            counting.done(chunks, nbytes, written=True)  # another's writing is none of it
    return [(now.done_bytes, now.done_chunks, now.total_chunks) for now in seen]


def test_watching_adds_up_what_is_read() -> None:
    assert watched((100, 4), (1, 30), (2, 0)) == [(0, 0, 4), (30, 1, 4), (80, 3, 4), (100, 4, 4)]
    assert watched((100, 2), (3, 900)) == [(0, 0, 2), (100, 2, 2), (100, 2, 2)]
    assert watched((100, 0), (3, 40)) == [(0, 0, 0), (40, 3, 3), (100, 3, 3)]
    assert watched((0, 0)) == [(0, 0, 0), (0, 0, 0)]
    assert counting.watchers == []


def test_what_fails_is_not_all_done() -> None:
    seen: list[Progress] = []
    with pytest.raises(KeyError), watching(seen.append, "x", lambda: (100, 4)):
        raise KeyError
    assert [now.done_bytes for now in seen] == [0]
    assert counting.watchers == []
