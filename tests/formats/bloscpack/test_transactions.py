"""Writers that are killed, that fail, that work at the same time: the old state or the new one, and nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.errors import Conflict
from programs import Program, ran

HERE = Path(__file__).parent
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")


def run(program: str, *arguments: Any) -> Any:
    done = ran(HERE / program, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.sampled(0)
@FORKS
@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.soak)])
def test_each_call_may_be_the_last(tmp_path: Path, step: int) -> None:
    counts = run("killed.py", "calls", tmp_path, step)
    print(counts)
    assert len(counts) == 11
    assert all(count >= 5 for count in counts.values()), counts


@FORKS
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_each_call_may_fail(tmp_path: Path, step: int) -> None:
    counts = run("killed.py", "fail", tmp_path, step)
    assert len(counts) == 11
    assert all(count >= 5 for count in counts.values()), counts


@FORKS
@pytest.mark.parametrize("kills", [16, pytest.param(500, marks=pytest.mark.soak)])
def test_killed_at_any_time(tmp_path: Path, kills: int) -> None:
    report = run("killed.py", "random", tmp_path, kills)
    print(report)
    assert report["old"] + report["new"] == kills
    assert min(report["old"], report["new"]) > kills // 20, "the kills came too early, or too late"
    assert report["journals"] or kills < 100, "no kill fell between the first change and the last"


def make(path: Path, rows: int, **options: Any) -> None:
    with hs.create(path, **options) as root:
        root.create_array("x", data=np.zeros((rows, 8)), chunks=(4, 8))


@pytest.mark.parametrize("slack", [0, "full"])
def test_many_processes(tmp_path: Path, slack: Any) -> None:
    path, rows = tmp_path / "x.blp", 24
    make(path, rows, slack=slack)
    tasks = [("write", number) for number in range(2)] + [("append", 1), ("append", 2), ("note", 1), ("note", 2)]
    readers = [start("read", path, 0, rows)]
    writers = [start(task, path, number, rows) for task, number in tasks]
    for writer in writers:
        _, said = writer.communicate()
        assert writer.wait() == 0, said
    (tmp_path / "x.blp.done").touch()
    for reader in readers:
        told, said = reader.communicate()
        assert reader.wait() == 0, said
        print(told)
    array: Any = hs.open(path)
    cells = array[...]
    assert_array_equal(cells[:rows, :2], 1000.0 * np.arange(rows)[:, None] + np.arange(2))
    assert (cells[:rows, 2:] == 0).all()
    expected = [
        -(10000.0 * number + step + 1) for number in (1, 2) for step in range(rows) for _ in range(1 + step % 3)
    ]
    assert sorted(cells[rows:, 0]) == sorted(expected)
    assert sorted(array.attrs) == sorted(f"{number}-{step}" for number in (1, 2) for step in range(rows))
    assert not hs.check(path, deep=True)
    assert sorted(os.listdir(tmp_path)) == ["x.blp", "x.blp.done"]


def start(*arguments: Any) -> Program:
    return Program(HERE / "together.py", *arguments)


@pytest.mark.parametrize("handles", ["one", "each"])
def test_many_threads(tmp_path: Path, handles: str) -> None:
    path = tmp_path / "x.blp"
    make(path, 16)
    shared: Any = hs.open(path, "r+", durable=False)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        array: Any = shared if handles == "one" else hs.open(path, "r+", durable=False)
        try:
            for row in range(16):
                array[row, number] = row + 1
                array.attrs[f"{number}-{row}"] = row
            array.append(np.full((1, 8), number))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    array: Any = hs.open(path)
    assert_array_equal(array[:16, :4], np.repeat(np.arange(1.0, 17)[:, None], 4, 1))
    assert sorted(array[16:, 0]) == [0, 1, 2, 3]
    assert len(array.attrs) == 64


def test_threads_within_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    make(path, 16)
    root: Any = hs.open_group(path, "r+")
    with root.batch():
        threads = [threading.Thread(target=root["x"].__setitem__, args=((slice(None), n), n + 1)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (hs.open(path)[...] == 0).all()
    assert_array_equal(hs.open(path)[0], [1, 2, 3, 4, 0, 0, 0, 0])


def test_a_thread_waits_no_longer_than_it_shall(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    make(path, 16)
    array: Any = hs.open(path, "r+", lock_timeout=0.05)
    writer = array._session.reader
    failed: list[BaseException] = []

    def work() -> None:
        try:
            array[0, 0] = 1
        except BaseException as error:
            failed.append(error)

    with writer.transaction(None):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [type(error) for error in failed] == [Conflict]
    array[0, 0] = 2
    assert hs.open(path)[0, 0] == 2


def test_a_reader_sees_the_old_cells_of_a_writer_that_died(tmp_path: Path) -> None:
    """Though it began to read long before, and the dead one has changed the file where it lies."""
    path = tmp_path / "x.blp"
    make(path, 16, slack="full")
    reader: Any = hs.open(path, cache_bytes=0)
    assert (reader[0] == 0).all()
    program = (
        "import os, sys, hyperslab as hs\n"
        "array = hs.open(sys.argv[1], 'r+')\n"
        "os.unlink = lambda *arguments, **options: os._exit(7)\n"
        "array[:9] = 5\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == 7
    assert sorted(os.listdir(tmp_path)) == [".x.blp.journal", "x.blp"]
    assert (reader[...] == 0).all()
    assert (hs.open(path)[...] == 0).all()
    assert not hs.check(path, deep=True)
    hs.open(path, "r+")[15] = 1
    assert os.listdir(tmp_path) == ["x.blp"]
    assert_array_equal(hs.open(path)[:, 0], [0] * 15 + [1])
    assert_array_equal(reader[:, 0], [0] * 15 + [1])
