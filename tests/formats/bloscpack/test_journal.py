"""Changes in place: all of them or none, whatever ends the writer, and readers see the old bytes meanwhile."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hyperslab.formats.bloscpack.file import LocalFile
from hyperslab.stores import atomic_file

OLD = bytes(range(256)) * 40
CHANGES = [(10, b"ten"), (5000, b"x" * 100), (len(OLD) - 5, b"longer than what was there")]
CALLS = ("open", "pwrite", "ftruncate", "utime", "fsync", "unlink")


def changed(changes: list[tuple[int, bytes]], size: int) -> bytes:
    new = bytearray(OLD.ljust(size, b"\0"))
    for offset, data in changes:
        new[offset : offset + len(data)] = data
    return bytes(new[:size])


LONGER = CHANGES, len(OLD) + 21
SHORTER = CHANGES[:2], 6000
FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
CASES = pytest.mark.parametrize(("changes", "size"), [LONGER, SHORTER], ids=["longer", "shorter"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.blp"
    made.write_bytes(OLD)
    return made


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def seen(path: Path) -> bytes:
    """The file as a reader sees it who looks for a journal."""
    with opened(path) as descriptor:
        undo = atomic_file.read_undo(str(path), descriptor)
        found = bytearray(path.read_bytes())
        if undo is not None:
            found = found.ljust(undo.size, b"\0")[: undo.size]
            undo.restore(0, memoryview(found))
        return bytes(found)


def patch(path: Path, changes: Any, size: int) -> None:
    with opened(path) as descriptor:
        atomic_file.patch_file(str(path), descriptor, changes, size, durable=True)


def counted(monkeypatch: pytest.MonkeyPatch, act: Callable[[str, Any, Any], Any]) -> None:
    """Have ``act`` called, with the name and the arguments, before each system call that changes something."""
    for name in CALLS:
        real = getattr(os, name)

        def call(*arguments: Any, name: str = name, real: Any = real, **options: Any) -> Any:
            act(name, real, arguments)
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, call)


@CASES
def test_all_changes_are_made_and_the_journal_goes(path: Path, changes: Any, size: int) -> None:
    patch(path, changes, size)
    assert path.read_bytes() == changed(changes, size)
    assert os.listdir(path.parent) == ["a.blp"]


@CASES
def test_a_failure_at_any_call_leaves_the_old_bytes(
    path: Path, changes: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, done = 0, False
    while not done:
        failing += 1
        left = failing

        def fail(name: str, real: Any, arguments: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "pwrite":  # a disk that is full takes a part
                    real(arguments[0], arguments[1][:1], arguments[2])
                raise OSError(errno.ENOSPC if name == "pwrite" else errno.EIO, "of the test")

        with monkeypatch.context() as patched:
            counted(patched, fail)
            try:
                patch(path, changes, size)
                done = left > 0
            except OSError:
                pass
        if not done:
            assert path.read_bytes() == OLD, failing
            assert os.listdir(path.parent) == ["a.blp"], failing
    assert failing > 10


@pytest.mark.sampled(40)
@FORKS
@CASES
@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_any_call(
    path: Path, changes: Any, size: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, states = 1 - step, []
    while True:
        number += step
        path.write_bytes(OLD)
        if not killed_at(number, lambda: patch(path, changes, size), monkeypatch):
            break
        states.append(seen(path))
        with opened(path) as descriptor:
            atomic_file.roll_back(str(path), descriptor, durable=True)
        assert path.read_bytes() == states[-1], number
        assert os.listdir(path.parent) == ["a.blp"], number
    new = changed(changes, size)
    assert all(state in (OLD, new) for state in states)
    assert states == sorted(states, key=lambda state: state == new), "old again after new"
    assert number > 10


def killed_at(number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> bool:
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) or not status
        return os.WIFSIGNALED(status)
    left = number

    def kill(name: str, real: Any, arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            if name == "pwrite":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2], arguments[2])
            os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        counted(monkeypatch, kill)
        act()
        status = 0
    finally:
        os._exit(status)


@FORKS
def test_a_journal_of_another_file_is_left_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that was copied, or whose number was that of a file now gone."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", lambda *arguments: os._exit(1))
        pid = os.fork()
        if not pid:
            patch(path, *LONGER)
        os.waitpid(pid, 0)
    place = Path(atomic_file.journal_path(str(path)))
    kept, inode = place.read_bytes(), path.stat().st_ino
    assert seen(path) == OLD
    path.write_bytes(b"another file" + OLD)
    assert path.stat().st_ino == inode
    assert seen(path) == b"another file" + OLD
    with opened(path) as descriptor:
        assert not atomic_file.roll_back(str(path), descriptor, durable=False)
    assert path.read_bytes() == b"another file" + OLD
    assert not place.exists()
    path.write_bytes(OLD)
    for damaged in (kept[:-1], kept[:40], b"", kept[:100] + b"?" + kept[101:]):
        place.write_bytes(damaged)
        assert seen(path) == OLD
        with opened(path) as descriptor:
            assert atomic_file.read_undo(str(path), descriptor) is None


def test_old_and_new_bytes_are_never_of_one_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of a change removes the journal, and leaves the file itself as it is."""
    before: list[Any] = []
    remove = os.unlink

    def look(place: Any, *arguments: Any, **options: Any) -> None:
        if not before:
            file = LocalFile(str(path), "")
            before.extend([file.stamp(), file.pread(file.size, 0)])
            file.close()
        remove(place, *arguments, **options)

    monkeypatch.setattr(os, "unlink", look)
    patch(path, *LONGER)
    file = LocalFile(str(path), "")
    assert before[1] == OLD != file.pread(file.size, 0)
    assert before[0] != file.stamp()
    file.close()


def test_what_the_journal_will_hold() -> None:
    changes = [(0, b"abc"), (90, b"x" * 20)]
    assert atomic_file.journal_bytes(changes, 100, 110) == 3 + 10
    assert atomic_file.journal_bytes([], 100, 40) == 60
